"""Which hooks start at the same time: those that an agent's own settings contain, if that agent would start them so.

Such hooks were written for an agent without an order. Hooks with an order of their own (`priority`, `after`), hooks
that read the results of others, and hooks that rewrite run alone, at their place.
"""

import os
from collections.abc import Iterator, Sequence

from billhook.agents import AGENTS
from billhook.config import sources
from billhook.config.config import Entry
from billhook.config.declaration import Declared, Exec, RunAction
from billhook.core import client_env
from billhook.core.lazy import pattern

_DEPENDS = pattern(r"\bupdated(?:Input|(?:MCP)?ToolOutput)\b|\bBILLHOOK_RESULTS\b|\$\{results\.")
_MOST_FILES = 20  # files of one command that are searched
_LARGEST = 256 << 10  # bytes of each


def with_waves(entries: Sequence[Entry]) -> list[Entry]:
    """The entries; hooks that start together with their neighbours name the agent that would do so."""
    found = [entry.declared for entry in entries if entry.hook is not None and entry.declared.agent in AGENTS]
    in_order = {(one.agent, event) for one in found if one.sequential for event in one.events}
    seen: set[object] = set()
    marked = list(entries)
    for place, entry in enumerate(entries) if len(found) > 1 else ():
        one = entry.declared
        command = (one.agent, one.action, one.events)
        alone = any((one.agent, event) in in_order for event in one.events) or not _starts_with_others(one)
        if command not in seen and not alone:  # equal commands at the same time may disturb each other
            marked[place] = entry.with_hook(together=one.agent)
        seen.add(command)
    return marked


def _starts_with_others(one: Declared) -> bool:
    ordered = one.after or one.conditions.when or "priority" in one.places
    return one.agent in AGENTS and AGENTS[one.agent].parallel and not ordered and not _depends_on_order(one)


def _depends_on_order(one: Declared) -> bool:
    """Whether the hook's command, or a file that it names, shows that it rewrites or reads results."""
    return any(map(_DEPENDS.search, _texts(one)))


def _texts(one: Declared) -> Iterator[str]:
    words: Sequence[str] = ()
    if isinstance(one.action, RunAction):
        yield one.action.text
        words = one.action.text.replace('"', "").replace("'", "").split()
    elif isinstance(one.action, Exec):
        words = one.action.argv
    paths = (_path(word, one.folder) for word in words if "/" in word or "." in word)
    for path in [path for path in paths if os.path.isfile(path)][:_MOST_FILES]:
        try:
            yield sources.read_bytes(path, _LARGEST).decode("utf-8", "replace")
        except OSError:  # it can't run either
            pass


def _path(word: str, folder: str) -> str:
    for spelt in ("${CLAUDE_PROJECT_DIR}", "$CLAUDE_PROJECT_DIR"):
        word = word.replace(spelt, folder)
    for spelt in ("${HOME}", "$HOME"):
        word = word.replace(spelt, "~")
    return os.path.join(folder, client_env.expanduser(word))

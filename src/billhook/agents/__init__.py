"""One module per coding agent, with everything that is known about it, and the protocol dialects beside them.

Imports: core.
"""

import functools
from collections.abc import Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Final, NamedTuple

from billhook.core.errors import UsageError
from billhook.core.lazy import LazyTable

if TYPE_CHECKING:
    from billhook.agents.base import Agent
    from billhook.agents.child import ChildCall, Dialect, Written
    from billhook.agents.inbound import canonical_event
    from billhook.agents.reference import CLAUDE, SPEC


class AgentRow(NamedTuple):
    """The fields of an agent that start-up needs without importing its record. A test compares the two."""

    files: tuple[str, ...] = ()  # settings with its hooks, in a project and below the home folder alike
    beside: tuple[str, ...] = ()  # further files that decide whether those hooks run
    folders: tuple[str, ...] = ()  # in a project, and below the home folder: it reads every JSON file there
    speaks: str = ""  # the agent whose settings and dialect it uses, if it has none of its own
    module: str = ""  # the module with its record, if its name is not the agent's


TABLE: Final = {
    "claude": AgentRow((".claude/settings.json", ".claude/settings.local.json", ".claude/remote-settings.json")),
    "codex": AgentRow((".codex/hooks.json",), (".codex/config.toml",)),
    "gemini": AgentRow((".gemini/settings.json",)),
    "qwen": AgentRow((".qwen/settings.json",)),
    "copilot": AgentRow(folders=(".github/hooks", ".copilot/hooks")),
    "cursor": AgentRow((".cursor/hooks.json",)),
    "opencode": AgentRow((".opencode/plugins/billhook.js", ".config/opencode/plugins/billhook.js")),
    "hermes": AgentRow((".hermes/config.yaml",)),
    "vscode": AgentRow(speaks="claude", module="copilot"),
}

_CODECS: Final = {
    "claude": "reference",
    "spec": "reference",
    "claw": "seeds",
    "claw-text": "seeds",
    "lesson": "seeds",
    **{name: name for name, row in TABLE.items() if name != "claude" and not row.speaks},
    "universal": "universal",
}
"""By dialect: the module with its codec, in `DIALECTS`."""


def _agent(name: str) -> "Agent":
    records: Mapping[str, Agent] = import_module(f"{__name__}.{TABLE[name].module or name}").AGENTS
    return records[name]


def _codec(name: str) -> "Dialect":
    codecs: Mapping[str, Dialect] = import_module(f"{__name__}.{_CODECS[name.partition(':')[0]]}").DIALECTS
    return codecs[name]


EVERY_AGENT: Final = LazyTable(TABLE, _agent)  # also those that only use another agent's settings
AGENTS: Final = LazyTable((name for name, row in TABLE.items() if not row.speaks), EVERY_AGENT.__getitem__)
DIALECTS: Final = LazyTable(_CODECS, _codec)


def agent(name: str) -> "Agent":
    """The record of an agent. Raises KeyError."""
    return EVERY_AGENT[name]


@functools.lru_cache(maxsize=64)
def dialect(name: str) -> "Dialect":
    """A dialect by name. Raises UsageError, which lists the dialects."""
    try:
        return DIALECTS[name]
    except KeyError:
        raise UsageError(f"no dialect `{name}`", hint=f"one of {', '.join(DIALECTS)}") from None


@functools.lru_cache(maxsize=64)
def dialect_of(host: str) -> str:
    """The name of an agent's dialect; any other name is returned unchanged."""
    return TABLE[host].speaks or host if host in TABLE else host


def reader_of(folder: str, name: str) -> str:
    """The agent that reads a file, by its folder and name; empty for any other file."""
    above, _, inner = folder.rpartition("/")
    for agent_name, row in TABLE.items():
        in_folder = f"{above.rpartition('/')[2]}/{inner}" in row.folders
        if name.endswith(".json") and (in_folder or f"{inner}/{name}" in row.files):
            return agent_name
    return ""


_LATER: Final = {
    "canonical_event": "inbound",
    **dict.fromkeys(("CLAUDE", "SPEC"), "reference"),
    **dict.fromkeys(("ChildCall", "Dialect", "Written"), "child"),
}
"""Names that are imported on first use: the module of each."""


def __getattr__(name: str) -> object:
    if name in _LATER:
        return getattr(import_module(f"{__name__}.{_LATER[name]}"), name)
    raise AttributeError(f"module `{__name__}` has no `{name}`")


__all__ = [
    "AGENTS", "CLAUDE", "DIALECTS", "SPEC", "ChildCall", "Dialect", "Written", "agent", "canonical_event", "dialect",
    "dialect_of",
]  # fmt: skip

"""What an adopted hook says about where it came from, in the hooks.yaml itself.

Whoever has only the repository, and not the state of the person who installed, can put it back all the same.
"""

import json
from typing import Any

from billhook.agents.base import Agent
from billhook.hosts.adopting import MARK, Adoption
from billhook.hosts.agentfile import Handler
from billhook.hosts.keeping import Adopted, Moved
from billhook.hosts.yamltext import hooks_in, pieces_of


def moved_into(file: str, data: bytes, host: Agent) -> Moved | None:
    """What a hooks.yaml says was moved there from an agent's file; None when nothing was. Raises FaultyFileError."""
    hooks = hooks_in(data, file)
    found = [one for name, fields in hooks.items() if (one := _adopted(name, fields.get(MARK), host)) is not None]
    if not found:
        return None
    # a hook that was rewritten since is not taken out: its text is another than the one that came
    pieces = pieces_of(data, {one.name: _as_it_came(one, host) for one in found})
    return Moved(file=file, existed=True, after="", pieces=pieces, handlers=tuple(found))


def _adopted(name: str, said: object, host: Agent) -> Adopted | None:
    words = said.split(" ", 2) if isinstance(said, str) else []
    if len(words) < 3 or words[0] != host.name or words[1] not in host.spellings.values():
        return None
    try:
        entry = json.loads(words[2])
    except ValueError:
        return None
    return Adopted(words[1], entry, name) if _is_entry(entry, host) else None


def _as_it_came(one: Adopted, host: Agent) -> dict[str, Any]:
    """The hook that was made of it."""
    nested = host.shape == "nested"
    data = one.entry["hooks"][0] if nested else one.entry
    group = {key: value for key, value in one.entry.items() if key != "hooks"} if nested else {}
    made = Adoption(host, [Handler(one.event, 0, 0 if nested else -1, data, group, 0)], set()).hooks
    return next(iter(made.values()), {})


def _is_entry(entry: object, host: Agent) -> bool:
    """Whether it is what `Adopted` holds: a group with one handler, or the handler itself."""
    if not isinstance(entry, dict) or host.shape == "flat":
        return isinstance(entry, dict)
    inner = entry.get("hooks")
    return isinstance(inner, list) and len(inner) == 1 and isinstance(inner[0], dict)

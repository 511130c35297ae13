"""`install --adopt`: turns an agent's handlers into hooks of a hooks.yaml, so that they are logged and explained."""

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

from billhook.agents import own_events
from billhook.agents.base import Agent
from billhook.cli.install.entries import Handler, is_written
from billhook.cli.install.files import Adopted, Moved
from billhook.config.declaration import (
    ADOPTED,
    RESERVED,
    Action,
    Exec,
    RunAction,
    Url,
    checked_name,
    free_name,
    made_name,
)
from billhook.config.edit_yaml import hooks_in, pieces_of
from billhook.config.installation import is_billhook
from billhook.core.dialect_traits import meanings
from billhook.core.tools import NAMINGS

_HANDLED: Final = frozenset({"asyncRewake", "type", "matcher", "name", "description", "once"})
_SAME: Final = {
    **{key: key for key in ("if", "shell", "headers", "allowedEnvVars")},
    "async": "background",
    "statusMessage": "title",
}
"""Keys of handlers that also exist in a hooks.yaml, with their names there."""
_OF_GROUPS: Final = frozenset({"matcher", "sequential", "description"})
_EVERYTHING: Final = ("", "*", ".*")
_TOOL_EVENTS: Final = frozenset({"PreToolUse", "PostToolUse", "PostToolUseFailure", "PermissionRequest"})


class Adoption:
    """The handlers that can be moved, and those that can't, with the reason."""

    def __init__(self, host: Agent, found: Iterable[Handler], taken: set[str]) -> None:
        """`taken`: names of existing hooks."""
        self._host, self._taken = host, set(taken)
        self._events = {own: own_events(host.name, own) for own in host.spellings.values()}
        self.hooks: dict[str, dict[str, Any]] = {}
        self.handlers: list[Adopted] = []
        self.picked: list[Handler] = []
        self.staying: list[str] = []
        self.seconds: dict[str, float] = {}
        for one in found:
            if not is_written(one.data):
                self._take(one)

    def _take(self, handler: Handler) -> None:
        action = _action(handler.data, self._host)
        if why := self._stays(handler, action):
            self.staying.append(f"the {handler.event} hook in line {handler.line} stays there: {why}")
            return
        assert action is not None
        event, given = self._events[handler.event], handler.data.get("name")
        stem = given if isinstance(given, str) and not checked_name(given) else made_name(action, event)
        name = free_name(stem, event, self._taken | RESERVED)
        self._taken.add(name)
        mark = f"{self._host.name} {handler.event} {json.dumps(handler.entry)}"  # the original entry, with its event
        self.hooks[name] = {**self._fields(handler, event, action), ADOPTED: mark}
        self.seconds[event] = max(self.seconds.get(event, 0), self.hooks[name].get("timeout", 0))
        self.handlers.append(Adopted(handler.event, handler.entry, name))
        self.picked.append(handler)

    def _stays(self, handler: Handler, action: Action | None) -> str:
        if action is None:
            kind = handler.data.get("type")
            typed = isinstance(kind, str) and kind not in ("command", "http")
            return f"billhook can't run hooks of type `{kind}`" if typed else "it has no command"
        if handler.data.get("asyncRewake") is True:
            return "billhook does not support `asyncRewake`"
        if is_billhook(action):
            return "it calls billhook, which would run twice; remove it"
        if handler.event not in self._events:
            return "billhook does not support this event"
        command = self._host.command_key
        own = {RunAction: (command, "command"), Exec: ("command", "args"), Url: ("url",)}[type(action)]
        known = {*_HANDLED, *_SAME, *own, self._host.timeout_key, *(self._host.fail_closed or ())[:1]}
        odd = [key for key in handler.data if key not in known]
        odd += [key for key in handler.group if key not in _OF_GROUPS]
        pattern, seconds = (handler.data.get(key, handler.group.get(key)) for key in ("matcher", "timeout"))
        odd += ["matcher"] if pattern is not None and not isinstance(pattern, str) else []
        positive = isinstance(seconds, int | float) and not isinstance(seconds, bool) and seconds > 0
        odd += ["timeout"] if seconds is not None and not positive else []
        return f"a hooks.yaml has no equivalent of its `{odd[0]}`" if odd else ""

    def _fields(self, handler: Handler, event: str, action: Action) -> dict[str, Any]:
        data, host = handler.data, self._host
        fields: dict[str, Any] = {"events": event}
        pattern = data.get("matcher", handler.group.get("matcher"))
        if isinstance(pattern, str) and pattern not in _EVERYTHING:
            fields["match"] = _matcher(pattern, host) if event in _TOOL_EVENTS else pattern
        match action:
            case RunAction(text):
                fields["run"] = text
            case Exec(argv):
                fields["exec"] = list(argv)
            case Url(url):
                fields["url"] = url
        fields |= {mine: data[key] for key, mine in _SAME.items() if key in data and key not in fields}
        if host.name != "claude":
            fields["dialect"] = host.name
        if isinstance(data.get("description"), str) and "title" not in fields:
            fields["title"] = data["description"]
        seconds = data.get(host.timeout_key)
        if seconds is not None:
            fields["timeout"] = _number(seconds / host.unit_per_second)
        elif event != "SessionEnd":
            fields["timeout"] = _number(meanings(host.name).timeout_for(event))
        if host.fail_closed and data.get(host.fail_closed[0]) == host.fail_closed[1]:
            fields["gate"] = True
        if fields.get("background") is True:  # nothing waits for it, so its failure can't block
            fields.pop("gate", None)
        return fields


def _action(data: Mapping[str, Any], host: Agent) -> Action | None:
    """The action of a handler; None if billhook can't run it."""
    command, url, args = data.get(host.command_key, data.get("command")), data.get("url"), data.get("args")
    kind = data.get("type", "command" if not host.typed else None)
    if kind == "http" and isinstance(url, str):
        return Url(url)
    if kind != "command" or not isinstance(command, str) or not command.strip():
        return None
    if isinstance(args, list) and all(isinstance(one, str) for one in args):
        return Exec((command, *args))
    return RunAction(command)


def _matcher(pattern: str, host: Agent) -> str:
    """A matcher that also selects the tools by their canonical names."""
    names = NAMINGS[meanings(host.name).naming]
    try:
        wanted = [canonical for own, canonical in names.items() if re.search(pattern, own)]
    except re.error:
        return pattern
    return "|".join(dict.fromkeys([pattern, *wanted]))


def _number(seconds: float) -> int | float:
    return int(seconds) if seconds == int(seconds) else seconds


# The origin of adopted hooks, as the hooks.yaml records it.
def moved_into(file: str, data: bytes, host: Agent) -> Moved | None:
    """The handlers that were moved into a hooks.yaml from an agent's file; None if there are none.

    Raises FaultyFileError.
    """
    hooks = hooks_in(data, file)
    found = [one for name, fields in hooks.items() if (one := _adopted(name, fields.get(ADOPTED), host)) is not None]
    if not found:
        return None
    # a hook that was edited since is not removed: its text no longer matches
    pieces = pieces_of(data, {one.name: _original_fields(one, host) for one in found})
    return Moved(file=file, existed=True, after="", pieces=pieces, handlers=tuple(found))


def _adopted(name: str, mark: object, host: Agent) -> Adopted | None:
    words = mark.split(" ", 2) if isinstance(mark, str) else []
    if len(words) < 3 or words[0] != host.name or words[1] not in host.spellings.values():
        return None
    try:
        entry = json.loads(words[2])
    except ValueError:
        return None
    inner = entry.get("hooks") if isinstance(entry, dict) else None  # of a group: must be exactly one handler
    alone = isinstance(inner, list) and len(inner) == 1 and isinstance(inner[0], dict)
    return Adopted(words[1], entry, name) if isinstance(entry, dict) and (alone or host.shape == "flat") else None


def _original_fields(one: Adopted, host: Agent) -> dict[str, Any]:
    """The fields of the hook, as they were when it was adopted."""
    nested = host.shape == "nested"
    data = one.entry["hooks"][0] if nested else one.entry
    group = {key: value for key, value in one.entry.items() if key != "hooks"} if nested else {}
    made = Adoption(host, [Handler(one.event, 0, 0 if nested else -1, data, group, 0)], set()).hooks
    return next(iter(made.values()), {})

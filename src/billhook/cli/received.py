"""The event as an agent hands it to its hook, whatever its spelling of the event's name.

Start-up is felt at every tool call: what only odd names need is imported for them.
"""

import os
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from billhook.errors import BillhookError, EventError
from billhook.events import EVENTS, Event, parse

if TYPE_CHECKING:
    from billhook.dialects import Dialect

_NAME = re.compile(rb'"hook_event_name"\s*:\s*"([A-Za-z0-9_.-]{1,100})"')
_LONGEST = 100
_LIKELY = 0.75
"""How like a known name one has to be to count as a slip; configuration files are read by the same measure."""


class MistypedError(BillhookError):
    """The name is none that we know, and so like one that it is no doubt a slip."""


def received(dialect: "Dialect", stdin: bytes, env: Mapping[str, str], argument: str) -> Event:
    """The event on stdin, under its canonical name; `argument` names it where the JSON does not.

    EventError when it can't be read, and MistypedError when its name is nearly that of an event.
    """
    try:
        event = dialect.read_call(stdin, env)
    except EventError as error:
        if error.path != "$.hook_event_name" or not argument:
            raise
        stdin = _with_name(stdin, argument)
        event = dialect.read_call(stdin, env)
    name = event.hook_event_name
    if name in EVENTS:
        return event
    known = canonical(name)
    if known:
        return _respelt(dialect, stdin, env, known)
    if near := probable(name):
        raise MistypedError(f"there is no event `{name[:_LONGEST]}`; did you mean `{near}`?")
    return event


def canonical(name: str) -> str:
    """The known event that is called so, in whatever case and with or without `_` and `-`; nothing when none is."""
    if name in EVENTS:
        return name
    from billhook.config.findings import folded

    fold = folded(name)
    return next((known for known in EVENTS if folded(known) == fold), "")


def probable(name: str) -> str:
    """The known event that was probably meant; nothing when the name is like none."""
    from billhook.config.findings import nearest

    return canonical(name) or nearest(name[:_LONGEST], EVENTS, _LIKELY)


def about_unknown(name: str) -> str:
    """What to say about an event that neither we nor the configuration know."""
    return f"billhook knows no event `{name[:_LONGEST]}`, and no configured hook names it"


def _with_name(stdin: bytes, name: str) -> bytes:
    """Some agents' payload does not say which event it is."""
    from billhook import strictjson

    rest = stdin.lstrip()[1:].lstrip()
    comma = b"" if rest.startswith(b"}") else b","
    return b'{"hook_event_name":' + strictjson.encode(canonical(name) or name) + comma + rest


def _respelt(dialect: "Dialect", stdin: bytes, env: Mapping[str, str], name: str) -> Event:
    """Read it again with its canonical name: that decides which fields it has."""
    if not stdin.strip():
        return dialect.read_call(stdin, {**env, "HOOK_EVENT": name})
    from billhook import strictjson

    whole = strictjson.loads_leniently(stdin, max_depth=400)
    return dialect.read_call(strictjson.encode({**whole, "hook_event_name": name}), env)


def guessed(stdin: bytes, argument: str) -> Event | None:
    """An event of the kind that this probably is, whatever is wrong with it; None when nobody knows."""
    said = _names_in(stdin)
    if not said:
        said = {argument or os.environ.get("HOOK_EVENT", "")}
    elif argument:
        said.add(argument)
    meant = {probable(name) or name for name in said if name}
    return _blank(meant.pop()) if len(meant) == 1 else None


def _names_in(stdin: bytes) -> set[str]:
    """What the event may be called. In broken text the name of another event may stand, too: in a tool's input."""
    from billhook import strictjson
    from billhook.errors import StrictJSONError

    try:
        whole = strictjson.loads(stdin, max_depth=400, max_bytes=None)
        name = whole.get("hook_event_name") if isinstance(whole, dict) else None
        return {name} if isinstance(name, str) and name else set()
    except StrictJSONError:
        return {name.decode("ascii") for name in _NAME.findall(stdin)}


def _blank(name: str) -> Event:
    """An event of that name with nothing in it: enough to word an answer to it."""
    from msgspec.structs import fields

    kind = EVENTS.get(name)
    if kind is None:
        return parse({"hook_event_name": name})
    empty: dict[str, Any] = {
        field.name: {} if field.name == "tool_input" else "" for field in fields(kind) if field.required
    }
    return kind(**empty)

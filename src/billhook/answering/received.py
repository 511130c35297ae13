"""The event as an agent hands it to its hook, whatever its spelling of the event's name.

Start-up is felt at every tool call: what only odd names need is imported for them.
"""

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from billhook import caller
from billhook.agents.detect import who_calls
from billhook.errors import BillhookError, EventError
from billhook.events import EVENTS, Event, parse
from billhook.later import later, pattern

if TYPE_CHECKING:
    from billhook import agents
    from billhook.agents import Dialect
else:
    agents = later("billhook.agents")

_NAME = pattern(rb'"hook_event_name"\s*:\s*"([A-Za-z0-9_.-]{1,100})"')
_LONGEST = 100
_LIKELY = 0.75
"""How like a known name one has to be to count as a slip; configuration files are read by the same measure."""


class MistypedError(BillhookError):
    """The name is none that we know, and so like one that it is no doubt a slip."""


def received_from(said: str, stdin: bytes, env: Mapping[str, str], argument: str) -> tuple[Event, str]:
    """The event on stdin, in the dialect of the agent that `--as` named; where that is Claude Code, of the one that
    really calls: and which agent that is. Raises as `received` does."""
    dialect = agents.dialect(said)
    if said != "claude":
        return received(dialect, stdin, env, argument), said
    try:
        event = received(dialect, stdin, env, argument)
        agent = who_calls(said, event.payload, env)
    except BillhookError:  # what Claude Code never sends another agent may well
        agent = who_calls(said, _object_in(stdin) or {}, env)
        if agent == said:
            raise
    return (event, agent) if agent == said else _from_another(agent, stdin, env, argument)


def _from_another(agent: str, stdin: bytes, env: Mapping[str, str], argument: str) -> tuple[Event, str]:
    """The event of an agent that reads another one's settings."""
    payload = _object_in(stdin) or {}
    record = agents.agent(agent)
    if record.payload_of is not None:
        from billhook import strictjson

        stdin = strictjson.written(record.payload_of(payload))
    name = argument or record.unnamed_event(payload)
    return received(agents.dialect(agents.dialect_of(agent)), stdin, env, name), agent


def received(dialect: "Dialect", stdin: bytes, env: Mapping[str, str], argument: str) -> Event:
    """The event on stdin, under its canonical name; `argument` names it where the JSON does not. It keeps the text of
    its sender, for hooks of the same agent.

    EventError when it can't be read, and MistypedError when its name is nearly that of an event.
    """
    try:
        event = dialect.read_call(stdin, env)
    except EventError as error:
        if error.path != "$.hook_event_name" or not argument:
            raise
        sent, stdin = stdin, _with_name(stdin, argument, dialect.meanings.name)
        event = dialect.read_call(stdin, env)
        if dialect.meanings.naming in ("canonical", "seed"):  # hooks of these look for the name in the JSON
            sent = stdin
    else:
        sent = stdin
    event.__dict__["sent"] = dialect.meanings.name, sent
    name = event.hook_event_name
    if name in EVENTS:
        return event
    known = canonical(name, dialect.meanings.name)
    if known:
        return _respelt(dialect, stdin, env, known)
    if near := probable(name):
        raise MistypedError(f"there is no event `{name[:_LONGEST]}`; did you mean `{near}`?")
    return event


def canonical(name: str, agent: str = "") -> str:
    """The known event that any agent calls so, in whatever case and with or without `_` and `-`; nothing when none
    does."""
    if name in EVENTS:
        return name
    from billhook.agents.names import canonical_event

    return canonical_event(name, agent)


def probable(name: str) -> str:
    """The known event that was probably meant; nothing when the name is like none."""
    from billhook.config.findings import nearest

    return canonical(name) or nearest(name[:_LONGEST], EVENTS, _LIKELY)


def about_unknown(name: str) -> str:
    """What to say about an event that neither we nor the configuration know."""
    return f"billhook knows no event `{name[:_LONGEST]}`, and no configured hook names it"


def _with_name(stdin: bytes, name: str, agent: str) -> bytes:
    """Some agents' payload does not say which event it is."""
    from billhook import strictjson

    rest = stdin.lstrip()[1:].lstrip()
    comma = b"" if rest.startswith(b"}") else b","
    return b'{"hook_event_name":' + strictjson.encode(canonical(name, agent) or name) + comma + rest


def _respelt(dialect: "Dialect", stdin: bytes, env: Mapping[str, str], name: str) -> Event:
    """Read it again with its canonical name: that decides which fields it has."""
    if not stdin.strip():
        return dialect.read_call(stdin, {**env, "HOOK_EVENT": name})
    from billhook import strictjson

    whole = strictjson.loads_leniently(stdin, max_depth=400)
    named = {"hook_event_name": name, "original_event_name": _name_in(whole)}
    return dialect.read_call(strictjson.encode({**whole, **named}), env)


def guessed(stdin: bytes, argument: str) -> Event | None:
    """An event of the kind that this probably is, with what of it can be read; None when nobody knows its kind."""
    whole = _object_in(stdin)
    said = {_name_in(whole)} if whole is not None else {name.decode("ascii") for name in _NAME.findall(stdin)}
    said.discard("")
    if not said:
        said = {argument or caller.environ().get("HOOK_EVENT", "")}
    elif argument:
        said.add(argument)
    meant = {probable(name) or name for name in said if name}
    return _likeness(meant.pop(), whole or {}) if len(meant) == 1 else None


def readable(stdin: bytes) -> Event:
    """What can be read of an event whose kind nobody knows."""
    whole = _object_in(stdin) or {}
    return _likeness(_name_in(whole) or "unknown", whole)


def _object_in(stdin: bytes) -> dict[str, Any] | None:
    """The JSON object that was sent; None when the text is broken. In that the name of another event may stand, too: in
    a tool's input."""
    from billhook import strictjson
    from billhook.errors import StrictJSONError

    try:
        whole = strictjson.loads(stdin, max_depth=400, max_bytes=None)
    except StrictJSONError:
        return None
    return whole if isinstance(whole, dict) else {}


def _name_in(whole: Mapping[str, Any]) -> str:
    name = whole.get("hook_event_name")
    return name if isinstance(name, str) else ""


def _likeness(name: str, whole: Mapping[str, Any]) -> Event:
    """An event of that name: enough to word an answer to it. Its payload has the fields that are as they should be,
    and nothing that was not sent."""
    from msgspec.structs import fields

    required = [field.name for field in fields(EVENTS[name]) if field.required] if name in EVENTS else []
    blank = {field: None if field == "tool_input" else "" for field in required}
    sent = {**whole, "hook_event_name": name}
    while True:
        try:
            event = parse({**blank, **sent})
        except EventError as error:
            del sent[re.split(r"[.\[]", error.path)[1]]
            continue
        event.__dict__["payload"] = sent
        return event

"""Which event is meant by a name that any agent uses. Reads the records of all agents."""

from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from billhook.agents import AGENTS, EVERY_AGENT, TABLE
from billhook.core import strictjson, tools
from billhook.core.errors import ContradictionError, StrictJSONError
from billhook.core.events import EVENTS
from billhook.core.lazy import LazyTable
from billhook.core.tools import folded

if TYPE_CHECKING:
    from billhook.core.answers import Answer


EVENT_NAMES: Final = LazyTable[Mapping[str, str]](AGENTS, lambda name: AGENTS[name].event_names)
"""By agent: our name of an event, and its own, as it is spelt in that agent's settings."""
NARROWER: Final = LazyTable[Mapping[str, str]](AGENTS, lambda name: AGENTS[name].narrower)
"""By agent: further names of its own, each for some of what one event of ours is about."""


@cache
def tools_of() -> Mapping[str, str]:
    """By such a narrower name: the tools that it is about."""
    return {name: tools for agent in AGENTS.values() for name, tools in agent.tools_of.items()}


@cache
def others() -> frozenset[str]:
    """Events that only one agent has, and we no type for: by its own names."""
    return frozenset(name for agent in AGENTS.values() for name in agent.only_its)


_OURS: Final = {folded(name): name for name in EVENTS}


@cache
def meant(agent: str) -> Mapping[str, str]:
    """By the folded name that an agent uses: our name of the event. Of two events with one name, the wider one."""
    record = AGENTS[agent]
    names = {folded(own): name for name, own in reversed(list(record.event_names.items()))}
    return names | {folded(own): name for own, name in record.narrower.items()}


def canonical_event(name: str, agent: str = "") -> str:
    """The event that any agent means by a name, in whatever case and with or without `_` and `-`; "" when none does.

    `agent`: the one that most likely uses it; the records of the others are only imported when it does not.
    """
    plain = folded(name[:100])
    if name in EVENTS or plain in _OURS:
        return _OURS[plain]
    likely = (agent,) if agent in AGENTS else ()
    return next((meant(one)[plain] for one in (*likely, *AGENTS) if plain in meant(one)), "")


def own_events(agent: str, name: str) -> str:
    """What a name in an agent's own file means: our name of the event, or the name itself where it is about a part of
    one or about something that only this agent has; "" when the agent has no such event."""
    ours = {own: event for event, own in reversed(list(EVENT_NAMES[agent].items()))} if agent in AGENTS else {}
    if ours.get(name):
        return ours[name]
    return name if name in NARROWER.get(agent, {}) or (agent != "claude" and name in others()) else ""


def whole(name: str, agent: str = "") -> str:
    """The event of ours that a narrower name is about a part of; any other name as it is. `agent`: the one whose name
    it is, if that is known."""
    if name in EVENTS:
        return name
    known = (agent,) if agent in AGENTS else AGENTS
    return next((NARROWER[one][name] for one in known if name in NARROWER[one]), name)


def is_own_name(name: str) -> bool:
    """Whether some agent has an event of exactly that name."""
    return name in others() or any(own_events(agent, name) for agent in AGENTS)


def own_name(dialect: str, event: str) -> str:
    """What an agent calls an event of ours; "" when it has no such event."""
    return EVENT_NAMES[dialect].get(event, "") if dialect in AGENTS else ""


# Who really calls a hook that was installed for Claude Code.


OTHERS: Final = frozenset(TABLE) - {"claude"}
"""The agents that may bring the same call twice, and that can't be told everything at every event."""
_FOREIGN: Final = frozenset(
    ("timestamp", "turn_id", "conversation_id", "cursor_version", "hookEventName", "sessionId", "original_event_name")
)
"""Fields that Claude Code does not send."""
DOUBTFUL: Final = _FOREIGN | {"model"}
"""A known event without any of these fields comes from Claude Code, if it was said to: it is not looked at closer."""


def who_calls(said: str, payload: Mapping[str, Any], environ: Mapping[str, str]) -> str:
    """The agent that this payload is from, where `--as` said `claude`; else the one that was said."""
    if said != "claude" or not _may_be_foreign(payload):
        return said
    found = max(EVERY_AGENT.values(), key=lambda agent: agent.sends(payload, environ))
    return found.name if found.sends(payload, environ) else said


def _may_be_foreign(payload: Mapping[str, Any]) -> bool:
    if not _FOREIGN.isdisjoint(payload) or payload.get("hook_event_name") not in EVENTS:
        return True
    return "model" in payload and "/.claude/" not in str(payload.get("transcript_path"))


def with_sent_names(agent: str, stdin: bytes, answer: "Answer") -> "Answer":
    """The answer with its rewritten input in the names that an agent sent, where these are not those of its dialect."""
    input_for = EVERY_AGENT[agent].input_for
    if input_for is None:
        return answer
    from msgspec.structs import replace

    sent = strictjson.loads_leniently(stdin, max_depth=400).get("tool_input")
    return replace(answer, updated_input=input_for(answer.updated_input or {}, sent if isinstance(sent, dict) else {}))


# What an agent sends, made canonical:


Payload = dict[str, Any]


def parsed(value: object) -> object:
    """The object that came as JSON in a string; other values, such as a patch, stay what they are."""
    try:
        text = value.encode("utf-8", "surrogatepass") if isinstance(value, str) else b""
        found = strictjson.loads_leniently(text, max_depth=400)
    except (StrictJSONError, UnicodeError):
        return value
    return found if isinstance(found, dict) else value


def consistent(payload: Payload) -> Payload:
    """The same payload. Raises ContradictionError where two spellings of a field say different things."""
    if why := tools.contradictory_event(payload):
        raise ContradictionError(why)
    return payload


def with_canonical_tool(payload: Payload, naming: str) -> Payload:
    """The same with our name of the tool and of what it is given, and an id where the agent has none."""
    called = payload.get("tool_name")
    if not isinstance(called, str):
        return payload
    tool = mcp_name(payload) or tools.canonical(called, naming)
    if tool != called:
        payload.update({"tool_name": tool, "original_tool_name": called})
    if "tool_input" in payload:
        payload["tool_input"], renamed = tools.canonical_input(tool, payload["tool_input"], naming)
        if renamed:
            payload["original_input_keys"] = renamed
    kind = EVENTS.get(str(payload.get("hook_event_name")))
    if kind is not None and "tool_use_id" in kind.__struct_fields__ and not payload.get("tool_use_id"):
        payload["tool_use_id"] = tool_use_id(payload.get("session_id"), tool, payload.get("tool_input"))
    return payload


def tool_use_id(session: object, tool: str, given: object) -> str:
    """An id for a call that came without one: the same before and after the tool, and for no other call of the session
    that differs in anything."""
    from hashlib import blake2b

    text = strictjson.utf8([session or "", tool, _ordered(given)])
    return f"made_{blake2b(text, digest_size=12).hexdigest()}"


def _ordered(value: object) -> object:
    """The same value, whatever the order of its keys was."""
    if isinstance(value, dict):
        return {key: _ordered(value[key]) for key in sorted(value)}
    return [_ordered(one) for one in value] if isinstance(value, list) else value


def mcp_name(payload: Payload) -> str:
    """Our name of a tool of an MCP server, where the agent says which server it is."""
    context = payload.get("mcp_context")
    if not isinstance(context, dict):
        return ""
    server, tool = context.get("server_name"), context.get("tool_name")
    return f"mcp__{server}__{tool}" if isinstance(server, str) and isinstance(tool, str) and server and tool else ""

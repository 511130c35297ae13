"""One module per coding agent, with everything that is known about it, and the protocol dialects beside them.

Imports: core.
"""

import functools
from collections.abc import Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

import msgspec

from billhook.core import strictjson, tools
from billhook.core.errors import ContradictionError, StrictJSONError, UsageError
from billhook.core.events import EVENTS
from billhook.core.lazy import LazyTable
from billhook.core.tools import folded

if TYPE_CHECKING:
    from billhook.agents.base import Agent
    from billhook.agents.child import ChildCall, Dialect, ExitResult
    from billhook.agents.reference import CLAUDE, SPEC
    from billhook.core.answers import Answer


class AgentRow(msgspec.Struct, frozen=True):
    """The fields of an agent that start-up needs without importing its record. A test compares the two."""

    files: tuple[str, ...] = ()  # settings with its hooks, in a project and below the home folder alike
    beside: tuple[str, ...] = ()  # further files that decide whether those hooks run
    folders: tuple[str, ...] = ()  # in a project, and below the home folder: it reads every JSON file there
    alias_of: str = ""  # the agent whose settings and dialect it uses, if it has none of its own
    also_reads: str = ""  # another agent whose settings it also reads


TABLE: Final = {
    "claude": AgentRow((".claude/settings.json", ".claude/settings.local.json", ".claude/remote-settings.json")),
    "codex": AgentRow((".codex/hooks.json",), (".codex/config.toml",)),
    "gemini": AgentRow((".gemini/settings.json",)),
    "qwen": AgentRow((".qwen/settings.json",)),
    "copilot": AgentRow(folders=(".github/hooks", ".copilot/hooks")),
    "cursor": AgentRow((".cursor/hooks.json",)),
    "opencode": AgentRow((".opencode/plugins/billhook.js", ".config/opencode/plugins/billhook.js")),
    "hermes": AgentRow((".hermes/config.yaml",)),
    "antigravity": AgentRow(beside=(".agents/hooks.json", ".gemini/config/hooks.json")),
    "devin": AgentRow((".devin/config.json", ".config/devin/config.json"), (".devin/hooks.v1.json",)),
    "droid": AgentRow((".factory/settings.json",), (".factory/hooks.json",)),
    "goose": AgentRow(
        (".agents/plugins/billhook/hooks/hooks.json",),
        (".agents/plugins/billhook", ".config/goose/settings.json", ".config/goose/settings.local.json"),
    ),
    "kiro": AgentRow(beside=(".kiro/hooks/billhook.json",)),
    "pi": AgentRow((".pi/extensions/billhook.js", ".pi/agent/extensions/billhook.js")),
    "windsurf": AgentRow((".windsurf/hooks.json", ".codeium/windsurf/hooks.json")),
    "cline": AgentRow((".clinerules/hooks/PreToolUse", "Documents/Cline/Hooks/PreToolUse")),
    "crush": AgentRow(("crush.json", ".config/crush/crush.json"), (".crush.json",)),
    "openclaw": AgentRow(
        (".openclaw/plugins/billhook/index.js",),
        (
            ".openclaw/openclaw.json",
            ".openclaw/plugins/billhook/package.json",
            ".openclaw/plugins/billhook/openclaw.plugin.json",
        ),
    ),
    "amp": AgentRow((".amp/plugins/billhook.ts", ".config/amp/plugins/billhook.ts")),
    "vscode": AgentRow(alias_of="claude", also_reads="copilot"),
}

_CODECS: Final = {
    "claude": "reference",
    "spec": "reference",
    "claw": "seeds",
    "claw-text": "seeds",
    "lesson": "seeds",
    **{name: name for name, row in TABLE.items() if name != "claude" and not row.alias_of},
    "universal": "universal",
}
"""By dialect: the module with its codec, in `DIALECTS`."""


def _agent(name: str) -> "Agent":
    if name not in TABLE:
        raise KeyError(name)
    records: Mapping[str, Agent] = import_module(f"{__name__}.{name}").AGENTS
    return records[name]


def _codec(name: str) -> "Dialect":
    codecs: Mapping[str, Dialect] = import_module(f"{__name__}.{_CODECS[name.partition(':')[0]]}").DIALECTS
    return codecs[name]


EVERY_AGENT: Final = LazyTable(TABLE, _agent)  # also those that only use another agent's settings
AGENTS: Final = LazyTable((name for name, row in TABLE.items() if not row.alias_of), EVERY_AGENT.__getitem__)
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
    return TABLE[host].alias_of or host if host in TABLE else host


def reader_of(folder: str, name: str) -> str:
    """The agent that reads a file, by its folder and name; empty for any other file."""
    for agent_name, row in TABLE.items():
        ours = any(folder.endswith(f"/{one}") for one in row.folders)
        if name.endswith(".json") and (ours or any(f"{folder}/{name}".endswith(f"/{one}") for one in row.files)):
            return agent_name
    return ""


__all__ = [
    "AGENTS", "CLAUDE", "DIALECTS", "SPEC", "ChildCall", "Dialect", "ExitResult", "agent", "canonical_event", "dialect",
    "dialect_of",
]  # fmt: skip

# The canonical event for any agent's name of it. Reads the records of all agents.

EVENT_NAMES: Final = LazyTable[Mapping[str, str]](AGENTS, lambda name: AGENTS[name].event_names)
"""By agent: the canonical name of an event, and its own, as in that agent's settings."""
NARROWER: Final = LazyTable[Mapping[str, str]](AGENTS, lambda name: AGENTS[name].narrower)
"""By agent: its names of narrower events, each for a part of one canonical event."""


@functools.cache
def tools_of() -> Mapping[str, str]:
    """By such a narrower name: the tools of that event."""
    return {name: tools for agent in AGENTS.values() for name, tools in agent.tools_of.items()}


@functools.cache
def others() -> frozenset[str]:
    """Events that only one agent has, without a canonical type: by its own names."""
    return frozenset(name for agent in AGENTS.values() for name in agent.only_its)


_OURS: Final = {folded(name): name for name in EVENTS}


@functools.cache
def canonical_events(agent: str) -> Mapping[str, str]:
    """By an agent's folded name: the canonical event. Of two events with one name, the wider one."""
    record = AGENTS[agent]
    names = {folded(own): name for name, own in reversed(list(record.event_names.items()))}
    return names | {folded(own): name for own, name in record.narrower.items()}


def canonical_event(name: str, agent: str = "") -> str:
    """The canonical event for any agent's name, ignoring case, `_` and `-`; "" if there is none. `agent`: the one that
    most likely uses it; the records of the others are only imported if it does not."""
    plain = folded(name[:100])
    if name in EVENTS or plain in _OURS:
        return _OURS[plain]
    likely = (agent,) if agent in AGENTS else ()
    return next((canonical_events(one)[plain] for one in (*likely, *AGENTS) if plain in canonical_events(one)), "")


def declared_event(agent: str, name: str) -> str:
    """The meaning of a name in an agent's file: the canonical event, or the name itself for a narrower event or one
    that only this agent has; "" if the agent has no such event."""
    ours = {own: event for event, own in reversed(list(EVENT_NAMES[agent].items()))} if agent in AGENTS else {}
    if ours.get(name):
        return ours[name]
    return name if name in NARROWER.get(agent, {}) or (agent != "claude" and name in others()) else ""


def whole(name: str, agent: str = "") -> str:
    """The canonical event of a narrower name; any other name unchanged. `agent`: the agent that uses the name, if
    known."""
    if name in EVENTS:
        return name
    known = (agent,) if agent in AGENTS else AGENTS
    return next((NARROWER[one][name] for one in known if name in NARROWER[one]), name)


def is_own_name(name: str) -> bool:
    """Whether some agent has an event of exactly that name."""
    return name in others() or any(declared_event(agent, name) for agent in AGENTS)


def own_name(dialect: str, event: str) -> str:
    """An agent's name of a canonical event; "" if it has no such event."""
    return EVENT_NAMES[dialect].get(event, "") if dialect in AGENTS else ""


# The agent that calls a hook which was installed for Claude Code.

SHARED: Final = {row.also_reads: name for name, row in TABLE.items() if row.alias_of}
"""By agent: another one that also reads its settings, and sends and obeys the format of `speaks`."""
OTHERS: Final = frozenset(TABLE) - {"claude"}
"""The agents that may send the same call twice, and that don't support every answer on every event."""
_FOREIGN: Final = frozenset(
    ("timestamp", "turn_id", "conversation_id", "cursor_version", "hookEventName", "sessionId", "original_event_name")
)
"""Fields that Claude Code does not send."""
DOUBTFUL: Final = _FOREIGN | {"model"}
"""With `--as claude`, a known event with `cwd` and without any of these fields is from Claude Code, without further
checks."""


def who_calls(said: str, payload: Mapping[str, Any], environ: Mapping[str, str]) -> str:
    """The agent that sent this payload, for `--as claude`; otherwise the agent in `--as`."""
    if said != "claude" or not _may_be_foreign(payload):
        return said
    found = max(EVERY_AGENT.values(), key=lambda agent: agent.sends(payload, environ))
    return found.name if found.sends(payload, environ) else said


def _may_be_foreign(payload: Mapping[str, Any]) -> bool:
    if not _FOREIGN.isdisjoint(payload) or "cwd" not in payload or payload.get("hook_event_name") not in EVENTS:
        return True
    return "model" in payload and "/.claude/" not in str(payload.get("transcript_path"))


def with_sent_names(agent: str, stdin: bytes, answer: "Answer") -> "Answer":
    """The answer with its rewritten input in the agent's original names, if these differ from its dialect's."""
    input_for = EVERY_AGENT[agent].input_for
    if input_for is None:
        return answer
    from msgspec.structs import replace

    sent = strictjson.loads_leniently(stdin, max_depth=400).get("tool_input")
    return replace(answer, updated_input=input_for(answer.updated_input or {}, sent if isinstance(sent, dict) else {}))


# Canonical payloads:

Payload = dict[str, Any]


def parsed(value: object) -> object:
    """The object in a string of JSON; other values, such as a patch, are unchanged."""
    try:
        text = value.encode("utf-8", "surrogatepass") if isinstance(value, str) else b""
        found = strictjson.loads_leniently(text, max_depth=400)
    except (StrictJSONError, UnicodeError):
        return value
    return found if isinstance(found, dict) else value


def consistent(payload: Payload) -> Payload:
    """The same payload. Raises ContradictionError if two spellings of a field have different values."""
    if why := tools.contradictory_event(payload):
        raise ContradictionError(why)
    return payload


def with_canonical_tool(payload: Payload, naming: str) -> Payload:
    """The same with canonical names of the tool and its input, and an id if the agent sent none."""
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
    """An id for a call without one: the same before and after the tool, and different for every different call of the
    session."""
    from hashlib import blake2b

    text = strictjson.utf8([session or "", tool, _ordered(given)])
    return f"made_{blake2b(text, digest_size=12).hexdigest()}"


def _ordered(value: object) -> object:
    if isinstance(value, dict):
        return {key: _ordered(value[key]) for key in sorted(value)}
    return [_ordered(one) for one in value] if isinstance(value, list) else value


def mcp_name(payload: Payload) -> str:
    """The canonical name of an MCP server's tool, if the agent sends the server's name."""
    context = payload.get("mcp_context")
    if not isinstance(context, dict):
        return ""
    server, tool = context.get("server_name"), context.get("tool_name")
    return f"mcp__{server}__{tool}" if isinstance(server, str) and isinstance(tool, str) and server and tool else ""


_LATER: Final = {
    **dict.fromkeys(("CLAUDE", "SPEC"), "reference"),
    **dict.fromkeys(("ChildCall", "Dialect", "ExitResult"), "child"),
}
"""Names that are imported on first use: the module of each."""


def __getattr__(name: str) -> object:
    if name in _LATER:
        return getattr(import_module(f"{__name__}.{_LATER[name]}"), name)
    raise AttributeError(f"module `{__name__}` has no `{name}`")

"""Goals 13 and 15: an event as JSON, read into its type, answered, and written."""

import asyncio
import functools
import importlib
import json
import operator
from collections.abc import AsyncGenerator, Callable
from typing import Annotated, Any, Literal

import msgspec

from billhook import EVENTS, Engine, Event, PreToolUse, allow, deny, on
from billhook.agents import dialect
from billhook.core import events
from harness import LOOPS, Bar, Case, Goal, Trial, awaited, looped

_SPECIFIC = {"hookEventName": "PreToolUse", "permissionDecision": "allow"}
_HEAD = {
    "session_id": "0b8e2f0e-5a0f-4b0f-9a53-0a2d7f6e1b11",
    "transcript_path": "/home/u/.agent/projects/x/t.jsonl",
    "cwd": "/home/u/x",
    "permission_mode": "default",
    "hook_event_name": "PreToolUse",
    "tool_name": "Bash",
    "tool_use_id": "toolu_01ABC",
}


def with_command(size: int) -> dict[str, Any]:
    """An event of about `size` bytes, most of it one string with escapes."""
    return {**_HEAD, "tool_input": {"command": 'echo "hello"\n' * ((size - 300) // 16)}}


def with_edits(size: int) -> dict[str, Any]:
    """An event of about `size` bytes, most of it small objects."""
    edits = [{"old": f"line {i}", "new": f"LINE {i}", "n": i} for i in range((size - 300) // 50)]
    return {**_HEAD, "tool_input": {"edits": edits}}


# -- 13 ------------------------------------------------------------------------------------------------------------


async def line_to_line() -> AsyncGenerator[Trial, None]:
    """Every path reads the command, because a hook that does not is no realistic case."""
    event = with_command(1000)
    line = json.dumps(event).encode()
    with_on, with_callback = _ours(Engine([_careful])), _ours(_matchers())
    for path in (with_on, with_callback, _limit):
        assert json.loads(await path(line))["hookSpecificOutput"] == _SPECIFIC
    cases: dict[str, Case] = {
        "@on": awaited(with_on, line),
        "the SDK's callback": awaited(with_callback, line),
        "msgspec and the callback": awaited(_limit, line),
        "claude-agent-sdk": awaited(_sdk(), _control_request(event)),
    }
    bars = [Bar("@on", "msgspec and the callback", 3), Bar("@on", "claude-agent-sdk", 0.4)]
    yield Trial("1 KB", cases, bars, LOOPS)


@on(PreToolUse, timeout=60)
async def _careful(event: PreToolUse) -> Any:
    return deny("no") if "rm -rf" in event.tool_input["command"] else allow()


async def _callback(given: dict[str, Any], tool_use_id: str | None, context: Any) -> dict[str, Any]:
    """The same hook with the signature of the Agent SDK."""
    word = "deny" if "rm -rf" in given["tool_input"]["command"] else "allow"
    return {"continue_": True, "hookSpecificOutput": {"hookEventName": "PreToolUse", "permissionDecision": word}}


def _matchers() -> Engine:
    return Engine.from_matchers({"PreToolUse": [{"hooks": [_callback], "timeout": 60}]}, dialect="claude")


def _ours(engine: Engine) -> Callable[[bytes], Any]:
    speech = dialect("claude")

    async def handle(line: bytes) -> bytes:
        event = speech.read_call(line, {})
        verdict = await engine.fire(event)
        return speech.write_exit(event, verdict.as_answer()).exit.stdout

    return handle


class _Record(msgspec.Struct):
    """The limit's typed record."""

    session_id: str
    transcript_path: str
    cwd: str
    hook_event_name: str
    tool_name: str
    tool_input: Any
    tool_use_id: str = ""
    permission_mode: str = ""


_decode: Callable[[bytes], Any] = msgspec.json.Decoder().decode
_encode = msgspec.json.Encoder().encode


async def _limit(line: bytes) -> bytes:
    """Decode the whole event, make a typed record, await the callback, encode its answer; check nothing."""
    payload = _decode(line)
    record = msgspec.convert(payload, _Record)
    return _encode(await _callback(payload, record.tool_use_id, {"signal": None})) + b"\n"


class _Null:
    """A transport that accepts everything."""

    async def write(self, data: str) -> None: ...


def _sdk() -> Callable[[bytes], Any]:
    """The SDK's own path, as its reader does it: a task for each request. The other side does the matching."""
    query = importlib.import_module("claude_agent_sdk._internal.query").Query(_Null(), is_streaming_mode=True)
    query.hook_callbacks["hook_0"] = _callback

    async def handle(line: bytes) -> None:
        await asyncio.create_task(query._handle_control_request(json.loads(line)))

    return handle


def _control_request(event: dict[str, Any]) -> bytes:
    request = {"subtype": "hook_callback", "callback_id": "hook_0", "tool_use_id": "t", "input": event}
    return json.dumps({"type": "control_request", "request_id": "r1", "request": request}).encode()


# -- 15 ------------------------------------------------------------------------------------------------------------


async def typed_decode() -> AsyncGenerator[Trial, None]:
    """The limit and the peer have the same events with the same fields as we do."""
    limit, pydantic = _tagged_union(), _pydantic_union()
    for name, event, to_pydantic in (
        ("1 KB of text", with_command(1000), 0.5),
        ("1 KB nested", with_edits(1000), 0.5),
        ("100 KB nested", with_edits(100_000), 0.15),
    ):
        data = json.dumps(event).encode()
        cases: dict[str, Case] = {
            "events.decode": looped(events.decode, data),
            "msgspec union with Raw": looped(limit, data),
            "pydantic": looped(pydantic, data),
        }
        bars = [
            Bar("events.decode", "msgspec union with Raw", 1.5),
            Bar("events.decode", "pydantic", to_pydantic),
        ]
        yield Trial(name, cases, bars, LOOPS)


def _tagged_union() -> Callable[[bytes], object]:
    kinds = [
        msgspec.defstruct(
            kind.__name__,
            [(f.name, f.type, _default(f)) for f in msgspec.structs.fields(kind)],
            tag_field="hook_event_name",
            tag=kind.__name__,
            kw_only=True,
            gc=False,
        )
        for kind in EVENTS.values()
    ]
    return msgspec.json.Decoder(functools.reduce(operator.or_, kinds)).decode


def _default(field: msgspec.structs.FieldInfo) -> Any:
    return msgspec.field() if field.required else msgspec.field(default=field.default)


def _pydantic_union() -> Callable[[bytes], object]:
    pydantic = importlib.import_module("pydantic")
    models = [_model(pydantic, kind) for kind in EVENTS.values()]
    union = functools.reduce(operator.or_, models)
    read: Callable[[bytes], object] = pydantic.TypeAdapter(
        Annotated[union, pydantic.Field(discriminator="hook_event_name")]
    ).validate_json
    return read


def _model(pydantic: Any, kind: type[Event]) -> Any:
    fields: dict[str, Any] = {"hook_event_name": (Literal[kind.__name__], ...)}
    for field in msgspec.structs.fields(kind):
        hint = Any if field.type is msgspec.Raw else field.type
        fields[field.name] = (hint, ... if field.required else field.default)
    return pydantic.create_model(kind.__name__, **fields)


GOALS = (
    Goal(13, "JSON line in, callback, JSON line out", line_to_line, needs=("claude_agent_sdk",)),
    Goal(15, "Typed decode", typed_decode, needs=("pydantic",)),
)

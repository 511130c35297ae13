"""The seeds' protocols, in which the exit code decides: claw (000), claw-text (003) and lesson (004).

The meaning of each code before and after a tool is a row of data; the code is shared.
"""

from collections.abc import Mapping
from typing import Any, Literal

import msgspec
from msgspec.structs import replace

from billhook.agents import child, consistent
from billhook.agents.stdout import StdoutContent, names_a_field, objection_in, printed
from billhook.core import dialect_traits as rows
from billhook.core import events, strictjson, tools
from billhook.core.answer_json import blocked, is_answer, read_output, write_output
from billhook.core.answers import NOTHING, Answer, Exit, Reply, Status
from billhook.core.dialect_traits import Meanings
from billhook.core.errors import ContradictionError, EventError, StrictJSONError
from billhook.core.events import Event
from billhook.core.hook import Context

Effect = Literal["nothing", "feedback", "deny", "inject", "warn"]
Stream = Literal["stdout", "stderr"]
BEFORE, AFTER, FAILED, ELSE = "PreToolUse", "PostToolUse", "PostToolUseFailure", ""


class ExitCodeDialect(msgspec.Struct, frozen=True, kw_only=True):
    """One protocol of exit codes. Codes that are not in a row, and signals, are warnings."""

    meanings: Meanings
    codes: Mapping[str, Mapping[int, Effect]]  # by event, ELSE for other events: the effect of each code
    text: tuple[Stream, ...]  # where the text of a deny or an inject is, in this order
    input_as_text: bool = False  # `tool_input` is the command itself, not an object
    compact_input: bool = False  # the input is written without spaces, as in seed 000
    default_reason: str

    # -- running a hook --

    def write_call(self, ctx: Context) -> child.ChildCall:
        event, name = ctx.event.as_sent, self.meanings.name
        if getattr(event, "tool_name", None) is None:
            return child.ChildCall(child.event_line(event, self.meanings), child.environment(ctx, self.meanings))
        sent = event.sent_text("tool_input")
        as_json = self._input_json(event, sent)
        as_text = _input_text(event, as_json) if self.input_as_text else None
        payload: dict[str, Any] = {
            "hook_event_name": event.hook_event_name,
            "tool_name": self._called(event),
            "tool_input": _input_object(event) if as_text is None else as_text,
            "tool_input_json": as_json,
        }
        output = child.output_text(event)
        if output is not None or not self.input_as_text:
            payload |= {"tool_output": output, "tool_result_is_error": child.is_error(event)}
        if event.hook_event_name == "PostToolUseFailure":
            payload["tool_error"] = output
        as_sent = sent is not None and as_text is None and not isinstance(getattr(event, "tool_input", None), str)
        texts = {"tool_input": event.json_of("tool_input")} if as_sent else None
        stdin = _sent_with(event, name, payload) or child.line(payload, self.meanings, texts)
        return child.ChildCall(stdin, child.environment(ctx, self.meanings, as_json if as_text is None else as_text))

    def read_exit(self, event: Event, exit: Exit) -> Reply:  # noqa: A002
        return child.evidence(self._read(event, exit), exit)

    def _read(self, event: Event, exit: Exit) -> Reply:  # noqa: A002
        if exit.start_error:
            return child.failed(exit)
        out = printed(exit)
        if out.broken and not names_a_field(out.text):
            out = StdoutContent(out.text)  # text that happens to begin with a brace
        reply = Reply() if out.output is None else read_output(event, out.output, self.meanings)
        readable = out.output is not None and reply.status is Status.OK
        if readable and out.output and self.meanings.feedback and not is_answer(out.output):
            out, reply, readable = StdoutContent(out.text), Reply(), False  # another object: feedback like any text
        if readable and reply.answer.objects:
            return reply  # a complete deny counts with any exit code
        objection = objection_in(exit, event, self.meanings) if out.output is None else None
        if objection is not None:
            return objection
        match "warn" if exit.code is None else self._codes(event).get(exit.code, "warn"):
            case "deny":
                return self._deny(event, exit, reply if readable else Reply(), out.plain)
            case "warn":
                return child.failed(exit, out.broken or reply.error)
            case _ if child.cut(exit):
                return child.TOO_LONG
            case "inject":
                return Reply(answer=Answer(context=exit.stderr_text.strip()))
            case effect:
                if out.broken or (out.output is not None and not readable):
                    return Reply(status=Status.FAILED, error=out.broken or reply.error)
                if readable:
                    return reply
                return Reply(answer=Answer(context=out.text) if effect == "feedback" and out.text else NOTHING)

    def _codes(self, event: Event) -> Mapping[int, Effect]:
        return self.codes.get(event.hook_event_name, self.codes[ELSE])

    def _deny(self, event: Event, exit: Exit, reply: Reply, text: str) -> Reply:  # noqa: A002
        streams = {"stdout": reply.answer.reason or reply.answer.context or text, "stderr": exit.stderr_text.strip()}
        said = next((streams[stream] for stream in self.text if streams[stream]), "")
        called = self._called(event) if hasattr(event, "tool_name") else event.hook_event_name
        reason = said or self.default_reason.format(event=event.hook_event_name, tool=called)
        denied = blocked(event, reason, self.meanings)
        return replace(denied, error=denied.error or child.launch_note(exit))

    # -- acting as a hook --

    def read_call(self, stdin: bytes, env: Mapping[str, str]) -> Event:
        payload = self._payload(stdin, env)
        name, tool = payload.get("hook_event_name"), payload.get("tool_name")
        if not isinstance(name, str) or not isinstance(tool, str):
            return events.parse(payload)
        wire = {
            key: value for key, value in payload.items() if key not in ("tool_input", "tool_output", "tool_input_json")
        }
        given, text = _received_input(payload, stdin)
        wire |= {
            "tool_name": tools.canonical(tool),
            "tool_input": given,
            "cwd": payload.get("cwd") or env.get("CLAUDE_CWD") or env.get("PWD", ""),
            "session_id": payload.get("session_id") or env.get("CLAUDE_SESSION_ID", ""),
        }
        if name == "PostToolUse":
            wire["tool_response"] = payload.get("tool_output")
        if name == "PostToolUseFailure":
            wire["error"] = str(payload.get("tool_error") or payload.get("tool_output") or "")
        return events.parse(wire, tool_input=text)

    def write_exit(self, event: Event, answer: Answer) -> child.ExitResult:
        if answer.objection:  # sent to the model like other context
            answer = replace(answer, objection="")
        plain = self._plain(event, answer)
        if plain is not None and not child.checked_result(self, event, answer, plain, ()).lost:
            return child.ExitResult(plain, ())
        output, lost = write_output(event, answer, self.meanings)
        stdout = strictjson.dumps(output) + "\n" if output else ""
        # An agent that reads only exit codes must also get a deny.
        code = self._code_of(event, "deny") if answer.objects else None
        written = (
            child.exits(0, stdout) if code is None else child.exits(code, stdout, answer.reason or answer.stop_reason)
        )
        return child.checked_result(self, event, answer, written, lost)

    def _plain(self, event: Event, answer: Answer) -> Exit | None:
        """The same answer without JSON, if the protocol has a form for it."""
        for effect, text in (("deny", answer.reason), ("inject", answer.context), ("feedback", answer.context)):
            code = self._code_of(event, effect)
            if code is not None and text:
                on_stderr = effect == "inject" or self.text[0] == "stderr"
                return child.exits(code, "" if on_stderr else text, text if on_stderr else "")
        return child.exits(0) if answer == NOTHING else None

    def _code_of(self, event: Event, effect: str) -> int | None:
        return next((code for code, does in self._codes(event).items() if does == effect), None)

    # -- the tool's input --

    def _called(self, event: Event) -> str:
        return tools.called(str(getattr(event, "tool_name", "")), self.meanings.naming)

    def _input_json(self, event: Event, sent: str | None) -> str:
        """The text of the input: as it was sent, or as the protocol writes it."""
        value = getattr(event, "tool_input", None)
        if isinstance(value, str):
            return value
        if sent is not None:
            return sent
        return strictjson.compact(value) if self.compact_input else event.text_of("tool_input")

    def _payload(self, stdin: bytes, env: Mapping[str, str]) -> dict[str, Any]:
        if not stdin.strip():  # seed 004's hooks read everything from the environment
            return _from_environment(env)
        try:
            payload = strictjson.loads(stdin, max_depth=400, max_bytes=None)
        except StrictJSONError as error:
            raise EventError(f"not JSON: {error.message}") from None
        if not isinstance(payload, dict):
            raise EventError("expected an object")
        return consistent(payload)


def _input_text(event: Event, as_json: str) -> str:
    """Seed 003: the command itself; for tools that have none, JSON."""
    value = getattr(event, "tool_input", None)
    return value["command"] if isinstance(value, dict) and isinstance(value.get("command"), str) else as_json


def _input_object(event: Event) -> Any:
    """Seed 000: the input as an object; text that is not JSON becomes {"raw": text}."""
    value = getattr(event, "tool_input", None)
    found = strictjson.value_in(value)
    return {"raw": value} if isinstance(value, str) and found is value else found


def _sent_with(event: Event, dialect: str, payload: dict[str, Any]) -> bytes:
    """The original text of an event in the same dialect, if it contains everything that a hook needs."""
    sent = event.sent_as(dialect)
    try:
        said = msgspec.json.decode(sent) if sent else None
    except (msgspec.MsgspecError, RecursionError):
        return b""
    return sent + b"\n" if isinstance(said, dict) and {**said, **payload} == said else b""


class _Input(msgspec.Struct):
    tool_input: msgspec.Raw


def _received_input(payload: dict[str, Any], stdin: bytes) -> tuple[Any, bytes | None]:
    """The tool's input, and its original JSON text, if there is one."""
    value, text = payload.get("tool_input"), payload.get("tool_input_json")
    if isinstance(text, str) and value is not None and not _agree(value, text):
        raise ContradictionError(
            "`tool_input` and `tool_input_json` differ, so the input is ambiguous", path="$.tool_input"
        )
    for one in (text, value):
        found = _object_in(one) if isinstance(one, str) else None
        if found is not None and (isinstance(value, str) or found == value):
            return found, str(one).encode("utf-8", "surrogatepass")
    if isinstance(value, str):
        return {"command": value}, None
    try:
        return value, bytes(msgspec.json.decode(stdin, type=_Input).tool_input)
    except (msgspec.MsgspecError, RecursionError):
        return value, None


def _agree(value: Any, text: str) -> bool:
    """Whether `tool_input_json` is equal to `tool_input`: an object, its JSON, its text, or the command alone."""
    found = _object_in(text)
    if found is None:
        return bool(value in (text, {"raw": text}) or strictjson.value_in(value) == strictjson.value_in(text))
    return value in (found, found.get("command")) or strictjson.value_in(value) == found


def _object_in(text: str) -> dict[str, Any] | None:
    found = strictjson.value_in(text)
    return found if isinstance(found, dict) else None


def _from_environment(env: Mapping[str, str]) -> dict[str, Any]:
    payload: dict[str, Any] = {"hook_event_name": env.get("HOOK_EVENT")}
    if "HOOK_TOOL_NAME" in env:
        payload |= {"tool_name": env["HOOK_TOOL_NAME"], "tool_input": env.get("HOOK_TOOL_INPUT", "")}
    if "HOOK_TOOL_OUTPUT" in env:
        payload["tool_output"] = env["HOOK_TOOL_OUTPUT"]
    if env.get("HOOK_TOOL_IS_ERROR") in ("1", "true"):
        payload["tool_result_is_error"] = True
    return payload


CLAW = ExitCodeDialect(
    meanings=rows.CLAW,
    codes={ELSE: {0: "feedback", 2: "deny"}},
    text=("stdout", "stderr"),
    compact_input=True,
    default_reason="{event} hook denied tool `{tool}`",
)

CLAW_TEXT = ExitCodeDialect(
    meanings=rows.CLAW_TEXT,
    codes={
        AFTER: {0: "feedback"},  # informational: it can't block
        FAILED: {0: "feedback"},
        ELSE: {0: "feedback", 2: "deny"},
    },
    text=("stdout", "stderr"),
    input_as_text=True,
    default_reason="{event} hook denied tool `{tool}`",
)

LESSON = ExitCodeDialect(
    meanings=rows.LESSON,
    codes={
        BEFORE: {0: "nothing", 1: "deny", 2: "inject"},
        ELSE: {0: "nothing", 2: "inject"},
    },
    text=("stderr",),
    default_reason="Blocked by hook",
)

DIALECTS = {"claw": CLAW, "claw-text": CLAW_TEXT, "lesson": LESSON}

__all__ = ["AFTER", "BEFORE", "CLAW", "CLAW_TEXT", "DIALECTS", "ELSE", "FAILED", "LESSON", "ExitCodeDialect"]

"""Shared by the dialects: the interface of a codec, the environment of a child, and common failures."""

import os
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from msgspec.structs import replace

from billhook.core import client_env, strictjson, tools
from billhook.core.answers import Answer, Exit, Reply, Status
from billhook.core.dialect_traits import Meanings
from billhook.core.events import JSON_FIELDS, Event
from billhook.core.hook import Context
from billhook.core.lazy import pattern

if TYPE_CHECKING:
    from typing import Protocol
else:
    Protocol = object  # at run time an interface is only a name

ENV_LIMIT = 64 * 1024
"""Bytes of one variable. The kernel rejects a process with one of 131,072, and a guard that can't start is off."""

_GLIMPSE = ENV_LIMIT + 8  # enough of a value to see that it is too long

HOOK_VARIABLES = ("HOOK_EVENT", "HOOK_TOOL_NAME", "HOOK_TOOL_INPUT", "HOOK_TOOL_IS_ERROR", "HOOK_TOOL_OUTPUT")
"""The variables of seeds 000, 003 and 004: set in their dialects only."""

_SURROGATE = pattern("[\ud800-\udfff]")


class ChildCall(NamedTuple):
    stdin: bytes
    env: dict[str, str]


class ExitResult(NamedTuple):
    """The exit of a child, what it can't express, and what waits for a later event."""

    exit: Exit
    lost: tuple[str, ...]
    held: str = ""  # context that only a later event of this agent can carry


class Dialect(Protocol):
    """A two-way codec: `write_call` and `read_exit` run a hook; `read_call` and `write_exit` act as a hook."""

    @property
    def meanings(self) -> Meanings: ...

    def write_call(self, ctx: Context) -> ChildCall:
        """The event as stdin and environment for a child."""

    def read_exit(self, event: Event, exit: Exit) -> Reply:  # noqa: A002
        """The child's exit as an answer or a failure. Never raises."""

    def read_call(self, stdin: bytes, env: Mapping[str, str]) -> Event:
        """The event that an agent sends to its hook. Raises EventError."""

    def write_exit(self, event: Event, answer: Answer) -> ExitResult:
        """An answer as stdout, stderr and exit code. Rounds toward deny."""


# -- the input of a child ------------------------------------------------------------------------------------------


def environment(ctx: Context, meanings: Meanings, input_text: str | None = None) -> dict[str, str]:
    """The variables for one event: those of seed 002 in every dialect, and the dialect's own."""
    event, turn = ctx.event, ctx.turn_id
    sequence = ctx.turn_sequence if turn else None
    env = {
        "CLAUDE_PROJECT_DIR": _callers_environment().get("CLAUDE_PROJECT_DIR") or event.cwd or _here(),
        "CLAUDE_SESSION_ID": event.session_id,
        "CLAUDE_SESSION_NAME": ctx.session_name,
        "CLAUDE_TURN_ID": turn,
        "CLAUDE_TURN_SEQUENCE": "" if sequence is None else str(sequence),
        "CLAUDE_EVENT_TYPE": event.hook_event_name,
        "CLAUDE_CWD": event.cwd,
    }
    if meanings.hook_variables:
        env |= _hook_variables(event, meanings, input_text)
    env |= ctx.env
    together = "".join(env.values())
    if together.isascii() and len(together) <= ENV_LIMIT and "\0" not in together:  # then each of them is, too
        return env
    marks: dict[str, str] = {}
    for key, value in env.items():
        env[key], cut = fit(value)
        if cut:
            marks[f"{key}_TRUNCATED"] = "1"
    return env | marks


def _hook_variables(event: Event, meanings: Meanings, input_text: str | None) -> dict[str, str]:
    env = {"HOOK_EVENT": event.hook_event_name}
    name = getattr(event, "tool_name", None)
    if name is not None:
        env["HOOK_TOOL_NAME"] = tools.called(name, meanings.naming)
        env["HOOK_TOOL_INPUT"] = event.text_of("tool_input", _GLIMPSE) if input_text is None else input_text
        output = output_text(event)
        if output is not None:
            env["HOOK_TOOL_OUTPUT"] = output
        if output is not None or meanings.error_flag_before:
            env["HOOK_TOOL_IS_ERROR"] = meanings.error_flag[is_error(event)]
    return env


def inherited(*, hook_variables: bool = True) -> Mapping[str, str]:
    """The environment of the caller. `hook_variables=False`: without the variables of an outer hook, so that no guard
    gets an outdated tool name."""
    environ = _callers_environment()
    if hook_variables or _STALE.isdisjoint(environ):
        return environ
    return {key: value for key, value in environ.items() if key not in _STALE}


_STALE = {*HOOK_VARIABLES, *(f"{name}_TRUNCATED" for name in HOOK_VARIABLES)}


def _callers_environment() -> Mapping[str, str]:
    served = client_env.served()
    if served is not None:
        return _of_caller(served.environ)
    # Reading os.environ decodes every variable again, a tenth of a hook's cost; comparing its raw data is fast.
    inside = getattr(os.environ, "_data", None)
    if inside is None:
        return _without_ours(os.environ)
    if _inherited.get("from") != inside:
        _inherited.update({"from": dict(inside), "made": _without_ours(os.environ)})
    return _inherited["made"]


def _of_caller(environ: Mapping[str, str]) -> Mapping[str, str]:
    """The same for a caller's environment; a frequent caller passes the same object."""
    kept = _callers.get(id(environ))
    if kept is None or kept[0] is not environ:
        if len(_callers) >= _MOST_CALLERS:
            _callers.clear()
        kept = _callers[id(environ)] = environ, _without_ours(environ)
    return kept[1]


def _without_ours(environ: Mapping[str, str]) -> dict[str, str]:
    return {key: value for key, value in environ.items() if key and key not in _OURS}  # names must not be empty


_OURS = frozenset(
    f"CLAUDE_{name}{end}"
    for name in ("SESSION_ID", "SESSION_NAME", "TURN_ID", "TURN_SEQUENCE", "EVENT_TYPE", "CWD")
    for end in ("", "_TRUNCATED")
)
"""The variables about the event of an outer hook."""
_callers: dict[int, tuple[Mapping[str, str], dict[str, str]]] = {}
_MOST_CALLERS = 64

_inherited: dict[str, dict[Any, Any]] = {}


def fit(value: str) -> tuple[str, bool]:
    """A value that execve accepts, as UTF-8 in any locale: no NUL, no lone surrogate, cut between two characters."""
    if value.isascii() and len(value) <= ENV_LIMIT and "\0" not in value:
        return value, False
    value = value[:_GLIMPSE].replace("\0", "\ufffd")
    try:
        data = value.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        data = _SURROGATE.sub("\ufffd", value).encode("utf-8")
    if len(data) <= ENV_LIMIT:
        return os.fsdecode(data), False
    end = ENV_LIMIT
    while end and data[end] & 0xC0 == 0x80:  # in the middle of a character
        end -= 1
    return os.fsdecode(data[:end]), True


def output_text(event: Event) -> str | None:
    """The tool's output as text; None before it has run."""
    if event.hook_event_name == "PostToolUseFailure":
        return str(getattr(event, "error", ""))
    if event.hook_event_name != "PostToolUse":
        return None
    response = getattr(event, "tool_response", None)
    if response is None or isinstance(response, str):
        return response or ""
    if isinstance(response, dict) and isinstance(response.get("stdout"), str):
        parts = (response["stdout"], response.get("stderr"))
        return "\n".join(part for part in parts if isinstance(part, str) and part)
    told = _text_output(response) if isinstance(response, dict) else ""
    return told or event.text_of("tool_response")


def _text_output(response: Mapping[str, Any]) -> str:
    """The text in the output of Copilot (`textResultForLlm`), Gemini and Qwen (`returnDisplay`, `llmContent`)."""
    for key in ("textResultForLlm", "text_result_for_llm", "returnDisplay", "llmContent"):
        value = response.get(key)
        if key == "llmContent" and isinstance(value, list):
            texts = [part.get("text") for part in value if isinstance(part, dict)]
            value = "\n".join(text for text in texts if isinstance(text, str))
        if isinstance(value, str) and value:
            return value
    return ""


def is_error(event: Event) -> bool:
    if event.hook_event_name == "PostToolUseFailure":
        return True
    response = getattr(event, "tool_response", None) if event.hook_event_name == "PostToolUse" else None
    flagged = isinstance(response, dict) and response.get("is_error") is True
    return flagged or event.given("tool_result_is_error") is True


def line(payload: Mapping[str, Any], meanings: Meanings, texts: Mapping[str, bytes] | None = None) -> bytes:
    """One line of JSON, because seed 003's guard reads one line. `texts` are fields that are already encoded."""
    if not texts:
        return strictjson.written(payload, spaced=meanings.spaced_json) + b"\n"
    parts: list[bytes] = []  # joined once: a field may have many megabytes
    others: dict[str, Any] = {}  # fields since the last encoded one, written together
    for key, value in payload.items():
        if not (text := texts.get(key)):
            others[key] = value
            continue
        if others:
            parts += (b", ", strictjson.written(others)[1:-1])
        parts += (b", ", strictjson.written(key), b": ", text)
        others = {}
    if others:
        parts += (b", ", strictjson.written(others)[1:-1])
    return b"".join((b"{", *parts[1:], b"}\n"))


def event_line(event: Event, meanings: Meanings) -> bytes:
    """The whole event as one line: as an agent of that dialect sent it, otherwise as such an agent would write it."""
    payload, name = event.payload, event.payload.get("tool_name")
    if name is not None and (called := tools.canonical(str(name))) != name:
        payload = {**payload, "tool_name": called}
    elif sent := event.sent_as(meanings.name):
        return sent + b"\n"
    as_sent = [field for field in JSON_FIELDS if field in payload and hasattr(event, field)]
    return line(payload, meanings, {key: event.json_of(key) for key in as_sent} if meanings.spaced_json else None)


def _here() -> str:
    try:
        return client_env.getcwd()
    except OSError:  # it was removed; a guard must still run
        return ""


# -- failures ------------------------------------------------------------------------------------------------------

_NOT_STARTED = pattern(
    r"not found|no such file|permission denied|bad interpreter|cannot execute|exec format error|is a directory",
    re.IGNORECASE,
)
_LAUNCH_FAILURE = pattern(
    r"can't open file|cannot open|no such file or directory|syntax error|unrecognized arguments|usage:", re.IGNORECASE
)


def cut(exit: Exit) -> bool:  # noqa: A002
    """Whether stdout was longer than the limit: then its end is unknown."""
    return exit.truncated and len(exit.stdout) >= strictjson.MAX_BYTES


TOO_LONG = Reply(status=Status.FAILED, error="stdout is longer than 1 MiB, and was not read to its end")


def failed(exit: Exit, answer: str = "") -> Reply:  # noqa: A002
    """The failure of an exit without a meaning in the dialect; `answer`: the problem with its answer."""
    reply = _failed(exit)
    return replace(reply, error=f"{reply.error}; {answer}") if answer else reply


def _failed(exit: Exit) -> Reply:  # noqa: A002
    if exit.start_error:
        return Reply(status=Status.COULD_NOT_START, error=exit.start_error)
    if exit.timed_out:
        return Reply(status=Status.TIMED_OUT, error="no answer in time; the command and its children were ended")
    if exit.lost:
        return Reply(status=Status.FAILED, error="another part of the program collected its exit status")
    told = strictjson.preview(_problem(exit.stderr_text.strip()))
    if exit.signal is not None:
        return Reply(status=Status.FAILED, error=f"killed by signal {exit.signal}{told and ': ' + told}")
    not_started = exit.code in (126, 127) and _NOT_STARTED.search(exit.stderr_text)
    status = Status.COULD_NOT_START if not_started else Status.FAILED
    return Reply(status=status, error=f"exit code {exit.code}{told and ': ' + told}")


def _problem(stderr: str) -> str:
    """The part of stderr to show: of a Python traceback the last line, which has the error."""
    return stderr.rpartition("\n")[2] if "Traceback (most recent call last):" in stderr else stderr


def launch_note(exit: Exit) -> str:  # noqa: A002
    """A note, because interpreters exit with 2 if they can't find their script. It still denies."""
    if _LAUNCH_FAILURE.search(exit.stderr_text):
        return "this looks like a launch failure, not a decision: " + strictjson.preview(exit.stderr_text.strip())
    return ""


def evidence(reply: Reply, exit: Exit) -> Reply:  # noqa: A002
    """The reply with the facts about the child's exit."""
    printed = len(exit.stdout) + len(exit.stderr)
    changes: dict[str, Any] = {"exit_code": exit.code, "signal": exit.signal, "output_bytes": printed}
    if exit.timed_out and reply.status is Status.OK:
        changes["error"] = reply.error or "the hook timed out after it had printed this"
    if exit.truncated:
        changes["lost"] = (*reply.lost, "the output was longer than the limit")
    return replace(reply, **changes)


def checked_result(dialect: Dialect, event: Event, answer: Answer, exit: Exit, lost: Sequence[str]) -> ExitResult:  # noqa: A002
    """The written exit, read back once: something is lost exactly if the result differs."""
    said = dialect.read_exit(event, exit)
    if said.status is Status.OK and said.answer == answer:
        return ExitResult(exit, ())
    return ExitResult(exit, tuple(lost) or ("something that this protocol can't express",))


def exits(code: int, stdout: str = "", stderr: str = "") -> Exit:
    """The exit of billhook as a child."""
    return Exit(code=code, stdout=encoded(stdout), stderr=encoded(stderr))


def encoded(text: str) -> bytes:
    return text.encode("utf-8", "replace")

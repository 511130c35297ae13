"""Agents' transcripts: the tool calls of a session, as the agent recorded them, and all calls of a project.

A transcript may be a hundred megabytes long, and its format is not billhook's: lines are read one by one, those without
a call are skipped by their bytes, and invalid ones are counted.
"""

import os
import re
import shlex
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any, BinaryIO, Final, Literal, TypeVar

import msgspec

from billhook.agents import AGENTS, parsed
from billhook.core import tools

if TYPE_CHECKING:
    from billhook.agents.base import Agent

LONGEST_LINE: Final = 16 << 20  # Bytes. Longer ones are skipped, and counted.
_CHUNK: Final = 1 << 20
_STILL_OPEN: Final = 600.0  # seconds after the last write to a transcript in which a call may still get its result
T = TypeVar("T")


class TranscriptCall(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    tool: str  # the agent's name of it
    input: Mapping[str, Any] = {}
    shell: str = ""  # the shell line that it runs, where the input has it in another form than hooks get
    time: str = ""  # UTC, ISO 8601
    session: str = ""
    agent: str = ""  # the subagent that made it; empty: the agent itself
    cwd: str = ""
    elsewhere: bool = False  # it ran at the model's service, where no hooks run


class CallResult(msgspec.Struct, frozen=True):
    id: str
    came: Literal["ran", "refused", "stopped"] = "ran"
    """`refused`: by the agent itself, before any hook: an unknown tool, or invalid arguments. `stopped`: by the user,
    before it began or while it ran."""


Found = TranscriptCall | CallResult


class TranscriptFile(msgspec.Struct, frozen=True):
    """One file, and how to read it."""

    path: str
    read: "Callable[[TranscriptLines], Iterator[Found]]"


class TranscriptLines:
    """The lines of one file that contain any of some words, and the number of unreadable lines."""

    def __init__(self, path: str, words: Iterable[bytes] = ()) -> None:
        self.path, self.words = path, tuple(words)
        self.unread = 0
        self.bytes = 0

    def having(self, *words: bytes) -> Iterator[bytes]:
        """Those lines, in order. A file that can't be read counts as one unreadable line."""
        try:
            with open(self.path, "rb") as file:
                for line in self._lines(file):
                    self.bytes += len(line)
                    if any(word in line for word in words):
                        yield line
        except OSError:
            self.unread += 1

    def decoded(
        self, decoder: msgspec.json.Decoder[T], *words: bytes, counts: Callable[[bytes], bool] = bool
    ) -> Iterator[T]:
        """Those lines, decoded. An invalid one is skipped, and counted if `counts` is true for it."""
        for line in self.having(*words):
            try:
                yield decoder.decode(line)
            except msgspec.MsgspecError:
                self.unread += counts(line)

    def _lines(self, file: BinaryIO) -> Iterator[bytes]:
        while line := file.readline(LONGEST_LINE):
            if len(line) < LONGEST_LINE or line.endswith(b"\n"):
                yield line
                continue
            self.unread += 1
            while (rest := file.readline(_CHUNK)) and not rest.endswith(b"\n"):
                pass


def named(folder: str, ending: str, *, since: float = 0.0) -> Iterator[str]:
    """Files below a folder with this ending that were written since then, in a fixed order. Links are not followed."""
    for above, folders, names in os.walk(folder):
        folders.sort()
        for name in sorted(names):
            path = os.path.join(above, name)
            if name.endswith(ending) and not os.path.islink(path) and _written(path) >= since:
                yield path


def _written(path: str) -> float:
    try:
        return os.stat(path).st_mtime
    except OSError:
        return -1.0


# All calls of a project:


class PastCall(msgspec.Struct, frozen=True):
    """A call, and what became of it."""

    call: TranscriptCall
    came: Literal["ran", "refused", "stopped", "open"]  # open: it may still get its result

    @property
    def key(self) -> tuple[str, str]:
        """The same for copies: a session that is forked or resumed repeats earlier calls."""
        return self.call.id, self.call.time

    def as_hooks_get_it(self, agent: "Agent") -> tuple[str, Any]:
        """The canonical name of its tool, and its input with canonical names."""
        call = self.call
        if call.shell:
            rest = {key: value for key, value in call.input.items() if key not in ("cmd", "command")}
            return "Bash", {"command": call.shell, **rest}
        tool = tools.canonical(call.tool, agent.name if agent.tools else "")
        return tool, tools.canonical_input(tool, call.input, agent.name)[0]


class TranscriptScan:
    """The calls in all transcripts of a project, file by file; copies of a call are not left out."""

    def __init__(self, agent: "Agent", project: str, is_here: Callable[[str], bool], since: str = "") -> None:
        """`is_here` tests whether a folder belongs to the project; `since` is a time in the format of records."""
        self.agent, self.project, self.is_here, self.since = agent, project, is_here, since
        self.transcripts = self.unread = self.bytes = 0

    def __iter__(self) -> Iterator[PastCall]:
        newest = datetime.fromisoformat(self.since).timestamp() if self.since else 0.0
        for file in READERS[self.agent.name](self.project, self.is_here, newest):
            lines = TranscriptLines(file.path)
            yield from self._calls(file, lines)
            self.transcripts += 1
            self.unread += lines.unread
            self.bytes += lines.bytes

    def _calls(self, file: TranscriptFile, lines: TranscriptLines) -> Iterator[PastCall]:
        waiting: dict[str, TranscriptCall] = {}
        for found in file.read(lines):
            if isinstance(found, CallResult):
                call = waiting.pop(found.id, None)
                if call is not None:
                    yield PastCall(call, found.came)
            elif found.time >= self.since[: len(found.time)]:
                if found.elsewhere:  # its result has another form, and is not needed
                    yield PastCall(found, "ran")
                else:
                    waiting[found.id] = found
        is_open = time.time() - _written(file.path) < _STILL_OPEN
        yield from (PastCall(call, "open" if is_open else "stopped") for call in waiting.values())


# Claude Code: `projects/<folder>/<session>.jsonl`, and those of its subagents below.

_LONGEST_NAME: Final = 200
_CLAUDE_REFUSED: Final = "<tool_use_error>"
_CLAUDE_STOPPED: Final = "[Request interrupted by user"  # the beginning of a result that is not from the tool


class _ContentBlock(msgspec.Struct):
    type: str = ""
    id: str = ""
    name: str = ""
    input: Any = None
    tool_use_id: str = ""
    content: msgspec.Raw = msgspec.Raw(b"null")


class _ClaudeMessage(msgspec.Struct):
    content: list[_ContentBlock] | str | None = None


class _ClaudeLine(msgspec.Struct, rename={"session": "sessionId", "agent": "agentId"}):
    type: str = ""
    message: _ClaudeMessage | None = None
    timestamp: str = ""
    session: str | None = None
    agent: str | None = None
    cwd: str | None = None


class _LineKind(msgspec.Struct):
    type: str = ""


class _Cwd(msgspec.Struct):
    cwd: str | None = None


_CLAUDE_LINE: Final = msgspec.json.Decoder(_ClaudeLine)
_KIND: Final = msgspec.json.Decoder(_LineKind)
_CWD: Final = msgspec.json.Decoder(_Cwd)
_MESSAGES: Final = ("assistant", "user", "")
"""The lines that are turns of the conversation. Others (progress, attachments, summaries) may quote calls."""


def _claude(project: str, is_here: Callable[[str], bool], since: float = 0.0) -> Iterator[TranscriptFile]:
    top = os.path.join(AGENTS["claude"].home(), "projects")
    slug = re.sub(r"[^A-Za-z0-9]", "-", project)[:_LONGEST_NAME]
    try:
        folders = sorted(name for name in os.listdir(top) if name.startswith(slug))
    except OSError:
        return
    for name in folders:
        for path in named(os.path.join(top, name), ".jsonl", since=since):
            began = _began_in(path)
            if is_here(began) if began else name == slug:
                yield TranscriptFile(path, _claude_calls)


def _began_in(path: str) -> str:
    return next((line.cwd or "" for line in TranscriptLines(path).decoded(_CWD, b'"cwd"')), "")


def _claude_calls(lines: TranscriptLines) -> Iterator[Found]:
    for said in lines.decoded(_CLAUDE_LINE, b'"tool_use"', b'"tool_result"', b'"server_tool_use"', counts=_is_message):
        blocks = said.message.content if said.message is not None and said.type in _MESSAGES else None
        for block in blocks if isinstance(blocks, list) else ():
            yield from _claude_found(block, said)


def _is_message(line: bytes) -> bool:
    try:
        return _KIND.decode(line).type in _MESSAGES
    except msgspec.MsgspecError:
        return True


def _claude_found(block: _ContentBlock, said: _ClaudeLine) -> Iterator[Found]:
    if (block.type == "tool_result") == (said.type == "assistant") and said.type:
        return  # a call quoted in a user's turn, or a result quoted in the model's turn
    if block.type == "tool_result" and block.tool_use_id:
        text = _text(bytes(block.content))
        refused, stopped = text.startswith(_CLAUDE_REFUSED), text.startswith(_CLAUDE_STOPPED)
        yield CallResult(block.tool_use_id, "refused" if refused else "stopped" if stopped else "ran")
    elif block.type in ("tool_use", "server_tool_use") and block.id:
        yield TranscriptCall(
            id=block.id,
            tool=block.name,
            input=block.input if isinstance(block.input, Mapping) else {},
            time=said.timestamp,
            session=said.session or "",
            agent=said.agent or "",
            cwd=said.cwd or "",
            elsewhere=block.type == "server_tool_use",
        )


def _text(content: bytes) -> str:
    """The beginning of a result: it is a string, or a list of blocks with one."""
    found = re.match(rb'\s*(?:\[\s*\{[^{}\[\]]{0,200}?"text"\s*:\s*)?"((?:[^"\\]|\\.){0,80})', content)
    return found[1].decode("utf-8", "replace") if found else ""


# Codex: `sessions/<year>/<month>/<day>/rollout-<time>-<thread>.jsonl`.

_CALLS: Final = ("function_call", "custom_tool_call", "local_shell_call")
_SHELLS: Final = ("exec_command", "shell", "shell_command", "container.exec")  # hooks get these as Bash
_SERVICES: Final = ("web_search_call", "image_generation_call")
_CODEX_REFUSED: Final = ("unsupported call", "unsupported custom tool call", "failed to parse function arguments")
_CODEX_STOPPED: Final = "aborted by user"  # the beginning of a result that is not from the tool


class _Payload(msgspec.Struct):
    type: str = ""
    name: str = ""
    call_id: str | None = None
    id: str | None = None
    namespace: str | None = None
    arguments: Any = None
    input: Any = None
    action: Any = None
    output: Any = None


class _CodexLine(msgspec.Struct):
    type: str = ""
    timestamp: str = ""
    payload: _Payload | None = None


class _Meta(msgspec.Struct):
    id: str = ""
    session_id: str | None = None
    parent_thread_id: str | None = None
    cwd: str = ""


class _First(msgspec.Struct):
    payload: _Meta


_CODEX_LINE: Final = msgspec.json.Decoder(_CodexLine)
_FIRST: Final = msgspec.json.Decoder(_First)


def _codex(project: str, is_here: Callable[[str], bool], since: float = 0.0) -> Iterator[TranscriptFile]:
    for folder in ("sessions", "archived_sessions"):
        for path in named(os.path.join(AGENTS["codex"].home(), folder), ".jsonl", since=since):
            meta = _meta(path)
            if meta is not None and meta.cwd and is_here(meta.cwd):
                yield TranscriptFile(path, _codex_calls)


def _meta(path: str) -> _Meta | None:
    return next((line.payload for line in TranscriptLines(path).decoded(_FIRST, b'"session_meta"')), None)


def _codex_calls(lines: TranscriptLines) -> Iterator[Found]:
    meta = _meta(lines.path) or _Meta()
    session = meta.session_id or meta.id
    agent = meta.id if meta.parent_thread_id or meta.id != session else ""
    for said in lines.decoded(_CODEX_LINE, b'_call"', b'_call_output"'):
        if said.type == "response_item" and said.payload is not None:
            yield from _codex_found(said.payload, said.timestamp, session, agent, meta.cwd)


def _codex_found(said: _Payload, time: str, session: str, agent: str, cwd: str) -> Iterator[Found]:
    id_ = said.call_id or said.id or ""
    if said.type.endswith("_call_output") and id_:
        text = said.output if isinstance(said.output, str) else ""
        stopped = _CODEX_STOPPED in text[:100]
        yield CallResult(id_, "refused" if text.startswith(_CODEX_REFUSED) else "stopped" if stopped else "ran")
    elif said.type in (*_CALLS, *_SERVICES) and id_:
        yield TranscriptCall(
            id=id_,
            tool=said.name or said.type.removesuffix("_call"),
            input=(given := _arguments(said)),
            shell=_shell(said, given),
            time=time,
            session=session,
            agent=agent,
            cwd=cwd,
            elsewhere=said.type in _SERVICES,
        )


def _arguments(said: _Payload) -> Mapping[str, Any]:
    if isinstance(said.arguments, str):
        value = parsed(said.arguments)
        return value if isinstance(value, dict) else {"arguments": said.arguments}
    if isinstance(said.action, dict):
        return said.action
    return {"input": said.input} if isinstance(said.input, str) else {}


def _shell(said: _Payload, given: Mapping[str, Any]) -> str:
    """The line of a shell call: `cmd`, or the last word of `bash -lc LINE`."""
    if said.type != "local_shell_call" and said.name not in _SHELLS:
        return ""
    command = given.get("cmd") or given.get("command")
    if not isinstance(command, list):
        return command if isinstance(command, str) else ""
    words = [str(word) for word in command]
    return words[2] if len(words) == 3 and words[1] in ("-c", "-lc") else shlex.join(words)


# Gemini CLI: `tmp/<project>/chats/session-<time>.jsonl`, and those of its subagents below.

_NO_TOOL: Final = b'" not found.'  # in the result of a call to an unknown tool, for which no hook runs


class _ToolCall(msgspec.Struct):
    id: str = ""
    name: str = ""
    args: Any = None
    status: str = ""
    timestamp: str = ""
    result: msgspec.Raw = msgspec.Raw(b"null")


class _GeminiLine(msgspec.Struct, rename={"calls": "toolCalls"}):
    calls: list[_ToolCall] = []


class _Head(msgspec.Struct, rename={"session": "sessionId"}):
    session: str = ""
    kind: str = ""


_GEMINI_LINE: Final = msgspec.json.Decoder(_GeminiLine)
_HEAD: Final = msgspec.json.Decoder(_Head)


def _gemini(project: str, is_here: Callable[[str], bool], since: float = 0.0) -> Iterator[TranscriptFile]:
    top = os.path.join(AGENTS["gemini"].home(), "tmp")
    try:
        folders = sorted(os.listdir(top))
    except OSError:
        return
    for name in folders:
        root = _root(os.path.join(top, name))
        if root and is_here(root):
            for path in named(os.path.join(top, name, "chats"), ".jsonl", since=since):
                yield TranscriptFile(path, _gemini_calls)


def _root(folder: str) -> str:
    """The project that a folder belongs to; empty if it is not known."""
    try:
        with open(os.path.join(folder, ".project_root"), encoding="utf-8", errors="replace") as file:
            return file.read(4096).strip()
    except OSError:
        return ""


def _gemini_calls(lines: TranscriptLines) -> Iterator[Found]:
    # A message is written again when its calls have ended.
    head = next(TranscriptLines(lines.path).decoded(_HEAD, b'"sessionId"'), _Head())
    chats = os.path.dirname(lines.path)
    subagent = head.session if head.kind == "subagent" else ""
    session = os.path.basename(chats) if subagent else head.session
    cwd = _root(os.path.dirname(os.path.dirname(chats) if subagent else chats))
    for said in lines.decoded(_GEMINI_LINE, b'"toolCalls"'):
        for one in said.calls:
            yield TranscriptCall(
                id=one.id,
                tool=one.name,
                input=one.args if isinstance(one.args, Mapping) else {},
                time=one.timestamp,
                session=session,
                agent=subagent,
                cwd=cwd,
            )
            yield _result(one)


def _result(call: _ToolCall) -> CallResult:
    if call.status == "error" and _NO_TOOL in bytes(call.result):
        return CallResult(call.id, "refused")
    return CallResult(call.id, "stopped" if call.status == "cancelled" else "ran")


# pi: `sessions/<folder>/<time>_<session>.jsonl`.

_PI_NO_TOOL: Final = re.compile(r"Tool \S+ not found")


class _PiBlock(msgspec.Struct):
    type: str = ""
    id: str = ""
    name: str = ""
    arguments: Any = None
    text: str = ""


class _PiMessage(msgspec.Struct, rename={"call": "toolCallId"}):
    role: str = ""
    content: list[_PiBlock] | str | None = None
    call: str = ""


class _PiLine(msgspec.Struct):
    message: _PiMessage
    timestamp: str = ""


_PI_LINE: Final = msgspec.json.Decoder(_PiLine)
_PI_HEAD: Final = msgspec.json.Decoder(_Meta)


def _pi(project: str, is_here: Callable[[str], bool], since: float = 0.0) -> Iterator[TranscriptFile]:
    for path in named(os.path.join(AGENTS["pi"].home(), "sessions"), ".jsonl", since=since):
        if (began := _began_in(path)) and is_here(began):
            yield TranscriptFile(path, _pi_calls)


def _pi_calls(lines: TranscriptLines) -> Iterator[Found]:
    head = next(TranscriptLines(lines.path).decoded(_PI_HEAD, b'"session"'), _Meta())
    for said in lines.decoded(_PI_LINE, b'"toolCall"', b'"toolCallId"'):
        blocks = said.message.content if isinstance(said.message.content, list) else []
        if said.message.role == "toolResult":
            refused = any(_PI_NO_TOOL.fullmatch(block.text) for block in blocks)
            yield CallResult(said.message.call, "refused" if refused else "ran")
        elif said.message.role == "assistant":
            yield from (_pi_call(one, said.timestamp, head) for one in blocks if one.type == "toolCall")


def _pi_call(one: _PiBlock, time: str, head: _Meta) -> TranscriptCall:
    given = one.arguments if isinstance(one.arguments, Mapping) else {}
    return TranscriptCall(id=one.id, tool=one.name, input=given, time=time, session=head.id, cwd=head.cwd)


READERS: Final = {"claude": _claude, "codex": _codex, "gemini": _gemini, "pi": _pi}
"""By agent: the transcripts of sessions that began in a project. The second argument tests whether a folder belongs to
it; the third is the time since which a file must have been written."""

"""Gemini CLI's transcripts: `tmp/<project>/chats/session-<time>.jsonl`, and those of its subagents below."""

import os
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

import msgspec

from billhook.agents import AGENTS
from billhook.agents.transcripts import CallResult, Found, TranscriptCall, TranscriptFile, TranscriptLines, named

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


_LINE: Final = msgspec.json.Decoder(_GeminiLine)
_HEAD: Final = msgspec.json.Decoder(_Head)


def transcripts(project: str, is_here: Callable[[str], bool], since: float = 0.0) -> Iterator[TranscriptFile]:
    """The transcripts of sessions that began in this project. `is_here` tests a folder."""
    top = os.path.join(AGENTS["gemini"].home(), "tmp")
    try:
        folders = sorted(os.listdir(top))
    except OSError:
        return
    for name in folders:
        root = _root(os.path.join(top, name))
        if root and is_here(root):
            for path in named(os.path.join(top, name, "chats"), ".jsonl", since=since):
                yield TranscriptFile(path, calls)


def _root(folder: str) -> str:
    """The project that a folder belongs to; empty if it is not known."""
    try:
        with open(os.path.join(folder, ".project_root"), encoding="utf-8", errors="replace") as file:
            return file.read(4096).strip()
    except OSError:
        return ""


def calls(lines: TranscriptLines) -> Iterator[Found]:
    """Every call, and every result, of a transcript. A message is written again when its calls have ended."""
    head = next(TranscriptLines(lines.path).decoded(_HEAD, b'"sessionId"'), _Head())
    chats = os.path.dirname(lines.path)
    subagent = head.session if head.kind == "subagent" else ""
    session = os.path.basename(chats) if subagent else head.session
    cwd = _root(os.path.dirname(os.path.dirname(chats) if subagent else chats))
    for said in lines.decoded(_LINE, b'"toolCalls"'):
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

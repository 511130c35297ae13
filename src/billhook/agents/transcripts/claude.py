"""Claude Code's transcripts: `projects/<folder>/<session>.jsonl`, and those of its subagents below."""

import os
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

import msgspec

from billhook.agents import AGENTS
from billhook.agents.transcripts import CallResult, Found, TranscriptCall, TranscriptFile, TranscriptLines, named

_LONGEST_NAME: Final = 200
_REFUSED: Final = "<tool_use_error>"
_STOPPED: Final = "[Request interrupted by user"  # the beginning of a result that is not from the tool


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


_LINE: Final = msgspec.json.Decoder(_ClaudeLine)
_KIND: Final = msgspec.json.Decoder(_LineKind)
_CWD: Final = msgspec.json.Decoder(_Cwd)
_MESSAGES: Final = ("assistant", "user", "")
"""The lines that are turns of the conversation. Others (progress, attachments, summaries) may quote calls."""


def transcripts(project: str, is_here: Callable[[str], bool], since: float = 0.0) -> Iterator[TranscriptFile]:
    """The transcripts of sessions that began in this project. `is_here` tests a folder."""
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
                yield TranscriptFile(path, calls)


def _began_in(path: str) -> str:
    """The folder in the first line that has one."""
    return next((line.cwd or "" for line in TranscriptLines(path).decoded(_CWD, b'"cwd"')), "")


def calls(lines: TranscriptLines) -> Iterator[Found]:
    """Every call, and every result, of a transcript."""
    for said in lines.decoded(_LINE, b'"tool_use"', b'"tool_result"', b'"server_tool_use"', counts=_is_message):
        blocks = said.message.content if said.message is not None and said.type in _MESSAGES else None
        for block in blocks if isinstance(blocks, list) else ():
            yield from _found(block, said)


def _is_message(line: bytes) -> bool:
    try:
        return _KIND.decode(line).type in _MESSAGES
    except msgspec.MsgspecError:
        return True


def _found(block: _ContentBlock, said: _ClaudeLine) -> Iterator[Found]:
    if (block.type == "tool_result") == (said.type == "assistant") and said.type:
        return  # a call quoted in a user's turn, or a result quoted in the model's turn
    if block.type == "tool_result" and block.tool_use_id:
        text = _text(bytes(block.content))
        refused, stopped = text.startswith(_REFUSED), text.startswith(_STOPPED)
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

"""Codex's transcripts: `sessions/<year>/<month>/<day>/rollout-<time>-<thread>.jsonl`."""

import os
import shlex
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

import msgspec

from billhook.agents import AGENTS
from billhook.agents.inbound import parsed
from billhook.agents.transcripts import CallResult, Found, TranscriptCall, TranscriptFile, TranscriptLines, named

_FOLDERS: Final = ("sessions", "archived_sessions")
_CALLS: Final = ("function_call", "custom_tool_call", "local_shell_call")
_SHELLS: Final = ("exec_command", "shell", "shell_command", "container.exec")  # hooks get these as Bash
_SERVICES: Final = ("web_search_call", "image_generation_call")
_REFUSED: Final = ("unsupported call", "unsupported custom tool call", "failed to parse function arguments")
_STOPPED: Final = "aborted by user"  # the beginning of a result that is not from the tool


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


_LINE: Final = msgspec.json.Decoder(_CodexLine)
_FIRST: Final = msgspec.json.Decoder(_First)


def transcripts(project: str, is_here: Callable[[str], bool], since: float = 0.0) -> Iterator[TranscriptFile]:
    """The transcripts of threads that began in this project. `is_here` tests a folder."""
    for folder in _FOLDERS:
        for path in named(os.path.join(AGENTS["codex"].home(), folder), ".jsonl", since=since):
            meta = _meta(path)
            if meta is not None and meta.cwd and is_here(meta.cwd):
                yield TranscriptFile(path, calls)


def _meta(path: str) -> _Meta | None:
    """The first line's data about the thread; None if there is none."""
    return next((line.payload for line in TranscriptLines(path).decoded(_FIRST, b'"session_meta"')), None)


def calls(lines: TranscriptLines) -> Iterator[Found]:
    """Every call, and every result, of a transcript."""
    meta = _meta(lines.path) or _Meta()
    session = meta.session_id or meta.id
    agent = meta.id if meta.parent_thread_id or meta.id != session else ""
    for said in lines.decoded(_LINE, b'_call"', b'_call_output"'):
        if said.type == "response_item" and said.payload is not None:
            yield from _found(said.payload, said.timestamp, session, agent, meta.cwd)


def _found(said: _Payload, time: str, session: str, agent: str, cwd: str) -> Iterator[Found]:
    id_ = said.call_id or said.id or ""
    if said.type.endswith("_call_output") and id_:
        text = said.output if isinstance(said.output, str) else ""
        stopped = _STOPPED in text[:100]
        yield CallResult(id_, "refused" if text.startswith(_REFUSED) else "stopped" if stopped else "ran")
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

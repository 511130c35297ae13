"""Agents' transcripts: the tool calls of a session, as the agent recorded them, and all calls of a project.

A transcript may be a hundred megabytes long, and its format is not billhook's: lines are read one by one, those without
a call are skipped by their bytes, and invalid ones are counted.
"""

import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime
from importlib import import_module
from typing import TYPE_CHECKING, Any, BinaryIO, Final, Literal, TypeVar

import msgspec

from billhook.core import tools

if TYPE_CHECKING:
    from billhook.agents.base import Agent

LONGEST_LINE: Final = 16 << 20  # Bytes. Longer ones are skipped, and counted.
_CHUNK: Final = 1 << 20
_STILL_OPEN: Final = 600.0  # seconds after the last write to a transcript in which a call may still get its result
T = TypeVar("T")


class TranscriptCall(msgspec.Struct, frozen=True, kw_only=True):
    """One tool call of a transcript."""

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
    """The result of a call."""

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
        for file in import_module(self.agent.transcripts).transcripts(self.project, self.is_here, newest):
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

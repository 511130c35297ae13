"""Agents' transcripts: the tool calls of a session, as the agent recorded them.

A transcript may be a hundred megabytes long, and its format is not billhook's: lines are read one by one, those without
a call are skipped by their bytes, and invalid ones are counted.
"""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, BinaryIO, Final, Literal, TypeVar

import msgspec

LONGEST_LINE: Final = 16 << 20  # Bytes. Longer ones are skipped, and counted.
_CHUNK: Final = 1 << 20
T = TypeVar("T")


class TranscriptCall(msgspec.Struct, frozen=True, kw_only=True):
    """One tool call of a transcript."""

    id: str
    tool: str  # the agent's name of it
    input: Mapping[str, Any] = {}
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

"""The end of a log file: opened without following links, read from behind, repaired, moved aside when it is full.

Everything here is done by whoever holds the log's lock.
"""

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from billhook.core.lazy import pattern
from billhook.store import files
from billhook.store.digest import sha256
from billhook.store.log import record as lines
from billhook.store.log.record import LineEnds

CURRENT = "hooks.jsonl"
LOCK = "hooks.lock"
LONGEST_LINE = 16 << 20  # Bytes. A longer line is not looked at: it is none of ours.
_ROTATED = pattern(r"hooks-([0-9]{12})\.jsonl")
_BLOCK = 64 << 10
_NO_LOG = "so no log is kept in it"
_FLAGS = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class Fragment(NamedTuple):
    """The unfinished bytes at the end of a file: from `start` to its end."""

    start: int
    bytes: int
    sha256: str


class End(NamedTuple):
    """What stands at the end of a file."""

    last: LineEnds | None  # the last record of ours; None: there is none in what was looked at
    fragment: Fragment | None


def rotated_name(first_seq: int) -> str:
    """The name of a file that is full, by the number of its first record."""
    return f"hooks-{first_seq:012d}.jsonl"


def rotated_names(folder: int) -> list[str]:
    """The names of the full files in an open folder, the oldest first."""
    return sorted(name for name in os.listdir(folder) if _ROTATED.fullmatch(name))


def open_to_append(folder: int, path: Path) -> int:
    """The file of an open folder, made 0600 when there is none. Raises StoreError for what is not a file of ours."""
    with files.explained("open", path):
        files.refuse_strange(files.status(path.name, folder), path, _NO_LOG)
        file = os.open(path.name, os.O_RDWR | os.O_APPEND | os.O_CREAT | _FLAGS, 0o600, dir_fd=folder)
        try:
            found = os.fstat(file)
            files.refuse_strange(found, path, _NO_LOG)
            if found.st_mode & 0o077:
                os.fchmod(file, 0o600)
        except BaseException:
            os.close(file)
            raise
    return file


@contextmanager
def reading(folder: int, path: Path) -> Iterator[int | None]:
    """A file of an open folder, open to be read; None when there is none. Raises StoreError for what is not ours."""
    file: int | None = None
    try:
        with files.explained("read", path):
            try:
                file = os.open(path.name, os.O_RDONLY | _FLAGS, dir_fd=folder)
                files.refuse_strange(os.fstat(file), path, _NO_LOG)
            except FileNotFoundError:
                pass
        yield file
    finally:
        if file is not None:
            os.close(file)


def last_of(folder: int, paths: Iterable[Path]) -> LineEnds | None:
    """The last record in the first of some files that has one."""
    for path in paths:
        with reading(folder, path) as file:
            last = None if file is None else read_end(file, 0, os.fstat(file).st_size).last
        if last is not None:
            return last
    return None


def read_end(file: int, since: int, size: int) -> End:
    """Look from `size` back to `since`, the start of a line, until a record of ours is met."""
    back = _backward(file, since, size)
    start, stop = next(back)
    if start == stop:
        return End(next((record for begin, end in back if (record := _own(file, begin, end))), None), None)
    record = _own(file, start, stop)
    if record and lines.is_whole(_read(file, start, stop)):  # all but its newline: it counts
        return End(record, fragment(file, start, size))
    torn = True  # the repair of an earlier fragment may have been torn itself: what lies before belongs to this one
    for begin, end in back:
        if record := _own(file, begin, end):
            return End(record, fragment(file, start, size))
        torn = torn and _read(file, begin, min(end, begin + len(lines.START))) == lines.START
        start = begin if torn else start
    return End(None, fragment(file, start, size))


def first_seq(file: int) -> int | None:
    """The number of the first record in a file; None when it has none."""
    with open(file, "rb", closefd=False) as stream:
        stream.seek(0)
        while line := stream.readline(LONGEST_LINE):
            if found := lines.read_line(line[:-1]):
                return found.seq
    return None


def fragment(file: int, start: int, end: int) -> Fragment:
    """The bytes of a file between two places, by their digest."""
    digest = sha256()
    for begin in range(start, end, _BLOCK):
        digest.update(_read(file, begin, min(end, begin + _BLOCK)))
    return Fragment(start, end - start, digest.hexdigest())


def _own(file: int, start: int, stop: int) -> LineEnds | None:
    return lines.read_line(_read(file, start, stop)) if stop - start <= LONGEST_LINE else None


def _backward(file: int, since: int, size: int) -> Iterator[tuple[int, int]]:
    """Start and end of every line, newline excluded, from the last: first what has no newline yet, mostly nothing."""
    stop = position = size
    while position > since:
        begin = max(since, position - _BLOCK)
        block = _read(file, begin, position)
        at = len(block)
        while (at := block.rfind(b"\n", 0, at)) >= 0:
            yield begin + at + 1, stop
            stop = begin + at
        position = begin
    yield since, stop


def _read(file: int, start: int, stop: int) -> bytes:
    return os.pread(file, stop - start, start)

"""The end of a log file: opened without following links, read from behind, repaired, moved aside when it is full.

Everything here is done by whoever holds the log's lock.
"""

import errno
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from billhook.later import pattern
from billhook.store import lines
from billhook.store.digest import sha256
from billhook.store.files import StoreError
from billhook.store.lines import Line

CURRENT = "hooks.jsonl"
LOCK = "hooks.lock"
LONGEST_LINE = 16 << 20  # Bytes. A longer line is not looked at: it is none of ours.
_ROTATED = pattern(r"hooks-([0-9]{12})\.jsonl")
_BLOCK = 64 << 10
_FLAGS = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class Fragment(NamedTuple):
    """The unfinished bytes at the end of a file: from `start` to its end."""

    start: int
    bytes: int
    sha256: str


class End(NamedTuple):
    """What stands at the end of a file."""

    last: Line | None  # the last record of ours; None: there is none in what was looked at
    fragment: Fragment | None


def rotated_name(first_seq: int) -> str:
    """The name of a file that is full, by the number of its first record."""
    return f"hooks-{first_seq:012d}.jsonl"


def rotated_names(folder: int) -> list[str]:
    """The names of the full files in an open folder, the oldest first."""
    return sorted(name for name in os.listdir(folder) if _ROTATED.fullmatch(name))


def open_to_append(folder: int, path: Path) -> int:
    """The file of an open folder, made 0600 when there is none. Raises StoreError for what is not a file of ours."""
    try:
        _refuse_strange(_status(folder, path.name), path)
        file = os.open(path.name, os.O_RDWR | os.O_APPEND | os.O_CREAT | _FLAGS, 0o600, dir_fd=folder)
    except OSError as error:
        raise failed("open", path, error) from error
    try:
        found = os.fstat(file)
        _refuse_strange(found, path)
        if found.st_mode & 0o077:
            os.fchmod(file, 0o600)
    except OSError as error:
        os.close(file)
        raise failed("open", path, error) from error
    except StoreError:
        os.close(file)
        raise
    return file


def open_to_read(folder: int, path: Path) -> int:
    """A file of an open folder. FileNotFoundError when there is none, StoreError for what is not a file of ours."""
    try:
        file = os.open(path.name, os.O_RDONLY | _FLAGS, dir_fd=folder)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise failed("read", path, error) from error
    try:
        _refuse_strange(os.fstat(file), path)
    except StoreError:
        os.close(file)
        raise
    return file


def read_end(file: int, since: int, size: int) -> End:
    """Look from `size` back to `since`, the start of a line, until a record of ours is met."""
    back = _backward(file, since, size)
    start, stop = next(back)
    if start == stop:
        return End(_last(file, back), None)
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


def failed(doing: str, path: Path, error: OSError) -> StoreError:
    """The system's error in our words."""
    message = "it is a symbolic link" if error.errno == errno.ELOOP else error.strerror or str(error)
    hint = _HINTS.get(error.errno or 0, "set BILLHOOK_HOME to a folder that you can write")
    return StoreError(f"can't {doing} it: {message}", place=str(path), hint=hint)


def _last(file: int, back: Iterator[tuple[int, int]]) -> Line | None:
    return next((record for start, stop in back if (record := _own(file, start, stop))), None)


def _own(file: int, start: int, stop: int) -> Line | None:
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


def _status(folder: int, name: str) -> os.stat_result | None:
    try:
        return os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return None


def _refuse_strange(found: os.stat_result | None, path: Path) -> None:
    if found is None:
        return
    if not stat.S_ISREG(found.st_mode):
        what = "a symbolic link" if stat.S_ISLNK(found.st_mode) else "not a file"
        raise StoreError(f"it is {what}, so no log is kept in it", place=str(path), hint=f"move it away: {path}")
    if found.st_uid not in (0, os.geteuid()):
        hint = "set BILLHOOK_HOME to a folder of your own, or take it over"
        raise StoreError("it belongs to another user", place=str(path), hint=hint)


_HINTS = {
    errno.ENOSPC: "make room on that disk",
    errno.EDQUOT: "make room: your quota is used up",
    errno.EFBIG: "the largest file that this process may write is smaller: see `ulimit -f`",
    errno.ELOOP: "replace the link by the real thing; billhook follows none here",
    errno.ENOTDIR: "a file or a link lies where a folder is needed: move it away",
}

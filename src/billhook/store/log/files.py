"""Bytes in a buffer: the C library's `memmem` finds them in two thirds of the time that Python takes."""

import os
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, Final, NamedTuple

from billhook.store.files import opened, status
from billhook.store.log.tail import CURRENT, reading, rotated_names

Find = Callable[[bytes, int, int], int]  # As `bytearray.find`: what, from where, up to where; -1 when it is not there


def quick_find(buffer: bytearray) -> Find:
    """How to find something in a buffer. It can't be resized as long as the answer is kept."""
    memmem = _memmem()
    if memmem is None or not buffer:
        return buffer.find
    import ctypes

    held = ctypes.c_char.from_buffer(buffer)
    size = len(buffer)

    def find(needle: bytes, start: int, stop: int) -> int:
        if not 0 <= start <= stop <= size:
            return buffer.find(needle, start, stop)
        first = ctypes.addressof(held)
        found = memmem(first + start, stop - start, needle, len(needle))
        return -1 if found is None else int(found) - first

    return find


@cache
def _memmem() -> Any:
    """The function, or None. Loading it takes as long as searching some megabytes."""
    if os.name != "posix":
        return None
    try:
        import ctypes

        function = ctypes.CDLL(None).memmem
    except (ImportError, OSError, AttributeError):
        return None
    function.restype = ctypes.c_void_p
    function.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_char_p, ctypes.c_size_t]
    return function


# A file of lines in blocks of whole lines, from either end:


FIRST: Final = 16 << 10  # bytes that are read at the end of a file first: a few records, without reading many
BLOCK: Final = 256 << 10
_AROUND: Final = 4 << 10
LONGEST: Final = 16 << 20  # a longer line is passed over: no record is that long


class LineBlock(NamedTuple):
    """Whole lines: `data[start:stop]`, valid until the next block is asked for."""

    offset: int  # where `data` begins in the file
    data: bytearray
    start: int
    stop: int
    lost: int = 0  # lines that were passed over here

    def lines(self) -> list[tuple[int, bytes | None]]:
        """Every line without its newline, with its offset in the file."""
        if self.stop == self.start:
            return []
        found: list[tuple[int, bytes | None]] = []
        offset = self.offset + self.start
        for line in bytes(memoryview(self.data)[self.start : self.stop - 1]).split(b"\n"):
            found.append((offset, line))
            offset += len(line) + 1
        return found

    def lines_with(self, needles: tuple[bytes, ...], find: Find) -> list[tuple[int, bytes | None]]:
        """The lines that have one of some bytes in them. `find` looks into `data`."""
        data, at, stop, view = self.data, self.start, self.stop, memoryview(self.data)
        found: list[tuple[int, bytes | None]] = []
        places = [-1] * len(needles)
        while True:
            for index, needle in enumerate(needles):
                if places[index] < at:
                    hit = find(needle, at, stop)
                    places[index] = stop if hit < 0 else hit
            hit = min(places, default=stop)
            if hit == stop:
                return found
            begin = data.rfind(b"\n", at, hit) + 1 or at
            end = data.find(b"\n", hit, stop)
            found.append((self.offset + begin, bytes(view[begin:end])))
            at = end + 1


def forward(file: int, offset: int = 0, *, closed: bool = False, end: int = sys.maxsize) -> Iterator[LineBlock]:
    """Blocks from `offset`, which is the beginning of a line, to `end` or the end that the file has when we come there.

    A line without a newline at the end is not there yet; in a file that is `closed` it is passed over.
    """
    buffer = bytearray(BLOCK)
    while True:
        got = _fill(file, buffer, offset, min(len(buffer), end - offset))
        whole = buffer.rfind(b"\n", 0, got) + 1
        if whole:
            yield LineBlock(offset, buffer, 0, whole)
            offset += whole
            if len(buffer) > BLOCK:
                buffer = bytearray(BLOCK)
        elif got < len(buffer):
            if got and closed:
                yield LineBlock(offset, buffer, 0, 0, lost=1)
            return
        elif len(buffer) < LONGEST:
            buffer = bytearray(2 * len(buffer))
        else:
            offset, ended = _after_line(file, offset + got, buffer)
            if ended or closed:
                yield LineBlock(offset, buffer, 0, 0, lost=1)


def backward(file: int, end: int, *, closed: bool = False) -> Iterator[LineBlock]:
    """Blocks from `end` to the beginning of the file, in this order, small ones first."""
    size, buffer = FIRST, bytearray(FIRST)
    last = end_of_lines(file, end)
    if last < end and closed:
        yield LineBlock(last, buffer, 0, 0, lost=1)
    end = last
    while end > 0:
        begin = max(0, end - size)
        if len(buffer) < end - begin:
            buffer = bytearray(size)
        got = _fill(file, buffer, begin, end - begin)
        if got < end - begin:  # cut off meanwhile
            end = end_of_lines(file, begin + got)
            continue
        start = buffer.find(b"\n", 0, got - 1) + 1 if begin else 0
        if start or not begin:
            yield LineBlock(begin, buffer, start, got)
            end = begin + start
            size = min(2 * size, BLOCK)
            if len(buffer) > BLOCK:
                buffer = bytearray(BLOCK)
        elif size < LONGEST:
            size *= 2
        else:
            end = end_of_lines(file, begin)
            yield LineBlock(end, buffer, 0, 0, lost=1)
            size = BLOCK


def lines_at(file: int, places: Iterable[int]) -> Iterator[tuple[int, bytes | None]]:
    """The lines at some places, which go up or down, each line once, with its offset; None for one that is too long.

    One without a newline is not there yet.
    """
    begin = end = 0
    for place in places:
        if not begin <= place < end:
            begin, end, line = _line_around(file, place)
            if end > begin:
                yield begin, line


def _line_around(file: int, place: int) -> tuple[int, int, bytes | None]:
    """Begin and end of a line, newline included, and the line without it. It has no end when it is unfinished."""
    size = _AROUND
    while size <= LONGEST:
        first = max(0, place - size)
        data = os.pread(file, place - first + size, first)
        start = data.rfind(b"\n", 0, place - first) + 1
        stop = data.find(b"\n", place - first)
        if stop >= 0 and (start or not first):
            return first + start, first + stop + 1, data[start:stop]
        if stop < 0 and first + len(data) < place + size:
            return first, first, None
        size *= 2
    end, ended = _after_line(file, place, bytearray(BLOCK))
    return (end_of_lines(file, place), end, None) if ended else (place, place, None)


def end_of_lines(file: int, end: int) -> int:
    """Where the last whole line before `end` ends: after a newline, or at 0."""
    if end and os.pread(file, 1, end - 1) == b"\n":
        return end
    while end > 0:
        begin = max(0, end - BLOCK)
        newline = os.pread(file, end - begin, begin).rfind(b"\n")
        if newline >= 0:
            return begin + newline + 1
        end = begin
    return 0


def _after_line(file: int, offset: int, buffer: bytearray) -> tuple[int, bool]:
    """Where the line that goes on at `offset` is over, and whether it has ended at all."""
    while got := _fill(file, buffer, offset, BLOCK):
        newline = buffer.find(b"\n", 0, got)
        if newline >= 0:
            return offset + newline + 1, True
        offset += got
    return offset, False


def _fill(file: int, buffer: bytearray, offset: int, size: int) -> int:
    """How many bytes of the file are in the buffer now: fewer than `size` only at its end."""
    with memoryview(buffer) as view:
        return os.preadv(file, [view[:size]], offset)


# The files of an event log as they lie there at one moment, for somebody who reads them while others write.


Progress = Callable[[int, int], object]  # called now and then while a log is read: bytes done, bytes in all


class LogFile(NamedTuple):
    """One file of a log while it is open."""

    path: Path
    descriptor: int
    closed: bool  # rotated: nobody adds to it

    @property
    def size(self) -> int:
        return os.fstat(self.descriptor).st_size


class LogFiles:
    """The files of a log at one moment, oldest first; each is opened when it is asked for.

    A rotation meanwhile hides and doubles nothing: the current file was opened before the others were listed.
    """

    def __init__(self, path: Path, within: int, current: int | None) -> None:
        self._folder = path.parent
        self._within = within
        self._current = None if current is None else LogFile(path, current, False)
        self.names = older_names(within, current)
        if current is not None:
            self.names.append(CURRENT)

    @contextmanager
    def opened(self, name: str) -> Iterator[LogFile | None]:
        """One of the files; None for one that is gone. Raises StoreError."""
        if name == CURRENT:
            yield self._current
            return
        path = self._folder / name
        with reading(self._within, path) as file:
            yield None if file is None else LogFile(path, file, True)


@contextmanager
def open_log_files(folder: Path, root: Path) -> Iterator[LogFiles | None]:
    """The files of a log as they are now; None: there is no log. Raises StoreError."""
    with opened(folder, root) as within:
        if within is None:
            yield None
            return
        path = folder / CURRENT
        with reading(within, path) as current:
            yield LogFiles(path, within, current)


def older_names(folder: int, current: int | None) -> list[str]:
    """The names of the rotated files that were full before a file which was the current one a moment ago was begun.

    All of them as a rule. But that file, and others after it, may have been rotated since it was opened.
    """
    names = rotated_names(folder)
    if current is None or is_at(CURRENT, folder, current):
        return names
    mine = next((index for index, name in enumerate(names) if is_at(name, folder, current)), None)
    return names[:mine]


def is_at(name: str, folder: int, file: int) -> bool:
    """Whether an open file is the one that has this name now."""
    found = status(name, folder)
    return found is not None and os.path.samestat(found, os.fstat(file))


def sizes(folder: Path, root: Path) -> dict[str, int]:
    """The names of a log's files, oldest first, and how long each is. Whatever lies there is not opened."""
    with opened(folder, root) as within:
        if within is None:
            return {}
        found = {name: status(name, within) for name in (*rotated_names(within), CURRENT)}
        return {name: one.st_size for name, one in found.items() if one is not None}

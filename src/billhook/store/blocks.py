"""A file of lines in blocks of whole lines, from either end: bounded memory, however long a line is.

The buffer of a block is used again for the next one: new memory for each would cost more than the reading.
"""

import os
import sys
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from billhook.store.finding import Find

FIRST: Final = 16 << 10  # bytes that are read at the end of a file first: a few records, without reading many
BLOCK: Final = 256 << 10
_AROUND: Final = 4 << 10
LONGEST: Final = 16 << 20  # a longer line is passed over: no record is that long


class Block(NamedTuple):
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


def forward(file: int, offset: int = 0, *, closed: bool = False, end: int = sys.maxsize) -> Iterator[Block]:
    """Blocks from `offset`, which is the beginning of a line, to `end` or the end that the file has when we come there.

    A line without a newline at the end is not there yet; in a file that is `closed` it is passed over.
    """
    buffer = bytearray(BLOCK)
    while True:
        got = _fill(file, buffer, offset, min(len(buffer), end - offset))
        whole = buffer.rfind(b"\n", 0, got) + 1
        if whole:
            yield Block(offset, buffer, 0, whole)
            offset += whole
            if len(buffer) > BLOCK:
                buffer = bytearray(BLOCK)
        elif got < len(buffer):
            if got and closed:
                yield Block(offset, buffer, 0, 0, lost=1)
            return
        elif len(buffer) < LONGEST:
            buffer = bytearray(2 * len(buffer))
        else:
            offset, ended = _after_line(file, offset + got, buffer)
            if ended or closed:
                yield Block(offset, buffer, 0, 0, lost=1)


def backward(file: int, end: int, *, closed: bool = False) -> Iterator[Block]:
    """Blocks from `end` to the beginning of the file, in this order, small ones first."""
    size, buffer = FIRST, bytearray(FIRST)
    last = end_of_lines(file, end)
    if last < end and closed:
        yield Block(last, buffer, 0, 0, lost=1)
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
            yield Block(begin, buffer, start, got)
            end = begin + start
            size = min(2 * size, BLOCK)
            if len(buffer) > BLOCK:
                buffer = bytearray(BLOCK)
        elif size < LONGEST:
            size *= 2
        else:
            end = end_of_lines(file, begin)
            yield Block(end, buffer, 0, 0, lost=1)
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

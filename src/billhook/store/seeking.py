"""From the lines of a log to the records that somebody wants."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from itertools import pairwise
from pathlib import Path
from typing import Final, NamedTuple, TypeVar

import msgspec

from billhook import strictjson
from billhook.errors import StrictJSONError
from billhook.store import blocks, ripgrep, searching
from billhook.store.finding import quick_find
from billhook.store.logfiles import LogFile, LogFiles
from billhook.store.record import Record, Wanted

Kind = TypeVar("Kind")
Lines = Iterable[tuple[int, bytes | None]]  # lines with their offsets; None for one that is too long to be looked at
_DEEPEST: Final = 500  # what an agent sends is refused beyond 400

_MANY_BLOCKS: Final = 16  # after these it pays to have a quicker way to find things


class Entry(NamedTuple):
    """A record, and where it stands."""

    record: Record
    line: bytes  # as it is in the file, without the newline
    file: Path
    offset: int


class Sought:
    """One question to a log: what its lines must have among their bytes, and what its records must be.

    `filled` adds what lies in a record's side file; `met` is told how many lines were none of ours.
    """

    def __init__(
        self,
        wanted: Wanted,
        filled: Callable[[Record, searching.Group], Record],
        met: Callable[[int], None],
        *,
        notes: bool = False,
        id_prefix: str = "",
        side_files: bool = True,
    ) -> None:
        self._wanted = wanted = searching.readable(wanted)
        self._filled = filled
        self._met = met
        self._notes = notes
        self._id_prefix = id_prefix
        found = searching.groups(wanted, side_files=side_files)
        if id_prefix:
            found.insert(0, tuple(b'"id":"' + one for one in searching.spellings(id_prefix)))
        self._is_rare = bool(wanted.text or id_prefix)
        self._first = found[0] if found else None
        self._others = found[1:]
        self._seen = 0
        self.foreign = 0  # lines met so far that are none of ours

    @property
    def looks_at_all(self) -> bool:
        """Whether every line is looked at, and none is passed over for its bytes."""
        is_dated = self._wanted.since is not None or self._wanted.until is not None
        return self._first is None and not self._others and not is_dated

    def _meet(self, foreign: int) -> None:
        self.foreign += foreign
        self._met(foreign)

    def batches(self, names: Sequence[str], *, newest_first: bool) -> list[Sequence[str]]:
        """Which files are looked at together. From the end we mostly stop soon: there the first file comes alone."""
        if not self._is_rare or ripgrep.program() is None:
            return [[name] for name in names]
        cuts = [0, *range(int(newest_first), len(names), ripgrep.FILES_AT_ONCE), len(names)]
        return [names[a:b] for a, b in pairwise(cuts) if a < b]

    def places(self, files: Sequence[LogFile]) -> dict[int, list[int]]:
        """By descriptor: where the rare thing is that somebody searches for. Empty when there is no quick way."""
        if self._first is None or not self._is_rare:
            return {}
        return ripgrep.places([file.descriptor for file in files], self._first)

    def lines(self, block: blocks.Block, *, newest_first: bool = False) -> Lines:
        """The lines of a block that may be wanted."""
        self._meet(block.lost)
        self._seen += 1
        if self._first is None:
            found = block.lines()
        else:
            is_long = self._seen > _MANY_BLOCKS
            found = block.lines_with(self._first, quick_find(block.data) if is_long else block.data.find)
        return reversed(found) if newest_first else found

    def entries(self, lines: Lines, file: LogFile) -> Iterator[Entry]:
        """The wanted records among some lines."""
        for offset, line in lines:
            if line is None:
                self._meet(1)
            elif searching.may_match(line, self._others, self._wanted):
                record = decoded(line)
                if record is None:
                    self._meet(line != b"")
                elif self._is_sought(record):
                    yield Entry(record, line, file.path, offset)

    def _is_sought(self, record: Record) -> bool:
        told = (self._notes or record.note is None) and record.id.startswith(self._id_prefix)
        return told and searching.matches(record, self._wanted, self._filled)


def steps(log: LogFiles, sought: Sought, *, newest_first: bool) -> Iterator[tuple[LogFile, int, Lines]]:
    """A log in steps: the file, how many bytes are behind us after each, and the lines that may be wanted."""
    names = log.names[::-1] if newest_first else log.names
    for number, batch in enumerate(sought.batches(names, newest_first=newest_first)):
        with ExitStack() as held:
            files = [file for name in batch if (file := held.enter_context(log.opened(name)))]
            places = {} if newest_first and not number else sought.places(files)
            for file in files:
                if file.descriptor in places:
                    there = places[file.descriptor]
                    yield file, file.size, blocks.lines_at(file.descriptor, there[::-1] if newest_first else there)
                    continue
                if newest_first:
                    found = blocks.backward(file.descriptor, file.size, closed=file.closed)
                else:
                    found = blocks.forward(file.descriptor, closed=file.closed)
                for block in found:
                    yield file, block.stop - block.start, sought.lines(block, newest_first=newest_first)


def decoded(line: bytes) -> Record | None:
    """The record of one line; None when it is none of ours, whatever it is."""
    return decoded_as(_RECORD, line, Record) if line.startswith(b'{"v":') else None


def decoded_as(decoder: "msgspec.json.Decoder[Kind]", data: bytes, kind: type[Kind]) -> Kind | None:
    """What a decoder makes of some bytes; None when they are not what it reads.

    Lone surrogates, which the writer writes, are beyond the quick decoder.
    """
    try:
        return decoder.decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        if not data.isascii():
            return None
    try:
        return msgspec.convert(strictjson.loads_leniently(data, max_depth=_DEEPEST), kind)
    except (StrictJSONError, msgspec.MsgspecError, UnicodeEncodeError, RecursionError):
        return None


_RECORD = msgspec.json.Decoder(Record)

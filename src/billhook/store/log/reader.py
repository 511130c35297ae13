"""Reading an event log: from its beginning, from its end, by id; whatever else lies in its files, and while it grows.

Nothing here takes a lock or changes a file. No file is mapped into memory: one that somebody cuts off meanwhile would
end the process.
"""

import os
import re
import time
from collections.abc import Generator, Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any, Final

import msgspec

from billhook.store.files import StoreError, opened
from billhook.store.log import files, query
from billhook.store.log.files import LogFile, Progress, is_at, older_names, open_log_files, sizes
from billhook.store.log.query import LogEntry, Sought, decoded_as, steps
from billhook.store.log.record import ALL, Record, Side, Wanted
from billhook.store.log.tail import CURRENT, reading
from billhook.store.side_files import read_side, side_path

_SHA256 = re.compile(r"[0-9a-f]{64}")
_ID_DIGITS: Final = 32
_FIXED: Final = frozenset({"v", "seq", "prev", "id", "time", "mono", "event", "side", "hash"})
"""What a line says itself, whatever its side file says."""


class LogReader:
    """One project's log. May be kept as long as one likes: it holds nothing open between two calls.

    A log that is not there is an empty one. A link, a pipe or somebody else's file in place of one is a StoreError.
    """

    def __init__(self, folder: Path, root: Path) -> None:
        self.folder = folder
        self.root = root
        self.foreign = 0
        """Lines met so far that are no records: other people's, torn ones, too long ones. A search by bytes does not
        meet those that have not what is looked for."""
        self.skipped: int | None = None
        """How many such lines the log has; None as long as nobody has looked at every line of it."""
        self.unread: set[str] = set()
        """The ids of records that were not looked at whole, because their side file is gone or was changed."""

    def files(self) -> list[Path]:
        """The log's files, oldest first."""
        return [self.folder / name for name in sizes(self.folder, self.root)]

    @property
    def bytes(self) -> int:
        """The size of all its files."""
        return sum(sizes(self.folder, self.root).values())

    def forward(
        self, wanted: Wanted = ALL, progress: Progress | None = None, *, notes: bool = False
    ) -> Iterator[LogEntry]:
        """The wanted records, oldest first. `notes`: also those about the log itself."""
        return self._entries(self._sought(wanted, notes), progress, newest_first=False)

    def backward(
        self, wanted: Wanted = ALL, progress: Progress | None = None, *, notes: bool = False
    ) -> Iterator[LogEntry]:
        """The wanted records, newest first. No more is read than what the caller comes to see."""
        return self._entries(self._sought(wanted, notes), progress, newest_first=True)

    def find(self, id_prefix: str, *, notes: bool = False) -> LogEntry | None:
        """The record whose id begins so. Raises StoreError when there are several."""
        found: LogEntry | None = None
        with closing(self._entries(self._sought(ALL, notes, id_prefix), None, newest_first=True)) as entries:
            for entry in entries:
                if len(id_prefix) >= _ID_DIGITS:
                    return entry
                if found is not None and found.record.id != entry.record.id:
                    what = f"more than one record's id begins with `{id_prefix}`: {found.record.id}, {entry.record.id}"
                    raise StoreError(what, place=str(self.folder), hint="give more digits of it")
                found = found or entry
        return found

    def follow(
        self, wanted: Wanted = ALL, since_now: bool = True, poll: float = 0.5, *, notes: bool = False
    ) -> Iterator[LogEntry]:
        """The wanted records as they are written, for ever, also when the log is rotated, removed or not there yet.

        Begins with what is written after this call, not after the first `next`; without `since_now` with the oldest.
        """

        follower = Follower(self.folder, self.root, since_now=since_now)
        return follow(follower, self._sought(wanted, notes, side_files=True), poll)

    def whole(self, record: Record) -> Record:
        """The record with what lies in its side file. Raises StoreError when that is gone, damaged or not its own."""
        if record.side is None:
            return record
        return _merged(record, record.side, _side_file(self.folder, self.root, record.side))

    def _sought(self, wanted: Wanted, notes: bool, id_prefix: str = "", side_files: bool | None = None) -> Sought:
        if side_files is None:
            side_files = wanted is not ALL and self._has_side_files()
        return Sought(wanted, self._filled, self._met, notes=notes, id_prefix=id_prefix, side_files=side_files)

    def _met(self, foreign: int) -> None:
        self.foreign += foreign

    def _entries(
        self, sought: Sought, progress: Progress | None, *, newest_first: bool
    ) -> Generator[LogEntry, None, None]:
        done, total = 0, 0 if progress is None else self.bytes
        with open_log_files(self.folder, self.root) as log:
            for file, size, lines in () if log is None else steps(log, sought, newest_first=newest_first):
                yield from sought.entries(lines, file)
                done += size
                if progress is not None:
                    progress(min(done, total), total)
        if sought.looks_at_all:
            self.skipped = sought.foreign

    def _has_side_files(self) -> bool:
        """Whether some record may lie partly in a file of its own."""
        with opened(side_path(self.folder, "").parent, self.root) as folder:
            if folder is None:
                return False
            with os.scandir(folder) as found:
                return next(found, None) is not None

    def _filled(self, record: Record, needles: query.Group) -> Record:
        """As `whole`, if the side file can be read and has one of some bytes in it; else the record as it is."""
        if record.side is None:
            return record
        try:
            data = _side_file(self.folder, self.root, record.side)
            found = not needles or any(needle in data for needle in needles)
            return _merged(record, record.side, data) if found else record
        except StoreError:
            self.unread.add(record.id)
            return record


def _side_file(folder: Path, root: Path, side: Side) -> bytes:
    if not _SHA256.fullmatch(side.sha256) or side.bytes < 0:
        raise StoreError("a record names a side file that is none", place=str(folder))
    data = read_side(folder, root, side)
    if data is None:
        what = "it is gone or was changed, and a part of a record with it"
        raise StoreError(what, place=str(side_path(folder, side.sha256)))
    return data


def _merged(record: Record, side: Side, data: bytes) -> Record:
    large = decoded_as(_OBJECT, data, dict[str, Any]) or {}
    fields = {name: large[name] for name in side.fields if name in large and name not in _FIXED}
    try:
        return msgspec.convert({**msgspec.structs.asdict(record), **fields}, Record)
    except msgspec.MsgspecError as error:
        raise StoreError(f"the side file of record {record.seq} has other things: {error}", place=side.sha256) from None


_OBJECT = msgspec.json.Decoder(dict[str, Any])


# A log's records as they are written:


class Follower:
    """Where somebody who follows a log has come to. The current file stays open, so that a rotated one is read out."""

    def __init__(self, folder: Path, root: Path, *, since_now: bool) -> None:
        self._folder = folder
        self._root = root
        self._held = ExitStack()
        self._file: int | None = None
        self._offset = 0
        self._read: set[str] = set()  # the rotated files that are behind us
        with opened(folder, root) as within:
            if within is not None and since_now:
                self._hold(within)  # before the others are listed: one that is rotated meanwhile is read out
                self._read.update(older_names(within, self._file))
                if self._file is not None:
                    self._offset = files.end_of_lines(self._file, os.fstat(self._file).st_size)

    def close(self) -> None:
        self._held.close()
        self._file = None

    def news(self, sought: Sought) -> Iterator[LogEntry]:
        """What was added since the last call."""
        with opened(self._folder, self._root) as within:
            if within is None:
                yield from self._rest(sought, closed=True)
                self.close()
                return
            if self._file is None or not is_at(CURRENT, within, self._file):
                yield from self._rest(sought, closed=True)
                yield from self._rotated(within, sought)
            yield from self._rest(sought, closed=False)

    def _rotated(self, within: int, sought: Sought) -> Iterator[LogEntry]:
        """What was rotated since, and then the current file is the one to follow."""
        before, held = self._file, self._held
        self._file, self._held = None, ExitStack()
        with held:
            self._hold(within)
            names = older_names(within, self._file)
            new, self._read = [name for name in names if name not in self._read], set(names)
            for name in new:
                with reading(within, self._folder / name) as file:
                    if file is not None and (before is None or not os.path.sameopenfile(file, before)):
                        yield from self._entries(LogFile(self._folder / name, file, True), 0, sought)

    def _hold(self, within: int) -> None:
        self._file = self._held.enter_context(reading(within, self._folder / CURRENT))
        self._offset = 0

    def _rest(self, sought: Sought, *, closed: bool) -> Iterator[LogEntry]:
        if self._file is None:
            return
        if os.fstat(self._file).st_size < self._offset:
            self._offset = 0  # cut off, and begun anew
        yield from self._entries(LogFile(self._folder / CURRENT, self._file, closed), self._offset, sought)

    def _entries(self, file: LogFile, offset: int, sought: Sought) -> Iterator[LogEntry]:
        for block in files.forward(file.descriptor, offset, closed=file.closed):
            if file.descriptor == self._file:
                self._offset = block.offset + block.stop
            yield from sought.entries(sought.lines(block), file)


def follow(follower: Follower, sought: Sought, poll: float) -> Iterator[LogEntry]:
    """What comes, for ever: looks for it every `poll` seconds."""
    try:
        while True:
            yield from follower.news(sought)
            time.sleep(poll)
    finally:
        follower.close()

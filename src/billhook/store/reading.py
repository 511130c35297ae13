"""Reading an event log: from its beginning, from its end, by id; whatever else lies in its files, and while it grows.

Nothing here takes a lock or changes a file. No file is mapped into memory: one that somebody cuts off meanwhile would
end the process.
"""

import os
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeVar

import msgspec

from billhook import strictjson
from billhook.errors import StrictJSONError
from billhook.store import blocks, ripgrep, searching
from billhook.store.appending import CURRENT, open_to_read, rotated_names
from billhook.store.files import StoreError, opened
from billhook.store.record import ALL, Record, Side, Wanted
from billhook.store.sidefiles import read_side, side_path

_SHA256 = re.compile(r"[0-9a-f]{64}")
_ID_DIGITS: Final = 32
_DEEPEST: Final = 500
"""What an agent sends is refused beyond 400."""
_FIXED: Final = frozenset({"v", "seq", "prev", "id", "time", "mono", "event", "side", "hash"})
"""What a line says itself, whatever its side file says."""

Kind = TypeVar("Kind")
Lines = Iterable[tuple[int, bytes | None]]
"""Lines with their offsets; None for one that is too long to be looked at."""
Progress = Callable[[int, int], None]
"""Called now and then while a log is read: bytes done, bytes in all."""


class Entry(NamedTuple):
    """A record, and where it stands."""

    record: Record
    line: bytes
    """As it is in the file, without the newline."""
    file: Path
    offset: int


class LogFile(NamedTuple):
    """One file of a log while it is open."""

    path: Path
    descriptor: int
    closed: bool
    """Rotated: nobody adds to it."""


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

    def files(self) -> list[Path]:
        """The log's files, oldest first."""
        with opened(self.folder, self.root) as folder:
            return [] if folder is None else [self.folder / name for name in log_names(folder)]

    @property
    def bytes(self) -> int:
        """The size of all its files."""
        with opened(self.folder, self.root) as folder:
            return 0 if folder is None else _size(folder)

    def forward(
        self, wanted: Wanted = ALL, progress: Progress | None = None, *, notes: bool = False
    ) -> Iterator[Entry]:
        """The wanted records, oldest first. `notes`: also those about the log itself."""
        yield from self._entries(Sought(self, wanted, notes), progress, newest_first=False)

    def backward(
        self, wanted: Wanted = ALL, progress: Progress | None = None, *, notes: bool = False
    ) -> Iterator[Entry]:
        """The wanted records, newest first. No more is read than what the caller comes to see."""
        yield from self._entries(Sought(self, wanted, notes), progress, newest_first=True)

    def find(self, id_prefix: str, *, notes: bool = False) -> Entry | None:
        """The record whose id begins so. Raises StoreError when there are several."""
        found: Entry | None = None
        for entry in self._entries(Sought(self, ALL, notes, id_prefix), None, newest_first=True):
            if len(id_prefix) >= _ID_DIGITS:
                return entry
            if found is not None and found.record.id != entry.record.id:
                what = f"more than one record's id begins with `{id_prefix}`: {found.record.id}, {entry.record.id}"
                raise StoreError(what, place=str(self.folder), hint="give more digits of it")
            found = found or entry
        return found

    def follow(
        self, wanted: Wanted = ALL, since_now: bool = True, poll: float = 0.5, *, notes: bool = False
    ) -> Iterator[Entry]:
        """The wanted records as they are written, for ever, also when the log is rotated, removed or not there yet.

        Begins with what is written after this call, not after the first `next`; without `since_now` with the oldest.
        """
        from billhook.store.following import Follower, follow

        follower = Follower(self.folder, self.root, since_now=since_now)
        return follow(follower, Sought(self, wanted, notes, side_files=True), poll)

    def whole(self, record: Record) -> Record:
        """The record with what lies in its side file. Raises StoreError when that is gone, damaged or not its own."""
        return (
            record
            if record.side is None
            else _merged(record, record.side, _side_file(self.folder, self.root, record.side))
        )

    def _entries(self, sought: "Sought", progress: Progress | None, *, newest_first: bool) -> Iterator[Entry]:
        done, total = 0, 0 if progress is None else self.bytes
        for file in log_files(self.folder, self.root, newest_first=newest_first):
            for size, lines in sought.steps(file, newest_first=newest_first):
                yield from sought.entries(lines, file)
                done += size
                if progress is not None:
                    progress(min(done, total), total)

    def has_side_files(self) -> bool:
        """Whether some record may lie partly in a file of its own."""
        with opened(side_path(self.folder, "").parent, self.root) as folder:
            return folder is not None and bool(os.listdir(folder))

    def filled(self, record: Record, needles: searching.Group) -> Record:
        """As `whole`, if the side file can be read and has one of some bytes in it; else the record as it is."""
        if record.side is None:
            return record
        try:
            data = _side_file(self.folder, self.root, record.side)
            found = not needles or any(needle in data for needle in needles)
            return _merged(record, record.side, data) if found else record
        except StoreError:
            return record


class Sought:
    """One question to a log: what its lines must have among their bytes, and what its records must be."""

    def __init__(
        self, reader: LogReader, wanted: Wanted, notes: bool, id_prefix: str = "", *, side_files: bool | None = None
    ) -> None:
        self._reader = reader
        self._wanted = wanted
        self._notes = notes
        self._id_prefix = id_prefix
        if side_files is None:
            side_files = wanted is not ALL and reader.has_side_files()
        found = searching.groups(wanted, side_files=side_files)
        if id_prefix:
            found.insert(0, tuple(b'"id":"' + one for one in searching.spellings(id_prefix)))
        self._is_rare = bool(wanted.text or id_prefix)
        self._first = found[0] if found else None
        self._others = found[1:]

    def steps(self, file: LogFile, *, newest_first: bool) -> Iterator[tuple[int, Lines]]:
        """A file in steps: how many bytes are behind us after each, and the lines of it that may be wanted."""
        # From the end we mostly stop soon, so the newest file is not worth a process.
        places = None if newest_first and not file.closed else self._places(file)
        if places is not None:
            lines = blocks.lines_at(file.descriptor, reversed(places) if newest_first else places)
            yield os.fstat(file.descriptor).st_size, lines
            return
        for block in _blocks(file, newest_first=newest_first):
            yield block.stop - block.start, self.lines(block, newest_first=newest_first)

    def _places(self, file: LogFile) -> list[int] | None:
        """Where the rare thing is that somebody searches for, if there is such a thing and a quick way to find it."""
        return ripgrep.places(file.descriptor, self._first) if self._first is not None and self._is_rare else None

    def lines(self, block: blocks.Block, *, newest_first: bool = False) -> Lines:
        self._reader.foreign += block.lost
        found = block.lines() if self._first is None else block.lines_with(self._first)
        return reversed(found) if newest_first else found

    def entries(self, lines: Lines, file: LogFile) -> Iterator[Entry]:
        """The wanted records among some lines."""
        for offset, line in lines:
            if line is not None and not searching.may_match(line, self._others, self._wanted):
                continue
            record = None if line is None else decoded(line)
            if record is None or line is None:
                self._reader.foreign += line != b""
            elif self._is_sought(record):
                yield Entry(record, line, file.path, offset)

    def _is_sought(self, record: Record) -> bool:
        return (
            (self._notes or record.note is None)
            and record.id.startswith(self._id_prefix)
            and searching.matches(record, self._wanted, self._reader.filled)
        )


def decoded(line: bytes) -> Record | None:
    """The record of one line; None when it is none of ours, whatever it is."""
    if not line.startswith(b'{"v":'):
        return None
    try:
        return _RECORD.decode(line)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return _decoded_slowly(line, Record) if line.isascii() else None


def log_files(folder: Path, root: Path, *, newest_first: bool) -> Iterator[LogFile]:
    """The files of a log as it is now, each open while it is the one. A rotation meanwhile hides and doubles nothing:
    the current file is opened before the others are listed, and is known by its inode if it is renamed."""
    with opened(folder, root) as within:
        if within is None:
            return
        with open_file(within, folder / CURRENT) as current:
            held = None if current is None else LogFile(folder / CURRENT, current, False)
            if newest_first and held is not None:
                yield held
            names = [name for name in log_names(within) if name != CURRENT]
            for name in reversed(names) if newest_first else names:
                with open_file(within, folder / name) as file:
                    if file is not None and (current is None or not _same(file, current)):
                        yield LogFile(folder / name, file, True)
            if not newest_first and held is not None:
                yield held


def log_names(folder: int) -> list[str]:
    """The names of a log's files in an open folder, oldest first."""
    names = rotated_names(folder)
    return [*names, CURRENT] if _exists(CURRENT, folder) else names


@contextmanager
def open_file(folder: int, path: Path) -> Iterator[int | None]:
    """A descriptor of a log's file in an open folder; None when there is none. Raises StoreError."""
    try:
        file = open_to_read(folder, path)
    except FileNotFoundError:
        yield None
        return
    try:
        yield file
    finally:
        os.close(file)


def _exists(name: str, folder: int) -> bool:
    try:
        os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return True


def _same(one: int, other: int) -> bool:
    return os.path.sameopenfile(one, other)


def _size(folder: int) -> int:
    size = 0
    for name in log_names(folder):
        try:
            size += os.stat(name, dir_fd=folder, follow_symlinks=False).st_size
        except FileNotFoundError:
            pass  # gone or rotated since it was listed
    return size


def _blocks(file: LogFile, *, newest_first: bool) -> Iterator[blocks.Block]:
    if newest_first:
        return blocks.backward(file.descriptor, os.fstat(file.descriptor).st_size, closed=file.closed)
    return blocks.forward(file.descriptor, closed=file.closed)


def _side_file(folder: Path, root: Path, side: Side) -> bytes:
    if not _SHA256.fullmatch(side.sha256) or side.bytes < 0:
        raise StoreError("a record names a side file that is none", place=str(folder))
    data = read_side(folder, root, side)
    if data is None:
        what = "it is gone or was changed, and a part of a record with it"
        raise StoreError(what, place=str(side_path(folder, side.sha256)))
    return data


def _merged(record: Record, side: Side, data: bytes) -> Record:
    large = _decoded_slowly(data, dict[str, Any])
    fields = {name: large[name] for name in side.fields if name in large and name not in _FIXED} if large else {}
    try:
        return msgspec.convert({**msgspec.structs.asdict(record), **fields}, Record)
    except msgspec.MsgspecError as error:
        raise StoreError(f"the side file of record {record.seq} has other things: {error}", place=side.sha256) from None


def _decoded_slowly(data: bytes, kind: type[Kind]) -> Kind | None:
    """What the quick reader refuses and the writer writes: lone surrogates."""
    try:
        return msgspec.convert(strictjson.loads_leniently(data, max_depth=_DEEPEST), kind)
    except (StrictJSONError, msgspec.MsgspecError, RecursionError):
        return None


_RECORD = msgspec.json.Decoder(Record)

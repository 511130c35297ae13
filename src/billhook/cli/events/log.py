"""The event log that a command looks at: this project's, or those of the projects that somebody's sessions ran in."""

import heapq
import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from billhook.cli.screen import Progress
from billhook.core import strictjson
from billhook.core.errors import UsageError
from billhook.store.files import StoreError, log_folder, opened, state_root
from billhook.store.log_query import Entry
from billhook.store.log_reader import LogReader
from billhook.store.record import Record, Wanted


class Here(NamedTuple):
    """Where somebody asks. Needs no configuration: a broken one must not keep anybody from the log."""

    project: str
    root: Path

    def reader(self, project: str = "") -> LogReader:
        return LogReader(log_folder(self.root, project or self.project), self.root)


def here() -> Here:
    """The project of the folder that we are in, and where its state lies."""
    from billhook.config import sources
    from billhook.config.loader import standing

    return Here(sources.find(standing(".")).project, state_root())


def every_log(where: Here) -> list[LogReader]:
    """The logs of all projects, the one that changed last first."""
    path = where.root / "hooks"
    with opened(path, where.root) as folder:
        entries = [one for one in os.scandir(folder) if one.is_dir(follow_symlinks=False)] if folder is not None else []
        entries.sort(key=lambda entry: -entry.stat(follow_symlinks=False).st_mtime)
    return [LogReader(path / entry.name, where.root) for entry in entries]


class Slice(msgspec.Struct, frozen=True, kw_only=True):
    """Which of the records that pass the filters are shown. They are shown oldest first in any case."""

    first: int | None = None
    last: int | None = None
    limit: int | None = None  # 0: all
    offset: int = 0

    @property
    def end(self) -> int | None:
        """How many records are met, those that the offset leaves out included; None: all."""
        numbers = [one for one in (self.first, self.last, self.limit or None) if one is not None]
        return self.offset + min(numbers) if numbers else None

    @property
    def given(self) -> bool:
        """The user asked for a number of records."""
        return not self.first is self.last is self.limit is None


class Logs:
    """The records that are wanted, of one log or several, as if they were one."""

    def __init__(
        self,
        wanted: Mapping[str, Wanted],
        here: Here,
        keep: Callable[[Record], bool] | None = None,
        *,
        notes: bool = False,
    ) -> None:
        """`wanted` says for each project what is wanted of its log; `keep` is asked beyond that. `notes`: also what the
        log says about itself.

        That a record is of its project is asked of the record here: where nothing else is wanted, every line is looked
        at, and what others wrote is counted.
        """
        self.here = here
        self._by_folder: dict[Path, LogReader] = {}
        self._wanted: list[tuple[LogReader, Wanted]] = []
        for project, of_it in wanted.items():  # two projects may have one folder
            reader = here.reader(project)
            self._wanted.append((self._by_folder.setdefault(reader.folder, reader), of_it))
        self._projects = frozenset(wanted)
        self._keep = keep
        self._notes = notes

    @property
    def readers(self) -> list[LogReader]:
        return list(self._by_folder.values())

    @property
    def foreign(self) -> int | None:
        """Lines that are none of ours; None as long as not every line was looked at: a filter passes over most."""
        return known_sum(reader.skipped for reader in self.readers)

    @property
    def unread(self) -> int:
        """Records met so far that could not be looked at whole."""
        return sum(len(reader.unread) for reader in self.readers)

    def forward(self, progress: Progress | None = None, *, notes: bool = False) -> Iterator[Entry]:
        """Oldest first."""
        notes = notes or self._notes
        each = [reader.forward(wanted, progress, notes=notes) for reader, wanted in self._wanted]
        return self._kept(_merged(each, newest_first=False))

    def backward(self, progress: Progress | None = None) -> Iterator[Entry]:
        """Newest first; no more is read than is asked for."""
        each = [reader.backward(wanted, progress, notes=self._notes) for reader, wanted in self._wanted]
        return self._kept(_merged(each, newest_first=True))

    def chosen(self, part: Slice, progress: Progress | None = None, *, notes: bool = False) -> Iterator[Entry]:
        """The part that is wanted, oldest first. Without `--first`, what is left out is counted from the newest."""
        if part.first is not None:
            return islice(self.forward(progress), part.offset, part.end)
        if part.end is not None:
            newest = list(islice(self.backward(progress), part.offset, part.end))
            return iter(newest[::-1])
        return _all_but_last(self.forward(progress, notes=notes), part.offset)

    def followed(self, newest: Slice) -> Iterator[Entry]:
        """The newest, and then what comes, for ever. UsageError for more than one log."""
        if len(self._wanted) > 1:
            raise UsageError("these sessions belong to several projects", hint="follow one of them at a time")
        reader, wanted = self._wanted[0]
        # before the existing records are read: nothing falls in between
        coming = self._kept(reader.follow(wanted, notes=self._notes))
        shown = 0
        for entry in self.chosen(newest):
            shown = entry.record.seq
            yield entry
        for entry in coming:
            if entry.record.seq > shown:
                shown = 0  # whatever comes now is new, even if somebody takes the log away and it begins anew
                yield entry

    def whole(self, entry: Entry) -> Record:
        """The record with what lies in its side file; without, when that is gone."""
        try:
            return self._by_folder[entry.file.parent].whole(entry.record)
        except StoreError:
            return entry.record

    def count(self) -> int:
        """How many records there are, about the logs themselves included: they are numbered without a gap."""
        return sum(map(_length, self.readers))

    def _kept(self, entries: Iterator[Entry]) -> Iterator[Entry]:
        for entry in entries:
            if entry.record.project not in self._projects and entry.record.note is None:
                continue
            if self._keep is None or self._keep(self.whole(entry)):
                yield entry


def known_sum(numbers: Iterable[int | None]) -> int | None:
    """The sum; None when one of them is not known."""
    known = list(numbers)
    return None if None in known else sum(number for number in known if number is not None)


def as_logged(entry: Entry, logs: Logs) -> bytes:
    """The record as one line of JSON, whole: the line as it is, unless a part lies elsewhere; and at its end `payload`,
    the event as it came."""
    return line_of(entry, entry.record if entry.record.side is None else logs.whole(entry))


def line_of(entry: Entry, whole: Record) -> bytes:
    """As `as_logged`, of a record that was put together before."""
    as_it_is = entry.record.side is None and entry.line.isascii() and b"\x7f" not in entry.line
    line = entry.line if as_it_is else _with_side(entry, whole)  # a line that was edited may hold escape sequences
    if whole.note is not None or not line.endswith(b"}"):
        return line
    return b'%b,"payload":%b}' % (line[:-1], strictjson.encode(msgspec.to_builtins(whole.payload)))


def _with_side(entry: Entry, whole: Record) -> bytes:
    """The line with the part of it that lies in a side file; fields that this version does not know stay."""
    data: dict[str, Any] = strictjson.loads_leniently(entry.line, max_depth=500)
    fields = entry.record.side.fields if entry.record.side else ()
    data |= {field: msgspec.to_builtins(getattr(whole, field)) for field in fields if hasattr(whole, field)}
    return strictjson.encode(data)


def _merged(each: Sequence[Iterator[Entry]], *, newest_first: bool) -> Iterator[Entry]:
    if len(each) == 1:
        return each[0]
    return heapq.merge(*each, key=lambda entry: entry.record.time, reverse=newest_first)


def _all_but_last(entries: Iterator[Entry], number: int) -> Iterator[Entry]:
    held: deque[Entry] = deque()
    for entry in entries:
        held.append(entry)
        if len(held) > number:
            yield held.popleft()


def _length(reader: LogReader) -> int:
    newest = next(reader.backward(notes=True), None)
    oldest = next(reader.forward(notes=True), None)
    return newest.record.seq - oldest.record.seq + 1 if newest and oldest else 0

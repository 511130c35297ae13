"""Check an event log: every line is the one that was written, and none is missing, moved or added.

A chain of hashes shows every change that does not rewrite all that follows it. Against that, and against cutting off
the end, helps only a head (`12:<hash>`) that was kept elsewhere: the log must still contain it.
"""

import os
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec

from billhook.store import appending, files, lines, sidefiles, snapshots
from billhook.store.appending import CURRENT, LOCK, LONGEST_LINE
from billhook.store.files import StoreError
from billhook.store.lines import Line
from billhook.store.locking import locked
from billhook.store.record import Side

MOST_FINDINGS: Final = 1000  # more are counted, and not listed
_PENDING: Final = 64  # Lines that one torn line and its repairs can leave. Of more, only the last are.
_STEP: Final = 4 << 20
_CONFIG: Final = re.compile(rb'"config":"([0-9a-f]{64})"')
"""What may be the hash of a record's configuration: to decode every line would take several times as long."""
_HEADS: Final = ("billhook", "heads")

Progress = Callable[[int, int], object]  # called now and then with the bytes that are done and all there are


class Head(msgspec.Struct, frozen=True):
    """The last record of a log at some moment."""

    seq: int
    hash: str

    def __str__(self) -> str:
        return f"{self.seq}:{self.hash}"

    @classmethod
    def from_text(cls, text: str) -> "Head":
        """Read what `str` printed. Raises ValueError."""
        seq, _, digest = text.strip().partition(":")
        if not (seq.isascii() and seq.isdecimal() and len(seq) < 19 and _is_digest(digest)):
            raise ValueError(f"`{text.strip()[:100]}` is not a head: `12:` and 64 hex digits")
        return cls(int(seq), digest)


class Broken(NamedTuple):
    """Something that is not as it was written."""

    file: Path
    line: int  # from 1; 0 when it is about the file
    seq: int | None  # the record's number, where one can be told
    what: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.what}" if self.line else f"{self.file}: {self.what}"


class Verified(NamedTuple):
    """What a log was found to be."""

    records: int  # all of them, `notes` included
    notes: int  # records about the log itself: a torn line, a full file
    files: int
    first_seq: int | None
    head: Head | None
    findings: list[Broken]
    foreign: int  # lines that are no records of ours
    torn: int  # Lines that were never finished, and noted as such when the log was repaired. They are no findings.
    more: int  # findings beyond those that are listed

    @property
    def ok(self) -> bool:
        return not self.findings


def verify(folder: Path, root: Path, *, progress: Progress | None = None, expected: Iterable[Head] = ()) -> Verified:
    """Read the whole log of a folder, the full files first. `expected` are heads that it must contain.

    Only reads, and may be done while others write. Raises StoreError for a log that can't be read.
    """
    walk = _Walk(folder, root, progress or (lambda done, total: None), list(expected))
    with files.opened(folder, root) as opened:
        if opened is not None:
            walk.all_files(opened)
    return walk.result()


def export_head(folder: Path, root: Path, head: Head) -> None:
    """Remember a head as one that was given out: from now on the log of this folder must contain it."""
    data = msgspec.json.encode(head) + b"\n"
    files.write_atomically(root.joinpath(*_HEADS, f"{folder.name}.json"), data, root=root)


def exported_head(folder: Path, root: Path) -> Head | None:
    """The head that was given out last; None: none was. Raises StoreError for one that can't be read."""
    path = root.joinpath(*_HEADS, f"{folder.name}.json")
    data = files.read_bytes(path, 1000, root=root)
    if data is None:
        return None
    try:
        return Head.from_text(str(msgspec.json.decode(data, type=Head)))
    except ValueError as error:
        hint = f"remove it: rm {path}; and compare with a head that you kept elsewhere"
        raise StoreError(f"damaged: {error}", place=str(path), hint=hint) from None


class _Foreign(NamedTuple):
    """A line that is no record, until it is known whether a note accounts for it."""

    line: int
    start: int
    what: str


class _Walk:
    """One look at a log from its first line to its last."""

    def __init__(self, folder: Path, root: Path, progress: Progress, expected: list[Head]) -> None:
        self.folder, self.root, self.progress = folder, root, progress
        self.expected: dict[int, set[str]] = {}
        for head in expected:
            self.expected.setdefault(head.seq, set()).add(head.hash)
        self.records = self.notes = self.files = self.foreign = self.torn = self.more = 0
        self.first: int | None = None
        self.last: Line | None = None
        self.rewritten = False
        self.findings: list[Broken] = []
        self.configs: set[bytes] = set()  # hashes of configurations that were looked at
        self.done = self.total = 0

    def all_files(self, folder: int) -> None:
        """Every file once, in order, although a writer may move the current one aside at any moment."""
        self.total = _bytes_in(folder)
        seen: set[str] = set()
        while True:
            for name in appending.rotated_names(folder):
                if name not in seen:
                    seen.add(name)
                    with _reading(folder, self.folder / name) as file:
                        self._file(file, self.folder / name)
            with _reading(folder, self.folder / CURRENT) as file:
                if seen.issuperset(appending.rotated_names(folder)):
                    self._file(file, self.folder / CURRENT)
                    return

    def result(self) -> Verified:
        self._check_expected()
        head = Head(self.last.seq, self.last.hash) if self.last else None
        return Verified(
            self.records, self.notes, self.files, self.first, head, self.findings, self.foreign, self.torn, self.more
        )  # fmt: skip

    def _file(self, file: int | None, path: Path) -> None:
        if file is None:
            return
        self.files += 1
        _FileWalk(self, file, path).walk()

    def found(self, path: Path, line: int, seq: int | None, what: str) -> None:
        if len(self.findings) < MOST_FINDINGS:
            self.findings.append(Broken(path, line, seq, what))
        else:
            self.more += 1

    def _check_expected(self) -> None:
        if not self.expected:
            return
        missing = max(self.expected)
        last = self.last.seq if self.last else 0
        ends = f"it ends with record {last}" if last else "it has no record"
        cut = "the log was cut off" if missing > last else "records are missing"
        what = f"{cut}: the head that was exported, record {missing}, is not in the log: {ends}"
        self.found(self.folder / CURRENT, 0, missing, what)


class _FileWalk:
    """One file of it."""

    def __init__(self, walk: _Walk, file: int, path: Path) -> None:
        self.all, self.file, self.path = walk, file, path
        self.number = self.at = 0
        self.rotated = _seq_in_name(path.name)
        """The number of the first record of a full file; None for the current one."""
        self.first = True
        self.pending: list[_Foreign] = []

    def walk(self) -> None:
        size = self._size()
        with open(self.file, "rb", closefd=False, buffering=1 << 20) as stream:
            for start, line in _lines(stream, size):
                self.number += 1
                self._line(start, line)
                if start - self.at >= _STEP:
                    self._tell(start)
        self._settle(None, b"", size)
        self._tell(size)

    def _size(self) -> int:
        """How much of the file is looked at. The line that somebody is just writing is waited for."""
        size = os.fstat(self.file).st_size
        if size == 0 or os.pread(self.file, 1, size - 1) == b"\n":
            return size
        try:
            with locked(self.path.with_name(LOCK), root=self.all.root):
                return os.fstat(self.file).st_size
        except StoreError:
            return size  # a disk that is read-only now: nobody is writing

    def _line(self, start: int, line: bytes) -> None:
        record = lines.read_line(line[:-1]) if line.endswith(b"\n") else None
        if record is not None:
            self._settle(record, line, start)
            self._record(record, line)
        else:
            self.pending.append(_Foreign(self.number, start, _what_else(line)))
            if len(self.pending) > _PENDING:
                self._foreign(self.pending.pop(0))

    def _record(self, record: Line, line: bytes) -> None:
        before, self.all.last = self.all.last, record
        self.all.records += 1
        self.all.notes += bool(record.note)
        if self.all.first is None:
            self.all.first = record.seq
        self._follows(record, before)
        self._belongs_here(record, before)
        if not lines.is_whole(line[:-1]):
            self._found(record, "hash mismatch: the record was changed")
        if b'"side":{"sha256":"' in line:
            self._side(record, line)
        if b'"config":"' in line and not self.all.configs.issuperset(_CONFIG.findall(line)):
            self._config(record, line)
        expected = self.all.expected.pop(record.seq, None)
        if expected and expected != {record.hash} and not self.all.rewritten:
            self.all.rewritten = True  # later ones differ as well
            self._found(record, "it is not the record whose head was exported: the log was rewritten up to here")

    def _follows(self, record: Line, before: Line | None) -> None:
        seq, digest = (before.seq, before.hash) if before else (0, "")
        if record.seq == seq + 1:
            if record.prev != digest:
                self._found(record, f"it doesn't follow record {seq} as that is now" if seq else "it is not the first")
        elif record.seq > seq:
            gone = f"record {seq + 1} is" if record.seq == seq + 2 else f"records {seq + 1} to {record.seq - 1} are"
            self._found(record, f"{gone} missing before it")
        else:
            self._found(record, f"it stands after record {seq}: moved, or there twice")

    def _belongs_here(self, record: Line, before: Line | None) -> None:
        """Whether files begin and end where they did: a record can't be moved from one to the next."""
        first, self.first = self.first, False
        in_order = before is not None and record.seq == before.seq + 1
        if first and self.rotated not in (None, record.seq):
            self._found(record, f"it is not the first of this file, which was record {self.rotated}")
        elif first and before and in_order and before.note != "rotated":
            self._found(record, "the file before this one doesn't end with the note that it is full")
        elif not first and before and in_order and before.note == "rotated" and self.rotated is not None:
            self._found(record, "it stands after the note that the file is full")

    def _config(self, record: Line, line: bytes) -> None:
        named = str(_decoded(line).get("config"))
        if not snapshots.is_hash(named) or named.encode() in self.all.configs:
            return  # words of a tool's input that look like ours, or a record without one
        self.all.configs.add(named.encode())
        wrong = snapshots.what_is_wrong(self.all.root, named)
        if wrong:
            path = snapshots.snapshot_path(self.all.root, named)
            self._found(record, f"the configuration of its time {wrong}: {path}")

    def _settle(self, record: Line | None, line: bytes, start: int) -> None:
        """Of the lines since the last record: those that a note accounts for were torn, the others are foreign."""
        noted = record is not None and record.note == "torn"
        begin = self._torn_from(line, start) if noted else start
        for one in self.pending:
            if one.start >= begin:
                self.all.torn += 1
            else:
                self._foreign(one)
        self.pending.clear()
        if record is not None and noted and begin == start:
            self._found(record, "the unfinished line that it speaks of is not there as it was")

    def _torn_from(self, line: bytes, start: int) -> int:
        """Where the fragment begins that the note at `start` speaks of; `start` itself when it is not there."""
        given = _decoded(line).get("input")
        said = given if isinstance(given, dict) else {}
        size = said.get("bytes")
        if not isinstance(size, int) or not 0 < size < start:
            return start
        there = appending.fragment(self.file, start - 1 - size, start - 1)
        return there.start if there.sha256 == said.get("sha256") else start

    def _foreign(self, one: _Foreign) -> None:
        self.all.foreign += 1
        self.all.found(self.path, one.line, None, one.what)

    def _side(self, record: Line, line: bytes) -> None:
        said = _decoded(line).get("side")
        if said is None:
            return  # words of a tool's input that look like ours
        try:
            side = msgspec.convert(said, Side)
            if not _is_digest(side.sha256):
                raise ValueError("no digest")
            data = sidefiles.read_side(self.all.folder, self.all.root, side)
        except (ValueError, StoreError) as error:
            why = error.message if isinstance(error, StoreError) else str(error)
            self._found(record, f"its side file can't be read: {why}")
            return
        if data is None:
            path = sidefiles.side_path(self.all.folder, side.sha256)
            self._found(record, f"its side file was {'changed' if path.exists() else 'removed'}: {path}")

    def _found(self, record: Line, what: str) -> None:
        self.all.found(self.path, self.number, record.seq, f"record {record.seq}: {what}")

    def _tell(self, at: int) -> None:
        self.all.done += at - self.at
        self.at = at
        self.all.progress(self.all.done, max(self.all.done, self.all.total))


@contextmanager
def _reading(folder: int, path: Path) -> Iterator[int | None]:
    """A file of the log, open; None when it is gone."""
    try:
        file = appending.open_to_read(folder, path)
    except FileNotFoundError:
        yield None
        return
    try:
        yield file
    finally:
        os.close(file)


def _lines(stream: Any, size: int) -> Iterator[tuple[int, bytes]]:
    """Every line and where it begins, up to `size`. Of one that is too long to be ours only the start."""
    start = 0
    while start < size:
        line: bytes = stream.readline(LONGEST_LINE)
        if not line:
            return
        begin, start = start, start + len(line)
        if len(line) == LONGEST_LINE:
            while not (rest := stream.readline(LONGEST_LINE)).endswith(b"\n") and rest:
                start += len(rest)
            start += len(rest)
            line = line[:100]
        yield begin, line


def _what_else(line: bytes) -> str:
    if not line.endswith(b"\n"):
        return "the line was never finished"
    return (
        "it was changed, and is no record now" if line.startswith(lines.START) else "it is no record: somebody added it"
    )


def _bytes_in(folder: int) -> int:
    total = 0
    for name in [*appending.rotated_names(folder), CURRENT]:
        try:
            total += os.stat(name, dir_fd=folder, follow_symlinks=False).st_size
        except FileNotFoundError:
            pass
    return total


def _decoded(line: bytes) -> dict[str, Any]:
    import json  # the standard library's, because a line may hold a lone surrogate, which msgspec refuses

    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def _seq_in_name(name: str) -> int | None:
    return None if name == CURRENT else int(name[len("hooks-") : -len(".jsonl")])


def _is_digest(text: str) -> bool:
    return len(text) == 64 and set(text) <= set("0123456789abcdef")

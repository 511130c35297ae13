"""Verify an event log: no line was changed, removed, moved or added.

The chain of hashes shows every change, unless all following lines are rewritten, too. Against that, and against
truncation, only a head (`12:<hash>`) that was kept elsewhere helps: the log must still contain it.
"""

import os
import re
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec

from billhook.store import files
from billhook.store import log as lines
from billhook.store.files import StoreError, locked
from billhook.store.log import LineEnds, Side
from billhook.store.log.eventlog import CURRENT, LOCK, fragment, last_of, rotated_names
from billhook.store.log.reader import LogFile, end_of_lines, forward, open_log_files

MOST_FINDINGS: Final = 1000  # more are counted, but not listed
_PENDING: Final = 64  # Lines that one torn line and its repairs can leave. Of more, only the last count.
_CONFIG: Final = re.compile(rb'"config":"([0-9a-f]{64})"')
"""Candidates for the hash of a record's configuration: decoding every line would take several times as long."""
_HEADS: Final = ("billhook", "heads")


class Head(msgspec.Struct, frozen=True):
    """The last record of a log at one moment."""

    seq: int
    hash: str

    def __str__(self) -> str:
        return f"{self.seq}:{self.hash}"

    @classmethod
    def from_text(cls, text: str) -> "Head":
        """Parse the output of `str`. Raises ValueError."""
        seq, _, digest = text.strip().partition(":")
        if not (seq.isascii() and seq.isdecimal() and len(seq) < 19 and lines.is_hash(digest)):
            raise ValueError(f"`{text.strip()[:100]}` is not a head: it must be like `12:` and 64 hex digits")
        return cls(int(seq), digest)


class LogFault(NamedTuple):
    file: Path
    line: int  # from 1; 0 if it is about the file
    seq: int | None  # the record's number, if known
    what: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.what}" if self.line else f"{self.file}: {self.what}"


class VerifyResult(NamedTuple):
    records: int  # all of them, `notes` included
    notes: int  # records about the log itself: a torn line, a full file
    files: int
    first_seq: int | None
    head: Head | None
    findings: list[LogFault]
    foreign: int  # lines that are not records
    torn: int  # Incomplete lines, noted when the log was repaired. They are not findings.
    more: int  # findings that are not listed

    @property
    def ok(self) -> bool:
        return not self.findings


def verify(folder: Path, root: Path, *, expected: Iterable[Head] = ()) -> VerifyResult:
    """Verify the whole log of a folder, full files first. `expected` are heads that it must contain. Only reads, and
    works while others write. Raises StoreError for a log that can't be read."""
    walk = _LogWalk(folder, root, expected)
    with open_log_files(folder, root) as log:
        for opened in () if log is None else map(log.opened, log.names):
            with opened as file:
                if file is not None:
                    walk.file(file)
    return walk.result()


def export_head(folder: Path, root: Path, head: Head) -> None:
    """Save an exported head: from now on the log of this folder must contain it."""
    data = msgspec.json.encode(head) + b"\n"
    files.write_atomically(root.joinpath(*_HEADS, f"{folder.name}.json"), data, root=root)


def exported_head(folder: Path, root: Path) -> Head | None:
    """The last exported head; None: there is none. Raises StoreError if it can't be read."""
    path = root.joinpath(*_HEADS, f"{folder.name}.json")
    data = files.read_bytes(path, 1000, root=root)
    if data is None:
        return None
    try:
        return Head.from_text(str(msgspec.json.decode(data, type=Head)))
    except ValueError as error:
        hint = f"remove it: rm {path}; and compare with a head that you kept elsewhere"
        raise StoreError(f"the file is damaged: {error}", place=str(path), hint=hint) from None


class _ForeignLine(NamedTuple):
    """A line that is not a record, until it is known whether a note explains it."""

    line: int
    start: int
    what: str


class _LogWalk:
    def __init__(self, folder: Path, root: Path, expected: Iterable[Head]) -> None:
        self.folder, self.root = folder, root
        self.expected: dict[int, set[str]] = {}
        for head in expected:
            self.expected.setdefault(head.seq, set()).add(head.hash)
        self.records = self.notes = self.files = self.foreign = self.torn = self.more = 0
        self.first: int | None = None
        self.last: LineEnds | None = None
        self.rewritten = False
        self.findings: list[LogFault] = []
        self.configs: set[bytes] = set()  # hashes of configurations that were checked

    def file(self, file: LogFile) -> None:
        """The next file of the log."""
        self.files += 1
        self.open, self.number, self.at_start = file, 0, True
        self.pending: list[_ForeignLine] = []
        size = self._size()
        for block in forward(file.descriptor, closed=True, end=size):
            for start, line in block.lines():
                self._line(start, line)
            if block.lost:
                self._line(block.offset - 1, None)
        self._settle(None, b"", size)

    def _size(self) -> int:
        """How much of the file is checked. Waits for a line that is being written."""
        size = self.open.size
        if end_of_lines(self.open.descriptor, size) == size:
            return size
        try:
            with locked(self.folder / LOCK, root=self.root):
                return self.open.size
        except StoreError:
            return size  # the disk is read-only: no other process is writing

    def result(self) -> VerifyResult:
        self._check_expected()
        head = Head(self.last.seq, self.last.hash) if self.last else None
        return VerifyResult(
            self.records, self.notes, self.files, self.first, head, self.findings, self.foreign, self.torn, self.more
        )  # fmt: skip

    def _check_expected(self) -> None:
        if not self.expected:
            return
        missing = max(self.expected)
        last = self.last.seq if self.last else 0
        ends = f"it ends with record {last}" if last else "it has no records"
        cut = "the log was truncated" if missing > last else "records are missing"
        what = f"{cut}: the exported head, record {missing}, is not in the log: {ends}"
        self._add(LogFault(self.folder / CURRENT, 0, missing, what))

    def _line(self, start: int, line: bytes | None) -> None:
        self.number += 1
        record = None if line is None else lines.read_line(line)
        if record is not None and line is not None:
            self._settle(record, line, start)
            self._record(record, line)
            return
        self.pending.append(_ForeignLine(self.number, start, _what_else(line)))
        if len(self.pending) > _PENDING:
            self._foreign(self.pending.pop(0))

    def _record(self, record: LineEnds, line: bytes) -> None:
        before, self.last = self.last, record
        self.records += 1
        self.notes += bool(record.note)
        if self.first is None:
            self.first = record.seq
        self._follows(record, before)
        self._belongs_here(record, before)
        if not lines.is_whole(line):
            self._found(record, "hash mismatch: the record was changed")
        if b'"side":{"sha256":"' in line:
            self._side(record, line)
        if b'"config":"' in line and not self.configs.issuperset(_CONFIG.findall(line)):
            self._config(record, line)
        expected = self.expected.pop(record.seq, None)
        if expected and expected != {record.hash} and not self.rewritten:
            self.rewritten = True  # later records differ as well
            self._found(record, "it does not match the exported head: the log was rewritten up to here")

    def _follows(self, record: LineEnds, before: LineEnds | None) -> None:
        seq, digest = (before.seq, before.hash) if before else (0, "")
        if record.seq == seq + 1:
            if record.prev != digest:
                self._found(record, f"its `prev` does not match record {seq}" if seq else "it is not the first record")
        elif record.seq > seq:
            gone = f"record {seq + 1} is" if record.seq == seq + 2 else f"records {seq + 1} to {record.seq - 1} are"
            self._found(record, f"{gone} missing before this record")
        else:
            self._found(record, f"it comes after record {seq}: it was moved or copied")

    def _belongs_here(self, record: LineEnds, before: LineEnds | None) -> None:
        """Check the first and last record of each file: a record must not move from one file to the next."""
        first, self.at_start = self.at_start, False
        in_order = before is not None and record.seq == before.seq + 1
        begins_with = int(self.open.path.stem.removeprefix("hooks-")) if self.open.closed else None
        if first and begins_with not in (None, record.seq):
            self._found(record, f"this file must begin with record {begins_with}")
        elif first and before and in_order and before.note != "rotated":
            self._found(record, "the file before this one does not end with a note that it is full")
        elif not first and before and in_order and before.note == "rotated" and self.open.closed:
            self._found(record, "it comes after the note that the file is full")

    def _config(self, record: LineEnds, line: bytes) -> None:
        named = str(_decoded(line).get("config"))
        if not lines.is_hash(named) or named.encode() in self.configs:
            return  # part of a tool's input, or a record without a configuration
        self.configs.add(named.encode())
        path = lines.snapshot_path(self.root, named)
        _, wrong = lines.read_hashed(path, self.root, named, lines.LARGEST_SNAPSHOT)
        if wrong:
            self._found(record, f"its configuration {wrong}: {path}")

    def _settle(self, record: LineEnds | None, line: bytes, start: int) -> None:
        """Sort the lines since the last record: those that a note explains are torn, the others are foreign."""
        noted = record is not None and record.note == "torn"
        begin = self._torn_from(line, start) if noted else start
        for one in self.pending:
            if one.start >= begin:
                self.torn += 1
            else:
                self._foreign(one)
        self.pending.clear()
        if record is not None and noted and begin == start:
            self._found(record, "the incomplete line that this note describes was removed or changed")

    def _torn_from(self, line: bytes, start: int) -> int:
        """The beginning of the fragment that the note at `start` describes; `start` itself if there is none."""
        given = _decoded(line).get("input")
        said = given if isinstance(given, dict) else {}
        size = said.get("bytes")
        if not isinstance(size, int) or not 0 < size < start:
            return start
        there = fragment(self.open.descriptor, start - 1 - size, start - 1)
        return there.start if there.sha256 == said.get("sha256") else start

    def _foreign(self, one: _ForeignLine) -> None:
        self.foreign += 1
        self._add(LogFault(self.open.path, one.line, None, one.what))

    def _side(self, record: LineEnds, line: bytes) -> None:
        said = _decoded(line).get("side")
        if said is None:
            return  # part of a tool's input
        try:
            side = msgspec.convert(said, Side)
        except msgspec.ValidationError as error:
            self._found(record, f"its side file can't be read: {error}")
            return
        _, wrong = lines.read_side(self.folder, self.root, side)
        if wrong:
            self._found(record, f"its side file {wrong}: {lines.side_path(self.folder, side.sha256)}")

    def _found(self, record: LineEnds, what: str) -> None:
        self._add(LogFault(self.open.path, self.number, record.seq, f"record {record.seq}: {what}"))

    def _add(self, finding: LogFault) -> None:
        if len(self.findings) < MOST_FINDINGS:
            self.findings.append(finding)
        else:
            self.more += 1


def _what_else(line: bytes | None) -> str:
    if line is None:
        return "the line is incomplete"
    if line.startswith(lines.START):
        return "the line was changed, and is no longer a record"
    return "the line is not a record: it was added from outside"


def _decoded(line: bytes) -> dict[str, Any]:
    import json  # the standard library's, because a line may contain a lone surrogate, which msgspec rejects

    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


# Heads of a log in a folder that the user chose:

_LARGEST: Final = 64 << 20
_FLAGS: Final = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class ExportedHead(NamedTuple):
    head: Head
    time: str  # when it was exported, in UTC


def heads_file(target: Path, folder: Path) -> Path:
    """The file with the heads of a log, named after the log's folder."""
    return target / f"{folder.name.lstrip('-') or 'root'}.heads"


def exported(target: Path, folder: Path) -> list[ExportedHead]:
    """All heads of a log, oldest first. Raises StoreError for a folder or file that can't be read."""
    path = heads_file(target, folder)
    if not target.is_dir():
        raise StoreError("the folder for heads does not exist", place=str(target), hint="create or mount it")
    try:
        lines = (files.read_bytes(path, _LARGEST) or b"").decode().splitlines()
        pairs = [line.partition(" ") for line in lines]
        return [ExportedHead(Head.from_text(head), when) for head, _, when in pairs]
    except ValueError as error:
        hint = "fix or remove that line, and find out who changed it"
        raise StoreError(f"the file is damaged: {error}", place=str(path), hint=hint) from None


def export(target: Path, folder: Path, root: Path) -> Head | None:
    """Append the head of a log, unless it is already the last one; None for an empty log. Raises StoreError."""
    head = current(folder, root)
    before = exported(target, folder)
    if head is None or (before and before[-1].head == head):
        return head
    path = heads_file(target, folder)
    with files.explained("write", path), open(os.open(path, _FLAGS, 0o600), "wb") as stream:
        stream.write(f"{head} {time.strftime('%Y-%m-%dT%H:%M:%SZ', time.gmtime())}\n".encode())
    return head


def current(folder: Path, root: Path) -> Head | None:
    """The last record of a log; None if it has no records."""
    with files.opened(folder, root) as opened:
        if opened is None:
            return None
        names = [CURRENT, *reversed(rotated_names(opened))]
        last = last_of(opened, [folder / name for name in names])
    return None if last is None else Head(last.seq, last.hash)


def overdue(target: Path, folder: Path, root: Path, every: float) -> str:
    """The problem if records were not exported for longer than the interval; otherwise an empty string. Raises
    StoreError."""
    head, before = current(folder, root), exported(target, folder)
    last = before[-1] if before else None
    if head is None or (last and last.head.seq >= head.seq):
        return ""
    if last is None:
        return f"no head has been exported to {target} yet"
    age = time.time() - heads_file(target, folder).stat().st_mtime
    if age < 2 * every:
        return ""
    return f"the newest head in {target} is of record {last.head.seq} ({last.time}); the log is at record {head.seq}"

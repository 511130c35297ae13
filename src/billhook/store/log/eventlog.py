"""The event log: one JSON line for each verdict, complete, once, in order, even if other writers crash.

Rules of the file, all of them kept under one lock: a line is one write; a line that a crashed writer left incomplete is
closed and noted before anything else is added; an incomplete write is undone; each line contains the hash of the one
before. Once `append` has returned, the line survives the death of every process; with `sync` it also survives a power
loss.
"""

import os
import sys
from _thread import allocate_lock
from _weakrefset import WeakSet
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from os import SEEK_END, lseek, write
from pathlib import Path
from time import monotonic, sleep
from typing import Any, Final, NamedTuple, Never

import msgspec

from billhook.core import strictjson
from billhook.core.lazy import pattern
from billhook.store import files
from billhook.store import log as lines
from billhook.store.files import TIMEOUT, LockFile, StoreError, failed, log_folder, sha256
from billhook.store.log import LARGEST_BODY, LARGEST_LINE, LineEnds

if sys.platform != "win32":
    from fcntl import LOCK_EX, LOCK_NB, LOCK_UN, flock

    _AT_ONCE: Final = LOCK_EX | LOCK_NB

CURRENT = "hooks.jsonl"
LOCK = "hooks.lock"
LONGEST_LINE = 16 << 20  # Bytes. A longer line is ignored: it is not a record.
_ROTATED = pattern(r"hooks-([0-9]{12})\.jsonl")
_BLOCK = 64 << 10
_NO_LOG = "so it can't be used as a log"
_FLAGS = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class Fragment(msgspec.Struct, frozen=True):
    """The unfinished bytes at the end of a file: from `start` to its end."""

    start: int
    bytes: int
    sha256: str


class End(msgspec.Struct, frozen=True):
    last: LineEnds | None  # the last record; None: there is none in the part that was read
    fragment: Fragment | None


def rotated_name(first_seq: int) -> str:
    """The name of a full file, by the number of its first record."""
    return f"hooks-{first_seq:012d}.jsonl"


def rotated_names(folder: int) -> list[str]:
    """The names of the full files in an open folder, oldest first."""
    return sorted(name for name in os.listdir(folder) if _ROTATED.fullmatch(name))


def open_to_append(folder: int, path: Path) -> int:
    """The file of an open folder, created with mode 0600. Raises StoreError if it is not a file of this user."""
    with files.explained("open", path):
        files.require_own_file(files.status(path.name, folder), path, _NO_LOG)
        file = os.open(path.name, os.O_RDWR | os.O_APPEND | os.O_CREAT | _FLAGS, 0o600, dir_fd=folder)
        try:
            found = os.fstat(file)
            files.require_own_file(found, path, _NO_LOG)
            if found.st_mode & 0o077:
                os.fchmod(file, 0o600)
        except BaseException:
            os.close(file)
            raise
    return file


@contextmanager
def reading(folder: int, path: Path) -> Iterator[int | None]:
    """A file of an open folder, open for reading; None if it is missing. Raises StoreError if it is another user's."""
    file: int | None = None
    try:
        with files.explained("read", path):
            try:
                file = os.open(path.name, os.O_RDONLY | _FLAGS, dir_fd=folder)
                files.require_own_file(os.fstat(file), path, _NO_LOG)
            except FileNotFoundError:
                pass
        yield file
    finally:
        if file is not None:
            os.close(file)


def last_of(folder: int, paths: Iterable[Path]) -> LineEnds | None:
    """The last record of the first of these files that has a record."""
    for path in paths:
        with reading(folder, path) as file:
            last = None if file is None else read_end(file, 0, os.fstat(file).st_size).last
        if last is not None:
            return last
    return None


def read_end(file: int, since: int, size: int) -> End:
    """Search from `size` back to `since`, the start of a line, for the last record."""
    back = _backward(file, since, size)
    start, stop = next(back)
    if start == stop:
        return End(next((own for begin, end in back if (own := _own(file, begin, end))), None), None)
    own = _own(file, start, stop)
    if own and lines.is_whole(_read(file, start, stop)):  # complete except for its newline: it counts
        return End(own, fragment(file, start, size))
    torn = True  # the note about an earlier fragment may be torn, too: bytes before it belong to this fragment
    for begin, end in back:
        if own := _own(file, begin, end):
            return End(own, fragment(file, start, size))
        torn = torn and _read(file, begin, min(end, begin + len(lines.START))) == lines.START
        start = begin if torn else start
    return End(None, fragment(file, start, size))


def first_seq(file: int) -> int | None:
    """The number of the first record in a file; None if it has no record."""
    with open(file, "rb", closefd=False) as stream:
        stream.seek(0)
        while line := stream.readline(LONGEST_LINE):
            if found := lines.read_line(line[:-1]):
                return found.seq
    return None


def fragment(file: int, start: int, end: int) -> Fragment:
    """The bytes of a file between two offsets, as a digest."""
    digest = sha256()
    for begin in range(start, end, _BLOCK):
        digest.update(_read(file, begin, min(end, begin + _BLOCK)))
    return Fragment(start, end - start, digest.hexdigest())


def _own(file: int, start: int, stop: int) -> LineEnds | None:
    return lines.read_line(_read(file, start, stop)) if stop - start <= LONGEST_LINE else None


def _backward(file: int, since: int, size: int) -> Iterator[tuple[int, int]]:
    """Start and end of every line without its newline, last line first. The first is the incomplete line, if any."""
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


# Writing:

_encode: Final = msgspec.json.Encoder(enc_hook=str).encode
MAX_BYTES: Final = 64 << 20  # size of a log file after which the next one is begun
_OPEN_AT_ONCE: Final = 8  # logs of one process that keep their descriptors
_LOOK_AGAIN: Final = 0.25  # seconds after which a writer checks that its file is still the one at the path
_ROOM: Final = lines.ROOM + 600
"""Bytes that a line adds to its record, and that are reserved for the note that the file is full."""
_QUICK: Final = 128 << 10
_TRIES: Final = 30
_new: Final = tuple.__new__  # the same as `RecordPosition(...)` with one call less: this runs for every event
_let_others_run: Final[Callable[[], object]] = getattr(os, "sched_yield", lambda: sleep(0))


def make_line(seq: int, prev: str, body: bytes) -> tuple[bytes, str]:
    """A line with its newline, and its hash. `body` is an encoded JSON object that is not empty."""
    text = b'{"v":1,"seq":%d,"prev":"%b",%b' % (seq, prev.encode(), body[1:-1])
    digest = (sha256.fastest or sha256)(text).hexdigest()
    return text + b',"hash":"%b"}\n' % digest.encode(), digest


class RecordPosition(NamedTuple):
    """Where a record is in the log."""

    seq: int
    hash: str


def open_log(root: Path, project: str, *, max_bytes: int = MAX_BYTES, sync: bool = False) -> "EventLog":
    """The log of a project. Nothing is opened or written before the first record, so this never fails. The same object
    for the same arguments: many engines share a few descriptors."""
    wanted = (root, log_folder(root, project), max_bytes, sync)
    # No lock: each step is atomic, and if two threads create a log at the same time, both logs work.
    log = _opened.pop(wanted, None) or EventLog(root, wanted[1], max_bytes=max_bytes, sync=sync)
    _opened[wanted] = log
    if len(_opened) > _OPEN_AT_ONCE and (oldest := _opened.pop(next(iter(list(_opened))), None)) is not None:
        oldest.close()
    return log


class EventLog:
    """Writes a log. Threads may share it, and so may forked children."""

    def __init__(self, root: Path, folder: Path, *, max_bytes: int = MAX_BYTES, sync: bool = False) -> None:
        self.root = root
        self.folder = folder
        self.path = folder / CURRENT
        self._full = max_bytes - _ROOM
        self._roomy = self._full - LARGEST_LINE  # up to this size a file has room for any line
        self.sync = sync
        self._lock = _QuickLock(folder / LOCK, root)
        self._seal = make_line
        self._turn = [True]
        """Empty while a thread of this process is writing: the thread that removes the only item has the turn. Faster
        than a lock, and also atomic."""
        self._file = -1
        self._size = 0  # bytes of the file that are known: up to record `_seq` with `_hash`
        self._seq = 0
        self._hash = ""
        self._look_again = 0.0
        self._durable = 0  # with `sync`: the last record that is known to be on the disk
        self._flushing = allocate_lock()
        _living.add(self)

    def append(self, content: Mapping[str, Any]) -> RecordPosition:
        """Add one record. Raises StoreError, and then nothing was added; or, with `sync`, it was added but not synced.
        `content` has the fields of `Record` without those that the log adds: v, seq, prev, note, side and hash. Fields
        that make the line longer than `LARGEST_LINE` go to a side file."""
        try:
            body = _encode(content)
        except (TypeError, ValueError, OverflowError):  # a lone surrogate, an integer beyond 64 bits
            body = b""
        if not 2 < len(body) <= LARGEST_BODY or not body.isascii():
            body = self._fitted(content)
        return _new(RecordPosition, self.append_encoded(body))

    def _fitted(self, content: Mapping[str, Any]) -> bytes:
        """Encode an unusual record: its text in ASCII, its largest fields in a side file."""
        if not content:
            raise StoreError("the record is empty", place=str(self.path))
        body = strictjson.encode(content)
        return body if len(body) <= LARGEST_BODY else lines.moved(content, self._keep_side)

    def append_encoded(self, body: bytes) -> tuple[int, str]:
        """Add one encoded record: a JSON object, not empty, on one line of ASCII that is not too long. Returns the
        fields of `RecordPosition`. Almost always the lock is free and the file is unchanged: that path is optimised,
        because a Python call costs as much as a system call."""
        look, turn, lock = monotonic() >= self._look_again, self._turn, self._lock
        try:
            del turn[0]  # not `pop`: Python checks for interrupts after a call, and one here would keep the turn
        except IndexError:
            self._wait_for_turn()
        try:
            if look:
                lock.take(check=True)
            else:
                try:
                    flock(lock.file, _AT_ONCE)
                except (OSError, ValueError):  # another process holds it, or it is not open
                    lock.take(check=False)
            if look or lseek(self._file, 0, SEEK_END) != self._size or self._size > self._roomy:
                self._make_ready(len(body))
            seq = self._seq + 1
            line, digest = self._seal(seq, self._hash, body)
            written = write(self._file, line)
            if written != len(line):
                self._take_back(written, len(line))
            self._seq = seq
            self._hash = digest
            self._size += written
        except BaseException as error:  # also an interrupt: the next record checks the file again
            self._size, self._look_again = 0, 0.0
            if isinstance(error, OSError):
                raise failed("write", self.path, error) from error
            raise
        finally:
            try:
                if lock.file >= 0:
                    flock(lock.file, LOCK_UN)
            finally:
                turn.append(True)
        if self.sync:
            self._make_durable(seq)
        return seq, digest

    def close(self) -> None:
        """Close the descriptors. Using the log again reopens them."""
        self._wait_for_turn()
        try:
            self._close_file()
            self._lock.close()
        finally:
            self._turn.append(True)

    def __del__(self) -> None:
        try:
            self._close_file()
            self._lock.close()
        except (OSError, AttributeError):
            pass  # `__init__` failed, or the interpreter ends

    def _wait_for_turn(self) -> None:
        """Become the one thread of this process that writes to the log."""
        ends = monotonic() + 2 * TIMEOUT
        while monotonic() < ends:
            try:
                del self._turn[0]
            except IndexError:
                sleep(0.0005)
            else:
                return
        # The other thread was interrupted, or waits for its disk. Don't wait for it again.
        self._turn, self._lock = [True], _QuickLock(self._lock.path, self.root)
        raise StoreError("another thread of this process is still writing to the log", place=str(self.path))

    def _note(self, body: bytes, before: bytes = b"") -> None:
        """Add a line about the log itself; `before` closes an incomplete line."""
        line, digest = make_line(self._seq + 1, self._hash, body)
        written = write(self._file, before + line)
        if written != len(before + line):
            self._take_back(written, len(before + line))
        self._seq, self._hash = self._seq + 1, digest
        self._size += written

    def _take_back(self, written: int, wanted: int) -> Never:
        try:
            # Never remove bytes that another process has written meanwhile.
            if lseek(self._file, 0, SEEK_END) == self._size + written:
                os.ftruncate(self._file, self._size)
        except OSError:
            pass  # then the next writer finds a fragment, closes it and adds a note
        what = f"only {written} of {wanted} bytes could be written, and were removed again"
        raise StoreError(what, place=str(self.path), hint="free some space on that disk")

    def _make_durable(self, seq: int) -> None:
        """Return when this record is synced to disk. Threads that wait meanwhile share the next flush."""
        with self._flushing:
            if self._durable >= seq:
                return
            written = self._seq
            try:
                os.fdatasync(self._file)
            except (OSError, ValueError) as error:
                if self._durable < seq:  # it was not flushed when its file was closed, either
                    raise StoreError(
                        f"the record was written, but may not survive a power loss: {error}", place=str(self.path)
                    ) from error
                return
            self._durable = written

    def _make_ready(self, wanted: int) -> None:
        """Find the end, and begin a new file if a record of so many bytes does not fit into this one."""
        self._find_end()
        if self._size + wanted > self._full and self._size:
            self._rotate()

    def _find_end(self) -> None:
        """Find where the next line goes: another writer, a rotation, a crash or the user may have moved the end."""
        now = monotonic()
        if now >= self._look_again:
            if self._file >= 0 and self._moved():
                self._close_file()
            self._look_again = now + _LOOK_AGAIN
        if self._file < 0:
            self._open_file()
        while self._is_full():
            if self._moved():
                self._close_file()
                self._open_file()
            elif not self._move_aside():
                return

    def _is_full(self) -> bool:
        """Read what was added since the last check, and repair the end. True: the file ends with the note `rotated`."""
        size = lseek(self._file, 0, SEEK_END)
        if size == self._size:
            return False
        since = self._size if size > self._size else 0
        end = self._read_quickly(since, size) or read_end(self._file, since, size)
        if end.last is not None and end.last.seq > self._seq:
            self._seq, self._hash = end.last.seq, end.last.hash
        elif end.last is None and since == 0:
            self._follow_rotated()
        self._size = size
        if (torn := end.fragment) is not None:
            reason = f"the line before this one is incomplete: {torn.bytes} bytes are not a record"
            self._note(lines.note("torn", reason, {"bytes": torn.bytes, "sha256": torn.sha256}), before=b"\n")
            return False
        return end.last is not None and end.last.note == "rotated"

    def _read_quickly(self, since: int, size: int) -> End | None:
        """The usual case: complete records only. None: the end needs a closer look."""
        if size - since > _QUICK:
            return None
        data = os.pread(self._file, size - since, since)
        last = lines.read_line(data[data.rfind(b"\n", 0, -1) + 1 : -1]) if data.endswith(b"\n") else None
        return None if last is None else End(last, None)

    def _rotate(self) -> None:
        """Begin a new file. If the old one can't be renamed, it keeps growing: nothing is lost."""
        if self._name_when_full() is not None:
            self._note(lines.note("rotated", f"the log continues in {CURRENT}"))
            self._move_aside()

    def _move_aside(self) -> bool:
        """Rename the file, which ends with the note that it is full, and open the next one."""
        name = self._name_when_full()
        if name is None:
            return False
        with files.opened(self.folder, self.root) as folder:
            try:
                os.rename(CURRENT, name, src_dir_fd=folder, dst_dir_fd=folder)
            except OSError as error:
                raise failed("rename", self.path, error) from error
        self._close_file()
        self._open_file()
        return True

    def _name_when_full(self) -> str | None:
        """None if the file can't be renamed: it has no record, or the name is already in use."""
        first = first_seq(self._file)
        if first is None or not os.access(self.folder, os.W_OK):
            return None
        name = rotated_name(first)
        return None if os.path.lexists(self.folder / name) else name

    def _open_file(self) -> None:
        with files.opened(self.folder, self.root, create=True) as folder:
            assert folder is not None
            self._file = open_to_append(folder, self.path)
            if self.sync:
                os.fsync(folder)
        self._size = 0  # nothing of it was read
        if lseek(self._file, 0, SEEK_END) == 0:
            self._follow_rotated()

    def _follow_rotated(self) -> None:
        """A file without a record continues after the newest full one, or after our last record if that is later."""
        with files.opened(self.folder, self.root) as folder:
            assert folder is not None
            names = reversed(rotated_names(folder))
            last = last_of(folder, [self.folder / name for name in names])
        if last is not None and last.seq > self._seq:
            self._seq, self._hash = last.seq, last.hash

    def _moved(self) -> bool:
        try:
            return not os.path.samestat(os.fstat(self._file), os.stat(self.path, follow_symlinks=False))
        except OSError:
            return True

    def _keep_side(self, sha256: str, data: bytes) -> None:
        lines.write_side(self.folder, self.root, sha256, data, sync=self.sync)

    def _close_file(self) -> None:
        """Flush what threads of this process wrote to the file: they can't once it is closed."""
        with self._flushing:
            file, self._file, self._size, self._look_again = self._file, -1, 0, 0.0
            if file < 0:
                return
            try:
                if self.sync and self._durable < self._seq:
                    os.fdatasync(file)
                    self._durable = self._seq
            finally:
                os.close(file)

    def _after_fork(self) -> None:
        """In the child: another thread may have been writing, so nothing is reused."""
        self._seq, self._hash, self._turn, self._durable, self._flushing = 0, "", [True], 0, allocate_lock()
        try:
            self._close_file()
        except OSError:
            pass  # already closed by code that closes all descriptors


class _QuickLock(LockFile):
    """The lock against other processes, used by one thread at a time. Its user may lock `file` directly."""

    file = -1  # the descriptor; negative: it is not open

    def take(self, *, check: bool) -> None:
        if check or not self._lock_soon():
            if self._turn.locked():  # the lock against threads, left by an interrupt: there is only one thread here
                self._turn.release()
            self.acquire(TIMEOUT, check=check)
            self.file = -1 if self._file is None else self._file
            self._turn.release()

    def _lock_soon(self) -> bool:
        """Try a few times before sleeping: a line takes microseconds, so a sleep would cost more than the wait."""
        for _ in range(_TRIES if self.file >= 0 else 0):
            _let_others_run()
            try:
                flock(self.file, _AT_ONCE)
            except OSError:
                continue
            return True
        return False

    def _forget(self) -> None:
        self.file = -1
        super()._forget()


def _leave_logs_to_the_parent() -> None:
    for log in list(_living):
        log._after_fork()


_opened: dict[tuple[Path, Path, int, bool], EventLog] = {}  # the most recently used logs, the latest at the end
_living: WeakSet[EventLog] = WeakSet()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_leave_logs_to_the_parent)

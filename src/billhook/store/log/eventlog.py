"""The event log: one JSON line for each verdict, whole, once, in order, whoever else writes and dies meanwhile.

Rules of the file, all of them kept under one lock: a line is one write; what a dying writer left unfinished is closed
and noted before anything else is added; a write that did not succeed in full is taken back; each line carries the hash
of the one before. A line that `append` returned for survives the death of every process; only with `sync` it survives
the loss of power, too.
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
from billhook.store.files import PATIENCE, LockFile, StoreError, failed, log_folder, sha256
from billhook.store.log import record
from billhook.store.log.record import LARGEST_BODY, LARGEST_LINE, LineEnds

if sys.platform != "win32":
    from fcntl import LOCK_EX, LOCK_NB, LOCK_UN, flock

    _AT_ONCE: Final = LOCK_EX | LOCK_NB

CURRENT = "hooks.jsonl"
LOCK = "hooks.lock"
LONGEST_LINE = 16 << 20  # Bytes. A longer line is not looked at: it is none of ours.
_ROTATED = pattern(r"hooks-([0-9]{12})\.jsonl")
_BLOCK = 64 << 10
_NO_LOG = "so no log is kept in it"
_FLAGS = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class Fragment(NamedTuple):
    """The unfinished bytes at the end of a file: from `start` to its end."""

    start: int
    bytes: int
    sha256: str


class End(NamedTuple):
    """What stands at the end of a file."""

    last: LineEnds | None  # the last record of ours; None: there is none in what was looked at
    fragment: Fragment | None


def rotated_name(first_seq: int) -> str:
    """The name of a file that is full, by the number of its first record."""
    return f"hooks-{first_seq:012d}.jsonl"


def rotated_names(folder: int) -> list[str]:
    """The names of the full files in an open folder, the oldest first."""
    return sorted(name for name in os.listdir(folder) if _ROTATED.fullmatch(name))


def open_to_append(folder: int, path: Path) -> int:
    """The file of an open folder, made 0600 when there is none. Raises StoreError for what is not a file of ours."""
    with files.explained("open", path):
        files.refuse_strange(files.status(path.name, folder), path, _NO_LOG)
        file = os.open(path.name, os.O_RDWR | os.O_APPEND | os.O_CREAT | _FLAGS, 0o600, dir_fd=folder)
        try:
            found = os.fstat(file)
            files.refuse_strange(found, path, _NO_LOG)
            if found.st_mode & 0o077:
                os.fchmod(file, 0o600)
        except BaseException:
            os.close(file)
            raise
    return file


@contextmanager
def reading(folder: int, path: Path) -> Iterator[int | None]:
    """A file of an open folder, open to be read; None when there is none. Raises StoreError for what is not ours."""
    file: int | None = None
    try:
        with files.explained("read", path):
            try:
                file = os.open(path.name, os.O_RDONLY | _FLAGS, dir_fd=folder)
                files.refuse_strange(os.fstat(file), path, _NO_LOG)
            except FileNotFoundError:
                pass
        yield file
    finally:
        if file is not None:
            os.close(file)


def last_of(folder: int, paths: Iterable[Path]) -> LineEnds | None:
    """The last record in the first of some files that has one."""
    for path in paths:
        with reading(folder, path) as file:
            last = None if file is None else read_end(file, 0, os.fstat(file).st_size).last
        if last is not None:
            return last
    return None


def read_end(file: int, since: int, size: int) -> End:
    """Look from `size` back to `since`, the start of a line, until a record of ours is met."""
    back = _backward(file, since, size)
    start, stop = next(back)
    if start == stop:
        return End(next((own for begin, end in back if (own := _own(file, begin, end))), None), None)
    own = _own(file, start, stop)
    if own and record.is_whole(_read(file, start, stop)):  # all but its newline: it counts
        return End(own, fragment(file, start, size))
    torn = True  # the repair of an earlier fragment may have been torn itself: what lies before belongs to this one
    for begin, end in back:
        if own := _own(file, begin, end):
            return End(own, fragment(file, start, size))
        torn = torn and _read(file, begin, min(end, begin + len(record.START))) == record.START
        start = begin if torn else start
    return End(None, fragment(file, start, size))


def first_seq(file: int) -> int | None:
    """The number of the first record in a file; None when it has none."""
    with open(file, "rb", closefd=False) as stream:
        stream.seek(0)
        while line := stream.readline(LONGEST_LINE):
            if found := record.read_line(line[:-1]):
                return found.seq
    return None


def fragment(file: int, start: int, end: int) -> Fragment:
    """The bytes of a file between two places, by their digest."""
    digest = sha256()
    for begin in range(start, end, _BLOCK):
        digest.update(_read(file, begin, min(end, begin + _BLOCK)))
    return Fragment(start, end - start, digest.hexdigest())


def _own(file: int, start: int, stop: int) -> LineEnds | None:
    return record.read_line(_read(file, start, stop)) if stop - start <= LONGEST_LINE else None


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


# The log that is written to:

_NOTHING_YET: Final = sha256()
_encode: Final = msgspec.json.Encoder(enc_hook=str).encode
MAX_BYTES: Final = 64 << 20  # how long a file of the log grows before the next one is begun
_OPEN_AT_ONCE: Final = 8  # logs of one process that keep their descriptors
_LOOK_AGAIN: Final = 0.25  # seconds after which a writer makes sure that its file is still the one at the path
_ROOM: Final = record.ROOM + 600
"""Bytes that a line adds to its record, and that are left free for the note that the file is full."""
_QUICK: Final = 128 << 10
_TRIES: Final = 30
_new: Final = tuple.__new__  # what `Appended` does itself, with one call less: the log is written to at every event
_let_others_run: Final[Callable[[], object]] = getattr(os, "sched_yield", lambda: sleep(0))


def make_line(seq: int, prev: str, body: bytes) -> tuple[bytes, str]:
    """A line with its newline, and its hash. `body` is a JSON object that is not empty, encoded."""
    text = b'{"v":1,"seq":%d,"prev":"%b",%b' % (seq, prev.encode(), body[1:-1])
    hashed = _NOTHING_YET.copy()  # quicker than to make one
    hashed.update(text)
    digest = hashed.hexdigest()
    return text + b',"hash":"%b"}\n' % digest.encode(), digest


class Appended(NamedTuple):
    """Where a record is in the log."""

    seq: int
    hash: str


def open_log(root: Path, project: str, *, max_bytes: int = MAX_BYTES, sync: bool = False) -> "EventLog":
    """The log of a project. Nothing is opened or written before the first record, so this never fails.

    The same for the same arguments: a process has a few descriptors for it, however many engines it makes.
    """
    wanted = (root, log_folder(root, project), max_bytes, sync)
    # No lock: each step is one of the interpreter's own, and of two that are made at once both work.
    log = _opened.pop(wanted, None) or EventLog(root, wanted[1], max_bytes=max_bytes, sync=sync)
    _opened[wanted] = log
    if len(_opened) > _OPEN_AT_ONCE and (oldest := _opened.pop(next(iter(list(_opened))), None)) is not None:
        oldest.close()
    return log


class EventLog:
    """A log that is written to. Lives as long as its maker likes; threads may share it, and so may forked children."""

    def __init__(self, root: Path, folder: Path, *, max_bytes: int = MAX_BYTES, sync: bool = False) -> None:
        self.root = root
        self.folder = folder
        self.path = folder / CURRENT
        self._full = max_bytes - _ROOM
        self._roomy = self._full - LARGEST_LINE  # a file that is not longer has room for any line
        self.sync = sync
        self._lock = _QuickLock(folder / LOCK, root)
        self._seal = make_line
        self._turn = [True]
        """Empty while a thread of this process is at work: who takes the one thing out has the turn. Quicker than a
        lock, and as atomic."""
        self._file = -1
        self._size = 0  # bytes of the file that are known: what stands there is `_seq`, `_hash` and before
        self._seq = 0
        self._hash = ""
        self._look_again = 0.0
        self._durable = 0  # with `sync`: the last record that is known to be on the disk
        self._flushing = allocate_lock()
        _living.add(self)

    def append(self, content: Mapping[str, Any]) -> Appended:
        """Add one record. Raises StoreError, and then nothing was added; or, with `sync`, it is there but not yet safe.

        `content` has the fields of `record.Record` without those that the log itself gives: v, seq, prev, note, side
        and hash. What makes the line longer than `record.LARGEST_LINE` goes to a side file.
        """
        try:
            body = _encode(content)
        except (TypeError, ValueError, OverflowError):  # a lone surrogate, an integer beyond 64 bits
            body = b""
        if not 2 < len(body) <= LARGEST_BODY or not body.isascii():
            body = self._fitted(content)
        return _new(Appended, self.append_encoded(body))

    def _fitted(self, content: Mapping[str, Any]) -> bytes:
        """A record that is not encoded as easily as most: its text in ASCII, its largest fields in a side file."""
        if not content:
            raise StoreError("an empty record", place=str(self.path))
        body = strictjson.encode(content)
        return body if len(body) <= LARGEST_BODY else record.moved(content, self._keep_side)

    def append_encoded(self, body: bytes) -> tuple[int, str]:
        """Add one record that is encoded already: a JSON object, not empty, on one line of ASCII that is not too long.

        Returns what `Appended` is made of. Almost always the lock is free and the file is as we left it: that way is
        laid out for speed, where a call of our own weighs as much as one of the system's.
        """
        look, turn, lock = monotonic() >= self._look_again, self._turn, self._lock
        try:
            del turn[0]  # and not `pop`: after a call Python looks for interrupts, and one now would keep the turn
        except IndexError:
            self._wait_for_turn()
        try:
            if look:
                lock.take(check=True)
            else:
                try:
                    flock(lock.file, _AT_ONCE)
                except (OSError, ValueError):  # somebody else holds it, or it is not open
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
        except BaseException as error:  # an interrupt, too: whatever was done, the next record looks at it anew
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
        """Close the descriptors. The log may be used again, which opens them again."""
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
            pass  # it was not even made, or the interpreter ends

    def _wait_for_turn(self) -> None:
        """Be the one thread of this process that is at work on the log."""
        ends = monotonic() + 2 * PATIENCE
        while monotonic() < ends:
            try:
                del self._turn[0]
            except IndexError:
                sleep(0.0005)
            else:
                return
        # Whoever has it was interrupted, or waits for its disk: from now on without that one.
        self._turn, self._lock = [True], _QuickLock(self._lock.path, self.root)
        raise StoreError("another thread of this process is still writing to it", place=str(self.path))

    def _note(self, body: bytes, before: bytes = b"") -> None:
        """Add a line about the log itself; `before` closes what stands at its end."""
        line, digest = make_line(self._seq + 1, self._hash, body)
        written = write(self._file, before + line)
        if written != len(before + line):
            self._take_back(written, len(before + line))
        self._seq, self._hash = self._seq + 1, digest
        self._size += written

    def _take_back(self, written: int, wanted: int) -> Never:
        """A part of a line is none."""
        try:
            # Never what somebody wrote behind our back meanwhile
            if lseek(self._file, 0, SEEK_END) == self._size + written:
                os.ftruncate(self._file, self._size)
        except OSError:
            pass  # then the next writer finds a fragment, closes it and notes it
        what = f"only {written} of {wanted} bytes could be written, and were taken back"
        raise StoreError(what, place=str(self.path), hint="make room on that disk")

    def _make_durable(self, seq: int) -> None:
        """Return when this record is safe on the disk. Threads that wait meanwhile share the next flush."""
        with self._flushing:
            if self._durable >= seq:
                return
            written = self._seq
            try:
                os.fdatasync(self._file)
            except (OSError, ValueError) as error:
                if self._durable < seq:  # it was not flushed when its file was left either
                    raise StoreError(
                        f"it was written, but may not survive a loss of power: {error}", place=str(self.path)
                    ) from error
                return
            self._durable = written

    def _make_ready(self, wanted: int) -> None:
        """Find the end, and begin a new file if a record of so many bytes has no room in this one."""
        self._find_end()
        if self._size + wanted > self._full and self._size:
            self._rotate()

    def _find_end(self) -> None:
        """Where the next line goes and what it follows, whoever moved it: a writer, a rotation, a crash, a hand."""
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
        """Learn what was added since we looked last, and repair the end. True: it says that the log goes on anew."""
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
            reason = f"a line was never finished: {torn.bytes} bytes before this one are no record"
            self._note(record.note("torn", reason, {"bytes": torn.bytes, "sha256": torn.sha256}), before=b"\n")
            return False
        return end.last is not None and end.last.note == "rotated"

    def _read_quickly(self, since: int, size: int) -> End | None:
        """What almost always is there: whole lines of ours. None: it has to be looked at more closely."""
        if size - since > _QUICK:
            return None
        data = os.pread(self._file, size - since, since)
        last = record.read_line(data[data.rfind(b"\n", 0, -1) + 1 : -1]) if data.endswith(b"\n") else None
        return None if last is None else End(last, None)

    def _rotate(self) -> None:
        """Begin a new file. Where the old one can't be moved it goes on growing: nothing is lost over this."""
        if self._name_when_full() is not None:
            self._note(record.note("rotated", f"the log goes on in {CURRENT}"))
            self._move_aside()

    def _move_aside(self) -> bool:
        """Give the file, which ends with the note that it is full, its name, and open the next one."""
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
        """None when the file can't be moved: it has no record, or another one has that name already."""
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
        self._size = 0  # nothing of it is known
        if lseek(self._file, 0, SEEK_END) == 0:
            self._follow_rotated()

    def _follow_rotated(self) -> None:
        """A file without a record goes on where the newest full one ended, or where we did if that was later."""
        with files.opened(self.folder, self.root) as folder:
            assert folder is not None
            names = reversed(rotated_names(folder))
            last = last_of(folder, [self.folder / name for name in names])
        if last is not None and last.seq > self._seq:
            self._seq, self._hash = last.seq, last.hash

    def _moved(self) -> bool:
        """Whether the file at the path is another one, or none."""
        try:
            return not os.path.samestat(os.fstat(self._file), os.stat(self.path, follow_symlinks=False))
        except OSError:
            return True

    def _keep_side(self, sha256: str, data: bytes) -> None:
        record.write_side(self.folder, self.root, sha256, data, sync=self.sync)

    def _close_file(self) -> None:
        """What threads of ours wrote to it and did not flush yet is flushed now: they can't any more."""
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
        """In the child: another thread may have been at work, so nothing of it is believed."""
        self._seq, self._hash, self._turn, self._durable, self._flushing = 0, "", [True], 0, allocate_lock()
        try:
            self._close_file()
        except OSError:
            pass  # closed already by somebody who closes everything


class _QuickLock(LockFile):
    """The lock against other processes, used by one thread at a time. Its user may lock `file` without ceremony."""

    file = -1  # the descriptor; negative: it is not open

    def take(self, *, check: bool) -> None:
        """Wait for it."""
        if check or not self._taken_soon():
            if self._turn.locked():  # against threads, of which there is but one: an interrupt left it so
                self._turn.release()
            self.acquire(PATIENCE, check=check)
            self.file = -1 if self._file is None else self._file
            self._turn.release()

    def _taken_soon(self) -> bool:
        """A line takes microseconds: to sleep before it has been tried a few times would cost more than the wait."""
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


_opened: dict[tuple[Path, Path, int, bool], EventLog] = {}  # the logs that were used last, the latest at the end
_living: WeakSet[EventLog] = WeakSet()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_leave_logs_to_the_parent)

"""Locks between processes: one small file for each, held with `flock`, waited for with a deadline.

The lock is never the file that it guards: that one is replaced, and a lock on the old one would guard nothing. `flock`
and not `fcntl`'s record locks, because a process loses those as soon as it closes any other descriptor of the file.
`flock` belongs to the open file, which children inherit: descriptors are closed at exec and in forked children, so
that a hook which hangs holds nothing.
"""

import errno
import os
import stat
import time
from _thread import allocate_lock
from _weakrefset import WeakSet
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from billhook.store import files
from billhook.store.files import StoreError

PATIENCE: Final = 5.0  # seconds for which a lock is waited for when nobody says otherwise
_SHORTEST, _LONGEST = 0.0002, 0.01
"""Seconds between two looks at a lock that somebody else holds: the wait doubles from the first to the second."""
_PATIENT: Final = 0.5  # seconds after which one who waits looks as often as at first
_OPEN: Final = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class LockedError(StoreError):
    """Another process or thread still holds the lock."""


@contextmanager
def locked(path: Path, *, root: Path, seconds: float = PATIENCE) -> Iterator[None]:
    """Hold the lock file at `path` for as long as the block runs; no other process and no other thread does.

    The file and folders below `root` are made when they are missing. Not reentrant. Raises StoreError when somebody
    else still holds it after `seconds`, or when it can't be opened; the block doesn't run then.
    """
    lock = LockFile(path, root)
    try:
        lock.acquire(seconds)
        yield
    finally:
        lock.close()


class LockFile:
    """A lock file that stays open between uses. Lives until `close`; threads may share it.

    In a forked child it is as if it was new: not held, and opened again when it is next acquired.
    """

    def __init__(self, path: Path, root: Path) -> None:
        self.path = path
        self.root = root
        self._file: int | None = None
        self._turn = allocate_lock()
        """Held by the thread that holds the file's lock, which all threads of the process share."""
        _open_ones.add(self)

    @property
    def held(self) -> bool:
        """Whether a thread of this process holds it through this object."""
        return self._turn.locked()

    def fileno(self) -> int:
        """The open file, for as long as it is held: for what is kept in the lock file itself."""
        assert self._file is not None and self.held
        return self._file

    def acquire(self, seconds: float = PATIENCE, *, check: bool = True) -> None:
        """Take the lock, waiting for at most `seconds`. Raises StoreError, and then it is not held.

        `check`: make sure that it is still the file at its path, and not one that somebody removed meanwhile, which
        would exclude nobody. A caller that acquires often may leave this out now and then.
        """
        ends = time.monotonic() + seconds
        if not self._turn.acquire(timeout=max(0.0, seconds)):
            raise self._busy(seconds, "another thread of this process")
        try:
            while not self._taken(ends, seconds, check):
                self._forget()
                if time.monotonic() >= ends:
                    raise StoreError(f"it was not at its path for {seconds:.3g} s", place=str(self.path))
        except BaseException:
            self._forget()
            self._turn.release()
            raise

    def is_at_its_path(self) -> bool:
        """Whether the file that is held is still the one at its path."""
        try:
            return self._file is not None and _same(self._file, self.path)
        except StoreError:
            return False

    def release(self) -> None:
        """Give the lock back, by the thread that took it. Nothing happens when it is not held."""
        if not self._turn.locked():
            return
        if self._file is not None:
            import fcntl

            # said aloud, and not left to a close: a child between fork and exec has the same open file
            fcntl.flock(self._file, fcntl.LOCK_UN)
        self._turn.release()

    def close(self) -> None:
        """Give the lock back if it is held, and close the file. It may be acquired again."""
        try:
            self.release()
        finally:
            self._forget()

    def _taken(self, ends: float, seconds: float, check: bool) -> bool:
        """Open and lock it. False: the file that was locked is not, or not any more, the one at the path."""
        if self._file is None:
            self._file = _opened(self.path, self.root)
            check = True
        pause = _SHORTEST
        hurries = time.monotonic() + _PATIENT
        while not _try(self._file, self.path):
            now = time.monotonic()
            left = ends - now
            if left <= 0:
                raise self._busy(seconds, _holder(self._file))
            # each waits for a time of its own, or many that wait would all come at once, again and again
            time.sleep(min(left, pause * (0.5 + os.urandom(1)[0] / 255)))
            # whoever has waited long comes more often than those who came after
            pause = min(2 * pause, _LONGEST) if now < hurries else _SHORTEST
        return not check or _same(self._file, self.path)

    def _forget(self) -> None:
        file, self._file = self._file, None
        if file is not None:
            os.close(file)

    def _busy(self, seconds: float, holder: str) -> LockedError:
        hint = f"a process that was stopped or hangs may hold it: `fuser {self.path}` names it; end it, or let it go on"
        return LockedError(f"still locked by {holder} after {seconds:.3g} s", place=str(self.path), hint=hint)

    def _after_fork(self) -> None:
        """In the child: the open file is the parent's, too, so it is closed and never unlocked."""
        self._turn = allocate_lock()
        try:
            self._forget()
        except OSError:
            pass  # closed already by somebody who closes everything


def _opened(path: Path, root: Path) -> int:
    """A lock file, made when it is missing. Nothing but a regular file of our own is believed to be one."""
    with files.opened(path.parent, root, create=True) as folder:
        try:
            file = os.open(path.name, _OPEN, 0o600, dir_fd=folder)
        except OSError as error:
            raise _unusable(path, error) from error
    found = os.fstat(file)
    if stat.S_ISREG(found.st_mode) and found.st_uid in (0, os.geteuid()):
        return file
    os.close(file)
    what = "it belongs to another user" if stat.S_ISREG(found.st_mode) else "it is not a file"
    raise StoreError(f"{what}, so it is no lock", place=str(path), hint=f"move it away: {path}")


def _try(file: int, path: Path) -> bool:
    import fcntl

    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:  # some network file systems have no locks
        raise _unusable(path, error) from error
    return True


def _same(file: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(file), os.stat(path, follow_symlinks=False))
    except FileNotFoundError:
        return False
    except OSError as error:  # nobody can tell, and to try again would not help
        raise _unusable(path, error) from error


def _unusable(path: Path, error: OSError) -> StoreError:
    if error.errno == errno.ELOOP:
        return StoreError("the lock is a symbolic link", place=str(path), hint=f"remove it: rm {path}")
    hint = "set BILLHOOK_HOME to a folder that you can write, on a disk of this machine"
    return StoreError(f"can't lock it: {error.strerror or error}", place=str(path), hint=hint)


def _holder(file: int) -> str:
    """Who holds a lock, as far as the system tells."""
    try:
        found = os.fstat(file)
        ours = f"{os.major(found.st_dev):02x}:{os.minor(found.st_dev):02x}:{found.st_ino}"
        with open("/proc/locks", encoding="ascii") as stream:
            rows = [line.split() for line in stream]
        return next(f"process {row[4]}" for row in rows if row[1] == "FLOCK" and row[5] == ours)
    except (OSError, ValueError, IndexError, StopIteration):
        return "another process"


def _leave_locks_to_the_parent() -> None:
    for lock in list(_open_ones):
        lock._after_fork()


_open_ones: WeakSet[LockFile] = WeakSet()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_leave_locks_to_the_parent)

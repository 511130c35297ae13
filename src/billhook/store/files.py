"""Our own files on disk: private, whole or absent, never reached through somebody else's link.

Every function takes `root`, the folder the user chose for our state. The way to `root` is the user's own and may hold
links (a home folder often does); below it each folder is opened by descriptor without following links, so that nobody
can swap one in between a check and its use. Without `root` only the last component is guarded.
"""

import errno
import functools
import os
import re
import stat
import sys
import time
from _thread import allocate_lock
from _weakrefset import WeakSet
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

from billhook.core import client_env
from billhook.core.errors import BillhookError
from billhook.core.lazy import pattern

# The library behind `hashlib` takes longer to load than a hook takes to answer: a process that answers one event uses
# the interpreter's own. A process with a loop serves many events, and there `hashlib` pays.
if TYPE_CHECKING or "_hashlib" in sys.modules or "asyncio" in sys.modules:
    from hashlib import sha256 as sha256  # noqa: PLC0414 - other modules import it from here
else:
    try:
        from _sha2 import sha256
    except ImportError:
        try:
            from _sha256 import sha256  # before Python 3.12
        except ImportError:
            from hashlib import sha256

TEMPORARY = ".new-"
"""How the names of files that are still being written begin. One that stays behind after a crash means nothing."""

_NO_LINKS = "and billhook follows none here"
_HAS_NO_LINKS = frozenset({errno.EPERM, errno.EOPNOTSUPP, errno.ENOTSUP, errno.EMLINK, errno.ENOSYS, errno.EINVAL})


class StoreError(BillhookError):
    """A file of ours that can't be read, written or believed."""


class TooLargeError(StoreError):
    """A file has more bytes than it may have."""


def state_root(home: str | os.PathLike[str] | None = None) -> Path:
    """Where everything of ours lies: `home`, else `$BILLHOOK_HOME`, else `~/.claude`. Absolute; it need not exist."""
    chosen = os.fspath(home) if home is not None else client_env.environ().get("BILLHOOK_HOME") or "~/.claude"
    return _as_path(client_env.abspath(client_env.expanduser(chosen)))


@functools.lru_cache(maxsize=64)
def _as_path(text: str) -> Path:
    return Path(text)


def write_atomically(
    path: Path, data: bytes, *, root: Path | None = None, private: bool = False, durable: bool = True
) -> None:
    """Replace or create `path`, 0600: whoever reads it sees the old content or all of the new, also after a crash.

    Folders that are missing are made, 0700; `private` refuses those below `root` that others may write. What is not
    `durable` is not waited for: it survives the death of any process, but a power loss may take it back or damage it.
    Raises StoreError, and then nothing was changed.
    """
    with opened(path.parent, root, create=True, private=private) as folder:
        assert folder is not None
        with explained("write", path):
            refuse_strange(status(path.name, folder), path)
            temporary = _written(data, folder, durable)
            try:
                os.rename(temporary, path.name, src_dir_fd=folder, dst_dir_fd=folder)
            except OSError:
                os.unlink(temporary, dir_fd=folder)
                raise
            if durable:
                os.fsync(folder)


def create_once(path: Path, data: bytes, *, root: Path) -> None:
    """Create `path`, 0600, with all of its content; nothing happens where it is there already. Raises StoreError."""
    with opened(path.parent, root, create=True) as folder, explained("write", path):
        assert folder is not None
        temporary = _written(data, folder, True)
        try:
            os.link(temporary, path.name, src_dir_fd=folder, dst_dir_fd=folder, follow_symlinks=False)
        except FileExistsError:
            pass
        except OSError as error:
            if error.errno not in _HAS_NO_LINKS:
                raise
            with suppress(FileExistsError):
                _written(data, folder, True, path.name)
        finally:
            os.unlink(temporary, dir_fd=folder)


def read_bytes(path: Path, limit: int, *, root: Path | None = None, private: bool = False) -> bytes | None:
    """The content of a regular file that belongs to us or to root; None when there is none.

    Never waits for a pipe. Raises StoreError for anything else than a file, or one of more than `limit` bytes.
    """
    with opened(path.parent, root) as folder:
        return None if folder is None else read_in(folder, path, limit, private=private)


def read_in(folder: int, path: Path, limit: int, *, private: bool = False) -> bytes | None:
    """As `read_bytes`, in a folder that is open already. `private`: refused when others may write it."""
    with explained("read", path):
        try:
            file = os.open(path.name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
        except FileNotFoundError:
            return None
        try:
            found = os.fstat(file)
            refuse_strange(found, path)
            if private:
                _refuse_shared(found, path)
            with open(file, "rb", closefd=False) as stream:
                data = stream.read(limit + 1)
        finally:
            os.close(file)
    if len(data) > limit:
        raise TooLargeError(f"more than {limit} bytes", place=str(path), hint=f"remove it: rm {path}")
    return data


def remove(path: Path, *, root: Path | None = None) -> bool:
    """Remove a file; a link is removed itself. False when there was none."""
    with opened(path.parent, root) as folder:
        if folder is None:
            return False
        with explained("remove", path):
            try:
                os.unlink(path.name, dir_fd=folder)
            except FileNotFoundError:
                return False
            os.fsync(folder)
            return True


def private_folder(path: Path, *, root: Path | None = None) -> None:
    """Make sure that `path` is a folder of our own, 0700 when it has to be made."""
    with opened(path, root, create=True):
        pass


@contextmanager
def opened(
    path: Path, root: Path | None = None, *, create: bool = False, private: bool = False
) -> Iterator[int | None]:
    """A descriptor of a folder of ours; None when it is missing and `create` is false. Raises StoreError.

    `private`: refused when others may write it, or a folder between `root` and it.
    """
    folder = _open_below(path, path if root is None else root, create, private)
    try:
        yield folder
    finally:
        if folder is not None:
            os.close(folder)


def _open_below(path: Path, root: Path, create: bool, private: bool) -> int | None:
    here = root
    with explained("open", root):
        try:
            parts = path.relative_to(root).parts
        except ValueError:
            raise StoreError(f"not inside {root}", place=str(path)) from None
        if ".." in parts:
            raise StoreError("`..` in a path of our own", place=str(path))
        if create:
            os.makedirs(root, 0o700, exist_ok=True)
        folder = _open_folder(os.fspath(root))
    for part in parts:
        if folder is None:
            return None
        here /= part
        above = folder
        try:
            with explained("open", here):
                folder = _enter(part, above, here, create, private)
        finally:
            os.close(above)
    return folder


def _open_folder(name: str, within: int | None = None, flags: int = 0) -> int | None:
    try:
        return os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC | flags, dir_fd=within)
    except FileNotFoundError:
        return None


def _enter(name: str, within: int, path: Path, create: bool, private: bool) -> int | None:
    """Open one folder inside another, which must be a real one of ours."""
    if create:
        try:
            os.mkdir(name, 0o700, dir_fd=within)
        except FileExistsError:
            pass
    found = status(name, within)
    if found is None:
        return None
    if not stat.S_ISDIR(found.st_mode):
        raise _strange(found, path, "a folder")
    folder = _open_folder(name, within, os.O_NOFOLLOW)
    if folder is None:
        return None
    try:
        _refuse_foreign(os.fstat(folder), path)
        if private:
            _refuse_shared(os.fstat(folder), path)
    except StoreError:
        os.close(folder)
        raise
    return folder


def _written(data: bytes, folder: int, durable: bool, name: str = "") -> str:
    """A new file with this content, if `durable` safely on disk; its name."""
    name = name or TEMPORARY + os.urandom(8).hex()
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    file = os.open(name, flags, 0o600, dir_fd=folder)
    try:
        with open(file, "wb") as stream:
            stream.write(data)
            stream.flush()
            if durable:
                os.fsync(file)
    except BaseException:
        os.unlink(name, dir_fd=folder)
        raise
    return name


def status(name: str, folder: int) -> os.stat_result | None:
    try:
        return os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return None


def refuse_strange(found: os.stat_result | None, path: Path, why: str = _NO_LINKS) -> None:
    """Raise StoreError for what is not a regular file of ours."""
    if found is None:
        return
    if not stat.S_ISREG(found.st_mode):
        raise _strange(found, path, "a file", why)
    _refuse_foreign(found, path)


def _refuse_foreign(found: os.stat_result, path: Path) -> None:
    if found.st_uid not in (0, os.geteuid()):
        hint = "set BILLHOOK_HOME to a folder of your own, or take it over"
        raise StoreError("it belongs to another user", place=str(path), hint=hint)


def _refuse_shared(found: os.stat_result, path: Path) -> None:
    if found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise StoreError("others may write it, so it can't be believed", place=str(path), hint=f"chmod go-w {path}")


def _strange(found: os.stat_result, path: Path, wanted: str, why: str = _NO_LINKS) -> StoreError:
    what = "a symbolic link" if stat.S_ISLNK(found.st_mode) else f"not {wanted}"
    return StoreError(f"it is {what}, {why}", place=str(path), hint=f"move it away: {path}")


@contextmanager
def explained(doing: str, path: Path) -> Iterator[None]:
    """Turn the system's errors into ours."""
    try:
        yield
    except OSError as error:
        raise failed(doing, path, error) from error
    except ValueError as error:  # a NUL or a lone surrogate in a name
        raise StoreError(f"can't {doing} it: {error}", place=repr(str(path))) from error


def failed(doing: str, path: Path, error: OSError) -> StoreError:
    """The system's error in our words."""
    hint = _HINTS.get(error.errno or 0, "set BILLHOOK_HOME to a folder that you can write, on a disk of this machine")
    message = "it is a symbolic link" if error.errno == errno.ELOOP else error.strerror or str(error)
    return StoreError(f"can't {doing} it: {message}", place=str(path), hint=hint)


_HINTS = {
    errno.ENOSPC: "make room on that disk",
    errno.EDQUOT: "make room: your quota is used up",
    errno.EFBIG: "the largest file that this process may write is smaller: see `ulimit -f`",
    errno.ELOOP: "replace the link by the real thing; billhook follows none here",
    errno.ENOTDIR: "a file or a link lies where a folder is needed: move it away",
}


# Where things lie below the state root.

_PLAIN = pattern(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,99}")
_RESERVED = pattern(r"(?:con|prn|aux|nul|com\d|lpt\d)(?:\..*)?", re.I)
_LONGEST = 200  # bytes of a folder's name: file systems take 255, and something is added to some


def file_name(key: str, folder: Path) -> str:
    """A name in `folder` for any text, without its ending: never a path, never another text's name.

    A plain id is its own name. Anything else, and on a file system that takes `A` for `a` also an id with capitals, is
    its harmless characters, a tilde, which no plain id has, and a digest.
    """
    if _PLAIN.fullmatch(key) and not _RESERVED.fullmatch(key) and (key == key.lower() or not _folds_case(folder)):
        return key
    harmless = re.sub(r"[^a-z0-9_-]+", "-", key[:60].lower()).strip("-")
    return f"{harmless or 'none'}~{sha256(key.encode('utf-8', 'surrogatepass')).hexdigest()[:16]}"


def project_name(project: str) -> str:
    """The name of a project's folder: its path, every character outside A-Z a-z 0-9 turned to `-`, as seed 002 has it.

    Two projects may share one (`/a-b` and `/a/b`): every record names its project.
    """
    name = re.sub(r"[^A-Za-z0-9]", "-", project)
    if len(name) <= _LONGEST:
        return name or "-"
    return f"{name[: _LONGEST - 17]}-{sha256(os.fsencode(project)).hexdigest()[:16]}"


def log_folder(root: Path, project: str) -> Path:
    """The folder of a project's event log."""
    return root / "hooks" / project_name(project)


def _folds_case(folder: Path) -> bool:
    """Whether the file system takes capitals and small letters for the same."""
    swapped = folder.with_name(folder.name.swapcase())
    try:
        return os.path.samefile(folder, swapped)
    except OSError:
        return False


# Locks between processes:

PATIENCE: Final = 5.0  # seconds for which a lock is waited for when nobody says otherwise
_SHORTEST, _LOCKS_LONGEST = 0.0002, 0.01
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
            pause = min(2 * pause, _LOCKS_LONGEST) if now < hurries else _SHORTEST
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
    with opened(path.parent, root, create=True) as folder, explained("lock", path):
        file = os.open(path.name, _OPEN, 0o600, dir_fd=folder)
    try:
        refuse_strange(os.fstat(file), path, "so it is no lock")
    except StoreError:
        os.close(file)
        raise
    return file


def _try(file: int, path: Path) -> bool:
    import fcntl

    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:  # some network file systems have no locks
        raise failed("lock", path, error) from error
    return True


def _same(file: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(file), os.stat(path, follow_symlinks=False))
    except FileNotFoundError:
        return False
    except OSError as error:  # nobody can tell, and to try again would not help
        raise failed("lock", path, error) from error


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

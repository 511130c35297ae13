"""billhook's files on disk: private, complete or absent, never reached through another user's link.

Every function takes `root`, the folder the user chose for the state. The path of `root` may contain links (a home
folder often does). Below it each folder is opened by descriptor without following links, so that another process can't
replace one between a check and its use. Without `root` only the last component is protected.
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
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Final

from billhook.core import client_env
from billhook.core.errors import BillhookError
from billhook.core.lazy import pattern

if TYPE_CHECKING:
    from hashlib import _Hash

TEMPORARY = ".new-"  # The prefix of temporary files. One that is left after a crash is ignored.

_HAS_NO_LINKS = frozenset({errno.EPERM, errno.EOPNOTSUPP, errno.ENOTSUP, errno.EMLINK, errno.ENOSYS, errno.EINVAL})


class _Sha256:
    """Makes hashes like `hashlib.sha256`, which is three times as fast as the interpreter's built-in one, but takes
    longer to load than a hook takes to answer. So it is loaded by a process that hashes much."""

    def __init__(self) -> None:
        self.fastest: Callable[[bytes], _Hash] | None = None  # the function of `hashlib`, once it is loaded
        self._builtin: Callable[[bytes], _Hash] = _builtin_sha256()
        self._builtin_left = 1 << 20  # bytes whose hashes take about as long as loading `hashlib`

    def __call__(self, data: bytes = b"") -> "_Hash":
        if self.fastest is None:
            self._builtin_left -= len(data) + 1
            if self._builtin_left < 0 or "_hashlib" in sys.modules:
                from hashlib import sha256

                self.fastest = sha256
        return (self.fastest or self._builtin)(data)


def _builtin_sha256() -> "Callable[[bytes], _Hash]":
    for name in ("_sha2", "_sha256"):  # since Python 3.12, and before
        with suppress(ImportError):
            found: Callable[[bytes], _Hash] = import_module(name).sha256
            return found
    from hashlib import sha256

    return sha256


sha256 = _Sha256()


class StoreError(BillhookError):
    """A file of billhook that can't be read, written or trusted."""


class TooLargeError(StoreError):
    """A file is larger than its limit."""


def state_root(home: str | os.PathLike[str] | None = None) -> Path:
    """The state root: `home`, otherwise `$BILLHOOK_HOME`, otherwise `~/.claude`. Absolute; it may not exist."""
    chosen = os.fspath(home) if home is not None else client_env.environ().get("BILLHOOK_HOME") or "~/.claude"
    return _as_path(client_env.abspath(client_env.expanduser(chosen)))


@functools.lru_cache(maxsize=64)
def _as_path(text: str) -> Path:
    return Path(text)


def write_atomically(
    path: Path, data: bytes, *, root: Path | None = None, private: bool = False, durable: bool = True
) -> None:
    """Replace or create `path`, mode 0600: a reader sees the old content or all of the new, even after a crash. Missing
    folders are created, mode 0700; `private` rejects folders below `root` that other users can write to. Without
    `durable` the content survives the death of any process, but a power loss may undo or damage it. Raises StoreError,
    and then nothing was changed."""
    with opened(path.parent, root, create=True, private=private) as folder:
        assert folder is not None
        with explained("write", path):
            require_own_file(status(path.name, folder), path)
            temporary = _written(data, folder, durable)
            try:
                os.rename(temporary, path.name, src_dir_fd=folder, dst_dir_fd=folder)
            except OSError:
                os.unlink(temporary, dir_fd=folder)
                raise
            if durable:
                os.fsync(folder)


def create_once(path: Path, data: bytes, *, root: Path) -> None:
    """Create `path`, mode 0600, with all of its content; does nothing if it already exists. Raises StoreError."""
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
    """The content of a regular file that belongs to this user or to root; None if it does not exist. Never waits for a
    pipe. Raises StoreError if it is not a regular file, or has more than `limit` bytes."""
    with opened(path.parent, root) as folder:
        return None if folder is None else read_in(folder, path, limit, private=private)


def read_in(folder: int, path: Path, limit: int, *, private: bool = False) -> bytes | None:
    """As `read_bytes`, in an open folder. `private`: rejected if other users can write to the file."""
    with explained("read", path):
        try:
            file = os.open(path.name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
        except FileNotFoundError:
            return None
        try:
            found = os.fstat(file)
            require_own_file(found, path)
            if private:
                _refuse_shared(found, path)
            with open(file, "rb", closefd=False) as stream:
                data = stream.read(limit + 1)
        finally:
            os.close(file)
    if len(data) > limit:
        raise TooLargeError(f"the file has more than {limit} bytes", place=str(path), hint=f"remove it: rm {path}")
    return data


def remove(path: Path, *, root: Path | None = None) -> bool:
    """Remove a file, or a link itself. False if it did not exist."""
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
    """Make sure that `path` is a folder of this user; created with mode 0700 if it is missing."""
    with opened(path, root, create=True):
        pass


@contextmanager
def opened(
    path: Path, root: Path | None = None, *, create: bool = False, private: bool = False
) -> Iterator[int | None]:
    """A descriptor of a folder of this user; None if it is missing and `create` is false. Raises StoreError. `private`:
    rejected if other users can write to it, or to a folder between `root` and it."""
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
            raise StoreError("the path contains `..`", place=str(path))
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
    """Open one folder inside another. It must not be a link, and must belong to this user."""
    if create:
        try:
            os.mkdir(name, 0o700, dir_fd=within)
        except FileExistsError:
            pass
    found = status(name, within)
    if found is None:
        return None
    if not stat.S_ISDIR(found.st_mode):
        raise _wrong_type(found, path, "a folder")
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
    """Write a new file with this content, synced to disk if `durable`: its name."""
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


def stamp(path: str | os.PathLike[str]) -> tuple[int, ...]:
    """The identity and state of a file, which change with its content; empty if it does not exist."""
    try:
        found = os.stat(path)
    except OSError:
        return ()
    return found.st_dev, found.st_ino, found.st_mtime_ns, found.st_size


def require_own_file(found: os.stat_result | None, path: Path, why: str = "") -> None:
    """Raise StoreError if it is not a regular file of this user."""
    if found is None:
        return
    if not stat.S_ISREG(found.st_mode):
        raise _wrong_type(found, path, "a file", why)
    _refuse_foreign(found, path)


def _refuse_foreign(found: os.stat_result, path: Path) -> None:
    if found.st_uid not in (0, os.geteuid()):
        hint = "set BILLHOOK_HOME to a folder of your own, or change the owner"
        raise StoreError("the file belongs to another user", place=str(path), hint=hint)


def _refuse_shared(found: os.stat_result, path: Path) -> None:
    if found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise StoreError("it is not trusted: other users can write to it", place=str(path), hint=f"chmod go-w {path}")


def _wrong_type(found: os.stat_result, path: Path, wanted: str, why: str = "") -> StoreError:
    what = "it is a symbolic link" if stat.S_ISLNK(found.st_mode) else f"it is not {wanted}"
    return StoreError(f"{what}, {why}" if why else what, place=str(path), hint=f"move it away: {path}")


@contextmanager
def explained(doing: str, path: Path) -> Iterator[None]:
    """Turn system errors into StoreError."""
    try:
        yield
    except OSError as error:
        raise failed(doing, path, error) from error
    except ValueError as error:  # a NUL or a lone surrogate in a name
        raise StoreError(f"can't {doing} it: {error}", place=repr(str(path))) from error


def failed(doing: str, path: Path, error: OSError) -> StoreError:
    """A system error as StoreError."""
    hint = _HINTS.get(error.errno or 0, "set BILLHOOK_HOME to a folder that you can write to, on a local disk")
    message = "it is a symbolic link" if error.errno == errno.ELOOP else error.strerror or str(error)
    return StoreError(f"can't {doing} it: {message}", place=str(path), hint=hint)


_HINTS = {
    errno.ENOSPC: "free some space on that disk",
    errno.EDQUOT: "free some space: your quota is used up",
    errno.EFBIG: "the file is larger than this process may write: see `ulimit -f`",
    errno.ELOOP: "replace the link with a real file or folder; billhook does not follow links here",
    errno.ENOTDIR: "a file or a link is in the place of a folder: move it away",
}

# Paths below the state root.

_PLAIN = pattern(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,99}")
_RESERVED = pattern(r"(?:con|prn|aux|nul|com\d|lpt\d)(?:\..*)?", re.I)
_LONGEST = 200  # bytes of a folder's name: file systems allow 255, and some names get a suffix


def file_name(key: str, folder: Path) -> str:
    """A unique name in `folder` for any key, without an extension: never a path, never the name of another key. A plain
    id is used as it is. Any other key, and on a case-insensitive file system also an id with capitals, becomes its safe
    characters, a tilde, which no plain id has, and a digest."""
    if _PLAIN.fullmatch(key) and not _RESERVED.fullmatch(key) and (key == key.lower() or not _folds_case(folder)):
        return key
    harmless = re.sub(r"[^a-z0-9_-]+", "-", key[:60].lower()).strip("-")
    return f"{harmless or 'none'}~{sha256(key.encode('utf-8', 'surrogatepass')).hexdigest()[:16]}"


def project_name(project: str) -> str:
    """The name of a project's folder: its path, every character outside A-Z a-z 0-9 replaced with `-`, as in seed 002.
    Two projects may share one (`/a-b` and `/a/b`): every record contains its project."""
    name = re.sub(r"[^A-Za-z0-9]", "-", project)
    if len(name) <= _LONGEST:
        return name or "-"
    return f"{name[: _LONGEST - 17]}-{sha256(os.fsencode(project)).hexdigest()[:16]}"


def log_folder(root: Path, project: str) -> Path:
    """The folder of a project's event log."""
    return root / "hooks" / project_name(project)


def _folds_case(folder: Path) -> bool:
    swapped = folder.with_name(folder.name.swapcase())
    try:
        return os.path.samefile(folder, swapped)
    except OSError:
        return False


# Locks between processes:

TIMEOUT: Final = 5.0  # seconds to wait for a lock by default
_SHORTEST, _LOCKS_LONGEST = 0.0002, 0.01
"""Shortest and longest pause in seconds between two attempts to take a lock: the pause doubles each time."""
_PATIENT: Final = 0.5  # seconds after which a waiting process uses the shortest pause again
_OPEN: Final = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class LockedError(StoreError):
    """Another process or thread still holds the lock."""


@contextmanager
def locked(path: Path, *, root: Path, seconds: float = TIMEOUT) -> Iterator[None]:
    """Hold the lock file at `path` while the block runs; no other process or thread holds it then. The file and folders
    below `root` are created if they are missing. Not reentrant. Raises StoreError if the lock is not free after
    `seconds`, or if the file can't be opened; then the block does not run."""
    lock = LockFile(path, root)
    try:
        lock.acquire(seconds)
        yield
    finally:
        lock.close()


class LockFile:
    """A lock file that stays open between uses. Lives until `close`; threads may share it. In a forked child it is like
    a new one: not held, and opened again when it is next acquired. Many may hold a `shared` one at the same time."""

    def __init__(self, path: Path, root: Path, *, shared: bool = False) -> None:
        self.path = path
        self.root = root
        self._shared = shared
        self._file: int | None = None
        self._turn = allocate_lock()
        """Held by the thread that holds the file's lock, which all threads of the process share."""
        _open_ones.add(self)

    @property
    def held(self) -> bool:
        """Whether a thread of this process holds it through this object."""
        return self._turn.locked()

    def fileno(self) -> int:
        """The open file while the lock is held: for content of the lock file itself."""
        assert self._file is not None and self.held
        return self._file

    def acquire(self, seconds: float = TIMEOUT, *, check: bool = True) -> None:
        """Take the lock, waiting for at most `seconds`. Raises StoreError, and then it is not held. `check`: make sure
        that it is still the file at its path. A lock on a file that another process has removed would exclude no one. A
        caller that acquires often may skip this sometimes."""
        ends = time.monotonic() + seconds
        if not self._turn.acquire(timeout=max(0.0, seconds)):
            raise self._busy(seconds, "another thread of this process")
        try:
            while not self._try_lock(ends, seconds, check):
                self._forget()
                if time.monotonic() >= ends:
                    raise StoreError(f"the lock file kept disappearing for {seconds:.3g} s", place=str(self.path))
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
        """Release the lock, in the thread that took it. Does nothing if it is not held."""
        if not self._turn.locked():
            return
        if self._file is not None:
            import fcntl

            # an explicit unlock, because a child between fork and exec has the same open file
            fcntl.flock(self._file, fcntl.LOCK_UN)
        self._turn.release()

    def close(self) -> None:
        """Release the lock if it is held, and close the file. It may be acquired again."""
        try:
            self.release()
        finally:
            self._forget()

    def _try_lock(self, ends: float, seconds: float, check: bool) -> bool:
        """Open and lock it. False: the locked file is not the one at the path (any more)."""
        if self._file is None:
            self._file = _opened(self.path, self.root)
            check = True
        pause = _SHORTEST
        hurries = time.monotonic() + _PATIENT
        while not _try(self._file, self.path, shared=self._shared):
            now = time.monotonic()
            left = ends - now
            if left <= 0:
                raise self._busy(seconds, _holder(self._file))
            # random pauses, otherwise many waiting processes would try at the same moments
            time.sleep(min(left, pause * (0.5 + os.urandom(1)[0] / 255)))
            # a process that has waited long tries more often than later ones
            pause = min(2 * pause, _LOCKS_LONGEST) if now < hurries else _SHORTEST
        return not check or _same(self._file, self.path)

    def _forget(self) -> None:
        file, self._file = self._file, None
        if file is not None:
            os.close(file)

    def _busy(self, seconds: float, holder: str) -> LockedError:
        hint = f"a suspended or hanging process may hold it: find it with `fuser {self.path}`, then end or resume it"
        return LockedError(f"still locked by {holder} after {seconds:.3g} s", place=str(self.path), hint=hint)

    def _after_fork(self) -> None:
        """In the child: the parent shares the open file, so it is closed and never unlocked."""
        self._turn = allocate_lock()
        try:
            self._forget()
        except OSError:
            pass  # already closed by code that closes all descriptors


def _opened(path: Path, root: Path) -> int:
    """A lock file, created if it is missing. Only a regular file of this user is accepted."""
    with opened(path.parent, root, create=True) as folder, explained("lock", path):
        file = os.open(path.name, _OPEN, 0o600, dir_fd=folder)
    try:
        require_own_file(os.fstat(file), path, "so it can't be a lock file")
    except StoreError:
        os.close(file)
        raise
    return file


def _try(file: int, path: Path, *, shared: bool) -> bool:
    import fcntl

    try:
        fcntl.flock(file, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
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
    except OSError as error:  # the result is unknown, and another attempt would not help
        raise failed("lock", path, error) from error


def _holder(file: int) -> str:
    """The process that holds a lock, if the system reports it."""
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

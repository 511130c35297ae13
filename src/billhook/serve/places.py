"""Where the daemon of a user and a state root is, and the options that it was started with.

A daemon may end without `billhook daemon stop`: after an upgrade, a kill, or if its folder was moved. Then a client
starts the next one, without options. But agents may have the HTTP address in their settings, and allow every action if
nothing listens there.
"""

import os
import socket
import stat
import struct
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

import msgspec

from billhook.core.errors import UsageError
from billhook.store.files import LockedError, LockFile, StoreError, private_folder, read_bytes, remove, write_atomically

FILE: Final = "options"
_LARGEST: Final = 64 << 10


class DaemonOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The options of `billhook daemon run`."""

    idle_exit: float
    http: str = ""
    exposed: bool = False
    otel: dict[str, str] = {}  # variables: not those of the agent that starts the next one, which may be a project's

    def words(self) -> list[str]:
        """As command line arguments."""
        http = ["--http", self.http] if self.http else []
        return [*http, *(["--exposed"] if self.exposed else []), "--idle-exit", f"{self.idle_exit:g}"]


def remember(folder: Path, options: DaemonOptions) -> None:
    """Save them in the daemon's folder. If that fails, the daemon still runs."""
    with suppress(StoreError):
        write_atomically(folder / FILE, msgspec.json.encode(options), root=folder, durable=False)


def forget(folder: Path) -> None:
    """The daemon is stopped on purpose: don't restart it with these options."""
    with suppress(StoreError):
        remove(folder / FILE, root=folder)


def recalled(folder: Path) -> DaemonOptions | None:
    """The options of the last daemon here, unless it was stopped on purpose."""
    try:
        found = read_bytes(folder / FILE, _LARGEST, root=folder)
        return None if found is None else msgspec.json.decode(found, type=DaemonOptions)
    except (StoreError, msgspec.MsgspecError):
        return None  # the file is unreadable


def address(text: str) -> tuple[str, int]:
    """Host and port of `127.0.0.1:8123`, `localhost:8123` or `[::1]:8123`; port 0 takes a free one. Raises
    UsageError."""
    host, colon, port = text.rpartition(":")
    bare = host[1:-1] if host.startswith("[") and host.endswith("]") else host
    sound = colon and bare and (":" not in bare or bare != host) and port.isascii() and port.isdecimal()
    if not sound or int(port) > 65535:
        raise UsageError(f"invalid address `{text}`", hint="use HOST:PORT, as in 127.0.0.1:8123 or [::1]:8123")
    return bare, int(port)


# The daemon's folder:

SOCKET: Final = "s"
LOCK: Final = "lock"
LOG: Final = "log"
_LONGEST: Final = 100  # bytes of a socket path that every system accepts
_LOOKS: Final = 0.1  # seconds to wait for the lock: `holder` takes it for a moment


class AlreadyError(Exception):
    """A daemon is already running."""


def folder_of(root: Path) -> Path:
    """The daemon's folder below a state root."""
    return root / "billhook" / "daemon"


def made(root: Path) -> Path:
    """The folder, created if it is missing: mode 0700, owned by this user, not a link. Raises StoreError."""
    folder = folder_of(root)
    private_folder(folder, root=root)
    return checked(folder)


def checked(folder: Path) -> Path:
    """The folder, if it does not exist or only this user can write to it. Raises StoreError."""
    try:
        found = os.lstat(folder)
    except (FileNotFoundError, NotADirectoryError):
        return folder
    except OSError as error:
        hint = "set BILLHOOK_HOME to a folder of your own"
        raise StoreError(f"can't access the folder: {error.strerror}", place=str(folder), hint=hint) from error
    if not stat.S_ISDIR(found.st_mode):
        raise StoreError("this is not a folder", place=str(folder), hint=f"move it away: {folder}")
    if found.st_uid != os.geteuid():
        hint = "set BILLHOOK_HOME to a folder of your own"
        raise StoreError("the folder belongs to another user", place=str(folder), hint=hint)
    if found.st_mode & 0o077:
        raise StoreError("other users can access the folder", place=str(folder), hint=f"chmod 700 {folder}")
    return folder


@contextmanager
def reachable(folder: Path) -> Iterator[str]:
    """A path for the socket that is short enough, even if the folder's path is too long."""
    path = str(folder / SOCKET)
    if len(os.fsencode(path)) <= _LONGEST or not os.path.isdir("/proc/self/fd"):
        yield path
        return
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{descriptor}/{SOCKET}"
    finally:
        os.close(descriptor)


def connect(folder: Path, seconds: float) -> socket.socket:
    """A connection to the daemon. Raises OSError if none is running."""
    connection = socket.socket(socket.AF_UNIX)
    try:
        connection.settimeout(seconds)
        with reachable(folder) as path:
            connection.connect(path)
    except OSError:
        connection.close()
        raise
    return connection


def peer_of(connection: socket.socket) -> int:
    """The process at the other end of the connection; 0 if unknown, or if it is another user's."""
    if hasattr(socket, "SO_PEERCRED"):
        size = struct.calcsize("3i")
        pid, uid, _ = struct.unpack("3i", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, size))
        return int(pid) if uid == os.geteuid() else 0
    if sys.platform == "darwin":
        with suppress(OSError):
            sol_local, local_peerpid = 0, 2
            return connection.getsockopt(sol_local, local_peerpid)
    return 0


def lock(folder: Path) -> LockFile:
    """The lock that one daemon at a time holds, until it closes the file or its process ends. Raises AlreadyError, and
    StoreError if the file system does not support locks."""
    file = LockFile(folder / LOCK, folder)
    try:
        file.acquire(_LOOKS)
    except LockedError:
        raise AlreadyError(str(folder)) from None
    with suppress(OSError):  # only a fallback for `holder`: a full disk must not stop the daemon
        os.truncate(file.fileno(), 0)
        os.write(file.fileno(), f"{os.getpid()}\n".encode())
    return file


def holder(folder: Path) -> int:
    """The process that holds the lock; 0 if there is none."""
    import fcntl

    try:
        file = os.open(folder / LOCK, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return 0
    try:
        words = os.read(file, 32).split()
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        return 0
    except BlockingIOError:
        return int(words[0]) if words and words[0].isdigit() else 0
    except OSError as error:  # some network file systems have no locks
        hint = "set BILLHOOK_HOME to a folder on a local disk"
        raise StoreError(f"can't lock the file: {error.strerror}", place=str(folder / LOCK), hint=hint) from error
    finally:
        os.close(file)

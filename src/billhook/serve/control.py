"""Where the daemon of a user and a state root is, and how another process starts, queries and stops it.

A daemon may end without `billhook daemon stop`: after an upgrade, a kill, or if its folder was moved. Then a client
starts the next one, with the remembered options: agents may have the HTTP address in their settings, and allow every
action if nothing listens there.
"""

import _socket
import os
import select
import signal
import socket
import stat
import struct
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec

from billhook.core.errors import BillhookError, UsageError
from billhook.core.lazy import lazy_module
from billhook.runners.process_tree import exists
from billhook.serve import protocol, sidecar
from billhook.serve.protocol import DaemonStatus, PageLink
from billhook.store.files import (
    LockedError,
    LockFile,
    StoreError,
    locked,
    private_folder,
    read_bytes,
    remove,
    write_atomically,
)

if TYPE_CHECKING:
    import subprocess
else:
    subprocess = lazy_module("subprocess")

ANSWERS: Final = 3.0  # seconds in which a healthy daemon reports its status, even on a busy machine
BEGINS: Final = 20.0  # seconds in which a new daemon is ready
ENDS: Final = 40.0  # seconds in which a stopped daemon has ended: it finishes pending requests first
PAGE_FILE: Final = "page.html"  # opens the page in a browser
ALREADY_RUNNING: Final = 75  # the exit code of a daemon if another one is already running

Waiting = Callable[[], None]  # called repeatedly while waiting


class SilentError(BillhookError):
    """A daemon is running, but does not answer."""

    def __init__(self, folder: Path, pid: int) -> None:
        who = f"the daemon (process {pid})" if pid else "the daemon"
        hint = "it hangs or is stopped: `billhook daemon stop --force` ends it, and the next event starts another"
        super().__init__(f"{who} does not answer", place=str(folder / SOCKET), hint=hint)
        self.pid = pid


def query_status(root: Path, seconds: float = ANSWERS) -> DaemonStatus | None:
    """The daemon's status; None if no daemon is running. Raises SilentError if it does not answer."""
    reply = _requested(root, protocol.ABOUT, seconds)
    try:
        return None if reply is None else msgspec.json.decode(protocol.read_about(reply), type=DaemonStatus)
    except (protocol.BadRequestError, msgspec.MsgspecError):
        return None  # it has just ended, or is not a billhook daemon


def page_link(root: Path) -> PageLink:
    """A link to the page, from a daemon that is running. Raises UsageError, SilentError."""
    reply = _requested(root, protocol.PAGE, BEGINS)
    hint = "`billhook daemon stop` stops the daemon; then try again"
    try:
        link = msgspec.json.decode(protocol.read_about(reply or b""), type=PageLink)
    except (protocol.BadRequestError, msgspec.MsgspecError):
        raise UsageError("the daemon has no page: it is another version of billhook", hint=hint) from None
    if link.problem:
        raise UsageError(link.problem, hint=link.hint)
    return link


def _requested(root: Path, request: bytes, seconds: float) -> bytes | None:
    """The reply to a request that is not an event; None if no daemon is running. Raises SilentError."""
    folder = checked(folder_of(root))
    try:
        connection = connect(folder, seconds)
    except (BlockingIOError, TimeoutError):
        raise SilentError(folder, holder(folder)) from None
    except OSError:
        return None
    with connection:
        pid = peer_of(connection)
        try:
            connection.sendall(request)
            return b"".join(iter(lambda: connection.recv(1 << 16), b""))
        except TimeoutError:
            raise SilentError(folder, pid or holder(folder)) from None
        except OSError:
            return None  # it has just ended


def start(
    root: Path, options: list[str], waiting: Waiting, *, patient: bool = True
) -> tuple[DaemonStatus | None, bool]:
    """Make sure that a daemon is running: its status, and whether it was started now. Raises StoreError, SilentError.

    `options` are those of `billhook daemon run`. Without options the daemon gets those of the last one, unless that was
    stopped on purpose. If another process is starting a daemon, only a `patient` caller waits for it: a person. Only
    their variables for OpenTelemetry count. Those of an agent may come from a project.
    """
    folder = ensure_folder(root)
    found = query_status(root)
    if found is not None:
        return found, False
    with _only_one(folder) as first:
        if not first and not patient:
            return None, False
        last = recalled(folder)
        otel = (sidecar.otel_settings(os.environ) if patient else {}) or (last.otel if last is not None else {})
        before = [*last.words(), "--again"] if last is not None else []
        launch = _Launch(options or before, otel) if first else None
        return _served(root, launch, waiting), first


class _Launch(NamedTuple):
    """How to start a daemon."""

    options: list[str]
    otel: dict[str, str]


def _started(root: Path, launch: _Launch) -> "subprocess.Popen[bytes]":
    """A daemon in a new session. It inherits only standard error, until it is ready."""
    argv = [sys.executable, "-P", "-X", "utf8", "-m", "billhook", "daemon", "run", "--detached", *launch.options]
    # Set the root: it may depend on the current folder, and the daemon runs in /.
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(sidecar.PREFIX)}
    env = {**inherited, **launch.otel, "BILLHOOK_HOME": str(root)}
    try:
        return subprocess.Popen(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            cwd="/",
            env=env,
            start_new_session=True,
        )
    except OSError as error:
        raise StoreError(f"the daemon can't be started: {error.strerror}", place=sys.executable) from error


def _served(root: Path, launch: _Launch | None, waiting: Waiting) -> DaemonStatus:
    """Wait until a daemon reports its status. Starts one, unless another process does that (None)."""
    folder = folder_of(root)
    end = time.monotonic() + BEGINS
    child: subprocess.Popen[bytes] | None = None
    try:
        while time.monotonic() < end:
            if launch is not None and child is None and not holder(folder):  # one that is stopping may hold it
                child = _started(root, launch)
            found = query_status(root)
            if found is not None and not found.leaving:
                return found
            if child is not None and child.poll() is not None:
                _complain(child, root)
                child = None
            waiting()
            time.sleep(0.02)
    finally:
        if child is not None and child.stderr is not None:
            child.stderr.close()
            child.returncode = 0  # no zombie warning: it keeps running
    raise SilentError(folder, holder(folder))


def _complain(child: "subprocess.Popen[bytes]", root: Path) -> None:
    """Raise StoreError with the message of a daemon that ended at start, unless another daemon is running."""
    assert child.stderr is not None
    with child.stderr:
        said = child.stderr.read(1 << 16).decode("utf-8", "replace").strip()
    if child.returncode == ALREADY_RUNNING:
        return
    message, _, hint = said.removeprefix("error: ").partition("\n\nhint: ")
    message = message or f"the daemon ended at once, with exit code {child.returncode}"
    log = folder_of(root) / LOG
    raise StoreError(message, hint=hint or f"`billhook daemon run` shows more; its log: {log}")


@contextmanager
def _only_one(folder: Path) -> Iterator[bool]:
    """Whether no other process is starting a daemon here. If so, none can during the block."""
    with ExitStack() as held:
        try:
            held.enter_context(locked(folder / "starting", root=folder, seconds=0.0))
            first = True
        except LockedError:
            first = False
        yield first


def stop(root: Path, waiting: Waiting, *, force: bool = False) -> int:
    """Stop the daemon and wait for its end: its process id, 0 if none was running. Raises SilentError if it stays."""
    folder = checked(folder_of(root))
    forget(folder)
    pid = _pid_of(folder)
    if pid <= 1:
        return 0
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL if force else signal.SIGTERM)
        os.kill(pid, signal.SIGCONT)  # a suspended process can't end
    end = time.monotonic() + ENDS
    while _is_alive(pid):
        if time.monotonic() > end:
            raise SilentError(folder, pid)
        waiting()
        time.sleep(0.02)
    return pid


def _pid_of(folder: Path) -> int:
    """The daemon's process id: the process that listens, otherwise the one that holds the lock; 0 if there is none."""
    try:
        with connect(folder, 1.0) as connection:
            return peer_of(connection) or holder(folder)
    except OSError:
        return holder(folder)


def _is_alive(pid: int) -> bool:
    """Whether it runs. A zombie does not."""
    if hasattr(os, "pidfd_open"):
        try:
            descriptor = os.pidfd_open(pid)
        except ProcessLookupError:
            return False
        except OSError:
            return exists(pid)
        try:
            return not select.select([descriptor], [], [], 0)[0]
        finally:
            os.close(descriptor)
    return exists(pid)


# The options that the last daemon was started with:

REMEMBERED: Final = "options"
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
        write_atomically(folder / REMEMBERED, msgspec.json.encode(options), root=folder, durable=False)


def forget(folder: Path) -> None:
    """The daemon is stopped on purpose: don't restart it with these options."""
    with suppress(StoreError):
        remove(folder / REMEMBERED, root=folder)


def recalled(folder: Path) -> DaemonOptions | None:
    """The options of the last daemon here, unless it was stopped on purpose."""
    try:
        found = read_bytes(folder / REMEMBERED, _LARGEST, root=folder)
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


def ensure_folder(root: Path) -> Path:
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


def peer_of(connection: _socket.socket) -> int:
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

"""Start a daemon, query it and stop it from another process; and end the processes that a daemon left behind.

Processes that a daemon started must not outlive it, even if it is killed and can't clean up. A small watcher process
waits for the daemon's end and kills what is left, unless the daemon signed off first. For a daemon in the background
the watcher is its parent, which inherits its orphans. A daemon in the foreground keeps its parent; there the watcher
looks for the daemon's marker (`billhook.runners.process_tree`), a variable that all its descendants inherit unless they
clear their environment. Linux only: elsewhere processes can't be found.
"""

import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from billhook.core.errors import BillhookError
from billhook.runners.process_tree import MARKER, Tree, adopt_orphans, forget_markers
from billhook.serve import places, protocol, telemetry
from billhook.serve.protocol import DaemonStatus
from billhook.store.files import LockedError, StoreError, locked

_GOODBYE = b"."


@contextmanager
def guarded(*, detached: bool = False) -> Iterator[None]:
    """While the block runs, everything that this process started ends with it. Call it before any thread starts.

    With `detached` the block runs in a child process; the parent waits and exits with the same code."""
    marker = os.urandom(8).hex()
    os.environ[MARKER] = marker
    if sys.platform != "linux":
        yield
        return
    write = _go_on_as_child(marker) if detached else _have_another(marker)
    try:
        yield
    finally:
        with suppress(OSError):
            os.write(write, _GOODBYE)
        os.close(write)


def _go_on_as_child(marker: str) -> int:
    """The descriptor for signing off. Returns in the child: the parent waits for its end."""
    read, write = os.pipe()
    adopt_orphans()
    child = os.fork()
    if child:
        try:
            _wait(read, marker)
            _, status = os.waitpid(child, 0)
            os._exit(max(os.waitstatus_to_exitcode(status), -1) & 0xFF)
        finally:
            os._exit(1)
    os.close(read)
    os.setsid()
    return write


def _have_another(marker: str) -> int:
    """The same for a process that must stay the child of its parent."""
    read, write = os.pipe()
    child = os.fork()
    if not child:
        _leave_to_another(read, marker)
    os.close(read)
    os.waitpid(child, 0)
    return write


def _leave_to_another(read: int, marker: str) -> None:
    """In the child: a grandchild waits, detached from this process. Never returns."""
    try:
        os.setsid()
        if not os.fork():
            _wait(read, marker)
    finally:
        os._exit(0)


def _wait(read: int, marker: str) -> None:
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    os.chdir("/")
    _keep_only(read)
    if os.read(read, 1) == _GOODBYE:
        return
    for _ in range(3):  # a process that is just starting gets its marker a moment later
        marked = Tree(-1, marker)
        marked.reserved = False  # there is no leader, only the marker
        marked.kill_now()
        forget_markers()
        time.sleep(0.05)


def _keep_only(descriptor: int) -> None:
    """Close everything else: the daemon's lock is held by every process that has it open."""
    let_go_of_streams()
    for name in os.listdir("/proc/self/fd"):
        if int(name) > 2 and int(name) != descriptor:
            with suppress(OSError):
                os.close(int(name))


# A process that does not depend on the one that started it:

_FILES: Final = 8192
"""A sufficient limit of open files. Not higher: hooks inherit it, and old programs close that many descriptors."""
_HANDED_DOWN: Final = (MARKER, "BILLHOOK_DEPTH")
"""Variables that mark the children of a hook. A daemon that such a child started does not belong to the hook."""


def stand_alone() -> None:
    """Reset what this process inherited: streams, signals, limits, variables."""
    for name in _HANDED_DOWN:
        os.environ.pop(name, None)
    for descriptor in range(3):  # a closed standard stream would be the next file that is opened
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest free number
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    for number in (signal.SIGCHLD, signal.SIGALRM, signal.SIGUSR1, signal.SIGUSR2, signal.SIGQUIT):
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, signal.SIG_DFL)
    os.umask(os.umask(0o077) & 0o077)  # hooks inherit the user's part; billhook's files have explicit modes
    _raise_limit()


def let_go_of_streams() -> None:
    """Send standard streams to /dev/null from now on."""
    nowhere = os.open(os.devnull, os.O_RDWR)
    for descriptor in range(3):
        os.dup2(nowhere, descriptor)
    if nowhere > 2:
        os.close(nowhere)


def _raise_limit() -> None:
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = _FILES if hard == resource.RLIM_INFINITY else min(hard, _FILES)
    if soft != resource.RLIM_INFINITY and soft < most:
        with suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))


def speak_utf8() -> None:
    """Restart Python in UTF-8 mode if it decodes file names and variables otherwise: callers' bytes must be passed on
    unchanged."""
    if sys.getfilesystemencoding().lower().replace("-", "") != "utf8":
        os.environ["PYTHONUTF8"] = "1"
        os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])


# Starting, querying and stopping a daemon from another process.

ANSWERS: Final = 3.0  # seconds in which a healthy daemon reports its status, even on a busy machine
BEGINS: Final = 20.0  # seconds in which a new daemon is ready
ENDS: Final = 40.0  # seconds in which a stopped daemon has ended: it finishes pending requests first
TAKEN: Final = 75  # the exit code of a daemon if another one is already running

Waiting = Callable[[], None]  # called repeatedly while waiting


class SilentError(BillhookError):
    """A daemon is running, but does not answer."""

    def __init__(self, folder: Path, pid: int) -> None:
        who = f"the daemon (process {pid})" if pid else "the daemon"
        hint = "it hangs or is stopped: `billhook daemon stop --force` ends it, and the next event starts another"
        super().__init__(f"{who} does not answer", place=str(folder / places.SOCKET), hint=hint)
        self.pid = pid


def ask(root: Path, seconds: float = ANSWERS) -> DaemonStatus | None:
    """The daemon's status; None if no daemon is running. Raises SilentError if it does not answer."""
    folder = places.checked(places.folder_of(root))
    try:
        connection = places.connect(folder, seconds)
    except (BlockingIOError, TimeoutError):
        raise SilentError(folder, places.holder(folder)) from None
    except OSError:
        return None
    with connection:
        pid = places.peer_of(connection)
        try:
            connection.sendall(protocol.ABOUT)
            reply = b"".join(iter(lambda: connection.recv(1 << 16), b""))
            return msgspec.json.decode(protocol.read_about(reply), type=DaemonStatus)
        except TimeoutError:
            raise SilentError(folder, pid or places.holder(folder)) from None
        except (OSError, protocol.BadRequestError, msgspec.MsgspecError):
            return None  # it has just ended, or is not a billhook daemon


def start(
    root: Path, options: list[str], waiting: Waiting, *, patient: bool = True
) -> tuple[DaemonStatus | None, bool]:
    """Make sure that a daemon is running: its status, and whether it was started now. Raises StoreError, SilentError.

    `options` are those of `billhook daemon run`. Without options the daemon gets those of the last one, unless that was
    stopped on purpose. If another process is starting a daemon, only a `patient` caller waits for it: a person. Only
    their variables for OpenTelemetry count. Those of an agent may come from a project.
    """
    folder = places.made(root)
    found = ask(root)
    if found is not None:
        return found, False
    with _only_one(folder) as first:
        if not first and not patient:
            return None, False
        last = places.recalled(folder)
        otel = (telemetry.settings(os.environ) if patient else {}) or (last.otel if last is not None else {})
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
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(telemetry.PREFIX)}
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
    folder = places.folder_of(root)
    end = time.monotonic() + BEGINS
    child: subprocess.Popen[bytes] | None = None
    try:
        while time.monotonic() < end:
            if launch is not None and child is None and not places.holder(folder):  # one that is stopping may hold it
                child = _started(root, launch)
            found = ask(root)
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
    raise SilentError(folder, places.holder(folder))


def _complain(child: "subprocess.Popen[bytes]", root: Path) -> None:
    """Raise StoreError with the message of a daemon that ended at start, unless another daemon is running."""
    assert child.stderr is not None
    with child.stderr:
        said = child.stderr.read(1 << 16).decode("utf-8", "replace").strip()
    if child.returncode == TAKEN:
        return
    message, _, hint = said.removeprefix("error: ").partition("\n\nhint: ")
    message = message or f"the daemon ended at once, with exit code {child.returncode}"
    log = places.folder_of(root) / places.LOG
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
    folder = places.checked(places.folder_of(root))
    places.forget(folder)
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
        with places.connect(folder, 1.0) as connection:
            return places.peer_of(connection) or places.holder(folder)
    except OSError:
        return places.holder(folder)


def _is_alive(pid: int) -> bool:
    """Whether it runs. A zombie does not."""
    if hasattr(os, "pidfd_open"):
        try:
            descriptor = os.pidfd_open(pid)
        except ProcessLookupError:
            return False
        except OSError:
            return _takes_signals(pid)
        try:
            return not select.select([descriptor], [], [], 0)[0]
        finally:
            os.close(descriptor)
    return _takes_signals(pid)


def _takes_signals(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True

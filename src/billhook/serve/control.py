"""Start a daemon, query it and stop it from another process; and end what a daemon left.

What a daemon started must not outlive it, even when it is killed and can clean up nothing. A small process of its own
waits for the daemon's end, and kills what that left, unless the daemon says goodbye. For one in the background it is
the parent, which inherits all that the daemon leaves. One in the foreground keeps its own parent; there the daemon's
marker (`billhook.runners.process_tree`) is looked for, which everything carries that did not empty its variables. Linux
only: elsewhere processes can't be found.
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
from typing import Final

import msgspec

from billhook.core.errors import BillhookError
from billhook.runners.process_tree import MARKER, Tree, adopt_orphans, forget_markers
from billhook.serve import places, protocol
from billhook.serve.protocol import DaemonStatus
from billhook.store.files import LockedError, StoreError, locked

_GOODBYE = b"."


@contextmanager
def guarded(*, detached: bool = False) -> Iterator[None]:
    """While the block runs, this process's death takes along what it started. Before there is any thread.

    One that is `detached` goes on as another process, a child of the one it was, which ends with the same code."""
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
    """Where to say goodbye. Comes back in the child: the parent waits for its end."""
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
    """The same, where this process is somebody's child and has to stay that."""
    read, write = os.pipe()
    child = os.fork()
    if not child:
        _leave_to_another(read, marker)
    os.close(read)
    os.waitpid(child, 0)
    return write


def _leave_to_another(read: int, marker: str) -> None:
    """In the child: another child waits, as nobody's child. Never returns."""
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
    for _ in range(3):  # what was just being started has its marker a moment later
        marked = Tree(-1, marker)
        marked.reserved = False  # there is no leader, only the marker
        marked.kill_now()
        forget_markers()
        time.sleep(0.05)


def _keep_only(descriptor: int) -> None:
    """Let go of everything else: the daemon's lock is held by whoever has it open."""
    let_go_of_streams()
    for name in os.listdir("/proc/self/fd"):
        if int(name) > 2 and int(name) != descriptor:
            with suppress(OSError):
                os.close(int(name))


# A process that depends on nobody:

_FILES: Final = 8192
"""Open files that are enough. More are not asked for: hooks inherit the limit, and old programs close that many."""
_HANDED_DOWN: Final = (MARKER, "BILLHOOK_DEPTH")
"""What tells a hook's child whose it is. A daemon that a hook's child happened to start is nobody's."""


def stand_alone() -> None:
    """Put right what this process inherited: streams, signals, limits, variables."""
    for name in _HANDED_DOWN:
        os.environ.pop(name, None)
    for descriptor in range(3):  # a closed standard stream would be the next file that is opened
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # the lowest that is free
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    for number in (signal.SIGCHLD, signal.SIGALRM, signal.SIGUSR1, signal.SIGUSR2, signal.SIGQUIT):
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, signal.SIG_DFL)
    os.umask(os.umask(0o077) & 0o077)  # hooks inherit the rest of it; our own files say themselves who may read them
    _raise_limit()


def let_go_of_streams() -> None:
    """From now on nobody reads what is printed."""
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
    """Begin anew where Python takes file names and variables for anything but UTF-8: callers' bytes must come out as
    they came in."""
    if sys.getfilesystemencoding().lower().replace("-", "") != "utf8":
        os.environ["PYTHONUTF8"] = "1"
        os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])


# Starting a daemon, asking how it is, and ending it, from another process.

ANSWERS: Final = 3.0  # seconds in which a daemon that is well says how it is, on a busy machine
BEGINS: Final = 20.0  # seconds in which one that was started serves
ENDS: Final = 40.0  # seconds in which one that was told to end has ended: it lets those who wait have their answers
TAKEN: Final = 75  # the exit code of a daemon that found another one at work

Waiting = Callable[[], None]  # called again and again while something takes its time


class SilentError(BillhookError):
    """There is a daemon, and it does not answer."""

    def __init__(self, folder: Path, pid: int) -> None:
        who = f"the daemon (process {pid})" if pid else "the daemon"
        hint = "it hangs or is stopped: `billhook daemon stop --force` ends it, and the next event starts another"
        super().__init__(f"{who} does not answer", place=str(folder / places.SOCKET), hint=hint)
        self.pid = pid


def ask(root: Path, seconds: float = ANSWERS) -> DaemonStatus | None:
    """How the daemon is; None when none serves. Raises SilentError when there is one that does not say."""
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
            return None  # it ended just now, or is none of ours


def start(
    root: Path, options: list[str], waiting: Waiting, *, patient: bool = True
) -> tuple[DaemonStatus | None, bool]:
    """See to it that a daemon serves; how it is, and whether it was started now. Raises StoreError, and SilentError.

    `options` are those of `billhook daemon run`; without any it is as the last one was, unless that was meant to end.
    Who is not `patient` leaves it to another who starts one just now.
    """
    folder = places.made(root)
    found = ask(root)
    if found is not None:
        return found, False
    with _only_one(folder) as first:
        if not first and not patient:
            return None, False
        return _served(root, (options or _as_before(folder)) if first else None, waiting), first


def _as_before(folder: Path) -> list[str]:
    last = places.recalled(folder)
    return [] if last is None else [*last.words(), "--again"]


def _started(root: Path, options: list[str]) -> "subprocess.Popen[bytes]":
    """A daemon in a session of its own, which keeps nothing of ours but its standard error, until it serves."""
    argv = [sys.executable, "-P", "-X", "utf8", "-m", "billhook", "daemon", "run", "--detached", *options]
    # Where it is made no difference so far; from now on it does.
    env = {**os.environ, "BILLHOOK_HOME": str(root)}
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


def _served(root: Path, options: list[str] | None, waiting: Waiting) -> DaemonStatus:
    """Start one, with these options, and wait until one says how it is; without options another starts it."""
    folder = places.folder_of(root)
    end = time.monotonic() + BEGINS
    child: subprocess.Popen[bytes] | None = None
    try:
        while time.monotonic() < end:
            if options is not None and child is None and not places.holder(folder):  # one that leaves may have it
                child = _started(root, options)
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
            child.returncode = 0  # nobody waits for it
    raise SilentError(folder, places.holder(folder))


def _complain(child: "subprocess.Popen[bytes]", root: Path) -> None:
    """StoreError with the words of a daemon that ended instead of serving, unless another one serves."""
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
    """Whether nobody else starts a daemon here just now; then nobody does meanwhile."""
    with ExitStack() as held:
        try:
            held.enter_context(locked(folder / "starting", root=folder, seconds=0.0))
            first = True
        except LockedError:
            first = False
        yield first


def stop(root: Path, waiting: Waiting, *, force: bool = False) -> int:
    """End the daemon, and wait for that; its number, 0 when there was none. Raises SilentError when it does not end."""
    folder = places.checked(places.folder_of(root))
    places.forget(folder)
    pid = _pid_of(folder)
    if pid <= 1:
        return 0
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL if force else signal.SIGTERM)
        os.kill(pid, signal.SIGCONT)  # one that is stopped can't end
    end = time.monotonic() + ENDS
    while _is_alive(pid):
        if time.monotonic() > end:
            raise SilentError(folder, pid)
        waiting()
        time.sleep(0.02)
    return pid


def _pid_of(folder: Path) -> int:
    """The daemon's process: the one that listens, or else the one that has the lock; 0 when there is none."""
    try:
        with places.connect(folder, 1.0) as connection:
            return places.peer_of(connection) or places.holder(folder)
    except OSError:
        return places.holder(folder)


def _is_alive(pid: int) -> bool:
    """Whether it runs. One that has ended and that nobody collects does not."""
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

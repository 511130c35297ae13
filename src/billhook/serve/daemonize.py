"""What a daemon started must not outlive it, even when it is killed and can clean up nothing.

A small process of its own waits for the daemon's end, and kills what that left, unless the daemon says goodbye. For one
in the background it is the parent, which inherits all that the daemon leaves. One in the foreground keeps its own
parent; there the daemon's marker (`billhook.tree`) is looked for, which everything carries that did not empty its
variables. Linux only: elsewhere processes can't be found.
"""

import os
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final

from billhook.runners.process_tree import MARKER, Tree, adopt_orphans, forget_markers

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
    nowhere = os.open(os.devnull, os.O_RDWR)
    for fd in range(3):
        os.dup2(nowhere, fd)
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
    for descriptor in range(3):
        _open_at_least(descriptor)
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


def _open_at_least(descriptor: int) -> None:
    """A closed standard stream would be the next file that is opened."""
    try:
        os.fstat(descriptor)
    except OSError:
        os.open(os.devnull, os.O_RDWR)  # the lowest that is free


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

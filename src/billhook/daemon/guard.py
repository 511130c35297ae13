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

from billhook.tree import MARKER, Tree, adopt_orphans, forget_markers

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

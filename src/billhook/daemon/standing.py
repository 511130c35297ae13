"""A process that depends on nobody: what it may have inherited is put right before it serves."""

import os
import signal
import sys
from contextlib import suppress
from typing import Final

from billhook.tree import MARKER

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

"""An answer at once, from a process that goes on: the agent waits for the parent, the child judges and outlives it.

The split comes before the hooks run, while there is one thread. Signals that reach the parent are passed on; after the
answer the child belongs to no one, and ends with its hooks. POSIX only.
"""

import os
from collections.abc import Callable
from typing import TYPE_CHECKING

from billhook.cli.hook import hang_up

if TYPE_CHECKING:
    import signal
else:
    import _signal as signal  # without enumerations, which take long to make

_PASSED_ON = ("SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT", "SIGUSR1", "SIGUSR2", "SIGXCPU", "SIGALRM")


def split() -> Callable[[int], None] | int:
    """Fork. In the child: the function that lets the parent end with a code. In the parent: that code."""
    from billhook.runners import process_tree

    read, write = os.pipe()
    parent = os.getpid()
    try:
        child = os.fork()
    except OSError:  # no more processes: then the agent waits
        os.close(read)
        os.close(write)
        return lambda code: hang_up()
    if child:
        os.close(write)
        return _follow(child, read)
    os.close(read)
    os.setsid()  # a signal for the parent's group comes from the parent, once
    if not process_tree.end_with(parent):
        raise KeyboardInterrupt
    return lambda code: _let_go(write, code)


def _let_go(write: int, code: int) -> None:
    from billhook.runners import process_tree

    process_tree.outlive_parent()
    nowhere = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(nowhere, stream)
    os.close(nowhere)
    os.write(write, bytes([code]))
    os.close(write)


def _follow(child: int, read: int) -> int:
    for name in _PASSED_ON:
        number = getattr(signal, name, None)
        if number is not None and signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, lambda number, frame: os.kill(child, number))
    code = os.read(read, 1)
    if code:
        return code[0]
    ended = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if ended < 0:
        raise ChildProcessError(f"the process that ran the hooks was ended by signal {-ended}")
    return ended

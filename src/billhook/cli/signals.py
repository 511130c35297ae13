"""Fire an event so that a signal that terminates billhook terminates its hooks first."""

import os
import sys
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from billhook.core.answers import Verdict
from billhook.core.events import Event
from billhook.core.lazy import lazy_module

if TYPE_CHECKING:
    import asyncio
    import signal

    from billhook.engine.engine import Engine
else:
    import _signal as signal  # without enumerations, which take long to make

    asyncio = lazy_module("asyncio")


_GRACE = 0.1
"""Seconds in which hooks can exit by themselves: a second, uncatchable signal may follow soon."""


async def fire(engine: "Engine", event: Event, caught: list[int], deadline: float | None = None) -> Verdict:
    """Fire. A signal that terminates us is added to the list and raises KeyboardInterrupt. asyncio handles Ctrl-C."""
    task = asyncio.current_task()
    assert task is not None

    loop = asyncio.get_running_loop()
    timers: list[asyncio.TimerHandle] = []

    def end(number: int) -> None:
        caught.append(number)
        task.cancel()
        timers.append(loop.call_later(_GRACE, task.cancel))  # the second cancel kills hooks at once

    if sys.platform != "win32":
        for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
            if signal.getsignal(number) is not signal.SIG_IGN:
                loop.add_signal_handler(number, end, number)
    try:
        return await engine.fire(event, deadline=deadline)
    except asyncio.CancelledError:
        raise KeyboardInterrupt from None
    finally:
        for timer in timers:
            timer.cancel()
        if sys.platform != "win32":
            _note_from_now_on(loop, caught)


def _note_from_now_on(loop: "asyncio.AbstractEventLoop", caught: list[int]) -> None:
    """A loop that closes restores the default handlers. A signal would then terminate us without an answer, and leave
    our hooks running."""
    numbers = (signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
    signal.pthread_sigmask(signal.SIG_BLOCK, numbers)
    try:
        for number in numbers:
            if loop.remove_signal_handler(number):
                signal.signal(number, _noting(caught))
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, numbers)


def catch_signals(caught: list[int]) -> None:
    """From now on, add signals to the list instead of terminating: a signal during the wait for a thread would leave
    its hook running."""
    handle_signals(("SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT"), _noting(caught))


def hang_up(*streams: int) -> None:
    """Disconnect these streams, so that their readers see the end. Later output is discarded."""
    nowhere = os.open(os.devnull, os.O_RDWR)
    for stream in streams:
        os.dup2(nowhere, stream)
    os.close(nowhere)


def handle_signals(names: Iterable[str], handler: Callable[[int, object], None]) -> None:
    """Handle these signals, if the platform has them and they are not ignored."""
    for name in names:
        number = getattr(signal, name, None)
        if number is not None and signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, handler)


def _noting(caught: list[int]) -> Callable[[int, object], None]:
    return lambda number, frame: caught.append(number)

"""Fire an event so that a signal that ends billhook ends its hooks first."""

import os
import sys
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from billhook.core.answers import Verdict
from billhook.core.events import Event
from billhook.core.lazy import later

if TYPE_CHECKING:
    import asyncio
    import signal

    from billhook.engine.engine import Engine
else:
    import _signal as signal  # without enumerations, which take long to make

    asyncio = later("asyncio")


_PATIENCE = 0.1
"""Seconds that hooks have to end by themselves: who sends us a signal soon sends one that nobody can catch."""


async def fire(engine: "Engine", event: Event, caught: list[int], deadline: float | None = None) -> Verdict:
    """Fire; a signal that ends us is noted in the list and raises KeyboardInterrupt. Ctrl-C is asyncio's own affair."""
    task = asyncio.current_task()
    assert task is not None

    loop = asyncio.get_running_loop()
    timers: list[asyncio.TimerHandle] = []

    def end(number: int) -> None:
        caught.append(number)
        task.cancel()
        timers.append(loop.call_later(_PATIENCE, task.cancel))  # the second time, hooks are killed at once

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
    """A loop that closes gives signals back their default: one that comes then would end us without an answer, and
    without the end of our hooks."""
    numbers = (signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
    signal.pthread_sigmask(signal.SIG_BLOCK, numbers)
    try:
        for number in numbers:
            if loop.remove_signal_handler(number):
                signal.signal(number, _noting(caught))
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, numbers)


def catch_signals(caught: list[int]) -> None:
    """From now on a signal that would end us is only noted, in the list: one that broke into the wait for a thread
    would leave its hook running."""
    handle_signals(("SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT"), _noting(caught))


def hang_up(*streams: int) -> None:
    """Let whoever is at the other end of these streams go on; what is still written goes nowhere."""
    nowhere = os.open(os.devnull, os.O_RDWR)
    for stream in streams:
        os.dup2(nowhere, stream)
    os.close(nowhere)


def handle_signals(names: Iterable[str], handler: Callable[[int, object], None]) -> None:
    """Handle these signals, where the platform has them and nobody wants them ignored."""
    for name in names:
        number = getattr(signal, name, None)
        if number is not None and signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, handler)


def _noting(caught: list[int]) -> Callable[[int, object], None]:
    return lambda number, frame: caught.append(number)

"""Firing from a process of our own: a signal that ends us ends the hooks first."""

import sys
from typing import TYPE_CHECKING

from billhook.answers import Verdict
from billhook.events import Event
from billhook.later import later

if TYPE_CHECKING:
    import asyncio
    import signal

    from billhook.engine import Engine
else:
    import _signal as signal  # without enumerations, which take long to make

    asyncio = later("asyncio")


async def fire(engine: "Engine", event: Event, caught: list[int], deadline: float | None = None) -> Verdict:
    """Fire; a signal that ends us is noted in the list and raises KeyboardInterrupt. Ctrl-C is asyncio's own affair."""
    task = asyncio.current_task()
    assert task is not None

    def end(number: int) -> None:
        caught.append(number)
        task.cancel()

    if sys.platform != "win32":
        for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
            if signal.getsignal(number) is not signal.SIG_IGN:
                asyncio.get_running_loop().add_signal_handler(number, end, number)
    try:
        return await engine.fire(event, deadline=deadline)
    except asyncio.CancelledError:
        raise KeyboardInterrupt from None


def catch_signals(caught: list[int]) -> None:
    """From now on a signal that would end us is only noted, in the list: one that broke into the wait for a thread
    would leave its hook running."""
    for name in ("SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT"):
        number = getattr(signal, name, None)
        if number is not None and signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, lambda caught_number, frame: caught.append(caught_number))

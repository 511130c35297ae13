"""Take a coroutine's first step by hand, and drive the rest of it only if there is a rest.

Most hooks answer without waiting for anything. A timer and a task for each of them would cost ten times the hook.
"""

import asyncio
from collections.abc import Coroutine, Generator
from typing import Any

GRACE = 0.5
"""Seconds that a cancelled coroutine has to clean up before it is abandoned."""


class ExpiredError(Exception):
    """The time is over. `late` is what the coroutine returned all the same while it cleaned up."""

    def __init__(self, late: Any = None) -> None:
        super().__init__("the time is over")
        self.late = late


class _Rest:
    """The rest of a coroutine that has taken its first step and waits for `first`.

    It goes on in the task that took the first step: code that remembered its current task (`asyncio.timeout`, cancel
    scopes) stays right. A coroutine that swallows a second cancellation is closed and left behind.
    """

    def __init__(self, coroutine: Coroutine[Any, Any, Any], first: Any) -> None:
        self.coroutine = coroutine
        self.first = first

    def __await__(self) -> Generator[Any, Any, Any]:
        waits_for = self.first
        cancellations = 0
        try:
            while True:
                try:
                    sent = yield waits_for
                except asyncio.CancelledError as cancelled:
                    cancellations += 1
                    waits_for = self.coroutine.throw(cancelled)
                    if cancellations > 1:
                        self._abandon(waits_for)
                        raise
                except GeneratorExit:
                    self.coroutine.close()
                    raise
                except BaseException as error:
                    waits_for = self.coroutine.throw(error)
                else:
                    waits_for = self.coroutine.send(sent)
        except StopIteration as end:
            return end.value

    def _abandon(self, waits_for: Any) -> None:
        if asyncio.isfuture(waits_for):
            waits_for._asyncio_future_blocking = False  # nobody will wait for it any more
        try:
            self.coroutine.close()
        except RuntimeError:
            pass  # it ignores even GeneratorExit


async def finish(coroutine: Coroutine[Any, Any, Any], first: Any, seconds: float) -> Any:
    """Drive a coroutine to its end for at most `seconds`, then give it a moment to clean up. Raises ExpiredError."""
    inner = asyncio.timeout(seconds)
    try:
        async with asyncio.timeout(seconds + GRACE), inner:
            value = await _Rest(coroutine, first)
    except TimeoutError:
        if inner.expired():
            raise ExpiredError from None
        raise
    if inner.expired():
        raise ExpiredError(value)
    return value

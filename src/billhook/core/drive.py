"""Drive a coroutine after its first step, until its deadline.

Most hooks answer without waiting for anything. A timer and a task for each of them would cost ten times the hook, so
the engine takes a coroutine's first step itself, and calls this module only if the coroutine waits.
"""

from collections.abc import Awaitable, Coroutine, Generator
from typing import TYPE_CHECKING, Any, TypeVar

from billhook.core.lazy import lazy_module

if TYPE_CHECKING:
    import asyncio
    import contextvars
    import threading
else:
    asyncio = lazy_module("asyncio")
    contextvars = lazy_module("contextvars")
    threading = lazy_module("threading")

T = TypeVar("T")

GRACE = 0.5  # seconds that a coroutine has to clean up when its time is over, before it is left behind
CANCEL_WAIT = 2.0
"""Seconds for which a coroutine may continue when the task that drives it was cancelled, before it is left behind."""


async def awaiting(something: Awaitable[Any]) -> Any:
    """Anything that can be awaited, as a coroutine."""
    return await something


class ExpiredError(Exception):
    """The coroutine timed out. `late` is what it returned nevertheless, while it cleaned up."""

    def __init__(self, late: Any = None) -> None:
        super().__init__("the time is over")
        self.late = late


class RaisedError(Exception):
    """The coroutine itself raised `error`, even if that is CancelledError or GeneratorExit."""

    def __init__(self, error: BaseException) -> None:
        super().__init__(str(type(error)))
        self.error = error


async def finish(coroutine: Coroutine[Any, Any, Any], first: Any, seconds: float) -> Any:
    """The value of a coroutine that waits for `first`, within `seconds`. Raises ExpiredError and RaisedError; and
    CancelledError only if the task was cancelled, however the coroutine handled that."""
    rest = _Rest(coroutine, first, seconds)
    value = None
    try:
        value = await rest
    except RaisedError:
        if not (rest.cancelled or rest.expired):
            raise
    finally:
        rest.stop_timers()
    if rest.cancelled:
        raise asyncio.CancelledError
    if rest.expired:
        raise ExpiredError(value)
    return value


def run(coroutine: Coroutine[Any, Any, T]) -> T:
    """`asyncio.run` that does not wait for leftovers of hooks: threads that hang, tasks that refuse to end."""
    loop = asyncio.new_event_loop()
    try:
        return loop.run_until_complete(coroutine)
    finally:
        left = asyncio.all_tasks(loop)
        for task in left:
            task.cancel()
        if left:
            loop.run_until_complete(asyncio.wait(left, timeout=CANCEL_WAIT + GRACE))
        loop.run_until_complete(asyncio.wait([loop.create_task(loop.shutdown_asyncgens())], timeout=GRACE))
        loop.close()


def run_in_thread(coroutine: Coroutine[Any, Any, T]) -> T:
    """`run` in a new thread, for code that a running loop calls and that must not return before the end."""
    from concurrent.futures import Future

    ended: Future[T] = Future()
    context = contextvars.copy_context()

    def work() -> None:
        try:
            ended.set_result(context.run(run, coroutine))
        except BaseException as error:
            ended.set_exception(error)

    threading.Thread(target=work, name="billhook-fire", daemon=True).start()
    return ended.result()


class _Rest:
    """A coroutine after its first step. It continues in the task that took that step: code that remembered its task
    (`asyncio.timeout`, task groups, cancel scopes) stays correct.

    The task waits for our alarm, not directly for the coroutine's future. Otherwise a coroutine that waits for a task
    that refuses to be cancelled could not be left behind.
    """

    def __init__(self, coroutine: Coroutine[Any, Any, Any], first: Any, seconds: float) -> None:
        self.coroutine = coroutine
        self.first = first
        self.loop = asyncio.get_running_loop()
        self.task = asyncio.current_task()
        self.cancelled_before = self._cancellations()
        self.expired = False
        self.over = False  # the grace period is over, too
        self.due = False  # our cancellation has to be delivered
        self.alarm: asyncio.Future[None] | None = None
        self.timer = self.loop.call_later(max(0.0, seconds), self._expire)
        self.cancel_timer: asyncio.TimerHandle | None = None

    @property
    def cancelled(self) -> bool:
        """The task was cancelled. A timeout inside the coroutine does so as well, but reverts it."""
        return self._cancellations() > self.cancelled_before

    def _cancellations(self) -> int:
        return 0 if self.task is None else self.task.cancelling()

    def _expire(self) -> None:
        self.expired = self.due = True
        self.timer = self.loop.call_later(GRACE, self._give_up)
        self._wake()

    def _give_up(self) -> None:
        self.over = self.due = True
        self._wake()

    def _wake(self, _: object = None) -> None:
        if self.alarm is not None and not self.alarm.done():
            self.alarm.set_result(None)

    def stop_timers(self) -> None:
        self.timer.cancel()
        self._limit_wait(False)

    def _limit_wait(self, cancelled: bool) -> None:
        """Limit the wait for the coroutine while the task is cancelled."""
        if cancelled and self.cancel_timer is None:
            self.cancel_timer = self.loop.call_later(CANCEL_WAIT, self._give_up)
        elif not cancelled and self.cancel_timer is not None:
            self.cancel_timer.cancel()
            self.cancel_timer = None

    def __await__(self) -> Generator[Any, Any, Any]:
        waits_for = self.first
        try:
            while True:
                thrown = yield from self._wait(waits_for)
                waits_for = self._step(thrown)
                self.cancelled_before = min(self.cancelled_before, self._cancellations())
                self._limit_wait(self.cancelled)
                if self.over:
                    self._abandon(waits_for)
                    return None
        except StopIteration as end:
            return end.value

    def _step(self, thrown: BaseException | None) -> Any:
        try:
            return self.coroutine.send(None) if thrown is None else self.coroutine.throw(thrown)
        except (StopIteration, KeyboardInterrupt):
            raise
        except BaseException as error:
            raise RaisedError(error) from None

    def _wait(self, awaited: Any) -> Generator[Any, Any, BaseException | None]:
        """Wait until the coroutine can continue; returns the exception to throw into it."""
        thrown: BaseException | None = None
        try:
            if self._is_future(awaited):
                thrown = yield from self._wait_for(awaited)
            else:
                yield awaited
        except GeneratorExit:  # the code that drives us has ended
            self.coroutine.close()
            raise
        except BaseException as error:
            thrown = error
        if self.due:
            self.due = False
            return asyncio.CancelledError()
        return thrown

    def _is_future(self, awaited: Any) -> bool:
        """Anything else goes to the task, which reports it."""
        return getattr(awaited, "_asyncio_future_blocking", None) is True and awaited.get_loop() is self.loop

    def _wait_for(self, awaited: "asyncio.Future[Any]") -> Generator[Any, Any, BaseException | None]:
        awaited._asyncio_future_blocking = False  # we wait for it ourselves
        awaited.add_done_callback(self._wake)
        try:
            while not awaited.done() and not self.over:
                self.alarm = self.loop.create_future()
                cancelled = None
                try:
                    yield from self.alarm
                except asyncio.CancelledError as error:
                    cancelled = error
                    if self.cancelled and _group_failed(self.coroutine):
                        self.cancelled_before += 1
                    self._limit_wait(self.cancelled)
                if (cancelled or self.due) and not self.over:
                    self.due = False
                    # As a task does: cancel the future that the coroutine waits for, which then raises in it.
                    if not awaited.cancel():
                        return cancelled or asyncio.CancelledError()
        finally:
            self.alarm = None
            awaited.remove_done_callback(self._wake)
        return None

    def _abandon(self, waits_for: Any) -> None:
        if self._is_future(waits_for):
            waits_for._asyncio_future_blocking = False  # nothing waits for it any more
        try:
            self.coroutine.close()
        except RuntimeError:
            _keep_for_ever(self.coroutine)


def _group_failed(coroutine: Any) -> bool:
    """Whether it waits for a task group that has cancelled the task itself, because one of its tasks failed. Before
    Python 3.13 the group does not revert that, so it looks like a cancellation from outside."""
    while coroutine is not None:
        frame = getattr(coroutine, "cr_frame", None)
        group = None if frame is None else frame.f_locals.get("self")
        if isinstance(group, asyncio.TaskGroup) and getattr(group, "_parent_cancel_requested", False):
            return True
        coroutine = getattr(coroutine, "cr_await", None)
    return False


def _keep_for_ever(coroutine: object) -> None:
    """Keep a coroutine that ignores even GeneratorExit in memory. Garbage collection would close it again; without a
    loop to wait for, it might catch error after error, and the process would not end."""
    import ctypes

    ctypes.pythonapi.Py_IncRef(ctypes.py_object(coroutine))

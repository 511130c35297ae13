"""Answers that come later.

Each background job has a separate thread and loop, so that it can't block a firing and does not depend on the loop that
started it. When it ends, its answer waits for the next event of the same session that can carry context. Its timeout
limits it. A session that ends waits for its jobs (`finish`); when the process ends, running jobs are ended.
"""

import atexit
import sys
import time
from _thread import allocate_lock
from _weakrefset import WeakSet
from collections.abc import Awaitable, Callable, Collection
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from billhook.core.answers import NOTHING, Answer, Outcome
from billhook.core.events import Event
from billhook.core.lazy import lazy_module

if TYPE_CHECKING:
    import asyncio
    import contextvars
    import threading
else:
    contextvars = lazy_module("contextvars")
    threading = lazy_module("threading")

Job = Callable[[], Awaitable[Outcome]]


class Background:
    """The jobs of one engine and the answers that wait. Lives as long as the engine."""

    def __init__(self, changed: Callable[[], None]) -> None:
        """`changed` is called when answers begin or stop waiting."""
        self._changed = changed
        self.answers: dict[str, list[Outcome]] = {}  # answers that wait, by session
        self._running: dict[threading.Thread, _Running] = {}
        self._lock = allocate_lock()
        self.finish_at_exit = False  # wait for jobs when the process ends, if no session does

    def start(self, event: Event, job: Job, *, name: str, seconds: float, keep: bool = True) -> None:
        """Run a job of the hook `name`, with so many seconds; `keep=False` drops its answer (it runs only to end
        properly)."""
        running = _Running(event.session_id, name, time.monotonic() + seconds + _GRACE)

        def work() -> None:
            outcome = None
            try:
                outcome = running.run(job)
            finally:
                with self._lock:
                    if outcome is not None and keep:
                        self.answers.setdefault(event.session_id, []).append(_as_context(outcome))
                        self._changed()
                    self._running.pop(thread, None)
                running.ended.set()

        context = contextvars.copy_context()  # the job needs the current caller, too
        thread = threading.Thread(target=context.run, args=(work,), name="billhook-background", daemon=True)
        with self._lock:
            self._running[thread] = running
        _open_backgrounds.add(self)
        thread.start()

    def collect(self, event: Event) -> list[Outcome]:
        """The answers that this event can carry to the model; each is returned once."""
        if not self.answers or not event.takes_context:
            return []
        with self._lock:
            given = self.answers.pop(event.session_id, [])
            self._changed()
            return given

    def hand_over(self, session_id: str, other: "Background") -> None:
        """Move the waiting answers of sessions to another engine, whose next event carries them."""
        with self._lock:
            late = self.answers.pop(session_id, [])
            self._changed()
        if late:
            with other._lock:
                other.answers.setdefault(session_id, []).extend(late)
                other._changed()

    def settle(self, seconds: float, sessions: Collection[str] | None = None) -> bool:
        """Wait until all jobs (of some sessions) have ended, for at most so long; returns whether they have."""
        end = time.monotonic() + seconds
        for running in self._of(sessions):
            # Not Thread.join: before Python 3.13, Ctrl-C in it marks a running thread as ended.
            running.ended.wait(max(0.0, min(end, running.deadline) - time.monotonic()))
        return not self._of(sessions)

    async def finish(self, sessions: Collection[str]) -> None:
        """Wait for the jobs of some sessions, each until its timeout. An interrupt ends them."""
        import asyncio

        try:
            while any(running.deadline > time.monotonic() for running in self._of(sessions)):  # noqa: ASYNC110 - threads
                await asyncio.sleep(_LOOK)
        finally:  # remaining jobs were interrupted, or can't be: a function that does not return
            self.cancel(sessions)

    def names(self, sessions: Collection[str]) -> list[str]:
        """The hooks of some sessions that still run."""
        return list(dict.fromkeys(running.name for running in self._of(sessions)))

    def cancel(self, sessions: Collection[str] | None = None) -> None:
        """End all jobs (of some sessions): their processes are killed, their answers are lost."""
        left = self._of(sessions)
        for running in left:
            running.cancel()
        if left:
            self.settle(2.0, sessions)

    def _of(self, sessions: Collection[str] | None) -> "list[_Running]":
        running = list(self._running.values())
        return running if sessions is None else [one for one in running if one.session_id in sessions]


_GRACE = 3.0  # seconds after its timeout in which a job's processes are ended
_LOOK = 0.02  # seconds between two checks of the running jobs


class _Running:
    """One job's loop and task, so that another thread can end it."""

    def __init__(self, session_id: str, name: str, deadline: float) -> None:
        self.session_id, self.name, self.deadline = session_id, name, deadline
        self.cancelled = False
        self.ended = threading.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._task: asyncio.Task[Any] | None = None

    def run(self, job: Job) -> Outcome | None:
        import asyncio

        from billhook.core import drive

        async def follow() -> Outcome:
            self._loop, self._task = asyncio.get_running_loop(), asyncio.current_task()
            if self.cancelled:  # before there was a task to cancel; the job must still start, to clean up
                self.cancel()
            return await job()

        try:
            return drive.run(follow())
        except (Exception, asyncio.CancelledError):
            return None

    def cancel(self) -> None:
        self.cancelled = True
        if self._loop is not None and self._task is not None:
            try:
                self._loop.call_soon_threadsafe(self._task.cancel)
            except RuntimeError:
                pass  # it ended just now


def _as_context(outcome: Outcome) -> Outcome:
    """A late answer can inform, but not decide: its event is over."""
    answer = outcome.answer
    told = Answer(context=answer.context, message=answer.message, data=answer.data)
    outcome = replace(outcome, failed_open=False)  # no event waited for this answer
    if answer.decision.value != "none" or answer.stop or answer.keep_going:
        note = f"it decided ({answer.decision}) after the event was over"
        told = replace(told, context=told.context or answer.reason)
        return replace(outcome, answer=told, lost=(*outcome.lost, note))
    return replace(outcome, answer=told if told != NOTHING else NOTHING)


_open_backgrounds: WeakSet[Background] = WeakSet()


@atexit.register
def _end_all() -> None:
    interrupted = isinstance(getattr(sys, "last_value", None), KeyboardInterrupt)
    for background in list(_open_backgrounds):
        try:
            if background.finish_at_exit and not interrupted:
                background.settle(float("inf"))
        finally:
            background.cancel()


__all__ = ["Background"]

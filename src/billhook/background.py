"""Answers that come later.

A background job runs in a thread and loop of its own, so that nothing it does can hold up a firing and it does not
depend on the loop that started it. When it ends, its answer waits for the next event of the same session that can
carry context. Its own time-out bounds it; when the process ends, what still runs is ended.
"""

import atexit
import time
from _thread import allocate_lock
from _weakrefset import WeakSet
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from billhook.answers import NOTHING, Answer, Outcome
from billhook.events import Event
from billhook.later import later

if TYPE_CHECKING:
    import asyncio
    import contextvars
    import threading
else:
    contextvars, threading = later("contextvars"), later("threading")

Job = Callable[[], Awaitable[Outcome]]


class Background:
    """The jobs of one engine and the answers that wait. Lives as long as the engine."""

    def __init__(self, changed: Callable[[], None]) -> None:
        """`changed` is called when answers begin or cease to wait."""
        self._changed = changed
        self.answers: dict[str, list[Outcome]] = {}
        """Answers that wait, by session."""
        self._running: dict[threading.Thread, _Running] = {}
        self._lock = allocate_lock()

    def start(self, event: Event, job: Job, *, keep: bool = True) -> None:
        """Run a job; `keep=False` drops its answer (it is only being ended properly)."""
        running = _Running()

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

        context = contextvars.copy_context()  # whom we serve is known there, too
        thread = threading.Thread(target=context.run, args=(work,), name="billhook-background", daemon=True)
        with self._lock:
            self._running[thread] = running
        _open_backgrounds.add(self)
        thread.start()

    def collect(self, event: Event) -> list[Outcome]:
        """The answers that this event can carry to the model; each is given once."""
        if not self.answers or not event.takes_context:
            return []
        with self._lock:
            given = self.answers.pop(event.session_id, [])
            self._changed()
            return given

    def hand_over(self, session_id: str, other: "Background") -> None:
        """Let the other engine's next event of a session carry what waits for that session here."""
        with self._lock:
            late = self.answers.pop(session_id, [])
            self._changed()
        if late:
            with other._lock:
                other.answers.setdefault(session_id, []).extend(late)
                other._changed()

    def settle(self, seconds: float) -> bool:
        """Wait until all jobs have ended, for at most so long; says whether they have."""
        end = time.monotonic() + seconds
        for running in list(self._running.values()):
            # Not Thread.join: before Python 3.13 a Ctrl-C in it marks the thread as ended, and it would be forgotten.
            running.ended.wait(max(0.0, end - time.monotonic()))
        return not self._running

    def cancel(self) -> None:
        """End all jobs: their processes are killed, their answers are lost."""
        for running in list(self._running.values()):
            running.cancel()
        self.settle(2.0)


class _Running:
    """One job's loop and task, so that another thread can end it."""

    def __init__(self) -> None:
        self.cancelled = False
        self.ended = threading.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._task: asyncio.Task[Any] | None = None

    def run(self, job: Job) -> Outcome | None:
        import asyncio

        from billhook import stepping

        async def follow() -> Outcome:
            self._loop, self._task = asyncio.get_running_loop(), asyncio.current_task()
            if self.cancelled:  # before there was a task to cancel; the job must still begin, to clean up
                self.cancel()
            return await job()

        try:
            return stepping.run(follow())
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
    """A late answer can inform, not decide: the event that it was about is over."""
    answer = outcome.answer
    told = Answer(context=answer.context, message=answer.message, data=answer.data)
    outcome = replace(outcome, failed_open=False)  # it let nothing pass that waits for an answer
    if answer.decision.value != "none" or answer.stop or answer.keep_going:
        note = f"it decided ({answer.decision}) after the event was over"
        told = replace(told, context=told.context or answer.reason)
        return replace(outcome, answer=told, lost=(*outcome.lost, note))
    return replace(outcome, answer=told if told != NOTHING else NOTHING)


_open_backgrounds: WeakSet[Background] = WeakSet()


@atexit.register
def _end_all() -> None:
    for background in list(_open_backgrounds):
        background.cancel()


__all__ = ["Background"]

"""The progress of hooks, as typed events for listeners: one start, then one end.

A hook that does not run (its condition is false, it is skipped, the event has timed out) has no progress. Progress
shows the hook's own result; the verdict shows its effect.
"""

import itertools
import time
from _thread import allocate_lock
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Final

import msgspec

from billhook.core.answers import HookIdentity, Outcome, Status, to_outcome
from billhook.core.events import Event
from billhook.core.lazy import lazy_module

if TYPE_CHECKING:
    import inspect
else:
    inspect = lazy_module("inspect")


class HookProgress(msgspec.Struct, frozen=True, kw_only=True, tag_field="type"):
    """The hook, and the event that it runs for."""

    hook: str
    event: str  # the event's name
    session_id: str = ""
    tool_use_id: str | None = None
    agent_id: str | None = None
    asking: int = 0  # a number for each run of a hook in this process; start and end have the same


class HookStarted(HookProgress, frozen=True, kw_only=True, tag="hook_started"):
    """A hook was started. Exactly one of the other events follows for it."""

    timeout: float  # in seconds


class HookEnded(HookProgress, frozen=True, kw_only=True):
    """How it ended, with the fields of its outcome."""

    status: str
    decision: str
    reason: str | None
    exit_code: int | None
    duration_ms: float
    failed_open: bool
    error: str | None


class HookFinished(HookEnded, frozen=True, kw_only=True, tag="hook_finished"):
    """It answered, or failed. For a hook in the background: when its answer came."""


class HookTimedOut(HookEnded, frozen=True, kw_only=True, tag="hook_timed_out"):
    """It did not answer in time."""


class HookCancelled(HookProgress, frozen=True, kw_only=True, tag="hook_cancelled"):
    """The caller that fired the event was cancelled while the hook was running."""

    duration_ms: float


Progress = HookStarted | HookFinished | HookTimedOut | HookCancelled
Listener = Callable[[Progress], object]
"""Called in the thread of the hook, which for hooks in the background is another thread; the hook waits for it. What it
raises is logged and changes nothing."""

_numbers: Final = itertools.count(1)


class Listeners:
    """The listeners of one engine. Lives as long as the engine; threads may share it."""

    def __init__(self, changed: Callable[[], None]) -> None:
        """`changed` is called when a listener is added or removed."""
        self._changed = changed
        self._listeners: dict[object, Listener] = {}
        self._lock = allocate_lock()

    def __bool__(self) -> bool:
        return bool(self._listeners)

    def add(self, listener: Listener) -> Callable[[], None]:
        """Add a listener. Returns a function that removes it."""
        seat = object()  # the same listener may be added twice
        with self._lock:
            self._listeners[seat] = listener
            self._changed()

        def leave() -> None:
            with self._lock:
                self._listeners.pop(seat, None)
                self._changed()

        return leave

    def notify(self, progress: Progress) -> None:
        for listener in tuple(self._listeners.values()):
            try:
                returned = listener(progress)
                if inspect.iscoroutine(returned):
                    returned.close()
                    raise TypeError("a listener can't be async")
            except KeyboardInterrupt:
                raise
            except BaseException as error:
                _log(error, progress)


class RunReport:
    """One run of a hook, reported to the audience. Whatever happens, it reports one end."""

    def __init__(self, audience: Listeners, hook: HookIdentity, event: Event, began: float) -> None:
        self._audience, self._hook, self._began = audience, hook, began
        self._ended = False
        self.goes_on = False  # its answer comes later: the code that waits for it reports the end
        self._about: dict[str, Any] = {
            "hook": hook.name,
            "event": event.hook_event_name,
            "session_id": event.session_id,
            "tool_use_id": getattr(event, "tool_use_id", None) or None,
            "agent_id": event.agent_id or None,
            "asking": next(_numbers),
        }

    def started(self, seconds: float) -> None:
        self._audience.notify(HookStarted(**self._about, timeout=round(seconds, 3)))

    def answered(self, given: Outcome | None) -> Outcome:
        """The hook has this outcome; None: an empty answer. It is no end if its answer comes later."""
        outcome = given or to_outcome((self._hook, self._began, time.monotonic()))
        if not self.goes_on:
            self.ended(outcome)
        return outcome

    async def followed(self, rest: Awaitable[Outcome | None]) -> Outcome:
        """Wait for the outcome of the hook."""
        try:
            outcome = await rest
        except BaseException:  # a cancellation or an interrupt: an error of the hook is an outcome
            self.cancelled()
            raise
        return self.answered(outcome)

    def finished_later(self, answer: Callable[[], Awaitable[Outcome]]) -> Callable[[], Awaitable[Outcome]]:
        """The job that waits for a promised answer; its end is the end of the hook."""
        self.goes_on = True

        async def job() -> Outcome:
            try:
                outcome = await answer()
            except BaseException:
                self.cancelled()
                raise
            self.ended(outcome)
            return outcome

        return job

    def ended(self, outcome: Outcome) -> None:
        if self._ended:
            return
        self._ended = True
        kind = HookTimedOut if outcome.status is Status.TIMED_OUT else HookFinished
        fields = outcome.to_dict()
        self._audience.notify(kind(**self._about, **{field: fields[field] for field in _FIELDS}))

    def cancelled(self) -> None:
        if self._ended:
            return
        self._ended = True
        elapsed = round((time.monotonic() - self._began) * 1e3, 3)
        self._audience.notify(HookCancelled(**self._about, duration_ms=elapsed))


_FIELDS: Final = tuple(field for field in HookEnded.__struct_fields__ if field not in HookProgress.__struct_fields__)


def _log(error: BaseException, progress: Progress) -> None:
    import logging

    message = "a listener failed on the progress of hook `%s`"
    logging.getLogger("billhook").error(message, progress.hook, exc_info=error)


__all__ = ["HookCancelled", "HookFinished", "HookStarted", "HookTimedOut", "Listener", "Progress"]

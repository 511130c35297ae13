"""What hooks are doing right now, as typed events to whoever listens: started, and then one end.

A hook that is not asked (its condition is false, it is skipped, its time was over before) is not heard of. What is told
is what the hook itself came to; what the engine makes of it for the verdict is in the verdict.
"""

import itertools
import time
from _thread import allocate_lock
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Final

import msgspec

from billhook.core.answers import AskedHook, Outcome, Status, to_outcome
from billhook.core.events import Event
from billhook.core.lazy import later

if TYPE_CHECKING:
    import inspect
else:
    inspect = later("inspect")


class HookProgress(msgspec.Struct, frozen=True, kw_only=True, tag_field="type"):
    """Which hook, and what it was asked about."""

    hook: str
    event: str  # the event's name
    session_id: str = ""
    tool_use_id: str | None = None
    agent_id: str | None = None
    asking: int = 0  # a number for each time that a hook is asked in this process; the end has that of the start


class HookStarted(HookProgress, frozen=True, kw_only=True, tag="hook_started"):
    """A hook was asked. Exactly one of the others follows for it."""

    timeout: float  # seconds that it has


class HookEnded(HookProgress, frozen=True, kw_only=True):
    """How asking it went, in the words of its outcome."""

    status: str
    decision: str
    reason: str | None
    exit_code: int | None
    duration_ms: float
    failed_open: bool
    error: str | None


class HookFinished(HookEnded, frozen=True, kw_only=True, tag="hook_finished"):
    """It answered, or failed; one that runs in the background, when its answer came."""


class HookTimedOut(HookEnded, frozen=True, kw_only=True, tag="hook_timed_out"):
    """It did not answer in its time."""


class HookCancelled(HookProgress, frozen=True, kw_only=True, tag="hook_cancelled"):
    """Whoever fired the event gave up while the hook was running."""

    duration_ms: float


Progress = HookStarted | HookFinished | HookTimedOut | HookCancelled
Listener = Callable[[Progress], object]
"""Called where the hook is asked, which for hooks in the background is another thread; the hook waits for it. What it
raises is logged and changes nothing."""

_numbers: Final = itertools.count(1)


class Audience:
    """Who listens to the hooks of one engine. Lives as long as the engine; threads may share it."""

    def __init__(self, changed: Callable[[], None]) -> None:
        """`changed` is called when somebody comes or goes."""
        self._changed = changed
        self._listeners: dict[object, Listener] = {}
        self._lock = allocate_lock()

    def __bool__(self) -> bool:
        return bool(self._listeners)

    def add(self, listener: Listener) -> Callable[[], None]:
        """Tell it everything from now on, until what is returned is called."""
        seat = object()  # the same listener may come twice
        with self._lock:
            self._listeners[seat] = listener
            self._changed()

        def leave() -> None:
            with self._lock:
                self._listeners.pop(seat, None)
                self._changed()

        return leave

    def tell(self, progress: Progress) -> None:
        for listener in tuple(self._listeners.values()):
            try:
                said = listener(progress)
                if inspect.iscoroutine(said):
                    said.close()
                    raise TypeError("a listener can't be async")
            except KeyboardInterrupt:
                raise
            except BaseException as error:
                _log(error, progress)


class Asking:
    """One hook that is being asked, as the audience hears of it. Whatever happens, it hears of one end."""

    def __init__(self, audience: Audience, hook: AskedHook, event: Event, began: float) -> None:
        self._audience, self._hook, self._began = audience, hook, began
        self._ended = False
        self.goes_on = False  # its answer comes later: who waits for that tells the end
        self._about: dict[str, Any] = {
            "hook": hook.name,
            "event": event.hook_event_name,
            "session_id": event.session_id,
            "tool_use_id": getattr(event, "tool_use_id", None) or None,
            "agent_id": event.agent_id or None,
            "asking": next(_numbers),
        }

    def started(self, seconds: float) -> None:
        self._audience.tell(HookStarted(**self._about, timeout=round(seconds, 3)))

    def answered(self, said: Outcome | None) -> Outcome:
        """The hook came to this; None: it had nothing to say. Not an end when its answer comes later."""
        outcome = said or to_outcome((self._hook, self._began, time.monotonic()))
        if not self.goes_on:
            self.ended(outcome)
        return outcome

    async def followed(self, rest: Awaitable[Outcome | None]) -> Outcome:
        """What the rest of it comes to."""
        try:
            said = await rest
        except BaseException:  # it was cancelled, or interrupted: what a hook raises is an outcome
            self.cancelled()
            raise
        return self.answered(said)

    def to_be_told_later(self, answer: Callable[[], Awaitable[Outcome]]) -> Callable[[], Awaitable[Outcome]]:
        """The job that waits for an answer which the hook promised; its end is that of the hook."""
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
        said = outcome.to_dict()
        self._audience.tell(kind(**self._about, **{field: said[field] for field in _SAID}))

    def cancelled(self) -> None:
        if self._ended:
            return
        self._ended = True
        elapsed = round((time.monotonic() - self._began) * 1e3, 3)
        self._audience.tell(HookCancelled(**self._about, duration_ms=elapsed))


_SAID: Final = tuple(field for field in HookEnded.__struct_fields__ if field not in HookProgress.__struct_fields__)


def _log(error: BaseException, progress: Progress) -> None:
    import logging

    said = "a listener failed on the progress of hook `%s`"
    logging.getLogger("billhook").error(said, progress.hook, exc_info=error)


__all__ = ["HookCancelled", "HookFinished", "HookStarted", "HookTimedOut", "Listener", "Progress"]

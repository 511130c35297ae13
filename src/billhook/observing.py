"""Those who get every verdict after the fold: the event log is one of them."""

import time
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from billhook.answers import NOTHING, Answer, Decision, Outcome, Status, Verdict
from billhook.errors import UnrecordedError
from billhook.events import Block, Event
from billhook.later import later

if TYPE_CHECKING:
    import inspect
else:
    inspect = later("inspect")

Observer = Callable[[Verdict], object]
"""Gets every verdict after the fold; may be async. What it raises is logged and changes nothing; but UnrecordedError
becomes an outcome, so that a verdict which could not be recorded says so, and denies where its owner wants that."""

_OBSERVING = 10.0
"""Seconds after which an observer that does not come back is left behind; one, when the event's time is over."""


async def tell(observer: Observer, verdict: Verdict, ends: float) -> UnrecordedError | None:
    """Let an observer know; what it says of a record that is missing. `ends` is when the event's time is over."""
    try:
        told = observer(verdict)
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        return _not_observed(error, verdict)
    if told is None or not inspect.isawaitable(told):
        return None
    from billhook import stepping

    try:
        await stepping.finish(_awaiting(told), None, max(1.0, min(_OBSERVING, ends - time.monotonic())))
    except stepping.RaisedError as raised:
        return _not_observed(raised.error, verdict)
    except stepping.ExpiredError as expired:
        return _not_observed(expired, verdict)
    return None


def _not_observed(error: BaseException, verdict: Verdict) -> UnrecordedError | None:
    if isinstance(error, UnrecordedError):
        return error
    _log(error, verdict)
    return None


def noted(unrecorded: UnrecordedError, event: Event, outcomes: Sequence[Outcome]) -> list[Outcome]:
    """The outcomes with that of the hook which had to record them."""
    place = next((i for i, outcome in enumerate(outcomes) if outcome.hook == unrecorded.hook), len(outcomes))
    before = outcomes[place] if place < len(outcomes) else Outcome(unrecorded.hook)
    denies = unrecorded.deny and event.block is not Block.KEEP_GOING
    said = f"{unrecorded.place}: {unrecorded.message}" if unrecorded.place else unrecorded.message
    answer = Answer(decision=Decision.DENY, reason=f"hook `{before.hook}` failed: {said}") if denies else NOTHING
    failed = replace(before, status=Status.FAILED, answer=answer, error=said, failed_open=not denies)
    return [*outcomes[:place], failed, *outcomes[place + 1 :]]


def _log(error: BaseException, verdict: Verdict) -> None:
    import logging

    logging.getLogger("billhook").error("an observer failed on verdict %s", verdict.id, exc_info=error)


async def _awaiting(something: Awaitable[Any]) -> Any:
    return await something

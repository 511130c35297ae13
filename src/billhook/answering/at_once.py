"""Events whose hooks all say at once what they have to say: built-ins and plain lines of configuration, mostly.

Nobody has to be waited for then, so nobody needs a loop, a task or a timer, which would take longer than the hooks.
"""

from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any, TypeVar, cast

from billhook.events import Event

if TYPE_CHECKING:
    from billhook.config import Config

_T = TypeVar("_T")


def nobody_waits(config: "Config", event: Event) -> bool:
    """Whether every hook that wants the event is a plain function."""
    return not config.parallel and not config.plan.steps(event).waits


def may_go_on(config: "Config", event: Event) -> bool:
    """Whether a hook that wants the event runs in the background, or is outside and may answer `{"async": true}`."""
    return any(step.may_answer_later for step in config.plan.steps(event))


def finished(coroutine: Coroutine[Any, Any, _T]) -> _T:
    """What a coroutine returns that waits for nothing."""
    try:
        coroutine.send(None)
    except StopIteration as end:
        return cast("_T", end.value)
    coroutine.close()
    raise AssertionError("it waits for something")

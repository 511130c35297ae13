"""Hooks in shadow mode, and answers that don't count."""

from typing import Any

from msgspec.structs import replace

from billhook.core.answers import NOTHING, Outcome, Reply, Status, Waived, to_outcome
from billhook.core.events import Event
from billhook.core.hook import Context, Hook
from billhook.engine.step import Call, Step, _now

SHADOW = "shadow"


def waive(outcome: Outcome, by: str) -> Outcome:
    """The outcome without its answer, which is kept for the record."""
    if outcome.waived is not None or outcome.status is Status.SKIPPED:
        return outcome
    return replace(outcome, answer=NOTHING, failed_open=False, waived=Waived.of(by, outcome.answer))


class ShadowStep(Step):
    """A hook in shadow mode: it runs and is recorded, and decides nothing, now or in the background."""

    def __init__(self, hook: Hook, name: str, event_name: str, *, observed: bool = False) -> None:
        super().__init__(hook, name, event_name, observed=observed)
        self.without_await = None  # it would skip `read`
        self.call = _with_outcome(self, self.call)

    def judge(self, event: Event, reply: Reply, duration_ms: float = 0.0) -> Outcome:
        return waive(super().judge(event, reply, duration_ms), SHADOW)

    def read(self, ctx: Context, returned: Any, began: float) -> Outcome:
        return waive(super().read(ctx, returned, began), SHADOW)


def _with_outcome(step: Step, call: Call) -> Call:
    """An empty answer is an outcome, too: the record shows that the hook ran in shadow mode."""

    def marked(ctx: Context, began: float) -> Any:
        result = call(ctx, began)
        if result is None or type(result) is Outcome:
            return _marked(step, result, began)
        return _awaited(step, result, began)

    return marked


async def _awaited(step: Step, result: Any, began: float) -> Outcome:
    return _marked(step, await result, began)


def _marked(step: Step, outcome: Outcome | None, began: float) -> Outcome:
    return waive(to_outcome((step, began, _now())), SHADOW) if outcome is None else outcome

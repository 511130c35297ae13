"""One event in, one verdict out: run the steps of an event, fold their outcomes, notify the observers."""

import time
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, Protocol, Self

from msgspec.structs import replace

from billhook.core.answers import (
    NOTHING,
    UNSET,
    Answer,
    Combine,
    Decision,
    Outcome,
    RawOutcome,
    Reply,
    Skipped,
    SkipReason,
    Status,
    Verdict,
    fold,
    to_outcome,
)
from billhook.core.errors import UnrecordedError
from billhook.core.events import Block, Event, parse
from billhook.core.hook import Context, Hook, SessionInfo
from billhook.core.lazy import later
from billhook.engine.background import Background
from billhook.engine.plan import EventList, Plan
from billhook.engine.progress import Audience, Listener
from billhook.engine.step import Step, failure

if TYPE_CHECKING:
    import inspect
else:
    inspect = later("inspect")


Observer = Callable[[Verdict], object]
"""Gets every verdict after the fold; may be async. What it raises is logged and changes nothing; but UnrecordedError
becomes an outcome, so that a verdict which could not be recorded says so, and denies where its owner wants that."""


class Notifier(Protocol):
    """What the user should be told beside a verdict, each thing once in a session."""

    @property
    def told(self) -> Container[str]:
        """The sessions that were told everything: there is nothing new until a hook fails."""

    def __call__(self, verdict: Verdict) -> tuple[str, ...]: ...


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
    from billhook.core import drive

    try:
        await drive.finish(drive.awaiting(told), None, max(1.0, min(_OBSERVING, ends - time.monotonic())))
    except drive.RaisedError as raised:
        return _not_observed(raised.error, verdict)
    except drive.ExpiredError as expired:
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


_FOREVER = float("inf")
_now = time.monotonic
_DENY = Decision.DENY


class Engine:
    """Runs the hooks that want an event and folds their answers. Lives as long as its owner likes; may be fired from
    many tasks and threads at once, because everything that belongs to one firing is in its Context."""

    def __init__(
        self,
        hooks: Iterable[Hook] | Plan = (),
        *,
        parallel: bool = False,
        combine: Combine = "strictest",
        observers: Iterable[Observer] = (),
        env: Mapping[str, str] | None = None,
        know: Callable[[Event], SessionInfo] | None = None,
        listen: Listener | None = None,
        notices: Notifier | None = None,
    ) -> None:
        self._notices = notices
        self.plan = hooks if isinstance(hooks, Plan) else Plan(hooks)
        self.parallel = parallel
        self.combine: Combine = combine
        self._observers = tuple(observers)
        self._closes = bool(self._observers) or notices is not None  # there is something to do after each fold
        self.background = Background(self._settle_idle)
        self._waiting = self.background.answers
        self._settle_idle()
        self.env = dict(env or {})
        self._know = know  # tells the session's name and turn, for hooks that ask
        self.audience = Audience(self._settle_plan)
        self._settle_plan()
        if listen is not None:
            self.listen(listen)

    @classmethod
    def from_matchers(
        cls,
        config: Mapping[str, Sequence[Any]],
        *,
        dialect: Literal["spec", "claude"] = "spec",
        thread: bool = False,
        **options: Any,
    ) -> Self:
        """An engine from seed 001's map of event to matcher groups; callbacks take `(input, tool_use_id, context)`.

        Only `continue: false` ends the run: after a deny later callbacks still run. `thread=True` runs each synchronous
        callback in a thread of its own, so that its time-out ends the wait for it. With `dialect="claude"` a file of
        callbacks that was written for the Claude Agent SDK runs unchanged.
        """
        from billhook.core.functions import from_matchers

        return cls(from_matchers(config, dialect=dialect, thread=thread), **options)

    @property
    def hooks(self) -> tuple[Hook, ...]:
        """The hooks in the order in which they are asked."""
        return self.plan.hooks

    def listen(self, listener: Listener) -> Callable[[], None]:
        """Call a listener for each hook that runs and how that ends (`billhook.engine.progress`); returns what ends it.

        It is called at once and waited for. What it raises is logged and changes nothing.
        """
        return self.audience.add(listener)

    async def fire(self, event: Any, *, deadline: float | None = None) -> Verdict:
        """Run every hook that handles this event and fold the answers. Never raises for what a hook does.

        `event` is an Event, or a dict in wire form; EventError names what is wrong with it. Each hook sees the results
        before it and the input as rewritten so far. After a deny only hooks that `always` run do; after a stop none.
        `deadline`: seconds for the whole event; a hook that is not reached in time is `timed_out`.
        """
        if type(event) in self._idle:
            return Verdict(event)
        wanted = self._lists.get(type(event))
        if wanted is None:
            event, wanted = self._first_of_kind(event)
        steps = wanted.known.get(wanted.target_of(event)) or wanted.steps(event)
        began = now = _now()
        ends = _FOREVER if deadline is None else began + max(0.0, deadline)
        outcomes: list[RawOutcome] = [*self.background.collect(event)] if self._waiting else []
        ctx = Context(event, outcomes, self.env, self._know, self, ends)
        if self.parallel:
            return await self._fire_in_waves(steps, ctx, outcomes, began)
        rewritten_by, silent = 0, not outcomes
        for step in steps:
            asked = now
            if step.without_await is None or asked >= ends:
                said = step.call(ctx, asked)
                if said is not None and type(said) is not Outcome:
                    said = await said
                now = _now()
            else:
                try:
                    said = await step.without_await(ctx.event)
                except BaseException as error:  # it can't wait, so nobody but the hook itself can have raised it
                    said = failure(error)
                now = _now()
                if said is not None or now - asked > step.timeout or now > ends:
                    said = step.settled(ctx, said, asked, now)
            if said is None:  # nothing to say, which is what most hooks say
                outcomes.append((step, asked, now))
                continue
            outcomes.append(said)
            silent = False
            if said.answer.objects:
                now = await self._end_run(steps[steps.index(step) + 1 :], ctx, outcomes, said)
                break
            if said.answer.rewrites and _rewrite(ctx, said.answer):
                rewritten_by = steps.index(step)
        else:
            if rewritten_by:
                now = await self._run_again(steps[:rewritten_by], ctx, outcomes)
        if silent and not self._closes and (ctx.shared is None or not ctx.shared.id):
            return Verdict(event, outcomes, (now - began) * 1e3)
        return await self._close(fold(event, outcomes, self.combine, (now - began) * 1e3), ctx)

    def fire_sync(self, event: Any, *, deadline: float | None = None) -> Verdict:
        """`fire` for code that is not async. Works inside a running loop too, which it blocks."""
        import asyncio

        from billhook.core import drive

        try:
            asyncio.get_running_loop()
        except RuntimeError:
            return drive.run(self.fire(event, deadline=deadline))
        return drive.run_aside(self.fire(event, deadline=deadline))

    def _first_of_kind(self, given: Any) -> tuple[Event, EventList]:
        """The event and its steps, for a dict and for an event of a kind that was not met before."""
        event = given if isinstance(given, Event) else parse(given)
        return event, self._plan.list_for(event)

    def _settle_idle(self) -> None:
        """The events for which there is nothing to do at all: no hook, no observer, no answer that waits."""
        self._idle = frozenset() if self._closes or self._waiting else self.plan.idle

    def _settle_plan(self) -> None:
        """Listeners cost nothing where there are none."""
        self._plan = self.plan.observed if self.audience else self.plan
        self._lists = self._plan.by_type

    async def _close(self, verdict: Verdict, ctx: Context) -> Verdict:
        """Let the user and the observers know."""
        verdict = self._noticed(verdict)
        if ctx.reserved_id:
            verdict.with_id(ctx.reserved_id)
        for observer in self._observers:
            unrecorded = await tell(observer, verdict, ctx.ends)
            if unrecorded is not None:
                outcomes = noted(unrecorded, verdict.about, verdict.outcomes)
                again = fold(verdict.about, outcomes, self.combine, verdict.duration_ms)
                verdict = self._noticed(replace(again, messages=verdict.messages)).with_id(verdict.id)
        return verdict

    def _noticed(self, verdict: Verdict) -> Verdict:
        """The verdict with what the user should be told beside it."""
        notices = self._notices
        if notices is None or (not verdict.failed_open and verdict.about.session_id in notices.told):
            return verdict
        texts = notices(verdict)
        if not texts:
            return verdict
        hooks = () if verdict.quiet else verdict.messages  # what hooks want hidden stays so
        return replace(verdict, messages=(*hooks, *texts), quiet=False)

    async def _fire_in_waves(
        self, steps: Sequence[Step], ctx: Context, outcomes: list[RawOutcome], began: float
    ) -> Verdict:
        """Hooks with no dependency between them at once, on the original input; outcomes in configured order."""
        import asyncio

        event = ctx.event
        over: Skipped | None = None
        stopped, before = False, len(outcomes)
        ran: dict[Step, Outcome] = {}
        for wave in self.plan.waves(steps):
            runs = [step for step in wave if over is None or (step.always and not stopped)]
            said = await asyncio.gather(*(_run(step, ctx.copy()) for step in runs))
            ran |= {step: step.skipped(over) for step in wave if over is not None and step not in runs}
            ran |= zip(runs, said, strict=True)
            outcomes.extend(ran[step] for step in wave)
            over = over or next((_ended_by(outcome) for outcome in said if outcome.answer.objects), None)
            stopped = stopped or any(outcome.answer.stop for outcome in said)
        outcomes[before:] = [ran[step] for step in steps]
        rewriters = [step for step in steps if _rewrite(ctx, ran[step].answer)]
        if rewriters and over is None:
            await self._run_again([step for step in steps if step is not rewriters[-1]], ctx, outcomes)
        return await self._close(fold(event, outcomes, self.combine, (_now() - began) * 1e3), ctx)

    async def _end_run(
        self, rest: Sequence[Step], ctx: Context, outcomes: list[RawOutcome], objection: Outcome
    ) -> float:
        """After a deny only the hooks that `always` run do, after a stop none. Returns when that was done."""
        why, stopped = _ended_by(objection), objection.answer.stop
        for step in rest:
            runs = step.always and not stopped
            outcome = await _run(step, ctx) if runs else step.skipped(why)
            stopped = stopped or outcome.answer.stop
            outcomes.append(outcome)
        return _now()

    async def _run_again(self, steps: Sequence[Step], ctx: Context, outcomes: list[RawOutcome]) -> float:
        """A gate that judged an input which a later hook then rewrote judges the final one, too. When that was done."""
        final, gates = ctx.event, [step for step in steps if step.hook.gate]
        _withdraw({step.name for step in gates}, outcomes)
        for step in gates:
            outcome = await _run(step, ctx)
            again = outcome.answer.updated_input
            if again is not None and again != getattr(final, "tool_input", None):
                error = "asked again about the final input, it rewrote that input once more"
                outcome = step.judge(final, Reply(status=Status.FAILED, error=error), outcome.duration_ms)
            outcomes.append(outcome)
            if outcome.answer.objects:
                break
        return _now()


async def _run(step: Step, ctx: Context) -> Outcome:
    """Run one hook to its end."""
    began = _now()
    said = step.call(ctx, began)
    if said is not None and type(said) is not Outcome:
        said = await said
    return to_outcome(said or (step, began, _now()))


def _ended_by(outcome: Outcome) -> Skipped:
    """Why later hooks don't run."""
    return Skipped(SkipReason.STOPPED if outcome.answer.stop else SkipReason.DENIED, by=outcome.hook)


def _rewrite(ctx: Context, answer: Answer) -> bool:
    """Let later hooks see the input (or output) as rewritten; True when there is a new input."""
    if answer.updated_output is not UNSET and hasattr(ctx.event, "tool_response"):
        ctx.event = ctx.event.replace(tool_response=answer.updated_output)
    if answer.updated_input is None or answer.updated_input == getattr(ctx.event, "tool_input", None):
        return False
    if not hasattr(ctx.event, "tool_input"):
        return False
    ctx.event = ctx.event.replace(tool_input=answer.updated_input)
    return True


def _withdraw(gates: set[str], outcomes: list[RawOutcome]) -> None:
    """An allow of a gate was about an input that was rewritten since: only what it says of the final one counts."""
    for i, raw in enumerate(outcomes):
        if isinstance(raw, Outcome) and raw.hook in gates and raw.answer.decision is Decision.ALLOW:
            lost = "it allowed an input that was rewritten later, and was asked again"
            answer = replace(raw.answer, decision=Decision.NONE, reason="")
            outcomes[i] = replace(raw, answer=answer, lost=(*raw.lost, lost))

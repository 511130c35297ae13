"""One event in, one verdict out: run the steps of an event, fold their outcomes, notify the observers."""

import os
import time
from collections.abc import Awaitable, Callable, Container, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, Protocol, Self, cast

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
from billhook.core.hook import Batch, Context, Hook, SessionInfo
from billhook.core.lazy import lazy_module
from billhook.engine.background import Background
from billhook.engine.plan import EventList, Plan, Steps
from billhook.engine.progress import Listener, Listeners
from billhook.engine.step import Step, failure

if TYPE_CHECKING:
    import inspect
else:
    inspect = lazy_module("inspect")


Observer = Callable[[Verdict], object]
"""Gets every verdict after the fold; may be async. What it raises is logged and changes nothing; but UnrecordedError
becomes an outcome, so that a verdict that could not be recorded shows it, and denies if so configured."""


Approve = Callable[[Verdict, float], Awaitable[Verdict]]
"""Gets a verdict with an `ask` and the event's deadline; may replace the ask by the answer of a person."""


class Notifier(Protocol):
    """Notices for the user beside a verdict, each once in a session."""

    @property
    def notified(self) -> Container[str]:
        """The sessions that got every notice: there is nothing new until a hook fails."""

    def __call__(self, verdict: Verdict) -> tuple[str, ...]: ...


_OBSERVING = 10.0
"""Seconds after which an observer that does not return is left behind; one, if the event has timed out."""


async def notify(observer: Observer, verdict: Verdict, ends: float) -> UnrecordedError | None:
    """Call an observer; returns its UnrecordedError, if it raised one. `ends` is the event's deadline."""
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
    """The outcomes, with the failure of the hook that had to record them."""
    place = next((i for i, outcome in enumerate(outcomes) if outcome.hook == unrecorded.hook), len(outcomes))
    before = outcomes[place] if place < len(outcomes) else Outcome(unrecorded.hook)
    denies = unrecorded.deny and event.block is not Block.KEEP_GOING
    error = f"{unrecorded.place}: {unrecorded.message}" if unrecorded.place else unrecorded.message
    answer = Answer(decision=Decision.DENY, reason=f"hook `{before.hook}` failed: {error}") if denies else NOTHING
    failed = replace(before, status=Status.FAILED, answer=answer, error=error, failed_open=not denies)
    return [*outcomes[:place], failed, *outcomes[place + 1 :]]


def _log(error: BaseException, verdict: Verdict) -> None:
    import logging

    logging.getLogger("billhook").error("an observer failed on verdict %s", verdict.id, exc_info=error)


_FOREVER = float("inf")
_now = time.monotonic
_DENY = Decision.DENY


class Engine:
    """Runs the hooks that listen for an event and folds their answers. Each hook sees the results before it and the
    input as rewritten so far. After a deny only hooks with `always` run; after a stop, none. A hook that can't start
    before the event's deadline is `timed_out`. Nothing that a hook does makes `fire` raise.

    Lives as long as its owner; many tasks and threads may fire it at once, because everything that belongs to one
    firing is in its Context."""

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
        approve: Approve | None = None,
    ) -> None:
        self._notices = notices
        self._approve = approve
        self.plan = hooks if isinstance(hooks, Plan) else Plan(hooks)
        self.parallel = parallel
        self.combine: Combine = combine
        self._observers = tuple(observers)
        # Whether there is work after each fold.
        self._closes = bool(self._observers) or notices is not None or approve is not None
        self.background = Background(self._settle_idle)
        self._waiting = self.background.answers
        self._settle_idle()
        self.env = dict(env or {})
        self._session_info = know  # returns the session's name and turn, for hooks that use them
        self.audience = Listeners(self._settle_plan)
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
        callback in a separate thread, so that its timeout ends the wait for it. With `dialect="claude"` callbacks for
        the Claude Agent SDK run unchanged.
        """
        from billhook.core.functions import from_matchers

        return cls(from_matchers(config, dialect=dialect, thread=thread), **options)

    @property
    def hooks(self) -> tuple[Hook, ...]:
        """The hooks in the order in which they run."""
        return self.plan.hooks

    def listen(self, listener: Listener) -> Callable[[], None]:
        """Call a listener when a hook starts and ends (`billhook.engine.progress`). Returns a function that removes it.

        The call is immediate, and the hook waits for it. What it raises is logged and changes nothing.
        """
        return self.audience.add(listener)

    async def fire(self, event: Any, *, deadline: float | None = None) -> Verdict:
        """Run every hook for `event`, an Event or a dict in wire form (else EventError), within `deadline` seconds."""
        kind = type(event)
        if kind in self._idle:
            return Verdict(event)
        wanted = self._lists.get(kind)
        if wanted is None:
            event, wanted = self._first_of_kind(event)
        steps = wanted.known.get(wanted.target_of(event)) or wanted.steps(event)
        began = now = _now()
        ends = _FOREVER if deadline is None else began + max(0.0, deadline)
        outcomes: list[RawOutcome] = [*self.background.collect(event)] if self._waiting else []
        ctx: Context | None = None  # made when it is needed: a function of the event that returns nothing needs none
        if self.parallel or steps.grouped:
            ctx = self._context(event, outcomes, ends)
            if (waves := self._grouped(steps, ctx)) is not None:
                return await self._fire_in_waves(waves, steps, ctx, outcomes, began)
        rewritten_by, silent = 0, not outcomes
        for step in steps:
            asked, without_await = now, step.without_await
            if without_await is None or asked >= ends:
                ctx = ctx or self._context(event, outcomes, ends)
                returned = step.call(ctx, asked)
                if returned is not None and type(returned) is not Outcome:
                    returned = await returned
                now = _now()
            else:
                try:
                    returned = await without_await(event if ctx is None else ctx.event)
                except BaseException as error:  # it can't wait, so only the hook itself can have raised it
                    returned = failure(error)
                now = _now()
                if returned is not None or now - asked > step.timeout or now > ends:
                    ctx = ctx or self._context(event, outcomes, ends)
                    returned = step.sync_outcome(ctx, returned, asked, now)
            if returned is None or ctx is None:  # an empty answer, as from most hooks
                outcomes.append((step, asked, now))
                continue
            outcomes.append(returned)
            silent, answer = False, returned.answer
            if answer.decision is _DENY or answer.stop:  # `answer.objects`, without a call
                return await self._end_run(event, steps[steps.index(step) + 1 :], ctx, outcomes, returned, began)
            if (answer.updated_input is not None or answer.updated_output is not UNSET) and _rewrite(ctx, answer):
                rewritten_by = steps.index(step)
        if not (rewritten_by or self._closes) and (ctx is None or ctx.shared is None or not ctx.shared.id):
            took = (now - began) * 1e3
            return Verdict(event, outcomes, took) if silent else fold(event, outcomes, self.combine, took)
        ctx = ctx or self._context(event, outcomes, ends)
        return await self._close(event, ctx, outcomes, began, now, steps[:rewritten_by])

    def _context(self, event: Event, outcomes: Sequence[RawOutcome], ends: float) -> Context:
        return Context(event, outcomes, self.env, self._session_info, self, ends)

    def fire_sync(self, event: Any, *, deadline: float | None = None) -> Verdict:
        """`fire` for code that is not async. Works inside a running loop too, which it blocks."""
        import asyncio

        from billhook.core import drive

        try:
            asyncio.get_running_loop()
        except RuntimeError:
            return drive.run(self.fire(event, deadline=deadline))
        return drive.run_in_thread(self.fire(event, deadline=deadline))

    def _first_of_kind(self, given: Any) -> tuple[Event, EventList]:
        """The event and its steps, for a dict and for the first event of its kind."""
        event = given if isinstance(given, Event) else parse(given)
        return event, self._plan.list_for(event)

    def _settle_idle(self) -> None:
        """The events without any work: no hook, no observer, no waiting answer."""
        self._idle = frozenset() if self._closes or self._waiting else self.plan.idle

    def _settle_plan(self) -> None:
        """Without listeners, they cost nothing."""
        self._plan = self.plan.observed if self.audience else self.plan
        self._lists = self._plan.by_type

    async def _close(
        self,
        event: Event,
        ctx: Context,
        outcomes: list[RawOutcome],
        began: float,
        now: float,
        outdated: Sequence[Step] = (),
    ) -> Verdict:
        """Run gates again whose input was rewritten, fold, let a person answer an `ask`, add the notices for the user,
        and call the observers."""
        if outdated:
            now = await self._run_again(outdated, ctx, outcomes)
        verdict = fold(event, outcomes, self.combine, (now - began) * 1e3)
        if self._approve is not None and verdict.decision is Decision.ASK:
            verdict = await self._approve(verdict, ctx.ends)
        verdict = self._noticed(verdict)
        if ctx.reserved_id:
            verdict.with_id(ctx.reserved_id)
        for observer in self._observers:
            unrecorded = await notify(observer, verdict, ctx.ends)
            if unrecorded is not None:
                noted_outcomes = noted(unrecorded, event, verdict.outcomes)
                again = fold(event, noted_outcomes, self.combine, verdict.duration_ms)
                verdict = self._noticed(replace(again, messages=verdict.messages)).with_id(verdict.id)
        return verdict

    def _noticed(self, verdict: Verdict) -> Verdict:
        notices = self._notices
        if notices is None or (not verdict.failed_open and verdict.about.session_id in notices.notified):
            return verdict
        texts = notices(verdict)
        if not texts:
            return verdict
        hooks = () if verdict.quiet else verdict.messages  # messages that hooks hide stay hidden
        return replace(verdict, messages=(*hooks, *texts), quiet=False)

    def _grouped(self, steps: Steps, ctx: Context) -> list[list[Step]] | None:
        """The groups of steps that run at the same time; None: one after the other. Those may share a request."""
        if self.parallel:
            return self.plan.waves(steps)
        ctx.batch = Batch(steps.following) if steps.following else None
        return steps.waves

    async def _fire_in_waves(
        self, waves: Sequence[list[Step]], steps: Sequence[Step], ctx: Context, outcomes: list[RawOutcome], began: float
    ) -> Verdict:
        """Run the hooks of each wave at the same time, on the same input; outcomes in configured order.

        A deny in a wave skips the waves after it. With `parallel` a rewrite counts only after the last wave, else
        after its own."""
        event = ctx.event
        over: Skipped | None = None
        stopped, before = False, len(outcomes)
        ran: dict[Step, Outcome] = {}
        outdated: list[Step] = []
        for wave in waves:
            runs = [step for step in wave if over is None or (step.always and not stopped)]
            returned = await _run_together(runs, ctx)
            ran |= {step: step.skipped(over) for step in wave if over is not None and step not in runs}
            ran |= zip(runs, returned, strict=True)
            outcomes.extend(ran[step] for step in wave)
            over = over or next((_ended_by(outcome) for outcome in returned if outcome.answer.objects), None)
            stopped = stopped or any(outcome.answer.stop for outcome in returned)
            ctx.batch = ctx.batch if over is None else None  # after a deny, not all steps run
            if over is None and not self.parallel:
                outdated = _rewritten_after(list(ran), wave, ran, ctx) or outdated
        outcomes[before:] = [ran[step] for step in steps]
        if over is None and self.parallel:
            outdated = _rewritten_after(steps, steps, ran, ctx)
        return await self._close(event, ctx, outcomes, began, _now(), outdated if over is None else ())

    async def _end_run(
        self,
        event: Event,
        rest: Sequence[Step],
        ctx: Context,
        outcomes: list[RawOutcome],
        objection: Outcome,
        began: float,
    ) -> Verdict:
        """After a deny run only the hooks with `always`; after a stop, none."""
        ctx.batch = None  # not all steps after this one run
        why, stopped = _ended_by(objection), objection.answer.stop
        for step in rest:
            runs = step.always and not stopped
            outcome = await _run(step, ctx) if runs else step.skipped(why)
            stopped = stopped or outcome.answer.stop
            outcomes.append(outcome)
        return await self._close(event, ctx, outcomes, began, _now())

    async def _run_again(self, steps: Sequence[Step], ctx: Context, outcomes: list[RawOutcome]) -> float:
        """Run gates again if a later hook rewrote the input that they judged. Returns the time of the end."""
        ctx.batch = None
        final, gates = ctx.event, [step for step in steps if step.hook.gate]
        _withdraw({step.name for step in gates}, outcomes)
        for step in gates:
            outcome = await _run(step, ctx)
            again = outcome.answer.updated_input
            if again is not None and again != getattr(final, "tool_input", None):
                error = "it ran again on the final input, and rewrote that input once more"
                outcome = step.judge(final, Reply(status=Status.FAILED, error=error), outcome.duration_ms)
            outcomes.append(outcome)
            if outcome.answer.objects:
                break
        return _now()


async def _run(step: Step, ctx: Context) -> Outcome:
    began = _now()
    returned = step.call(ctx, began)
    if returned is not None and type(returned) is not Outcome:
        returned = await returned
    return to_outcome(returned or (step, began, _now()))


async def _run_together(steps: Sequence[Step], ctx: Context) -> list[Outcome]:
    """Run hooks at the same time, each with a separate deadline. If this is cancelled, all of them end first."""
    if len(steps) < 2:  # a hook that runs alone stays in the task that fired the event
        return [await _run(step, ctx) for step in steps]
    import asyncio

    free = asyncio.Semaphore(_cores() + 2)

    async def limited(step: Step) -> Outcome:
        async with free:
            return await _run(step, ctx.copy())

    runs = (limited(step) if step.hook.together else _run(step, ctx.copy()) for step in steps)
    returned = await asyncio.gather(*runs, return_exceptions=True)
    for one in returned:
        if isinstance(one, BaseException):
            raise one
    return cast("list[Outcome]", returned)


def _cores() -> int:
    """The cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _rewritten_after(
    judged: Sequence[Step], wave: Sequence[Step], ran: Mapping[Step, Outcome], ctx: Context
) -> list[Step]:
    """Apply the rewrites of a wave, in configured order. Returns those of `judged` that did not see the new input."""
    rewriters = [step for step in wave if _rewrite(ctx, ran[step].answer)]
    return [step for step in judged if step is not rewriters[-1]] if rewriters else []


def _ended_by(outcome: Outcome) -> Skipped:
    """Why later hooks don't run."""
    return Skipped(SkipReason.STOPPED if outcome.answer.stop else SkipReason.DENIED, by=outcome.hook)


def _rewrite(ctx: Context, answer: Answer) -> bool:
    """Show later hooks the rewritten input or output; returns whether there is a new input."""
    if answer.updated_output is not UNSET and hasattr(ctx.event, "tool_response"):
        ctx.event = ctx.event.replace(tool_response=answer.updated_output)
    if answer.updated_input is None or answer.updated_input == getattr(ctx.event, "tool_input", None):
        return False
    if not hasattr(ctx.event, "tool_input"):
        return False
    ctx.event = ctx.event.replace(tool_input=answer.updated_input)
    return True


def _withdraw(gates: set[str], outcomes: list[RawOutcome]) -> None:
    """Drop the allow of a gate for an input that was rewritten since: only its answer on the final input counts."""
    for i, raw in enumerate(outcomes):
        if isinstance(raw, Outcome) and raw.hook in gates and raw.answer.decision is Decision.ALLOW:
            lost = "it allowed an input that was rewritten later, and ran again"
            answer = replace(raw.answer, decision=Decision.NONE, reason="")
            outcomes[i] = replace(raw, answer=answer, lost=(*raw.lost, lost))

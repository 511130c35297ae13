"""How one hook is called: compiled into a single callable when the plan is made, not decided by flags at every call.

A call takes the context and the time at which it began. It returns None (an empty answer, the usual case), an Outcome,
or an awaitable of either. Condition, budget, background and listeners are wrappers around the call of the function.
"""

import time
from collections.abc import Awaitable, Callable, Coroutine
from functools import cached_property
from types import CoroutineType
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from billhook.core.answer_schema import read_returned
from billhook.core.answers import (
    FAILURES,
    NOTHING,
    Answer,
    Decision,
    OnFailure,
    Outcome,
    Reply,
    Skipped,
    SkipReason,
    Status,
    WaivedAnswer,
    to_outcome,
)
from billhook.core.dialect_traits import meanings
from billhook.core.errors import BillhookError
from billhook.core.events import Block, Event
from billhook.core.hook import Condition, Context, FailedToolHandler, Handler, Hook
from billhook.core.lazy import lazy_module
from billhook.core.match import compile_matcher
from billhook.engine.progress import RunReport

if TYPE_CHECKING:
    import inspect
else:
    inspect = lazy_module("inspect")

Call = Callable[[Context, float], Any]

_now = time.monotonic
_OK, _KEEP_GOING = Status.OK, Block.KEEP_GOING
_ANSWERS = (Answer, Reply)
_OBJECTIONS = (Decision.DENY, Decision.ASK, Decision.DEFER)
_CO_COROUTINE = 0x80  # inspect.CO_COROUTINE
SHADOW = "shadow"
_WORDS = {Status.FAILED: "failed", Status.TIMED_OUT: "timed out", Status.COULD_NOT_START: "could not start"}


class Step:
    """One hook for one kind of event, with everything that can be looked up in advance."""

    def __init__(self, hook: Hook, name: str, event_name: str, *, observed: bool = False) -> None:
        """`observed`: listeners get every call (`billhook.engine.progress`)."""
        row, run = meanings(hook.dialect), hook.run
        self.hook, self.name, self.event_name = hook, name, event_name
        self.source, self.dialect, self.meanings = str(hook.source), hook.dialect, row
        self.always, self.on_failure = hook.always, hook.on_failure
        self.run = FailedToolHandler(run, row) if event_name == "PostToolUseFailure" and hook.handles_failures else run
        self.timeout = row.timeout_for(event_name) if hook.timeout is None else hook.timeout
        self.matcher = compile_matcher(hook.match, row.matching, event_name)
        self.waits = hook.background or is_async(self.run)  # it may wait
        keeps_time = getattr(run, "keeps_time", False)  # its `run` keeps `ctx.deadline` itself
        self.may_answer_later = hook.background or (keeps_time and hook.dialect == "spec")
        self.on_timeout: OnFailure | None = getattr(run, "on_timeout", None)
        """The rule of its protocol for a timeout, if that is stricter than `on_failure`."""
        self.without_await: Callable[[Event], Awaitable[Any]] | None = None
        """Its function, if it is async and has no `await`: the engine awaits it without any wrapper."""
        self.batch_key = self._batch_key(observed)
        self.call = self._compiled(observed, keeps_time)

    def _compiled(self, observed: bool, keeps_time: bool) -> Call:
        hook, of_event = self.hook, getattr(self.run, "of_event", None)
        plain = hook.condition is None and not (hook.budget or hook.background or observed)
        if plain and of_event is not None:
            self.without_await = of_event if getattr(self.run, "never_waits", False) else None
            return _of_event(self, of_event)
        timed = _with_deadline_kept if getattr(hook.run, "at_once", False) else _with_deadline
        call = _keeping_time(self) if keeps_time else _of_context(self)
        if observed:
            call = _observed(self, call)
        if hook.background:
            call = _in_background(self, timed(self, call))
        if hook.condition is not None:
            call = _conditional(self, hook.condition, call)
        call = _with_budget(self, hook.budget, call) if hook.budget else timed(self, call)
        return call if getattr(self.run, "batch_key", None) is None else _in_batch(self, call)

    def _batch_key(self, observed: bool) -> Any:
        """Equal for hooks that one request to a worker may include; None for a hook that needs its own: listeners are
        told before it starts, or earlier hooks may change whether or how it runs."""
        hook = self.hook
        alone = observed or hook.condition is not None or hook.background or hook.budget or hook.shadow or hook.together
        return None if alone else getattr(self.run, "batch_key", None)

    @cached_property
    def batch_call(self) -> bytes:
        """Its part of a request, in the format of its runner."""
        shown = Outcome(self.name, self.source, self.dialect)
        return self.run.batch_call(shown, self.timeout)  # type: ignore[attr-defined,no-any-return]

    # -- outcomes

    def skipped(self, why: Skipped) -> Outcome:
        return Outcome(self.name, self.source, self.dialect, Status.SKIPPED, error=str(why), skipped=why)

    def failed(self, event: Event, error: BaseException, began: float) -> Outcome:
        return self.judge(event, failure(error), (_now() - began) * 1e3)

    def timed_out(self, event: Event, why: str, duration_ms: float = 0.0) -> Outcome:
        return self.judge(event, Reply(status=Status.TIMED_OUT, error=why, on_failure=self.on_timeout), duration_ms)

    def judge(self, event: Event, reply: Reply, duration_ms: float = 0.0) -> Outcome:
        """An outcome from a reply. A failure is never an answer: the hook's `on_failure` decides."""
        answer, status, failed_open = reply.answer, reply.status, False
        if status in FAILURES:
            rule = reply.on_failure or self.on_failure
            # A failure never keeps an agent from stopping.
            failed_open = rule == "allow" or event.block is _KEEP_GOING
            reason = f"hook `{self.name}` {_WORDS[status]}: {reply.error}"
            answer = NOTHING if failed_open else Answer(decision=Decision(rule), reason=reason)
        return Outcome(
            self.name,
            self.source,
            self.dialect,
            status,
            answer,
            duration_ms,
            failed_open,
            reply.exit_code,
            reply.signal,
            reply.error,
            reply.lost,
            reply.output_bytes,
        )

    def read(self, ctx: Context, returned: Any, began: float) -> Outcome:
        """The outcome of a value that the hook returned in time."""
        event = ctx.event
        if type(returned) is Answer and returned.plain and event.block is not _KEEP_GOING:
            return Outcome(self.name, self.source, self.dialect, _OK, returned, (_now() - began) * 1e3)
        reply = self._reply(event, returned)
        if reply.later is not None or (reply.answer.background and reply.status is _OK):
            reply = self._adopt(ctx, reply)
        return self.judge(event, reply, (_now() - began) * 1e3)

    def sync_outcome(self, ctx: Context, returned: Any, began: float, now: float) -> Outcome:
        """The outcome of a function without `await` that returned a value, or timed out."""
        if now - began > self.timeout or now > ctx.ends:
            return self.overran(ctx, returned, began, min(began + self.timeout, ctx.ends))
        if type(returned) is Answer and returned.plain and ctx.event.block is not _KEEP_GOING:
            return Outcome(self.name, self.source, self.dialect, _OK, returned, (now - began) * 1e3)
        return self.read(ctx, returned, began)

    def read_after_deadline(self, ctx: Context, returned: Any, why: str, began: float) -> Outcome:
        """The same after the deadline. It timed out, but a deny is still a deny."""
        reply, took = self._reply(ctx.event, returned), (_now() - began) * 1e3
        return self.judge(ctx.event, reply, took) if reply.answer.objects else self.timed_out(ctx.event, why, took)

    def overran(self, ctx: Context, returned: Any, began: float, deadline: float) -> Outcome:
        """A function that can't be interrupted returned after its deadline."""
        times = f"it took {_now() - began:.3g} s and had {deadline - began:.3g} s"
        return self.read_after_deadline(ctx, returned, f"{times} (`thread=True` ends the wait)", began)

    def _reply(self, event: Event, returned: Any) -> Reply:
        """Read a hook's return value; no value can make this raise."""
        try:
            reply = read_returned(event, returned, self.meanings)
            return reply if reply.answer.plain else replace(reply, answer=reply.answer.tidy())
        except Exception as error:
            return failure(error)

    def _adopt(self, ctx: Context, reply: Reply) -> Reply:
        """The hook promised an answer for later. A gate can't do that: the agent waits for its answer."""
        event, later, promised = ctx.event, reply.later, reply.answer.background
        objects, unjudged = reply.answer.objects, event.gates and self.hook.gate
        dropped = unjudged or objects
        if later is not None:
            seconds = 0.0 if dropped else (self.timeout if promised is True else float(promised))

            async def answer() -> Outcome:
                began = _now()
                reply = await later(seconds)
                return self.judge(event, reply, (_now() - began) * 1e3)

            job = answer if ctx.asking is None or dropped else ctx.asking.finished_later(answer)
            ctx.background.start(event, job, name=self.name, seconds=seconds, keep=not dropped)
        if objects:  # after a deny there is nothing to wait for
            return replace(reply, later=None)
        if unjudged:
            return _background_gate(event)
        return replace(reply, answer=NOTHING, status=Status.BACKGROUND, later=None)


class ReviewedStep(Step):
    """A hook whose objections are reviewed before they count (`Hook.review`)."""

    def __init__(self, hook: Hook, name: str, event_name: str, *, observed: bool = False) -> None:
        super().__init__(hook, name, event_name, observed=observed)
        self.without_await = None

    def judge(self, event: Event, reply: Reply, duration_ms: float = 0.0) -> Outcome:
        return self._reviewed(event, super().judge(event, reply, duration_ms))

    def read(self, ctx: Context, returned: Any, began: float) -> Outcome:
        return self._reviewed(ctx.event, super().read(ctx, returned, began))

    def _reviewed(self, event: Event, outcome: Outcome) -> Outcome:
        answer = outcome.answer
        objects = answer.decision in _OBJECTIONS or answer.stop or answer.keep_going
        review = self.hook.review
        return review(event, outcome) if objects and review is not None and not outcome.code else outcome


def waive(outcome: Outcome, by: str) -> Outcome:
    """The outcome without its answer, which is kept for the record."""
    if outcome.waived is not None or outcome.status is Status.SKIPPED:
        return outcome
    return replace(outcome, answer=NOTHING, failed_open=False, waived=WaivedAnswer.of(by, outcome.answer))


class ShadowStep(Step):
    """A hook in shadow mode: it runs and is recorded, and decides nothing, now or in the background."""

    def __init__(self, hook: Hook, name: str, event_name: str, *, observed: bool = False) -> None:
        super().__init__(hook, name, event_name, observed=observed)
        self.without_await = None  # it would skip `read`
        self.call = _in_shadow(self, self.call)

    def judge(self, event: Event, reply: Reply, duration_ms: float = 0.0) -> Outcome:
        return waive(super().judge(event, reply, duration_ms), SHADOW)

    def read(self, ctx: Context, returned: Any, began: float) -> Outcome:
        return waive(super().read(ctx, returned, began), SHADOW)


# -- calls of a function


def _of_event(step: Step, function: Callable[[Event], Any]) -> Call:
    """The short way to a function that takes only the event: it can't see `ctx.deadline`, so that is not set."""
    timeout = step.timeout

    def call(ctx: Context, began: float) -> Any:
        ends = ctx.ends
        if began >= ends:
            return _not_reached(step, ctx)
        try:
            returned = function(ctx.event)
            if returned is not None and type(returned) not in _ANSWERS:
                returned, rest = _first_step(returned)
                if rest is not None:
                    return _finished(step, ctx, rest, returned, began, min(began + timeout, ends))
        except BaseException as error:  # no code cancels or closes us here: whatever it is, the hook raised it
            return step.failed(ctx.event, error, began)
        now = _now()
        if now - began > timeout or now > ends:
            return step.overran(ctx, returned, began, min(began + timeout, ends))
        return None if returned is None or returned is NOTHING else step.read(ctx, returned, began)

    return call


def _of_context(step: Step) -> Call:
    """The way to any other function. A function that answers at once does not time out, whenever it is called."""
    run, at_once = step.run, getattr(step.hook.run, "at_once", False)

    def call(ctx: Context, began: float) -> Any:
        try:
            returned: Any = run(ctx)
            if returned is not None and type(returned) not in _ANSWERS:
                returned, rest = _first_step(returned)
                if rest is not None:
                    return _finished(step, ctx, rest, returned, began, ctx.deadline)
        except BaseException as error:
            return step.failed(ctx.event, error, began)
        if not at_once and _now() > ctx.deadline:
            return step.overran(ctx, returned, began, ctx.deadline)
        return None if returned is None or returned is NOTHING else step.read(ctx, returned, began)

    return call


def _first_step(returned: Any) -> tuple[Any, Coroutine[Any, Any, Any] | None]:
    """A function's return value, and None; or the future of its coroutine, and that coroutine. Raises its errors."""
    if type(returned) is CoroutineType:
        try:
            return returned.send(None), returned
        except StopIteration as end:
            return end.value, None
    if not inspect.isawaitable(returned):
        return returned, None
    from billhook.core.drive import awaiting

    return None, awaiting(returned)


async def _finished(
    step: Step, ctx: Context, coroutine: Coroutine[Any, Any, Any], first: Any, began: float, deadline: float
) -> Outcome | None:
    """Wait for a hook after its first step, until its deadline."""
    from billhook.core.drive import ExpiredError, RaisedError, finish

    try:
        returned = await finish(coroutine, first, deadline - _now())
    except RaisedError as raised:
        return step.failed(ctx.event, raised.error, began)
    except ExpiredError as expired:
        return step.read_after_deadline(ctx, expired.late, f"no answer within {deadline - began:.3g} s", began)
    return None if returned is None else step.read(ctx, returned, began)


def _keeping_time(step: Step) -> Call:
    """The way to a hook that keeps `ctx.deadline` itself: it needs no timer."""

    async def call(ctx: Context, began: float) -> Outcome | None:
        try:
            returned: Any = await step.run(ctx)  # type: ignore[misc]  # a run that keeps its deadline is async
        except Exception as error:
            return step.failed(ctx.event, error, began)
        return step.read(ctx, returned, began)

    return call


# -- wrappers


def _with_deadline(step: Step, call: Call) -> Call:
    timeout = step.timeout

    def timed(ctx: Context, began: float) -> Any:
        own, ends = began + timeout, ctx.ends
        if began >= ends:
            return _not_reached(step, ctx)
        ctx.deadline = own if own < ends else ends
        return call(ctx, began)

    return timed


def _with_deadline_kept(step: Step, call: Call) -> Call:
    """For a hook that never waits: it runs even after the event's deadline."""

    def timed(ctx: Context, began: float) -> Any:
        ctx.deadline = began + step.timeout
        return call(ctx, began)

    return timed


def _with_budget(step: Step, budget: str, call: Call) -> Call:
    def budgeted(ctx: Context, began: float) -> Any:
        if began >= ctx.ends:
            return _not_reached(step, ctx)
        ctx.deadline = min(ctx.within(budget, began + step.timeout), ctx.ends)
        if ctx.deadline <= began:
            return step.timed_out(ctx.event, "the timeout that it shares with other hooks was over")
        return call(ctx, began)

    return budgeted


def _conditional(step: Step, condition: Condition, call: Call) -> Call:
    """Seed 002: a condition that raises means skipped. But a gate whose condition is unknown fails closed."""

    unwanted = step.skipped(Skipped(SkipReason.CONDITION_FALSE))

    def conditional(ctx: Context, began: float) -> Any:
        try:
            holds: object = condition(ctx)
            if type(holds) is CoroutineType:
                holds.close()
                raise TypeError("a condition can't be async")
            if not holds:
                return unwanted
        except BaseException as error:
            why = Skipped(SkipReason.CONDITION_RAISED, by=failure(error).error)
            if step.hook.gate:
                return step.judge(ctx.event, Reply(status=Status.FAILED, error=str(why)))
            return step.skipped(why)
        return call(ctx, began)

    return conditional


def _in_batch(step: Step, call: Call) -> Call:
    """A hook that may take its reply from the request of a hook before it, or send those after it with its own."""

    def batched(ctx: Context, began: float) -> Any:
        batch = ctx.batch
        if batch is None:
            return call(ctx, began)
        if batch.next is not None:
            return received(ctx, began, batch.next)
        batch.calls = [one.batch_call for one in (step, *batch.following.get(step, ()))]
        return call(ctx, began)

    async def received(ctx: Context, began: float, reply_of: Callable[[Context], Awaitable[Reply | None]]) -> Any:
        ctx.deadline = min(began + step.timeout, ctx.ends)
        try:
            reply = await reply_of(ctx)
        except Exception as error:
            return step.failed(ctx.event, error, began)
        if reply is not None:
            ran = ctx.batch.seconds if ctx.batch is not None and reply.status is _OK else 0.0
            return step.read(ctx, reply, _now() - ran if ran else began)
        returned = batched(ctx, began)
        return returned if returned is None or type(returned) is Outcome else await returned

    return batched


def _in_background(step: Step, call: Call) -> Call:
    def start(ctx: Context, began: float) -> Outcome:
        if ctx.event.gates and step.hook.gate:
            return step.judge(ctx.event, _background_gate(ctx.event))
        own = ctx.detached()

        async def job() -> Outcome:
            began = _now()
            returned = call(own, began)
            if returned is not None and type(returned) is not Outcome:
                returned = await returned
            return to_outcome(returned or (step, began, _now()))

        ctx.background.start(ctx.event, job, name=step.name, seconds=step.timeout)
        return Outcome(step.name, step.source, step.dialect, Status.BACKGROUND)

    return start


def _observed(step: Step, call: Call) -> Call:
    """Reports the start and the end of the hook to listeners."""

    def observed(ctx: Context, began: float) -> Any:
        asking = ctx.asking = RunReport(ctx.audience, step, ctx.event, began)
        try:
            asking.started(ctx.deadline - began)
            result = call(ctx, began)
        except BaseException:  # an interrupt: an error of the hook is an outcome
            asking.cancelled()
            raise
        return asking.answered(result) if result is None or isinstance(result, Outcome) else asking.followed(result)

    return observed


def _in_shadow(step: Step, call: Call) -> Call:
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


def _not_reached(step: Step, ctx: Context) -> Outcome:
    return step.timed_out(ctx.event, "the deadline passed before it could start")


def _background_gate(event: Event) -> Reply:
    error = f"it answers later, but it is a gate, and {event.hook_event_name} waits for the answer"
    return Reply(status=Status.FAILED, error=error)


def is_async(run: Handler) -> bool:
    function = run if hasattr(run, "__code__") else type(run).__call__
    code = getattr(function, "__code__", None)
    return code is None or bool(code.co_flags & _CO_COROUTINE)


def failure(error: BaseException) -> Reply:
    """The failure for an error that a hook raised. An interrupt is not the hook's error."""
    if isinstance(error, KeyboardInterrupt):
        raise error
    return Reply(status=Status.FAILED, error=_shown(error))


def _shown(error: BaseException) -> str:
    """An error on one line."""
    if isinstance(error, BillhookError):  # it is for people already
        text = f"{error.place}: {error.message}" if error.place else error.message
        return f"{text} ({error.hint})" if error.hint else text
    try:
        return f"{type(error).__name__}: {error}".removesuffix(": ")
    except Exception:  # its own __str__ is broken, too
        return type(error).__name__

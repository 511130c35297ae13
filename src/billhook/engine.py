"""One event in, one verdict out: the loop that everybody reads first.

The engine sees only callables. It knows nothing of processes, dialects, files or configuration: those live in the
`run` of a hook, made by `billhook.handlers`.
"""

import inspect
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from types import CoroutineType
from typing import Any, Literal, Self

from msgspec.structs import replace

from billhook.answers import (
    FAILURES,
    NOTHING,
    UNSET,
    Answer,
    Combine,
    Decision,
    Outcome,
    Reply,
    Status,
    Verdict,
    fold,
)
from billhook.background import Background
from billhook.events import Block, Event, parse
from billhook.hook import Context, Hook
from billhook.outputs import read_returned
from billhook.plan import Plan, Step

Observer = Callable[[Verdict], object]
"""Gets every verdict after the fold; may be async. What it raises is logged and changes nothing."""

_FOREVER = float("inf")
_BACKSTOP = 2.0
"""Seconds after which the engine itself ends a `run` that promised to keep its own time."""
_now = time.monotonic
_OK = Status.OK


class Engine:
    """Runs the hooks that want an event and folds their answers. Lives as long as its owner likes; may be fired from
    many tasks and threads at once, because everything that belongs to one firing is in its Context."""

    def __init__(
        self,
        hooks: Iterable[Hook] = (),
        *,
        parallel: bool = False,
        combine: Combine = "strictest",
        observers: Iterable[Observer] = (),
        env: Mapping[str, str] | None = None,
    ) -> None:
        self.plan = Plan(hooks)
        self.parallel = parallel
        self.combine: Combine = combine
        self.observers = list(observers)
        self.background = Background()
        self.env = dict(env or {})

    @classmethod
    def from_matchers(
        cls, config: Mapping[str, Sequence[Any]], *, dialect: Literal["spec", "claude"] = "spec", **options: Any
    ) -> Self:
        """An engine from seed 001's map of event to matcher groups, whose callbacks take `(input, tool_use_id, context)`.

        With `dialect="claude"` a file of callbacks that was written for the Claude Agent SDK runs unchanged.
        """
        from billhook.callbacks import from_matchers

        return cls(from_matchers(config, dialect=dialect), **options)

    @property
    def hooks(self) -> tuple[Hook, ...]:
        """The hooks in the order in which they are asked."""
        return self.plan.hooks

    async def fire(self, event: Event | Mapping[str, Any], *, deadline: float | None = None) -> Verdict:
        """Ask every hook that wants this event and fold what they say. Never raises for what a hook does.

        `deadline`: seconds for the whole event; it clips each hook's own timeout, and a hook that is not reached in
        time is `timed_out` and follows its `on_failure`.
        """
        if not isinstance(event, Event):
            event = parse(event)
        steps = self.plan.steps(event)
        if not steps and not self.observers and not self.background.answers:
            return Verdict(event)

        began = _now()
        ends = _FOREVER if deadline is None else began + deadline
        ctx = Context(event=event, env=self.env.copy())
        outcomes = self.background.collect(event)
        ask_all = self._ask_at_once if self.parallel else self._ask_in_turn
        await ask_all(steps, ctx, ends, outcomes)
        verdict = fold(event, outcomes, combine=self.combine, duration_ms=(_now() - began) * 1e3)
        for observer in self.observers:
            await _tell(observer, verdict)
        return verdict

    def fire_sync(self, event: Event | Mapping[str, Any], *, deadline: float | None = None) -> Verdict:
        """`fire` for code that is not async. Works inside a running loop too, which it blocks."""
        import asyncio
        import threading

        try:
            asyncio.get_running_loop()
        except RuntimeError:
            return asyncio.run(self.fire(event, deadline=deadline))
        verdicts: list[Verdict] = []
        thread = threading.Thread(target=lambda: verdicts.append(asyncio.run(self.fire(event, deadline=deadline))))
        thread.start()
        thread.join()
        return verdicts[0]

    async def _ask_in_turn(self, steps: tuple[Step, ...], ctx: Context, ends: float, outcomes: list[Outcome]) -> None:
        """Each hook sees the results before it and the input as rewritten so far; deny or stop ends the run."""
        over = ""
        rewrites = 0
        gates: list[tuple[Step, int]] = []
        for step in steps:
            if over:
                outcomes.append(_skipped(step, over))
                continue
            outcome = self._ask(step, ctx, ends)
            if type(outcome) is not Outcome:
                outcome = await outcome
            outcomes.append(outcome)
            ctx.results[step.key] = outcome
            answer = outcome.answer
            if answer is not NOTHING:
                if _rewritten(ctx, answer):
                    rewrites += 1
                if answer.objects:
                    over = f"`{step.name}` said {'stop' if answer.stop else 'deny'}"
            if step.on_failure != "allow":
                gates.append((step, rewrites))
        if rewrites and not over:
            await self._ask_again([step for step, seen in gates if seen < rewrites], ctx, ends, outcomes)

    async def _ask_at_once(self, steps: tuple[Step, ...], ctx: Context, ends: float, outcomes: list[Outcome]) -> None:
        """Hooks with no dependency between them at once, on the original input; folded in configured order."""
        import asyncio

        async def ask(step: Step) -> Outcome:
            outcome = self._ask(step, replace(ctx), ends)
            return outcome if isinstance(outcome, Outcome) else await outcome

        over = ""
        asked: list[Step] = []
        places = {step.key: place for place, step in enumerate(steps)}
        said: list[Outcome | None] = [None] * len(steps)
        for wave in self.plan.waves(steps):
            if over:
                for step in wave:
                    said[places[step.key]] = _skipped(step, over)
                continue
            for step, outcome in zip(wave, await asyncio.gather(*map(ask, wave)), strict=True):
                said[places[step.key]] = ctx.results[step.key] = outcome
                asked.append(step)
                if outcome.answer.objects:
                    over = over or f"`{step.name}` said {'stop' if outcome.answer.stop else 'deny'}"
        outcomes.extend(outcome for outcome in said if outcome is not None)
        rewrites = [outcome for outcome in outcomes if _rewritten(ctx, outcome.answer)]
        if rewrites and not over:
            last = rewrites[-1].hook
            await self._ask_again([s for s in asked if s.hook.gate and s.name != last], ctx, ends, outcomes)

    async def _ask_again(self, gates: list[Step], ctx: Context, ends: float, outcomes: list[Outcome]) -> None:
        """A gate that judged an input which a later hook then rewrote judges the final one, too."""
        final = ctx.event
        for step in gates:
            outcome = self._ask(step, ctx, ends)
            if type(outcome) is not Outcome:
                outcome = await outcome
            again = outcome.answer.updated_input
            if again is not None and again != getattr(final, "tool_input", None):
                error = "asked again about the final input, it rewrote that input once more"
                outcome = _judge(step, final, Reply(status=Status.FAILED, error=error), outcome.duration_ms)
            outcomes.append(outcome)
            ctx.results[step.key] = outcome

    def _ask(self, step: Step, ctx: Context, ends: float) -> Outcome | Awaitable[Outcome]:
        """Ask one hook. What answers without waiting is an Outcome at once, the rest is something to await."""
        began = _now()
        deadline = ctx.deadline = min(self._deadline(step, ctx, began), ends)
        if deadline <= began:
            return _judge(step, ctx.event, _late("its time was over before it could be asked"), 0.0)
        try:
            if step.condition is not None and not step.condition(ctx):
                return _skipped(step, "its condition is false")
        except Exception as error:
            return _condition_failed(step, ctx.event, error)
        if step.hook.background:
            return self._start_in_background(step, ctx)
        try:
            said: Any = step.run(ctx)
            if type(said) is CoroutineType or (said is not None and inspect.isawaitable(said)):
                coroutine = said if type(said) is CoroutineType else _awaiting(said)
                try:
                    first = coroutine.send(None)
                except StopIteration as end:
                    said = end.value
                else:
                    return self._finish(step, ctx, coroutine, first, began, deadline)
        except (Exception, SystemExit) as error:
            return _judge(step, ctx.event, _raised(error), (_now() - began) * 1e3)
        if said is None:
            return Outcome(step.name, step.source, step.dialect, _OK, NOTHING, (_now() - began) * 1e3)
        return self._read(step, ctx, said, began)

    async def _finish(
        self, step: Step, ctx: Context, coroutine: Coroutine[Any, Any, Any], first: Any, began: float, deadline: float
    ) -> Outcome:
        """The rest of a hook that waits for something, for as long as it may take."""
        import asyncio

        from billhook import stepping

        event = ctx.event
        seconds = deadline - _now() + (_BACKSTOP if step.keeps_time else 0.0)
        try:
            said = await stepping.finish(coroutine, first, seconds)
        except stepping.Expired as expired:
            reply = read_returned(event, expired.late, step.meanings)
            if not reply.answer.objects:  # a deny that comes while it is being ended is still a deny
                reply = _late(f"no answer within {deadline - began:.3g} s")
            return _judge(step, event, reply, (_now() - began) * 1e3)
        except asyncio.CancelledError as error:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise
            return _judge(step, event, _raised(error), (_now() - began) * 1e3)
        except (Exception, SystemExit) as error:
            return _judge(step, event, _raised(error), (_now() - began) * 1e3)
        return self._read(step, ctx, said, began, event)

    def _read(self, step: Step, ctx: Context, said: Any, began: float, event: Event | None = None) -> Outcome:
        event = event or ctx.event
        try:
            reply = read_returned(event, said, step.meanings)
        except Exception as error:
            reply = _raised(error)
        if reply.answer.background and reply.status is _OK:
            reply = self._adopt(step, event, reply)
        return _judge(step, event, reply, (_now() - began) * 1e3)

    def _deadline(self, step: Step, ctx: Context, began: float) -> float:
        if not step.hook.budget:
            return began + step.timeout
        # One budget for all hooks of a matcher: the clock starts with the first of them.
        shared: float = ctx.state.setdefault(f"\0budget:{step.hook.budget}", began + step.timeout)
        return shared

    def _start_in_background(self, step: Step, ctx: Context) -> Outcome:
        if ctx.event.gates:
            return _judge(step, ctx.event, _too_late(ctx.event), 0.0)
        front = replace(step, hook=replace(step.hook, background=False))
        later = Context(event=ctx.event, results=dict(ctx.results), env=dict(ctx.env))

        async def job() -> Outcome:
            outcome = self._ask(front, later, _FOREVER)
            return outcome if isinstance(outcome, Outcome) else await outcome

        self.background.start(ctx.event, job)
        return Outcome(step.name, step.source, step.dialect, Status.BACKGROUND)

    def _adopt(self, step: Step, event: Event, reply: Reply) -> Reply:
        """The hook said that its answer comes later."""
        if reply.later is None:
            return Reply(status=Status.FAILED, error=_too_late(event).error) if event.gates else replace(
                reply, answer=NOTHING, status=Status.BACKGROUND
            )
        later, promised = reply.later, reply.answer.background
        seconds = 0.0 if event.gates else (step.timeout if promised is True else float(promised))

        async def job() -> Outcome:
            began = _now()
            late = await later(seconds)
            return _judge(step, event, late, (_now() - began) * 1e3)

        self.background.start(event, job, keep=not event.gates)
        return _too_late(event) if event.gates else replace(reply, answer=NOTHING, status=Status.BACKGROUND, later=None)


def _judge(step: Step, event: Event, reply: Reply, duration_ms: float) -> Outcome:
    """An outcome from what was read. A failure is never an opinion: what it does is what the hook's owner chose."""
    answer, status = reply.answer, reply.status
    failed_open = False
    if status in FAILURES:
        rule = reply.on_failure or step.on_failure
        answer = NOTHING
        # A failure never makes an agent go on that wants to stop.
        if rule == "allow" or event.block is Block.KEEP_GOING:
            failed_open = True
        else:
            reason = f"hook `{step.name}` {_WORDS[status]}: {reply.error}"
            answer = Answer(decision=Decision(rule), reason=reason)
    return Outcome(
        step.name,
        step.source,
        step.dialect,
        status,
        answer,
        duration_ms,
        failed_open,
        reply.exit_code,
        reply.signal,
        reply.error,
        reply.lost,
    )


_WORDS = {Status.FAILED: "failed", Status.TIMED_OUT: "timed out", Status.COULD_NOT_START: "could not start"}


def _skipped(step: Step, why: str) -> Outcome:
    return Outcome(step.name, step.source, step.dialect, Status.SKIPPED, error=why)


def _condition_failed(step: Step, event: Event, error: Exception) -> Outcome:
    """Seed 002: a condition that raises means skipped. But a gate that can't tell whether it applies does not pass."""
    why = f"its condition raised {type(error).__name__}: {error}"
    if step.hook.gate:
        return _judge(step, event, Reply(status=Status.FAILED, error=why), 0.0)
    return _skipped(step, why)


def _raised(error: BaseException) -> Reply:
    return Reply(status=Status.FAILED, error=f"{type(error).__name__}: {error}".removesuffix(": "))


def _late(why: str) -> Reply:
    return Reply(status=Status.TIMED_OUT, error=why)


def _too_late(event: Event) -> Reply:
    error = f"it answers later, but {event.hook_event_name} waits for the answer"
    return Reply(status=Status.FAILED, error=error)


def _rewritten(ctx: Context, answer: Answer) -> bool:
    """Let later hooks see the input (or output) as rewritten; True when there is a new input."""
    if answer.updated_output is not UNSET and hasattr(ctx.event, "tool_response"):
        ctx.event = ctx.event.replace(tool_response=answer.updated_output)
    if answer.updated_input is None or not hasattr(ctx.event, "tool_input"):
        return False
    ctx.event = ctx.event.replace(tool_input=answer.updated_input)
    return True


async def _awaiting(something: Awaitable[Any]) -> Any:
    return await something


async def _tell(observer: Observer, verdict: Verdict) -> None:
    try:
        told = observer(verdict)
        if inspect.isawaitable(told):
            await told
    except Exception:
        import logging

        logging.getLogger("billhook").exception("an observer failed on verdict %s", verdict.id)


__all__ = ["Engine", "Observer"]

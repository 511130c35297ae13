"""One event in, one verdict out: the loop that everybody reads first.

The engine sees only callables. It knows nothing of processes, dialects, files or configuration: those live in the
`run` of a hook, made by `billhook.handlers`.
"""

import time
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from types import CoroutineType
from typing import TYPE_CHECKING, Any, Literal, Self

from msgspec.structs import replace

from billhook.answers import (
    CONDITION_RAISED,
    FAILURES,
    NOTHING,
    UNSET,
    Answer,
    Combine,
    Decision,
    Note,
    Outcome,
    Reply,
    Status,
    Verdict,
    fold,
    written_out,
)
from billhook.background import Background
from billhook.errors import BillhookError
from billhook.events import Block, Event, parse
from billhook.hook import Condition, Context, Hook, Knows
from billhook.later import later
from billhook.observing import Observer, noted, tell
from billhook.outputs.returned import read_returned
from billhook.plan import Plan, Step
from billhook.progress import Asking, Audience, Listener

if TYPE_CHECKING:
    import inspect
else:
    inspect = later("inspect")

_FOREVER = float("inf")
_now = time.monotonic
_OK, _DENY, _KEEP_GOING = Status.OK, Decision.DENY, Block.KEEP_GOING
_ANSWERS = (Answer, Reply)


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
        know: Callable[[Event], Knows] | None = None,
        listen: Listener | None = None,
        notices: Callable[[Verdict], tuple[str, ...]] | None = None,
    ) -> None:
        self._notices = notices  # what the user should be told beside a verdict, each thing once in a session
        self.plan = hooks if isinstance(hooks, Plan) else Plan(hooks)
        self.parallel = parallel
        self.combine: Combine = combine
        self._observers = tuple(observers)
        self._lists = self.plan.by_type
        self.background = Background(self._settle_idle)
        self._waiting = self.background.answers
        self._settle_idle()
        self.env = dict(env or {})
        self._know = know  # tells the session's name and turn, for hooks that ask
        self._audience = Audience(self._settle_asking)
        self._settle_asking()
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
        from billhook.callbacks import from_matchers

        return cls(from_matchers(config, dialect=dialect, thread=thread), **options)

    @property
    def hooks(self) -> tuple[Hook, ...]:
        """The hooks in the order in which they are asked."""
        return self.plan.hooks

    def listen(self, listener: Listener) -> Callable[[], None]:
        """Let somebody know of each hook that is asked, and how that ends (`billhook.progress`); returns what ends it.

        It is called at once and waited for. What it raises is logged and changes nothing.
        """
        return self._audience.add(listener)

    async def fire(self, event: Any, *, deadline: float | None = None) -> Verdict:  # noqa: PLR0915 - a call costs
        """Ask every hook that wants this event and fold what they say. Never raises for what a hook does.

        `event` is an Event, or a dict in wire form (EventError names what is wrong with it). Each hook sees the results
        before it and the input as rewritten so far. A deny ends the run of later hooks, except those that `always` run;
        a stop ends the run of all. `deadline`: seconds for the whole event; it clips each hook's own timeout, and a
        hook that is not reached in time is `timed_out` and follows its `on_failure`.
        """
        if type(event) in self._idle:
            return Verdict(event)
        wanted = self._lists.get(type(event))
        if wanted is None:  # the first of its kind, or a dict
            event = event if isinstance(event, Event) else parse(event)
            wanted = self.plan.list_for(event)
        steps: tuple[Step, ...] = wanted.known.get(wanted.target_of(event)) or wanted.steps(event)
        began = now = _now()
        ends = _FOREVER if deadline is None else began + max(0.0, deadline)
        notes: list[Note] = [*self.background.collect(event)] if self._waiting else []
        ctx = Context(event, notes, self.env, self._know)
        if self._special:
            if self._audience:
                steps = tuple(_aloud(step) for step in steps)
            if self.parallel:
                await self._ask_at_once(steps, ctx, notes, ends)
                return await self._close(event, notes, began, ends, ctx.reserved_id)

        over, stopped, rewritten_by, spoken = "", False, 0, notes != []
        said: Any
        for step in steps:
            if over and (stopped or not step.hook.always):
                notes.append(_skipped(step, over))
                continue
            asked = now
            if step.never_waits is None or asked >= ends:
                said = self._ask(step, ctx, ends, asked)
                if said is not None and not isinstance(said, Outcome):
                    said = await said
            else:
                try:
                    said = await step.never_waits(ctx.event)
                except KeyboardInterrupt:
                    raise
                except BaseException as error:  # it can't wait, so nobody but the hook itself can have raised it
                    said = _raised(error)
                now = _now()
                if now - asked > step.timeout or now > ends:
                    said = _overran(step, ctx.event, said, asked, min(asked + step.timeout, ends))
                elif said is not None:
                    said = self._read(step, ctx.event, said, asked)
            now = _now()
            if said is None:  # nothing to say, which is what most hooks say
                notes.append((step, asked, now))
                continue
            notes.append(said)
            spoken = True
            answer = said.answer
            if answer.decision is _DENY or answer.stop:
                over, stopped = over or _ends_the_run(said), stopped or answer.stop
            if over:
                continue
            if (answer.updated_input is not None or answer.updated_output is not UNSET) and _rewrite(ctx, answer):
                rewritten_by = steps.index(step)
        if rewritten_by and not over:
            await self._ask_again([step for step in steps[:rewritten_by] if step.hook.gate], ctx, notes, ends)
        if self._observers or ctx.reserved_id or self._notices:
            return await self._close(event, notes, began, ends, ctx.reserved_id)
        return self._fold(event, notes, began) if spoken else Verdict(event, notes, (now - began) * 1e3)

    def fire_sync(self, event: Any, *, deadline: float | None = None) -> Verdict:
        """`fire` for code that is not async. Works inside a running loop too, which it blocks."""
        import asyncio

        from billhook import stepping

        try:
            asyncio.get_running_loop()
        except RuntimeError:
            return stepping.run(self.fire(event, deadline=deadline))
        return stepping.run_aside(self.fire(event, deadline=deadline))

    def _settle_idle(self) -> None:
        """The events for which there is nothing to do at all: no hook, no observer, no answer that waits."""
        self._idle = frozenset() if self._observers or self._waiting or self._notices else self.plan.idle

    def _settle_asking(self) -> None:
        """Hooks that run at once, and somebody who listens, cost those nothing who have neither."""
        self._special = self.parallel or bool(self._audience)

    def _fold(self, event: Event, notes: Sequence[Note], began: float) -> Verdict:
        outcomes = [note if isinstance(note, Outcome) else written_out(note) for note in notes]
        return fold(event, outcomes, combine=self.combine, duration_ms=(_now() - began) * 1e3)

    async def _close(self, event: Event, notes: Sequence[Note], began: float, ends: float, reserved: str) -> Verdict:
        """Fold, and let the observers know."""
        verdict = self._noticed(self._fold(event, notes, began))
        if reserved:
            verdict.called(reserved)
        for observer in self._observers:
            unrecorded = await tell(observer, verdict, ends)
            if unrecorded is not None:
                notes = noted(unrecorded, event, verdict.outcomes)
                again = replace(self._fold(event, notes, began), messages=verdict.messages)
                verdict = self._noticed(again).called(verdict.id)
        return verdict

    def _noticed(self, verdict: Verdict) -> Verdict:
        """The verdict with what the user should be told beside it."""
        texts = () if self._notices is None else self._notices(verdict)
        if not texts:
            return verdict
        hooks = () if verdict.quiet else verdict.messages  # what hooks want hidden stays so
        return replace(verdict, messages=(*hooks, *texts), quiet=False)

    async def _ask_at_once(self, steps: tuple[Step, ...], ctx: Context, notes: list[Note], ends: float) -> None:
        """Hooks with no dependency between them at once, on the original input; noted in configured order."""
        import asyncio

        over, stopped = "", False
        said: dict[Step, Note] = {}
        for wave in self.plan.waves(steps):
            runs = [step for step in wave if not over or (step.hook.always and not stopped)]
            ran = dict(
                zip(runs, await asyncio.gather(*(self._note(step, ctx.copy(), ends) for step in runs)), strict=True)
            )
            asked = [ran[step] if step in ran else _skipped(step, over) for step in wave]
            said |= zip(wave, asked, strict=True)
            notes.extend(asked)
            outcomes = [written_out(note) for note in asked]
            over = over or next((why for outcome in outcomes if (why := _ends_the_run(outcome))), "")
            stopped = stopped or any(outcome.answer.stop for outcome in outcomes)
        notes[len(notes) - len(said) :] = [said[step] for step in steps]
        rewriters = [step for step in steps if _rewrite(ctx, written_out(said[step]).answer)]
        if rewriters and not over:
            gates = [step for step in steps if step.hook.gate and step is not rewriters[-1]]
            await self._ask_again(gates, ctx, notes, ends)

    async def _ask_again(self, gates: Sequence[Step], ctx: Context, notes: list[Note], ends: float) -> None:
        """A gate that judged an input which a later hook then rewrote judges the final one, too."""
        final = ctx.event
        _withdraw({step.name for step in gates}, notes)
        for step in gates:
            outcome = written_out(await self._note(step, ctx, ends))
            again = outcome.answer.updated_input
            if again is not None and again != getattr(final, "tool_input", None):
                error = "asked again about the final input, it rewrote that input once more"
                outcome = _judge(step, final, Reply(status=Status.FAILED, error=error), outcome.duration_ms)
            notes.append(outcome)
            if outcome.answer.objects:
                return

    async def _note(self, step: Step, ctx: Context, ends: float) -> Note:
        """Ask one hook to the end, and note what happened."""
        began = _now()
        said = self._ask(step, ctx, ends, began)
        if said is not None and not isinstance(said, Outcome):
            said = await said
        return (step, began, _now()) if said is None else said

    def _ask(self, step: Step, ctx: Context, ends: float, began: float) -> Outcome | Awaitable[Outcome | None] | None:
        """Ask one hook. None: it has nothing to say. What it says at once is an Outcome, the rest is to be awaited."""
        if step.of_event is None or began >= ends:
            if step.plain and step.asking is None and (step.at_once or began < ends):
                own = began + step.timeout
                ctx.deadline = own if own < ends or step.at_once else ends
            elif (held_back := self._prepare(step, ctx, ends, began)) is not None:
                return held_back
        if step.keeps_time:
            return self._wait_for(step, ctx, began)
        try:
            said: Any = step.run(ctx) if step.of_event is None else step.of_event(ctx.event)
            if type(said) is CoroutineType:
                try:
                    first = said.send(None)
                except StopIteration as end:
                    said = end.value
                else:
                    return self._finish(step, ctx, said, first, began, ends)
            elif said is not None and type(said) not in _ANSWERS and inspect.isawaitable(said):
                return self._finish(step, ctx, _awaiting(said), None, began, ends)
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # nobody cancels or closes us here: whatever it is, the hook raised it
            return _judge(step, ctx.event, _raised(error), (_now() - began) * 1e3)
        now = _now()
        if (now - began > step.timeout or now > ends) if step.of_event else (now > ctx.deadline and not step.at_once):
            deadline = min(began + step.timeout, ends) if step.of_event else ctx.deadline
            return _overran(step, ctx.event, said, began, deadline)
        return None if said is None or said is NOTHING else self._read(step, ctx.event, said, began)

    def _prepare(self, step: Step, ctx: Context, ends: float, began: float) -> Outcome | Awaitable[Outcome] | None:
        """Set the hook's deadline. Anything but None means that it is not asked here and now: its time is over, its
        condition is false, it runs in the background, or it was asked in another way."""
        own = began + step.timeout
        if step.at_once:
            ends = own
        elif began >= ends:
            return _judge(step, ctx.event, _late(step, "its time was over before it could be asked"), 0.0)
        ctx.deadline = min(ctx.within(step.hook.budget, own) if step.hook.budget else own, ends)
        if ctx.deadline <= began:
            return _judge(step, ctx.event, _late(step, "the time that it shares with others was over"), 0.0)
        if step.plain:
            return None
        try:
            if step.condition is not None and not _holds(step.condition, ctx):
                return _skipped(step, "its condition is false")
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            return _condition_failed(step, ctx.event, error)
        if step.hook.background:
            return self._start_in_background(step, ctx)
        return self._ask_aloud(step, ctx, ends, began) if step.aloud else None

    def _ask_aloud(self, step: Step, ctx: Context, ends: float, began: float) -> Outcome | Awaitable[Outcome]:
        """Ask it as `_ask` does, and tell those who listen."""
        asking = Asking(self._audience, step, ctx.event, began)
        try:
            asking.started(ctx.deadline - began)
            said = self._ask(replace(step, plain=True, asking=asking), ctx, ends, began)
        except BaseException:  # an interrupt: what a hook raises is an outcome
            asking.cancelled()
            raise
        return asking.answered(said) if said is None or isinstance(said, Outcome) else asking.followed(said)

    async def _wait_for(self, step: Step, ctx: Context, began: float) -> Outcome:
        """Ask a hook that keeps `ctx.deadline` itself: nobody needs to stand beside it with a watch."""
        event = ctx.event
        try:
            said: Any = await step.run(ctx)  # type: ignore[misc]  # what keeps its time is async
        except Exception as error:
            return _judge(step, event, _raised(error), (_now() - began) * 1e3)
        return self._read(step, event, said, began)

    async def _finish(
        self, step: Step, ctx: Context, coroutine: Coroutine[Any, Any, Any], first: Any, began: float, ends: float
    ) -> Outcome | None:
        """The rest of a hook that waits for something, for as long as it may take."""
        from billhook.stepping import ExpiredError, RaisedError, finish

        event = ctx.event
        deadline = min(began + step.timeout, ends) if step.of_event else ctx.deadline
        try:
            said = await finish(coroutine, first, deadline - _now())
        except RaisedError as raised:
            return _judge(step, event, _raised(raised.error), (_now() - began) * 1e3)
        except ExpiredError as expired:
            reply = _heard(step, event, expired.late)
            if not reply.answer.objects:  # a deny that comes while it is being ended is still a deny
                reply = _late(step, f"no answer within {deadline - began:.3g} s")
            return _judge(step, event, reply, (_now() - began) * 1e3)
        return None if said is None else self._read(step, event, said, began)

    def _read(self, step: Step, event: Event, said: Any, began: float) -> Outcome:
        if type(said) is Answer and said.plain and event.block is not _KEEP_GOING:
            return Outcome(step.name, step.source, step.dialect, _OK, said, (_now() - began) * 1e3)
        reply = _heard(step, event, said)
        if reply.later is not None or (reply.answer.background and reply.status is _OK):
            reply = self._adopt(step, event, reply)
        return _judge(step, event, reply, (_now() - began) * 1e3)

    def _start_in_background(self, step: Step, ctx: Context) -> Outcome:
        if ctx.event.gates and step.hook.gate:
            return _judge(step, ctx.event, _too_late(ctx.event), 0.0)
        front = replace(step, condition=None, hook=replace(step.hook, background=False))
        later = Context(ctx.event, list(ctx.results.values()), dict(ctx.env), self._know)

        async def job() -> Outcome:
            return written_out(await self._note(front, later, _FOREVER))

        self.background.start(ctx.event, job, name=step.name, seconds=step.timeout)
        return Outcome(step.name, step.source, step.dialect, Status.BACKGROUND)

    def _adopt(self, step: Step, event: Event, reply: Reply) -> Reply:
        """The hook said that its answer comes later. Of a gate that is too late: something waits for it."""
        later, promised, objects = reply.later, reply.answer.background, reply.answer.objects
        unjudged = event.gates and step.hook.gate
        too_late = unjudged or objects
        if later is not None:
            seconds = 0.0 if too_late else (step.timeout if promised is True else float(promised))

            async def answer() -> Outcome:
                began = _now()
                late = await later(seconds)
                return _judge(step, event, late, (_now() - began) * 1e3)

            job = answer if step.asking is None or too_late else step.asking.to_be_told_later(answer)
            self.background.start(event, job, name=step.name, seconds=seconds, keep=not too_late)
        if objects:  # whoever has a deny in hand need not be waited for
            return replace(reply, later=None)
        return _too_late(event) if unjudged else replace(reply, answer=NOTHING, status=Status.BACKGROUND, later=None)


def _heard(step: Step, event: Event, said: Any) -> Reply:
    """What a hook returned, read; whatever it is, it can't hurt us."""
    try:
        reply = read_returned(event, said, step.meanings)
        if not reply.answer.plain:
            reply = replace(reply, answer=reply.answer.tidy())
    except Exception as error:
        return _raised(error)
    return reply


def _overran(step: Step, event: Event, said: Any, began: float, deadline: float) -> Outcome:
    """A function that can't be interrupted came back after its time: it timed out. A deny is still a deny."""
    now, reply = _now(), _heard(step, event, said)
    if not reply.answer.objects:
        reply = _late(
            step, f"it took {now - began:.3g} s and had {deadline - began:.3g} s (`thread=True` ends the wait)"
        )
    return _judge(step, event, reply, (now - began) * 1e3)


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
        reply.output_bytes,
    )


_WORDS = {Status.FAILED: "failed", Status.TIMED_OUT: "timed out", Status.COULD_NOT_START: "could not start"}


def _skipped(step: Step, why: str) -> Outcome:
    return Outcome(step.name, step.source, step.dialect, Status.SKIPPED, error=why)


def _holds(condition: Condition, ctx: Context) -> bool:
    said = condition(ctx)
    if type(said) is CoroutineType:
        said.close()
        raise TypeError("a condition can't be async")
    return bool(said)


def _condition_failed(step: Step, event: Event, error: BaseException) -> Outcome:
    """Seed 002: a condition that raises means skipped. But a gate that can't tell whether it applies does not pass."""
    why = f"{CONDITION_RAISED} {_shown(error)}"
    if step.hook.gate:
        return _judge(step, event, Reply(status=Status.FAILED, error=why), 0.0)
    return _skipped(step, why)


def _raised(error: BaseException) -> Reply:
    return Reply(status=Status.FAILED, error=_shown(error))


def _shown(error: BaseException) -> str:
    if isinstance(error, BillhookError):  # it is for people already
        said = f"{error.place}: {error.message}" if error.place else error.message
        return f"{said} ({error.hint})" if error.hint else said
    try:
        return f"{type(error).__name__}: {error}".removesuffix(": ")
    except Exception:  # its own __str__ is broken, too
        return type(error).__name__


def _late(step: Step, why: str) -> Reply:
    return Reply(status=Status.TIMED_OUT, error=why, on_failure=step.when_late)


def _too_late(event: Event) -> Reply:
    error = f"it answers later, but it is a gate, and {event.hook_event_name} waits for the answer"
    return Reply(status=Status.FAILED, error=error)


def _ends_the_run(outcome: Outcome) -> str:
    """Why later hooks are not asked any more; empty: they are."""
    answer = outcome.answer
    return f"`{outcome.hook}` said {'stop' if answer.stop else 'deny'}" if answer.objects else ""


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


def _withdraw(gates: set[str], notes: list[Note]) -> None:
    """An allow of a gate was about an input that was rewritten since: only what it says of the final one counts."""
    for i, note in enumerate(notes):
        if isinstance(note, Outcome) and note.hook in gates and note.answer.decision is Decision.ALLOW:
            lost = "it allowed an input that was rewritten later, and was asked again"
            answer = replace(note.answer, decision=Decision.NONE, reason="")
            notes[i] = replace(note, answer=answer, lost=(*note.lost, lost))


def _aloud(step: Step) -> Step:
    """The same hook, with no short way past those who listen."""
    return replace(step, plain=False, of_event=None, never_waits=None, aloud=True)


async def _awaiting(something: Awaitable[Any]) -> Any:
    return await something


__all__ = ["Engine", "Observer"]

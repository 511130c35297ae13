"""The engine: order, rewriting, failures, deadlines, cancellation, re-entrancy."""

import asyncio
import contextvars
import logging
import subprocess
import sys
import threading
import time
from collections.abc import Awaitable, Callable, Generator
from pathlib import Path
from typing import Any

import pytest

from billhook import (
    Answer,
    Context,
    Decision,
    Engine,
    Event,
    EventError,
    Hook,
    PostToolUse,
    PreToolUse,
    SessionStart,
    Status,
    Stop,
    UserPromptSubmit,
    Verdict,
    allow,
    ask,
    deny,
    inject,
    keep_going,
    notify,
    on,
    rewrite,
    stop,
)

BASH = PreToolUse(tool_name="Bash", tool_input={"command": "ls"}, session_id="s1")
AFTER = PostToolUse(tool_name="Bash", tool_input={"command": "ls"}, tool_response="out", session_id="s1")


def fire(*hooks: Hook, event: Any = BASH, deadline: float | None = None, **options: Any) -> Verdict:
    return asyncio.run(Engine(hooks, **options).fire(event, deadline=deadline))


def says(name: str, answer: Any = None, **options: Any) -> Hook:
    """A hook that always returns the same answer."""
    return on(name=name, **options)(lambda event: answer) if options.get("background") else _says(name, answer, options)


def _says(name: str, answer: Any, options: dict[str, Any]) -> Hook:
    return on(PreToolUse, PostToolUse, Stop, UserPromptSubmit, name=name, **options)(lambda event: answer)


def statuses(verdict: Verdict) -> list[tuple[str, str]]:
    return [(outcome.hook, outcome.status.value) for outcome in verdict.outcomes]


# -- no hooks, dicts, unknown events -------------------------------------------------------------------------------


def test_no_hooks_is_no_objection() -> None:
    """An engine without hooks objects to nothing and has nothing to show."""
    verdict = fire()
    assert verdict.decision is Decision.NONE
    assert verdict.outcomes == ()
    assert verdict.event == "PreToolUse"


def test_event_as_dict() -> None:
    """A dict in wire form is an event; hooks see its unknown fields."""
    seen: list[Any] = []
    hook = on(PreToolUse)(lambda event: seen.append(event.payload["more"]))
    fire(hook, event={"hook_event_name": "PreToolUse", "tool_name": "Bash", "tool_input": {}, "more": 7})
    assert seen == [7]


def test_malformed_event_raises() -> None:
    """What is not an event is an EventError that names the place."""
    with pytest.raises(EventError, match="tool_name"):
        fire(event={"hook_event_name": "PreToolUse", "tool_input": {}})
    with pytest.raises(EventError):
        Engine().fire_sync(["not", "an", "event"])


def test_unknown_event_reaches_hooks_that_want_it() -> None:
    """An event without a type goes to hooks that name it and to hooks for every event."""
    asked: list[str] = []
    named = on("Brewed", name="named")(lambda event: asked.append("named"))
    every = Hook(name="every", run=lambda ctx: asked.append(ctx.event_type))
    other = on("Spilt", name="other")(lambda event: asked.append("other"))
    fire(named, every, other, event={"hook_event_name": "Brewed", "cups": 2})
    assert asked == ["named", "Brewed"]


# -- order and rewriting -------------------------------------------------------------------------------------------


def test_order_is_priority_then_after_then_given() -> None:
    """Lower priority first, `after` waits for what it names, equals stay as given."""
    asked: list[str] = []

    def hook(name: str, **options: Any) -> Hook:
        return on(PreToolUse, name=name, **options)(lambda event: asked.append(name))

    fire(hook("c"), hook("d"), hook("late", priority=1, after=["d"]), hook("a", priority=5), hook("b", priority=50))
    assert asked == ["a", "b", "c", "d", "late"]


def test_each_hook_sees_the_results_before_it() -> None:
    """Results are under `{name}-{Event}` as soon as the hook has answered."""
    seen: list[Any] = []

    def second(event: Event, ctx: Context) -> None:
        seen.append((sorted(ctx.results), ctx.results["first-PreToolUse"].data, ctx.find("first").data))  # type: ignore[union-attr]

    fire(says("first", {"success": True, "data": {"turnId": "x:5"}}), on(PreToolUse, name="second")(second))
    assert seen == [(["first-PreToolUse"], {"turnId": "x:5"}, {"turnId": "x:5"})]


def test_quiet_hooks_are_in_the_results_too() -> None:
    """A hook with an empty answer has a result nevertheless."""
    seen: list[Any] = []
    last = on(PreToolUse, name="last")(lambda event, ctx: seen.append((list(ctx.results), ctx.find("quiet").success)))
    fire(says("quiet"), last)
    assert seen == [(["quiet-PreToolUse"], True)]


def test_results_that_a_hook_adds_hide_nothing() -> None:
    """A hook that writes into the results does not make later ones disappear."""
    seen: list[Any] = []

    def meddle(event: Event, ctx: Context) -> None:
        ctx.results["x"] = ctx.results["a-PreToolUse"]

    last = on(PreToolUse, name="last")(lambda event, ctx: seen.extend(ctx.results))
    fire(says("a"), on(PreToolUse, name="meddle")(meddle), says("b"), last)
    assert seen == ["a-PreToolUse", "x", "meddle-PreToolUse", "b-PreToolUse"]


def test_input_as_rewritten_so_far() -> None:
    """Later hooks, their conditions and payloads see the rewritten input; the verdict carries the last one."""
    seen: list[Any] = []

    def condition(ctx: Context) -> bool:
        return bool(ctx.event.tool_input["command"] == "ls -l")  # type: ignore[attr-defined]

    def look(event: Event, ctx: Context) -> Answer:
        seen.append((event.tool_input, ctx.payload["tool_input"]))  # type: ignore[attr-defined]
        return rewrite(input={"command": "ls -la"})

    verdict = fire(
        says("first", rewrite(input={"command": "ls -l"})), on(PreToolUse, name="look", condition=condition)(look)
    )
    assert seen == [({"command": "ls -l"}, {"command": "ls -l"})]
    assert verdict.tool_input == {"command": "ls -la"}
    assert BASH.tool_input == {"command": "ls"}


def test_output_as_rewritten_so_far() -> None:
    """After the tool the same holds for its output."""
    seen: list[Any] = []
    look = on(PostToolUse, name="look")(lambda event: seen.append(event.tool_response))
    verdict = fire(says("first", rewrite(output="[redacted]")), look, event=AFTER)
    assert seen == ["[redacted]"]
    assert verdict.tool_output == "[redacted]"


@pytest.mark.parametrize(("answer", "word"), [(deny("no"), "deny"), (stop("enough"), "stop")])
def test_deny_or_stop_ends_the_run(answer: Answer, word: str) -> None:
    """Later hooks are skipped with a reason; on PreToolUse a stop is also a deny."""
    verdict = fire(says("a"), says("b", answer), says("c"))
    assert statuses(verdict) == [("a", "ok"), ("b", "ok"), ("c", "skipped")]
    assert verdict.outcomes[2].error == f"`b` answered {word}"
    assert verdict.denied
    assert verdict.stop == (word == "stop")


def test_strictest_wins_and_all_reasons_are_kept() -> None:
    """deny > defer > ask > allow > none; contexts and messages add up."""
    verdict = fire(says("a", allow("fine")), says("b", ask("sure?")), says("c", ask("really?")), says("d", inject("x")))
    assert verdict.decision is Decision.ASK
    assert verdict.reason == "sure?\nreally?"
    assert verdict.context == ("x",)
    assert fire(says("a", allow()), says("b", deny("no")), combine="first").decision is Decision.ALLOW


def test_decision_given_as_text_counts() -> None:
    """`Answer(decision="deny")` is a deny in every respect, and an unknown decision is a failure."""
    verdict = fire(says("a", Answer(decision="deny", reason="no")), says("b"))  # type: ignore[arg-type]
    assert verdict.denied
    assert statuses(verdict) == [("a", "ok"), ("b", "skipped")]
    assert fire(says("a", Answer(decision="Denied"), on_failure="deny")).denied  # type: ignore[arg-type]


# -- a gate is asked again -----------------------------------------------------------------------------------------


def test_gate_judges_the_final_input() -> None:
    """A gate before the rewriter runs again; without a rewrite it runs once."""
    judged: list[str] = []

    @on(PreToolUse, on_failure="deny")
    def gate(event: PreToolUse) -> Answer | None:
        judged.append(event.tool_input["command"])
        return deny("dangerous") if "rm" in event.tool_input["command"] else None

    verdict = fire(gate, says("rewriter", rewrite(input={"command": "rm -rf /"})))
    assert judged == ["ls", "rm -rf /"]
    assert verdict.denied and verdict.reason == "dangerous"
    assert statuses(verdict) == [("gate", "ok"), ("rewriter", "ok"), ("gate", "ok")]
    judged.clear()
    fire(gate, says("other", inject("x")))
    assert judged == ["ls"]
    fire(says("rewriter", rewrite(input={"command": "pwd"})), gate)
    assert judged == ["ls", "pwd"]
    fire(gate, says("same", rewrite(input={"command": "ls"})))
    assert judged == ["ls", "pwd", "ls"]


def test_gate_whose_condition_is_true_only_now_runs() -> None:
    """A gate that was not concerned by the original input may be by the final one."""

    @on(PreToolUse, on_failure="deny", condition=lambda ctx: "rm" in ctx.event.tool_input["command"])  # type: ignore[attr-defined]
    def gate(event: PreToolUse) -> Answer:
        return deny("dangerous")

    assert fire(gate, says("rewriter", rewrite(input={"command": "rm x"}))).denied


def test_gate_that_rewrites_once_more_fails() -> None:
    """If a gate rewrites the input again in its second run, it fails and so denies; the same rewrite is fine."""

    @on(PreToolUse, on_failure="deny", name="appender")
    def appender(event: PreToolUse) -> Answer:
        return rewrite(input={"command": event.tool_input["command"] + " x"})

    verdict = fire(appender, says("rewriter", rewrite(input={"command": "pwd"})))
    assert verdict.denied
    assert "rewrote that input once more" in verdict.reason

    @on(PreToolUse, on_failure="deny", name="normal")
    def normal(event: PreToolUse) -> Answer:
        return rewrite(input={"command": "pwd"})

    assert fire(normal, says("rewriter", rewrite(input={"command": "ls -l"}))).denied
    assert not fire(says("rewriter", rewrite(input={"command": "ls -l"})), normal).denied


def test_allow_of_a_gate_holds_only_for_what_it_saw() -> None:
    """An allow for an input that was rewritten since is withdrawn; the second answer counts."""

    @on(PreToolUse, on_failure="deny")
    def gate(event: PreToolUse) -> Answer | None:
        return allow("harmless") if event.tool_input["command"] == "ls" else None

    verdict = fire(gate, says("rewriter", rewrite(input={"command": "make"})))
    assert verdict.decision is Decision.NONE
    assert verdict.outcomes[0].lost


# -- failures ------------------------------------------------------------------------------------------------------


class UnspeakableError(Exception):
    def __str__(self) -> str:
        raise ValueError("not even this")


def endless(event: Any) -> Any:
    return endless(event)


def raising(error: BaseException) -> Callable[[Any], Any]:
    def hook(event: Any) -> Any:
        raise error

    return hook


def raising_at_once(error: BaseException) -> Callable[[Any], Any]:
    async def hook(event: Any) -> Any:
        raise error

    return hook


def raising_later(error: BaseException) -> Callable[[Any], Any]:
    async def hook(event: Any) -> Any:
        await asyncio.sleep(0.001)
        raise error

    return hook


@pytest.mark.parametrize("kind", [raising, raising_at_once, raising_later])
@pytest.mark.parametrize(
    "error",
    [
        ValueError("bad"),
        SystemExit(2),
        asyncio.CancelledError(),
        TimeoutError("mine"),
        StopIteration(5),
        StopAsyncIteration(),
        GeneratorExit(),
        RecursionError("deep"),
        UnspeakableError(),
        BaseExceptionGroup("many", [SystemExit(1)]),
        MemoryError(),
    ],
    ids=lambda error: type(error).__name__,
)
@pytest.mark.parametrize("parallel", [False, True])
def test_a_raising_hook_is_an_outcome(kind: Any, error: BaseException, parallel: bool) -> None:
    """Whatever a hook raises, however late, the others run and it is a failed outcome."""
    bad = on(PreToolUse, name="bad")(kind(error))
    verdict = fire(bad, says("good", inject("still here")), parallel=parallel)
    assert statuses(verdict) == [("bad", "failed"), ("good", "ok")]
    assert verdict.context == ("still here",)
    assert verdict.failed_open == 1
    shown = verdict.outcomes[0].error
    assert type(error).__name__ in shown or "StopIteration" in shown or "StopAsyncIteration" in shown


@pytest.mark.parametrize("kind", [raising, raising_at_once, raising_later])
def test_keyboard_interrupt_propagates(kind: Any) -> None:
    """Ctrl-C is for the whole program."""
    with pytest.raises(KeyboardInterrupt):
        fire(on(PreToolUse)(kind(KeyboardInterrupt())))


def test_recursion_is_an_outcome() -> None:
    """A hook without end is a failure, not a crash."""
    verdict = fire(on(PreToolUse)(endless))
    assert verdict.outcomes[0].error.startswith("RecursionError")


class Later:
    """An awaitable that is not a coroutine."""

    def __await__(self) -> Generator[Any, Any, Answer]:
        yield from asyncio.sleep(0.001).__await__()
        return deny("later")


class Hostile(dict[str, Any]):
    def __iter__(self) -> Any:
        raise RuntimeError("don't look")

    def items(self) -> Any:
        raise RuntimeError("don't look")


@pytest.mark.parametrize(
    "garbage", [5, "deny", True, [deny("x")], object(), {"decision": "Deny"}, {1: 2}, Hostile(a=1)]
)
def test_garbage_is_a_failure(garbage: Any) -> None:
    """A gate whose answer can't be understood denies; another hook fails open, and that is counted."""
    assert fire(says("gate", garbage, on_failure="deny")).denied
    verdict = fire(says("hook", garbage))
    assert (verdict.decision, verdict.failed_open) == (Decision.NONE, 1)
    assert fire(says("asker", garbage, on_failure="ask")).decision is Decision.ASK


def test_any_awaitable_is_awaited() -> None:
    """A hook may return a future, a task or an object with `__await__`."""
    assert fire(on(PreToolUse)(lambda event: Later())).denied

    async def answer() -> Answer:
        await asyncio.sleep(0.001)
        return deny("from a task")

    assert fire(on(PreToolUse)(lambda event: asyncio.ensure_future(answer()))).denied
    slow = on(PreToolUse, timeout=0.05)(lambda event: asyncio.ensure_future(asyncio.sleep(30)))
    assert fire(slow).outcomes[0].status is Status.TIMED_OUT


def test_failure_never_keeps_an_agent_going() -> None:
    """On Stop a failed gate does not make the agent continue."""
    verdict = fire(on(Stop, on_failure="deny")(raising(ValueError())), event=Stop())
    assert not verdict.keep_going
    assert verdict.failed_open == 1


def test_block_is_deny_and_other_rules_are_refused() -> None:
    """`on_failure="block"` means deny; an unknown word is refused when the hook is made."""
    assert Hook(name="x", run=lambda ctx: None, on_failure="block").on_failure == "deny"  # type: ignore[arg-type]
    with pytest.raises(Exception, match="on_failure is `denny`"):
        on(PreToolUse, on_failure="denny")(lambda event: None)  # type: ignore[arg-type]


# -- conditions ----------------------------------------------------------------------------------------------------


def test_false_condition_skips() -> None:
    """A condition that is false means skipped."""
    verdict = fire(says("a", deny("no"), condition=lambda ctx: ctx.session_id == "other"))
    assert statuses(verdict) == [("a", "skipped")]
    assert not verdict.denied


async def async_condition(ctx: Context) -> bool:
    return False


@pytest.mark.parametrize("condition", [raising(KeyError("x")), raising(SystemExit()), async_condition])
def test_condition_that_raises(condition: Any) -> None:
    """Skipped with the error; but a gate that can't tell whether it applies fails."""
    verdict = fire(says("a", deny("no"), condition=condition), says("b"))
    assert statuses(verdict) == [("a", "skipped"), ("b", "ok")]
    assert "condition raised" in verdict.outcomes[0].error
    gated = fire(says("gate", condition=condition, on_failure="deny"))
    assert statuses(gated) == [("gate", "failed")]
    assert gated.denied
    assert fire(says("gate", condition=condition, on_failure="ask")).decision is Decision.ASK


# -- deadlines -----------------------------------------------------------------------------------------------------


async def slow(event: Any) -> Answer:
    await asyncio.sleep(30)
    return deny("too late")


@pytest.mark.parametrize("rule", ["allow", "deny", "ask"])
def test_timeout_follows_on_failure(rule: Any) -> None:
    """A hook that takes too long is timed out; what that means is its `on_failure`."""
    began = time.monotonic()
    verdict = fire(on(PreToolUse, name="slow", timeout=0.05, on_failure=rule)(slow), says("next"))
    assert time.monotonic() - began < 5
    assert verdict.outcomes[0].status is Status.TIMED_OUT
    assert "no answer within 0.05 s" in verdict.outcomes[0].error
    assert verdict.decision.value == {"allow": "none", "deny": "deny", "ask": "ask"}[rule]
    assert verdict.outcomes[1].status is (Status.SKIPPED if rule == "deny" else Status.OK)


def test_deadline_of_the_event_clips_and_reaches_the_rest() -> None:
    """Hooks that are not reached in time are timed out and follow their `on_failure`."""
    began = time.monotonic()
    verdict = fire(on(PreToolUse, name="slow")(slow), says("b"), says("gate", on_failure="deny"), deadline=0.1)
    assert time.monotonic() - began < 5
    assert statuses(verdict) == [("slow", "timed_out"), ("b", "timed_out"), ("gate", "timed_out")]
    assert verdict.denied
    assert verdict.failed_open == 2


@pytest.mark.parametrize("deadline", [0, -1, 0.0])
def test_no_time_at_all(deadline: float) -> None:
    """With no time left no hook runs."""
    asked: list[Any] = []
    verdict = fire(on(PreToolUse, name="a")(asked.append), deadline=deadline)
    assert statuses(verdict) == [("a", "timed_out")]
    assert asked == []


def test_late_deny_is_a_deny() -> None:
    """The answer of a hook that is being ended counts if it objects."""

    @on(PreToolUse, timeout=0.05)
    async def careful(event: PreToolUse) -> Answer | None:
        try:
            await asyncio.sleep(30)
        except asyncio.CancelledError:
            return deny("could not finish the scan")
        return None

    assert fire(careful).denied


async def swallow_all(event: Any) -> None:
    while True:
        try:
            await asyncio.sleep(30)
        except asyncio.CancelledError:
            pass


async def swallow_everything(event: Any) -> None:
    while True:
        try:
            await asyncio.sleep(30)
        except BaseException:
            pass


async def awaits_stubborn_task(event: Any) -> None:
    stubborn = asyncio.create_task(swallow_for_a_while())
    await stubborn


async def swallow_for_a_while() -> None:
    end = time.monotonic() + 4
    while time.monotonic() < end:
        try:
            await asyncio.sleep(0.2)
        except asyncio.CancelledError:
            pass


async def spins(event: Any) -> None:
    while True:  # noqa: ASYNC110 - on purpose
        await asyncio.sleep(0)


@pytest.mark.parametrize("stubborn", [swallow_all, swallow_everything, awaits_stubborn_task, spins])
@pytest.mark.parametrize("parallel", [False, True])
def test_stubborn_hook_does_not_hang_the_firing(stubborn: Any, parallel: bool) -> None:
    """A hook that swallows its cancellation, or waits for a task that does, is left behind."""

    async def main() -> tuple[Verdict, float]:
        began = time.monotonic()
        hook = on(PreToolUse, name="stubborn", timeout=0.05, on_failure="deny")(stubborn)
        verdict = await Engine([hook], parallel=parallel).fire(BASH)
        return verdict, time.monotonic() - began

    loop = asyncio.new_event_loop()
    verdict, seconds = loop.run_until_complete(main())
    for task in asyncio.all_tasks(loop):
        task.cancel()
    loop.run_until_complete(asyncio.sleep(4.3 if stubborn is awaits_stubborn_task else 0))
    loop.close()
    assert seconds < 3
    assert statuses(verdict) == [("stubborn", "timed_out")]
    assert verdict.denied


def test_fire_sync_leaves_a_hanging_executor_behind() -> None:
    """`asyncio.to_thread` that hangs does not keep `fire_sync` from returning."""
    release = threading.Event()

    @on(PreToolUse, timeout=0.05)
    async def offloads(event: PreToolUse) -> None:
        await asyncio.to_thread(release.wait, 60)

    began = time.monotonic()
    verdict = Engine([offloads]).fire_sync(BASH)
    release.set()
    assert time.monotonic() - began < 10
    assert verdict.outcomes[0].status is Status.TIMED_OUT


@pytest.mark.parametrize("listen", [None, lambda _: None], ids=["no listener", "a listener"])
def test_shared_budget(listen: Any) -> None:
    """Hooks with the same budget share one timeout; the time of other hooks and of listeners does not count."""

    def sharing(name: str) -> Hook:
        async def run(ctx: Context) -> None:
            await asyncio.sleep(30 if name == "b" else 0.01)

        return Hook(name=name, run=run, events=("PreToolUse",), timeout=1.0, budget="group", on_failure="allow")

    hooks = [sharing("a"), sharing("b"), sharing("c"), says("d")]
    verdict = Engine(hooks, listen=listen).fire_sync(BASH)
    assert statuses(verdict) == [("a", "ok"), ("b", "timed_out"), ("c", "timed_out"), ("d", "ok")]
    left: list[float] = []
    slow = Hook(name="slow", run=lambda ctx: time.sleep(0.3), budget="x", timeout=1.0)
    looks = Hook(name="looks", run=lambda ctx: left.append(ctx.seconds_left), budget="x", timeout=1.0)
    Engine([slow, looks], listen=listen).fire_sync(BASH)
    assert left[0] < 0.8


def test_state_holds_only_what_hooks_put_there() -> None:
    """`ctx.state` is the hooks' own, and each firing has a new one."""
    seen: list[Any] = []

    async def run(ctx: Context) -> None:
        seen.append(dict(ctx.state))
        ctx.state["n"] = ctx.state.get("n", 0) + 1

    hooks = [Hook(name=str(i), run=run, budget="x", timeout=5) for i in range(2)]
    fire(*hooks)
    fire(*hooks)
    assert seen == [{}, {"n": 1}, {}, {"n": 1}]


# -- code inside hooks that knows its task -------------------------------------------------------------------------


def test_timeouts_and_task_groups_inside_a_hook() -> None:
    """asyncio.timeout, wait_for and TaskGroup work inside a hook, before and after it has waited."""

    @on(PreToolUse, timeout=20)
    async def busy(event: PreToolUse) -> dict[str, Any]:
        done = []
        async with asyncio.timeout(10):
            await asyncio.sleep(0.001)
        try:
            async with asyncio.timeout(0.01):
                await asyncio.sleep(30)
        except TimeoutError:
            done.append("timeout")
        try:
            await asyncio.wait_for(asyncio.sleep(30), 0.01)
        except TimeoutError:
            done.append("wait_for")
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(asyncio.sleep(30))
                group.create_task(fails())
        except* ValueError:
            done.append("group")
        inner = asyncio.create_task(asyncio.sleep(30))
        asyncio.get_running_loop().call_soon(inner.cancel)
        try:
            await inner
        except asyncio.CancelledError:
            done.append("inner")
        return {"success": True, "data": done}

    async def fails() -> None:
        await asyncio.sleep(0.001)
        raise ValueError

    for parallel in (False, True):
        outcome = fire(busy, parallel=parallel).outcomes[0]
        assert outcome.error == ""
        assert outcome.data == ["timeout", "wait_for", "group", "inner"]


def test_a_timeout_around_fire_works() -> None:
    """The caller's own asyncio.timeout ends the firing."""

    async def main() -> None:
        async with asyncio.timeout(0.05):
            await Engine([on(PreToolUse)(slow)]).fire(BASH)

    with pytest.raises(TimeoutError):
        asyncio.run(main())


def test_hook_stays_in_its_task() -> None:
    """The hook continues in the task that started it."""
    seen: list[Any] = []

    @on(PreToolUse)
    async def look(event: PreToolUse) -> None:
        seen.append(asyncio.current_task())
        await asyncio.sleep(0.001)
        seen.append(asyncio.current_task())

    async def main() -> None:
        await Engine([look]).fire(BASH)
        seen.append(asyncio.current_task())

    asyncio.run(main())
    assert seen[0] is seen[1] is seen[2]


# -- cancellation --------------------------------------------------------------------------------------------------


async def returns_when_cancelled(event: Any) -> Answer | None:
    try:
        await asyncio.sleep(30)
    except asyncio.CancelledError:
        return allow("never mind")
    return None


async def raises_when_cancelled(event: Any) -> None:
    try:
        await asyncio.sleep(30)
    except asyncio.CancelledError:
        raise ValueError("instead") from None


@pytest.mark.parametrize("function", [slow, returns_when_cancelled, raises_when_cancelled, swallow_all, spins])
@pytest.mark.parametrize("parallel", [False, True])
def test_cancelling_fire_cancels_the_hook_and_raises(function: Any, parallel: bool) -> None:
    """Whatever the hook makes of the cancellation, the caller gets it."""
    ended: list[str] = []

    @on(PreToolUse, timeout=60)
    async def hook(event: PreToolUse) -> Any:
        try:
            return await function(event)
        finally:
            ended.append("ended")

    async def main() -> float:
        engine = Engine([hook, says("next")], parallel=parallel)
        task = asyncio.create_task(engine.fire(BASH))
        await asyncio.sleep(0.05)
        began = time.monotonic()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return time.monotonic() - began

    assert asyncio.run(main()) < 10
    assert ended == ["ended"]


def test_firing_while_being_cancelled() -> None:
    """A firing in the clean-up of a cancelled task is a firing like any other."""
    verdicts: list[Verdict] = []

    async def main() -> None:
        try:
            await asyncio.sleep(30)
        finally:
            hooks = [on(PreToolUse, name="a")(raising_later(asyncio.CancelledError())), says("b")]
            verdicts.append(await Engine(hooks).fire(BASH))

    async def outer() -> None:
        task = asyncio.create_task(main())
        await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(outer())
    assert statuses(verdicts[0]) == [("a", "failed"), ("b", "ok")]


# -- observers -----------------------------------------------------------------------------------------------------


def test_observers_see_every_verdict() -> None:
    """Sync and async observers get the folded verdict: denied, empty or not."""
    seen: list[tuple[str, str]] = []

    async def later(verdict: Verdict) -> None:
        await asyncio.sleep(0.001)
        seen.append(("later", verdict.decision.value))

    observers = [lambda verdict: seen.append(("now", verdict.decision.value)), later]
    fire(says("a", deny("no")), says("b"), observers=observers)
    fire(observers=observers)
    assert seen == [("now", "deny"), ("later", "deny"), ("now", "none"), ("later", "none")]


@pytest.mark.parametrize("kind", [raising, raising_at_once, raising_later])
@pytest.mark.parametrize("error", [ValueError("x"), SystemExit(), asyncio.CancelledError(), GeneratorExit()])
def test_raising_observer_changes_nothing(kind: Any, error: BaseException, caplog: pytest.LogCaptureFixture) -> None:
    """What an observer raises is logged; the verdict and the other observers don't notice."""
    seen: list[Verdict] = []
    with caplog.at_level(logging.ERROR, "billhook"):
        verdict = fire(says("a", deny("no")), observers=[kind(error), seen.append])
    assert verdict.denied
    assert seen == [verdict]
    assert "an observer failed" in caplog.text


# -- in-process: inline, threads, re-entrancy ----------------------------------------------------------------------


def test_sync_callbacks_run_inline_and_thread_moves_them() -> None:
    """A sync hook runs in the caller's thread, except with `thread=True`."""
    seen: list[threading.Thread] = []

    def look(event: Event) -> None:
        seen.append(threading.current_thread())

    fire(on(PreToolUse, name="a")(look), on(PreToolUse, name="b", thread=True)(look))
    assert seen[0] is threading.current_thread()
    assert seen[1] is not threading.current_thread()


def test_hanging_thread_is_abandoned() -> None:
    """A thread that hangs is left behind at its deadline, and the loop runs meanwhile."""
    release = threading.Event()
    beats = 0

    @on(PreToolUse, timeout=0.2, thread=True, on_failure="deny")
    def hang(event: PreToolUse) -> None:
        release.wait(30)

    async def main() -> Verdict:
        nonlocal beats
        firing = asyncio.create_task(Engine([hang]).fire(BASH))
        while not firing.done():
            beats += 1
            await asyncio.sleep(0.01)
        return await firing

    began = time.monotonic()
    verdict = asyncio.run(main())
    release.set()
    assert time.monotonic() - began < 5
    assert verdict.outcomes[0].status is Status.TIMED_OUT
    assert verdict.denied
    assert beats > 3


@pytest.mark.parametrize(
    "error", [ValueError("x"), SystemExit(), StopIteration(), asyncio.CancelledError(), GeneratorExit()]
)
def test_raising_thread_is_an_outcome(error: BaseException) -> None:
    """What is raised in a thread is an outcome like any other."""
    verdict = fire(on(PreToolUse, name="bad", thread=True)(raising(error)), says("good"))
    assert statuses(verdict) == [("bad", "failed"), ("good", "ok")]


VAR: contextvars.ContextVar[str] = contextvars.ContextVar("VAR", default="unset")


def test_threads_know_the_context_variables() -> None:
    """A hook in a thread sees the caller's context variables, and async functions may go there as well."""

    @on(PreToolUse, thread=True)
    async def look(event: PreToolUse) -> Answer:
        await asyncio.sleep(0)
        return inject(VAR.get())

    async def main() -> Verdict:
        VAR.set("mine")
        return await Engine([look]).fire(BASH)

    assert asyncio.run(main()).context == ("mine",)


def _mixing_engine() -> Engine:
    @on(PreToolUse)
    def note(event: PreToolUse, ctx: Context) -> dict[str, Any]:
        ctx.state["who"] = event.session_id
        return {"success": True, "data": event.session_id}

    @on(PreToolUse)
    async def wait(event: PreToolUse, ctx: Context) -> Answer:
        await asyncio.sleep(0.001 * (hash(event.session_id) % 7))
        return rewrite(input={"command": event.session_id})

    @on(PreToolUse, thread=True)
    def aside(event: PreToolUse, ctx: Context) -> Answer:
        return notify(f"{event.tool_input['command']} {event.session_id}")

    @on(PreToolUse)
    def check(event: PreToolUse, ctx: Context) -> Answer:
        found = ctx.find("note")
        assert found is not None
        parts = (ctx.state["who"], found.data, ctx.results["note-PreToolUse"].data, event.tool_input["command"])
        return inject(" ".join(parts))

    return Engine([note, wait, aside, check])


def _check_unmixed(who: str, verdict: Verdict) -> None:
    assert verdict.context == (f"{who} {who} {who} {who}",)
    assert verdict.messages == (f"{who} {who}",)
    assert verdict.tool_input == {"command": who}


def test_32_tasks_do_not_mix() -> None:
    """Firings of one engine in 32 tasks at once keep contexts, results and answers apart."""

    async def main() -> None:
        engine = _mixing_engine()

        async def one(who: str) -> None:
            for _ in range(5):
                event = PreToolUse(tool_name="Bash", tool_input={"command": "?"}, session_id=who)
                _check_unmixed(who, await engine.fire(event))

        await asyncio.gather(*(one(f"s{i}") for i in range(32)))

    asyncio.run(main())


def test_32_threads_do_not_mix() -> None:
    """The same with 32 threads that use fire_sync."""
    engine = _mixing_engine()
    errors: list[BaseException] = []

    def one(who: str) -> None:
        try:
            for _ in range(5):
                event = PreToolUse(tool_name="Bash", tool_input={"command": "?"}, session_id=who)
                _check_unmixed(who, engine.fire_sync(event))
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=one, args=(f"s{i}",)) for i in range(32)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []


def test_a_hook_may_fire_the_same_engine() -> None:
    """Firing inside a hook, async or sync, returns a separate verdict."""
    engines: list[Engine] = []

    @on(UserPromptSubmit)
    async def outer(event: UserPromptSubmit) -> Answer:
        inner = await engines[0].fire(BASH)
        again = engines[0].fire_sync(BASH)
        return inject(f"{inner.decision} {again.decision}")

    engines.append(Engine([outer, on(PreToolUse, name="no")(lambda event: deny("no"))]))
    verdict = engines[0].fire_sync(UserPromptSubmit(prompt="hello"))
    assert verdict.context == ("deny deny",)
    assert [outcome.hook for outcome in verdict.outcomes] == ["outer"]


def test_fire_sync_inside_a_loop_raises_what_it_must() -> None:
    """Errors that are not a hook's come out of fire_sync in a running loop as well."""

    async def main() -> None:
        with pytest.raises(EventError):
            Engine([says("a")]).fire_sync({"hook_event_name": 5})
        assert Engine([says("a", deny("no"))]).fire_sync(BASH).denied

    asyncio.run(main())


# -- Stop and sessions ---------------------------------------------------------------------------------------------


def test_keep_going_on_stop() -> None:
    """On Stop a hook can keep the agent going; a stop beats it."""
    verdict = fire(says("a", keep_going("tests fail")), event=Stop())
    assert verdict.keep_going and verdict.reason == "tests fail"
    both = fire(says("a", keep_going("more")), says("b", stop("enough")), event=Stop())
    assert both.stop and not both.keep_going


def test_session_start_sources_of_the_lesson() -> None:
    """In the lesson's dialect SessionStart fires for startup and resume only."""
    asked: list[str] = []
    hook = Hook(name="x", run=lambda ctx: asked.append(ctx.event.source), dialect="lesson")  # type: ignore[attr-defined]
    for source in ("startup", "resume", "clear", "compact"):
        fire(hook, event=SessionStart(source=source))
    assert asked == ["startup", "resume"]


def test_durations_are_the_engine_s() -> None:
    """Outcomes carry how long each hook took, and the verdict how long all took."""

    @on(PreToolUse)
    async def nap(event: PreToolUse) -> None:
        await asyncio.sleep(0.03)

    verdict = fire(nap, says("quick"))
    assert verdict.outcomes[0].duration_ms >= 29
    assert verdict.outcomes[1].duration_ms < verdict.outcomes[0].duration_ms
    assert verdict.duration_ms >= 29


def test_awaitable_type_is_exported() -> None:
    """`fire` is a coroutine function: tasks and asyncio.run take what it returns."""

    async def main() -> Verdict:
        waiting: Awaitable[Verdict] = asyncio.create_task(Engine().fire(BASH))
        return await waiting

    assert asyncio.run(main()).decision is Decision.NONE


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        pytest.param(lambda: deny(OSError("policy file missing")), "policy file missing", id="an exception"),  # type: ignore[arg-type]
        pytest.param(lambda: deny(5), "5", id="a number"),  # type: ignore[arg-type]
        pytest.param(lambda: Answer(decision="deny", reason=None, extras=None), "", id="None"),  # type: ignore[arg-type]
    ],
)
@pytest.mark.parametrize("parallel", [False, True], ids=["in turn", "at once"])
def test_a_reason_that_is_no_text_does_not_lose_the_deny(answer: Any, reason: str, parallel: bool) -> None:
    """An author's mistake in an answer is fixed; `fire` never raises for it."""
    hooks = [
        on(PreToolUse, name="first")(lambda event: inject("hi")),
        on(PreToolUse, name="second")(lambda event: answer()),
    ]

    verdict = Engine(hooks, parallel=parallel).fire_sync(PreToolUse(tool_name="Bash", tool_input={}))

    assert (verdict.decision, verdict.reason) == ("deny", reason)


def test_an_input_that_is_no_dict_is_a_failure() -> None:
    """A rewrite that no tool could take is not taken."""
    hook = on(PreToolUse, name="odd", on_failure="deny")(lambda event: rewrite(input="rm -rf"))  # type: ignore[arg-type]

    verdict = Engine([hook]).fire_sync(PreToolUse(tool_name="Bash", tool_input={}))

    assert verdict.denied
    assert "it must be a dict" in verdict.reason


def test_a_condition_that_raises_is_not_silent() -> None:
    """The hook is skipped, as in seed 002, and the verdict's warnings name it."""

    def torn(ctx: Context) -> bool:
        raise RuntimeError("no idea")

    verdict = Engine([on(PreToolUse, name="guard", condition=torn)(lambda event: deny("no"))]).fire_sync(
        PreToolUse(tool_name="Bash", tool_input={})
    )

    assert verdict.warnings == ["hook `guard` was skipped: its condition raised RuntimeError: no idea"]


def test_a_hook_that_ignores_everything_does_not_keep_the_process(tmp_path: Path) -> None:
    """A coroutine that was left behind is not closed once more when the interpreter ends: that could take for ever."""
    script = tmp_path / "agent.py"
    script.write_text(
        "import asyncio\n"
        "from billhook import Engine, PreToolUse, on\n"
        "@on(PreToolUse, timeout=0.1)\n"
        "async def stubborn(event):\n"
        "    while True:\n"
        "        try:\n"
        "            await asyncio.sleep(100)\n"
        "        except BaseException:\n"
        "            pass\n"
        "print(Engine([stubborn]).fire_sync(PreToolUse(tool_name='x', tool_input={})).outcomes[0].status)\n"
    )

    ended = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, timeout=60, check=False)

    assert (ended.returncode, ended.stdout) == (0, "timed_out\n")

"""Parallel mode: at once, on the original input, folded in configured order."""

import asyncio
import random
import time
from typing import Any

import pytest

from billhook import (
    Answer,
    Context,
    Decision,
    Engine,
    Hook,
    PreToolUse,
    Verdict,
    allow,
    deny,
    inject,
    on,
    rewrite,
    stop,
)

BASH = PreToolUse(tool_name="Bash", tool_input={"command": "ls"}, session_id="s1")


def fire(*hooks: Hook, **options: Any) -> Verdict:
    return asyncio.run(Engine(hooks, parallel=True).fire(BASH, **options))


def napping(name: str, seconds: float, answer: Answer | None = None, **options: Any) -> Hook:
    @on(PreToolUse, name=name, **options)
    async def hook(event: PreToolUse) -> Answer | None:
        await asyncio.sleep(seconds)
        return answer

    return hook


def test_at_once() -> None:
    """Hooks with no dependency between them wait at the same time."""
    began = time.monotonic()
    verdict = fire(*(napping(str(i), 0.5) for i in range(20)))
    assert time.monotonic() - began < 5
    assert [outcome.hook for outcome in verdict.outcomes] == [str(i) for i in range(20)]


def test_configured_order_whatever_finishes_first() -> None:
    """Answers are folded as configured, not as they come."""
    for seed in range(5):
        naps = random.Random(seed)
        hooks = [napping(f"h{i}", naps.random() / 20, inject(str(i))) for i in range(8)]
        assert fire(*hooks).context == tuple("01234567")
    slow_first = napping("a", 0.05, rewrite(input={"command": "a"}))
    verdict = fire(slow_first, napping("b", 0.0, rewrite(input={"command": "b"})))
    assert verdict.tool_input == {"command": "b"}


def test_all_hooks_see_the_original_input() -> None:
    """No chaining: a rewrite is not seen by hooks of the same wave, nor by later ones."""
    seen: list[Any] = []
    look = on(PreToolUse, name="look", after=["a"])(lambda event: seen.append(event.tool_input))
    verdict = fire(napping("a", 0.001, rewrite(input={"command": "x"})), look)
    assert seen == [{"command": "ls"}]
    assert verdict.tool_input == {"command": "x"}


def test_dependencies_are_waited_for() -> None:
    """`after` makes waves: what a hook depends on is in its results, the deny of one wave skips the next."""
    seen: list[Any] = []

    @on(PreToolUse, after=["first"])
    def second(event: PreToolUse, ctx: Context) -> None:
        seen.append(list(ctx.results))

    fire(second, napping("first", 0.02))
    assert seen == [["first-PreToolUse"]]
    verdict = fire(second, napping("first", 0.0, deny("no")), napping("beside", 0.0))
    assert {outcome.hook: outcome.status.value for outcome in verdict.outcomes} == {
        "first": "ok",
        "beside": "ok",
        "second": "skipped",
    }
    assert "`first` answered deny" in verdict.outcomes[-1].error or "first" in verdict.outcomes[-2].error
    assert len(seen) == 1


def test_strictest_of_all_answers() -> None:
    """A deny that comes last wins over an allow that came first; a stop counts as well."""
    assert fire(napping("a", 0.0, allow()), napping("b", 0.03, deny("no"))).denied
    verdict = fire(napping("a", 0.0, allow()), napping("b", 0.01, stop("enough")))
    assert verdict.stop and verdict.denied


def test_deadlines() -> None:
    """Each hook has its own time; the event's deadline bounds all."""
    began = time.monotonic()
    verdict = fire(napping("a", 30, timeout=0.05), napping("b", 0.0, inject("b")), napping("c", 30), deadline=1.0)
    assert time.monotonic() - began < 5
    assert [outcome.status.value for outcome in verdict.outcomes] == ["timed_out", "ok", "timed_out"]
    assert verdict.context == ("b",)


def test_gate_runs_again_on_the_final_input() -> None:
    """A gate that judged the original input judges the rewritten one as well."""
    judged: list[str] = []

    @on(PreToolUse, on_failure="deny")
    async def gate(event: PreToolUse) -> Answer | None:
        await asyncio.sleep(0.001)
        judged.append(event.tool_input["command"])
        return deny("dangerous") if "rm" in event.tool_input["command"] else allow()

    assert fire(gate, napping("r", 0.0, rewrite(input={"command": "rm x"}))).denied
    assert judged == ["ls", "rm x"]
    judged.clear()
    assert fire(napping("r", 0.0, rewrite(input={"command": "pwd"})), gate).decision is Decision.ALLOW
    assert judged == ["ls", "pwd"]


def test_shared_state_and_own_deadlines() -> None:
    """Hooks of one firing share `ctx.state`; each has a separate deadline."""
    seen: dict[str, float] = {}

    def timed(name: str, timeout: float) -> Hook:
        async def run(ctx: Context) -> None:
            ctx.state[name] = True
            await asyncio.sleep(0.01)
            seen[name] = ctx.seconds_left
            assert set(ctx.state) == {"a", "b"}

        return Hook(name=name, run=run, timeout=timeout)

    verdict = fire(timed("a", 5), timed("b", 50))
    assert [outcome.error for outcome in verdict.outcomes] == ["", ""]
    assert 0 < seen["a"] < 5 < seen["b"] < 50


def test_keyboard_interrupt_propagates() -> None:
    """Ctrl-C ends the whole firing."""

    @on(PreToolUse)
    async def interrupted(event: PreToolUse) -> None:
        await asyncio.sleep(0.001)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fire(interrupted, napping("other", 0.001))

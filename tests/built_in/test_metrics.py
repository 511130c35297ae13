"""The metrics built-in: what it counts, what it leaves out, and that it stays small."""

import asyncio
import math
import random
import sys
import threading
import time
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from billhook import Answer, Context, Engine, Hook, deny
from billhook.builtins.metrics import Durations, HookStats, Metrics, Tally
from billhook.builtins.trackers import metrics
from billhook.core.events import PreToolUse, Stop
from billhook.store.log import OutcomeRecord

BASH = PreToolUse(session_id="s", transcript_path="", cwd="/", tool_name="Bash", tool_input={"command": "ls"})
STOP = Stop(session_id="s", transcript_path="", cwd="/")


def one(*outcomes: OutcomeRecord) -> HookStats:
    """The numbers of a single hook."""
    tally = Tally()
    for each in outcomes:
        tally.add(each)
    (stats,) = tally.stats()
    return stats


@pytest.mark.parametrize(
    ("outcome", "counted"),
    [
        pytest.param({}, {"runs": 1}, id="ok"),
        pytest.param({"decision": "deny"}, {"runs": 1, "denies": 1}, id="a deny"),
        pytest.param({"status": "skipped"}, {"skipped": 1}, id="skipped is no run"),
        pytest.param({"status": "background"}, {"background": 1}, id="a start in the background is no run"),
        pytest.param(
            {"status": "failed", "failed_open": True}, {"runs": 1, "failures": 1, "failed_open": 1}, id="fail"
        ),
        pytest.param({"status": "timed_out"}, {"runs": 1, "failures": 1, "timed_out": 1}, id="timeout"),
        pytest.param(
            {"status": "could_not_start"}, {"runs": 1, "failures": 1, "could_not_start": 1}, id="could not start"
        ),
        pytest.param({"status": "of a later version"}, {"runs": 1}, id="a status that we don't know"),
        pytest.param({"output_bytes": 300}, {"runs": 1, "output_bytes": 300, "output_max": 300}, id="output"),
    ],
)
def test_each_outcome_is_counted_as_what_it_is(outcome: dict[str, Any], counted: dict[str, int]) -> None:
    """Failures of all kinds are runs, and a skipped hook is not."""
    found = one(OutcomeRecord(hook="a", duration_ms=5.0, **outcome))
    numbers = {key: getattr(found, key) for key in HookStats.__struct_fields__}
    expected: dict[str, Any] = {**dict.fromkeys(numbers, 0), "name": "a", "p50": None, "p95": None, "max": None}
    if counted.get("runs"):
        expected |= {"p50": 5.0, "p95": 5.0, "max": 5.0}

    assert numbers == expected | counted


def test_percentiles_are_those_of_the_nearest_rank() -> None:
    """Of 1 to 100 ms: 50, 95 and 100."""
    found = one(
        *(OutcomeRecord(hook="a", duration_ms=float(ms), output_bytes=ms) for ms in random.sample(range(1, 101), 100))
    )

    assert (found.p50, found.p95, found.max) == (50.0, 95.0, 100.0)
    assert (found.output_bytes, found.output_max) == (5050, 100)


def test_a_hook_that_could_not_start_in_time_has_no_duration() -> None:
    """It counts as timed out, and does not make the others look fast."""
    found = one(OutcomeRecord(hook="a", status="timed_out", duration_ms=0.0), OutcomeRecord(hook="a", duration_ms=8.0))

    assert (found.runs, found.timed_out, found.p50) == (2, 1, 8.0)


def test_the_slowest_comes_first_and_what_never_ran_last() -> None:
    """By p95, then by name."""
    tally = Tally()
    for hook, ms in (("quick", 1.0), ("b", 20.0), ("a", 20.0)):
        tally.add(OutcomeRecord(hook=hook, duration_ms=ms))
    tally.add(OutcomeRecord(hook="idle", status="skipped"))
    tally.add(OutcomeRecord(hook="instant", duration_ms=0.0))

    assert [found.name for found in tally.stats()] == ["a", "b", "quick", "instant", "idle"]


@settings(max_examples=40, deadline=None)
@given(st.lists(st.floats(0.002, 1e8), min_size=1, max_size=300), st.integers(20, 60))
def test_percentiles_of_very_many_stay_near(some: list[float], times: int) -> None:
    """With many durations, a percentile is within two percent of the true one, and the longest is exact."""
    many = [ms for ms in some for _ in range(times * 300 // len(some) + 1)]
    durations = Durations()
    for ms in many:
        durations.add(ms)
    ranked = sorted(many)

    assert durations.max == ranked[-1]
    for share in (0.5, 0.95):
        true = ranked[max(1, math.ceil(share * len(ranked))) - 1]
        found = durations.percentile(share)
        assert found == pytest.approx(true, rel=0.02)


@pytest.mark.parametrize("odd", [float("nan"), float("inf"), -1.0, 0.0, 1e300])
def test_odd_durations_are_taken(odd: float) -> None:
    """A record that was edited by hand may contain anything; the numbers stay numbers."""
    durations = Durations()
    for _ in range(5000):
        durations.add(odd)
    for share in (0.5, 0.95):
        found = durations.percentile(share)
        assert found is not None
        assert 0 <= found <= max(1e9 * 1.02, durations.max)


def test_memory_does_not_grow_with_the_outcomes() -> None:
    """A hundred thousand durations take no more than a few thousand do."""
    durations, chance = Durations(), random.Random(5)
    for _ in range(100_000):
        durations.add(chance.lognormvariate(3, 3))

    assert durations.count == 100_000
    assert len(durations._exact) == 0
    assert len(durations._classes) < 1400
    assert sys.getsizeof(durations._classes) < 1 << 17


def test_the_hook_tells_later_hooks_the_budget() -> None:
    """It is first in order, runs at every event, and `ctx.find` has its data."""
    seen: list[Any] = []

    def later(ctx: Context) -> None:
        found = ctx.find("metrics")
        assert found is not None
        seen.append((ctx.event_type, found.data))

    engine = Engine([Hook(name="later", run=later, priority=2), metrics(warn_ms=250)])
    engine.fire_sync(BASH)
    verdict = engine.fire_sync(STOP)

    assert seen == [("PreToolUse", {"warnMs": 250}), ("Stop", {"warnMs": 250})]
    assert [outcome.hook for outcome in verdict.outcomes] == ["metrics", "later"]
    assert verdict.outcomes[0].source == "built-in"


def test_a_program_without_a_log_has_the_same_numbers() -> None:
    """An engine with `observe` as its observer: runs, failures, denies and what was skipped."""

    def raises(ctx: Context) -> Answer:
        raise RuntimeError("no")

    def slow(ctx: Context) -> None:
        time.sleep(0.02)

    hooks = [
        Hook(name="slow", run=slow, priority=10),
        Hook(name="raises", run=raises, priority=20),
        Hook(name="guard", run=lambda ctx: deny("no"), events=("PreToolUse",), priority=30),
        Hook(name="after", run=lambda ctx: None, priority=40),
    ]
    own = Metrics(warn_ms=10)
    engine = Engine([own.hook, *hooks], observers=[own.observe])
    for _ in range(3):
        engine.fire_sync(BASH)
    engine.fire_sync(STOP)
    found = {stats.name: stats for stats in own.stats()}

    assert own.stats()[0].name == "slow"
    assert [stats.name for stats in own.slow()] == ["slow"]
    assert found["slow"].p50 is not None
    assert found["slow"].p50 >= 20
    assert (found["raises"].runs, found["raises"].failures, found["raises"].failed_open) == (4, 4, 4)
    assert (found["guard"].runs, found["guard"].denies) == (3, 3)
    assert (found["after"].runs, found["after"].skipped) == (1, 3)
    assert found["metrics"].runs == 4


def test_many_threads_share_one() -> None:
    """No outcome is lost."""
    own = Metrics()
    engine = Engine([Hook(name="a", run=lambda ctx: None)], observers=[own.observe])

    def fire() -> None:
        for _ in range(200):
            asyncio.run(engine.fire(BASH))

    threads = [threading.Thread(target=fire) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert own.stats()[0].runs == 800


@pytest.mark.parametrize(
    ("p95", "warn_ms", "over"), [(10.0, 5.0, True), (5.0, 5.0, False), (10.0, None, False), (None, 5.0, False)]
)
def test_over_the_budget(p95: float | None, warn_ms: float | None, over: bool) -> None:
    """Strictly over; without a budget or a run nothing is."""
    assert HookStats(name="a", p95=p95).over(warn_ms) is over

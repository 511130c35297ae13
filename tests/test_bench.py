"""The speed measurements as a program: what they print, how they exit. Never the ratios: these need a quiet machine."""

import asyncio
import importlib
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="measured on Linux")

BENCHMARKS = Path(__file__).parent.parent / "benchmarks"
KEYS = {"goal": int, "name": str, "against": str, "ratio": float, "at_most": float, "ok": bool}


def bench(*arguments: str, passes: str = "2") -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "BILLHOOK_BENCH_PASSES": passes}
    argv = [sys.executable, str(BENCHMARKS / "run.py"), *arguments]
    return subprocess.run(argv, env=env, capture_output=True, text=True, timeout=120, check=False)


@pytest.fixture
def module(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A module of the benchmarks by its name."""
    monkeypatch.syspath_prepend(BENCHMARKS)
    return importlib.import_module


def test_json_is_one_object_a_line_and_nothing_else() -> None:
    """A CI job reads goal, name, against, ratio, at_most and ok; the exit code tells whether all goals hold."""
    ended = bench("--only", "10,11", "--json")
    rows = [json.loads(line) for line in ended.stdout.splitlines()]
    assert {row["goal"] for row in rows} == {10, 11}
    for row in rows:
        assert {key: type(value) for key, value in row.items()} == KEYS
        assert row["ratio"] > 0
    assert ended.returncode == (0 if all(row["ok"] for row in rows) else 1)


def test_the_table_names_the_machine_and_counts_at_its_end() -> None:
    """People see the Python, the load before and after, every goal, and how many hold."""
    ended = bench("--only", "10")
    lines = ended.stdout.splitlines()
    assert lines[0].startswith("Python 3.") and "load average" in lines[0] and lines[0].endswith("before")
    assert any(line.strip().startswith("10  ") for line in lines)
    assert lines[-2].startswith("load average") and lines[-2].endswith("after")
    assert lines[-1] in ("0 of 1 hold", "1 of 1 hold")


def test_progress_is_plain_lines_on_stderr() -> None:
    """Each goal is printed before it is measured, without control characters."""
    told = bench("--only", "10", "--json").stderr
    assert told.startswith("measuring goal 10: ")
    assert all(char.isprintable() or char == "\n" for char in told)


@pytest.mark.parametrize(
    ("arguments", "passes", "named"),
    [
        (("--only", "10,99"), "2", "no goal `99`"),
        (("--only", ""), "2", "no goal ``"),
        (("--only", "10"), "none", "BILLHOOK_BENCH_PASSES is `none`"),
        (("--quick",), "2", "--quick"),
    ],
)
def test_bad_usage_exits_with_2(arguments: tuple[str, ...], passes: str, named: str) -> None:
    """Nothing is measured, nothing is printed on stdout, and the message names what was wrong."""
    ended = bench(*arguments, passes=passes)
    assert (ended.returncode, ended.stdout) == (2, "")
    assert named in ended.stderr


def test_a_missing_peer_is_an_error_and_not_a_win(module: Any) -> None:
    """It names the goal, the peer, and the script that installs it."""
    run, harness = module("run"), module("harness")
    with pytest.raises(run.CannotMeasureError) as raised:
        run.check_peers([harness.Goal(3, "a goal", None, needs=("no_such_peer",))])
    assert raised.value.args == (
        "goal 3 is measured against `no_such_peer`, which is not installed",
        "scripts/bench installs it",
    )


@pytest.mark.parametrize(("second", "ok"), [(1.0, True), (4.0, False)])
def test_a_miss_counts_only_when_it_misses_twice(module: Any, second: float, ok: bool) -> None:
    """A row that missed may pass in the second measurement; the lower ratio is shown."""
    harness = module("harness")
    sample, calls = 1e6, harness.WARM_UP + 2  # to learn how often, and one pass
    times = iter([3.0 * sample] * calls + [second * sample] * calls)

    async def ours(count: int) -> float:
        return next(times)

    async def other(count: int) -> float:
        return sample

    trial = harness.Trial("trial", {"ours": ours, "other": other}, [harness.Bar("ours", "other", 2.0)], 1)
    (row,) = asyncio.run(harness.measure(6, trial))
    assert (row.ok, row.ratio) == (ok, min(3.0, second))


def test_every_goal_has_a_number_of_its_own(module: Any) -> None:
    """`--only` picks by number."""
    numbers = [goal.number for goal in module("run").GOALS]
    assert len(numbers) == len(set(numbers)) and {*range(6, 16), 23} <= {*numbers}


def test_loading_again_is_measured_against_a_first_load(module: Any) -> None:
    """The hooks are approved and run; a cached configuration is the same object, a dropped one is loaded again."""
    loading = module("loading")
    home = os.environ.get("HOME")
    with loading.approved_project(3) as load:
        kept = load()
        assert [entry.state for entry in kept.entries] == ["runs"] * 3
        assert load() is kept
        loading.forget()
        assert load() is not kept and load().entries == kept.entries
        assert os.environ["HOME"] == os.path.join(os.path.dirname(kept.project), "home")
    assert os.environ.get("HOME") == home and not os.path.exists(kept.project)


def test_the_goal_about_loading_is_one_row() -> None:
    """Loading again against the first load."""
    ended = bench("--only", "23", "--json", passes="1")
    (row,) = [json.loads(line) for line in ended.stdout.splitlines()]
    assert (row["goal"], row["name"], row["against"]) == (23, "load again, 200 hooks", "first load")
    assert row["at_most"] == 0.05


def test_a_tool_call_passes_through_few_modules_of_the_daemon() -> None:
    """What an agent's usual call costs grows by one module at a time, which no ratio shows."""
    argv = [sys.executable, str(BENCHMARKS / "trace_modules.py")]
    ended = subprocess.run(argv, capture_output=True, text=True, timeout=120, check=True)
    *modules, total = ended.stdout.splitlines()
    assert total.endswith(f"calls in {len(modules)} modules")
    assert len(modules) <= 23, ended.stdout

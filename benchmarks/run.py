"""Print every goal about speed as a ratio against its limit and against the best peer, all measured in this run.

    scripts/bench [--only 6,12] [--json]

Exit code 0: all goals hold; 1: some do not; 2: they could not be measured. BILLHOOK_BENCH_PASSES=2 makes the run short
and its ratios meaningless: for the tests of this script.
"""

import argparse
import asyncio
import importlib.util
import os
import sys
from collections.abc import Sequence
from contextlib import aclosing

import dispatch
import guarding
import json_path
import loading
import log_reading
import logging_cost
import matching
import processes
import replaying
import report
import rule_tests
import telemetry
import together
import viewers
import warm
from harness import Goal, Row, measure, passes

GOALS: tuple[Goal, ...] = (
    *warm.GOALS,
    *processes.GOALS,
    *dispatch.GOALS,
    *json_path.GOALS,
    *matching.GOALS,
    *guarding.GOALS,
    *logging_cost.GOALS,
    *log_reading.GOALS,
    *replaying.GOALS,
    *loading.GOALS,
    *rule_tests.GOALS,
    *viewers.GOALS,
    *telemetry.GOALS,
    *together.GOALS,
)
"""All goals. Add a new goal to a module's GOALS, and a new module to this list."""


class CannotMeasureError(Exception):
    """Why it can't be measured, and how to fix that."""


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="scripts/bench", description="Measure the goals about speed, as ratios against limits and peers."
    )
    parser.add_argument("--only", metavar="6,12", help="measure only these goals")
    parser.add_argument("--json", action="store_true", help="print one object a line and nothing else")
    options = parser.parse_args(arguments)
    try:
        goals = pick(options.only)
        check_peers(goals)
        check_passes(os.environ.get("BILLHOOK_BENCH_PASSES", ""))
    except CannotMeasureError as error:
        what, hint = error.args
        print(f"error: {what}\n\nhint: {hint}", file=sys.stderr)
        return 2
    try:
        rows = asyncio.run(measure_all(goals, as_json=options.json))
    except KeyboardInterrupt:
        return 130
    return 0 if all(row.ok for row in rows) else 1


def pick(only: str | None) -> list[Goal]:
    """The goals that `--only` names, in their usual order; without it, all."""
    goals = {str(goal.number): goal for goal in sorted(GOALS, key=lambda goal: goal.number)}
    if only is None:
        return list(goals.values())
    wanted = {word.strip() for word in only.split(",")}
    for unknown in sorted(wanted - goals.keys()):
        raise CannotMeasureError(f"no goal `{unknown}`", f"one of {', '.join(goals)}")
    return [goal for name, goal in goals.items() if name in wanted]


def check_peers(goals: Sequence[Goal]) -> None:
    """Refuse to run without a peer: a missing one must not look like a slower one."""
    for goal in goals:
        for module in goal.needs:
            if importlib.util.find_spec(module) is None:
                what = f"goal {goal.number} is measured against `{module}`, which is not installed"
                raise CannotMeasureError(what, "scripts/bench installs it")


def check_passes(value: str) -> None:
    if value and not (value.isdecimal() and int(value) > 0):
        raise CannotMeasureError(f"BILLHOOK_BENCH_PASSES is `{value}`", "a number from 1, or unset it")


async def measure_all(goals: Sequence[Goal], *, as_json: bool) -> list[Row]:
    processes.watch_children_well()
    rows: list[Row] = []
    if not as_json:
        print(report.head(), flush=True)
    for goal in goals:
        measured = await measure_goal(goal)
        print(report.json_lines(goal, measured) if as_json else report.table(goal, measured), flush=True)
        rows += measured
    if not as_json:
        print(report.foot(rows), flush=True)
    return rows


async def measure_goal(goal: Goal) -> list[Row]:
    rows: list[Row] = []
    async with aclosing(goal.trials()) as trials:
        async for trial in trials:
            what = f"goal {goal.number}: {', '.join(trial.cases)} ({trial.name}, {passes(trial)} passes)"
            print(f"measuring {what} ...", file=sys.stderr, flush=True)
            rows += await measure(goal.number, trial)
    return rows


if __name__ == "__main__":
    sys.exit(main())

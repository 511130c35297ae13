"""Measure cases side by side: every pass runs each case once, in random order, so that noise affects all alike.

A goal is a list of trials, a trial has a few cases and the bars between them, a bar is one ratio of medians. Times are
never compared with a fixed number, only with each other.
"""

import asyncio
import math
import os
import random
import statistics
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import TypeVar

T = TypeVar("T")

Case = Callable[[int], Awaitable[float]]
"""Does its work so many times in sequence, and returns the nanoseconds for all of it."""

PROCESSES = 200
"""Passes over cases that start processes."""
LOOPS = 300
"""Passes over cases that stay inside this process."""
WARM_UP = 3
_SAMPLE_NS = 200_000
"""The minimum time of one sample. Short, and about the same for all: on a busy machine a sample as long as a time slice
includes time of other processes, and the slower of two cases would look even slower."""


@dataclass(frozen=True)
class Bar:
    """`ours` may take at most so many times as long as `against`; both are names of cases."""

    ours: str
    against: str
    at_most: float = math.inf
    """Without it, the ratio is only reported."""
    quantile: float = 0.5
    """The quantile that is compared: the median, or 0.99 for the slowest in a hundred."""


@dataclass(frozen=True)
class Trial:
    """Cases that are measured together."""

    name: str
    cases: Mapping[str, Case]
    bars: Sequence[Bar]
    passes: int


@dataclass(frozen=True)
class Goal:
    """One promise about speed. `trials` sets up, yields, and cleans up."""

    number: int
    title: str
    trials: Callable[[], AsyncGenerator[Trial, None]]
    needs: tuple[str, ...] = ()
    """The peers that must be installed."""


@dataclass(frozen=True)
class Row:
    """One comparison, measured."""

    goal: int
    name: str
    against: str
    ours_ns: float
    other_ns: float
    at_most: float

    @property
    def ratio(self) -> float:
        return self.ours_ns / self.other_ns

    @property
    def ok(self) -> bool:
        return self.ratio <= self.at_most


def looped(function: Callable[[T], object], argument: T) -> Case:
    """A function as a case. Called directly: a lambda around it would slow down a fast case more than a slow one."""

    async def case(count: int) -> float:
        began = time.perf_counter_ns()
        for _ in range(count):
            function(argument)
        return time.perf_counter_ns() - began

    return case


def awaited(function: Callable[[T], Awaitable[object]], argument: T) -> Case:
    """A coroutine function as a case, awaited in the running loop, as in an agent."""

    async def case(count: int) -> float:
        began = time.perf_counter_ns()
        for _ in range(count):
            await function(argument)
        return time.perf_counter_ns() - began

    return case


async def measure(goal: int, trial: Trial) -> list[Row]:
    """The trial's rows. A case that misses its bar is measured again, and counts as missed only if it misses twice."""
    rows = await _rows(goal, trial)
    if all(row.ok for row in rows):
        return rows
    again = await _rows(goal, trial)
    ratio = attrgetter("ratio")
    return [first if first.ok else min(first, second, key=ratio) for first, second in zip(rows, again, strict=True)]


async def _rows(goal: int, trial: Trial) -> list[Row]:
    taken = await _times(trial)

    def row(bar: Bar) -> Row:
        rank = "" if bar.quantile == 0.5 else f", p{bar.quantile * 100:g}"
        ours, other = (at_quantile(taken[name], bar.quantile) for name in (bar.ours, bar.against))
        return Row(goal, f"{bar.ours}, {trial.name}{rank}", bar.against, ours, other, bar.at_most)

    return [row(bar) for bar in trial.bars]


def at_quantile(times: Sequence[float], quantile: float) -> float:
    """The time that this share of the times does not exceed."""
    if quantile == 0.5:
        return statistics.median(times)
    return sorted(times)[min(len(times) - 1, int(len(times) * quantile))]


async def _times(trial: Trial) -> dict[str, list[float]]:
    # The garbage collector stays on, as users have it, for all cases alike.
    counts = {name: await _warm_up(case) for name, case in trial.cases.items()}
    taken: dict[str, list[float]] = {name: [] for name in trial.cases}
    order = list(trial.cases)
    for _ in range(passes(trial)):
        random.shuffle(order)
        for name in order:
            await asyncio.sleep(0)  # leftovers of the previous case in the loop must not count for this one
            taken[name].append(await trial.cases[name](counts[name]) / counts[name])
    return taken


async def _warm_up(case: Case) -> int:
    """How often the case does its work in one sample."""
    for _ in range(WARM_UP):
        await case(1)
    count = 1
    while await case(count) < _SAMPLE_NS:
        count *= 2
    return count


def passes(trial: Trial) -> int:
    """As many as the trial defines, or fewer with BILLHOOK_BENCH_PASSES."""
    return min(trial.passes, int(os.environ.get("BILLHOOK_BENCH_PASSES") or trial.passes))

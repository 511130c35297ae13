"""Measure cases side by side: every pass runs each of them once, in random order, so that neighbours hit all alike.

A goal is a list of trials, a trial a few cases and the bars between them, a bar one ratio of medians. Times of one
machine are never compared with a number, only with each other.
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
"""Does its work so many times, one after the other, and returns the nanoseconds that all of it took."""

PROCESSES = 200
"""Passes over cases that start processes."""
LOOPS = 300
"""Passes over cases that stay inside this process."""
WARM_UP = 3
_SAMPLE_NS = 200_000
"""How long one sample takes at least. Short, and about the same for all: on a busy machine a sample as long as a time
slice holds somebody else's, and the slower of two cases would look slower still."""


@dataclass(frozen=True)
class Bar:
    """`ours` may take at most so many times as long as `against`; both are names of cases."""

    ours: str
    against: str
    at_most: float = math.inf
    """Without it, the ratio is reported and holds whatever it is."""
    quantile: float = 0.5
    """Which of the times are compared: the median, or 0.99 for what one in a hundred waits."""


@dataclass(frozen=True)
class Trial:
    """Cases that are measured together."""

    name: str
    cases: Mapping[str, Case]
    bars: Sequence[Bar]
    passes: int


@dataclass(frozen=True)
class Goal:
    """One promise about speed. `trials` makes what it needs, yields, and cleans up."""

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
    """A function as a case. Called directly: a lambda around it would weigh on the quick one more than on the slow."""

    async def case(count: int) -> float:
        began = time.perf_counter_ns()
        for _ in range(count):
            function(argument)
        return time.perf_counter_ns() - began

    return case


def awaited(function: Callable[[T], Awaitable[object]], argument: T) -> Case:
    """A coroutine function as a case, awaited in the loop that runs already, as an agent would."""

    async def case(count: int) -> float:
        began = time.perf_counter_ns()
        for _ in range(count):
            await function(argument)
        return time.perf_counter_ns() - began

    return case


async def measure(goal: int, trial: Trial) -> list[Row]:
    """The trial's rows. What misses its bar is measured once more, and counts as missed only when it misses again."""
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
    """So many of the times are not longer."""
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
            await asyncio.sleep(0)  # what the case before left to the loop is not billed to this one
            taken[name].append(await trial.cases[name](counts[name]) / counts[name])
    return taken


async def _warm_up(case: Case) -> int:
    """How many times the case does its work in one sample."""
    for _ in range(WARM_UP):
        await case(1)
    count = 1
    while await case(count) < _SAMPLE_NS:
        count *= 2
    return count


def passes(trial: Trial) -> int:
    """As many as the trial asks for, or fewer when BILLHOOK_BENCH_PASSES says so."""
    return min(trial.passes, int(os.environ.get("BILLHOOK_BENCH_PASSES") or trial.passes))

"""How often each hook ran, with which result and how long it took; and the latency budget for hooks.

The numbers come from outcomes, after the fold: a hook can't time itself. `billhook events stats` computes them from
the event log; a program without a log passes `Metrics` to an engine:

    metrics = Metrics(warn_ms=250)
    engine = Engine([metrics.hook, *hooks], observers=[metrics.observe])
    ...
    for hook in metrics.stats():
        print(hook.name, hook.runs, hook.p95)
"""

import math
from collections import Counter, defaultdict
from typing import Final

import msgspec

from billhook.builtins.trackers import WARN_MS, metrics
from billhook.core.answers import FAILURES, Outcome, Status, Verdict
from billhook.store.log import OutcomeRecord

_EXACT: Final = 4096
"""Durations of one hook that are kept as they are; with more, all go into classes that are 2 percent wide."""
_WIDTH: Final = math.log(1.02)
_SHORTEST, _LONGEST = 1e-3, 1e9
"""Milliseconds. Everything beyond counts as this, so that there are never more than 1,400 classes."""


class HookStats(msgspec.Struct, frozen=True, kw_only=True):
    """One hook over some events. Times are in milliseconds, over the runs; None where it never ran."""

    name: str
    runs: int = 0
    """How often it ran and answered or failed. A skipped hook does not count; nor does the start in the background,
    whose answer counts when it arrives."""
    skipped: int = 0
    background: int = 0  # how often it was started in the background
    failures: int = 0  # of all kinds: the next two are among them
    timed_out: int = 0
    could_not_start: int = 0
    failed_open: int = 0
    denies: int = 0
    p50: float | None = None
    p95: float | None = None
    max: float | None = None
    output_bytes: int = 0
    output_max: int = 0

    def over(self, warn_ms: float | None) -> bool:
        """Whether more than one run in twenty takes longer than the budget."""
        return warn_ms is not None and self.p95 is not None and self.p95 > warn_ms


class Durations:
    """Any number of durations in bounded memory. Percentiles are exact up to 4,096 of them, then within 2 percent."""

    def __init__(self) -> None:
        self.count = 0
        self.max = 0.0
        self._exact: list[float] = []
        self._classes: Counter[int] = Counter()

    def add(self, ms: float) -> None:
        ms = ms if 0 <= ms < math.inf else 0.0  # a record that was edited by hand may contain anything
        self.count += 1
        self.max = max(self.max, ms)
        if self._classes:
            self._classes[_class_of(ms)] += 1
            return
        self._exact.append(ms)
        if len(self._exact) > _EXACT:
            self._classes.update(map(_class_of, self._exact))
            self._exact = []

    def percentile(self, share: float) -> float | None:
        """The smallest duration that this share of all durations does not exceed."""
        if not self.count:
            return None
        rank = max(1, math.ceil(share * self.count))
        if self._exact:
            return sorted(self._exact)[rank - 1]
        for number in sorted(self._classes):
            rank -= self._classes[number]
            if rank <= 0:
                return min(math.exp((number + 0.5) * _WIDTH), self.max)
        return self.max


def _class_of(ms: float) -> int:
    return math.floor(math.log(min(max(ms, _SHORTEST), _LONGEST)) / _WIDTH)


class _HookCounts:
    def __init__(self) -> None:
        self.statuses: Counter[str] = Counter()
        self.durations = Durations()
        self.failed_open = self.denies = self.output_bytes = self.output_max = 0

    def add(self, outcome: OutcomeRecord) -> None:
        self.statuses[outcome.status if outcome.status in _KNOWN else "other"] += 1
        if outcome.status in _NO_RUN:
            return
        self.failed_open += outcome.failed_open
        self.denies += outcome.decision == "deny"
        output = max(0, outcome.output_bytes or 0)
        self.output_bytes += output
        self.output_max = max(self.output_max, output)
        if outcome.duration_ms or outcome.status != Status.TIMED_OUT:  # it can time out before it starts
            self.durations.add(outcome.duration_ms)

    def stats(self, name: str) -> HookStats:
        statuses, durations = self.statuses, self.durations
        return HookStats(
            name=name,
            runs=statuses.total() - sum(statuses[status] for status in _NO_RUN),
            skipped=statuses[Status.SKIPPED],
            background=statuses[Status.BACKGROUND],
            failures=sum(statuses[status] for status in FAILURES),
            timed_out=statuses[Status.TIMED_OUT],
            could_not_start=statuses[Status.COULD_NOT_START],
            failed_open=self.failed_open,
            denies=self.denies,
            p50=durations.percentile(0.50),
            p95=durations.percentile(0.95),
            max=durations.max if durations.count else None,
            output_bytes=self.output_bytes,
            output_max=self.output_max,
        )


_NO_RUN: Final = (Status.SKIPPED, Status.BACKGROUND)
_KNOWN: Final = frozenset(Status)


class Tally:
    """Counts outcomes by hook. Lives as long as its owner; its memory does not grow with the outcomes."""

    def __init__(self) -> None:
        self._hooks: defaultdict[str, _HookCounts] = defaultdict(_HookCounts)

    def add(self, said: OutcomeRecord) -> None:
        self._hooks[said.hook].add(said)

    def stats(self) -> tuple[HookStats, ...]:
        """Every hook, the slowest first: by p95, then by name."""
        every = [hook.stats(name) for name, hook in self._hooks.items()]
        return tuple(sorted(every, key=lambda one: (-(one.p95 if one.p95 is not None else -1.0), one.name)))


class Metrics:
    """Metrics of one process, without a log. Pass `observe` to an engine as an observer, and `hook` if later hooks need
    the budget. Any number of threads and engines may share one."""

    def __init__(self, *, warn_ms: float | None = WARN_MS) -> None:
        from threading import Lock

        self.warn_ms = warn_ms
        self.hook = metrics(warn_ms=warn_ms)
        self._tally = Tally()
        self._lock = Lock()

    def observe(self, verdict: Verdict) -> None:
        """Count the outcomes of a verdict."""
        with self._lock:
            for outcome in verdict.outcomes:
                self._tally.add(_outcome_record(outcome))

    def stats(self) -> tuple[HookStats, ...]:
        """Every hook that had an outcome, the slowest first."""
        with self._lock:
            return self._tally.stats()

    def slow(self) -> tuple[HookStats, ...]:
        """The hooks over the budget."""
        return tuple(one for one in self.stats() if one.over(self.warn_ms))


def _outcome_record(outcome: Outcome) -> OutcomeRecord:
    return OutcomeRecord(
        hook=outcome.hook,
        status=outcome.status.value,
        decision=outcome.answer.decision.value,
        failed_open=outcome.failed_open,
        duration_ms=outcome.duration_ms,
        output_bytes=getattr(outcome, "output_bytes", None),
    )

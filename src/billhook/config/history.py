"""What the event log knows of the hooks that are configured: when each was last asked, which never was though its event
occurred, which are slow.

Only the newest part of a log is looked at, so that no verb takes longer the longer billhook is used.
"""

import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec

from billhook.builtins.metrics import HookStats, Tally
from billhook.builtins.trackers import METRICS, WARN_MS, ContextBudget
from billhook.config.config import Config, HookRow, as_data, kept, rows
from billhook.config.declaration import CONDITION_KEYS
from billhook.config.trust import TRUST
from billhook.core.answers import Skipped, SkipReason
from billhook.store.files import log_folder
from billhook.store.log.record import OutcomeRecord, Record, Wanted

if TYPE_CHECKING:
    from billhook.store.log.reader import LogReader

LARGEST: Final = 64 << 20  # bytes of a log that are looked at, from its end
_RUNS: Final = 200
"""The newest runs of a hook that tell whether it is slow: what was mended since then does not count for ever."""
_CONFIGURATIONS: Final = 100  # kept configurations that are read for one look
_NUMBER: Final = re.compile(r"[1-9][0-9]{0,8}", re.ASCII)
_SAME: Final = ("events", "match", *CONDITION_KEYS, "dialect", "state")
"""What decides whether a hook is asked about an event. Only hooks that run today are looked at."""
_DOES_THE_SAME: Final = ("what", "kind", "hash")  # what decides how long it takes
NOT_WANTED: Final = frozenset({SkipReason.NOT_MATCHED, SkipReason.CONDITION_FALSE, SkipReason.CONDITION_RAISED})
"""Reasons that lie with the hook's own conditions."""
_TELLING: Final = NOT_WANTED | {SkipReason.DENIED, SkipReason.STOPPED}
"""The same, and another hook that ended the run before. Other reasons don't tell when the hook would run."""


def log_of(config: Config) -> "LogReader | None":
    """The log of a project; None: there is none yet."""
    from billhook.store.log.reader import LogReader

    root = Path(config.root)
    folder = log_folder(root, config.project)
    return LogReader(folder, root) if os.path.lexists(folder) else None


def budget_of(config: Config) -> float | None:
    """The latency budget in milliseconds; None: the metrics are switched off."""
    for hook in config.hooks:
        if hook.source.layer == "built-in" and isinstance(hook.run, ContextBudget):
            return hook.run.warn_ms
    setting = config.builtins.get(METRICS)
    return None if setting is not None and setting.enabled is False else WARN_MS


class LogTailScan:
    """The newest records of one project, newest first, up to a number of bytes. For one pass."""

    def __init__(self, log: "LogReader", project: str, at_most: int = LARGEST) -> None:
        self._log, self._project, self._left = log, project, at_most
        self.events = 0  # how many were looked at
        self.complete = False  # there are no more of them

    def __iter__(self) -> Iterator[Record]:
        for entry in self._log.backward(Wanted(project=self._project)):
            self._left -= len(entry.line)
            if self._left < 0:
                return
            self.events += 1
            record = entry.record
            elsewhere = () if record.side is None else record.side.fields
            yield record if {"outcomes", "not_asked"}.isdisjoint(elsewhere) else self._log.whole(record)
        self.complete = True


# -- when each was last asked


class LastFired(msgspec.Struct, frozen=True):
    """When hooks were last asked."""

    times: dict[str, str]  # By name, as records have it. One that is missing was not asked in these events.
    events: int
    complete: bool  # these are all events of the log


def last_fired(
    log: "LogReader", project: str, names: Iterable[str], at_most: int = LARGEST, known_as: "KnownAs | None" = None
) -> LastFired:
    """When each of these hooks was last run, by today's name. `known_as` knows their names of earlier times."""
    missing = set(names)
    times: dict[str, str] = {}
    look = LogTailScan(log, project, at_most)
    for record in look:
        today = known_as.of(record.config) if known_as is not None else {}
        for name in missing.intersection(today.get(then, then) for then in asked(record)):
            times[name] = record.time
            missing.discard(name)
        if not missing:
            break
    return LastFired(times, look.events, look.complete)


def asked(record: Record) -> Iterator[str]:
    """The hooks that were asked, whatever came of it."""
    return (said.hook for said in record.outcomes if said.status != "skipped")


# -- what hooks were called


class KnownAs:
    """What some of today's hooks were called under earlier configurations: a name has its layer before it, and a
    number behind it, only while there is another one like it."""

    def __init__(self, hooks: Iterable[HookRow], root: Path) -> None:
        self._today = {_key(row.name, row.layer): row.name for row in hooks}
        self._root = root
        self._known: dict[str, dict[str, str]] = {}

    def of(self, hash_: str) -> dict[str, str]:
        """Names of that time, each with today's, empty if there is none. A name that is missing was the same."""
        if hash_ not in self._known:
            snapshot = kept(self._root, hash_) if hash_ and len(self._known) < _CONFIGURATIONS else None
            self._known[hash_] = self.under(snapshot)
        return self._known[hash_]

    def under(self, snapshot: Mapping[str, Any] | None) -> dict[str, str]:
        """As `of`, for a configuration that was kept. Where none was, `layer/name` says it all."""
        if snapshot is None:
            before = [(f"{layer}/{name}", number, now) for (layer, name, number), now in self._today.items()]
            return {name if number == 1 else f"{name}#{number}": now for name, number, now in before}
        then = {name: _key(name, str(row.get("layer"))) for name, row in rows_of(snapshot).items()}
        found = {name: self._today.get(key, "") for name, key in then.items()}
        same = set(self._today.values()) - set(found.values())
        # A hook that moved to another layer keeps its name, unless somebody else has it.
        return {name: now or (name if name in same else "") for name, now in found.items()}


def rows_of(snapshot: Mapping[str, Any] | None) -> dict[str, Mapping[str, Any]]:
    """The hooks of a kept configuration by their names of that time."""
    hooks = (snapshot or {}).get("hooks")
    listed = hooks if isinstance(hooks, list) else ()
    return {str(row["name"]): row for row in listed if isinstance(row, dict) and "name" in row}


def _key(shown: str, layer: str) -> tuple[str, str, int]:
    plain = shown.removeprefix(f"{layer}/")
    base, _, number = plain.rpartition("#")
    return (layer, base, int(number)) if base and _NUMBER.fullmatch(number) else (layer, plain, 1)


# -- which never were, and which are slow


class Quiet(msgspec.Struct, frozen=True):
    """A hook that was never asked, although its event occurred while it was configured as it is today."""

    row: HookRow
    events: dict[str, int]  # how often which event occurred
    reasons: dict[str, int]
    """What kept it from being asked, and how often: one of NOT_WANTED, or who had ended the run before it."""
    last: str  # the id of the newest record that says so


class Slow(msgspec.Struct, frozen=True):
    """A hook over the latency budget."""

    row: HookRow
    stats: HookStats


class HookHistory(msgspec.Struct, frozen=True):
    """What a log says against hooks."""

    quiet: tuple[Quiet, ...]
    slow: tuple[Slow, ...]


def facts(log: "LogReader", config: Config) -> HookHistory:
    """What the newest events say against the configured hooks that run. Built-ins are not looked at."""
    hooks = {row.name: row for row in rows(config) if row.state == "runs" and row.declared is not None}
    gathered = _Gathered(hooks, Path(config.root))
    for record in LogTailScan(log, config.project) if hooks else ():
        gathered.add(record)
    warn_ms = budget_of(config)
    slow = [Slow(hooks[one.name], one) for one in gathered.tally.stats() if one.over(warn_ms)]
    return HookHistory(tuple(gathered.quiet()), tuple(slow))


class _Gathered:
    """What is seen of some hooks, newest record first."""

    def __init__(self, hooks: Mapping[str, HookRow], root: Path) -> None:
        self._hooks, self._root = hooks, root
        self._today = {name: as_data(row) for name, row in hooks.items()}
        self._names = KnownAs(hooks.values(), root)
        self._same: dict[str, dict[str, tuple[str, bool]]] = {}  # by the hash of a configuration
        self._asked: set[str] = set()
        self._events: dict[str, Counter[str]] = {name: Counter() for name in hooks}
        self._reasons: dict[str, Counter[str]] = {name: Counter() for name in hooks}
        self._last: dict[str, str] = {}
        self._runs: Counter[str] = Counter()
        self.tally = Tally()

    def add(self, record: Record) -> None:
        if record.config not in self._same:
            self._same[record.config] = self._alike(record.config) if len(self._same) < _CONFIGURATIONS else {}
        same = self._same[record.config]
        for said in record.outcomes:
            if said.hook in same and said.status != "skipped":
                self._ran(said, *same[said.hook])
        for then, why in record.not_asked.items():
            skipped = Skipped.from_recorded(why) if then in same else None
            if skipped is not None and skipped.reason in _TELLING:
                name, _ = same[then]
                self._events[name][record.event] += 1
                self._reasons[name][why] += 1
                self._last.setdefault(name, record.id)

    def _ran(self, said: OutcomeRecord, name: str, did_the_same: bool) -> None:
        self._asked.add(name)
        self._runs[name] += did_the_same
        if did_the_same and self._runs[name] <= _RUNS:
            self.tally.add(said if said.hook == name else msgspec.structs.replace(said, hook=name))

    def quiet(self) -> Iterator[Quiet]:
        for name, row in self._hooks.items():
            if name in self._last and name not in self._asked:
                yield Quiet(row, dict(self._events[name]), dict(self._reasons[name].most_common()), self._last[name])

    def _alike(self, hash_: str) -> dict[str, tuple[str, bool]]:
        """The hooks that ran for the same things under a configuration: their names of that time, each with today's and
        with whether it also did the same. All of them where it was not kept: the record names the hooks it had."""
        snapshot = kept(self._root, hash_) if hash_ else None
        names = self._names.under(snapshot)
        if snapshot is None:
            return {then: (now, True) for then, now in (names | {name: name for name in self._today}).items()}
        rows_then = rows_of(snapshot)

        def alike(then: str, now: str, fields: Iterable[str]) -> bool:
            return all(rows_then[then].get(field) == self._today[now].get(field) for field in fields)

        both = [(then, now) for then, now in names.items() if now and alike(then, now, _SAME)]
        return {then: (now, alike(then, now, _DOES_THE_SAME)) for then, now in both}


# -- what happened lately


class RecentRecords(msgspec.Struct, frozen=True):
    """The end of a log."""

    last: str  # the time of the newest event
    today: int
    failed_open: int  # how often a hook failed today and let the event pass
    complete: bool  # all of today was looked at; otherwise there are at least so many


def recent(log: "LogReader", project: str, midnight: str, at_most: int = LARGEST // 8) -> RecentRecords | None:
    """The events since `midnight`, a time as records have it; None if there are none at all. Approvals do not count."""
    last, today, failed_open = "", 0, 0
    look = LogTailScan(log, project, at_most)
    for record in look:
        if record.event == TRUST:
            continue
        last = last or record.time
        if record.time < midnight:
            return RecentRecords(last, today, failed_open, True)
        today += 1
        failed_open += record.failed_open
    return RecentRecords(last, today, failed_open, look.complete) if last else None

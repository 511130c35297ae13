"""The event log about the configured hooks: when each last ran, which never ran although its event occurred, which are
slow, what the guard decided, and what hooks in shadow mode would have decided.

Only the newest part of a log is read, so that verbs don't become slower the longer billhook is used.
"""

import os
import re
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec

from billhook.builtins.guard import NAME, Guard
from billhook.builtins.metrics import Durations, HookStats, Tally
from billhook.builtins.trackers import METRICS, WARN_MS, ContextBudget
from billhook.config.config import Config, HookRow, as_data, read_snapshot, rows
from billhook.config.declaration import CONDITION_KEYS, HookDeclaration
from billhook.config.lint import edit, finding
from billhook.config.sources import own_file
from billhook.config.trust import TRUST
from billhook.core import strictjson, tools
from billhook.core.answers import Skipped, SkipReason
from billhook.core.events import EVENTS
from billhook.core.text import Finding, counted
from billhook.store.files import log_folder, state_root
from billhook.store.log import OutcomeRecord, Record, RecordFilter
from billhook.store.log.reader import LogReader

if TYPE_CHECKING:
    from billhook.store.log.reader import LogReader


LARGEST: Final = 64 << 20  # bytes of a log that are read, from its end
_RUNS: Final = 200
"""How many of the newest runs determine whether a hook is slow: a hook that was fixed must not stay slow forever."""
_CONFIGURATIONS: Final = 100  # configurations that are read for one scan
_NUMBER: Final = re.compile(r"[1-9][0-9]{0,8}", re.ASCII)
_SAME: Final = ("events", "match", *CONDITION_KEYS, "dialect", "state")
"""What determines whether a hook runs for an event. Only hooks that are configured now are considered."""
_DOES_THE_SAME: Final = ("what", "kind", "hash")  # what determines how long it takes
OWN_CONDITIONS: Final = frozenset({SkipReason.NOT_MATCHED, SkipReason.CONDITION_FALSE, SkipReason.CONDITION_RAISED})
"""Reasons from the hook's own conditions."""
_TELLING: Final = OWN_CONDITIONS | {SkipReason.DENIED, SkipReason.STOPPED}
"""The same, and an earlier hook that ended the run. Other reasons don't show when the hook would run."""


def log_of(config: Config) -> "LogReader | None":
    """The log of a project; None if there is none yet."""
    from billhook.store.log.reader import LogReader

    root = Path(config.root)
    folder = log_folder(root, config.project)
    return LogReader(folder, root) if os.path.lexists(folder) else None


def budget_of(config: Config) -> float | None:
    """The latency budget in milliseconds; None if the metrics are switched off."""
    for hook in config.hooks:
        if hook.source.layer == "built-in" and isinstance(hook.run, ContextBudget):
            return hook.run.warn_ms
    setting = config.builtins.get(METRICS)
    return None if setting is not None and setting.enabled is False else WARN_MS


class LogTailScan:
    """The newest records of one project since a time, newest first, up to a number of bytes. For one pass."""

    def __init__(self, log: "LogReader | None", project: str, at_most: int = LARGEST, since: str = "") -> None:
        self._log, self._project, self._left, self._since = log, project, at_most, since
        self.events = 0  # how many were read
        self.complete = log is None  # all of them were read

    def __iter__(self) -> Iterator[Record]:
        if self._log is None:
            return
        for entry in self._log.backward(RecordFilter(project=self._project)):
            self._left -= len(entry.line)
            record = entry.record
            if self._left < 0 or record.time < self._since:
                self.complete = self._left >= 0
                return
            self.events += 1
            elsewhere = () if record.side is None else record.side.fields
            yield record if {"outcomes", "not_asked"}.isdisjoint(elsewhere) else self._log.whole(record)
        self.complete = True


# -- what a record is about


_SUBJECTS: Final = (
    "prompt", "message", "url", "pattern", "query", "input", "description", "task", "subject", "error", "name",
    "task_subject", "teammate_name",
)  # fmt: skip
"""Fields that describe an event or a call, for events and tools without a better one."""


def about(record: Record) -> str:
    """The main input of a tool, or the subject of an event: a command, a path, a prompt, a source."""
    given = record.input
    if record.note is not None:
        return record.reason or record.note
    if record.tool:
        path = tools.path_of(record.tool, given) or ""  # relative to the working directory of the session
        path = path.removeprefix(f"{record.cwd}/") if record.cwd else path
        return (
            tools.command_of(record.tool, given)
            or path
            or _telling(given)
            or (strictjson.compact(given) if given else "")
        )
    if not isinstance(given, dict):
        return "" if given is None else strictjson.compact(given)
    if record.event == TRUST:
        names = [str(one.get("name", "")) for one in given.get("hooks", ()) if isinstance(one, dict)]
        return f"{given.get('action', '')} {', '.join(names) or given.get('what', '')}".strip()
    event = EVENTS.get(record.event)
    own = given.get(event.match_field) if event is not None and event.match_field else None
    return own if isinstance(own, str) and own else _telling(given)


def _telling(given: Any) -> str:
    fields = given if isinstance(given, dict) else {}
    return next((found for key in _SUBJECTS if isinstance(found := fields.get(key), str) and found), "")


# -- when each last ran


class LastFired(msgspec.Struct, frozen=True):
    """When hooks last ran."""

    times: dict[str, str]  # by name, as in records; a missing hook did not run for these events
    events: int
    complete: bool  # these are all events of the log


def last_fired(log: "LogReader", project: str, hooks: Iterable[HookRow], at_most: int = LARGEST) -> LastFired:
    """When each of these hooks last ran, whatever its result."""
    today = {_key(row.name, row.layer): row.name for row in hooks}
    moved = {name: name for name in today.values()}  # into another layer, with the same name
    times: dict[str, str] = {}
    look = LogTailScan(log, project, at_most)
    for record in look:
        for one in record.outcomes:
            layer = (one.source or "").partition(" ")[0]
            name = today.get(_key(one.hook, layer)) or moved.get(one.hook, "")
            if name and one.status != "skipped":
                times.setdefault(name, record.time)
        if len(times) == len(today):
            break
    return LastFired(times, look.events, look.complete)


# -- earlier names of hooks: a name has the prefix of its layer, and a number at its end, only if another hook has the
# same name


def _names_then(today: Mapping[tuple[str, str, int], str], snapshot: Mapping[str, Any] | None) -> dict[str, str]:
    """The names under an earlier configuration, each with the current name; empty if there is none. Without a snapshot,
    names with `layer/` are recognized."""
    if snapshot is None:
        before = [(f"{layer}/{name}", number, now) for (layer, name, number), now in today.items()]
        return {name if number == 1 else f"{name}#{number}": now for name, number, now in before}
    then = {name: _key(name, str(row.get("layer"))) for name, row in rows_of(snapshot).items()}
    found = {name: today.get(key, "") for name, key in then.items()}
    same = set(today.values()) - set(found.values())
    # A hook that moved to another layer keeps its name, unless another hook has it.
    return {name: now or (name if name in same else "") for name, now in found.items()}


def rows_of(snapshot: Mapping[str, Any] | None) -> dict[str, Mapping[str, Any]]:
    """The hooks of a snapshot by their names at that time."""
    hooks = (snapshot or {}).get("hooks")
    listed = hooks if isinstance(hooks, list) else ()
    return {str(row["name"]): row for row in listed if isinstance(row, dict) and "name" in row}


def _key(shown: str, layer: str) -> tuple[str, str, int]:
    plain = shown.removeprefix(f"{layer}/")
    base, _, number = plain.rpartition("#")
    return (layer, base, int(number)) if base and _NUMBER.fullmatch(number) else (layer, plain, 1)


# -- which never ran, and which are slow


class UnusedHook(msgspec.Struct, frozen=True):
    """A hook that never ran, although its event occurred while it was configured as it is now."""

    row: HookRow
    events: dict[str, int]  # how often each event occurred
    reasons: dict[str, int]
    """Why it did not run, and how often: one of NOT_WANTED, or the hook that ended the run before it."""
    last: str  # the id of the newest such record


class SlowHook(msgspec.Struct, frozen=True):
    """A hook over the latency budget."""

    row: HookRow
    stats: HookStats


class HookHistory(msgspec.Struct, frozen=True):
    """Problems of hooks that a log shows."""

    quiet: tuple[UnusedHook, ...]
    slow: tuple[SlowHook, ...]


def facts(log: "LogReader", config: Config) -> HookHistory:
    """Problems of the configured hooks in the newest events. Built-ins are not checked."""
    hooks = {row.name: row for row in rows(config) if row.state == "runs" and row.declared is not None}
    gathered = _HookStatistics(hooks, Path(config.root))
    for record in LogTailScan(log, config.project) if hooks else ():
        gathered.add(record)
    warn_ms = budget_of(config)
    slow = [SlowHook(hooks[one.name], one) for one in gathered.tally.stats() if one.over(warn_ms)]
    return HookHistory(tuple(gathered.quiet()), tuple(slow))


class _HookStatistics:
    """Statistics of some hooks, collected from the newest record on."""

    def __init__(self, hooks: Mapping[str, HookRow], root: Path) -> None:
        self._hooks, self._root = hooks, root
        self._today = {name: as_data(row) for name, row in hooks.items()}
        self._names = {_key(name, row.layer): name for name, row in hooks.items()}
        self._same: dict[str, dict[str, tuple[str, bool]]] = {}  # by the hash of a configuration
        self._asked: set[str] = set()
        self._events: dict[str, Counter[str]] = {name: Counter() for name in hooks}
        self._reasons: dict[str, Counter[str]] = {name: Counter() for name in hooks}
        self._last: dict[str, str] = {}
        self._runs: Counter[str] = Counter()
        self.tally = Tally()

    def add(self, record: Record) -> None:
        if record.event == TRUST:  # billhook's own record: no hook can listen for it
            return
        if record.config not in self._same:
            self._same[record.config] = self._alike(record.config) if len(self._same) < _CONFIGURATIONS else {}
        same = self._same[record.config]
        for outcome in record.outcomes:
            if outcome.hook in same and outcome.status != "skipped":
                self._ran(outcome, *same[outcome.hook])
        for then, why in record.not_asked.items():
            skipped = Skipped.from_recorded(why) if then in same else None
            if skipped is not None and skipped.reason in _TELLING:
                name, _ = same[then]
                self._events[name][record.event] += 1
                self._reasons[name][why] += 1
                self._last.setdefault(name, record.id)

    def _ran(self, outcome: OutcomeRecord, name: str, did_the_same: bool) -> None:
        self._asked.add(name)
        self._runs[name] += did_the_same
        if did_the_same and self._runs[name] <= _RUNS:
            self.tally.add(outcome if outcome.hook == name else msgspec.structs.replace(outcome, hook=name))

    def quiet(self) -> Iterator[UnusedHook]:
        for name, row in self._hooks.items():
            if name in self._last and name not in self._asked:
                yield UnusedHook(
                    row, dict(self._events[name]), dict(self._reasons[name].most_common()), self._last[name]
                )

    def _alike(self, hash_: str) -> dict[str, tuple[str, bool]]:
        """The hooks that ran for the same events under a configuration: their names at that time, each with the current
        name and whether its action was the same. Without a snapshot all hooks: the record has their names."""
        snapshot = read_snapshot(self._root, hash_) if hash_ else None
        names = _names_then(self._names, snapshot)
        if snapshot is None:
            return {then: (now, True) for then, now in (names | {name: name for name in self._today}).items()}
        rows_then = rows_of(snapshot)

        def alike(then: str, now: str, fields: Iterable[str]) -> bool:
            return all(rows_then[then].get(field) == self._today[now].get(field) for field in fields)

        both = [(then, now) for then, now in names.items() if now and alike(then, now, _SAME)]
        return {then: (now, alike(then, now, _DOES_THE_SAME)) for then, now in both}


# -- recent events


class RecentRecords(msgspec.Struct, frozen=True):
    """The end of a log."""

    last: str  # the time of the newest event
    today: int
    failed_open: int  # how often a hook failed open today
    complete: bool  # all records of today were read; if False, the numbers are lower limits


def recent(log: "LogReader", project: str, midnight: str, at_most: int = LARGEST // 8) -> RecentRecords | None:
    """The events since `midnight`, a time in the format of records; None if the log has no events. Approvals do
    not count."""
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


# -- the guard


DAYS: Final = 7
_BUILT_IN: Final = "built-in"


class GuardReport(msgspec.Struct, frozen=True):
    """The settings of the guard, and its decisions in the last days."""

    preset: str
    cells: Mapping[str, str]  # the cells that the user set or a project tightened
    asks: int = 0
    denies: int = 0
    complete: bool = True  # all of these days were read; if False, the numbers are lower limits

    @property
    def on(self) -> bool:
        return self.preset != "off"

    @property
    def setting(self) -> str:
        """`standard, discard: allow`; `off` still guards billhook's own files."""
        own = "" if self.on else ", except for billhook's own files"
        return ", ".join([self.preset + own, *(f"{cell}: {decision}" for cell, decision in self.cells.items())])

    @property
    def lately(self) -> str:
        """`3 asks and 1 deny in the last 7 days`."""
        least = "" if self.complete else "at least "
        denies = f"{self.denies} {'deny' if self.denies == 1 else 'denies'}"
        return f"{least}{counted(self.asks, 'ask')} and {denies} in the last {DAYS} days"


def guard_report(config: Config) -> GuardReport | None:
    """The report, from the configuration and the end of the event log; None without built-ins. Raises StoreError."""
    settings = next((hook.run.settings for hook in config.hooks if isinstance(hook.run, Guard)), None)
    if settings is None:
        return None
    cells = {**settings.cells, **settings.tightened}
    cells |= {cell: f"shadow {decision}" for cell, decision in settings.shadow.items()}
    return GuardReport(settings.preset, cells, *_lately(config))


def _lately(config: Config) -> tuple[int, int, bool]:
    since = (datetime.now(UTC) - timedelta(days=DAYS)).strftime("%Y-%m-%dT%H:%M:%S")
    asks = denies = 0
    look = LogTailScan(log_of(config), config.project, LARGEST // 8, since)
    for record in look:
        built_in = [one for one in record.outcomes if one.source == _BUILT_IN]  # a hook of the user may have its name
        decisions = [one.decision for one in built_in if one.hook in (NAME, f"{_BUILT_IN}/{NAME}")]
        asks, denies = asks + ("ask" in decisions), denies + ("deny" in decisions)
    return asks, denies, look.complete


def guard_findings(config: Config) -> Iterator[tuple[str, str, str]]:
    """The state of the guard for `billhook doctor`: level, text and remedy. Raises StoreError."""
    report = guard_report(config)
    if report is None:
        return
    text = f"{report.setting}; {report.lately}"
    remedy = f"remove `guard: off` from {own_file()}, or write `guard: standard`"
    yield ("ok", f"on: {text}", "") if report.on else ("note", text, remedy)


# Findings from the event log, about hooks without any other finding:


def lint_log(facts: HookHistory, warn_ms: float | None) -> Iterator[Finding]:
    """A note for each hook that never ran, and for each that is slow."""
    yield from (_never_fired(one, one.row.declared) for one in facts.quiet if one.row.declared is not None)
    yield from (_slow(one, one.row.declared, warn_ms or 0.0) for one in facts.slow if one.row.declared is not None)


def _never_fired(quiet: UnusedHook, hook: HookDeclaration) -> Finding:
    occurred = ", ".join(f"`{event}` occurred {_times(count)}" for event, count in quiet.events.items())
    unfit = sum(count for why, count in quiet.reasons.items() if why in OWN_CONDITIONS)
    behind = sum(quiet.reasons.values()) - unfit
    field = "match" if hook.match and SkipReason.CONDITION_FALSE not in quiet.reasons else "rules"
    value = hook.match if field == "match" else " ".join(hook.conditions.rules[:1])
    what = f"`{edit(hook, field, value)}`" if value else "its condition"
    if not behind:
        why = f", and {what} did not match"
    elif not unfit:
        why = f", and {'each time ' * (behind > 1)}{_ended_by(quiet)} before it could run"
    else:
        why = f"; {what} did not match {_times(unfit)}, and {_times(behind)} {_ended_by(quiet)} before it could run"
    last = " the last time" if sum(quiet.events.values()) > 1 else ""
    right = (
        "for a hook against rare cases this is normal"
        if unfit
        else "to run also for denied calls, it needs a smaller `priority`"
    )
    hint = f"`billhook explain {quiet.last}` shows why it was skipped{last}; {right}"
    return finding(
        hook, "BH601", field if unfit else "priority", f"{hook.subject} has never run: {occurred}{why}", hint
    )


def _ended_by(quiet: UnusedHook) -> str:
    ended = [why for why in quiet.reasons if why not in OWN_CONDITIONS]
    return " or ".join([*ended[:3], *(["others"] if len(ended) > 3 else [])])


def _times(count: int) -> str:
    return "once" if count == 1 else "twice" if count == 2 else f"{count:,} times"


def _slow(slow: SlowHook, hook: HookDeclaration, warn_ms: float) -> Finding:
    runs, took = slow.stats.runs, f"{slow.stats.p95 or 0.0:,.0f} ms"
    spoken = f"the slowest of {runs} runs took {took}" if runs > 1 else f"its one run took {took}"
    if runs >= 20:  # with fewer runs the 95th percentile is the longest
        spoken = f"one run in twenty takes {took} or more"
    message = f"{hook.subject} is slow: {spoken}, and the latency budget is {warn_ms:,.0f} ms"
    later = "" if hook.gate else ", run it in the background"
    hint = f"make it faster{later}, or raise `warn_ms` of the built-in `metrics`"
    return finding(hook, "BH602", "action", message, hint)


# Hooks in shadow mode:


_SHADOW: Final = "shadow"
_MOST_EXAMPLES: Final = 3


class ShadowExample(msgspec.Struct, frozen=True):
    """One event for which a hook would have decided."""

    id: str
    time: str
    call: str  # the command, path or event, as it was logged
    would: str
    reason: str = ""


class ShadowReport(msgspec.Struct):
    """One hook in shadow mode."""

    name: str
    what: str
    file: str = ""
    runs: int = 0
    would: Counter[str] = msgspec.field(default_factory=Counter)  # by answer: `deny`, `ask`, `context`
    since: str = ""  # its first run in that time
    examples: list[ShadowExample] = []  # the newest first, each call once

    @property
    def decisions(self) -> int:
        return sum(self.would.values())

    @property
    def per_day(self) -> float:
        """Would-have-been decisions per day since its first run; a part of a day counts as a day."""
        if not self.since:
            return 0.0
        days = (datetime.now(UTC) - datetime.fromisoformat(self.since)).total_seconds() / 86400
        return round(self.decisions / max(1.0, days), 2)


def shadow_rows(config: Config) -> list[HookRow]:
    """The hooks that are in shadow mode now, cells of the guard included."""
    return [row for row in rows(config) if row.shadow]


def shadow_report(config: Config, since: str, found: Sequence[HookRow]) -> tuple[list[ShadowReport], bool]:
    """What these hooks would have decided since a time, and whether the log was read back to it. Raises StoreError."""
    reports = {row.name: ShadowReport(row.name, row.what, row.file) for row in found}
    log = log_of(config)
    look = LogTailScan(log, config.project, since=since)
    for record in look:
        for outcome in record.outcomes:
            if (
                log is not None
                and outcome.hook in reports
                and outcome.waived is not None
                and outcome.waived.by == _SHADOW
            ):
                _count(reports[outcome.hook], record if record.side is None else log.whole(record), outcome)
    return list(reports.values()), look.complete


def _count(report: ShadowReport, record: Record, outcome: OutcomeRecord) -> None:
    waived = outcome.waived
    assert waived is not None
    report.runs, report.since = report.runs + 1, record.time
    if waived.would == "none":
        return
    report.would[waived.would] += 1
    call = f"{record.tool or record.event}: {about(record)}".removesuffix(": ")
    if len(report.examples) < _MOST_EXAMPLES and call not in [one.call for one in report.examples]:
        report.examples.append(ShadowExample(record.id, record.time, call, waived.would, waived.reason))


# -- numbers for the page: `python -m billhook.config.history PROJECT`
_DAYS: Final = 30
_COMMANDS: Final = 10
_TOOL_EVENTS: Final = frozenset({"PreToolUse", "PostToolUse", "PostToolUseFailure"})


class LogSummary:
    """Counts over records, added newest first."""

    def __init__(self) -> None:
        self.days: dict[str, Counter[str]] = {}
        self.denied: Counter[tuple[str, str]] = Counter()
        self.tally = Tally()
        self.tools: dict[str, Durations] = {}

    def add(self, record: Record) -> None:
        self.days.setdefault(record.time[:10], Counter())[record.decision] += 1
        if record.decision == "deny" and record.tool:
            self.denied[record.tool, about(record)] += 1
        if record.event in _TOOL_EVENTS and record.tool:
            self.tools.setdefault(record.tool, Durations()).add(record.duration_ms)
        for outcome in record.outcomes:
            self.tally.add(outcome)

    def as_data(self) -> dict[str, Any]:
        tools = [
            {"tool": name, "calls": one.count, "p50": one.percentile(0.5), "p95": one.percentile(0.95)}
            for name, one in self.tools.items()
        ]
        denied = self.denied.most_common(_COMMANDS)
        return {
            "days": [{"day": day, **self.days[day]} for day in sorted(self.days)[-_DAYS:]],
            "denied": [{"tool": tool, "text": text, "count": n} for (tool, text), n in denied],
            "tools": sorted(tools, key=lambda one: -float(str(one["calls"])))[:_COMMANDS],
            "hooks": self.tally.stats(),
        }


def summarized(project: str) -> dict[str, Any]:
    """The numbers for a project. Raises StoreError."""
    found = LogSummary()
    root = state_root()
    look = LogTailScan(LogReader(log_folder(root, project), root), project, LARGEST)
    for record in look:
        if record.event != TRUST:
            found.add(record)
    return {**found.as_data(), "events": look.events, "complete": look.complete}


if __name__ == "__main__":
    sys.stdout.buffer.write(msgspec.json.encode(summarized(sys.argv[1])) + b"\n")

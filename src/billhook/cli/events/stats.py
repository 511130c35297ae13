"""Summaries of the log: `billhook events list` (sessions), `files` and `stats` (hooks); and `rename`."""

import os
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any, Final

import click
import msgspec

from billhook.builtins.metrics import HookStats, Tally
from billhook.cli import times
from billhook.cli.events import query, show_list, show_nothing
from billhook.cli.options import flag, option, usage
from billhook.cli.screen import aligned, note, report, shown_path, width
from billhook.cli.times import shown_time
from billhook.config import loader
from billhook.config.history import budget_of
from billhook.config.trust import TRUST
from billhook.core import tools
from billhook.core.errors import UsageError
from billhook.core.text import counted, flat, visible
from billhook.effects.rules import EDITS
from billhook.store.log import Record, RecordFilter
from billhook.store.log.reader import called
from billhook.store.sessions import Sessions, is_an_id
from billhook.store.state import FileState


class Summary(msgspec.Struct, kw_only=True):
    """One session in the log."""

    name: str
    session_id: str
    project: str
    first: str
    last: str
    events: int = 0
    denied: int = 0
    asked: int = 0
    failed_open: int = 0

    def add(self, record: Record) -> None:
        self.first, self.last = min(self.first, record.time), max(self.last, record.time)
        self.events += 1
        self.denied += record.decision == "deny"
        self.asked += record.decision == "ask"
        self.failed_open += record.failed_open > 0


@usage("""\b
Examples:
  billhook events list
  billhook events list --since 1w
  billhook events list --all --json | jq -r 'select(.denied > 0) | .name'""")
@flag("--all", "everywhere", "The sessions of all projects.")
@times.option("--since", "since", end=False, help="Only events since then: 1h, 2d, a date, ISO 8601.")
@times.option("--until", "until", end=True, help="Only events up to then.")
@option("--last", "-n", "last", "N", "The newest N sessions.", type=int, callback=query.number)
@query.json_options()
def list_verb(everywhere: bool, since: str | None, until: str | None, last: int | None, in_json: bool) -> int:
    """Show the sessions of this project, the newest last: name, id, times, the number of events, and how many of them
    were denied, asked, or failed open."""
    where = query.here()
    found, foreign = sessions(where, RecordFilter(since=since, until=until), everywhere=everywhere)
    if not found and not foreign and not where.reader().bytes:
        return show_nothing(query.Logs({}, where), in_json=in_json)
    return show_list(
        found, lambda shown: _sessions_table(shown, everywhere), last, in_json=in_json, thing="session", foreign=foreign
    )


def sessions(where: query.LogScope, wanted: RecordFilter, *, everywhere: bool) -> tuple[list[Summary], int | None]:
    """The sessions in the order of their newest record, and the number of lines of other programs, if known."""
    names, found = query.SessionNames(where), dict[tuple[str, str], Summary]()
    readers = query.every_log(where) if everywhere else [where.reader()]
    for reader in readers:
        for entry in reader.forward(wanted):
            record = entry.record
            if record.event == TRUST or (not everywhere and record.project != where.project):
                continue
            key = (record.project, record.session_id)
            if key not in found:
                found[key] = Summary(
                    name=names.name(record), session_id=record.session_id, project=record.project, first=record.time,
                    last=record.time,
                )  # fmt: skip
            found[key].add(record)
    return sorted(found.values(), key=lambda one: one.last), query.known_sum(reader.skipped for reader in readers)


def _sessions_table(shown: list[Summary], everywhere: bool) -> list[str]:
    titles = ["NAME", "ID", "FIRST", "LAST", "EVENTS", "DENIED", "ASKED", "FAILED OPEN", *(["PROJECT"] * everywhere)]
    rows = []
    for one in shown:
        first, last = times.minute(one.first), times.minute(one.last)
        last = last.split(" ")[-1] if last[:10] == first[:10] else last  # on the same day only the time
        numbers = (f"{number:,}" for number in (one.events, one.denied, one.asked, one.failed_open))
        place = shown_path(one.project, here=False)
        rows.append([one.name or "-", one.session_id or "-", first, last, *numbers, place])
    cells = [row[: len(titles)] for row in rows]
    if everywhere:
        return aligned(titles, cells, right=(4, 5, 6, 7), flexible=8, drop=(1, 3, 2, 7, 6))
    return aligned(titles, cells, right=(4, 5, 6, 7), flexible=1, drop=(1, 3, 2))


# `billhook events files`:
_READS: Final = frozenset({"Read", "NotebookRead", "Grep", "Glob", "LS", "LSP"})
_TELLING: Final = frozenset({"PreToolUse", "PostToolUse", "PostToolUseFailure"})


class TouchedFile(msgspec.Struct, kw_only=True):
    """The calls that named one file. A call and its result count once."""

    path: str
    reads: int = 0
    writes: int = 0
    other: int = 0  # calls of tools that billhook does not know
    denied: int = 0
    last: str = ""


@usage("""\b
Examples:
  billhook events files .
  billhook events files --since 1d --decision deny
  billhook events files jolly-squid --json | jq -r 'select(.writes > 0) | .path'""")
@click.argument("sessions", metavar="[SESSION]", nargs=-1)
@query.filter_options
@option("--last", "-n", "last", "N", "The N most recent files.", type=int, callback=query.number)
@query.json_options()
def files_verb(filters: query.Filters, last: int | None, in_json: bool) -> int:
    """Show the files that tools named: how often each was read and written, and how often that was denied.

    Counts calls of tools such as Read, Write, Edit and Grep, with the input after rewrites by hooks. Files that shell
    commands use are unknown. The most recent file comes last.
    """
    logs = query.chosen(msgspec.structs.replace(filters, events=filters.events or tuple(_TELLING)), query.here())
    if not logs.count():
        return show_nothing(logs, in_json=in_json)
    found = touched(logs.whole(entry) for entry in logs.forward() if entry.record.event in _TELLING)
    return show_list(found, _files_table, last, in_json=in_json, thing="file")


def touched(records: Iterable[Record]) -> list[TouchedFile]:
    """Every file, the most recent last."""
    found: dict[str, TouchedFile] = {}
    calls: Counter[tuple[str, ...]] = Counter()
    for record in records:
        given = record.rewritten_input if record.rewritten_input is not None else record.input
        named = (path for path in tools.paths_of(record.tool or "", given) if path)
        paths = dict.fromkeys(os.path.normpath(os.path.join(record.cwd or "/", path)) for path in named)
        if not paths or _counted_before(record, tuple(paths), calls):
            continue
        for path in paths:
            one = found.pop(path, None) or TouchedFile(path=path)
            _count(one, record)
            found[path] = one
    return list(found.values())


def _counted_before(record: Record, paths: tuple[str, ...], calls: Counter[tuple[str, ...]]) -> bool:
    call = (record.tool_use_id,) if record.tool_use_id else paths
    key = (record.session_id, record.tool or "", *call)
    if record.event == "PreToolUse":
        calls[key] += record.decision != "deny"
        return False
    if calls[key] > 0:
        calls[key] -= 1
        return True
    return False


def _count(one: TouchedFile, record: Record) -> None:
    one.last = max(one.last, record.time)
    if record.event == "PreToolUse" and record.decision == "deny":
        one.denied += 1
    elif record.tool in EDITS:
        one.writes += 1
    elif record.tool in _READS:
        one.reads += 1
    else:
        one.other += 1


def _files_table(shown: list[TouchedFile]) -> list[str]:
    numbers = [(f"{number:,}" for number in (one.reads, one.writes, one.other, one.denied)) for one in shown]
    rows = [[shown_path(one.path), *some, times.minute(one.last)] for one, some in zip(shown, numbers, strict=True)]
    titles = ("FILE", "READS", "WRITES", "OTHER", "DENIED", "LAST")
    return aligned(titles, rows, right=(1, 2, 3, 4), least=24, drop=(3, 5))


# `billhook events stats`:
_HEADS = ("hook    ", "runs", "started", "failed", "timed out", "p50 ms", "p95 ms", "max ms", "output")
_SECONDARY = ("output", "p50 ms", "max ms", "timed out")  # left out on a narrow screen
_STARTED = 2  # the column of background starts, which is left out if there are none


class Stats:
    """Counts over some records."""

    def __init__(self, logs: query.Logs, hook: str | None) -> None:
        self.events: Counter[str] = Counter()
        self.decisions: Counter[str] = Counter()
        self.failed_open, self.first, self.last = 0, "", ""
        tally = Tally()
        for entry in logs.forward():
            record = entry.record
            self.events[record.event] += 1
            self.decisions[record.decision] += 1
            self.failed_open += record.failed_open
            self.first, self.last = self.first or record.time, record.time
            outside = record.side is not None and "outcomes" in record.side.fields
            for one in (logs.whole(entry) if outside else record).outcomes:
                if hook is None or called(one.hook, hook):
                    tally.add(one)
        self.hooks: tuple[HookStats, ...] = tally.stats()  # the slowest first


@usage("""\b
Examples:
  billhook events stats
  billhook events stats . --since 1h
  billhook events stats | jq -r '.hooks[] | select(.over_budget) | .name'

Exit code: 0 done, 2 usage.""")
@click.argument("sessions", nargs=-1, metavar="[SESSION]")
@query.filter_options
@query.json_options("One line of JSON. The default in a pipe.")
def stats_verb(filters: query.Filters, in_json: bool) -> int:
    """Show how often each hook ran, how often it failed and how long it took, the slowest first.

    SESSION is `.` (the newest here), a name, an id, or several separated by commas. Without it, the whole log of this
    project. A hook is marked as slow if its p95 is over the latency budget, `warn_ms` of the built-in `metrics`.
    Percentiles are exact up to 4,096 runs of a hook, and within 2 percent beyond. For background hooks, starts are
    counted.
    """
    logs = query.chosen(filters, query.here())
    warn_ms = budget_of(loader.load_for_cwd("."))
    stats = Stats(logs, query.plain_hook(filters.hook))
    report(in_json, _screen(stats, warn_ms), {**_as_data(stats, warn_ms), "foreign": logs.foreign})
    if logs.foreign and not in_json:
        note(f"skipped {counted(logs.foreign, 'line')} that billhook did not write")
    return 0


def _as_data(stats: Stats, warn_ms: float | None) -> dict[str, Any]:
    hooks = []
    for hook in stats.hooks:  # all fields; runs as `count`, times with their unit
        fields = msgspec.structs.asdict(hook)
        times = {f"{name}_ms": fields.pop(name) for name in ("p50", "p95", "max")}
        rounded = {name: None if value is None else round(value, 3) for name, value in times.items()}
        about = {"name": fields.pop("name"), "count": fields.pop("runs"), **rounded, **fields}
        hooks.append({**about, "over_budget": hook.over(warn_ms)})
    return {
        "events": stats.events.total(),
        "by_event": dict(stats.events.most_common()),
        "decisions": dict(stats.decisions.most_common()),
        "failed_open": stats.failed_open,
        "first": stats.first or None,
        "last": stats.last or None,
        "warn_ms": warn_ms,
        "hooks": hooks,
    }


def _screen(stats: Stats, warn_ms: float | None) -> Iterator[str]:
    hooks = stats.hooks
    if not stats.events:
        yield "no events match"
        return
    yield from (*_hooks_table(hooks, warn_ms), "") if hooks else ()
    if any(hook.background for hook in hooks):
        yield "started: background runs, which are not timed"
    decisions = ", ".join(f"{count:,} {decision}" for decision, count in stats.decisions.most_common())
    span = f" from {shown_time(stats.first)} to {shown_time(stats.last)}" if stats.events.total() > 1 else ""
    yield f"{counted(stats.events.total(), 'record')}{span}; decisions: {flat(decisions)}"
    if stats.failed_open:
        often = "once" if stats.failed_open == 1 else f"{stats.failed_open:,} times"
        text = f"failed open {often}: a hook failed, and the event continued without its answer"
        yield click.style(text, fg="yellow")
    if warn_ms is not None:
        slow = [hook for hook in hooks if hook.over(warn_ms)]
        over = f"{counted(len(slow), 'hook')} over it" if slow else "no hook is over it"
        yield f"latency budget {warn_ms:,g} ms (warn_ms of `metrics`): {over}"


def _hooks_table(hooks: tuple[HookStats, ...], warn_ms: float | None) -> Iterator[str]:
    rows: list[tuple[str, ...]] = [_HEADS]
    for hook in hooks:
        numbers = (f"{number:,}" if number else "-" for number in (hook.background, hook.failures, hook.timed_out))
        times = map(_time, (hook.p50, hook.p95, hook.max))
        rows.append((hook.name, f"{hook.runs:,}", *numbers, *times, _size(hook.output_bytes)))
    if not any(hook.background for hook in hooks):
        rows = [row[:_STARTED] + row[_STARTED + 1 :] for row in rows]
    heads, *cells = rows
    room = width() - len("  slow")
    right, drop = range(1, len(heads)), [heads.index(name) for name in _SECONDARY]
    names: dict[str, Any] = {"least": 20, "most": 40, "drop": drop}
    head, *lines = aligned(heads, cells, right=right, room=room, style="bold", **names)
    yield head
    for hook, line in zip(hooks, lines, strict=True):
        yield line + (click.style("  slow", fg="yellow") if hook.over(warn_ms) else "")


def _time(ms: float | None) -> str:
    if ms is None:
        return "-"
    return f"{ms:,.0f}" if ms >= 100 else f"{ms:.1f}" if ms >= 10 else f"{ms:.2f}"


def _size(number: int) -> str:
    for unit, bytes_ in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if number >= bytes_:
            return f"{number / bytes_:.1f} {unit}"
    return f"{number} B" if number else "-"


# `billhook events rename`:
_NAMED = 8


@usage("""\b
Examples:
  billhook events rename . login-rewrite
  billhook events rename jolly-squid login-rewrite""")
@click.argument("session", metavar="SESSION")
@click.argument("name", metavar="NAME")
@flag("--json", "as_json", "Print the session as one line of JSON.")
def rename_verb(session: str, name: str, as_json: bool) -> int:
    """Name a session: at most 64 characters of a-z A-Z 0-9 . _ - and not another session's id.

    SESSION is `.` (the newest of this project), its name, its id or the first 6 characters of it. Hooks get the new
    name from the next event on. Existing records are not changed, but found and shown by the new name.
    """
    where = query.here()
    sessions = Sessions(FileState(where.root))
    project, session_id, others = _find_session(session, where, sessions)
    if name not in (session_id, "") and query.is_logged(name, where):
        raise is_an_id(name)
    before = sessions.get(session_id)
    renamed = sessions.rename(session_id, name, project)
    was = f" (was {before.name})" if before and before.name != name else ""
    report(as_json, [visible(f"session {session_id} is now {renamed.name}{was}")], renamed)
    if others:
        keep = "keeps" if len(others) == 1 else "keep"
        note(f"{counted(len(others), 'earlier session')} of that name {keep} it: {', '.join(others[:_NAMED])}")
    return 0


def _find_session(word: str, where: query.LogScope, sessions: Sessions) -> tuple[str, str, list[str]]:
    """Project and id of the session, and the ids of earlier ones of that name: from before it was cleared."""
    found = query.sessions_called(word, where)
    elsewhere = "`billhook events list --all` shows the sessions of all projects"
    if not found:
        raise UsageError("no session is recorded here yet", hint=elsewhere)
    if found == {where.project: frozenset(("",))}:
        raise UsageError("no session is recorded here yet: the events in this log have no session", hint=elsewhere)
    if len(found) == 1:
        ((project, ids),) = found.items()
        remembered = sessions.ids_of(word, project) if len(ids) > 1 else list(ids)
        if remembered:
            return project, remembered[0], remembered[1:]
    several = [id_ for ids in found.values() for id_ in sorted(ids)]
    named = ", ".join(several[:_NAMED])
    raise UsageError(f"{len(several)} sessions are called `{word}`", hint=f"use one of these ids: {named}")

"""`billhook events files`: the files that tools read and wrote."""

import os
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any, Final

import click
import msgspec

from billhook.builtins.metrics import HookStats, Tally
from billhook.cli import times
from billhook.cli.events import show_list, show_nothing
from billhook.cli.events.query import Filters, Logs, chosen, filter_options, here, json_options, number, plain_hook
from billhook.cli.events.table import aligned
from billhook.cli.screen import note, progress, say, say_json, shown_path, width
from billhook.cli.times import shown_time
from billhook.config import loader
from billhook.config.history import budget_of
from billhook.core import tools
from billhook.core.text import counted, one_line
from billhook.effects.rules import EDITS
from billhook.store.log.query import called
from billhook.store.log.record import Record

_READS: Final = frozenset({"Read", "NotebookRead", "Grep", "Glob", "LS", "LSP"})
_TELLING: Final = frozenset({"PreToolUse", "PostToolUse", "PostToolUseFailure"})


class TouchedFile(msgspec.Struct, kw_only=True):
    """What happened to one file. A call and its result count once."""

    path: str
    reads: int = 0
    writes: int = 0
    other: int = 0  # calls of tools that billhook does not know
    denied: int = 0
    last: str = ""


@click.command(
    "files",
    epilog="""\b
Examples:
  billhook events files .
  billhook events files --since 1d --decision deny
  billhook events files jolly-squid --json | jq -r 'select(.writes > 0) | .path'""",
)
@click.argument("sessions", metavar="[SESSION]", nargs=-1)
@filter_options
@click.option("--last", "-n", "last", type=int, metavar="N", callback=number, help="The N files touched last.")
@json_options()
def files_verb(filters: Filters, last: int | None, in_json: bool) -> int:
    """Show the files that tools named: how often each was read and written, and how often that was denied.

    Told from the input of tools such as Read, Write, Edit and Grep, after hooks rewrote it. What a shell command
    touches is not known. The file that was touched last stands last.
    """
    logs = chosen(msgspec.structs.replace(filters, events=filters.events or tuple(_TELLING)), here())
    if not logs.count():
        return show_nothing(logs, in_json=in_json)
    with progress("reading the log") as bar:
        found = touched(logs.whole(entry) for entry in logs.forward(bar) if entry.record.event in _TELLING)
    return show_list(found, _table, last, in_json=in_json, thing="file")


def touched(records: Iterable[Record]) -> list[TouchedFile]:
    """Every file in the order in which it was touched last."""
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
    """Whether this is the result of a call that is counted already."""
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


def _table(shown: list[TouchedFile]) -> str:
    rows = [
        [shown_path(one.path), f"{one.reads:,}", f"{one.writes:,}", f"{one.other:,}", f"{one.denied:,}",
         times.minute(one.last)]
        for one in shown
    ]  # fmt: skip
    return aligned(("FILE", "READS", "WRITES", "OTHER", "DENIED", "LAST"), rows, right=(1, 2, 3, 4), flexible=0)


# `billhook events stats`:


_LONGEST_NAME = 40
_HEADS = ("runs", "started", "failed", "timed out", "p50 ms", "p95 ms", "max ms", "output")
_STARTED = 1  # the column of starts in the background, which is left out where there are none
_SIZES = (("GB", 1e9), ("MB", 1e6), ("kB", 1e3))


class Stats:
    """What was counted over some records."""

    def __init__(self, hook: str | None) -> None:
        self._only = hook
        self._tally = Tally()
        self.events: Counter[str] = Counter()
        self.decisions: Counter[str] = Counter()
        self.failed_open = 0
        self.first = self.last = ""

    def add_all(self, logs: Logs) -> None:
        with progress("counting") as bar:
            for entry in logs.forward(bar):
                record = entry.record
                self.events[record.event] += 1
                self.decisions[record.decision] += 1
                self.failed_open += record.failed_open
                self.first, self.last = self.first or record.time, record.time
                outside = record.side is not None and "outcomes" in record.side.fields
                for said in (logs.whole(entry) if outside else record).outcomes:
                    if self._only is None or called(said.hook, self._only):
                        self._tally.add(said)

    def hooks(self) -> tuple[HookStats, ...]:
        """The slowest first."""
        return self._tally.stats()


@click.command(
    "stats",
    epilog="""\b
Examples:
  billhook events stats
  billhook events stats . --since 1h
  billhook events stats | jq -r '.hooks[] | select(.over_budget) | .name'

\b
Exit code: 0, whatever was found.""",
)
@click.argument("sessions", nargs=-1, metavar="[SESSION]")
@filter_options
@json_options("One line of JSON. This is what a pipe gets.")
def stats_verb(filters: Filters, in_json: bool) -> int:
    """Show how often each hook ran, how often it failed and how long it took, the slowest first.

    SESSION is `.` (the newest here), a name, an id, or several with commas between; without: the whole log of this
    project. A hook is marked as slow when its p95 is over the latency budget, `warn_ms` of the built-in `metrics`.
    Percentiles are exact up to 4,096 runs of a hook, and beyond that within 2 percent. Of what runs in the background
    the starts are counted.
    """
    logs = chosen(filters, here())
    warn_ms = budget_of(loader.load_for_cwd("."))
    stats = Stats(plain_hook(filters.hook))
    stats.add_all(logs)
    if in_json:
        say_json({**_as_data(stats, warn_ms), "foreign": logs.foreign})
        return 0
    say("\n".join(_screen(stats, warn_ms)))
    if logs.foreign:
        note(f"skipped {counted(logs.foreign, 'line')} that billhook did not write")
    return 0


def _as_data(stats: Stats, warn_ms: float | None) -> dict[str, Any]:
    return {
        "events": stats.events.total(),
        "by_event": dict(stats.events.most_common()),
        "decisions": dict(stats.decisions.most_common()),
        "failed_open": stats.failed_open,
        "first": stats.first or None,
        "last": stats.last or None,
        "warn_ms": warn_ms,
        "hooks": [{**_hook_data(hook), "over_budget": hook.over(warn_ms)} for hook in stats.hooks()],
    }


def _hook_data(hook: HookStats) -> dict[str, Any]:
    """Its fields; the runs as `count`, and times with their unit."""
    fields = msgspec.structs.asdict(hook)
    times = {f"{name}_ms": fields.pop(name) for name in ("p50", "p95", "max")}
    rounded = {name: None if value is None else round(value, 3) for name, value in times.items()}
    return {"name": fields.pop("name"), "count": fields.pop("runs"), **rounded, **fields}


def _screen(stats: Stats, warn_ms: float | None) -> Iterator[str]:
    hooks = stats.hooks()
    if not stats.events:
        yield "the log has no such events"
        return
    if hooks:
        yield from _events_stats_table(hooks, warn_ms)
        yield ""
    if any(hook.background for hook in hooks):
        yield "started: in the background, where nobody waits for the answer or times it"
    yield from _totals(stats)
    slow = [hook for hook in hooks if hook.over(warn_ms)]
    if warn_ms is None:
        return
    over = f"{counted(len(slow), 'hook')} over it" if slow else "no hook is over it"
    yield f"latency budget {warn_ms:,g} ms (warn_ms of `metrics`): {over}"


def _events_stats_table(hooks: tuple[HookStats, ...], warn_ms: float | None) -> Iterator[str]:
    all_rows: list[tuple[str, ...]] = [_HEADS, *map(_cells, hooks)]
    if not any(hook.background for hook in hooks):
        all_rows = [row[:_STARTED] + row[_STARTED + 1 :] for row in all_rows]
    heads, *rows = all_rows
    columns = [max(map(len, column)) for column in zip(heads, *rows, strict=True)]
    room = width() - sum(columns) - 2 * len(columns) - len("  slow")
    name = max(8, min(room, _LONGEST_NAME, max(len(hook.name) for hook in hooks)))

    def line(first: str, cells: tuple[str, ...]) -> str:
        others = (f"{cell:>{column}}" for cell, column in zip(cells, columns, strict=True))
        return "  ".join([f"{first:<{name}}", *others])

    yield click.style(line("hook", heads), bold=True)
    for hook, row in zip(hooks, rows, strict=True):
        mark = click.style("  slow", fg="yellow") if hook.over(warn_ms) else ""
        yield line(one_line(hook.name, name), row) + mark


def _cells(hook: HookStats) -> tuple[str, ...]:
    numbers = (f"{number:,}" if number else "-" for number in (hook.background, hook.failures, hook.timed_out))
    return f"{hook.runs:,}", *numbers, *map(_time, (hook.p50, hook.p95, hook.max)), _size(hook.output_bytes)


def _time(ms: float | None) -> str:
    if ms is None:
        return "-"
    return f"{ms:,.0f}" if ms >= 100 else f"{ms:.1f}" if ms >= 10 else f"{ms:.2f}"


def _size(number: int) -> str:
    for unit, bytes_ in _SIZES:
        if number >= bytes_:
            return f"{number / bytes_:.1f} {unit}"
    return f"{number} B" if number else "-"


def _totals(stats: Stats) -> Iterator[str]:
    decisions = ", ".join(f"{count:,} {decision}" for decision, count in stats.decisions.most_common())
    span = f" from {shown_time(stats.first)} to {shown_time(stats.last)}" if stats.events.total() > 1 else ""
    yield f"{counted(stats.events.total(), 'event')}{span}: {one_line(decisions, 200)}"
    if stats.failed_open:
        times = "once" if stats.failed_open == 1 else f"{stats.failed_open:,} times"
        yield click.style(f"failed open {times}: a hook failed, and the event went on without its answer", fg="yellow")

"""`billhook events list`: the sessions, with what happened in each."""

import os
from typing import Any

import click
import msgspec

from billhook import strictjson
from billhook.cli import events_times
from billhook.cli.events_filters import number
from billhook.cli.events_log import Here, here, known_sum
from billhook.cli.events_rows import TRUST
from billhook.cli.events_sessions import Names
from billhook.cli.events_table import aligned
from billhook.cli.events_view import Printer, wants_json
from billhook.cli.progress import Progress, progress
from billhook.cli.show import say
from billhook.cli.table import counted, shown_path
from billhook.store.files import opened
from billhook.store.reading import LogReader
from billhook.store.record import Record, Wanted

_LONGEST_ID = 36


class Summary(msgspec.Struct, kw_only=True):
    """One session as the log has it."""

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


@click.command(
    "list",
    epilog="""\b
Examples:
  billhook events list
  billhook events list --since 1w
  billhook events list --all --json | jq -r 'select(.denied > 0) | .name'""",
)
@click.option("--all", "everywhere", is_flag=True, help="Those of every project.")
@events_times.option("--since", "since", end=False, help="Only what happened from then on: 1h, 2d, a day, ISO 8601.")
@events_times.option("--until", "until", end=True, help="Only what happened up to then.")
@click.option("--last", "-n", "last", type=int, metavar="N", callback=number, help="The newest N sessions.")
@click.option("--json", "as_json", is_flag=True, help="One line of JSON for each. This is what a pipe gets.")
@click.option("--human", is_flag=True, help="The table, also in a pipe.")
def verb(everywhere: bool, since: str | None, until: str | None, last: int | None, as_json: bool, human: bool) -> int:
    """Show the sessions of this project: name, id, when, how many events, and how many of them were denied or let
    pass because a hook failed. The newest is last."""
    in_json = wants_json(as_json, human)
    where = here()
    wanted = Wanted(since=since, until=until)
    with progress("reading the log") as bar:
        found, foreign = sessions(where, wanted, bar, everywhere=everywhere)
    shown = found[max(0, len(found) - last) :] if last is not None else found
    if in_json:
        for one in shown:
            say(strictjson.dumps(msgspec.to_builtins(one)))
    elif shown:
        say(_table(shown, everywhere))
    _count(where, len(shown), len(found), foreign, in_json=in_json)
    return 0


def sessions(
    where: Here, wanted: Wanted, bar: Progress | None, *, everywhere: bool
) -> tuple[list[Summary], int | None]:
    """The sessions in the order of their newest record; and the lines that are none of ours, where that is known."""
    names, found = Names(where), dict[tuple[str, str], Summary]()
    readers = every_log(where) if everywhere else [where.reader()]
    for reader in readers:
        for entry in reader.forward(wanted, bar):
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
    return sorted(found.values(), key=lambda one: one.last), known_sum(reader.skipped for reader in readers)


def every_log(where: Here) -> list[LogReader]:
    """The logs of all projects."""
    folder = where.root / "hooks"
    with opened(folder, where.root) as descriptor:
        names = sorted(os.listdir(descriptor)) if descriptor is not None else []
    return [LogReader(folder / name, where.root) for name in names if (folder / name).is_dir()]


def _table(shown: list[Summary], everywhere: bool) -> str:
    titles = ["NAME", "ID", "FIRST", "LAST", "EVENTS", "DENIED", "ASKED", "FAILED OPEN"]
    rows: list[list[Any]] = [
        [one.name or "-", one.session_id or "-", events_times.minute(one.first), _last(one), f"{one.events:,}",
         f"{one.denied:,}", f"{one.asked:,}", f"{one.failed_open:,}"]
        for one in shown
    ]  # fmt: skip
    if everywhere:
        titles.append("PROJECT")
        for row, one in zip(rows, shown, strict=True):
            row.append(shown_path(one.project, here=False))
    return aligned(titles, rows, right=(4, 5, 6, 7), flexible=1)


def _last(one: Summary) -> str:
    """Only the time of day where the day is that of the first record."""
    last = events_times.minute(one.last)
    return last.split(" ")[-1] if last[:10] == events_times.minute(one.first)[:10] else last


def _count(where: Here, shown: int, there: int, foreign: int | None, *, in_json: bool) -> None:
    if not there and not foreign and not where.reader().bytes:
        from billhook.cli.events_log import Logs

        Printer(where, in_json=in_json, minimal=False).empty(Logs({}, where))
        return
    notes = [f"{shown:,} of {counted(there, 'session')}"] if not in_json or not shown else []
    if foreign:
        notes.append(f"skipped {counted(foreign, 'line')} that billhook did not write")
    if notes:
        say(f"{'' if in_json or not shown else chr(10)}{'; '.join(notes)}", err=True)

"""`billhook events list`: the sessions, with what happened in each."""

import click
import msgspec

from billhook.cli import events_times
from billhook.cli.events_filters import json_options, number
from billhook.cli.events_log import Here, Logs, every_log, here, known_sum
from billhook.cli.events_rows import TRUST
from billhook.cli.events_sessions import Names
from billhook.cli.events_table import aligned
from billhook.cli.events_view import show_list, show_nothing
from billhook.cli.progress import Progress, progress
from billhook.cli.table import shown_path
from billhook.store.record import Record, Wanted


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
@json_options()
def verb(everywhere: bool, since: str | None, until: str | None, last: int | None, in_json: bool) -> int:
    """Show the sessions of this project: name, id, when, how many events, and how many of them were denied or let
    pass because a hook failed. The newest is last."""
    where = here()
    with progress("reading the log") as bar:
        found, foreign = sessions(where, Wanted(since=since, until=until), bar, everywhere=everywhere)
    if not found and not foreign and not where.reader().bytes:
        return show_nothing(Logs({}, where), in_json=in_json)
    return show_list(
        found, lambda shown: _table(shown, everywhere), last, in_json=in_json, thing="session", foreign=foreign
    )


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


def _table(shown: list[Summary], everywhere: bool) -> str:
    titles = ["NAME", "ID", "FIRST", "LAST", "EVENTS", "DENIED", "ASKED", "FAILED OPEN", *(["PROJECT"] * everywhere)]
    rows = [
        [one.name or "-", one.session_id or "-", events_times.minute(one.first), _last(one), f"{one.events:,}",
         f"{one.denied:,}", f"{one.asked:,}", f"{one.failed_open:,}", shown_path(one.project, here=False)]
        for one in shown
    ]  # fmt: skip
    return aligned(titles, [row[: len(titles)] for row in rows], right=(4, 5, 6, 7), flexible=1)


def _last(one: Summary) -> str:
    """Only the time of day where the day is that of the first record."""
    last = events_times.minute(one.last)
    return last.split(" ")[-1] if last[:10] == events_times.minute(one.first)[:10] else last

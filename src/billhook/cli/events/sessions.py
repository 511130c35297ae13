"""`billhook events list`: the sessions, with what happened in each."""

import click
import msgspec

from billhook.cli import times
from billhook.cli.events import show_list, show_nothing
from billhook.cli.events.query import (
    Logs,
    LogScope,
    SessionNames,
    every_log,
    here,
    is_logged,
    json_options,
    known_sum,
    number,
    one,
)
from billhook.cli.events.table import TRUST, aligned
from billhook.cli.screen import Progress, note, progress, say, say_json, shown_path
from billhook.core.errors import UsageError
from billhook.core.text import counted, visible
from billhook.store.log.record import Record, Wanted
from billhook.store.sessions import Sessions, is_an_id
from billhook.store.state import FileState


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
@times.option("--since", "since", end=False, help="Only what happened from then on: 1h, 2d, a day, ISO 8601.")
@times.option("--until", "until", end=True, help="Only what happened up to then.")
@click.option("--last", "-n", "last", type=int, metavar="N", callback=number, help="The newest N sessions.")
@json_options()
def list_verb(everywhere: bool, since: str | None, until: str | None, last: int | None, in_json: bool) -> int:
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
    where: LogScope, wanted: Wanted, bar: Progress | None, *, everywhere: bool
) -> tuple[list[Summary], int | None]:
    """The sessions in the order of their newest record; and the lines that are none of ours, where that is known."""
    names, found = SessionNames(where), dict[tuple[str, str], Summary]()
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
        [one.name or "-", one.session_id or "-", times.minute(one.first), _last(one), f"{one.events:,}",
         f"{one.denied:,}", f"{one.asked:,}", f"{one.failed_open:,}", shown_path(one.project, here=False)]
        for one in shown
    ]  # fmt: skip
    return aligned(titles, [row[: len(titles)] for row in rows], right=(4, 5, 6, 7), flexible=1)


def _last(one: Summary) -> str:
    """Only the time of day where the day is that of the first record."""
    last = times.minute(one.last)
    return last.split(" ")[-1] if last[:10] == times.minute(one.first)[:10] else last


# `billhook events rename`:


_NAMED = 8


@click.command(
    "rename",
    epilog="""\b
Examples:
  billhook events rename . login-rewrite
  billhook events rename jolly-squid login-rewrite""",
)
@click.argument("session", metavar="SESSION")
@click.argument("name", metavar="NAME")
@click.option("--json", "as_json", is_flag=True, help="Print the session as one line of JSON.")
def rename_verb(session: str, name: str, as_json: bool) -> int:
    """Give a session a name: at most 64 characters of a-z A-Z 0-9 . _ - and not another session's id.

    SESSION is `.` (the newest of this project), its name, its id or the first 6 characters of that. Hooks get the new
    name from the next event on. The log keeps what it has; it is found and shown by the new name.
    """
    where = here()
    sessions = Sessions(FileState(where.root))
    project, session_id, others = _meant(session, where, sessions)
    if name not in (session_id, "") and is_logged(name, where):
        raise is_an_id(name)
    before = sessions.get(session_id)
    renamed = sessions.rename(session_id, name, project)
    if as_json:
        say_json(renamed)
    else:
        was = f" (it was {before.name})" if before and before.name != name else ""
        say(visible(f"session {session_id} is {renamed.name} now{was}"))
    if others:
        keep = "keeps" if len(others) == 1 else "keep"
        note(f"{counted(len(others), 'earlier session')} of that name {keep} it: {', '.join(others[:_NAMED])}")
    return 0


def _meant(word: str, where: LogScope, sessions: Sessions) -> tuple[str, str, list[str]]:
    """Project and id of the session, and the ids of others that have its name: those it had before it was cleared."""
    found = one(word, where)
    elsewhere = "`billhook events list --all` shows those elsewhere"
    if not found:
        raise UsageError("no session is recorded here yet", hint=elsewhere)
    if found == {where.project: frozenset(("",))}:
        raise UsageError("no session is recorded here yet: the events in this log name no session", hint=elsewhere)
    if len(found) == 1:
        ((project, ids),) = found.items()
        remembered = sessions.ids_of(word, project) if len(ids) > 1 else list(ids)
        if remembered:
            return project, remembered[0], remembered[1:]
    several = [id_ for ids in found.values() for id_ in sorted(ids)]
    named = ", ".join(several[:_NAMED])
    raise UsageError(f"{len(several)} sessions are called `{word}`", hint=f"name one by its id: {named}")

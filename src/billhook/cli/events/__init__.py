"""`billhook events`: query the log. Without a command it shows the events; each command is in a module."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from itertools import islice
from typing import Any, ClassVar, TypeVar

import click
import msgspec
from click.shell_completion import CompletionItem

from billhook.cli.events import query
from billhook.cli.events.table import EventRow, Table, joined, minimal
from billhook.cli.group import LazyCommands
from billhook.cli.options import flag, words
from billhook.cli.screen import filled, hint, note, picked, report, say, shown_path
from billhook.core import strictjson
from billhook.core.errors import UsageError
from billhook.core.text import counted, one_line, suggest, visible
from billhook.store.log.query import called, hooks_of
from billhook.store.log.reader import LogEntry
from billhook.store.log.record import Record
from billhook.store.sessions import VERBS

IN_THE_TABLE = 100  # records that the table shows unless somebody asks for more
_BEFORE_FOLLOWING = 10
_LOOKED_AT = 200  # records in which a hook is looked for that nobody may have
_HOW = (
    "A record is written whenever hooks are asked about an event in this project: by an agent that runs "
    "`billhook hook`, by `billhook fire`, or by a program that loads this configuration."
)
T = TypeVar("T")
_MINIMAL = "id time session_id session_name turn_id event tool decision reason"


def format_options(verb: Any) -> Any:
    """How the records are printed: `--json`, `--human`, `--minimal`."""
    text = "One short line for each record; in JSON, a few fields."
    verb = flag("--minimal", "-m", text)(verb)
    return query.json_options(
        "JSON lines: each record whole, as it was logged, and its event. This is what a pipe gets."
    )(verb)  # fmt: skip


@query.filter_options
@query.slice_options("100 in the table")
@format_options
@flag("--follow", "-f", "--tail", "follow", "Show the last 10, or --last N, and then what comes, until Ctrl-C.")
def view(filters: query.Filters, part: query.Slice, in_json: bool, minimal: bool, follow: bool) -> int:
    """Show what happened: every event that hooks were asked about, and what became of it.

    SESSION is `.` (the newest of this project), a session's name, an id or the first 6 characters of one, or several
    with commas between. Without it, all sessions of this project. The order is oldest first, in JSON too.

    On a terminal there are tables, and in a pipe JSON lines, also of list, search, show, files and stats; --human asks
    for the tables there. rename and verify answer in words everywhere, unless --json asks for JSON.
    """
    if filters.sessions and filters.sessions[0] in VERBS:
        behind = f"put them behind it: billhook events {' '.join(filters.sessions)} ..."
        raise UsageError(f"options stand before `{filters.sessions[0]}`", hint=behind)
    if follow and (part.first is not None or part.limit or part.offset or filters.until):
        raise UsageError("--follow goes with --last only", hint="leave out --first, --limit, --offset and --until")
    where = query.here()
    if follow and set(words(filters.sessions)) == {"."} and not query.newest_session(where):
        filters = msgspec.structs.replace(filters, sessions=())  # none has begun yet: the first one is waited for
    logs = query.chosen(filters, where)
    printer = Printer(where, in_json=in_json, minimal=minimal, hook=query.plain_hook(filters.hook))
    if follow:
        return _follow(logs, part, printer)
    if not in_json and not part.given:
        part = msgspec.structs.replace(part, limit=IN_THE_TABLE)
    shown = printer.show(logs, logs.chosen(part))
    printer.count(logs, shown, part, filters=filters != query.Filters())
    return 0


class Printer:
    """Prints records as they were asked for."""

    def __init__(
        self, where: query.LogScope, *, in_json: bool = False, minimal: bool = False, hook: str | None = None
    ) -> None:
        self.in_json, self.minimal, self.hook = in_json, minimal, hook
        self.names = query.SessionNames(where)

    def show(self, logs: query.Logs, entries: Iterable[LogEntry]) -> int:
        """Print them all; how many there were."""
        if self.in_json:
            number = 0
            for entry in entries:
                self.one(logs, entry)
                number += 1
            return number
        records = [logs.whole(entry) for entry in entries]
        if records:
            short = (minimal(EventRow(record), self.names) for record in records)
            say("\n".join(short if self.minimal else self._table(records)))
        return len(records)

    def one(self, logs: query.Logs, entry: LogEntry, table: Table | None = None) -> None:
        """Print one that just came."""
        if self.in_json:
            few = strictjson.encode(picked(entry.record, _MINIMAL)) if self.minimal else None
            click.echo(few or query.line_of(entry, logs.whole(entry)))
            return
        row = EventRow(logs.whole(entry))
        say(minimal(row, self.names) if table is None or self.minimal else "\n".join(table.lines(row)))

    def _table(self, records: list[Record]) -> Iterator[str]:
        rows = joined(records)
        alone = len({record.session_id for record in records}) == 1 and records[0].session_id != ""
        table = Table(rows, self.names, hook=self.hook, alone=alone)
        if alone:
            name, id_ = one_line(self.names.name(records[0]), 64), one_line(records[0].session_id, 80)
            yield f"session {click.style(name or id_, bold=True)}{f'  {id_}' if name else ''}"
        yield table.head()
        for row in rows:
            yield from table.lines(row)

    def count(self, logs: query.Logs, shown: int, part: query.Slice, *, filters: bool) -> None:
        """Say on standard error how much of the log that was. In JSON only what somebody must know."""
        there = logs.count()
        if not there:
            show_nothing(logs, in_json=self.in_json)
            return
        match = " in the log match" if filters else " in the log"
        notes = [f"{shown:,} of {counted_records(there)}{'' if shown else match}"]
        if part.limit and shown == part.limit and not (part.last or part.first):
            notes.append(f"the newest {shown}: --limit 0 shows all, --offset {part.offset + shown} those before")
        _note_count(notes, logs.foreign, shown, in_json=self.in_json)
        if logs.unread:
            which = f"{counted_records(logs.unread)} could not be searched whole"
            missing = "its side file is" if logs.unread == 1 else "their side files are"
            name = "it" if logs.unread == 1 else "them"
            note(f"{which}: {missing} missing or damaged; `billhook events verify` names {name}")
        if not shown and self.hook is not None:
            newest = islice((entry for reader in logs.readers for entry in reader.backward()), _LOOKED_AT)
            known = {name for entry in newest for name in hooks_of(entry.record)}
            if known and not any(called(one, self.hook) for one in known):  # else another filter leaves it out
                near = visible(suggest(self.hook, sorted(known)))
                hint(f"no recent record names the hook `{visible(self.hook)}`; {near}")


def show_nothing(logs: query.Logs, *, in_json: bool) -> int:
    """Nothing is in the log: where it was looked for, and how it would get there. The exit code."""
    folders = [reader.folder for reader in logs.readers] or [logs.here.reader().folder]
    path = one_line(shown_path(f"{folders[0]}/hooks.jsonl", here=False), 300)
    project = one_line(shown_path(logs.here.project, here=False), 200)
    text = "\n".join([f"no events are recorded for {project}", "", f"looked in {path}", "", *filled(_HOW, 0)])
    if logs.foreign:
        text += f"\nSkipped there: {counted(logs.foreign, 'line')} that billhook did not write."
    say(text, err=in_json)
    hint("`billhook fire PreToolUse --tool Bash` makes a first one")
    return 0


def show_list(
    found: list[T],
    draw: Callable[[list[T]], list[str]],
    last: int | None,
    *,
    in_json: bool,
    thing: str,
    foreign: int | None = None,
) -> int:
    """The last of what was found, as lines of JSON or as a table, and on standard error how many that are. The exit
    code."""
    shown = found if last is None else found[max(0, len(found) - last) :]
    report(in_json, draw(shown) if shown else (), *shown)
    _note_count([f"{len(shown):,} of {counted(len(found), thing)}"], foreign, len(shown), in_json=in_json)
    return 0


def _note_count(notes: list[str], foreign: int | None, shown: int, *, in_json: bool) -> None:
    """How much was shown, which is the first note, is left out below lines of JSON."""
    below = notes[1:] if in_json and shown else notes
    if foreign:
        below.append(f"skipped {counted(foreign, 'line')} that billhook did not write")
    if below:
        say(f"{'' if in_json or not shown else chr(10)}{'; '.join(below)}", err=True)


def counted_records(number: int) -> str:
    return f"{number:,} record" if number == 1 else f"{number:,} records"


def _follow(logs: query.Logs, part: query.Slice, printer: Printer) -> int:
    table = Table([], printer.names, hook=printer.hook)
    if not printer.in_json and not printer.minimal:
        say(table.head())
    newest = query.Slice(last=_BEFORE_FOLLOWING if part.last is None else part.last)
    with suppress(KeyboardInterrupt):  # the only way in which it ends
        for entry in logs.followed(newest):
            printer.one(logs, entry, table)
    return 0


# The group of commands:
COMMANDS = {
    "list": "The sessions of this project, with what happened in each.",
    "search": "The events in which a text occurs.",
    "show": "One event in full.",
    "files": "The files that tools read and wrote.",
    "stats": "How often and how long each hook ran, the slowest first.",
    "rename": "Give a session a name.",
    "verify": "Check that nothing in the log was changed, removed or added.",
    "export": "The log's own lines, to keep or to send elsewhere.",
}
_EPILOG = """\b
Examples:
  billhook events . --last 5
  billhook events --decision deny,ask --since 1d
  billhook events --hook my-guard --since 22:00     why did it not fire?
  billhook events jolly-squid --tool Bash --json | jq .input.command
  billhook events search "turn-tracker"
  billhook events --follow

\b
Exit code: 0 also when nothing matches and when Ctrl-C ends --follow,
1 findings of `verify`, 2 usage or a log that can't be read."""


class _View(click.Command):
    """Shows as `billhook events`, because that is what people type."""

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        above = parent.parent if parent is not None else None
        return super().make_context(parent.info_name if parent else info_name, args, parent=above, **extra)

    def collect_usage_pieces(self, ctx: click.Context) -> list[str]:
        return ["[SESSION]", "[OPTIONS]"]


class _EventsGroup(LazyCommands):
    """A group whose first word may also be a session."""

    lines, package = COMMANDS, __name__
    modules: ClassVar = {"list": "stats", "rename": "stats", "search": "show", "files": "stats", "verify": "export"}

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        return super().get_command(ctx, cmd_name) if cmd_name else _VIEW

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        known = args[0] in (*COMMANDS, "-h", "--help") if args else ctx.resilient_parsing  # that completes words
        return super().parse_args(ctx, args if known else ["", *args])

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        return [*super().shell_complete(ctx, incomplete), *_VIEW.shell_complete(ctx, incomplete)]

    def collect_usage_pieces(self, ctx: click.Context) -> list[str]:
        return ["[SESSION]", "[OPTIONS]"]

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        _VIEW.format_options(ctx, formatter)
        self.format_commands(ctx, formatter)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands (`billhook events COMMAND --help` tells more)"):
            formatter.write_dl(list(COMMANDS.items()))


_VIEW = click.command("events", cls=_View, epilog=_EPILOG)(
    click.argument("sessions", metavar="[SESSION]", nargs=-1)(view)
)
verb = _EventsGroup("events", help=view.__doc__, epilog=_EPILOG, add_help_option=True)

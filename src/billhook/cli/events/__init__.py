"""`billhook events`: query the event log. Without a command it shows the events."""

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
from billhook.store.log import Record
from billhook.store.log.reader import LogEntry, called, hooks_of
from billhook.store.sessions import VERBS

IN_THE_TABLE = 100  # records in the table, unless --limit is given
_BEFORE_FOLLOWING = 10
_LOOKED_AT = 200  # newest records that are searched for the names of hooks
_HOW = (
    "A record is written for each event in this project: from an agent that runs `billhook hook`, "
    "from `billhook fire`, or from a program that loads this configuration."
)
T = TypeVar("T")
_MINIMAL = "id time session_id session_name turn_id event tool decision reason"


def format_options(verb: Any) -> Any:
    """The options `--json`, `--human` and `--minimal`."""
    text = "One short line for each record; in JSON, only a few fields."
    verb = flag("--minimal", "-m", text)(verb)
    return query.json_options("JSON lines: each record as logged, with its event. The default in a pipe.")(verb)


@query.filter_options
@query.slice_options("100 in the table")
@format_options
@flag("--follow", "-f", "--tail", "follow", "Show the last 10, or --last N, and then new ones until Ctrl-C.")
def view(filters: query.Filters, part: query.Slice, in_json: bool, minimal: bool, follow: bool) -> int:
    """Show the events of this project, with the decisions of hooks.

    SESSION is `.` (the newest of this project), a session's name, an id or its first 6 characters, or several
    separated by commas. Without it, all sessions of this project. The oldest event comes first, also in JSON.

    On a terminal, `billhook events` and its commands print tables. In a pipe, most of them print JSON lines; --human
    prints tables there, too. save, rename and verify print text, unless --json is given.
    """
    if filters.sessions and filters.sessions[0] in VERBS:
        right = f"write `billhook events {' '.join(filters.sessions)} OPTIONS`"
        raise UsageError(f"options must come after `{filters.sessions[0]}`", hint=right)
    if follow and (part.first is not None or part.limit or part.offset or filters.until):
        raise UsageError("--follow only works with --last", hint="leave out --first, --limit, --offset and --until")
    where = query.here()
    if follow and set(words(filters.sessions)) == {"."} and not query.newest_session(where):
        filters = msgspec.structs.replace(filters, sessions=())  # no session has started yet: wait for the first one
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
    """Prints records in the chosen format."""

    def __init__(
        self, where: query.LogScope, *, in_json: bool = False, minimal: bool = False, hook: str | None = None
    ) -> None:
        self.in_json, self.minimal, self.hook = in_json, minimal, hook
        self.names = query.SessionNames(where)

    def show(self, logs: query.Logs, entries: Iterable[LogEntry]) -> int:
        """Print them all; returns their number."""
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
        """Print one record."""
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
        """Print on standard error how many records were shown. Below JSON, only warnings."""
        there = logs.count()
        if not there:
            show_nothing(logs, in_json=self.in_json)
            return
        match = " in the log match" if filters else " in the log"
        notes = [f"{shown:,} of {counted_records(there)}{'' if shown else match}"]
        if part.limit and shown == part.limit and not (part.last or part.first):
            notes.append(f"the newest {shown} (--limit 0 for all, --offset {part.offset + shown} for earlier ones)")
        _note_count(notes, logs.foreign, shown, in_json=self.in_json)
        if logs.unread:
            which = f"{counted_records(logs.unread)} could not be searched completely"
            missing = "its side file is" if logs.unread == 1 else "their side files are"
            name = "it" if logs.unread == 1 else "them"
            note(f"{which}: {missing} missing or damaged; `billhook events verify` names {name}")
        if not shown and self.hook is not None:
            newest = islice((entry for reader in logs.readers for entry in reader.backward()), _LOOKED_AT)
            known = {name for entry in newest for name in hooks_of(entry.record)}
            if known and not any(called(one, self.hook) for one in known):  # else another filter excludes it
                near = visible(suggest(self.hook, sorted(known)))
                hint(f"no recent record has a hook `{visible(self.hook)}`; {near}")


def show_nothing(logs: query.Logs, *, in_json: bool) -> int:
    """The screen for an empty log: its path, and what writes records. Returns the exit code."""
    folders = [reader.folder for reader in logs.readers] or [logs.here.reader().folder]
    path = one_line(shown_path(f"{folders[0]}/hooks.jsonl", here=False), 300)
    project = one_line(shown_path(logs.here.project, here=False), 200)
    text = "\n".join([f"no events are recorded for {project}", "", f"looked in {path}", "", *filled(_HOW, 0)])
    if logs.foreign:
        text += f"\nSkipped {counted(logs.foreign, 'line')} there that billhook did not write."
    say(text, err=in_json)
    hint("`billhook fire PreToolUse --tool Bash` records a first event")
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
    """Print the last items as JSON lines or as a table, and their number on standard error. Returns the exit code."""
    shown = found if last is None else found[max(0, len(found) - last) :]
    report(in_json, draw(shown) if shown else (), *shown)
    _note_count([f"{len(shown):,} of {counted(len(found), thing)}"], foreign, len(shown), in_json=in_json)
    return 0


def _note_count(notes: list[str], foreign: int | None, shown: int, *, in_json: bool) -> None:
    """Print the notes. The first one, the number of records, is left out below JSON lines."""
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
    with suppress(KeyboardInterrupt):  # this is how it ends
        for entry in logs.followed(newest):
            printer.one(logs, entry, table)
    return 0


# The group of commands:
COMMANDS = {
    "list": "The sessions of this project, with counts of their events.",
    "search": "The events that contain some text.",
    "show": "One event in full.",
    "save": "Print an event as a test case, or as a `fire` command.",
    "files": "The files that tools read and wrote.",
    "stats": "How often and how long each hook ran, the slowest first.",
    "rename": "Name a session.",
    "verify": "Check that nothing in the log was changed, removed or added.",
    "export": "The raw lines of the log, to archive or send elsewhere.",
}
_EPILOG = """\b
Examples:
  billhook events . --last 5
  billhook events --decision deny,ask --since 1d
  billhook events --hook my-guard --since 22:00     why did it not run?
  billhook events jolly-squid --tool Bash --json | jq .input.command
  billhook events search "turn-tracker"
  billhook events --follow

Exit code: 0 success, also if nothing matches; 1 `verify` found a change;
2 usage, or a log that can't be read."""


class _View(click.Command):
    """Shown as `billhook events` in help and errors, because that is what users type."""

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        above = parent.parent if parent is not None else None
        return super().make_context(parent.info_name if parent else info_name, args, parent=above, **extra)

    def collect_usage_pieces(self, ctx: click.Context) -> list[str]:
        return ["[SESSION]", "[OPTIONS]"]


class _EventsGroup(LazyCommands):
    """A group whose first argument may also be a session."""

    lines, package = COMMANDS, __name__
    modules: ClassVar = {"list": "stats", "rename": "stats", "search": "show", "files": "stats"}
    modules |= dict.fromkeys(("verify", "save"), "export")

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        return super().get_command(ctx, cmd_name) if cmd_name else _VIEW

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        known = args[0] in (*COMMANDS, "-h", "--help") if args else ctx.resilient_parsing  # for shell completion
        return super().parse_args(ctx, args if known else ["", *args])

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        return [*super().shell_complete(ctx, incomplete), *_VIEW.shell_complete(ctx, incomplete)]

    def collect_usage_pieces(self, ctx: click.Context) -> list[str]:
        return ["[SESSION]", "[OPTIONS]"]

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        _VIEW.format_options(ctx, formatter)
        self.format_commands(ctx, formatter)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands (`billhook events COMMAND --help` has details)"):
            formatter.write_dl(list(COMMANDS.items()))


_VIEW = click.command("events", cls=_View, epilog=_EPILOG)(
    click.argument("sessions", metavar="[SESSION]", nargs=-1)(view)
)
verb = _EventsGroup("events", help=view.__doc__, epilog=_EPILOG, add_help_option=True)

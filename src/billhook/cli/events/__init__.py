"""`billhook events`: query the event log. Without a command it shows the events, as a table on a terminal."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import islice
from typing import Any, ClassVar, Final, NamedTuple, TypeVar

import click
import msgspec
from click.shell_completion import CompletionItem

from billhook.cli import screen, times
from billhook.cli.events import query
from billhook.cli.events.query import SessionNames
from billhook.cli.group import LazyCommands
from billhook.cli.options import flag, words
from billhook.cli.screen import FAILED
from billhook.config.history import about
from billhook.core import strictjson
from billhook.core.errors import UsageError
from billhook.core.text import counted, flat, one_line, suggestion, visible
from billhook.store.log import OutcomeRecord, Record
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
            screen.write("\n".join(short if self.minimal else self._table(records)))
        return len(records)

    def one(self, logs: query.Logs, entry: LogEntry, table: "Table | None" = None) -> None:
        if self.in_json:
            few = strictjson.encode(screen.picked(entry.record, _MINIMAL)) if self.minimal else None
            click.echo(few or query.line_of(entry, logs.whole(entry)))
            return
        row = EventRow(logs.whole(entry))
        screen.write(minimal(row, self.names) if table is None or self.minimal else "\n".join(table.lines(row)))

    def _table(self, records: list[Record]) -> Iterator[str]:
        rows = joined(records)
        sessions = {(self.names.name(record), record.session_id) for record in records}  # two machines may share an id
        alone = len(sessions) == 1 and records[0].session_id != ""
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
            screen.note(f"{which}: {missing} missing or damaged; `billhook events verify` names {name}")
        if not shown and self.hook is not None:
            newest = islice((entry for reader in logs.readers for entry in reader.backward()), _LOOKED_AT)
            known = {name for entry in newest for name in hooks_of(entry.record)}
            if known and not any(called(one, self.hook) for one in known):  # else another filter excludes it
                near = visible(suggestion(self.hook, sorted(known)))
                screen.hint(f"no recent record has a hook `{visible(self.hook)}`; {near}")


def show_nothing(logs: query.Logs, *, in_json: bool) -> int:
    """The screen for an empty log: its path, and what writes records. Returns the exit code."""
    folders = [reader.folder for reader in logs.readers] or [logs.here.reader().folder]
    path = one_line(screen.shown_path(f"{folders[0]}/hooks.jsonl", here=False), 300)
    project = one_line(screen.shown_path(logs.here.project, here=False), 200)
    text = "\n".join([f"no events are recorded for {project}", "", f"looked in {path}", "", *screen.filled(_HOW, 0)])
    if logs.foreign:
        text += f"\nSkipped {counted(logs.foreign, 'line')} there that billhook did not write."
    screen.write(text, err=in_json)
    screen.hint("`billhook fire PreToolUse --tool Bash` records a first event")
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
    screen.report(in_json, draw(shown) if shown else (), *shown)
    _note_count([f"{len(shown):,} of {counted(len(found), thing)}"], foreign, len(shown), in_json=in_json)
    return 0


def _note_count(notes: list[str], foreign: int | None, shown: int, *, in_json: bool) -> None:
    """Print the notes. The first one, the number of records, is left out below JSON lines."""
    below = notes[1:] if in_json and shown else notes
    if foreign:
        below.append(f"skipped {counted(foreign, 'line')} that billhook did not write")
    if below:
        screen.write(f"{'' if in_json or not shown else chr(10)}{'; '.join(below)}", err=True)


def counted_records(number: int) -> str:
    return f"{number:,} record" if number == 1 else f"{number:,} records"


def _follow(logs: query.Logs, part: query.Slice, printer: Printer) -> int:
    table = Table([], printer.names, hook=printer.hook)
    if not printer.in_json and not printer.minimal:
        screen.write(table.head())
    newest = query.Slice(last=_BEFORE_FOLLOWING if part.last is None else part.last)
    with suppress(KeyboardInterrupt):  # this is how it ends
        for entry in logs.followed(newest):
            printer.one(logs, entry, table)
    return 0


# Its rows: one for each record, or for a tool's call and its result together.
_SEVERE: Final = ("deny", "stop", "defer", "ask", "failed open", "keep going", "allow")
"""The decision of a pair: the first of these that one of the two records has."""


class EventRow(msgspec.Struct, frozen=True):
    """One line of the table: a record, or a tool's call together with its result."""

    record: Record
    after: Record | None = None

    @property
    def records(self) -> tuple[Record, ...]:
        return (self.record,) if self.after is None else (self.record, self.after)

    @property
    def event(self) -> str:
        if self.after is None:
            return self.record.event
        return "Pre+Post" if self.after.event == "PostToolUse" else "Pre+PostFailure"

    @property
    def word(self) -> str:
        words = [word(record) for record in self.records]
        return next((one for one in _SEVERE if one in words), "none")

    @property
    def ms(self) -> float:
        return sum(record.duration_ms for record in self.records)


def joined(records: Iterable[Record]) -> list[EventRow]:
    """Rows in the order of their first record. Records with the same session, tool and tool_use_id are a pair. A denied
    call has no result, so it is never part of a pair."""
    rows: list[EventRow] = []
    calls: dict[tuple[str | None, ...], int] = {}
    for record in records:
        key = (record.session_id, record.tool, record.tool_use_id)
        if record.event in ("PostToolUse", "PostToolUseFailure") and key in calls:
            place = calls.pop(key)
            rows[place] = EventRow(rows[place].record, record)
            continue
        if record.event == "PreToolUse" and record.tool_use_id and record.decision != "deny":
            calls[key] = len(rows)
        rows.append(EventRow(record))
    return rows


def word(record: Record) -> str:
    """The decision about an event, or a more important effect."""
    if record.stop:
        return "deny" if record.decision == "deny" else "stop"
    if record.decision in ("deny", "defer", "ask"):
        return record.decision
    if record.failed_open:
        return "failed open"
    return "keep going" if record.keep_going else record.decision


def sent_instead(record: Record) -> str:
    """What the agent received, if its format can't express what the hooks decided; else empty."""
    became = any("became a deny" in text or "becomes deny" in text for text in record.lost)
    return f"sent to {record.host or 'the agent'} as deny" if became and record.decision != "deny" else ""


def what(record: Record) -> str:
    """The tool, and its input or the subject of the event."""
    return f"{record.tool or ''} {about(record)}".strip()


def turn(record: Record) -> str:
    """The number of the turn, and after a dot the number of the subagent's turn."""
    prefix = f"{record.session_id}:"
    if not record.turn_id.startswith(prefix):
        return record.turn_id.rpartition(":")[2]
    return record.turn_id.removeprefix(prefix).replace(":s:", ".")


def details(row: EventRow, hook: str | None = None) -> Iterator[tuple[str, str]]:
    """Lines below a row, each with the decision that gives it its colour. `hook`: also what this hook did."""
    for record in row.records:
        decided = list(_deciding(record))
        yield from ((word(record), text) for text in decided)
        if instead := sent_instead(record):
            yield "deny", instead
        failed = [one for one in record.outcomes if one.status in FAILED]
        yield from (("failed open" if one.failed_open else "failed", failure(one)) for one in failed)
        for name, text in parts_of(hook, record) if hook is not None else ():
            if not any(one.startswith(f"{name}: ") for one in decided):
                yield "", f"{name}: {text}"
        if record.event == "PostToolUseFailure" and isinstance(record.output, str):
            yield "failed", f"the tool failed: {record.output}"


def _deciding(record: Record) -> Iterator[str]:
    """The reasons, each with its hook; the reason alone if it is not from a hook."""
    found = [
        f"{one.hook}: {one.reason}"
        for one in record.outcomes
        if one.reason and one.decision == record.decision and one.status not in FAILED
    ]
    if found and record.decision != "none":
        yield from found
    elif record.reason and not any(one.error and one.error in record.reason for one in record.outcomes):
        yield record.reason


def failure(one: OutcomeRecord) -> str:
    """How a hook failed, and whether the event continued."""
    text = f"{one.hook} {one.status.replace('_', ' ')}{' (event continued)' if one.failed_open else ''}"
    return f"{text}: {one.error}" if one.error else text


def parts_of(hook: str, record: Record) -> Iterator[tuple[str, str]]:
    """The hooks of this name, each with what it did for an event, or why it was skipped."""
    for one in record.outcomes:
        if called(one.hook, hook) and one.status not in ("skipped", *FAILED):
            yield one.hook, f"{screen.word_of(one)}, {one.duration_ms:.1f} ms"
    for name, why in record.not_asked.items():
        if called(name, hook):
            yield name, f"skipped: {why}"


# The table:
_NARROW = 80  # on a narrower screen, WHAT is below its row
_LEAST = 16  # the least width of the column WHAT; other columns are left out first
_WIDE = 60  # of the same text where it needs two lines
_INDENT = 8
_MOST_DETAILS = 4


class Column(NamedTuple):
    title: str
    usual: int = 0  # its width if the rows are not known in advance
    most: int = 30
    least: int = 0
    right: bool = False


_COLUMNS: Final = {
    "nr": Column("NR", 5, most=12, right=True),
    "time": Column("TIME", 8),
    "session": Column("SESSION", 14, most=18),
    "turn": Column("TURN", 4, most=6, right=True),
    "event": Column("EVENT", 12, most=18),
    "what": Column("WHAT"),
    "decision": Column("DECISION", 11, most=11),
    "ms": Column("MS", 7, most=9, least=7, right=True),
}


class Table:
    """Draws rows. The given rows determine the widths; without rows, usual widths apply."""

    def __init__(
        self,
        rows: Sequence[EventRow],
        names: SessionNames,
        *,
        hook: str | None = None,
        alone: bool = False,
        quiet: bool = False,
    ) -> None:
        """`alone`: all rows are of one session, so its column is left out. `hook`: show what this hook did. `quiet`: no
        details below a row."""
        self._names, self._hook, self._quiet = names, hook, quiet
        narrow = screen.table_width() < _NARROW
        self._shown = [
            name for name in _COLUMNS if not (alone and name == "session") and not (narrow and name == "what")
        ]
        drawn = [self._cells(row) for row in rows]
        self._widths = self._fitted(drawn)
        for name in ("ms", "turn", "session"):
            if self._widths["what"] < (0 if narrow else _LEAST) and name in self._shown:
                self._shown.remove(name)
                self._widths = self._fitted(drawn)
        self._day = ""

    def head(self) -> str:
        return click.style(self._line({name: column.title for name, column in _COLUMNS.items()}), dim=True)

    def lines(self, row: EventRow) -> Iterator[str]:
        """A row with its details below it, and with the day above it if that is a new one."""
        day = times.day(row.record.time)
        if day != self._day:
            self._day = day
            yield click.style(day, bold=True)
        drawn = self._cells(row)
        yield self._line(drawn, row.word)
        if "what" not in self._shown and drawn["what"]:
            yield " " * _INDENT + screen.cut(drawn["what"], screen.table_width() - _INDENT)
        below = [] if self._quiet else list(details(row, self._hook))
        for word, text in below[:_MOST_DETAILS]:
            for line in screen.few(screen.filled(text, _INDENT, screen.table_width(), hang=2), 2):
                yield screen.coloured(line, word)
        if len(below) > _MOST_DETAILS:
            yield f"{' ' * _INDENT}and {len(below) - _MOST_DETAILS} more: billhook events show {row.record.seq}"

    def _cells(self, row: EventRow) -> dict[str, str]:
        record = row.record
        return {
            "nr": str(record.seq),
            "time": times.clock(record.time),
            "session": self._names.of(record),
            "turn": turn(record),
            "event": row.event,
            "what": what(record),
            "decision": row.word,
            "ms": f"{row.ms:.1f}",
        }

    def _fitted(self, rows: Sequence[dict[str, str]]) -> dict[str, int]:
        widths = {name: _COLUMNS[name].usual for name in self._shown}
        for name in self._shown if rows else ():
            column = _COLUMNS[name]
            longest = max(column.least, len(column.title), *(screen.cells(flat(row[name])) for row in rows))
            widths[name] = min(longest, column.most)
        rest = sum(widths[name] + 2 for name in self._shown if name != "what")
        longest = max((screen.cells(flat(row["what"])) for row in rows), default=screen.table_width())
        return {**widths, "what": min(screen.table_width() - rest, max(longest, _LEAST))}

    def _line(self, row: dict[str, str], word: str = "") -> str:
        parts = []
        for name in self._shown:
            text = screen.padded(row[name], self._widths[name], right=_COLUMNS[name].right)
            shown = text.rstrip()  # no colour on padding
            parts.append(screen.coloured(shown, word) + text[len(shown) :] if name == "decision" else text)
        return "  ".join(parts).rstrip()


def minimal(row: EventRow, names: SessionNames) -> str:
    record = row.record
    day, clock = times.day(record.time), times.clock(record.time)
    head = f"{day} {clock} {flat(names.of(record))} {flat(record.event)} "
    room = screen.table_width() - screen.cells(head) - len(row.word) - 1
    text = screen.cut(what(record), room if room > _LEAST else _WIDE)
    return f"{head}{screen.coloured(row.word, row.word)} {text}".rstrip()


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

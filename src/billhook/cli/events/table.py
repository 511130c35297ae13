"""The table of events: one row for each record, or for a tool's call and its result together."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, NamedTuple

import click
import msgspec

from billhook.cli import times
from billhook.cli.events.query import FAILED, SessionNames
from billhook.cli.screen import cells, coloured, cut, few, filled, padded, table_width, word_of
from billhook.core import strictjson, tools
from billhook.core.events import EVENTS
from billhook.core.text import flat
from billhook.store.log import OutcomeRecord, Record
from billhook.store.log.reader import called

TRUST: Final = "Trust"  # The event of an approval. It belongs to no session.

_AFTER: Final = frozenset({"PostToolUse", "PostToolUseFailure"})
_SEVERE: Final = ("deny", "stop", "defer", "ask", "failed open", "keep going", "allow")
"""The decision of a pair: the first of these that one of the two records has."""
_TELLING: Final = (
    "prompt", "message", "url", "pattern", "query", "input", "description", "task", "subject", "error", "name",
    "task_subject", "teammate_name",
)  # fmt: skip
"""Fields that describe an event or a call, for events and tools without a better one."""


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
        """The decision."""
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
        if record.event in _AFTER and key in calls:
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


def told(record: Record) -> str:
    """What the agent received, if its format can't express what the hooks decided; else empty."""
    became = any("became a deny" in text or "becomes deny" in text for text in record.lost)
    return f"sent to {record.host or 'the agent'} as deny" if became and record.decision != "deny" else ""


def what(record: Record) -> str:
    """The tool, and its input or the subject of the event."""
    return f"{record.tool or ''} {about(record)}".strip()


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
    return next((found for key in _TELLING if isinstance(found := fields.get(key), str) and found), "")


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
        if instead := told(record):
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
            yield one.hook, f"{word_of(one)}, {one.duration_ms:.1f} ms"
    for name, why in record.not_asked.items():
        if called(name, hook):
            yield name, f"skipped: {why}"


# The table of events:
_NARROW = 80  # on a narrower screen, WHAT is below its row
_LEAST = 16  # the least width of the column WHAT; other columns are left out first
_WIDE = 60  # of the same text where it needs two lines
_DISPENSABLE: Final = ("ms", "turn", "session")
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
        narrow = table_width() < _NARROW
        self._shown = [
            name for name in _COLUMNS if not (alone and name == "session") and not (narrow and name == "what")
        ]
        drawn = [self._cells(row) for row in rows]
        self._widths = self._fitted(drawn)
        for name in _DISPENSABLE:
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
            yield " " * _INDENT + cut(drawn["what"], table_width() - _INDENT)
        below = [] if self._quiet else list(details(row, self._hook))
        for word, text in below[:_MOST_DETAILS]:
            for line in few(filled(text, _INDENT, table_width(), hang=2), 2):
                yield coloured(line, word)
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
            longest = max(column.least, len(column.title), *(cells(flat(row[name])) for row in rows))
            widths[name] = min(longest, column.most)
        rest = sum(widths[name] + 2 for name in self._shown if name != "what")
        longest = max((cells(flat(row["what"])) for row in rows), default=table_width())
        return {**widths, "what": min(table_width() - rest, max(longest, _LEAST))}

    def _line(self, row: dict[str, str], word: str = "") -> str:
        parts = []
        for name in self._shown:
            text = padded(row[name], self._widths[name], right=_COLUMNS[name].right)
            shown = text.rstrip()  # no colour on padding
            parts.append(coloured(shown, word) + text[len(shown) :] if name == "decision" else text)
        return "  ".join(parts).rstrip()


def minimal(row: EventRow, names: SessionNames) -> str:
    """A row as one short line, without a table."""
    record = row.record
    day, clock = times.day(record.time), times.clock(record.time)
    head = f"{day} {clock} {flat(names.of(record))} {flat(record.event)} "
    room = table_width() - cells(head) - len(row.word) - 1
    return f"{head}{coloured(row.word, row.word)} {cut(what(record), room if room > _LEAST else _WIDE)}".rstrip()

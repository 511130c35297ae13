"""The table of events: as wide as the terminal, coloured by decision, nothing in it that a record could smuggle in."""

import shutil
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

import click

from billhook.cli import events_times
from billhook.cli.events_rows import Row, details, turn, what
from billhook.cli.events_sessions import Names
from billhook.text import flat

COLOURS: Final = {
    "deny": "red", "stop": "red", "ask": "yellow", "defer": "yellow", "allow": "green", "keep going": "cyan",
    "failed open": "magenta", "failed": "magenta",
}  # fmt: skip
_NARROWEST, _WIDEST = 60, 200
_LEAST = 16  # columns for what an event was about; others are left out before it gets less
_DISPENSABLE: Final = ("ms", "turn", "session")
_LONGEST_SESSION = 18
_INDENT = 8
_MOST_DETAILS = 4


class Column(NamedTuple):
    title: str
    right: bool = False
    most: int = 30
    least: int = 0


_COLUMNS: Final = {
    "nr": Column("NR", right=True, most=12),
    "time": Column("TIME"),
    "session": Column("SESSION", most=_LONGEST_SESSION),
    "turn": Column("TURN", right=True, most=6),
    "event": Column("EVENT", most=18),
    "what": Column("WHAT"),
    "decision": Column("DECISION", most=11),
    "ms": Column("MS", right=True, most=9, least=7),
}
_FOLLOWING: Final = {"nr": 5, "time": 8, "session": 14, "turn": 4, "event": 12, "decision": 11, "ms": 7}
"""Widths where the rows are not known beforehand."""


def width() -> int:
    """Columns to fill: those of the terminal, within reason."""
    return max(_NARROWEST, min(shutil.get_terminal_size().columns, _WIDEST))


class Table:
    """Draws rows. Widths follow the rows that it is made for; without any they fit what usually comes."""

    def __init__(
        self, rows: Sequence[Row], names: Names, *, hook: str | None = None, alone: bool = False, quiet: bool = False
    ) -> None:
        """`alone`: all rows are of one session, which need not be said in each. `hook`: say what it did. `quiet`: no
        details below a row."""
        self._names, self._hook, self._quiet = names, hook, quiet
        self._shown = [name for name in _COLUMNS if not (alone and name == "session")]
        drawn = [self._cells(row) for row in rows]
        self._widths = self._fitted(drawn)
        for name in _DISPENSABLE:
            if self._widths["what"] < _LEAST and name in self._shown:
                self._shown.remove(name)
                self._widths = self._fitted(drawn)
        self._day = ""

    def head(self) -> str:
        titles = {name: column.title for name, column in _COLUMNS.items()}
        return click.style(self._line(titles), dim=True)

    def lines(self, row: Row) -> Iterator[str]:
        """A row, the day before it where a new one begins, and below it what else is to be said."""
        day = events_times.day(row.record.time)
        if day != self._day:
            self._day = day
            yield click.style(day, bold=True)
        yield self._line(self._cells(row), row.word)
        said = [] if self._quiet else list(details(row, self._hook))
        for word, text in said[:_MOST_DETAILS]:
            yield coloured(" " * _INDENT + cut(text, width() - _INDENT), word)
        if len(said) > _MOST_DETAILS:
            yield f"{' ' * _INDENT}and {len(said) - _MOST_DETAILS} more: billhook events show {row.record.seq}"

    def _cells(self, row: Row) -> dict[str, str]:
        record = row.record
        return {
            "nr": str(record.seq),
            "time": events_times.clock(record.time),
            "session": self._names.of(record),
            "turn": turn(record),
            "event": row.event,
            "what": what(record),
            "decision": row.word,
            "ms": f"{row.ms:.1f}",
        }

    def _fitted(self, rows: Sequence[dict[str, str]]) -> dict[str, int]:
        widths = {name: _FOLLOWING.get(name, 0) for name in self._shown}
        if rows:
            for name in self._shown:
                column = _COLUMNS[name]
                longest = max(column.least, len(column.title), *(cells(flat(row[name])) for row in rows))
                widths[name] = min(longest, column.most)
        rest = sum(widths[name] + 2 for name in self._shown if name != "what")
        return {**widths, "what": width() - rest}

    def _line(self, row: dict[str, str], word: str = "") -> str:
        parts = []
        for name in self._shown:
            text = padded(row[name], self._widths[name], right=_COLUMNS[name].right)
            shown = text.rstrip()  # colour on the words only
            parts.append(coloured(shown, word) + text[len(shown) :] if name == "decision" else text)
        return "  ".join(parts).rstrip()


def coloured(text: str, word: str) -> str:
    """A text in the colour of a decision; as it is, to the byte, where that has none."""
    return click.style(text, fg=COLOURS[word]) if word in COLOURS else text


def minimal(row: Row, names: Names) -> str:
    """A row in one short line, without a table around it."""
    record = row.record
    day, clock = events_times.day(record.time), events_times.clock(record.time)
    head = f"{day} {clock} {flat(names.of(record))} {flat(record.event)} "
    room = max(_LEAST, width() - cells(head) - len(row.word) - 1)
    return f"{head}{coloured(row.word, row.word)} {cut(what(record), room)}".rstrip()


def aligned(titles: Sequence[str], rows: Iterable[Sequence[str]], *, right: Iterable[int] = (), flexible: int) -> str:
    """A small table: columns as wide as they must be, and one that takes what is left."""
    drawn = [list(titles), *(list(map(flat, row)) for row in rows)]
    widths = [max(map(cells, column)) for column in zip(*drawn, strict=True)]
    rest = sum(widths) - widths[flexible] + 2 * (len(titles) - 1)
    widths[flexible] = min(widths[flexible], max(_LEAST, width() - rest))
    to_right = set(right)
    head, *lines = (
        "  ".join(padded(text, widths[at], right=at in to_right) for at, text in enumerate(row)).rstrip()
        for row in drawn
    )
    return "\n".join([click.style(head, dim=True), *lines])


def padded(text: str, room: int, *, right: bool = False) -> str:
    shown = cut(text, room)
    blank = " " * (room - cells(shown))
    return blank + shown if right else shown + blank


def cut(text: str, room: int) -> str:
    """A text in one line, harmless, and cut where it is too long."""
    shown = flat(text[: 20 * room + 100])
    if cells(shown) <= room:
        return shown
    kept, used = "", 0
    for char in shown:
        used += cells(char)
        if used > room - 3:
            break
        kept += char
    return kept + "..."


def cells(text: str) -> int:
    """How many columns of a terminal a text takes."""
    if text.isascii():
        return len(text)
    return sum(2 if unicodedata.east_asian_width(char) in "WF" else not unicodedata.combining(char) for char in text)

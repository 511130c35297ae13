"""Output for people: lines, tables, colours, hints, errors and verdicts."""

import errno
import os
import re
import shutil
import sys
import time
import unicodedata
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

import click
import msgspec

from billhook.cli.signals import hang_up
from billhook.core import strictjson
from billhook.core.errors import BillhookError
from billhook.core.text import Finding, flat, one_line, visible
from billhook.store.files import StoreError
from billhook.store.log import OutcomeRecord

if TYPE_CHECKING:
    from billhook.config.config import Config


# Lines that fit the width of the screen:
_WIDEST = 120
_LONGEST = 1000  # characters of one text: paths are shown whole, but no text fills the screen
_GAP = "   "
_PARTS = re.compile(r"(\s*)(\S+)")
_VERBATIM = re.compile(r"\s*\| |\s+(?:billhook|cd|export|git|rm) (?!.*\S  )")
"""Code that an approval covers, and commands to copy: a terminal breaks them, so that they can be copied."""


def width() -> int:
    """Columns for text: those of the terminal, but at most 120, because long lines are hard to read. Without a
    terminal, lines stay whole."""
    columns = _columns()
    return columns if columns >= _LONGEST else max(40, min(columns, _WIDEST))


def _columns() -> int:
    return min(_LONGEST, shutil.get_terminal_size((_LONGEST, 24)).columns)


def wrapped(text: str, columns: int, hang: int) -> Iterator[str]:
    """One line in lines that fit, broken at blanks. All but the first begin with `hang` blanks. A word that is longer
    than a line stays where it is."""
    line = ""
    for blank, word in _PARTS.findall(text):
        needed = cells(click.unstyle(line + blank + word))
        if line.strip() and needed > columns and hang + cells(click.unstyle(word)) <= columns:
            yield line
            line = " " * hang + word
        else:
            line += blank + word
    yield line


def filled(text: str, indent: int, columns: int | None = None, *, hang: int = 0) -> Iterator[str]:
    """Text in lines that fit, each with its indent. `hang`: more of it for all but the first."""
    flat = visible(with_shown_paths(" ".join(text[: 2 * _LONGEST].split())))
    shown = flat if len(flat) <= _LONGEST else flat[:_LONGEST] + " ..."
    return wrapped(" " * indent + shown, max(indent + 20, columns or width()), indent + hang)


def hanging(text: str, indent: int) -> Iterator[str]:
    """Text in lines that fit, all but the first with two more columns of indent."""
    return filled(text, indent, hang=2)


def beside(
    head: str, text: str, *, below: int = 4, columns: int | None = None, most: int | None = None
) -> Iterator[str]:
    """Text to the right of a head, in lines that fit. If the head is longer than `most`, or half of the screen, the
    text is below it, with this indent."""
    taken, room = cells(click.unstyle(head)), columns or width()
    if taken > (most or room // 2):
        yield head.rstrip()
        yield from filled(text, below, room)
    else:
        first, *rest = filled(text, taken, room)
        yield f"{head}{first[taken:]}".rstrip()
        yield from rest


def few(lines: Iterable[str], most: int) -> list[str]:
    """At most so many lines, with dots in place of the others."""
    shown = list(islice(lines, most + 1))
    if len(shown) <= most:
        return shown
    *before, last = shown[:most]
    while cells(last) + 4 > table_width() and " " in last.strip():
        last = last.rpartition(" ")[0]
    return [*before, f"{last} ..."]


def fitted(text: str, columns: int) -> str:
    """Text in lines that fit. A label, or the first column of a line, stays clear of the text beside it."""
    return "\n".join(part for line in text.split("\n") for part in _fitted(line, columns))


def _fitted(line: str, columns: int) -> Iterator[str]:
    plain = click.unstyle(line)
    if cells(plain) <= columns or _VERBATIM.match(plain):
        yield line
        return
    indent = len(plain) - len(plain.lstrip())
    gaps = [gap.end() for gap in re.finditer(r"(?<=\S) {2,}", plain)]
    hang = max((gap for gap in gaps if gap <= columns / 2), default=0)
    if gaps and not hang:  # a long first column: the second one is below it
        left, right = re.split(r"(?<=\S) {2,}", line, maxsplit=1)
        yield from (*wrapped(left, columns, indent + 2), *wrapped(" " * (indent + 4) + right, columns, indent + 4))
    else:
        yield from wrapped(line, columns, hang or indent + 2)


def facts(items: Iterable[str], indent: int) -> Iterator[str]:
    """Short facts beside each other, as many in a line as fit. A long fact gets a separate line."""
    room = width() - indent
    line = ""
    for item in (one_line(item, _LONGEST) for item in items):
        if line and len(line) + len(_GAP) + len(item) > room:
            yield " " * indent + line
            line = ""
        line = f"{line}{_GAP}{item}" if line else item
    if line:
        yield " " * indent + line


def name_lines(rows: Sequence[tuple[str, str]], column: int = 0) -> Iterator[str]:
    """Names and descriptions in two columns. `column`: the least width of the first."""
    column = max(column, name_column(visible(name) for name, _ in rows))
    for name, text in rows:
        yield from beside(f"  {visible(name):<{column}}  ", text, below=6, most=column + 4)


def command_lines(commands: Sequence[tuple[str, str]]) -> Iterator[str]:
    """Commands to type, each with its purpose beside it, or below it on a narrow screen."""
    column = max(len(command) for command, _ in commands)
    beside = all(column + len(purpose) + 4 <= width() for _, purpose in commands)
    for command, purpose in commands:
        shown = click.style(command, fg="cyan") + (" " * (column - len(command)) if beside else "")
        yield f"  {shown}  {purpose}" if beside else f"  {shown}"
        yield from () if beside else filled(purpose, 6)


def shown_path(path: str, *, here: bool = True, home: bool = True) -> str:
    """A path as users write it: relative to this folder, or with `~` for the home folder."""
    for folder, prefix in _folders()[0 if here else 1 : 2 if home else 1]:
        if path.startswith(folder + "/"):
            return prefix + path[len(folder) + 1 :]
    return path


def with_shown_paths(text: str) -> str:
    """A sentence with its paths as users write them."""
    for folder, prefix in _folders():
        if folder in text:
            text = re.sub(rf"(?<![\w/.~-]){re.escape(folder)}/", prefix, text)
    return text


def first_problem(problems: Iterable[Finding]) -> str:
    """File and line of the first problem that is not just a note; empty without one."""
    return next((with_shown_paths(f"{one.file}:{one.line}") for one in problems if not one.note), "")


def unreadable(config: "Config") -> str:
    """A hint for a configuration that has problems and no hooks; empty without a problem."""
    where = first_problem(config.problems)
    return f"no hook can be read: fix {where} first; `billhook check` shows all problems" if where else ""


def _folders() -> list[tuple[str, str]]:
    """This folder and the home folder, each with its short form. The root folder has none."""
    return [(folder if len(folder) > 1 else "//", prefix) for folder, prefix in ((_real("."), ""), (_real("~"), "~/"))]


def _real(folder: str) -> str:
    with suppress(OSError):
        return os.path.realpath(os.path.expanduser(folder))
    return ""


# Colours: one table for all screens. The output has none if NO_COLOR is set or it is not a terminal.
COLOURS: Final = {
    **dict.fromkeys(("deny", "stop", "fail"), "red"),
    **dict.fromkeys(("ask", "defer", "warn", "note"), "yellow"),
    **dict.fromkeys(("allow", "ok"), "green"),
    **dict.fromkeys(("failed", "failed open", "timed out", "could not start"), "magenta"),
    "keep going": "cyan",
}
"""By decision, status of a hook, or level of a finding."""


def coloured(text: str, word: str) -> str:
    """The text in the colour of a decision; unchanged if that has none."""
    return click.style(text, fg=COLOURS[word]) if word in COLOURS else text


# Tables:
_NARROWEST_TABLE, _WIDEST_TABLE = 60, 200
_LEAST = 16  # the least width of a flexible column


def table_width() -> int:
    """The width of the terminal, within limits that are wider than those of text."""
    return max(_NARROWEST_TABLE, min(_columns(), _WIDEST_TABLE))


def aligned(
    titles: Sequence[str],
    rows: Iterable[Sequence[str]],
    *,
    right: Collection[int] = (),
    flexible: int = 0,
    least: int = _LEAST,
    most: int = _WIDEST_TABLE,
    room: int | None = None,
    style: str = "dim",
    drop: Iterable[int] = (),
) -> list[str]:
    """The lines of a small table, the head first. The flexible column gets the remaining room. `drop`: the columns to
    leave out on a narrow screen, the first ones first."""
    drawn = [list(titles), *(list(map(flat, row)) for row in rows)]
    widths = dict(enumerate(max(map(cells, column)) for column in zip(*drawn, strict=True)))

    def left() -> int:
        return (room or table_width()) - sum(2 + wide for at, wide in widths.items() if at != flexible)

    for at in drop:
        if left() < min(least, widths[flexible]):
            del widths[at]
            flexible = flexible if flexible in widths else 0
    widths[flexible] = min(widths[flexible], max(least, min(most, left())))
    head, *lines = (
        "  ".join(padded(row[at], wide, right=at in right) for at, wide in widths.items()).rstrip() for row in drawn
    )
    return [click.style(head, **{style: True}), *lines]


def padded(text: str, room: int, *, right: bool = False) -> str:
    shown = cut(text, room)
    blank = " " * (room - cells(shown))
    return blank + shown if right else shown + blank


def cut(text: str, room: int) -> str:
    """The text in one line, without control characters, and cut if it is too long: a path in the middle."""
    shown = flat(text[: 20 * room + 100])
    if cells(shown) <= room:
        return shown
    if "/" in shown and shown.isascii() and " " not in shown:
        front = (room - 3) // 3
        return f"{shown[:front]}...{shown[front + 3 - room :]}"
    kept, used = "", 0
    for char in shown:
        used += cells(char)
        if used > room - 3:
            break
        kept += char
    return kept + "..."


def cells(text: str) -> int:
    """The number of terminal columns that some text needs."""
    if text.isascii():
        return len(text)
    return sum(2 if unicodedata.east_asian_width(char) in "WF" else not unicodedata.combining(char) for char in text)


# Messages and verdicts:
FAILED: Final = frozenset({"failed", "timed_out", "could_not_start"})  # statuses of failed hooks
_SHOW_LONGEST = 2000  # characters of one text on the screen; further ones are counted


def is_terminal(stream: Any) -> bool:
    """Whether a stream is a terminal. A stream that was closed before the start is None."""
    return stream is not None and not stream.closed and bool(stream.isatty())


def write(text: str, *, err: bool = False, whole: bool = False) -> None:
    """Print at once. On a terminal, long lines are broken at blanks, unless they must stay `whole`. Without colours if
    the output is not a terminal, or NO_COLOR or TERM=dumb is set."""
    plain = bool(os.environ.get("NO_COLOR")) or os.environ.get("TERM") == "dumb"
    if not whole and is_terminal(sys.stderr if err else sys.stdout):
        text = fitted(text, _columns())
    try:
        click.echo(text, err=err, color=False if plain else None)
    except OSError:
        if not err:
            raise
        hang_up(2)  # standard error is closed


def write_json(*values: Any) -> None:
    for value in values:
        write(strictjson.dumps(msgspec.to_builtins(value)), whole=True)


def report(as_json: bool, lines: Iterable[str], *values: Any, whole: bool = False) -> None:
    """Print the values as lines of JSON, or these lines for people."""
    if as_json:
        write_json(*values)
    elif text := "\n".join(lines):
        write(text, whole=whole)


def picked(one: Any, names: str) -> dict[str, Any]:
    """Some attributes of a record, for JSON. An empty one whose name ends in `?` is None."""
    keys = ((name.rstrip("?"), name.endswith("?")) for name in names.split())
    return {name: (getattr(one, name) or None) if optional else getattr(one, name) for name, optional in keys}


def hint(text: str) -> None:
    write(f"\nhint: {text}", err=True)


@contextmanager
def progress(what: str) -> Iterator[Callable[[int, int], None]]:
    """A line on a terminal that shows how much is done, and of how much if that is known; nothing elsewhere."""
    shown = is_terminal(sys.stderr) and os.environ.get("TERM") != "dumb"
    last = time.monotonic()

    def tick(done: int, total: int) -> None:
        nonlocal last
        if shown and (done == total or time.monotonic() - last > 0.1):
            last = time.monotonic()
            share = f"[{'#' * (20 * done // total):<20}] {100 * done // total}% of" if total else f"{done:,}"
            click.echo(f"\r{share} {what}", err=True, nl=False)

    try:
        yield tick
    finally:
        if shown:
            click.echo("\r\033[K", err=True, nl=False)


def not_written(error: OSError) -> None:
    """Report that standard output can't be written, unless its reader has closed the pipe."""
    hang_up(1)  # otherwise the interpreter fails at exit when it flushes the buffer
    if error.errno != errno.EPIPE:
        remedy = "free some space, or redirect the output elsewhere"
        write(f"error: can't write the output: {error.strerror}\n\nhint: {remedy}", err=True)


def note(text: str) -> None:
    write(f"note: {visible(text)}", err=True)


@contextmanager
def noting(what: str) -> Iterator[None]:
    """Print a note instead of the error if a part of billhook's files can't be read."""
    try:
        yield
    except StoreError as error:
        note(f"{what}: {error.message} ({error.place})")


def error_text(error: BillhookError) -> str:
    """`error:` with message and place, a blank line, and `hint:` with the remedy."""
    return visible(f"error: {error}")


_LONGEST_TITLE: Final = 60  # columns
_FAILED_OPEN: Final = "failed open: the event continued without its answer (on_failure: allow)"


def outcome_lines(
    one: OutcomeRecord, column: int, side: str = "", more: Iterable[str | None] = (), *, title: str = ""
) -> list[str]:
    """One hook of an event: its name, what it did, its time, and `side` or as much of its title as fits, in one row;
    below it why, and `more`."""
    word, failed = word_of(one), one.status in FAILED
    took = "" if one.status == "skipped" else f"{one.duration_ms:.1f} ms"
    head = hook_head(click.style(shown_name(one.hook), fg="cyan"), coloured(f"{flat(word):<15}", word), took, column)
    room = width() - cells(click.unstyle(head.rpartition("\n")[2])) - 2
    shown = side if cells(side) <= room else ""
    if title and room >= _LEAST:
        shown = click.style(one_line(title, min(room, _LONGEST_TITLE)), dim=True)
    texts = [None if shown else side, None if failed else one.reason, one.error]
    texts += [_FAILED_OPEN if one.failed_open else None, *(f"note: {lost}" for lost in one.lost)]
    texts.append(str(one.waived) if one.waived is not None and one.waived.would != "none" else None)
    texts += [f"code: {one.code}" if one.code else None, *more]
    indent = " " * text_indent(column)
    return f"{head}  {shown}".rstrip().split("\n") + [
        line for text in texts if text for line in paragraphs(indent, text)
    ]


def shown_name(name: str) -> str:
    """The name of a hook. It is cut only if it is longer than a line."""
    return one_line(name, width() - 7)


def name_column(names: Iterable[str], around: int = 4) -> int:
    """The width of a column of names: that of the longest, but with the blanks around it at most half of the screen."""
    return min(max(map(cells, names), default=0), width() // 2 - around)


def text_indent(column: int) -> int:
    """The indent of text below a hook's row: below its second column, if that leaves most of the screen."""
    return column + 4 if 3 * (column + 4) <= width() else 6


def hook_head(name: str, did: str, took: str, column: int) -> str:
    """`  guard  deny   1.2 ms`. A name that is longer than its column has a line of its own."""
    row = f"  {did}  {took:>10}"
    fits = cells(click.unstyle(name)) <= column
    return f"  {name}{' ' * (column - cells(click.unstyle(name)))}{row}" if fits else f"  {name}\n  {' ' * column}{row}"


def word_of(outcome: OutcomeRecord) -> str:
    """What a hook did, in a word or two: its decision, else its status or effect."""
    if outcome.status != "ok":
        return outcome.status.replace("_", " ")
    if outcome.waived is not None and outcome.waived.would != "none":
        return f"would {outcome.waived.would}"
    words = {
        "stop": outcome.stop,
        "keep going": outcome.keep_going,
        outcome.decision: outcome.decision != "none",
        "rewrote input": outcome.rewrote_input,
        "rewrote output": outcome.rewrote_output,
        "told the model": outcome.context,
        "told the user": outcome.message,
    }
    return next((word for word, applies in words.items() if applies), "no objection")


def paragraphs(indent: str, text: str) -> list[str]:
    """Lines, each with its indent. Very long text is cut."""
    if len(text) > _SHOW_LONGEST:
        text = f"{text[:_SHOW_LONGEST]}\n... {len(text) - _SHOW_LONGEST:,} more characters"
    return [(indent + line).rstrip() for line in visible(text).split("\n")]

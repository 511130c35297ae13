"""`billhook events search` and `billhook events show`: find events by text, and show one in full."""

import json
import os
import re
from collections.abc import Iterator
from typing import Any, Final

import click
import msgspec

from billhook.cli import screen, times
from billhook.cli.events import EventRow, Printer, Table, format_options, query, sent_instead, turn, word
from billhook.cli.options import option, usage
from billhook.config.history import about
from billhook.core import strictjson
from billhook.core.answers import Skipped
from billhook.core.errors import UsageError
from billhook.core.text import counted, flat, visible
from billhook.store.files import StoreError, opened
from billhook.store.log import Record
from billhook.store.log.reader import LogEntry, LogReader

_LIMIT = 50
_MOST_HITS = 3  # hits that are shown for one record; the others are counted
_BEFORE = 25
_INDENT = 8
_UNSEARCHED: Final = frozenset({"v", "seq", "mono", "side"})  # internal fields


@usage("""\b
Examples:
  billhook events search "turn-tracker"
  billhook events search 'git push' --decision deny
  billhook events search .env --session . --since 1d
  billhook events search terraform --json | jq -r .session_name""")
@click.argument("words", metavar="QUERY", nargs=-1, required=True)
@option("--session", "-s", "sessions", "S,..", "Only these sessions: `.`, names or ids.", multiple=True)
@query.filter_options
@query.slice_options("50")
@format_options
def search_verb(words: tuple[str, ...], filters: query.Filters, part: query.Slice, in_json: bool, minimal: bool) -> int:
    """Show the events that contain QUERY: in a command, a reason, a hook's name or data, or an output.

    QUERY is plain text, and case matters (`billhook events | grep -i TEXT` ignores case). At most the newest 50 are
    shown, unless --limit is given. The oldest comes first.
    """
    text = " ".join(words)
    if not text.strip():
        raise UsageError("QUERY is empty", hint='as in billhook events search "turn-tracker"')
    if not part.given:
        part = msgspec.structs.replace(part, limit=_LIMIT)
    where = query.here()
    logs = query.chosen(msgspec.structs.replace(filters, text=text), where)
    printer = Printer(where, in_json=in_json, minimal=minimal)
    found = list(logs.chosen(part))
    if in_json or minimal:
        printer.show(logs, found)
    elif found:
        screen.write("\n".join(_screen([logs.whole(entry) for entry in found], text, printer)))
    printer.count(logs, len(found), part, filters=True)
    if not found and logs.count() and text != text.lower():
        screen.hint(f"case matters; try `{flat(text.lower())}`")
    return 0


def _screen(records: list[Record], sought: str, printer: Printer) -> Iterator[str]:
    rows = [EventRow(record) for record in records]
    table = Table(rows, printer.names, quiet=True)
    yield table.head()
    for row in rows:
        yield from table.lines(row)
        found = list(hits(row.record, sought))
        for place, text in found[:_MOST_HITS]:
            shown = f"{screen.cut(re.sub('^not_asked', 'skipped', place), 40)}: "
            yield " " * _INDENT + click.style(shown, dim=True) + marked(text, sought, screen.cells(shown))
        if len(found) > _MOST_HITS:
            yield f"{' ' * _INDENT}and {len(found) - _MOST_HITS} more: billhook events show {row.record.seq}"


def hits(record: Record, sought: str) -> Iterator[tuple[str, str]]:
    """The places of a record that contain the text: the path, as in `jq`, and the whole value."""
    fields = {name: getattr(record, name) for name in Record.__struct_fields__ if name not in _UNSEARCHED}
    left: list[tuple[str, Any]] = [("", msgspec.to_builtins(fields))]
    while left:  # a loop, so that deeply nested values are no problem
        place, value = left.pop()
        texts: list[str] = []
        if isinstance(value, dict):
            texts = [str(key) for key in value] if place else []
            left += [(f"{place}.{key}", part) for key, part in reversed(value.items())]
        elif isinstance(value, list | tuple):
            left += [(f"{place}[{number}]", part) for number, part in reversed(list(enumerate(value)))]
        elif value is not None and not isinstance(value, bool):
            texts = [str(value)]
        yield from ((place.removeprefix("."), text) for text in texts if sought in text)


def marked(text: str, sought: str, used: int) -> str:
    """The text around the first hit, as much as fits into a line, with the hit highlighted."""
    at = text.find(sought)
    begin = max(0, at - _BEFORE)
    room = max(20, screen.table_width() - _INDENT - used)
    before = ("..." if begin else "") + flat_keeping_ends(text[begin:at])
    hit = flat_keeping_ends(sought)
    rest = room - screen.cells(before) - screen.cells(hit)
    after = flat_keeping_ends(text[at + len(sought) : at + len(sought) + max(0, rest) + 1])
    if screen.cells(after) > rest:
        after = after[: max(0, rest - 3)] + "..."
    return before + click.style(hit, fg="black", bg="yellow") + after


def flat_keeping_ends(text: str) -> str:
    """Like `flat`, but a space at either end is kept."""
    if not text.strip():
        return " " if text else ""
    return f"{' ' * text[0].isspace()}{flat(text)}{' ' * text[-1].isspace()}"


# `billhook events show ID`:
_ID = re.compile(r"[0-9a-f]{6,32}")
_NUMBER = re.compile(r"[1-9][0-9]{0,17}")
"""Never an id: those start with a time, which begins with a 0 for centuries."""
_BLOCK = 4 << 20
_LABEL = 9
_LONGEST = 20_000  # characters of one value on the screen; `--json` has all


@usage("""\b
Examples:
  billhook events show 12
  billhook events show 019a8f3b52c7 | jq .outcomes""")
@click.argument("id_", metavar="NR|ID")
@query.json_options(
    "One line of JSON: the record as logged, with its event. The default in a pipe.",
    "The readable form, also in a pipe.",
)
def show_verb(id_: str, in_json: bool) -> int:
    """Show one record in full: the event, the answer of every hook, and the verdict.

    NR is the number of a record in this project's log, as in the table. ID is its id, or at least the first 6 digits;
    an id also finds records of other projects. `billhook explain ID` explains the verdict.
    """
    where = query.here()
    reader, entry = found(id_, where)
    record, problem = whole(reader, entry)
    if in_json:
        click.echo(query.line_of(entry, record))
    else:
        screen.write("\n".join(_record_screen(record, entry, query.SessionNames(where))))
    if problem:
        screen.write(f"{'' if in_json else chr(10)}note: {visible(problem)}", err=True)
    if not in_json:
        screen.hint(f"`billhook explain {record.id}` shows which hook decided, and what would happen today")
    return 0


def found(id_: str, where: query.LogScope) -> tuple[LogReader, LogEntry]:
    """The record with a number or an id, here or in another project. Raises UsageError if there is none, or several."""
    if _NUMBER.fullmatch(id_):
        return _numbered(int(id_), where.reader())
    digits = id_.strip().lower().replace("-", "")
    if not _ID.fullmatch(digits):
        how = "give a number from the table, or at least 6 digits of an id"
        raise UsageError(f"`{id_}` is not the number or id of a record", hint=how)
    try:
        match = by_id(digits, where, notes=True)
    except StoreError as error:
        raise UsageError(error.message, hint=error.hint) from None
    if match is None:
        raise UsageError(f"no record has the id `{id_}`", hint="`billhook events --minimal --json` shows ids")
    return match


def by_id(digits: str, where: query.LogScope, *, notes: bool) -> tuple[LogReader, LogEntry] | None:
    """The record whose id begins with these digits, here or in another project. Raises StoreError if several do."""
    own = where.reader()
    for reader in (own, *(other for other in query.every_log(where) if other.folder != own.folder)):
        if (entry := reader.find(digits, notes=notes)) is not None:
            return reader, entry
    return None


def _numbered(number: int, reader: LogReader) -> tuple[LogReader, LogEntry]:
    """The record with a number. It is found by the first bytes of its line, so that no other line is decoded."""
    for path in reversed(reader.files()):
        with opened(reader.folder, reader.root) as folder:
            line = _line(folder, path.name, b'{"v":1,"seq":%d,' % number) if folder is not None else b""
        found = strictjson.loads_leniently(line, max_depth=500) if line else None
        entry = reader.find(str(found.get("id")), notes=True) if isinstance(found, dict) else None
        if entry is not None and entry.record.seq == number:
            return reader, entry
    newest = next(reader.backward(notes=True), None)
    there = f"the newest is {newest.record.seq}" if newest else "the log of this project is empty"
    raise UsageError(f"no record here has the number {number}", hint=there)


def _line(folder: int, name: str, start: bytes) -> bytes:
    descriptor = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
    with open(descriptor, "rb") as stream:
        held = b"\n"
        while block := stream.read(_BLOCK):
            held += block
            at = held.find(b"\n" + start)
            if at >= 0:
                return (held[at + 1 :] + stream.readline()).split(b"\n", 1)[0]
            held = held[-len(start) - 1 :]
    return b""


def whole(reader: LogReader, entry: LogEntry) -> tuple[Record, str]:
    """The record with the content of its side file; if that can't be read, without it, and the reason."""
    try:
        return reader.whole(entry.record), ""
    except StoreError as error:
        return entry.record, f"part of this record can't be shown: {error.place}: {error.message}"


def _record_screen(record: Record, entry: LogEntry, names: query.SessionNames) -> Iterator[str]:
    head = f"{record.event} {record.tool or ''}".strip()
    subject = about(record)
    lines = screen.filled(f"{head}: {subject}" if subject else head, 0, screen.table_width(), hang=2)
    yield from (click.style(line, bold=True) for line in screen.few(lines, 2))
    verdict = word(record)
    instead = sent_instead(record)
    quiet = f" ({instead})" if instead else " (no objection)" if verdict == "none" and record.note is None else ""
    quiet = quiet if record.judged else ": no hook could run"
    yield f"{'verdict':<{_LABEL}} {screen.coloured(verdict, verdict)}{quiet}"
    told_to = [*(("to model", text) for text in record.context), *(("to user", text) for text in record.messages)]
    for label, text in (("reason", record.reason), *told_to):
        yield from _labelled(label, text)
    yield from _facts(record, entry, names)
    yield from _hooks(record)
    for title, value in (
        ("input", record.input),
        ("rewritten input", record.rewritten_input),
        ("output", record.output),
        ("rewritten output", record.rewritten_output),
        ("other fields", record.fields),
    ):
        if value is not None:
            yield from ("", click.style(title, bold=True), *_value(value))


def _facts(record: Record, entry: LogEntry, names: query.SessionNames) -> Iterator[str]:
    when = times.local(record.time)
    turn_ = f", turn {turn(record)}" if record.turn_id else ""
    about = {
        "time": when.isoformat(" ", "milliseconds") if when else record.time,
        "session": f"{names.of(record)} ({record.session_id}){turn_}" if record.session_id else "",
        "tool use": record.tool_use_id,
        "agent": " ".join(filter(None, (record.agent_type, record.agent_id))),
        "mode": record.permission_mode,
        "folder": screen.shown_path(record.cwd, here=False),
        "called by": record.host,
        "took": f"{record.duration_ms:.1f} ms",
        "redacted": f"{counted(record.redacted, 'secret')} removed" if record.redacted else "",
        "config": record.config,
        "id": record.id,
    }
    yield ""
    for label, text in about.items():
        yield from _labelled(label, text)
    yield f"{'log':<{_LABEL}} record {record.seq} of {visible(screen.shown_path(str(entry.file), here=False))}"


def _hooks(record: Record) -> Iterator[str]:
    ran = [one for one in record.outcomes if one.status != "skipped"]
    skipped = {one.hook: one.error or "skipped" for one in record.outcomes if one.status == "skipped"}
    skipped |= {name: str(Skipped.from_recorded(why) or why) for name, why in record.not_asked.items()}
    column = min(32, screen.name_column([one.hook for one in ran] + list(skipped)))
    yield from ("", click.style("hooks that ran", bold=True)) if ran else ()
    for one in ran:
        source = flat(screen.with_shown_paths(one.source or ""))
        yield from screen.outcome_lines(one, column, source, [strictjson.compact(one.data) if one.data else None])
    yield from ("", click.style("skipped hooks", bold=True)) if skipped else ()
    for name, why in skipped.items():
        head = f"  {screen.shown_name(name):<{column}}  "
        yield from screen.beside(head, why, below=6, columns=screen.table_width(), most=column + 4)


def _labelled(label: str, text: str | None) -> Iterator[str]:
    if not text:
        return
    yield from screen.beside(f"{label:<{_LABEL}} ", text, columns=screen.table_width())


def _value(value: Any) -> Iterator[str]:
    text = value if isinstance(value, str) else json.dumps(value, indent=2, ensure_ascii=False, default=str)
    more = f"\n... {len(text) - _LONGEST:,} more characters (--json)" if len(text) > _LONGEST else ""
    yield from (f"  {visible(line)}".rstrip() for line in (text[:_LONGEST] + more).split("\n"))

"""`billhook events search`: the events in which a text occurs."""

from collections.abc import Iterator
from typing import Any, Final

import click
import msgspec

from billhook.cli.events_filters import Filters, chosen, filter_options, slice_options
from billhook.cli.events_log import Slice, here
from billhook.cli.events_rows import Row
from billhook.cli.events_table import Table, cells, cut, width
from billhook.cli.events_view import Printer, format_options
from billhook.cli.progress import progress
from billhook.cli.show import hint, say
from billhook.errors import UsageError
from billhook.store.record import Record
from billhook.text import flat

_LIMIT = 50
_MOST_HITS = 3  # places of one record that are shown; the rest is counted
_BEFORE = 25
_LONGEST_PLACE = 40
_INDENT = 8
_NOT_SAID: Final = frozenset({"v", "seq", "mono", "side"})  # fields in which nobody looks for a text


@click.command(
    "search",
    epilog="""\b
Examples:
  billhook events search "turn-tracker"
  billhook events search 'git push' --decision deny
  billhook events search .env --session . --since 1d
  billhook events search terraform --json | jq -r .session_name""",
)
@click.argument("words", metavar="QUERY", nargs=-1, required=True)
@click.option(
    "--session", "-s", "sessions", metavar="S,..", multiple=True, help="Only these sessions, as `.` or a name."
)
@filter_options
@slice_options("50")
@format_options
def verb(words: tuple[str, ...], filters: Filters, part: Slice, in_json: bool, minimal: bool) -> int:
    """Show the events in which a text occurs: in a command, a reason, a hook's name, its data, an output.

    The text is taken as it is, and capitals count (`billhook events | grep -i TEXT` finds it in any case). At most 50
    are shown, the newest, unless --limit says otherwise. The order is oldest first.
    """
    query = " ".join(words)
    if not query.strip():
        raise UsageError("the text is empty", hint='billhook events search "turn-tracker"')
    if not part.given:
        part = msgspec.structs.replace(part, limit=_LIMIT)
    where = here()
    logs = chosen(msgspec.structs.replace(filters, text=query), where)
    printer = Printer(where, in_json=in_json, minimal=minimal)
    with progress("searching the log") as bar:
        found = list(logs.chosen(part, bar))
    if in_json or minimal:
        printer.show(logs, found)
    elif found:
        say("\n".join(_screen([logs.whole(entry) for entry in found], query, printer)))
    printer.count(logs, len(found), part, filters=True)
    if not found and logs.count() and query != query.lower():
        hint(f"capitals count; try `{flat(query.lower())}`")
    return 0


def _screen(records: list[Record], query: str, printer: Printer) -> Iterator[str]:
    rows = [Row(record) for record in records]
    table = Table(rows, printer.names, quiet=True)
    yield table.head()
    for row in rows:
        yield from table.lines(row)
        found = list(hits(row.record, query))
        for place, text in found[:_MOST_HITS]:
            shown = f"{cut(place, _LONGEST_PLACE)}: "
            yield " " * _INDENT + click.style(shown, dim=True) + marked(text, query, cells(shown))
        if len(found) > _MOST_HITS:
            yield f"{' ' * _INDENT}and {len(found) - _MOST_HITS} more: billhook events show {row.record.seq}"


def hits(record: Record, query: str) -> Iterator[tuple[str, str]]:
    """Where in a record a text occurs: the place as `jq` would name it, and the text around it."""
    fields = {name: getattr(record, name) for name in Record.__struct_fields__ if name not in _NOT_SAID}
    for place, text in _texts(msgspec.to_builtins(fields), ""):
        if query in text:
            yield place.removeprefix("."), text


def _texts(value: Any, place: str) -> Iterator[tuple[str, str]]:
    """Every text, key and number in a JSON value, in order, with its place. Deep values are no trouble."""
    left: list[tuple[str, Any]] = [(place, value)]
    while left:
        where, one = left.pop()
        if isinstance(one, dict):
            if where:
                yield from ((where, str(key)) for key in one)
            left += [(f"{where}.{key}", part) for key, part in reversed(one.items())]
        elif isinstance(one, list | tuple):
            left += [(f"{where}[{number}]", part) for number, part in reversed(list(enumerate(one)))]
        elif one is not None and not isinstance(one, bool):
            yield where, str(one)


def marked(text: str, query: str, used: int) -> str:
    """The text around the first hit, as much as fits into a line, with what was sought in bold."""
    at = text.find(query)
    begin = max(0, at - _BEFORE)
    room = max(20, width() - _INDENT - used)
    before = ("..." if begin else "") + flat_keeping_ends(text[begin:at])
    hit = flat_keeping_ends(query)
    rest = room - cells(before) - cells(hit)
    after = flat_keeping_ends(text[at + len(query) : at + len(query) + max(0, rest) + 1])
    if cells(after) > rest:
        after = after[: max(0, rest - 3)] + "..."
    return before + click.style(hit, fg="black", bg="yellow") + after


def flat_keeping_ends(text: str) -> str:
    """As `flat`, with a blank at either end where there was one."""
    if not text.strip():
        return " " if text else ""
    return f"{' ' * text[0].isspace()}{flat(text)}{' ' * text[-1].isspace()}"

"""`billhook events files`: the files that tools read and wrote."""

import os
from collections import Counter
from collections.abc import Iterable
from typing import Final

import click
import msgspec

from billhook import tools
from billhook.cli import events_times
from billhook.cli.events_filters import Filters, chosen, filter_options, json_options, number
from billhook.cli.events_log import here
from billhook.cli.events_table import aligned
from billhook.cli.events_view import show_list, show_nothing
from billhook.cli.progress import progress
from billhook.cli.table import shown_path
from billhook.rules import EDITS
from billhook.store.record import Record

_READS: Final = frozenset({"Read", "NotebookRead", "Grep", "Glob", "LS", "LSP"})
_TELLING: Final = frozenset({"PreToolUse", "PostToolUse", "PostToolUseFailure"})


class Touched(msgspec.Struct, kw_only=True):
    """What happened to one file. A call and its result count once."""

    path: str
    reads: int = 0
    writes: int = 0
    other: int = 0  # calls of tools that billhook does not know
    denied: int = 0
    last: str = ""


@click.command(
    "files",
    epilog="""\b
Examples:
  billhook events files .
  billhook events files --since 1d --decision deny
  billhook events files jolly-squid --json | jq -r 'select(.writes > 0) | .path'""",
)
@click.argument("sessions", metavar="[SESSION]", nargs=-1)
@filter_options
@click.option("--last", "-n", "last", type=int, metavar="N", callback=number, help="The N files touched last.")
@json_options()
def verb(filters: Filters, last: int | None, in_json: bool) -> int:
    """Show the files that tools named: how often each was read and written, and how often that was denied.

    Told from the input of tools such as Read, Write, Edit and Grep, after hooks rewrote it. What a shell command
    touches is not known. The file that was touched last stands last.
    """
    logs = chosen(msgspec.structs.replace(filters, events=filters.events or tuple(_TELLING)), here())
    if not logs.count():
        return show_nothing(logs, in_json=in_json)
    with progress("reading the log") as bar:
        found = touched(logs.whole(entry) for entry in logs.forward(bar) if entry.record.event in _TELLING)
    return show_list(found, _table, last, in_json=in_json, thing="file")


def touched(records: Iterable[Record]) -> list[Touched]:
    """Every file in the order in which it was touched last."""
    found: dict[str, Touched] = {}
    calls: Counter[tuple[str, ...]] = Counter()
    for record in records:
        given = record.rewritten_input if record.rewritten_input is not None else record.input
        named = (path for path in tools.paths_of(record.tool or "", given) if path)
        paths = dict.fromkeys(os.path.normpath(os.path.join(record.cwd or "/", path)) for path in named)
        if not paths or _counted_before(record, tuple(paths), calls):
            continue
        for path in paths:
            one = found.pop(path, None) or Touched(path=path)
            _count(one, record)
            found[path] = one
    return list(found.values())


def _counted_before(record: Record, paths: tuple[str, ...], calls: Counter[tuple[str, ...]]) -> bool:
    """Whether this is the result of a call that is counted already."""
    call = (record.tool_use_id,) if record.tool_use_id else paths
    key = (record.session_id, record.tool or "", *call)
    if record.event == "PreToolUse":
        calls[key] += record.decision != "deny"
        return False
    if calls[key] > 0:
        calls[key] -= 1
        return True
    return False


def _count(one: Touched, record: Record) -> None:
    one.last = max(one.last, record.time)
    if record.event == "PreToolUse" and record.decision == "deny":
        one.denied += 1
    elif record.tool in EDITS:
        one.writes += 1
    elif record.tool in _READS:
        one.reads += 1
    else:
        one.other += 1


def _table(shown: list[Touched]) -> str:
    rows = [
        [shown_path(one.path), f"{one.reads:,}", f"{one.writes:,}", f"{one.other:,}", f"{one.denied:,}",
         events_times.minute(one.last)]
        for one in shown
    ]  # fmt: skip
    return aligned(("FILE", "READS", "WRITES", "OTHER", "DENIED", "LAST"), rows, right=(1, 2, 3, 4), flexible=0)

"""`billhook events files`: the files that tools read and wrote."""

import os
from collections import Counter
from collections.abc import Iterable
from typing import Final

import click
import msgspec

from billhook import strictjson, tools
from billhook.cli import events_times
from billhook.cli.events_filters import Filters, chosen, filter_options, number
from billhook.cli.events_log import Logs, here
from billhook.cli.events_table import aligned
from billhook.cli.events_view import Printer, wants_json
from billhook.cli.progress import progress
from billhook.cli.show import say
from billhook.cli.table import counted, shown_path
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
@click.option("--json", "as_json", is_flag=True, help="One line of JSON for each. This is what a pipe gets.")
@click.option("--human", is_flag=True, help="The table, also in a pipe.")
def verb(sessions: tuple[str, ...], filters: Filters, last: int | None, as_json: bool, human: bool) -> int:
    """Show the files that tools named: how often each was read and written, and how often that was denied.

    Told from the input of tools such as Read, Write, Edit and Grep, after hooks rewrote it. What a shell command
    touches is not known. The file that was touched last stands last.
    """
    in_json = wants_json(as_json, human)
    where = here()
    events = filters.events or tuple(_TELLING)
    logs = chosen(msgspec.structs.replace(filters, sessions=sessions, events=events), where)
    printer = Printer(where, in_json=in_json, minimal=False)
    if logs is None or not logs.count():
        printer.empty(logs or Logs({}, where))
        return 0
    with progress("reading the log") as bar:
        found = touched(logs.whole(entry) for entry in logs.forward(bar) if entry.record.event in _TELLING)
    shown = found[max(0, len(found) - last) :] if last is not None else found
    if in_json:
        for one in shown:
            say(strictjson.dumps(msgspec.to_builtins(one)))
    elif shown:
        say(_table(shown))
    if not in_json or not shown:
        say(f"{chr(10) if shown else ''}{len(shown):,} of {counted(len(found), 'file')}", err=True)
    return 0


def touched(records: Iterable[Record]) -> list[Touched]:
    """Every file in the order in which it was touched last."""
    found: dict[str, Touched] = {}
    calls: Counter[tuple[str, ...]] = Counter()
    for record in records:
        given = record.rewritten_input if record.rewritten_input is not None else record.input
        paths = dict.fromkeys(absolute(path, record.cwd) for path in tools.paths_of(record.tool or "", given) if path)
        if not paths or _counted_before(record, tuple(paths), calls):
            continue
        for path in paths:
            one = found.pop(path, None) or Touched(path=path)
            _count(one, record)
            found[path] = one
    return list(found.values())


def absolute(path: str, cwd: str) -> str:
    """A path as a tool means it: from the folder of its session."""
    return os.path.normpath(os.path.join(cwd or "/", path))


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

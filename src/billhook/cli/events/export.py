"""`billhook events verify` and `export`: is the log as it was written, and its own lines."""

import sys
from collections.abc import Iterator
from pathlib import Path

import click

from billhook.cli.events import show_nothing
from billhook.cli.events.query import Filters, Slice, chosen, filter_options, here, slice_options
from billhook.cli.events.table import width
from billhook.cli.options import flag, loaded, option
from billhook.cli.screen import filled, note, picked, report, shown_path, with_shown_paths
from billhook.core.errors import BillhookError, UsageError
from billhook.core.text import counted, visible
from billhook.store.files import StoreError
from billhook.store.log.verify import Head, Verified, export, export_head, exported, exported_head, verify

_SHOWN = 20  # findings on the screen; `--json` has more


def _head(ctx: click.Context, param: click.Parameter, value: str | None) -> Head | None:
    if value is None:
        return None
    try:
        return Head.from_text(value)
    except ValueError as error:
        raise UsageError(f"--expect: {error}", hint="what `billhook events verify --head` printed") from None


@click.command(
    "verify",
    epilog="""\b
Examples:
  billhook events verify
  billhook events verify --head > /mnt/elsewhere/head
  billhook events verify --expect "$(cat /mnt/elsewhere/head)"

\b
Exit code: 0 all is as it was written, 1 something was changed,
removed, moved or added, 2 usage or a log that can't be read.""",
)
@flag("--head", "wants_head", "Print the head, SEQ:HASH, to keep elsewhere; from now on the log must contain it.")
@option("--expect", "SEQ:HASH", "A head that the log must contain.  [default: all that were exported]", callback=_head)
@flag("--json", "as_json", "Print one line of JSON.")
def verify_verb(wants_head: bool, expect: Head | None, as_json: bool) -> int:
    """Check that every record of this project's log is as it was written, and that none is missing, moved or added.

    Each record carries the hash of the one before. A log that was rewritten as a whole, or cut off at its end, is found
    only by a head that was exported before: by the daemon, to the folder that `export_head_to` names, or by --head.
    """
    reader = here().reader()
    target = head_folder()
    heads = [expect] if expect else []
    if not heads:  # every head that was given out: the one that was printed last, and those in the folder for heads
        printed = exported_head(reader.folder, reader.root)
        heads = [one.head for one in exported(Path(target), reader.folder)] if target else []
        heads += [printed] if printed else []
    expected = max(heads, key=lambda head: head.seq, default=None)
    found = verify(reader.folder, reader.root, expected=heads)
    if found.ok and wants_head and found.head is not None:
        try:
            export_head(reader.folder, reader.root, found.head)
            if target:
                export(Path(target), reader.folder, reader.root)
        except StoreError as error:  # what can't be remembered is printed all the same
            note(str(error))
    if wants_head and found.ok and found.head is None and not as_json:
        raise UsageError("the log is empty, and has no head", hint="`billhook events` says how records come about")
    lines = [str(found.head)] if wants_head and found.ok else _screen(found, expected, target)
    report(as_json, lines, _as_data(found, expected))
    return 0 if found.ok else 1


def head_folder() -> str:
    """Where heads are exported to, as the user's configuration says; nothing without it. A broken one is no reason not
    to check the log."""
    from billhook.config.builtin_options import filled

    try:
        config = loaded(())
        return str(filled("event-logger", config.builtins["event-logger"].options)["export_head_to"])
    except BillhookError as error:
        note(f"the configuration can't be read, so exported heads are not used: {error.message}")
        return ""


def _as_data(found: Verified, expected: Head | None) -> dict[str, object]:
    return {
        **picked(found, "ok records files first_seq"),
        "head": str(found.head) if found.head else None,
        "expected": str(expected) if expected else None,
        **picked(found, "torn foreign"),
        "findings": [{"file": str(one.file), **picked(one, "line seq what")} for one in found.findings],
        "more_findings": found.more,
    }


def _screen(found: Verified, expected: Head | None, target: str) -> Iterator[str]:
    for one in found.findings[:_SHOWN]:
        file = shown_path(str(one.file), here=False)
        place = f"{file}:{one.line}" if one.line else file
        yield f"{click.style(visible(place), fg='red')}: {visible(with_shown_paths(one.what))}"
    hidden = max(0, len(found.findings) - _SHOWN) + found.more
    if hidden:
        yield f"and {hidden:,} more (--json lists {'them' if not found.more else 'the first thousand'})"
    yield from [""] if found.findings else []
    yield from _summary(found, expected, target)


def _summary(found: Verified, expected: Head | None, target: str) -> Iterator[str]:
    size = f"{counted(found.records, 'record')} in {counted(found.files, 'file')}"
    if not found.ok or found.head is None:
        findings = f"{size}: {counted(len(found.findings) + found.more, 'finding')}"
        yield findings if not found.ok else "the log is empty: nothing to check"
        return
    yield f"{size}: {click.style('all as they were written', fg='green')}"
    if found.torn:
        yield f"{counted(found.torn, 'line')} that a dying writer left unfinished; noted then, nothing recorded is lost"
    yield f"head {found.head}"
    if expected is None:
        remedy = "set `export_head_to` (docs/event-log.md), or keep what `billhook events verify --head` prints"
        if target:
            remedy = "the daemon exports one while it runs, and `billhook events verify --head` does it now"
        yield from filled(f"no head was exported{f' to {shown_path(target)}' if target else ''} so far, so records "
                          "could be cut off from the end, or the whole log rewritten, without being noticed: "
                          f"{remedy}", 0, width())  # fmt: skip
    else:
        yield f"it contains the head that was exported at record {expected.seq}"


# `billhook events export`:
@click.command(
    "export",
    epilog="""\b
Examples:
  (umask 077; billhook events export > audit.jsonl)
  billhook events export jolly-squid --since 1d | gzip > session.jsonl.gz""",
)
@click.argument("sessions", metavar="[SESSION]", nargs=-1)
@filter_options
@slice_options("all")
def export_verb(filters: Filters, part: Slice) -> int:
    """Print the records as they stand in the log, byte for byte, one JSON object a line, oldest first.

    Without filters the whole log of this project, with its notes about itself, so that the chain of hashes can be
    checked elsewhere. What lies in a side file stays there; `billhook events --json` prints records whole.
    """
    logs = chosen(filters, here())
    if not logs.count():
        return show_nothing(logs, in_json=True)
    whole = filters == Filters() and part.end is None and not part.offset
    aside = 0
    for entry in logs.chosen(part, notes=whole):
        sys.stdout.buffer.write(entry.line + b"\n")
        aside += entry.record.side is not None
    sys.stdout.buffer.flush()
    if aside:
        what = "1 record has a part" if aside == 1 else f"{aside} records have parts"
        note(f"{what} in side files, which stay where they are; `billhook events --json` has them whole")
    if logs.foreign:
        note(f"skipped {counted(logs.foreign, 'line')} that billhook did not write")
    return 0

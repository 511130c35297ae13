"""`billhook events verify` and `export`: whether the log was changed, and its raw lines."""

import sys
from collections.abc import Iterator
from pathlib import Path

import click

from billhook.cli.events import show_nothing
from billhook.cli.events.query import Filters, Slice, chosen, filter_options, here, slice_options
from billhook.cli.options import flag, loaded, option
from billhook.cli.screen import filled, note, picked, report, shown_path, table_width, with_shown_paths
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
        raise UsageError(f"--expect: {error}", hint="give the output of `billhook events verify --head`") from None


@click.command(
    "verify",
    epilog="""\b
Examples:
  billhook events verify
  billhook events verify --head > /mnt/elsewhere/head
  billhook events verify --expect "$(cat /mnt/elsewhere/head)"

Exit code: 0 nothing was changed, 1 something was changed,
removed, moved or added, 2 usage or a log that can't be read.""",
)
@flag("--head", "wants_head", "Print the head, SEQ:HASH, to store elsewhere; from now on the log must contain it.")
@option("--expect", "SEQ:HASH", "A head that the log must contain.  [default: all exported heads]", callback=_head)
@flag("--json", "as_json", "Print one line of JSON.")
def verify_verb(wants_head: bool, expect: Head | None, as_json: bool) -> int:
    """Check that every record of this project's log is unchanged, and that none is missing, moved or added.

    Each record contains the hash of the one before. Rewriting the whole log, or cutting off its end, is only detected
    with a head that was exported earlier: by the daemon, to the folder `export_head_to`, or with --head.
    """
    reader = here().reader()
    target = head_folder()
    heads = [expect] if expect else []
    if not heads:  # all exported heads: the one printed last, and those in the folder for heads
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
        except StoreError as error:  # the head is printed anyway
            note(str(error))
    if wants_head and found.ok and found.head is None and not as_json:
        raise UsageError("the log is empty, so it has no head", hint="`billhook events` explains what writes records")
    lines = [str(found.head)] if wants_head and found.ok else _screen(found, expected, target)
    report(as_json, lines, _as_data(found, expected))
    return 0 if found.ok else 1


def head_folder() -> str:
    """The configured folder for exported heads; empty if there is none. A broken configuration must not prevent the
    check of the log."""
    from billhook.config.builtin_options import filled

    try:
        config = loaded(())
        return str(filled("event-logger", config.builtins["event-logger"].options)["export_head_to"])
    except BillhookError as error:
        note(f"can't read the configuration, so exported heads are not checked: {error.message}")
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
        yield findings if not found.ok else "the log is empty: there is nothing to check"
        return
    yield f"{size}: {click.style('unchanged', fg='green')}"
    if found.torn:
        yield f"{counted(found.torn, 'incomplete line')} of crashed processes; noted at the time, and no record is lost"
    yield f"head {found.head}"
    if expected is None:
        remedy = "set `export_head_to` (docs/event-log.md), or store the output of `billhook events verify --head`"
        if target:
            remedy = "the daemon exports one while it is running, and `billhook events verify --head` does so now"
        where = f" to {shown_path(target)}" if target else ""
        risk = "the end could be cut off, or the whole log rewritten, without notice"
        text = f"no head was exported{where} yet, so {risk}"
        yield from filled(f"{text}: {remedy}", 0, table_width())
    else:
        yield f"the log contains the head that was exported at record {expected.seq}"


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
    """Print the lines of the log byte for byte, one JSON object per line, oldest first.

    Without filters, this is the whole log of this project, with the log's notes, so that the chain of hashes can be
    checked elsewhere. The content of side files is not included; `billhook events --json` prints complete records.
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
        note(f"{what} in side files, which are not exported; `billhook events --json` prints complete records")
    if logs.foreign:
        note(f"skipped {counted(logs.foreign, 'line')} that billhook did not write")
    return 0

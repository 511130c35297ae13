"""`billhook events verify`: is the log as it was written?"""

from collections.abc import Iterator
from pathlib import Path

import click

from billhook.cli.events_log import here
from billhook.cli.events_table import width
from billhook.cli.loaded import loaded
from billhook.cli.progress import progress
from billhook.cli.show import note, picked, say, say_json
from billhook.cli.table import filled, shown_path, with_shown_paths
from billhook.errors import BillhookError, UsageError
from billhook.store.files import StoreError
from billhook.store.heads import export, exported
from billhook.store.verifying import Head, Verified, export_head, exported_head, verify
from billhook.text import counted, visible

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
@click.option("--head", "wants_head", is_flag=True,
              help="Print the head, SEQ:HASH, to keep elsewhere; from now on the log must contain it.")  # fmt: skip
@click.option("--expect", metavar="SEQ:HASH", callback=_head,
              help="A head that the log must contain.  [default: all that were exported]")  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="Print one line of JSON.")
def verb(wants_head: bool, expect: Head | None, as_json: bool) -> int:
    """Check that every record of this project's log is as it was written, and that none is missing, moved or added.

    Each record carries the hash of the one before. A log that was rewritten as a whole, or cut off at its end, is found
    only by a head that was exported before: by the daemon, to the folder that `export_head_to` names, or by --head.
    """
    reader = here().reader()
    target = head_folder()
    heads = [expect] if expect else _known_heads(reader.folder, reader.root, target)
    expected = max(heads, key=lambda head: head.seq, default=None)
    with progress("checking the log") as bar:
        found = verify(reader.folder, reader.root, progress=bar, expected=heads)
    if found.ok and wants_head and found.head is not None:
        _export(found.head, reader.folder, reader.root, target)
    if as_json:
        say_json(_as_data(found, expected))
    elif wants_head and found.ok:
        if found.head is None:
            raise UsageError("the log is empty, and has no head", hint="`billhook events` says how records come about")
        say(str(found.head))
    else:
        say("\n".join(_screen(found, expected, target)))
    return 0 if found.ok else 1


def head_folder() -> str:
    """Where heads are exported to, as the user's configuration says; nothing without it. A broken one is no reason not
    to check the log."""
    from billhook.config.options import filled

    try:
        config = loaded(())
        return str(filled("event-logger", config.builtins["event-logger"].options)["export_head_to"])
    except BillhookError as error:
        note(f"the configuration can't be read, so exported heads are not used: {error.message}")
        return ""


def _known_heads(folder: Path, root: Path, target: str) -> list[Head]:
    """Every head that was given out: the one that was printed last, and those in the folder for heads."""
    printed = exported_head(folder, root)
    kept = [one.head for one in exported(Path(target), folder)] if target else []
    return [*([printed] if printed else []), *kept]


def _export(head: Head, folder: Path, root: Path, target: str) -> None:
    """Remember it. Where that can't be written, it is printed all the same."""
    try:
        export_head(folder, root, head)
        if target:
            export(Path(target), folder, root)
    except StoreError as error:
        note(str(error))


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
    if found.findings:
        yield ""
    yield from _summary(found, expected, target)


def _summary(found: Verified, expected: Head | None, target: str) -> Iterator[str]:
    size = f"{counted(found.records, 'record')} in {counted(found.files, 'file')}"
    if not found.ok:
        yield f"{size}: {counted(len(found.findings) + found.more, 'finding')}"
        return
    if found.head is None:
        yield "the log is empty: nothing to check"
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

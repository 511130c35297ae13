"""`billhook events export`: the log's own lines, byte for byte."""

import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import IO, NamedTuple

import click

from billhook.cli.events_filters import Filters, chosen, filter_options, slice_options
from billhook.cli.events_log import Slice, here
from billhook.cli.events_view import counted_records, show_nothing
from billhook.cli.progress import progress
from billhook.cli.show import note, say, say_json
from billhook.errors import UsageError
from billhook.store.reading import Entry
from billhook.text import counted, visible


class Exported(NamedTuple):
    records: int
    bytes: int
    with_side_files: int


@click.command(
    "export",
    epilog="""\b
Examples:
  billhook events export --output audit.jsonl
  billhook events export jolly-squid --since 1d | gzip > session.jsonl.gz
  billhook events export --decision deny --output denied.jsonl --force""",
)
@click.argument("sessions", metavar="[SESSION]", nargs=-1)
@filter_options
@slice_options("all")
@click.option("--output", "-o", metavar="FILE", help="Write there, for nobody else to read (0600); `-` is the screen.")
@click.option("--force", is_flag=True, help="Replace a file that is there.")
@click.option("--json", "as_json", is_flag=True, help="With --output, say what was written as one line of JSON.")
def verb(filters: Filters, part: Slice, output: str | None, force: bool, as_json: bool) -> int:
    """Print the records as they stand in the log, byte for byte, one JSON object a line, oldest first.

    Without filters the whole log of this project, with its notes about itself, so that the chain of hashes can be
    checked elsewhere. What lies in a side file stays there; `billhook events --json` prints records whole.
    """
    logs = chosen(filters, here())
    if not logs.count():
        return show_nothing(logs, in_json=True)
    whole = filters == Filters() and part.end is None and not part.offset
    with _target(output, force) as stream, progress("exporting the log", prints=output in (None, "-")) as bar:
        done = _write(logs.chosen(part, bar, notes=whole), stream)
    _report(done, output, logs.foreign, as_json=as_json)
    return 0


def _write(entries: Iterable[Entry], stream: IO[bytes]) -> Exported:
    records = size = aside = 0
    for entry in entries:
        stream.write(entry.line + b"\n")
        records, size, aside = records + 1, size + len(entry.line) + 1, aside + (entry.record.side is not None)
    stream.flush()
    return Exported(records, size, aside)


def _report(done: Exported, output: str | None, foreign: int | None, *, as_json: bool) -> None:
    to_file = output not in (None, "-")
    if as_json and to_file:
        say_json({"output": os.path.abspath(output or ""), **done._asdict(), "skipped": foreign})
    elif to_file:
        say(visible(f"wrote {counted_records(done.records)}, {done.bytes:,} bytes, to {output}"))
    if done.with_side_files:
        what = "1 record has a part" if done.with_side_files == 1 else f"{done.with_side_files} records have parts"
        note(f"{what} in side files, which stay where they are; `billhook events --json` has them whole")
    if foreign:
        note(f"skipped {counted(foreign, 'line')} that billhook did not write")


@contextmanager
def _target(output: str | None, force: bool) -> Iterator[IO[bytes]]:
    """Where to write. A file appears when it is whole; what is there is replaced only by force."""
    if output in (None, "-"):
        yield sys.stdout.buffer
        return
    assert output is not None
    if os.path.lexists(output) and not force:
        raise UsageError(f"`{output}` is there already", hint="--force replaces it")
    folder = os.path.dirname(os.path.abspath(output))
    temporary = os.path.join(folder, f".billhook-export-{os.urandom(6).hex()}")
    try:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        with open(os.open(temporary, flags, 0o600), "wb") as stream:
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
        _put(temporary, output, force)
    except OSError as error:
        why = error.strerror or str(error)
        raise UsageError(f"--output {output}: {why}", hint="name a file in a folder that you can write") from None
    finally:
        if os.path.lexists(temporary):
            os.unlink(temporary)


def _put(temporary: str, output: str, force: bool) -> None:
    if os.path.isdir(output) and not os.path.islink(output):
        raise UsageError(f"`{output}` is a folder", hint="name a file in it")
    if force:
        os.replace(temporary, output)
        return
    try:
        os.link(temporary, output)  # fails where somebody else's file has appeared meanwhile
    except PermissionError:  # a file system without hard links
        os.rename(temporary, output)

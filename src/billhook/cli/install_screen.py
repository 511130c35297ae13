"""What a person sees of a change to an agent's file: the difference, then what it means."""

import difflib
from collections.abc import Iterator
from typing import Any

import click

from billhook.cli.show import note, say
from billhook.cli.table import filled, shown_path, with_shown_paths
from billhook.hosts.installing import Change, FileChange
from billhook.text import counted, visible

_DONE = {"installed": "installed", "updated": "updated", "removed": "removed"}
_WOULD = {"installed": "would install", "updated": "would update", "removed": "would remove"}


def show_difference(change: Change) -> None:
    """Print what changes in which file."""
    if change.state not in ("already", "absent"):
        for line in (line for one in change.files for line in diff(one)):
            say(line)


def show_outcome(change: Change, *, dry: bool) -> None:
    """Print what was done, or would be."""
    say("\n".join(_lines(change, dry)))
    for text in change.notes:
        note(with_shown_paths(text))


def _lines(change: Change, dry: bool) -> Iterator[str]:
    title, file = change.host.title, visible(shown_path(change.file))
    if change.state == "already":
        yield f"{title}: already installed in {file}; nothing was changed"
        return
    if change.state == "absent":
        yield f"{title}: not installed in {file}; nothing was changed"
        return
    word = (_WOULD if dry else _DONE)[change.state]
    if change.state == "removed":
        yield f"{title}: {word} billhook's entries in {file}{_as_before(change)}"
        if change.adopted:
            yield f"  {counted(len(change.adopted), 'hook')} put back: {', '.join(map(visible, change.adopted))}"
    else:
        yield f"{title}: {word} in {file}; it asks billhook at"
        yield from filled(", ".join(change.events), 2)
        if change.adopted:
            where = visible(shown_path(change.files[1].path))
            names = ", ".join(map(visible, change.adopted))
            yield f"  {counted(len(change.adopted), 'hook')} moved to {where}: {names}"
        if change.files[0].before is not None and not dry and change.shelf.backup.exists():
            yield f"  the file as it was: {visible(shown_path(str(change.shelf.backup), here=False))}"
    if dry:
        yield "  nothing was written (--dry-run)"


def _as_before(change: Change) -> str:
    if change.files[0].after is None:
        return ", and the file, which was made for them"
    return "; it is what it was before, byte for byte" if change.untouched else ""


def diff(change: FileChange) -> Iterator[str]:
    """A unified difference, as `diff -u` and Git have it."""
    name = visible(shown_path(change.path))
    before, after = _split(change.before), _split(change.after)
    old = name if change.before is not None else "/dev/null"
    new = name if change.after is not None else "/dev/null"
    lines = list(difflib.unified_diff(before, after, old, new, lineterm=""))
    for number, line in enumerate(lines):
        yield _coloured(visible(line.rstrip("\r")), head=number < 2)
    if lines:
        yield ""


def _split(data: bytes | None) -> list[str]:
    """Lines, and a word about the last one when it has no end."""
    text = (data or b"").decode("utf-8", "replace")
    lines = text.split("\n")
    if lines[-1] == "":
        return lines[:-1]
    return [*lines[:-1], lines[-1] + "\n\\ No newline at end of file"]


def _coloured(line: str, *, head: bool) -> str:
    if head:
        return click.style(line, bold=True)
    return click.style(line, fg={"+": "green", "-": "red", "@": "cyan"}.get(line[:1]))


def as_data(change: Change, *, dry: bool) -> dict[str, Any]:
    """The same for programs."""
    wrote = change.state not in ("already", "absent")
    backup = str(change.shelf.backup) if wrote and not dry and change.shelf.backup.exists() else None
    return {
        "agent": change.host.name,
        "scope": change.scope,
        "file": change.file,
        "state": change.state,
        "dry_run": dry,
        "changed": [one.path for one in change.files if one.before != one.after],
        "events": list(change.events),
        "adopted": list(change.adopted),
        "backup": backup,
        "notes": list(change.notes),
        "diff": click.unstyle("\n".join(line for one in change.files for line in diff(one))),
    }

"""Heads of a log in a folder of the user's choice: a file for each log, a line for each head, none ever replaced.

A head that was exported before an attack still shows it, also when the log went on and later heads followed.
"""

import os
import time
from pathlib import Path
from typing import Final, NamedTuple

from billhook.store import files, log_tail
from billhook.store.files import StoreError
from billhook.store.log_tail import CURRENT
from billhook.store.log_verify import Head

_LARGEST: Final = 64 << 20
_FLAGS: Final = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class Exported(NamedTuple):
    """A head that lies in the folder."""

    head: Head
    time: str  # when it was exported, in UTC


def heads_file(target: Path, folder: Path) -> Path:
    """Where the heads of a log are, by the name of the log's folder."""
    return target / f"{folder.name.lstrip('-') or 'root'}.heads"


def exported(target: Path, folder: Path) -> list[Exported]:
    """All heads of a log, the oldest first. Raises StoreError for a folder or file that can't be read."""
    path = heads_file(target, folder)
    if not target.is_dir():
        raise StoreError("the folder for heads does not exist", place=str(target), hint="make or mount it")
    try:
        lines = (files.read_bytes(path, _LARGEST) or b"").decode().splitlines()
        pairs = [line.partition(" ") for line in lines]
        return [Exported(Head.from_text(head), when) for head, _, when in pairs]
    except ValueError as error:
        hint = "fix or remove that line, and find out who changed it"
        raise StoreError(f"damaged: {error}", place=str(path), hint=hint) from None


def export(target: Path, folder: Path, root: Path) -> Head | None:
    """Append the head of a log, unless it is the last that was; None for an empty log. Raises StoreError."""
    head = current(folder, root)
    before = exported(target, folder)
    if head is None or (before and before[-1].head == head):
        return head
    path = heads_file(target, folder)
    with files.explained("write", path), open(os.open(path, _FLAGS, 0o600), "wb") as stream:
        stream.write(f"{head} {time.strftime('%Y-%m-%dT%H:%M:%SZ', time.gmtime())}\n".encode())
    return head


def current(folder: Path, root: Path) -> Head | None:
    """The last record of a log; None when it has none."""
    with files.opened(folder, root) as opened:
        if opened is None:
            return None
        names = [CURRENT, *reversed(log_tail.rotated_names(opened))]
        last = log_tail.last_of(opened, [folder / name for name in names])
    return None if last is None else Head(last.seq, last.hash)


def overdue(target: Path, folder: Path, root: Path, every: float) -> str:
    """What is wrong with the heads of a log: records that have been in none for longer than the interval; or nothing.

    Raises StoreError."""
    head, before = current(folder, root), exported(target, folder)
    last = before[-1] if before else None
    if head is None or (last and last.head.seq >= head.seq):
        return ""
    if last is None:
        return f"no head has been exported to {target} yet"
    age = time.time() - heads_file(target, folder).stat().st_mtime
    if age < 2 * every:
        return ""
    return f"the newest head in {target} is of record {last.head.seq} ({last.time}); the log is at record {head.seq}"

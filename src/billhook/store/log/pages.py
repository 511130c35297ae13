"""The logs of a machine, and their pages: newest first, from any place, with a limit for the bytes of one page."""

import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final, NamedTuple

from billhook.core.errors import UsageError
from billhook.store.files import log_folder, opened
from billhook.store.log import Record, RecordFilter
from billhook.store.log.eventlog import CURRENT, rotated_name
from billhook.store.log.reader import NUMBERED_LINE, LogEntry, LogReader, backward, open_log_files, place_of

AT_MOST: Final = 8 << 20  # bytes of the log that one page reads


class LogPage(NamedTuple):
    """Some records, newest first."""

    entries: list[LogEntry]
    before: int  # the next page begins before this number; 0: there are no older records
    read: int  # bytes


def page(
    log: LogReader,
    wanted: RecordFilter,
    *,
    before: int = 0,
    after: int = 0,
    limit: int = 100,
    at_most: int = AT_MOST,
    keep: Callable[[Record], bool] | None = None,
) -> LogPage:
    """The newest matching records with numbers below `before` (0: all) and above `after`."""
    scan, found, read, last = log.scan(wanted, notes=False), list[LogEntry](), 0, before
    with open_log_files(log.folder, log.root) as files:
        names = [] if files is None else [name for name in reversed(files.names) if _may_have(name, before)]
        for name in names:
            assert files is not None
            with files.opened(name) as file:
                if file is None:
                    continue
                end = place_of(file, before) if before else file.size
                for block in backward(file.descriptor, end, closed=file.closed):
                    read += len(block.data)
                    for entry in scan.in_block(block, file, newest_first=True):
                        last = entry.record.seq
                        if last <= after:
                            return LogPage(found, 0, read)
                        if keep is None or keep(log.whole(entry.record)):
                            found.append(entry)
                        if len(found) == limit:
                            return LogPage(found, last, read)
                    last = _first_number(block.data) or last
                    if last <= after or read >= at_most:
                        return LogPage(found, 0 if last <= max(after, 1) else last, read)
    return LogPage(found, 0, read)


def _may_have(name: str, before: int) -> bool:
    """Whether a file may have records below a number; a rotated file is named after its first record."""
    return not before or name == CURRENT or name < rotated_name(before)


def _first_number(data: bytes) -> int:
    match = NUMBERED_LINE.search(data)
    return int(match[1]) if match else 0


# The logs of a machine: one for each project.


class MachineLogs:
    """The logs of all projects below one state root."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def all(self) -> list[LogReader]:
        """The most recently changed first."""
        path = self.root / "hooks"
        with opened(path, self.root) as folder:
            found = [] if folder is None else [one for one in os.scandir(folder) if one.is_dir(follow_symlinks=False)]
        return last_changed_first(LogReader(path / one.name, self.root) for one in found)

    def find(self, name: str) -> tuple[LogReader, str]:
        """The log of a project with this name, and the project in its records. Raises UsageError if there is none."""
        folder = log_folder(self.root, name) if name else self.root
        if not name or not os.path.isdir(folder):
            hint = "`billhook doctor` shows whether agents call billhook"
            raise UsageError("this project has no event log", hint=hint)
        return LogReader(folder, self.root), name

    def named(self, log: LogReader, project: str) -> str:
        """The name of a project of a log; with the logs of several machines, the machine is part of it."""
        return project

    def folder(self, name: str) -> str:
        """The folder of the project with this name. Raises UsageError if it is not on this machine."""
        if not os.path.isabs(name) or not os.path.isdir(name):
            raise UsageError("the folder of this project does not exist any more")
        return name


def last_changed_first(logs: Iterable[LogReader]) -> list[LogReader]:
    """The logs in the order of their newest records."""
    return sorted(logs, key=lambda log: log.stamp, reverse=True)

"""The logs of a machine: one for each project."""

import os
from collections.abc import Iterable
from pathlib import Path

from billhook.core.errors import UsageError
from billhook.store.files import log_folder, opened
from billhook.store.log.reader import LogReader


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

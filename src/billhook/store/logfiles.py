"""The files of an event log as they lie there at one moment, for somebody who reads them while others write."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from billhook.store.appending import CURRENT, reading, rotated_names
from billhook.store.files import opened, status

Progress = Callable[[int, int], object]  # called now and then while a log is read: bytes done, bytes in all


class LogFile(NamedTuple):
    """One file of a log while it is open."""

    path: Path
    descriptor: int
    closed: bool  # rotated: nobody adds to it

    @property
    def size(self) -> int:
        return os.fstat(self.descriptor).st_size


class LogFiles:
    """The files of a log at one moment, oldest first; each is opened when it is asked for.

    A rotation meanwhile hides and doubles nothing: the current file was opened before the others were listed.
    """

    def __init__(self, path: Path, within: int, current: int | None) -> None:
        self._folder = path.parent
        self._within = within
        self._current = None if current is None else LogFile(path, current, False)
        self.names = older_names(within, current)
        if current is not None:
            self.names.append(CURRENT)

    @contextmanager
    def opened(self, name: str) -> Iterator[LogFile | None]:
        """One of the files; None for one that is gone. Raises StoreError."""
        if name == CURRENT:
            yield self._current
            return
        path = self._folder / name
        with reading(self._within, path) as file:
            yield None if file is None else LogFile(path, file, True)


@contextmanager
def log_files(folder: Path, root: Path) -> Iterator[LogFiles | None]:
    """The files of a log as they are now; None: there is no log. Raises StoreError."""
    with opened(folder, root) as within:
        if within is None:
            yield None
            return
        path = folder / CURRENT
        with reading(within, path) as current:
            yield LogFiles(path, within, current)


def older_names(folder: int, current: int | None) -> list[str]:
    """The names of the rotated files that were full before a file which was the current one a moment ago was begun.

    All of them as a rule. But that file, and others after it, may have been rotated since it was opened.
    """
    names = rotated_names(folder)
    if current is None or is_at(CURRENT, folder, current):
        return names
    mine = next((index for index, name in enumerate(names) if is_at(name, folder, current)), None)
    return names[:mine]


def is_at(name: str, folder: int, file: int) -> bool:
    """Whether an open file is the one that has this name now."""
    found = status(name, folder)
    return found is not None and os.path.samestat(found, os.fstat(file))


def sizes(folder: Path, root: Path) -> dict[str, int]:
    """The names of a log's files, oldest first, and how long each is. Whatever lies there is not opened."""
    with opened(folder, root) as within:
        if within is None:
            return {}
        found = {name: status(name, within) for name in (*rotated_names(within), CURRENT)}
        return {name: one.st_size for name, one in found.items() if one is not None}

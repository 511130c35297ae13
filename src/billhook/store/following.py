"""A log's records as they are written: from now on, through rotation, and after somebody has taken the log away."""

import os
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

from billhook.store import blocks
from billhook.store.appending import CURRENT, reading
from billhook.store.files import opened
from billhook.store.logfiles import LogFile, is_at, older_names
from billhook.store.seeking import Entry, Sought


class Follower:
    """Where somebody who follows a log has come to. The current file stays open, so that a rotated one is read out."""

    def __init__(self, folder: Path, root: Path, *, since_now: bool) -> None:
        self._folder = folder
        self._root = root
        self._held = ExitStack()
        self._file: int | None = None
        self._offset = 0
        self._read: set[str] = set()  # the rotated files that are behind us
        with opened(folder, root) as within:
            if within is not None and since_now:
                self._hold(within)  # before the others are listed: one that is rotated meanwhile is read out
                self._read.update(older_names(within, self._file))
                if self._file is not None:
                    self._offset = blocks.end_of_lines(self._file, os.fstat(self._file).st_size)

    def close(self) -> None:
        self._held.close()
        self._file = None

    def news(self, sought: Sought) -> Iterator[Entry]:
        """What was added since the last call."""
        with opened(self._folder, self._root) as within:
            if within is None:
                yield from self._rest(sought, closed=True)
                self.close()
                return
            if self._file is None or not is_at(CURRENT, within, self._file):
                yield from self._rest(sought, closed=True)
                yield from self._rotated(within, sought)
            yield from self._rest(sought, closed=False)

    def _rotated(self, within: int, sought: Sought) -> Iterator[Entry]:
        """What was rotated since, and then the current file is the one to follow."""
        before, held = self._file, self._held
        self._file, self._held = None, ExitStack()
        with held:
            self._hold(within)
            names = older_names(within, self._file)
            new, self._read = [name for name in names if name not in self._read], set(names)
            for name in new:
                with reading(within, self._folder / name) as file:
                    if file is not None and (before is None or not os.path.sameopenfile(file, before)):
                        yield from self._entries(LogFile(self._folder / name, file, True), 0, sought)

    def _hold(self, within: int) -> None:
        self._file = self._held.enter_context(reading(within, self._folder / CURRENT))
        self._offset = 0

    def _rest(self, sought: Sought, *, closed: bool) -> Iterator[Entry]:
        if self._file is None:
            return
        if os.fstat(self._file).st_size < self._offset:
            self._offset = 0  # cut off, and begun anew
        yield from self._entries(LogFile(self._folder / CURRENT, self._file, closed), self._offset, sought)

    def _entries(self, file: LogFile, offset: int, sought: Sought) -> Iterator[Entry]:
        for block in blocks.forward(file.descriptor, offset, closed=file.closed):
            if file.descriptor == self._file:
                self._offset = block.offset + block.stop
            yield from sought.entries(sought.lines(block), file)


def follow(follower: Follower, sought: Sought, poll: float) -> Iterator[Entry]:
    """What comes, for ever: looks for it every `poll` seconds."""
    try:
        while True:
            yield from follower.news(sought)
            time.sleep(poll)
    finally:
        follower.close()

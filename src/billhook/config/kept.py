"""A loaded configuration, for as long as everything that it was made from stays the same.

Every event asks whether it does, so as little as possible is looked at: of the many places where a file may be and is
none, the times of their folders tell that none has come.
"""

import os
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from billhook import caller
from billhook.config import sources
from billhook.config.declared import needs_consent
from billhook.later import later

if TYPE_CHECKING:
    from billhook.config import fingerprint
    from billhook.config.loaded import Config
    from billhook.store.approvals import Approvals
else:
    fingerprint = later("billhook.config.fingerprint")

_SETTLED: Final = 1_000_000_000
"""Nanoseconds. A folder that has changed just now may change once more without a trace in its times."""


class Kept:
    """One configuration, and what it was made from."""

    def __init__(
        self,
        config: "Config",
        folder: str,
        found: sources.Found,
        used: Mapping[str, str | None],
        approvals: "Approvals",
    ) -> None:
        """`used` are the variables that hooks hold. A file that was written just now may be written again without a
        trace in its times: what was read from one never holds."""
        self.config = config
        # What the paths of both folders lead to may change, too.
        self._places = {path: os.path.realpath(path) for path in (folder, caller.expanduser("~"))}
        here = [(path, sources.identity(path)) for path in self._places]
        there = [(path, identity) for path, identity in found.probed if identity]
        self._present = (*here, *((path, one if sources.settled(one) else (-1,)) for path, one in there))
        self._passed = found.passed
        self._absent = tuple(path for path, identity in found.probed if not identity)
        self._folders: dict[str, sources.Identity] = {}
        """Those in which something would have come, as they were when nothing had."""
        self._changeable, self._beyond = self._present, self._passed
        """What the times of these folders don't tell about: all but folders in them, and they themselves."""
        marks = {(mark.path, mark.kind): mark for entry in config.entries for mark in entry.consent.looked_at}
        self._marks, self._used, self._approvals = tuple(marks.values()), dict(used), approvals
        files = {read.source.path for read in config.sources if needs_consent(read.source.layer)}
        self._stamps = {file: approvals.stamp(file) for file in files}

    def holds(self, env: Mapping[str, str]) -> bool:
        """Whether loading again would give the same. Only `stat` is asked."""
        came = not self._folders_are_the_same()
        for path, identity in self._present if came else self._changeable:
            if sources.identity(path) != identity:
                return False
        for path, anybodys in self._passed if came else self._beyond:
            if sources.is_anybodys(path) != anybodys:
                return False
        for name, value in self._used.items():
            if env.get(name) != value:
                return False
        for file, stamp in self._stamps.items():
            if self._approvals.stamp(file) != stamp:
                return False
        for mark in self._marks:
            if not fingerprint.holds(mark):
                return False
        for entry in self.config.pending:
            if not all(map(fingerprint.unchanged, entry.consent.looked_at)):
                return False
        # A folder that was moved, with a link left in its place, is the same one and lies elsewhere.
        leads_there = not came or all(os.path.realpath(path) == real for path, real in self._places.items())
        return leads_there and (not came or self._none_has_come())

    def _folders_are_the_same(self) -> bool:
        for folder, times in self._folders.items():
            if _times(folder) != times:
                return False
        return self._folders != {}

    def _none_has_come(self) -> bool:
        folders = {folder: _times(folder) for folder in {_nearest(path) for path in self._absent}}
        if any(sources.identity(path) for path in self._absent):
            return False
        now = time.time_ns()
        usable = "" not in folders and all(times and now - max(times[2:]) > _SETTLED for times in folders.values())
        self._folders = folders if usable else {}
        self._changeable = tuple(place for place in self._present if not _is_folder_in(place[0], self._folders))
        self._beyond = tuple(place for place in self._passed if place[0] not in self._folders)
        return True


def _is_folder_in(path: str, folders: Mapping[str, sources.Identity]) -> bool:
    return (path in folders or os.path.dirname(path) in folders) and os.path.isdir(path) and not os.path.islink(path)


def _times(folder: str) -> sources.Identity:
    try:
        found = os.stat(folder)
    except (OSError, ValueError):
        return ()
    return found.st_dev, found.st_ino, found.st_mtime_ns, found.st_ctime_ns


def _nearest(path: str) -> str:
    """The folder in which the first missing part of a path would appear; nothing where a link leads there that leads
    nowhere: what it leads to may appear elsewhere."""
    while True:
        path = os.path.dirname(path)
        if os.path.exists(path):
            return path
        if os.path.lexists(path) or path == os.path.dirname(path):
            return ""

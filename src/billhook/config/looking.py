"""One look at the file system: what was seen once is not asked for again."""

import itertools
import os
import stat
import time
from typing import TYPE_CHECKING, Final

import msgspec

if TYPE_CHECKING:
    from billhook.config.fingerprint import FileMark
    from billhook.config.shellvars import Known

SETTLED: Final = 20_000_000  # nanoseconds after which the file system's clock has surely moved on
MAX_KEPT: Final = 64 << 10
MAX_ALL_KEPT: Final = 8 << 20
MAX_DEEP: Final = 64

Identity = tuple[int, ...]  # device, inode, size, and the times of change of a file's content and of its record


class Content(msgspec.Struct, frozen=True):
    """What was read from a regular file."""

    data: bytes = b""
    identity: Identity = ()
    """Empty when another content could have the same: the file was changed just now, or while it was read."""


_NOTHING: Final = Content()


class Look:
    """What the files are at one moment. Made for one load, which is a snapshot, and thrown away with it: what changes
    after it was made, it may not see."""

    def __init__(self) -> None:
        self.marks: dict[tuple[str, str], FileMark] = {}
        self.texts: dict[tuple[str, str, str], Known] = {}  # shell texts by folder, script and text
        self.path_folders: dict[str, list[tuple[str, bool]]] = {}
        self.pattern_seconds = 0.0  # what patterns took so far
        self.moving: set[str] = set()  # folders that may have changed after they were listed, and have the same times
        self._states: dict[str, os.stat_result | None] = {}
        self._names: dict[str, frozenset[str] | None] = {}
        self._listed: dict[str, tuple[os.DirEntry[str], ...] | None] = {}
        self._real: dict[str, str] = {}
        self._contents: dict[str, Content] = {}
        self._room = MAX_ALL_KEPT

    def real(self, path: str) -> str:
        """Where an absolute path really leads, as `os.path.realpath`; folders are resolved only once."""
        real = self._real.get(path)
        if real is None:
            folder, name = os.path.split(path)
            if name in ("", ".", "..") or path.count("/") > MAX_DEEP or os.sep != "/" or os.path.islink(path):
                real = os.path.realpath(path)
            else:
                real = os.path.join(self.real(folder), name)
            self._real[path] = real
        return real

    def state(self, path: str) -> os.stat_result | None:
        """What `stat` says of it; None when there is nothing, or the system can't be asked."""
        if path not in self._states:
            self._states[path] = state(path)
        return self._states[path]

    def regular(self, path: str) -> bool:
        found = self.state(path)
        return found is not None and stat.S_ISREG(found.st_mode)

    def folder(self, path: str) -> bool:
        found = self.state(path)
        return found is not None and stat.S_ISDIR(found.st_mode)

    def names(self, folder: str) -> frozenset[str] | None:
        """What lies in a folder; None when it can't be listed. A name that is not there may still be found where the
        file system knows no capitals."""
        if folder not in self._names:
            try:
                self._names[folder] = frozenset(os.listdir(folder))
            except FileNotFoundError:
                self._names[folder] = frozenset()
            except (OSError, ValueError):
                self._names[folder] = None
        return self._names[folder]

    def listed(self, folder: str, at_most: int) -> tuple["os.DirEntry[str]", ...] | None:
        """What lies in a folder, in order; None when it can't be listed, or holds more than `at_most`. The state of the
        folder is looked at before, so that whatever comes later shows in its times."""
        if folder not in self._listed:
            before = self.state(folder)
            if before is None or not settled(before):
                self.moving.add(folder)
            try:
                with os.scandir(folder) as entries:
                    found = list(itertools.islice(entries, at_most + 1))
                self._listed[folder] = (
                    tuple(sorted(found, key=lambda entry: entry.name)) if len(found) <= at_most else None
                )
            except (OSError, ValueError):
                self._listed[folder] = None
        return self._listed[folder]

    def read(self, path: str, limit: int) -> Content:
        """A regular file; nothing of one that is missing, longer than `limit`, or anything else. Never waits."""
        known = self._contents.get(path)
        if known is not None and len(known.data) <= limit:
            return known
        content = _content(path, limit)
        if 0 < len(content.data) <= min(MAX_KEPT, self._room):
            self._room -= len(content.data)
            self._contents[path] = content
        return content


def _content(path: str, limit: int) -> Content:
    try:
        file = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except (OSError, ValueError):
        return _NOTHING
    try:
        found = os.fstat(file)
        if not stat.S_ISREG(found.st_mode) or found.st_size > limit:
            return _NOTHING
        before = identity(found) if settled(found) else ()
        data = _all(file, limit)
        whole = len(data) == found.st_size and identity(os.fstat(file)) == before
        return Content(data, before if whole else ())
    except OSError:
        return _NOTHING
    finally:
        os.close(file)


def _all(file: int, limit: int) -> bytes:
    parts = []
    while limit > 0 and (part := os.read(file, min(limit, MAX_KEPT))):
        parts.append(part)
        limit -= len(part)
    return b"".join(parts)


def state(path: str) -> os.stat_result | None:
    """What `stat` says of it now; None when there is nothing, or the system can't be asked."""
    try:
        return os.stat(path)
    except (OSError, ValueError):
        return None


def settled(found: os.stat_result) -> bool:
    """Whether the file's next change will show in its times: their clock is coarse."""
    return not -SETTLED < time.time_ns() - found.st_ctime_ns < SETTLED


def identity(found: os.stat_result | None) -> Identity:
    """What tells a file from what it was before; nothing when there is none."""
    if found is None:
        return ()
    return (found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)

"""Small records that many processes change at once: one file for each, replaced whole, under a lock of its own.

What `update` returned for survives the death of any process. Nothing is synced to the disk, because that would be felt
at every tool call: a power loss may take the last changes back, or leave a file empty, which is told from a record.
"""

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeVar, cast

from billhook.core import strictjson
from billhook.core.errors import StrictJSONError
from billhook.store import files
from billhook.store.files import StoreError, file_name, sha256
from billhook.store.locks import PATIENCE, locked

T = TypeVar("T")
Value = dict[str, Any]  # a record
LARGEST: Final = 4 << 20  # bytes of a record
FOLDERS: Final = {
    "turns": "turns",
    "sessions": "billhook/sessions",
    "names": "billhook/names",
    "limits": "billhook/limits",
    "held": "billhook/held",
    "notices": "billhook/notices",
    "gates": "billhook/gates",
    "folders": "billhook/folders",
}
"""Where the records of each kind lie below the root."""
COUNTED_ANEW: Final = frozenset({"turns", "held", "notices", "folders"})
"""Kinds whose damaged records `update` takes for missing. A session must not stay without turns because of a power
loss; other kinds hold what a person chose, or what a limit forbids, and wait for a person."""


_READ_AT_EVERY_EVENT: Final = frozenset({"turns", "sessions"})
"""Flat records that are remembered for as long as their files stay the same."""
_REMEMBERED: Final = 1024
_SETTLED_NS: Final = 1_000_000_000
"""A file that was replaced just now may be replaced once more without a trace in its times."""

_Mark = tuple[int, int, int, int]


class _CachedRecord(NamedTuple):
    """A record, the file that it was read from as it was then, and what was made of it."""

    file: str
    mark: _Mark
    record: Value
    made: dict[Callable[[Value | None, str], Any], Any]


class FileState:
    """State in files below one root. Keeps nothing open; threads and processes may share it."""

    def __init__(self, root: Path, *, seconds: float = PATIENCE) -> None:
        self.root = Path(root)
        self._folders = {kind: self.root / folder for kind, folder in FOLDERS.items()}
        self._locks = self.root / "billhook" / "locks"
        self.seconds = seconds  # how long an update waits for another one of the same record
        self._seen: dict[tuple[str, str], _CachedRecord] = {}
        self._files: dict[tuple[str, str], str] = {}  # where records lie whose names don't depend on the file system

    def read(self, kind: str, key: str) -> Value | None:
        """The record as it is now; None: there is none. Takes no lock, makes nothing. Raises StoreError."""
        seen = self._seen.get((kind, key))
        file = self._file(kind, key) if seen is None else seen.file
        try:
            mark = _mark(os.lstat(file))
        except FileNotFoundError:
            return None
        except (OSError, ValueError):
            mark = None
        if seen is not None and mark == seen.mark:
            return dict(seen.record)
        record = self._read(Path(file))
        if mark is None or record is None or kind not in _READ_AT_EVERY_EVENT:
            return record
        if time.time_ns() - max(mark[2], mark[3]) > _SETTLED_NS:
            if len(self._seen) >= _REMEMBERED:
                self._seen.clear()
            self._seen[kind, key] = _CachedRecord(file, mark, dict(record), {})
        return record

    def value(self, kind: str, key: str, make: Callable[[Value | None, str], T]) -> T:
        """What `make` makes of a record and its key: made again only when the file has changed. Raises StoreError."""
        seen = self._seen.get((kind, key))
        if seen is not None and make in seen.made:
            try:
                found = os.lstat(seen.file)
            except (OSError, ValueError):
                return make(self.read(kind, key), key)
            if (found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns) == seen.mark:
                return cast("T", seen.made[make])
        record = self.read(kind, key)
        made = make(record, key)
        seen = self._seen.get((kind, key))
        if seen is not None and seen.record == record:
            seen.made[make] = made
        return made

    def update(self, kind: str, key: str, change: Callable[[Value | None], Value | None]) -> Value | None:
        """Replace a record by what `change` makes of it, with nobody else in between; returns the record as it is then.

        `change` gets None where there is none, and returns None to leave everything as it is. It may update records of
        other kinds, but none of its own. What it raises goes through, and nothing was changed; likewise StoreError.
        """
        if not self._folders[kind].is_dir():  # only a folder that is there tells whether it takes `A` for `a`
            files.private_folder(self._folders[kind], root=self.root)
        path = self.path(kind, key)
        with locked(self._lock(kind, path), root=self.root, seconds=self.seconds):
            before = self._before(kind, path)
            after = change(before)
            if after is None:
                return before
            self._write(path, after)
            return after

    def path(self, kind: str, key: str) -> Path:
        """Where a record lies, whatever its key is."""
        folder = self._folders[kind]
        return folder / f"{file_name(key, folder)}.json"

    def _file(self, kind: str, key: str) -> str:
        """The same as text, remembered for as long as few are asked for."""
        file = self._files.get((kind, key))
        if file is None:
            file = os.fspath(self.path(kind, key))
            if key.islower():
                if len(self._files) >= _REMEMBERED:
                    self._files.clear()
                self._files[kind, key] = file
        return file

    def _lock(self, kind: str, path: Path) -> Path:
        """256 lock files for each kind serve all its records: one for each record would stay behind for ever."""
        share = sha256(path.name.encode("ascii")).hexdigest()[:2]
        return self._locks / f"{kind}-{share}.lock"

    def _read(self, path: Path) -> Value | None:
        data = files.read_bytes(path, LARGEST, root=self.root)
        if data is None:
            return None
        try:
            record = strictjson.loads_own(data)
        except StrictJSONError as error:
            raise _Damaged(str(error), path) from None
        if not isinstance(record, dict):
            raise _Damaged("not an object", path)
        return record

    def _before(self, kind: str, path: Path) -> Value | None:
        try:
            return self._read(path)
        except _Damaged:
            if kind in COUNTED_ANEW:
                return None
            raise

    def _write(self, path: Path, record: Value) -> None:
        data = strictjson.encode(record) + b"\n"
        if len(data) > LARGEST:  # it could not be read again
            raise StoreError(f"a record of more than {LARGEST} bytes", place=str(path))
        files.write_atomically(path, data, root=self.root, durable=False)


def _mark(found: os.stat_result) -> _Mark:
    return found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns


class _Damaged(StoreError):  # noqa: N818 - a StoreError to everybody else
    """A file that is no record: after a power loss, or because somebody edited it."""

    def __init__(self, what: str, path: Path) -> None:
        super().__init__(f"damaged, not a record of ours: {what}", place=str(path), hint=f"remove it: rm {path}")

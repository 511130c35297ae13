"""Records that live for seconds and that many processes change at once: one file each, written in place under a lock.

A file that is replaced, as other records are, waits for the disk on some file systems. What is here is of no use to
anybody after a crash, so a torn record is none.
"""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Final

from billhook import strictjson
from billhook.errors import StrictJSONError
from billhook.store.digest import sha256
from billhook.store.files import StoreError
from billhook.store.locking import LockFile
from billhook.store.state import Value

LARGEST: Final = 4 << 20  # bytes of a record
PATIENCE: Final = 0.25  # seconds for a lock that is held for less than a thousandth of that


class Scratch:
    """The records in one folder below a root. Keeps nothing open; threads and processes may share it."""

    def __init__(self, folder: Path, *, root: Path) -> None:
        self._folder, self._root = folder, root

    def update(self, key: str, change: Callable[[Value | None], Value | None]) -> None:
        """Change a record, with nobody else in between. `change` gets None where there is none, and returns None to
        leave it as it is. Raises StoreError."""
        lock = LockFile(self._path(key), self._root)
        try:
            lock.acquire(PATIENCE)
            file = lock.fileno()
            after = change(_read(file))
            if after is not None:
                self._write(file, key, after)
        finally:
            lock.close()

    def read(self, key: str) -> Value | None:
        """The record as it is now; None: there is none. Raises StoreError."""
        found: list[Value | None] = []
        self.update(key, found.append)
        return found[0]

    def _path(self, key: str) -> Path:
        return self._folder / f"{sha256(key.encode('utf-8', 'surrogatepass')).hexdigest()[:32]}.json"

    def _write(self, file: int, key: str, record: Value) -> None:
        data = strictjson.encode(record)
        if len(data) > LARGEST:
            raise StoreError(f"a record of more than {LARGEST} bytes", place=str(self._path(key)))
        try:
            if os.pwrite(file, data, 0) < len(data):
                raise OSError(None, "it could not be written to its end")
            os.ftruncate(file, len(data))  # never to nothing: some file systems would wait for the disk then
        except OSError as error:
            raise StoreError(f"can't write it: {error.strerror or error}", place=str(self._path(key))) from error


def _read(file: int) -> Value | None:
    try:
        data = os.pread(file, LARGEST + 1, 0)
        record = strictjson.loads(data, max_bytes=LARGEST) if data else None
    except (OSError, StrictJSONError):
        return None
    return record if isinstance(record, dict) else None

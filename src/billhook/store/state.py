"""Small records that many processes change concurrently: one file for each, replaced as a whole, under a lock.

After `update` has returned, the change survives the death of any process. Nothing is synced to disk, because that would
slow down every tool call: a power loss may undo the last changes, or leave an empty file, which counts as damaged.
"""

import os
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, TypeVar, cast

import msgspec

from billhook.core import strictjson
from billhook.core.errors import StrictJSONError
from billhook.store import files
from billhook.store.files import TIMEOUT, StoreError, file_name, locked, sha256

T = TypeVar("T")
Value = dict[str, Any]  # a record
LARGEST: Final = 4 << 20  # bytes of a record
FOLDERS: Final = {
    "turns": "turns",
    "sessions": "billhook/sessions",
    "names": "billhook/names",
    "limits": "billhook/limits",
    "shared": "billhook/shared-limits",
    "held": "billhook/held",
    "notices": "billhook/notices",
    "gates": "billhook/gates",
    "folders": "billhook/folders",
    "calls": "billhook/calls",
    "effects": "billhook/effects",
    "runs": "billhook/runs",
    "overrides": "billhook/overrides",
    "questions": "billhook/questions",
}
"""The folders of each kind of record, below the root."""
RECREATED: Final = frozenset({"turns", "held", "notices", "folders", "calls", "runs", "overrides", "questions"})
"""Kinds whose damaged records `update` treats as missing. A power loss must not disable the turns of a session; other
kinds contain the user's choices or limits, and need the user."""

_READ_AT_EVERY_EVENT: Final = frozenset({"turns", "sessions", "effects"})
"""Flat records that are cached as long as their files are unchanged."""
_REMEMBERED: Final = 1024
_SETTLED_NS: Final = 1_000_000_000  # A file that was just replaced may be replaced again with the same times.

_Mark = tuple[int, int, int, int]


class _CachedRecord(msgspec.Struct, frozen=True):
    """A record, the state of its file at that time, and the value that was derived from it."""

    file: str
    mark: _Mark
    record: Value
    made: dict[Callable[[Value | None, str], Any], Any]


class FileState:
    """State in files below one root. Keeps nothing open; threads and processes may share it."""

    def __init__(self, root: Path, *, seconds: float = TIMEOUT) -> None:
        self.root = Path(root)
        self._folders = {kind: self.root / folder for kind, folder in FOLDERS.items()}
        self._locks = self.root / "billhook" / "locks"
        self.seconds = seconds  # how long an update waits for a concurrent one of the same record
        self._seen: dict[tuple[str, str], _CachedRecord] = {}
        self._files: dict[tuple[str, str], str] = {}  # paths of records whose names don't depend on the file system

    def read(self, kind: str, key: str) -> Value | None:
        """The current record; None: there is none. Takes no lock, creates nothing. Raises StoreError."""
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
        """The result of `make` for a record and its key, cached until the file changes. Raises StoreError."""
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
        """Replace a record with the result of `change`, under a lock; returns the new record. `change` gets None if
        there is no record, and returns None to change nothing. It may update records of other kinds, but not of the
        same kind. If it raises, or on StoreError, nothing was changed."""
        if not self._folders[kind].is_dir():  # only an existing folder shows whether names are case-insensitive
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
        """The path of a record, for any key."""
        folder = self._folders[kind]
        return folder / f"{file_name(key, folder)}.json"

    def _file(self, kind: str, key: str) -> str:
        """The same as a string, from a small cache."""
        file = self._files.get((kind, key))
        if file is None:
            file = os.fspath(self.path(kind, key))
            if key.islower():
                if len(self._files) >= _REMEMBERED:
                    self._files.clear()
                self._files[kind, key] = file
        return file

    def _lock(self, kind: str, path: Path) -> Path:
        """256 lock files for each kind serve all its records: one for each record would never be removed."""
        share = sha256(path.name.encode("ascii")).hexdigest()[:2]
        return self._locks / f"{kind}-{share}.lock"

    def _read(self, path: Path) -> Value | None:
        data = files.read_bytes(path, LARGEST, root=self.root)
        if data is None:
            return None
        try:
            record = strictjson.loads_own(data)
        except StrictJSONError as error:
            raise _DamagedError(str(error), path) from None
        if not isinstance(record, dict):
            raise _DamagedError("it is not an object", path)
        return record

    def _before(self, kind: str, path: Path) -> Value | None:
        try:
            return self._read(path)
        except _DamagedError:
            if kind in RECREATED:
                return None
            raise

    def _write(self, path: Path, record: Value) -> None:
        data = strictjson.encode(record) + b"\n"
        if len(data) > LARGEST:  # it could not be read again
            raise StoreError(f"the record has more than {LARGEST} bytes", place=str(path))
        files.write_atomically(path, data, root=self.root, durable=False)


def _mark(found: os.stat_result) -> _Mark:
    return found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns


class _DamagedError(StoreError):
    """A file that is not a valid record: after a power loss, or after an edit."""

    def __init__(self, what: str, path: Path) -> None:
        super().__init__(f"the file is damaged: {what}", place=str(path), hint=f"remove it: rm {path}")


def listed(record: Value | None, name: str, kind: type[T]) -> list[T]:
    """The items of a list in a record. Invalid items, for example after an edit, are left out."""
    found = (record or {}).get(name)
    items: list[T] = []
    for item in found if isinstance(found, list) else ():
        with suppress(msgspec.ValidationError):
            items.append(msgspec.convert(item, kind))
    return items


# Calls whose hooks are running, or have just run:

SHORT_TIMEOUT: Final = 0.25  # seconds for a lock that is held for less than a thousandth of that
LARGEST_CALL: Final = 256 << 10  # Bytes of an answer. A larger one is not saved, and other processes run the hooks.
_MOST: Final = 32  # calls of one session that are saved
_LONGEST: Final = 900.0  # seconds after which a call without an answer expires


class CallRecord(msgspec.Struct, frozen=True):
    """A call as one process sees it."""

    session: str
    key: str  # what makes two calls the same one
    entry: str
    """The entry and file through which it arrived, if known. An entry never gets the same call twice: an equal call
    through it is a new one, unless several entries have the same command line."""
    window: float  # seconds after the answer in which it may still arrive through another entry
    times: int = 1
    """How many entries have the same command line, if the call has an id: then it may arrive through each of them."""


class CallClaim(msgspec.Struct, frozen=True):
    id: str
    mine: bool  # this process runs the hooks
    said: Value | None = None  # its answer; None: there is none yet


class _CallEntry(msgspec.Struct, omit_defaults=True):
    id: str
    key: str
    entries: list[str]
    began: float
    by: int  # the process that runs the hooks
    window: float
    said: Value | None = None
    ended: float = 0.0

    def is_same(self, call: CallRecord) -> bool:
        if self.key != call.key or self.entries.count(call.entry) >= call.times:
            return False
        return self.said is not None or _is_alive(self.by)

    @property
    def is_fresh(self) -> bool:
        """Whether it may still arrive through another entry."""
        now = time.time()
        return -1 < now - self.began < _LONGEST if self.said is None else 0 <= now - self.ended < self.window


class CallRecords:
    """The calls of all sessions, below one root. Keeps nothing open; every method raises StoreError."""

    def __init__(self, root: Path) -> None:
        self._state = FileState(root, seconds=SHORT_TIMEOUT)

    def take(self, call: CallRecord) -> CallClaim:
        """Join a call that arrived through another entry, or begin it."""
        new = _CallEntry(os.urandom(8).hex(), call.key, [call.entry], time.time(), os.getpid(), call.window)
        found: list[CallClaim] = []

        def change(calls: list[_CallEntry]) -> list[_CallEntry]:
            joined = next((one for one in reversed(calls) if one.is_same(call)), None)
            if joined is None:
                found.append(CallClaim(new.id, True))
                return [*calls[-_MOST + 1 :], new]
            joined.entries.append(call.entry)
            found.append(CallClaim(joined.id, False, joined.said))
            return calls

        self._update(call, change)
        return found[0]

    def look(self, call: CallRecord, id: str) -> CallClaim | None:  # noqa: A002 (the name in the record)
        """The state of a call that another process handles; None: no process handles it any more."""
        for one in _fresh(self._state.read("calls", call.session)):
            if one.id == id and (one.said is not None or _is_alive(one.by)):
                return CallClaim(id, False, one.said)
        return None

    def save_answer(self, call: CallRecord, id: str, said: Value) -> None:  # noqa: A002
        """Save the answer of a call that this process handles."""
        if len(strictjson.encode(said)) > LARGEST_CALL:
            return self.give_up(call, id)

        def change(calls: list[_CallEntry]) -> list[_CallEntry]:
            for one in calls:
                if one.id == id:
                    one.said, one.ended = said, time.time()
            return calls

        return self._update(call, change)

    def give_up(self, call: CallRecord, id: str) -> None:  # noqa: A002
        """Leave a call of this process to another process that waits for it."""
        self._update(call, lambda calls: [one for one in calls if one.id != id])

    def _update(self, call: CallRecord, change: Callable[[list[_CallEntry]], list[_CallEntry]]) -> None:
        def changed(record: Value | None) -> Value:
            return {"calls": msgspec.to_builtins(change(_fresh(record)))}

        self._state.update("calls", call.session, changed)


def _fresh(record: Value | None) -> list[_CallEntry]:
    return [one for one in listed(record, "calls", _CallEntry) if one.is_fresh]


def _is_alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except OSError as error:
        return not isinstance(error, ProcessLookupError)
    return True


# Context that an event of a session could not carry to the model, and that waits for an event that can.

KIND: Final = "held"
MOST: Final = 16  # texts of one session
LARGEST_HELD: Final = 64 << 10  # characters of all of them


class HeldContext:
    """Waiting context, by session. Keeps nothing open; every method raises StoreError."""

    def __init__(self, state: FileState) -> None:
        self._state = state

    def keep(self, session: str, text: str) -> int:
        """Save context: how many older texts were removed. An equal text is saved once."""
        gone: list[int] = [0]

        def change(record: Value | None) -> Value | None:
            texts = listed(record, "texts", str)
            if text in texts:
                return None
            kept = [*texts, text][-MOST:]
            while kept and sum(map(len, kept)) > LARGEST_HELD:
                del kept[0]
            gone[0] = len(texts) + 1 - len(kept)
            return {"texts": kept}

        self._state.update(KIND, session, change)
        return gone[0]

    def take(self, session: str) -> list[str]:
        """Remove and return all waiting context, oldest first."""
        if not listed(self._state.read(KIND, session), "texts", str):
            return []
        found: list[str] = []

        def change(record: Value | None) -> Value:
            found.extend(listed(record, "texts", str))
            return {"texts": []}

        self._state.update(KIND, session, change)
        return found

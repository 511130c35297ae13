"""Records that live for seconds and that many processes change at once: one file each, written in place under a lock.

A file that is replaced, as other records are, waits for the disk on some file systems. What is here is of no use to
anybody after a crash, so a torn record is none.
"""

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, NamedTuple

from billhook.core import strictjson
from billhook.core.errors import StrictJSONError
from billhook.store.files import StoreError, sha256
from billhook.store.locks import LockFile
from billhook.store.state import FileState, Value

LARGEST_SCRATCH: Final = 4 << 20  # bytes of a record
PATIENCE: Final = 0.25  # seconds for a lock that is held for less than a thousandth of that


class ScratchFolder:
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
        if len(data) > LARGEST_SCRATCH:
            raise StoreError(f"a record of more than {LARGEST_SCRATCH} bytes", place=str(self._path(key)))
        try:
            if os.pwrite(file, data, 0) < len(data):
                raise OSError(None, "it could not be written to its end")
            os.ftruncate(file, len(data))  # never to nothing: some file systems would wait for the disk then
        except OSError as error:
            raise StoreError(f"can't write it: {error.strerror or error}", place=str(self._path(key))) from error


def _read(file: int) -> Value | None:
    try:
        data = os.pread(file, LARGEST_SCRATCH + 1, 0)
        record = strictjson.loads(data, max_bytes=LARGEST_SCRATCH) if data else None
    except (OSError, StrictJSONError):
        return None
    return record if isinstance(record, dict) else None


# Calls that are being judged, or were judged just now:


LARGEST_CALL: Final = 256 << 10  # Bytes of what was said. Nobody keeps more: the other one then judges the call itself.
_MOST: Final = 32  # calls of one session that are remembered
_LONGEST: Final = 900.0  # seconds after which a call that nobody said anything about is nobody's


class CallRecord(NamedTuple):
    """A call as one process sees it."""

    session: str
    key: str  # what makes two calls the same one
    entry: str
    """Through which entry of which file it came, as far as that can be told. No entry gets the same call twice: what
    comes through it once more is another call, unless several entries have the same words."""
    window: float  # seconds after the judgement in which it may still arrive through another entry
    times: int = 1
    """How many entries of the same words there are, where a call has an id: then it may come through each of them."""


class Taken(NamedTuple):
    """A call that was looked up."""

    id: str
    mine: bool  # it is ours to judge
    said: Value | None = None  # what was said of it; None: nothing yet


class CallRecords:
    """The calls of all sessions, below one root. Keeps nothing open; every method raises StoreError."""

    def __init__(self, root: Path) -> None:
        self._state = ScratchFolder(root / "billhook" / "calls", root=root)

    def take(self, call: CallRecord) -> Taken:
        """Join a call that another entry brought, or begin it."""
        new = os.urandom(8).hex()
        found: list[Taken] = []

        def change(record: Value | None) -> Value:
            calls = _fresh(record)
            joined = next((one for one in reversed(calls) if _is_same(one, call)), None)
            if joined is None:
                begun = {"id": new, "key": call.key, "entries": [call.entry], "began": time.time(), "by": os.getpid()}
                calls = [*calls[-_MOST + 1 :], {**begun, "window": call.window}]
                found.append(Taken(new, True))
            else:
                joined["entries"].append(call.entry)
                found.append(Taken(joined["id"], False, joined.get("said")))
            return {"calls": calls}

        self._state.update(call.session, change)
        return found[0]

    def look(self, call: CallRecord, id: str) -> Taken | None:  # noqa: A002 (the word that the record has)
        """What became of a call that somebody else judges; None: nobody judges it any more."""
        record = self._state.read(call.session)
        one = next((one for one in _fresh(record) if one["id"] == id), None)
        if one is None or ("said" not in one and not _is_alive(one["by"])):
            return None
        return Taken(id, False, one.get("said"))

    def say(self, call: CallRecord, id: str, said: Value) -> None:  # noqa: A002
        """What we said of a call that is ours."""
        if len(strictjson.encode(said)) > LARGEST_CALL:
            return self.give_up(call, id)

        def change(record: Value | None) -> Value:
            calls = _fresh(record)
            return {"calls": [{**one, "said": said, "ended": time.time()} if one["id"] == id else one for one in calls]}

        self._state.update(call.session, change)
        return None

    def give_up(self, call: CallRecord, id: str) -> None:  # noqa: A002
        """Leave a call that is ours to whoever waits for it."""
        self._state.update(call.session, lambda record: {"calls": [one for one in _fresh(record) if one["id"] != id]})


def _fresh(record: Value | None) -> list[dict[str, Any]]:
    """The calls that somebody may still ask about; none of a record that is not ours."""
    calls = (record or {}).get("calls")
    now = time.time()
    return [one for one in calls if _is_ours(one) and _is_fresh(one, now)] if isinstance(calls, list) else []


def _is_ours(one: object) -> bool:
    kinds = {"id": str, "key": str, "entries": list, "began": float, "by": int, "window": float}
    return isinstance(one, dict) and all(isinstance(one.get(name), kind) for name, kind in kinds.items())


def _is_fresh(one: dict[str, Any], now: float) -> bool:
    if "said" in one:
        return bool(0 <= now - one.get("ended", 0.0) < one["window"])
    return bool(-1 < now - one["began"] < _LONGEST)


def _is_same(one: dict[str, Any], call: CallRecord) -> bool:
    if one["key"] != call.key or one["entries"].count(call.entry) >= call.times:
        return False
    return "said" in one or _is_alive(one["by"])


def _is_alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except OSError as error:
        return not isinstance(error, ProcessLookupError)
    return True


# Context that one event of a session could not carry to the model, and that waits for one which can.


KIND: Final = "held"
MOST: Final = 16  # texts of one session
LARGEST_HELD: Final = 64 << 10  # characters of all of them


class Held:
    """What waits, by session. Keeps nothing open; every method raises StoreError."""

    def __init__(self, state: FileState) -> None:
        self._state = state

    def keep(self, session: str, text: str) -> int:
        """Let a text wait; how many had to go for it. The same text waits once."""
        gone: list[int] = [0]

        def change(record: Value | None) -> Value | None:
            texts = _texts(record)
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
        """All that waits, oldest first; it waits no longer."""
        if not _texts(self._state.read(KIND, session)):
            return []
        found: list[str] = []

        def change(record: Value | None) -> Value:
            found.extend(_texts(record))
            return {"texts": []}

        self._state.update(KIND, session, change)
        return found


def _texts(record: Value | None) -> list[str]:
    texts = (record or {}).get("texts")
    return [text for text in texts if isinstance(text, str)] if isinstance(texts, list) else []

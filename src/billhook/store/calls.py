"""Calls that are being judged, or were judged just now: so that one which arrives twice is judged once.

Some agents read several files with hooks, and billhook may be installed in more than one of them: then two processes
get the same call, at the same time or one after the other. The first one to come judges it, the others wait for what
it says. One whose judge died, or never said anything that may be kept, is taken over by the next who looks.
"""

import os
import time
from pathlib import Path
from typing import Any, Final, NamedTuple

from billhook import strictjson
from billhook.store.scratch import Scratch
from billhook.store.state import Value

LARGEST: Final = 256 << 10  # Bytes of what was said. Nobody keeps more: the other one then judges the call itself.
_MOST: Final = 32  # calls of one session that are remembered
_LONGEST: Final = 900.0  # seconds after which a call that nobody said anything about is nobody's


class Call(NamedTuple):
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


class Calls:
    """The calls of all sessions, below one root. Keeps nothing open; every method raises StoreError."""

    def __init__(self, root: Path) -> None:
        self._state = Scratch(root / "billhook" / "calls", root=root)

    def take(self, call: Call) -> Taken:
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

    def look(self, call: Call, id: str) -> Taken | None:  # noqa: A002 (the word that the record has)
        """What became of a call that somebody else judges; None: nobody judges it any more."""
        record = self._state.read(call.session)
        one = next((one for one in _fresh(record) if one["id"] == id), None)
        if one is None or ("said" not in one and not _is_alive(one["by"])):
            return None
        return Taken(id, False, one.get("said"))

    def say(self, call: Call, id: str, said: Value) -> None:  # noqa: A002
        """What we said of a call that is ours."""
        if len(strictjson.encode(said)) > LARGEST:
            return self.give_up(call, id)

        def change(record: Value | None) -> Value:
            calls = _fresh(record)
            return {"calls": [{**one, "said": said, "ended": time.time()} if one["id"] == id else one for one in calls]}

        self._state.update(call.session, change)
        return None

    def give_up(self, call: Call, id: str) -> None:  # noqa: A002
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


def _is_same(one: dict[str, Any], call: Call) -> bool:
    if one["key"] != call.key or one["entries"].count(call.entry) >= call.times:
        return False
    return "said" in one or _is_alive(one["by"])


def _is_alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except OSError as error:
        return not isinstance(error, ProcessLookupError)
    return True

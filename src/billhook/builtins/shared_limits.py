"""The hooks' side of a limit that many machines share.

The process that connects this machine with its fleet has a socket, and asks the fleet's counter. A verdict waits for it
only until a short deadline. Calls that were counted here instead are reported with the next call that it answers.
"""

import json
import socket
import time
from pathlib import Path
from typing import Any, Final, NamedTuple

from billhook.store import files
from billhook.store.files import StoreError
from billhook.store.state import FileState, Value

DEADLINE: Final = 0.05  # seconds
SOCKET: Final = Path("billhook", "fleet", "limits.sock")  # below the state root
_KIND: Final = "shared"
_LONGEST: Final = 4096


class SharedCount(NamedTuple):
    """How much of a limit the whole fleet has used."""

    total: int  # with the calls that were added
    left: float  # seconds until the next window begins


def count(state: FileState, key: str, seconds: float, now: float) -> SharedCount | None:
    """Count one call in the fleet, and those that were counted here before; None if there is no answer in time. `now`
    is monotonic. Raises StoreError."""
    before = _take(state, key, now - seconds)
    found = _ask(state.root, key, seconds, 1 + len(before))
    if found is None and before:
        _add(state, key, before)
    return found


def count_here(state: FileState, key: str, seconds: float, now: float, at_most: float) -> bool:
    """Count one call on this machine alone; False if it has used the limit up. Raises StoreError."""
    admitted: list[bool] = []

    def change(record: Value | None) -> Value:
        times = [one for one in _times(record) if now - seconds < one <= now]
        admitted.append(len(times) < at_most)
        return {"times": [*times, now] if admitted[0] else times}

    state.update(_KIND, key, change)
    return admitted[0]


def _ask(root: Path, key: str, seconds: float, add: int) -> SharedCount | None:
    ends = time.monotonic() + DEADLINE
    request = json.dumps({"limit": key, "seconds": seconds, "add": add}).encode() + b"\n"
    try:
        with (
            files.opened((root / SOCKET).parent, root, private=True) as folder,
            socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as link,
        ):
            link.settimeout(DEADLINE)
            link.connect(f"/proc/self/fd/{folder}/{SOCKET.name}")  # a path of any length, in just this folder
            link.sendall(request)
            reply = b""
            while not reply.endswith(b"\n") and len(reply) < _LONGEST:
                link.settimeout(max(0.001, ends - time.monotonic()))
                if not (part := link.recv(_LONGEST)):
                    return None
                reply += part
        said: dict[str, Any] = json.loads(reply)
        return SharedCount(said["total"], said["left"]) if "total" in said else None
    except (OSError, ValueError, TypeError, StoreError):
        return None


def _take(state: FileState, key: str, oldest: float) -> list[float]:
    """The times of calls that the fleet has not counted. They are removed, so that no other process reports them."""
    if not _times(state.read(_KIND, key)):
        return []
    taken: list[float] = []

    def change(record: Value | None) -> Value:
        taken[:] = [one for one in _times(record) if one > oldest]
        return {"times": []}

    state.update(_KIND, key, change)
    return taken


def _add(state: FileState, key: str, times: list[float]) -> None:
    state.update(_KIND, key, lambda record: {"times": sorted([*_times(record), *times])})


def _times(record: Value | None) -> list[float]:
    times = (record or {}).get("times")
    return [one for one in times if isinstance(one, int | float)] if isinstance(times, list) else []

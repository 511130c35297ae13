"""How a daemon is, as it says itself."""

import os
import sys
from pathlib import Path

import msgspec


class Status(msgspec.Struct, frozen=True):
    """What `billhook daemon status` shows."""

    pid: int
    version: str
    socket: str
    since: str  # when it began, in UTC
    requests: int  # how many it has taken
    busy: int  # how many it is answering
    memory: int  # bytes of memory in use; 0 where nobody can tell
    idle_exit: float  # seconds without a request after which it ends; 0: never
    idle_left: float | None  # how many of them are left; None while it is busy, and where it never ends
    http: str  # where it listens for HTTP; nothing where it does not
    log: str
    leaving: str  # why it takes no more requests; nothing: it does


def memory_in_use() -> int:
    """Bytes of this process in memory; 0 where nobody can tell."""
    try:
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        import resource

        most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return most if sys.platform == "darwin" else 0

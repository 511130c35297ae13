"""The daemon's log: start and end, rejected callers, and internal errors. Data of callers is never in it: an error is
written as its type and the lines of billhook's code."""

import logging
import os
import time
import traceback
from logging.handlers import RotatingFileHandler
from pathlib import Path
from typing import Any, Final

from billhook.serve import places

_LARGEST: Final = 1_000_000
_KEPT: Final = 3  # files of that size: the log and two before it
_EVERY: Final = 1.0  # seconds between two lines of the same kind that a caller can cause

log = logging.getLogger("billhook.serve")


def begin(folder: Path) -> logging.Handler | None:
    """Write to the folder's log from now on; None if that is impossible, and the daemon runs without a log."""
    try:
        handler = _PrivateFile(folder / places.LOG, maxBytes=_LARGEST, backupCount=_KEPT - 1, encoding="utf-8")
    except OSError:
        return None
    handler.setFormatter(_Discreet("%(asctime)s [%(process)d] %(message)s"))
    ours = logging.getLogger("billhook")
    ours.addHandler(handler)
    ours.setLevel(logging.INFO)
    ours.propagate = False
    return handler


def unexpected(loop: object, context: dict[str, Any]) -> None:
    """An event loop's handler for uncaught exceptions."""
    log.error("%s", context.get("message") or "an exception", exc_info=context.get("exception"))


class Seldom:
    """Logs something that may happen very often: at most one line per second, with a count."""

    def __init__(self, what: str) -> None:
        self._what, self._next, self._unsaid = what, 0.0, 0

    def note(self, why: object = "") -> None:
        self._unsaid += 1
        now = time.monotonic()
        if now < self._next:
            return
        self._next = now + _EVERY
        times = f" ({self._unsaid:,} times)" if self._unsaid > 1 else ""
        self._unsaid = 0
        log.warning("%s%s%s", self._what, f": {why}" if why else "", times)


class _PrivateFile(RotatingFileHandler):
    """A file that only this user can read and that is not a link. Write errors are ignored."""

    def _open(self) -> Any:
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        return open(os.open(self.baseFilename, flags, 0o600), "a", encoding=self.encoding)

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 (its name in the standard library)
        pass


class _Discreet(logging.Formatter):
    converter = staticmethod(time.gmtime)
    default_time_format = "%Y-%m-%dT%H:%M:%SZ"
    default_msec_format = ""

    def format(self, record: logging.LogRecord) -> str:
        return super().format(record).encode("utf-8", "backslashreplace").decode()

    def formatException(self, ei: Any) -> str:  # noqa: N802
        kind, _, trace = ei
        frames = traceback.extract_tb(trace)
        places_ = [f"  {frame.filename}:{frame.lineno} in {frame.name}" for frame in frames]
        return "\n".join([getattr(kind, "__name__", "an error"), *places_])

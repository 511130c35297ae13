"""A bar on standard error for what takes more than a second. Nothing is shown where nobody watches."""

import os
import stat
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

Progress = Callable[[int, int], None]

_PATIENCE = 1.0
_EVERY = 0.1  # seconds: before the bar appears, and between two looks of it
_CELLS = 30


@contextmanager
def progress(what: str, *, prints: bool = False) -> Iterator[Progress | None]:
    """Something to call with bytes done and bytes in all; None when standard error is no terminal.

    The bar is gone when the block ends, however it ends. `prints`: results are printed meanwhile, so that there is no
    bar unless they go into a file.
    """
    watched = sys.stderr is not None and sys.stderr.isatty() and os.environ.get("TERM") != "dumb"
    if not watched or (prints and not _into_a_file()):
        yield None
        return
    bar = _Bar(what)
    try:
        yield bar
    finally:
        bar.wipe()


def _into_a_file() -> bool:
    try:
        return stat.S_ISREG(os.fstat(1).st_mode)
    except OSError:
        return False


class _Bar:
    def __init__(self, what: str) -> None:
        self._what = what
        self._next = time.monotonic() + _PATIENCE
        self._drawn = 0

    def __call__(self, done: int, total: int) -> None:
        now = time.monotonic()
        if now < self._next or total <= 0:
            return
        self._next = now + _EVERY
        share = min(1.0, done / total)
        full = round(share * _CELLS)
        size = f"{total / 1e9:.1f} GB" if total >= 1e9 else f"{total / 1e6:.0f} MB"
        line = f"{self._what} [{'#' * full}{'.' * (_CELLS - full)}] {share:4.0%} of {size}"
        sys.stderr.write("\r" + line.ljust(self._drawn))
        sys.stderr.flush()
        self._drawn = len(line)

    def wipe(self) -> None:
        if self._drawn:
            sys.stderr.write("\r" + " " * self._drawn + "\r")
            sys.stderr.flush()
            self._drawn = 0

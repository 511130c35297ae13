"""The caller: this process itself, or a client whose environment and folder came over a socket.

Everything that depends on the user's variables or working directory gets them here, so that one process can serve many
callers at once: a caller is set for one task, and for the tasks and threads that it starts.
"""

import os
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from contextvars import ContextVar, Token
else:
    from _contextvars import ContextVar  # the same; the module around it costs its import


class Caller(msgspec.Struct, frozen=True):
    """The environment and working directory of a client. The directory is empty if it no longer exists."""

    environ: Mapping[str, str]
    cwd: str
    process: Callable[[], int] = int  # its number; 0: unknown


_served: ContextVar[Caller | None] = ContextVar("billhook_caller", default=None)


class Serving:
    """Serves another caller, for the duration of a `with` block."""

    __slots__ = ("_caller", "_token")

    def __init__(self, caller: Caller) -> None:
        self._caller = caller

    def __enter__(self) -> None:
        self._token: Token[Caller | None] = _served.set(self._caller)

    def __exit__(self, *_: object) -> None:
        _served.reset(self._token)


def served() -> Caller | None:
    """The current caller; None: this process itself."""
    return _served.get()


def environ() -> Mapping[str, str]:
    """The caller's environment."""
    caller = _served.get()
    return os.environ if caller is None else caller.environ


def process() -> int:
    """The caller's process, or the one that started this one; 0 if it is unknown."""
    caller = _served.get()
    return os.getppid() if caller is None else caller.process()


def getcwd() -> str:
    """The caller's working directory. Raises OSError if it no longer exists."""
    caller = _served.get()
    if caller is None:
        return os.getcwd()
    if not caller.cwd:
        raise FileNotFoundError("the caller's working directory no longer exists")
    return caller.cwd


def expanduser(path: str) -> str:
    """The path with the caller's `~`."""
    caller = _served.get()
    if caller is None or not path.startswith("~"):
        return os.path.expanduser(path)
    home = caller.environ.get("HOME")
    if home and (path == "~" or path.startswith("~/")):
        return home.rstrip("/") + path[1:] or "/"
    return os.path.expanduser(path)


def abspath(path: str) -> str:
    """The path, relative to the caller's folder. Raises OSError if it depends on that folder, which no longer
    exists."""
    return os.path.abspath(path if _served.get() is None or os.path.isabs(path) else os.path.join(getcwd(), path))

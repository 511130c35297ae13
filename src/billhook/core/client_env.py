"""Whom we serve: this process itself, or a caller whose environment and folder came over a socket.

Everything that depends on the user's variables or working directory asks here, so that one process can serve many
callers at once: what is set holds for the task that set it, and for the tasks and threads that this starts.
"""

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from contextvars import ContextVar, Token
else:
    from _contextvars import ContextVar  # the same; the module around it costs its import


class Caller(NamedTuple):
    """Somebody else's environment and working directory. The directory is empty when it is gone."""

    environ: Mapping[str, str]
    cwd: str


_served: ContextVar[Caller | None] = ContextVar("billhook_caller", default=None)


class Serving:
    """A while in which somebody else is served."""

    __slots__ = ("_caller", "_token")

    def __init__(self, caller: Caller) -> None:
        self._caller = caller

    def __enter__(self) -> None:
        self._token: Token[Caller | None] = _served.set(self._caller)

    def __exit__(self, *_: object) -> None:
        _served.reset(self._token)


def served() -> Caller | None:
    """Whom we serve; None: ourselves."""
    return _served.get()


def environ() -> Mapping[str, str]:
    """The environment of whom we serve."""
    caller = _served.get()
    return os.environ if caller is None else caller.environ


def getcwd() -> str:
    """The working directory of whom we serve. Raises OSError when it is gone."""
    caller = _served.get()
    if caller is None:
        return os.getcwd()
    if not caller.cwd:
        raise FileNotFoundError("the caller's working directory is gone")
    return caller.cwd


def expanduser(path: str) -> str:
    """The path with `~` as the caller has it."""
    caller = _served.get()
    if caller is None or not path.startswith("~"):
        return os.path.expanduser(path)
    home = caller.environ.get("HOME")
    if home and (path == "~" or path.startswith("~/")):
        return home.rstrip("/") + path[1:] or "/"
    return os.path.expanduser(path)


def abspath(path: str) -> str:
    """The path from where the caller is. Raises OSError when that is gone and the path depends on it."""
    return os.path.abspath(path if _served.get() is None or os.path.isabs(path) else os.path.join(getcwd(), path))

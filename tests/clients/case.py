"""A case: a configuration, the model's tool calls, and the expected result."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import msgspec

from clients.agents import Agent, Place
from clients.running import CanaryRun
from clients.script import Script


class Case(msgspec.Struct, frozen=True, kw_only=True):
    """One row of the table. `calls` makes the model's tool calls; `promised` is its result by the capability table."""

    name: str
    title: str
    promised: Callable[[str], str]
    seen: Callable[[CanaryRun, Place], str]
    calls: Callable[[Agent, Path], Script]
    hooks: str = ""
    """The user's hooks.yaml; no file if it is empty."""
    environ: Mapping[str, str] = {}
    needs: str = "PreToolUse"
    """The event of the case: agents without it are left out."""
    times: tuple[int, int] | None = None
    """Replaces the installed times: billhook's deadline in milliseconds, and the agent's timeout in seconds."""
    missing: bool = False
    """Whether only the entry for `needs` is installed, and finds no billhook."""
    before: Sequence[Sequence[str]] = ()
    """Commands that run in the project before billhook is installed."""
    recorded: tuple[str, ...] = ()
    """Programs that are replaced on PATH by a script that only records its calls."""

"""What a case is: a configuration, what the model asks for, and what should come of it."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import msgspec

from clients.agents import Agent, Place
from clients.running import Ran
from clients.script import Script


class Case(msgspec.Struct, frozen=True, kw_only=True):
    """One row of the table. `calls` makes the model's tool calls; `promised` is what an agent's row says."""

    name: str
    title: str
    promised: Callable[[str], str]
    seen: Callable[[Ran, Place], str]
    calls: Callable[[Agent, Path], Script]
    hooks: str = ""
    """The user's hooks.yaml; there is no such file when it is empty."""
    environ: Mapping[str, str] = {}
    needs: str = "PreToolUse"
    """The event it is about: an agent that does not have it is left out."""
    times: tuple[int, int] | None = None
    """Instead of the installed times: our deadline in milliseconds, and the agent's own time-out in seconds."""
    before: Sequence[Sequence[str]] = ()
    """Commands that run in the project before billhook is installed."""
    recorded: tuple[str, ...] = ()
    """Programs that are replaced on PATH by a script that only records how it was called."""

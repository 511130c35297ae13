"""What an agent runs itself: inside it, billhook leaves those entries alone, so that no hook runs twice.

Claude Code runs the nested entries of its own settings files. Copilot, VS Code and Cursor read the same files. Of other
agents' own files billhook loads none.
"""

import os
from collections.abc import Mapping
from typing import Final

import msgspec

from billhook.config.declared import Declared, Layer
from billhook.config.shapes import FileRead

MARKS: Final = ("CLAUDECODE", "CLAUDE_CODE_ENTRYPOINT")
"""Variables of everything that Claude Code starts."""
_FILES: Final = (".claude/settings.json", ".claude/settings.local.json")
_TITLES: Final = {"claude": "Claude Code", "copilot": "Copilot", "cursor": "Cursor", "vscode": "VS Code"}
"""The agents that read these files."""
_LAYERS: Final[Mapping[str, frozenset[Layer]]] = {"copilot": frozenset({"explicit", "project", "local"})}
"""Whose files an agent reads, where that is not the user's and the project's alike."""


class Inside(msgspec.Struct, frozen=True):
    """The agent that hooks are loaded for."""

    host: str = ""
    """Its name; empty: none that has hooks of its own."""
    project: str = ""
    """The folder whose settings it reads; empty: nobody knows, and every folder on the way may be it."""
    sure: bool = True
    """False: somebody speaks like that agent, who may be a loop of its own that runs no hooks. Then only those files
    count as the agent's in which billhook is installed."""


def inside(host: "str | Inside", environ: Mapping[str, str]) -> Inside:
    """The agent of that name, in the folder that it says it works in."""
    if isinstance(host, Inside):
        return host
    if host not in _TITLES:
        return Inside()
    project = environ.get("CLAUDE_PROJECT_DIR", "")
    return Inside(host, os.path.realpath(project) if os.path.isdir(project) else "")


def runs_itself(agent: Inside, declared: Declared, read: FileRead, home: str) -> str:
    """Who runs an entry of a file if not billhook, in words; nothing when nobody else does."""
    if agent.host not in _TITLES or declared.shape != "nested" or declared.ours:
        return ""
    if not _reads(agent, declared, home):
        return ""
    if not agent.sure and not any(entry.ours for entry in read.entries):
        return ""
    return f"run by {_TITLES[agent.host]} itself"


def _reads(agent: Inside, declared: Declared, home: str) -> bool:
    """Whether the file is one that the agent reads."""
    folder = next((declared.file.removesuffix(f"/{name}") for name in _FILES if declared.file.endswith(f"/{name}")), "")
    if not folder:
        return False
    layers = _LAYERS.get(agent.host)
    if folder == home:
        return layers is None
    return agent.project in ("", folder) and declared.layer != "managed"

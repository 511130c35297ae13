"""A project in a temporary folder, with its own home and state root."""

import json
from pathlib import Path
from typing import Any

import pytest

from billhook import Verdict
from billhook.config import Config, Entry, load_config
from billhook.config.trust import approve_entry
from billhook.core.events import parse


class Project:
    """Files are named by their path in the project; `~/x` is in the home folder."""

    def __init__(self, base: Path, patch: pytest.MonkeyPatch) -> None:
        self.home, self.folder, self.root = base / "home", base / "project", base / "state"
        for folder in (self.home, self.folder / ".git"):
            folder.mkdir(parents=True)
        patch.setenv("HOME", str(self.home))
        for name in ("XDG_CONFIG_HOME", "BILLHOOK_HOME", "CLAUDE_PROJECT_DIR"):
            patch.delenv(name, raising=False)

    def path(self, name: str) -> Path:
        return self.home / name[2:] if name.startswith("~/") else self.folder / name

    def write(self, name: str, content: Any, mode: int | None = None) -> Path:
        """Write strings as they are, everything else as JSON."""
        path = self.path(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content if isinstance(content, str) else json.dumps(content, indent=2))
        if mode is not None:
            path.chmod(mode)
        return path

    def script(self, name: str, body: str) -> Path:
        return self.write(name, f"#!/bin/sh\n{body}\n", 0o755)

    def load(self, **options: Any) -> Config:
        options = {"cwd": self.folder, "home": self.root, "builtins": False, **options}
        return load_config(options.pop("cwd"), **options)

    def approve(self, **options: Any) -> list[str]:
        """Approve all pending hooks and rules."""
        pending = self.load(**options).pending
        for entry in pending:
            approve_entry(entry, self.root)
        return [entry.declared.name for entry in pending]

    def fire(self, tool: str = "Bash", command: str = "ls", *, event: str = "PreToolUse", **options: Any) -> Verdict:
        about = {"hook_event_name": event, "session_id": "s", "cwd": str(self.folder)}
        if "Tool" in event:
            about |= {"tool_name": tool, "tool_input": {"command": command}}  # type: ignore[dict-item]
        if event == "SessionStart":
            about |= {"source": "startup"}
        if event.startswith("PostToolUse"):
            about |= {"tool_response": "done"}
        return self.load(**options).engine().fire_sync(parse(about))


def states(config: Config) -> dict[str, str]:
    """Every configured hook with its state."""
    return {entry.declared.name: entry.state for entry in config.entries}


def entry(config: Config, name: str) -> Entry:
    return next(one for one in config.entries if one.declared.name == name)


def codes(config: Config) -> list[str]:
    return [finding.code for finding in config.problems]

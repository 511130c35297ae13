"""A project in a temporary home, and billhook's screens there."""

import json
from pathlib import Path
from typing import Any

from billhook.config import load_config
from billhook.config.trust import approve_entry
from cli.terminal import Ended, billhook, environment, on_terminal


class Folder:
    """Writes files by their path in the project; `~/x` is in the home folder."""

    def __init__(self, base: Path) -> None:
        self.home, self.project = base, base / "project"
        (self.project / ".git").mkdir(parents=True)

    def write(self, name: str, content: Any, mode: int | None = None) -> Path:
        """Strings are written unchanged, everything else as JSON."""
        path = self.home / name[2:] if name.startswith("~/") else self.project / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content if isinstance(content, str) else json.dumps(content, indent=2))
        if mode is not None:
            path.chmod(mode)
        return path

    def script(self, name: str, body: str = "exit 0") -> Path:
        return self.write(name, f"#!/bin/sh\n{body}\n", 0o755)

    def approve(self, *names: str) -> None:
        """Approve the project's waiting hooks: all of them, or the named ones."""
        config = load_config(self.project, layers=("project", "local"), home=self.home / ".claude", builtins=False)
        for entry in config.pending:
            if not names or entry.declared.name in names:
                approve_entry(entry, config.root)

    def environment(self, **changes: str | None) -> dict[str, str]:
        ours = dict.fromkeys(("XDG_CONFIG_HOME", "BILLHOOK_HOME", "CLAUDE_PROJECT_DIR"))
        return environment(HOME=str(self.home), **{**ours, **changes})

    def billhook(self, *arguments: str, cwd: Path | None = None, stdin: bytes = b"", **changes: str | None) -> Ended:
        return billhook(*arguments, env=self.environment(**changes), cwd=cwd or self.project, stdin=stdin)

    def screen(self, *arguments: str, **options: Any) -> str:
        """The screen, with a fixed name for the temporary folder."""
        return self.billhook(*arguments, **options).screen.replace(str(self.home), "/home/me")

    def on_terminal(self, *arguments: str, **changes: Any) -> str:
        """The same on a terminal, without colours unless `changes` ask for them."""
        env: dict[str, str | None] = {**self.environment(), "NO_COLOR": "1"}
        return on_terminal(*arguments, cwd=self.project, **{**env, **changes}).screen.replace(
            str(self.home), "/home/me"
        )

    def lines(self, *arguments: str) -> list[dict[str, Any]]:
        """One JSON object per line."""
        ended = self.billhook(*arguments)
        assert ended.code == 0, ended
        return [json.loads(line) for line in ended.out.splitlines()]

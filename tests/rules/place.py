"""A project with rules and their tests, and how its hooks are approved."""

import json
from pathlib import Path
from typing import Any

from billhook.config import load_config
from billhook.config.trust import approve_entry
from cli.place import Place
from cli.terminal import Ended

RULES = """
hooks:
  push-gate:
    events: PreToolUse
    if: Bash(git *push *)
    ask: Push to a remote?
  no-env:
    events: PreToolUse
    paths: {write: [".env"]}
    deny: Not the .env file.
"""


class RulesPlace(Place):
    """A place with a hooks.yaml in `.billhook`."""

    def rules(self, tests: str, rules: str = RULES) -> None:
        self.file(".billhook/hooks.yaml", f"{rules.strip()}\ntests:\n{tests.strip(chr(10))}\n")

    def approve(self) -> None:
        """Approve all hooks of the project, as the user would."""
        config = load_config(self.project, home=self.home / ".claude", layers=("project", "local"))
        for entry in config.pending:
            approve_entry(entry, config.root)

    def lines(self, *arguments: str, **changes: str | None) -> tuple[int, list[dict[str, Any]]]:
        """The exit code, and the lines of --json."""
        done: Ended = self.run("test", "--json", *arguments, told=changes)
        return done.code, [json.loads(line) for line in done.out.splitlines()]

    def statuses(self, *arguments: str, **changes: str | None) -> list[str]:
        return [one["status"] for one in self.lines(*arguments, **changes)[1] if one["type"] == "test"]


def tree(folder: Path) -> dict[str, tuple[int, int, bytes]]:
    """Every file below a folder: its mode, time and content."""
    found = (path for path in sorted(folder.rglob("*")) if path.is_file() or path.is_symlink())
    return {
        str(path.relative_to(folder)): (path.lstat().st_mode, path.lstat().st_mtime_ns, path.read_bytes())
        for path in found
    }

"""Hooks of Claude Code's plugins: shown, and never run."""

import json
from pathlib import Path
from typing import Any

import pytest

from cli.folder import Folder


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path)


def plugin(folder: Folder, name: str, hooks: Any, **place: str) -> dict[str, Any]:
    """Put a plugin into Claude Code's folder; returns its entry in the list of installed plugins."""
    root = f"~/.claude/plugins/cache/{name}"
    folder.write(f"{root}/hooks/hooks.json", {"description": "x", "hooks": hooks})
    return {"installPath": str(folder.home / ".claude" / "plugins" / "cache" / name), **place}


def handler(command: str) -> dict[str, Any]:
    return {"hooks": [{"type": "command", "command": command}]}


def test_they_are_listed(folder: Folder) -> None:
    """Those that are enabled here, with the agent that runs them; they don't count as hooks of billhook."""
    guard = plugin(folder, "guard", {"PreToolUse": [{"matcher": "Bash", **handler("${CLAUDE_PLUGIN_ROOT}/guard.sh")}]})
    off = plugin(folder, "off", {"Stop": [handler("off.sh")]})
    elsewhere = plugin(folder, "elsewhere", {"Stop": [handler("x.sh")]}, projectPath="/somewhere/else")
    installed = {"version": 2, "plugins": {"guard@m": [guard], "off@m": off, "elsewhere@m": [elsewhere]}}
    folder.write("~/.claude/plugins/installed_plugins.json", installed)
    folder.write("~/.claude/settings.json", {"enabledPlugins": {"guard@m": True, "off@m": False, "elsewhere@m": True}})
    screen = folder.screen("list")
    assert "Hooks of Claude Code plugins, run by Claude Code itself" in screen
    assert "guard@m" in screen and "match Bash" in screen
    assert "off@m" not in screen and "elsewhere@m" not in screen
    (row,) = [row for row in folder.lines("list", "--json") if row.get("plugin")]
    assert (row["name"], row["plugin"], row["state"], row["effect"]) == ("guard", "guard@m", "elsewhere", "nothing")
    assert "plugin" not in folder.screen("list", "--host", "codex") and "guard@m" not in folder.screen("explain", "ls")
    report = json.loads(folder.billhook("doctor", "claude", "--json").out)
    assert "installed" in report["agents"][0]


def test_a_damaged_list(folder: Folder) -> None:
    """Any content of the list is harmless."""
    for text in ("{", "[]", '{"plugins": 5}', '{"plugins": {"a@m": 5, "b@m": [{"installPath": 7}]}}'):
        folder.write("~/.claude/plugins/installed_plugins.json", text)
        assert "no hooks are configured" in folder.screen("list")

"""Faults that were found in sessions, turns and the log of a whole configuration."""

import json
from pathlib import Path
from typing import Any

from billhook import Verdict
from billhook.events import parse
from billhook.store.places import log_folder
from config.project import Project

OWN = "~/.config/billhook/hooks.yaml"


def fire(project: Project, event: str, **fields: Any) -> Verdict:
    """An event, judged by what is configured and the built-ins."""
    return project.load(builtins=True).engine().fire_sync(parse({"hook_event_name": event, **fields}))


def records(project: Project) -> list[dict[str, Any]]:
    log = log_folder(project.root, str(project.folder.resolve())) / "hooks.jsonl"
    return [json.loads(line) for line in log.read_text().splitlines()]


def newest(project: Project) -> dict[str, Any]:
    return records(project)[-1]


def files(root: Path, folder: str) -> list[str]:
    return sorted(path.name for path in (root / folder).glob("*"))


# -- agents that name no session


def test_agents_without_a_session_share_nothing_but_limits(project: Project) -> None:
    """No turns, no name; limits count in the project, wherever in it the agent is."""
    project.write(OWN, "builtins: {rate-limit: {options: {at_most: 1, per: session}}}\n")
    call = {"tool_name": "Bash", "tool_input": {"command": "ls"}}
    fire(project, "SessionStart", source="startup")
    assert fire(project, "PreToolUse", cwd=str(project.folder), **call).decision == "none"
    fire(project, "Stop")
    denied = fire(project, "PreToolUse", cwd=str(project.folder / "src"), **call)

    assert denied.decision == "deny"
    assert "names no session" in denied.reason
    assert {(one["session_id"], one["session_name"], one["turn_id"]) for one in records(project)} == {("", "", "")}
    assert files(project.root, "turns") == files(project.root, "billhook/sessions") == []
    assert len(files(project.root, "billhook/limits")) == 1

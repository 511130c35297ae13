"""Inside an agent its hook does not run the agent's own hooks; a custom loop runs all hooks."""

import json
from typing import Any

import pytest

from answering.agents import Agent

CLAUDE = {"hook_event_name": "PreToolUse", "session_id": "s", "tool_use_id": "t", "transcript_path": "/t.jsonl"}
BASH = {"tool_name": "Bash", "tool_input": {"command": "ls"}}
COPILOT = {"COPILOT_PROJECT_DIR": "/p", "COPILOT_CLI": "1"}
INSTALLED = {"type": "command", "command": "exec /opt/billhook-hook --as claude --deadline 590000"}


def guarded(agent: Agent, *more: dict[str, Any]) -> None:
    """The user's Claude Code has a guard that leaves a trace; we have a hook of our own beside it."""
    guard = {"type": "command", "command": f"echo asked >> {agent.trace}"}
    settings = {"hooks": {"PreToolUse": [{"hooks": [guard, *more]}]}}
    folder = agent.home / ".claude"
    folder.mkdir()
    (folder / "settings.json").write_text(json.dumps(settings))
    agent.hooks("hooks: {ours: {events: PreToolUse, run: 'true'}}")


CALLERS: dict[str, tuple[dict[str, str], list[dict[str, Any]], int]] = {
    "a custom loop": ({}, [], 1),
    "claude code": ({"CLAUDECODE": "1"}, [], 0),
    "claude code by its entry point": ({"CLAUDE_CODE_ENTRYPOINT": "cli"}, [], 0),
    "where billhook is installed": ({}, [INSTALLED], 0),
}


@pytest.mark.parametrize(("variables", "more", "asked"), CALLERS.values(), ids=CALLERS.keys())
def test_nested_entries(agent: Agent, variables: dict[str, str], more: list[dict[str, Any]], asked: int) -> None:
    """The guard runs where no agent runs it; our hooks run everywhere; the log has the reason for the skipped one."""
    guarded(agent, *more)
    agent.variables = variables
    agent.ask({**CLAUDE, **BASH, "cwd": str(agent.project)}, "--as", "claude")
    (record,) = agent.records()
    assert agent.asked == asked
    assert "ours" in [one["hook"] for one in record["outcomes"]]
    assert ("echo" in record["not_asked"]) is not bool(asked)
    assert record["not_asked"].get("echo", "run by the agent itself") == "run by the agent itself"


def test_copilot_does_not_read_the_users_file(agent: Agent) -> None:
    """Copilot reads the project's Claude settings only: what it does not run, we run."""
    guarded(agent)
    agent.variables = COPILOT
    agent.ask(agent.copilot_as_claude(), "--as", "claude")
    assert agent.asked == 1


@pytest.mark.parametrize("argv", [("--as", "claude"), ("--as", "copilot")], ids=["as claude", "as copilot"])
def test_copilot_runs_the_projects_file(agent: Agent, argv: tuple[str, ...]) -> None:
    """An entry of the project's Claude settings is Copilot's to run, through whichever file we were called."""
    guard = {"type": "command", "command": f"echo asked >> {agent.trace}"}
    (agent.project / ".claude").mkdir()
    settings = {"hooks": {"PreToolUse": [{"hooks": [guard]}]}}
    (agent.project / ".claude" / "settings.json").write_text(json.dumps(settings))
    agent.variables = COPILOT
    heard = agent.ask(agent.copilot_as_claude(), *argv)
    assert not any("not approved" in line for line in heard.lines), "hooks that we don't run need no approval"
    assert agent.records()[0]["not_asked"] == {"echo": "run by the agent itself"}

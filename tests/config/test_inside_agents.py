"""Inside an agent, hooks that the agent runs itself are not loaded: no hook runs twice."""

from typing import Any

import pytest

from billhook.config.sources import HostAgent
from config.project import Project, entry, states


def nested(command: str, event: str = "PreToolUse") -> dict[str, Any]:
    """A settings file as Claude Code has it."""
    return {"hooks": {event: [{"matcher": "Bash", "hooks": [{"type": "command", "command": command}]}]}}


def everywhere(project: Project) -> None:
    """A nested entry in each of Claude Code's files, and hooks of billhook beside them."""
    project.write(".claude/settings.json", nested("echo of-project"))
    project.write(".claude/settings.local.json", nested("echo of-local"))
    project.write("~/.claude/settings.json", nested("echo of-user"))
    project.write(".billhook/hooks.yaml", "hooks: {ours: {events: PreToolUse, run: 'true'}}")
    project.approve()


OWN = {
    "": {"runs": 4},
    "claude": {"runs": 1, "elsewhere": 3},
    "cursor": {"runs": 1, "elsewhere": 3},
    "vscode": {"runs": 1, "elsewhere": 3},
    "copilot": {"runs": 2, "elsewhere": 2},
    "codex": {"runs": 4},
    "gemini": {"runs": 4},
}


@pytest.mark.parametrize(("host", "wanted"), OWN.items(), ids=str)
def test_what_each_agent_runs_itself(project: Project, host: str, wanted: dict[str, int]) -> None:
    """Claude Code's files belong to the agents that read them; Copilot does not read the user's file."""
    everywhere(project)
    found = [one.state for one in project.load(host=host).entries]
    assert {state: found.count(state) for state in set(found)} == wanted


def test_the_agent_that_runs_it_is_named(project: Project) -> None:
    """Such an entry has no hook, and a reason. It needs no approval."""
    project.write(".claude/settings.json", nested("echo of-project"))
    config = project.load(host="claude")
    found = config.entries[0]
    assert (found.state, found.why, found.hook) == ("elsewhere", "run by Claude Code itself", None)
    assert not config.pending and config.host == "claude"


def test_other_shapes_are_ours(project: Project) -> None:
    """Entries that no agent understands are run by billhook, in every file."""
    project.write("~/.claude/settings.json", {"hooks": {"PreToolUse": ["echo text", {"command": "echo flat"}]}})
    assert set(states(project.load(host="claude")).values()) == {"runs"}


def test_a_switched_off_entry_stays_off(project: Project) -> None:
    """Neither the agent nor billhook runs it."""
    project.write("~/.claude/settings.json", {**nested("echo x"), "disableAllHooks": True})
    assert set(states(project.load(host="claude")).values()) == {"off"}


def test_only_the_folder_that_the_agent_works_in(project: Project) -> None:
    """An agent that was started in a folder below reads that folder's settings, not those of the project above."""
    project.write(".claude/settings.json", nested("echo above"))
    project.write("below/.claude/settings.json", nested("echo below"))
    project.approve(cwd=project.folder / "below")
    env = {"CLAUDE_PROJECT_DIR": str(project.folder / "below"), "HOME": str(project.home)}
    config = project.load(cwd=project.folder / "below", host="claude", env=env)
    assert {one.declared.does: one.state for one in config.entries} == {"echo above": "runs", "echo below": "elsewhere"}


@pytest.mark.parametrize("installed", [True, False])
def test_a_caller_that_only_uses_the_agents_format(project: Project, installed: bool) -> None:
    """If the caller is unknown, only files with billhook in them belong to the agent."""
    settings = nested("echo guard")
    if installed:
        ours = {"hooks": [{"type": "command", "command": "exec billhook-hook --as claude --deadline 590000"}]}
        settings["hooks"]["PreToolUse"].append(ours)
    project.write("~/.claude/settings.json", settings)
    project.write(".claude/settings.local.json", nested("echo of-local"))
    project.approve()
    config = project.load(host=HostAgent("claude", sure=False))
    found = {one.declared.does: one.state for one in config.entries}
    assert found == {"echo guard": "elsewhere" if installed else "runs", "echo of-local": "runs"}


def test_hooks_of_the_agent_do_not_affect_ours(project: Project) -> None:
    """`parallelExecution` of our file applies although a more trusted file has billhook and hooks of the agent."""
    settings = nested("exec /opt/billhook-hook --as claude")
    settings["hooks"]["Stop"] = nested("echo theirs", "Stop")["hooks"]["Stop"]
    project.write("~/.claude/settings.json", settings)
    project.write(".billhook/hooks.yaml", "parallelExecution: true\nhooks: {ours: {events: PreToolUse, run: 'true'}}")
    project.approve(host="claude")
    assert project.load(host="claude").parallel
    assert not project.load().parallel


def test_the_engine_does_not_run_it(project: Project) -> None:
    """billhook does not run a gate that the agent runs; outside of the agent it does."""
    trace = project.folder / "trace"
    project.write("~/.claude/settings.json", nested(f"echo asked >> {trace}"))
    project.fire(host="claude")
    assert not trace.exists()
    project.fire()
    assert trace.read_text() == "asked\n"
    assert entry(project.load(), "echo").state == "runs"


@pytest.mark.parametrize("over_http", [True, False])
def test_over_http_the_address_identifies_the_agent(project: Project, over_http: bool) -> None:
    """Claude Code sends no variables over HTTP: it is identified by billhook's address in one of its files."""
    address = {"hooks": {"Stop": [{"hooks": [{"type": "http", "url": "http://127.0.0.1:8731/hook/claude"}]}]}}
    project.write("~/.claude/settings.json", address)
    project.write(".claude/settings.json", nested("echo guard"))
    project.approve()
    config = project.load(host=HostAgent("claude", sure=False, over_http=over_http))
    assert [one.state for one in config.entries] == ["elsewhere" if over_http else "runs"]

"""Billhook in real Claude Code and in a program of the Claude Agent SDK, offline: every case of docs/hosts.md."""

import os
from pathlib import Path

import pytest

from clients.agents import AGENTS, Place, find
from clients.case import Case
from clients.cases import BY_NAME, CASES
from clients.proving import installing, prove
from clients.running import Run, run

pytestmark = pytest.mark.slow


def binary(host: str) -> Path:
    """The agent's program; the test is skipped without it."""
    found = find(AGENTS[host])
    if found is None:
        pytest.skip(f"{AGENTS[host].title} is not here: scripts/clients --install gets it")
    return found


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_claude_code(case: Case) -> None:
    """Claude Code behaves as in the capability table, with billhook in the user's settings."""
    seen = prove("claude", case, binary("claude"))
    assert seen.seen == seen.promised, (seen.ran.stdout, seen.ran.stderr)


_OF_THE_SDK = [case for case in CASES if case.name not in AGENTS["claude-sdk"].without]


@pytest.mark.parametrize("case", _OF_THE_SDK, ids=lambda case: case.name)
def test_claude_agent_sdk(case: Case) -> None:
    """The adapter for the Claude Agent SDK gives Claude Code the same answers, from inside the program."""
    seen = prove("claude-sdk", case, binary("claude-sdk"))
    assert seen.seen == seen.promised, (seen.ran.stdout, seen.ran.stderr)


@pytest.mark.parametrize("name", ["allow", "deny", "rewrite"])
def test_entries_of_a_project(name: str) -> None:
    """Committed entries of a project find billhook on PATH, with the same results."""
    seen = prove("claude", BY_NAME[name], binary("claude"), scope="--project")
    assert seen.seen == seen.promised, (seen.ran.stdout, seen.ran.stderr)


def test_a_project_without_billhook(tmp_path: Path) -> None:
    """On a machine without billhook the committed entry refuses the prompt, with the way to install it."""
    agent, place, case = AGENTS["claude"], Place(tmp_path), BY_NAME["allow"]
    script = case.calls(agent, place.project)
    before = list(installing(agent, place, "--project"))
    environ = {"PATH": os.defpath}
    ran = run(Run("claude", str(binary("claude")), str(tmp_path), script, before=before, environ=environ))
    assert ran.turns == 0
    assert "install" in ran.stdout and "billhook" in ran.stdout
    assert not (place.project / "original").exists()


def test_a_run_that_is_too_long_is_ended(tmp_path: Path) -> None:
    """The tests of agents rely on this: an agent that hangs is killed with all its processes."""
    script = BY_NAME["allow"].calls(AGENTS["claude"], tmp_path)
    ran = run(Run("claude", str(binary("claude")), str(tmp_path), script, seconds=0.5))
    assert ran.exit is None

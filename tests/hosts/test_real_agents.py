"""Real agents, offline, in a project whose entries find no billhook: each obeys the entry's refusal."""

import os
from pathlib import Path

import pytest

from cli.terminal import PROGRAM
from clients.agents import AGENTS, Place, find
from clients.cases import BY_NAME
from clients.running import CanaryRun, Run, run

pytestmark = pytest.mark.slow
NAMES = ("claude", "codex", "gemini", "qwen", "copilot", "opencode", "pi")
REMEDY = "uv tool install ."


def ran(name: str, folder: Path, *options: str) -> tuple[CanaryRun, bool]:
    """One run where no billhook is on PATH, and whether the tool was used."""
    agent, place = AGENTS[name], Place(folder)
    binary = find(agent)
    if binary is None:
        pytest.skip(f"{agent.title} is not here: scripts/clients --install gets it")
    beside = os.path.dirname(PROGRAM)
    path = os.pathsep.join(one for one in os.environ["PATH"].split(os.pathsep) if one != beside)
    before = [["git", "init", "-q", str(place.project)], [PROGRAM, "install", name, "--project", *options]]
    script = BY_NAME["allow"].calls(agent, place.project)
    seen = run(Run(name, str(binary), str(folder), script, before=before, environ={"PATH": path}))
    return seen, (place.project / "original").exists()


@pytest.mark.parametrize("name", NAMES)
def test_a_tool_call_is_refused(name: str, tmp_path: Path) -> None:
    """The tool does not run, and the model is told how to install billhook."""
    seen, used = ran(name, tmp_path, "--events", "PreToolUse")
    assert (used, seen.model_saw(REMEDY)) == (False, True), (seen.stdout, seen.stderr)


@pytest.mark.parametrize("name", NAMES)
def test_a_prompt_is_refused(name: str, tmp_path: Path) -> None:
    """The model is not called."""
    seen, used = ran(name, tmp_path, "--events", "UserPromptSubmit")
    assert (used, seen.turns) == (False, 0), (seen.stdout, seen.stderr)


@pytest.mark.parametrize("name", NAMES)
def test_if_missing_allow(name: str, tmp_path: Path) -> None:
    """Everything continues as without billhook."""
    seen, used = ran(name, tmp_path, "--if-missing", "allow")
    assert (used, seen.exit) == (True, 0), (seen.stdout, seen.stderr)

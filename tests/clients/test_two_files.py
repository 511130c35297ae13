"""Copilot also reads Claude Code's settings: a call that comes through both files is one call."""

from pathlib import Path

import pytest

from clients.agents import AGENTS, Place, find
from clients.cases import BY_NAME, WORDS
from clients.proving import BILLHOOK
from clients.running import Run, run

HOOKS = f"""\
hooks:
  counting-guard:
    events: PreToolUse
    run: echo once >> ~/asked; echo {WORDS} >&2; exit 2
"""


@pytest.mark.slow
def test_one_call_through_two_files(tmp_path: Path) -> None:
    """The hook runs once, and the call is denied with its reason by both answers."""
    agent, place = AGENTS["copilot"], Place(tmp_path)
    binary = find(agent)
    if binary is None:
        pytest.skip("Copilot CLI is not here: scripts/clients --install gets it")
    script = BY_NAME["deny"].calls(agent, place.project)
    ran = run(
        Run(
            agent.name,
            str(binary),
            str(tmp_path),
            script,
            files={"home/.config/billhook/hooks.yaml": HOOKS},
            before=[[BILLHOOK, "install", name, "--project"] for name in ("copilot", "claude")],
            after=[[BILLHOOK, "daemon", "stop", "--force"]],
        )
    )
    assert (place.home / "asked").read_text().splitlines() == ["once"]
    assert not (place.project / "original").exists()
    assert ran.model_saw(WORDS)

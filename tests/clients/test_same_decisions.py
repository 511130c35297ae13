"""One hooks.yaml (a guard, a rewriter, an annotator) decides alike in `billhook agent` and in each real agent.

The framework adapters are held against the same table in tests/adapters.
"""

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from billhook.agents.base import can
from clients.agents import AGENTS, Place, find
from clients.proving import BILLHOOK, installing
from clients.running import Run, plain_environment, run
from clients.same import FILES, HOOKS, TABLE, Expected
from clients.script import Script, Step

Told = Callable[[str], bool]


def _decisions(place: Place, told: Told) -> dict[str, str]:
    """For each row of the table: which of its files is there, and whether the model read what was to be told."""
    made = {name for name in FILES if (place.project / name).exists()}
    return {row.name: _decision(row, made, told) for row in TABLE}


def _decision(row: Expected, made: set[str], told: Told) -> str:
    asked, runs = row.command.split()[-1], row.runs.split()[-1:]
    run = "as asked" if asked in made else "rewritten" if runs and runs[0] in made else "not run"
    return f"{run}, told" if row.told and told(row.told) else run


def _expected(rewrites: bool) -> dict[str, str]:
    return {
        "allowed": "as asked",
        "denied": "not run, told",
        "rewritten": "rewritten" if rewrites else "not run",
        "annotated": "as asked, told",
    }


def test_billhook_agent(tmp_path: Path) -> None:
    """Billhook's own agent, with its scripted model."""
    place = Place(tmp_path)
    own = place.home / ".config" / "billhook" / "hooks.yaml"
    own.parent.mkdir(parents=True)
    place.project.mkdir()
    own.write_text(HOOKS)
    turns = [{"tool": "Bash", "input": {"command": row.command}} for row in TABLE]
    (tmp_path / "turns.json").write_text(json.dumps([*turns, {"text": "all done"}]))
    words = [BILLHOOK, "agent", "-p", "do it", "--model", f"scripted:{tmp_path}/turns.json", "--json"]
    words += ["--permission-mode", "bypassPermissions"]
    ended = subprocess.run(
        words, cwd=place.project, env=plain_environment(place), capture_output=True, text=True, check=False
    )
    assert ended.returncode == 0, ended.stderr
    assert _decisions(place, lambda words: words in ended.stdout) == _expected(rewrites=True)


@pytest.mark.slow
@pytest.mark.parametrize("host", list(AGENTS))
def test_real_agents(host: str, tmp_path: Path) -> None:
    """Each real agent that is here; one that can't be given another input has the call denied instead."""
    agent, place = AGENTS[host], Place(tmp_path)
    binary = find(agent)
    if binary is None:
        pytest.skip(f"{agent.title} is not here: scripts/clients --install gets it")
    steps = [Step(calls=[agent.shell(row.command)]) for row in TABLE]
    ran = run(
        Run(
            agent.name,
            str(binary),
            str(place.root),
            Script([*steps, Step("all done")]),
            files={"home/.config/billhook/hooks.yaml": HOOKS},
            before=list(installing(agent, place, agent.scope)),
            after=[[BILLHOOK, "daemon", "stop", "--force"]],
        )
    )
    seen = _decisions(place, ran.model_saw)
    assert seen == _expected(can(agent.speaks, "PreToolUse").rewrite_input), (ran.stdout, ran.stderr)

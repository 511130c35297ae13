"""One hooks.yaml (a guard, a rewriter, an annotator) decides the same in `billhook agent` and in each real agent.

tests/adapters compares the framework adapters with the same table.
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
    """For each row of the table: which of its files exists, and whether the model read the expected text."""
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
    """`billhook agent`, with a scripted model."""
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
    """Each real agent on this machine; if it does not support a rewritten input, the call is denied instead."""
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

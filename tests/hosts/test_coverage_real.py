"""`billhook doctor --coverage` on new transcripts of real agents."""

from pathlib import Path

import pytest

from billhook import agents as hosts
from cli.terminal import PROGRAM, Ended, billhook, environment
from clients.agents import AGENTS, Place, find
from clients.running import Run, plain_environment, run
from clients.script import Call, Script, Step

pytestmark = pytest.mark.slow


def worked(name: str, root: Path, *, hooked: bool) -> None:
    """A session with a shell command, a file, a subagent that runs a command, and an unknown tool."""
    agent, place = AGENTS[name], Place(root)
    binary = find(agent)
    if binary is None:
        pytest.skip(f"{agent.title} is not here: scripts/clients --install gets it")
    first = [agent.shell("npm test"), agent.write(str(place.project / "app.txt"), "x")]
    steps = [*(Step(calls=[call]) for call in (*first, agent.delegate, Call("NoSuchTool"))), Step("all done")]
    delegated = [Step(calls=[agent.shell("git status")]), Step("delegated work done")]
    install = [[PROGRAM, "install", name, "--program", str(Path(PROGRAM).with_name("billhook-hook"))]]
    before = [["git", "init", "-q", str(place.project)], *(install if hooked else [])]
    after = [[PROGRAM, "daemon", "stop"]]
    ran = run(Run(name, str(binary), str(root), Script(steps, delegated), before=before, after=after))
    assert ran.exit == 0, (ran.stdout, ran.stderr)


def coverage(name: str, root: Path, *options: str) -> Ended:
    place = Place(root)
    env = environment(**{**plain_environment(place), "CI": None})
    return billhook("doctor", name, "--coverage", *options, env=env, cwd=place.project)


@pytest.mark.parametrize("name", ["claude", "codex", "gemini", "pi"])
def test_without_and_with(name: str, tmp_path: Path) -> None:
    """Without hooks every call of a session is unseen; with hooks, only the stopped ones."""
    worked(name, tmp_path, hooked=False)
    found = coverage(name, tmp_path, "--json").verdict["agents"][0]
    assert found["judged"] == 0 and found["unseen"] >= 3 and found["not_run"] == 1, found
    unseen = found["unseen"]
    worked(name, tmp_path, hooked=True)
    found = coverage(name, tmp_path, "--json").verdict["agents"][0]
    assert found["judged"] >= 3 and found["not_run"] == 2, found
    reasons = {one["why"]: one["calls"] for one in found["reasons"]}
    assert reasons.pop(f"before {hosts.AGENTS[name].title} first called billhook here") == unseen
    # Codex exits at the end of its conversation, and stops the subagent wherever it is.
    assert set(reasons) <= ({"it was stopped before or while it ran", STOPPED} if name == "codex" else set())


STOPPED = "in a subagent that never called billhook"

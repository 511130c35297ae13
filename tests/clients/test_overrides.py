"""The real Claude Code, whose model runs the verbs that are for the user: each call is denied before it runs."""

from pathlib import Path

import pytest

from clients.agents import AGENTS, Place, find
from clients.case import Case
from clients.proving import prove
from clients.recording import recorded
from clients.running import CanaryRun
from clients.script import Script, Step

pytestmark = pytest.mark.slow

_VERBS = (
    "allow-once K7QF2M",
    "pause 10m",
    "promote no-push --yes",
    "trust --all --yes",
    "resume",
    "test --update",
)
_HOOKS = """
hooks:
  no-push:
    events: PreToolUse
    if: Bash(git push *)
    deny: no pushes
    shadow: true
"""


def _case(command: str) -> Case:
    """`billhook` on the agent's PATH is a recorder, so a call that gets past the guard is seen."""

    def seen(ran: CanaryRun, place: Place) -> str:
        told = ran.model_saw("is for the user: they can run it in their own terminal")
        return f"{'run' if command in recorded(place) else 'not run'}{', told' if told else ''}"

    return Case(
        name="override",
        title="",
        promised=lambda host: "not run, told",
        seen=seen,
        calls=lambda agent, project: Script([Step(calls=[agent.shell(command)]), Step("all done")]),
        hooks=_HOOKS,
        recorded=("billhook",),
    )


@pytest.fixture
def claude() -> Path:
    binary = find(AGENTS["claude"])
    if binary is None:
        pytest.skip("Claude Code is not here: scripts/clients --install gets it")
    return binary


@pytest.mark.parametrize("verb", _VERBS)
def test_verbs_for_the_user_are_refused(verb: str, claude: Path) -> None:
    found = prove("claude", _case(f"billhook {verb}"), claude)
    assert found.seen == "not run, told", (found.ran.stdout, found.ran.stderr)


def test_another_verb_runs(claude: Path) -> None:
    """The recorder is found: what the tests above don't see was not run."""
    found = prove("claude", _case("billhook list"), claude)
    assert found.seen == "run", (found.ran.stdout, found.ran.stderr)

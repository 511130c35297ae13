"""Which events are written, and who has a say in that."""

from pathlib import Path

import pytest

from billhook.agents import AGENTS
from billhook.cli.install.plan import Needs, chosen_events
from billhook.config import load_config
from billhook.config.trust import approve_entry
from hosts.installed import Home

WANTING = "hooks:\n  odd:\n    events: [TaskCompleted, BeforeModel, Stop]\n    run: x\n    timeout: 900\n"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Home:
    found = Home(tmp_path)
    monkeypatch.setenv("HOME", str(found.home))
    monkeypatch.setenv("BILLHOOK_HOME", str(found.root))
    return found


def test_what_hooks_want_besides(home: Home) -> None:
    """Events of one's own hooks, as far as the agent has them; and their time."""
    own = home.home / ".config" / "billhook" / "hooks.yaml"
    own.parent.mkdir(parents=True)
    own.write_text(WANTING)
    needs = Needs(home.target(scope="user"))
    assert needs.events == [*AGENTS["claude"].events, "TaskCompleted"]
    assert needs.seconds == {"Stop": 900, "TaskCompleted": 900}
    assert Needs(home.target("codex", "user")).events == list(AGENTS["codex"].events)
    assert Needs(home.target("claude", "project")).events == list(AGENTS["claude"].events), "it is not the project's"


def test_a_clone_has_no_say_in_ones_own_settings(home: Home) -> None:
    """What nobody approved neither adds an event there nor lets an agent wait for hours; once approved, it does."""
    file = home.project / "hooks.yaml"
    file.write_text(WANTING)
    needs = Needs(home.target(scope="user"))
    assert (needs.events, needs.seconds) == (list(AGENTS["claude"].events), {})
    assert "TaskCompleted" in Needs(home.target(scope="project")).events, "in its own file it does"
    config = load_config(home.project, builtins=False)
    approve_entry(config.pending[0], config.root)
    assert "TaskCompleted" in Needs(home.target(scope="user")).events


def test_names_in_any_spelling() -> None:
    """Ours, the agent's, with commas or blanks; each once."""
    words = ("PreToolUse,before_tool", "AfterAgent Stop")
    assert chosen_events(AGENTS["gemini"], words) == ["PreToolUse", "Stop"]

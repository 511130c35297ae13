"""Which events are installed, and what decides that."""

from pathlib import Path

import pytest

from billhook.agents import AGENTS
from billhook.cli.install.plan import RequiredEvents, chosen_events
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


def test_events_of_configured_hooks(home: Home) -> None:
    """Events and timeouts of the user's hooks, if the agent has these events."""
    own = home.home / ".config" / "billhook" / "hooks.yaml"
    own.parent.mkdir(parents=True)
    own.write_text(WANTING)
    needs = RequiredEvents(home.target(scope="user"))
    assert needs.events == [*AGENTS["claude"].events, "TaskCompleted"]
    assert needs.seconds == {"Stop": 900, "TaskCompleted": 900}
    assert RequiredEvents(home.target("codex", "user")).events == list(AGENTS["codex"].events)
    assert RequiredEvents(home.target("claude", "project")).events == list(AGENTS["claude"].events), (
        "it is not the project's"
    )


def test_a_clone_does_not_change_the_users_settings(home: Home) -> None:
    """Hooks without approval neither add an event there nor a long timeout; approved ones do."""
    file = home.project / "hooks.yaml"
    file.write_text(WANTING)
    needs = RequiredEvents(home.target(scope="user"))
    assert (needs.events, needs.seconds) == (list(AGENTS["claude"].events), {})
    assert "TaskCompleted" in RequiredEvents(home.target(scope="project")).events, "in its own file it does"
    config = load_config(home.project, builtins=False)
    approve_entry(config.pending[0], config.root)
    assert "TaskCompleted" in RequiredEvents(home.target(scope="user")).events


def test_names_in_any_spelling() -> None:
    """Billhook's names or the agent's, separated by commas or spaces; each once."""
    words = ("PreToolUse,before_tool", "AfterAgent Stop")
    assert chosen_events(AGENTS["gemini"], words) == ["PreToolUse", "Stop"]

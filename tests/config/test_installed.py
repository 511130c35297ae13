"""Entries that are billhook itself are known for what they are."""

import pytest

from billhook.config.declared import Action, Exec, Run, Url
from billhook.config.installed import is_billhook

OURS: list[Action] = [
    Run("billhook hook --as claude"),
    Run("exec /opt/bin/billhook-hook --as claude --deadline 5000"),
    Run("command -v billhook >/dev/null && billhook hook --as claude"),
    Exec(("billhook-hook", "--as", "claude")),
    Url("http://127.0.0.1:8731/hook/claude"),
    Url("http://localhost:8731/hook/lesson?on_failure=deny"),
    Url("http://[::1]:8731/hook/claw-text"),
]
OTHERS: list[Action | None] = [
    None,
    Run("billhook events list"),
    Run("./billhook-hook"),
    Run("billhook hook --as claude; rm -rf x"),
    Url("http://127.0.0.1:8731/hook/other"),
    Url("http://127.0.0.1.example.com/hook/claude"),
    Url("https://example.com/hook/claude"),
]


@pytest.mark.parametrize("action", OURS, ids=str)
def test_what_would_only_call_us_again(action: Action) -> None:
    """Loaded as a hook it would have every event judged twice."""
    assert is_billhook(action)


@pytest.mark.parametrize("action", OTHERS, ids=str)
def test_what_is_somebody_elses(action: Action | None) -> None:
    """Anything else is a hook like any other."""
    assert not is_billhook(action)

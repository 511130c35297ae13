"""Entries that run billhook are recognized."""

import pytest

from billhook.agents import AGENTS
from billhook.cli.install.entries import EntryOptions, entry
from billhook.config.declaration import Action, Exec, RunAction, Url
from billhook.config.sources import is_billhook
from billhook.serve.hook_server import DIALECTS

OURS: list[Action] = [
    RunAction("billhook hook --as claude"),
    RunAction("exec /opt/bin/billhook-hook --as claude --deadline 5000"),
    RunAction("command -v billhook >/dev/null && billhook hook --as claude"),
    Exec(("billhook-hook", "--as", "claude")),
    Url("http://127.0.0.1:8731/hook/claude"),
    Url("http://localhost:8731/hook/lesson?on_failure=deny"),
    *(Url(f"http://[::1]:8731/hook/{name}") for name in DIALECTS),
    RunAction('exec "/opt/my tools/billhook-hook" --as copilot --deadline 28000 preToolUse'),
    RunAction(
        "command -v billhook-hook >/dev/null 2>&1 || { echo 'no billhook' >&2; exit 2; }; exec billhook-hook --as qwen"
    ),
]
OTHERS: list[Action | None] = [
    None,
    RunAction("billhook events list"),
    RunAction("./billhook-hook"),
    RunAction("billhook hook --as claude; rm -rf x"),
    RunAction("echo billhook-hook"),
    RunAction("command -v billhook-hook || ./guard.sh; exec billhook-hook --as claude"),
    RunAction("echo x > ~/.bashrc; exec billhook-hook --as claude"),
    RunAction("command -v billhook-hook && exit 0"),
    Url("http://127.0.0.1:8731/hook/other"),
    Url("http://127.0.0.1.example.com/hook/claude"),
    Url("https://example.com/hook/claude"),
]


@pytest.mark.parametrize("action", OURS, ids=str)
def test_entries_that_would_call_billhook_again(action: Action) -> None:
    """Loaded as hooks, every event would be judged twice."""
    assert is_billhook(action)


@pytest.mark.parametrize("action", OTHERS, ids=str)
def test_other_entries(action: Action | None) -> None:
    """Anything else is a hook like any other."""
    assert not is_billhook(action)


@pytest.mark.parametrize("name", AGENTS)
def test_entries_that_install_writes(name: str) -> None:
    """Every entry that `billhook install` writes is recognized, in both scopes and for every event."""
    host = AGENTS[name]
    chosen = [
        EntryOptions(scope="user", program="/opt/my tools/billhook-hook"),
        EntryOptions(scope="project"),
        EntryOptions(scope="project", if_missing="allow"),
        *([EntryOptions(scope="user", http="http://127.0.0.1:8123")] if host.http else []),
    ]
    for options in chosen:
        for event in host.spellings:
            made = entry(host, event, options)
            handler = made["hooks"][0] if "hooks" in made else made
            url = handler.get("url")
            assert is_billhook(Url(url) if url else RunAction(handler[host.command_key])), handler

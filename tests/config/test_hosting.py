"""What an agent can't honour of a hook, in one sentence each."""

from pathlib import Path

import pytest

from billhook.agents import AGENTS
from billhook.agents.base import CAPABILITIES
from billhook.config import load_config
from billhook.config.lint.hooks import Host, limits

CASES: dict[str, tuple[str, str, list[str]]] = {
    "an ask": ("codex", "events: PreToolUse, ask: sure?", ["on Codex's PreToolUse its ask becomes deny"]),
    "an ask where the agent can ask": ("claude", "events: PreToolUse, ask: sure?", []),
    "a deny": ("gemini", "events: PreToolUse, deny: no", []),
    "a context that waits": (
        "gemini",
        "events: PreToolUse, inject: mind the gap",
        ["on Gemini CLI's BeforeTool its context is held until AfterTool"],
    ),
    "an event that it does not have": (
        "gemini",
        "events: [SubagentStop, TaskCreated], deny: no",
        ["Gemini CLI has no events SubagentStop and TaskCreated, so the hook never runs for them"],
    ),
    "evidence in its command": (
        "cursor",
        """events: PreToolUse, run: 'echo "{\\"hookSpecificOutput\\":{\\"permissionDecision\\":\\"ask\\"}}"'""",
        ["on Cursor's preToolUse its ask becomes deny"],
    ),
    "evidence in its module": (
        "codex",
        "events: PreToolUse, python: 'asks:f'",
        ["on Codex's PreToolUse its ask becomes deny"],
    ),
    "anything": (
        "codex",
        "events: PreToolUse, url: 'http://localhost:1/x'",
        ["if it returns ask or stop on Codex's PreToolUse, that becomes deny"],
    ),
    "a failure that asks": (
        "codex",
        "events: PreToolUse, url: 'http://localhost:1/x', on_failure: ask",
        ["on Codex's PreToolUse its ask becomes deny", "if it returns stop on Codex's PreToolUse, that becomes deny"],
    ),
    "a gate where nothing can be prevented": (
        "copilot",
        "events: PreCompact, exec: [./x], gate: true",
        ["on Copilot's preCompact its deny is lost: the agent can't block here"],
    ),
    "a timeout": (
        "codex",
        "events: SessionEnd, exec: [./x], timeout: 9",
        ["its timeout of 9 s is too long for Codex's SessionEnd: after 2 s the hook counts as failed"],
    ),
    "a timeout of a background hook": ("codex", "events: SessionEnd, exec: [./x], timeout: 9, background: true", []),
}


@pytest.mark.parametrize(("name", "hook", "expected"), CASES.values(), ids=CASES.keys())
def test_sentences(tmp_path: Path, name: str, hook: str, expected: list[str]) -> None:
    """Certain limits come first, then possible ones."""
    (tmp_path / "asks.py").write_text("from billhook import ask\ndef f(event):\n    return ask('sure?')\n")
    (tmp_path / "hooks.yaml").write_text(f"hooks: {{one: {{{hook}}}}}\n")
    (entry,) = load_config(tmp_path, layers=("project",), builtins=False, trust="all", home=tmp_path).entries
    agent = Host(name, AGENTS[name].title, lambda event, wanted: 2.0 if event == "SessionEnd" else 60.0)
    assert [limit.sentence for limit in limits(entry.declared, agent)] == expected


@pytest.mark.parametrize("name", CAPABILITIES)
@pytest.mark.parametrize("fields", ["deny: no", "ask: sure?", "inject: mind", "exec: [./x]"])
def test_hooks_for_every_event(tmp_path: Path, name: str, fields: str) -> None:
    """Every agent, event and answer has a sentence that names the consequence."""
    events = ", ".join(CAPABILITIES["claude"])
    (tmp_path / "hooks.yaml").write_text(f"hooks: {{one: {{events: [{events}], {fields}}}}}\n")
    (entry,) = load_config(tmp_path, layers=("project",), builtins=False, trust="all", home=tmp_path).entries
    agent = Host(name, AGENTS[name].title, lambda event, wanted: 60.0)
    for limit in limits(entry.declared, agent):
        assert limit.becomes and AGENTS[name].title in limit.sentence and limit.events and limit.wants
        assert limit.wants == ("event",) or set(limit.events) <= set(CAPABILITIES[name])

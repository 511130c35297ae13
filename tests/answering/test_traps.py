"""Traps in the protocols of agents: answers that mean something else there than in the reference."""

import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from answering.agents import Agent as Caller
from answering.agents import golden, reported
from billhook.agents import AGENTS, dialect
from billhook.agents.base import Agent, Scope
from billhook.cli.install.entries import EntryOptions, entry
from billhook.core.answers import NOTHING, Answer, Decision, Exit, ask, deny, inject, keep_going
from billhook.core.events import Event
from billhook.serve.hook_server import received
from strategies import answers

ANTIGRAVITY = ["PreToolUse-run_command", "PostToolUse-run_command", "PreInvocation", "Stop", "SessionStart"]
KEYS = {
    "PreToolUse": {"decision", "reason"},
    "PostToolUse": set[str](),
    "UserPromptSubmit": {"injectSteps"},
    "Stop": {"decision", "reason"},
    "SessionStart": set[str](),
}
"""The keys that each of its events knows; any other key ends the turn."""


def antigravity(name: str) -> Event:
    record = golden(f"antigravity/{name}")
    return received(dialect("antigravity"), json.dumps(record["stdin"]).encode(), {}, record["argument"])


def said(name: str, answer: Answer) -> dict[str, Any]:
    ended = dialect("antigravity").write_exit(antigravity(name), answer).exit
    assert (ended.code, ended.stderr) == (0, b"")
    found: dict[str, Any] = json.loads(ended.stdout)
    return found


def test_an_empty_answer_denies_in_antigravity() -> None:
    """No opinion is `ask`, which obeys what the user always allows; a hook's own ask is one that always asks."""
    assert said("PreToolUse-run_command", NOTHING) == {"decision": "ask"}
    assert said("PreToolUse-run_command", ask("sure?")) == {"decision": "force_ask", "reason": "sure?"}
    assert said("PreToolUse-run_command", deny("no")) == {"decision": "deny", "reason": "no"}
    assert said("PreToolUse-run_command", inject("later")) == {"decision": "ask"}
    assert said("PostToolUse-run_command", deny("too late")) == {}
    assert said("PreInvocation", inject("x")) == {"injectSteps": [{"ephemeralMessage": "x"}]}
    assert said("Stop", keep_going("more")) == {"decision": "continue", "reason": "more"}


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(name=st.sampled_from(ANTIGRAVITY), answer=answers)
def test_antigravity_gets_no_key_that_it_does_not_know(name: str, answer: Answer) -> None:
    """Whatever a hook answers."""
    event = antigravity(name)
    found = said(name, answer)
    assert set(found) <= KEYS[event.hook_event_name]
    if event.hook_event_name == "PreToolUse":
        firm = {"deny"} if answer.decision is Decision.DENY else {"ask", "force_ask", "allow", "deny"}
        assert found["decision"] in firm


def test_a_hook_of_antigravity_has_no_opinion_with_ask() -> None:
    """Its `ask` is the only neutral answer that it has."""
    event, codec = antigravity("PreToolUse-run_command"), dialect("antigravity")
    assert codec.read_exit(event, Exit(code=0, stdout=b'{"decision": "ask"}')).answer == NOTHING
    assert codec.read_exit(event, Exit(code=0, stdout=b'{"decision": "force_ask"}')).answer.decision is Decision.ASK


def test_a_failure_that_allows_is_an_answer_in_antigravity(agent: Caller) -> None:
    """billhook's own failure continues with `ask`, not with an empty answer."""
    record = golden("antigravity/PreToolUse-run_command")
    agent.hooks("hooks: [")
    words = ("--as", "antigravity", "--on-failure", "allow", record["argument"])
    heard = agent.ask({**record["stdin"], "workspacePaths": [str(agent.project)]}, *words)
    assert (heard.code, json.loads(heard.stdout)) == (0, {"decision": "ask"})


@pytest.mark.parametrize("host", AGENTS.values(), ids=lambda host: host.name)
def test_entries_have_no_matcher(host: Agent) -> None:
    """VS Code ignores matchers, and others read them in their own way: billhook's own matchers decide."""
    for event in host.spellings:
        assert '"matcher"' not in json.dumps(entry(host, event, EntryOptions(scope="project")))


def test_every_kind_of_call_of_windsurf_is_installed() -> None:
    """It has no event for all calls: an entry for one kind alone would leave the others unchecked."""
    windsurf = AGENTS["windsurf"]
    installed = {windsurf.spellings[event] for event in windsurf.events}
    kinds = ("run_command", "write_code", "read_code", "mcp_tool_use")
    assert {f"{when}_{kind}" for when in ("pre", "post") for kind in kinds} <= installed


CALLS = {
    "goose": "goose/PreToolUse-developer__shell",
    "kiro": "kiro/PreToolUse-execute_bash",
    "windsurf": "windsurf/pre_run_command",
}


@pytest.mark.parametrize("name", CALLS)
def test_agents_that_only_take_an_exit_code(name: str) -> None:
    """No opinion prints nothing, and a deny is exit code 2 with the reason on stderr, and nothing on stdout."""
    record = golden(CALLS[name])
    event = received(dialect(name), json.dumps(record["stdin"]).encode(), {}, record["argument"])
    nothing, denied = (dialect(name).write_exit(event, answer).exit for answer in (NOTHING, deny("no")))
    assert (nothing.code, nothing.stdout, nothing.stderr) == (0, b"", b"")
    assert (denied.code, denied.stdout, denied.stderr) == (2, b"", b"no")


SCOPES: tuple[Scope, ...] = ("user", "project")


@pytest.mark.parametrize("host", AGENTS.values(), ids=lambda host: host.name)
@pytest.mark.parametrize("scope", SCOPES)
def test_no_agent_may_remove_billhook_from_a_settings_file(
    agent: Caller, host: Agent, scope: Scope, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The guard protects the file with billhook's entries of every agent, whichever agent writes it."""
    monkeypatch.setenv("HOME", str(agent.home))
    for name in ("CLAUDE_CONFIG_DIR", *(one.home_variable for one in AGENTS.values() if one.home_variable)):
        monkeypatch.delenv(name, raising=False)
    file = host.file(scope, str(agent.project))
    call = {"tool_name": "Write", "tool_input": {"file_path": file, "content": "{}"}, "tool_use_id": "t"}
    common = {"hook_event_name": "PreToolUse", "session_id": "s", "cwd": str(agent.project)}
    inside = reported(agent.ask({**common, **call}, "--as", "claude"))["hookSpecificOutput"]
    assert inside["permissionDecision"] in ("ask", "deny"), file
    assert "billhook" in inside["permissionDecisionReason"]

"""Context that an event can't carry waits for one that can; losses are in the log."""

import json
from pathlib import Path
from typing import Any

import pytest

from answering.agents import Agent, reported
from billhook.store.state import LARGEST_HELD, MOST, FileState, HeldContext

TELLS = "hooks: {tells: {events: PreToolUse, inject: mind the gap}}"


def gemini(agent: Agent, name: str, **changes: Any) -> dict[str, Any]:
    """An event of Gemini's: before a tool it can't be told anything but no."""
    reported = {"session_id": "s", "transcript_path": "/t", "cwd": str(agent.project), "hook_event_name": name}
    tool = {"tool_name": "run_shell_command", "tool_input": {"command": "ls"}} if "Tool" in name else {}
    response = {"tool_response": {"llmContent": "out", "returnDisplay": "out"}} if name == "AfterTool" else {}
    prompt = {"prompt": "hello"} if name == "BeforeAgent" else {}
    return {**reported, "timestamp": "2026-01-01T00:00:00.000Z", **tool, **response, **prompt, **changes}


def context(agent: Agent, name: str, **changes: Any) -> str:
    """What the model is told at an event."""
    output = reported(agent.ask(gemini(agent, name, **changes), "--as", "gemini"))
    return str(output.get("hookSpecificOutput", {}).get("additionalContext", ""))


def test_it_is_brought_to_the_next_event_that_can_carry_it(agent: Agent) -> None:
    """Held before the tool, told after it, and told once."""
    agent.hooks(TELLS)
    assert context(agent, "BeforeTool") == ""
    assert context(agent, "AfterTool") == "mind the gap"
    assert context(agent, "AfterTool") == ""


def test_an_event_that_can_carry_none_leaves_it_waiting(agent: Agent) -> None:
    """A notification tells the model nothing, in Gemini."""
    agent.hooks(TELLS)
    context(agent, "BeforeTool")
    assert context(agent, "Notification", notification_type="x", message="m") == ""
    assert context(agent, "BeforeAgent") == "mind the gap"


def test_it_comes_before_the_context_of_the_event_itself(agent: Agent) -> None:
    """Oldest first; the same text that waits already does not wait twice."""
    agent.hooks("hooks: {tells: {events: [PreToolUse, PostToolUse], run: 'echo asked >> TRACE; cat reply'}}")
    reply = agent.project / "reply"
    for number, name in enumerate(("PreToolUse", "PreToolUse", "PreToolUse", "PostToolUse")):
        text = ("first", "first", "second", "now")[number]
        output = {"hookSpecificOutput": {"hookEventName": name, "additionalContext": text}}
        reply.write_text(json.dumps(output))
        found = context(agent, "BeforeTool" if name == "PreToolUse" else "AfterTool")
    assert found.split() == ["first", "second", "now"]


def test_it_stays_in_its_session(agent: Agent) -> None:
    """Another session does not get it; without a session it can't wait, and that is reported."""
    agent.hooks(TELLS)
    context(agent, "BeforeTool")
    assert context(agent, "AfterTool", session_id="another") == ""
    heard = agent.ask(gemini(agent, "BeforeTool", session_id=""), "--as", "gemini")
    assert any("this event has no session" in line for line in heard.lines)


def test_a_secret_does_not_wait(agent: Agent) -> None:
    """Context that contains a secret is not saved; the loss is reported."""
    secret = "ghp_" + "a1B2" * 9
    agent.hooks(TELLS.replace("mind the gap", secret))
    heard = agent.ask(gemini(agent, "BeforeTool"), "--as", "gemini")
    assert any("that contains a secret" in line for line in heard.lines)
    assert context(agent, "AfterTool") == ""


def test_claude_code_holds_nothing(agent: Agent) -> None:
    """It can be told at once: nothing is written, and nothing looked for."""
    agent.hooks(TELLS)
    tool = {"tool_name": "Bash", "tool_input": {"command": "ls"}}
    event = {"hook_event_name": "PreToolUse", "session_id": "s", "cwd": str(agent.project), **tool}
    heard = agent.ask(event, "--as", "claude")
    assert reported(heard)["hookSpecificOutput"]["additionalContext"] == "mind the gap"
    assert not (agent.root / "billhook" / "held").exists()


def test_what_waits_is_bounded(tmp_path: Path) -> None:
    """In number and in size: the oldest go, and their number is told."""
    held = HeldContext(FileState(tmp_path))
    assert [held.keep("s", str(number)) for number in range(MOST + 2)] == [0] * MOST + [1, 1]
    assert held.take("s") == [str(number) for number in range(2, MOST + 2)]
    assert held.take("s") == []
    assert held.keep("s", "a" * (LARGEST_HELD - 1)) == 0
    assert held.keep("s", "bb") == 1
    assert held.take("s") == ["bb"]


def test_nowhere_to_write(agent: Agent) -> None:
    """If it can't be saved, it is lost, and that is reported; the event still gets its answer."""
    agent.hooks(TELLS)
    (agent.root / "billhook").mkdir(parents=True)
    (agent.root / "billhook" / "held").write_text("in the way")
    heard = agent.ask(gemini(agent, "BeforeTool"), "--as", "gemini")
    assert heard.code == 0
    assert any("can't be kept for a later event" in line for line in heard.lines)


# -- in the log

LOST = {
    "ask on codex": ("codex", "ask: are you sure", "ask became a deny"),
    "context on gemini": ("gemini", "inject: mind the gap", "context is held for a later event"),
    "ask on gemini": ("gemini", "ask: are you sure", "ask became a deny"),
}


@pytest.mark.parametrize(("host", "hook", "lost"), LOST.values(), ids=LOST.keys())
def test_the_log_contains_what_was_lost(agent: Agent, host: str, hook: str, lost: str) -> None:
    """In the record, and in the outcome of its hook; not in that of another."""
    agent.hooks(f"hooks: {{it: {{events: PreToolUse, {hook}}}, other: {{events: PreToolUse, run: 'true'}}}}")
    payload = gemini(agent, "BeforeTool") if host == "gemini" else gemini(agent, "PreToolUse", tool_name="Bash")
    heard = agent.ask(payload, "--as", host)
    (record,) = agent.records()
    wanted = f"the `{host}` dialect can't express everything: {lost}"
    assert wanted in record["lost"]
    outcomes = {one["hook"]: one.get("lost", []) for one in record["outcomes"]}
    assert wanted in outcomes["it"] and not outcomes["other"]
    assert host != "codex" or wanted in heard.lines


def test_nothing_is_lost_if_everything_can_be_expressed(agent: Agent) -> None:
    """Then a record has no losses."""
    agent.hooks("hooks: {no: {events: PreToolUse, deny: not here}}")
    agent.ask(gemini(agent, "BeforeTool"), "--as", "gemini")
    assert "lost" not in agent.records()[0]

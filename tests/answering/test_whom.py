"""`--as claude` finds out who really calls, and speaks to that agent."""

import json
from typing import Any

import pytest

from answering.agents import GOLDEN, Agent, golden, reported
from billhook.agents import who_calls
from billhook.config import load_config
from billhook.config.trust import approve_entry
from billhook.serve.hook_server import detect_event

SENT_BY = {
    "claude": "claude",
    "copilot-claude": "copilot",
    "codex": "codex",
    "gemini": "gemini",
    "qwen": "qwen",
    "devin": "devin",
    "vscode": "vscode",
}
REAL = [f"{path.parent.name}/{path.stem}" for agent in SENT_BY for path in sorted((GOLDEN / agent).glob("*.json"))]
TOLD_BY_NOTHING = ("codex/SessionEnd",)
"""What Codex sends there is what Claude Code might send, too."""

CLAUDE: dict[str, Any] = {"hook_event_name": "PreToolUse", "session_id": "s", "tool_name": "Bash", "tool_input": {}}
COPILOT = {"COPILOT_PROJECT_DIR": "/p", "COPILOT_CLI": "1"}
TIMED = {**CLAUDE, "timestamp": "2026-01-01T00:00:00.000Z"}
WHO: dict[str, tuple[dict[str, Any], dict[str, str], str]] = {
    "claude, plain": (CLAUDE, {}, "claude"),
    "claude in a terminal of cursor": (CLAUDE, {"CURSOR_TRACE_ID": "x", "TERM_PROGRAM": "vscode"}, "claude"),
    "claude started by copilot": ({**CLAUDE, "transcript_path": "/t", "permission_mode": "default"}, COPILOT, "claude"),
    "copilot": (TIMED, COPILOT, "copilot"),
    "copilot started by claude": (TIMED, {**COPILOT, "CLAUDECODE": "1"}, "copilot"),
    "gemini without a mark": ({**TIMED, "hook_event_name": "BeforeTool"}, {}, "gemini"),
    "gemini without a time": ({**CLAUDE, "hook_event_name": "PreCompress"}, COPILOT, "gemini"),
    "gemini, respelt": ({**TIMED, "original_event_name": "AfterTool"}, {}, "gemini"),
    "a time and no mark": (TIMED, {}, "claude"),
    "copilot without a name": ({"sessionId": "s", "timestamp": 1, "toolName": "bash"}, {}, "copilot"),
    "vs code": ({"hookEventName": "PreToolUse", "sessionId": "s", "timestamp": "2026"}, {}, "vscode"),
    "cursor": ({**CLAUDE, "cursor_version": "2.0"}, {}, "cursor"),
    "cursor by its ids": ({"conversation_id": "c", "generation_id": "g"}, {}, "cursor"),
    "a conversation of another agent": ({**CLAUDE, "conversation_id": "c"}, {}, "claude"),
    "nothing at all": ({}, COPILOT, "claude"),
}


@pytest.mark.parametrize(("payload", "env", "wanted"), WHO.values(), ids=WHO.keys())
def test_who_calls(payload: dict[str, Any], env: dict[str, str], wanted: str) -> None:
    """The payload decides, the environment helps; an unknown caller counts as Claude Code."""
    assert who_calls("claude", payload, env) == wanted


def test_another_name_in_as_is_trusted() -> None:
    """Only an entry for Claude Code may be run by another agent."""
    assert who_calls("codex", {"cursor_version": "2.0"}, COPILOT) == "codex"


@pytest.mark.parametrize("name", REAL)
def test_real_payloads(name: str) -> None:
    """What real agents send to a hook of Claude Code's is read as theirs, under the event that they mean."""
    agent, real = SENT_BY[name.partition("/")[0]], golden(name)
    found = detect_event("claude", json.dumps(real["stdin"]).encode(), real["env"], "")
    assert found[1] == ("claude" if name in TOLD_BY_NOTHING else agent)
    assert found[0].session_id == real["stdin"].get("session_id", real["stdin"].get("sessionId"))


DENY = "hooks: {no: {events: PreToolUse, match: Bash, deny: not here}}"


def test_copilot_gets_its_own_words(agent: Agent) -> None:
    """A deny at the top, where Copilot looks for it, and inside, where its Claude form does; the log names Copilot."""
    agent.hooks(DENY)
    agent.variables = COPILOT
    heard = agent.ask(agent.copilot_as_claude(), "--as", "claude")
    assert heard.code == 0
    assert reported(heard)["permissionDecision"] == "deny"
    assert reported(heard)["permissionDecisionReason"].startswith("not here")
    assert reported(heard)["hookSpecificOutput"]["permissionDecision"] == "deny"
    assert agent.records()[0]["host"] == "copilot"


def test_cursor_gets_its_own_words(agent: Agent) -> None:
    """Cursor's `permission`, for a tool by Cursor's name."""
    agent.hooks(DENY)
    ids = {"conversation_id": "c", "generation_id": "g", "cursor_version": "2.0", "workspace_roots": []}
    tool = {"tool_name": "Shell", "tool_input": {"command": "ls"}, "tool_use_id": "t", "cwd": str(agent.project)}
    heard = agent.ask({**ids, "hook_event_name": "preToolUse", **tool}, "--as", "claude")
    assert reported(heard)["permission"] == "deny"
    assert agent.records()[0]["host"] == "cursor"


def test_gemini_gets_its_own_words_without_its_variables(agent: Agent) -> None:
    """It ignores Claude Code's deny; its names of events tell who it is."""
    agent.hooks(DENY)
    sent = {**golden("gemini/BeforeTool-run_shell_command")["stdin"], "cwd": str(agent.project)}
    heard = agent.ask(sent, "--as", "claude")
    assert reported(heard)["decision"] == "deny" and reported(heard)["reason"].startswith("not here")
    assert agent.records()[0]["host"] == "gemini"


VSCODE = {"timestamp": "2026-01-01T00:00:00.000Z", "sessionId": "s", "hookEventName": "PreToolUse"}


def test_vs_code_is_understood(agent: Agent) -> None:
    """It obeys Claude Code's words, and is asked about by Claude Code's names of its tools."""
    agent.hooks(DENY)
    call = {"tool_name": "run_in_terminal", "tool_input": {"command": "ls"}, "tool_use_id": "t"}
    heard = agent.ask({**VSCODE, "cwd": str(agent.project), **call}, "--as", "claude")
    assert reported(heard)["hookSpecificOutput"]["permissionDecision"] == "deny"
    assert agent.records()[0]["host"] == "vscode"


def test_vs_code_reads_copilots_files_too(agent: Agent) -> None:
    """A call that comes through both is judged once, and both answers are in the format that VS Code obeys."""
    agent.hooks("hooks: {no: {events: PreToolUse, match: Bash, run: 'echo asked >> TRACE; echo no >&2; exit 2'}}")
    call = {"tool_name": "run_in_terminal", "tool_input": {"command": "ls"}, "tool_use_id": "t"}
    sent = {**VSCODE, "cwd": str(agent.project), **call}
    for words in (("--as", "claude"), ("--as", "copilot", "preToolUse")):
        inside = reported(agent.ask(sent, *words))["hookSpecificOutput"]
        assert (inside["permissionDecision"], inside["permissionDecisionReason"]) == ("deny", "no")
    assert (agent.asked, [record["host"] for record in agent.records()]) == (1, ["vscode"])


def test_devin_reads_claude_codes_files_too(agent: Agent) -> None:
    """The same for Devin, whose payload has no `cwd`, and whose tools have names of their own."""
    agent.hooks("hooks: {no: {events: PreToolUse, match: Bash, run: 'echo asked >> TRACE; echo no >&2; exit 2'}}")
    agent.variables = {"DEVIN_PROJECT_DIR": str(agent.project)}
    sent = golden("devin/PreToolUse-exec")["stdin"]
    for words in (("--as", "devin", "--from", "project"), ("--as", "claude", "--from", "user")):
        assert reported(agent.ask(sent, *words)) == {"decision": "block", "reason": "no"}
    assert (agent.asked, [record["host"] for record in agent.records()]) == (1, ["devin"])


def test_vs_code_gets_a_rewritten_input_in_its_own_names(agent: Agent) -> None:
    """What a hook changed under our name of a field is changed under the one that was sent."""
    answer = {"updatedInput": {"file_path": "/safe", "filePath": "/secret", "content": "x"}}
    output = json.dumps({"hookSpecificOutput": {"hookEventName": "PreToolUse", **answer}})
    agent.hooks(
        f"hooks: {{move: {{events: PreToolUse, match: Write, run: {json.dumps(f'echo {chr(39)}{output}{chr(39)}')}}}}}"
    )
    call = {"tool_name": "create_file", "tool_input": {"filePath": "/secret", "content": "x"}, "tool_use_id": "t"}
    heard = agent.ask({**VSCODE, "cwd": str(agent.project), **call}, "--as", "claude")
    assert reported(heard)["hookSpecificOutput"]["updatedInput"] == {"filePath": "/safe", "content": "x"}


def test_a_broken_event_is_refused_in_words_that_all_obey(agent: Agent) -> None:
    """If the caller is unknown, a guarded event is refused in Claude Code's format."""
    agent.hooks(DENY)
    agent.variables = COPILOT
    heard = agent.ask({"hook_event_name": "PreToolUse", "timestamp": "x", "session_id": 5}, "--as", "claude")
    assert b"deny" in heard.stdout or heard.code == 2


@pytest.mark.parametrize("cwd", ["project", "project/sub", "elsewhere", ""])
def test_cursor_stays_in_its_workspace(agent: Agent, cwd: str) -> None:
    """A command in a folder outside the workspace is judged by the gates of the workspace."""
    base = agent.project.parent
    for name in ("project/sub", "elsewhere"):
        (base / name).mkdir(exist_ok=True)
    (agent.project / ".billhook").mkdir()
    (agent.project / ".billhook" / "hooks.yaml").write_text("hooks:\n  no: {events: PreToolUse, deny: never}\n")
    config = load_config(agent.project, home=agent.root, builtins=False)
    approve_entry(config.pending[0], agent.root)
    agent.variables = {"CLAUDE_PROJECT_DIR": ""}
    payload = {
        "hook_event_name": "beforeShellExecution",
        "conversation_id": "c",
        "generation_id": "g",
        "command": "ls",
        "cwd": str(base / cwd) if cwd else "",
        "workspace_roots": [str(agent.project)],
    }
    assert reported(agent.ask(payload, "--as=cursor"))["permission"] == "deny"

"""What is written for an agent has the effect that was wanted, by the grid of what the agents really did."""

import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from billhook.agents import AGENTS, dialect
from billhook.agents.base import can
from billhook.agents.child import ExitResult
from billhook.core.answers import Answer, Decision, allow, ask, deny, inject, notify, rewrite, stop
from billhook.core.events import Event
from dialects.clients_as_measured import CLIENTS, Effect
from strategies import BASE, answers, sample

SENT: dict[str, dict[str, Any]] = {
    "claude": {**BASE, "hook_event_name": "PreToolUse", "tool_name": "Bash", "tool_input": {"command": "ls"}},
    "codex": {**BASE, "hook_event_name": "PreToolUse", "tool_name": "Bash", "tool_input": {"command": "ls"}},
    "gemini": {
        **BASE,
        "hook_event_name": "BeforeTool",
        "tool_name": "run_shell_command",
        "tool_input": {"command": "ls"},
    },
    "qwen": {
        **BASE,
        "hook_event_name": "PreToolUse",
        "tool_name": "run_shell_command",
        "tool_input": {"command": "ls"},
    },
    # with the event's name from the command line
    "copilot": {
        "sessionId": "s1",
        "hook_event_name": "PreToolUse",
        "toolName": "bash",
        "toolArgs": {"command": "ls"},
        "cwd": "/",
    },
    "copilot, Pascal": {
        **BASE,
        "hook_event_name": "PreToolUse",
        "tool_name": "Bash",
        "tool_input": {"command": "ls"},
    },
    "cursor": {
        "conversation_id": "s1",
        "hook_event_name": "preToolUse",
        "tool_name": "Shell",
        "tool_input": {"command": "ls"},
        "cwd": "/",
    },
}
"""A shell call, as each agent sends it."""


def event_of(client: str) -> Event:
    return dialect(CLIENTS[client][0]).read_call(json.dumps(SENT[client]).encode(), {})


def told(client: str, answer: Answer) -> tuple[Effect, ExitResult]:
    name, obeys = CLIENTS[client]
    written = dialect(name).write_exit(event_of(client), answer)
    return obeys(written.exit), written


@pytest.mark.parametrize("client", CLIENTS)
def test_deny_reaches_the_model_with_its_reason(client: str) -> None:
    """The tool does not run, the model reads why, and nothing is lost."""
    effect, written = told(client, deny("not here"))

    assert effect == Effect(runs=False, reason="not here")
    assert (written.lost, written.held) == ((), "")


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("reason", ["", " ", "\n"])
def test_deny_without_a_reason_denies(client: str, reason: str) -> None:
    """Codex makes a call that is denied without a reason: so there always is one."""
    effect, _ = told(client, deny(reason))

    assert not effect.runs
    assert effect.reason.strip() or client == "claude"


@pytest.mark.parametrize("client", CLIENTS)
def test_ask_never_runs_the_tool(client: str) -> None:
    """Without a user to ask it denies, with a reason about the approval, and reports it."""
    effect, written = told(client, ask("is this the right folder?"))

    assert not effect.runs
    assert "is this the right folder?" in effect.reason
    if client != "claude":
        assert "approval" in effect.reason
        assert written.lost == ("ask became a deny",)


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize(
    "answer", [stop("enough"), Answer(decision=Decision.DENY, reason="enough", stop=True)], ids=str
)
def test_stop_never_runs_the_tool(client: str, answer: Answer) -> None:
    """`continue: false` lets the pending call run in three agents: a stop is a deny, and a stop where that is known."""
    effect, written = told(client, answer)

    assert not effect.runs
    assert effect.reason == "enough"
    assert effect.ends == (client in ("claude", "gemini"))
    assert effect.ends or any("stop" in lost for lost in written.lost)


@pytest.mark.parametrize("client", CLIENTS)
def test_rewrite_runs_the_rewritten_command_or_nothing(client: str) -> None:
    """An agent that can't run another command runs none, and the model is told which was wanted."""
    effect, written = told(client, rewrite(input={"command": "ls -l"}))

    if client == "qwen":
        assert not effect.runs
        assert '{"command":"ls -l"}' in effect.reason
        assert written.lost == ("a rewritten input became a deny",)
    else:
        assert effect == Effect(rewritten={"command": "ls -l"})
        assert written.lost == ()


@pytest.mark.parametrize("client", CLIENTS)
def test_context_reaches_the_model_or_waits(client: str) -> None:
    """Gemini and Qwen ignore context before a tool: it is held for an event that can carry it."""
    effect, written = told(client, inject("mind the gap"))

    assert effect.runs
    assert (effect.context, written.held) == (
        ("", "mind the gap") if client in ("gemini", "qwen") else ("mind the gap", "")
    )
    assert written.lost == ()


@pytest.mark.parametrize("client", CLIENTS)
def test_allow_lets_it_run(client: str) -> None:
    """Nothing of an allow holds a call up, and where it does not count that is reported."""
    effect, written = told(client, allow())

    assert effect == Effect()
    assert bool(written.lost) == (not can(CLIENTS[client][0], "PreToolUse").allow)


@pytest.mark.parametrize("client", CLIENTS)
def test_everything_at_once_still_denies(client: str) -> None:
    """No other part of an answer spoils its deny: Codex would drop all of it for one field too many."""
    whole = Answer(
        decision=Decision.DENY,
        reason="not here",
        context="more",
        message="for you",
        updated_input={"command": "ls -l"},
        stop=True,
        stop_reason="over",
        quiet=True,
        extras={"somethingElse": 1},
    )
    effect, _ = told(client, whole)

    assert not effect.runs
    assert effect.reason in ("not here", "over")  # Gemini tells why it stopped


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(client=st.sampled_from(list(CLIENTS)), answer=answers)
def test_whatever_holds_a_call_up_holds_it_up_there(client: str, answer: Answer) -> None:
    """Any answer that denies, asks, defers or stops keeps the tool from running in every agent."""
    effect, _ = told(client, answer)

    if answer.objects or answer.decision in (Decision.ASK, Decision.DEFER):
        assert not effect.runs or (client == "claude" and answer.decision is Decision.DEFER)
    deferred = answer.decision is Decision.DEFER
    if effect.runs and answer.updated_input is not None and not answer.background and not deferred:
        assert effect.rewritten is not None


UNIVERSAL = ["claude", "codex", "gemini", "qwen", "copilot", "copilot, Pascal", "cursor"]


@pytest.mark.parametrize("client", UNIVERSAL)
@pytest.mark.parametrize("answer", [deny("not here"), ask("not here"), stop("not here")], ids=["deny", "ask", "stop"])
def test_the_universal_answer_denies_everywhere(client: str, answer: Answer) -> None:
    """Exit code 2, the reason on stderr, all words at once on stdout: no agent makes the call."""
    written = dialect("universal").write_exit(sample("PreToolUse"), answer)
    effect = CLIENTS[client][1](written.exit)

    assert not effect.runs
    assert "not here" in effect.reason
    assert written.exit.code == 2


def test_the_universal_answer_in_full() -> None:
    """The stdout beside the exit code."""
    written = dialect("universal").write_exit(sample("PreToolUse"), deny("no"))

    assert json.loads(written.exit.stdout) == {
        "decision": "block",
        "reason": "no",
        "permission": "deny",
        "agent_message": "no",
        "user_message": "no",
        "permissionDecision": "deny",
        "permissionDecisionReason": "no",
        "hookSpecificOutput": {
            "hookEventName": "PreToolUse",
            "permissionDecision": "deny",
            "permissionDecisionReason": "no",
        },
    }
    assert written.exit.stderr == b"no"


OUTPUT: list[Any] = [
    # dialect, event, answer, what is printed
    pytest.param("codex", "PostToolUse", rewrite(output="x"), {"decision": "block", "reason": "x"}, id="codex: output"),
    pytest.param(
        "gemini", "PostToolUse", rewrite(output="x"), {"decision": "deny", "reason": "x"}, id="gemini: output"
    ),
    pytest.param("qwen", "PostToolUse", rewrite(output="x"), {"continue": False, "stopReason": "x"}, id="qwen: output"),
    pytest.param(
        "copilot",
        "PostToolUse",
        rewrite(output="x"),
        {"modifiedResult": {"resultType": "success", "textResultForLlm": "x"}},
        id="copilot: output",
    ),
    pytest.param(
        "codex",
        "PermissionRequest",
        deny("no"),
        {
            "hookSpecificOutput": {
                "hookEventName": "PermissionRequest",
                "decision": {"behavior": "deny", "message": "no"},
            }
        },
        id="codex: a permission",
    ),
    *(
        pytest.param(name, "UserPromptSubmit", deny("no"), {"decision": word, "reason": "no"}, id=f"{name}: a prompt")
        for name, word in (("claude", "block"), ("codex", "block"), ("qwen", "block"), ("copilot", "block"))
    ),
    pytest.param("gemini", "UserPromptSubmit", deny("no"), {"decision": "deny", "reason": "no"}, id="gemini: a prompt"),
    pytest.param(
        "cursor", "UserPromptSubmit", deny("no"), {"continue": False, "user_message": "no"}, id="cursor: a prompt"
    ),
    *(
        pytest.param(
            name,
            "Stop",
            Answer(keep_going=True, reason="go"),
            {"decision": "block", "reason": "go"},
            id=f"{name}: Stop",
        )
        for name in ("claude", "codex", "gemini", "qwen", "copilot", "universal")
    ),
    pytest.param(
        "cursor", "Stop", Answer(keep_going=True, reason="go"), {"followup_message": "go"}, id="cursor: goes on"
    ),
    pytest.param(
        "gemini",
        "PostToolUse",
        inject("c"),
        {"hookSpecificOutput": {"hookEventName": "AfterTool", "additionalContext": "c"}},
        id="gemini: context after the tool",
    ),
    pytest.param("copilot", "SessionStart", notify("hello"), None, id="copilot: no word for the person"),
    pytest.param("qwen", "Stop", stop("over"), None, id="qwen: `continue: false` on Stop would make it go on"),
    pytest.param("codex", "PreToolUse", notify("hi"), {"systemMessage": "hi"}, id="codex: a message"),
]


@pytest.mark.parametrize(("name", "event", "answer", "output"), OUTPUT)
def test_what_is_printed(name: str, event: str, answer: Answer, output: dict[str, Any] | None) -> None:
    """After the tool, on prompts, on Stop: the words that the agent obeys, at exit code 0."""
    written = dialect(name).write_exit(sample(event), answer)
    printed = json.loads(written.exit.stdout) if written.exit.stdout else None
    if printed and name == "copilot":
        printed.pop("hookSpecificOutput", None)

    assert printed == output
    assert written.exit.code == 0
    assert bool(written.lost) == (output is None)


def test_gemini_would_keep_what_a_rewrite_leaves_out() -> None:
    """A rewritten input is put over the old one: one that leaves something out denies."""
    event = dialect("gemini").read_call(
        json.dumps({**SENT["gemini"], "tool_input": {"command": "ls", "dir_path": "/x"}}).encode(), {}
    )
    written = dialect("gemini").write_exit(event, rewrite(input={"command": "ls"}))

    assert json.loads(written.exit.stdout)["decision"] == "deny"
    assert "`dir_path`" in json.loads(written.exit.stdout)["reason"]


@pytest.mark.parametrize(
    ("name", "given_", "field"),
    [
        pytest.param("gemini", {"command": "ls", "description": "lists"}, "tool_input", id="gemini"),
        pytest.param("cursor", {"command": "ls", "cwd": "/", "timeout": 5}, "updated_input", id="cursor"),
    ],
)
def test_a_rewriter_may_leave_out_what_changes_nothing(name: str, given_: dict[str, Any], field: str) -> None:
    """Nearly every shell call carries more than its command; a rewrite of the command alone is taken over."""
    event = sample("PreToolUse", tool_input=given_)
    written = dialect(name).write_exit(event, rewrite(input={"command": "ls -l"}))
    reported = json.loads(written.exit.stdout)

    assert reported.get("hookSpecificOutput", reported)[field]["command"] == "ls -l"
    assert written.lost and all("is unchanged" in lost for lost in written.lost)


@pytest.mark.parametrize(
    ("wanted", "reported"),
    [
        pytest.param({"file_path": "/b", "content": "x"}, "updated_input", id="the path is taken over"),
        pytest.param({"file_path": "/a", "content": "y"}, "permission", id="other content is not"),
        pytest.param({"content": "x"}, "permission", id="nor is a field left out"),
    ],
)
def test_cursor_takes_over_only_some_fields(wanted: dict[str, Any], reported: str) -> None:
    """What Cursor would pass over in silence denies."""
    event = sample("PreToolUse", tool_name="Write", tool_input={"file_path": "/a", "content": "x"})

    assert reported in json.loads(dialect("cursor").write_exit(event, rewrite(input=wanted)).exit.stdout)


def test_cursor_can_ask_before_a_shell_command() -> None:
    """The narrower event obeys `ask`, the one for all tools does not."""
    sent = {"hook_event_name": "beforeShellExecution", "conversation_id": "s", "command": "ls", "cwd": "/"}
    event = dialect("cursor").read_call(json.dumps(sent).encode(), {})
    written = dialect("cursor").write_exit(event, ask("sure?"))

    assert json.loads(written.exit.stdout)["permission"] == "ask"
    assert written.lost == ()


def test_context_that_is_too_long_for_cursor_is_cut() -> None:
    """Cursor drops more than 10,000 characters whole."""
    written = dialect("cursor").write_exit(sample("PreToolUse"), inject("x" * 20_000))

    assert len(json.loads(written.exit.stdout)["additional_context"]) == 10_000
    assert "was cut" in written.lost[0]


def test_context_beside_a_new_output_is_part_of_it() -> None:
    """Gemini appends nothing to an output that is replaced."""
    written = dialect("gemini").write_exit(sample("PostToolUse"), Answer(updated_output="x", context="mind"))

    assert json.loads(written.exit.stdout) == {"decision": "deny", "reason": "x\n\nmind"}
    assert written.lost == ("context became part of the rewritten output",)


@pytest.mark.parametrize("name", [*AGENTS, "universal"])
def test_an_event_that_an_agent_does_not_have_is_denied_in_the_exit_code(name: str) -> None:
    """A deny of something new is never silence."""
    written = dialect(name).write_exit(sample("SomethingNew"), deny("no"))

    assert (
        written.exit.code == 2 or json.loads(written.exit.stdout)["hookSpecificOutput"]["permissionDecision"] == "deny"
    )

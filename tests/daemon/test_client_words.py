"""The failure answer of `billhook-hook` in the words of every agent: refused as that one understands it, and why.

The client is run for every dialect and event; the launcher, where nothing is compiled, has to give the same answers.
"""

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from billhook.agents import AGENTS, EVENT_NAMES, NARROWER, canonical_event, dialect
from billhook.agents.base import CAPABILITIES
from billhook.core.answers import Exit, Status
from billhook.core.events import EVENTS, Block, parse
from daemon import calling
from daemon.calling import Client

WHY = "billhook: cannot start billhook hook"
PASSES = "billhook: the event continues without being checked\n"
SEEDS = ("claw", "claw-text", "lesson")
DIALECTS = (*CAPABILITIES, *SEEDS, "universal", "unheard-of")
OF_OTHERS = ("BeforeModel", "AfterModel", "errorOccurred", "workspaceOpen", "SomethingNew", "stop subagentstop", "")
NAMES = sorted({*EVENTS, *OF_OTHERS, *(own for rows in EVENT_NAMES.values() for own in rows.values())}) + [
    own for rows in NARROWER.values() for own in rows
]
ANY_FIELDS = {
    "tool_name": "Bash",
    "tool_input": {"command": "ls"},
    **dict.fromkeys(("prompt", "command_name", "to_model", "mcp_server_name", "source"), "x"),
}
"""What some event or other can't do without."""
Ending = tuple[int, str, str]


@pytest.fixture(scope="session")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return calling.built("c", tmp_path_factory.mktemp("compiled"))


@pytest.fixture
def client(compiled: Path) -> Iterator[Client]:
    with calling.installed("c", compiled) as one:
        yield without_billhook(one)


@pytest.fixture
def launcher() -> Iterator[Client]:
    with calling.installed("launcher", calling.LAUNCHER) as one:
        yield without_billhook(one)


def without_billhook(client: Client) -> Client:
    (client.bin / "billhook").unlink()
    client.env |= {"PATH": "/nowhere", "BILLHOOK_NO_DAEMON": "1"}
    return client


def failing(client: Client, *words: str, event: str = "", stdin: bytes = b"") -> Ending:
    """A call that can't be answered: its exit, with the reason as `WHY`."""
    reported = stdin or json.dumps({"hook_event_name": event}).encode()
    how: dict[str, Any] = {"input": reported, "env": client.env, "capture_output": True, "timeout": 30}
    run = subprocess.run([client.program, *words], check=False, **how)
    return run.returncode, run.stdout.decode().replace(WHY, "WHY"), run.stderr.decode().replace(WHY, "WHY")


ONE_OF_EACH = ("PreToolUse", "UserPromptSubmit", "PermissionRequest", "PreCompact", "SubagentStart", "Stop", "New", "")


@pytest.mark.slow
@pytest.mark.parametrize("name", DIALECTS)
def test_launcher_answers_as_the_client_does(name: str, client: Client, launcher: Client) -> None:
    """In every dialect, for every kind of event in every agent's spelling, in the payload and as an argument."""
    for event in NAMES if name == "cursor" else ONE_OF_EACH:
        for argument in ([], [event]) if name == "cursor" and event else ([],):
            stdin = json.dumps({"toolName": "bash"} if argument else {"hook_event_name": event}).encode()
            words = ["--as", name, *argument]
            usual = failing(client, *words, stdin=stdin)
            assert stripped(failing(launcher, *words, stdin=stdin)) == stripped(usual), event


def stripped(ending: Ending) -> Ending:
    """Without the line break at the end of stdout, which no agent looks at."""
    return ending[0], ending[1].strip(), ending[2]


TOOL = '"permissionDecision":"deny","permissionDecisionReason":"WHY"'
FOR_TOOL = f'"hookSpecificOutput":{{"hookEventName":"PreToolUse",{TOOL}}}'
PERMISSION = '"hookSpecificOutput":{"hookEventName":"PermissionRequest","decision":{"behavior":"deny","message":"WHY"}}'
BLOCK = '{"decision":"block","reason":"WHY"}\n'
CURSOR = '"permission":"deny","user_message":"WHY","agent_message":"WHY"'
GO = (0, "", "WHY\n" + PASSES)
WORDS: dict[tuple[str, str], Ending] = {
    ("claude", "PreToolUse"): (2, f"{{{FOR_TOOL}}}\n", "WHY\n"),
    ("claude", "UserPromptSubmit"): (0, BLOCK, "WHY\n"),
    ("claude", "PermissionRequest"): (0, f"{{{PERMISSION}}}\n", "WHY\n"),
    ("claude", "PreCompact"): (2, "", "WHY\n"),
    ("claude", "SubagentStop"): GO,
    ("claude", "SomethingNew"): (2, "", "WHY\n"),
    ("claw", "PreToolUse"): (2, "WHY", "WHY\n"),
    ("claw-text", "PostToolUse"): GO,
    ("lesson", "PreToolUse"): (1, "", "WHY\n"),
    ("lesson", "UserPromptSubmit"): (1, BLOCK, "WHY\n"),
    ("codex", "PreToolUse"): (2, "", "WHY\n"),
    ("codex", "PermissionRequest"): (0, f"{{{PERMISSION}}}\n", "WHY\n"),
    ("codex", "Stop"): GO,
    ("gemini", "BeforeTool"): (2, "", "WHY\n"),
    ("gemini", "BeforeAgent"): (2, "", "WHY\n"),
    ("gemini", "AfterAgent"): GO,
    ("gemini", "PreCompress"): GO,
    ("qwen", "PreToolUse"): (2, "", "WHY\n"),
    ("copilot", "preToolUse"): (0, f"{{{TOOL},{FOR_TOOL}}}\n", "WHY\n"),
    ("copilot", "PreToolUse"): (0, f"{{{TOOL},{FOR_TOOL}}}\n", "WHY\n"),
    ("copilot", "userPromptSubmitted"): (0, BLOCK, "WHY\n"),
    ("copilot", "agentStop"): GO,
    ("copilot", ""): (2, f"{{{TOOL}}}\n", "WHY\n"),
    ("antigravity", "PreToolUse"): (0, '{"decision":"deny","reason":"WHY"}\n', "WHY\n"),
    ("antigravity", "PreInvocation"): (0, "{}\n", "WHY\n" + PASSES),
    ("antigravity", "Stop"): (0, "{}\n", "WHY\n" + PASSES),
    ("devin", "PermissionRequest"): (0, BLOCK, "WHY\n"),
    ("windsurf", "pre_write_code"): (2, "", "WHY\n"),
    ("windsurf", "post_write_code"): GO,
    ("cursor", "beforeShellExecution"): (0, f"{{{CURSOR}}}\n", "WHY\n"),
    ("cursor", "beforeSubmitPrompt"): (0, '{"continue":false,"user_message":"WHY"}\n', "WHY\n"),
    ("cursor", "subagentStart"): (0, f"{{{CURSOR}}}\n", "WHY\n"),
    ("cursor", "afterFileEdit"): GO,
    ("universal", "PreToolUse"): (2, f'{{"decision":"block","reason":"WHY",{TOOL},{CURSOR},{FOR_TOOL}}}\n', "WHY\n"),
    ("universal", "UserPromptSubmit"): (
        0,
        '{"decision":"block","reason":"WHY","continue":false,"stopReason":"WHY"}\n',
        "WHY\n",
    ),
    ("universal", "Stop"): GO,
}


@pytest.mark.parametrize(("name", "event"), WORDS, ids=lambda word: word or "nameless")
def test_words(client: Client, name: str, event: str) -> None:
    """The failure answer refuses in the agent's format; an agent that is about to stop is never kept running."""
    assert failing(client, "--as", name, event=event) == WORDS[name, event]
    assert failing(client, f"--as={name}", "--on-failure=deny", event, stdin=b"{}") == WORDS[name, event]
    assert failing(client, "--as", name, "--on-failure", "allow", event=event) == allowed(name, event)


def allowed(name: str, event: str) -> Ending:
    """The answer if failures are allowed: without an opinion, in the agent's format."""
    silence = AGENTS[name].neutral(canonical_event(event, name)) if name in AGENTS else None
    return 0, "" if silence is None else json.dumps(silence, separators=(",", ":")) + "\n", "WHY\n" + PASSES


@pytest.mark.parametrize("event", ["PreToolUse", "PostToolUse", "PreInvocation", "Stop", "SomethingNew"])
def test_an_empty_answer_that_would_deny(client: Client, launcher: Client, event: str) -> None:
    """Antigravity denies a call without an answer. Where failures are allowed, both clients print one."""
    for one in (client, launcher):
        code, stdout, stderr = failing(one, "--as", "antigravity", "--on-failure", "allow", event, stdin=b"{}")
        assert (code, json.loads(stdout), stderr) == (0, {"decision": "ask"} if event == "PreToolUse" else {}, GO[2])


@pytest.mark.parametrize("kind", ["client", "launcher"])
def test_copilot_is_known_in_claude_codes_settings(kind: str, request: pytest.FixtureRequest) -> None:
    """It would lose the reason of an exit code; a Claude Code that it starts is still Claude Code."""
    client: Client = request.getfixturevalue(kind)
    client.env["COPILOT_CLI"] = "1"
    tool = {"hook_event_name": "PreToolUse", "tool_name": "Bash", "tool_input": {"command": "ls"}}
    copilots, claudes = (json.dumps({**tool, **more}).encode() for more in ({}, {"permission_mode": "default"}))
    assert failing(client, "--as", "claude", stdin=copilots) == WORDS["copilot", "PreToolUse"]
    assert failing(client, "--as", "claude", stdin=claudes) == WORDS["claude", "PreToolUse"]


@pytest.mark.parametrize("name", [*CAPABILITIES, *SEEDS, "universal"])
def test_words_as_the_agent_reads_them(client: Client, name: str) -> None:
    """What an agent can refuse is refused, as its dialect reads an exit, with the reason; every other event passes."""
    codec = dialect(name)
    events = CAPABILITIES.get(name, EVENTS)
    for event in events:
        kind = EVENTS[event]
        denies = kind.block in (Block.DENY, Block.NOT_HONOURED, Block.STOP)
        if name in CAPABILITIES and name != "claude":
            denies = CAPABILITIES[name][event].deny
        code, out, err = failing(client, "--as", name, event=EVENT_NAMES.get(name, {}).get(event, event))
        reported = codec.read_exit(
            parse({**ANY_FIELDS, "hook_event_name": event}), Exit(code=code, stdout=out.encode(), stderr=err.encode())
        )
        assert (event, reported.status, reported.answer.objects) == (event, Status.OK, denies)
        assert "does not obey" not in reported.error, event
        silent = AGENTS[name].neutral(event) if name in AGENTS else None
        if not denies and silent is not None:  # such an agent takes no answer at all for a refusal
            assert (out, err) == (json.dumps(silent) + "\n", "WHY\n" + PASSES)
            continue
        assert (PASSES in err) != denies
        if denies:
            assert "WHY" in reported.answer.reason + reported.answer.stop_reason, event


def test_every_spelling_is_of_its_kind(client: Client) -> None:
    """An agent's name of an event is refused like the canonical event."""
    for name, rows in (*EVENT_NAMES.items(), *NARROWER.items()):
        for own in {*rows, *rows.values()}:
            usual = failing(client, "--as", name, event=canonical_event(own) or own)
            assert failing(client, "--as", name, event=own) == usual, (name, own)


ODD = {
    "a code that agents allow": (3, "claude", 2),
    "Python's code if it can't import": (1, "claude", 2),
    "the same where 1 denies": (1, "lesson", 1),
    "the highest": (125, "codex", 2),
    "a shell's": (126, "gemini", 2),
    "in Copilot, which reads stdout": (1, "copilot", 0),
    "in Cursor, too": (77, "cursor", 0),
}


@pytest.mark.parametrize(("code", "name", "refused"), ODD.values(), ids=ODD.keys())
@pytest.mark.parametrize("deadline", [[], ["--deadline", "20000"]], ids=["no deadline", "deadline"])
def test_odd_codes_of_the_cold_path(client: Client, code: int, name: str, refused: int, deadline: list[str]) -> None:
    """A code that `billhook hook` does not use is a failure: some agents would allow the call. Its stdout so far is not
    passed on, because our answer after it would not be valid."""
    script = client.bin / "billhook"
    script.write_text(f"#!/bin/sh\necho half of >&2\necho half of\nexit {code}\n")
    script.chmod(0o755)
    ended, out, err = failing(client, "--as", name, *deadline, event="PreToolUse")
    assert ended == refused
    assert ("half of" in out) == (name == "lesson")
    assert err.startswith("half of\n") and ("billhook hook exited unexpectedly" in err) == (name != "lesson")

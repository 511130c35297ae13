"""Seed 000: hooks around a tool, in the dialect `claw`."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from billhook import Event, PostToolUse, PreToolUse, Verdict
from billhook.session.calls import Result, denied_result, merge_feedback
from seeds.asking import fire, given

BEFORE = PreToolUse(tool_name="bash", tool_input={"command": "ls"})
AFTER = PostToolUse(tool_name="bash", tool_input={"command": "ls"}, tool_response="file1.txt\nfile2.txt")
FAILED = PostToolUse(
    tool_name="bash",
    tool_input={"command": "ls"},
    tool_response={"stdout": "", "stderr": "no such file", "is_error": True},
)

EXAMPLE = r"""
{
"hooks": {
"PreToolUse": [
"if echo \"$HOOK_TOOL_INPUT\" | grep -q 'rm -rf'; then echo 'Blocked: destructive command'; exit 2; fi"
]
}
}
"""


def claw(event: Event, *commands: str) -> Verdict:
    return fire(event, *commands, dialect="claw")


@pytest.mark.parametrize(
    ("command", "decision", "reason", "context", "status", "failed_open"),
    [
        pytest.param("echo fine", "none", "", ("fine",), "ok", 0, id="| 0 | Allow | stdout captured as feedback |"),
        pytest.param("true", "none", "", (), "ok", 0, id="| 0 | Allow | Tool proceeds |"),
        pytest.param(
            "echo no; exit 2", "deny", "no", (), "ok", 0, id="| 2 | Deny | stdout becomes the denial message |"
        ),
        pytest.param(
            "exit 2", "deny", "PreToolUse hook denied tool `bash`", (), "ok", 0, id="| 2 | Deny | Tool is blocked |"
        ),
        pytest.param("exit 1", "none", "", (), "failed", 1, id="| Any other | Warn | 1"),
        pytest.param("echo no; exit 3", "none", "", (), "failed", 1, id="| Any other | Warn | 3"),
        pytest.param("exit 255", "none", "", (), "failed", 1, id="| Any other | Warn | 255"),
        pytest.param("kill -KILL $$", "none", "", (), "failed", 1, id="| None (signal) | Warn | KILL"),
        pytest.param("kill -TERM $$", "none", "", (), "failed", 1, id="| None (signal) | Warn | TERM"),
    ],
)
def test_exit_code_semantics(
    command: str, decision: str, reason: str, context: tuple[str, ...], status: str, failed_open: int
) -> None:
    """Each line of the table of exit codes."""
    verdict = claw(BEFORE, command)
    assert (verdict.decision, verdict.reason, verdict.context) == (decision, reason, context)
    assert (verdict.outcomes[0].status, verdict.failed_open) == (status, failed_open)


@pytest.mark.parametrize("code", [code for code in range(1, 256, 23) if code != 2])
def test_any_other_code_warns(code: int) -> None:
    """A warning is logged, with the code, and execution continues."""
    verdict = claw(BEFORE, f"echo oops >&2; exit {code}")
    assert not verdict.denied
    assert verdict.outcomes[0].exit_code == code
    assert f"exit code {code}: oops" in verdict.warnings[0]


def test_the_signal_is_told() -> None:
    """`None (signal)`: killed by a signal is a warning that names it."""
    outcome = claw(BEFORE, "kill -USR1 $$").outcomes[0]
    assert (outcome.exit_code, outcome.signal, outcome.failed_open) == (None, 10, True)


@pytest.mark.parametrize(
    ("variable", "before", "after"),
    [
        pytest.param("HOOK_EVENT", "PreToolUse", "PostToolUse", id="HOOK_EVENT | PreToolUse or PostToolUse"),
        pytest.param("HOOK_TOOL_NAME", "bash", "bash", id="HOOK_TOOL_NAME | bash"),
        pytest.param(
            "HOOK_TOOL_INPUT", '{"command":"ls"}', '{"command":"ls"}', id='HOOK_TOOL_INPUT | {"command":"ls"}'
        ),
        pytest.param("HOOK_TOOL_IS_ERROR", "0", "0", id="HOOK_TOOL_IS_ERROR | 0"),
        pytest.param("HOOK_TOOL_OUTPUT", None, "file1.txt\nfile2.txt", id="HOOK_TOOL_OUTPUT | PostToolUse only"),
    ],
)
def test_environment_variables(variable: str, before: str | None, after: str, tmp_path: Path) -> None:
    """Each line of the table of environment variables, before and after the tool."""
    assert given(BEFORE, "claw", tmp_path).env.get(variable) == before
    assert given(AFTER, "claw", tmp_path).env.get(variable) == after


def test_tool_is_error_1(tmp_path: Path) -> None:
    """`HOOK_TOOL_IS_ERROR | Whether tool errored | 0 or 1`: 1 for a tool that errored, and the payload says so."""
    told = given(FAILED, "claw", tmp_path)
    assert told.env["HOOK_TOOL_IS_ERROR"] == "1"
    assert told.env["HOOK_TOOL_OUTPUT"] == "no such file"
    assert told.payload["tool_result_is_error"] is True


def test_payload_on_stdin(tmp_path: Path) -> None:
    """The full JSON payload, field by field, on one line."""
    told = given(BEFORE, "claw", tmp_path)
    assert told.payload == {
        "hook_event_name": "PreToolUse",
        "tool_name": "bash",
        "tool_input": {"command": "ls"},
        "tool_input_json": '{"command":"ls"}',
        "tool_output": None,
        "tool_result_is_error": False,
    }
    assert told.stdin.endswith("}\n") and told.stdin.count("\n") == 1


def test_payload_after_the_tool(tmp_path: Path) -> None:
    """After the tool the same fields, with its output."""
    assert given(AFTER, "claw", tmp_path).payload == {
        "hook_event_name": "PostToolUse",
        "tool_name": "bash",
        "tool_input": {"command": "ls"},
        "tool_input_json": '{"command":"ls"}',
        "tool_output": "file1.txt\nfile2.txt",
        "tool_result_is_error": False,
    }


@pytest.mark.parametrize(
    ("tool_input", "parsed", "text"),
    [
        pytest.param({"command": "ls"}, {"command": "ls"}, '{"command":"ls"}', id="an object"),
        pytest.param('{"command": "ls"}', {"command": "ls"}, '{"command": "ls"}', id="JSON as text"),
        pytest.param("ls -l", {"raw": "ls -l"}, "ls -l", id="text that is not JSON"),
        pytest.param({"text": "ä\n\t'\""}, {"text": "ä\n\t'\""}, '{"text":"ä\\n\\t\'\\""}', id="odd characters"),
    ],
)
def test_three_input_formats(tool_input: object, parsed: object, text: str, tmp_path: Path) -> None:
    """The hook gets the input as an environment variable, parsed, and as raw text."""
    told = given(PreToolUse(tool_name="bash", tool_input=tool_input), "claw", tmp_path)
    assert told.payload["tool_input"] == parsed
    assert told.payload["tool_input_json"] == text
    assert told.env["HOOK_TOOL_INPUT"] == text


@pytest.mark.parametrize(("name", "called"), [("Bash", "bash"), ("Write", "write_file"), ("my_tool", "my_tool")])
def test_tools_have_the_names_of_the_seed(name: str, called: str, tmp_path: Path) -> None:
    """Whatever the agent calls a tool, hooks of this dialect see the seed's name for it."""
    told = given(PreToolUse(tool_name=name, tool_input={}), "claw", tmp_path)
    assert (told.payload["tool_name"], told.env["HOOK_TOOL_NAME"]) == (called, called)


def test_login_shell(tmp_path: Path) -> None:
    """`sh -lc "command"`: a hook has the environment of a login shell, and a noisy profile can't disturb it."""
    (tmp_path / ".profile").write_text("export FROM_PROFILE=yes\necho noise\n")
    argv = [sys.executable, "-m", "billhook", "fire", "PreToolUse", "--tool", "bash", "--dialect", "claw", "--json"]
    done = subprocess.run(
        [*argv, "--run", 'echo "profile: $FROM_PROFILE"'],
        env={**os.environ, "HOME": str(tmp_path)},
        capture_output=True,
        timeout=60,
        check=True,
    )
    assert json.loads(done.stdout)["context"] == ["profile: yes"]


def test_hooks_run_in_sequence(tmp_path: Path) -> None:
    """Multiple hooks run sequentially, in the order in which they are registered."""
    log = tmp_path / "log"
    verdict = claw(BEFORE, *(f"sleep 0.0{3 - n}; echo {n} >> {log}; echo said {n}" for n in range(3)))
    assert log.read_text() == "0\n1\n2\n"
    assert verdict.context == ("said 0", "said 1", "said 2")


def test_a_deny_skips_the_rest(tmp_path: Path) -> None:
    """If any PreToolUse hook returns exit code 2, subsequent hooks are skipped and the tool is denied."""
    ran = tmp_path / "ran"
    verdict = claw(BEFORE, "echo fine", "echo no; exit 2", f"touch {ran}")
    assert [outcome.status for outcome in verdict.outcomes] == ["ok", "ok", "skipped"]
    assert (verdict.decision, verdict.reason) == ("deny", "no")
    assert not ran.exists()


def test_a_warning_does_not_skip_the_rest() -> None:
    """A hook that crashes with exit code 1 only produces a warning: later hooks still judge."""
    verdict = claw(BEFORE, "exit 1", "echo no; exit 2")
    assert (verdict.decision, verdict.reason, verdict.failed_open) == ("deny", "no", 1)


def test_feedback_of_both_hooks() -> None:
    """The sample of merged feedback: output, section of the pre hook, section of the post hook."""
    merged = merge_feedback(
        "[tool output]", claw(BEFORE, "echo '[pre hook message]'"), claw(AFTER, "echo '[post hook message]'")
    )
    assert merged == Result(
        "[tool output]\n\nHook feedback:\n[pre hook message]\n\nHook feedback:\n[post hook message]", False
    )


def test_a_post_hook_that_denies() -> None:
    """If a PostToolUse hook denies, the feedback is labeled so and the result is marked as an error."""
    merged = merge_feedback("out", claw(BEFORE, "echo pre"), claw(AFTER, "echo bad; exit 2"))
    assert merged == Result("out\n\nHook feedback:\npre\n\nHook feedback (denied):\nbad", True)


def test_a_post_hook_that_warns() -> None:
    """A warning is logged; it is no feedback, and the result is no error."""
    assert merge_feedback("out", None, claw(AFTER, "echo text; exit 1")) == Result("out", False)


@pytest.mark.parametrize(
    ("command", "decision"),
    [
        pytest.param("rm -rf /tmp/x", "deny", id="contains rm -rf: blocks it"),
        pytest.param("ls", "none", id="does not: goes on"),
    ],
)
def test_example_blocking_dangerous_commands(command: str, decision: str) -> None:
    """The example of settings.json, its command as it stands there."""
    (text,) = json.loads(EXAMPLE)["hooks"]["PreToolUse"]
    verdict = claw(PreToolUse(tool_name="bash", tool_input={"command": command}), text)
    assert verdict.decision == decision
    if decision == "deny":
        assert verdict.reason == "Blocked: destructive command"
        assert denied_result(verdict) == Result("Blocked: destructive command", True)


@pytest.mark.parametrize("size", [131_000, 131_072, 3_000_000])
def test_padding_does_not_switch_the_example_off(size: int, tmp_path: Path) -> None:
    """A command padded beyond what one environment variable holds is still judged, and the cut is marked."""
    (text,) = json.loads(EXAMPLE)["hooks"]["PreToolUse"]
    padded = PreToolUse(tool_name="bash", tool_input={"command": "rm -rf /  # " + "x" * size})
    assert claw(padded, text).reason == "Blocked: destructive command"
    told = given(padded, "claw", tmp_path)
    assert told.env["HOOK_TOOL_INPUT_TRUNCATED"] == "1"
    assert told.payload["tool_input"] == padded.tool_input

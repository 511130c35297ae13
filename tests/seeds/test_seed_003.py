"""Seed 003: the same hooks as text, in the dialect `claw-text`, with its two scripts unchanged."""

import json
import os
import re
import shutil
import stat
import sys
from pathlib import Path

import pytest

from billhook import Engine, Event, PostToolUse, PreToolUse, Verdict
from billhook.session.calls import Result, denied_result, merge_feedback
from seeds.asking import fire, given, hook

SCRIPTS = Path(__file__).with_name("scripts")
BEFORE = PreToolUse(tool_name="bash", tool_input={"command": "rm -rf /tmp/test"})
AFTER = PostToolUse(tool_name="bash", tool_input={"command": "cargo test"}, tool_response="test result: ok. 5 passed")

CONFIG = """
{
  "hooks": {
    "PreToolUse": [
      {
        "command": "bash safety_guard.sh"
      }
    ],
    "PostToolUse": [
      {
        "command": "bash audit_logger.sh"
      }
    ]
  }
}
"""

JQ = """#!{python}
import json, sys
print(json.load(sys.stdin)[sys.argv[2].lstrip(".")])
"""


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    """A folder with the seed's scripts, a home, and jq where the machine has none."""
    for script in SCRIPTS.iterdir():
        shutil.copy(script, tmp_path)
    (tmp_path / "home" / ".claude").mkdir(parents=True)
    tools = tmp_path / "bin"
    tools.mkdir()
    if shutil.which("jq") is None:
        jq = tools / "jq"
        jq.write_text(JQ.format(python=sys.executable))
        jq.chmod(jq.stat().st_mode | stat.S_IXUSR)
    return tmp_path


def run(workspace: Path, event: Event) -> Verdict:
    """Fire an event at the hooks of the seed's configuration, in the workspace."""
    hooks = [
        hook(entry["command"], "claw-text", f"{name}-{number}", events=(name,))
        for name, entries in json.loads(CONFIG)["hooks"].items()
        for number, entry in enumerate(entries)
    ]
    env = {"HOME": str(workspace / "home"), "PATH": f"{os.environ['PATH']}:{workspace / 'bin'}"}
    return Engine(hooks, env=env).fire_sync(event.replace(cwd=str(workspace)))


@pytest.mark.parametrize(
    ("tool", "command", "decision"),
    [
        pytest.param("bash", "rm -rf /", "deny", id="rm -rf"),
        pytest.param("bash", "psql -c 'DROP TABLE users'", "deny", id="DROP TABLE"),
        pytest.param("bash", "format c:", "deny", id="format c:"),
        pytest.param("Bash", "rm -rf /", "deny", id='tool == "bash", by its canonical name'),
        pytest.param("bash", "ls", "none", id="exit 0"),
        pytest.param("write_file", "rm -rf /", "none", id="another tool"),
        pytest.param("bash", "echo one\nrm -rf /tmp/x", "deny", id="a command of two lines"),
        pytest.param("bash", "rm -rf / # " + "x" * 300_000, "deny", id="a command of 300,000 characters"),
    ],
)
def test_safety_guard(tool: str, command: str, decision: str, workspace: Path) -> None:
    """The safety guard, unchanged."""
    verdict = run(workspace, PreToolUse(tool_name=tool, tool_input={"command": command}))
    assert verdict.decision == decision, verdict.warnings
    assert verdict.outcomes[0].status == "ok"
    if decision == "deny":
        assert verdict.reason == "Blocked: Dangerous command pattern detected"


def test_audit_logger(workspace: Path) -> None:
    """The audit logger, unchanged: one line for each tool execution, with a time and the payload."""
    for _ in range(2):
        assert run(workspace, AFTER).decision == "none"
    lines = (workspace / "home" / ".claude" / "audit.log").read_text().splitlines()
    assert len(lines) == 2
    for line in lines:
        at, payload = line.split(" ", 1)
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", at)
        assert json.loads(payload)["tool_output"] == "test result: ok. 5 passed"


def test_each_event_gets_its_own_hooks(workspace: Path) -> None:
    """`Hook configured for this event?` No: skip hooks, proceed to execution."""
    assert [outcome.hook for outcome in run(workspace, BEFORE).outcomes] == ["PreToolUse-0"]
    assert [outcome.hook for outcome in run(workspace, AFTER).outcomes] == ["PostToolUse-0"]
    nothing = fire(AFTER, "exit 2", dialect="claw-text", events=("PreToolUse",))
    assert (nothing.decision, nothing.outcomes) == ("none", ())


def test_payload_before(tmp_path: Path) -> None:
    """The payload of PreToolUse, field by field; the raw text is compact JSON here."""
    payload = given(BEFORE, "claw-text", tmp_path).payload
    assert payload == {
        "hook_event_name": "PreToolUse",
        "tool_name": "bash",
        "tool_input": "rm -rf /tmp/test",
        "tool_input_json": '{"command": "rm -rf /tmp/test"}',
    }


def test_payload_keeps_the_text_of_the_input(tmp_path: Path) -> None:
    """`tool_input_json` is the text that the agent sent, the space of the sample included."""
    from billhook.core.events import decode

    sent = decode(b'{"hook_event_name":"PreToolUse","tool_name":"bash","tool_input":{"command": "rm -rf /tmp/test"}}')
    assert given(sent, "claw-text", tmp_path).payload["tool_input_json"] == '{"command": "rm -rf /tmp/test"}'


def test_payload_after(tmp_path: Path) -> None:
    """The fields of the sample for PostToolUse, field by field."""
    payload = given(AFTER, "claw-text", tmp_path).payload
    sample = {
        "hook_event_name": "PostToolUse",
        "tool_name": "bash",
        "tool_input": "cargo test",
        "tool_output": "test result: ok. 5 passed",
        "tool_result_is_error": False,
    }
    assert {key: payload[key] for key in sample} == sample


def test_input_without_a_command(tmp_path: Path) -> None:
    """A tool whose input has no command: its input as JSON."""
    told = given(PreToolUse(tool_name="write_file", tool_input={"path": "a", "content": "b"}), "claw-text", tmp_path)
    assert told.payload["tool_input"] == '{"path": "a", "content": "b"}' == told.env["HOOK_TOOL_INPUT"]


@pytest.mark.parametrize(
    ("variable", "before", "after"),
    [
        pytest.param("HOOK_EVENT", "PreToolUse", "PostToolUse", id="HOOK_EVENT PreToolUse or PostToolUse"),
        pytest.param("HOOK_TOOL_NAME", "bash", "bash", id="HOOK_TOOL_NAME Name of the tool being called"),
        pytest.param("HOOK_TOOL_INPUT", "rm -rf /tmp/test", "cargo test", id="HOOK_TOOL_INPUT Raw input string"),
        pytest.param("HOOK_TOOL_IS_ERROR", None, "false", id='HOOK_TOOL_IS_ERROR "true" or "false" (post-hook only)'),
        pytest.param(
            "HOOK_TOOL_OUTPUT", None, "test result: ok. 5 passed", id="HOOK_TOOL_OUTPUT Tool output (post-hook only)"
        ),
    ],
)
def test_environment_variables(variable: str, before: str | None, after: str, tmp_path: Path) -> None:
    """Each line of the list of environment variables."""
    assert given(BEFORE, "claw-text", tmp_path).env.get(variable) == before
    assert given(AFTER, "claw-text", tmp_path).env.get(variable) == after


def test_error_flag_true(tmp_path: Path) -> None:
    """`HOOK_TOOL_IS_ERROR`: "true" when the tool failed."""
    failed = AFTER.replace(tool_response={"stdout": "", "stderr": "boom", "is_error": True})
    told = given(failed, "claw-text", tmp_path)
    assert (told.env["HOOK_TOOL_IS_ERROR"], told.payload["tool_result_is_error"]) == ("true", True)


@pytest.mark.parametrize(
    ("command", "decision", "reason", "context", "failed_open"),
    [
        pytest.param("echo fine", "none", "", ("fine",), 0, id="Exit 0 ALLOW: stdout appended to context"),
        pytest.param("echo no; exit 2", "deny", "no", (), 0, id="Exit 2 DENY: stdout becomes error message"),
        pytest.param("exit 1", "none", "", (), 1, id="Exit 1 WARN: tool execution proceeds anyway"),
        pytest.param("exit 3", "none", "", (), 1, id="Exit 3+ WARN"),
        pytest.param("exit 200", "none", "", (), 1, id="Exit 3+ WARN, 200"),
    ],
)
def test_exit_codes_before(
    command: str, decision: str, reason: str, context: tuple[str, ...], failed_open: int
) -> None:
    """Each box of the exit code semantics, before the tool."""
    verdict = fire(BEFORE, command, dialect="claw-text")
    assert (verdict.decision, verdict.reason, verdict.context) == (decision, reason, context)
    assert verdict.failed_open == failed_open


@pytest.mark.parametrize("code", [0, 1, 2, 3])
def test_post_can_not_block(code: int) -> None:
    """`PostToolUse | Can Block? No (informational)`: whatever its exit code."""
    verdict = fire(AFTER, f"echo text; exit {code}", dialect="claw-text")
    assert verdict.decision == "none"
    assert not merge_feedback("out", None, verdict).is_error
    assert verdict.outcomes[0].status == ("ok" if code == 0 else "failed")


def test_feedback_is_appended() -> None:
    """`exit 0`: stdout is captured, and appended to what the model gets."""
    merged = merge_feedback("out", None, fire(AFTER, "echo fine", dialect="claw-text"))
    assert merged == Result("out\n\nHook feedback:\nfine", False)


def test_sequence_diagram() -> None:
    """The hook detects `rm -rf /`, and the tool result is the error of the diagram."""
    guard = 'read -r p; case $p in *"rm -rf /"*) echo "Blocked: destructive command detected"; exit 2;; esac'
    verdict = fire(PreToolUse(tool_name="bash", tool_input={"command": "rm -rf /"}), guard, dialect="claw-text")
    assert denied_result(verdict) == Result("Hook denied: Blocked: destructive command detected", True)


def test_transform_inputs() -> None:
    """`Transform inputs or outputs programmatically`: an answer in JSON may rewrite the input."""
    output = '{"hookSpecificOutput": {"hookEventName": "PreToolUse", "updatedInput": {"command": "ls"}}}'
    assert fire(BEFORE, f"echo '{output}'", dialect="claw-text").tool_input == {"command": "ls"}

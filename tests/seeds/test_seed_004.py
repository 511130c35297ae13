"""Seed 004: three events and three exit codes, in the dialect `lesson`."""

import json
from pathlib import Path
from typing import NamedTuple

import pytest

from billhook import Engine, Event, PostToolUse, PreToolUse, SessionStart
from billhook.core.events import decode
from billhook.session.calls import Result, denied_result, merge_feedback
from seeds.asking import fire, given, hook

BEFORE = PreToolUse(tool_name="bash", tool_input={"command": "npm test"})
AFTER = PostToolUse(tool_name="bash", tool_input={"command": "npm test"}, tool_response="ok")
START = SessionStart(source="startup")

CONFIG = """
{
"hooks": {
"PreToolUse": [
{"matcher": "bash", "command": "echo 'Checking bash command...'"},
{"matcher": "write_file", "command": "/path/to/lint-check.sh"}
],
"PostToolUse": [
{"command": "echo 'Tool finished'"}
],
"SessionStart": [
{"command": "echo 'Session started at $(date)'"}
]
}
}
"""


class Row(NamedTuple):
    """A cell of the table of exit codes: what a hook that prints on both streams does with a code on an event."""

    event: Event
    code: int
    decision: str = "none"
    reason: str = ""
    context: tuple[str, ...] = ()
    status: str = "ok"


@pytest.mark.parametrize(
    "row",
    [
        pytest.param(Row(BEFORE, 0), id="| 0 | Success | Continue to execute tool |"),
        pytest.param(Row(AFTER, 0), id="| 0 | Success | Continue normally |"),
        pytest.param(Row(START, 0), id="exit 0 on SessionStart"),
        pytest.param(Row(BEFORE, 1, "deny", "err"), id="| 1 | Block | Tool NOT executed, stderr returned as error |"),
        pytest.param(Row(AFTER, 1, status="failed"), id="| 1 | Block | Warning logged |"),
        pytest.param(Row(START, 1, status="failed"), id="SessionStart | Can Block? No"),
        pytest.param(Row(BEFORE, 2, context=("err",)), id="| 2 | Inject | stderr injected, tool still executes |"),
        pytest.param(Row(AFTER, 2, context=("err",)), id="| 2 | Inject | stderr appended to result |"),
        pytest.param(Row(START, 2, context=("err",)), id="exit 2 on SessionStart"),
        pytest.param(Row(BEFORE, 3, status="failed"), id="a code that the table does not name"),
        pytest.param(Row(AFTER, 3, status="failed"), id="a code that the table does not name, after"),
    ],
)
def test_exit_codes(row: Row) -> None:
    """Each cell of the table of exit codes."""
    verdict = fire(row.event, f"echo out; echo err >&2; exit {row.code}", dialect="lesson")
    assert (verdict.decision, verdict.reason, verdict.context) == (row.decision, row.reason, row.context)
    assert verdict.outcomes[0].status == row.status
    assert bool(verdict.warnings) == (row.status == "failed")


@pytest.mark.parametrize(
    ("event", "blocks"),
    [
        pytest.param(START, False, id="| SessionStart | No |"),
        pytest.param(BEFORE, True, id="| PreToolUse | Yes (exit 1) |"),
        pytest.param(AFTER, False, id="| PostToolUse | No |"),
    ],
)
def test_can_block(event: Event, blocks: bool) -> None:
    """Each line of the table of events."""
    assert fire(event, "exit 1", dialect="lesson").denied == blocks


def test_environment(tmp_path: Path) -> None:
    """Step 4: the context of a hook before the tool, text as the agent sent it."""
    sent = decode(b'{"hook_event_name":"PreToolUse","tool_name":"bash","tool_input":{"command": "npm test"}}')
    env = given(sent, "lesson", tmp_path).env
    assert env["HOOK_EVENT"] == "PreToolUse"
    assert env["HOOK_TOOL_NAME"] == "bash"
    assert env["HOOK_TOOL_INPUT"] == '{"command": "npm test"}'
    assert "HOOK_TOOL_OUTPUT" not in env


def test_environment_after(tmp_path: Path) -> None:
    """`HOOK_TOOL_OUTPUT=... (PostToolUse only)`."""
    env = given(AFTER, "lesson", tmp_path).env
    assert (env["HOOK_EVENT"], env["HOOK_TOOL_OUTPUT"]) == ("PostToolUse", "ok")


def engine() -> Engine:
    """The hooks of the sample of .hooks.json."""
    return Engine(
        hook(entry["command"], "lesson", f"{name}-{number}", events=(name,), match=entry.get("matcher"))
        for name, entries in json.loads(CONFIG)["hooks"].items()
        for number, entry in enumerate(entries)
    )


@pytest.mark.parametrize(
    ("event", "asked"),
    [
        pytest.param(BEFORE, ["PreToolUse-0"], id='"matcher": "bash"'),
        pytest.param(
            PreToolUse(tool_name="Bash", tool_input={}), ["PreToolUse-0"], id='"matcher": "bash", canonical name'
        ),
        pytest.param(PreToolUse(tool_name="write_file", tool_input={}), ["PreToolUse-1"], id='"matcher": "write_file"'),
        pytest.param(PreToolUse(tool_name="bashful", tool_input={}), [], id="a matcher is the whole name"),
        pytest.param(AFTER, ["PostToolUse-0"], id="without a matcher, the hook fires for every tool"),
        pytest.param(
            PostToolUse(tool_name="anything", tool_input={}, tool_response=""), ["PostToolUse-0"], id="for every tool"
        ),
        pytest.param(START, ["SessionStart-0"], id="SessionStart"),
        pytest.param(SessionStart(source="compact"), [], id="SessionStart fires once: not after a compaction"),
    ],
)
def test_configuration(event: Event, asked: list[str]) -> None:
    """Step 2: which hooks of the sample each event gets."""
    assert [outcome.hook for outcome in engine().fire_sync(event).outcomes] == asked


def test_sample_hooks_continue() -> None:
    """The sample's hooks exit with 0: the loop continues, silently; the missing script is a warning."""
    assert engine().fire_sync(BEFORE).context == ()
    missing = engine().fire_sync(PreToolUse(tool_name="write_file", tool_input={}))
    assert (missing.decision, missing.outcomes[0].status) == ("none", "could_not_start")


def test_flow_of_a_blocked_tool() -> None:
    """`exit 1 -> block tool, return stderr as error`; hooks after it are not asked."""
    verdict = fire(BEFORE, "echo 'no npm here' >&2; exit 1", "exit 2", dialect="lesson")
    assert [outcome.status for outcome in verdict.outcomes] == ["ok", "skipped"]
    assert denied_result(verdict) == Result("Blocked by hook: no npm here", True)


def test_flow_of_a_tool_that_runs() -> None:
    """`exit 2 -> inject stderr into conversation, continue`, then `exit 2 -> append stderr to result`."""
    before = fire(BEFORE, "echo 'mind the lint' >&2; exit 2", dialect="lesson")
    after = fire(AFTER, "echo 'lint failed' >&2; exit 2", dialect="lesson")
    assert (before.decision, before.context) == ("none", ("mind the lint",))
    merged = merge_feedback("ok", None, after)
    assert merged == Result("ok\n\nlint failed", False)
    assert merge_feedback("ok", before, after) == Result("ok\n\nmind the lint\n\nlint failed", False)


def test_block_without_words() -> None:
    """A hook that blocks and says nothing still gives a reason, once."""
    assert denied_result(fire(BEFORE, "exit 1", dialect="lesson")).text == "Blocked by hook"

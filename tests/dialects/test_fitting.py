"""A rewritten output for Claude Code: in the tool's shape, or the run ends. It silently ignores other shapes."""

import json
from typing import Any

import pytest

from billhook import Answer, rewrite
from billhook.agents import dialect
from billhook.core.events import PostToolUse, PostToolUseFailure

SHELL = {"stdout": "secret", "stderr": "more of it", "interrupted": False, "isImage": False}
FILE = {"type": "text", "file": {"filePath": "/a", "content": "secret", "numLines": 1}}
FOUND = {"mode": "content", "filenames": [], "content": "secret", "numLines": 1}
SPAWNED = {"status": "completed", "content": [{"type": "text", "text": "secret"}], "took": 1}


def written(own: Any, answer: Answer, tool: str = "Tool") -> tuple[dict[str, Any], tuple[str, ...]]:
    """What Claude Code is told, and what is recorded as lost."""
    event = PostToolUse(session_id="s", cwd="/", tool_name=tool, tool_use_id="1", tool_input={}, tool_response=own)
    reported = dialect("claude").write_exit(event, answer)
    return json.loads(reported.exit.stdout_text), reported.lost


@pytest.mark.parametrize(
    ("own", "new", "told"),
    [
        pytest.param(SHELL, "x", {**SHELL, "stdout": "x", "stderr": ""}, id="text for a shell"),
        pytest.param(
            {**SHELL, "isImage": True}, "x", {**SHELL, "stdout": "x", "stderr": ""}, id="text for what was an image"
        ),
        pytest.param(FILE, "x", {**FILE, "file": {**FILE["file"], "content": "x"}}, id="text for a file"),  # type: ignore[dict-item]
        pytest.param(SHELL, {"stdout": "x"}, {**SHELL, "stdout": "x"}, id="a part"),
        pytest.param(
            FILE,
            {"type": "text", "file": {"content": "x"}},
            {"type": "text", "file": {"filePath": "/a", "content": "x", "numLines": 1}},
            id="a part of a part",
        ),
        pytest.param(
            FOUND, {"content": "x", "numLines": 1.5}, {**FOUND, "content": "x", "numLines": 1.5}, id="numbers"
        ),
        pytest.param("secret", {"a": 1}, '{"a":1}', id="an object for text"),
        pytest.param(
            SPAWNED,
            {"content": [{"type": "text", "text": "x"}, {"type": "text", "text": "y"}]},
            {**SPAWNED, "content": [{"type": "text", "text": "x"}, {"type": "text", "text": "y"}]},
            id="items of a list",
        ),
    ],
)
def test_what_can_be_made_to_fit(own: Any, new: Any, told: Any) -> None:
    """It is laid over the tool's own output, and that it was is recorded."""
    output, lost = written(own, rewrite(output=new))

    assert output == {"hookSpecificOutput": {"hookEventName": "PostToolUse", "updatedToolOutput": told}}
    assert lost == ("a rewritten output was adapted to the shape of the tool's output",)


@pytest.mark.parametrize(
    ("own", "new", "tool"),
    [
        pytest.param(SHELL, {**SHELL, "stdout": "x"}, "Bash", id="the same shape"),
        pytest.param("secret", "x", "Tool", id="text for text"),
        pytest.param([{"type": "text", "text": "secret"}], "x", "mcp__kit__look", id="a tool of an MCP server"),
        pytest.param({"a": "secret"}, {"other": 1}, "mcp__kit__look", id="any object for one of those"),
        pytest.param(None, {"other": 1}, "Tool", id="a tool without an output"),
    ],
)
def test_a_fitting_output_is_unchanged(own: Any, new: Any, tool: str) -> None:
    """Nothing is lost then."""
    output, lost = written(own, rewrite(output=new), tool)

    assert output["hookSpecificOutput"]["updatedToolOutput"] == new
    assert lost == ()


@pytest.mark.parametrize(
    ("own", "new"),
    [
        pytest.param(FILE, {"type": "redacted", "file": FILE["file"]}, id="another type"),
        pytest.param(FILE, {"file": {"content": None}}, id="another kind within"),
        pytest.param(FILE, {"file": "x"}, id="text for an object"),
        pytest.param(FILE, {"file": {"content": "x", "more": 1}}, id="one more key"),
        pytest.param(FILE, {}, id="a part that changes nothing"),
        pytest.param(FILE, ["x"], id="a list for an object"),
        pytest.param(FILE, None, id="nothing"),
        pytest.param({**FILE, "type": "image"}, "x", id="text for an image"),
        pytest.param(SHELL, {"stdout": "x", "interrupted": 0}, id="a number for yes or no"),
        pytest.param(FOUND, {"content": "x", "mode": "count"}, id="another mode"),
        pytest.param(SPAWNED, "x", id="text that has no place"),
        pytest.param(SPAWNED, {"content": [{"text": "x"}]}, id="an item without all its keys"),
        pytest.param(SPAWNED, {"content": ["x"]}, id="an item of another kind"),
        pytest.param("secret", None, id="nothing for text"),
    ],
)
def test_what_does_not_fit_ends_the_run(own: Any, new: Any) -> None:
    """The model never reads the hidden output; the user and the log get the reason."""
    output, lost = written(own, rewrite(output=new), "Read")
    why = "a hook replaced the output of Read with one that Claude Code does not accept"

    assert output == {"continue": False, "stopReason": why}
    assert lost == (f"{why}, so the run ends",)


def test_other_events_are_left_alone() -> None:
    """A failed output can't be replaced at all, which is reported."""
    event = PostToolUseFailure(session_id="s", cwd="/", tool_name="Bash", tool_use_id="1", tool_input={}, error="x")

    assert dialect("claude").write_exit(event, rewrite(output="x")).lost == (
        "the rewritten output can't be expressed on PostToolUseFailure",
    )

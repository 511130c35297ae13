"""Dialects of seeds with one event after the tool also get tools that failed."""

import json
from pathlib import Path

import pytest

from billhook import PostToolUseFailure, load
from billhook.core.answers import Status

TELLS = 'printf "%s %s %s" "$HOOK_EVENT" "$HOOK_TOOL_IS_ERROR" "$HOOK_TOOL_OUTPUT"'
FILES = {
    "claw (seed 000)": (".claude/settings.json", TELLS, "PostToolUse 1 no such file"),
    "claw-text (seed 003)": (".claude.json", {"command": TELLS}, "PostToolUse true no such file"),
    "lesson (seed 004)": (".hooks.json", {"command": f"{TELLS} >&2; exit 2"}, "PostToolUse 1 no such file"),
}


@pytest.mark.parametrize(("file", "entry", "told"), FILES.values(), ids=FILES.keys())
def test_a_command_after_the_tool_is_told_of_failures(tmp_path: Path, file: str, entry: object, told: str) -> None:
    """It gets PostToolUse with the error flag and the error as output."""
    (tmp_path / ".git").mkdir()
    path = tmp_path / file
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps({"hooks": {"PostToolUse": [entry]}}))
    engine = load(tmp_path, layers=["project"], home=tmp_path / "state", trust="all", builtins=False)
    event = PostToolUseFailure(tool_name="Read", tool_input={"file_path": "x"}, error="no such file", cwd=str(tmp_path))
    (outcome,) = engine.fire_sync(event).outcomes
    assert (outcome.status, outcome.answer.context) == (Status.OK, told)


def test_a_hook_of_the_default_dialect_does_not_run_for_failures(tmp_path: Path) -> None:
    """In the reference dialect a tool that failed is a different event."""
    (tmp_path / ".git").mkdir()
    (tmp_path / "hooks.yaml").write_text("hooks:\n  after:\n    events: PostToolUse\n    run: echo heard\n")
    engine = load(tmp_path, layers=["project"], home=tmp_path / "state", trust="all", builtins=False)
    assert engine.fire_sync(PostToolUseFailure(tool_name="Read", tool_input={}, error="no")).outcomes == ()

"""Permission in the loop: who may let a call run beside the hooks, and what the model gets."""

import json
from pathlib import Path
from typing import Any

import pytest

from agent_loop.running import DONE, Project, bash, says, shell, specific, tool
from billhook.session import ToolResult


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path)


def test_a_permission_request_that_a_hook_answers(project: Project) -> None:
    """PermissionRequest: a hook allows instead of the user, who gets no question."""
    answer = specific("PermissionRequest", decision={"behavior": "allow"})
    ran = project.run([bash("echo ran"), DONE], says("PermissionRequest", answer), permission_mode="default")
    assert ran.results[0].content == "ran"
    assert "Notification" not in ran.names


def test_a_permission_request_that_a_hook_denies(project: Project) -> None:
    """PermissionRequest: a hook denies, and the model gets its words."""
    answer = specific("PermissionRequest", decision={"behavior": "deny", "message": "not on Fridays"})
    asked: list[Any] = []
    ran = project.run(
        [bash("touch made"), DONE], says("PermissionRequest", answer), permission_mode="default", ask=asked.append
    )
    assert (ran.results[0].content, ran.results[0].is_error, asked) == ("not on Fridays", True, [])
    assert not (project.folder / "made").exists()


def test_a_permission_request_that_a_hook_rewrites(project: Project) -> None:
    """PermissionRequest: what a hook allows instead is judged again, by hooks and rules, before it runs."""
    answer = specific("PermissionRequest", decision={"behavior": "allow", "updatedInput": {"command": "echo safe"}})
    ran = project.run([bash("touch made"), DONE], says("PermissionRequest", answer), permission_mode="default")
    assert (ran.results[0].content, len(ran.results)) == ("safe", 1)
    assert [event["tool_input"]["command"] for event in ran.of("PreToolUse")] == ["touch made", "echo safe"]
    guard = shell("PreToolUse", "grep -q 'echo safe' && { echo not that >&2; exit 2; }; exit 0", name="second")
    ran = project.run([bash("touch made"), DONE], says("PermissionRequest", answer), guard, permission_mode="default")
    assert ran.results == [ToolResult("toolu_0001", "not that", True)]


def test_permission_denied(project: Project) -> None:
    """No user can be asked: PermissionDenied has the reason, after PermissionRequest; the model gets the same."""
    ran = project.run([bash("true"), DONE], permission_mode="default")
    at = ran.names.index
    assert at("PreToolUse") < at("PermissionRequest") < at("PermissionDenied")
    (denied,) = ran.of("PermissionDenied")
    assert denied["reason"] == ran.results[0].content and "no user can be asked" in denied["reason"]
    assert denied["tool_use_id"] == "toolu_0001"


def test_a_denied_call_that_may_be_tried_again(project: Project) -> None:
    """PermissionDenied: a hook returns `retry`, and the model is told."""
    ran = project.run(
        [bash("true"), DONE],
        shell("PermissionDenied", f"echo '{json.dumps(specific('PermissionDenied', retry=True))}'"),
        permission_mode="dontAsk",
    )
    assert ran.results[0].content.endswith("A hook allows you to try again.")


def test_the_user_answers_session(project: Project) -> None:
    """The same command needs no second question."""
    asked: list[str] = []

    def ask(question: Any) -> str:
        asked.append(question.tool_input["command"])
        return "session"

    project.run([bash("true"), bash("true"), bash("false"), DONE], permission_mode="default", ask=ask)
    assert asked == ["true", "false"]


@pytest.mark.parametrize(
    ("mode", "made"),
    [
        pytest.param("default", False, id="default"),
        pytest.param("acceptEdits", True, id="acceptEdits"),
        pytest.param("plan", False, id="plan"),
        pytest.param("dontAsk", False, id="dontAsk"),
        pytest.param("bypassPermissions", True, id="bypassPermissions"),
    ],
)
def test_modes(mode: str, made: bool, project: Project) -> None:
    """Each mode, without a user: whether a file is written, and that events have the mode."""
    ran = project.run([tool("Write", file_path="made", content="x"), DONE], permission_mode=mode)
    assert (project.folder / "made").exists() == made and ran.results[0].is_error != made
    assert {event["permission_mode"] for event in ran.events} == {mode}

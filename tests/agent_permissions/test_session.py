"""A session under the agent's permissions: what reaches the tool, the person, the hooks and the model."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from billhook import Engine, Hook, PermissionDenied, PermissionRequest, PreToolUse, allow, ask, on, rewrite
from billhook.agent.permissions import AgentPermissions
from billhook.agent.tools import Workspace
from billhook.config.permissions import Rules
from billhook.config.trust import approve_rules
from billhook.session import Question, Session, ToolResult
from config.project import Project


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    return Project(tmp_path, monkeypatch)


class Loop:
    """A session in a project, a person who answers as told, and a tool that notes what it was called with."""

    def __init__(self, project: Project, *hooks: Hook, answers: tuple[str, ...] = (), mode: str | None = None) -> None:
        self.project, self.hooks, self.mode = project, hooks, mode
        self.answers = list(answers)
        self.asked: list[Question] = []
        self.ran: list[dict[str, Any]] = []
        self.denied: list[str] = []

    def person(self, question: Question) -> str:
        self.asked.append(question)
        return self.answers.pop(0)

    def calls(self, *calls: tuple[str, dict[str, Any]]) -> list[ToolResult]:
        return asyncio.run(self._calls(calls))

    def bash(self, *commands: str) -> list[bool]:
        """Whether each of the commands ran."""
        return [not one.is_error for one in self.calls(*(("Bash", {"command": command}) for command in commands))]

    async def _calls(self, calls: tuple[tuple[str, dict[str, Any]], ...]) -> list[ToolResult]:
        @on(PermissionDenied)
        def note(event: PermissionDenied) -> None:
            self.denied.append(event.reason)

        permissions = AgentPermissions(self.rules, Workspace(self.project.folder).inside)
        session = Session(
            Engine([*self.hooks, note]),
            cwd=str(self.project.folder),
            ask=self.person if self.answers else None,
            permissions=permissions,
            permission_mode=permissions.starting_mode(self.mode),
        )
        async with session:
            return [await session.call_tool(name, given, self.run) for name, given in calls]

    @property
    def rules(self) -> Rules:
        return self.project.load().permissions

    def run(self, given: dict[str, Any]) -> str:
        self.ran.append(given)
        return "ran"


def hook(event: type[Any], answer: Callable[[Any], Any]) -> Hook:
    @on(event)
    def it(event: Any) -> Any:
        return answer(event)

    return it


def write(project: Project, name: str = "~/.claude/settings.json", **lists: Any) -> None:
    project.write(name, {"permissions": lists})


def test_a_denied_call_names_the_rule(project: Project) -> None:
    """To the model and to PermissionDenied; the tool does not run, and there is no question."""
    write(project, deny=["Bash(rm *)"])
    loop = Loop(project, answers=("once",))
    (result,) = loop.calls(("Bash", {"command": "ls; rm x"}))
    assert result.is_error and loop.ran == [] and loop.asked == []
    assert result.content == "denied by permissions.deny `Bash(rm *)` (~/.claude/settings.json:4)"
    assert loop.denied == [result.content]


def test_once_session_and_no(project: Project) -> None:
    """Once asks again, session does not, and neither covers another command."""
    loop = Loop(project, answers=("once", "session", "no"))
    assert loop.bash("ls", "ls", "ls", "ls; rm x") == [True, True, True, False]
    assert [one.tool_input["command"] for one in loop.asked] == ["ls", "ls", "ls; rm x"]


def test_no_user_to_ask(project: Project) -> None:
    """`ask` is denied, and the reason explains that no user can be asked."""
    loop = Loop(project)
    assert loop.bash("ls") == [False]
    assert loop.denied == ["Bash needs permission: no rule allows it (no user can be asked)"]


def test_an_untrusted_projects_allow_rules_are_ignored(project: Project) -> None:
    """Ignored, then approved, then changed; its deny rules count from the beginning."""
    write(project, ".claude/settings.json", allow=["Bash(ls *)"], deny=["Bash(rm *)"])
    assert Loop(project).bash("ls", "rm x") == [False, False]
    (waiting,) = project.load().permissions.pending
    approve_rules(waiting, project.root)
    assert Loop(project).bash("ls", "rm x") == [True, False]
    write(project, ".claude/settings.json", allow=["Bash(ls *)", "Bash"], deny=["Bash(rm *)"])
    assert Loop(project).bash("ls", "cp a b", "rm x") == [False, False, False]


def test_a_hooks_allow_never_beats_a_rule(project: Project) -> None:
    """Neither that of PreToolUse nor an answer to PermissionRequest; what no rule is about, they may allow."""
    write(project, ask=["Bash(git push *)"], deny=["Bash(rm *)"])
    for hooks in ([hook(PreToolUse, lambda _: allow())], [hook(PermissionRequest, lambda _: allow())]):
        loop = Loop(project, *hooks, answers=("no",))
        assert loop.bash("ls", "git push", "rm x") == [True, False, False]
        assert len(loop.asked) == 1 and "permissions.ask" in loop.asked[0].reason


def test_a_rewritten_input_is_judged(project: Project) -> None:
    """A harmless command that a hook turns into a denied one is denied."""
    write(project, allow=["Bash(ls *)"], deny=["Bash(rm *)"])
    worse = hook(PreToolUse, lambda _: rewrite(input={"command": "rm x"}))
    assert Loop(project, worse).bash("ls") == [False]


def test_a_hooks_question_is_asked_each_time(project: Project) -> None:
    """Also if a rule allows the call, and after the answer `session`."""
    write(project, allow=["Bash"], defaultMode="bypassPermissions")
    loop = Loop(project, hook(PreToolUse, lambda _: ask("sure?")), answers=("session", "session"))
    assert loop.bash("ls", "ls") == [True, True]
    assert [one.rememberable for one in loop.asked] == [False, False]


@pytest.mark.parametrize(
    ("mode", "ran"),
    [
        ("default", [True, False, False]),
        ("acceptEdits", [True, True, False]),
        ("plan", [True, False, False]),
        ("dontAsk", [True, False, False]),
        ("bypassPermissions", [True, True, True]),
    ],
)
def test_modes(project: Project, mode: str, ran: list[bool]) -> None:
    """Reading, an edit and a command, without a user."""
    loop = Loop(project, mode=mode)
    calls = (("Read", {"file_path": "a"}), ("Write", {"file_path": "a", "content": ""}), ("Bash", {"command": "ls"}))
    assert [not one.is_error for one in loop.calls(*calls)] == ran


def test_dont_ask_asks_no_user(project: Project) -> None:
    """Not the person who is there, nor PermissionRequest hooks."""
    loop = Loop(project, hook(PermissionRequest, lambda _: allow()), answers=("once",), mode="dontAsk")
    assert loop.bash("ls") == [False] and loop.asked == []

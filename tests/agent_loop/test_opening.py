"""An agent put together from a configuration: whose hooks, which mode, which tools, what is shown."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from agent_loop.running import DONE, Project, bash, says, shell, started, tool, unique
from billhook import Hook
from billhook.agent.factory import open_agent, start_over
from billhook.agent.loop import AgentLoop
from billhook.agent.script import ScriptedModel
from billhook.agent.ui_events import SessionStarted, TextDelta, ToolCalled, ToolEnded, TurnEnded, VerdictShown
from billhook.core.errors import BillhookError, UsageError
from billhook.engine.progress import HookFinished, HookStarted
from billhook.session import ToolResult
from cli.terminal import gone


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path)


# -- hooks ----------------------------------------------------------------------------------------------------------


def test_configured_and_own_hooks(project: Project) -> None:
    """The project's approved hooks and the caller's own are asked, by their priorities."""
    hooks = {
        name: {"events": "PreToolUse", "run": f"echo {name} >> order", "priority": priority}
        for name, priority in (("early", 50), ("late", 150))
    }
    project.write("hooks.yaml", json.dumps({"hooks": hooks}))
    project.approve()
    project.run([bash("true"), DONE], shell("PreToolUse", "echo own >> order"))
    assert (project.folder / "order").read_text().split() == ["early", "own", "late"]


def test_unapproved_hooks(project: Project) -> None:
    """A project's hooks do not run before the user has approved them."""
    project.write("hooks.yaml", "hooks: {mark: {events: PreToolUse, run: touch marked}}\n")
    project.run([bash("true"), DONE])
    assert not (project.folder / "marked").exists()
    project.approve()
    project.run([bash("true"), DONE])
    assert (project.folder / "marked").exists()


def test_the_name_of_a_built_in(project: Project) -> None:
    """A hook of one's own can't take it."""
    with pytest.raises(UsageError, match="built-in"):
        project.run([DONE], says("Stop", {}, name="turn-tracker"))


def test_the_agent_does_not_disarm_its_guards(project: Project) -> None:
    """Writing the project's hooks needs the user's permission, and is denied without a user, in every mode."""
    project.write("hooks.yaml", "hooks: {no-rm: {events: PreToolUse, if: 'Bash(rm *)', deny: no rm, gate: true}}\n")
    project.approve()
    ran = project.run([tool("Write", file_path="hooks.yaml", content=""), bash("rm x"), DONE])
    assert [result.is_error for result in ran.results] == [True, True]
    assert ran.results[1].content == "no rm"


def test_names_of_tools(project: Project) -> None:
    """A hook sees the canonical name, whatever the model calls the tool; a lesson's hook sees the seed's."""
    project.write(".hooks.json", json.dumps({"hooks": {"PreToolUse": [{"command": "echo $HOOK_TOOL_NAME >> names"}]}}))
    project.approve()
    turns = [
        tool("bash", command="true"),
        tool("Bash", command="true"),
        tool("write_file", path="a", content="b"),
        DONE,
    ]
    ran = project.run(turns)
    assert [event["tool_name"] for event in ran.of("PreToolUse")] == ["Bash", "Bash", "Write"]
    assert (project.folder / "names").read_text().split() == ["bash", "bash", "write_file"]


# -- permissions ----------------------------------------------------------------------------------------------------


def test_the_mode_of_the_settings(project: Project) -> None:
    """Without an explicit mode the settings decide."""
    file = project.write("mine.json", json.dumps({"permissions": {"defaultMode": "acceptEdits"}}))
    ran = project.run([DONE], permission_mode=None, config=project.config(files=[file]))
    assert ran.of("SessionStart")[0]["permission_mode"] == "acceptEdits"


def test_rules_of_a_project(project: Project) -> None:
    """Its deny rules count at once, its allow rules only when they were approved."""
    rules = {"permissions": {"allow": ["Bash"], "deny": ["Read(secret)"]}}
    project.write(".claude/settings.json", json.dumps(rules))
    project.write("secret", "42")
    ran = project.run([bash("true"), tool("Read", file_path="secret"), DONE], permission_mode="default")
    assert [result.is_error for result in ran.results] == [True, True]
    assert "Read(secret)" in ran.results[1].content


def test_rules_that_can_not_be_read(project: Project) -> None:
    """With an invalid rule that may deny something, nothing starts, and the message has its place."""
    project.write(".claude/settings.json", json.dumps({"permissions": ["deny Bash"]}))
    with pytest.raises(BillhookError) as caught:
        project.run([DONE])
    assert "settings.json" in caught.value.place


def test_an_unknown_mode(project: Project) -> None:
    """It is refused before anything starts, with the nearest one."""
    with pytest.raises(UsageError) as caught:
        project.run([DONE], permission_mode="acceptEdit")
    assert "acceptEdits" in caught.value.hint


# -- the folder -----------------------------------------------------------------------------------------------------


def test_a_folder_that_is_not_there(project: Project) -> None:
    """Nothing starts: no SessionStart without an agent."""

    async def main() -> None:
        async with open_agent(project.config(), ScriptedModel([]), cwd=str(project.folder / "gone"), show=seen.append):
            pass

    seen: list[Any] = []
    with pytest.raises(BillhookError, match="is not a folder"):
        asyncio.run(main())
    assert seen == []


def test_cancelled_before_it_is_open(project: Project) -> None:
    """An interrupt while a hook runs at SessionStart: the hook is ended, and SessionEnd is fired."""
    tag, heard = unique(), list[str]()
    ears = Hook(name="ears", run=lambda ctx: heard.append(ctx.event.hook_event_name), events=(), priority=-1)

    async def main() -> None:
        hooks = [ears, shell("SessionStart", f"sleep {tag}")]
        opened = open_agent(project.config(), ScriptedModel([]), cwd=str(project.folder), show=heard_not, hooks=hooks)
        opening = asyncio.ensure_future(opened.__aenter__())
        await started(tag)
        opening.cancel()
        await asyncio.wait([opening])
        assert opening.cancelled()

    asyncio.run(main())
    assert heard == ["SessionStart", "SessionEnd"] and gone(tag, 5)


def heard_not(event: Any) -> None:
    """No reader."""


def test_the_folder_is_kept(project: Project) -> None:
    """`cd` lasts for the agent, hooks are told where it is, and a subagent begins there."""
    script = {
        "turns": [
            bash("mkdir sub; cd sub"),
            bash("pwd"),
            tool("Task", description="look", prompt="look", subagent_type="scout"),
            DONE,
        ],
        "agents": {"scout": [bash("pwd"), DONE]},
    }
    ran = project.run(script)
    sub = str(project.folder / "sub")
    assert ran.results[1].content == sub
    assert [event["cwd"] for event in ran.of("PreToolUse")] == [str(project.folder), sub, sub, sub]
    scout = [block for block in ran.requests[-2].messages[-1].content if isinstance(block, ToolResult)]
    assert [result.content for result in scout] == [sub]


def test_files_outside(project: Project, tmp_path: Path) -> None:
    """Paths are kept inside the workspace, through links too, in every mode."""
    (tmp_path / "secret").write_text("42")
    (project.folder / "link").symlink_to(tmp_path)
    turns = [tool("Read", file_path=path) for path in ("../secret", "link/secret", str(tmp_path / "secret"))]
    ran = project.run([*turns, DONE])
    assert all(result.is_error and "outside the workspace" in result.content for result in ran.results)


# -- what is shown --------------------------------------------------------------------------------------------------


def test_what_is_shown(project: Project) -> None:
    """Everything that happens comes to one listener, in order: the session, hooks, verdicts, tools, the model."""
    ran = project.run([bash("echo hi"), {"text": "all done"}], shell("PreToolUse", "true", match="Bash"))
    (begun,) = [one for one in ran.shown if isinstance(one, SessionStarted)]
    assert (begun.model, begun.cwd, begun.source) == ("scripted", str(project.folder), "startup")
    assert begun.session_name, "a session has a name"
    kinds = [type(one) for one in ran.shown if isinstance(one, ToolCalled | ToolEnded)]
    assert kinds == [ToolCalled, ToolEnded]
    asked = [one for one in ran.shown if isinstance(one, HookStarted | HookFinished) and one.hook == "script"]
    assert [type(one) for one in asked] == [HookStarted, HookFinished]
    judged = [one.verdict["event"] for one in ran.shown if isinstance(one, VerdictShown)]
    assert judged == ran.names
    assert "".join(one.text for one in ran.shown if isinstance(one, TextDelta)) == "all done"


def test_usage_adds_up(project: Project) -> None:
    """A turn's end has the total cost so far, including the summary."""
    ran = project.run([bash("head -c 8000 /dev/zero | tr '\\0' x"), DONE], budget=1000)
    one = project.run([DONE])
    assert ran.ended.usage.input_tokens > 3 * one.ended.usage.input_tokens > 0


def test_the_log_has_the_run(project: Project) -> None:
    """Every event is in the event log, in order."""
    ran = project.run([bash("true"), DONE])
    (log,) = project.root.glob("hooks/*/hooks.jsonl")
    logged = [json.loads(line) for line in log.read_text().splitlines()]
    assert [line["event"] for line in logged] == ran.names
    assert {line["session_id"] for line in logged} == {ran.session_id}


# -- starting over ---------------------------------------------------------------------------------------------------


def test_start_over(project: Project) -> None:
    """Another session with a new transcript: no messages, no permissions, no running tasks."""
    asked: list[str] = []
    tag = unique()

    def ask(question: Any) -> str:
        asked.append(question.tool_input["command"])
        return "session"

    async def drive(agent: AgentLoop) -> TurnEnded:
        await agent.turn("the first")
        await started(tag)
        await start_over(agent, project.config())
        assert gone(tag, 5)
        return await agent.turn("two")

    turns = [bash("true"), bash(f"sleep {tag}", run_in_background=True), DONE, bash("true"), DONE]
    ran = project.drive(turns, drive, ask=ask, permission_mode="default")
    assert asked == ["true", f"sleep {tag}", "true"]
    before, after = [one for one in ran.shown if isinstance(one, SessionStarted)]
    assert (before.session_id != after.session_id, after.source) == (True, "clear")
    assert before.transcript_path != after.transcript_path and Path(after.transcript_path).exists()
    assert "the first" not in Path(after.transcript_path).read_text()
    at = ran.names.index("SessionEnd")
    assert ran.names[at : at + 3] == ["SessionEnd", "SessionStart", "UserPromptSubmit"]
    assert {event["session_id"] for event in ran.events[at + 1 :]} == {after.session_id}

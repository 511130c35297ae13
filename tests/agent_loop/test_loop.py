"""The loop itself: prompts, tools, the end of a turn and of a session."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from agent_loop.running import DONE, ExpectedError, Project, bash, says, shell, specific, started, tool, unique
from billhook import Answer, Hook
from billhook.agent.conversation import INTERRUPTED, Message, Text, ToolUse, assistant, user
from billhook.agent.loop import AgentLoop
from billhook.agent.models import Completion, ModelRequest, TextSink
from billhook.agent.ui_events import TurnEnded
from billhook.session import ToolResult
from cli.terminal import gone


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path)


# -- the prompt -----------------------------------------------------------------------------------------------------


def test_a_run_in_order(project: Project) -> None:
    """The events of a run with one tool."""
    ran = project.run([bash("echo hi"), DONE])
    assert ran.names == [
        "SessionStart",
        "UserPromptSubmit",
        "PreToolUse",
        "PostToolUse",
        "PostToolBatch",
        "Stop",
        "SessionEnd",
    ]
    assert (ran.ended.how, ran.ended.text) == ("done", "done")


def test_a_prompt_that_a_hook_blocks(project: Project) -> None:
    """The model never sees it; the reason is for the person, and the next prompt is a new one."""

    async def drive(agent: AgentLoop) -> list[TurnEnded]:
        return [await agent.turn("the password is x"), await agent.turn("hello")]

    no_passwords = Hook(
        name="no-passwords",
        run=lambda ctx: (
            {"decision": "block", "reason": "no passwords"} if "password" in ctx.payload["prompt"] else None
        ),
        events=("UserPromptSubmit",),
        dialect="spec",
    )
    ran = project.drive([DONE], drive, no_passwords)
    assert [(ended.how, ended.text) for ended in ran.returned] == [("blocked", "no passwords"), ("done", "done")]
    assert [request.messages for request in ran.requests] == [(user("hello"),)]
    assert "password" not in ran.transcript.read_text()


def test_context_of_a_prompt(project: Project) -> None:
    """What a command prints at UserPromptSubmit is at the end of the system message."""
    ran = project.run([bash("true"), DONE], shell("UserPromptSubmit", "echo the branch is main"))
    assert ran.added == ["the branch is main", ""]


def test_context_waits_for_a_model_that_answers(project: Project) -> None:
    """A call that fails or is interrupted has not delivered it: the next call contains it again."""

    async def drive(agent: AgentLoop) -> TurnEnded:
        await agent.turn("one")
        return await agent.turn("two")

    ran = project.drive([{"error": "overloaded"}, DONE], drive, says("SessionStart", {"systemMessage": "house rule"}))
    assert ran.added == ["house rule", "house rule"]


# -- tools ----------------------------------------------------------------------------------------------------------


def test_several_tools_of_one_reply(project: Project) -> None:
    """They run in turn, their results come in one message, and PostToolBatch has them all."""
    three = {
        "tools": [
            {"name": "Bash", "input": {"command": "mkdir -p sub; cd sub"}, "id": "a"},
            {"name": "Bash", "input": {"command": "exit 3"}, "id": "b"},
            {"name": "bash", "input": {"command": "pwd"}, "id": "c"},
        ]
    }
    ran = project.run([three, DONE])
    assert ran.requests[1].messages[-1] == user(
        ToolResult("a", "(no output)"),
        ToolResult("b", "exit code 3", True),
        ToolResult("c", str(project.folder / "sub")),
    )
    (batch,) = ran.of("PostToolBatch")
    assert [(call["tool_use_id"], call["tool_name"]) for call in batch["tool_calls"]] == [
        ("a", "Bash"),
        ("b", "Bash"),
        ("c", "Bash"),
    ]
    assert batch["tool_calls"][2]["tool_response"] == str(project.folder / "sub")
    assert batch["cwd"] == str(project.folder / "sub"), "where the agent is now"


def test_an_unknown_tool(project: Project) -> None:
    """The model gets the list of tools; no hook runs for an unknown tool."""
    ran = project.run([tool("Fly", to="moon"), DONE])
    assert ran.results[0].is_error and ran.results[0].content.startswith("no tool `Fly`; the tools are Bash, ")
    assert "PreToolUse" not in ran.names and ran.ended.how == "done"


class Repeating:
    """A model that gives all its calls the same id, or none; it is done after so many."""

    name = "repeating"

    def __init__(self, wanted: str, times: int) -> None:
        self.wanted, self.left = wanted, times
        self.requests: list[ModelRequest] = []

    async def complete(self, request: ModelRequest, say: TextSink) -> Completion:
        self.requests.append(request)
        if not request.tools or not self.left:
            return Completion(assistant("done"))
        self.left -= 1
        twice = [ToolUse(self.wanted, "Bash", {"command": f"echo {self.left}{half}"}) for half in "ab"]
        return Completion(assistant(*twice))

    async def close(self) -> None:
        """Nothing is open."""


@pytest.mark.parametrize("wanted", ["call_0", ""], ids=["the same id", "no id"])
@pytest.mark.parametrize("budget", [150_000, 1], ids=["", "also after a compaction"])
def test_duplicate_tool_use_ids(wanted: str, budget: int, project: Project) -> None:
    """Each call has an id of its own and exactly one result, however careless the model is."""
    ran = project.run(Repeating(wanted, 2), budget=budget)
    assert ran.ended.how == "done"
    assert [event["tool_response"] for event in ran.of("PostToolUse")] == ["1a", "1b", "0a", "0b"]
    assert len({event["tool_use_id"] for event in ran.of("PreToolUse")}) == 4
    reported = [block for line in ran.lines if line["type"] == "message" for block in line["content"]]
    used = [block["id"] for block in reported if block["type"] == "tool_use"]
    assert (
        used == [block["tool_use_id"] for block in reported if block["type"] == "tool_result"] and len(set(used)) == 4
    )


def test_duplicate_ids_after_clear(project: Project) -> None:
    """A session that started over still counts its earlier ids as used."""
    from billhook.agent.factory import start_over

    async def drive(agent: AgentLoop) -> list[TurnEnded]:
        first = await agent.turn("one")
        await start_over(agent, project.config())
        agent.model.left = 1  # type: ignore[attr-defined]
        return [first, await agent.turn("two")]

    ran = project.drive(Repeating("call_0", 1), drive)
    assert [ended.how for ended in ran.returned] == ["done", "done"]


def test_a_hook_stops_between_tools(project: Project) -> None:
    """The tool that ran keeps its result, later ones are not run and report why; the model is not called again."""
    two = {"tools": [{"name": "Bash", "input": {"command": f"touch {name}"}, "id": name} for name in ("a", "b")]}
    ran = project.run([two, DONE], says("PostToolUse", {"continue": False, "stopReason": "enough"}))
    assert (ran.ended.how, ran.ended.text, len(ran.requests)) == ("stopped", "enough", 1)
    assert ran.agent is not None
    assert ran.agent.messages[-1] == user(ToolResult("a", "(no output)"), ToolResult("b", "not run: enough", True))
    assert not (project.folder / "b").exists()


def test_a_block_at_the_end_of_a_batch(project: Project) -> None:
    """PostToolBatch: a block ends the loop before the model is asked again."""
    ran = project.run([bash("true"), DONE], says("PostToolBatch", {"decision": "block", "reason": "look at this"}))
    assert (ran.ended.how, ran.ended.text, len(ran.requests)) == ("stopped", "look at this", 1)


EVERYTHING = {
    "turns": [
        bash("head -c 8000 /dev/zero | tr '\\0' x"),
        tool("Read", file_path="missing"),
        tool("Task", description="look", prompt="look", subagent_type="scout"),
        bash("true", run_in_background=True),
        DONE,
    ],
    "agents": {"scout": [{"text": "found"}]},
}


@pytest.mark.parametrize(
    "event",
    [
        "Setup",
        "SessionStart",
        "UserPromptSubmit",
        "PreToolUse",
        "PermissionRequest",
        "Notification",
        "PostToolUse",
        "PostToolUseFailure",
        "PostToolBatch",
        "SubagentStart",
        "SubagentStop",
        "PreCompact",
        "PostCompact",
        "TaskCreated",
        "TaskCompleted",
        "Stop",
    ],
)
def test_a_stop_anywhere(event: str, project: Project) -> None:
    """A stop ends the run with its reason at every event; each call has one result, SessionEnd is fired."""
    ran = project.run(
        EVERYTHING,
        says(event, Answer(stop=True, stop_reason="halt")),
        setup="init",
        permission_mode="default",
        ask=lambda question: True,
        budget=1500,
    )
    assert (ran.ended.how, ran.ended.text) == ("stopped", "halt")
    assert ran.names.count(event) == 1 and ran.names[-1] == "SessionEnd"
    assert ran.agent is not None
    blocks = [block for message in ran.agent.messages for block in message.content]
    used = [block.id for block in blocks if isinstance(block, ToolUse)]
    assert used == [block.tool_use_id for block in blocks if isinstance(block, ToolResult)]
    at = len(ran.names) if event == "TaskCompleted" else ran.names.index(event)  # a task runs beside the rest
    assert not {"UserPromptSubmit", "PreToolUse", "PermissionRequest", "Stop"} & set(ran.names[at + 1 :])


def test_a_call_that_is_deferred(project: Project) -> None:
    """It does not run, and the turn ends: the decision comes later."""
    answer = specific("PreToolUse", permissionDecision="defer", permissionDecisionReason="ask me tomorrow")
    ran = project.run([bash("touch made"), DONE], says("PreToolUse", answer, dialect="claude"))
    assert (ran.ended.how, ran.ended.text, len(ran.requests)) == ("stopped", "ask me tomorrow", 1)
    assert not (project.folder / "made").exists() and ran.lines[-1]["content"][0]["is_error"] is True


def test_a_hook_that_objects_afterwards(project: Project) -> None:
    """A block at PostToolUse can't undo the tool: the model gets the output, and the objection beside it."""
    ran = project.run([bash("echo out"), DONE], says("PostToolUse", {"decision": "block", "reason": "lint failed"}))
    assert ran.results == [ToolResult("toolu_0001", "out")]
    assert ran.added == ["", "lint failed"]


def test_a_gate_that_fails_afterwards(project: Project) -> None:
    """A gate that fails after the tool marks its result as an error, with the name of the hook."""
    ran = project.run([bash("echo out"), DONE], shell("PostToolUse", "exit 7", on_failure="deny", name="audit"))
    assert ran.results[0].is_error and ran.results[0].content.startswith("out\n\nhook `audit` failed")


def test_a_deny_leaves_the_model_a_way(project: Project) -> None:
    """It sees the reason and does something else, in the same turn."""
    guard = shell(
        "PreToolUse",
        'grep -q "rm -rf" && { echo "use trash instead" >&2; exit 2; }; exit 0',
        match="Bash",
        name="guard",
    )
    ran = project.run([bash("rm -rf build"), bash("echo trashed"), DONE], guard)
    assert ran.results == [ToolResult("toolu_0001", "use trash instead", True), ToolResult("toolu_0002", "trashed")]
    assert [event["tool_input"]["command"] for event in ran.of("PostToolUse")] == ["echo trashed"]


# -- the end of a turn ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "hook",
    [
        pytest.param(says("Stop", {"continue": True, "reason": "test it"}), id="continue: true"),
        pytest.param(says("Stop", {"decision": "block", "reason": "test it"}), id="decision: block"),
        pytest.param(shell("Stop", "echo test it >&2; exit 2"), id="exit code 2"),
    ],
)
def test_stop_goes_on(hook: Hook, project: Project) -> None:
    """Every way to keep the agent going: the reason is the model's next message, until it is enough."""
    ran = project.run([{"text": str(number)} for number in range(20)], hook)
    assert ran.requests[1].messages[-2:] == (assistant("0"), user("test it"))
    assert (len(ran.requests), ran.ended.how) == (9, "done")
    assert [event["stop_hook_active"] for event in ran.of("Stop")] == [False] + [True] * 8
    assert [event["last_assistant_message"] for event in ran.of("Stop")] == [str(number) for number in range(9)]


def test_the_cap_is_for_each_turn(project: Project) -> None:
    """A new prompt resets the count."""

    async def drive(agent: AgentLoop) -> int:
        await agent.turn("one")
        await agent.turn("two")
        return len(agent.model.requests)  # type: ignore[attr-defined]

    ran = project.drive([], drive, says("Stop", {"continue": True}))
    assert ran.returned == 18


@pytest.mark.parametrize("kind", ["overloaded", "rate_limit", "authentication_failed", "server_error"])
def test_a_model_that_fails(kind: str, project: Project) -> None:
    """StopFailure has the kind of error; the run ends as failed, and the session ends as always."""
    ran = project.run([bash("true"), {"error": {"kind": kind, "message": "try later"}}])
    assert (ran.ended.how, ran.ended.text) == ("failed", "try later")
    assert ran.names[-2:] == ["StopFailure", "SessionEnd"] and "Stop" not in ran.names
    assert (ran.of("StopFailure")[0]["error"], ran.of("StopFailure")[0]["last_assistant_message"]) == (
        kind,
        "try later",
    )


def test_a_turn_after_a_failure(project: Project) -> None:
    """The conversation goes on with the next prompt."""

    async def drive(agent: AgentLoop) -> list[str]:
        return [(await agent.turn(prompt)).how for prompt in ("one", "two")]

    assert project.drive([{"error": "overloaded"}, DONE], drive).returned == ["failed", "done"]


# -- the session ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("trigger", ["init", "maintenance"])
def test_setup(trigger: Any, project: Project) -> None:
    """Setup comes before SessionStart, and its context is in the first system message."""
    ran = project.run([DONE], says("Setup", {"systemMessage": f"{trigger} done"}), setup=trigger)
    assert ran.names[:2] == ["Setup", "SessionStart"]
    assert (ran.of("Setup")[0]["trigger"], ran.added[0]) == (trigger, f"{trigger} done")


def test_sources_of_a_session(project: Project) -> None:
    """SessionStart has the source startup, resume, clear or compact."""
    from billhook.agent.factory import start_over

    async def drive(agent: AgentLoop) -> str:
        await agent.turn("one")
        first = agent.session.id
        await agent.compact("manual")
        await start_over(agent, project.config())
        assert (agent.messages, agent.session.id != first) == ([], True)
        await agent.turn("two")
        return first

    ran = project.drive([DONE, DONE], drive)
    assert [event["source"] for event in ran.of("SessionStart")] == ["startup", "compact", "clear"]
    assert [event["reason"] for event in ran.of("SessionEnd")] == ["clear", "other"]
    again = project.run([DONE], resume=ran.returned)
    assert [event["source"] for event in again.of("SessionStart")] == ["resume"]
    assert {event["session_id"] for event in again.events} == {ran.returned}


def test_session_end_after_an_error(project: Project) -> None:
    """Whatever breaks inside, SessionEnd is fired, once."""

    async def drive(agent: AgentLoop) -> None:
        await agent.turn("one")
        raise ExpectedError

    ran = project.drive([DONE], drive)
    assert (
        isinstance(ran.raised, ExpectedError) and ran.names.count("SessionEnd") == 1 and ran.names[-1] == "SessionEnd"
    )


def test_cancelled_in_a_tool(project: Project) -> None:
    """The tool is ended, hooks hear of the interrupt, the call has a result, SessionEnd is fired; nothing is left."""
    tag = unique()

    async def drive(agent: AgentLoop) -> None:
        work = asyncio.ensure_future(agent.run("sleep"))
        await started(tag)
        work.cancel()
        await work

    ran = project.drive([bash(f"sleep {tag}"), DONE], drive)
    assert isinstance(ran.raised, asyncio.CancelledError)
    assert ran.names[-2:] == ["PostToolUseFailure", "SessionEnd"]
    assert ran.of("PostToolUseFailure")[0]["is_interrupt"] is True
    assert ran.lines[-1]["content"] == [
        {"type": "tool_result", "tool_use_id": "toolu_0001", "content": INTERRUPTED, "is_error": True}
    ]
    assert gone(tag, 5)


def test_cancelled_in_a_hook(project: Project) -> None:
    """A turn that is interrupted while a hook runs ends the hook, too, and the next turn works."""
    tag = unique()

    async def drive(agent: AgentLoop) -> TurnEnded:
        work = asyncio.ensure_future(agent.turn("one"))
        await started(tag)
        work.cancel()
        await asyncio.wait([work])
        return await agent.turn("two")

    hang = shell("PreToolUse", f"sleep {tag}", match="Bash")
    ran = project.drive([bash("true"), DONE], drive, hang)
    assert ran.ended.how == "done"
    assert [block for message in ran.requests[1].messages for block in message.content] == [
        Text("one"),
        ToolUse("toolu_0001", "Bash", {"command": "true"}),
        ToolResult("toolu_0001", INTERRUPTED, True),
        Text("two"),
    ]
    assert gone(tag, 5)


def test_a_run_that_is_stopped_at_its_start(project: Project) -> None:
    """A hook that stops at SessionStart: no prompt is submitted, no model asked."""
    ran = project.run([DONE], says("SessionStart", {"continue": False, "stopReason": "closed today"}))
    assert (ran.ended.how, ran.ended.text, ran.names) == ("stopped", "closed today", ["SessionStart", "SessionEnd"])


def test_a_stopped_run_goes_on_with_the_next_prompt(project: Project) -> None:
    """In a chat a stop ends the turn; the person may go on."""

    async def drive(agent: AgentLoop) -> list[str]:
        return [(await agent.turn(prompt)).how for prompt in ("one", "two")]

    once = Hook(
        name="once",
        run=lambda ctx: {"continue": False} if ctx.payload["tool_input"]["command"] == "true" else None,
        events=("PreToolUse",),
        dialect="spec",
    )
    ran = project.drive([bash("true"), bash("echo fine"), DONE], drive, once)
    assert ran.returned == ["stopped", "done"]


def test_messages_alternate(project: Project) -> None:
    """What the model receives is a conversation: a prompt, its own reply, the results, its reply."""
    ran = project.run([bash("true"), {"text": "now this", **bash("true")}, DONE])
    messages: tuple[Message, ...] = ran.requests[-1].messages
    assert [message.role for message in messages] == ["user", "assistant", "user", "assistant", "user"]

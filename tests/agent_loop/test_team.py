"""What runs inside and beside the conversation: subagents, background tasks, teammates."""

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agent_loop.running import DONE, Project, bash, says, shell, started, tool, unique
from billhook import Hook
from billhook.agent.conversation import Usage, user
from billhook.agent.loop import AgentLoop
from billhook.agent.models import Completion, ModelRequest, TextSink
from billhook.agent.script import ScriptedModel
from billhook.agent.ui_events import TurnEnded
from billhook.session import ToolResult
from cli.terminal import gone

ASK_SCOUT = tool("Task", description="look", prompt="look around", subagent_type="scout")
HIRE = tool("Task", description="test", prompt="test it", name="tester")


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path)


def scouting(*turns: dict[str, Any]) -> dict[str, Any]:
    """A script in which a subagent does something."""
    return {"turns": [ASK_SCOUT, DONE], "agents": {"scout": list(turns)}}


def team(*turns: dict[str, Any], after: tuple[dict[str, Any], ...] = ()) -> dict[str, Any]:
    """A script in which a teammate does something."""
    return {"turns": [HIRE, *after, DONE], "agents": {"tester": list(turns)}}


def when(event: str, condition: Callable[[dict[str, Any]], bool], answer: dict[str, Any]) -> Hook:
    """A hook that answers some events."""
    return Hook(
        name="guard", run=lambda ctx: answer if condition(ctx.payload) else None, events=(event,), dialect="spec"
    )


def inside(event: dict[str, Any]) -> bool:
    return "agent_id" in event


def test_the_usage_includes_all_agents(project: Project) -> None:
    """Subagents, teammates, what runs in the background, and summaries: each call of the model counts once."""
    script = {
        "turns": [ASK_SCOUT, HIRE, tool("Task", description="d", prompt="p", run_in_background=True), DONE],
        "agents": {
            "scout": [bash("echo inside"), DONE],
            "tester": [bash("sleep 0.2"), {"text": "tested"}],
            "general-purpose": [{"text": "behind"}],
        },
    }
    counting = _Counting(script)
    ran = project.run(counting, budget=50)
    assert {"Summary", "tested", "behind"} <= {text.split()[0] for text in counting.reported if text}
    assert ran.ended.usage == counting.usage


class _Counting(ScriptedModel):
    """A script that counts what it gives."""

    def __init__(self, script: Any) -> None:
        super().__init__(script)
        self.usage, self.reported = Usage(), list[str]()

    async def complete(self, request: ModelRequest, say: TextSink) -> Completion:
        done = await super().complete(request, say)
        self.usage += done.usage
        self.reported.append(done.message.text)
        return done


# -- subagents ------------------------------------------------------------------------------------------------------


def test_a_subagent(project: Project) -> None:
    """It works in a session inside the session: between SubagentStart and SubagentStop all events name it."""
    ran = project.run(scouting(bash("echo inside"), {"text": "found it"}))
    assert [(name, inside(event)) for name, event in zip(ran.names, ran.events, strict=True)] == [
        ("SessionStart", False),
        ("UserPromptSubmit", False),
        ("PreToolUse", False),
        ("SubagentStart", True),
        ("PreToolUse", True),
        ("PostToolUse", True),
        ("PostToolBatch", True),
        ("SubagentStop", True),
        ("PostToolUse", False),
        ("PostToolBatch", False),
        ("Stop", False),
        ("SessionEnd", False),
    ]
    nested = [event for event in ran.events if inside(event)]
    assert len({event["agent_id"] for event in nested}) == 1
    assert {event["agent_type"] for event in nested} == {"scout"}
    assert {event["session_id"] for event in ran.events} == {ran.session_id}
    assert ran.results[-1] == ToolResult("toolu_0001", "found it")


def test_a_subagents_conversation_and_transcript(project: Project) -> None:
    """It knows only its prompt, and has a transcript of its own, which SubagentStop names."""
    ran = project.run(scouting(bash("echo inside"), {"text": "found it"}))
    assert [request.agent for request in ran.requests] == ["main", "scout", "scout", "main"]
    assert ran.requests[1].messages == (user("look around"),)
    (stopped,) = ran.of("SubagentStop")
    own = Path(stopped["agent_transcript_path"])
    assert stopped["transcript_path"] == str(ran.transcript) != str(own)
    lines = [json.loads(line) for line in own.read_text().splitlines()]
    assert [line["role"] for line in lines] == ["user", "assistant", "user", "assistant"]
    assert "inside" not in ran.transcript.read_text() and "found it" in ran.transcript.read_text()


def test_a_subagent_does_not_delegate(project: Project) -> None:
    """One level is enough: it has no tool for it."""
    ran = project.run(scouting({"text": "found it"}))
    main, scout = ({spec.name for spec in request.tools} for request in ran.requests[:2])
    assert main - scout == {"Task", "SendMessage"}


def test_hooks_can_not_be_bypassed_by_a_subagent(project: Project) -> None:
    """The same hooks judge its tools; it gets the reason, its parent what it makes of it."""
    no_rm = shell("PreToolUse", 'grep -q "rm " && { echo no rm >&2; exit 2; }; exit 0', match="Bash")
    ran = project.run(scouting(bash("rm -f README"), {"text": "I may not"}), no_rm)
    assert ran.requests[2].messages[-1] == user(ToolResult("toolu_0002", "no rm", True))
    assert ran.results[-1].content == "I may not"


def test_permissions_inside_a_subagent(project: Project) -> None:
    """It asks the same person under the same rules, and an answer for the session counts for both."""
    asked: list[str] = []

    def ask(question: Any) -> str:
        asked.append(question.tool_input["command"])
        return "session"

    script = {"turns": [bash("true"), ASK_SCOUT, DONE], "agents": {"scout": [bash("true"), bash("false"), DONE]}}
    project.run(script, permission_mode="default", ask=ask)
    assert asked == ["true", "false"]


def test_a_stop_inside_a_subagent(project: Project) -> None:
    """A hook that stops a subagent stops the run, with its reason."""
    stop = when("PreToolUse", inside, {"continue": False, "stopReason": "too deep"})
    ran = project.run(scouting(bash("touch made"), {"text": "never reached"}), stop)
    assert (ran.ended.how, ran.ended.text, len(ran.requests)) == ("stopped", "too deep", 2)
    assert ran.names[-4:] == ["SubagentStop", "PostToolUseFailure", "PostToolBatch", "SessionEnd"]
    assert not (project.folder / "made").exists()


def test_a_stop_at_the_start_of_a_subagent(project: Project) -> None:
    """It does nothing at all, and the run ends."""
    stop = says("SubagentStart", {"continue": False, "stopReason": "no helpers"})
    ran = project.run(scouting({"text": "never reached"}), stop)
    assert (ran.ended.how, ran.ended.text, len(ran.requests)) == ("stopped", "no helpers", 1)
    assert len(ran.of("SubagentStop")) == 1


@pytest.mark.parametrize(
    ("given", "content"),
    [
        pytest.param({"prompt": "look"}, "`description` is missing: it must be a string", id="no description"),
        pytest.param({"description": "look"}, "`prompt` is missing: it must be a string", id="no prompt"),
        pytest.param(
            {"description": "look", "prompt": ["a"]}, "`prompt` must be a string, not a list", id="a wrong prompt"
        ),
    ],
)
def test_a_subagent_without_a_task(given: dict[str, Any], content: str, project: Project) -> None:
    """Nothing is started, and the model is told what is wrong."""
    ran = project.run([tool("Task", **given), DONE])
    assert ran.results == [ToolResult("toolu_0001", content, True)] and "SubagentStart" not in ran.names


def test_subagent_stop_goes_on(project: Project) -> None:
    """SubagentStop: a hook keeps it going with its reason, and `stop_hook_active` is true then."""
    outputs: list[dict[str, Any]] = [{"continue": True, "reason": "look again"}, {}]
    hook = Hook(name="more", run=lambda ctx: outputs.pop(0), events=("SubagentStop",), dialect="spec")
    ran = project.run(scouting({"text": "nothing"}, {"text": "found it"}), hook)
    assert ran.requests[2].messages[-1] == user("look again")
    assert [event["stop_hook_active"] for event in ran.of("SubagentStop")] == [False, True]
    assert ran.results[-1].content == "found it"


def test_subagent_stop_has_a_cap(project: Project) -> None:
    """8 times in a row are enough for a subagent, too; the hook is named."""
    ran = project.run(scouting(), says("SubagentStop", {"continue": True}, name="greedy"))
    assert len(ran.of("SubagentStop")) == 9 and ran.ended.how == "done"
    assert ran.notices == ["`greedy` kept the agent going 8 times in a row; it stops now"]


def test_a_subagent_whose_model_fails(project: Project) -> None:
    """StopFailure and SubagentStop name it; its parent gets an error and goes on."""
    ran = project.run(scouting({"error": {"kind": "overloaded", "message": "try later"}}))
    (failure,) = ran.of("StopFailure")
    assert (failure["agent_type"], failure["error"]) == ("scout", "overloaded")
    assert len(ran.of("SubagentStop")) == 1
    assert (ran.results[-1], ran.ended.how) == (
        ToolResult("toolu_0001", "the subagent failed: try later", True),
        "done",
    )


def test_a_subagent_that_is_interrupted(project: Project) -> None:
    """SubagentStart has its SubagentStop, also when the turn is cancelled in the middle."""
    tag = unique()

    async def drive(agent: AgentLoop) -> None:
        work = asyncio.ensure_future(agent.run("go"))
        await started(tag)
        work.cancel()
        await work

    ran = project.drive(scouting(bash(f"sleep {tag}")), drive)
    assert ran.names[-4:] == ["PostToolUseFailure", "SubagentStop", "PostToolUseFailure", "SessionEnd"]
    assert gone(tag, 5)


# -- background tasks -----------------------------------------------------------------------------------------------


def test_a_command_in_the_background(project: Project) -> None:
    """TaskCreated, the model goes on at once, TaskCompleted; TaskOutput waits, and the next call is told, too."""
    turns = [
        bash("until [ -e go ]; do sleep 0.02; done; echo built", run_in_background=True, description="build"),
        bash("touch go"),
        tool("TaskOutput", task_id="task_1", wait=10),
        DONE,
    ]
    ran = project.run(turns)
    assert ran.results[0].content == "started as task_1; TaskOutput waits for it"
    assert ran.results[2].content == "task_1 is done\nbuilt"
    (created,), (completed,) = ran.of("TaskCreated"), ran.of("TaskCompleted")
    assert created["task_id"] == completed["task_id"] == "task_1" and completed["task_subject"] == "build"
    assert "echo built" in completed["task_description"] and "teammate_name" not in completed
    assert "Background task task_1 (build) is done:\nbuilt" in ran.added
    assert ran.tasks == [("task_1", "started"), ("task_1", "done")]


def test_a_run_waits_for_its_tasks(project: Project) -> None:
    """A run is over when what it started is: a command, and a subagent."""
    script = {
        "turns": [
            bash("sleep 0.3; touch made", run_in_background=True),
            tool("Task", description="look", prompt="look", subagent_type="scout", run_in_background=True),
            DONE,
        ],
        "agents": {"scout": [bash("touch seen"), {"text": "found it"}]},
    }
    ran = project.run(script)
    assert (project.folder / "made").exists() and (project.folder / "seen").exists()
    assert ran.names[-1] == "SessionEnd" and len(ran.of("TaskCompleted")) == 2
    assert ran.names.index("SubagentStart") < ran.names.index("SubagentStop")


def test_a_task_that_a_hook_refuses(project: Project) -> None:
    """TaskCreated: a block is an error for the model, and nothing is started."""
    refuse = says("TaskCreated", {"decision": "block", "reason": "no background work"})
    ran = project.run([bash("touch made", run_in_background=True), DONE], refuse)
    assert ran.results == [ToolResult("toolu_0001", "no background work", True)]
    assert (ran.tasks, "TaskCompleted" in ran.names) == ([], False)
    assert not (project.folder / "made").exists()


def test_a_task_that_is_not_accepted_as_done(project: Project) -> None:
    """TaskCompleted: the reason goes back to the model, which goes on."""
    left = [{"decision": "block", "reason": "the tests fail"}]
    hook = Hook(name="accept", run=lambda ctx: left.pop() if left else None, events=("TaskCompleted",), dialect="spec")
    turns = [bash("true", run_in_background=True, description="build"), {"text": "built"}, {"text": "fixed"}]
    ran = project.run(turns, hook)
    assert ran.requests[-1].messages[-1] == user("Task task_1 (build) is not accepted as done: the tests fail")
    assert (ran.ended.text, ran.tasks[-1]) == ("fixed", ("task_1", "open"))


def test_a_task_that_fails(project: Project) -> None:
    """A command that fails is told as failed, with what it printed."""
    ran = project.run(
        [bash("echo oh; exit 3", run_in_background=True), tool("TaskOutput", task_id="task_1", wait=10), DONE]
    )
    assert ran.results[1].content == "task_1 is failed\nexit code 3\noh"


def test_a_stop_of_a_background_task(project: Project) -> None:
    """A hook that stops the run when a task is done: the run ends as stopped, though the model was done before."""
    stop = says("TaskCompleted", {"continue": False, "stopReason": "budget spent"})
    ran = project.run([bash("sleep 0.2", run_in_background=True), DONE], stop)
    assert (ran.ended.how, ran.ended.text) == ("stopped", "budget spent")


def test_the_end_of_a_session_ends_its_tasks(project: Project) -> None:
    """A chat does not wait: what still runs when it is closed is ended, and leaves no process."""
    tag = unique()

    async def drive(agent: AgentLoop) -> TurnEnded:
        ended = await agent.turn("start it")
        await started(tag)
        return ended

    ran = project.drive([bash(f"sleep {tag}", run_in_background=True), DONE], drive)
    assert ran.ended.how == "done" and ran.names[-1] == "SessionEnd"
    assert gone(tag, 5)


@pytest.mark.parametrize(
    ("given", "content"),
    [
        pytest.param({"task_id": "task_9"}, "no task `task_9`; the tasks are: none", id="a task that is not there"),
        pytest.param({}, "`task_id` is missing: it must be a string", id="no id"),
        pytest.param(
            {"task_id": "task_1", "wait": "long"}, "`wait` must be a number of seconds, not a string", id="a wrong wait"
        ),
    ],
)
def test_wrong_questions_about_tasks(given: dict[str, Any], content: str, project: Project) -> None:
    """The model is told what it did wrong."""
    ran = project.run([tool("TaskOutput", **given), DONE])
    assert ran.results == [ToolResult("toolu_0001", content, True)]


# -- teammates ------------------------------------------------------------------------------------------------------


def test_a_teammate(project: Project) -> None:
    """A named agent works on its first task, which is done, then it is idle and the person is notified."""
    ran = project.run(team(bash("echo testing"), {"text": "all green"}))
    assert ran.results[0].content.startswith("tester is working on task_1;")
    (created,), (completed,), (idle,) = ran.of("TaskCreated"), ran.of("TaskCompleted"), ran.of("TeammateIdle")
    for event in (created, completed):
        assert (event["task_subject"], event["teammate_name"], event["team_name"]) == ("test", "tester", "main")
    assert (idle["teammate_name"], idle["team_name"]) == ("tester", "main") and inside(idle)
    own = [event["hook_event_name"] for event in ran.events if inside(event)]
    assert own[:2] == ["SubagentStart", "PreToolUse"]
    assert own[-5:] == ["SubagentStop", "TaskCompleted", "Notification", "TeammateIdle", "Notification"]
    done, idle = ran.of("Notification")
    assert (done["message"], done["notification_type"]) == ("test is done", "agent_completed")
    assert idle["notification_type"] == "agent_needs_input"
    assert ran.ended.text == "done"


def test_the_mailbox(project: Project) -> None:
    """A message wakes an idle teammate; each time that it runs dry it is idle again."""
    mail = tool("SendMessage", to="tester", message="once more, please")
    wait = tool("TaskOutput", task_id="task_1", wait=10)
    ran = project.run(team({"text": "all green"}, {"text": "still green"}, after=(wait, mail)))
    asked = [request for request in ran.requests if request.agent == "tester"]
    assert [request.messages[-1] for request in asked] == [user("test it"), user("once more, please")]
    assert len(ran.of("TeammateIdle")) == 2 and len(ran.of("TaskCompleted")) == 1
    assert ran.results[1].content == "task_1 is done\nall green"


def test_mail_before_it_is_idle(project: Project) -> None:
    """A teammate with mail is not idle: it reads that first."""
    mail = tool("SendMessage", to="tester", message="and lint it")
    slow = bash("until [ -e go ]; do sleep 0.02; done")
    ran = project.run(team(slow, {"text": "green"}, {"text": "linted"}, after=(mail, bash("touch go"))))
    asked = [request for request in ran.requests if request.agent == "tester"]
    assert asked[-1].messages[-1] == user("and lint it")
    assert len(ran.of("TeammateIdle")) == 1


@pytest.mark.parametrize(
    "hook",
    [
        pytest.param(says("TeammateIdle", {"decision": "block", "reason": "test more"}), id="decision: block"),
        pytest.param(says("TeammateIdle", {"continue": True, "reason": "test more"}), id="continue: true"),
        pytest.param(shell("TeammateIdle", "echo test more >&2; exit 2"), id="exit code 2"),
    ],
)
def test_more_work_for_an_idle_teammate(hook: Hook, project: Project) -> None:
    """TeammateIdle: a hook finds it something to do, 8 times in a row; then it rests, and the person is told."""
    ran = project.run(team(), hook)
    asked = [request.messages[-1] for request in ran.requests if request.agent == "tester"]
    assert asked == [user("test it")] + [user("test more")] * 8
    assert ran.notices == ["hooks kept tester going 8 times in a row; it stops now"]
    assert ran.ended.how == "done"


def test_a_teammates_task_is_not_accepted(project: Project) -> None:
    """TaskCompleted: the reason goes back to the teammate."""
    left = [{"decision": "block", "reason": "cover the errors, too"}]
    hook = Hook(name="accept", run=lambda ctx: left.pop() if left else None, events=("TaskCompleted",), dialect="spec")
    ran = project.run(team({"text": "green"}, {"text": "all green"}), hook)
    asked = [request.messages[-1] for request in ran.requests if request.agent == "tester"]
    assert asked == [user("test it"), user("cover the errors, too")]
    assert ("task_1", "done") in ran.tasks


def test_a_teammates_task_is_never_accepted(project: Project) -> None:
    """After 8 times the teammate gives up; the task stays open, and the main agent is told."""
    ran = project.run(team(after=({"text": "hired"},)), says("TaskCompleted", {"decision": "block", "reason": "no"}))
    assert len(ran.of("TaskCompleted")) == 9
    main = [request for request in ran.requests if request.agent == "main"]
    assert main[-1].messages[-1] == user("Task task_1 (test) is not accepted as done: no")
    assert ran.ended.how == "done"


@pytest.mark.parametrize("event", ["PreToolUse", "SubagentStop", "TaskCompleted", "TeammateIdle"])
def test_a_stop_ends_the_teammate_only(event: str, project: Project) -> None:
    """Its run is over and the main agent's is not; mail for it is refused."""
    stop = when(event, inside, {"continue": False, "stopReason": "enough"})
    wait = tool("TaskOutput", task_id="task_1", wait=10)
    more = (wait, bash("sleep 0.2"), tool("SendMessage", to="tester", message="hello"))
    ran = project.run(team(bash("true"), {"text": "green"}, after=more), stop)
    assert ran.ended.how == "done" and ran.ended.text == "done"
    assert ran.results[-1].content == "no teammate `tester`; the teammates are: none"
    assert len(ran.of("SubagentStop")) == 1


def test_hooks_judge_a_teammate(project: Project) -> None:
    """It gets the reason as the result of its tool."""
    ran = project.run(
        team(bash("touch made"), {"text": "I may not"}),
        when("PreToolUse", inside, {"decision": "block", "reason": "only look"}),
    )
    asked = [request for request in ran.requests if request.agent == "tester"]
    assert [block.content for block in asked[-1].messages[-1].content if isinstance(block, ToolResult)] == ["only look"]
    assert not (project.folder / "made").exists()


@pytest.mark.parametrize("name", ["tester", "main"])
def test_a_name_that_is_taken(name: str, project: Project) -> None:
    """Two agents can't have the same name."""
    again = tool("Task", description="test", prompt="test it", name=name)
    ran = project.run(team({"text": "green"}, after=(again,)))
    assert ran.results[1].is_error and ran.results[1].content.startswith(f"the agent `{name}` already exists")


def test_a_teammate_whose_model_fails(project: Project) -> None:
    """Its task is told as failed; it is idle, and a message lets it try again."""
    mail = tool("SendMessage", to="tester", message="try again")
    wait = tool("TaskOutput", task_id="task_1", wait=10)
    ran = project.run(team({"error": "overloaded"}, {"text": "green"}, after=(wait, mail)))
    assert ran.results[1].content.startswith("task_1 is failed")
    assert len(ran.of("StopFailure")) == 1 and len(ran.of("TeammateIdle")) == 2


@pytest.mark.parametrize(("command", "state"), [("echo hi", "done"), ("exit 3", "failed")])
def test_a_finished_task_notifies(tmp_path: Path, command: str, state: str) -> None:
    """The person hears of it, and so do hooks."""
    given = {"command": command, "run_in_background": True, "description": "a check"}
    ran = Project(tmp_path).run([{"tool": {"name": "Bash", "input": given}}, {"text": "done"}])
    (told,) = ran.of("Notification")
    assert (told["notification_type"], told["title"]) == ("agent_completed", "task_1")
    assert told["message"].endswith(f" is {state}")
    assert ran.names.index("TaskCompleted") < ran.names.index("Notification")

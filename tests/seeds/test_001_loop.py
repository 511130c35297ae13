"""Seed 001, section 10: the verification checklist, each line of it against the agent loop, with what the model got."""

import asyncio
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from msgspec.structs import replace

from agent_loop.running import DONE, CanaryRun, Project, bash, callbacks, shell, specific, tool, unique
from billhook import Hook
from billhook.agent.conversation import user
from billhook.agent.loop import AgentLoop
from billhook.session import Question, ToolResult
from cli.terminal import gone
from seeds.test_seed_001 import INPUTS

BASE = ("session_id", "transcript_path", "cwd", "permission_mode", "hook_event_name")
WHOLE = {
    "turns": [
        bash("echo hi"),
        tool("Read", file_path="missing.txt"),
        tool("Task", description="look", prompt="look around", subagent_type="scout"),
        bash("head -c 20000 /dev/zero | tr '\\0' x"),
        tool("Task", description="test", prompt="test it", name="tester"),
        DONE,
    ],
    "agents": {"scout": [{"text": "found it"}], "tester": [{"text": "tested"}]},
}
"""A run in which all events happen."""


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path)


def whole(project: Project, *hooks: Hook) -> CanaryRun:
    return project.run(WHOLE, *hooks, permission_mode="default", ask=lambda question: True, setup="init", budget=3000)


def always(output: Any) -> Callable[..., Any]:
    """A callback that returns always the same."""
    return lambda event, tool_use_id, context: output


# -- Event coverage, Input types ------------------------------------------------------------------------------------


def test_event_coverage(project: Project) -> None:
    """`Event coverage`: all 15 events of the constant happen in one run, in the order of the lifecycle (section 7)."""
    ran = whole(project)
    assert ran.ended.how == "done"
    assert set(INPUTS) <= set(ran.names)
    assert ran.names[:3] == ["Setup", "SessionStart", "UserPromptSubmit"] and ran.names[-1] == "SessionEnd"
    first = ran.names.index
    assert ran.names[3:7] == ["PreToolUse", "PermissionRequest", "Notification", "PostToolUse"]
    assert first("PostToolUse") < first("PostToolUseFailure") < first("SubagentStart") < first("SubagentStop")
    after_compaction = ran.names[first("PreCompact") :]
    assert after_compaction[:3] == ["PreCompact", "PostCompact", "SessionStart"]
    assert {"Stop", "TaskCompleted", "TeammateIdle"} <= set(after_compaction)
    assert [event["source"] for event in ran.of("SessionStart")] == ["startup", "compact"]


@pytest.fixture(scope="module")
def events(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[dict[str, Any]]]:
    """All events of one run, by name: what a callback was given."""
    got: dict[str, list[dict[str, Any]]] = {}

    def keep(event: dict[str, Any], tool_use_id: Any, context: Any) -> None:
        assert tool_use_id == (event.get("tool_use_id") or None)
        got.setdefault(event["hook_event_name"], []).append(event)

    whole(Project(tmp_path_factory.mktemp("events")), *callbacks(**{name: [{"hooks": [keep]}] for name in INPUTS}))
    return got


@pytest.mark.parametrize("name", INPUTS)
def test_input_types(name: str, events: dict[str, list[dict[str, Any]]]) -> None:
    """`Input types`: each event has all fields of its struct (section 3); those marked `omitempty` where they apply."""
    always_there = {*BASE, *INPUTS[name].fields} - set(INPUTS[name].optional)
    for event in events[name]:
        assert always_there <= event.keys()
    assert any({*BASE, *INPUTS[name].fields} <= event.keys() for event in events[name])
    for event in events[name]:
        for field, sample in INPUTS[name].fields.items():
            if field in event and field not in ("tool_input", "tool_response") and event[field] is not None:
                assert type(event[field]) is type(sample), field


def test_input_values(project: Project) -> None:
    """`Input types`: the fields say what happened, from the session's id to the tool's answer."""
    ran = whole(project)
    assert {event["session_id"] for event in ran.events} == {ran.session_id}
    assert {event["transcript_path"] for event in ran.events} == {str(ran.transcript)}
    assert {event["cwd"] for event in ran.events} == {str(project.folder)}
    assert {event["permission_mode"] for event in ran.events} == {"default"}
    before, after = ran.of("PreToolUse")[0], ran.of("PostToolUse")[0]
    assert (before["tool_name"], before["tool_input"]) == ("Bash", {"command": "echo hi"})
    assert (after["tool_response"], after["tool_use_id"]) == ("hi", before["tool_use_id"])
    (failure,) = ran.of("PostToolUseFailure")
    assert "missing.txt" in failure["error"] and failure["is_interrupt"] is False
    (start,), (_, stop) = ran.of("SubagentStart")[:1], ran.of("SubagentStop")
    assert (start["agent_type"], stop["stop_hook_active"]) == ("scout", False)
    assert ran.of("PreCompact")[0] | {"trigger": "auto", "custom_instructions": None} == ran.of("PreCompact")[0]
    (done,) = ran.of("TaskCompleted")
    assert (done["task_subject"], done["task_description"], done["teammate_name"]) == ("test", "test it", "tester")
    assert [event["prompt"] for event in ran.of("UserPromptSubmit")] == ["go"]


def test_commands_get_every_field(project: Project) -> None:
    """`Input types`: the same on the standard input of a configured command."""
    project.write("hooks.yaml", f"hooks: {{keep: {{events: [{', '.join(INPUTS)}], run: cat >> events.jsonl}}}}\n")
    project.approve()
    ran = whole(project)
    got = [json.loads(line) for line in (project.folder / "events.jsonl").read_text().splitlines()]
    wanted = [event for event in ran.events if event["hook_event_name"] in INPUTS]
    # A teammate works beside the main agent: whose command is first is not fixed.
    assert sorted(got, key=json.dumps) == sorted(wanted, key=json.dumps)


# -- Output types ---------------------------------------------------------------------------------------------------


class KnownValue(NamedTuple):
    """What came of `touch made`, in a run with one hook: the result, what the model was told, how the run ended."""

    made: bool
    result: str
    told: str
    how: str


RAN = KnownValue(True, "(no output)", "", "done")


@pytest.mark.parametrize(
    ("event", "output", "seen"),
    [
        pytest.param("PreToolUse", {}, RAN, id="nothing"),
        pytest.param("PreToolUse", None, RAN, id="nil"),
        pytest.param("PreToolUse", {"continue": True}, RAN, id="Continue: true"),
        pytest.param(
            "PostToolUse",
            {"continue": False, "stopReason": "enough"},
            KnownValue(True, "", "", "stopped"),
            id="StopReason",
        ),
        pytest.param("PreToolUse", {"suppressOutput": True}, RAN, id="SuppressOutput"),
        pytest.param("PreToolUse", {"decision": "approve"}, RAN, id='Decision: "approve"'),
        pytest.param(
            "PreToolUse",
            {"decision": "block", "reason": "no"},
            KnownValue(False, "no", "", "done"),
            id='Decision: "block"',
        ),
        pytest.param("PreToolUse", {"systemMessage": "hear"}, RAN._replace(told="hear"), id="SystemMessage"),
        pytest.param(
            "PreToolUse",
            specific("PreToolUse", permissionDecision="deny", permissionDecisionReason="never"),
            KnownValue(False, "never", "", "done"),
            id="PermissionDecision, PermissionDecisionReason",
        ),
        pytest.param(
            "PreToolUse",
            specific("PreToolUse", updatedInput={"command": "echo instead"}),
            KnownValue(False, "instead", "", "done"),
            id="UpdatedInput",
        ),
        pytest.param(
            "PreToolUse",
            specific("PreToolUse", additionalContext="mind"),
            RAN._replace(told="mind"),
            id="PreToolUse AdditionalContext",
        ),
        pytest.param(
            "PostToolUse",
            specific("PostToolUse", additionalContext="mind"),
            RAN._replace(told="mind"),
            id="PostToolUse AdditionalContext",
        ),
        pytest.param(
            "PostToolUse",
            specific("PostToolUse", updatedMCPToolOutput="another"),
            RAN._replace(result="another"),
            id="UpdatedMCPToolOutput",
        ),
        pytest.param("PostToolUse", {"async": True, "asyncTimeout": 5}, RAN, id="Async, AsyncTimeout"),
        pytest.param("PreToolUse", {"async": True}, RAN, id="an answer that comes too late to judge"),
        pytest.param("PreToolUse", {"decision": "blok"}, RAN, id="an output that breaks its struct"),
    ],
)
def test_output_types(event: str, output: Any, seen: KnownValue, project: Project) -> None:
    """`Output types`: each field of a sync output does its work in the loop, and an async one holds nothing up."""
    ran = project.run([bash("touch made"), DONE], *callbacks(**{event: [{"hooks": [always(output)]}]}))
    result = ran.results[0].content if ran.results else ""
    made = (project.folder / "made").exists()
    assert KnownValue(made, result, ran.added[-1] if len(ran.added) > 1 else "", ran.ended.how) == seen


def test_outputs_of_commands(project: Project) -> None:
    """`Output types`: a command prints the same outputs, and the model gets the same."""
    rewritten = json.dumps(specific("PreToolUse", updatedInput={"command": "echo rewritten"}, additionalContext="mind"))
    ran = project.run([bash("touch made"), DONE], shell("PreToolUse", f"echo '{rewritten}'"))
    assert (ran.results[0].content, ran.added) == ("rewritten", ["", "mind"])


# -- Matcher filtering ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("matcher", "heard"),
    [
        pytest.param("Bash", ["Bash"], id="exact"),
        pytest.param("[BW]*", ["Bash", "Write"], id="glob"),
        pytest.param("mcp__*", [], id="glob of other tools"),
        pytest.param("", ["Bash", "Read", "Write"], id="no matcher"),
    ],
)
def test_matcher_filtering(matcher: str, heard: list[str], project: Project) -> None:
    """`Matcher filtering`: of three tools that the model uses, a callback hears of those that its matcher names."""
    got: list[str] = []
    hook = callbacks(PreToolUse=[{"matcher": matcher, "hooks": [lambda e, t, c: got.append(e["tool_name"])]}])
    turns = [bash("true"), tool("Read", file_path="a"), tool("Write", file_path="a", content="b"), DONE]
    project.run(turns, *hook)
    assert got == heard


# -- Timeout enforcement --------------------------------------------------------------------------------------------


def test_timeout_enforcement(project: Project) -> None:
    """`Timeout enforcement`: a callback is cancelled when its matcher's time is over, and the tool runs."""
    cancelled: list[bool] = []

    async def slow(event: Any, tool_use_id: Any, context: Any) -> None:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            cancelled.append(True)
            raise

    began = time.monotonic()
    ran = project.run([bash("echo ran"), DONE], *callbacks(PreToolUse=[{"hooks": [slow], "timeout": 0.2}]))
    assert (cancelled, ran.ended.how, ran.results[0].content) == ([True], "done", "ran")
    assert time.monotonic() - began < 20


@pytest.mark.parametrize(
    ("on_failure", "content"),
    [pytest.param("allow", "ran", id="the tool runs"), pytest.param("deny", "timed out", id="a gate denies")],
)
def test_timeout_of_a_command(on_failure: Any, content: str, project: Project) -> None:
    """`Timeout enforcement`: a command is ended with all its processes; a gate without an answer lets nothing pass."""
    tag = unique()
    hang = shell("PreToolUse", f"sleep {tag} & wait", timeout=0.5, on_failure=on_failure)
    ran = project.run([bash("echo ran"), DONE], hang)
    assert content in ran.results[0].content
    assert ran.results[0].is_error == (on_failure == "deny")
    assert gone(tag, 5)


# -- Continue semantics ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("event", "calls", "result"),
    [
        pytest.param("SessionStart", 0, None, id="SessionStart: the model is never asked"),
        pytest.param("UserPromptSubmit", 0, None, id="UserPromptSubmit: the model is never asked"),
        pytest.param("PreToolUse", 1, ToolResult("toolu_0001", "halt", True), id="PreToolUse: the tool does not run"),
        pytest.param("PostToolUse", 1, ToolResult("toolu_0001", "ran"), id="PostToolUse: the model is not asked again"),
        pytest.param("Stop", 2, ToolResult("toolu_0001", "ran"), id="Stop: the run ends with the reason"),
    ],
)
def test_continue_semantics(event: str, calls: int, result: ToolResult | None, project: Project) -> None:
    """`Continue semantics`: `continue: false` asks no further hooks, and ends the run with its reason."""
    more: list[str] = []
    groups = [
        {"hooks": [always({"continue": False, "stopReason": "halt"}), lambda e, t, c: more.append("same matcher")]},
        {"hooks": [lambda e, t, c: more.append("next matcher")]},
    ]
    ran = project.run([bash("echo ran"), DONE], *callbacks(**{event: groups}))
    assert (ran.ended.how, ran.ended.text, more) == ("stopped", "halt", [])
    assert len(ran.requests) == calls
    assert ran.agent is not None
    said = [block for message in ran.agent.messages for block in message.content if isinstance(block, ToolResult)]
    assert said == ([] if result is None else [result])
    assert ran.names[-1] == "SessionEnd"


# -- Decision propagation -------------------------------------------------------------------------------------------


class Flow(NamedTuple):
    """What came of a tool call."""

    ran: bool
    asked: list[str]
    """The reasons for which the person was asked."""


UNRULED = "Bash needs permission: no rule allows it"


@pytest.mark.parametrize(
    ("decision", "person", "rules", "flow"),
    [
        pytest.param("deny", True, {}, Flow(False, []), id="deny: nobody is asked"),
        pytest.param("allow", None, {}, Flow(True, []), id="allow: nobody is asked"),
        pytest.param("ask", True, {}, Flow(True, ["why"]), id="ask: the person says yes"),
        pytest.param("ask", False, {}, Flow(False, ["why"]), id="ask: the person says no"),
        pytest.param("ask", None, {}, Flow(False, []), id="ask: there is nobody"),
        pytest.param("ask", True, {"allow": ["Bash"]}, Flow(True, ["why"]), id="ask beats an allow rule"),
        pytest.param("", True, {}, Flow(True, [UNRULED]), id="none: the permissions ask"),
        pytest.param("", False, {}, Flow(False, [UNRULED]), id="none: the person says no"),
        pytest.param("", None, {}, Flow(False, []), id="none: there is nobody"),
        pytest.param("", None, {"allow": ["Bash"]}, Flow(True, []), id="none: a rule allows"),
        pytest.param("allow", True, {"deny": ["Bash(touch:*)"]}, Flow(False, []), id="allow never beats a deny rule"),
        pytest.param("allow", False, {"ask": ["Bash"]}, Flow(False, ["rule"]), id="allow never beats an ask rule"),
    ],
)
def test_decision_propagation(
    decision: str, person: bool | None, rules: dict[str, Any], flow: Flow, project: Project
) -> None:
    """`Decision propagation`: what PreToolUse says goes to the permissions, and the model gets what came of it."""
    asked: list[str] = []

    def ask(question: Question) -> bool:
        asked.append("rule" if "permissions.ask" in question.by else question.reason)
        return bool(person)

    output = specific("PreToolUse", permissionDecision=decision, permissionDecisionReason="why") if decision else {}
    config = project.config(files=[project.write("rules.json", json.dumps({"permissions": rules}))])
    ran = project.run(
        [bash("touch made"), DONE],
        *callbacks(PreToolUse=[{"hooks": [always(output)]}]),
        ask=None if person is None else ask,
        permission_mode="default",
        config=config,
    )
    assert Flow((project.folder / "made").exists(), asked) == flow
    assert len(ran.results) == 1 and ran.results[0].is_error != flow.ran
    assert len(ran.requests) == 2, "the model goes on"


def test_rewritten_input_is_judged(project: Project) -> None:
    """`Decision propagation`: the permissions judge the input as a hook has rewritten it, not as the model gave it."""
    rewrite = specific("PreToolUse", permissionDecision="allow", updatedInput={"command": "touch made"})
    config = project.config(
        files=[project.write("rules.json", json.dumps({"permissions": {"deny": ["Bash(touch:*)"]}}))]
    )
    ran = project.run([bash("ls"), DONE], *callbacks(PreToolUse=[{"hooks": [always(rewrite)]}]), config=config)
    assert not (project.folder / "made").exists()
    assert ran.results[0].is_error and "Bash(touch:*)" in ran.results[0].content


# -- Stop hook ------------------------------------------------------------------------------------------------------


def test_stop_hook(project: Project) -> None:
    """`Stop hook`: `continue: true` restarts the loop with the reason, and the next Stop says `stop_hook_active`."""
    outputs = [{"continue": True, "reason": "run the tests, too"}, {}]
    hook = callbacks(Stop=[{"hooks": [lambda event, tool_use_id, context: outputs.pop(0)]}])
    ran = project.run([{"text": "one"}, {"text": "two"}], *hook)
    assert (ran.ended.how, ran.ended.text) == ("done", "two")
    assert ran.requests[1].messages[-1] == user("run the tests, too")
    assert [event["stop_hook_active"] for event in ran.of("Stop")] == [False, True]


def test_stop_hook_has_a_cap(project: Project) -> None:
    """`Stop hook`: 8 continuations in a row are enough; the person is told who wanted more."""

    def never_enough(event: Any, tool_use_id: Any, context: Any) -> dict[str, Any]:
        return {"continue": True, "reason": "more"}

    ran = project.run([{"text": str(number)} for number in range(20)], *callbacks(Stop=[{"hooks": [never_enough]}]))
    assert (ran.ended.how, ran.ended.text, len(ran.requests)) == ("done", "8", 9)
    assert ran.notices == ["`never_enough@Stop[0][0]` kept the agent going 8 times in a row; it stops now"]


# -- Context injection ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("event", "at"),
    [
        pytest.param("Setup", 0, id="Setup"),
        pytest.param("SessionStart", 0, id="SessionStart"),
        pytest.param("UserPromptSubmit", 0, id="UserPromptSubmit"),
        pytest.param("PreToolUse", 1, id="PreToolUse"),
        pytest.param("Notification", 1, id="Notification"),
        pytest.param("PostToolUse", 1, id="PostToolUse"),
        pytest.param("PostToolUseFailure", 2, id="PostToolUseFailure"),
    ],
)
def test_context_injection(event: str, at: int, project: Project) -> None:
    """`Context injection`: appended to the system message of the next model call, once, joined by a newline."""
    said = [{"systemMessage": "one"}, specific(event, additionalContext="two")]
    groups = [{"matcher": None, "hooks": [_once(output) for output in said]}]
    turns = [bash("true"), tool("Read", file_path="missing"), tool("Read", file_path="missing"), DONE]
    ran = project.run(
        turns,
        *callbacks(**{event: groups}),
        setup="init",
        permission_mode="default",
        ask=lambda question: True,
    )
    assert ran.added == ["one\ntwo" if number == at else "" for number in range(4)]


def test_context_for_a_subagent(project: Project) -> None:
    """`Context injection`: what is said at SubagentStart is for the subagent's model call."""
    script = {
        "turns": [tool("Task", description="look", prompt="look", subagent_type="scout"), DONE],
        "agents": {"scout": [{"text": "found"}]},
    }
    hook = callbacks(SubagentStart=[{"hooks": [always(specific("SubagentStart", additionalContext="you scout"))]}])
    ran = project.run(script, *hook)
    assert [(request.agent, told) for request, told in zip(ran.requests, ran.added, strict=True)] == [
        ("main", ""),
        ("scout", "you scout"),
        ("main", ""),
    ]


def _once(output: dict[str, Any]) -> Callable[..., Any]:
    left = [output]
    return lambda event, tool_use_id, context: left.pop() if left else {}


# -- Error isolation ------------------------------------------------------------------------------------------------


def test_error_isolation(project: Project) -> None:
    """`Error isolation`: hooks that raise at every event are logged, the loop does all it would have done."""
    quiet = whole(Project(project.folder.parent / "quiet"))

    def fails(event: Any, tool_use_id: Any, context: Any) -> None:
        raise RuntimeError(f"boom at {event['hook_event_name']}")

    ran = whole(project, *callbacks(**{name: [{"hooks": [fails]}] for name in INPUTS}))
    assert (ran.ended.how, ran.names) == ("done", quiet.names)
    assert [result.content for result in ran.results[:3]] == [result.content for result in quiet.results[:3]]
    (log,) = project.root.glob("hooks/*/hooks.jsonl")
    logged = log.read_text()
    assert all(f"RuntimeError: boom at {name}" in logged for name in INPUTS)


# -- Async support --------------------------------------------------------------------------------------------------

LATER = """\
echo '{"async": true, "asyncTimeout": 20000}'
until [ -e started ]; do sleep 0.02; done
echo '{"hookSpecificOutput": {"hookEventName": "PostToolUse", "additionalContext": "late news"}}'
"""


def test_async_support(project: Project) -> None:
    """`Async support`: the loop goes on at once; the answer is in the next system message after it has come."""
    come: list[bool] = []

    async def drive(agent: AgentLoop) -> Any:
        hooks = agent.session.engine.background
        agent.tools["TodoWrite"] = replace(agent.tools["TodoWrite"], run=_noting(come, lambda: hooks.settle(20)))
        return await agent.run("go")

    turns = [bash("echo first"), bash("touch started"), tool("TodoWrite", todos=[]), bash("true"), DONE]
    ran = project.drive(turns, drive, shell("PostToolUse", LATER, condition=_only_first()))
    assert (ran.ended.how, ran.results[0].content, come) == ("done", "first", [True])
    assert "".join(ran.added[:2]) == "" and "".join(ran.added) == "late news", "once, and not before it was there"


def test_async_timeout(project: Project) -> None:
    """`Async support`: an answer that never comes is given up when its time is over, and its process with it."""
    tag = unique()
    never = f"""echo '{{"async": true, "asyncTimeout": 300}}'; sleep {tag} & wait"""
    ran = project.run([bash("echo first"), bash("sleep 1"), DONE], shell("PostToolUse", never, condition=_only_first()))
    assert (ran.ended.how, ran.added) == ("done", ["", "", ""])
    assert gone(tag, 5)


def test_async_of_a_callback(project: Project) -> None:
    """`Async support`: a callback that says `async` holds nothing up; the hooks after it are asked."""
    hooks = [always({"async": True, "asyncTimeout": 1}), always({"systemMessage": "now"})]
    ran = project.run([bash("true"), DONE], *callbacks(PostToolUse=[{"hooks": hooks}]))
    assert (ran.ended.how, ran.added) == ("done", ["", "now"])


def _noting(kept: list[bool], wait: Callable[[], bool]) -> Callable[..., Any]:
    """A tool that waits for something."""

    async def run(given: Any) -> str:
        kept.append(wait())
        return "waited"

    return run


def _only_first() -> Callable[..., bool]:
    left = [True]
    return lambda ctx: bool(left) and left.pop()


# -- Ordering -------------------------------------------------------------------------------------------------------


def test_ordering(project: Project) -> None:
    """`Ordering`: hooks within a matcher are asked in array order, async ones too, for each tool call."""
    order: list[str] = []

    def sync(word: str) -> Any:
        return lambda event, tool_use_id, context: order.append(word)

    def slow(word: str) -> Any:
        async def hook(event: Any, tool_use_id: Any, context: Any) -> dict[str, Any]:
            await asyncio.sleep(0.05)
            order.append(word)
            return {"systemMessage": word}

        return hook

    groups: list[dict[str, Any]] = [{"hooks": [slow("a"), sync("b"), slow("c")]}, {"hooks": [sync("d")]}]
    two = {"tools": [{"name": "Bash", "input": {"command": "true"}}, {"name": "Bash", "input": {"command": "true"}}]}
    ran = project.run([two, DONE], *callbacks(PreToolUse=groups))
    assert order == ["a", "b", "c", "d"] * 2
    assert ran.added[1] == "a\nc\na\nc"

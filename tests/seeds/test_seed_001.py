"""Seed 001: fifteen events, typed inputs and outputs, matcher groups of callbacks, in the dialect `spec`.

The lines about the agent's own loop (seed section 7) are not proved here.
"""

import asyncio
import json
import time
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from billhook import EVENTS, Decision, Engine, Event, EventError, Outcome, PreCompact, Verdict
from billhook.core.events import decode, parse
from seeds.asking import given

BASE = {"session_id": "abc", "transcript_path": "/t/abc.jsonl", "cwd": "/work", "permission_mode": "default"}


class Input(NamedTuple):
    """A struct of section 3: the fields with their samples, and which of them are marked `omitempty`."""

    fields: dict[str, Any]
    optional: tuple[str, ...] = ()


INPUTS = {
    "PreToolUse": Input({"tool_name": "Bash", "tool_input": {"command": "ls"}, "tool_use_id": "t1"}),
    "PostToolUse": Input(
        {"tool_name": "Bash", "tool_input": {"command": "ls"}, "tool_response": {"stdout": "a"}, "tool_use_id": "t1"}
    ),
    "PostToolUseFailure": Input(
        {"tool_name": "Bash", "tool_input": {}, "tool_use_id": "t1", "error": "boom", "is_interrupt": True},
        ("is_interrupt",),
    ),
    "SessionStart": Input({"source": "startup", "agent_type": "main", "model": "m"}, ("agent_type", "model")),
    "SessionEnd": Input({"reason": "clear"}),
    "Stop": Input({"stop_hook_active": True}),
    "SubagentStart": Input({"agent_id": "a1", "agent_type": "Explore"}),
    "SubagentStop": Input(
        {"stop_hook_active": True, "agent_id": "a1", "agent_transcript_path": "/t/a1.jsonl", "agent_type": "Explore"}
    ),
    "PreCompact": Input({"trigger": "manual", "custom_instructions": "keep names"}),
    "Notification": Input({"message": "hello", "title": "T", "notification_type": "idle_prompt"}, ("title",)),
    "UserPromptSubmit": Input({"prompt": "do it"}),
    "Setup": Input({"trigger": "init"}),
    "TaskCompleted": Input(
        {"task_id": "1", "task_subject": "s", "task_description": "d", "teammate_name": "n", "team_name": "t"},
        ("task_description", "teammate_name", "team_name"),
    ),
    "TeammateIdle": Input({"teammate_name": "n", "team_name": "t"}),
    "PermissionRequest": Input({"tool_name": "Bash", "tool_input": {"command": "ls"}}),
}
FREE = {"tool_input", "tool_response"}
"""Fields of any type."""


def wire(name: str) -> dict[str, Any]:
    """A whole event, every field given."""
    return {**BASE, "hook_event_name": name, **INPUTS[name].fields}


def spec(event: str, *groups: dict[str, Any], **options: Any) -> Engine:
    """The seed's Runner: groups of callbacks for one event."""
    return Engine.from_matchers({event: list(groups)}, **options)


def says(output: Any) -> Any:
    """A callback that returns always the same."""
    return lambda event, tool_use_id, context: output


def answered(event: str, *outputs: Any, **options: Any) -> Verdict:
    """The verdict when callbacks return these outputs."""
    return spec(event, {"hooks": [says(output) for output in outputs]}, **options).fire_sync(wire(event))


def specific(event: str, **fields: Any) -> dict[str, Any]:
    return {"hookSpecificOutput": {"hookEventName": event, **fields}}


# -- section 2 and 3: events and their inputs ----------------------------------------------------------------------


def test_event_coverage() -> None:
    """`Event coverage`: all 15 events of the constant exist, and each can be fired and heard."""
    assert len(INPUTS) == 15
    assert INPUTS.keys() <= EVENTS.keys()
    for name in INPUTS:
        heard: list[str] = []
        spec(name, {"hooks": [lambda i, t, c, heard=heard: heard.append(i["hook_event_name"])]}).fire_sync(wire(name))
        assert heard == [name]


@pytest.mark.parametrize("name", INPUTS)
def test_input_types(name: str) -> None:
    """`Input types`: each event's record has all fields of its struct, with the values that were sent."""
    for event in (parse(wire(name)), decode(json.dumps(wire(name)).encode())):
        assert type(event) is EVENTS[name]
        for field, value in wire(name).items():
            assert getattr(event, field) == value, field
        assert event.payload == wire(name)


@pytest.mark.parametrize("name", INPUTS)
def test_a_callback_gets_every_field(name: str) -> None:
    """`func(input HookInput, toolUseID string, ctx)`: the input field by field, and the id of the tool use."""
    got: list[Any] = []
    spec(name, {"hooks": [lambda i, t, c: got.append((dict(i), t))]}).fire_sync(wire(name))
    assert got == [(wire(name), INPUTS[name].fields.get("tool_use_id"))]


@pytest.mark.parametrize("name", INPUTS)
def test_a_command_gets_every_field(name: str, tmp_path: Path) -> None:
    """The same on the standard input of a command, field by field."""
    event = {**wire(name), "cwd": str(tmp_path)}
    assert given(parse(event), "claude", tmp_path).payload == event


@pytest.mark.parametrize(
    ("name", "field"), [(name, field) for name, row in INPUTS.items() for field in row.optional], ids=str
)
def test_omitempty(name: str, field: str) -> None:
    """A field marked `omitempty` may be missing, and is not sent then."""
    fields = {key: value for key, value in wire(name).items() if key != field}
    assert getattr(parse(fields), field) is None
    made = EVENTS[name](**{key: value for key, value in fields.items() if key != "hook_event_name"})
    assert made.payload == fields


@pytest.mark.parametrize("name", INPUTS)
def test_fields_that_are_always_sent(name: str) -> None:
    """An event made in Python sends every field that is not marked `omitempty`, empty ones too."""
    required = {
        field: value
        for field, value in INPUTS[name].fields.items()
        if field not in INPUTS[name].optional
    }  # fmt: skip
    defaults = {"tool_use_id", "stop_hook_active", "custom_instructions", "team_name"}
    made = EVENTS[name](**{field: value for field, value in required.items() if field not in defaults})
    assert {"session_id", "transcript_path", "cwd", "hook_event_name", *required} <= made.payload.keys()
    assert "permission_mode" not in made.payload


def test_custom_instructions_may_be_null() -> None:
    """`CustomInstructions *string`: null is sent as null."""
    event = parse({**wire("PreCompact"), "custom_instructions": None})
    assert event.payload["custom_instructions"] is None
    assert PreCompact(trigger="auto").payload["custom_instructions"] is None


@pytest.mark.parametrize(
    ("name", "field"),
    [(name, field) for name, row in INPUTS.items() for field, value in row.fields.items() if field not in FREE],
    ids=str,
)
def test_fields_have_their_types(name: str, field: str) -> None:
    """A field of the wrong type is an error that names its place."""
    with pytest.raises(EventError) as caught:
        parse({**wire(name), field: ["wrong"]})
    assert caught.value.path == f"$.{field}"


@pytest.mark.parametrize(
    ("name", "field", "values"),
    [
        ("SessionStart", "source", ["startup", "resume", "clear", "compact"]),
        ("PreCompact", "trigger", ["manual", "auto"]),
        ("Setup", "trigger", ["init", "maintenance"]),
    ],
)
def test_words_of_inputs(name: str, field: str, values: list[str]) -> None:
    """The words that the seed lists in comments."""
    for value in values:
        assert getattr(parse({**wire(name), field: value}), field) == value


def test_unknown_fields_are_kept() -> None:
    """What an agent sends beyond the struct reaches the callback."""
    got: list[Any] = []
    engine = spec("Stop", {"hooks": [lambda i, t, c: got.append(i["new_field"])]})
    engine.fire_sync({**wire("Stop"), "new_field": [1]})
    assert got == [[1]]


# -- section 4: outputs --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("event", "output", "expected"),
    [
        pytest.param("Notification", {"continue": False}, {"stop": True}, id="Continue: false"),
        pytest.param("Notification", {"continue": True}, {"stop": False}, id="Continue: true"),
        pytest.param(
            "Notification",
            {"continue": False, "stopReason": "enough"},
            {"stop": True, "stop_reason": "enough"},
            id="StopReason",
        ),
        pytest.param("Stop", {"continue": True}, {"keep_going": True}, id="Continue: true on Stop"),
        pytest.param("Stop", {"continue": False}, {"keep_going": False, "stop": True}, id="Continue: false on Stop"),
        pytest.param("PreToolUse", {"decision": "approve"}, {"decision": "allow"}, id='Decision: "approve"'),
        pytest.param(
            "PreToolUse", {"decision": "block", "reason": "no"}, {"decision": "deny", "reason": "no"}, id="Reason"
        ),
        pytest.param(
            "UserPromptSubmit",
            {"decision": "block", "reason": "no"},
            {"decision": "deny", "reason": "no"},
            id='UserPromptSubmit: Decision = "block"',
        ),
        pytest.param("PreToolUse", {"systemMessage": "hear"}, {"context": ("hear",)}, id="SystemMessage"),
        pytest.param("PreToolUse", {}, {"decision": "none", "context": ()}, id="nothing"),
        pytest.param("PreToolUse", None, {"decision": "none", "context": ()}, id="nil"),
    ],
)
def test_sync_output(event: str, output: Any, expected: dict[str, Any]) -> None:
    """`Output types`: each field of SyncHookJSONOutput."""
    verdict = answered(event, output)
    assert {name: getattr(verdict, name) for name in expected} == expected
    assert verdict.outcomes[0].status == "ok"


def test_suppress_output() -> None:
    """`SuppressOutput`: the answer is marked as quiet."""
    assert answered("PreToolUse", {"suppressOutput": True}).outcomes[0].answer.quiet


@pytest.mark.parametrize(
    ("event", "fields", "expected"),
    [
        pytest.param(
            "PreToolUse", {"permissionDecision": "allow"}, {"decision": "allow"}, id='PermissionDecision "allow"'
        ),
        pytest.param(
            "PreToolUse",
            {"permissionDecision": "deny", "permissionDecisionReason": "no"},
            {"decision": "deny", "reason": "no"},
            id='PermissionDecision "deny", PermissionDecisionReason',
        ),
        pytest.param(
            "PreToolUse",
            {"permissionDecision": "ask", "permissionDecisionReason": "sure?"},
            {"decision": "ask", "reason": "sure?"},
            id='PermissionDecision "ask"',
        ),
        pytest.param(
            "PreToolUse", {"updatedInput": {"command": "pwd"}}, {"tool_input": {"command": "pwd"}}, id="UpdatedInput"
        ),
        pytest.param("PreToolUse", {"additionalContext": "c"}, {"context": ("c",)}, id="PreToolUse AdditionalContext"),
        pytest.param("PostToolUse", {"additionalContext": "c"}, {"context": ("c",)}, id="PostToolUse"),
        pytest.param(
            "PostToolUse", {"updatedMCPToolOutput": {"a": 1}}, {"tool_output": {"a": 1}}, id="UpdatedMCPToolOutput"
        ),
        pytest.param("PostToolUseFailure", {"additionalContext": "c"}, {"context": ("c",)}, id="PostToolUseFailure"),
        pytest.param("SessionStart", {"additionalContext": "c"}, {"context": ("c",)}, id="SessionStart"),
        pytest.param("SubagentStart", {"additionalContext": "c"}, {"context": ("c",)}, id="SubagentStart"),
        pytest.param("Setup", {"additionalContext": "c"}, {"context": ("c",)}, id="Setup"),
        pytest.param("Notification", {"additionalContext": "c"}, {"context": ("c",)}, id="Notification"),
        pytest.param("UserPromptSubmit", {}, {"decision": "none"}, id="UserPromptSubmit"),
    ],
)
def test_event_specific_outputs(event: str, fields: dict[str, Any], expected: dict[str, Any]) -> None:
    """Each field of each struct of section 4.3."""
    verdict = answered(event, specific(event, **fields))
    assert {name: getattr(verdict, name) for name in expected} == expected
    assert (verdict.outcomes[0].status, verdict.outcomes[0].lost) == ("ok", ())


@pytest.mark.parametrize(
    "output",
    [
        pytest.param({"decision": "blok"}, id="a word that is not one"),
        pytest.param({"continue": "false"}, id="text instead of a truth value"),
        pytest.param(specific("PostToolUse", additionalContext="c"), id="the name of another event"),
        pytest.param(specific("PreToolUse", permissionDecision="block"), id="a decision that is not one"),
        pytest.param(specific("PreToolUse", updatedInput="ls"), id="an input that is not an object"),
        pytest.param("text", id="not an object"),
    ],
)
def test_broken_outputs_are_failures(output: Any) -> None:
    """An output that breaks its struct is a failure that says how, never an opinion."""
    outcome = answered("PreToolUse", output).outcomes[0]
    assert (outcome.status, outcome.answer.decision) == ("failed", "none")
    assert outcome.error


# -- section 5 and 6: matchers and the runner ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("matcher", "tool", "runs"),
    [
        pytest.param("Bash", "Bash", True, id='exact, "Bash"'),
        pytest.param("Bash", "BashOutput", False, id="exact is the whole name"),
        pytest.param("Bash", "Write", False, id="another tool"),
        pytest.param("mcp__*", "mcp__memory__store", True, id='glob, "mcp__*"'),
        pytest.param("mcp__*", "Bash", False, id="glob, another tool"),
        pytest.param("mcp__?__*", "mcp__a__b", True, id="glob, ?"),
        pytest.param("[BW]*", "Write", True, id="glob, a class"),
        pytest.param("", "Bash", True, id='matcher.Matcher != ""'),
        pytest.param(None, "Bash", True, id="no matcher"),
        pytest.param("*", "Bash", True, id="everything"),
    ],
)
def test_matcher_filtering(matcher: str | None, tool: str, runs: bool) -> None:
    """`Matcher filtering`: tool name matchers filter which hooks run."""
    verdict = spec("PreToolUse", {"matcher": matcher, "hooks": [says({})]}).fire_sync(
        {**wire("PreToolUse"), "tool_name": tool}
    )
    assert bool(verdict.outcomes) == runs


def test_no_matchers_for_the_event() -> None:
    """`if !ok { return nil, nil }`: an event without hooks has no results."""
    verdict = spec("Stop", {"hooks": [says({})]}).fire_sync(wire("PreToolUse"))
    assert (verdict.outcomes, verdict.decision) == ((), Decision.NONE)


def test_ordering() -> None:
    """`Ordering`: hooks within a matcher execute in array order, matchers in theirs, async or not."""
    order: list[int] = []

    def sync(number: int) -> Any:
        return lambda i, t, c: order.append(number)

    def later(number: int) -> Any:
        async def hook(i: Any, t: Any, c: Any) -> None:
            await asyncio.sleep(0.02)
            order.append(number)

        return hook

    groups: list[dict[str, Any]] = [
        {"hooks": [later(1), sync(2)]},
        {"matcher": "Bash", "hooks": [later(3)]},
        {"hooks": [sync(4)]},
    ]
    spec("PreToolUse", *groups).fire_sync(wire("PreToolUse"))
    assert order == [1, 2, 3, 4]


def test_continue_semantics() -> None:
    """`Continue semantics`: `continue: false` stops processing further hooks; the results so far stay."""
    ran: list[str] = []
    verdict = spec(
        "Notification",
        {"hooks": [says({"systemMessage": "one"}), says({"continue": False, "stopReason": "halt"})]},
        {"hooks": [lambda i, t, c: ran.append("no")]},
    ).fire_sync(wire("Notification"))
    assert [outcome.status for outcome in verdict.outcomes] == ["ok", "ok", "skipped"]
    assert (ran, verdict.stop, verdict.stop_reason, verdict.context) == ([], True, "halt", ("one",))


def test_error_isolation() -> None:
    """`Error isolation`: a hook's error is logged and the next hook still runs."""

    def fails(i: Any, t: Any, c: Any) -> None:
        raise RuntimeError("boom")

    async def fails_later(i: Any, t: Any, c: Any) -> None:
        await asyncio.sleep(0)
        raise SystemExit(3)

    verdict = spec(
        "PreToolUse", {"hooks": [fails, fails_later, says({"decision": "block", "reason": "no"})]}
    ).fire_sync(wire("PreToolUse"))
    assert [outcome.status for outcome in verdict.outcomes] == ["failed", "failed", "ok"]
    assert (verdict.decision, verdict.reason, verdict.failed_open) == ("deny", "no", 2)
    assert "RuntimeError: boom" in verdict.warnings[0]


def test_timeout_enforcement() -> None:
    """`Timeout enforcement`: a hook is cancelled after the seconds of its matcher."""
    cancelled: list[bool] = []

    async def slow(i: Any, t: Any, c: Any) -> None:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            cancelled.append(True)
            raise

    began = time.monotonic()
    verdict = spec("PreToolUse", {"hooks": [slow], "timeout": 0.2}, {"hooks": [says({})]}).fire_sync(wire("PreToolUse"))
    assert [outcome.status for outcome in verdict.outcomes] == ["timed_out", "ok"]
    assert cancelled == [True]
    assert time.monotonic() - began < 10


def test_timeout_for_all_hooks_in_this_matcher() -> None:
    """`Timeout int // seconds, for all hooks in this matcher`: they share it, other matchers have their own."""

    async def slow(i: Any, t: Any, c: Any) -> None:
        await asyncio.sleep(60)

    verdict = spec("PreToolUse", {"hooks": [slow, says({})], "timeout": 0.2}, {"hooks": [says({})]}).fire_sync(
        wire("PreToolUse")
    )
    assert [outcome.status for outcome in verdict.outcomes] == ["timed_out", "timed_out", "ok"]


def test_async_support() -> None:
    """`Async support`: {async: true} is handled in the background, where it can't hold up the event."""
    verdict = answered("Notification", {"async": True, "asyncTimeout": 5}, {"systemMessage": "now"})
    assert [outcome.status for outcome in verdict.outcomes] == ["background", "ok"]
    assert verdict.context == ("now",)


def test_async_can_not_judge() -> None:
    """An answer that comes later can't judge a tool call: the call continues without it."""
    verdict = answered("PreToolUse", {"async": True})
    assert verdict.outcomes[0].status == "background"
    assert verdict.decision == "none"


def test_async_timeout_is_in_seconds() -> None:
    """`AsyncTimeout int // seconds`."""
    from billhook.agents import SPEC
    from billhook.core.answers import Exit

    event = parse(wire("Notification"))
    reply = SPEC.read_exit(event, Exit(code=0, stdout=b'{"async": true, "asyncTimeout": 7}'))
    assert reply.answer.background == 7


# -- section 8 and 9: what the loop makes of results ---------------------------------------------------------------

DENY = specific("PreToolUse", permissionDecision="deny", permissionDecisionReason="no")
ALLOW = specific("PreToolUse", permissionDecision="allow")
BLOCK = {"decision": "block", "reason": "blocked"}


@pytest.mark.parametrize(
    ("outputs", "first", "strictest"),
    [
        pytest.param([DENY], "deny", "deny", id='PermissionDecision == "deny"'),
        pytest.param([ALLOW], "allow", "allow", id='PermissionDecision == "allow"'),
        pytest.param([BLOCK], "deny", "deny", id='Decision == "block"'),
        pytest.param([], "none", "none", id="BehaviorAsk: no hook made a decision"),
        pytest.param([{}, None], "none", "none", id="BehaviorAsk: hooks without a decision"),
        pytest.param([{}, ALLOW], "allow", "allow", id="a hook without a decision is passed over"),
        pytest.param([DENY, ALLOW], "deny", "deny", id="deny first"),
        pytest.param([ALLOW, DENY], "allow", "deny", id="allow first: the sample returns before it sees the deny"),
        pytest.param([ALLOW, BLOCK], "allow", "deny", id="allow first, then a block"),
        pytest.param([{"systemMessage": "x"}, BLOCK], "deny", "deny", id="a message, then a block"),
    ],
)
def test_pre_tool_use_result_handling(outputs: list[Any], first: str, strictest: str) -> None:
    """`Decision propagation`: the sample's reading (combine="first") and the default, in which a deny always wins."""
    assert answered("PreToolUse", *outputs, combine="first").decision == first
    assert answered("PreToolUse", *outputs).decision == strictest


@pytest.mark.parametrize(
    ("outputs", "goes_on"),
    [
        pytest.param([{"continue": True}], True, id="continue: true"),
        pytest.param([{}, {"continue": True}], True, id="any of them"),
        pytest.param([{"continue": True, "reason": "tests fail"}], True, id="with a reason"),
        pytest.param([{"decision": "block", "reason": "tests fail"}], True, id="a block, as the reference says it"),
        pytest.param([{}], False, id="stop as normal"),
        pytest.param([{"continue": False}], False, id="continue: false"),
        pytest.param([], False, id="no hooks"),
    ],
)
def test_stop_result_handling(outputs: list[Any], goes_on: bool) -> None:
    """`Stop hook`: `continue: true` restarts the loop; the verdict decides nothing else."""
    verdict = answered("Stop", *outputs)
    assert (verdict.keep_going, verdict.decision) == (goes_on, "none")


def test_a_failing_stop_hook_never_keeps_the_loop_going() -> None:
    """A hook that fails is no wish to go on."""

    def fails(i: Any, t: Any, c: Any) -> None:
        raise RuntimeError

    group = {"hooks": [fails], "on_failure": "deny"}
    assert not spec("Stop", group).fire_sync(wire("Stop")).keep_going


def test_context_injection() -> None:
    """`Context injection`: system messages and additionalContext, in order, joined by newlines."""
    verdict = answered(
        "UserPromptSubmit",
        {"systemMessage": "one"},
        {},
        specific("UserPromptSubmit", additionalContext="two"),
        {"systemMessage": "three", **specific("UserPromptSubmit", additionalContext="four")},
    )
    assert "\n".join(verdict.context) == "one\ntwo\nthree\nfour"


def test_decisions_come_with_their_evidence() -> None:
    """Each result stays with the hook that gave it."""
    verdict = answered("PreToolUse", {"systemMessage": "x"}, DENY)
    assert all(isinstance(outcome, Outcome) for outcome in verdict.outcomes)
    assert [outcome.answer.decision for outcome in verdict.outcomes] == ["none", "deny"]


def test_updated_input_reaches_the_next_hook() -> None:
    """`UpdatedInput`: later hooks, and the verdict, have the input as it was rewritten."""
    seen: list[Any] = []
    verdict = spec(
        "PreToolUse",
        {"hooks": [says(specific("PreToolUse", updatedInput={"command": "pwd"})), lambda i, t, c: seen.append(i)]},
    ).fire_sync(wire("PreToolUse"))
    assert seen[0]["tool_input"] == {"command": "pwd"} == verdict.tool_input


def test_an_event_of_the_seed_is_an_event() -> None:
    """The seed's HookInput is what the engine takes: a dict in wire form, or the typed record."""
    engine = spec("Stop", {"hooks": [says({"continue": True})]})
    record: Event = parse(wire("Stop"))
    assert engine.fire_sync(record).keep_going
    assert engine.fire_sync(wire("Stop")).keep_going

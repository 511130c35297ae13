"""The JSON that hooks answer with: seed 001 section 4, the reference's additions, and every near miss."""

from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from billhook.core.answer_json import read_output, write_output
from billhook.core.answer_schema import read_returned
from billhook.core.answers import NOTHING, Answer, Decision, Reply, Status, deny
from billhook.core.dialect_traits import CLAUDE, CLAW, LESSON, MEANINGS, SPEC, Meanings
from billhook.core.events import Event
from strategies import answers, json_values, names, objects, sample, some_events, texts

ALLOW, DENY, ASK, DEFER = Decision.ALLOW, Decision.DENY, Decision.ASK, Decision.DEFER


def specific(event: str, **fields: Any) -> dict[str, Any]:
    return {"hookSpecificOutput": {"hookEventName": event, **fields}}


def permission(**fields: Any) -> dict[str, Any]:
    return specific("PermissionRequest", decision=fields)


READ = [
    # dialect, event, output, answer
    pytest.param(CLAUDE, "PreToolUse", {}, NOTHING, id="4.1 everything is optional"),
    pytest.param(CLAUDE, "PreToolUse", {"continue": True}, NOTHING, id="1.5 continue: true means nothing"),
    pytest.param(CLAUDE, "PreToolUse", {"continue": False}, Answer(stop=True), id="4.1 continue"),
    pytest.param(
        CLAUDE, "Stop", {"continue": False, "stopReason": "s"}, Answer(stop=True, stop_reason="s"), id="4.1 stopReason"
    ),
    pytest.param(CLAUDE, "PreToolUse", {"suppressOutput": True}, Answer(quiet=True), id="4.1 suppressOutput"),
    pytest.param(
        CLAUDE, "PreToolUse", {"decision": "block", "reason": "r"}, deny("r"), id="4.1 decision block is a deny"
    ),
    pytest.param(
        CLAUDE,
        "PreToolUse",
        {"decision": "approve", "reason": "r"},
        Answer(decision=ALLOW, reason="r"),
        id="4.1 decision approve is an allow",
    ),
    pytest.param(CLAUDE, "PreToolUse", {"systemMessage": "m"}, Answer(message="m"), id="1.5 systemMessage: the user"),
    pytest.param(SPEC, "PreToolUse", {"systemMessage": "m"}, Answer(context="m"), id="section 9: to the model"),
    pytest.param(CLAW, "PreToolUse", {"systemMessage": "m"}, Answer(context="m"), id="claw: to the model"),
    pytest.param(
        SPEC,
        "PreToolUse",
        {"systemMessage": "m", **specific("PreToolUse", additionalContext="c")},
        Answer(context="m\nc"),
        id="section 9: joined by a newline",
    ),
    pytest.param(
        CLAUDE,
        "PreToolUse",
        {"terminalSequence": "\x07"},
        Answer(extras={"terminalSequence": "\x07"}),
        id="1.5 terminalSequence",
    ),
    pytest.param(SPEC, "PostToolUse", {"async": True}, Answer(background=True), id="4.2 async"),
    pytest.param(SPEC, "PostToolUse", {"async": True, "asyncTimeout": 5}, Answer(background=5.0), id="4.2 in seconds"),
    pytest.param(
        CLAUDE, "PostToolUse", {"async": True, "asyncTimeout": 1001}, Answer(background=1.001), id="1.5 milliseconds"
    ),
    pytest.param(SPEC, "PostToolUse", {"async": True, "asyncTimeout": 0}, Answer(background=True), id="4.2 omitempty"),
    pytest.param(SPEC, "PostToolUse", {"async": False}, NOTHING, id="4.2 async: false is sync"),
    pytest.param(
        SPEC, "PreToolUse", {"async": True, "decision": "block", "reason": "r"}, deny("r"), id="a promise with a deny"
    ),
    *(
        pytest.param(
            CLAUDE,
            "PreToolUse",
            specific("PreToolUse", permissionDecision=word, permissionDecisionReason="r"),
            Answer(decision=Decision(word), reason="r"),
            id=f"4.3 permissionDecision {word}",
        )
        for word in ("allow", "deny", "ask", "defer")
    ),
    pytest.param(
        CLAUDE,
        "PreToolUse",
        specific("PreToolUse", permissionDecision="deny"),
        deny("denied by a PreToolUse hook"),
        id="a deny has a reason",
    ),
    pytest.param(
        CLAUDE,
        "PreToolUse",
        specific("PreToolUse", updatedInput={"command": "pwd"}, additionalContext="c"),
        Answer(updated_input={"command": "pwd"}, context="c"),
        id="4.3 updatedInput without a decision",
    ),
    pytest.param(
        CLAUDE,
        "PreToolUse",
        {"decision": "block", "reason": "r", **specific("PreToolUse", permissionDecision="allow")},
        deny("r"),
        id="a block beside an allow",
    ),
    pytest.param(
        CLAUDE,
        "PreToolUse",
        {"decision": "approve", **specific("PreToolUse", permissionDecision="deny", permissionDecisionReason="r")},
        deny("r"),
        id="a deny beside an approve",
    ),
    pytest.param(
        SPEC,
        "PostToolUse",
        specific("PostToolUse", additionalContext="c", updatedMCPToolOutput={"a": 1}),
        Answer(context="c", updated_output={"a": 1}),
        id="4.3 updatedMCPToolOutput",
    ),
    pytest.param(
        CLAUDE,
        "PostToolUse",
        specific("PostToolUse", updatedToolOutput=False, classifierContext="k"),
        Answer(updated_output=False, extras={"classifierContext": "k"}),
        id="1.3 updatedToolOutput",
    ),
    *(
        pytest.param(SPEC, name, specific(name, additionalContext="c"), Answer(context="c"), id=f"4.3 {name}")
        for name in ("PostToolUseFailure", "SessionStart", "SubagentStart", "Setup", "Notification")
    ),
    pytest.param(SPEC, "UserPromptSubmit", specific("UserPromptSubmit"), NOTHING, id="4.3 UserPromptSubmit"),
    pytest.param(SPEC, "UserPromptSubmit", {"decision": "block", "reason": "r"}, deny("r"), id="4.3 blocks the prompt"),
    pytest.param(
        CLAUDE,
        "PermissionRequest",
        permission(behavior="allow", updatedInput={"a": 1}, updatedPermissions=[{"type": "setMode"}]),
        Answer(decision=ALLOW, updated_input={"a": 1}, extras={"updatedPermissions": [{"type": "setMode"}]}),
        id="1.3 PermissionRequest allow",
    ),
    pytest.param(
        CLAUDE,
        "PermissionRequest",
        permission(behavior="deny", message="r", interrupt=True),
        Answer(decision=DENY, reason="r", stop=True),
        id="1.3 PermissionRequest deny",
    ),
    *(
        pytest.param(
            CLAUDE,
            "Elicitation",
            specific("Elicitation", action=action, content={"a": 1}),
            Answer(decision=decision, extras={"action": action, "content": {"a": 1}}),
            id=f"1.3 Elicitation {action}",
        )
        for action, decision in (("accept", ALLOW), ("decline", DENY), ("cancel", DENY))
    ),
    pytest.param(
        CLAUDE,
        "Elicitation",
        {"decision": "block", "reason": "r", **specific("Elicitation", action="accept")},
        deny("r"),
        id="a block beside an accept",
    ),
    pytest.param(
        CLAUDE,
        "SessionStart",
        specific("SessionStart", initialUserMessage="go", watchPaths=["a"], reloadSkills=True, sessionTitle="t"),
        Answer(
            extras={"initialUserMessage": "go", "watchPaths": ["a"], "reloadSkills": True, "sessionTitle": "t"},
        ),
        id="1.3 SessionStart",
    ),
    pytest.param(SPEC, "Stop", {"continue": True, "reason": "r"}, Answer(keep_going=True, reason="r"), id="section 8"),
    pytest.param(CLAUDE, "Stop", {"continue": True}, NOTHING, id="1.5 continue: true does not keep going"),
    *(
        pytest.param(
            meanings,
            "Stop",
            specific("Stop", additionalContext="c"),
            Answer(keep_going=True, context="c"),
            id=f"1.3 Stop goes on with additionalContext, {meanings.name}",
        )
        for meanings in (CLAUDE, SPEC)
    ),
    pytest.param(CLAW, "PreToolUse", {"continue": False}, deny("a hook answered continue: false"), id="claw: a deny"),
    pytest.param(CLAW, "PostToolUse", {"continue": False, "stopReason": "s"}, deny("s"), id="claw: after the tool"),
    pytest.param(CLAW, "Stop", {"continue": False}, Answer(stop=True), id="claw: Stop can't be denied"),
    pytest.param(CLAW, "PreToolUse", {"reason": "r"}, Answer(context="r"), id="claw: a reason alone is feedback"),
    pytest.param(
        CLAW,
        "PreToolUse",
        {"systemMessage": "1", "reason": "2", **specific("PreToolUse", additionalContext="3")},
        Answer(context="1\n2\n3"),
        id="claw: systemMessage, reason, additionalContext in this order",
    ),
    pytest.param(
        LESSON,
        "PreToolUse",
        {"permissionDecision": "deny", "additionalContext": "c", "updatedInput": {"a": 1}},
        Answer(decision=DENY, reason="denied by a PreToolUse hook", context="c", updated_input={"a": 1}),
        id="lesson: three fields at the top",
    ),
    pytest.param(
        LESSON,
        "PreToolUse",
        {"permissionDecision": "deny", **specific("PreToolUse", permissionDecision="allow")},
        deny("denied by a PreToolUse hook"),
        id="lesson: a deny at the top beside an allow inside",
    ),
    pytest.param(
        CLAUDE,
        "PreToolUse",
        {"success": True, "block": True, "blockReason": "r"},
        deny("r"),
        id="seed 002: a command that prints a handler's result",
    ),
    pytest.param(
        CLAUDE,
        "PreToolUse",
        {"decision": "block", "reason": "r", "reasoning": "long", "permissionDecision": "deny"},
        deny("r"),
        id="a deny with near misses beside it is a deny",
    ),
    pytest.param(CLAUDE, "PreToolUse", {"decision": None, "reason": None}, NOTHING, id="null is absent"),
    pytest.param(
        CLAUDE, "SomethingNew", specific("SomethingNew", permissionDecision="deny"), None, id="an unknown event's deny"
    ),
]


@pytest.mark.parametrize(("meanings", "event", "output", "answer"), READ)
def test_an_answer_is_read(meanings: Meanings, event: str, output: dict[str, Any], answer: Answer | None) -> None:
    """Each field of seed 001 section 4 and of the reference has its meaning."""
    reply = read_output(sample(event), output, meanings)

    assert reply.status is Status.OK
    assert reply.answer == (answer or deny(f"denied by a {event} hook"))


MISSES = [
    # dialect, event, output, the whole message
    pytest.param(
        "PreToolUse",
        specific("PreToolUse", permissionDecision="Deny"),
        '`hookSpecificOutput.permissionDecision` is "Deny"; use one of "allow", "deny", "ask", "defer"; '
        'did you mean "deny"?',
        id="permissionDecision Deny",
    ),
    pytest.param(
        "PreToolUse",
        specific("PreToolUse", permissionDecision="block"),
        '`hookSpecificOutput.permissionDecision` is "block"; use one of "allow", "deny", "ask", "defer"; '
        'did you mean "deny"?',
        id="permissionDecision block",
    ),
    pytest.param(
        "PreToolUse",
        specific("PreToolUse", permissionDecision=True),
        "`hookSpecificOutput.permissionDecision` must be a string, not true",
        id="permissionDecision true",
    ),
    pytest.param(
        "PreModelSwitch",
        specific("PreModelSwitch", permissionDecision="defer"),
        '`hookSpecificOutput.permissionDecision` is "defer"; use one of "allow", "deny", "ask"',
        id="defer on PreModelSwitch",
    ),
    pytest.param(
        "PreToolUse",
        {"decision": "deny"},
        '"decision": "deny" is not understood; write "decision": "block"',
        id="decision deny",
    ),
    pytest.param(
        "PreToolUse",
        {"decision": "Block"},
        '"decision": "Block" is not understood; write "decision": "block"',
        id="decision Block",
    ),
    pytest.param(
        "PreToolUse",
        {"decision": "ask"},
        '"decision": "ask" is not understood; write "hookSpecificOutput": '
        '{"hookEventName": ..., "permissionDecision": "ask"}',
        id="decision ask",
    ),
    pytest.param(
        "PreToolUse",
        {"decision": "nope"},
        '"decision": "nope" is not understood; use "block" or "approve"',
        id="decision nope",
    ),
    pytest.param("PreToolUse", {"decision": True}, "`decision` must be a string, not true", id="decision true"),
    pytest.param(
        "PreToolUse",
        {"permissionDecision": "deny"},
        "`permissionDecision` belongs inside `hookSpecificOutput`: "
        '"hookSpecificOutput": {"hookEventName": "PreToolUse", "permissionDecision": ...}',
        id="flat permissionDecision",
    ),
    pytest.param(
        "PostToolUse",
        {"additionalContext": "c"},
        "`additionalContext` belongs inside `hookSpecificOutput`: "
        '"hookSpecificOutput": {"hookEventName": "PostToolUse", "additionalContext": ...}',
        id="flat additionalContext",
    ),
    pytest.param(
        "PreToolUse",
        {"permission_decision": "deny"},
        "`permission_decision` is unknown; did you mean `permissionDecision`?",
        id="snake_case at the top",
    ),
    pytest.param(
        "PreToolUse",
        {"hook_specific_output": {}},
        "`hook_specific_output` is unknown; did you mean `hookSpecificOutput`?",
        id="snake_case hookSpecificOutput",
    ),
    pytest.param(
        "PreToolUse",
        specific("PreToolUse", permission_decision="deny"),
        "`hookSpecificOutput.permission_decision` is unknown; did you mean `permissionDecision`?",
        id="snake_case inside",
    ),
    pytest.param("PreToolUse", {"Decision": "block"}, "`Decision` is unknown; did you mean `decision`?", id="case"),
    pytest.param("PreToolUse", {"desicion": "block"}, "`desicion` is unknown; did you mean `decision`?", id="typo"),
    pytest.param("PreToolUse", {"stop_reason": "x"}, "`stop_reason` is unknown; did you mean `stopReason`?", id="sr"),
    pytest.param(
        "PreToolUse",
        {"hookSpecificOutput": {"permissionDecision": "deny"}},
        '`hookSpecificOutput.hookEventName` is missing; add "hookEventName": "PreToolUse"',
        id="hookEventName missing",
    ),
    pytest.param(
        "PreToolUse",
        specific("PostToolUse", permissionDecision="deny"),
        '`hookSpecificOutput.hookEventName` is "PostToolUse" but the event is "PreToolUse"',
        id="hookEventName wrong",
    ),
    pytest.param(
        "PreToolUse",
        {"hookSpecificOutput": {"hookEventName": 5}},
        '`hookSpecificOutput.hookEventName` is 5 but the event is "PreToolUse"',
        id="hookEventName a number",
    ),
    pytest.param(
        "PreToolUse",
        specific("PreToolUse", decision="block"),
        "`hookSpecificOutput.decision` belongs at the top level, beside `hookSpecificOutput`",
        id="decision inside",
    ),
    pytest.param(
        "UserPromptSubmit",
        specific("UserPromptSubmit", permissionDecision="deny"),
        '`hookSpecificOutput.permissionDecision` is not for UserPromptSubmit; write "decision": "block" '
        "at the top level",
        id="a deny that the event does not know",
    ),
    pytest.param("PreToolUse", {"continue": "false"}, '`continue` must be true or false, not "false"', id="a string"),
    pytest.param("PreToolUse", {"continue": 0}, "`continue` must be true or false, not 0", id="0 for false"),
    pytest.param("PreToolUse", {"reason": ["r"]}, "`reason` must be a string, not a list", id="a list of reasons"),
    pytest.param("PreToolUse", {"systemMessage": {}}, "`systemMessage` must be a string, not an object", id="object"),
    pytest.param(
        "PreToolUse", {"hookSpecificOutput": "deny"}, '`hookSpecificOutput` must be an object, not "deny"', id="text"
    ),
    pytest.param(
        "PreToolUse",
        specific("PreToolUse", updatedInput="ls"),
        '`hookSpecificOutput.updatedInput` must be an object, not "ls"',
        id="updatedInput as text",
    ),
    pytest.param(
        "SessionStart",
        specific("SessionStart", watchPaths=["a", 5]),
        "`hookSpecificOutput.watchPaths` must be a list of strings, not a list",
        id="watchPaths with a number",
    ),
    pytest.param(
        "PostToolUse",
        {"async": True, "asyncTimeout": "5"},
        '`asyncTimeout` must be a number from 0 to 10^12, not "5"',
        id="asyncTimeout as text",
    ),
    pytest.param(
        "PostToolUse",
        {"async": True, "asyncTimeout": -1},
        "`asyncTimeout` must be a number from 0 to 10^12, not -1",
        id="asyncTimeout below 0",
    ),
    pytest.param(
        "PostToolUse",
        {"async": True, "asyncTimeout": 10**400},
        f"`asyncTimeout` must be a number from 0 to 10^12, not {str(10**400)[:60]}",
        id="asyncTimeout of 400 digits",
    ),
    pytest.param(
        "PermissionRequest",
        permission(message="no"),
        '`hookSpecificOutput.decision.behavior` is missing; it is "allow" or "deny"',
        id="behavior missing",
    ),
    pytest.param(
        "PermissionRequest",
        permission(behavior="block"),
        '`hookSpecificOutput.decision.behavior` is "block"; use one of "allow", "deny"; did you mean "deny"?',
        id="behavior block",
    ),
    pytest.param(
        "PermissionRequest",
        permission(behaviour="deny"),
        "`hookSpecificOutput.decision.behaviour` is unknown; did you mean `behavior`?",
        id="behaviour",
    ),
    pytest.param(
        "PermissionRequest",
        permission(behavior="allow", updatedPermissions="all"),
        '`hookSpecificOutput.decision.updatedPermissions` must be a list, not "all"',
        id="updatedPermissions as text",
    ),
    pytest.param(
        "PermissionRequest",
        {"decision": "block"},
        "a bare block is not honoured on PermissionRequest; answer with hookSpecificOutput: "
        '{"decision": {"behavior": "deny", "message": "..."}}',
        id="a bare block on PermissionRequest",
    ),
    pytest.param(
        "Elicitation",
        specific("Elicitation", action="reject"),
        '`hookSpecificOutput.action` is "reject"; use one of "accept", "decline", "cancel"',
        id="action reject",
    ),
    pytest.param(
        "PreToolUse",
        {"block": True, "reason": "r"},
        '`block` is a field of a handler\'s result; in an answer write "decision": "block"',
        id="seed 002's block mixed with seed 001's reason",
    ),
    pytest.param("PreToolUse", {"success": "yes"}, '`success` must be true or false, not "yes"', id="a handler's type"),
]


@pytest.mark.parametrize(("event", "output", "message"), MISSES)
def test_a_near_miss_is_a_failure_with_an_exact_message(event: str, output: dict[str, Any], message: str) -> None:
    """An answer that is nearly right is never silently ignored."""
    reply = read_output(sample(event), output, CLAUDE)

    assert (reply.status, reply.answer) == (Status.FAILED, NOTHING)
    assert message == reply.error


LOST = [
    pytest.param("PreToolUse", {"flavour": 1}, "unknown field `flavour` was ignored", id="unknown"),
    pytest.param("PreToolUse", {"reason": "r"}, "`reason` without `decision` has no effect", id="a lone reason"),
    pytest.param(
        "PreToolUse",
        {"stopReason": "s"},
        "`stopReason` without `continue: false` has no effect",
        id="a stopReason",
    ),
    pytest.param(
        "PostToolUse", {"asyncTimeout": 5}, "`asyncTimeout` without `async` has no effect", id="a lone asyncTimeout"
    ),
    pytest.param("SessionEnd", {"systemMessage": "m"}, "`systemMessage` has no effect on SessionEnd", id="discarded"),
    pytest.param(
        "TaskCreated", {"continue": False}, "`continue` has no effect on TaskCreated", id="1.3 continue:false ignored"
    ),
    pytest.param("Notification", {"decision": "block"}, "a block has no effect on Notification", id="can't block"),
    pytest.param(
        "PostToolUse", {"decision": "approve"}, '"decision": "approve" has no effect on PostToolUse', id="approve"
    ),
    pytest.param(
        "PostToolUse",
        specific("PostToolUse", permissionDecision="deny"),
        "`hookSpecificOutput.permissionDecision` has no effect on PostToolUse",
        id="another event's field",
    ),
    pytest.param(
        "PreToolUse",
        specific("PreToolUse", permissionDecision="defer", updatedInput={}),
        "`updatedInput` is ignored with permissionDecision defer",
        id="2.5 ignored with defer",
    ),
]


@pytest.mark.parametrize(("event", "output", "note"), LOST)
def test_what_has_no_effect_is_reported(event: str, output: dict[str, Any], note: str) -> None:
    """A field that is understood but does nothing is named."""
    reply = read_output(sample(event), output, CLAUDE)

    assert reply.status is Status.OK
    assert note in reply.lost


# -- what functions return -----------------------------------------------------------------------------------------

RETURNED = [
    pytest.param("PreToolUse", None, NOTHING, id="nothing"),
    pytest.param("PreToolUse", {}, NOTHING, id="an empty dict"),
    pytest.param("PreToolUse", deny("no"), deny("no"), id="an answer"),
    pytest.param("PreToolUse", Reply(answer=deny("no")), deny("no"), id="a reply"),
    pytest.param("PreToolUse", {"continue_": False, "stopReason": "s"}, Answer(stop=True, stop_reason="s"), id="SDK"),
    pytest.param("PostToolUse", {"async_": True}, Answer(background=True), id="SDK: async_"),
    pytest.param("PreToolUse", {"success": True}, NOTHING, id="seed 002: success"),
    pytest.param("PreToolUse", {"success": True, "data": {"a": 1}}, Answer(data={"a": 1}), id="seed 002: data"),
    pytest.param("PreToolUse", {"success": True, "block": True, "blockReason": "r"}, deny("r"), id="seed 002: block"),
    pytest.param("PreToolUse", {"success": True, "block": True, "block_reason": "r"}, deny("r"), id="snake_case"),
    pytest.param("PreToolUse", {"success": False, "block": True, "blockReason": "r"}, deny("r"), id="fails and blocks"),
    pytest.param("PreToolUse", {"success": True, "contextToInject": "c"}, Answer(context="c"), id="seed 002: context"),
    pytest.param("Stop", {"block": True, "blockReason": "r"}, Answer(keep_going=True, reason="r"), id="block of Stop"),
    pytest.param("Stop", deny("r"), Answer(keep_going=True, reason="r"), id="a deny of Stop is a block of Stop"),
]


@pytest.mark.parametrize(("event", "value", "answer"), RETURNED)
def test_what_a_function_returns_is_read(event: str, value: object, answer: Answer) -> None:
    """A function may return an answer, the dict of seed 001 or of seed 002, or nothing."""
    reply = read_returned(sample(event), value, SPEC)

    assert (Status.OK, answer) == (reply.status, reply.answer)


@pytest.mark.parametrize(
    ("value", "error"),
    [
        pytest.param("deny", "returned str; return an Answer, a dict or nothing", id="text"),
        pytest.param(False, "returned bool; return an Answer, a dict or nothing", id="False"),
        pytest.param({"success": False, "error": "boom"}, "boom", id="seed 002: success false"),
        pytest.param({"success": False}, "the handler reported success: false", id="seed 002: no error given"),
        pytest.param({5: "x"}, "the key 5 is not a string", id="a key that is no string"),
    ],
)
def test_what_a_function_should_not_return_is_a_failure(value: object, error: str) -> None:
    """Anything else is a failure that names what to return."""
    reply = read_returned(sample("PreToolUse"), value, SPEC)

    assert (Status.FAILED, error, NOTHING) == (reply.status, reply.error, reply.answer)


# -- anything ------------------------------------------------------------------------------------------------------

FIELDS = (
    *("continue", "stopReason", "suppressOutput", "systemMessage", "terminalSequence", "decision", "reason"),
    *("hookSpecificOutput", "async", "asyncTimeout", "success", "block", "blockReason", "data", "other"),
)
INSIDE = (
    *("hookEventName", "permissionDecision", "permissionDecisionReason", "updatedInput", "additionalContext"),
    *("updatedToolOutput", "decision", "action", "content", "watchPaths", "retry", "behavior", "other"),
)
words = st.sampled_from(["block", "approve", "deny", "allow", "ask", "defer", "accept", "decline", "Deny"])
values = st.one_of(words, st.booleans(), json_values, names, texts, st.integers(), objects)
insides = st.dictionaries(st.sampled_from(INSIDE), values, max_size=4)
outputs = st.dictionaries(st.sampled_from(FIELDS), st.one_of(values, insides), max_size=4)


@settings(max_examples=600, deadline=None)
@given(some_events, outputs, st.sampled_from(list(MEANINGS.values())))
@example(sample("PostToolUse"), {"async": True, "asyncTimeout": 10**400}, CLAUDE)
def test_any_output_gives_a_reply(event: Event, output: dict[str, Any], meanings: Meanings) -> None:
    """Whatever a hook answers, reading it gives an answer or a failure, never an exception; a failure has a reason."""
    reply = read_output(event, output, meanings)

    assert reply.status in (Status.OK, Status.FAILED)
    assert reply.status is Status.OK or reply.error
    assert len(reply.lost) < 50


@settings(max_examples=300, deadline=None)
@given(outputs, insides, st.sampled_from(list(MEANINGS.values())))
def test_a_block_is_a_deny_whatever_is_beside_it(
    output: dict[str, Any], inside: dict[str, Any], meanings: Meanings
) -> None:
    """On PreToolUse `decision: block` either denies or, beside a fault, fails; no field turns it into an allow."""
    said = {**output, "decision": "block", "hookSpecificOutput": {**inside, "hookEventName": "PreToolUse"}}
    reply = read_output(sample("PreToolUse"), said, meanings)

    assert reply.status is Status.FAILED or reply.answer.decision is DENY


@settings(max_examples=300, deadline=None)
@given(some_events, answers, st.sampled_from(list(MEANINGS.values())))
def test_what_is_written_can_be_read(event: Event, answer: Answer, meanings: Meanings) -> None:
    """Writing never makes a document that its own reader calls broken."""
    output, _ = write_output(event, answer, meanings)

    assert read_output(event, output, meanings).status is Status.OK


def test_a_hundred_thousand_unknown_fields_are_read_quickly_and_counted() -> None:
    """Hostile output does not make the notes grow."""
    output = {f"field{number}": 1 for number in range(100_000)}
    reply = read_output(sample("PreToolUse"), {**output, "decision": "block"}, CLAUDE)

    assert reply.answer.decision is DENY
    assert reply.lost[-1] == "and 99980 more unknown fields"

"""The reference's tables 1.3, 1.5, 2.6 and 2.7 as data, and every event x end x output that follows from them."""

import json
from typing import Any, NamedTuple

import pytest

from billhook.agents import dialect
from billhook.agents.reference import JsonDialect
from billhook.core import dialect_traits as rows
from billhook.core.answers import NOTHING, Answer, Decision, Exit, Reply, Status
from billhook.core.events import EVENTS
from strategies import SAMPLES, sample

CLAUDE = dialect("claude")
ALL = frozenset({"decision", "continue", "systemMessage"})


class Row(NamedTuple):
    """One row of reference 1.3."""

    exit_2: str
    """deny, go on, stop, model, user, ignored, not honoured"""
    own: dict[str, Any]
    """One answer in hookSpecificOutput, ..."""
    means: Answer | None
    """... and what it means; None: it has no effect."""
    hears: frozenset[str] = ALL
    """Which of the universal fields (1.5) have an effect."""
    text: str = ""
    """What plain text on stdout is: context, path, or nothing."""


def tell(text: str = "c") -> dict[str, Any]:
    return {"additionalContext": text}


TOLD = Answer(context="c")
DENIED = Answer(decision=Decision.DENY, reason="r")
GOES_ON = Answer(keep_going=True, context="c")
PERMIT = {"permissionDecision": "deny", "permissionDecisionReason": "r"}
DECLINED = Answer(decision=Decision.DENY, extras={"action": "decline"})
NONE: dict[str, Any] = {}

TABLE: dict[str, Row] = {
    "PreToolUse": Row("deny", PERMIT, DENIED),
    "PostToolUse": Row("model", {"updatedToolOutput": "new"}, Answer(updated_output="new")),
    "PostToolUseFailure": Row("model", tell(), TOLD),
    "PostToolBatch": Row("stop", tell(), TOLD),
    "PermissionRequest": Row("not honoured", {"decision": {"behavior": "deny", "message": "r"}}, DENIED),
    "PermissionDenied": Row("ignored", {"retry": True}, Answer(extras={"retry": True})),
    "UserPromptSubmit": Row("deny", {"sessionTitle": "t"}, Answer(extras={"sessionTitle": "t"}), text="context"),
    "UserPromptExpansion": Row("deny", tell(), TOLD, text="context"),
    "Notification": Row("ignored", tell(), TOLD),
    "MessageDisplay": Row("ignored", {"displayContent": "d"}, Answer(extras={"displayContent": "d"})),
    "SessionStart": Row("user", {"watchPaths": ["a"]}, Answer(extras={"watchPaths": ["a"]}), text="context"),
    "SessionEnd": Row("user", NONE, None, frozenset()),
    "Setup": Row("user", tell(), TOLD),
    "Stop": Row("go on", tell(), GOES_ON),
    "StopFailure": Row("ignored", NONE, None, frozenset()),
    "SubagentStart": Row("user", tell(), TOLD),
    "SubagentStop": Row("go on", tell(), GOES_ON),
    "TeammateIdle": Row("go on", NONE, NOTHING),
    "TaskCreated": Row("deny", NONE, NOTHING, ALL - {"continue"}),
    "TaskCompleted": Row("deny", NONE, NOTHING),
    "PreCompact": Row("deny", NONE, None, frozenset({"decision"})),
    "PostCompact": Row("user", NONE, None, frozenset()),
    "PreModelSwitch": Row("deny", PERMIT, DENIED),
    "PostModelSwitch": Row("user", tell(), TOLD, text="context"),
    "Elicitation": Row("deny", {"action": "decline"}, DECLINED),
    "ElicitationResult": Row("deny", {"action": "decline"}, DECLINED),
    "ConfigChange": Row("deny", NONE, None, frozenset({"decision"})),
    "InstructionsLoaded": Row("ignored", NONE, None, frozenset()),
    "CwdChanged": Row(
        "user", {"watchPaths": ["a"]}, Answer(extras={"watchPaths": ["a"]}), frozenset({"systemMessage"})
    ),
    "FileChanged": Row(
        "user", {"watchPaths": ["a"]}, Answer(extras={"watchPaths": ["a"]}), frozenset({"systemMessage"})
    ),
    "DirectoryAdded": Row("user", NONE, None, frozenset({"systemMessage"})),
    "WorktreeCreate": Row("deny", {"worktreePath": "/w"}, Answer(extras={"worktreePath": "/w"}), text="path"),
    "WorktreeRemove": Row("ignored", NONE, None, frozenset()),
}

ENDS: dict[str, dict[str, Any]] = {
    "exit 0": {"code": 0},
    "exit 1": {"code": 1},
    "exit 2": {"code": 2},
    "exit 3": {"code": 3},
    "signal": {"signal": 9},
    "timed out": {"timed_out": True},
}
OUTPUTS = ("empty", "text", "own", "block", "stop", "message", "schema", "broken")


def printed(event: str, output: str) -> str:
    reported: dict[str, Any]
    match output:
        case "empty":
            return ""
        case "text":
            return "plain text\n"
        case "own":
            reported = {"hookSpecificOutput": {"hookEventName": event, **TABLE[event].own}}
        case "block":
            reported = {"decision": "block", "reason": "r"}
        case "stop":
            reported = {"continue": False, "stopReason": "over"}
        case "message":
            reported = {"systemMessage": "m"}
        case "schema":
            reported = {"continue": "no"}
        case _:
            return '{"decision": "block", "reason": '
    return json.dumps(reported)


def block(event: str, text: str) -> Answer | None:
    """The column "Exit 2"; None: a failure."""
    match TABLE[event].exit_2:
        case "deny":
            return Answer(decision=Decision.DENY, reason=text)
        case "go on":
            return Answer(keep_going=True, reason=text)
        case "stop":
            return Answer(stop=True, stop_reason=text)
        case "model":
            return Answer(context=text, objection=text)
        case "user":
            return Answer(message=text)
        case "ignored":
            return NOTHING
        case _:
            return None


def json_says(event: str, output: str) -> Answer | None:
    """What a whole JSON answer means (1.3, 1.5); None: it breaks its schema or the event does not honour it."""
    row = TABLE[event]
    match output:
        case "own":
            return NOTHING if row.means is None else row.means
        case "block":
            return block(event, "r") if "decision" in row.hears else NOTHING
        case "stop":
            return Answer(stop=True, stop_reason="over") if "continue" in row.hears else NOTHING
        case "message":
            return Answer(message="m") if "systemMessage" in row.hears else NOTHING
        case _:
            return None


def merged(event: str, reported: Answer) -> Answer | None:
    """2.6: exit 2 blocks regardless; the reason is that of a blocking JSON, else stderr; other fields are read."""
    blocked = block(event, "stderr")
    if reported.decision is Decision.DENY:
        return reported
    if blocked is None:
        return reported if reported.objects else None
    return Answer(
        decision=blocked.decision,
        reason=blocked.reason,
        keep_going=blocked.keep_going,
        context="\n\n".join(filter(None, [reported.context, blocked.context])),
        objection=blocked.objection,
        message="\n".join(filter(None, [reported.message, blocked.message])),
        stop=reported.stop or blocked.stop,
        stop_reason=reported.stop_reason or blocked.stop_reason,
        updated_output=reported.updated_output,
        extras={} if event == "MessageDisplay" else reported.extras,
    )


def expected(event: str, end: str, output: str) -> Answer | None:
    """Table 2.6, with the exceptions of 1.3. None: a failure, which then follows the hook's on_failure."""
    says = json_says(event, output)
    if end == "exit 2":
        if output == "block" and says not in (None, NOTHING):
            return says
        return merged(event, says or NOTHING)
    if says is not None and says.objects:
        return says  # a whole deny denies, however the hook ended
    if end == "exit 0" and output == "text":
        meant = {"context": Answer(context="plain text"), "path": Answer(extras={"worktreePath": "plain text"})}
        return meant.get(TABLE[event].text, NOTHING)
    if end == "exit 0" and output == "empty":
        return NOTHING
    if end in ("exit 1", "exit 3") and event != "WorktreeCreate":
        return says  # the exit code is ignored, JSON decides
    return says if end == "exit 0" else None


def read(event: str, end: str, output: str) -> Reply:
    ended = Exit(stdout=printed(event, output).encode(), stderr=b"stderr\n", **ENDS[end])
    return CLAUDE.read_exit(sample(event), ended)


GRID = [
    pytest.param(event, end, output, id=f"{event}, {end}, {output}")
    for event in TABLE
    for end in ENDS
    for output in OUTPUTS
]


@pytest.mark.parametrize(("event", "end", "output"), GRID)
def test_how_the_reference_reads_an_end_and_an_output(event: str, end: str, output: str) -> None:
    """For each event, end and output the answer is the one of the reference's tables, or a failure."""
    meant = expected(event, end, output)
    reply = read(event, end, output)

    if meant is None:
        status = Status.TIMED_OUT if end == "timed out" else Status.FAILED
        assert (status, False) == (reply.status, reply.answer.objects)
        assert reply.error
    else:
        assert (Status.OK, meant) == (reply.status, reply.answer)
    assert (reply.exit_code, reply.signal) == (ENDS[end].get("code"), ENDS[end].get("signal"))


def test_the_table_has_every_event() -> None:
    """The reference lists 33 events, and so do the table, the samples and the types."""
    assert len(TABLE) == 33
    assert set(TABLE) == set(SAMPLES) == set(EVENTS)


@pytest.mark.parametrize(
    ("event", "end", "rule"),
    [
        pytest.param("PreModelSwitch", "timed out", "deny", id="1.3 PreModelSwitch: timeout blocks too"),
        pytest.param("PreModelSwitch", "exit 1", None, id="1.3 PreModelSwitch: other failures do not"),
        pytest.param("WorktreeCreate", "exit 1", "deny", id="1.3 WorktreeCreate: any non-zero code fails creation"),
        pytest.param("WorktreeCreate", "exit 3", "deny", id="1.3 WorktreeCreate: 3 is non-zero"),
        pytest.param("WorktreeCreate", "signal", "deny", id="1.3 WorktreeCreate: killed"),
        pytest.param("PreToolUse", "exit 1", None, id="2.6 other code: non-blocking error"),
        pytest.param("PreToolUse", "timed out", None, id="2.6 timed out: no decision"),
    ],
)
def test_where_the_reference_never_fails_open(event: str, end: str, rule: str | None) -> None:
    """A failure carries the protocol's own rule only where the reference has one."""
    assert read(event, end, "empty").on_failure == rule


@pytest.mark.parametrize(
    ("event", "stdout", "answer"),
    [
        pytest.param(
            "WorktreeCreate", "making it\n/w/feature\n\n", Answer(extras={"worktreePath": "/w/feature"}), id="last line"
        ),
        pytest.param("SessionStart", "\ufeffhello", Answer(context="hello"), id="a BOM is not context"),
        pytest.param("PreToolUse", "[1, 2]", NOTHING, id="2.6: an array is text"),
        pytest.param("PreToolUse", '"text"', NOTHING, id="2.6: a string is text"),
        pytest.param("PreToolUse", "  \n", NOTHING, id="blank is empty"),
        pytest.param("PreToolUse", "{}", NOTHING, id="an empty object is no answer"),
        pytest.param(
            "PreToolUse", '\ufeff {"systemMessage": "m"} \n', Answer(message="m"), id="trimmed, a BOM accepted"
        ),
    ],
)
def test_what_counts_as_json(event: str, stdout: str, answer: Answer) -> None:
    """Trimmed stdout that starts with `{` is JSON; everything else is text (2.6)."""
    reply = CLAUDE.read_exit(sample(event), Exit(code=0, stdout=stdout.encode()))

    assert (Status.OK, answer) == (reply.status, reply.answer)


def test_a_start_error_is_a_failure_of_its_own() -> None:
    """A command that could not be started is reported, and is not a decision."""
    reply = CLAUDE.read_exit(sample("PreToolUse"), Exit(start_error="ENOENT: no such file"))

    assert (reply.status, reply.answer) == (Status.COULD_NOT_START, NOTHING)


@pytest.mark.parametrize(
    "stderr", ["python3: can't open file '/x.py': [Errno 2]", "usage: guard [-h]", "sh: 1: Syntax error: x"]
)
def test_a_launch_failure_that_exits_2_denies_with_a_note(stderr: str) -> None:
    """An interpreter that can't find its script exits with 2: a deny, with a note (reliability, rule 4)."""
    reply = CLAUDE.read_exit(sample("PreToolUse"), Exit(code=2, stderr=stderr.encode()))

    assert reply.answer.decision is Decision.DENY
    assert reply.error.startswith("this looks like a launch failure")


HTTP = [
    # status, body, meant (None: a failure), error
    pytest.param(200, "", NOTHING, "", id="2.7: 2xx empty"),
    pytest.param(204, "", NOTHING, "", id="2.7: 204"),
    pytest.param(200, '{"systemMessage": "m"}', Answer(message="m"), "", id="2.7: 2xx JSON object"),
    pytest.param(201, '{"decision": "block", "reason": "r"}', DENIED, "", id="2.7: 2xx JSON that blocks"),
    pytest.param(200, '{"continue": "no"}', None, '`continue` must be true or false, not "no"', id="2.7: schema"),
    pytest.param(200, "hello", None, "the body is not JSON: hello", id="2.7: 2xx other body"),
    pytest.param(403, "", None, "HTTP status 403", id="2.7: non-2xx"),
    pytest.param(500, '{"systemMessage": "m"}', None, "HTTP status 500", id="2.7: non-2xx with JSON"),
    pytest.param(302, "", None, "HTTP status 302", id="2.7: a redirect"),
    pytest.param(403, '{"decision": "block", "reason": "r"}', DENIED, "", id="a whole deny denies"),
]


@pytest.mark.parametrize(("status", "body", "meant", "error"), HTTP)
def test_what_an_http_endpoint_answers(status: int, body: str, meant: Answer | None, error: str) -> None:
    """Table 2.7: the body is read like stdout; a status code alone can never block."""
    reply = JsonDialect(rows.CLAUDE).read_response(sample("PreToolUse"), status, body.encode())

    assert (reply.status is Status.OK, reply.answer, reply.error) == (meant is not None, meant or NOTHING, error)

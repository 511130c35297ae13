"""A dialect reads as an agent what it writes as a hook."""

import json

import pytest
from hypothesis import HealthCheck, example, given, settings

from billhook.agents import AGENTS, DIALECTS
from billhook.core.answers import NOTHING, Answer, Decision, Status, deny, inject, keep_going, rewrite, stop
from billhook.core.events import Event
from strategies import SAMPLES, answers, sample, some_events

EVENTS = [*SAMPLES, "SomethingNew"]
SEEDS = ("claude", "spec", "claw", "claw-text", "lesson")
GATED = sample("PreToolUse")


@pytest.mark.parametrize("name", SEEDS)
@settings(max_examples=500, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(event=some_events, answer=answers)
@example(event=GATED, answer=Answer(decision=Decision.DENY, reason="no", keep_going=True))
@example(event=GATED, answer=Answer(decision=Decision.DENY, reason="no", background=True))
@example(event=GATED, answer=Answer(decision=Decision.ALLOW, stop=True))
@example(event=sample("Stop"), answer=Answer(keep_going=True, context="do more"))
@example(event=sample("Elicitation"), answer=Answer(decision=Decision.DENY, extras={"action": "accept"}))
@example(
    event=sample("UserPromptSubmit"), answer=Answer(decision=Decision.DENY, reason="x", extras={"sessionTitle": 5})
)
def test_what_is_written_is_read_back_unless_something_is_reported_lost(
    name: str, event: Event, answer: Answer
) -> None:
    """read(write(answer)) == answer exactly when nothing was reported lost, and an objection stays one."""
    dialect = DIALECTS[name]
    written = dialect.write_exit(event, answer)
    reply = dialect.read_exit(event, written.exit)

    assert (reply.answer == answer and reply.status is Status.OK) == (not written.lost)
    assert all(isinstance(line, str) and line for line in written.lost)
    if answer.objects and event.hook_event_name == "PreToolUse":
        assert reply.status is Status.OK and reply.answer.objects


@pytest.mark.parametrize("name", SEEDS)
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(answer=answers)
def test_a_rounded_decision_is_never_weaker_before_a_tool(name: str, answer: Answer) -> None:
    """Before a tool runs, an answer that was rounded is at least as strict as it was."""
    order = list(Decision)
    dialect = DIALECTS[name]
    reply = dialect.read_exit(GATED, dialect.write_exit(GATED, answer).exit)
    if not answer.background or answer.objects:
        assert order.index(reply.answer.decision) >= order.index(answer.decision)


SPEAKING = {name for name, agent in AGENTS.items() if agent.silence}  # an empty answer would deny there
PLAIN = [
    # dialect, event, answer, code, stdout, stderr
    pytest.param("claw", "PreToolUse", deny("no"), 2, "no", "", id="seed 000: exit 2, stdout is the reason"),
    pytest.param("claw-text", "PreToolUse", deny("no"), 2, "no", "", id="seed 003: exit 2, stdout is the reason"),
    pytest.param("lesson", "PreToolUse", deny("no"), 1, "", "no", id="seed 004: exit 1, stderr is the reason"),
    pytest.param("lesson", "PreToolUse", inject("note"), 2, "", "note", id="seed 004: exit 2 injects stderr"),
    pytest.param("lesson", "PostToolUse", inject("note"), 2, "", "note", id="seed 004: exit 2 appends stderr"),
    pytest.param("claw", "PreToolUse", inject("note"), 0, "note", "", id="seed 000: stdout is feedback"),
    pytest.param("claw", "PostToolUse", deny("bad"), 2, "bad", "", id="seed 000: a denied result"),
    pytest.param("claw", "Stop", keep_going("more"), 2, "more", "", id="claw: a block of Stop goes on"),
    *(
        pytest.param(name, "PreToolUse", NOTHING, 0, "", "", id=f"{name}: empty")
        for name in DIALECTS
        if name not in SPEAKING
    ),
]


@pytest.mark.parametrize(("name", "event", "answer", "code", "stdout", "stderr"), PLAIN)
def test_a_plain_answer_needs_no_json(
    name: str, event: str, answer: Answer, code: int, stdout: str, stderr: str
) -> None:
    """An answer that the exit code can express needs no JSON."""
    written = DIALECTS[name].write_exit(sample(event), answer)

    assert (code, stdout, stderr) == (written.exit.code, written.exit.stdout_text, written.exit.stderr_text)
    assert written.lost == ()


@pytest.mark.parametrize("name", ["claw", "claw-text", "lesson"])
@pytest.mark.parametrize("answer", [deny("no"), stop("over"), Answer(decision=Decision.DENY, reason="no", context="x")])
def test_an_agent_that_only_knows_exit_codes_understands_a_deny(name: str, answer: Answer) -> None:
    """Even if JSON is necessary for a part of an objection, the exit code denies."""
    written = DIALECTS[name].write_exit(GATED, answer)

    assert written.exit.code == (1 if name == "lesson" else 2)


@pytest.mark.parametrize("event", ["PreToolUse", "PermissionRequest"])
def test_a_stop_before_a_tool_is_a_deny_as_well(event: str) -> None:
    """`continue: false` alone would end the run after the call has been made."""
    written = DIALECTS["claude"].write_exit(sample(event), stop("over"))
    reported = json.loads(written.exit.stdout)
    inside = reported["hookSpecificOutput"]

    assert reported["continue"] is False
    assert inside.get("permissionDecision", inside.get("decision", {}).get("behavior")) == "deny"
    assert written.lost == ("a stop became a deny and a stop",)


def test_text_for_the_output_of_a_shell_has_its_shape() -> None:
    """The reference drops an output that has not the tool's own shape."""
    event = sample("PostToolUse", tool_response={"stdout": "secret", "stderr": "more", "interrupted": False})
    written = DIALECTS["claude"].write_exit(event, rewrite(output="[cut]"))
    reported = json.loads(written.exit.stdout)["hookSpecificOutput"]["updatedToolOutput"]

    assert reported == {"stdout": "[cut]", "stderr": "", "interrupted": False}
    assert len(written.lost) == 1

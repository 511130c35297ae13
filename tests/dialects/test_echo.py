"""Hooks that print something which is JSON but was never meant as an answer."""

import json

import pytest

from billhook import PreToolUse, SessionEnd
from billhook.agents import dialect
from billhook.core.answers import NOTHING, Answer, Decision, Exit, Status
from billhook.core.events import Event

EVENT = PreToolUse(session_id="s", tool_name="Bash", tool_input={"command": "ls"})


def printed(text: str, code: int = 0) -> Exit:
    return Exit(code=code, stdout=text.encode())


@pytest.mark.parametrize("event", [EVENT, SessionEnd(reason="other")], ids=lambda event: event.hook_event_name)
def test_a_logger_may_print_the_event_back(event: Event) -> None:
    """`tee -a log` in the claude dialect has no objection and is no failure."""
    reply = dialect("claude").read_exit(event, printed(json.dumps(event.payload)))

    assert (reply.status, reply.answer) == (Status.OK, NOTHING)


def test_a_decision_added_to_the_event_counts() -> None:
    """A hook that prints the event with a block in it blocks."""
    echoed = {**EVENT.payload, "decision": "block", "reason": "no"}

    assert dialect("claude").read_exit(EVENT, printed(json.dumps(echoed))).answer.decision is Decision.DENY


@pytest.mark.parametrize("name", ["claw", "claw-text"])
def test_some_object_or_other_is_feedback_in_claw(name: str) -> None:
    """Seed 000: stdout is feedback; a JSON object is an answer only when it has a field of one."""
    reply = dialect(name).read_exit(EVENT, printed('{"lint": "ok"}'))

    assert reply.answer == Answer(context='{"lint": "ok"}')


@pytest.mark.parametrize("name", ["claw", "claw-text"])
def test_some_object_or_other_is_the_reason_of_a_deny_in_claw(name: str) -> None:
    """Seed 000: with exit 2 stdout becomes the denial message, whatever it is."""
    reply = dialect(name).read_exit(EVENT, printed('{"rule": 7}', code=2))

    assert reply.answer == Answer(decision=Decision.DENY, reason='{"rule": 7}')

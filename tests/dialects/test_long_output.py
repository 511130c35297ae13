"""More output than the limit: its end is unknown, so it never counts as no objection."""

import pytest

from billhook import PreToolUse
from billhook.agents import DIALECTS, dialect
from billhook.core.answers import Decision, Exit, Status

EVENT = PreToolUse(tool_name="Bash", tool_input={"command": "ls"})
KEPT = 1 << 20
ALLOW = b'{"hookSpecificOutput": {"hookEventName": "PreToolUse", "permissionDecision": "allow"}}'
DENY = b'{"decision": "block", "reason": "no"}'


def ended(stdout: bytes, code: int = 0) -> Exit:
    return Exit(code=code, stdout=stdout.ljust(KEPT), truncated=True)


@pytest.mark.parametrize("name", DIALECTS)
@pytest.mark.parametrize("stdout", [b"x" * KEPT, ALLOW, b""], ids=["text", "an allow", "blanks"])
def test_an_output_that_was_cut_is_a_failure(name: str, stdout: bytes) -> None:
    """A deny may be after the cut: it is a failure, and the hook's on_failure decides."""
    reply = dialect(name).read_exit(EVENT, ended(stdout))

    assert reply.status is Status.FAILED
    assert "1 MiB" in reply.error


@pytest.mark.parametrize("name", DIALECTS)
def test_a_deny_before_the_cut_denies(name: str) -> None:
    """What was kept is searched for a deny all the same."""
    assert dialect(name).read_exit(EVENT, ended(b"banner " + DENY)).answer.decision is Decision.DENY


@pytest.mark.parametrize(("name", "code"), [("claude", 2), ("claw", 2), ("claw-text", 2), ("lesson", 1)])
def test_an_exit_code_that_denies_denies(name: str, code: int) -> None:
    """The decision is kept, and its text has an end."""
    reply = dialect(name).read_exit(EVENT, ended(b"\0" * KEPT, code))

    assert reply.answer.decision is Decision.DENY
    assert len(reply.answer.reason) < 70_000


def test_a_cut_stderr_is_told() -> None:
    """A reason that was cut is not passed off as whole."""
    reply = dialect("claude").read_exit(EVENT, Exit(code=2, stderr=b"x" * (1 << 16), truncated=True))

    assert reply.answer.decision is Decision.DENY
    assert reply.lost == ("the output was longer than the limit",)


def test_a_near_miss_is_told_whatever_the_exit_code() -> None:
    """In claude JSON decides on exit 1, so its author needs the message."""
    reply = dialect("claude").read_exit(EVENT, Exit(code=1, stdout=b'{"decision": "deny"}'))

    assert reply.error == 'exit code 1; "decision": "deny" is not understood; write "decision": "block"'


def test_a_deny_of_a_hook_that_was_ended_has_a_note() -> None:
    """The deny counts, and the evidence of the timeout is not lost."""
    reply = dialect("claude").read_exit(EVENT, Exit(timed_out=True, stdout=DENY))

    assert (reply.answer.decision, reply.status) == (Decision.DENY, Status.OK)
    assert "timed out" in reply.error

"""Every exit code and every signal, in every dialect that speaks to processes, in all failure modes."""

import asyncio
import signal
import sys
from typing import Any, Literal

import pytest

from billhook.agents import DIALECTS
from billhook.core.answers import NOTHING, Answer, Decision, Exit, Outcome, Reply, Status, Verdict
from billhook.core.hook import Hook
from billhook.engine.engine import Engine
from billhook.runners.command import command
from strategies import sample

PROCESS_DIALECTS = ("claude", "claw", "claw-text", "lesson")
SIGNALS = sorted(set(signal.Signals) | set(range(signal.SIGRTMIN, signal.SIGRTMAX + 1)))
MODES: tuple[Literal["allow", "deny", "ask"], ...] = ("allow", "deny", "ask")
OUT, ERR = "out", "err"

EFFECTS: dict[tuple[str, str], dict[int, Answer]] = {
    # design 5: (dialect, event) -> code -> answer; all other codes are failures
    ("claude", "PreToolUse"): {0: NOTHING, 2: Answer(decision=Decision.DENY, reason=ERR)},
    ("claude", "PostToolUse"): {0: NOTHING, 2: Answer(context=ERR, objection=ERR)},
    ("claude", "SessionStart"): {0: Answer(context=OUT), 2: Answer(message=ERR)},
    ("claude", "Stop"): {0: NOTHING, 2: Answer(keep_going=True, reason=ERR)},
    ("claw", "PreToolUse"): {0: Answer(context=OUT), 2: Answer(decision=Decision.DENY, reason=OUT)},
    ("claw", "PostToolUse"): {0: Answer(context=OUT), 2: Answer(decision=Decision.DENY, reason=OUT)},
    ("claw", "PostToolUseFailure"): {0: Answer(context=OUT), 2: Answer(decision=Decision.DENY, reason=OUT)},
    ("claw", "PermissionRequest"): {0: Answer(context=OUT), 2: Answer(decision=Decision.DENY, reason=OUT)},
    ("claw", "Stop"): {0: Answer(context=OUT), 2: Answer(keep_going=True, reason=OUT)},
    ("claw-text", "PreToolUse"): {0: Answer(context=OUT), 2: Answer(decision=Decision.DENY, reason=OUT)},
    ("claw-text", "PostToolUse"): {0: Answer(context=OUT)},
    ("lesson", "PreToolUse"): {
        0: NOTHING,
        1: Answer(decision=Decision.DENY, reason=ERR),
        2: Answer(context=ERR),
    },
    ("lesson", "PostToolUse"): {0: NOTHING, 2: Answer(context=ERR)},
    ("lesson", "SessionStart"): {0: NOTHING, 2: Answer(context=ERR)},
}


def fired(event: str, reply: Reply, mode: Literal["allow", "deny", "ask"]) -> Verdict:
    return Engine([Hook(name="h", run=lambda _: reply, on_failure=mode)]).fire_sync(sample(event))


def check(outcome: Outcome, meant: Answer | None, mode: str, event: str) -> None:
    """A code that has a meaning has that one; any other is a failure that does what its owner chose."""
    if meant is not None:
        assert (outcome.status, outcome.answer, outcome.failed_open) == (Status.OK, meant, False)
        return
    assert outcome.status in (Status.FAILED, Status.TIMED_OUT, Status.COULD_NOT_START)
    # A failure never keeps an agent running that is about to stop.
    passes = mode == "allow" or event == "Stop"
    assert outcome.failed_open is passes
    assert outcome.answer.decision == (Decision.NONE if passes else Decision(mode))
    assert passes or outcome.answer.reason


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(("name", "event"), EFFECTS)
def test_all_256_exit_codes(name: str, event: str, mode: Literal["allow", "deny", "ask"]) -> None:
    """Each code from 0 to 255 has the effect in the table of the design."""
    for code in range(256):
        ended = Exit(code=code, stdout=OUT.encode(), stderr=ERR.encode())
        verdict = fired(event, DIALECTS[name].read_exit(sample(event), ended), mode)
        outcome = verdict.outcomes[0]
        check(outcome, EFFECTS[name, event].get(code), mode, event)
        assert outcome.exit_code == code
        assert not outcome.failed_open or str(code) in outcome.error


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(("name", "event"), EFFECTS)
def test_all_signals_time_outs_and_start_errors(name: str, event: str, mode: Literal["allow", "deny", "ask"]) -> None:
    """A hook that was killed, timed out or never ran is a failure, even with output."""
    ends: list[dict[str, Any]] = [{"signal": int(number)} for number in SIGNALS]
    for end in [*ends, {"timed_out": True}, {"start_error": "ENOENT"}, {"lost": True}]:
        reply = DIALECTS[name].read_exit(sample(event), Exit(stdout=OUT.encode(), stderr=ERR.encode(), **end))
        outcome = fired(event, reply, mode).outcomes[0]
        check(outcome, None, mode, event)
        assert outcome.signal == end.get("signal")


REASONS = [
    # dialect, event, code, stdout, stderr, reason
    pytest.param("claude", "PreToolUse", 2, "out", "err", "err", id="claude: stderr"),
    pytest.param("claude", "PreToolUse", 2, "", "", "blocked by a PreToolUse hook", id="claude: no output"),
    pytest.param("claw", "PreToolUse", 2, "out", "err", "out", id="seed 000: stdout becomes the denial message"),
    pytest.param("claw", "PreToolUse", 2, "", "err", "err", id="claw: else stderr"),
    pytest.param("claw", "PreToolUse", 2, "", "", "PreToolUse hook denied tool `bash`", id="claw: no output"),
    pytest.param("claw-text", "PreToolUse", 2, "out", "", "out", id="seed 003: stdout becomes the error message"),
    pytest.param("lesson", "PreToolUse", 1, "out", "err", "err", id="seed 004: stderr returned as error"),
    pytest.param("lesson", "PreToolUse", 1, "out", "", "Blocked by hook", id="lesson: nothing on stderr"),
    pytest.param("lesson", "PreToolUse", 1, '{"reason": "json"}', "err", "err", id="lesson: stderr, not JSON"),
    pytest.param("claw", "PreToolUse", 2, '{"reason": "json"}', "err", "json", id="claw: JSON in stdout is read"),
    pytest.param("claw", "PreToolUse", 2, '{"decision": "appr', "err", "err", id="claw: broken JSON is no reason"),
    pytest.param("claw", "PreToolUse", 2, "{no} go", "err", "{no} go", id="claw: text with a brace"),
    pytest.param("claw-text", "PreToolUse", 2, "{no} go", "", "{no} go", id="claw-text: text with a brace"),
]


@pytest.mark.parametrize(("name", "event", "code", "stdout", "stderr", "reason"), REASONS)
def test_where_the_reason_of_a_deny_is(name: str, event: str, code: int, stdout: str, stderr: str, reason: str) -> None:
    """Each dialect reads the reason from its own stream."""
    ended = Exit(code=code, stdout=stdout.encode(), stderr=stderr.encode())
    reply = DIALECTS[name].read_exit(sample(event), ended)

    assert reply.answer == Answer(decision=Decision.DENY, reason=reason)


JSON = [
    # dialect, code, stdout, meant (None: a failure)
    pytest.param("claw", 0, '{"systemMessage": "m"}', Answer(context="m"), id="claw: a JSON object is an answer"),
    pytest.param("lesson", 0, '{"permissionDecision": "ask"}', Answer(decision=Decision.ASK), id="lesson: three keys"),
    pytest.param("lesson", 0, "plain text", NOTHING, id="lesson: text is for the console"),
    pytest.param("claw", 1, '{"systemMessage": "m"}', None, id="claw: a warning stays one"),
    pytest.param("claude", 1, '{"systemMessage": "m"}', Answer(message="m"), id="claude: JSON decides"),
    pytest.param("spec", 1, '{"systemMessage": "m"}', None, id="spec: any other code is an error"),
    pytest.param("spec", 2, "text", None, id="spec: 2 is a code like any other"),
    pytest.param("spec", 0, "plain text", None, id="spec: text is an error"),
    pytest.param("spec", 0, "", NOTHING, id="spec: no output, no opinion"),
    pytest.param("claw", 2, '{"hookSpecificOutput": {"hookEventName": "PreToolUse", "permissionDecision": "allow"}}',
                 Answer(decision=Decision.DENY, reason="err"), id="claw: exit 2 outranks an allow"),
    pytest.param("claude", 2, '{"hookSpecificOutput": {"hookEventName": "PreToolUse", "permissionDecision": "allow"}}',
                 Answer(decision=Decision.DENY, reason="err"), id="claude: exit 2 outranks an allow"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "code", "stdout", "meant"), JSON)
def test_codes_and_json_together(name: str, code: int, stdout: str, meant: Answer | None) -> None:
    """Which of the two decides, by dialect."""
    reply = DIALECTS[name].read_exit(sample("PreToolUse"), Exit(code=code, stdout=stdout.encode(), stderr=b"err"))

    assert (reply.status is Status.OK, reply.answer) == (meant is not None, meant or NOTHING)


BRACES = [
    # stdout at exit code 0, whether it is text
    pytest.param("{lint} 3 warnings", True, id="a tag"),
    pytest.param("{3 files} ok", True, id="a count"),
    pytest.param("{'files': 3}", True, id="a dict of Python"),
    pytest.param('{"files": 3} {"files": 4}', True, id="two objects"),
    pytest.param('{"files": 3', True, id="broken JSON without a key of the protocol"),
    pytest.param('{"decision": "approve"', False, id="broken JSON with one"),
    pytest.param("{decision: approve}", False, id="without quotes"),
    pytest.param("{'systemMessage': 'm'}", False, id="a dict of Python with one"),
    pytest.param('{"Permission_Decision": "allow",}', False, id="in another spelling"),
    pytest.param(r'{"\u0064ecision": "allow",}', False, id="in escapes"),
]


@pytest.mark.parametrize(("stdout", "is_text"), BRACES)
@pytest.mark.parametrize("name", ["claw", "claw-text", "lesson"])
def test_text_that_begins_with_a_brace(name: str, stdout: str, is_text: bool) -> None:
    """It is text, unless it has a key of the protocol: then it was meant as an answer, and is a failure."""
    reply = DIALECTS[name].read_exit(sample("PreToolUse"), Exit(code=0, stdout=stdout.encode()))
    text = NOTHING if name == "lesson" else Answer(context=stdout)

    assert (reply.status is Status.OK, reply.answer) == (is_text, text if is_text else NOTHING)


@pytest.mark.parametrize(
    ("code", "stderr", "status"),
    [
        pytest.param(127, "sh: 1: nope: not found", Status.COULD_NOT_START, id="127: no such command"),
        pytest.param(126, "sh: 1: /x: Permission denied", Status.COULD_NOT_START, id="126: not executable"),
        pytest.param(127, "", Status.FAILED, id="127 of the command's own"),
        pytest.param(1, "not found", Status.FAILED, id="1 is not a shell's word for it"),
    ],
)
@pytest.mark.parametrize("name", PROCESS_DIALECTS)
def test_a_command_that_could_not_start_is_its_own_class(name: str, code: int, stderr: str, status: Status) -> None:
    """A missing program is told from a program that failed (reliability, rule 4)."""
    reply = DIALECTS[name].read_exit(sample("PostToolUse"), Exit(code=code, stderr=stderr.encode()))

    assert reply.status is status


# -- real processes ------------------------------------------------------------------------------------------------


@pytest.mark.skipif(sys.platform == "win32", reason="speaks to sh")
@pytest.mark.parametrize("mode", ["allow", "deny"])
@pytest.mark.parametrize("name", PROCESS_DIALECTS)
def test_all_256_exit_codes_of_real_processes(name: str, mode: Literal["allow", "deny"]) -> None:
    """The same table through a shell that really exits so."""
    login: Any = {"login": "no"}
    event = sample("PreToolUse")
    engines = [
        Engine([Hook(name="h", run=command(f"echo out; echo err >&2; exit {code}", dialect=name, **login),
                     dialect=name, on_failure=mode)])
        for code in range(256)
    ]  # fmt: skip

    async def all_codes() -> list[Verdict]:
        room = asyncio.Semaphore(8)

        async def one(engine: Engine) -> Verdict:
            async with room:
                return await engine.fire(event)

        return await asyncio.gather(*map(one, engines))

    for code, verdict in enumerate(asyncio.run(all_codes())):
        check(verdict.outcomes[0], EFFECTS[name, "PreToolUse"].get(code), mode, "PreToolUse")
        assert verdict.outcomes[0].exit_code == code


@pytest.mark.skipif(sys.platform == "win32", reason="speaks to sh")
@pytest.mark.parametrize("mode", ["allow", "deny"])
@pytest.mark.parametrize("name", PROCESS_DIALECTS)
def test_signals_of_real_processes(name: str, mode: Literal["allow", "deny"]) -> None:
    """A shell that kills itself is a failure that names the signal."""
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGABRT, signal.SIGKILL, signal.SIGSEGV, signal.SIGTERM):
        hook = Hook(name="h", run=command(f"kill -{int(number)} $$", dialect=name, login="no"), on_failure=mode)
        outcome = Engine([hook]).fire_sync(sample("PreToolUse")).outcomes[0]
        check(outcome, None, mode, "PreToolUse")
        assert outcome.signal == number

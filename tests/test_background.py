"""Answers that come later: they wait for the next event of their session, and nothing outlives its time."""

import asyncio
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from billhook import (
    EVENTS,
    Answer,
    Context,
    Decision,
    Engine,
    Event,
    Hook,
    PostToolUse,
    PreToolUse,
    SessionEnd,
    SessionStart,
    Status,
    UserPromptSubmit,
    command,
    deny,
    inject,
    on,
)
from strategies import sample


def before(session: str = "s1") -> PreToolUse:
    return PreToolUse(tool_name="Bash", tool_input={"command": "ls"}, session_id=session)


def after(session: str = "s1") -> PostToolUse:
    return PostToolUse(tool_name="Bash", tool_input={"command": "ls"}, tool_response="", session_id=session)


def is_alive(pid: int) -> bool:
    """Whether a process runs: one that has ended and was not collected yet does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def wait_until(true: Any, seconds: float = 10.0) -> bool:
    end = time.monotonic() + seconds
    while not (done := true()) and time.monotonic() < end:
        time.sleep(0.01)
    return bool(done)


@on(PostToolUse, background=True)
async def lint(event: PostToolUse) -> Answer:
    await asyncio.sleep(0.05)
    return inject(f"lint of {event.session_id}: 3 findings")


def test_background_hook_answers_with_the_next_event() -> None:
    """The firing does not wait; the answer comes once, with the next event of that session that takes context."""
    engine = Engine([lint])
    began = time.monotonic()
    verdict = engine.fire_sync(after())
    assert time.monotonic() - began < 5
    assert [outcome.status for outcome in verdict.outcomes] == [Status.BACKGROUND]
    assert verdict.context == ()
    assert engine.background.settle(10)
    assert engine.fire_sync(SessionEnd(reason="other", session_id="s1")).context == ()
    assert engine.fire_sync(before("s2")).context == ()
    assert engine.fire_sync(before()).context == ("lint of s1: 3 findings",)
    assert engine.fire_sync(before()).context == ()


def test_parallel_engines_deliver_as_well() -> None:
    """The late answer comes before those of the event's own hooks."""
    engine = Engine([lint, on(PreToolUse, name="now")(lambda event: inject("now"))], parallel=True)
    engine.fire_sync(after())
    assert engine.background.settle(10)
    assert engine.fire_sync(before()).context == ("lint of s1: 3 findings", "now")


@pytest.mark.parametrize("event", [before(), UserPromptSubmit(prompt="x")])
@pytest.mark.parametrize("rule", ["allow", "deny"])
def test_where_something_waits_it_is_a_failure_of_a_gate(event: Event, rule: Any) -> None:
    """On an event that waits for the answer, a gate can't promise one for later; other hooks just run."""
    hooks = [
        Hook(name="flag", run=lambda ctx: deny("no"), background=True, on_failure=rule),
        Hook(name="dict", run=lambda ctx: {"async": True}, on_failure=rule),
        Hook(name="answer", run=lambda ctx: Answer(background=True), on_failure=rule),
    ]
    for hook in hooks:
        verdict = Engine([hook]).fire_sync(event)
        assert verdict.outcomes[0].status is (Status.FAILED if rule == "deny" else Status.BACKGROUND)
        assert ("later" in verdict.outcomes[0].error) is verdict.denied is (rule == "deny")


def test_late_decision_can_only_inform() -> None:
    """A deny after its event is context, with a note about the delay."""
    engine = Engine([on(PostToolUse, background=True, name="judge")(lambda event: deny("leaks a key"))])
    engine.fire_sync(after())
    assert engine.background.settle(10)
    verdict = engine.fire_sync(before())
    assert not verdict.denied
    assert verdict.context == ("leaks a key",)
    assert verdict.outcomes[0].lost


def test_its_timeout_limits_it() -> None:
    """A job that takes too long times out; the next event reports it, and no event failed open."""

    @on(PostToolUse, background=True, timeout=0.05)
    async def slow(event: PostToolUse) -> None:
        await asyncio.sleep(60)

    engine = Engine([slow])
    engine.fire_sync(after())
    assert engine.background.settle(10)
    verdict = engine.fire_sync(before())
    assert verdict.outcomes[0].status is Status.TIMED_OUT
    assert verdict.failed_open == 0
    assert verdict.warnings


def test_raising_job_is_an_outcome() -> None:
    """The next event reports what a job raises; its condition runs once, when the event happens."""
    asked: list[str] = []

    def condition(ctx: Context) -> bool:
        asked.append(ctx.event_type)
        return True

    @on(PostToolUse, background=True, condition=condition)
    def bad(event: PostToolUse) -> None:
        raise SystemExit("no")

    engine = Engine([bad])
    engine.fire_sync(after())
    assert engine.background.settle(10)
    assert "SystemExit: no" in engine.fire_sync(before()).outcomes[0].error
    assert asked == ["PostToolUse"]


def test_cancel_ends_jobs() -> None:
    """Jobs can be ended, even those that have only just begun."""
    engine = Engine([on(PostToolUse, background=True, name="slow")(_sleep)])
    for _ in range(20):
        engine.fire_sync(after())
    began = time.monotonic()
    engine.background.cancel()
    assert engine.background.settle(10)
    assert time.monotonic() - began < 10
    assert engine.background.answers == {}


async def _sleep(event: Event) -> None:
    await asyncio.sleep(60)


# -- commands ------------------------------------------------------------------------------------------------------

needs_posix = pytest.mark.skipif(sys.platform == "win32", reason="needs a POSIX shell")


def promising(rest: str, timeout: str = "", dialect: str = "claude") -> Hook:
    """A command that promises an answer and continues."""
    run = command(f"""printf '%s\\n' '{{"async": true{timeout}}}'; {rest}""", dialect=dialect)
    return Hook(name="promising", run=run, dialect=dialect, timeout=20)


@needs_posix
@pytest.mark.parametrize(
    ("dialect", "timeout"), [("claude", ', "asyncTimeout": 9000'), ("spec", ', "asyncTimeout": 9')]
)
@pytest.mark.parametrize("event", [before(), after()])
def test_command_that_answers_later(event: Event, dialect: str, timeout: str) -> None:
    """`{"async": true}` while the command continues: the firing ends at once, the answer waits for the next event."""
    name = event.hook_event_name
    answer = f'{{"hookSpecificOutput": {{"hookEventName": "{name}", "additionalContext": "deployed"}}}}'
    engine = Engine([promising(f"sleep 0.5; printf '%s' '{answer}'", timeout, dialect)])
    verdict = engine.fire_sync(event)
    assert verdict.outcomes[0].status is Status.BACKGROUND and not verdict.failed_open
    assert verdict.duration_ms < 480 or not verdict.context
    assert engine.background.settle(15)
    assert engine.fire_sync(SessionStart(source="resume", session_id="s1")).context == ("deployed",)


@needs_posix
@pytest.mark.parametrize(("event", "timeout"), [(after(), ', "asyncTimeout": 200'), (after(), ', "asyncTimeout": 1')])
def test_command_that_promises_is_ended_in_time(event: Event, timeout: str, tmp_path: Path) -> None:
    """asyncTimeout (milliseconds) bounds it, however short it is: the process is gone then."""
    pid = tmp_path / "pid"
    engine = Engine([promising(f"echo $$ > {pid}; exec sleep 60", timeout)])
    engine.fire_sync(event)
    assert engine.background.settle(15)
    assert not pid.exists() or wait_until(lambda: not is_alive(int(pid.read_text() or 0)))
    told = engine.fire_sync(before()).outcomes
    assert told[0].status is Status.TIMED_OUT


@needs_posix
@pytest.mark.parametrize("event", EVENTS)
def test_a_background_hook_runs_on_every_event(event: str, tmp_path: Path) -> None:
    """As in Claude Code. What it decides has no effect; nothing fails."""
    mark = tmp_path / "ran"
    engine = Engine([Hook(name="h", run=command(f"cat > {mark}; echo no >&2; exit 2"), background=True)])
    verdict = engine.fire_sync(sample(event))
    assert (verdict.decision, verdict.outcomes[0].status) == (Decision.NONE, Status.BACKGROUND)
    assert engine.background.settle(15) and event in mark.read_text()


@needs_posix
def test_command_that_promises_where_something_waits(tmp_path: Path) -> None:
    """On PreToolUse the promise of a gate is a failure, and the process is ended."""
    pid = tmp_path / "pid"
    hook = promising(f"echo $$ > {pid}; exec sleep 60")
    engine = Engine([Hook(name="gate", run=hook.run, dialect="claude", on_failure="deny")])
    began = time.monotonic()
    assert engine.fire_sync(before()).denied
    assert engine.background.settle(15)
    assert time.monotonic() - began < 15
    assert not pid.exists() or wait_until(lambda: not is_alive(int(pid.read_text() or 0)))


@needs_posix
@pytest.mark.parametrize("event", [before(), after()])
def test_promise_with_a_deny_in_hand_is_a_deny(event: Event) -> None:
    """An objection that comes with the promise counts now."""
    run = command("""echo '{"async": true, "continue": false, "stopReason": "no"}'; exec sleep 60""")
    engine = Engine([Hook(name="h", run=run, dialect="claude")])
    verdict = engine.fire_sync(event)
    assert verdict.stop
    assert verdict.denied is isinstance(event, PreToolUse)
    assert engine.background.settle(15)
    assert engine.background.answers == {}


EXITING = """
import sys
from billhook import Engine, Hook, PostToolUse, command
run = command('''printf '{"async": true}\\\\n'; echo $$ > %s; exec sleep 60''' % sys.argv[1])
engine = Engine([Hook(name="p", run=run, dialect="claude", timeout=50)])
verdict = engine.fire_sync(PostToolUse(tool_name="Bash", tool_input={}, tool_response=""))
print(verdict.outcomes[0].status)
"""


@needs_posix
def test_nothing_outlives_the_interpreter(tmp_path: Path) -> None:
    """A job that still runs when the interpreter exits is ended with it."""
    pid = tmp_path / "pid"
    began = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-c", EXITING, str(pid)], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.stdout.strip() == "background", done.stderr
    assert done.stderr == ""
    assert time.monotonic() - began < 30
    assert not pid.exists() or wait_until(lambda: not is_alive(int(pid.read_text() or 0)))
    assert os.getpid() > 0

"""The factories of `run`: commands, programs, literal answers."""

import asyncio
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from billhook import (
    Context,
    Decision,
    Engine,
    Hook,
    PostToolUse,
    PreToolUse,
    Source,
    Status,
    UsageError,
    Verdict,
    ask,
    command,
    deny,
    execute,
    literal,
    on,
)

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="needs a POSIX shell")

BASH = PreToolUse(tool_name="Bash", tool_input={"command": "ls"}, session_id="s1")
AFTER = PostToolUse(tool_name="Bash", tool_input={"command": "ls"}, tool_response="out", session_id="s1")


def fire(run: Any, event: Any = BASH, **options: Any) -> Verdict:
    dialect = getattr(run, "dialect", "claude")
    return Engine([Hook(name="h", run=run, dialect=dialect, **options)]).fire_sync(event)


@pytest.mark.parametrize(
    ("dialect", "text", "decision", "reason"),
    [
        ("claude", "exit 0", "none", ""),
        ("claude", "echo no >&2; exit 2", "deny", "no"),
        ("claude", "echo no >&2; exit 1", "none", ""),
        ("claude", """echo '{"decision": "block", "reason": "json"}'""", "deny", "json"),
        ("claw", "echo no; exit 2", "deny", "no"),
        ("claw", "echo no; exit 1", "none", ""),
        ("claw-text", "echo no; exit 2", "deny", "no"),
        ("lesson", "echo no >&2; exit 1", "deny", "no"),
        ("lesson", "echo no >&2; exit 2", "none", ""),
    ],
)
def test_exit_codes_of_each_dialect(dialect: str, text: str, decision: str, reason: str) -> None:
    """A command's exit is read by the rules of its dialect."""
    verdict = fire(command(text, dialect=dialect))
    assert (verdict.decision.value, verdict.reason) == (decision, reason)


def test_payload_and_environment() -> None:
    """The command gets the event as rewritten so far, and the results of earlier hooks."""
    rewriter = Hook(
        name="r",
        run=lambda ctx: {"hookSpecificOutput": {"hookEventName": "PreToolUse", "updatedInput": {"command": "pwd"}}},
    )
    tracker = on(PreToolUse, name="turn-tracker")(
        lambda event: {"success": True, "data": {"turnId": "s1:5", "sequence": 5}}
    )
    guard = Hook(
        name="guard",
        run=command('read line; printf "%s %s %s" "$line" "$CLAUDE_TURN_ID" "$EXTRA" >&2; exit 2'),
        dialect="claude",
    )
    verdict = Engine([rewriter, tracker, guard], env={"EXTRA": "more"}).fire_sync(BASH)
    assert '"tool_input":{"command":"pwd"}' in verdict.reason.replace(" ", "")
    assert verdict.reason.endswith("s1:5 more")


def test_deadline_of_a_command(tmp_path: Path) -> None:
    """A command that takes too long is ended; what it denied before still counts."""
    began = time.monotonic()
    verdict = fire(command("sleep 60"), timeout=0.2, on_failure="deny")
    assert time.monotonic() - began < 10
    assert verdict.outcomes[0].status is Status.TIMED_OUT
    assert verdict.denied
    printed = command("""echo '{"decision": "block", "reason": "early"}'; sleep 60""")
    assert fire(printed, timeout=1.5).reason == "early"


def test_cancelled_firing_ends_the_command(tmp_path: Path) -> None:
    """Cancelling the task that fires kills the command."""
    alive = tmp_path / "alive"

    async def main() -> None:
        engine = Engine([Hook(name="h", run=command(f"sleep 1.5; touch {alive}"), dialect="claude")])
        task = asyncio.create_task(engine.fire(BASH))
        await asyncio.sleep(0.2)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())
    time.sleep(2)
    assert not alive.exists()


@pytest.mark.parametrize("argv", [["/no/such/program"], ["/"], ["sh\0x"]])
def test_what_can_t_start_follows_on_failure(argv: list[str]) -> None:
    """A program that can't be started is an outcome; a gate denies."""
    verdict = fire(execute(argv), on_failure="deny")
    assert verdict.outcomes[0].status in (Status.COULD_NOT_START, Status.FAILED)
    assert verdict.denied


def test_execute_needs_no_shell() -> None:
    """Arguments are passed as they are, or split from one text."""
    assert fire(execute([sys.executable, "-c", "import sys; sys.exit('$HOME; no')"]), on_failure="deny").denied
    assert execute("prog 'two words' x").argv == ("prog", "two words", "x")
    empties: tuple[Any, ...] = ("", [], "  ")
    for empty in empties:
        with pytest.raises(UsageError, match="empty command"):
            execute(empty)


def test_two_that_do_the_same_are_equal() -> None:
    """Handlers are records: identical hooks of several layers are found by comparing them."""
    assert command("x") == command("x") != command("y")
    assert command("x") != command("x", dialect="claw")
    assert literal(deny("no")) == literal(deny("no"))
    rules: tuple[tuple[str, Any], ...] = (("user", "allow"), ("project", "deny"))
    hooks = [
        Hook(name=f"h-{layer}", run=command("exit 0"), dialect="claude", source=Source(layer=layer), on_failure=rule)
        for layer, rule in rules
    ]
    plan = Engine(hooks).hooks
    assert [(hook.name, hook.on_failure) for hook in plan] == [("h-user", "deny")]


def test_literal() -> None:
    """A line of config is an answer."""
    assert fire(literal(ask("sure?"))).decision is Decision.ASK


def test_login_exact() -> None:
    """`login="exact"` is a real login shell."""
    assert command("x", dialect="claw", login="exact").argv == ("/bin/sh", "-lc", "x")


def test_many_commands_at_once() -> None:
    """Commands in parallel mode wait at the same time, and each answers for itself."""
    hooks = [Hook(name=f"h{i}", run=command(f"sleep 0.3; echo {i} >&2; exit 2"), dialect="claude") for i in range(8)]
    verdict = Engine(hooks, parallel=True).fire_sync(BASH)
    assert verdict.reason.split() == [str(i) for i in range(8)]


def test_context_reaches_a_callable_record() -> None:
    """Any callable from Context to Answer is a handler."""

    class Counting:
        def __init__(self) -> None:
            self.asked = 0

        def __call__(self, ctx: Context) -> None:
            self.asked += 1

    counting = Counting()
    fire(counting, AFTER)
    assert counting.asked == 1


@pytest.mark.parametrize(
    ("name", "content", "mode", "error"),
    [
        pytest.param("crlf.sh", "#!/bin/sh\r\nexit 0\r\n", 0o755, "CRLF", id="a script with Windows line ends"),
        pytest.param("plain.sh", "#!/bin/sh\nexit 0\n", 0o644, "EACCES", id="a script that is not executable"),
        pytest.param("odd.sh", "#!/no/such/shell\n", 0o755, "/no/such/shell", id="a script with a bad interpreter"),
        pytest.param("", "", 0, "ENOENT", id="a script that does not exist"),
    ],
)
def test_what_a_shell_could_not_start_is_explained(
    tmp_path: Path, name: str, content: str, mode: int, error: str
) -> None:
    """A shell only prints "not found"; the outcome has the reason, with the errno and the fix."""
    if name:
        (tmp_path / name).write_text(content)
        (tmp_path / name).chmod(mode)
    hook = Hook(name="guard", run=command(f"true; ./{name or 'missing.sh'}"), events=("PreToolUse",), dialect="claude")
    event = PreToolUse(cwd=str(tmp_path), tool_name="Bash", tool_input={})

    [outcome] = Engine([hook]).fire_sync(event).outcomes

    assert outcome.status is Status.COULD_NOT_START
    assert error in outcome.error
    assert outcome.failed_open


def test_an_exit_code_of_127_alone_is_a_failure() -> None:
    """A hook that exits with 127 by itself has started."""
    hook = Hook(name="guard", run=command("exit 127"), events=("PreToolUse",), dialect="claude")

    [outcome] = Engine([hook]).fire_sync(PreToolUse(tool_name="Bash", tool_input={})).outcomes

    assert outcome.status is Status.FAILED


def test_a_program_with_an_open_quote_is_a_usage_error() -> None:
    """`execute` names what can't be split."""
    with pytest.raises(UsageError, match="closing quotation"):
        execute("'x")


def test_a_profile_that_hangs_does_not_take_the_hooks_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The hook runs without the login environment, and its verdict comes in time."""
    (tmp_path / ".profile").write_text("sleep 60\n")
    monkeypatch.setenv("HOME", str(tmp_path))
    run = command("echo no; exit 2", dialect="claw")
    hook = Hook(name="guard", run=run, events=("PreToolUse",), dialect="claw", timeout=2)
    began = time.monotonic()

    verdict = Engine([hook]).fire_sync(PreToolUse(tool_name="Bash", tool_input={}))

    assert (verdict.decision, verdict.reason) == ("deny", "no")
    assert time.monotonic() - began < 8

"""One tool call: hooks before it, the tool, hooks after it, and exactly one result."""

import asyncio
import sys
import time
from typing import Any

import pytest

from billhook import Answer, Decision, Hook, UsageError, defer, deny, inject, on, rewrite, stop
from billhook.session import HURRY, Call, Ruling, ToolResult
from session.around import LS, Noted, Rules, run, says, shell

POSIX = pytest.mark.skipif(sys.platform == "win32", reason="a POSIX shell")


def called(noted: Noted, execute: Any = lambda given: "out", given: Any = LS, **options: Any) -> ToolResult:
    """The result of one call in a session of its own."""

    async def work() -> ToolResult:
        async with noted.session(**options) as session:
            return await session.call_tool("Bash", given, execute, tool_use_id="toolu_1")

    return run(work())


def never(given: Any) -> Any:
    pytest.fail("it must not run")


# -- it runs ---------------------------------------------------------------------------------------------------------


async def later(given: dict[str, Any]) -> str:
    await asyncio.sleep(0)
    return f"ran {given['command']}"


@pytest.mark.parametrize(
    ("execute", "content", "response"),
    [
        pytest.param(lambda given: "out\n", "out\n", "out\n", id="text stays as it is"),
        pytest.param(lambda given: None, "", None, id="nothing"),
        pytest.param(lambda given: {"b": 1, "a": ["é"]}, '{"b":1,"a":["é"]}', {"b": 1, "a": ["é"]}, id="a dict"),
        pytest.param(lambda given: [1, None], "[1,null]", [1, None], id="a list"),
        pytest.param(lambda given: 3, "3", 3, id="a number"),
        pytest.param(later, "ran ls", "ran ls", id="async"),
    ],
)
def test_a_call_runs(execute: Any, content: str, response: Any) -> None:
    """No hook objects: the result is what the tool gave, as text, and hooks see what it gave."""
    noted = Noted()

    assert called(noted, execute) == ToolResult("toolu_1", content, False)
    assert noted.inside == ["PreToolUse", "PostToolUse"]
    before, after = noted.of("PreToolUse"), noted.of("PostToolUse")
    assert (before["tool_name"], before["tool_input"], before["tool_use_id"]) == ("Bash", LS, "toolu_1")
    assert (after["tool_name"], after["tool_input"], after["tool_use_id"]) == ("Bash", LS, "toolu_1")
    assert after["tool_response"] == response
    assert after["duration_ms"] >= 0


def test_an_output_that_is_not_json_becomes_text() -> None:
    """A tool that gives an object of its own, or one that holds itself, still has exactly one result."""
    loop: list[Any] = []
    loop.append(loop)

    assert called(Noted(), lambda given: {"x": 1 + 2j}).content == '{"x":"(1+2j)"}'
    assert called(Noted(), lambda given: loop).content == "[[...]]"


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (ValueError("no such file"), "no such file"),
        (RuntimeError(), "RuntimeError"),
        (ExceptionGroup("two", [ValueError("x")]), "two (1 sub-exception)"),
        (asyncio.CancelledError(), "CancelledError"),
        (TimeoutError("after 3 s"), "after 3 s"),
    ],
)
def test_a_tool_that_raises_has_failed(error: BaseException, text: str) -> None:
    """The model gets the error as an error result; PostToolUseFailure has `is_interrupt: false`."""

    async def execute(given: dict[str, Any]) -> None:
        raise error

    noted = Noted()

    assert called(noted, execute) == ToolResult("toolu_1", text, True)
    assert noted.inside == ["PreToolUse", "PostToolUseFailure"]
    failed = noted.of("PostToolUseFailure")
    assert (failed["error"], failed["is_interrupt"], failed["tool_use_id"]) == (text, False, "toolu_1")
    assert failed["tool_input"] == LS
    assert failed["duration_ms"] >= 0


def test_a_tool_that_waits_for_something_cancelled_has_failed() -> None:
    """Only who cancels the call interrupts it: a worker of the tool's own that was cancelled is a failure."""

    async def execute(given: dict[str, Any]) -> None:
        worker = asyncio.ensure_future(asyncio.sleep(60))
        asyncio.get_running_loop().call_soon(worker.cancel)
        await worker

    assert called(Noted(), execute) == ToolResult("toolu_1", "CancelledError", True)


def test_an_interrupted_call() -> None:
    """Cancelled while the tool runs: hooks hear of the interrupt, then it goes on its way."""
    noted = Noted()

    async def work() -> None:
        async with noted.session() as session, asyncio.timeout(0.1):
            await session.call_tool("Bash", LS, lambda given: asyncio.sleep(60))

    with pytest.raises(TimeoutError):
        asyncio.run(work())

    assert noted.inside == ["PreToolUse", "PostToolUseFailure"]
    failed = noted.of("PostToolUseFailure")
    assert (failed["error"], failed["is_interrupt"]) == ("interrupted", True)


@pytest.mark.parametrize("error", [KeyboardInterrupt(), SystemExit("bye")])
def test_what_ends_the_program_is_heard_of(error: BaseException) -> None:
    """Ctrl-C in a tool that blocks, and a tool that calls sys.exit: PostToolUseFailure, SessionEnd, then the end."""

    def execute(given: dict[str, Any]) -> None:
        raise error

    noted = Noted()

    async def work() -> None:
        async with noted.session() as session:
            await session.call_tool("Bash", LS, execute)

    with pytest.raises(type(error)):
        asyncio.run(work())
    assert noted.inside == ["PreToolUse", "PostToolUseFailure"]
    assert noted.of("PostToolUseFailure")["is_interrupt"] is True


def test_cancelled_before_the_tool_runs() -> None:
    """Cancelled while hooks run: the tool does not run, and no event reports that it did."""

    @on("PreToolUse")
    async def thinks(event: Any) -> None:
        await asyncio.sleep(60)

    noted = Noted(thinks)

    async def work() -> None:
        async with noted.session() as session, asyncio.timeout(0.1):
            await session.call_tool("Bash", LS, never)

    with pytest.raises(TimeoutError):
        asyncio.run(work())
    assert noted.inside == []


def test_interrupted_again_while_hooks_hear_of_it() -> None:
    """A second cancellation does not wait for slow hooks of the interrupt."""

    @on("PostToolUseFailure")
    async def slow(event: Any) -> None:
        await asyncio.sleep(4)

    noted = Noted(slow)

    async def work() -> None:
        async with noted.session() as session:
            await session.call_tool("Bash", LS, lambda given: asyncio.sleep(60))

    async def cancelled() -> None:
        task = asyncio.ensure_future(work())
        for _ in range(2):
            await asyncio.sleep(0.05)
            task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    began = time.monotonic()
    run(cancelled())

    assert time.monotonic() - began < 3
    assert noted.inside == ["PreToolUse"]


@pytest.mark.slow
def test_hooks_have_five_seconds_for_an_interrupt() -> None:
    """A hook with an hour of its own does not keep a person waiting who has pressed Ctrl-C."""

    @on("PostToolUseFailure", timeout=3600)
    async def slow(event: Any) -> None:
        await asyncio.sleep(3600)

    noted = Noted(slow)

    async def work() -> None:
        async with noted.session() as session, asyncio.timeout(0.1):
            await session.call_tool("Bash", LS, lambda given: asyncio.sleep(60))

    began = time.monotonic()
    with pytest.raises(TimeoutError):
        asyncio.run(work())

    assert HURRY <= time.monotonic() - began < HURRY + 3
    assert noted.verdicts[2].outcomes[0].status == "timed_out"


# -- it is denied ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("dialect", "content"),
    [
        ("claude", "destructive"),
        ("spec", "destructive"),
        ("claw", "destructive"),
        ("claw-text", "Hook denied: destructive"),
        ("lesson", "Blocked by hook: destructive"),
    ],
)
def test_a_denied_call(dialect: str, content: str) -> None:
    """The tool does not run, and the result has the reason in the words of the dialect, with the error flag."""
    noted = Noted(says("PreToolUse", deny("destructive"), dialect=dialect))

    assert called(noted, never) == ToolResult("toolu_1", content, True)
    assert noted.inside == ["PreToolUse"]


@POSIX
@pytest.mark.parametrize(
    ("dialect", "script", "content"),
    [
        ("claude", "echo destructive >&2; exit 2", "destructive"),
        ("claw", "echo destructive; exit 2", "destructive"),
        ("claw-text", "echo destructive; exit 2", "Hook denied: destructive"),
        ("lesson", "echo destructive >&2; exit 1", "Blocked by hook: destructive"),
    ],
)
def test_a_call_that_a_command_denies(dialect: str, script: str, content: str) -> None:
    """The same from real processes, each with its dialect's exit code."""
    assert called(Noted(shell("PreToolUse", script, dialect)), never) == ToolResult("toolu_1", content, True)


def test_a_gate_that_fails_denies() -> None:
    """No silent fail-open: a gate that crashes blocks the call and is reported; another hook does not."""
    gate = Hook(name="gate", run=lambda ctx: 1 / 0, events=("PreToolUse",), on_failure="deny")  # type: ignore[arg-type, return-value]
    other = Hook(name="other", run=lambda ctx: 1 / 0, events=("PreToolUse",))  # type: ignore[arg-type, return-value]

    denied = called(Noted(gate), never)

    assert denied.is_error
    assert "hook `gate` failed: ZeroDivisionError" in denied.content
    assert called(Noted(other)) == ToolResult("toolu_1", "out")


def test_a_stop_before_the_tool_is_a_deny() -> None:
    """The run is over, and the call has its result with the reason."""
    noted = Noted(says("PreToolUse", stop("enough")))

    async def work() -> tuple[ToolResult, str | None]:
        async with noted.session() as session:
            return await session.call_tool("Bash", LS, never, tool_use_id="1"), session.stopped

    assert run(work()) == (ToolResult("1", "enough", True), "enough")


def test_a_stopped_run_runs_no_more_tools() -> None:
    """Of three calls in one reply the second is stopped: the third runs no hooks and has its result."""
    noted = Noted(says("PostToolUse", stop("seen enough"), condition=lambda ctx: ctx.event.tool_use_id == "2"))
    ran: list[str] = []

    async def work() -> list[ToolResult]:
        async with noted.session() as session:
            uses = ("1", "2", "3")
            return [
                await session.call_tool(
                    "Bash", {"command": use}, lambda given: ran.append(given["command"]), tool_use_id=use
                )
                for use in uses
            ]

    results = run(work())

    assert ran == ["1", "2"]
    assert results[1:] == [ToolResult("2", ""), ToolResult("3", "not run: seen enough", True)]
    assert noted.inside == ["PreToolUse", "PostToolUse"] * 2


def test_a_deferred_call() -> None:
    """It is left pending: the run ends, the tool does not run, no permission is asked for."""
    rules = Rules()
    noted = Noted(says("PreToolUse", defer("wait for Monday")))

    async def work() -> tuple[ToolResult, str | None]:
        async with noted.session(permissions=rules) as session:
            return await session.call_tool("Bash", LS, never, tool_use_id="1"), session.stopped

    assert run(work()) == (ToolResult("1", "wait for Monday", True), "wait for Monday")
    assert rules.judged == []
    assert noted.inside == ["PreToolUse"]


def test_context_of_a_denied_call_is_not_lost() -> None:
    """Feedback of other hooks reaches the model beside the result, in every dialect."""
    noted = Noted(says("PreToolUse", inject("see the handbook"), "a", "claw"), says("PreToolUse", deny("no"), "b"))

    async def work() -> tuple[str, str]:
        async with noted.session() as session:
            return (await session.call_tool("Bash", LS, never)).content, session.take_context()

    assert run(work()) == ("no", "see the handbook")


# -- it is rewritten -------------------------------------------------------------------------------------------------


def test_all_later_events_see_a_rewritten_input() -> None:
    """Permission, tool and the hooks after it get the input as hooks have left it."""
    safe = {"command": "ls --safe"}
    noted, rules = Noted(says("PreToolUse", rewrite(input=safe))), Rules(Ruling(Decision.ALLOW))

    assert called(noted, lambda given: given["command"], permissions=rules).content == "ls --safe"
    assert [one[1] for one in rules.judged] == [safe]
    assert noted.of("PreToolUse")["tool_input"] == LS
    assert noted.of("PostToolUse")["tool_input"] == safe


def test_a_failure_has_the_rewritten_input_too() -> None:
    """PostToolUseFailure has the real error."""
    noted = Noted(says("PreToolUse", rewrite(input={"command": "safe"})))

    called(noted, lambda given: 1 / 0)

    assert noted.of("PostToolUseFailure")["tool_input"] == {"command": "safe"}


def test_a_rewritten_output_is_what_the_model_gets() -> None:
    """Text, or a JSON value; the tool's original output is for the hooks only."""
    assert called(Noted(says("PostToolUse", rewrite(output="redacted")))).content == "redacted"
    assert called(Noted(says("PostToolUse", rewrite(output={"kept": 1})))).content == '{"kept":1}'
    assert called(Noted(says("PostToolUse", rewrite(output=None)))).content == ""


def test_a_tool_may_write_into_its_input() -> None:
    """Hooks after it, and the conversation that the input is from, keep the one that was judged."""
    given: dict[str, Any] = {"command": "ls", "options": {"long": True}}
    noted = Noted()

    def execute(taken: dict[str, Any]) -> str:
        taken["options"].clear()
        return str(taken.pop("command"))

    assert called(noted, execute, given).content == "ls"
    assert noted.of("PostToolUse")["tool_input"] == given == {"command": "ls", "options": {"long": True}}


def test_a_tool_by_another_name_meets_the_same_hooks() -> None:
    """A loop that calls its shell `bash`, as the seeds do, does not get past the guards of Bash."""
    rules = Rules(Ruling(Decision.ALLOW))
    noted = Noted(says("PreToolUse", deny("no"), match="Bash"))

    async def work(name: str) -> ToolResult:
        async with noted.session(permissions=rules) as session:
            return await session.call_tool(name, LS, lambda given: "out")

    assert run(work("bash")).content == "no"
    noted = Noted()
    assert run(work("bash")).content == "out"
    assert [one[0] for one in rules.judged] == ["Bash"]


# -- feedback of hooks -----------------------------------------------------------------------------------------------


def test_feedback_as_in_the_sample_of_seed_000() -> None:
    """[tool output], then the hooks before it, then those after it."""
    noted = Noted(
        says("PreToolUse", inject("pre hook message"), "a", "claw"),
        says("PostToolUse", inject("post hook message"), "b", "claw"),
    )

    result = called(noted, lambda given: "tool output")

    assert result.content == "tool output\n\nHook feedback:\npre hook message\n\nHook feedback:\npost hook message"
    assert not result.is_error


@POSIX
def test_feedback_of_commands() -> None:
    """What commands print is merged; a deny after the tool is labelled and marks the result as an error."""
    noted = Noted(
        shell("PreToolUse", "echo checked", "claw", "a"),
        shell("PostToolUse", "echo 'not formatted'; exit 2", "claw", "b"),
    )

    assert called(noted) == ToolResult(
        "toolu_1", "out\n\nHook feedback:\nchecked\n\nHook feedback (denied):\nnot formatted", True
    )


@POSIX
def test_feedback_of_a_lesson() -> None:
    """Seed 004: stderr of exit 2 is appended to the result, without a label."""
    noted = Noted(shell("PostToolUse", "echo 'lint: 3 problems' >&2; exit 2", "lesson"))

    assert called(noted) == ToolResult("toolu_1", "out\n\nlint: 3 problems", False)


def test_feedback_on_a_failure() -> None:
    """A failed tool stays failed, and hooks can add feedback."""
    noted = Noted(says("PostToolUseFailure", inject("try sudo"), dialect="claw"))

    def execute(given: dict[str, Any]) -> None:
        raise ValueError("denied")

    assert called(noted, execute) == ToolResult("toolu_1", "denied\n\nHook feedback:\ntry sudo", True)


def test_context_of_other_dialects_goes_its_own_way() -> None:
    """The reference's and seed 001's context is no part of the result: it waits for the next model call."""
    noted = Noted(
        says("PreToolUse", inject("before"), "a"),
        says("PostToolUse", inject("after"), "b"),
        says("PostToolUse", inject("merged"), "c", "claw"),
    )

    async def work() -> tuple[str, str]:
        async with noted.session() as session:
            return (await session.call_tool("Bash", LS, lambda given: "out")).content, session.take_context()

    assert run(work()) == ("out\n\nHook feedback:\nmerged", "before\nafter")


@pytest.mark.parametrize(
    ("output", "reported", "content"),
    [
        pytest.param("out", deny("not formatted"), "out\n\nnot formatted", id="with a reason"),
        pytest.param("", deny("not formatted"), "not formatted", id="no output"),
        pytest.param("  out\n", deny(""), "  out\n", id="no reason: the output stays as it is"),
    ],
)
def test_a_deny_after_the_tool_is_an_error(output: str, reported: Answer, content: str) -> None:
    """The deny comes after the action; the model gets the reason."""
    assert called(Noted(says("PostToolUse", reported)), lambda given: output) == ToolResult("toolu_1", content, True)


# -- in two halves ---------------------------------------------------------------------------------------------------


def test_in_two_halves() -> None:
    """A tool that runs elsewhere: what to run it with, then what came of it."""
    noted = Noted(says("PreToolUse", rewrite(input={"command": "safe"})))

    async def work() -> tuple[Call, ToolResult]:
        async with noted.session() as session:
            call = await session.before_tool("Bash", LS, tool_use_id="1")
            return call, await session.after_tool(call, "out")

    call, result = run(work())

    assert (call.result, call.tool_use_id, call.tool_name, call.tool_input) == (None, "1", "Bash", {"command": "safe"})
    assert result == ToolResult("1", "out")
    assert noted.inside == ["PreToolUse", "PostToolUse"]


def test_halves_of_a_failure() -> None:
    """An error, and whether it was an interrupt."""
    noted = Noted()

    async def work() -> ToolResult:
        async with noted.session() as session:
            call = await session.before_tool("Bash", LS, tool_use_id="1")
            return await session.after_tool(call, error="killed", is_interrupt=True)

    assert run(work()) == ToolResult("1", "killed", True)
    failed = noted.of("PostToolUseFailure")
    assert (failed["error"], failed["is_interrupt"]) == ("killed", True)


def test_halves_of_a_denied_call() -> None:
    """It has its result already, and takes no second half."""
    noted = Noted(says("PreToolUse", deny("no")))

    async def work() -> None:
        async with noted.session() as session:
            call = await session.before_tool("Bash", LS, tool_use_id="1")
            assert call.result == ToolResult("1", "no", True)
            await session.after_tool(call, "out")

    with pytest.raises(UsageError, match="`1` already has its result, or must not run"):
        run(work())
    assert noted.inside == ["PreToolUse"]


def test_an_id_is_used_once() -> None:
    """A second first half with the same id, or a second second half, is a mistake of the loop, and fires nothing."""
    noted = Noted()

    async def work() -> None:
        async with noted.session() as session:
            call = await session.before_tool("Bash", LS, tool_use_id="1")
            with pytest.raises(UsageError, match="`1` was already checked"):
                await session.before_tool("Bash", LS, tool_use_id="1")
            await session.after_tool(call, "out")
            with pytest.raises(UsageError, match="`1` already has its result"):
                await session.after_tool(call, "out")
            with pytest.raises(UsageError, match="`1` was already checked"):
                await session.call_tool("Bash", LS, never, tool_use_id="1")

    run(work())

    assert noted.inside == ["PreToolUse", "PostToolUse"]


def test_a_call_of_another_session_is_not_taken() -> None:
    """Its hooks were not the ones who judged it."""
    noted = Noted()

    async def work() -> None:
        async with noted.session() as one, noted.session() as two:
            call = await one.before_tool("Bash", LS)
            with pytest.raises(UsageError):
                await two.after_tool(call, "out")

    run(work())


def test_ids_are_made_up_where_there_are_none() -> None:
    """Each call has one, and it is the one of its events and its result."""
    noted = Noted()

    async def work() -> list[str]:
        async with noted.session() as session:
            return [(await session.call_tool("Bash", LS, lambda given: "out")).tool_use_id for _ in range(3)]

    ids = run(work())

    assert len(set(ids)) == 3
    assert [event.tool_use_id for event in noted.events[1:-1]] == [one for one in ids for _ in range(2)]  # type: ignore[attr-defined]


def test_calls_at_the_same_time() -> None:
    """Ten tools that wait for one another: each has its own result and its own two events."""
    noted = Noted()
    together = asyncio.Barrier(10)

    async def execute(given: dict[str, Any]) -> str:
        await together.wait()
        return str(given["command"])

    async def work() -> list[ToolResult]:
        async with noted.session() as session:
            calls = (session.call_tool("Bash", {"command": str(i)}, execute, tool_use_id=f"t{i}") for i in range(10))
            return await asyncio.gather(*calls)

    assert run(work()) == [ToolResult(f"t{i}", str(i)) for i in range(10)]
    assert sorted(noted.inside) == ["PostToolUse"] * 10 + ["PreToolUse"] * 10

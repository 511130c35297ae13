"""A session from start to end: prompts, stops, compaction, and the hooks at each event."""

import asyncio
import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from billhook import (
    Answer,
    Context,
    Engine,
    Hook,
    Notification,
    TaskCreated,
    Verdict,
    deny,
    inject,
    keep_going,
    on,
    stop,
)
from billhook.session import FORCED_AT_MOST, HURRY, Session
from session.around import LS, Noted, run, says, shell


def lines(path: Path) -> list[str]:
    return path.read_text().split() if path.exists() else []


# -- start and end ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("source", ["startup", "resume", "clear", "compact"])
def test_a_session_starts_and_ends(source: str) -> None:
    """SessionStart has its source and model, SessionEnd has its reason."""
    noted = Noted()

    async def work() -> None:
        async with noted.session(source=source, model="small-one", agent_type="reviewer") as session:
            session.end_reason = "prompt_input_exit"

    run(work())

    assert noted.names == ["SessionStart", "SessionEnd"]
    started = noted.of("SessionStart")
    assert (started["source"], started["model"], started["agent_type"]) == (source, "small-one", "reviewer")
    assert noted.of("SessionEnd")["reason"] == "prompt_input_exit"


@pytest.mark.parametrize("trigger", ["init", "maintenance"])
def test_setup_comes_first(trigger: Any) -> None:
    """A run that sets up the project fires Setup before it starts."""
    noted = Noted()

    async def work() -> None:
        async with noted.session(setup=trigger):
            pass

    run(work())

    assert noted.names == ["Setup", "SessionStart", "SessionEnd"]
    assert noted.of("Setup")["trigger"] == trigger


def test_every_event_has_what_all_events_have(tmp_path: Path) -> None:
    """Session, transcript, folder and mode are on each event; the prompt's id from the first prompt on."""
    noted = Noted()

    async def work() -> Session:
        options = {"session_id": "s1", "transcript_path": "/t/s1.jsonl", "permission_mode": "acceptEdits"}
        async with noted.session(cwd=str(tmp_path), **options) as session:
            await session.prompt("go")
            await session.call_tool("Bash", LS, lambda given: "out")
            await session.call_tool("Bash", LS, lambda given: 1 / 0)
            await session.batch([])
            await session.notify("hello", type="idle_prompt")
            await session.compact(lambda: "short")
            await session.failed("overloaded")
            await session.fire(TaskCreated, task_id="1", task_subject="x")
            await session.stop("bye")
        return session

    session = run(work())

    assert (session.id, session.transcript_path, session.cwd) == ("s1", "/t/s1.jsonl", str(tmp_path))
    for event in noted.events:
        assert (event.session_id, event.transcript_path) == ("s1", "/t/s1.jsonl"), event
        assert (event.cwd, event.permission_mode) == (str(tmp_path), "acceptEdits"), event
    ids = [event.prompt_id for event in noted.events]
    assert ids[0] is None
    assert ids[1] is not None
    assert set(ids[1:]) == {ids[1]}
    assert noted.names == [
        *("SessionStart", "UserPromptSubmit", "PreToolUse", "PostToolUse", "PreToolUse", "PostToolUseFailure"),
        *("PostToolBatch", "Notification", "PreCompact", "PostCompact", "SessionStart", "StopFailure", "TaskCreated"),
        *("Stop", "SessionEnd"),
    ]


def test_what_it_has_by_itself() -> None:
    """An id of its own, the folder it is in, and the mode that asks."""
    one, two = Session(Engine()), Session(Engine())

    assert one.id != two.id
    assert one.cwd == os.getcwd()
    assert (one.permission_mode, one.turn, one.stopped, one.take_context()) == ("default", 0, None, "")


def test_paths_may_be_paths(tmp_path: Path) -> None:
    """Paths may be pathlib objects; events have strings."""
    noted = Noted()

    async def work() -> None:
        async with noted.session(cwd=tmp_path, transcript_path=tmp_path / "t") as session:
            async with session.subagent("reviewer", transcript_path=tmp_path / "a"):
                pass
            await session.clear(transcript_path=tmp_path / "u")

    run(work())

    started, stopped = noted.events[0], noted.of("SubagentStop")
    assert (started.cwd, started.transcript_path) == (str(tmp_path), str(tmp_path / "t"))
    assert stopped["agent_transcript_path"] == str(tmp_path / "a")
    assert noted.events[-1].transcript_path == str(tmp_path / "u")


def test_a_loop_may_change_folder_and_mode() -> None:
    """The next event has them as they are then."""
    noted = Noted()

    async def work() -> None:
        async with noted.session() as session:
            session.cwd, session.permission_mode = "/elsewhere", "plan"
            await session.prompt("go")

    run(work())

    prompt = noted.of("UserPromptSubmit")
    assert (prompt["cwd"], prompt["permission_mode"]) == ("/elsewhere", "plan")


@pytest.mark.parametrize("error", [ValueError("x"), KeyboardInterrupt(), SystemExit(3), asyncio.CancelledError()])
def test_the_end_is_fired_whatever_ends_it(error: BaseException) -> None:
    """What leaves the block goes on its way, after SessionEnd."""
    noted = Noted()

    async def work() -> None:
        async with noted.session():
            raise error

    with pytest.raises(type(error)):
        asyncio.run(work())

    assert noted.names == ["SessionStart", "SessionEnd"]


def test_a_cancelled_session_ends() -> None:
    """Cancelled in the middle of a wait, it fires SessionEnd with hooks that take their time, and is cancelled then."""
    slow: list[str] = []

    @on("SessionEnd")
    async def recorder(event: Any) -> None:
        await asyncio.sleep(0.05)
        slow.append("ended")

    noted = Noted(recorder)

    async def work() -> None:
        async with noted.session():
            await asyncio.sleep(60)

    async def cancelled() -> None:
        task = asyncio.ensure_future(work())
        await asyncio.sleep(0.05)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    run(cancelled())

    assert slow == ["ended"]
    assert noted.names == ["SessionStart", "SessionEnd"]


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX signals")
def test_ctrl_c_ends_it(tmp_path: Path) -> None:
    """A real SIGINT: SessionEnd's command runs to its end, and the program is interrupted."""
    ended = tmp_path / "ended"
    noted = Noted(shell("SessionEnd", f"sleep 0.1; echo ended > '{ended}'", "claude"))

    async def work() -> None:
        async with noted.session():
            asyncio.get_running_loop().call_later(0.05, signal.raise_signal, signal.SIGINT)
            await asyncio.sleep(60)

    with pytest.raises(KeyboardInterrupt):
        asyncio.run(work())

    assert lines(ended) == ["ended"]


@pytest.mark.skipif(sys.platform == "win32", reason="a POSIX shell")
def test_a_second_cancellation_cuts_the_end_short(tmp_path: Path) -> None:
    """A second cancellation while SessionEnd's hooks run does not wait for them; no process is left."""
    begun, ended = tmp_path / "begun", tmp_path / "ended"
    noted = Noted(shell("SessionEnd", f"echo $$ > '{begun}'; sleep 4; echo ended > '{ended}'", "claw"))

    async def work() -> None:
        async with noted.session():
            await asyncio.sleep(60)

    async def cancelled() -> None:
        task = asyncio.ensure_future(work())
        await asyncio.sleep(0.05)
        task.cancel()
        while not lines(begun):  # noqa: ASYNC110 (a process writes it)
            await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    began = time.monotonic()
    run(cancelled())

    assert time.monotonic() - began < 3.5
    with pytest.raises(ProcessLookupError):
        os.kill(int(lines(begun)[0]), 0)
    assert not ended.exists()


def raises(ctx: Context) -> None:
    raise RuntimeError("broken")


async def hangs(ctx: Context) -> None:
    await asyncio.sleep(60)


@pytest.mark.parametrize("event", ["SessionStart", "SessionEnd"])
@pytest.mark.parametrize(("fault", "status"), [(raises, "failed"), (hangs, "timed_out")])
@pytest.mark.parametrize("on_failure", ["allow", "deny"])
def test_broken_hooks_at_start_and_end(event: str, fault: Any, status: str, on_failure: Any) -> None:
    """A hook that fails or hangs there, gate or not, keeps no session from starting, working and ending."""
    broken = Hook(name="broken", run=fault, events=(event,), timeout=0.1, on_failure=on_failure)
    noted = Noted(broken)

    async def work() -> str:
        async with noted.session() as session:
            return (await session.call_tool("Bash", LS, lambda given: "out")).content

    assert run(work()) == "out"
    assert noted.names == ["SessionStart", "PreToolUse", "PostToolUse", "SessionEnd"]
    at = {verdict.event: verdict.outcomes for verdict in noted.verdicts}
    assert [outcome.status for outcome in at[event]] == [status]


@pytest.mark.slow
def test_the_end_waits_only_so_long() -> None:
    """A hook with an hour of its own does not keep a program from ending."""
    noted = Noted(Hook(name="sleeper", run=hangs, events=("SessionEnd",), timeout=3600))

    async def work() -> None:
        async with noted.session():
            pass

    began = time.monotonic()
    run(work())

    assert HURRY <= time.monotonic() - began < HURRY + 3


def test_cancelled_at_its_very_start() -> None:
    """After a cancellation during SessionStart's hooks SessionEnd is still fired."""
    noted = Noted(Hook(name="sleeper", run=hangs, events=("SessionStart",)))

    async def work() -> None:
        async with noted.session():
            pytest.fail("it never got so far")

    with pytest.raises(TimeoutError):
        asyncio.run(asyncio.wait_for(work(), 0.1))

    assert noted.names == ["SessionEnd"]


def test_an_interrupt_at_its_very_start() -> None:
    """The same for a Ctrl-C that hits a hook which is a function."""

    @on("SessionStart")
    def interrupted(event: Any) -> None:
        raise KeyboardInterrupt

    noted = Noted(interrupted)

    async def work() -> None:
        async with noted.session():
            pytest.fail("it never got so far")

    with pytest.raises(KeyboardInterrupt):
        asyncio.run(work())

    assert noted.names == ["SessionEnd"]


# -- prompts ---------------------------------------------------------------------------------------------------------


def test_a_prompt_counts_and_gets_an_id() -> None:
    """Each prompt is a turn, with an id that the turn's events carry."""
    noted = Noted()

    async def work() -> int:
        async with noted.session() as session:
            await session.prompt("one")
            await session.prompt("two")
            return session.turn

    assert run(work()) == 2
    one, two = (event for event in noted.events if event.hook_event_name == "UserPromptSubmit")
    assert (one.payload["prompt"], two.payload["prompt"]) == ("one", "two")
    assert one.prompt_id != two.prompt_id


def test_a_prompt_can_be_blocked() -> None:
    """The verdict is denied; context of its hooks does not reach the model later."""
    noted = Noted(says("UserPromptSubmit", inject("about that prompt"), "a"), says("UserPromptSubmit", deny("no"), "b"))

    async def work() -> tuple[Verdict, str]:
        async with noted.session() as session:
            return await session.prompt("the password is x"), session.take_context()

    verdict, context = run(work())

    assert (verdict.denied, verdict.reason) == (True, "no")
    assert context == ""


# -- context ---------------------------------------------------------------------------------------------------------

CONTEXTUAL: dict[str, Callable[[Session], Any]] = {
    "SessionStart": lambda session: session.prompt("x"),  # it is there already
    "UserPromptSubmit": lambda session: session.prompt("x"),
    "PreToolUse": lambda session: session.call_tool("Bash", LS, lambda given: "out"),
    "PostToolUse": lambda session: session.call_tool("Bash", LS, lambda given: "out"),
    "PostToolUseFailure": lambda session: session.call_tool("Bash", LS, lambda given: 1 / 0),
    "PostToolBatch": lambda session: session.batch([]),
    "Notification": lambda session: session.notify("x", type="y"),
    "Stop": lambda session: session.stop(),
}


@pytest.mark.parametrize("event", CONTEXTUAL)
@pytest.mark.parametrize("dialect", ["claude", "spec"])
def test_context_is_given_once(event: str, dialect: str) -> None:
    """What a hook tells the model waits for the next model call, and is gone then."""
    specific = {"hookEventName": event, "additionalContext": f"from {event}"}
    noted = Noted(says(event, {"hookSpecificOutput": specific}, dialect=dialect))

    async def work() -> list[str]:
        async with noted.session() as session:
            await CONTEXTUAL[event](session)
            return [session.take_context(), session.take_context()]

    assert run(work()) == [f"from {event}", ""]


def test_context_of_setup() -> None:
    """Setup's context is there for the first model call."""
    noted = Noted(says("Setup", inject("set up")))

    async def work() -> str:
        async with noted.session(setup="init") as session:
            return session.take_context()

    assert run(work()) == "set up"


@pytest.mark.parametrize(
    ("dialects", "text"),
    [
        pytest.param(("claude", "claude"), "a\n\nb", id="claude: a blank line"),
        pytest.param(("spec", "spec"), "a\nb", id="spec: a line"),
        pytest.param(("claw", "claw"), "a\nb", id="claw: a line"),
        pytest.param(("spec", "claude"), "a\n\nb", id="mixed: as the later one has it"),
    ],
)
def test_contexts_are_joined_as_in_their_dialects(dialects: tuple[str, str], text: str) -> None:
    """The separator of two contexts depends on the dialect."""
    hooks = [
        says("UserPromptSubmit", inject(word), name=word, dialect=dialect)
        for word, dialect in zip("ab", dialects, strict=True)
    ]
    noted = Noted(*hooks)

    async def work() -> str:
        async with noted.session() as session:
            await session.prompt("x")
            return session.take_context()

    assert run(work()) == text


def test_contexts_of_several_events_add_up() -> None:
    """All that came together since the last model call, in order, and what the loop adds itself."""
    noted = Noted(says("SessionStart", inject("rules")), says("UserPromptSubmit", inject("ticket"), "second"))

    async def work() -> str:
        async with noted.session() as session:
            await session.prompt("x")
            session.add_context("mail")
            return session.take_context()

    assert run(work()) == "rules\nticket\n\nmail"


def test_system_messages_of_seed_001_are_context() -> None:
    """In seed 001 `systemMessage` is for the model; in the reference it is for the person."""
    reported = {"systemMessage": "mind the gap"}
    noted = Noted(
        says("UserPromptSubmit", reported, "one"), says("UserPromptSubmit", reported | {"reason": ""}, "two", "claude")
    )

    async def work() -> tuple[Verdict, str]:
        async with noted.session() as session:
            return await session.prompt("x"), session.take_context()

    verdict, context = run(work())

    assert context == "mind the gap"
    assert verdict.messages == ("mind the gap",)


# -- a hook that stops the run ---------------------------------------------------------------------------------------

STOPPABLE = {name: act for name, act in CONTEXTUAL.items() if name != "SessionStart"} | {
    "StopFailure": lambda session: session.failed("overloaded"),
    "PreCompact": lambda session: session.compact(lambda: "short"),
    "PostCompact": lambda session: session.compact(lambda: "short"),
}


@pytest.mark.parametrize("event", STOPPABLE)
def test_a_stop_is_noted(event: str) -> None:
    """The session has the reason of a stop, until there is another prompt."""
    noted = Noted(says(event, stop("enough")))

    async def work() -> list[str | None]:
        async with noted.session() as session:
            if event != "UserPromptSubmit":
                await session.prompt("x")
            before = session.stopped
            await STOPPABLE[event](session)
            stopped = session.stopped
            await session.prompt("again")
            return [before, stopped, session.stopped]

    again = "enough" if event == "UserPromptSubmit" else None
    assert run(work()) == [None, "enough", again]


def test_a_stop_without_a_reason_names_the_event() -> None:
    """There is always a reason to show."""
    noted = Noted(says("Notification", stop()))

    async def work() -> str | None:
        async with noted.session() as session:
            await session.notify("x", type="y")
            return session.stopped

    assert run(work()) == "a hook stopped the run at Notification"


def test_a_stop_at_the_start_holds_for_the_first_prompt() -> None:
    """A loop that looks at `stopped` only inside its turn sees it there."""
    noted = Noted(says("SessionStart", stop("closed on Sundays")))

    async def work() -> list[str | None]:
        async with noted.session() as session:
            at_first = session.stopped
            await session.prompt("x")
            return [at_first, session.stopped, (await session.call_tool("Bash", LS, lambda given: "ran")).content]

    assert run(work()) == ["closed on Sundays", "closed on Sundays", "not run: closed on Sundays"]


def test_the_first_reason_stays() -> None:
    """Two hooks that stop the run at two events: the first one counts."""
    noted = Noted(says("Notification", stop("one")), says("PostToolBatch", stop("two"), "other"))

    async def work() -> str | None:
        async with noted.session() as session:
            await session.notify("x", type="y")
            await session.batch([])
            return session.stopped

    assert run(work()) == "one"


def test_a_block_after_the_batch_ends_the_run() -> None:
    """PostToolBatch can't be undone: a block ends the loop, in every form of a block."""
    for reported in (deny("that is all"), {"decision": "block", "reason": "that is all"}):
        noted = Noted(says("PostToolBatch", reported))

        async def work(noted: Noted = noted) -> str | None:
            async with noted.session() as session:
                await session.batch([{"tool_name": "Bash", "tool_input": LS, "tool_use_id": "1", "tool_response": ""}])
                return session.stopped

        assert run(work()) == "that is all"
        assert noted.of("PostToolBatch")["tool_calls"][0]["tool_use_id"] == "1"


def test_a_stop_at_the_end_changes_nothing() -> None:
    """There is no run left to end."""
    noted = Noted(says("SessionEnd", stop("late")))

    async def work() -> Session:
        async with noted.session() as session:
            pass
        return session

    assert run(work()).stopped is None


# -- Stop ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "reported",
    [keep_going("run the tests"), deny("run the tests"), {"decision": "block", "reason": "run the tests"}],
    ids=["keep_going", "deny", "block"],
)
def test_a_hook_keeps_it_going(reported: Any) -> None:
    """A block of Stop is more work, with its reason; the next Stop has `stop_hook_active`."""
    noted = Noted(
        Hook(name="tests", run=lambda ctx: None if ctx.event.stop_hook_active else reported, events=("Stop",))  # type: ignore[attr-defined]
    )

    async def work() -> list[Verdict]:
        async with noted.session() as session:
            return [await session.stop("done"), await session.stop("now really")]

    first, second = run(work())

    assert (first.keep_going, first.reason) == (True, "run the tests")
    assert not second.keep_going
    stops = [event.payload for event in noted.events if event.hook_event_name == "Stop"]
    assert [one["stop_hook_active"] for one in stops] == [False, True]
    assert [one["last_assistant_message"] for one in stops] == ["done", "now really"]


def test_eight_times_is_enough() -> None:
    """The ninth time in a row it stops, and the verdict has the hook's name; then the count begins again."""
    noted = Noted(says("Stop", keep_going("more"), "never-happy"), says("Stop", inject("x"), "other", "claw"))

    async def work() -> list[Verdict]:
        async with noted.session() as session:
            return [await session.stop() for _ in range(FORCED_AT_MOST + 2)]

    *forced, last, anew = run(work())

    assert [one.keep_going for one in forced] == [True] * 8
    assert not last.keep_going
    assert last.messages[-1] == "`never-happy` kept the agent going 8 times in a row; it stops now"
    assert last.id == noted.verdicts[9].id
    assert anew.keep_going
    active = [event.payload["stop_hook_active"] for event in noted.events if event.hook_event_name == "Stop"]
    assert active == [False, *[True] * 8, False]


def test_a_prompt_resets_the_count() -> None:
    """Forced in one turn, a hook may force as often in the next."""
    noted = Noted(says("Stop", keep_going("more")))

    async def work() -> list[bool]:
        async with noted.session() as session:
            first = [(await session.stop()).keep_going for _ in range(8)]
            await session.prompt("next")
            return [*first, *[(await session.stop()).keep_going for _ in range(9)]]

    assert run(work()) == [*[True] * 16, False]


def test_a_stopped_run_is_not_kept_going() -> None:
    """A stop overrides `keep_going`."""
    noted = Noted(says("Notification", stop("enough")), says("Stop", keep_going("more"), "other"))

    async def work() -> bool:
        async with noted.session() as session:
            await session.notify("x", type="y")
            return (await session.stop()).keep_going

    assert run(work()) is False


# -- the rest of its life --------------------------------------------------------------------------------------------


def test_the_fields_of_notify_and_failed() -> None:
    """Their fields are those of the events."""
    noted = Noted()

    async def work() -> None:
        async with noted.session() as session:
            await session.notify("hello", type="idle_prompt", title="billhook")
            await session.failed("rate_limit", details="429", last_message="sorry")

    run(work())

    told, failed = noted.of("Notification"), noted.of("StopFailure")
    assert (told["message"], told["notification_type"], told["title"]) == ("hello", "idle_prompt", "billhook")
    assert (failed["error"], failed["error_details"], failed["last_assistant_message"]) == (
        "rate_limit",
        "429",
        "sorry",
    )


async def written_slowly() -> str:
    await asyncio.sleep(0)
    return "in short"


@pytest.mark.parametrize("summarise", [lambda: "in short", written_slowly], ids=["sync", "async"])
def test_compaction(summarise: Any) -> None:
    """PreCompact, the summary, PostCompact with it, SessionStart with source compact."""
    noted = Noted(says("SessionStart", inject("house rules"), match="compact"))

    async def work() -> tuple[str | None, str]:
        async with noted.session(model="m") as session:
            return await session.compact(summarise, trigger="auto", instructions="keep names"), session.take_context()

    assert run(work()) == ("in short", "house rules")
    assert noted.inside == ["PreCompact", "PostCompact", "SessionStart"]
    before, after, again = (event.payload for event in noted.events[1:-1])
    assert (before["trigger"], before["custom_instructions"]) == ("auto", "keep names")
    assert (after["trigger"], after["compact_summary"]) == ("auto", "in short")
    assert (again["source"], again["model"]) == ("compact", "m")


@pytest.mark.parametrize("reported", [deny("not now"), stop("enough")], ids=["deny", "stop"])
def test_compaction_can_be_blocked(reported: Answer) -> None:
    """Then no summary is written."""
    noted = Noted(says("PreCompact", reported))

    async def work() -> str | None:
        async with noted.session() as session:
            return await session.compact(lambda: pytest.fail("no summary was expected"))

    assert run(work()) is None
    assert noted.inside == ["PreCompact"]


def test_a_summary_that_fails_is_the_loops_affair() -> None:
    """The error comes out; no PostCompact is fired for what did not happen."""
    noted = Noted()

    async def work() -> None:
        async with noted.session() as session:
            await session.compact(lambda: str(1 / 0))

    with pytest.raises(ZeroDivisionError):
        run(work())
    assert noted.inside == ["PreCompact"]


def test_clear_is_another_session() -> None:
    """The old one ends, the new one has another id, no turn, no context and no stop."""
    noted = Noted(says("Notification", stop("enough")), says("UserPromptSubmit", inject("old"), "other"))

    async def work() -> tuple[str, Session]:
        async with noted.session() as session:
            first = session.id
            await session.prompt("x")
            await session.notify("x", type="y")
            await session.clear()
            return first, session

    first, session = run(work())

    assert noted.names[-3:] == ["SessionEnd", "SessionStart", "SessionEnd"]
    ended, started, last = noted.events[-3:]
    assert (ended.payload["reason"], started.payload["source"]) == ("clear", "clear")
    assert ended.session_id == first
    assert started.session_id == last.session_id == session.id != first
    assert (session.turn, session.stopped, session.take_context(), started.prompt_id) == (0, None, "", None)


def test_clear_may_set_the_next_id() -> None:
    """A loop that keeps transcripts names the new session and its file."""
    noted = Noted()

    async def work() -> None:
        async with noted.session(session_id="s1", transcript_path="/t/s1") as session:
            await session.clear(session_id="s2", transcript_path="/t/s2")

    run(work())

    assert [(one.session_id, one.transcript_path) for one in noted.events] == [("s1", "/t/s1")] * 2 + [
        ("s2", "/t/s2")
    ] * 2


def test_any_event_can_be_fired() -> None:
    """What all events have is filled in; what is given wins."""
    noted = Noted()

    async def work() -> Verdict:
        async with noted.session(session_id="s1") as session:
            return await session.fire(Notification, message="x", cwd="/other")

    assert run(work()).about.payload["session_id"] == "s1"
    assert noted.of("Notification")["cwd"] == "/other"


def test_hooks_that_answer_later_reach_the_next_model_call() -> None:
    """A background hook's context comes with a later event that can carry it."""

    @on("Notification", background=True)
    async def looked_up(event: Any) -> Answer:
        return inject("the weather is fine")

    noted = Noted(looked_up)

    async def work() -> str:
        async with noted.session() as session:
            await session.notify("x", type="y")
            await asyncio.to_thread(noted.engine.background.settle, 10)
            await session.prompt("x")
            return session.take_context()

    assert run(work()) == "the weather is fine"

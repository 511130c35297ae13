"""Subagents: sessions inside a session, which hooks can tell apart."""

import asyncio
from typing import Any

import pytest

from billhook import Decision, Hook, TaskCreated, Verdict, deny, inject, keep_going, on, stop
from billhook.session import Ruling, Session, Subagent, ToolResult
from session.around import LS, Noted, Rules, run, says

WHO = ("agent_id", "agent_type")


def test_a_subagent_starts_and_stops() -> None:
    """SubagentStart and SubagentStop with who it is, inside the session."""
    noted = Noted()

    async def work() -> None:
        async with noted.session(session_id="s1", transcript_path="/t/main.jsonl") as session:
            subagent = session.subagent("reviewer", agent_id="a1", transcript_path="/t/a1.jsonl")
            async with subagent as nested:
                await nested.stop("looks good")

    run(work())

    assert noted.inside == ["SubagentStart", "SubagentStop"]
    started, stopped = noted.of("SubagentStart"), noted.of("SubagentStop")
    for one in (started, stopped):
        assert [one[key] for key in WHO] == ["a1", "reviewer"]
        assert (one["session_id"], one["transcript_path"]) == ("s1", "/t/main.jsonl")
    assert stopped["agent_transcript_path"] == "/t/a1.jsonl"
    assert (stopped["stop_hook_active"], stopped["last_assistant_message"]) == (False, "looks good")


def test_every_nested_event_has_its_agent() -> None:
    """All that happens inside carries the agent's id and type; what the parent does outside does not."""
    noted = Noted()

    async def work() -> None:
        async with noted.session() as session:
            await session.prompt("go")
            async with session.subagent("reviewer", agent_id="a1") as nested:
                await nested.prompt("look")
                await nested.call_tool("Bash", LS, lambda given: "out")
                await nested.call_tool("Bash", LS, lambda given: 1 / 0)
                await nested.batch([])
                await nested.notify("x", type="y")
                await nested.compact(lambda: "short")
                await nested.failed("overloaded")
                await nested.fire(TaskCreated)
                await nested.stop()
            await session.call_tool("Bash", LS, lambda given: "out")
            await session.stop()

    run(work())

    names = noted.names
    first, last = names.index("SubagentStart"), names.index("SubagentStop")
    inside = noted.events[first : last + 1]
    outside = [*noted.events[:first], *noted.events[last + 1 :]]
    assert len(inside) == 14
    assert {(one.agent_id, one.agent_type) for one in inside} == {("a1", "reviewer")}
    assert {(one.agent_id, one.agent_type) for one in outside} == {(None, None)}
    assert len({one.session_id for one in noted.events}) == 1


def test_it_knows_which_prompt_it_works_for() -> None:
    """Until it has one of its own, the parent's."""
    noted = Noted()

    async def work() -> None:
        async with noted.session() as session:
            await session.prompt("go")
            async with session.subagent("reviewer"):
                pass

    run(work())

    assert noted.of("SubagentStart")["prompt_id"] == noted.of("UserPromptSubmit")["prompt_id"]


def test_ids_are_its_own() -> None:
    """Two subagents of one type have two ids, and calls of their own."""
    noted = Noted()

    async def work() -> list[Any]:
        async with noted.session() as session:
            await session.call_tool("Bash", LS, lambda given: "main", tool_use_id="1")
            found: list[Any] = []
            for _ in range(2):
                async with session.subagent("reviewer") as nested:
                    assert isinstance(nested, Subagent)
                    found.append(nested.agent_id)
                    await nested.call_tool("Bash", LS, lambda given: "nested", tool_use_id="1")
            return found

    one, two = run(work())

    assert one != two


def test_subagents_have_subagents() -> None:
    """The innermost agent counts."""
    noted = Noted()

    async def work() -> None:
        async with (
            noted.session() as session,
            session.subagent("lead", agent_id="a1") as lead,
            lead.subagent("reviewer", agent_id="a2") as reviewer,
        ):
            await reviewer.call_tool("Bash", LS, lambda given: "out")

    run(work())

    told = [(event.hook_event_name, event.agent_id) for event in noted.events[1:-1]]
    assert told == [
        ("SubagentStart", "a1"),
        ("SubagentStart", "a2"),
        ("PreToolUse", "a2"),
        ("PostToolUse", "a2"),
        ("SubagentStop", "a2"),
        ("SubagentStop", "a1"),
    ]


# -- nothing gets past hooks and rules -------------------------------------------------------------------------------


def test_hooks_are_not_bypassed() -> None:
    """What is denied to the agent is denied to those it spawns."""
    noted = Noted(says("PreToolUse", deny("no")))

    async def work() -> ToolResult:
        async with noted.session() as session, session.subagent("a") as one, one.subagent("b") as two:
            return await two.call_tool("Bash", LS, lambda given: pytest.fail("it must not run"), tool_use_id="1")

    assert run(work()) == ToolResult("1", "no", True)


def test_the_same_rules_and_the_same_person() -> None:
    """Rules, mode and the person are the parent's."""
    rules = Rules(Ruling(Decision.ASK, "sure?"))
    asked: list[Any] = []

    async def work() -> ToolResult:
        options = {"permissions": rules, "ask": asked.append, "permission_mode": "acceptEdits", "cwd": "/somewhere"}
        async with Noted().session(**options) as session, session.subagent("a") as nested:
            return await nested.call_tool("Bash", LS, lambda given: pytest.fail("it must not run"))

    assert run(work()).is_error
    assert rules.judged == [("Bash", LS, "/somewhere", "acceptEdits", Decision.NONE)]
    assert len(asked) == 1


def test_a_hook_can_tell_them_apart() -> None:
    """A guard for one type of agent only."""
    guard = Hook(
        name="reviewers-read",
        run=lambda ctx: deny("reviewers only read") if ctx.payload.get("agent_type") == "reviewer" else None,
        events=("PreToolUse",),
    )
    noted = Noted(guard)

    async def work() -> list[bool]:
        async with noted.session() as session, session.subagent("reviewer") as nested:
            return [
                (await one.call_tool("Bash", LS, lambda given: "out")).is_error for one in (session, nested, session)
            ]

    assert run(work()) == [False, True, False]


# -- what each is told -----------------------------------------------------------------------------------------------


def test_context_stays_in_its_session() -> None:
    """SubagentStart's context is for the subagent's model, the prompt's for the parent's."""
    noted = Noted(says("SubagentStart", inject("be brief")), says("UserPromptSubmit", inject("ticket 7"), "other"))

    async def work() -> tuple[str, str]:
        async with noted.session() as session:
            await session.prompt("go")
            async with session.subagent("reviewer") as nested:
                return session.take_context(), nested.take_context()

    assert run(work()) == ("ticket 7", "be brief")


# -- its end ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("error", [ValueError("x"), KeyboardInterrupt(), asyncio.CancelledError()])
def test_a_subagent_that_breaks_off_has_stopped(error: BaseException) -> None:
    """SubagentStop is always fired, because hooks may count starts and stops."""
    noted = Noted()

    async def work() -> None:
        async with noted.session() as session, session.subagent("reviewer", transcript_path="/t/a.jsonl"):
            raise error

    with pytest.raises(type(error)):
        asyncio.run(work())

    assert noted.inside == ["SubagentStart", "SubagentStop"]
    assert noted.of("SubagentStop")["agent_transcript_path"] == "/t/a.jsonl"


def test_cancelled_while_it_starts() -> None:
    """After a cancellation during SubagentStart's hooks SubagentStop is fired, and SessionEnd after it."""

    @on("SubagentStart")
    async def slow(event: Any) -> None:
        await asyncio.sleep(60)

    noted = Noted(slow)

    async def work() -> None:
        async with noted.session() as session, asyncio.timeout(0.1), session.subagent("reviewer"):
            pytest.fail("it never got so far")

    with pytest.raises(TimeoutError):
        asyncio.run(work())
    assert noted.names == ["SessionStart", "SubagentStop", "SessionEnd"]


def test_it_stops_once() -> None:
    """SubagentStop is not fired twice."""
    noted = Noted()

    async def work() -> None:
        async with noted.session() as session, session.subagent("reviewer") as nested:
            await nested.stop("done")

    run(work())

    assert noted.inside.count("SubagentStop") == 1


def test_a_hook_keeps_it_going() -> None:
    """SubagentStop as Stop: more work, and `stop_hook_active` the next time."""
    noted = Noted(says("SubagentStop", keep_going("check the tests, too"), "never-happy"))

    async def work() -> list[Verdict]:
        async with noted.session() as session, session.subagent("reviewer") as nested:
            return [await nested.stop() for _ in range(9)]

    *forced, last = run(work())

    assert [(one.keep_going, one.reason) for one in forced] == [(True, "check the tests, too")] * 8
    assert not last.keep_going
    assert "`never-happy` kept the agent going 8 times" in last.messages[-1]
    active = [event.payload["stop_hook_active"] for event in noted.events if event.hook_event_name == "SubagentStop"]
    assert active == [False, *[True] * 8]


def test_kept_going_and_then_broken_off() -> None:
    """A stop that a hook did not accept was none: the real end is fired."""
    noted = Noted(says("SubagentStop", keep_going("more")))

    async def work() -> None:
        async with noted.session() as session, session.subagent("reviewer") as nested:
            await nested.stop()
            raise ValueError("out of tokens")

    with pytest.raises(ValueError, match="tokens"):
        run(work())
    assert noted.inside == ["SubagentStart", "SubagentStop", "SubagentStop"]


def test_another_prompt_is_another_stop() -> None:
    """A subagent that is prompted again and breaks off has stopped again."""
    noted = Noted()

    async def work() -> None:
        async with noted.session() as session, session.subagent("reviewer") as nested:
            await nested.stop()
            await nested.prompt("once more")

    run(work())

    assert noted.inside == ["SubagentStart", "SubagentStop", "UserPromptSubmit", "SubagentStop"]


# -- a hook that stops the run ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("detached", [False, True])
@pytest.mark.parametrize("event", ["SubagentStart", "PreToolUse", "PostToolUse", "SubagentStop"])
def test_a_stop_inside_is_a_stop_outside(event: str, detached: bool) -> None:
    """A hook that ends the run of a subagent ends that of its parent, unless it goes its own way."""
    noted = Noted(says(event, stop("enough")))

    async def work() -> tuple[Session, Session]:
        async with noted.session() as session:
            async with session.subagent("reviewer", detached=detached) as nested:
                await nested.call_tool("Bash", LS, lambda given: "out")
                await nested.stop()
            return session, nested

    session, nested = run(work())

    assert nested.stopped == "enough"
    assert session.stopped == (None if detached else "enough")


def test_a_stop_goes_all_the_way_up() -> None:
    """Through two levels, and no tool runs on any of them."""
    noted = Noted(says("Notification", stop("enough")))

    async def work() -> list[str]:
        async with noted.session() as session, session.subagent("a") as one, one.subagent("b") as two:
            await two.notify("x", type="y")
            never = lambda given: pytest.fail("it must not run")
            return [(await each.call_tool("Bash", LS, never)).content for each in (two, one, session)]

    assert run(work()) == ["not run: enough"] * 3


def test_a_stopped_parent_starts_no_working_subagent() -> None:
    """A subagent of a run that is over is over, too."""
    noted = Noted(says("Notification", stop("enough")))

    async def work() -> list[bool]:
        async with noted.session() as session:
            await session.notify("x", type="y")
            found = []
            for detached in (False, True):
                async with session.subagent("late", detached=detached) as nested:
                    found.append((await nested.call_tool("Bash", LS, lambda given: "out")).is_error)
            return found

    assert run(work()) == [True, False]

"""The same session for loops that are not async."""

import asyncio
import inspect
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from typing import Any

import pytest

import billhook
from billhook import Decision, Engine, Notification, TaskCreated, ask, deny, inject, keep_going, stop
from billhook.session import Ruling, Session, SyncSession, ToolResult
from session.around import LS, Noted, Rules, says


def plainly(work: Callable[[], Any]) -> Any:
    return work()


def inside_a_loop(work: Callable[[], Any]) -> Any:
    """Called by code that a loop runs, as in a notebook."""

    async def main() -> Any:
        return work()

    return asyncio.run(main())


both = pytest.mark.parametrize("ways", [plainly, inside_a_loop])


@both
def test_a_whole_turn(ways: Any) -> None:
    """Every call, in the order of a loop's life, fires what the async one fires."""
    noted = Noted(says("UserPromptSubmit", inject("ticket 7")))

    def work() -> list[Any]:
        with SyncSession(noted.engine, session_id="s1", cwd="/somewhere", transcript_path="/t") as session:
            found: list[Any] = [session.id, session.cwd, session.transcript_path, session.permission_mode]
            found += [session.prompt("go").denied, session.turn, session.take_context(), session.take_context()]
            found.append(session.call_tool("Bash", LS, lambda given: "out", tool_use_id="1"))
            call = session.before_tool("Bash", LS, tool_use_id="2")
            found.append(session.after_tool(call, error="no", is_interrupt=False))
            session.batch([])
            session.notify("x", type="y")
            with session.subagent("reviewer", agent_id="a1", transcript_path="/t/a1") as nested:
                nested.call_tool("Bash", LS, lambda given: "out", tool_use_id="1")
                nested.stop("looks good")
            found.append(session.compact(lambda: "short", trigger="auto"))
            session.failed("overloaded")
            session.fire(TaskCreated, task_id="1")
            found += [session.stop("bye").keep_going, session.stopped]
            session.clear()
            return found

    assert ways(work) == [
        *("s1", "/somewhere", "/t", "default"),
        *(False, 1, "ticket 7", ""),
        *(ToolResult("1", "out"), ToolResult("2", "no", True)),
        *("short", False, None),
    ]
    assert noted.names == [
        *("SessionStart", "UserPromptSubmit", "PreToolUse", "PostToolUse", "PreToolUse", "PostToolUseFailure"),
        *("PostToolBatch", "Notification", "SubagentStart", "PreToolUse", "PostToolUse", "SubagentStop"),
        *("PreCompact", "PostCompact", "SessionStart", "StopFailure", "TaskCreated", "Stop"),
        *("SessionEnd", "SessionStart", "SessionEnd"),
    ]


def test_it_has_every_call_of_the_async_one() -> None:
    """The names are the same as in Session; `session` has the rarely needed ones."""
    rare = {"add_context", "ask_hooks", "background_hooks", "end_background", "event", "keep_context", "stop_run"}
    public = {name for name in dir(Session) if not name.startswith("_")}

    assert public - rare == {name for name in dir(SyncSession) if not name.startswith("_")} & public
    for name in public - rare:
        own, other = (list(inspect.signature(getattr(one, name)).parameters) for one in (Session, SyncSession))
        assert own == other, name


@both
def test_hooks_deny(ways: Any) -> None:
    """The tool does not run."""
    noted = Noted(says("PreToolUse", deny("no")))

    def work() -> ToolResult:
        with SyncSession(noted.engine) as session:
            return session.call_tool("Bash", LS, lambda given: pytest.fail("it must not run"), tool_use_id="1")

    assert ways(work) == ToolResult("1", "no", True)


@both
def test_the_person_is_asked(ways: Any) -> None:
    """By a plain function, or an async one."""

    async def slowly(question: Any) -> str:
        await asyncio.sleep(0)
        return "once"

    for person in (lambda question: True, slowly):
        noted = Noted(says("PreToolUse", ask("sure?")))

        def work(noted: Noted = noted, person: Any = person) -> ToolResult:
            with SyncSession(noted.engine, ask=person) as session:
                return session.call_tool("Bash", LS, lambda given: "out", tool_use_id="1")

        assert ways(work) == ToolResult("1", "out")


def test_rules_are_asked() -> None:
    """The options are those of the async session."""
    rules = Rules(Ruling(Decision.DENY, "rule"))

    with SyncSession(Engine(), permissions=rules, permission_mode="plan") as session:
        assert session.call_tool("Bash", LS, lambda given: "out").content == "rule"
    assert rules.judged[0][3] == "plan"


@both
def test_a_tool_runs_where_it_was_called(ways: Any) -> None:
    """In the caller's thread: a database handle that belongs to it works."""

    def work() -> bool:
        here = threading.get_ident()
        with SyncSession(Engine()) as session:
            return session.call_tool("Bash", LS, lambda given: str(threading.get_ident())).content == str(here)

    assert ways(work) is True


def test_a_tool_may_run_a_loop_of_its_own() -> None:
    """A sync tool around an async client calls asyncio.run, and no loop of ours is in its way."""

    async def client() -> str:
        await asyncio.sleep(0)
        return "fetched"

    with SyncSession(Engine()) as session:
        assert session.call_tool("Fetch", {}, lambda given: asyncio.run(client())).content == "fetched"


@both
def test_a_tool_may_be_async(ways: Any) -> None:
    """Then it is waited for."""

    async def execute(given: dict[str, Any]) -> str:
        await asyncio.sleep(0)
        return "out"

    def work() -> str:
        with SyncSession(Engine()) as session:
            return session.call_tool("Bash", LS, execute).content

    assert ways(work) == "out"


@both
def test_a_tool_that_fails(ways: Any) -> None:
    """Its error is the result, and PostToolUseFailure is fired; its input is its own to write into."""
    noted = Noted()
    given = dict(LS)

    def execute(taken: dict[str, Any]) -> None:
        taken.clear()
        raise ValueError("no such file")

    def work() -> ToolResult:
        with SyncSession(noted.engine) as session:
            return session.call_tool("Bash", given, execute, tool_use_id="1")

    assert ways(work) == ToolResult("1", "no such file", True)
    assert noted.inside == ["PreToolUse", "PostToolUseFailure"]
    assert noted.of("PostToolUseFailure")["tool_input"] == LS == given


@both
@pytest.mark.parametrize("error", [KeyboardInterrupt(), SystemExit(1), ValueError("x")])
def test_the_end_is_fired_whatever_ends_it(error: BaseException, ways: Any) -> None:
    """SessionEnd, then what left the block goes on its way."""
    noted = Noted()

    def work() -> None:
        with SyncSession(noted.engine), SyncSession(noted.engine):
            raise error

    with pytest.raises(type(error)):
        ways(work)
    assert noted.names == ["SessionStart", "SessionStart", "SessionEnd", "SessionEnd"]


@both
def test_an_interrupted_tool(ways: Any) -> None:
    """Ctrl-C in a tool: hooks hear of it before the program ends."""
    noted = Noted()

    def execute(given: Any) -> None:
        raise KeyboardInterrupt

    def work() -> None:
        with SyncSession(noted.engine) as session:
            session.call_tool("Bash", LS, execute)

    with pytest.raises(KeyboardInterrupt):
        ways(work)
    assert noted.inside == ["PreToolUse", "PostToolUseFailure"]
    assert noted.of("PostToolUseFailure")["is_interrupt"] is True


@both
def test_stops_and_caps_are_the_same(ways: Any) -> None:
    """Eight forced continuations, and a stop that is noted."""
    noted = Noted(says("Stop", keep_going("more")), says("Notification", stop("enough"), "other"))

    def work() -> tuple[list[bool], str | None]:
        with SyncSession(noted.engine) as session:
            going = [session.stop().keep_going for _ in range(9)]
            session.fire(Notification)
            return going, session.stopped

    assert ways(work) == ([*[True] * 8, False], "enough")


def test_a_detached_subagent() -> None:
    """Its stop is its own."""
    noted = Noted(says("Notification", stop("enough")))

    with SyncSession(noted.engine) as session:
        with session.subagent("reviewer", detached=True) as nested:
            nested.notify("x", type="y")
        assert (nested.stopped, session.stopped) == ("enough", None)


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX signals")
def test_a_real_ctrl_c_while_an_async_tool_runs() -> None:
    """In a program of its own: both events are fired, and the program ends as interrupted programs do."""
    code = """
import asyncio, os, signal, threading
from billhook import Engine, SyncSession
engine = Engine(observers=[lambda verdict: print(verdict.event, verdict.about.payload.get("is_interrupt"), flush=True)])
threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT)).start()
with SyncSession(engine) as session:
    session.call_tool("Bash", {}, lambda given: asyncio.sleep(60))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=30, check=False)

    assert done.stdout.splitlines() == [
        "SessionStart None",
        "PreToolUse None",
        "PostToolUseFailure True",
        "SessionEnd None",
    ]
    assert done.returncode in (-2, 130)
    assert "KeyboardInterrupt" in done.stderr


def test_the_names_are_at_the_top() -> None:
    """`from billhook import Session`, and importing billhook alone does not pay for it."""
    code = "import sys, billhook; print('asyncio' in sys.modules, 'billhook.session' in sys.modules)"
    light = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env={**os.environ})

    assert light.stdout.split() == ["False", "False"]
    for name in ("Session", "SyncSession", "ToolResult", "Question", "Ruling"):
        assert name in billhook.__all__
        assert getattr(billhook, name) is getattr(billhook.session, name)

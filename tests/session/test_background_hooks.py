"""The end of a session waits for hooks in the background, each within its own time; an interrupt ends them."""

import asyncio
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from billhook import Engine, Hook, Session, SyncSession, command, on
from session.around import LS, run


def later(event: str, text: str, timeout: float = 20) -> Hook:
    return Hook(name="later", run=command(text), events=(event,), dialect="claude", background=True, timeout=timeout)


def with_session(engine: Engine, error: BaseException | None = None) -> None:
    async def go() -> None:
        async with Session(engine) as session:
            await drive(session)
            if error is not None:
                raise error

    run(go())


async def drive(session: Session) -> None:
    await session.prompt("go")
    await session.call_tool("Bash", LS, lambda given: "done")
    await session.stop("done")


def with_sync_session(engine: Engine, error: BaseException | None = None) -> None:
    with SyncSession(engine) as session:
        session.prompt("go")
        session.call_tool("Bash", LS, lambda given: "done")
        session.stop("done")
        if error is not None:
            raise error


def cleared(engine: Engine, error: BaseException | None = None) -> None:
    async def go() -> None:
        async with Session(engine) as session:
            await drive(session)
            await session.clear()

    run(go())


@pytest.mark.parametrize("use", [with_session, with_sync_session, cleared])
@pytest.mark.parametrize("event", ["SessionStart", "PostToolUse", "Stop", "SessionEnd"])
def test_they_finish(tmp_path: Path, use: Callable[[Engine], None], event: str) -> None:
    use(Engine([later(event, f"sleep 0.4; touch {tmp_path}/done")]))
    assert (tmp_path / "done").exists()


@pytest.mark.parametrize("use", [with_session, with_sync_session])
@pytest.mark.parametrize(
    ("error", "finishes"), [(OSError("x"), True), (SystemExit(3), True), (KeyboardInterrupt(), False)]
)
def test_how_the_session_ends(
    tmp_path: Path, use: Callable[[Engine, BaseException], None], error: BaseException, finishes: bool
) -> None:
    engine = Engine([later("PostToolUse", f"touch {tmp_path}/began; sleep 1; touch {tmp_path}/done")])
    with pytest.raises(type(error)):
        use(engine, error)
    assert engine.background.settle(0)
    assert (tmp_path / "done").exists() is finishes


def test_cancelled_while_it_waits(tmp_path: Path) -> None:
    """Cancelling the end of a session ends them, too."""
    engine = Engine([later("Stop", f"echo $$ > {tmp_path}/pid; exec sleep 60", timeout=50)])

    async def go() -> None:
        task = asyncio.ensure_future(_whole(engine))
        while not (tmp_path / "pid").exists():  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    run(go())
    assert engine.background.settle(0)


async def _whole(engine: Engine) -> None:
    async with Session(engine) as session:
        await drive(session)


def test_its_time_is_over(tmp_path: Path) -> None:
    """A hook that takes longer than it may is ended, and does not hold up the session."""
    engine = Engine([later("Stop", f"sleep 60; touch {tmp_path}/done", timeout=0.3)])
    with_session(engine)
    assert engine.background.settle(0)
    assert not (tmp_path / "done").exists()


def test_a_function_that_does_not_come_back() -> None:
    """Nothing can interrupt it: it is left behind when its time is over."""
    began = time.monotonic()
    hook = on("Stop", background=True, timeout=0.1)(lambda event: time.sleep(30))
    with_session(Engine([hook]))
    assert time.monotonic() - began < 25


def test_other_sessions_are_not_waited_for(tmp_path: Path) -> None:
    """Several sessions may share an engine."""
    engine = Engine([later("PostToolUse", f"sleep 30; touch {tmp_path}/done", timeout=60)])

    async def go() -> None:
        async with Session(engine) as other:
            await other.call_tool("Bash", LS, lambda given: "done")
            async with Session(engine) as session:
                await session.prompt("go")
            async with other.subagent("helper"):
                pass
            assert other.background_hooks == ["later"]
            other.end_background()

    run(go())
    assert not (tmp_path / "done").exists()

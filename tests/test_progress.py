"""Hook progress: listeners get the start of a hook, and then exactly one end."""

import asyncio
import logging
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from billhook import (
    Answer,
    Context,
    Engine,
    Event,
    Hook,
    PostToolUse,
    PreToolUse,
    SubagentStart,
    command,
    deny,
    load_config,
    on,
    rewrite,
)
from billhook.engine.progress import HookCancelled, HookFinished, HookStarted, HookTimedOut, Progress

BASH = PreToolUse(session_id="s1", tool_name="Bash", tool_input={"command": "ls"}, tool_use_id="toolu_1")
DONE = PostToolUse(session_id="s1", tool_name="Bash", tool_input={}, tool_response="", tool_use_id="toolu_1")


def heard(hooks: list[Hook], event: Event = BASH, *, parallel: bool = False, **options: Any) -> list[Progress]:
    """What a listener gets while an event is fired, background hooks included."""
    told: list[Progress] = []
    engine = Engine(hooks, parallel=parallel, listen=told.append)
    engine.fire_sync(event, **options)
    assert engine.background.settle(10)
    return told


def short(told: list[Progress]) -> list[tuple[str, str]]:
    return [(one.hook, type(one).__name__.removeprefix("Hook")) for one in told]


def ends_follow_starts(told: list[Progress]) -> bool:
    """Each number occurs twice: a start, and later its only end."""
    by_number: dict[int, list[Progress]] = {}
    for one in told:
        by_number.setdefault(one.asking, []).append(one)
    return all(
        len(pair) == 2 and isinstance(pair[0], HookStarted) and not isinstance(pair[1], HookStarted)
        for pair in by_number.values()
    )


@on(PreToolUse)
def quiet(event: PreToolUse) -> None:
    return None


@on(PreToolUse)
async def never_waits(event: PreToolUse) -> None:
    return None


@on(PreToolUse)
async def waits(event: PreToolUse) -> None:
    await asyncio.sleep(0.01)


@on(PreToolUse, timeout=7)
def denies(event: PreToolUse) -> Answer:
    return deny("no")


@on(PreToolUse)
def raises(event: PreToolUse) -> None:
    raise ValueError("broken")


@on(PreToolUse, timeout=0.05, on_failure="deny")
async def hangs(event: PreToolUse) -> None:
    await asyncio.sleep(60)


@pytest.mark.parametrize("parallel", [False, True], ids=["one after the other", "at once"])
@pytest.mark.parametrize(
    ("hook", "end"),
    [
        (quiet, {"type": "hook_finished", "status": "ok", "decision": "none", "reason": None}),
        (never_waits, {"type": "hook_finished", "status": "ok", "decision": "none"}),
        (waits, {"type": "hook_finished", "status": "ok", "decision": "none"}),
        (denies, {"type": "hook_finished", "status": "ok", "decision": "deny", "reason": "no", "error": None}),
        (raises, {"type": "hook_finished", "status": "failed", "failed_open": True, "error": "ValueError: broken"}),
        (hangs, {"type": "hook_timed_out", "status": "timed_out", "decision": "deny", "failed_open": False}),
        (Hook(name="exits", run=command("exit 3")),
         {"type": "hook_finished", "status": "failed", "exit_code": 3, "failed_open": True}),
        (Hook(name="sleeps", run=command("sleep 60"), timeout=0.2),
         {"type": "hook_timed_out", "status": "timed_out", "failed_open": True}),
    ],
    ids=lambda value: value.name if isinstance(value, Hook) else "",
)  # fmt: skip
def test_a_start_and_an_end(hook: Hook, end: dict[str, Any], parallel: bool) -> None:
    """Whatever kind of hook it is and whatever it does; the end has the same fields as its outcome."""
    started, ended = (msgspec.to_builtins(one) for one in heard([hook], parallel=parallel))
    about = {"hook": hook.name, "event": "PreToolUse", "session_id": "s1", "tool_use_id": "toolu_1", "agent_id": None}
    assert started == {"type": "hook_started", **about, "asking": started["asking"], "timeout": started["timeout"]}
    assert {key: ended[key] for key in (*about, *end)} == {**about, **end}
    assert ended["asking"] == started["asking"] and ended["duration_ms"] >= 0


def test_the_time_that_it_has() -> None:
    """The hook's timeout, or the remaining time of the event."""
    (first, _) = heard([denies])
    (clipped, _) = heard([denies], deadline=2)
    assert isinstance(first, HookStarted) and first.timeout == 7
    assert isinstance(clipped, HookStarted) and 1 < clipped.timeout <= 2


def test_in_json() -> None:
    """Typed by `type`: read back as what it was."""
    told = heard([denies, hangs, quiet], parallel=True)
    for one in told:
        assert msgspec.json.decode(msgspec.json.encode(one), type=Progress) == one
    assert {type(one) for one in told} == {HookStarted, HookFinished, HookTimedOut}


def test_events_without_a_tool() -> None:
    """No tool_use_id; the agent's id where there is one."""
    (one, _) = heard([Hook(name="any", run=lambda ctx: None)], SubagentStart(agent_id="a7", agent_type="t"))
    assert (one.event, one.tool_use_id, one.agent_id, one.session_id) == ("SubagentStart", None, "a7", "")


def never(ctx: Context) -> bool:
    return False


def fails(ctx: Context) -> bool:
    raise ValueError("no")


def test_a_skipped_hook_has_no_progress() -> None:
    """Another tool, a condition that is false or raises, hooks after a deny, an event whose time is over."""
    unheard = [
        on(PreToolUse, match="Write")(lambda event: None),
        Hook(name="never", run=print, condition=never),
        Hook(name="fails", run=print, condition=fails),
        Hook(name="gate", run=print, condition=fails, on_failure="deny", priority=5000),
    ]
    later = on(PreToolUse, priority=9000)(lambda event: None)
    assert short(heard([*unheard[:3], denies, later])) == [("denies", "Started"), ("denies", "Finished")]
    assert heard(unheard) == heard([quiet, waits], deadline=0) == []


def test_order() -> None:
    """In sequence, each ends before the next starts; in parallel, all start before one ends."""

    def slow(name: str) -> Hook:
        async def run(ctx: Context) -> None:
            await asyncio.sleep(0.05)

        return Hook(name=name, run=run)

    in_order = [("a", "Started"), ("a", "Finished"), ("b", "Started"), ("b", "Finished")]
    assert short(heard([slow("a"), slow("b")])) == in_order
    at_once = short(heard([slow("a"), slow("b")], parallel=True))
    assert at_once[:2] == [("a", "Started"), ("b", "Started")] and sorted(at_once) == sorted(in_order)


@pytest.mark.parametrize("parallel", [False, True], ids=["one after the other", "at once"])
def test_a_gate_that_runs_again(parallel: bool) -> None:
    """It starts twice, with an end each time."""
    gate = on(PreToolUse, on_failure="deny")(quiet_gate)
    changes = on(PreToolUse)(lambda event: rewrite(input={"command": "ls -l"}))
    told = heard([gate, changes], parallel=parallel)
    assert [one.hook for one in told if isinstance(one, HookStarted)].count("quiet-gate") == 2
    assert len(told) == 6 and ends_follow_starts(told)


def quiet_gate(event: PreToolUse) -> None:
    return None


def test_in_the_background() -> None:
    """A hook in the background ends when its answer comes, in another thread."""
    threads: list[tuple[str, bool]] = []
    released = threading.Event()

    async def run(ctx: Context) -> Answer:
        await asyncio.to_thread(released.wait, 10)
        return Answer(context="late")

    def listen(one: Progress) -> None:
        threads.append((type(one).__name__, threading.current_thread() is threading.main_thread()))

    engine = Engine([Hook(name="lint", run=run, background=True)], listen=listen)
    engine.fire_sync(DONE)
    assert wait_until(lambda: threads == [("HookStarted", False)])
    released.set()
    assert engine.background.settle(10) and threads[1:] == [("HookFinished", False)]


def wait_until(true: Callable[[], bool], seconds: float = 10.0) -> bool:
    end = time.monotonic() + seconds
    while not (done := true()) and time.monotonic() < end:
        time.sleep(0.01)
    return done


def test_a_background_hook_where_something_waits() -> None:
    """A gate does not run there at all, so it has no progress."""
    assert heard([Hook(name="later", run=lambda ctx: None, background=True, on_failure="deny")]) == []


PROMISES = """echo '{"async": true}'; sleep 0.2; echo '{"systemMessage": "done"}'"""


def test_a_command_that_promises_an_answer() -> None:
    """`async: true`: its end is that of its answer."""
    told = heard([Hook(name="later", run=command(PROMISES), dialect="claude")], DONE)
    assert short(told) == [("later", "Started"), ("later", "Finished")]
    assert isinstance(told[1], HookFinished) and (told[1].status, told[1].duration_ms > 50) == ("ok", True)


def test_a_promise_where_something_waits() -> None:
    """The event does not wait, and there is no third progress event."""
    told = heard([Hook(name="later", run=command(PROMISES), dialect="claude", on_failure="deny")])
    assert short(told) == [("later", "Started"), ("later", "Finished")]
    assert isinstance(told[1], HookFinished) and told[1].status == "failed"


def test_a_promise_that_is_not_kept() -> None:
    """Its time is over: it timed out."""
    run = command('echo \'{"async": true, "asyncTimeout": 1}\'; sleep 60')
    told = heard([Hook(name="later", run=run, dialect="claude")], DONE)
    assert short(told) == [("later", "Started"), ("later", "TimedOut")] and ends_follow_starts(told)


def test_a_python_hook_that_promises() -> None:
    """There is nothing that could come later, so it ends at once."""
    told = heard([Hook(name="later", run=lambda ctx: Answer(background=True))], DONE)
    assert short(told) == [("later", "Started"), ("later", "Finished")]
    assert isinstance(told[1], HookFinished) and told[1].status == "background"


@pytest.mark.parametrize("parallel", [False, True], ids=["one after the other", "at once"])
@pytest.mark.parametrize("kind", ["coroutine", "command"])
def test_cancelled(kind: str, parallel: bool) -> None:
    """The caller is cancelled while the hook runs: the end has the time that it ran."""

    async def sleep(ctx: Context) -> None:
        await asyncio.sleep(60)

    told: list[Progress] = []

    async def main() -> None:
        run = sleep if kind == "coroutine" else command("sleep 60")
        started = asyncio.Event()
        engine = Engine([Hook(name="slow", run=run)], parallel=parallel, listen=told.append)
        engine.listen(lambda one: started.set())
        task = asyncio.create_task(engine.fire(BASH))
        await started.wait()
        await asyncio.sleep(0.1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())
    assert short(told) == [("slow", "Started"), ("slow", "Cancelled")] and ends_follow_starts(told)
    assert isinstance(told[1], HookCancelled) and 50 < told[1].duration_ms < 30_000


def test_a_background_hook_that_is_ended() -> None:
    """With the engine's background: cancelled."""

    async def sleep(ctx: Context) -> None:
        await asyncio.sleep(60)

    told: list[Progress] = []
    engine = Engine([Hook(name="slow", run=sleep, background=True)], listen=told.append)
    engine.fire_sync(DONE)
    assert wait_until(lambda: bool(told))
    engine.background.cancel()
    assert short(told) == [("slow", "Started"), ("slow", "Cancelled")]


def test_an_interrupt() -> None:
    """Ctrl-C in a hook goes through, and the hook has its end."""
    told: list[Progress] = []

    def interrupted(ctx: Context) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        Engine([Hook(name="h", run=interrupted)], listen=told.append).fire_sync(BASH)
    assert short(told) == [("h", "Started"), ("h", "Cancelled")]


async def is_async(one: Progress) -> None:
    raise AssertionError("it must not be awaited")


def falls(one: Progress) -> None:
    raise ValueError("I fall")


def leaves(one: Progress) -> None:
    raise SystemExit(3)


@pytest.mark.parametrize("listener", [falls, leaves, is_async], ids=lambda listener: listener.__name__)
def test_a_listener_that_fails(listener: Any, caplog: pytest.LogCaptureFixture) -> None:
    """It is logged, the verdict does not change, and other listeners are still called."""
    told: list[Progress] = []
    engine = Engine([quiet, denies], listen=listener)
    engine.listen(told.append)
    with caplog.at_level(logging.ERROR, "billhook"):
        verdict = engine.fire_sync(BASH)
    assert verdict.denied and [outcome.success for outcome in verdict.outcomes] == [True, True]
    assert len(told) == 4 and "a listener failed on the progress of hook `quiet`" in caplog.text


def test_coming_and_going() -> None:
    """From the call on, until its result is called; a listener may be added twice, and removed twice."""
    told: list[Progress] = []
    engine = Engine([denies])
    leave, leave_too = engine.listen(told.append), engine.listen(told.append)
    engine.fire_sync(BASH)
    assert len(told) == 4
    leave(), leave()
    engine.fire_sync(BASH)
    assert len(told) == 6
    leave_too()
    engine.fire_sync(BASH)
    assert len(told) == 6


@pytest.mark.parametrize("parallel", [False, True], ids=["one after the other", "at once"])
def test_listening_changes_nothing(parallel: bool) -> None:
    """The same verdict, outcome by outcome, with and without a listener."""
    hooks = [
        quiet, never_waits, waits, raises, Hook(name="never", run=print, condition=never),
        on(PreToolUse)(lambda event: rewrite(input={"command": "ls -l"})), denies,
    ]  # fmt: skip
    verdicts = []
    for listen in (None, lambda one: None):
        shown = Engine(hooks, parallel=parallel, listen=listen).fire_sync(BASH).to_dict()
        assert all(outcome.pop("duration_ms") >= 0 for outcome in shown["outcomes"])
        verdicts.append({key: value for key, value in shown.items() if key not in ("id", "duration_ms")})
    assert verdicts[0] == verdicts[1]


def test_many_threads() -> None:
    """Every start has its end, even if other threads fire meanwhile."""
    told: list[Progress] = []
    engine = Engine([quiet, waits, never_waits], listen=told.append)
    threads = [threading.Thread(target=lambda: [engine.fire_sync(BASH) for _ in range(5)]) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(told) == 8 * 5 * 3 * 2 and ends_follow_starts(told)


def test_configured_hooks(tmp_path: Path) -> None:
    """An engine of a configuration tells, too, of built-ins as of the user's own."""
    (tmp_path / "hooks.yaml").write_text("hooks:\n  mine: {events: PreToolUse, run: 'true'}\n")
    config = load_config(tmp_path, files=[tmp_path / "hooks.yaml"], home=tmp_path / "home")
    told: list[Progress] = []
    config.engine(listen=told.append).fire_sync(BASH)
    assert {"mine", "event-logger"} <= {one.hook for one in told} and ends_follow_starts(told)

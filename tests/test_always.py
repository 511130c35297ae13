"""`always`: a hook that also runs after a deny. And seed 001's engine, in which only `continue: false` ends the run."""

import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from billhook import Engine, Hook, PreToolUse, Status, Stop, allow, deny, load, on, rewrite, stop
from cli.place import Place

EVENT = PreToolUse(tool_name="Bash", tool_input={"command": "ls"})


def engine_of(first: Any, *, always: bool, parallel: bool = False) -> tuple[Engine, list[str]]:
    ran: list[str] = []

    def audit(event: Any) -> Any:
        ran.append(event.tool_input["command"])
        return allow("fine")

    gate = on(PreToolUse, name="gate")(lambda event: first)
    auditor = on(PreToolUse, name="audit", after="gate", always=always)(audit)
    return Engine([gate, auditor], parallel=parallel), ran


@pytest.mark.parametrize("parallel", [False, True])
@pytest.mark.parametrize(
    ("first", "always", "runs"),
    [(deny("no"), True, True), (deny("no"), False, False), (stop("over"), True, False), (None, True, True)],
)
def test_it_runs_after_a_deny_but_not_after_a_stop(first: Any, always: bool, runs: bool, parallel: bool) -> None:
    engine, ran = engine_of(first, always=always, parallel=parallel)
    verdict = engine.fire_sync(EVENT)
    assert bool(ran) is runs
    assert verdict.denied is (first is not None)
    assert (verdict.outcomes[1].status is Status.SKIPPED) is not runs


def test_it_sees_the_input_that_was_denied() -> None:
    """A hook that runs after a deny can neither rewrite nor allow what was denied."""
    seen = []
    gate = on(PreToolUse, name="gate")(lambda event: deny("no"))
    rewriter = on(PreToolUse, name="rewriter", always=True)(lambda event: rewrite(input={"command": "echo"}))
    last = on(PreToolUse, name="last", always=True)(lambda event: seen.append(event.tool_input["command"]))
    assert Engine([gate, rewriter, last]).fire_sync(EVENT).denied
    assert seen == ["ls"]


@pytest.mark.parametrize("dialect", ["spec", "claude"])
@pytest.mark.parametrize(
    ("answer", "ran"),
    [
        (
            {"hookSpecificOutput": {"hookEventName": "PreToolUse", "permissionDecision": "deny"}},
            ["one", "two", "three"],
        ),
        ({"decision": "block", "reason": "no"}, ["one", "two", "three"]),
        ({"continue": False}, ["one"]),
        ({}, ["one", "two", "three"]),
    ],
)
def test_only_continue_false_ends_the_run(answer: dict[str, Any], ran: list[str], dialect: Any) -> None:
    """Seed 001: `Fire` continues after a deny, in the same matcher and in the next."""
    seen: list[str] = []

    def callback(name: str, answer: dict[str, Any]) -> Callable[..., Any]:
        async def call(given: Any, tool_use_id: Any, context: Any) -> dict[str, Any]:
            seen.append(name)
            return answer

        return call

    groups = [
        {"hooks": [callback("one", answer), callback("two", {})]},
        {"matcher": "Bash", "hooks": [callback("three", {})]},
    ]
    verdict = Engine.from_matchers({"PreToolUse": groups}, dialect=dialect).fire_sync(EVENT)
    assert seen == ran
    assert verdict.denied is bool(answer)


FILE = """\
hooks:
  gate: {events: PreToolUse, deny: no pushes, priority: 10}
  audit: {events: PreToolUse, run: touch audited, always: %s}
"""


@pytest.mark.parametrize("always", ["true", "false"])
def test_in_a_file(tmp_path: Path, always: str) -> None:
    place = Place(tmp_path)
    file = place.own(FILE % always)
    event = PreToolUse(tool_name="Bash", tool_input={"command": "ls"}, cwd=str(place.project))
    assert load(place.project, files=[file], home=tmp_path / "state").fire_sync(event).denied
    assert (place.project / "audited").exists() is (always == "true")
    assert place.run("check").code == 0
    for verb in (["list"], ["explain", "PreToolUse", "--tool", "Bash"]):
        assert ("also after a deny" in place.run(*verb).out) is (always == "true"), verb


# -- functions that can't be interrupted


def slow(event: Any) -> Any:
    time.sleep(0.3)


async def slow_too(event: Any) -> Any:
    time.sleep(0.3)  # noqa: ASYNC251 - what it is about


def slow_denies(event: Any) -> Any:
    time.sleep(0.3)
    return deny("late but firm")


@pytest.mark.parametrize("parallel", [False, True])
@pytest.mark.parametrize("function", [slow, slow_too])
@pytest.mark.parametrize(("on_failure", "denied"), [("allow", False), ("deny", True)])
def test_a_function_that_overran(function: Any, on_failure: Any, denied: bool, parallel: bool) -> None:
    """It timed out, and its `on_failure` decides."""
    hook = on(PreToolUse, timeout=0.1, on_failure=on_failure)(function)
    verdict = Engine([hook], parallel=parallel).fire_sync(EVENT)
    (outcome,) = verdict.outcomes
    assert outcome.status is Status.TIMED_OUT and "and had 0.1 s" in outcome.error
    assert (verdict.denied, verdict.failed_open) == (denied, 0 if denied else 1)


def test_a_deny_after_the_timeout_is_still_a_deny() -> None:
    verdict = Engine([on(PreToolUse, timeout=0.1)(slow_denies)]).fire_sync(EVENT)
    assert (verdict.denied, verdict.reason) == (True, "late but firm")


def test_the_time_of_the_event_counts_too() -> None:
    verdict = Engine([on(PreToolUse)(slow)]).fire_sync(EVENT, deadline=0.1)
    assert verdict.outcomes[0].status is Status.TIMED_OUT


@pytest.mark.parametrize("thread", [False, True])
def test_callbacks_of_seed_001(thread: bool) -> None:
    """They share the time of their matcher; in threads the wait ends in time."""
    came_back = threading.Event()

    def callback(given: Any, tool_use_id: Any, context: Any) -> dict[str, Any]:
        came_back.wait(5 if thread else 0.3)
        return {}

    group = {"hooks": [callback], "timeout": 0.1}
    verdict = Engine.from_matchers({"Stop": [group]}, thread=thread).fire_sync(Stop(stop_hook_active=False))
    assert verdict.outcomes[0].status is Status.TIMED_OUT
    assert verdict.duration_ms < 4000
    came_back.set()


def test_an_async_callback_stays_in_its_loop() -> None:
    """`thread=True` is for synchronous callbacks."""
    seen = []

    async def callback(given: Any, tool_use_id: Any, context: Any) -> dict[str, Any]:
        seen.append(threading.current_thread())
        return {}

    Engine.from_matchers({"Stop": [{"hooks": [callback]}]}, thread=True).fire_sync(Stop(stop_hook_active=False))
    assert seen == [threading.current_thread()]


# -- every event

ALL = """\
hooks:
  note: {%s run: 'echo "$CLAUDE_EVENT_TYPE" >> seen', dialect: claude}
"""


@pytest.mark.parametrize(
    ("events", "seen"),
    [
        ('events: "*",', ["PreToolUse", "Stop", "Odd"]),
        ('events: ["*"],', ["PreToolUse", "Stop", "Odd"]),
        ("match: Bash,", ["PreToolUse"]),
        ('if: "Bash(ls *)",', ["PreToolUse"]),
        ('events: "*", match: Write,', []),
    ],
)
def test_all_events(tmp_path: Path, events: str, seen: list[str]) -> None:
    place = Place(tmp_path)
    file = place.own(ALL % events)
    assert place.run("check").code == 0
    engine = load(place.project, files=[file], home=tmp_path / "state")
    about = {"cwd": str(place.project), "session_id": "s"}
    for one in (
        {"hook_event_name": "PreToolUse", "tool_name": "Bash", "tool_input": {"command": "ls -l"}},
        {"hook_event_name": "Stop", "stop_hook_active": False},
        {"hook_event_name": "Odd"},
    ):
        engine.fire_sync(one | about)
    noted = place.project / "seen"
    assert (noted.read_text().split() if noted.exists() else []) == seen


def test_no_event_and_no_condition_is_a_mistake(tmp_path: Path) -> None:
    place = Place(tmp_path)
    place.own("hooks:\n  note: {run: 'true'}\n")
    ended = place.run("check")
    assert ended.code == 1 and "has no `events`" in ended.out + ended.err


@pytest.mark.parametrize("events", ["*", ("*",), ("PreToolUse", "*")])
def test_all_events_in_a_program(events: Any) -> None:
    assert Hook(name="h", run=lambda ctx: None, events=events).events == ()

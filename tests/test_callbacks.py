"""Functions as hooks: `@on`, and seed 001's map of matchers."""

from __future__ import annotations

import asyncio
import dataclasses
import functools
import importlib
import importlib.util
import time
from typing import Any, Optional, Union

import pytest

import billhook
from billhook import (
    Answer,
    Context,
    Decision,
    Engine,
    Event,
    Hook,
    Notification,
    PostToolUse,
    PreToolUse,
    SessionStart,
    Status,
    Stop,
    UsageError,
    UserPromptSubmit,
    Verdict,
    deny,
    inject,
    on,
)
from billhook import PreToolUse as Before


@dataclasses.dataclass
class LookAlike:
    """What the SDK's HookMatcher looks like."""

    matcher: str | None = None
    hooks: list[Any] = dataclasses.field(default_factory=list)
    timeout: float | None = None
    on_failure: str | None = None


HookMatcher: Any = LookAlike
if importlib.util.find_spec("claude_agent_sdk"):
    HookMatcher = importlib.import_module("claude_agent_sdk").HookMatcher

BASH = PreToolUse(tool_name="Bash", tool_input={"command": "ls"}, session_id="s1", tool_use_id="t1")
AFTER = PostToolUse(tool_name="Bash", tool_input={"command": "ls"}, tool_response="out", session_id="s1")
BUILT_IN_LATER = (Optional, Union)  # annotations below are text


def fire(hook: Hook, event: Event = BASH) -> Verdict:
    return Engine([hook]).fire_sync(event)


# -- @on -----------------------------------------------------------------------------------------------------------


class Guard:
    """Ways of being a function."""

    def method(self, event: PreToolUse) -> Answer:
        return deny("method")

    async def later(self, event: PreToolUse, ctx: Context) -> Answer:
        await asyncio.sleep(0)
        return deny(f"later {ctx.session_id}")

    @classmethod
    def of_class(cls, event: PreToolUse) -> Answer:
        return deny("class")

    @staticmethod
    def static(event: PreToolUse, ctx: Context) -> Answer:
        return deny(f"static {ctx.event_type}")

    def __call__(self, event: PreToolUse) -> Answer:
        return deny("object")


def bound(word: str, event: PreToolUse) -> Answer:
    return deny(word)


def wrapped(function: Any) -> Any:
    @functools.wraps(function)
    def wrapper(*args: Any) -> Any:
        return function(*args)

    return wrapper


@pytest.mark.parametrize(
    ("function", "reason"),
    [
        (Guard().method, "method"),
        (Guard().later, "later s1"),
        (Guard.of_class, "class"),
        (Guard.static, "static PreToolUse"),
        (Guard(), "object"),
        (functools.partial(bound, "partial"), "partial"),
        (functools.partial(functools.partial(bound), "twice"), "twice"),
        (wrapped(Guard().method), "method"),
        (lambda event: deny("lambda"), "lambda"),
        (lambda event, ctx: deny(ctx.event.tool_name), "Bash"),
        (lambda *args: deny(str(len(args))), "1"),
        (lambda event, verbose=False: deny(str(verbose)), "False"),
        (lambda event, ctx=None: deny(str(ctx is None)), "False"),
    ],
)
@pytest.mark.parametrize("thread", [False, True])
def test_functions_of_all_kinds(function: Any, reason: str, thread: bool) -> None:
    """Methods, partials, callable objects and wrappers work as functions do, in a thread as well."""
    verdict = fire(on(PreToolUse, thread=thread)(function))
    assert verdict.reason == reason
    assert verdict.outcomes[0].error == ""


@pytest.mark.parametrize(
    ("function", "name"),
    [
        (Guard().method, "method"),
        (Guard(), "Guard"),
        (functools.partial(bound, "x"), "bound"),
        (wrapped(bound), "bound"),
        (lambda event: None, "<lambda>"),
    ],
)
def test_names(function: Any, name: str) -> None:
    """A hook is called as its function is, with hyphens."""
    assert on(PreToolUse)(function).name == name
    assert on(PreToolUse, name="other", title="Shown")(function).shown == "Shown"


def test_a_function_that_can_t_be_called_that_way() -> None:
    """A wrong signature is a failed outcome of a gate, never a pass."""
    assert fire(on(PreToolUse, on_failure="deny")(lambda: None)).denied
    assert fire(on(PreToolUse, on_failure="deny")(lambda a, b, c: None)).denied


def test_events_from_the_annotation() -> None:
    """The first parameter's annotation names the events, also as a union, also as text, also by an alias."""

    def one(event: PreToolUse) -> None: ...
    def two(event: PreToolUse | PostToolUse, ctx: Context) -> None: ...
    def three(event: Union[PreToolUse, Stop]) -> None: ...  # noqa: UP007
    def alias(event: Before) -> None: ...
    def dotted(event: billhook.Stop) -> None: ...
    def every(event: Event) -> None: ...
    def unknown_elsewhere(event: PreToolUse, ctx: NoSuchType) -> NoSuchType: ...  # type: ignore[name-defined]  # noqa: F821

    assert on()(one).events == ("PreToolUse",)
    assert on()(two).events == ("PreToolUse", "PostToolUse")
    assert on()(three).events == ("PreToolUse", "Stop")
    assert on()(alias).events == ("PreToolUse",)
    assert on()(dotted).events == ("Stop",)
    assert on()(every).events == ()
    assert on()(unknown_elsewhere).events == ("PreToolUse",)
    assert on()(Guard().method).events == ("PreToolUse",)
    assert on()(Guard()).events == ("PreToolUse",)
    assert on()(functools.partial(bound, "x")).events == ("PreToolUse",)
    assert on(Stop)(one).events == ("Stop",)


def test_events_known_only_inside_a_function() -> None:
    """Text that names something local is understood as long as it is one of our events."""
    from billhook import SubagentStop, TaskCompleted

    def local(event: SubagentStop | TaskCompleted) -> None: ...

    assert {SubagentStop, TaskCompleted}
    assert on()(local).events == ("SubagentStop", "TaskCompleted")


def test_no_event_at_all() -> None:
    """A function without any event is refused, and so is `@on` without parentheses."""
    with pytest.raises(UsageError, match="names no event"):
        on()(lambda event: None)
    with pytest.raises(UsageError, match="not the function"):
        on(bound)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="did you mean `PreToolUse`"):
        on("PreToolUsee")(lambda event: None)


def test_the_place_is_known() -> None:
    """A hook has the file and line of its function."""
    source = on(PreToolUse)(bound).source
    assert source.file.endswith("test_callbacks.py")
    assert source.line == bound.__code__.co_firstlineno


def test_async_functions_that_never_wait_are_known() -> None:
    """No `await`, `async for` or `async with` inside: those need no deadline. All others get one."""

    async def never(event: Event) -> Answer:
        return deny("at once")

    async def awaits(event: Event) -> None:
        await asyncio.sleep(30)

    async def loops(event: Event) -> None:
        async for _ in endless():
            pass

    async def enters(event: Event) -> None:
        async with asyncio.timeout(60):
            await asyncio.sleep(30)

    async def comprehends(event: Event) -> Any:
        return [one async for one in endless()]

    async def endless() -> Any:
        while True:
            await asyncio.sleep(0.01)
            yield 1

    def passes_on(event: Event) -> Any:
        return awaits(event)

    verdict = fire(on(PreToolUse)(never))
    assert verdict.denied
    for function in (awaits, loops, enters, comprehends, passes_on, functools.partial(awaits), wrapped(awaits)):
        hook = on(PreToolUse, timeout=0.05, on_failure="deny")(function)
        assert fire(hook).outcomes[0].status is Status.TIMED_OUT, function


def test_all_options() -> None:
    """What `@on` takes is in the hook."""
    hook = on(PreToolUse, "Stop", match="Bash", condition=bool, priority=7, after="x", timeout=3, on_failure="ask")(
        bound
    )
    assert (hook.events, hook.match, hook.condition) == (("PreToolUse", "Stop"), "Bash", bool)
    assert (hook.priority, hook.after, hook.timeout, hook.on_failure) == (7, ("x",), 3, "ask")


@pytest.mark.parametrize(
    ("returned", "decision", "reason", "context", "data"),
    [
        (None, "none", "", (), None),
        ({}, "none", "", (), None),
        ({"decision": "block", "reason": "r"}, "deny", "r", (), None),
        ({"decision": "approve"}, "allow", "", (), None),
        ({"systemMessage": "m"}, "none", "", ("m",), None),
        ({"continue": False, "stopReason": "s"}, "deny", "s", (), None),
        ({"continue_": False, "stopReason": "s"}, "deny", "s", (), None),
        ({"success": True, "data": [1]}, "none", "", (), [1]),
        ({"success": True, "block": True, "blockReason": "b"}, "deny", "b", (), None),
        ({"success": True, "block": True, "block_reason": "b"}, "deny", "b", (), None),
        ({"success": True, "contextToInject": "c", "data": 0}, "none", "", ("c",), 0),
        ({"success": True, "context_to_inject": "c"}, "none", "", ("c",), None),
        (
            {"hookSpecificOutput": {"hookEventName": "PreToolUse", "permissionDecision": "ask"}},
            "ask",
            "",
            (),
            None,
        ),
    ],
)
def test_what_a_function_may_return(returned: Any, decision: str, reason: str, context: Any, data: Any) -> None:
    """An Answer, a dict as seed 001 or seed 002 have it, or nothing."""
    verdict = fire(on(PreToolUse)(lambda event: returned))
    assert verdict.outcomes[0].error == ""
    assert (verdict.decision.value, verdict.reason, verdict.context) == (decision, reason, context)
    assert verdict.outcomes[0].data == data


def test_handler_that_reports_failure() -> None:
    """Seed 002's `success: false` is a failure; with `block` it still blocks."""
    failed = fire(on(PreToolUse)(lambda event: {"success": False, "error": "no net"}))
    assert failed.outcomes[0].status is Status.FAILED
    assert "no net" in failed.outcomes[0].error
    assert fire(on(PreToolUse)(lambda event: {"success": False, "block": True, "blockReason": "x"})).denied


# -- from_matchers -------------------------------------------------------------------------------------------------


def matched(config: dict[str, Any], event: Event = BASH, dialect: Any = "spec", **options: Any) -> Verdict:
    return Engine.from_matchers(config, dialect=dialect, **options).fire_sync(event)


def returning(returned: Any) -> Any:
    async def callback(given: dict[str, Any], tool_use_id: str | None, context: Any) -> Any:
        return returned

    return callback


@pytest.mark.parametrize("dialect", ["spec", "claude"])
@pytest.mark.parametrize("group", [dict, LookAlike, HookMatcher])
def test_callbacks_get_dicts(dialect: Any, group: Any) -> None:
    """(input, tool_use_id, context): a copy of the input, the id, and a context with `signal`."""
    seen: list[Any] = []

    async def callback(given: dict[str, Any], tool_use_id: str | None, context: Any) -> dict[str, Any]:
        seen.append((given["hook_event_name"], given["tool_input"]["command"], tool_use_id, context))
        given["tool_input"]["command"] = "changed"
        return {}

    def plain(given: dict[str, Any], tool_use_id: str | None, context: Any) -> dict[str, Any]:
        seen.append(given["tool_input"])
        return {"decision": "block", "reason": "sync"}

    verdict = matched({"PreToolUse": [group(matcher="Bash", hooks=[callback, plain])]}, dialect=dialect)
    assert seen == [("PreToolUse", "ls", "t1", {"signal": None}), {"command": "ls"}]
    assert BASH.tool_input == {"command": "ls"}
    assert verdict.denied and verdict.reason == "sync"


def test_order_matcher_and_early_end() -> None:
    """Groups and hooks in array order; a matcher filters; `continue: false` ends the run."""
    asked: list[str] = []

    def noting(name: str, returned: Any = None) -> Any:
        async def callback(given: Any, tool_use_id: Any, context: Any) -> Any:
            asked.append(name)
            return returned or {}

        return callback

    config = {
        "PreToolUse": [
            {"matcher": "mcp__*", "hooks": [noting("mcp")]},
            {"hooks": [noting("a"), noting("b")]},
            {"matcher": "Ba*", "hooks": [noting("c", {"continue_": False}), noting("d")]},
        ],
        "Stop": [{"hooks": [noting("stop")]}],
    }
    matched(config)
    assert asked == ["a", "b", "c"]


def test_spec_meanings() -> None:
    """Seed 001: `continue: true` on Stop keeps going, systemMessage is context, contexts add up."""
    verdict = matched({"Stop": [{"hooks": [returning({"continue": True})]}]}, Stop())
    assert verdict.keep_going
    assert not matched({"Stop": [{"hooks": [returning({"continue": True})]}]}, Stop(), "claude").keep_going
    returned = {
        "systemMessage": "one",
        "hookSpecificOutput": {"hookEventName": "SessionStart", "additionalContext": "two"},
    }
    start = matched({"SessionStart": [{"hooks": [returning(returned)]}]}, SessionStart(source="startup"))
    assert "\n".join(start.context) == "one\ntwo"
    shown = matched({"SessionStart": [{"hooks": [returning(returned)]}]}, SessionStart(source="startup"), "claude")
    assert (shown.messages, shown.context) == (("one",), ("two",))


async def sleepy(given: Any, tool_use_id: Any, context: Any) -> dict[str, Any]:
    await asyncio.sleep(30)
    return {}


async def nap(given: Any, tool_use_id: Any, context: Any) -> dict[str, Any]:
    await asyncio.sleep(0.3)
    return {}


def test_spec_shares_a_timeout() -> None:
    """One timeout for all hooks of a matcher; the next group has its own. In `claude` each hook has it."""
    config = {"PreToolUse": [{"hooks": [nap, nap, nap, nap, nap], "timeout": 1.0}, {"hooks": [nap], "timeout": 5}]}
    statuses = [outcome.status.value for outcome in matched(config).outcomes]
    assert statuses[0] == "ok" and statuses[4] == "timed_out" and statuses[5] == "ok"
    assert {outcome.status.value for outcome in matched(config, dialect="claude").outcomes} == {"ok"}


@pytest.mark.parametrize(
    ("event", "blocks"),
    [
        (BASH, True),
        (UserPromptSubmit(prompt="x"), True),
        (AFTER, False),
        (Stop(), False),
        (Notification(message="m", notification_type="n"), False),
    ],
)
def test_late_callback_of_the_sdk(event: Event, blocks: bool) -> None:
    """In `claude` a callback that times out on PreToolUse or a prompt blocks, elsewhere it does not."""
    began = time.monotonic()
    config = {event.hook_event_name: [HookMatcher(hooks=[sleepy], timeout=0.05)]}
    verdict = matched(config, event, "claude")
    assert time.monotonic() - began < 5
    assert verdict.outcomes[0].status is Status.TIMED_OUT
    assert verdict.denied is blocks
    assert not verdict.keep_going
    assert not matched(config, event, "spec").denied


def test_late_because_of_the_event_s_deadline() -> None:
    """A callback that could not even start in time has timed out, too."""
    engine = Engine.from_matchers({"PreToolUse": [HookMatcher(hooks=[sleepy, sleepy])]}, dialect="claude")
    verdict = engine.fire_sync(BASH, deadline=0.05)
    assert verdict.denied


@pytest.mark.parametrize("returned", [None, {"decision": "Deny"}, 5, "no"])
def test_on_failure_block_of_the_sdk(returned: Any) -> None:
    """With "block" a None or an invalid value blocks, `{}` is an empty answer; by default both are allowed."""
    for function in (returning(returned), lambda *given: returned):
        strict = {"PreToolUse": [HookMatcher(hooks=[function], on_failure="block")]}
        assert matched(strict, dialect="claude").denied
        lax = {"PreToolUse": [HookMatcher(hooks=[function])]}
        assert matched(lax, dialect="claude").decision is Decision.NONE
    assert not matched(
        {"PreToolUse": [HookMatcher(hooks=[returning({})], on_failure="block")]}, dialect="claude"
    ).denied
    keep = {"PreToolUse": [HookMatcher(hooks=[returning(5)], on_failure="continue")]}
    assert matched(keep, dialect="claude").failed_open == 1


def test_async_answers() -> None:
    """`async_: True` lets the event continue; it is a failure of a gate where something waits for the answer."""
    hooks = [returning({"async_": True, "asyncTimeout": 5})]
    config: dict[str, Any] = {name: [{"hooks": hooks}] for name in ("PreToolUse", "PostToolUse")}
    assert matched(config).outcomes[0].status is Status.BACKGROUND
    assert matched(config, AFTER).outcomes[0].status is Status.BACKGROUND
    gate = matched({"PreToolUse": [{"hooks": hooks, "on_failure": "deny"}]})
    assert gate.denied and gate.outcomes[0].status is Status.FAILED


@pytest.mark.parametrize(
    "config",
    [
        {"PreToolUse": [returning({})]},
        {"PreToolUse": [{"matcher": "Bash"}]},
        {"PreToolUse": {"matcher": "Bash", "hooks": []}},
        {"PreToolUse": [{"hooks": "check"}]},
        {"PreTolUse": [{"hooks": [returning({})]}]},
        {"PreToolUse": [{"hooks": [returning({})], "on_failure": "panic"}]},
    ],
)
def test_maps_that_would_guard_nothing(config: Any) -> None:
    """A map that is not one is refused: it must not silently leave everything unguarded."""
    with pytest.raises(UsageError):
        Engine.from_matchers(config)


def test_context_of_earlier_callbacks_is_kept() -> None:
    """All contexts are kept, in order."""
    config = {"PreToolUse": [{"hooks": [returning({"systemMessage": word}) for word in "abc"]}]}
    assert matched(config).context == ("a", "b", "c")
    assert fire(on(PreToolUse)(lambda event: inject("x"))).context == ("x",)


def test_an_event_that_is_printed_back_is_read_again_each_time() -> None:
    """The meaning of an echo depends on the event: a deny must not be mistaken for an earlier event."""
    echo = {"hook_event_name": "PreToolUse", "decision": "block", "reason": "no"}
    engine = Engine([on(PreToolUse, name="echo")(lambda event: echo)])

    same = engine.fire_sync({**echo, "tool_name": "Bash", "tool_input": {}})
    other = engine.fire_sync({"hook_event_name": "PreToolUse", "tool_name": "Bash", "tool_input": {}})

    assert (same.decision, other.decision) == ("none", "deny")

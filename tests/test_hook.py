"""The records: Hook, Context, Source."""

import pytest

from billhook import Context, Engine, Event, Hook, PreToolUse, Source, Stop, UsageError, on
from billhook.core.answers import Outcome
from billhook.core.hook import event_name

BASH = PreToolUse(tool_name="Bash", tool_input={"command": "ls"}, session_id="s1", cwd="/w")


def nothing(ctx: Context) -> None:
    return None


def test_source_shows_the_place() -> None:
    """Layer, file and line, as far as they are known."""
    assert str(Source("user", "hooks.yaml", 7)) == "user hooks.yaml:7"
    assert str(Source(file="x.py", line=3)) == "x.py:3"
    assert str(Source(layer="managed")) == "managed"
    assert str(Source()) == ""


def test_spellings_that_are_no_doubt_meant() -> None:
    """One event for a tuple of one, types for names, either case, `block` for `deny`."""
    hook = Hook(name="h", run=nothing, events="pre_tool_use", after="a", on_failure="block")  # type: ignore[arg-type]
    assert (hook.events, hook.after, hook.on_failure) == (("PreToolUse",), ("a",), "deny")
    assert Hook(name="h", run=nothing, events=[PreToolUse, "Stop"]).events == ("PreToolUse", "Stop")  # type: ignore[arg-type]
    assert Hook(name="h", run=nothing, events=Event).events == ()  # type: ignore[arg-type]
    assert hook.gate and not Hook(name="h", run=nothing).gate


def test_match_is_one_text() -> None:
    """A list of names is refused with the way to write it."""
    with pytest.raises(UsageError, match=r"Bash\|Write"):
        Hook(name="h", run=nothing, match=["Bash", "Write"])  # type: ignore[arg-type]


def test_event_names() -> None:
    """A typo is refused with the nearest name; any other unknown name is an event without a type."""
    assert event_name(Stop) == "Stop"
    assert event_name("Brewed") == "Brewed"
    with pytest.raises(UsageError, match="did you mean `PreToolUse`"):
        event_name("PreTolUse")
    with pytest.raises(UsageError, match="not an event"):
        event_name(5)  # type: ignore[arg-type]


def test_context_shows_the_firing() -> None:
    """Everything seed 002's pipeline context has, by the same names in snake_case."""
    seen: list[object] = []

    @on(PreToolUse)
    def look(event: PreToolUse, ctx: Context) -> None:
        seen.extend([ctx.event is event, ctx.event_type, ctx.session_id, ctx.cwd, ctx.payload["tool_name"]])
        seen.append(0 < ctx.seconds_left <= 60)
        ctx.env["X"] = "1"

    engine = Engine([look], env={"BASE": "b"})
    engine.fire_sync(BASH)
    assert seen == [True, "PreToolUse", "s1", "/w", "Bash", True]
    assert engine.env == {"BASE": "b"}


def context(*names: str) -> Context:
    return Context(BASH, [Outcome(name) for name in names])


def test_find_is_exact() -> None:
    """By `{name}` or `{name}-{Event}`; a longer name can't pose as a shorter one."""
    ctx = context("turn-tracker-evil", "turn-tracker", "turn-tracker-PreToolUse")
    for asked in ("turn-tracker", "turn-tracker-PreToolUse"):
        found = ctx.find(asked)
        assert found is not None and found.hook == "turn-tracker"
    assert ctx.find("turn") is None
    assert ctx.find("turn-tracker-Stop") is None
    assert context("turn-tracker-evil").find("turn-tracker") is None
    assert ctx.find("") is None


def test_last_answer_of_a_name_counts() -> None:
    """A hook that ran twice is in the results with its last outcome."""
    ctx = Context(BASH, [Outcome("gate", error="first"), Outcome("b"), Outcome("gate", error="second")])
    assert ctx.results["gate-PreToolUse"].error == "second"
    assert ctx.results["gate-PreToolUse"].error == "second"
    assert list(ctx.results) == ["gate-PreToolUse", "b-PreToolUse"]

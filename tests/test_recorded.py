"""What an engine tells beside its verdict: the id beforehand, the name and turn of a session, what was not recorded."""

from pathlib import Path
from typing import Any

import pytest

from billhook import Answer, Context, Engine, Hook, Notification, PreToolUse, Stop, Verdict, command, on
from billhook.core.errors import UnrecordedError
from billhook.core.events import Event
from billhook.core.hook import Known

BASH = PreToolUse(tool_name="Bash", tool_input={"command": "ls"}, session_id="s", cwd="/")


def known(event: Event) -> Known:
    return Known(session_name="jolly-squid", turn_id=f"{event.session_id}:7")


def unrecorded(deny: bool) -> Any:
    def observe(verdict: Verdict) -> None:
        raise UnrecordedError("the disk is full", hook="logger", deny=deny, place="log.jsonl")

    return observe


@pytest.mark.parametrize("parallel", [False, True], ids=["in turn", "at once"])
@pytest.mark.parametrize("observed", [False, True], ids=["alone", "observed"])
def test_the_id_is_known_beforehand(parallel: bool, observed: bool) -> None:
    """A hook that reads the id gets the verdict's id; so do later hooks and observers."""
    seen: list[str] = []

    @on(PreToolUse)
    def asks(event: Any, ctx: Context) -> None:
        seen.append(ctx.id)

    @on(PreToolUse)
    def asks_too(event: Any, ctx: Context) -> None:
        seen.append(ctx.id)

    observers = [lambda verdict: seen.append(verdict.id)] if observed else []
    verdict = Engine([asks, asks_too], parallel=parallel, observers=observers).fire_sync(BASH)
    assert set(seen) == {verdict.id} and len(verdict.id) == 32


def test_two_firings_have_two_ids() -> None:
    """The id belongs to the firing, not to the engine; and sorts by time."""
    reserve = Hook(name="logger", run=lambda ctx: Answer(data={"id": ctx.id}))
    engine = Engine([reserve])
    first, second = engine.fire_sync(BASH), engine.fire_sync(BASH)
    assert first.id != second.id and first.id[:12] <= second.id[:12]
    assert first.outcomes[0].data == {"id": first.id}


@pytest.mark.parametrize(
    "event",
    [BASH, Notification(session_id="s", message="m", notification_type="t"), Stop(session_id="s")],
    ids=lambda e: e.hook_event_name,
)
def test_session_name_and_turn_at_every_event(event: Event) -> None:
    """Without a result of the trackers, the engine's owner provides the values."""
    seen: list[Any] = []

    @on("PreToolUse", "Notification", "Stop")
    def asks(event: Any, ctx: Context) -> None:
        seen.append((ctx.session_name, ctx.turn_id, ctx.turn_sequence))

    Engine([asks], know=known).fire_sync(event)
    Engine([asks]).fire_sync(event)
    assert seen == [("jolly-squid", "s:7", 7), ("", "", None)]


def test_results_come_before_a_lookup() -> None:
    """The trackers' data of this event is newer than the stored state, which is looked up once at most."""
    asked: list[Event] = []

    def know(event: Event) -> Known:
        asked.append(event)
        return known(event)

    seen: list[Any] = []
    tracker = Hook(name="turn-tracker", run=lambda ctx: Answer(data={"completedTurnId": "s:8", "sequence": 9}))

    @on(Stop)
    def asks(event: Any, ctx: Context) -> None:
        seen.extend([ctx.turn_id, ctx.turn_sequence, ctx.session_name, ctx.session_name])

    Engine([tracker, asks], know=know).fire_sync(Stop(session_id="s"))
    assert seen == ["s:8", 8, "jolly-squid", "jolly-squid"]
    assert len(asked) == 1


def test_external_hooks_have_progress(tmp_path: Path) -> None:
    """The environment of a command has name, turn and its number."""
    shown = tmp_path / "shown"
    told = command(f'echo "$CLAUDE_SESSION_NAME $CLAUDE_TURN_ID $CLAUDE_TURN_SEQUENCE" > {shown}')
    Engine([Hook(name="h", run=told)], know=known).fire_sync(
        Notification(session_id="abc:1", cwd="/", message="m", notification_type="t")
    )
    assert shown.read_text() == "jolly-squid abc:1:7 7\n"


def test_what_was_not_recorded_is_seen() -> None:
    """The event continues, with a failed outcome in the place of the hook; it counts as failed open."""
    hooks = [Hook(name=name, run=lambda ctx: None, priority=i) for i, name in enumerate(("a", "logger", "z"))]
    told: list[Verdict] = []
    verdict = Engine(hooks, observers=[unrecorded(deny=False), told.append]).fire_sync(BASH)
    assert (verdict.decision, verdict.failed_open) == ("none", 1)
    assert [(one.hook, one.status) for one in verdict.outcomes] == [("a", "ok"), ("logger", "failed"), ("z", "ok")]
    assert verdict.outcomes[1].error == "log.jsonl: the disk is full"
    assert told == [verdict] and "the disk is full" in verdict.warnings[0]


def test_what_was_not_recorded_denies_if_so_configured() -> None:
    """The verdict is a deny with the reason; but a failure never keeps an agent from stopping."""
    engine = Engine([Hook(name="a", run=lambda ctx: None)], observers=[unrecorded(deny=True)])
    verdict = engine.fire_sync(BASH)
    assert (verdict.decision, verdict.failed_open) == ("deny", 0)
    assert verdict.reason == "hook `logger` failed: log.jsonl: the disk is full"
    stopping = engine.fire_sync(Stop(session_id="s"))
    assert (stopping.decision, stopping.keep_going, stopping.outcomes[-1].status) == ("none", False, "failed")


def test_async_observers_may_fail_to_record() -> None:
    """It makes no difference whether the observer is async."""

    async def observe(verdict: Verdict) -> None:
        unrecorded(deny=True)(verdict)

    assert Engine([Hook(name="a", run=lambda ctx: None)], observers=[observe]).fire_sync(BASH).decision == "deny"


def test_output_size_is_part_of_the_outcome() -> None:
    """What a command printed on both streams is counted; a function prints nothing."""
    hooks = [
        Hook(name="c", run=command("printf 12345; printf 678 >&2"), dialect="claude"),
        on(PreToolUse)(lambda event: None),
    ]
    outcomes = Engine(hooks).fire_sync(BASH).outcomes
    assert [one.output_bytes for one in outcomes] == [8, None]

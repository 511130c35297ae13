"""Seed 002: priorities, ids, results that later handlers read, and the environment of external hooks."""

import json
from pathlib import Path
from typing import Any

import pytest

from billhook import (
    Context,
    Engine,
    Hook,
    Outcome,
    PlanError,
    PostToolUse,
    PreToolUse,
    SessionStart,
    Stop,
    command,
    deny,
    inject,
    on,
)

SCRIPTS = Path(__file__).with_name("scripts")
BASH = PreToolUse(tool_name="Bash", tool_input={"command": "ls"}, session_id="abc-123", cwd="/")
WRITE = PreToolUse(tool_name="Write", tool_input={}, session_id="abc-123", cwd="/")


def handler(name: str, data: Any = None, **options: Any) -> Hook:
    """A handler as the seed writes it: it succeeds, with data."""
    return on("PreToolUse", "PostToolUse", "SessionStart", "Stop", name=name, **options)(
        lambda event: {"success": True, "data": data}
    )


def turn_tracker() -> Hook:
    return handler("turn-tracker", {"turnId": "abc-123:5", "sequence": 5}, priority=5)


def session_naming() -> Hook:
    return handler("session-naming", {"sessionName": "jolly-squid", "isNew": True, "source": "generated"}, priority=10)


def results(*hooks: Hook, event: Any = BASH, **options: Any) -> dict[str, Outcome]:
    """`context.results` as the last handler sees it."""
    seen: dict[str, Outcome] = {}

    @on("PreToolUse", "PostToolUse", "SessionStart", "Stop", priority=999, name="debug-results")
    def debug(event: Any, ctx: Context) -> None:
        seen.update(ctx.results)

    Engine([debug, *hooks], **options).fire_sync(event)
    return seen


def test_execution_order() -> None:
    """Handlers execute in priority order, lower number first; 100 is the default; ties as they were given."""
    hooks = [handler("mine"), handler("event-logger", priority=50), session_naming(), handler("yours"), turn_tracker()]
    names = [hook.name for hook in Engine(hooks).hooks]
    assert names == ["turn-tracker", "session-naming", "event-logger", "mine", "yours"]
    assert handler("mine").priority == 100


@pytest.mark.parametrize(
    ("event", "key"),
    [
        (SessionStart(source="startup"), "turn-tracker-SessionStart"),
        (BASH, "turn-tracker-PreToolUse"),
        (Stop(), "turn-tracker-Stop"),
        (PostToolUse(tool_name="Bash", tool_input={}, tool_response=""), "turn-tracker-PostToolUse"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_handler_ids(event: Any, key: str) -> None:
    """`{handler-id}-{EventType}`: the same handler has its own key for each event."""
    assert list(results(turn_tracker(), event=event)) == [key]


def test_handler_result() -> None:
    """`interface HandlerResult`: success, data, error, durationMs, block, blockReason, contextToInject."""
    found = results(
        handler("good", {"a": 1}),
        on(PreToolUse, name="talks")(lambda event: {"success": True, "contextToInject": "hear"}),
        on(PreToolUse, name="fails")(lambda event: {"success": False, "error": "boom"}),
    )
    good, talks, fails = (found[f"{name}-PreToolUse"] for name in ("good", "talks", "fails"))
    assert (good.success, good.data, good.block, good.block_reason, good.context_to_inject) == (
        True, {"a": 1}, False, "", ""
    )  # fmt: skip
    assert good.duration_ms >= 0
    assert talks.context_to_inject == "hear"
    assert (fails.success, fails.error) == (False, "boom")


@pytest.mark.parametrize("spelling", [{"block": True, "blockReason": "no"}, {"block": True, "block_reason": "no"}])
def test_a_handler_blocks(spelling: dict[str, Any]) -> None:
    """`block`, `blockReason`: the hook output blocks."""
    verdict = Engine([on(PreToolUse, name="guard")(lambda event: {"success": True, **spelling})]).fire_sync(BASH)
    assert (verdict.decision, verdict.reason) == ("deny", "no")
    assert (verdict.outcomes[0].block, verdict.outcomes[0].block_reason) == (True, "no")


def test_accessing_results() -> None:
    """`ctx.results.get('turn-tracker-PreToolUse')`: a later handler reads the data of an earlier one."""
    found = results(turn_tracker())["turn-tracker-PreToolUse"].data
    assert found == {"turnId": "abc-123:5", "sequence": 5}


def test_find_result_by_prefix() -> None:
    """`findResultByPrefix(results, 'turn-tracker')` finds the result whatever the event; strangers can't pose as it."""
    found: list[Any] = []

    @on(PreToolUse, Stop, priority=200)
    def mine(event: Any, ctx: Context) -> None:
        found.append((ctx.find("turn-tracker"), ctx.find(f"turn-tracker-{ctx.event_type}"), ctx.find("turn")))

    evil = handler("turn-tracker-evil", {"turnId": "forged"}, priority=1)
    for event in (BASH, Stop(session_id="abc-123")):
        Engine([mine, turn_tracker(), evil]).fire_sync(event)
    for by_name, by_key, shorter in found:
        assert by_name.data["turnId"] == "abc-123:5"
        assert by_key is by_name
        assert shorter is None


def test_pipeline_context() -> None:
    """The pipeline context: event, eventType, state, results, sessionId, cwd."""
    seen: list[Any] = []

    @on(PreToolUse, name="writes", priority=1)
    def writes(event: Any, ctx: Context) -> None:
        ctx.state["mark"] = 1

    @on(PreToolUse, name="reads")
    def reads(event: Any, ctx: Context) -> None:
        seen.extend([ctx.event, ctx.event_type, ctx.state["mark"], list(ctx.results), ctx.session_id, ctx.cwd])

    Engine([writes, reads]).fire_sync(BASH)
    assert seen == [BASH, "PreToolUse", 1, ["writes-PreToolUse"], "abc-123", "/"]


def test_sequential_execution_is_the_default() -> None:
    """For results to be available to later handlers, execution is sequential, unless it is asked to be parallel."""
    assert "turn-tracker-PreToolUse" in results(turn_tracker())
    assert results(turn_tracker(), parallel=True) == {}


def test_depends_on() -> None:
    """`dependsOn: ['turn-tracker', 'session-naming']`: guaranteed to have their results, whatever the priority."""
    seen: list[Any] = []

    @on(PreToolUse, priority=1, after=["turn-tracker", "session-naming"], name="dependent-handler")
    def dependent(event: Any, ctx: Context) -> None:
        seen.append(sorted(ctx.results))

    for parallel in (False, True):
        Engine([dependent, turn_tracker(), session_naming()], parallel=parallel).fire_sync(BASH)
    assert seen == [["session-naming-PreToolUse", "turn-tracker-PreToolUse"]] * 2


def test_depends_on_nobody() -> None:
    """A dependency that does not exist is an error that names it, at once."""
    with pytest.raises(PlanError, match="turn-trakker"):
        Engine([handler("mine", after=["turn-trakker"])])


@pytest.mark.parametrize(("event", "status"), [(BASH, "ok"), (WRITE, "skipped")])
def test_handler_with_conditions(event: PreToolUse, status: str) -> None:
    """`condition`: only executes for Bash tool uses."""
    bash_only = handler("bash-only-handler", condition=lambda ctx: ctx.event.tool_name == "Bash")
    assert [outcome.status for outcome in Engine([bash_only]).fire_sync(event).outcomes] == [status]


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        pytest.param("CLAUDE_TURN_ID", "abc-123:5", id="| CLAUDE_TURN_ID | turn-tracker |"),
        pytest.param("CLAUDE_TURN_SEQUENCE", "5", id="| CLAUDE_TURN_SEQUENCE | turn-tracker |"),
        pytest.param("CLAUDE_SESSION_NAME", "jolly-squid", id="| CLAUDE_SESSION_NAME | session-naming |"),
        pytest.param("CLAUDE_SESSION_ID", "abc-123", id="| CLAUDE_SESSION_ID | context |"),
        pytest.param("CLAUDE_EVENT_TYPE", "PreToolUse", id="| CLAUDE_EVENT_TYPE | context |"),
        pytest.param("CLAUDE_CWD", "/", id="| CLAUDE_CWD | context |"),
    ],
)
@pytest.mark.parametrize("dialect", ["claude", "claw", "claw-text", "lesson"])
def test_environment_variables(variable: str, value: str, dialect: str, tmp_path: Path) -> None:
    """Each line of the table of environment variables, in every dialect that runs commands."""
    run = command(f'printf %s "${variable}" > {tmp_path}/value', dialect=dialect)
    Engine([Hook(name="external", run=run, dialect=dialect), turn_tracker(), session_naming()]).fire_sync(BASH)
    assert (tmp_path / "value").read_text() == value


def test_example_external_hook() -> None:
    """The example my-hook.sh, unchanged; what it prints is feedback in the dialect `claw`."""
    external = Hook(name="external", run=command(f"bash '{SCRIPTS / 'my_hook.sh'}'", dialect="claw"), dialect="claw")
    verdict = Engine([external, turn_tracker(), session_naming()]).fire_sync(BASH)
    assert verdict.context == ("Turn: abc-123:5\nSession: jolly-squid\nEvent: PreToolUse",)


def test_an_external_hook_is_part_of_the_pipeline() -> None:
    """An external command can block, inject and fail, and later handlers see its result."""
    external = [
        Hook(name="injects", run=command("echo hear", dialect="claw"), dialect="claw"),
        Hook(name="fails", run=command("exit 7", dialect="claw"), dialect="claw"),
    ]
    found = results(*external)
    assert found["injects-PreToolUse"].context_to_inject == "hear"
    assert (found["fails-PreToolUse"].success, found["fails-PreToolUse"].exit_code) == (False, 7)
    blocked = json.dumps({"decision": "block", "reason": "no"})
    verdict = Engine([Hook(name="blocks", run=command(f"echo '{blocked}'"), dialect="claude")]).fire_sync(BASH)
    assert (verdict.decision, verdict.reason) == ("deny", "no")


def test_hook_output() -> None:
    """`Hook Output (block/approve, context injection, etc.)`: one verdict for all handlers."""
    hooks = [on(PreToolUse, name="a")(lambda event: inject("hear")), on(PreToolUse, name="b")(lambda event: deny("no"))]
    verdict = Engine(hooks).fire_sync(BASH)
    assert (verdict.decision, verdict.reason, verdict.context) == ("deny", "no", ("hear",))

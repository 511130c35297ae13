"""Seed 002 end to end: its hooks.yaml as printed, the built-ins themselves, its handlers, and its two questions."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from billhook import Context, Engine, Hook, Outcome, Verdict, command, load
from billhook.core.events import parse
from cli.terminal import Ended, billhook
from seeds.examples import PIPELINE

SCRIPTS = Path(__file__).with_name("scripts")
ID = "abc-123-def"


class Pipeline:
    """A project with the seed's hooks.yaml, unchanged, and a session in it."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.root = folder / "project", folder / "state"
        (self.folder / ".git").mkdir(parents=True)
        (self.folder / "hooks.yaml").write_text(PIPELINE)

    def fire(self, event: str, *hooks: Hook, session: str = ID, **fields: Any) -> Verdict:
        about = {**_FIELDS.get(event, {}), **fields}
        payload = {"hook_event_name": event, "session_id": session, "cwd": str(self.folder), **about}
        return self.engine(*hooks).fire_sync(parse(payload))

    def engine(self, *hooks: Hook) -> Engine:
        return load(self.folder, home=self.root, hooks=hooks)

    def data(self, name: str, event: str, **fields: Any) -> Any:
        """The result data of a built-in."""
        found = [one for one in self.fire(event, **fields).outcomes if one.hook == name]
        return found[0].data if found else None

    def turn(self, session: str = ID) -> Any:
        return json.loads((self.root / "turns" / f"{session}.json").read_text())

    def billhook(self, *words: str) -> Ended:
        return billhook(*words, cwd=self.folder, env={**os.environ, "BILLHOOK_HOME": str(self.root)})


_FIELDS: dict[str, dict[str, Any]] = {
    "SessionStart": {"source": "startup"},
    "PreToolUse": {"tool_name": "Bash", "tool_input": {"command": "ls"}, "tool_use_id": "t1"},
    "PostToolUse": {"tool_name": "Bash", "tool_input": {"command": "ls"}, "tool_response": "a", "tool_use_id": "t1"},
    "Stop": {"stop_hook_active": False},
    "SubagentStop": {"stop_hook_active": False, "agent_id": "a", "agent_type": "t", "agent_transcript_path": ""},
    "UserPromptSubmit": {"prompt": "hello"},
    "SessionEnd": {"reason": "exit"},
    "Notification": {"message": "m", "notification_type": "t"},
    "PreCompact": {"trigger": "auto", "custom_instructions": ""},
}


@pytest.fixture
def pipeline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Pipeline:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    for name in ("XDG_CONFIG_HOME", "BILLHOOK_HOME", "CLAUDE_PROJECT_DIR"):
        monkeypatch.delenv(name, raising=False)
    return Pipeline(tmp_path)


def custom(name: str, run: Callable[[Context], Any], **options: Any) -> Hook:
    return Hook(name=name, run=run, **options)


# -- the order of execution


@pytest.mark.parametrize(
    ("name", "priority"),
    [
        pytest.param("turn-tracker", 5, id="| 5 | turn-tracker |"),
        pytest.param("session-naming", 10, id="| 10 | session-naming |"),
        pytest.param("event-logger", 50, id="| 50 | event-logger |"),
        pytest.param("mine", 100, id="| 100 | (default) |"),
    ],
)
def test_priorities(pipeline: Pipeline, name: str, priority: int) -> None:
    """Each line of the table of priorities, and the hooks run in that order."""
    hooks = pipeline.engine(custom("mine", lambda ctx: None)).hooks
    assert {hook.name: hook.priority for hook in hooks}[name] == priority
    assert [hook.priority for hook in hooks] == sorted(hook.priority for hook in hooks)


@pytest.mark.parametrize(
    ("event", "key"),
    [
        ("SessionStart", "turn-tracker-SessionStart"),
        ("PreToolUse", "turn-tracker-PreToolUse"),
        ("Stop", "turn-tracker-Stop"),
        ("SessionStart", "session-naming-SessionStart"),
        ("PostToolUse", "event-logger-PostToolUse"),
    ],
    ids=lambda value: value,
)
def test_ids_in_results(pipeline: Pipeline, event: str, key: str) -> None:
    """The examples of `{handler-id}-{EventType}`."""
    seen: list[str] = []
    pipeline.fire(event, custom("mine", lambda ctx: seen.extend(ctx.results)))
    assert key in seen


# -- turn-tracker

EVENTS = ["SessionStart", "Stop", "SubagentStop", "UserPromptSubmit", "PreToolUse", "PostToolUse"]


@pytest.mark.parametrize("event", EVENTS)
def test_events_of_the_turn_tracker(pipeline: Pipeline, event: str) -> None:
    """`Events: SessionStart, Stop, SubagentStop, UserPromptSubmit, PreToolUse, PostToolUse`."""
    assert pipeline.data("turn-tracker", event) is not None


@pytest.mark.parametrize("event", ["Notification", "PreCompact"])
def test_events_that_the_turn_tracker_leaves_alone(pipeline: Pipeline, event: str) -> None:
    """It has no result for others; but hooks know the turn all the same."""
    seen: list[str] = []
    verdict = pipeline.fire(event, custom("mine", lambda ctx: seen.append(ctx.turn_id)))
    assert "turn-tracker" not in [one.hook for one in verdict.outcomes]
    assert seen == [f"{ID}:1"]


@pytest.mark.parametrize(
    ("event", "before", "data"),
    [
        pytest.param("SessionStart", [], {"turnId": f"{ID}:1", "sequence": 1}, id="| SessionStart |"),
        pytest.param(
            "Stop",
            ["SessionStart"],
            {"completedTurnId": f"{ID}:1", "nextTurnId": f"{ID}:2", "sequence": 2},
            id="| Stop |",
        ),
        pytest.param(
            "SubagentStop",
            ["SessionStart", "Stop", "SubagentStop"],
            {"subagentTurnId": f"{ID}:2:s:2", "turnId": f"{ID}:2", "subagentSeq": 2},
            id="| SubagentStop |",
        ),
        pytest.param("PreToolUse", ["SessionStart", "Stop"], {"turnId": f"{ID}:2", "sequence": 2}, id="| PreToolUse |"),
        pytest.param("PostToolUse", ["Stop"] * 4, {"turnId": f"{ID}:5", "sequence": 5}, id="| PostToolUse |"),
    ],
)
def test_result_data_by_event(pipeline: Pipeline, event: str, before: list[str], data: dict[str, Any]) -> None:
    """Each line of the table of result data."""
    for earlier in before:
        pipeline.fire(earlier)
    assert pipeline.data("turn-tracker", event) == data


def test_state_storage(pipeline: Pipeline) -> None:
    """`~/.claude/turns/{session_id}.json` holds `{"sequence": 5, "subagentSeq": 0}`, and nothing else."""
    for event in ["SessionStart", *["Stop"] * 4]:
        pipeline.fire(event)
    assert pipeline.turn() == {"sequence": 5, "subagentSeq": 0}
    pipeline.fire("SubagentStop")
    assert pipeline.turn() == {"sequence": 5, "subagentSeq": 1}
    pipeline.fire("Stop")
    assert pipeline.turn() == {"sequence": 6, "subagentSeq": 0}


def test_the_default_root_is_the_seeds(pipeline: Pipeline, tmp_path: Path) -> None:
    """Without another home everything lies under `~/.claude`."""
    load(pipeline.folder).fire_sync(parse({"hook_event_name": "SessionStart", "session_id": ID, "source": "startup"}))
    claude = tmp_path / "home" / ".claude"
    assert json.loads((claude / "turns" / f"{ID}.json").read_text())["sequence"] == 1
    project = "".join(
        character if character.isascii() and character.isalnum() else "-" for character in str(pipeline.folder)
    )
    assert (claude / "hooks" / project / "hooks.jsonl").is_file()


@pytest.mark.parametrize(
    ("source", "preserve", "sequence"),
    [
        ("startup", "true", 1),
        ("resume", "true", 3),
        ("resume", "false", 1),
        ("compact", "true", 3),
        ("clear", "true", 1),
    ],
)
def test_resume_is_told_by_source(pipeline: Pipeline, source: str, preserve: str, sequence: int) -> None:
    """`preserve_on_resume`: a resumed session goes on with its turns."""
    text = PIPELINE.replace("preserve_on_resume: true", f"preserve_on_resume: {preserve}")
    (pipeline.folder / "hooks.yaml").write_text(text)
    for event in ("SessionStart", "Stop", "Stop"):
        pipeline.fire(event)
    assert pipeline.data("turn-tracker", "SessionStart", source=source)["sequence"] == sequence


@pytest.mark.parametrize("key", ["inject_context", "injectContext"])
def test_inject_context(pipeline: Pipeline, key: str) -> None:
    """`inject_context: true` tells the model the turn; false, as the seed's file has it, does not."""
    assert pipeline.fire("SessionStart").context == ()
    (pipeline.folder / "hooks.yaml").write_text(PIPELINE.replace("inject_context: false", f"{key}: true"))
    assert f"{ID}:1" in " ".join(pipeline.fire("SessionStart").context)
    assert f"{ID}:1" in " ".join(pipeline.fire("UserPromptSubmit").context)


def test_session_end_has_the_total(pipeline: Pipeline) -> None:
    """How many turns there were."""
    for event in ("SessionStart", "Stop", "Stop", "Stop"):
        pipeline.fire(event)
    assert pipeline.data("turn-tracker", "SessionEnd")["totalTurns"] == 3


# -- session-naming


def test_session_naming(pipeline: Pipeline) -> None:
    """`{ sessionName, isNew, source }`: generated once, existing afterwards, and adjective-animal."""
    first = pipeline.data("session-naming", "SessionStart")
    again = pipeline.data("session-naming", "SessionStart", source="resume")
    adjective, animal = first["sessionName"].split("-")
    assert adjective.isalpha() and animal.isalpha()
    assert (first["isNew"], first["source"]) == (True, "generated")
    assert again == {"sessionName": first["sessionName"], "isNew": False, "source": "existing"}


def test_names_differ_among_recent_sessions(pipeline: Pipeline) -> None:
    """Forty sessions of one project have forty names."""
    names = {pipeline.data("session-naming", "SessionStart", session=f"s{i}")["sessionName"] for i in range(40)}
    assert len(names) == 40


def test_a_name_of_the_users_own(pipeline: Pipeline) -> None:
    """`billhook events rename`: from then on `source` is `user`, also in the log and in the environment."""
    pipeline.fire("SessionStart")
    done = pipeline.billhook("events", "rename", ID, "big-refactoring")
    assert done.code == 0, done
    told = pipeline.data("session-naming", "SessionStart", source="resume")
    assert told == {"sessionName": "big-refactoring", "isNew": False, "source": "user"}
    seen: list[str] = []
    pipeline.fire("PreToolUse", custom("mine", lambda ctx: seen.append(ctx.session_name)))
    assert seen == ["big-refactoring"]


# -- event-logger


def test_event_logger(pipeline: Pipeline) -> None:
    """All events go to `hooks/{project-path}/hooks.jsonl`, with input and output."""
    for event in _FIELDS:
        pipeline.fire(event)
    (log,) = pipeline.root.glob("hooks/*/hooks.jsonl")
    records = [json.loads(line) for line in log.read_text().splitlines()]
    assert [record["event"] for record in records] == list(_FIELDS)
    post = next(record for record in records if record["event"] == "PostToolUse")
    assert (post["input"], post["output"]) == ({"command": "ls"}, "a")


# -- environment of external hooks


@pytest.mark.parametrize("event", ["SessionStart", "PreToolUse", "Stop", "Notification"])
def test_example_external_hook(pipeline: Pipeline, event: str) -> None:
    """my-hook.sh, unchanged, is told turn and name by the built-ins at every event, not only at the start."""
    external = Hook(name="external", run=command(f"bash '{SCRIPTS / 'my_hook.sh'}'", dialect="claw"), dialect="claw")
    name = pipeline.data("session-naming", "SessionStart")["sessionName"]
    verdict = pipeline.fire(event, external)
    assert f"Turn: {ID}:1\nSession: {name}\nEvent: {event}" in verdict.context


# -- custom handlers, as the seed writes them


def test_basic_handler(pipeline: Pipeline) -> None:
    """`my-custom-handler` runs after the built-ins and reads their results by prefix."""
    seen: list[Any] = []

    def handler(ctx: Context) -> dict[str, Any]:
        turn, session = ctx.find("turn-tracker"), ctx.find("session-naming")
        assert turn is not None and session is not None
        seen.append((ctx.event_type, ctx.session_id, turn.data["turnId"], session.data["sessionName"]))
        return {"success": True, "data": {"mine": 1}}

    verdict = pipeline.fire(
        "SessionStart", custom("my-custom-handler", handler, title="My Custom Handler", priority=100)
    )
    assert [(one[:3]) for one in seen] == [("SessionStart", ID, f"{ID}:1")]
    assert verdict.outcomes[-1].data == {"mine": 1}


@pytest.mark.parametrize("parallel", ["false", "true"])
def test_handler_with_dependencies(pipeline: Pipeline, parallel: str) -> None:
    """`dependsOn: ['turn-tracker', 'session-naming']` guarantees their results, also where hooks run at once."""
    (pipeline.folder / "hooks.yaml").write_text(
        PIPELINE.replace("parallelExecution: false", f"parallelExecution: {parallel}")
    )
    seen: list[Any] = []

    def handler(ctx: Context) -> dict[str, Any]:
        result = ctx.results.get("turn-tracker-" + ctx.event_type)
        seen.append(None if result is None else result.data)
        return {"success": True}

    dependent = custom("dependent-handler", handler, priority=150, after=("turn-tracker", "session-naming"))
    pipeline.fire("PreToolUse", dependent)
    assert seen == [{"turnId": f"{ID}:1", "sequence": 1}]


@pytest.mark.parametrize(("tool", "status"), [("Bash", "ok"), ("Write", "skipped")])
def test_handler_with_conditions(pipeline: Pipeline, tool: str, status: str) -> None:
    """`bash-only-handler` only executes for Bash; for other tools the outcome says that its condition is false."""
    only = custom("bash-only-handler", lambda ctx: {"success": True}, condition=lambda ctx: ctx.event.target == "Bash")
    verdict = pipeline.fire("PreToolUse", only, tool_name=tool)
    assert [one.status for one in verdict.outcomes if one.hook == "bash-only-handler"] == [status]


def test_a_condition_that_raises(pipeline: Pipeline) -> None:
    """Means skipped, with the error in the outcome."""
    odd = custom("odd", lambda ctx: {"success": True}, condition=lambda ctx: ctx.event.no_such_field)
    (outcome,) = [one for one in pipeline.fire("PreToolUse", odd).outcomes if one.hook == "odd"]
    assert outcome.status == "skipped" and "no_such_field" in outcome.error


def test_debug_handler(pipeline: Pipeline, capsys: pytest.CaptureFixture[str]) -> None:
    """`debug-results` at priority 999 prints every result."""

    def debug(ctx: Context) -> dict[str, Any]:
        print("=== Handler Results ===")  # noqa: T201 (as the seed has it)
        for key, result in ctx.results.items():
            print(f"{key}:", json.dumps(result.data, indent=2))  # noqa: T201
        return {"success": True}

    pipeline.fire("SessionStart", custom("debug-results", debug, priority=999))
    printed = capsys.readouterr().out
    assert printed.startswith("=== Handler Results ===")
    assert f'turn-tracker-SessionStart: {{\n  "turnId": "{ID}:1",\n  "sequence": 1\n}}' in printed
    assert "session-naming-SessionStart: {" in printed and "event-logger-SessionStart: {" in printed


def test_shared_state(pipeline: Pipeline) -> None:
    """`state: shared mutable state` of one firing; the next begins anew."""
    seen: list[Any] = []
    writes = custom("writes", lambda ctx: ctx.state.update(mark=1), priority=60)
    reads = custom("reads", lambda ctx: seen.append(dict(ctx.state)), priority=70)
    early = custom("early", lambda ctx: seen.append(dict(ctx.state)), priority=55)
    pipeline.fire("PreToolUse", writes, reads, early)
    assert seen == [{}, {"mark": 1}]


def test_results_are_outcomes(pipeline: Pipeline) -> None:
    """Each result has success, data, error, a duration, block and what it injects."""
    seen: list[Outcome] = []
    pipeline.fire("PreToolUse", custom("mine", lambda ctx: seen.extend(ctx.results.values())))
    for one in seen:
        assert one.success and one.error == "" and one.duration_ms >= 0 and not one.block and not one.context_to_inject


# -- the two questions


def test_view_recent_events(pipeline: Pipeline) -> None:
    """`hook-events . --last 5`: the last five of the newest session here, with the results of handlers."""
    for event in _FIELDS:
        pipeline.fire(event)
    done = pipeline.billhook("events", ".", "--last", "5")
    records = [json.loads(line) for line in done.out.splitlines()]
    assert done.code == 0, done
    assert [record["event"] for record in records] == list(_FIELDS)[-5:]
    assert all(any(one["hook"] == "event-logger" for one in record["outcomes"]) for record in records)


def test_search_for_handler_data(pipeline: Pipeline) -> None:
    """`hook-events search "turn-tracker"` finds the events in which it had a result."""
    for event in _FIELDS:
        pipeline.fire(event)
    done = pipeline.billhook("events", "search", "turn-tracker")
    found = [json.loads(line)["event"] for line in done.out.splitlines()]
    assert done.code == 0, done
    assert sorted(found) == sorted([*EVENTS, "SessionEnd"])

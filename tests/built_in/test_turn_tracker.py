"""turn-tracker: what seed 002 prints for each event, across processes, and on homes that can't be written."""

import json
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

from billhook import Context, Engine, Hook
from billhook.builtins.trackers import EVENTS, turn_of, turn_tracker
from billhook.core.answers import Outcome, Status
from billhook.core.events import parse
from billhook.store.state import FileState

FIELDS: dict[str, dict[str, Any]] = {
    "SessionStart": {"source": "startup"},
    "UserPromptSubmit": {"prompt": "hello"},
    "PreToolUse": {"tool_name": "Bash", "tool_input": {"command": "ls"}},
    "PostToolUse": {"tool_name": "Bash", "tool_input": {"command": "ls"}, "tool_response": {}},
    "SubagentStop": {"agent_id": "1", "agent_transcript_path": "", "agent_type": "x"},
    "Stop": {},
    "SessionEnd": {"reason": "exit"},
    "Notification": {"message": "m", "notification_type": "idle"},
}


class Home:
    """A home with one session; each event looks as if it came from a new process."""

    def __init__(self, root: Path, session: str = "abc", **options: bool) -> None:
        self.root = root
        self.session = session
        self.options = options

    def outcome(self, event: str, **fields: Any) -> Outcome:
        engine = Engine([turn_tracker(FileState(self.root), **self.options)])
        payload = {"hook_event_name": event, "session_id": self.session, "cwd": "/", **FIELDS[event], **fields}
        (outcome,) = engine.fire_sync(parse(payload)).outcomes
        return outcome

    def data(self, event: str, **fields: Any) -> Any:
        outcome = self.outcome(event, **fields)
        assert outcome.status is Status.OK, outcome.error
        return outcome.data

    def stored(self) -> Any:
        return json.loads((self.root / "turns" / f"{self.session}.json").read_text())


def test_the_hook() -> None:
    """It is an ordinary hook: the name, order and events of seed 002, and SessionEnd."""
    hook = turn_tracker(FileState(Path("/nowhere")))
    assert (hook.name, hook.priority, hook.on_failure, hook.dialect) == ("turn-tracker", 5, "allow", "spec")
    assert set(hook.events) == set(EVENTS) == {
        "SessionStart", "Stop", "SubagentStop", "UserPromptSubmit", "PreToolUse", "PostToolUse", "SessionEnd",
    }  # fmt: skip
    assert str(hook.source) == "built-in" and hook.title


def test_the_table_of_seed_002(tmp_path: Path) -> None:
    """Result data by event, and the file beside it, from the start of a session to its end."""
    home = Home(tmp_path)
    assert home.data("SessionStart") == {"turnId": "abc:1", "sequence": 1}
    assert home.stored() == {"sequence": 1, "subagentSeq": 0}
    for event in ("UserPromptSubmit", "PreToolUse", "PostToolUse"):
        assert home.data(event) == {"turnId": "abc:1", "sequence": 1}
    assert home.data("SubagentStop") == {"subagentTurnId": "abc:1:s:1", "turnId": "abc:1", "subagentSeq": 1}
    assert home.data("SubagentStop") == {"subagentTurnId": "abc:1:s:2", "turnId": "abc:1", "subagentSeq": 2}
    assert home.stored() == {"sequence": 1, "subagentSeq": 2}
    assert home.data("Stop") == {"completedTurnId": "abc:1", "nextTurnId": "abc:2", "sequence": 2}
    assert home.stored() == {"sequence": 2, "subagentSeq": 0}
    assert home.data("PreToolUse") == {"turnId": "abc:2", "sequence": 2}
    assert home.data("Stop") == {"completedTurnId": "abc:2", "nextTurnId": "abc:3", "sequence": 3}
    assert home.data("SessionEnd") == {"turnId": "abc:3", "sequence": 3, "totalTurns": 2}


def test_a_subagent_counts_on_the_current_turn(tmp_path: Path) -> None:
    """Also the first one of a later turn, which seed 002's own program books on the turn before."""
    home = Home(tmp_path)
    home.data("SessionStart")
    for _ in range(4):
        home.data("Stop")
    assert home.data("SubagentStop") == {"subagentTurnId": "abc:5:s:1", "turnId": "abc:5", "subagentSeq": 1}


@pytest.mark.parametrize(
    ("source", "preserve", "sequence"),
    [
        pytest.param("startup", True, 1, id="startup starts again"),
        pytest.param("clear", True, 1, id="clear starts again"),
        pytest.param("resume", True, 3, id="resume goes on"),
        pytest.param("resume", False, 1, id="resume starts again when it should"),
        pytest.param("compact", True, 3, id="compact goes on"),
        pytest.param("compact", False, 3, id="compact is no resume"),
        pytest.param("of a later version", True, 3, id="an unknown source uses no id twice"),
    ],
)
def test_where_a_session_goes_on(tmp_path: Path, source: str, preserve: bool, sequence: int) -> None:
    """A resume is recognized by `source`, which agents send."""
    home = Home(tmp_path, preserve_on_resume=preserve)
    home.data("SessionStart")
    home.data("Stop")
    home.data("Stop")
    assert home.data("SessionStart", source=source) == {"turnId": f"abc:{sequence}", "sequence": sequence}
    assert home.data("Stop")["sequence"] == sequence + 1


@pytest.mark.parametrize("event", ["PreToolUse", "PostToolUse", "UserPromptSubmit", "SessionEnd"])
def test_events_that_only_read(tmp_path: Path, event: str) -> None:
    """A session whose start was not seen is in its first turn, and nothing is written for that."""
    home = Home(tmp_path / "home")
    data = home.data(event)
    assert (data["turnId"], data["sequence"]) == ("abc:1", 1)
    assert not (tmp_path / "home").exists()


@pytest.mark.parametrize("event", EVENTS)
def test_an_agent_that_names_no_session(tmp_path: Path, event: str) -> None:
    """There are no turns: no data, and nothing is written that other agents would share."""
    outcome = Home(tmp_path / "home", session="", inject_context=True).outcome(event)
    assert (outcome.status, outcome.data, outcome.context_to_inject) == (Status.OK, None, "")
    assert not (tmp_path / "home").exists()


def test_a_stop_whose_start_was_not_seen(tmp_path: Path) -> None:
    """It ends the first turn; a resume before it continues the first."""
    assert Home(tmp_path, "a").data("Stop")["completedTurnId"] == "a:1"
    assert Home(tmp_path, "b").data("SessionStart", source="resume") == {"turnId": "b:1", "sequence": 1}
    assert Home(tmp_path, "c").data("SubagentStop")["subagentTurnId"] == "c:1:s:1"


@pytest.mark.parametrize(
    ("event", "context"),
    [("SessionStart", "Turn abc:1"), ("UserPromptSubmit", "Turn abc:1"), ("PreToolUse", ""), ("Stop", "")],
)
def test_inject_context(tmp_path: Path, event: str, context: str) -> None:
    """The model is told the turn when it begins; without the option, never."""
    assert Home(tmp_path, inject_context=True).outcome(event).context_to_inject == context
    assert Home(tmp_path, inject_context=False).outcome(event).context_to_inject == ""


def test_later_hooks_read_it(tmp_path: Path) -> None:
    """As the seed's example does, by `results` and by prefix."""
    seen = []

    def mine(ctx: Context) -> None:
        result = ctx.find("turn-tracker")
        assert result is not None and ctx.results["turn-tracker-PreToolUse"] is result
        seen.append(result.data["turnId"])

    engine = Engine([Hook(name="mine", run=mine), turn_tracker(FileState(tmp_path))])
    engine.fire_sync({"hook_event_name": "PreToolUse", "session_id": "abc-123-def", **FIELDS["PreToolUse"]})
    assert seen == ["abc-123-def:1"]


def test_turn_of_only_reads(tmp_path: Path) -> None:
    """The public function for other code."""
    home = Home(tmp_path)
    state = FileState(tmp_path)
    assert turn_of(state, "abc") == ("abc:1", 1)
    assert list(tmp_path.iterdir()) == []
    home.data("Stop")
    assert turn_of(state, "abc") == ("abc:2", 2)


@pytest.mark.parametrize("session", ["../../x", "x" * 4096, "a\0b", "\ud800", "a:5", "a\nb"])
def test_hostile_ids(tmp_path: Path, session: str) -> None:
    """They count like others, inside the root."""
    home = Home(tmp_path / "home", session)
    home.data("SessionStart")
    assert home.data("Stop")["nextTurnId"] == f"{session}:2"
    assert [path.name for path in tmp_path.iterdir()] == ["home"]
    assert len(list((tmp_path / "home" / "turns").iterdir())) == 1


@pytest.mark.parametrize(
    "record", ['{"sequence": "5"}', '{"sequence": 0}', '{"sequence": -3, "subagentSeq": 0}', '{"subagentSeq": -1}',
               '{"sequence": 1e3}', '{"sequence": null}', "{}"],
)  # fmt: skip
def test_a_record_that_is_not_a_count(tmp_path: Path, record: str) -> None:
    """It was edited: the session is in its first turn."""
    (tmp_path / "turns").mkdir(mode=0o700)
    (tmp_path / "turns" / "abc.json").write_text(record)
    home = Home(tmp_path)
    assert home.data("PreToolUse") == {"turnId": "abc:1", "sequence": 1}
    assert home.data("Stop")["sequence"] == 2 and home.stored() == {"sequence": 2, "subagentSeq": 0}


@pytest.mark.parametrize(
    "event", ["PreToolUse", "PostToolUse", "UserPromptSubmit", "SessionEnd", "Stop", "SubagentStop"]
)
@pytest.mark.parametrize("damage", ["", "{", "[]", "\0" * 40])
def test_a_damaged_file_recovers_at_once(tmp_path: Path, event: str, damage: str) -> None:
    """After a power loss the next event, whichever it is, counts from the first turn again."""
    home = Home(tmp_path)
    home.data("SessionStart")
    (tmp_path / "turns" / "abc.json").write_text(damage)
    assert home.outcome(event).status is Status.OK
    assert turn_of(FileState(tmp_path), "abc") == (("abc:2", 2) if event == "Stop" else ("abc:1", 1))


@pytest.mark.parametrize("event", ["SessionStart", "Stop", "SubagentStop"])
def test_a_home_that_can_not_be_written(tmp_path: Path, event: str) -> None:
    """The event is still judged: the built-in has failed with the file's path, and the event continues."""
    (tmp_path / "file").write_text("")
    asked = []
    state = FileState(tmp_path / "file" / "home")
    engine = Engine([turn_tracker(state), Hook(name="mine", run=lambda ctx: asked.append(ctx.event_type))])
    verdict = engine.fire_sync({"hook_event_name": event, "session_id": "abc", **FIELDS[event]})
    failed, fine = verdict.outcomes
    assert failed.status is Status.FAILED and str(tmp_path / "file") in failed.error
    assert fine.status is Status.OK and asked == [event]
    assert verdict.decision == "none" and not verdict.keep_going


def test_stops_at_once_lose_no_turn(tmp_path: Path) -> None:
    """Eight processes, 25 Stops each: turn 201, and each turn was completed once."""
    code = """
    import sys
    from pathlib import Path
    from billhook import Engine
    from billhook.builtins.trackers import turn_tracker
    from billhook.store.state import FileState
    engine = Engine([turn_tracker(FileState(Path(sys.argv[1])))])
    for _ in range(25):
        (outcome,) = engine.fire_sync({"hook_event_name": "Stop", "session_id": "abc"}).outcomes
        print(outcome.data["completedTurnId"])
    """
    command = [sys.executable, "-c", textwrap.dedent(code), str(tmp_path)]
    running = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(8)]
    completed = [line for process in running for line in process.communicate(timeout=120)[0].split()]
    assert sorted(completed) == sorted(f"abc:{number}" for number in range(1, 201))
    assert turn_of(FileState(tmp_path), "abc") == ("abc:201", 201)

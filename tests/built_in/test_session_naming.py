"""session-naming: what seed 002 prints, for every way in which a session starts."""

from pathlib import Path
from typing import Any

import pytest

from billhook import Engine
from billhook.builtins.trackers import session_naming
from billhook.core.answers import Status
from billhook.store import sessions
from billhook.store.sessions import Sessions
from billhook.store.state import FileState


def start(root: Path, session: str = "abc", source: str = "startup", project: str = "/p") -> Any:
    """The result of the built-in at the start of a session."""
    engine = Engine([session_naming(Sessions(FileState(root)), project)])
    event = {"hook_event_name": "SessionStart", "session_id": session, "source": source, "cwd": "/"}
    (outcome,) = engine.fire_sync(event).outcomes
    return outcome.data if outcome.status is Status.OK else outcome


def test_the_hook() -> None:
    """It is an ordinary hook, as seed 002 has it."""
    hook = session_naming(Sessions(FileState(Path("/nowhere"))), "/p")
    assert (hook.name, hook.priority, hook.events) == ("session-naming", 10, ("SessionStart",))
    assert (hook.on_failure, hook.dialect, str(hook.source)) == ("allow", "spec", "built-in") and hook.title


def test_a_new_session(tmp_path: Path) -> None:
    """It gets an adjective and an animal."""
    data = start(tmp_path)
    assert data == {"sessionName": data["sessionName"], "isNew": True, "source": "generated"}
    adjective, _, animal = data["sessionName"].partition("-")
    assert adjective in sessions.ADJECTIVES and animal in sessions.ANIMALS


@pytest.mark.parametrize("source", ["startup", "resume", "compact", "clear", "of a later version"])
def test_a_session_that_is_known(tmp_path: Path, source: str) -> None:
    """It keeps its name, however it starts again."""
    name = start(tmp_path)["sessionName"]
    start(tmp_path, "another")
    assert start(tmp_path, source=source) == {"sessionName": name, "isNew": False, "source": "existing"}


def test_after_a_clear(tmp_path: Path) -> None:
    """A new id keeps the name of the session that was cleared; in another project it doesn't."""
    name = start(tmp_path)["sessionName"]
    assert start(tmp_path, "def", "clear") == {"sessionName": name, "isNew": False, "source": "existing"}
    assert start(tmp_path, "def", "resume") == {"sessionName": name, "isNew": False, "source": "existing"}
    assert start(tmp_path, "ghi", "clear", "/other")["isNew"]


@pytest.mark.parametrize("source", ["startup", "clear"])
def test_an_agent_that_names_no_session(tmp_path: Path, source: str) -> None:
    """There is nothing to name, and nothing is written."""
    assert start(tmp_path / "home", "", source) is None
    assert not (tmp_path / "home").exists()


def test_a_name_that_the_user_chose(tmp_path: Path) -> None:
    """It is shown at every start."""
    start(tmp_path)
    Sessions(FileState(tmp_path)).rename("abc", "release", "/p")
    for source in ("startup", "resume"):
        assert start(tmp_path, source=source) == {"sessionName": "release", "isNew": False, "source": "user"}
    assert start(tmp_path, "def", "clear") == {"sessionName": "release", "isNew": False, "source": "existing"}


def test_a_home_that_can_not_be_written(tmp_path: Path) -> None:
    """The built-in has failed with the file's path; the session starts nevertheless."""
    (tmp_path / "file").write_text("")
    failed = start(tmp_path / "file" / "home")
    assert failed.status is Status.FAILED and str(tmp_path / "file") in failed.error


def test_another_process_that_hangs_with_the_lock(tmp_path: Path) -> None:
    """The start of a session waits for a bounded time, and then does without a name."""
    from billhook.store.files import locked

    start(tmp_path)
    (lock,) = (tmp_path / "billhook" / "locks").glob("names-*.lock")
    engine = Engine([session_naming(Sessions(FileState(tmp_path, seconds=0.2)), "/p")])
    with locked(lock, root=tmp_path):
        event = {"hook_event_name": "SessionStart", "session_id": "new", "source": "startup"}
        (outcome,) = engine.fire_sync(event).outcomes
    assert outcome.status is Status.FAILED and "still locked" in outcome.error

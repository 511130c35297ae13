"""`billhook events --follow`."""

import json
import time
from pathlib import Path

import pytest

from cli.recorded import TWO, Recorded, a_night, interrupted


@pytest.fixture
def place(tmp_path: Path) -> Recorded:
    place = Recorded(tmp_path)
    a_night(place)
    return place


def test_what_is_there_and_what_comes(place: Recorded) -> None:
    """The last records first, then each new one; Ctrl-C ends it normally."""
    process = place.following("--last", "2", "-e", "Stop,SessionStart")
    assert process.stdout is not None
    assert [json.loads(process.stdout.readline())["seq"] for _ in range(2)] == [9, 10]

    place.add("PreToolUse", "Bash", {"command": "ls"})
    place.add("Stop")
    assert json.loads(process.stdout.readline())["seq"] == 13

    assert interrupted(process) == (0, b"", b"")


def test_a_table_that_grows(place: Recorded) -> None:
    """New rows as they come; results are separate rows."""
    process = place.following("--human", "--last", "1")
    assert process.stdout is not None
    head, _, _ = (process.stdout.readline() for _ in range(3))
    assert head.startswith(b"   NR  TIME")

    place.add("PreToolUse", "Bash", {"command": "make test"}, decision="deny", reason="not now")
    assert b"make test" in process.stdout.readline()
    assert process.stdout.readline() == b"        not now\n"

    assert interrupted(process)[0] == 0


def test_a_log_that_is_not_there_yet(tmp_path: Path) -> None:
    """The command waits for it."""
    place = Recorded(tmp_path)
    process = place.following("--minimal", "--human")
    time.sleep(0.5)
    place.add("Stop", session_id=TWO)
    assert process.stdout is not None

    assert process.stdout.readline().endswith(b" Stop none\n")
    assert interrupted(process)[0] == 0


def test_a_session_that_has_not_begun(tmp_path: Path) -> None:
    """If no event has a session, `.` waits for the first one that does."""
    place = Recorded(tmp_path)
    place.add("Notification", session_id="", turn_id="")
    process = place.following(".", "--minimal", "--human")
    assert process.stdout is not None
    assert b" Notification none" in process.stdout.readline()

    place.add("Stop", session_id=TWO)
    assert process.stdout.readline().endswith(b" Stop none\n")
    assert interrupted(process)[0] == 0

"""The guard on the screens: doctor, init, events and explain."""

import json
from pathlib import Path

import pytest

from cli.folder import Folder

OWN = "~/.config/billhook/hooks.yaml"


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path)


def test_doctor_shows_its_settings(folder: Folder) -> None:
    """Its decisions are counted from the event log."""
    folder.write(OWN, "guard: {preset: strict, discard: allow}\n")
    (found,) = _guard(folder)
    assert (found["level"], found["remedy"]) == ("ok", "")
    assert found["text"] == "on: strict, discard: allow; 0 asks and 0 denies in the last 7 days"


def test_doctor_notes_that_it_is_off(folder: Folder) -> None:
    """It is the user's choice: a note, not a failure."""
    folder.write(OWN, "guard: off\n")
    (found,) = _guard(folder)
    assert found["level"] == "note"
    assert found["text"].startswith("off, except for billhook's own files; ")
    assert "remove `guard: off`" in found["remedy"]


def test_status_of_a_fresh_project(folder: Folder) -> None:
    """Also without a log: nothing was stopped."""
    assert "  guard     standard; 0 asks and 0 denies in the last 7 days\n" in folder.billhook().out


def test_status_without_a_log(folder: Folder) -> None:
    """It claims nothing that is not recorded."""
    folder.write(OWN, "builtins: {event-logger: false}\n")
    assert "  guard     standard\n" in folder.billhook().out


def test_an_agent_that_can_not_ask(folder: Folder) -> None:
    """`check --host` reports it, unless the guard is disabled."""
    told = "on PreToolUse the guard's ask becomes deny"
    assert told in folder.billhook("check", "--host", "codex").out
    assert "guard" not in folder.billhook("check", "--host", "claude").out
    folder.write(OWN, "guard: off\n")
    assert "guard" not in folder.billhook("check", "--host", "codex").out


def test_explain_shows_effects(folder: Folder) -> None:
    found = json.loads(folder.billhook("explain", "cd . && sudo git push -f origin main", "--json").out)
    told = [(one["kind"], one["scope"], one["target"], one["via"]) for one in found["effects"]]
    assert told == [("privilege", "system", "", ["sudo"]), ("force-push", "remote", "main", ["sudo", "git"])]
    assert [one["certain"] for one in found["effects"]] == [True, True]
    assert found["effects"][1]["cause"] == "sudo git push -f origin main"


def test_init_writes_the_section(folder: Folder) -> None:
    """As a comment: the guard is on without it."""
    folder.billhook("init")
    assert "\n# guard:\n#   preset: strict\n" in (folder.project / ".billhook" / "hooks.yaml").read_text()


def _guard(folder: Folder) -> list[dict[str, str]]:
    found = json.loads(folder.billhook("doctor", "--json").out)
    assert {one["about"] for one in found["daemon"]} <= {"daemon", "log"}
    return list(found["guard"])

"""`billhook trust NAME`: exactly the named hook, even if several have that name."""

import json
from pathlib import Path
from typing import Any

import pytest

from cli.place import Place

ECHOS = {"project/echo": ".claude/settings.json", "project/echo#2": ".claude.json", "project/echo#3": ".hooks.json"}


@pytest.fixture
def echos(tmp_path: Path) -> Place:
    """A project with three hooks that have the same name."""
    place = Place(tmp_path)
    place.file(".claude/settings.json", json.dumps({"hooks": {"Stop": ["echo s0"]}}))
    place.file(".claude.json", json.dumps({"hooks": {"Stop": ["echo cj"]}}))
    place.file(".hooks.json", json.dumps({"hooks": {"Stop": ["echo hj"]}}))
    return place


def rows(place: Place) -> dict[str, dict[str, Any]]:
    found = [json.loads(line) for line in place.run("list", "--json").out.splitlines()]
    return {row["name"]: row for row in found if row["layer"] == "project"}


def running(place: Place) -> list[str]:
    return [name for name, row in rows(place).items() if row["state"] == "runs"]


def test_the_names(echos: Place) -> None:
    """Each has a distinct display name, which is the same everywhere."""
    names = sorted(rows(echos))
    assert names == list(ECHOS)
    waiting = [json.loads(line)["name"] for line in echos.run("trust", "--json").out.splitlines()]
    assert sorted(waiting) == names
    assert sorted(json.loads(echos.run("--json").out)["pending"]) == names
    shown = echos.run("explain", "Stop").out
    for name in ("project/echo", "'project/echo#2'", "'project/echo#3'"):
        assert f"`billhook trust {name}` shows it" in " ".join(shown.split())
    note = echos.run("hook", stdin=b'{"hook_event_name": "Stop"}').err
    assert "did not run: project/echo, project/echo#2, project/echo#3. " in note
    assert "3 hooks wait: project/echo, project/echo#2, project/echo#3\n" in echos.run("trust").out


@pytest.mark.parametrize("name", ECHOS)
def test_only_what_is_named(echos: Place, name: str) -> None:
    """One name approves one hook, and revokes one approval."""
    assert rows(echos)[name]["file"].endswith(ECHOS[name])
    ended = echos.alone("trust", name, "--yes")
    assert (ended.code, running(echos)) == (0, [name])
    assert f"approved {name}\n" in ended.out
    echos.alone("trust", "--all", "--yes")
    listed = [json.loads(line) for line in echos.run("trust", "--list", "--json", name).out.splitlines()]
    assert [one["name"] for one in listed] == [name]
    ended = echos.alone("trust", "--revoke", name)
    assert (ended.code, sorted(running(echos))) == (0, sorted({*ECHOS} - {name}))
    assert ended.out.startswith(f"revoked {name}  ")


@pytest.mark.parametrize("how", [["--yes"], ["--revoke"]], ids=["approving", "revoking"])
def test_a_name_of_several(echos: Place, how: list[str]) -> None:
    """An ambiguous name is refused, with the possible names; nothing changes."""
    if how == ["--revoke"]:
        echos.alone("trust", "--all", "--yes")
    before = sorted(running(echos))
    ended = echos.alone("trust", "echo", *how)
    assert (ended.code, ended.out, sorted(running(echos))) == (2, "", before)
    assert ended.err.startswith("error: `echo` could mean 3 hooks\n\nhint: use a name or hash: ")
    for name, row in rows(echos).items():
        assert f"{name} ({row['hash'][:12]})" in ended.err


def test_the_only_one_that_waits(echos: Place) -> None:
    """Once the others are approved, the bare name is enough; the same for the only approved one."""
    echos.alone("trust", "project/echo#2", "--yes")
    assert echos.alone("trust", "--revoke", "echo").code == 0
    assert running(echos) == []
    echos.alone("trust", "project/echo", "project/echo#3", "--yes")
    assert echos.alone("trust", "echo", "--yes").code == 0
    assert len(running(echos)) == 3
    ended = echos.alone("trust", "echo", "--yes")
    assert (ended.code, ended.err) == (0, "note: `echo` is already approved\n")


def test_an_unknown_name(echos: Place) -> None:
    """The nearest display name is suggested."""
    ended = echos.alone("trust", "project/ecko#2", "--yes")
    assert (ended.code, "did you mean `project/echo#2`?" in ended.err) == (2, True)


def test_the_layer_may_be_named(tmp_path: Path) -> None:
    """`project/lint` is `lint`, if only one hook has that name."""
    place = Place(tmp_path)
    place.file("hooks.yaml", "hooks:\n  lint:\n    events: Stop\n    run: echo\n")
    assert place.alone("trust", "project/lint", "--yes").code == 0
    assert running(place) == ["lint"]
    assert place.alone("trust", "--revoke", "project/lint").code == 0
    assert running(place) == []


def test_the_same_hook_twice_in_a_file(tmp_path: Path) -> None:
    """Identical hooks are approved, and revoked, as one."""
    place = Place(tmp_path)
    place.file(".claude/settings.json", json.dumps({"hooks": {"Stop": ["echo s0", "echo s0"]}}))
    names = sorted(rows(place))
    assert names == ["echo", "echo-2"]
    assert place.alone("trust", names[1], "--yes").code == 0
    assert place.alone("trust", "--revoke", names[1]).code == 0
    assert running(place) == []


def test_revoking_reaches_back(tmp_path: Path) -> None:
    """A hook that was approved, changed and approved again waits after --revoke, in each of its versions."""
    place = Place(tmp_path)
    versions = ["echo one", "echo two", "echo three"]
    for text in versions:
        place.file("hooks.yaml", f"hooks:\n  it:\n    events: Stop\n    run: {text}\n")
        assert place.alone("trust", "it", "--yes").code == 0
    assert place.alone("trust", "--revoke", "it").code == 0
    for text in versions:
        place.file("hooks.yaml", f"hooks:\n  it:\n    events: Stop\n    run: {text}\n")
        assert running(place) == []

"""A layer that can't be accessed is not empty: any error but "does not exist" denies what a gate may judge."""

import ctypes
import os
import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from billhook import Decision
from config.project import Project

GATE = "hooks:\n  no-rm:\n    events: PreToolUse\n    if: Bash(rm *)\n    deny: not here\n"


@contextmanager
def without_privileges() -> Iterator[None]:
    """Root ignores permissions; in this block this thread of root does not."""
    if os.geteuid():
        yield
        return
    libc, header = ctypes.CDLL(None, use_errno=True), struct.pack("Ii", 0x20080522, 0)
    data = ctypes.create_string_buffer(24)
    assert libc.capget(header, data) == 0
    before = data.raw
    effective, *rest = struct.unpack("6I", before)
    assert libc.capset(header, struct.pack("6I", effective & ~0b110, *rest)) == 0  # DAC_OVERRIDE, DAC_READ_SEARCH
    try:
        yield
    finally:
        assert libc.capset(header, before) == 0


def closed(path: Path) -> None:
    path.chmod(0)


def replaced_by(target: str) -> Callable[[Path], None]:
    def replace(path: Path) -> None:
        path.rename(path.with_name(f"{path.name}.moved"))
        path.symlink_to(target)

    return replace


def a_file(path: Path) -> None:
    path.rename(path.with_name(f"{path.name}.moved"))
    path.write_text("hooks: {}\n")


def a_folder(path: Path) -> None:
    path.rename(path.with_name(f"{path.name}.moved"))
    path.mkdir()


DAMAGE: dict[str, Callable[[Path], None]] = {
    "closed": closed,
    "dangling": replaced_by("nowhere"),
    "dangling deep": replaced_by("nowhere/deeper/still"),
    "looping": replaced_by("."),  # see below
    "too long": replaced_by("x" * 300),
    "a file": a_file,
}


def damage(how: str, path: Path) -> None:
    DAMAGE[how](path)
    if how == "looping":
        path.unlink()
        path.symlink_to(path.name)


USER = ["~/.config/billhook", "~/.config", "~/."]


@pytest.mark.parametrize("place", USER)
@pytest.mark.parametrize("how", DAMAGE)
def test_a_layer_of_the_user(project: Project, place: str, how: str) -> None:
    """Whatever is wrong with a folder of the path, the gate that was there denies, and the folder is named."""
    project.write("~/.config/billhook/hooks.yaml", GATE)
    assert project.fire(command="ls").decision is Decision.NONE
    folder = Path(os.path.normpath(project.path(place)))
    damage(how, folder)
    with without_privileges():
        config = project.load()
        verdict = project.fire(command="ls")
    folder.chmod(0o755) if how == "closed" else None
    assert verdict.decision is Decision.DENY and str(folder) in verdict.reason and "to fix it:" in verdict.reason
    assert [(one.code, one.file) for one in config.problems] == [("BH101", str(folder))]


@pytest.mark.parametrize("how", DAMAGE)
def test_the_folder_that_a_variable_names(project: Project, monkeypatch: pytest.MonkeyPatch, how: str) -> None:
    folder = project.write("~/elsewhere/billhook/hooks.yaml", GATE).parent.parent
    monkeypatch.setenv("XDG_CONFIG_HOME", str(folder))
    damage(how, folder)
    with without_privileges():
        verdict = project.fire(command="ls")
    folder.chmod(0o755) if how == "closed" else None
    assert verdict.decision is Decision.DENY and str(folder) in verdict.reason


@pytest.mark.parametrize("place", [".billhook", "."])
@pytest.mark.parametrize("how", DAMAGE)
def test_a_layer_of_a_project(project: Project, place: str, how: str) -> None:
    """Its approved gates deny the events that they judged; without any, a clone blocks nothing."""
    project.write(".billhook/hooks.yaml", GATE)
    project.write("sub/deeper/x", "")
    project.approve()
    other = Project.__new__(Project)
    other.__dict__ |= {**project.__dict__, "root": project.root / "other"}
    folder = Path(os.path.normpath(project.path(place)))
    if place == "." and how != "closed":
        pytest.skip("then there is no such project any more")
    damage(how, folder)
    with without_privileges():
        assert project.fire(command="rm x").decision is Decision.DENY
        assert project.fire(command="rm x", cwd=project.folder / "sub/deeper").decision is Decision.DENY
        assert other.fire(command="rm x").decision is Decision.NONE
        assert [one.code for one in project.load().problems] == ["BH101"]
    folder.chmod(0o755) if how == "closed" else None


FILES = ["~/.claude/settings.json", "~/.config/billhook/hooks.yml"]


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("how", [*DAMAGE, "a folder"])
def test_a_file(project: Project, name: str, how: str) -> None:
    path = project.write(name, "{}")
    if how == "a file":
        return
    a_folder(path) if how == "a folder" else damage(how, path)
    with without_privileges():
        assert project.fire(command="ls").decision is Decision.DENY


@pytest.mark.parametrize("home", ["/nonexistent", "/nonexistent/deeper", "/dev/null"])
def test_no_home(project: Project, monkeypatch: pytest.MonkeyPatch, home: str) -> None:
    """A missing home is empty, and so is a HOME that means "no home"."""
    monkeypatch.setenv("HOME", home)
    assert project.fire(command="ls").decision is Decision.NONE and not project.load().problems


def test_changes_after_loading(project: Project) -> None:
    """A file that becomes unreadable is not cached any longer, and is loaded again when it is readable."""
    folder = project.write("~/.config/billhook/hooks.yaml", GATE).parent
    with without_privileges():
        for mode, expected in [(0o755, Decision.NONE), (0, Decision.DENY), (0o755, Decision.NONE)] * 2:
            folder.chmod(mode)
            assert project.fire(command="ls").decision is expected

"""A configuration is loaded again exactly if one of its inputs has changed."""

import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from billhook.config import loader
from billhook.config.config import Config
from billhook.config.trust import approve_entry
from billhook.core import client_env
from billhook.core.client_env import Caller

DENY = "hooks:\n  no: {events: PreToolUse, match: Bash, deny: no}\n"


def _write(file: Path) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(DENY)


PLACES = {
    "in the project": "p/hooks.yaml",
    "in a folder that was missing": "p/.billhook/hooks.yaml",
    "in a folder that was there": "p/.claude/hooks.yaml",
    "the user's": "home/.config/billhook/hooks.yaml",
    "the working directory": "p/sub/hooks.yaml",
}


@pytest.fixture
def world(tmp_path: Path) -> Path:
    for folder in ("p/.git", "p/.claude", "p/sub", "home"):
        (tmp_path / folder).mkdir(parents=True)
    return tmp_path


def _served(world: Path, folder: Path | None = None) -> Callable[[], Config]:
    env = {"HOME": str(world / "home"), "BILLHOOK_HOME": str(world / "state"), "PATH": os.environ["PATH"]}
    cwd = str(folder or world / "p" / "sub")

    def load() -> Config:
        with client_env.Serving(Caller(env, cwd)):
            return loader.load_for_cwd(cwd)

    return load


@pytest.mark.parametrize("place", PLACES.values(), ids=PLACES)
def test_a_file_that_appears_is_seen_at_once(place: str, world: Path) -> None:
    """Even if nothing has changed for so long that only folders are checked."""
    load = _served(world)
    before = load()
    time.sleep(1.1)  # from now on only the times of the folders are checked
    assert load() is before and load() is before
    _write(world / place)
    after = load()
    assert after is not before and len(after.sources) == len(before.sources) + 1


@pytest.mark.parametrize("place", PLACES.values(), ids=PLACES)
def test_a_file_that_appears_in_a_folder_that_changed_just_now(place: str, world: Path) -> None:
    """Its times may not show another change."""
    load = _served(world)
    before = load()
    time.sleep(1.1)
    assert load() is before
    folder = next(one for one in (world / place).parents if one.is_dir())
    (folder / "new").touch()
    assert load() is before and load() is before
    _write(world / place)
    assert len(load().sources) == len(before.sources) + 1


def test_a_folder_that_changed_just_now_costs_little(world: Path) -> None:
    """The first page makes a folder for questions, and agents make files: not everything is checked again."""
    load = _served(world)
    for folder in ("state/billhook", "p/.billhook"):
        (world / folder).mkdir(parents=True)
    load()
    time.sleep(1.1)
    settled = [_files_checked(load) for _ in range(3)][-1]
    for new in ("state/billhook/questions", "p/src"):
        (world / new).mkdir()
        assert _files_checked(load) > settled + 10  # the times of a folder have changed
        assert [_files_checked(load) <= settled + 25 for _ in range(3)] == [True] * 3


def _files_checked(load: Callable[[], Config]) -> int:
    called: list[object] = []
    sys.setprofile(lambda frame, event, about: called.append(about) if event == "c_call" else None)
    try:
        load()
    finally:
        sys.setprofile(None)
    return sum(one in (os.stat, os.lstat) for one in called)


def test_a_dangling_link_is_seen_when_its_target_appears(world: Path) -> None:
    """The target appears in a folder that is not checked."""
    (world / "p" / ".billhook").symlink_to(world / "elsewhere")
    load = _served(world)
    before = load()
    time.sleep(1.1)
    assert load().sources == before.sources
    _write(world / "elsewhere" / "hooks.yaml")
    assert not any(read.readable for read in before.sources) and [read.readable for read in load().sources] == [True]


def test_another_folder_in_its_place_is_seen(world: Path) -> None:
    """A project is moved away, and another one with hooks takes its place."""
    load = _served(world)
    before = load()
    time.sleep(1.1)
    assert load() is before
    os.rename(world / "p", world / "old")
    (world / "p" / "sub").mkdir(parents=True)
    (world / "p" / ".git").mkdir()
    _write(world / "p" / "hooks.yaml")
    assert len(load().sources) == 1


def test_callers_with_other_variables_have_separate_configurations(world: Path) -> None:
    """The same folder, but another home."""
    load = _served(world)
    load()
    _write(world / "other" / ".config" / "billhook" / "hooks.yaml")
    env = {"HOME": str(world / "other"), "BILLHOOK_HOME": str(world / "state")}
    with client_env.Serving(Caller(env, str(world / "p"))):
        assert len(loader.load_for_cwd(str(world / "p" / "sub")).sources) == 1
    assert load().sources == ()


def test_home_that_is_a_link_to_another(world: Path) -> None:
    """The user's files are those of its current target."""
    for name in ("one", "two"):
        file = world / name / ".config/billhook/hooks.yaml"
        file.parent.mkdir(parents=True)
        file.write_text(DENY.replace("deny: no", f"deny: {name}"))
    (world / "home").rmdir()
    (world / "home").symlink_to(world / "one")
    load = _served(world)
    before = load()
    time.sleep(1.1)
    assert load() is load() and "one" in str(load().entries)
    (world / "home").unlink()
    (world / "home").symlink_to(world / "two")
    assert load() is not before and "two" in str(load().entries)


@pytest.mark.parametrize("is_fresh", [False, True])
@pytest.mark.parametrize("moved", ["in", "out"])
def test_folder_that_was_replaced_by_a_link_to_it(world: Path, moved: str, is_fresh: bool) -> None:
    """It is the same folder in another project."""
    (world / "plain").mkdir()
    (world / "p/hooks.yaml").write_text(DENY)
    places = [world / "plain/w", world / "p/w"] if moved == "in" else [world / "p/w", world / "plain/w"]
    (places[0] / "sub").mkdir(parents=True)
    load = _served(world, places[0] / "sub")
    before = load()
    time.sleep(1.1)
    if is_fresh:
        (places[0] / "sub" / "new").touch()
    assert load() is load()
    assert len(load().sources) == (moved == "out")
    places[0].rename(places[1])
    places[0].symlink_to(places[1])
    assert load() is not before and len(load().sources) == (moved == "in")


@pytest.mark.parametrize("modes", [(0o777, 0o755), (0o755, 0o777)], ids=["world-writable before", "world-writable now"])
def test_world_writable_folder_above(world: Path, modes: tuple[int, int]) -> None:
    """Its files belong to the project only while it is not world-writable."""
    (world / "p/hooks.yaml").write_text(DENY)
    (world / "p").chmod(modes[0])
    load = _served(world)
    before = load()
    time.sleep(1.1)
    assert load() is load()
    (world / "p").chmod(modes[1])
    assert load() is not before
    assert len(load().sources) == (modes[1] == 0o755) and len(before.sources) == (modes[0] == 0o755)


APPROVAL_CHANGES: dict[str, Callable[[Path], object]] = {
    "revoked": lambda folder: next(folder.glob("*/*.json")).unlink(),
    "others may write it": lambda folder: next(folder.glob("*")).chmod(0o777),
    "others may write a folder above it": lambda folder: folder.chmod(0o777),
    "a link in its place": lambda folder: os.symlink(folder.rename(folder.with_name("old")), folder),
    "gone": lambda folder: folder.rename(folder.with_name("old")),
}


@pytest.mark.parametrize("change", APPROVAL_CHANGES.values(), ids=APPROVAL_CHANGES)
def test_an_approval_that_no_longer_counts(change: Callable[[Path], object], world: Path) -> None:
    """It is seen at once, even if only the times of the folders have been checked for a while."""
    (world / "p" / "hooks.yaml").write_text('hooks:\n  no: {events: PreToolUse, deny: "No."}\n')
    load = _served(world)
    approve_entry(load().entries[0], world / "state")
    time.sleep(1.1)
    approved = load()
    assert [entry.state for entry in approved.entries] == ["runs"]
    assert load() is approved and load() is approved
    change(world / "state" / "billhook" / "approvals")
    assert [entry.state for entry in load().entries] == ["new"]

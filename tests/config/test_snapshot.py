"""A configuration is stored by its hash; a damaged file is rewritten or reported."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from billhook.config.config import ConfigSnapshot, read_snapshot
from billhook.store.files import StoreError
from config.project import Project


def snapshot_of(project: Project) -> tuple[ConfigSnapshot, Path]:
    """The snapshot as in a new process."""
    snapshot = ConfigSnapshot(project.load(builtins=True), lambda value: value)
    return snapshot, project.root / "billhook" / "configs" / f"{snapshot.hash}.json"


@pytest.mark.parametrize("left", [0, 10, -1], ids=["emptied", "cut off", "all but one byte"])
def test_a_file_of_the_wrong_size_is_written_again(project: Project, left: int) -> None:
    """By the next process: a crash may leave an empty file, and decisions could not be explained."""
    snapshot, path = snapshot_of(project)
    snapshot.save()
    path.write_bytes(path.read_bytes()[:left])

    snapshot.save()
    assert read_snapshot(project.root, snapshot.hash) is None, "once in a process"
    snapshot_of(project)[0].save()
    assert read_snapshot(project.root, snapshot.hash) is not None


def test_a_file_that_is_there_is_left_alone(project: Project) -> None:
    """The usual case needs only a `stat`."""
    snapshot, path = snapshot_of(project)
    snapshot.save()
    before = path.stat()
    snapshot_of(project)[0].save()
    assert (path.stat().st_ino, path.stat().st_mtime_ns) == (before.st_ino, before.st_mtime_ns)


def _linked(path: Path) -> None:
    path.rename(path.with_name("copy"))
    path.symlink_to("copy")


def _piped(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def _folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


@pytest.mark.parametrize("spoil", [_linked, _piped, _folder])
def test_what_is_not_a_file_is_reported(project: Project, spoil: Callable[[Path], None]) -> None:
    """With its place and a hint, without blocking."""
    snapshot, path = snapshot_of(project)
    snapshot.save()
    spoil(path)
    with pytest.raises(StoreError) as told:
        snapshot_of(project)[0].save()
    assert told.value.place == str(path) and told.value.hint

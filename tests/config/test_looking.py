"""A snapshot of the files: what it caches, and what it must not cache."""

import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from billhook.config.sources import MAX_CACHED, SETTLED, FileSnapshot, stat_identity

LIMIT = 1 << 20


def old(path: Path, data: bytes = b"exit 0\n") -> Path:
    """A file whose next change will show in its times."""
    path.write_bytes(data)
    time.sleep(2 * SETTLED / 1e9)
    return path


def test_content_has_the_identity_of_its_file(tmp_path: Path) -> None:
    """The same identity later means the same content."""
    path = old(tmp_path / "x.sh")
    content = FileSnapshot().read(str(path), LIMIT)
    assert (content.data, content.identity) == (b"exit 0\n", stat_identity(path.stat()))


def test_a_file_that_was_just_written_has_no_identity(tmp_path: Path) -> None:
    """Another content of the same length could follow within one tick of the clock."""
    path = tmp_path / "x.sh"
    path.write_text("exit 0\n")
    content = FileSnapshot().read(str(path), LIMIT)
    assert content.identity == () or time.time_ns() - path.stat().st_ctime_ns > SETTLED  # on a very busy machine


@pytest.mark.parametrize(
    "make",
    [
        pytest.param(lambda path: None, id="missing"),
        pytest.param(os.mkdir, id="a folder"),
        pytest.param(os.mkfifo, id="a pipe"),
        pytest.param(lambda path: Path(path).write_bytes(b"x" * (LIMIT + 1)), id="too long"),
        pytest.param(lambda path: os.symlink("/dev/zero", path), id="a device"),
        pytest.param(lambda path: os.symlink(path, path), id="a loop"),
    ],
)
def test_what_is_not_a_regular_file_is_empty(tmp_path: Path, make: Callable[[str], object]) -> None:
    """Reading it does not block."""
    path = str(tmp_path / "x")
    make(path)
    content = FileSnapshot().read(path, LIMIT)
    assert (content.data, content.identity) == (b"", ())


def test_a_long_file_is_read_whole_and_not_cached(tmp_path: Path) -> None:
    """Two reads return the current content each time."""
    path = old(tmp_path / "long", b"a" * (3 * MAX_CACHED))
    look = FileSnapshot()
    assert look.read(str(path), LIMIT).data == path.read_bytes()
    path.write_bytes(b"b" * (3 * MAX_CACHED))
    assert look.read(str(path), LIMIT).data == path.read_bytes()


def test_a_file_of_the_kernel_has_no_identity() -> None:
    """Its size does not depend on its content."""
    if os.path.exists("/proc/self/status"):
        assert FileSnapshot().read("/proc/self/status", LIMIT).identity == ()


def test_real_is_realpath(tmp_path: Path) -> None:
    """Through links, loops and `..`, for existing and missing paths."""
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "a" / "b" / "file").write_text("")
    (tmp_path / "to-b").symlink_to("a/b")
    (tmp_path / "a" / "up").symlink_to("..")
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "gone").symlink_to("nowhere/at/all")
    ends = ["", "a", "a/b/file", "to-b", "to-b/file", "to-b/../up", "a/up/a/up/to-b/file", "loop/x", "gone", "gone/x"]
    ends += ["missing/x", "to-b/.", "to-b/..", "./a/./b", "a//b", "a/b/file/x", "/".join("d" * 1500), "to-b/missing"]
    look = FileSnapshot()
    for path in (f"{tmp_path}/{end}" for end in (*ends, *reversed(ends))):
        assert look.real(path) == os.path.realpath(path), path
    assert look.real("/") == "/"


def test_names_of_a_folder_that_can_not_be_listed(tmp_path: Path) -> None:
    """A missing folder is empty; for a file the names are unknown."""
    (tmp_path / "x").write_text("")
    look = FileSnapshot()
    assert look.names(str(tmp_path)) == frozenset({"x"})
    assert look.names(str(tmp_path / "missing")) == frozenset()
    assert look.names(str(tmp_path / "x")) is None and look.names("a\0b") is None

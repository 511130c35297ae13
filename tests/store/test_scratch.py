"""Records that live for seconds: no change is lost, and what is torn is no record."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from billhook.store.files import StoreError, locked
from billhook.store.state import LARGEST_SCRATCH, ScratchFolder

ADDING = """
import sys
from pathlib import Path
from billhook.store.state import ScratchFolder as Scratch
root = Path(sys.argv[1])
scratch = Scratch(root / "here", root=root)
for _ in range(100):
    scratch.update("a", lambda record: {"count": (record or {"count": 0})["count"] + 1})
"""


@pytest.fixture
def scratch(tmp_path: Path) -> ScratchFolder:
    return ScratchFolder(tmp_path / "here", root=tmp_path)


def kept(value: Any) -> Any:
    return lambda record: value


def test_many_processes_at_once(scratch: ScratchFolder, tmp_path: Path) -> None:
    """Each of them adds to what the others made of it."""
    children = [subprocess.Popen([sys.executable, "-c", ADDING, str(tmp_path)]) for _ in range(3)]
    assert [child.wait(60) for child in children] == [0, 0, 0]
    assert scratch.read("a") == {"count": 300}


def test_a_shorter_record_leaves_nothing_of_the_longer(scratch: ScratchFolder) -> None:
    """It is written in place; another key is another record, whatever its text."""
    scratch.update("a/../\0", kept({"text": "x" * 1000}))
    scratch.update("a/../\0", kept({"text": "y"}))
    assert scratch.read("a/../\0") == {"text": "y"}
    assert scratch.read("a") is None


@pytest.mark.parametrize("data", [b"", b"[1]", b'{"a":', b"\xff", b'{"a":1,"a":2}'], ids=repr)
def test_what_is_torn_is_none(scratch: ScratchFolder, tmp_path: Path, data: bytes) -> None:
    """Somebody died while it was written: the next one begins anew."""
    scratch.update("a", kept({"a": 1}))
    (file,) = (tmp_path / "here").iterdir()
    file.write_bytes(data)
    assert scratch.read("a") is None
    scratch.update("a", kept({"a": 2}))
    assert scratch.read("a") == {"a": 2}


def test_nobody_waits_long(scratch: ScratchFolder, tmp_path: Path) -> None:
    """A lock that somebody does not give back is an error; so is a record that is too large."""
    scratch.update("a", kept({"a": 1}))
    (file,) = (tmp_path / "here").iterdir()
    with locked(file, root=tmp_path), pytest.raises(StoreError, match="locked"):
        scratch.read("a")
    with pytest.raises(StoreError, match="more than"):
        scratch.update("a", kept({"a": "x" * LARGEST_SCRATCH}))
    assert scratch.read("a") == {"a": 1}


def test_only_its_owner_may_read_it(scratch: ScratchFolder, tmp_path: Path) -> None:
    """What agents do is nobody else's business."""
    scratch.update("a", kept({"a": 1}))
    (file,) = (tmp_path / "here").iterdir()
    assert (file.stat().st_mode & 0o777, file.parent.stat().st_mode & 0o777) == (0o600, 0o700)

"""Our own files on disk: whole or absent, private, and never through a link."""

import errno
import hashlib
import os
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from billhook.core.errors import BillhookError
from billhook.store.files import StoreError, private_folder, read_bytes, remove, state_root, write_atomically
from descriptors import open_descriptors


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_what_was_written_is_read_back(tmp_path: Path) -> None:
    """Folders that are missing are made, and everything is for the owner alone."""
    path = tmp_path / "root" / "billhook" / "deep" / "x.json"
    write_atomically(path, b"one", root=tmp_path / "root")
    write_atomically(path, b"two", root=tmp_path / "root")

    assert read_bytes(path, 100, root=tmp_path / "root") == b"two"
    assert mode(path) == 0o600
    assert [mode(folder) for folder in list(path.parents)[:3]] == [0o700] * 3
    assert os.listdir(path.parent) == ["x.json"]


def test_without_a_root_the_last_component_is_guarded(tmp_path: Path) -> None:
    """A link at the end is refused even when the caller names no root."""
    (tmp_path / "real").write_text("secret")
    (tmp_path / "link").symlink_to("real")
    with pytest.raises(StoreError, match="symbolic link"):
        read_bytes(tmp_path / "link", 100)
    with pytest.raises(StoreError, match="symbolic link"):
        write_atomically(tmp_path / "link", b"x")
    assert (tmp_path / "real").read_text() == "secret"


def test_a_umask_can_not_open_it(tmp_path: Path) -> None:
    """The modes hold whatever the user's umask is."""
    before = os.umask(0)
    try:
        write_atomically(tmp_path / "r" / "a" / "x", b"", root=tmp_path / "r")
    finally:
        os.umask(before)
    assert mode(tmp_path / "r" / "a" / "x") == 0o600
    assert mode(tmp_path / "r" / "a") == 0o700


def test_missing_is_none(tmp_path: Path) -> None:
    """A missing file, and one in a missing folder, read as None and are no error to remove."""
    for path in (tmp_path / "x", tmp_path / "a" / "b" / "x"):
        assert read_bytes(path, 10, root=tmp_path) is None
        assert remove(path, root=tmp_path) is False
    assert read_bytes(tmp_path / "no" / "x", 10, root=tmp_path / "no") is None


def test_remove(tmp_path: Path) -> None:
    """A file is gone after that; of a link only the link."""
    write_atomically(tmp_path / "x", b"", root=tmp_path)
    (tmp_path / "link").symlink_to("y")
    (tmp_path / "y").write_text("kept")
    assert remove(tmp_path / "x", root=tmp_path) and not (tmp_path / "x").exists()
    assert remove(tmp_path / "link", root=tmp_path) and (tmp_path / "y").read_text() == "kept"


def test_too_long(tmp_path: Path) -> None:
    """The limit is inclusive."""
    (tmp_path / "x").write_bytes(b"12345")
    assert read_bytes(tmp_path / "x", 5) == b"12345"
    with pytest.raises(StoreError, match="more than 4 bytes"):
        read_bytes(tmp_path / "x", 4)


def linked_folder(root: Path) -> Path:
    (root / "elsewhere").mkdir()
    (root / "billhook").symlink_to("elsewhere")
    return root / "billhook" / "x"


def linked_file(root: Path) -> Path:
    (root / "victim").write_text("victim")
    (root / "x").symlink_to("victim")
    return root / "x"


def dangling_file(root: Path) -> Path:
    (root / "x").symlink_to("nowhere")
    return root / "x"


def pipe(root: Path) -> Path:
    os.mkfifo(root / "x")
    return root / "x"


def folder(root: Path) -> Path:
    (root / "x").mkdir()
    return root / "x"


def file_for_a_folder(root: Path) -> Path:
    (root / "billhook").write_text("")
    return root / "billhook" / "x"


def climbing(root: Path) -> Path:
    return root / "a" / ".." / ".." / "x"


def outside(root: Path) -> Path:
    return root.parent / "x"


TRICKS = [linked_folder, linked_file, dangling_file, pipe, folder, file_for_a_folder, climbing, outside]


@pytest.mark.parametrize("trick", TRICKS, ids=lambda trick: trick.__name__)
def test_tricks_are_refused(tmp_path: Path, trick: Callable[[Path], Path]) -> None:
    """Nothing is read or written through it, nothing hangs, and the message names the place."""
    root = tmp_path / "root"
    root.mkdir()
    path = trick(root)
    before = sorted(str(one) for one in tmp_path.rglob("*"))
    with pytest.raises(StoreError) as written:
        write_atomically(path, b"new", root=root)
    with pytest.raises(StoreError) as read:
        read_bytes(path, 100, root=root)
    assert all(caught.value.place and caught.value.message for caught in (written, read))
    assert sorted(str(one) for one in tmp_path.rglob("*")) == before
    assert not (root / "victim").exists() or (root / "victim").read_text() == "victim"


def test_the_way_to_the_root_may_hold_links(tmp_path: Path) -> None:
    """Many people link ~/.claude to where they keep their settings."""
    (tmp_path / "dotfiles").mkdir()
    (tmp_path / ".claude").symlink_to("dotfiles")
    root = tmp_path / ".claude"
    write_atomically(root / "billhook" / "x", b"1", root=root)
    assert (tmp_path / "dotfiles" / "billhook" / "x").read_bytes() == b"1"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
@pytest.mark.parametrize("what", ["file", "folder"])
def test_another_users_things_are_refused(tmp_path: Path, what: str) -> None:
    """A file or folder of another user is neither read nor replaced."""
    path = tmp_path / "a" / "x"
    write_atomically(path, b"1", root=tmp_path)
    os.chown(path if what == "file" else path.parent, 12345, 12345)
    with pytest.raises(StoreError, match="another user"):
        read_bytes(path, 10, root=tmp_path)
    with pytest.raises(StoreError, match="another user"):
        write_atomically(path, b"2", root=tmp_path)


def read_only_home(tmp_path: Path) -> Path:
    """A folder that no user, not even root, can write to."""
    if os.geteuid() == 0:
        return Path("/sys/billhook-test-home")
    (tmp_path / "home").mkdir(mode=0o500)
    return tmp_path / "home"


def test_a_read_only_home_is_explained(tmp_path: Path) -> None:
    """The message has the problem, the path and a hint."""
    root = read_only_home(tmp_path)
    with pytest.raises(StoreError) as caught:
        write_atomically(root / "billhook" / "x", b"1", root=root)
    assert str(root) in caught.value.place
    assert "BILLHOOK_HOME" in caught.value.hint
    assert isinstance(caught.value, BillhookError)
    assert isinstance(caught.value.__cause__, OSError)
    assert caught.value.__cause__.errno in (errno.EACCES, errno.EPERM, errno.EROFS)


def test_private_folder(tmp_path: Path) -> None:
    """Made with its parents, kept when it is there."""
    private_folder(tmp_path / "a" / "b", root=tmp_path)
    private_folder(tmp_path / "a" / "b", root=tmp_path)
    assert mode(tmp_path / "a" / "b") == 0o700


def test_no_descriptor_is_left_open(tmp_path: Path) -> None:
    """Neither when it works nor when it is refused."""
    path = tmp_path / "a" / "b" / "x"
    write_atomically(path, b"1", root=tmp_path)
    (tmp_path / "a" / "link").symlink_to("b")
    before = open_descriptors()
    for _ in range(20):
        write_atomically(path, b"1", root=tmp_path)
        read_bytes(path, 10, root=tmp_path)
        with pytest.raises(StoreError):
            read_bytes(tmp_path / "a" / "link" / "x", 10, root=tmp_path)
        with pytest.raises(StoreError):
            read_bytes(path, 0, root=tmp_path)
    assert open_descriptors() <= before


def test_a_reader_never_sees_half(tmp_path: Path) -> None:
    """While another process replaces a file over and over, every reading is whole."""
    path = tmp_path / "x"
    write_atomically(path, b"0" * 100_000, root=tmp_path)
    code = (
        "import sys; from pathlib import Path; from billhook.store.files import write_atomically\n"
        "for n in range(100): write_atomically(Path(sys.argv[1]), str(n % 10).encode() * 100_000)"
    )
    writer = subprocess.Popen([sys.executable, "-c", code, str(path)])
    try:
        while writer.poll() is None:
            data = read_bytes(path, 200_000, root=tmp_path)
            assert data is not None and len(data) == 100_000 and len(set(data)) == 1
    finally:
        writer.kill()
        writer.wait()
    assert writer.returncode == 0 and os.listdir(tmp_path) == ["x"]


def test_state_root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The caller's choice, otherwise the environment, otherwise the folder that the agents use."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("BILLHOOK_HOME", raising=False)
    assert state_root() == tmp_path / ".claude"
    monkeypatch.setenv("BILLHOOK_HOME", "~/state")
    assert state_root() == tmp_path / "state"
    assert state_root(tmp_path / "mine") == tmp_path / "mine"
    monkeypatch.setenv("BILLHOOK_HOME", "")
    assert state_root() == tmp_path / ".claude"


@pytest.mark.parametrize("name", ["a\0b", "\ud800"], ids=["nul", "surrogate"])
def test_hostile_names(tmp_path: Path, name: str) -> None:
    """A name that the system can't take is our error, not a ValueError."""
    with pytest.raises(StoreError):
        write_atomically(tmp_path / name, b"", root=tmp_path)
    with pytest.raises(StoreError):
        read_bytes(tmp_path / name, 1, root=tmp_path)


def test_a_folder_in_the_place_of_a_file_costs_no_descriptor(tmp_path: Path) -> None:
    """For any number of attempts to read it."""
    (tmp_path / "folder").mkdir()
    before = open_descriptors()
    for _ in range(50):
        with pytest.raises(StoreError):
            read_bytes(tmp_path / "folder", 10)
    assert open_descriptors() <= before + 5


_HASHING = """
import sys
from billhook.store.files import sha256
small = sha256(b"x" * 1000).hexdigest()
before = "_hashlib" in sys.modules
sha256(b"x" * 2_000_000)
assert sha256(b"x" * 1000).hexdigest() == small
print(before, "_hashlib" in sys.modules, small)
"""


def test_hashlib_is_loaded_by_a_process_that_hashes_much() -> None:
    done = subprocess.run([sys.executable, "-c", _HASHING], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "True", hashlib.sha256(b"x" * 1000).hexdigest()]

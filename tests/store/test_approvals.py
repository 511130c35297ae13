"""Approvals: one file each, valid only in its place."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from billhook.store.approvals import Approval, Approvals
from billhook.store.files import StoreError

A, B, C = "a" * 64, "b" * 64, "c" * 64
FILE = "/project/.claude/settings.json"


def approval(hash_: str = A, file: str = FILE, **more: Any) -> Approval:
    values: dict[str, Any] = {
        "name": "guard",
        "definition": {"does": {"type": "run", "text": "./guard.sh"}, "events": ["PreToolUse"]},
        "gate": True,
        "files": {"/project/guard.sh": "0" * 64, "/project/missing.sh": ""},
        "contents": {"/project/guard.sh": "#!/bin/sh\nexit 0\n"},
        "approved_at": "2026-01-01T00:00:00+00:00",
    }
    return Approval(hash=hash_, file=file, **{**values, **more})


def place(approvals: Approvals, hash_: str = A) -> Path:
    return next(path for path in approvals.folder.rglob(f"{hash_}.json"))


def test_approve_and_revoke(tmp_path: Path) -> None:
    """What was added is there in every later instance, exactly; what was revoked is not."""
    approvals = Approvals(tmp_path)
    assert not approvals.get(FILE, A) and approvals.of_file(FILE) == [] and approvals.all() == []
    approvals.add(approval())

    again = Approvals(tmp_path)
    assert again.get(FILE, A) == approval()
    assert not again.get("/other/settings.json", A) and not again.get(FILE, B)
    assert again.revoke(FILE, A) is True and again.revoke(FILE, A) is False
    assert not approvals.get(FILE, A) and approvals.problems == again.problems == []


def test_it_stays_approved(tmp_path: Path) -> None:
    """A second approval for the same file does not take the first away: branches come and go."""
    approvals = Approvals(tmp_path)
    approvals.add(approval(A, approved_at="2026-01-01T00:00:00+00:00"))
    approvals.add(approval(B, approved_at="2026-01-03T00:00:00+00:00"))
    approvals.add(approval(C, "/other/hooks.yaml", approved_at="2026-01-02T00:00:00+00:00"))
    assert [one.hash for one in approvals.of_file(FILE)] == [B, A]
    assert [one.hash for one in approvals.all()] == [B, C, A]


def test_files_are_private(tmp_path: Path) -> None:
    """Records 0600 in folders 0700, under the user's root."""
    approvals = Approvals(tmp_path)
    approvals.add(approval())
    path = place(approvals)
    assert path.parent.parent == tmp_path / "billhook" / "approvals"
    assert path.stat().st_mode & 0o777 == 0o600
    assert all(folder.stat().st_mode & 0o777 == 0o700 for folder in list(path.parents)[:3])


def test_odd_text_survives(tmp_path: Path) -> None:
    """Lone surrogates, which a JSON file can hold, and any other character come back as they were."""
    odd = approval(file="/pro\udcffject/x", definition={"does": "echo \ud800 \0 é 🎉"}, contents={"/x": "\u2028"})
    approvals = Approvals(tmp_path)
    approvals.add(odd)
    assert approvals.get("/pro\udcffject/x", A) == odd


def moved_to_another_hash(approvals: Approvals) -> None:
    place(approvals).rename(place(approvals).with_name(f"{B}.json"))


def copied_to_another_file(approvals: Approvals) -> None:
    approvals.add(approval(C, "/evil/settings.json"))
    (place(approvals, C).parent / f"{B}.json").write_bytes(place(approvals).read_bytes())
    (place(approvals, C).parent / f"{A}.json").write_bytes(place(approvals).read_bytes())
    (place(approvals, C).parent / f"{A}.json").chmod(0o600)
    (place(approvals, C).parent / f"{B}.json").chmod(0o600)
    place(approvals, C).unlink()
    assert not approvals.get("/evil/settings.json", A) and not approvals.get("/evil/settings.json", B)
    approvals.revoke(FILE, A)


def cut(approvals: Approvals) -> None:
    data = place(approvals).read_bytes()
    place(approvals).write_bytes(data[: len(data) // 2])


def emptied(approvals: Approvals) -> None:
    place(approvals).write_bytes(b"")


def wrong_types(approvals: Approvals) -> None:
    record = json.loads(place(approvals).read_text())
    place(approvals).write_text(json.dumps({**record, "definition": 3}))


def deep(approvals: Approvals) -> None:
    place(approvals).write_text("[" * 100_000)


def not_utf8(approvals: Approvals) -> None:
    place(approvals).write_bytes(b'{"hash": "\xff"}')


def world_writable_file(approvals: Approvals) -> None:
    place(approvals).chmod(0o602)


def group_writable_folder(approvals: Approvals) -> None:
    place(approvals).parent.chmod(0o770)


def world_writable_approvals(approvals: Approvals) -> None:
    approvals.folder.chmod(0o777)


def world_writable_billhook(approvals: Approvals) -> None:
    approvals.folder.parent.chmod(0o777)


def linked_record(approvals: Approvals) -> None:
    path = place(approvals)
    path.rename(approvals.root / "elsewhere.json")
    path.symlink_to(approvals.root / "elsewhere.json")


def linked_folder(approvals: Approvals) -> None:
    approvals.folder.rename(approvals.root / "elsewhere")
    approvals.folder.symlink_to(approvals.root / "elsewhere")


def linked_billhook(approvals: Approvals) -> None:
    (approvals.root / "billhook").rename(approvals.root / "elsewhere")
    (approvals.root / "billhook").symlink_to(approvals.root / "elsewhere")


def pipe(approvals: Approvals) -> None:
    path = place(approvals)
    path.unlink()
    os.mkfifo(path)


def folder_for_a_record(approvals: Approvals) -> None:
    path = place(approvals)
    path.unlink()
    path.mkdir()


def foreign_record(approvals: Approvals) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can give files away")
    os.chown(place(approvals), 12345, 12345)


TRICKS = [
    *(moved_to_another_hash, copied_to_another_file, cut, emptied, wrong_types, deep, not_utf8, world_writable_file),
    *(group_writable_folder, world_writable_approvals, world_writable_billhook, linked_record, linked_folder),
    *(linked_billhook, pipe, folder_for_a_record, foreign_record),
]


@pytest.mark.parametrize("trick", TRICKS, ids=lambda trick: trick.__name__)
def test_an_invalid_approval_is_ignored(tmp_path: Path, trick: Any) -> None:
    """It approves nothing, raises nothing, and is reported once."""
    approvals = Approvals(tmp_path)
    approvals.add(approval())
    trick(approvals)
    assert not approvals.get(FILE, A) and not approvals.get(FILE, B)
    for _ in range(2):
        assert approvals.of_file(FILE) == [] and approvals.all() == []
    assert approvals.problems and len(set(approvals.problems)) == len(approvals.problems)
    assert all(str(tmp_path) in problem for problem in approvals.problems)


def test_a_damaged_neighbour_has_no_effect(tmp_path: Path) -> None:
    """The others still count, and stray files are named."""
    approvals = Approvals(tmp_path)
    approvals.add(approval(A))
    approvals.add(approval(B))
    place(approvals, A).write_text("{")
    (place(approvals, B).parent / "notes.txt").write_text("mine")
    (place(approvals, B).parent / ".new-0123").write_text("left behind by a crash")
    assert [one.hash for one in approvals.of_file(FILE)] == [B]
    assert len(approvals.problems) == 2


@pytest.mark.parametrize("hash_", ["", "../" + A, A.upper(), A[:-1], A + "\n", "x" * 64])
def test_a_hash_is_a_hash(tmp_path: Path, hash_: str) -> None:
    """Nothing else is ever approved, found or removed."""
    approvals = Approvals(tmp_path)
    assert not approvals.get(FILE, hash_) and not approvals.revoke(FILE, hash_)
    with pytest.raises(StoreError):
        approvals.add(approval(hash_))
    assert not (tmp_path / "billhook").exists()


@pytest.mark.parametrize("trick", [group_writable_folder, world_writable_approvals, linked_folder, linked_billhook])
def test_nothing_is_added_where_it_would_not_count(tmp_path: Path, trick: Any) -> None:
    """The user hears it when approving, not at the next run."""
    approvals = Approvals(tmp_path)
    approvals.add(approval())
    trick(approvals)
    with pytest.raises(StoreError) as caught:
        approvals.add(approval(B))
    assert caught.value.place and caught.value.hint


def test_the_stamp_changes(tmp_path: Path) -> None:
    """With every approval and revocation for that file, however fast they follow; never for others."""
    approvals = Approvals(tmp_path)
    seen = [approvals.stamp(FILE)]
    for n in range(20):
        approvals.add(approval(f"{n:064x}"))
        seen.append(approvals.stamp(FILE))
        if n:
            approvals.revoke(FILE, f"{n - 1:064x}")
            seen.append(approvals.stamp(FILE))
    assert len(set(seen)) == len(seen)
    approvals.add(approval(A, "/other"))
    assert approvals.stamp(FILE) == seen[-1]


def test_a_read_only_home_is_explained(tmp_path: Path) -> None:
    """Nothing is approved there, and the message has a hint."""
    root = Path("/sys/billhook-test-home")
    if os.geteuid() != 0:
        root = tmp_path / "home"
        root.mkdir(mode=0o500)
    approvals = Approvals(root)
    with pytest.raises(StoreError) as caught:
        approvals.add(approval())
    assert "BILLHOOK_HOME" in caught.value.hint
    assert not approvals.get(FILE, A)


WORKER = """
import sys
from pathlib import Path
from billhook.store.approvals import Approval, Approvals
root, me = Path(sys.argv[1]), int(sys.argv[2])
approvals = Approvals(root)
def made(n):
    return Approval(hash=f"{n:064x}", file="/p/f", name="n", definition={"n": n}, gate=False, approved_at=f"{n}")
for n in range(25):
    approvals.add(made(n))                      # the same for all
    approvals.add(made(1000 * (me + 1) + n))    # its own
    approvals.revoke("/p/f", f"{n:064x}")       # another process may add it again
    approvals.of_file("/p/f")
    if n % 2:
        approvals.revoke("/p/f", f"{1000 * (me + 1) + n:064x}")
assert approvals.problems == [], approvals.problems
"""


def test_eight_processes_at_once(tmp_path: Path) -> None:
    """No process fails, nothing is damaged, and each one's approvals are exactly what it left."""
    workers = [subprocess.Popen([sys.executable, "-c", WORKER, str(tmp_path), str(n)]) for n in range(8)]
    try:
        assert [worker.wait(60) for worker in workers] == [0] * 8
    finally:
        for worker in workers:
            worker.kill()
            worker.wait()
    approvals = Approvals(tmp_path)
    left = {int(one.hash, 16) for one in approvals.of_file("/p/f")}
    assert {n for n in left if n >= 1000} == {1000 * (me + 1) + n for me in range(8) for n in range(0, 25, 2)}
    assert approvals.problems == []

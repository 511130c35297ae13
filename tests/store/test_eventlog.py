"""The event log's writer: complete lines, once, in order; repaired, rotated, and never through another user's link."""

import json
import os
import socket
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from billhook.store.files import LockFile, StoreError, log_folder
from billhook.store.log import LARGEST_LINE, eventlog
from billhook.store.log.eventlog import CURRENT, EventLog, open_log
from descriptors import open_descriptors
from store.written import PROJECT, content, files_of, filled, fresh, lines_of, whole

# -- one record after the other ------------------------------------------------------------------------------------


def test_records_are_numbered_and_chained(tmp_path: Path) -> None:
    """`append` returns the position of the record; each line has the hash of the one before."""
    log = open_log(tmp_path, PROJECT)
    given = [log.append(content(number)) for number in range(1, 4)]
    lines = lines_of(log_folder(tmp_path, PROJECT))

    assert [(line["seq"], line["hash"]) for line in lines] == [(one.seq, one.hash) for one in given]
    assert [line["seq"] for line in lines] == [1, 2, 3]
    assert [line["prev"] for line in lines] == ["", given[0].hash, given[1].hash]
    assert [line["id"] for line in lines] == [f"{number:032x}" for number in range(1, 4)]


def test_everything_is_private_whatever_the_umask(tmp_path: Path) -> None:
    """Folders 0700, files 0600; a log that others could read is closed to them when it is next opened."""
    before = os.umask(0)
    try:
        log = filled(tmp_path / "root", 1)
        log.append(content(2, 100_000))
    finally:
        os.umask(before)
    log.path.chmod(0o644)
    fresh(tmp_path / "root").append(content(3))
    found = {path: stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "root").rglob("*")}

    assert {mode for path, mode in found.items() if path.is_dir()} == {0o700}
    assert {mode for path, mode in found.items() if path.is_file()} == {0o600}


def test_a_process_that_comes_later_goes_on(tmp_path: Path) -> None:
    """Number and hash are read from the end of the file."""
    last = [filled(tmp_path, 3).append(content(4)), fresh(tmp_path).append(content(5))]

    assert [one.seq for one in last] == [4, 5]
    assert whole(fresh(tmp_path)).records == 5


def test_writers_take_turns(tmp_path: Path) -> None:
    """Each sees what the others added since, without any of them being told."""
    writers = [fresh(tmp_path) for _ in range(5)]
    numbers = [writers[number % 5].append(content(number)).seq for number in range(100)]

    assert numbers == list(range(1, 101))
    assert whole(writers[0]).records == 100


def test_threads_share_one_log(tmp_path: Path) -> None:
    """Sixteen threads, one object: no line is lost or mixed with another."""
    log = open_log(tmp_path, PROJECT)

    def write(thread: int) -> None:
        for number in range(50):
            log.append(content(thread * 1000 + number, size=thread * 300))

    threads = [threading.Thread(target=write, args=(number,)) for number in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert whole(log).records == 800
    assert len({line["id"] for line in lines_of(log.folder)}) == 800


def test_threads_share_a_flush(tmp_path: Path) -> None:
    """With `sync` every record is on the disk before `append` returns, over rotations, too."""
    log = open_log(tmp_path, PROJECT, max_bytes=5000, sync=True)

    def write(thread: int) -> None:
        for number in range(10):
            seq = log.append(content(thread * 1000 + number)).seq
            assert log._durable >= seq

    threads = [threading.Thread(target=write, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found = whole(log)
    assert found.records - found.notes == 80 and found.files > 5


def test_waiting_for_a_lock_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another process that holds the lock, or a thread that never comes back: an error, and later it goes on."""
    monkeypatch.setattr(eventlog, "TIMEOUT", 0.1)
    log = filled(tmp_path, 1)
    other = LockFile(log.folder / "hooks.lock", tmp_path)
    other.acquire()
    with pytest.raises(StoreError, match="still locked") as raised:
        log.append(content(2))
    assert raised.value.place == str(other.path)
    other.close()
    assert log.append(content(2)).seq == 2

    log._turn.clear()
    with pytest.raises(StoreError, match="another thread"):
        log.append(content(3))
    assert log.append(content(3)).seq == 3


def test_the_same_log_is_opened_once(tmp_path: Path) -> None:
    """However many engines ask for it; other options are another writer."""
    assert open_log(tmp_path, PROJECT) is open_log(tmp_path, PROJECT)
    assert open_log(tmp_path, PROJECT) is not open_log(tmp_path, PROJECT, sync=True)
    assert not log_folder(tmp_path, PROJECT).exists()


def test_few_descriptors_for_many_projects(tmp_path: Path) -> None:
    """Logs that were not used for long are closed, and open again when they are used again."""
    logs = [open_log(tmp_path, f"/project/{number}") for number in range(30)]
    before = open_descriptors()
    for log in logs:
        open_log(tmp_path, f"/project/{logs.index(log)}").append(content(1))
    after = open_descriptors()

    assert after - before <= 2 * 9
    assert [log.append(content(2)).seq for log in logs] == [2] * 30
    for log in logs:
        log.close()


def test_an_unused_log_is_closed(tmp_path: Path) -> None:
    """Descriptors go with the object."""
    before = open_descriptors()
    for number in range(20):
        EventLog(tmp_path, tmp_path / "hooks" / str(number)).append(content(1))
    assert open_descriptors() <= before


_FORK = """
import os, sys
from pathlib import Path
from store.written import content, filled, whole
log = filled(Path(sys.argv[1]), 3)
children = []
for child in range(4):
    pid = os.fork()
    if pid == 0:
        for number in range(25):
            log.append(content(100 * child + number))
        os._exit(0)
    children.append(pid)
for number in range(25):
    log.append(content(1000 + number))
assert [os.waitpid(pid, 0)[1] for pid in children] == [0] * 4
log.append(content(9))
print(whole(log).records)
"""


def test_a_forked_child_writes_on_its_own(tmp_path: Path) -> None:
    """The lock belongs to the open file, which parent and child would share: the child opens its own."""
    argv = [sys.executable, "-c", _FORK, str(tmp_path)]
    env = {**os.environ, "PYTHONPATH": str(Path(__file__).parent.parent)}
    ended = subprocess.run(argv, env=env, capture_output=True, text=True, timeout=60, check=False)
    assert (ended.stdout, ended.stderr) == ("129\n", "")


def test_an_empty_record_is_refused(tmp_path: Path) -> None:
    """It would be no line."""
    with pytest.raises(StoreError, match="the record is empty"):
        open_log(tmp_path, PROJECT).append({})
    assert open_log(tmp_path, PROJECT).append(content(1)).seq == 1


@pytest.mark.parametrize("sync", [False, True])
def test_odd_values_are_recorded(tmp_path: Path, sync: bool) -> None:
    """What JSON has no word for must not keep a verdict out of the log."""
    log = open_log(tmp_path, PROJECT, sync=sync)
    odd = {"nan": float("nan"), 3: 10**30, "surrogate": "\ud800", "path": Path("/x"), "newline": "\n\r\u2028"}
    log.append(content(1, input=odd))
    reported = {"nan": None, "3": 10**30, "surrogate": "\ud800", "path": "/x", "newline": "\n\r\u2028"}

    assert lines_of(log.folder)[0]["input"] == reported
    assert whole(log).records == 1


# -- side files ----------------------------------------------------------------------------------------------------


def test_what_is_too_long_for_a_line_lies_beside_it(tmp_path: Path) -> None:
    """Only the necessary fields are moved, the largest first; the line has their names and the digest."""
    log = open_log(tmp_path, PROJECT)
    log.append(content(1, 200_000, context=["c" * 1000], output="o" * 70_000))
    (line,) = lines_of(log.folder)
    (side,) = (log.folder / "large").iterdir()

    assert line["side"]["fields"] == ["input", "output"] and "input" not in line and line["context"] == ["c" * 1000]
    assert side.name == f"{line['side']['sha256']}.json" and line["side"]["bytes"] == side.stat().st_size
    assert json.loads(side.read_bytes()) == {"input": {"command": "x" * 200_000}, "output": "o" * 70_000}
    assert log.path.stat().st_size <= LARGEST_LINE
    whole(log)


@pytest.mark.parametrize("over", [False, True])
def test_the_limit_is_exact_enough(tmp_path: Path, over: bool) -> None:
    """A line that just fits stays whole, one byte more makes a side file; no line is longer than 64 KiB."""
    log = open_log(tmp_path, PROJECT)
    room = LARGEST_LINE - 200 - len(json.dumps(content(1), separators=(",", ":")))
    log.append(content(1, room + over))

    assert (log.folder / "large").exists() is over
    assert log.path.stat().st_size <= LARGEST_LINE


def test_other_long_fields_follow_when_they_must(tmp_path: Path) -> None:
    """A reason of 100 KB is no reason for a line of 100 KB."""
    log = open_log(tmp_path, PROJECT)
    log.append(content(1, reason="r" * 100_000))
    (line,) = lines_of(log.folder)

    assert line["side"]["fields"] == ["input", "reason"] and log.path.stat().st_size < 2000
    whole(log)


def test_equal_side_files_are_one(tmp_path: Path) -> None:
    """They are named by their content; one that was damaged is whole again when it is written again."""
    log = open_log(tmp_path, PROJECT)
    log.append(content(1, 100_000))
    (side,) = (log.folder / "large").iterdir()
    side.write_bytes(b"damaged")
    log.append(content(2, 100_000))

    assert list((log.folder / "large").iterdir()) == [side] and whole(log).records == 2


def test_a_record_whose_side_file_can_not_be_kept_is_not_added(tmp_path: Path) -> None:
    """The side file comes first: a line never names one that is not there."""
    log = filled(tmp_path, 1)
    (log.folder / "large").write_text("in the way")
    with pytest.raises(StoreError, match="not a folder"):
        log.append(content(2, 100_000))
    assert whole(log).records == 1
    assert log.append(content(2)).seq == 2


# -- rotation ------------------------------------------------------------------------------------------------------


def test_a_full_file_is_set_aside_and_the_chain_goes_on(tmp_path: Path) -> None:
    """Named by its first record, it ends with a note; nothing is longer than asked for, nothing is deleted."""
    log = filled(tmp_path, 100, max_bytes=5000)
    names = [path.name for path in files_of(log.folder)]
    lines = lines_of(log.folder)
    found = whole(log)

    assert len(names) > 5 and names[0] == "hooks-000000000001.jsonl" and names[-1] == CURRENT
    assert all(path.stat().st_size <= 5000 for path in files_of(log.folder))
    assert [line["seq"] for line in lines] == list(range(1, found.records + 1))
    assert [line["id"] for line in lines if line["event"] != "log"] == [f"{number:032x}" for number in range(1, 101)]
    for path in files_of(log.folder)[:-1]:
        own = [json.loads(line) for line in path.read_bytes().splitlines()]
        assert (own[-1]["note"], own[-1]["event"]) == ("rotated", "log")
        assert path.name == f"hooks-{own[0]['seq']:012d}.jsonl"


def test_every_writer_notices_a_rotation(tmp_path: Path) -> None:
    """If one process renames the file, the others continue in the new one at once."""
    writers = [fresh(tmp_path, max_bytes=3000) for _ in range(4)]
    for number in range(200):
        writers[number % 4].append(content(number))
    found = whole(writers[0])

    assert found.records - found.notes == 200 and found.notes == found.files - 1


def test_readers_of_the_old_file_are_left_alone(tmp_path: Path) -> None:
    """What was opened before stays what it was, and gets its last line."""
    log = filled(tmp_path, 3, max_bytes=3000)
    with open(log.path, "rb") as reader:
        for number in range(30):
            log.append(content(number))
        lines = [json.loads(line) for line in reader]
    assert lines[0]["seq"] == 1 and lines[-1]["note"] == "rotated"


def test_a_line_longer_than_a_file_may_be_is_written(tmp_path: Path) -> None:
    """Each has a file of its own then."""
    log = open_log(tmp_path, PROJECT, max_bytes=1000)
    for number in range(3):
        log.append(content(number, 5000))
    assert [line["event"] for line in lines_of(log.folder)] == ["PreToolUse", "log"] * 2 + ["PreToolUse"]
    whole(log)


def test_a_rotation_that_was_cut_short_is_finished(tmp_path: Path) -> None:
    """Its writer died after the note and before the rename, or after the rename and before the new file."""
    log = filled(tmp_path, 20, max_bytes=3000)
    current, (last, *_) = log.path, sorted(log.folder.glob("hooks-*.jsonl"), reverse=True)
    log.close()
    current.unlink()
    kept = whole(fresh(tmp_path)).records
    assert fresh(tmp_path).append(content(50)).seq == kept + 1

    current.unlink()
    last.rename(current)
    assert fresh(tmp_path).append(content(51)).seq == kept + 1
    assert last.exists() and whole(log).records == kept + 1


def test_a_file_whose_name_is_taken_goes_on_growing(tmp_path: Path) -> None:
    """Nothing is ever overwritten, and nothing is lost over it."""
    log = filled(tmp_path, 1, max_bytes=1500)
    taken = log.folder / "hooks-000000000001.jsonl"
    taken.symlink_to("/nowhere")
    for number in range(10):
        log.append(content(number))
    taken.unlink()

    assert log.path.stat().st_size > 1500 and whole(log).records == 11


# -- repair --------------------------------------------------------------------------------------------------------


def test_a_torn_line_is_closed_and_noted_wherever_it_was_torn(tmp_path: Path) -> None:
    """For every byte of the last line: earlier lines are kept, the note describes the fragment, the chain is valid."""
    log = filled(tmp_path, 3)
    data = log.path.read_bytes()
    start = data.rindex(b"\n", 0, -1) + 1
    for cut in range(start + 1, len(data)):
        log.path.write_bytes(data[:cut])
        added = fresh(tmp_path).append(content(9))
        tail = log.path.read_bytes()[cut:].splitlines()
        note, last = json.loads(tail[1]), json.loads(tail[2])

        whole_record = cut == len(data) - 1  # only its newline is missing: it counts
        assert (note["note"], note["event"], note["input"]["bytes"]) == ("torn", "log", cut - start)
        assert note["seq"] == (4 if whole_record else 3) and last["seq"] == added.seq == note["seq"] + 1
        found = whole(log)
        assert (found.torn, found.records) == (0 if whole_record else 1, added.seq)


@pytest.mark.parametrize(
    "tail",
    [
        pytest.param(b"\x00" * 5000, id="zeros after a power loss"),
        pytest.param(b"garbage", id="a foreign half line"),
        pytest.param(b"{" * 300_000, id="longer than a block"),
        pytest.param(b"\xff\xfe", id="not even text"),
    ],
)
def test_any_unfinished_end_is_closed(tmp_path: Path, tail: bytes) -> None:
    """Whatever it is, the next record starts a line of its own."""
    log = filled(tmp_path, 2)
    with open(log.path, "ab") as stream:
        stream.write(tail)
    assert log.append(content(3)).seq == 4
    assert whole(log).torn == 1


def test_a_repair_that_was_torn_itself_is_repaired(tmp_path: Path) -> None:
    """The second note accounts for both fragments."""
    log = filled(tmp_path, 2)
    for _ in range(3):
        with open(log.path, "ab") as stream:
            stream.write(b'{"v":1,"seq":3,"prev":"00\n{"v":1,"seq":3,"pr')
        fresh(tmp_path).append(content(3))
    assert whole(log).torn == 6


def test_a_log_of_nothing_but_a_fragment(tmp_path: Path) -> None:
    """The first record ever was torn."""
    log = open_log(tmp_path, PROJECT)
    log.folder.mkdir(parents=True)
    log.path.write_bytes(b'{"v":1,"seq":1,"prev":"","id"')

    assert log.append(content(1)).seq == 2
    assert whole(log).torn == 1


def test_lines_of_others_are_left_where_they_are(tmp_path: Path) -> None:
    """The chain goes on from the last record of ours, however far above."""
    log = filled(tmp_path, 2)
    with open(log.path, "ab") as stream:
        stream.write(b'{"timestamp": 1}\n' * 20_000)
    added = [log.append(content(3)), fresh(tmp_path).append(content(4))]

    assert [one.seq for one in added] == [3, 4]
    assert log.path.read_bytes().count(b'{"timestamp": 1}\n') == 20_000


def test_a_deleted_log_begins_again_and_shows_it(tmp_path: Path) -> None:
    """A writer that knows goes on counting, so that the gap can be found; one that doesn't begins at 1."""
    log = filled(tmp_path, 3)
    log.path.unlink()
    time.sleep(0.3)

    assert log.append(content(4)).seq == 4
    assert [line["seq"] for line in lines_of(log.folder)] == [4]
    log.path.unlink()
    assert fresh(tmp_path).append(content(1)).seq == 1


def test_a_log_whose_folder_was_deleted_is_made_again(tmp_path: Path) -> None:
    """Lock and all, and other processes use the same new lock."""
    log = filled(tmp_path, 3)
    log.path.unlink()
    (log.folder / "hooks.lock").unlink()
    log.folder.rmdir()
    time.sleep(0.3)
    log.append(content(4))

    assert fresh(tmp_path).append(content(5)).seq == 5
    assert sorted(path.name for path in log.folder.iterdir()) == ["hooks.jsonl", "hooks.lock"]


def test_a_log_that_was_cut_back_shows_it(tmp_path: Path) -> None:
    """The writer goes on with the number that it knows, so that the cut is a gap."""
    log = filled(tmp_path, 5)
    data = log.path.read_bytes().splitlines(keepends=True)
    log.path.write_bytes(b"".join(data[:2]))
    log.append(content(6))

    assert [line["seq"] for line in lines_of(log.folder)] == [1, 2, 6]


# -- places that are no log ----------------------------------------------------------------------------------------


def _link(path: Path) -> None:
    path.symlink_to(path.parent.parent.parent / "elsewhere")


def _socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as one:
        here = os.getcwd()
        os.chdir(path.parent)  # a socket's path is short
        try:
            one.bind(path.name)
        finally:
            os.chdir(here)


STRANGE = [
    pytest.param(_link, id="a link"),
    pytest.param(lambda path: path.symlink_to("/dev/null"), id="a link to a device"),
    pytest.param(os.mkfifo, id="a pipe"),
    pytest.param(Path.mkdir, id="a folder"),
    pytest.param(_socket, id="a socket"),
]


@pytest.mark.parametrize("name", [CURRENT, "hooks.lock"])
@pytest.mark.parametrize("make", STRANGE)
def test_what_is_no_file_is_refused_at_once(tmp_path: Path, make: Callable[[Path], None], name: str) -> None:
    """A StoreError with the path; it does not wait for a pipe, and nothing is written through a link."""
    elsewhere = tmp_path / "elsewhere"
    elsewhere.write_bytes(b"")
    log = open_log(tmp_path, PROJECT)
    log.folder.mkdir(parents=True)
    make(log.folder / name)
    began = time.monotonic()
    with pytest.raises(StoreError, match=r"link|not a file|[Ii]s a directory|device") as raised:
        log.append(content(1))

    assert time.monotonic() - began < 5
    assert raised.value.place == str(log.folder / name) and raised.value.hint
    assert elsewhere.read_bytes() == b""


@pytest.mark.parametrize("part", ["hooks", "hooks/-home-me-project"])
def test_no_folder_of_the_way_is_a_link(tmp_path: Path, part: str) -> None:
    """Below the root nothing is followed."""
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "root" / part).parent.mkdir(parents=True)
    (tmp_path / "root" / part).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(StoreError, match="symbolic link"):
        open_log(tmp_path / "root", PROJECT).append(content(1))
    assert list((tmp_path / "elsewhere").iterdir()) == []


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
def test_a_log_of_another_user_is_refused(tmp_path: Path) -> None:
    """Another user's file is neither trusted nor written."""
    log = filled(tmp_path, 1)
    os.chown(log.path, 65534, 65534)
    with pytest.raises(StoreError, match="another user"):
        fresh(tmp_path).append(content(2))


@pytest.mark.skipif(os.geteuid() != 0, reason="only root makes devices")
def test_a_device_is_refused(tmp_path: Path) -> None:
    """Not opened either: some devices act when they are opened."""
    log = open_log(tmp_path, PROJECT)
    log.folder.mkdir(parents=True)
    try:
        os.mknod(log.path, stat.S_IFCHR | 0o600, os.makedev(1, 3))
    except OSError:
        pytest.skip("no devices can be made here")
    with pytest.raises(StoreError, match="not a file"):
        log.append(content(1))


def test_what_is_put_in_its_place_later_is_noticed(tmp_path: Path) -> None:
    """A writer looks again after a quarter of a second."""
    log = filled(tmp_path, 1)
    log.path.rename(log.folder / "moved")
    log.path.symlink_to("moved")
    time.sleep(0.3)
    with pytest.raises(StoreError, match="symbolic link"):
        log.append(content(2))
    log.path.unlink()
    (log.folder / "moved").rename(log.path)

    assert log.append(content(2)).seq == 2
    assert whole(log).records == 2


def test_a_removed_file_is_noticed_by_writers_that_take_turns(tmp_path: Path) -> None:
    """Each finds what the other one added: that is no proof that the file is still at its path."""
    logs = [EventLog(tmp_path, tmp_path / "hooks" / "x") for _ in range(2)]
    for log in logs:
        log.append(content(1))
    logs[0].path.unlink()
    ends = time.monotonic() + 0.6
    while time.monotonic() < ends:
        for log in logs:
            log.append(content(2))
        time.sleep(0.01)
    assert logs[0].path.exists()

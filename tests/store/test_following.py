"""Following an event log as it grows: rotation, removal, half lines, and another process that writes."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import pytest

from billhook.store.log import RecordFilter
from billhook.store.log.reader import LogEntry, LogReader
from descriptors import open_descriptors

from .logs import append, content, log_folder, made_lines, put, reader, written

QUICK = 0.005


@pytest.fixture(autouse=True)
def deadline() -> Iterator[None]:
    """A record that never comes is a failure and not a hang."""

    def late(*_: object) -> None:
        raise TimeoutError("nothing came")

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(60)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


def following(log: LogReader, wanted: RecordFilter | None = None, *, since_now: bool = True) -> Iterator[LogEntry]:
    return log.follow(wanted or RecordFilter(), since_now, QUICK)


def following_seqs(entries: Iterator[LogEntry], count: int) -> list[int]:
    return [entry.record.seq for entry in islice(entries, count)]


def rotate(root: Path, first: int) -> None:
    path = log_folder(root) / "hooks.jsonl"
    path.rename(path.with_name(f"hooks-{first:012d}.jsonl"))


def test_it_begins_where_the_log_ended_at_the_call(tmp_path: Path) -> None:
    """Not when the first record is asked for: what is written in between is not lost."""
    log = written(tmp_path, 3)
    entries = following(log)
    append(tmp_path, content(4), content(5))
    assert following_seqs(entries, 2) == [4, 5]
    append(tmp_path, content(6))
    assert following_seqs(entries, 1) == [6]


def test_it_may_begin_with_the_oldest(tmp_path: Path) -> None:
    """All files, oldest first, and then what comes."""
    written(tmp_path, 40, max_bytes=6_000)
    log = reader(tmp_path)
    entries = log.follow(RecordFilter(), False, QUICK, notes=True)
    there = [entry.record.seq for entry in log.forward(notes=True)]
    assert following_seqs(entries, len(there)) == there
    append(tmp_path, content(1))
    assert following_seqs(entries, 1) == [there[-1] + 1]


def test_a_log_that_is_not_there_yet(tmp_path: Path) -> None:
    """Also its folder may come later."""
    entries = following(reader(tmp_path))
    append(tmp_path, content(1))
    assert following_seqs(entries, 1) == [1]


def test_several_rotations_between_two_looks(tmp_path: Path) -> None:
    """The rest of the old file, the files in between, and the new one: each record once, in order."""
    first, second, third, fourth, fifth = made_lines(5)
    log = put(tmp_path, first)
    entries = following(log)
    put(tmp_path, first + second)
    assert following_seqs(entries, 1) == [2]
    with (log.folder / "hooks.jsonl").open("ab") as file:
        file.write(third)
    rotate(tmp_path, 1)
    put(tmp_path, fourth)
    rotate(tmp_path, 4)
    put(tmp_path, fifth)
    assert following_seqs(entries, 3) == [3, 4, 5]


def test_half_a_line_waits_for_its_end(tmp_path: Path) -> None:
    """It is not foreign, and comes as one record when it is whole."""
    one, two = made_lines(2)
    log = put(tmp_path, one[:40])
    entries = following(log)
    path = log.folder / "hooks.jsonl"
    with path.open("ab", buffering=0) as file:
        file.write(one[40:])
        assert following_seqs(entries, 1) == [1]
        file.write(two[:-1])
        follow_on = following(log)
        file.write(two[-1:])
    assert following_seqs(entries, 1) == following_seqs(follow_on, 1) == [2]
    assert log.foreign == 0


@pytest.mark.parametrize("how", ["removed", "cut off", "folder removed"])
def test_a_removed_log_begins_again(tmp_path: Path, how: str) -> None:
    """What is written after that comes."""
    log = written(tmp_path, 5)
    entries = following(log)
    append(tmp_path, content(6))
    assert following_seqs(entries, 1) == [6]
    path = log.folder / "hooks.jsonl"
    if how == "cut off":
        os.truncate(path, 0)
    else:
        path.unlink()
    if how == "folder removed":
        for left in log.folder.iterdir():
            left.unlink()
        log.folder.rmdir()
    put(tmp_path, next(made_lines(1, start=77)))
    assert following_seqs(entries, 1) == [77]


def test_only_what_is_wanted_comes(tmp_path: Path) -> None:
    """Filters apply, and text is found in a side file that did not exist when the following began."""
    log = written(tmp_path, 1)
    denied = following(log, RecordFilter(decisions=frozenset({"deny"})))
    reported = following(log, RecordFilter(text="needle"))
    append(tmp_path, content(2), content(3, decision="deny"), content(4, input="x" * 90_000 + "needle"))
    assert (following_seqs(denied, 1), following_seqs(reported, 1)) == ([3], [4])


def test_another_process_writes_and_rotates(tmp_path: Path) -> None:
    """Every record once, in order."""
    code = (
        "import sys; from pathlib import Path; from store.logs import append, content;"
        "append(Path(sys.argv[1]), *(content(n) for n in range(1000)), max_bytes=16_000)"
    )
    log = reader(tmp_path)
    entries = log.follow(RecordFilter(), True, QUICK, notes=True)
    writer = subprocess.Popen([sys.executable, "-c", code, str(tmp_path)], cwd=Path(__file__).parents[1])
    try:
        assert following_seqs(entries, 1000) == list(range(1, 1001))
    finally:
        assert writer.wait(60) == 0
    assert log.foreign == 0 and len(log.files()) > 5


def test_descriptors_don_t_grow(tmp_path: Path) -> None:
    """For any number of rotations; none is left after the end."""
    before = open_descriptors()
    log = reader(tmp_path)
    entries = log.follow(RecordFilter(), True, QUICK)
    for number in range(1, 12):
        put(tmp_path, next(made_lines(1, start=number)))
        assert following_seqs(entries, 1) == [number]
        rotate(tmp_path, number)
        assert open_descriptors() <= before + 3
    del entries
    assert open_descriptors() <= before

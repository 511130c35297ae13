"""Reading an event log: both directions, rotated files, by id, side files, whatever lies in it, while it grows."""

import hashlib
import importlib
import json
import os
import subprocess
import sys
import tracemalloc
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from billhook.core import strictjson
from billhook.store import log as lines
from billhook.store.files import StoreError
from billhook.store.log import RecordFilter
from billhook.store.log.eventlog import EventLog, make_line
from billhook.store.log.reader import LogReader, older_names
from billhook.store.log.verify import verify

from .logs import append, content, log_folder, made_lines, put, reader, written


def seqs(
    log: LogReader, wanted: RecordFilter | None = None, *, notes: bool = False, backward: bool = False
) -> list[int]:
    read = log.backward if backward else log.forward
    return [entry.record.seq for entry in read(wanted or RecordFilter(), notes=notes)]


def test_both_directions_over_rotated_files(tmp_path: Path) -> None:
    """Every record once, in order; the notes that a file is full only when asked for."""
    log = written(tmp_path, 60, max_bytes=6_000)
    assert len(log.files()) > 3 and log.files()[-1].name == "hooks.jsonl"
    assert log.bytes == sum(path.stat().st_size for path in log.files())
    verdicts = [entry.record for entry in log.forward()]
    assert [record.mono for record in verdicts] == [float(number) for number in range(1, 61)]
    assert [entry.record for entry in log.backward()] == verdicts[::-1]
    everything = seqs(log, notes=True)
    assert everything == list(range(1, len(everything) + 1)) and len(everything) == 60 + len(log.files()) - 1
    assert seqs(log, notes=True, backward=True) == everything[::-1]
    assert log.foreign == 0


def test_an_entry_has_the_position_of_its_line(tmp_path: Path) -> None:
    """File and offset lead to the very bytes."""
    log = written(tmp_path, 40, max_bytes=8_000)
    for entry in [*log.forward(), *log.backward()]:
        with entry.file.open("rb") as file:
            file.seek(entry.offset)
            assert file.readline() == entry.line + b"\n"
        assert json.loads(entry.line)["seq"] == entry.record.seq


def test_a_log_that_is_not_there_is_empty(tmp_path: Path) -> None:
    """No file, no folder, no root."""
    for root in (tmp_path, tmp_path / "none"):
        log = reader(root)
        assert (log.files(), log.bytes, list(log.forward()), list(log.backward()), log.find("0")) == (
            [],
            0,
            [],
            [],
            None,
        )


@pytest.mark.skipif(sys.platform != "linux", reason="counts what was read by /proc/self/io")
def test_the_last_five_are_read_without_the_rest(tmp_path: Path) -> None:
    """Of a file of 60 MB and rotated ones beside it a few blocks at the end are read."""
    put(tmp_path, b"x" * 1000, "hooks-000000000001.jsonl")
    lines = b"".join(made_lines(2_000))
    log = put(tmp_path, lines)
    os.truncate(log.files()[1], 60 << 20)
    with log.files()[1].open("r+b") as file:
        file.seek(60 << 20)
        file.write(b"\n" + lines)
    before = bytes_read()
    assert [entry.record.seq for entry in islice(log.backward(), 5)] == [2000, 1999, 1998, 1997, 1996]
    assert bytes_read() - before < 200_000


def bytes_read() -> int:
    return int(Path("/proc/self/io").read_text().split()[1])


FOREIGN = {
    "foreign JSON": b'{"timestamp":"2026-01-01","eventType":"PreToolUse"}',
    "text": b"Traceback (most recent call last):",
    "a torn line": b'{"v":1,"seq":3,"prev":"00',
    "two lines in one": b'{"v":1,"seq":3,"prev":"00{"v":1,"seq":3,"prev":""}',
    "binary": bytes(byte for byte in range(256) if byte != 10),
    "NULs": b"\0" * 5000,
    "a record with NULs in it": b'{"v":1,"seq":3,"prev":"","id":"\0\0"',
    "not UTF-8": b'{"v":1,"seq":3,"prev":"\xff\xfe","id":"1","time":"","mono":1,"event":"x","hash":""}',
    "UTF-16": '{"v":1}'.encode("utf-16"),
    "wrong types": b'{"v":1,"seq":"3","prev":"","id":"1","time":"","mono":1,"event":"x","hash":""}',
    "a lone surrogate in a key": b'{"v":1,"se\\ud800q":3,"prev":"","id":"1","time":"","mono":1,"event":"x","hash":""}',
    "a field missing": b'{"v":1,"seq":3,"prev":"","time":"","mono":1,"event":"x","hash":""}',
    "spaces in it": b'{ "v": 1, "seq": 3, "prev": "" }',
    "a list": b'[{"v":1}]',
    "deep JSON": b'{"v":1,"input":' + b"[" * 100_000 + b"]" * 100_000 + b"}",
    "deep JSON, never closed": b'{"v":1,"input":' + b'{"a":' * 100_000,
    "deep JSON in a record": b'{"v":1,"seq":3,"prev":"","id":"1","time":"","mono":1,"event":"x","input":'
    + b"[" * 5000 + b"]" * 5000 + b',"hash":""}',
    "a long number": b'{"v":1,"seq":' + b"9" * 10_000 + b"}",
    "a line of a megabyte": b"x" * (1 << 20),
    "a line longer than any record": b'{"v":1,' + b"x" * (17 << 20),
    "carriage returns": b"one\rtwo\r",
}  # fmt: skip


@pytest.mark.parametrize("line", FOREIGN.values(), ids=FOREIGN.keys())
def test_foreign_lines_are_skipped_and_counted(tmp_path: Path, line: bytes) -> None:
    """Before, between and after records, from both ends; a search goes past them, too."""
    own = list(made_lines(4))
    log = put(tmp_path, b"".join([line + b"\n", *own[:2], line + b"\n", *own[2:], line + b"\n"]))
    assert seqs(log) == [1, 2, 3, 4] and log.foreign == 3
    assert seqs(log, backward=True) == [4, 3, 2, 1] and log.foreign == 6
    assert seqs(log, RecordFilter(text="echo 3")) == [3]
    assert list(islice((entry.record.seq for entry in log.follow(since_now=False)), 4)) == [1, 2, 3, 4]


def test_blank_lines_are_nothing(tmp_path: Path) -> None:
    """They are not even counted."""
    one, two = made_lines(2)
    log = put(tmp_path, b"\n\n" + one + b"\n" + two + b"\n\n")
    assert (seqs(log), seqs(log, backward=True), log.foreign) == ([1, 2], [2, 1], 0)


def test_what_deep_json_an_agent_may_send_is_read(tmp_path: Path) -> None:
    """Up to 400 levels."""
    nested: object = "bottom"
    for _ in range(390):
        nested = [nested]
    append(tmp_path, content(1, input={"deep": nested}), content(2, input={"deep": nested, "odd": "\ud800"}))
    assert seqs(reader(tmp_path), RecordFilter(text="bottom")) == [1, 2]


@pytest.mark.parametrize("ended", [True, False], ids=["ended", "never ended"])
@pytest.mark.parametrize("backward", [False, True], ids=["forward", "backward"])
def test_a_line_of_100_mb_takes_little_memory(tmp_path: Path, ended: bool, backward: bool) -> None:
    """It is passed over in pieces."""
    one, two = made_lines(2)
    log = put(tmp_path, one)
    with log.files()[0].open("r+b") as file:
        file.truncate(100 << 20)
        file.seek(0, os.SEEK_END)
        file.write(b"\n" + two if ended else b"x")
    tracemalloc.start()
    try:
        assert sorted(seqs(log, backward=backward)) == ([1, 2] if ended else [1])
        assert tracemalloc.get_traced_memory()[1] < 40 << 20
    finally:
        tracemalloc.stop()
    assert log.foreign == ended


def test_half_a_line_at_the_end_is_not_there_yet(tmp_path: Path) -> None:
    """It is neither a record nor foreign until its newline is there; in a rotated file it stays incomplete."""
    one, two = made_lines(2)
    log = put(tmp_path, one + two[:50])
    assert (seqs(log), seqs(log, backward=True), log.foreign) == ([1], [1], 0)
    log = put(tmp_path, one + two[:-1])
    assert (seqs(log), seqs(log, backward=True), log.foreign) == ([1], [1], 0)
    log = put(tmp_path, one + two)
    assert (seqs(log), seqs(log, backward=True), log.foreign) == ([1, 2], [2, 1], 0)
    log.files()[0].rename(log.folder / "hooks-000000000001.jsonl")
    log = put(tmp_path, two[:50], "hooks-000000000009.jsonl")
    assert (seqs(log), log.foreign, seqs(log, backward=True), log.foreign) == ([1, 2], 1, [2, 1], 2)


@pytest.mark.parametrize("backward", [False, True], ids=["forward", "backward"])
def test_a_rotation_while_reading_hides_and_doubles_nothing(tmp_path: Path, backward: bool) -> None:
    """What was there when the reading began is read, whatever the file is called later."""
    written(tmp_path, 30, max_bytes=8_000)
    log = reader(tmp_path)
    wanted = seqs(log, notes=True, backward=backward)
    read = (log.backward if backward else log.forward)(notes=True)
    found = [next(read).record.seq]
    (log.folder / "hooks.jsonl").rename(log.folder / "hooks-000000000900.jsonl")
    put(tmp_path, b"".join(made_lines(2, start=1000)))
    found += [entry.record.seq for entry in read]
    assert found == wanted


def test_what_was_rotated_after_the_current_file_was_opened_is_newer(tmp_path: Path) -> None:
    """It is not listed among the older ones, nor is the file itself under its new name."""
    log = put(tmp_path, b"1", "hooks-000000000001.jsonl")
    put(tmp_path, b"2")
    folder = os.open(log.folder, os.O_RDONLY)
    current = os.open(log.folder / "hooks.jsonl", os.O_RDONLY)
    try:
        assert older_names(folder, current) == older_names(folder, None) == ["hooks-000000000001.jsonl"]
        (log.folder / "hooks.jsonl").rename(log.folder / "hooks-000000000002.jsonl")
        put(tmp_path, b"3", "hooks-000000000003.jsonl")
        put(tmp_path, b"4")
        assert older_names(folder, current) == ["hooks-000000000001.jsonl"]
        (log.folder / "hooks-000000000002.jsonl").unlink()
        assert older_names(folder, current) == ["hooks-000000000001.jsonl", "hooks-000000000003.jsonl"]
    finally:
        os.close(current)
        os.close(folder)


@pytest.mark.parametrize("backward", [False, True], ids=["forward", "backward"])
def test_files_that_vanish_while_reading(tmp_path: Path, backward: bool) -> None:
    """The one being read is read to its end; those that are gone are passed over."""
    log = written(tmp_path, 60, max_bytes=8_000)
    read = log.backward() if backward else log.forward()
    found = [next(read).record.seq]
    for path in log.files():
        path.unlink()
    found += [entry.record.seq for entry in read]
    assert 1 < len(found) < 60 and found == sorted(found, reverse=backward)
    assert list(log.forward()) == []


def test_a_log_is_whole_while_others_write_and_rotate_it(tmp_path: Path) -> None:
    """A reader in a loop sees a run of numbers without a gap each time, and in the end all of them."""
    code = (
        "import sys; from pathlib import Path; from store.logs import append, content;"
        "[append(Path(sys.argv[1]), *(content(n) for n in range(20)), max_bytes=16_000) for _ in range(40)]"
    )
    writer = subprocess.Popen([sys.executable, "-c", code, str(tmp_path)], cwd=Path(__file__).parents[1])
    try:
        log = reader(tmp_path)
        while writer.poll() is None:
            ahead = seqs(log, notes=True)
            assert ahead == list(range(1, len(ahead) + 1))
            back = seqs(log, notes=True, backward=True)
            assert back == list(range(len(back), 0, -1))
    finally:
        writer.wait(60)
    assert writer.returncode == 0 and log.foreign == 0
    assert len(seqs(log)) == 800


STRANGE = {
    "a link": lambda path, other: path.symlink_to(other),
    "a pipe": lambda path, other: os.mkfifo(path),
    "a folder": lambda path, other: path.mkdir(),
}


@pytest.mark.parametrize("name", ["hooks.jsonl", "hooks-000000000001.jsonl"])
@pytest.mark.parametrize("make", STRANGE.values(), ids=STRANGE.keys())
def test_strange_things_in_place_of_a_file_are_refused(tmp_path: Path, make: object, name: str) -> None:
    """At once, with the path in the message."""
    log = put(tmp_path, b"".join(made_lines(1)), "hooks-000000000002.jsonl")
    other = tmp_path / "other"
    other.write_bytes(b"".join(made_lines(1)))
    assert callable(make)
    make(log.folder / name, other)
    for read in (log.forward, log.backward):
        with pytest.raises(StoreError, match=name):
            list(read())


def test_a_link_in_place_of_the_folder_is_refused(tmp_path: Path) -> None:
    """Below the root none is followed."""
    written(tmp_path / "other", 1)
    (tmp_path / "hooks").mkdir()
    log_folder(tmp_path).symlink_to(log_folder(tmp_path / "other"))
    with pytest.raises(StoreError, match="symbolic link"):
        list(reader(tmp_path).forward())


def test_nothing_stays_open(tmp_path: Path) -> None:
    """Also if the caller stops in the middle."""
    log = written(tmp_path, 60, max_bytes=8_000)
    before = len(os.listdir("/proc/self/fd")) if os.path.exists("/proc/self/fd") else 0
    assert next(log.forward()) and next(log.backward()) and next(log.follow(since_now=False))
    log.follow()
    with pytest.raises(StoreError):
        log.find("0")
    assert (len(os.listdir("/proc/self/fd")) if before else 0) == before


# -- by id


def test_a_record_by_the_beginning_of_its_id(tmp_path: Path) -> None:
    """As many digits as are needed; too few name two of those that it might be."""
    ids = ["01234567" + "0" * 24, "01239999" + "1" * 24, "fedcba98" + "2" * 24]
    append(tmp_path, *(content(number, id=one) for number, one in enumerate(ids)), max_bytes=2_000)
    log = reader(tmp_path)
    for prefix, seq in ((ids[0], 1), ("0123456", 1), ("fe", None), ("01239", None)):
        entry = log.find(prefix)
        assert entry is not None and entry.record.id.startswith(prefix)
        assert seq is None or entry.record.seq == seq
    with pytest.raises(StoreError) as raised:
        log.find("0123")
    assert ids[0] in str(raised.value) and ids[1] in str(raised.value)
    assert [log.find(prefix) for prefix in ("00", ids[0] + "0", "FE", "é", '"', "\ud800", "\x7f", "%")] == [None] * 8


def test_an_id_in_an_input_is_not_the_records(tmp_path: Path) -> None:
    """A tool's input may have an id, too."""
    append(tmp_path, content(1, input={"id": "abc" * 10 + "de"}), content(2))
    assert reader(tmp_path).find("abc") is None


def test_the_same_record_twice_is_not_two(tmp_path: Path) -> None:
    """A copied line is for `verify` to complain about; the later one is shown."""
    (line,) = made_lines(1)
    entry = put(tmp_path, line + line).find("0")
    assert entry is not None and entry.offset == len(line)


# -- side files


def test_a_whole_record_has_what_lies_in_its_side_file(tmp_path: Path) -> None:
    """All fields as they were given, lone surrogates included."""
    outcomes = [{"hook": "guard", "decision": "deny", "data": {"n": 2**70}}]
    large = content(1, input={"command": "x" * 90_000, "odd": "\ud800"}, outcomes=outcomes)
    append(tmp_path, large, content(2))
    log = reader(tmp_path)
    record = next(log.forward()).record
    assert record.side is not None and record.input is None
    whole = log.whole(record)
    assert whole.input == large["input"] and whole.outcomes[0].data == {"n": 2**70}
    assert (whole.seq, whole.hash, whole.side) == (record.seq, record.hash, record.side)
    small = next(log.backward()).record
    assert log.whole(small) is small


def test_every_field_that_the_writer_may_move_comes_back(tmp_path: Path) -> None:
    """Also a reason or a session's id of a megabyte."""
    texts = {name: name * 20_000 for name in ("session_id", "reason", "cwd", "project", "tool", "turn_id")}
    append(tmp_path, content(1, **texts, outcomes=[{"hook": "a", "reason": "r" * 90_000}]))
    log = reader(tmp_path)
    whole = log.whole(next(log.forward()).record)
    assert {name: getattr(whole, name) for name in texts} == texts
    assert whole.outcomes[0].reason == "r" * 90_000
    assert seqs(log, RecordFilter(sessions=frozenset({texts["session_id"]}), tools=frozenset({texts["tool"]}))) == [1]
    assert seqs(log, RecordFilter(sessions=frozenset({"other"}))) == []


def test_a_side_file_that_is_gone_or_changed_is_an_error_of_that_record_only(tmp_path: Path) -> None:
    """The log is read and searched on; only who asks for the whole record is told."""
    append(tmp_path, content(1, input="x" * 90_000), content(2, input="y" * 90_000), content(3))
    log = reader(tmp_path)
    first, second = (entry.record for entry in islice(log.forward(), 2))
    assert first.side is not None and second.side is not None
    lines.side_path(log.folder, first.side.sha256).unlink()
    changed = lines.side_path(log.folder, second.side.sha256)
    changed.write_bytes(changed.read_bytes().replace(b"y", b"z"))
    for record in (first, second):
        with pytest.raises(StoreError, match=r"large/[0-9a-f]{64}\.json"):
            log.whole(record)
    assert seqs(log) == [1, 2, 3]
    assert seqs(log, RecordFilter(text="zzz")) == [] and seqs(log, RecordFilter(text="echo 3")) == [3]


@pytest.mark.parametrize(
    "side",
    [
        {"sha256": "../../../../../etc/passwd", "bytes": 10, "fields": ["input"]},
        {"sha256": "/etc/passwd", "bytes": 10, "fields": ["input"]},
        {"sha256": "\x00", "bytes": 10, "fields": ["input"]},
        {"sha256": "0" * 64, "bytes": -1, "fields": ["input"]},
        {"sha256": "0" * 64, "bytes": 1 << 60, "fields": ["input"]},
    ],
    ids=["up", "absolute", "NUL", "negative", "endless"],
)
def test_a_line_that_names_a_strange_side_file(tmp_path: Path, side: dict[str, object]) -> None:
    """Nothing outside the log's folder is read."""
    line, _ = make_line(1, "", strictjson.encode(content(1, side=side)))
    log = put(tmp_path, line)
    (log.folder / "large").mkdir()
    (log.folder / "large" / ("0" * 64 + ".json")).write_bytes(b"{}")
    record = next(log.forward()).record
    with pytest.raises(StoreError):
        log.whole(record)
    assert seqs(log, RecordFilter(text="root")) == []


def test_a_side_file_does_not_override_the_line(tmp_path: Path) -> None:
    """It can't turn the record into another, and what is in it must be what a record has."""
    for data, fails in ((b'{"id":"other","seq":9,"event":"x","input":1}', False), (b'{"context":7}', True)):
        digest = hashlib.sha256(data).hexdigest()
        fields = ["id", "seq", "event", "hash", "input", "context", "none"]
        side = {"sha256": digest, "bytes": len(data), "fields": fields}
        line, _ = make_line(1, "", strictjson.encode(content(1, side=side)))
        log = put(tmp_path, line)
        (log.folder / "large").mkdir(exist_ok=True)
        (log.folder / "large" / f"{digest}.json").write_bytes(data)
        record = next(log.forward()).record
        if fails:
            with pytest.raises(StoreError, match="side file"):
                log.whole(record)
        else:
            whole = log.whole(record)
            assert (whole.id, whole.seq, whole.event, whole.input) == (record.id, 1, "PreToolUse", 1)


# -- how far, how quick


@pytest.fixture
def module(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A module of the benchmarks by its name."""
    monkeypatch.syspath_prepend(Path(__file__).parents[2] / "benchmarks")
    return importlib.import_module


def test_the_log_that_the_benchmarks_make_is_a_real_one(tmp_path: Path, module: Any) -> None:
    """Its chain holds over its files, and a writer goes on with it."""
    loggen = module("loggen")
    folder = loggen.make_log(tmp_path, 400_000, max_bytes=150_000)
    log = LogReader(folder, tmp_path)
    assert 400_000 <= log.bytes < 420_000 and len(log.files()) == 3
    appended = EventLog(tmp_path, folder).append(content(1))
    result = verify(folder, tmp_path)
    # The configurations that its records name are made up, and so are not kept.
    broken = [one for one in result.findings if "its configuration is missing" not in one.what]
    assert (broken, result.more, result.records) == ([], 0, appended.seq)
    assert loggen.read_size("1GB") == 10**9 and loggen.read_size("2.5mb") == 2_500_000 and loggen.read_size("7") == 7


@pytest.mark.skipif(sys.platform != "linux", reason="measured on Linux")
def test_the_goals_about_reading_are_rows_of_the_benchmarks() -> None:
    """Each limit and each peer that is there has its row; with few passes on a small log."""
    script = Path(__file__).parents[2] / "benchmarks" / "run.py"
    env = {**os.environ, "BILLHOOK_BENCH_PASSES": "1"}
    argv = [sys.executable, str(script), "--only", "19,20", "--json"]
    ended = subprocess.run(argv, env=env, capture_output=True, text=True, timeout=120, check=False)
    rows = [json.loads(line) for line in ended.stdout.splitlines()]
    assert {(row["goal"], row["against"]) for row in rows} >= {
        (19, "reading it"), (19, "msgspec line loop"), (19, "json line loop"), (20, "tail -n 5"),
        (20, "reading all lines"),
    }, ended.stderr  # fmt: skip

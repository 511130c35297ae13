"""`verify`: every edit, deletion, reorder, insertion and truncation of a log is found, and named by file and line."""

import hashlib
import json
import os
import random
import re
import shutil
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from billhook.store.files import LockFile, StoreError
from billhook.store.log.eventlog import CURRENT, open_log
from billhook.store.log.verify import MOST_FINDINGS, Head, LogFault, VerifyResult, export_head, exported_head, verify
from store.written import PROJECT, content, files_of, filled, fresh, whole

ROTATED = "hooks-000000000001.jsonl"


def seen(found: VerifyResult) -> list[tuple[str, int, int | None]]:
    return [(one.file.name, one.line, one.seq) for one in found.findings]


# -- what a whole log is -------------------------------------------------------------------------------------------


def test_a_whole_log(tmp_path: Path) -> None:
    """Over rotated files and side files: how much there is, where it starts, and its head."""
    log = filled(tmp_path, 30, max_bytes=4000)
    log.append(content(31, 100_000))
    last = log.append(content(32))
    found = verify(log.folder, tmp_path)

    assert found.ok and found.findings == []
    assert (found.records - found.notes, found.notes) == (32, found.files - 1)
    assert (found.first_seq, found.head) == (1, Head(last.seq, last.hash))
    assert str(found.head) == f"{last.seq}:{last.hash}"


@pytest.mark.parametrize("there", [False, True])
def test_a_log_that_is_not_there(tmp_path: Path, there: bool) -> None:
    """No folder, or one without records, has no head and nothing wrong with it."""
    folder = tmp_path / "hooks" / "x"
    if there:
        folder.mkdir(parents=True)
    assert verify(folder, tmp_path) == VerifyResult(0, 0, 0, None, None, [], 0, 0, 0)


def test_nothing_is_written(tmp_path: Path) -> None:
    """Looking at a log leaves it as it is, also when something is wrong with it."""
    log = filled(tmp_path, 3)
    with open(log.path, "ab") as stream:
        stream.write(b"half a line")
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    verify(log.folder, tmp_path)
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before


def test_a_link_is_no_log(tmp_path: Path) -> None:
    """Reading is as careful as writing."""
    log = filled(tmp_path, 3)
    log.path.rename(log.folder / "moved")
    log.path.symlink_to("moved")
    with pytest.raises(StoreError, match="symbolic link"):
        verify(log.folder, tmp_path)


# -- what is found, and where --------------------------------------------------------------------------------------

LINES = 10


def _lines(path: Path) -> list[bytes]:
    return path.read_bytes().splitlines(keepends=True)


def _put(path: Path, lines: list[bytes]) -> None:
    path.write_bytes(b"".join(lines))


def _changed(lines: list[bytes]) -> None:
    lines[4] = lines[4].replace(b"allow", b"deny!")


def _reworded(lines: list[bytes]) -> None:
    lines[4] = rehashed(lines[4].replace(b"allow", b"deny!"))


def _deleted(lines: list[bytes]) -> None:
    del lines[4]


def _three_deleted(lines: list[bytes]) -> None:
    del lines[4:7]


def _first_deleted(lines: list[bytes]) -> None:
    del lines[0]


def _swapped(lines: list[bytes]) -> None:
    lines[4], lines[5] = lines[5], lines[4]


def _twice(lines: list[bytes]) -> None:
    lines.insert(4, lines[3])


def _inserted(lines: list[bytes]) -> None:
    lines.insert(4, b'{"event":"PreToolUse"}\n')


def _blank(lines: list[bytes]) -> None:
    lines.insert(4, b"\n")


def _cut(lines: list[bytes]) -> None:
    lines[-1] = lines[-1][:-20]


def _joined(lines: list[bytes]) -> None:
    lines[4] = lines[4][:-1]


def _spaced(lines: list[bytes]) -> None:
    lines[4] = lines[4].replace(b'"hash":', b'"hash": ')


def rehashed(line: bytes) -> bytes:
    """A line whose hash was recomputed after the change."""
    text = line[: line.rindex(b',"hash":')]
    return text + b',"hash":"%b"}\n' % hashlib.sha256(text).hexdigest().encode()


@pytest.mark.parametrize(
    ("edit", "where", "what"),
    [
        (_changed, [(5, 5)], "the record was changed"),
        (_reworded, [(6, 6)], "its `prev` does not match record 5"),
        (_deleted, [(5, 6)], "record 5 is missing before this record"),
        (_three_deleted, [(5, 8)], "records 5 to 7 are missing before this record"),
        (_first_deleted, [(1, 2)], "record 1 is missing before this record"),
        (_swapped, [(5, 6), (6, 5), (7, 7)], "record 5 is missing before this record"),
        (_twice, [(5, 4)], "it comes after record 4: it was moved or copied"),
        (_inserted, [(5, None)], "it was added from outside"),
        (_blank, [(5, None)], "it was added from outside"),
        (_cut, [(10, None)], "the line is incomplete"),
        (_joined, [(5, 5), (6, 7)], "the record was changed"),
        (_spaced, [(5, None), (6, 6)], "the line was changed, and is no longer a record"),
    ],
)
def test_an_edit_is_named(
    tmp_path: Path, edit: Callable[[list[bytes]], None], where: list[tuple[int, int | None]], what: str
) -> None:
    """File, line, record and what is wrong, and nothing that is not."""
    log = filled(tmp_path, LINES)
    lines = _lines(log.path)
    edit(lines)
    _put(log.path, lines)
    found = verify(log.folder, tmp_path)

    assert seen(found) == [(CURRENT, line, seq) for line, seq in where]
    assert what in found.findings[0].what and not found.ok
    assert str(found.findings[0]).startswith(f"{log.path}:{where[0][0]}: ")


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    """By the first record that follows the gap."""
    log = filled(tmp_path, 40, max_bytes=4000)
    first, second, *_ = files_of(log.folder)
    second.unlink()
    gone = int(second.name[6:18])
    found = verify(log.folder, tmp_path)

    assert [one.line for one in found.findings] == [1] and f"records {gone} to " in found.findings[0].what
    first.unlink()
    assert len(verify(log.folder, tmp_path).findings) == 1


def test_side_files_are_part_of_it(tmp_path: Path) -> None:
    """One that was changed, cut, removed or replaced by a link is found by the line that needs it."""
    log = filled(tmp_path, 2)
    log.append(content(3, 100_000))
    (side,) = (log.folder / "large").iterdir()
    data = side.read_bytes()
    for bad in (data[:-1], data + b" ", data.replace(b"x", b"y", 1)):
        side.write_bytes(bad)
        assert seen(verify(log.folder, tmp_path)) == [(CURRENT, 3, 3)]
    side.unlink()
    assert f"its side file is missing: {side}" in verify(log.folder, tmp_path).findings[0].what
    (tmp_path / "copy").write_bytes(data)
    side.symlink_to(tmp_path / "copy")
    assert seen(verify(log.folder, tmp_path)) == [(CURRENT, 3, 3)]


def test_words_about_side_files_are_words(tmp_path: Path) -> None:
    """An agent that edits this very program logs such text."""
    log = open_log(tmp_path, PROJECT)
    log.append(content(1, input={"side": {"sha256": "0" * 64, "bytes": 1, "fields": []}}))
    assert whole(log).records == 1


def test_a_side_file_that_was_added_to_is_evidence(tmp_path: Path) -> None:
    """It is reported as changed, and there is no hint to remove it."""
    log = filled(tmp_path, 2)
    log.append(content(3, 100_000))
    (side,) = (log.folder / "large").iterdir()
    side.write_bytes(side.read_bytes() + b"more")
    (found,) = verify(log.folder, tmp_path).findings
    assert found.what == f"record 3: its side file was changed: {side}"
    side.unlink()
    side.mkdir()
    (found,) = verify(log.folder, tmp_path).findings
    assert "its side file can't be read" in found.what and "rm " not in found.what


def kept_config(root: Path, data: bytes = b'{"v":1}') -> tuple[str, Path]:
    digest = hashlib.sha256(data).hexdigest()
    path = root / "billhook" / "configs" / f"{digest}.json"
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    path.write_bytes(data)
    return digest, path


def _link(path: Path) -> None:
    path.with_name("copy").write_bytes(path.read_bytes())
    path.unlink()
    path.symlink_to("copy")


def _fifo(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


@pytest.mark.parametrize(
    ("spoil", "what"),
    [
        (lambda path: path.unlink(), "is missing"),
        (lambda path: path.write_bytes(b""), "was changed"),
        (lambda path: path.write_bytes(b'{"v":2}'), "was changed"),
        (_link, "can't be read: can't read it: it is a symbolic link"),
        (_fifo, "can't be read: it is not a file"),
    ],
    ids=["missing", "empty", "changed", "link", "pipe"],
)
def test_configurations_are_part_of_it(tmp_path: Path, spoil: Callable[[Path], object], what: str) -> None:
    """One that is not what it was is named once, with the first line that speaks of it."""
    digest, path = kept_config(tmp_path)
    log = filled(tmp_path, 2)
    for number in (3, 4, 5):
        log.append(content(number, config=digest, input={"config": "0" * 64}))
    assert whole(log).records == 5

    spoil(path)
    (found,) = verify(log.folder, tmp_path).findings
    assert (found.file.name, found.line, found.seq) == (CURRENT, 3, 3)
    assert found.what.startswith(f"record 3: its configuration {what}")
    assert found.what.endswith(f": {path}")


def test_words_about_configurations_are_words(tmp_path: Path) -> None:
    """A tool's input may contain `config`, too, and a record may have none."""
    log = open_log(tmp_path, PROJECT)
    log.append(content(1, config="", input={"config": "0" * 64}))
    log.append(content(2, input={"config": "1" * 64}))
    assert whole(log).records == 2


def test_a_record_in_the_wrong_file(tmp_path: Path) -> None:
    """The first record of a file at the end of the one before, or the other way round: each follows as it should."""
    log = filled(tmp_path, 40, max_bytes=4000)
    one, other, *_, current = files_of(log.folder)
    before = {path: path.read_bytes() for path in (one, other, current)}
    for first, second in ((one, other), (files_of(log.folder)[-2], current)):
        lines, rest = _lines(first), _lines(second)
        _put(first, [*lines, rest[0]])
        _put(second, rest[1:])
        found = seen(verify(log.folder, tmp_path))
        assert (first.name, len(lines) + 1) in [place[:2] for place in found]
        _put(first, lines[:-1])
        _put(second, [lines[-1], *rest])
        assert (second.name, 1) in [place[:2] for place in seen(verify(log.folder, tmp_path))]
        _put(first, lines)
        _put(second, rest)
    assert before == {path: path.read_bytes() for path in before} and verify(log.folder, tmp_path).ok


def test_findings_are_bounded(tmp_path: Path) -> None:
    """A file of something else is no reason to run out of memory; what is not listed is counted."""
    log = filled(tmp_path, 1)
    with open(log.path, "ab") as stream:
        stream.write(b"{}\n" * 5000)
    found = verify(log.folder, tmp_path)
    assert (len(found.findings), found.more, found.foreign) == (MOST_FINDINGS, 4000, 5000)


def test_a_line_too_long_to_be_ours(tmp_path: Path) -> None:
    """It is not read into memory, and the records around it are still checked."""
    log = filled(tmp_path, 1)
    with open(log.path, "ab") as stream:
        for _ in range(40):
            stream.write(b"x" * (1 << 20))
        stream.write(b"\n")
    log.append(content(2))
    found = verify(log.folder, tmp_path)
    assert (seen(found), found.records) == ([(CURRENT, 2, None)], 2)


def test_a_note_accounts_for_its_own_fragment_only(tmp_path: Path) -> None:
    """What is inserted before it, or changed in it, is found."""
    log = filled(tmp_path, 2)
    with open(log.path, "ab") as stream:
        stream.write(b'{"v":1,"seq":3,"pre')
    log.append(content(3))
    lines = _lines(log.path)
    assert whole(log).torn == 1

    _put(log.path, [*lines[:2], b"{}\n", *lines[2:]])
    assert seen(verify(log.folder, tmp_path)) == [(CURRENT, 3, None)]
    _put(log.path, [*lines[:2], b'{"v":1,"seq":3,"PRE\n', *lines[3:]])
    assert seen(verify(log.folder, tmp_path)) == [(CURRENT, 3, None), (CURRENT, 4, 3)]
    _put(log.path, [*lines[:2], *lines[3:]])
    assert seen(verify(log.folder, tmp_path)) == [(CURRENT, 3, 3)]


def test_a_line_that_is_being_written_is_waited_for(tmp_path: Path) -> None:
    """Half a line is no finding while its writer holds the lock."""
    log = filled(tmp_path, 2)
    data = log.path.read_bytes()
    lock = LockFile(log.folder / "hooks.lock", tmp_path)
    lock.acquire()
    log.path.write_bytes(data[:-30])

    def finish() -> None:
        with open(log.path, "ab") as stream:
            stream.write(data[-30:])
        lock.close()

    timer = threading.Timer(0.2, finish)
    timer.start()
    found = verify(log.folder, tmp_path)
    timer.join()
    assert found.ok and found.records == 2


# -- heads ---------------------------------------------------------------------------------------------------------


def test_a_head_is_kept_and_asked_for(tmp_path: Path) -> None:
    """A log that goes on still contains it; one that was cut back, rewritten or deleted does not."""
    log = filled(tmp_path, 5)
    assert exported_head(log.folder, tmp_path) is None
    head = whole(log).head
    assert head is not None
    export_head(log.folder, tmp_path, head)
    assert exported_head(log.folder, tmp_path) == head == Head.from_text(f" {head}\n")

    log.append(content(6))
    lines = _lines(log.path)
    assert verify(log.folder, tmp_path, expected=[head]).ok
    _put(log.path, lines[:5])
    assert verify(log.folder, tmp_path, expected=[head]).ok
    _put(log.path, lines[:4])
    assert verify(log.folder, tmp_path).ok
    (cut,) = verify(log.folder, tmp_path, expected=[head]).findings
    assert (cut.line, cut.seq) == (0, 5) and "it ends with record 4" in str(cut)
    log.path.unlink()
    (gone,) = verify(log.folder, tmp_path, expected=[head]).findings
    assert "it has no record" in gone.what


def test_a_log_that_was_rewritten_from_start_to_end(tmp_path: Path) -> None:
    """Every hash is right, and only the head that was kept tells."""
    head = whole(filled(tmp_path, 5)).head
    assert head is not None
    other = fresh(tmp_path / "other")
    for number in range(5):
        other.append(content(number, decision="deny"))

    assert verify(other.folder, other.root).ok
    (found,) = verify(other.folder, other.root, expected=[head]).findings
    assert (found.line, found.seq) == (5, 5) and "does not match the exported head" in found.what


@pytest.mark.parametrize("text", ["", "12", f"x:{'0' * 64}", f"12:{'0' * 63}", f"12:{'G' * 64}", f"-1:{'0' * 64}"])
def test_what_is_no_head(text: str) -> None:
    """The message shows what one looks like."""
    with pytest.raises(ValueError, match="is not a head"):
        Head.from_text(text)


@pytest.mark.parametrize("data", [b"", b"{}", b'{"seq":1,"hash":"x"}', b"[" * 900])
def test_a_damaged_head_is_an_error_and_not_none(tmp_path: Path, data: bytes) -> None:
    """Or to damage it would be a way to cut the log."""
    log = filled(tmp_path, 1)
    export_head(log.folder, tmp_path, Head(1, "0" * 64))
    (path,) = (tmp_path / "billhook" / "heads").iterdir()
    path.write_bytes(data)
    with pytest.raises(StoreError, match="damaged"):
        exported_head(log.folder, tmp_path)


# -- edits by chance -----------------------------------------------------------------------------------------------


class Vandal:
    """Makes one random change to the files of a log, and knows them as they were."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.folder, self.chance = folder, random.Random(seed)
        self.kept = {path: path.read_bytes() for path in sorted(folder.rglob("*.json*"))}
        self.logs = [path for path in self.kept if path.suffix == ".jsonl"]
        self.edits = [value for name, value in vars(Vandal).items() if re.match("_[a-z]", name)]

    def strike(self) -> tuple[str, set[Path]]:
        """Change something; its name and the files. Never nothing."""
        while True:
            now = dict(self.kept)
            edit = self.chance.choice(self.edits)
            edit(self, now)
            touched = {path for path in self.kept if now.get(path) != self.kept[path]}
            if touched:
                for path in touched:
                    if path in now:
                        path.write_bytes(now[path])
                    else:
                        path.unlink()
                return edit.__name__, touched

    def mend(self, touched: set[Path]) -> None:
        for path in touched:
            path.write_bytes(self.kept[path])

    def any_file(self, now: dict[Path, bytes]) -> Path:
        return self.chance.choice(list(now))

    def any_log(self) -> tuple[Path, list[bytes]]:
        path = self.chance.choice(self.logs)
        return path, self.kept[path].splitlines(keepends=True)

    def _flip(self, now: dict[Path, bytes]) -> None:
        path = self.any_file(now)
        data = bytearray(now[path])
        data[self.chance.randrange(len(data))] ^= 1 << self.chance.randrange(8)
        now[path] = bytes(data)

    def _insert_bytes(self, now: dict[Path, bytes]) -> None:
        path = self.any_file(now)
        at = self.chance.randrange(len(now[path]) + 1)
        now[path] = now[path][:at] + self.chance.choice([b" ", b"\n", b"0", b"\x00", b'"}\n']) + now[path][at:]

    def _delete_bytes(self, now: dict[Path, bytes]) -> None:
        path = self.any_file(now)
        at = self.chance.randrange(len(now[path]))
        now[path] = now[path][:at] + now[path][at + self.chance.randrange(1, 400) :]

    def _truncate(self, now: dict[Path, bytes]) -> None:
        path = self.any_file(now)
        now[path] = now[path][: self.chance.randrange(len(now[path]))]

    def _delete_lines(self, now: dict[Path, bytes]) -> None:
        path, lines = self.any_log()
        at = self.chance.randrange(len(lines))
        del lines[at : at + self.chance.randrange(1, 4)]
        now[path] = b"".join(lines)

    def _shuffle(self, now: dict[Path, bytes]) -> None:
        path, lines = self.any_log()
        one, other = self.chance.randrange(len(lines)), self.chance.randrange(len(lines))
        lines[one], lines[other] = lines[other], lines[one]
        now[path] = b"".join(lines)

    def _copy_line(self, now: dict[Path, bytes]) -> None:
        (path, lines), (_, others) = self.any_log(), self.any_log()
        lines.insert(self.chance.randrange(len(lines) + 1), self.chance.choice(others))
        now[path] = b"".join(lines)

    def _replace_line(self, now: dict[Path, bytes]) -> None:
        (path, lines), (_, others) = self.any_log(), self.any_log()
        lines[self.chance.randrange(len(lines))] = self.chance.choice(others)
        now[path] = b"".join(lines)

    def _insert_foreign(self, now: dict[Path, bytes]) -> None:
        path, lines = self.any_log()
        lines.insert(self.chance.randrange(len(lines) + 1), self.chance.choice([b"\n", b"{}\n", b'{"v":1,"seq":3}\n']))
        now[path] = b"".join(lines)

    def _reword(self, now: dict[Path, bytes]) -> None:
        """The hash of the changed line is made right, those that follow are not."""
        path, lines = self.any_log()
        at = self.chance.choice([number for number, line in enumerate(lines) if b'"hash"' in line])
        record = json.loads(lines[at])
        record[self.chance.choice(["decision", "id", "event"])] = "other"
        lines[at] = rehashed(json.dumps(record, separators=(",", ":")).encode() + b"\n")
        now[path] = b"".join(lines)

    def _renumber(self, now: dict[Path, bytes]) -> None:
        path, lines = self.any_log()
        at = self.chance.choice([number for number, line in enumerate(lines) if b'"hash"' in line])
        lines[at] = rehashed(re.sub(rb'"seq":\d+', b'"seq":%d' % self.chance.randrange(1, 60), lines[at]))
        now[path] = b"".join(lines)

    def _move_line(self, now: dict[Path, bytes]) -> None:
        """From the start of a file to the end of another, or the other way round."""
        (path, lines), (other, others) = self.any_log(), self.any_log()
        if path != other:
            if self.chance.random() < 0.5:
                others.append(lines.pop(0))
            else:
                others.insert(0, lines.pop())
            now[path], now[other] = b"".join(lines), b"".join(others)

    def _remove_file(self, now: dict[Path, bytes]) -> None:
        del now[self.any_file(now)]

    def _swap_files(self, now: dict[Path, bytes]) -> None:
        one, other = self.any_file(now), self.any_file(now)
        now[one], now[other] = now[other], now[one]

    def _crlf(self, now: dict[Path, bytes]) -> None:
        path, _ = self.any_log()
        now[path] = now[path].replace(b"\n", b"\r\n")


@pytest.mark.parametrize("edits", [1000, pytest.param(10_000, marks=pytest.mark.slow)])
def test_every_random_edit_is_found(tmp_path: Path, edits: int) -> None:
    """Of a log with rotated files, side files and a repaired line, whose head was exported."""
    log = filled(tmp_path, 12, max_bytes=4000)
    log.append(content(13, 70_000))
    with open(log.path, "ab") as stream:
        stream.write(b'{"v":1,"seq":9')
    for number in range(14, 24):
        log.append(content(number))
    head = whole(log).head
    assert head is not None
    log.close()
    vandal = Vandal(log.folder, seed=edits)
    struck: dict[str, int] = {}
    for _ in range(edits):
        name, touched = vandal.strike()
        struck[name] = struck.get(name, 0) + 1
        found = verify(log.folder, tmp_path, expected=[head])
        assert found.findings, f"{name} of {touched}"
        assert all(isinstance(one, LogFault) and one.what for one in found.findings)
        vandal.mend(touched)
    assert verify(log.folder, tmp_path, expected=[head]).ok
    assert len(struck) == len(vandal.edits)


def test_a_copy_of_a_log_elsewhere_can_be_verified(tmp_path: Path) -> None:
    """What was archived needs nothing of where it came from."""
    log = filled(tmp_path / "here", 20, max_bytes=4000)
    log.append(content(21, 100_000))
    os.makedirs(tmp_path / "there" / "hooks")
    shutil.copytree(log.folder, tmp_path / "there" / "hooks" / "copy")
    assert verify(tmp_path / "there" / "hooks" / "copy", tmp_path / "there").ok

"""`billhook events verify` and `export`."""

import json
import subprocess
from pathlib import Path

import pytest
from inline_snapshot import snapshot

from cli.recorded import Recorded, a_night
from cli.terminal import PROGRAM


@pytest.fixture
def place(tmp_path: Path) -> Recorded:
    place = Recorded(tmp_path)
    a_night(place)
    return place


def lines_of(place: Recorded) -> list[bytes]:
    return place.log.read_bytes().splitlines(keepends=True)


# -- verify


def test_an_unchanged_log(place: Recorded) -> None:
    """The number of records, the head, and why to store it elsewhere."""
    head = place.lines("verify", "--json")[0]["head"]

    assert place.screen("verify").replace(head, "<head>") == snapshot("""\
11 records in 1 file: unchanged
head <head>
without a stored head, a log whose end was cut off, or that was rewritten as a
whole, can't be detected; store this head elsewhere (`billhook events verify
--head`), or set the option `export_head_to` of the built-in `event-logger`
-- exit 0
""")


def test_a_head_that_is_kept(place: Recorded) -> None:
    """It is printed alone, remembered, and expected from then on."""
    head = place.run("verify", "--head")
    place.add("Stop")

    assert head.code == 0 and head.out.startswith("11:") and head.out.count("\n") == 1
    assert "the log contains the head that was exported at record 11" in place.run("verify").out
    assert place.run("verify", "--expect", head.out.strip()).code == 0

    place.log.write_bytes(b"".join(lines_of(place)[:8]))
    ended = place.run("verify")
    assert ended.code == 1
    assert "the exported head, record 11, is not in the log: it ends with record 8" in ended.out


@pytest.mark.parametrize(
    ("change", "line"),
    [
        pytest.param(lambda lines: [*lines[:4], lines[4].replace(b"deny", b"none"), *lines[5:]], 5, id="an edit"),
        pytest.param(lambda lines: [*lines[:4], *lines[5:]], 5, id="a removal"),
        pytest.param(lambda lines: [*lines[:4], lines[5], lines[4], *lines[6:]], 5, id="a swap"),
        pytest.param(lambda lines: [*lines[:4], b"{}\n", *lines[4:]], 5, id="an addition"),
        pytest.param(lambda lines: lines[4:], 1, id="the beginning is gone"),
    ],
)
def test_a_changed_log(place: Recorded, change: "object", line: int) -> None:
    """Exit 1, and the file and line of the first finding."""
    place.log.write_bytes(b"".join(change(lines_of(place))))  # type: ignore[operator]

    ended = place.run("verify")
    assert ended.code == 1
    assert place.plain(ended.out).startswith("~/.claude/hooks/")
    assert f"/hooks.jsonl:{line}: " in ended.out
    data = json.loads(place.run("verify", "--json").out)
    assert data["ok"] is False and data["findings"][0]["line"] == line
    assert place.run("verify", "--head").out == ended.out, "no head of a log that is not as it was"


def test_findings_on_the_screen(place: Recorded) -> None:
    """Each has its place and the problem."""
    lines = lines_of(place)
    place.log.write_bytes(b"".join([*lines[:2], lines[2].replace(b"app.py", b"tea.py"), *lines[4:]]))

    assert place.screen("verify") == snapshot("""\
~/.claude/hooks/-home-me-shop/hooks.jsonl:3: record 3: hash mismatch: the record was changed
~/.claude/hooks/-home-me-shop/hooks.jsonl:4: record 5: record 4 is missing before this record

10 records in 1 file: 2 findings
-- exit 1
""")


@pytest.mark.parametrize("text", ["x", "12", "12:abc", "-1:" + "a" * 64, "12:" + "g" * 64, ""])
def test_an_invalid_head(place: Recorded, text: str) -> None:
    """An error, not a finding."""
    assert "is not a head" in place.complaint("verify", "--expect", text)


def test_an_empty_log(tmp_path: Path) -> None:
    """An empty log has no findings, and no head."""
    place = Recorded(tmp_path)

    assert place.screen("verify") == snapshot("""\
the log is empty: there is nothing to check
-- exit 0
""")
    assert "the log is empty, so it has no head" in place.complaint("verify", "--head")


# -- export


def test_all_of_it(place: Recorded) -> None:
    """Byte for byte, so that it can be checked elsewhere."""
    assert place.run("export").out.encode() == place.log.read_bytes()


@pytest.mark.parametrize(
    ("arguments", "seqs"),
    [
        ((".",), [10, 11]),
        (("--last", "2"), [10, 11]),
        (("-t", "Bash", "-e", "PreToolUse"), [5, 6]),
        (("-d", "defer"), []),
    ],
)
def test_with_filters(place: Recorded, arguments: tuple[str, ...], seqs: list[int]) -> None:
    """The lines that the view would show."""
    assert place.seqs("export", *arguments) == seqs
    lines = lines_of(place)
    assert place.run("export", *arguments).out.encode() == b"".join(lines[seq - 1] for seq in seqs)


def test_notes_of_the_log_itself(place: Recorded) -> None:
    """A repaired incomplete line is noted in the log; the whole export has the note, a filtered one does not."""
    with place.log.open("ab") as log:
        log.write(b'{"v":1,"seq":12,')
    place.add("Stop")

    assert place.seqs("export") == [*range(1, 12), 12, 13]
    assert place.seqs("export", "-e", "Stop") == [9, 13]
    assert place.seqs() == [*range(1, 12), 13]
    assert "1 incomplete line of crashed processes" in place.run("verify").out


def test_side_files_are_not_exported(place: Recorded) -> None:
    """A note reports that."""
    place.add("PreToolUse", "Bash", {"command": "x" * 100_000})

    assert "note: 1 record has a part in separate files" in place.run("export").err


def test_a_closed_pipe(place: Recorded) -> None:
    """A pipe that is closed early is not an error."""
    for _ in range(300):
        place.add("Stop", reason="x" * 2000)
    for arguments in ("export", "--json"):
        done = subprocess.run(
            ["/bin/sh", "-c", f'"{PROGRAM}" events {arguments} | head -n 1'],
            env=place.environment(),
            cwd=place.project,
            capture_output=True,
            check=True,
            timeout=60,
        )
        assert done.stdout.count(b"\n") == 1
        assert done.stderr == b""

"""One line of the event log: the fields at its two ends, and lines that are not records."""

import hashlib
import json
from pathlib import Path

import msgspec
import pytest

from billhook.core import strictjson
from billhook.store import log as lines
from billhook.store.log import Record
from billhook.store.log.eventlog import make_line
from store.written import content

DIGEST = "0" * 64
BODY = strictjson.encode(content(1))


def test_a_line_is_a_record_with_the_chain_at_its_ends() -> None:
    """The hash is the SHA-256 of the bytes before it, and the whole is a record for every reader."""
    line, digest = make_line(7, DIGEST, BODY)
    record = msgspec.json.decode(line, type=Record)

    assert (record.v, record.seq, record.prev, record.hash) == (1, 7, DIGEST, digest)
    assert (record.id, record.event, record.input) == (f"{1:032x}", "PreToolUse", {"command": ""})
    assert hashlib.sha256(line[: line.rindex(b',"hash":')]).hexdigest() == digest
    assert line.endswith(b"\n") and line.count(b"\n") == 1 and line.startswith(lines.START)
    assert len(line) - len(BODY) <= lines.ROOM


@pytest.mark.parametrize("prev", ["", DIGEST])
@pytest.mark.parametrize("seq", [1, 10**17])
def test_what_was_made_is_read_back(seq: int, prev: str) -> None:
    """Number and both hashes come from the ends of the line, whatever is between them."""
    line, digest = make_line(seq, prev, BODY)

    assert lines.read_line(line[:-1]) == lines.LineEnds(seq, prev, digest, "")
    assert lines.is_whole(line[:-1])


@pytest.mark.parametrize("kind", ["torn", "rotated"])
def test_a_note_is_a_record_and_is_known_by_its_start(kind: str) -> None:
    """A verdict whose input speaks of notes is none."""
    line, _ = make_line(2, DIGEST, lines.note(kind, "why", {"bytes": 3}))
    record = msgspec.json.decode(line, type=Record)
    imposter, _ = make_line(3, DIGEST, strictjson.encode(content(1, input={"note": kind, "event": "log"})))

    assert (record.note, record.event, record.reason, record.input) == (kind, "log", "why", {"bytes": 3})
    assert len(record.id) == 32 and record.time.endswith("Z") and len(record.time) == 27
    assert [found.note for one in (line, imposter) if (found := lines.read_line(one[:-1]))] == [kind, ""]


GOOD, _ = make_line(1, "", BODY)


@pytest.mark.parametrize(
    "line",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(b"{}", id="an empty object"),
        pytest.param(b'{"timestamp":1}', id="foreign JSON"),
        pytest.param(GOOD, id="with its newline"),
        pytest.param(GOOD[:-1] + b"\r", id="with a carriage return"),
        pytest.param(GOOD[:-2], id="without its last byte"),
        pytest.param(b" " + GOOD[:-1], id="indented"),
        pytest.param(GOOD[:-1].replace(b'"v":1', b'"v":2'), id="another version"),
        pytest.param(GOOD[:-1].replace(b'"seq":1', b'"seq":01'), id="a zero in front"),
        pytest.param(GOOD[:-1].replace(b'"seq":1', b'"seq":0'), id="number 0"),
        pytest.param(GOOD[:-1].replace(b'"seq":1', b'"seq":' + b"9" * 5000), id="a number of 5,000 digits"),
        pytest.param(GOOD[:-1].replace(b'"prev":""', b'"prev":"0"'), id="a short hash before"),
        pytest.param(GOOD[:-67] + GOOD[-67:-3].upper() + GOOD[-3:-1], id="capitals in its hash"),
        pytest.param(b'{"v":1,"seq":1,"prev":"","hash":"' + b"0" * 64 + b'"}', id="no content"),
        pytest.param(b"\x00" * 500, id="zeros"),
    ],
)
def test_anything_else_is_no_line_of_ours(line: bytes) -> None:
    """In doubt a line is foreign."""
    assert lines.read_line(line) is None


def test_any_changed_byte_shows() -> None:
    """For every byte of a line: changed, it has another format, or its hash is wrong, or the change is visible."""
    line = GOOD[:-1]
    for at in range(len(line)):
        changed = line[:at] + bytes([line[at] ^ 1]) + line[at + 1 :]
        assert lines.read_line(changed) is None or not lines.is_whole(changed)


def test_every_value_that_can_be_recorded_stays_on_one_line() -> None:
    """Newlines, lone surrogates and other alphabets are escaped: the line is ASCII."""
    line, _ = make_line(1, "", strictjson.encode(content(1, reason="a\nb\u2028\ud800é\x00")))

    assert line.isascii() and line.count(b"\n") == 1
    assert json.loads(line)["reason"] == "a\nb\u2028\ud800é\x00"


def test_every_field_is_in_the_documentation() -> None:
    """`docs/event-log.md` has exactly one row for each field of a record."""
    page = (Path(__file__).parents[2] / "docs" / "event-log.md").read_text(encoding="utf-8")
    table = page.split("## Fields")[1].split("## ")[0]
    rows = [line.split("|")[1] for line in table.splitlines() if line.startswith("| `")]

    assert {name.strip(" `") for row in rows for name in row.split(",")} == set(Record.__struct_fields__)

"""Searching an event log: what is found by bytes is exactly what is found by looking at every record."""

import os
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from billhook.core import strictjson
from billhook.store.log import Record, RecordFilter
from billhook.store.log import reader as log_reader
from billhook.store.log.reader import LogReader, called, contains, has_text, hooks_of, spellings

from .logs import append, content, made_lines, put, reader

ANY_TEXT = st.text(st.characters(exclude_categories=()), min_size=1, max_size=12)
ODD_TEXT = st.text(
    st.sampled_from('\x00\x1f\x7f\n\r\t\b\f"\\/u0e9aé\u2028\ud800\udfff\U0001f600'), min_size=1, max_size=8
)
TEXT = ANY_TEXT | ODD_TEXT

GREP_AS_RG = """#!/bin/sh
# ripgrep's words for what grep can do as well
while [ "$1" != -e ]; do shift; done
LC_ALL=C exec grep --fixed-strings --text --byte-offset --with-filename --null "$@"
"""


def seqs(log: LogReader, wanted: RecordFilter) -> list[int]:
    """The numbers of the wanted records; the same from both ends."""
    ahead = [entry.record.seq for entry in log.forward(wanted)]
    assert [entry.record.seq for entry in log.backward(wanted)] == ahead[::-1]
    return ahead


def program(folder: Path, script: str) -> str:
    """A folder for PATH in which this is `rg`."""
    folder.mkdir()
    path = folder / "rg"
    path.write_text(script)
    path.chmod(0o755)
    return f"{folder}{os.pathsep}{os.environ['PATH']}"


# -- the bytes of a string


@pytest.mark.parametrize("step", [61, pytest.param(1, marks=pytest.mark.slow)], ids=["some of the rare", "all"])
def test_every_character_is_spelled_as_the_writer_spells_it(step: int) -> None:
    """Alone, and in a value that has something beyond ASCII, which makes the writer use another encoder."""
    for code in (*range(0x10000), *range(0x10000, sys.maxunicode + 1, step)):
        char = chr(code)
        spelled = spellings(char)
        assert strictjson.encode(char)[1:-1] in spelled
        assert strictjson.encode(char + "é")[1:-7] in spelled


@settings(deadline=None)
@given(before=TEXT, text=TEXT, after=TEXT)
def test_the_bytes_of_a_string_are_in_its_encoding(before: str, text: str, after: str) -> None:
    """With anything around it, as long as the text has whole characters only."""
    value = {"key": [before + text + after]}
    if text in json_text(value):
        assert any(spelled in strictjson.encode(value) for spelled in spellings(text))


def json_text(value: dict[str, list[str]]) -> str:
    """The text as a reader gets it back: two halves of a pair that meet are one character then."""
    read: Any = strictjson.loads(strictjson.encode(value))
    return str(read["key"][0])


PLACES = {
    "input": lambda text: {"input": {"command": f"a{text}b"}},
    "key of the input": lambda text: {"input": {f"a{text}b": 1}},
    "deep in the input": lambda text: {"input": {"a": [[{"b": [text]}]]}},
    "output": lambda text: {"output": text},
    "reason": lambda text: {"reason": f"because {text}"},
    "session": lambda text: {"session_id": text},
    "session name": lambda text: {"session_name": text},
    "tool": lambda text: {"tool": f"mcp__{text}"},
    "context": lambda text: {"context": ["x", text]},
    "message": lambda text: {"messages": [text]},
    "hook": lambda text: {"outcomes": [{"hook": text}]},
    "outcome's reason": lambda text: {"outcomes": [{"hook": "a"}, {"hook": "b", "reason": text, "error": None}]},
    "outcome's error": lambda text: {"outcomes": [{"hook": "b", "error": f"Traceback {text}"}]},
    "data": lambda text: {"outcomes": [{"hook": "b", "data": {"note": text}}]},
    "skipped": lambda text: {"not_asked": {"hook": text}},
    "skipped, its name": lambda text: {"not_asked": {text: "disabled"}},
    "rewritten": lambda text: {"rewritten_input": {"command": text}, "rewritten_output": None},
    "folder": lambda text: {"cwd": f"/{text}"},
    "side file": lambda text: {"input": {"command": "x" * 70_000 + text}},
    "outcome in a side file": lambda text: {"outcomes": [{"hook": text, "reason": "x" * 70_000}]},
}


@pytest.mark.parametrize("place", PLACES.values(), ids=PLACES.keys())
@settings(deadline=None, max_examples=15, suppress_health_check=[HealthCheck.too_slow])
@given(text=TEXT)
def test_any_text_that_is_in_a_record_is_found(place: Any, text: str) -> None:
    """At any position, for any text, and only in that record."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        append(root, content(1, input=None), content(2, **place(f"<{text}>")), content(3, input=None))
        assert seqs(reader(root), RecordFilter(text=f"<{text}>")) == [2]


@pytest.mark.parametrize(
    ("reported", "sought"),
    [
        ("\nfoo", "nfoo"), ("\tab", "tab"), ("é", "u00e9"), ("é", "00e"), ("é", "e9"), ("\\n", "\n"), ("\n", "\\n"),
        ('"', "\\"), ("\U0001f600", "\ud83d"), ("\x7f", "u007f"), ("\\u00e9", "é"), ("/", "\\/"),
    ],
)  # fmt: skip
def test_a_hit_inside_an_escape_is_none(tmp_path: Path, reported: str, sought: str) -> None:
    """The bytes are there, but the text is not."""
    append(tmp_path, content(1, input=f"x{reported}y"), content(2, input=f"x{sought}y"))
    assert seqs(reader(tmp_path), RecordFilter(text=sought)) == [2]


def test_common_parts_are_not_found(tmp_path: Path) -> None:
    """Names of fields, places in the chain and measured times are not searched."""
    append(tmp_path, content(1, outcomes=[{"hook": "guard", "duration_ms": 12.25}]), content(2))
    log = reader(tmp_path)
    for text in ("session_id", "prev", "duration_ms", "12.25", 'command":', "outcomes", '"v"', "mono"):
        assert seqs(log, RecordFilter(text=text)) == [], text


def test_ids_and_hashes_are_found_from_eight_digits_on(tmp_path: Path) -> None:
    """From their beginning: a short word of hex digits is in every other hash."""
    append(tmp_path, content(1, id="deadbeef" + "0" * 24, config="cafe1234" + "5" * 56), content(2))
    log = reader(tmp_path)
    records = [entry.record for entry in log.forward()]
    assert seqs(log, RecordFilter(text="deadbeef")) == seqs(log, RecordFilter(text="cafe1234")) == [1]
    assert seqs(log, RecordFilter(text="dead")) == seqs(log, RecordFilter(text="eadbeef0")) == []
    assert seqs(log, RecordFilter(text=records[0].hash)) == [1, 2]


def test_two_halves_of_a_pair_are_one_character(tmp_path: Path) -> None:
    """As for every reader of the log: JSON can't keep them apart."""
    append(
        tmp_path, content(1, input="<\ud83d\ude00>", outcomes=[{"hook": "\ud83d\ude00"}]), content(2, input="<\ud83d>")
    )
    log = reader(tmp_path)
    for halves in ("\ud83d\ude00", "\U0001f600"):
        assert seqs(log, RecordFilter(text=f"<{halves}>")) == seqs(log, RecordFilter(hook=halves)) == [1]
    assert seqs(log, RecordFilter(text="\ud83d")) == [2]


def test_numbers_are_found(tmp_path: Path) -> None:
    """As they are written, in the text of tools and hooks; true, false and null are not."""
    append(tmp_path, content(1, input={"pid": 424_242, "ratio": 0.125, "on": True, "none": None, "big": 10**40}))
    log = reader(tmp_path)
    for text, found in (("424242", [1]), ("0.125", [1]), ("1" + "0" * 40, [1]), ("true", []), ("null", [])):
        assert seqs(log, RecordFilter(text=text)) == found, text


def test_capitals_count_and_an_empty_text_is_no_wish(tmp_path: Path) -> None:
    """As it is typed."""
    append(tmp_path, content(1, input="Straße"), content(2))
    log = reader(tmp_path)
    assert (seqs(log, RecordFilter(text="straße")), seqs(log, RecordFilter(text="Straße"))) == ([], [1])
    assert seqs(log, RecordFilter(text="")) == [1, 2]


def test_deep_values_are_searched_without_recursion() -> None:
    """However deep."""
    value: Any = ["needle"]
    for _ in range(100_000):
        value = [value]
    assert contains(value, "needle") and not contains(value, "other")
    while isinstance(value, list):  # taking it apart by hand: so does Python, recursively
        value = value[0]


# -- filters

WORDS = ["", "a", "b", "PreToolUse", "none", "deny", "Bash", "é\x7f", '"', "event", "user/a", "explicit/a#2", "b#7"]
WORD = st.sampled_from(WORDS)
CONTENTS = st.fixed_dictionaries(
    {},
    optional={
        "session_id": WORD,
        "event": WORD,
        "tool": WORD | st.none(),
        "decision": WORD,
        "project": WORD,
        "reason": WORD | st.none(),
        "time": st.sampled_from([f"2026-01-0{day}T00:00:00.000000Z" for day in range(1, 5)]),
        "input": st.dictionaries(WORD, WORD, max_size=2),
        "outcomes": st.lists(st.fixed_dictionaries({"hook": WORD, "decision": WORD}), max_size=2),
        "not_asked": st.dictionaries(WORD, WORD, max_size=2),
    },
)
SOME = st.none() | st.frozensets(WORD, max_size=3)
DAYS = st.none() | st.sampled_from(["2026-01-02", "2026-01-03T00:00:00.000000Z"])
WISHES = st.builds(
    RecordFilter, sessions=SOME, events=SOME, tools=SOME, decisions=SOME, hook=st.none() | WORD, since=DAYS, until=DAYS,
    project=st.none() | WORD, text=st.none() | WORD,
)  # fmt: skip


def has_effect(record: Record, wanted: RecordFilter) -> bool:
    """The meaning of a filter, without bytes."""
    exact = ((wanted.sessions, record.session_id), (wanted.events, record.event), (wanted.tools, record.tool),
             (wanted.decisions, record.decision))  # fmt: skip
    return (
        all(values is None or value in values for values, value in exact)
        and (wanted.project is None or record.project == wanted.project)
        and (wanted.hook is None or any(called(name, wanted.hook) for name in hooks_of(record)))
        and (wanted.since is None or record.time >= wanted.since)
        and (wanted.until is None or record.time <= wanted.until)
        and (not wanted.text or has_text(record, wanted.text))
    )


@settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.too_slow])
@given(contents=st.lists(CONTENTS, min_size=1, max_size=8), wanted=WISHES, large=st.booleans())
def test_filters_by_bytes_are_filters_by_records(
    contents: list[dict[str, Any]], wanted: RecordFilter, large: bool
) -> None:
    """Any records, any wishes, with side files and without."""
    more = {"messages": ["x" * 70_000]} if large else {}
    contents = [{"decision": "none", **one, **more} for one in contents]  # every record has it
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        append(root, *(content(number, **one) for number, one in enumerate(contents)))
        log = reader(root)
        whole = [log.whole(entry.record) for entry in log.forward()]
        assert seqs(log, wanted) == [record.seq for record in whole if has_effect(record, wanted)]


def test_a_filter_meets_only_what_has_its_bytes(tmp_path: Path) -> None:
    """A foreign line without them is passed over uncounted; one with them is counted."""
    one, two = made_lines(2)
    log = put(tmp_path, one + b'{"event":"x"}\n' + b'{"session_id":"s1"}\n' + two)
    assert seqs(log, RecordFilter(sessions=frozenset({"s1"}))) == [1, 2]
    assert log.foreign == 2  # once from each end


# -- ripgrep


@pytest.fixture
def always(monkeypatch: pytest.MonkeyPatch) -> None:
    """A log of any size is worth a process."""
    monkeypatch.setattr(log_reader, "_FEWEST_BYTES", 0)


NEEDS_RG = pytest.mark.skipif(shutil.which("rg") is None, reason="ripgrep is not installed")


@pytest.mark.usefixtures("always")
@pytest.mark.parametrize("script", [GREP_AS_RG, pytest.param("", marks=NEEDS_RG)], ids=["stand-in", "real"])
def test_with_ripgrep_the_same_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    """In many rotated files, with foreign lines, half a line at the end, side files, and every odd text."""
    texts = ["needle", "Grüße", '\x7f\n"', "-e", "--files", "a:b", "\ud800", "$(x)", "*.", "x" * 70_000]
    contents = [content(number, input=[texts[number % len(texts)]]) for number in range(120)]
    append(tmp_path, *contents, max_bytes=5_000)
    log = reader(tmp_path)
    (log.folder / "hooks-000000000000.jsonl").write_bytes(b"\xff\xfe\0needle\n" + b"needle" * 10_000 + b"\nneedle")
    with (log.folder / "hooks.jsonl").open("ab") as file:
        file.write(b'{"v":1,"needle')
    wishes = [RecordFilter(text=text) for text in (*texts, "none of these")] + [
        RecordFilter(text="needle", tools=frozenset("x"))
    ]
    path = program(tmp_path / "bin", script) if script else os.environ["PATH"]
    monkeypatch.setenv("PATH", os.devnull)
    assert log_reader.program() is None
    without = [seqs(log, wanted) for wanted in wishes]
    monkeypatch.setenv("PATH", path)
    assert log_reader.program() is not None
    assert [seqs(log, wanted) for wanted in wishes] == without
    assert len(log.files()) > 10 and without[0] and without[-3] and not without[-2]


BROKEN = {
    "fails": "#!/bin/sh\nexit 2\n",
    "is killed": "#!/bin/sh\nkill -9 $$\n",
    "prints nonsense": "#!/bin/sh\necho nonsense\n",
    "prints other files": "#!/bin/sh\nprintf '/etc/passwd\\0001:needle\\n'\n",
    "can't be started": "#!/no/such/interpreter\n",
    "is binary": "\x7fELF",
    "finds something and prints nothing": "#!/bin/sh\nexit 0\n",
    "prints too much": "#!/bin/sh\nexec yes\n",
    "stops in the middle": "#!/bin/sh\nprintf '/dev/fd/7\\00012'\n",
}


@pytest.mark.usefixtures("always")
@pytest.mark.parametrize("script", BROKEN.values(), ids=BROKEN.keys())
def test_a_ripgrep_that_fails_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    """The files are searched without it."""
    append(tmp_path, *(content(number, input="needle") for number in range(40)), max_bytes=5_000)
    monkeypatch.setenv("PATH", program(tmp_path / "bin", script))
    assert log_reader.program() == str(tmp_path / "bin" / "rg")
    assert len(seqs(reader(tmp_path), RecordFilter(text="needle"))) == 40


@pytest.mark.usefixtures("always")
def test_places_that_are_wrong_lead_to_no_wrong_record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is at a place is read and judged; a place beyond the end is nothing."""
    append(tmp_path, content(1, input="needle"), content(2), content(3))
    script = (
        "#!/bin/sh\nfor last; do :; done\nfor at in 0 5 300 900 99999999; do printf '%s\\0%s:x\\n' $last $at; done\n"
    )
    monkeypatch.setenv("PATH", program(tmp_path / "bin", script))
    assert [entry.record.seq for entry in reader(tmp_path).forward(RecordFilter(text="needle"))] == [1]


@pytest.mark.usefixtures("always")
def test_ripgrep_in_the_folder_that_we_are_in_is_not_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A project must not bring its own."""
    path = program(tmp_path / "bin", f"#!/bin/sh\ntouch {tmp_path}/ran\n")
    monkeypatch.chdir(tmp_path / "bin")
    for relative in (".", "", "../bin"):
        monkeypatch.setenv("PATH", path.replace(str(tmp_path / "bin"), relative, 1))
        append(tmp_path, content(1, input="needle"))
        assert seqs(reader(tmp_path), RecordFilter(text="needle"))
    assert not (tmp_path / "ran").exists()


def test_an_id_in_a_large_log_is_found(tmp_path: Path) -> None:
    """So many blocks that the quicker way to look is taken."""
    lines = b"".join(made_lines(18_000))
    log = put(tmp_path, lines)
    assert log.bytes > 5 << 20
    for number in (1, 2, 7_000, 14_999, 15_000):
        entry = log.find(f"{number:032x}")
        assert entry is not None and entry.record.seq == number
        assert seqs(log, RecordFilter(text=f"echo {number}"))[0] == number

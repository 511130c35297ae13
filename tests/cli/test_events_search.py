"""`billhook events search`, `show` and `files`."""

from pathlib import Path

import pytest
from inline_snapshot import snapshot

from cli.recorded import Recorded, a_night


@pytest.fixture
def place(tmp_path: Path) -> Recorded:
    return Recorded(tmp_path)


@pytest.fixture(scope="module")
def night(tmp_path_factory: pytest.TempPathFactory) -> Recorded:
    """A log that tests don't change."""
    place = Recorded(tmp_path_factory.mktemp("night"))
    a_night(place)
    return place


# -- search


def test_search(night: Recorded) -> None:
    """Each record with the places in which the text occurs."""
    assert night.screen("search", "turn-tracker", "--human") == snapshot("""\
NR  TIME      SESSION      TURN  EVENT       WHAT              DECISION       MS
2026-03-01
 5  21:05:00  jolly-squid     1  PreToolUse  Bash git push...  deny          1.5
        outcomes[0].hook: turn-tracker
-- stderr

1 of 11 records
-- exit 0
""")
    assert night.screen("search", "push", "--human") == snapshot("""\
NR  TIME      SESSION      TURN  EVENT       WHAT              DECISION       MS
2026-03-01
 5  21:05:00  jolly-squid     1  PreToolUse  Bash git push...  deny          1.5
        reason: no force pushes
        input.command: git push --force origin main
        outcomes[1].reason: no force pushes
-- stderr

1 of 11 records
-- exit 0
""")


def test_hits_are_marked(night: Recorded) -> None:
    """On a terminal, the found text is highlighted."""
    assert "\x1b[30m\x1b[43mpush\x1b[0m" in night.on_terminal("search", "push").out


@pytest.mark.parametrize(
    ("arguments", "seqs"),
    [
        pytest.param(("turn-tracker",), [5], id="a hook"),
        pytest.param(("git push",), [5], id="a command"),
        pytest.param(("git", "push"), [5], id="words that were not quoted"),
        pytest.param(("日本語",), [11], id="beyond ASCII"),
        pytest.param(("release,\nplease",), [2], id="two lines"),
        pytest.param(("build",), [6, 7], id="a call and its result"),
        pytest.param(("build", "-e", "PreToolUse"), [6], id="with a filter"),
        pytest.param(("startup", "--session", "."), [10], id="in a session"),
        pytest.param(("startup", "--first", "1"), [1], id="the first"),
        pytest.param(("startup", "--limit", "1"), [10], id="the newest"),
        pytest.param(("Turn-Tracker",), [], id="capitals count"),
        pytest.param(("mono",), [], id="not the log's own words"),
        pytest.param((".*",), [], id="not a regular expression"),
    ],
)
def test_what_is_found(night: Recorded, arguments: tuple[str, ...], seqs: list[int]) -> None:
    """In all fields of records, with the usual filters."""
    assert night.seqs("search", *arguments) == seqs


def test_nothing_is_found(night: Recorded) -> None:
    """Exit 0, and a hint about upper case."""
    ended = night.run("search", "Turn-Tracker")

    assert (ended.code, ended.out) == (0, "")
    assert ended.err == "0 of 11 records in the log match\n\nhint: case matters; try `turn-tracker`\n"


def test_at_most_fifty(place: Recorded) -> None:
    """Unless --limit is given."""
    for _ in range(53):
        place.add("Stop", reason="the same")

    assert place.seqs("search", "the same") == list(range(4, 54))
    assert "the newest 50 (--limit 0 for all" in place.run("search", "the same").err
    assert len(place.seqs("search", "the same", "--limit", "0")) == 53


def test_in_a_side_file(place: Recorded) -> None:
    """Text in side files is found, too."""
    place.add("PreToolUse", "Bash", {"command": "x" * 100_000 + " needle " + "y" * 100})

    assert place.seqs("search", "needle") == [1]
    assert "input.command: ...xxx" in place.run("search", "needle", "--human").out


def test_a_side_file_that_is_gone(place: Recorded) -> None:
    """Records that could not be searched are reported; a record with the text in its line is still found."""
    place.add("PreToolUse", "Bash", {"command": "x" * 100_000 + " needle"}, reason="pin")
    place.add("PreToolUse", "Bash", {"command": "y" * 100_000 + " needle"}, reason="pin")
    place.add("Stop", reason="needle")
    files = list((place.log.parent / "large").iterdir())
    files[0].unlink()

    ended = place.run("search", "needle")
    assert len(ended.out.splitlines()) == 2
    assert ended.err == (
        "note: 1 record could not be searched completely: its side file is missing or damaged; "
        "`billhook events verify` names it\n"
    )
    assert place.run("search", "pin").err == ""

    files[1].write_bytes(b"{}")
    assert (
        "2 records could not be searched completely: their side files are"
        in place.run("search", "needle", "--human").err
    )


def test_many_hits_in_one_record(place: Recorded) -> None:
    """Three are shown, the others counted."""
    place.add("Stop", given={"a": ["needle"] * 9})

    assert "and 6 more: billhook events show 1" in place.run("search", "needle", "--human").out


# -- show


def test_show(night: Recorded) -> None:
    """All fields of the record, and the next command."""
    assert night.screen("show", "5", "--human") == snapshot("""\
PreToolUse Bash: git push --force origin main
verdict   deny
reason    no force pushes

time      2026-03-01 21:05:00.000+00:00
session   jolly-squid (7c9e6679-7425-40de-944b-e07fc1f90ae7), turn 1
tool use  t2
folder    ~/shop
called by claude
took      N.N ms
id        000005ababababababababababababab
log       record 5 of ~/.claude/hooks/-home-me-shop/hooks.jsonl

hooks that ran
  turn-tracker  no objection         N.N ms
                {"turnId":"7c9e6679-7425-40de-944b-e07fc1f90ae7:1","sequence":1}
  no-force      deny                 N.N ms  .billhook/hooks.yaml:8
                no force pushes

skipped hooks
  scan          did not match

input
  {
    "command": "git push --force origin main"
  }
-- stderr

hint: `billhook explain 000005ababababababababababababab` shows which hook decided, and what would happen today
-- exit 0
""")


def test_show_in_a_pipe(place: Recorded) -> None:
    """One line of JSON; a missing part is reported."""
    place.add("PreToolUse", "Bash", {"command": "x" * 100_000}, reason="long")

    assert place.lines("show", "1") == place.lines("show", "1", "--json") == place.lines()
    assert "--json and --human can't be combined" in place.complaint("show", "1", "--json", "--human")

    for path in (place.log.parent / "large").iterdir():
        path.unlink()
    (record,) = place.lines("show", "1")
    assert (record["reason"], record["input"]) == ("long", None)
    assert place.run("show", "1").err.startswith("note: part of this record can't be shown: ")


def test_show_what_failed(night: Recorded) -> None:
    """Which hook failed, how, and that the event continued."""
    assert night.screen("show", "6", "--human") == snapshot("""\
PreToolUse Bash: rm -rf build
verdict   failed open

time      2026-03-01 21:06:00.000+00:00
session   jolly-squid (7c9e6679-7425-40de-944b-e07fc1f90ae7), turn 1
tool use  t3
folder    ~/shop
called by claude
took         N.N ms
id        000006ababababababababababababab
log       record 6 of ~/.claude/hooks/-home-me-shop/hooks.jsonl

hooks that ran
  guard  failed               N.N ms
         exit code 1: jq: not found
         failed open: the event continued without its answer (on_failure: allow)
  slow   timed out            N.N ms
         no answer within 5 s
         failed open: the event continued without its answer (on_failure: allow)

input
  {
    "command": "rm -rf build"
  }
-- stderr

hint: `billhook explain 000006ababababababababababababab` shows which hook decided, and what would happen today
-- exit 0
""")


@pytest.mark.parametrize("word", ["5", "000005ab", "000005" + "ab" * 13, "000005AB"])
def test_by_number_and_id(night: Recorded, word: str) -> None:
    """A number from the table, an id, or the beginning of one."""
    assert night.seqs("show", word, "--json") == [5]


@pytest.mark.parametrize(
    ("word", "message"),
    [
        ("99", "no record here has the number 99\n\nhint: the newest is 11"),
        ("0000", "`0000` is not the number or id of a record"),
        ("zzzzzzzz", "`zzzzzzzz` is not the number or id of a record"),
        ("00ffff", "no record has the id `00ffff`"),
        ("9" * 30, "no record has the id `999"),
    ],
)
def test_records_that_are_not_there(night: Recorded, word: str, message: str) -> None:
    """An error with a hint."""
    assert message in night.complaint("show", word)


def test_an_ambiguous_id(place: Recorded) -> None:
    """Both are named."""
    place.add("Stop", id="0" * 10 + "a" * 22)
    place.add("Stop", id="0" * 10 + "b" * 22)

    assert "0000000000aaaa" in place.complaint("show", "000000")
    assert "0000000000bbbb" in place.complaint("show", "000000")


def test_a_record_of_another_project(night: Recorded) -> None:
    """Found by its id; numbers are for one log only."""
    other = Recorded(night.home, "elsewhere")
    id_ = other.add("Stop", id="f" * 32, reason="over there")

    assert "over there" in night.run("show", id_).out


def test_a_number_in_a_full_file(place: Recorded) -> None:
    """Records of rotated files are found by their number."""
    from billhook.store.log import eventlog

    log = eventlog.open_log(place.root, str(place.project), max_bytes=3000)
    for number in range(30):
        log.append({"id": f"{number:032x}", "time": "2026-03-01T21:00:00.000000Z", "mono": 1.0, "event": "Stop",
                    "project": str(place.project), "reason": f"this is {number}"})  # fmt: skip
    assert len(list(place.log.parent.glob("hooks-*.jsonl"))) > 2

    numbers = {record["seq"]: record["reason"] for record in place.lines()}
    assert len(numbers) == 30
    for seq in (1, 2, 11, 17, max(numbers)):
        (shown,) = place.lines("show", str(seq), "--json")
        assert shown["seq"] == seq
        assert shown["reason"] == numbers.get(seq, shown["reason"])


# -- files


def test_files(place: Recorded) -> None:
    """A call and its result count once; paths are relative to the session's folder."""
    path = f"{place.project}/app.py"
    for event in ("PreToolUse", "PostToolUse"):
        place.add(event, "Read", {"file_path": path}, tool_use_id="t1")
        place.add(event, "Edit", {"file_path": "app.py"})
        place.add(event, "Grep", {"pattern": "x", "path": "lib"}, tool_use_id="t2")
    place.add("PreToolUse", "Write", {"file_path": "/etc/passwd"}, decision="deny")
    place.add("PostToolUse", "Write", {"file_path": "new.txt"})
    place.add("PreToolUse", "mcp__fs__move", {"path": "lib/old.py"})
    place.add("PreToolUse", "Write", {"file_path": "asked.txt"}, rewritten_input={"file_path": "really.txt"})
    place.add("PreToolUse", "Bash", {"command": "cat secret.txt"})

    assert place.screen("files", "--human") == snapshot("""\
FILE         READS  WRITES  OTHER  DENIED  LAST
app.py           1       1      0       0  2026-03-01 21:02
lib              1       0      0       0  2026-03-01 21:03
/etc/passwd      0       0      0       1  2026-03-01 21:07
new.txt          0       1      0       0  2026-03-01 21:08
lib/old.py       0       0      1       0  2026-03-01 21:09
really.txt       0       1      0       0  2026-03-01 21:10
-- stderr

6 of 6 files
-- exit 0
""")
    assert place.lines("files", "--last", "1") == [
        {"path": f"{place.project}/really.txt", "reads": 0, "writes": 1, "other": 0, "denied": 0,
         "last": "2026-03-01T21:10:00.000000Z"}
    ]  # fmt: skip


def test_files_of_a_session(night: Recorded) -> None:
    """With the usual filters."""
    assert [one["path"] for one in night.lines("files", ".")] == [f"{night.project}/notes/日本語.md"]
    assert [one["path"] for one in night.lines("files", "jolly-squid")] == [f"{night.project}/app.py"]
    assert night.lines("files", "-d", "deny") == []
    assert night.run("files", "-d", "deny").err == "0 of 0 files\n"

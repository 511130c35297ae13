"""`billhook events`: whole screens, filters, order, and formats."""

import json
import re
from pathlib import Path

import pytest
from inline_snapshot import snapshot

from billhook.cli.screen import cells
from billhook.config.declaration import LAYERS
from billhook.store.log.reader import called
from cli.recorded import ONE, TWO, Recorded, a_night
from cli.terminal import billhook


@pytest.fixture
def place(tmp_path: Path) -> Recorded:
    return Recorded(tmp_path)


@pytest.fixture(scope="module")
def night(tmp_path_factory: pytest.TempPathFactory) -> Recorded:
    """A log that tests don't change."""
    place = Recorded(tmp_path_factory.mktemp("night"))
    a_night(place)
    return place


def test_the_table(night: Recorded) -> None:
    """A call and its result are one row, with denials and failures below it."""
    assert night.screen("--human", COLUMNS="100") == snapshot("""\
NR  TIME      SESSION      TURN  EVENT             WHAT                         DECISION          MS
2026-03-01
 1  21:01:00  jolly-squid     1  SessionStart      startup                      none             1.5
 2  21:02:00  jolly-squid     1  UserPromptSubmit  Ship the release, please     none             1.5
 3  21:03:00  jolly-squid     1  Pre+Post          Read app.py                  none             3.0
 5  21:05:00  jolly-squid     1  PreToolUse        Bash git push --force or...  deny             1.5
        no-force: no force pushes
 6  21:06:00  jolly-squid     1  Pre+PostFailure   Bash rm -rf build            failed open   5013.8
        guard failed (event continued): exit code 1: jq: not found
        slow timed out (event continued): no answer within 5 s
        the tool failed: Permission denied
 8  21:08:00  jolly-squid     1  PreToolUse        mcp__db__query {"sql":"s...  ask              1.5
        a person decides
 9  21:09:00  jolly-squid     1  Stop                                           keep going       1.5
        the tests did not run
10  21:10:00  7c9e0000        1  SessionStart      startup                      none             1.5
11  21:11:00  7c9e0000        3  PreToolUse        Write notes/日本語.md        none             1.5
-- stderr

11 of 11 records
-- exit 0
""")


def test_one_session(night: Recorded) -> None:
    """Its name and id are above the table, not in every row."""
    assert night.screen(".", "--human") == snapshot("""\
session 7c9e0000-aaaa-40de-944b-000000000002
NR  TIME      TURN  EVENT         WHAT                   DECISION       MS
2026-03-01
10  21:10:00     1  SessionStart  startup                none          1.5
11  21:11:00     3  PreToolUse    Write notes/日本語.md  none          1.5
-- stderr

2 of 11 records
-- exit 0
""")


def test_a_narrow_terminal(night: Recorded) -> None:
    """No line is wider than the terminal."""
    for columns in (60, 66, 72, 80, 150):
        screen = night.run("--human", COLUMNS=str(columns)).out
        assert max(map(cells, screen.splitlines())) <= columns


def test_help(place: Recorded) -> None:
    """Options, commands, examples and exit codes."""
    assert place.screen("--help") == snapshot("""\
Usage: billhook events [SESSION] [OPTIONS]

  Show the events of this project, with the decisions of hooks.

  SESSION is `.` (the newest of this project), a session's name, an id or its
  first 6 characters, or several separated by commas. Without it, all sessions
  of this project. The oldest event comes first, also in JSON.

  On a terminal, `billhook events` and its commands print tables. In a pipe,
  most of them print JSON lines; --human prints tables there, too. save,
  rename and verify print text, unless --json is given.

Options:
  -e, --event E,..           Only these events, in any spelling; `log` selects
                             notes about the log itself, such as one about a
                             damaged line.
  -t, --tool T,..            Only these tools, by their names in any supported
                             agent.
  -d, --decision D,..        Only these decisions: none, allow, ask, defer,
                             deny.
  --hook H                   Only events for which this hook ran, or was
                             skipped although it matched; `guard` also matches
                             project/guard and user/guard#2.
  --failed                   Only events for which a hook failed, timed out or
                             could not start.
  --since, --from-time TIME  The start: 1h, 30m, 2d (ago), 22:00, yesterday, a
                             date, or ISO 8601 (local time unless it has a
                             zone).
  --until, --to-time TIME    The end, inclusive; a date alone means the end of
                             that day.
  -n, --last N               The newest N.
  --first N                  The oldest N.
  --limit N                  At most N, the newest unless --first is given; 0:
                             all.  [default: 100 in the table]
  --offset N                 Skip the newest N; with --first, the oldest N.
  --json                     JSON lines: each record as logged, with its
                             event. The default in a pipe.
  --human                    The table, also in a pipe.
  -m, --minimal              One short line for each record; in JSON, only a
                             few fields.
  -f, --follow, --tail       Show the last 10, or --last N, and then new ones
                             until Ctrl-C.
  -h, --help                 Show this message and exit.

Commands (`billhook events COMMAND --help` has details):
  list    The sessions of this project, with counts of their events.
  search  The events that contain some text.
  show    One event in full.
  save    Print an event as a test case, or as a `fire` command.
  files   The files that tools read and wrote.
  stats   How often and how long each hook ran, the slowest first.
  rename  Name a session.
  verify  Check that nothing in the log was changed, removed or added.
  export  The raw lines of the log, to archive or send elsewhere.

  Examples:
    billhook events . --last 5
    billhook events --decision deny,ask --since 1d
    billhook events --hook my-guard --since 22:00     why did it not run?
    billhook events jolly-squid --tool Bash --json | jq .input.command
    billhook events search "turn-tracker"
    billhook events --follow

  Exit code: 0 success, also if nothing matches; 1 `verify` found a change; 2
  usage, or a log that can't be read.
-- exit 0
""")


@pytest.mark.parametrize(
    ("line", "completed"),
    [("billhook events ", "list"), ("billhook events --la", "--last"), ("billhook events . --fo", "--follow"),
     ("billhook events list --a", "--all"), ("billhook events ver", "verify")],
)  # fmt: skip
def test_completion(place: Recorded, line: str, completed: str) -> None:
    """The shell completes commands and options, also after a session."""
    words = line.split(" ")
    env = place.environment(
        COMP_WORDS=line, COMP_CWORD=str(len(words) - 1), _BILLHOOK_COMPLETE="bash_complete"
    )  # fmt: skip

    assert f"plain,{completed}\n" in billhook(env=env, cwd=place.project).out


def test_an_empty_log(place: Recorded) -> None:
    """The path of the log, and what writes records."""
    assert place.screen("--human") == snapshot("""\
no events are recorded for ~/shop

looked in ~/.claude/hooks/-home-me-shop/hooks.jsonl

A record is written for each event in this project: from an agent that runs
`billhook hook`, from `billhook fire`, or from a program that loads this
configuration.
-- stderr

hint: `billhook fire PreToolUse --tool Bash` records a first event
-- exit 0
""")


@pytest.mark.parametrize("arguments", [(), (".",), ("list",), ("search", "x"), ("files",), ("export",), ("--minimal",)])
def test_an_empty_log_is_no_error(place: Recorded, arguments: tuple[str, ...]) -> None:
    """For every command; standard output stays empty, because it is for JSON lines."""
    ended = place.run(*arguments)

    assert (ended.code, ended.out) == (0, "")
    assert "no events are recorded for ~/shop" in ended.err


def test_lines_of_json(night: Recorded) -> None:
    """In a pipe: the unchanged lines of the log, each with its event after the hash."""
    shown = night.run()
    assert night.run("--json").out == shown.out and shown.err == ""
    for line, logged in zip(shown.out.splitlines(), night.log.read_text().splitlines(), strict=True):
        assert line.startswith(f'{logged[:-1]},"payload":{{')
        record, payload = json.loads(logged), json.loads(line)["payload"]
        assert payload["hook_event_name"] == record["event"] and payload.get("tool_name") == record.get("tool")
    third = shown.out.splitlines(keepends=True)[2]
    assert night.run("show", "3").out == third and night.run("export").out == night.log.read_text()


def test_on_a_terminal(night: Recorded) -> None:
    """The table, with colour by decision; --json works there, too."""
    screen = night.on_terminal().out
    assert "\x1b[31mdeny\x1b[0m" in screen
    assert "\x1b[35mfailed open\x1b[0m" in screen
    assert "\x1b[33mask\x1b[0m" in screen
    assert "\x1b[" not in night.on_terminal(NO_COLOR="1").out
    for arguments in (("--minimal",), ("--hook", "scan"), ("show", "3")):
        assert not re.search(r"(^|0m)[^\x1b]*\x1b\[0m", night.on_terminal(*arguments).out, re.M), arguments
    assert [json.loads(line)["seq"] for line in night.on_terminal("--json", "--last", "2").out.splitlines()] == [10, 11]


def test_minimal(night: Recorded) -> None:
    """One short line each; in JSON a few fields."""
    assert night.screen("--minimal", "--human", "--last", "3") == snapshot("""\
2026-03-01 21:09:00 jolly-squid Stop keep going
2026-03-01 21:10:00 7c9e0000 SessionStart none startup
2026-03-01 21:11:00 7c9e0000 PreToolUse none Write notes/日本語.md
-- stderr

3 of 11 records
-- exit 0
""")
    (record,) = night.lines("--minimal", "--last", "1")
    assert ",".join(record) == "id,time,session_id,session_name,turn_id,event,tool,decision,reason"


@pytest.mark.parametrize(
    ("arguments", "seqs"),
    [
        pytest.param((), range(1, 12), id="all"),
        pytest.param(("--last", "3"), [9, 10, 11], id="the newest, oldest first"),
        pytest.param(("-n3",), [9, 10, 11], id="-n"),
        pytest.param(("--last", "0"), [], id="none of the newest"),
        pytest.param(("--last", "99"), range(1, 12), id="more than there are"),
        pytest.param(("--first", "3"), [1, 2, 3], id="the oldest"),
        pytest.param(("--limit", "2"), [10, 11], id="at most"),
        pytest.param(("--limit", "0"), range(1, 12), id="no limit"),
        pytest.param(("--limit", "2", "--offset", "2"), [8, 9], id="the page before"),
        pytest.param(("--offset", "9"), [1, 2], id="all but the newest"),
        pytest.param(("--offset", "99"), [], id="nothing left"),
        pytest.param(("--first", "5", "--offset", "3"), range(4, 9), id="without the oldest"),
        pytest.param(("--last", "3", "--offset", "2"), [7, 8, 9], id="without the newest"),
        pytest.param(("--last", "5", "--limit", "3", "--offset", "2"), [7, 8, 9], id="the smaller of two numbers"),
        pytest.param(("--first", "5", "--limit", "2"), [1, 2], id="a limit counts from the oldest, too"),
        pytest.param(("--last", "5", "--limit", "2"), [10, 11], id="a limit below --last"),
        pytest.param(("-e", "Stop"), [9], id="an event"),
        pytest.param(("-e", "pre_tool_use,stop"), [3, 5, 6, 8, 9, 11], id="events, in any spelling"),
        pytest.param(("-e", "SessionStart", "-e", "stop"), [1, 9, 10], id="an option twice"),
        pytest.param(("-e", "pre-tool-use", "--last", "2"), [8, 11], id="the newest that pass"),
        pytest.param(("--tool", "bash"), [5, 6, 7], id="a tool, by a dialect's name"),
        pytest.param(("--tool", "READ,write_file"), [3, 4, 11], id="tools, in any spelling"),
        pytest.param(("--tool", "mcp__db__query"), [8], id="a tool of a server"),
        pytest.param(("--tool", "mcp__no__such"), [], id="a tool that never came"),
        pytest.param(("-d", "deny"), [5], id="a decision"),
        pytest.param(("-d", "block,ask"), [5, 8], id="decisions, in the words of others"),
        pytest.param(("--hook", "scan"), [5], id="a skipped hook"),
        pytest.param(("--hook", "no-force"), [5], id="a hook that was asked"),
        pytest.param(("--hook", "turn-tracker-PreToolUse"), [5], id="a hook by the id of seed 002"),
        pytest.param(("--hook", "unknown"), [], id="an unknown hook"),
        pytest.param(("--failed",), [6], id="where a hook failed"),
        pytest.param(("--since", "2026-03-01T21:09"), [9, 10, 11], id="since"),
        pytest.param(("--until", "2026-03-01T21:02:00Z"), [1, 2], id="until"),
        pytest.param(("--since", "2026-03-01 23:05+02:00", "--until", "2026-03-01T21:06"), [5, 6], id="between"),
        pytest.param(("--since", "2026-03-01", "--until", "2026-03-01"), range(1, 12), id="a day"),
        pytest.param(("--until", "2026-02-28"), [], id="the day before"),
        pytest.param(("--from-time", "1h ago"), [], id="by the names of seed 002"),
        pytest.param((".",), [10, 11], id="the newest session"),
        pytest.param((".", "-n1"), [11], id="the newest of the newest session"),
        pytest.param(("jolly-squid", "-t", "Read"), [3, 4], id="a session and a tool"),
        pytest.param(("-t", "Read", "jolly-squid"), [3, 4], id="the session last"),
    ],
)
def test_filters_and_slices(night: Recorded, arguments: tuple[str, ...], seqs: list[int]) -> None:
    """Filters, and then a part of the matching records; always oldest first."""
    assert night.seqs(*arguments) == list(seqs)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("-e", "PreToolUsed"), "no event `PreToolUsed`\n\nhint: did you mean `PreToolUse`?"),
        (("-t", "Baash"), "no tool `Baash`, and no record with it\n\nhint: did you mean `Bash`?"),
        (("-d", "denny"), "no decision `denny`\n\nhint: did you mean `deny`?"),
        (("-e", ","), "--event is empty"),
        (("--since", "soon"), "--since `soon` is not a time\n\nhint: as in 1h"),
        (("--since", "1h", "--until", "2h"), "--since is later than --until"),
        (("--first", "1", "--last", "1"), "--first and --last can't be combined"),
        (("--last", "-1"), "--last must not be negative, but is -1"),
        (("--last", "x"), "`x` is not a valid integer"),
        (("--json", "--human"), "--json and --human can't be combined"),
        (("--follow", "--first", "3"), "--follow only works with --last"),
        (("--jsn",), "no option `--jsn`\n\nhint: did you mean `--json`? (see `billhook events --help`)"),
        (("--json", "search", "x"), "write `billhook events search x OPTIONS`"),
        (("serach", "x"), "no session `serach`\n\nhint: did you mean `search`?"),
        (("search",), "missing argument `QUERY`"),
        (("search", " "), "QUERY is empty"),
        (("list", "--lst"), "see `billhook events list --help`"),
        (("show",), "missing argument `NR|ID`"),
        (("rename", "."), "missing argument `NAME`"),
    ],
)
def test_wrong_usage(night: Recorded, arguments: tuple[str, ...], message: str) -> None:
    """What is wrong, with a suggestion."""
    complaint = night.complaint(*arguments)

    assert complaint.startswith("error: ") and "\n\nhint: " in complaint
    assert message in complaint


def test_an_event_that_is_only_in_the_log(place: Recorded) -> None:
    """Agents may have other events and tools."""
    place.add("Teleported", "beam_up", {"to": "ship"})

    place.add("teleported")
    place.add("Stop")

    for spelling in ("Teleported", "teleported", "TELE-PORTED"):
        assert place.seqs("-e", spelling) == [1, 2]
    assert place.seqs("-e", "tele_ported,stop") == [1, 2, 3]
    assert "no event `teleport`\n\nhint: did you mean `teleported`?" in place.complaint("-e", "teleport")
    assert place.seqs("-t", "beam_up") == [1]


def test_notes_of_the_log(place: Recorded) -> None:
    """Shown on request, from either end."""
    place.add("Stop")
    with place.log.open("ab") as log:
        log.write(b'{"v":1,"seq":2,"torn')
    place.add("Stop")

    assert [record["note"] for record in place.lines("-e", "log")] == ["torn"]
    assert place.seqs("-e", "Log", "--last", "1") == place.seqs("-e", "log", "--first", "1") == [2]
    assert place.seqs("-e", "log,Stop") == [1, 2, 3]
    assert place.seqs() == [1, 3]
    assert " log " in place.run("-e", "log", "--human").out


def test_a_hook_by_its_plain_name(place: Recorded) -> None:
    """It matches all hooks of that name, also with a layer or number; a full name matches only that one."""
    for name in ("guard", "project/guard", "user/guard#2", "my-guard", "guard#x", "team/guard"):
        place.add("Stop", outcomes=[{"hook": name, "duration_ms": 2.0}])
    place.add("Stop", not_asked={"user/guard": "did not match", "project/guard": "condition false"})

    assert place.seqs("--hook", "guard") == [1, 2, 3, 7]
    assert place.seqs("--hook", "project/guard") == [2, 7]
    assert place.seqs("--hook", "user/guard") == [7]
    assert place.seqs("--hook", "guard#2") == place.seqs("--hook", "user/guard#2") == [3]
    shown = place.run("--hook", "guard", "--human").out
    assert "        user/guard#2: no objection, 2.0 ms\n" in shown
    assert "        user/guard: skipped: did not match\n        project/guard: skipped: condition false\n" in shown
    (stats,) = place.lines("stats", "--hook", "guard", "--json")
    assert [hook["name"] for hook in stats["hooks"]] == ["guard", "project/guard", "user/guard#2"]


@pytest.mark.parametrize("layer", LAYERS)
def test_layers_of_hooks(layer: str) -> None:
    """The log's queries know every layer that a name may begin with."""
    assert called(f"{layer}/guard", "guard")


def test_a_limit_is_reported(place: Recorded) -> None:
    """The table shows the newest hundred, and explains how to see the others."""
    for _ in range(103):
        place.add("Stop")

    ended = place.run("--human")

    assert ended.out.count(" Stop ") == 100
    assert ended.err == (
        "\n100 of 103 records; the newest 100 (--limit 0 for all, --offset 100 for earlier ones)\n"
    )  # fmt: skip
    assert place.run("--human", "--limit", "0").out.count(" Stop ") == 103
    assert len(place.seqs()) == 103


def test_what_others_wrote_into_the_log(place: Recorded) -> None:
    """Skipped and counted, never fatal."""
    place.add("Stop")
    with place.log.open("ab") as log:
        log.write(b'{"timestamp": "2026", "eventType": "Stop"}\n\x00\xff\xfe\n[[[[\n')
    place.add("Stop")

    assert place.seqs() == [1, 2]
    assert place.run().err == "skipped 3 lines that billhook did not write\n"
    assert "2 of 2 records; skipped 3 lines" in place.run("--human").err


@pytest.mark.parametrize(
    ("arguments", "known"),
    [
        ((), True), (("--human",), True), (("--first", "9"), True), (("--offset", "1"), True), (("export",), True),
        (("list",), True), (("--failed",), True),
        (("--last", "1"), False), (("--tool", "Bash"), False), (("--since", "2020-01-01"), False), ((".",), False),
        (("search", "x"), False), (("list", "--since", "2020-01-01"), False),
    ],
    ids=str,
)  # fmt: skip
def test_lines_of_others_are_counted_whole_or_not_at_all(
    place: Recorded, arguments: tuple[str, ...], known: bool
) -> None:
    """A filter skips most lines, so that a count of foreign lines would be wrong."""
    place.add("PreToolUse", "Bash")
    with place.log.open("ab") as log:
        log.write(b'{"session_id":"%b","tool":"Bash"}\n' % ONE.encode())
    place.add("Stop")
    with place.log.open("ab") as log:
        log.write(b"x\nx\n")

    assert ("skipped 3 lines that" in place.run(*arguments).err) == known
    assert ("skipped" in place.run(*arguments).err) == known


def test_a_record_with_a_side_file(place: Recorded) -> None:
    """It is printed completely; the table shows its subject."""
    command = "echo " + "x" * 100_000
    place.add("PreToolUse", "Bash", {"command": command}, decision="deny", reason="too long")
    assert b"xxxx" not in place.log.read_bytes()

    (record,) = place.lines()
    assert record["input"] == {"command": command}
    assert record["side"]["fields"] == ["input"]
    assert "Bash echo xxxx" in place.run("--human").out

    for path in (place.log.parent / "large").iterdir():
        path.unlink()
    assert place.lines()[0]["decision"] == "deny"
    assert "deny" in place.run("--human").out


def test_records_with_escape_sequences(place: Recorded) -> None:
    """Output of hooks and tools reaches the terminal only as text."""
    evil = "a\x1b[2Jb\u202ec\rd\x9b31m\x7f"
    place.add(
        evil, evil, {evil: evil, "command": evil}, session_id=evil, session_name=evil, turn_id=f"{evil}:1",
        reason=evil, decision="deny", cwd=evil, host=evil, output={evil: evil}, context=[evil], messages=[evil],
        outcomes=[{"hook": evil, "status": "failed", "error": evil, "source": evil, "data": evil}],
        not_asked={evil: evil},
    )  # fmt: skip

    for arguments in ((), ("--minimal",), ("search", "b"), ("show", "1"), ("list",), ("--hook", evil), ("--json",)):
        screen = place.on_terminal(*arguments, NO_COLOR="1").out
        assert screen and not set(screen) & set("\x1b\u202e\r\x9b\x7f"), arguments


def test_an_edited_line(place: Recorded) -> None:
    """Control characters are escaped in JSON, too."""
    place.add("Stop", reason="abc")
    place.log.write_bytes(place.log.read_bytes().replace(b"abc", b"\xc2\x9b1m\x7f"))

    assert place.run().out.isascii()
    assert place.lines()[0]["reason"] == "\x9b1m\x7f"


def test_a_broken_configuration(night: Recorded) -> None:
    """The log can be read without a valid configuration."""
    path = night.project / "hooks.yaml"
    path.write_text("hooks: [")
    try:
        assert night.seqs("--last", "1") == [11]
    finally:
        path.unlink()


def test_from_a_folder_below(night: Recorded) -> None:
    """The project is the same in all of its folders."""
    below = night.project / "src" / "deep"
    below.mkdir(parents=True, exist_ok=True)

    assert len(night.run().out) == len(billhook_in(night, below))


def billhook_in(place: Recorded, folder: Path) -> str:
    return billhook("events", env=place.environment(), cwd=folder).out


@pytest.mark.parametrize("what", ["a folder", "a link", "a pipe"])
def test_a_log_that_is_not_a_file(place: Recorded, what: str, tmp_path: Path) -> None:
    """An error that names it, at once."""
    import os

    place.log.parent.mkdir(parents=True)
    if what == "a folder":
        place.log.mkdir()
    elif what == "a link":
        place.log.symlink_to(tmp_path / "elsewhere")
    else:
        os.mkfifo(place.log)

    assert "hooks.jsonl" in place.complaint("--human")


def test_two_projects_with_one_folder(tmp_path: Path) -> None:
    """`a-b` and `a/b` share a log; each sees its own."""
    one, other = Recorded(tmp_path, "a-b"), Recorded(tmp_path, "a/b")
    one.add("Stop")
    other.add("SessionStart", session_id=TWO)
    assert one.log == other.log

    assert [record["event"] for record in one.lines()] == ["Stop"]
    assert [record["session_id"] for record in other.lines(".")] == [TWO]
    assert [record["session_id"] for record in one.lines("list")] == [ONE]


def test_nothing_is_written(night: Recorded) -> None:
    """Queries change nothing in the state."""
    before = {path: path.stat().st_mtime_ns for path in night.root.rglob("*")}
    for arguments in (
        (),
        (".",),
        ("list",),
        ("search", "x"),
        ("show", "1", "--json"),
        ("files",),
        ("verify", "--json"),
    ):
        night.lines(*arguments)

    assert {path: path.stat().st_mtime_ns for path in night.root.rglob("*")} == before

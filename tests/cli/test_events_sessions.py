"""Naming sessions; `billhook events list` and `rename`."""

import shutil
from pathlib import Path

import pytest
from inline_snapshot import snapshot

from cli.recorded import ONE, TWO, Recorded, a_night

THREE = "aaaabbbb-0000-4000-8000-000000000003"


@pytest.fixture
def place(tmp_path: Path) -> Recorded:
    place = Recorded(tmp_path)
    a_night(place)
    return place


@pytest.fixture(scope="module")
def night(tmp_path_factory: pytest.TempPathFactory) -> Recorded:
    """A log that tests don't change, and another project's."""
    base = tmp_path_factory.mktemp("night")
    place, other = Recorded(base), Recorded(base, "other")
    a_night(place)
    other.name(THREE, "calm-heron")
    other.add("Stop", session_id=THREE)
    return place


@pytest.mark.parametrize(
    ("session", "seqs"),
    [
        pytest.param(".", [10, 11], id="the newest"),
        pytest.param("jolly-squid", range(1, 10), id="a name"),
        pytest.param(ONE, range(1, 10), id="an id"),
        pytest.param(ONE[:8], range(1, 10), id="the beginning of an id"),
        pytest.param(TWO, [10, 11], id="an id without a name"),
        pytest.param(TWO[:7], [10, 11], id="the beginning of an id without a name"),
        pytest.param(f"jolly-squid,{TWO}", range(1, 12), id="a list"),
        pytest.param("., jolly-squid ,", range(1, 12), id="a list with blanks"),
    ],
)
def test_a_session(night: Recorded, session: str, seqs: list[int]) -> None:
    """All ways to name one."""
    assert night.seqs(session) == list(seqs)


def test_several_words(night: Recorded) -> None:
    """Sessions may be separated by spaces, too."""
    assert night.seqs("jolly-squid", ".") == list(range(1, 12))


@pytest.mark.parametrize("session", ["calm-heron", THREE, THREE[:6]])
def test_a_session_of_another_project(night: Recorded, session: str) -> None:
    """Found in the state of all sessions, and read from the log of its project."""
    (record,) = night.lines(session)

    assert record["project"].endswith("/other")


def test_sessions_of_two_projects(night: Recorded) -> None:
    """Both logs, as if they were one."""
    found = night.lines("calm-heron,jolly-squid", "-n", "4")

    assert {record["project"] for record in night.lines("calm-heron,jolly-squid")} == {
        str(night.project),
        str(night.home / "other"),
    }
    assert [record["time"] for record in found] == sorted(record["time"] for record in found)


@pytest.mark.parametrize(
    ("session", "message"),
    [
        ("joly-squid", "no session `joly-squid`\n\nhint: did you mean `jolly-squid`?"),
        ("unknown", "no session `unknown`\n\nhint: `billhook events list` shows the sessions"),
        ("7c9e6", "no session `7c9e6`\n\nhint: use at least 6 characters of an id"),
        ("5", "`billhook events show 5` shows a record"),
        ("lst", "no session `lst`\n\nhint: did you mean `list`?"),
        (".,unknown", "no session `unknown`"),
        ("", "the name of the session is empty\n\nhint: `.` is the newest session here"),
        (" , ,", "the session is empty"),
        ("../../etc", "no session `../../etc`"),
        ("a" * 5000, "no session `aaa"),
        ("\udcff", "no session"),
    ],
)
def test_an_unknown_session(night: Recorded, session: str, message: str) -> None:
    """An error with a suggestion."""
    assert message in night.complaint(session)


def test_a_beginning_of_two_ids(place: Recorded) -> None:
    """Both are named."""
    place.name(f"{ONE[:8]}-x", "other-name")

    assert place.complaint(ONE[:7]) == (
        f"error: the ids of 2 sessions begin with `{ONE[:7]}`\n\nhint: use more characters: {ONE}, {ONE[:8]}-x\n"
    )


def test_a_name_with_two_ids(place: Recorded) -> None:
    """After /clear a session continues with a new id and the same name: both parts are shown."""
    place.sessions.named(THREE, str(place.project), recover=True)
    place.add("Stop", session_id=THREE)

    assert place.seqs("jolly-squid") == [*range(1, 10), 12]


def test_names_that_are_forgotten(place: Recorded) -> None:
    """Without the state of sessions, the names and ids in the log are used."""
    shutil.rmtree(place.root / "billhook")

    assert place.seqs("jolly-squid") == list(range(1, 10))
    assert place.seqs(ONE) == list(range(1, 10))
    assert place.seqs(ONE[:7]) == list(range(1, 10))


def test_list(night: Recorded) -> None:
    """One row for each session, the newest last."""
    assert night.screen("list", "--human", COLUMNS="100") == snapshot("""\
NAME         ID                          FIRST             LAST   EVENTS  DENIED  ASKED  FAILED OPEN
jolly-squid  7c9e6679-7425-40de-944b...  2026-03-01 21:01  21:09       9       1      1            1
-            7c9e0000-aaaa-40de-944b...  2026-03-01 21:10  21:11       2       0      0            0
-- stderr

2 of 2 sessions
-- exit 0
""")
    assert night.screen("list", "--human", "--all", COLUMNS="120") == snapshot("""\
NAME         ID                                    FIRST             LAST   EVENTS  DENIED  ASKED  FAILED OPEN  PROJECT
calm-heron   aaaabbbb-0000-4000-8000-000000000003  2026-03-01 21:01  21:01       1       0      0            0  ~/other
jolly-squid  7c9e6679-7425-40de-944b-e07fc1f90ae7  2026-03-01 21:01  21:09       9       1      1            1  ~/shop
-            7c9e0000-aaaa-40de-944b-000000000002  2026-03-01 21:10  21:11       2       0      0            0  ~/shop
-- stderr

3 of 3 sessions
-- exit 0
""")


def test_list_as_json(night: Recorded) -> None:
    """One line for each."""
    squid, other = night.lines("list")
    assert squid == {
        "name": "jolly-squid", "session_id": ONE, "project": str(night.project),
        "first": "2026-03-01T21:01:00.000000Z", "last": "2026-03-01T21:09:00.000000Z",
        "events": 9, "denied": 1, "asked": 1, "failed_open": 1,
    }  # fmt: skip
    assert (other["name"], other["session_id"], other["events"]) == ("", TWO, 2)
    assert [one["name"] for one in night.lines("list", "--all")] == ["calm-heron", "jolly-squid", ""]
    assert [one["events"] for one in night.lines("list", "--since", "2026-03-01T21:09")] == [1, 2]
    assert [one["events"] for one in night.lines("list", "--last", "1")] == [2]


def test_rename(place: Recorded) -> None:
    """The session is shown and found by its new name; the log is not changed."""
    before = place.log.read_bytes()

    assert place.run("rename", ".", "night-shift").out == f"session {TWO} is now night-shift\n"
    assert place.run("rename", "jolly-squid", "release").out == f"session {ONE} is now release (was jolly-squid)\n"

    assert place.seqs("night-shift") == [10, 11]
    assert place.seqs("release") == list(range(1, 10))
    assert " release " in place.run("--human").out
    assert place.log.read_bytes() == before
    assert place.lines("rename", "release", "r2", "--json")[0]["name"] == "r2"


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("jolly-squid", "another session has the name `jolly-squid`"),
        ("list", "`list` can't be used as a session name"),
        ("../x", "invalid session name `../x`"),
        ("", "invalid session name ``"),
        (".", "invalid session name `.`"),
        ("a,b", "invalid session name `a,b`"),
        (
            "Ünï",
            "invalid session name `Ünï`\n\nhint: use at most 64 characters of a-z A-Z 0-9 . _ - and begin with a",
        ),
        ("a\x1b[2J", "invalid session name `a\\x1b[2J`"),
        ("é" * 99, f"invalid session name `{'é' * 64}...`"),
        (ONE, f"`{ONE}` is the id of another session\n\nhint: choose another name"),
    ],
)
def test_invalid_names(place: Recorded, name: str, message: str) -> None:
    """An error with the reason."""
    assert message in place.complaint("rename", ".", name)


def test_a_name_that_is_an_id(place: Recorded) -> None:
    """Refused, also for a session that is only in the log; a session may have its own id as its name."""
    assert f"`{TWO}` is the id of another session" in place.complaint("rename", "jolly-squid", TWO)

    assert place.run("rename", ".", TWO).code == 0
    assert place.seqs(TWO) == [10, 11]


@pytest.mark.parametrize("remembered", [True, False], ids=["with a name", "in the log only"])
def test_an_id_wins_over_a_name(place: Recorded, remembered: bool) -> None:
    """If a later session's id is another session's name, every command takes it as the id."""
    place.name(ONE, "nightly-7")
    if remembered:
        place.sessions.named("nightly-7", str(place.project))
    place.add("Stop", session_id="nightly-7")

    assert place.seqs("nightly-7") == [12]
    assert place.seqs("export", "nightly-7") == [12]
    assert place.seqs("search", "nightly-7", "--session", "nightly-7") == [12]
    assert place.run("rename", "nightly-7", "other").out.startswith("session nightly-7 is now other")


def test_rename_a_command(place: Recorded) -> None:
    """A command's name can't be used; the error explains that."""
    assert place.complaint("rename", "list", "good-name") == (
        "error: no session is called `list`\n\nhint: `list` is a command; `billhook events list` shows the sessions\n"
    )


def test_events_without_a_session(tmp_path: Path) -> None:
    """`.` shows them as long as no event has a session, and they can't be renamed."""
    place = Recorded(tmp_path)
    place.add("Stop", session_id="", turn_id="")
    place.add("Notification", session_id="", turn_id="")

    assert place.seqs(".") == [1, 2]
    assert "2 of 2 records" in place.run(".", "--human").err
    assert "no session is recorded here yet: the events in this log have no session" in place.complaint(
        "rename", ".", "x"
    )
    assert "the session is empty" in place.complaint("rename", "", "x")

    place.add("Stop", session_id=ONE)
    place.add("Stop", session_id="", turn_id="")
    assert place.seqs(".") == [3]


def test_approvals_are_no_session(tmp_path: Path) -> None:
    """They are among the events, with the approved hooks."""
    place = Recorded(tmp_path)
    given = {"action": "approved", "hooks": [{"name": "guard"}, {"name": "format"}]}
    place.add("Trust", session_id="", turn_id="", input=given)
    place.add("Stop", session_id=ONE)

    assert "1 of 1 session" in place.run("list", "--human").err
    assert "approved guard, format" in place.run("--human").out


def test_rename_one_of_two(place: Recorded) -> None:
    """The newest session of a name gets the new one; the others are named."""
    place.sessions.named(THREE, str(place.project), recover=True)

    ended = place.run("rename", "jolly-squid", "release")

    assert ended.out == f"session {THREE} is now release (was jolly-squid)\n"
    assert ended.err == f"note: 1 earlier session of that name keeps it: {ONE}\n"


def test_rename_where_nothing_is(tmp_path: Path) -> None:
    """There is no session yet."""
    assert "no session is recorded here yet" in Recorded(tmp_path).complaint("rename", ".", "x")

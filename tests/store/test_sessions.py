"""The names of sessions: unique among the recent ones, kept, recovered after a clear, chosen by people."""

import os
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from billhook.core.errors import UsageError
from billhook.store import sessions as names
from billhook.store.files import StoreError
from billhook.store.sessions import MOST_SESSIONS, VERBS, SessionRecord, Sessions
from billhook.store.state import FileState

HERE = "/home/me/project"


@pytest.fixture
def sessions(tmp_path: Path) -> Sessions:
    return Sessions(FileState(tmp_path))


EVERY = [f"{one}-{other}" for one in names.ADJECTIVES for other in names.ANIMALS]


def test_the_words() -> None:
    """Each word occurs once, and each name can be typed, pronounced, and passed as an argument."""
    assert len(set(names.ADJECTIVES)) == len(names.ADJECTIVES) and len(set(names.ANIMALS)) == len(names.ANIMALS)
    assert "jolly-squid" in EVERY and len(set(EVERY)) == len(EVERY) > 10_000
    assert all(re.fullmatch(r"[a-z]+-[a-z]+", name) and len(name) <= 24 for name in EVERY)


def test_a_session_gets_a_name_once(sessions: Sessions) -> None:
    """The second time it is known, by every other object of the same state, too."""
    assert sessions.get("a") is None
    session, new = sessions.named("a", HERE)
    assert new and session.source == "generated" and session.name in EVERY
    assert (session.session_id, session.project) == ("a", HERE)
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z", session.at)

    again = Sessions(sessions.state)
    assert again.named("a", HERE) == (session, False) == again.named("a", HERE, recover=True)
    assert again.get("a") == session
    assert sessions.ids_of(session.name, HERE) == ["a"]


def test_asking_again_writes_nothing(sessions: Sessions, tmp_path: Path) -> None:
    """The newest session of a project is looked up without a lock."""
    sessions.named("a", HERE)
    before = {path: path.stat().st_ino for path in tmp_path.rglob("*.json")}
    sessions.named("a", HERE)
    assert {path: path.stat().st_ino for path in tmp_path.rglob("*.json")} == before


def test_names_differ_within_a_project(sessions: Sessions, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another project may use them, too."""
    monkeypatch.setattr(names, "ADJECTIVES", ("jolly", "merry"))
    monkeypatch.setattr(names, "ANIMALS", ("squid", "owl"))
    given = [sessions.named(f"s{number}", HERE)[0].name for number in range(4)]
    assert set(given) == {"jolly-squid", "merry-squid", "jolly-owl", "merry-owl"}

    elsewhere = [sessions.named(f"e{number}", "/elsewhere")[0].name for number in range(4)]
    assert set(elsewhere) == set(given)


def test_projects_whose_folders_share_a_name(sessions: Sessions) -> None:
    """`/a-b` and `/a/b` have one log folder, but each has its own sessions."""
    sessions.named("one", "/a-b")
    sessions.named("two", "/a/b")
    assert [one.session_id for one in sessions.recent("/a-b")] == ["one"]
    assert [one.session_id for one in sessions.recent("/a/b")] == ["two"]


def test_after_a_clear_the_name_goes_on(sessions: Sessions) -> None:
    """A new id takes over the name of the project's newest session; one name has several ids then, newest first."""
    first, _ = sessions.named("a", HERE)
    sessions.named("other", "/elsewhere")
    cleared, new = sessions.named("b", HERE, recover=True)
    assert (cleared.name, cleared.source, new) == (first.name, "existing", False)
    assert sessions.named("c", HERE, recover=True)[0].name == first.name
    assert sessions.ids_of(first.name, HERE) == ["c", "b", "a"]
    assert sessions.named("d", HERE)[0].name != first.name


def test_a_clear_without_a_session_before(sessions: Sessions) -> None:
    """There is nothing to recover, so the name is a new one."""
    session, new = sessions.named("a", HERE, recover=True)
    assert new and session.source == "generated"


def test_a_session_that_is_resumed_is_the_newest_again(sessions: Sessions) -> None:
    """A clear after that recovers its name, and not that of one which was started meanwhile."""
    first, _ = sessions.named("a", HERE)
    sessions.named("b", HERE)
    assert sessions.named("a", HERE) == (first, False)
    assert [one.session_id for one in sessions.recent(HERE)] == ["a", "b"]
    assert sessions.named("c", HERE, recover=True)[0].name == first.name


def test_a_session_in_two_projects(sessions: Sessions) -> None:
    """It has one name, and is found by it in both."""
    session, _ = sessions.named("a", HERE)
    assert sessions.named("a", "/elsewhere") == (session, False)
    assert sessions.ids_of(session.name, HERE) == sessions.ids_of(session.name, "/elsewhere") == ["a"]

    sessions.rename("a", "mine", HERE)
    assert sessions.named("a", "/elsewhere")[0].name == "mine"
    assert sessions.ids_of("mine", HERE) == sessions.ids_of("mine", "/elsewhere") == ["a"]


def test_rename(sessions: Sessions) -> None:
    """The chosen name stays, the old one is free, and the order of the sessions is as it was."""
    old, _ = sessions.named("a", HERE)
    sessions.named("b", HERE)
    renamed = sessions.rename("a", "release-1.0", HERE)
    assert (renamed.name, renamed.source) == ("release-1.0", "user")
    assert sessions.named("a", HERE)[0] == renamed == sessions.get("a")
    assert sessions.ids_of("release-1.0", HERE) == ["a"] and sessions.ids_of(old.name, HERE) == []

    sessions.rename("b", "b", HERE)
    assert [one.name for one in sessions.recent(HERE)] == ["release-1.0", "b"]
    sessions.rename("a", "A", HERE)
    sessions.rename("b", "B", HERE)
    assert [one.name for one in sessions.recent(HERE)] == ["A", "B"]


def test_renaming_a_session_that_has_no_name_yet(sessions: Sessions) -> None:
    """It has this one then."""
    assert sessions.rename("a", "mine", HERE).source == "user"
    assert sessions.named("a", HERE)[0].name == "mine"


def test_a_name_that_another_session_has(sessions: Sessions) -> None:
    """It is refused with the id of that session, and nothing is changed; its own name is no other's."""
    other, _ = sessions.named("a", HERE)
    mine, _ = sessions.named("b", HERE)
    with pytest.raises(UsageError, match="another session has the name") as caught:
        sessions.rename("b", other.name, HERE)
    assert str(caught.value).endswith(f"billhook events rename {other.name} NAME")
    assert sessions.get("b") == mine
    assert sessions.rename("b", mine.name, HERE).source == "user"


UNUSABLE = ["", ".", "..", "-x", ".x", "a b", "a,b", "a/b", "x" * 65, "é", "a\n", "\x1b[2J", "a\0", "\ud800"]


@pytest.mark.parametrize("name", [*sorted(VERBS), *UNUSABLE])
def test_names_that_none_can_have(sessions: Sessions, name: str) -> None:
    """What `billhook events` would read as something else, or a terminal would act on."""
    with pytest.raises(UsageError) as caught:
        sessions.rename("a", name, HERE)
    assert caught.value.hint and caught.value.message.isprintable()
    assert sessions.get("a") is None


@pytest.mark.parametrize("session_id", ["../../x", "x" * 4096, "a\0b", "a\ud800", "", "\x1b[2J"])
def test_any_id_can_have_a_name(sessions: Sessions, session_id: str) -> None:
    """Hostile ids are kept as they are."""
    session, new = sessions.named(session_id, HERE)
    assert new and sessions.get(session_id) == session
    assert sessions.ids_of(session.name, HERE) == [session_id]


def test_the_list_is_bounded(sessions: Sessions) -> None:
    """The oldest are forgotten by name, but keep theirs."""
    state = sessions.state
    state.update(
        "names",
        HERE,
        lambda _: {"sessions": [{"session_id": f"s{n}", "name": f"n{n}", "at": ""} for n in range(MOST_SESSIONS + 50)]},
    )
    sessions.named("new", HERE)
    recent = sessions.recent(HERE)
    assert len(recent) == MOST_SESSIONS and recent[0].session_id == "new" and recent[-1].session_id == "s51"

    for number in range(4):
        sessions.named(f"{number}" * 200_000, HERE)
    assert [one.session_id[0] for one in sessions.recent(HERE)] == ["3", "2"]


EDITED: dict[str, dict[str, object]] = {
    "empty": {},
    "another id": {"session_id": "b", "name": "x", "source": "user", "project": HERE, "at": ""},
    "a name that none can have": {"session_id": "a", "name": "\x1b[2J", "source": "user", "project": HERE, "at": ""},
    "a number": {"session_id": "a", "name": 1, "source": "user", "project": HERE, "at": ""},
}


@pytest.mark.parametrize("record", EDITED.values(), ids=EDITED.keys())
def test_an_edited_record(sessions: Sessions, record: dict[str, object]) -> None:
    """An invalid name is ignored: the session gets a new one."""
    sessions.state.update("sessions", "a", lambda _: record)
    sessions.state.update("names", HERE, lambda _: {"sessions": [record, 1, None, {"name": "x"}]})
    assert sessions.get("a") is None
    session, new = sessions.named("a", HERE)
    assert new and sessions.get("a") == session and sessions.recent(HERE)[0].name == session.name


def test_an_invalid_list(sessions: Sessions) -> None:
    """It is begun again."""
    sessions.state.update("names", HERE, lambda _: {"sessions": "x"})
    assert sessions.recent(HERE) == []
    assert sessions.named("a", HERE)[1]


def test_a_namer_that_died_in_between(sessions: Sessions) -> None:
    """Its session has a name but is not in the list: it is put there when it is next heard of."""
    record = {"session_id": "a", "name": "jolly-squid", "source": "generated", "project": HERE, "at": ""}
    sessions.state.update("sessions", "a", lambda _: record)
    assert sessions.named("a", HERE)[0].name == "jolly-squid"
    assert sessions.ids_of("jolly-squid", HERE) == ["a"]


def test_damaged_files_are_named(sessions: Sessions, tmp_path: Path) -> None:
    """Names are a person's: what can't be read is not overwritten."""
    sessions.named("a", HERE)
    (tmp_path / "billhook" / "sessions" / "a.json").write_text("")
    with pytest.raises(StoreError, match="damaged"):
        sessions.named("a", HERE)


NAME_MANY = """
import sys
from pathlib import Path
from billhook.store import sessions as names
from billhook.store.sessions import Sessions
from billhook.store.state import FileState
names.ADJECTIVES = names.ADJECTIVES[:16]
names.ANIMALS = names.ANIMALS[:16]
sessions = Sessions(FileState(Path(sys.argv[1])))
for number in range(20):
    print(sessions.named(f"{sys.argv[2]}-{number}", "/p")[0].name)
    print(*sessions.named(f"shared-{number}", "/p"), file=sys.stderr)
"""


def test_processes_choose_different_names(tmp_path: Path) -> None:
    """Eight processes name 160 sessions at once, with 256 pairs of words: no name twice; and a session that all of
    them name has one name, which is new for exactly one of them."""
    running = [
        subprocess.Popen(
            [sys.executable, "-c", NAME_MANY, tmp_path, str(number)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for number in range(8)
    ]
    ended = [process.communicate(timeout=120) for process in running]
    given = [name for out, _ in ended for name in out.split()]
    assert len(given) == 160
    shared = Counter(line for _, err in ended for line in err.splitlines())
    assert sum(shared.values()) == 160 and sum(line.endswith("True") for line in shared) == 20
    sessions = Sessions(FileState(tmp_path))
    found: list[SessionRecord | None] = [sessions.get(f"shared-{number}") for number in range(20)]
    assert len({*given, *(one.name for one in found if one)}) == 180
    assert not [name for name in os.listdir(tmp_path / "billhook" / "names") if name.startswith(".")]

"""What the views get: sessions, pages of events with filters, one event, numbers, and live news."""

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from approvals.asking import question
from billhook.approvals.queue import Questions
from billhook.serve import control
from billhook.store.files import log_folder
from billhook.store.log import RecordFilter
from billhook.store.log.pages import page
from billhook.store.log.reader import LogReader
from daemon.running import Home, eventually, home_in
from page.visiting import HOOKS, Visitor, await_events, visited, visitor, write_log

MANY = 100_000
BUDGET = 9 << 20  # bytes that one request may read: 8 MiB and one block


@pytest.fixture(scope="module")
def long(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Home, Visitor]]:
    """A log of 100,000 records."""
    with home_in(tmp_path_factory.mktemp("long")) as home:
        write_log(home, MANY)
        home.start()
        guest = visitor(home)
        guest.login()
        yield home, guest


@pytest.fixture
def place(tmp_path: Path) -> Iterator[tuple[Home, Visitor]]:
    with visited(tmp_path) as found:
        yield found


def all_pages(guest: Visitor, **query: Any) -> Iterator[dict[str, Any]]:
    """The pages as the timeline loads them while a person scrolls."""
    before, first = 0, True
    while before or first:
        found = guest.get("events", before=before, **query)
        before, first = found["before"], False
        yield found


def numbers(found: dict[str, Any]) -> list[int]:
    return [row["seq"] for row in found["rows"]]


def test_first_page_reads_little(long: tuple[Home, Visitor]) -> None:
    """The first page reads what it shows, however long the log is."""
    home, guest = long
    found = guest.get("events", project=str(home.project))
    assert numbers(found) == list(range(MANY, MANY - 100, -1))
    assert found["read"] < 1 << 20


def test_any_place(long: tuple[Home, Visitor]) -> None:
    """A page in the middle and the last page read as little as the first."""
    home, guest = long
    for before in (MANY // 2, 12_345, 101, 60, 1):
        found = guest.get("events", project=str(home.project), before=before)
        assert numbers(found) == list(range(before - 1, max(0, before - 101), -1))
        assert found["read"] < 1 << 20
        assert found["before"] == (before - 100 if before > 100 else 0) or before == 101


def test_scan_is_bounded(long: tuple[Home, Visitor]) -> None:
    """A search without a match ends after some bytes, and continues with the next page, until all was searched."""
    home, guest = long
    pages = list(all_pages(guest, project=str(home.project), text="no-such-text"))
    assert len(pages) > 5 and not any(one["rows"] for one in pages)
    assert max(one["read"] for one in pages) < BUDGET
    places = [one["before"] for one in pages]
    assert places == sorted(set(places), reverse=True) and places[-1] == 0


def test_filters(long: tuple[Home, Visitor]) -> None:
    """Each filter selects its records, and pages neither skip nor repeat one."""
    home, guest = long
    project = str(home.project)
    denied = [seq for one in all_pages(guest, project=project, decision="deny", limit=500) for seq in numbers(one)]
    assert denied == list(range(MANY, 0, -100))
    one = guest.get("events", project=project, session="session-3", tool="Read", limit=50)
    assert {(row["session"], row["tool"]) for row in one["rows"]} == {("session-3", "Read")} and len(one["rows"]) == 50
    (found,) = [row for each in all_pages(guest, project=project, text="step-77777") for row in each["rows"]]
    assert found["text"] == "make step-77777"
    assert guest.get("events", project=project, hook="guard")["rows"]
    assert not guest.get("events", project=project, event="Stop")["rows"]


def test_filter_that_is_invalid(long: tuple[Home, Visitor]) -> None:
    """A wrong filter and an unknown project are errors."""
    home, guest = long
    project = str(home.project)
    for query in ({"project": "/unknown"}, {"project": project, "limit": "9999"}, {"project": project, "before": "x"}):
        assert guest.http.get("/ui/api/events", params=query).status_code == 400


def test_now_reads_the_end(long: tuple[Home, Visitor]) -> None:
    """A long log of old events shows no session of today, and the request reads only its end."""
    home, guest = long
    found = guest.get("now")
    assert found["sessions"] == [] and found["projects"] == [str(home.project)]


def test_pages_over_rotated_files(tmp_path: Path) -> None:
    """A page continues in the file before."""
    with home_in(tmp_path) as home:
        path = write_log(home, 500)
        whole = path.read_bytes().splitlines(keepends=True)
        (path.parent / "hooks-000000000001.jsonl").write_bytes(b"".join(whole[:200]))
        (path.parent / "hooks-000000000201.jsonl").write_bytes(b"".join(whole[200:400]))
        path.write_bytes(b"".join(whole[400:]))
        for file in path.parent.iterdir():
            file.chmod(0o600)
        log, found, before = LogReader(log_folder(home.root, str(home.project)), home.root), list[int](), 0
        while True:
            one = page(log, RecordFilter(tools=frozenset({"Bash"})), before=before, limit=33)
            found += [entry.record.seq for entry in one.entries]
            before = one.before
            if not before:
                break
        assert found == [seq for seq in range(500, 0, -1) if seq % 3]


def test_event_in_full(place: tuple[Home, Visitor]) -> None:
    """One event with its input, effects and answers; a record that was changed is shown as such."""
    home, guest = place
    assert home.ask(home.event(tool_input={"command": "deploy production"})).denied
    row = await_events(guest, home, 1)[0]
    assert (row["decision"], row["by"], row["text"]) == ("deny", ["no-deploy"], "deploy production")
    found = guest.get("event", project=str(home.project), id=row["id"])
    assert found["problem"] == "" and found["record"]["input"] == {"command": "deploy production"}
    home.ask(home.event(tool_input={"command": "rm -r build"}))
    row = await_events(guest, home, 2)[0]
    shown = guest.get("event", project=str(home.project), id=row["id"])["effects"]
    assert [Path(one["target"]).name for one in shown if one["kind"] == "delete"] == ["build"]
    path = next((home.root / "hooks").glob("*/hooks.jsonl"))
    path.write_bytes(path.read_bytes().replace(b"rm -r build", b"rm -r BUILD"))
    found = guest.get("event", project=str(home.project), id=row["id"])
    assert found["problem"] == "hash mismatch: the record was changed"


def test_commands(place: tuple[Home, Visitor]) -> None:
    """Hooks, findings, numbers, the doctor and a replay come from billhook's own commands."""
    home, guest = place
    home.ask(home.event(tool_input={"command": "deploy production"}))
    row = await_events(guest, home, 1)[0]
    home.own(HOOKS.replace("deny:", "ask:"))
    project = str(home.project)
    hooks = guest.get("command", name="list", project=project)
    assert {"no-deploy", "notes", "guard"} <= {one["name"] for one in hooks}
    (summary,) = guest.get("command", name="summary", project=project)
    assert summary["denied"] == [{"tool": "Bash", "text": "deploy production", "count": 1}]
    assert summary["days"][0]["deny"] == 1 and summary["tools"][0]["tool"] == "Bash"
    (doctor,) = guest.get("command", name="doctor", project=project)
    assert doctor["daemon"][0]["level"] == "ok"
    assert isinstance(guest.get("command", name="check", project=project), list)
    (explained,) = guest.get("command", name="explain", project=project, id=row["id"])
    assert (explained["decision"], explained["today"]["decision"]) == ("deny", "ask")


def test_commands_that_are_refused(place: tuple[Home, Visitor]) -> None:
    """Only a few commands that read, in a folder that exists, with an id."""
    home, guest = place
    project = str(home.project)
    for query in (
        {"name": "trust", "project": project},
        {"name": "list", "project": "relative"},
        {"name": "list", "project": "/no/such/folder"},
        {"name": "explain", "project": project, "id": "--help"},
        {"name": "explain", "project": project, "id": "a;b"},
    ):
        assert guest.http.get("/ui/api/command", params=query).status_code == 400


def test_live(place: tuple[Home, Visitor]) -> None:
    """A new event is sent to an open page, once, as soon as it is in the log."""
    home, guest = place
    news = guest.news()
    assert next(news) == {}
    rows: list[dict[str, Any]] = []
    for command in ("ls one", "ls two"):
        home.ask(home.event(tool_input={"command": command}))
        while not any(row["text"] == command for row in rows):
            rows += next(news).get("rows", [])
    assert [row["text"] for row in rows] == ["ls one", "ls two"]
    news.close()  # type: ignore[attr-defined]


def test_sessions(place: tuple[Home, Visitor]) -> None:
    """The list has the agent, the turn and the newest call of each session."""
    home, guest = place
    home.ask(home.event("SessionStart", source="startup"))
    home.ask(home.event("UserPromptSubmit", prompt="Fix it"))
    home.ask(home.event(tool_input={"command": "deploy production"}))
    await_events(guest, home, 3)
    (one,) = guest.get("now")["sessions"]
    assert (one["session"], one["host"], one["turn"], one["denied"], one["events"]) == ("s1", "claude", "1", 1, 3)
    assert one["last"]["text"] == "deploy production" and one["name"]


def test_secrets_stay_out(place: tuple[Home, Visitor]) -> None:
    """The page has what the log has: secrets are redacted."""
    home, guest = place
    token = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
    home.ask(home.event(tool_input={"command": f"curl -H 'Authorization: Bearer {token}' https://example.com"}))
    row = await_events(guest, home, 1)[0]
    found = guest.get("event", project=str(home.project), id=row["id"])
    assert token not in json.dumps([row, found])


def test_active_project_among_many(place: tuple[Home, Visitor]) -> None:
    """The projects with the newest events are shown, also if their logs began long ago."""
    home, guest = place
    folders = [home.project.parent / f"p{number}" for number in range(32)]
    for number, folder in enumerate([*folders, folders[0]]):
        folder.mkdir(exist_ok=True)
        command = {"command": f"echo {number}"}
        home.ask({**home.event(tool_input=command, session_id=folder.name), "cwd": str(folder)})
    eventually(lambda: guest.get("now")["sessions"][0]["last"]["text"] == "echo 32")
    assert guest.get("now")["projects"][0] == str(folders[0])
    news = guest.news()
    next(news)
    home.ask({**home.event(tool_input={"command": "echo live"}), "cwd": str(folders[1])})
    rows = next(found["rows"] for found in news if found.get("rows"))
    assert [row["project"] for row in rows] == [str(folders[1])]
    news.close()  # type: ignore[attr-defined]


def test_finished_questions_are_not_sent(place: tuple[Home, Visitor]) -> None:
    """Pages get the questions that can be answered, and the last three answers, not those of the whole day."""
    home, guest = place
    questions = Questions(home.root)
    ids = [questions.add(question(f"k{number}")).id for number in range(7)]
    for id_ in ids[5::-1]:
        questions.answer(id_, True, "Ann", "page")
    questions.add(question("old", seconds=-2000))
    assert [one["id"] for one in guest.get("now")["questions"]] == [ids[6], *ids[2::-1]]


def test_equal_requests_share_the_work(long: tuple[Home, Visitor]) -> None:
    """All pages that missed some news ask at once: the log is read for few of them."""
    home, guest = long
    query = {"project": str(home.project), "text": "no-such-text"}

    def ask(number: int) -> bytes:
        return guest.http.get("/ui/api/events", params=query).content

    before = cpu(home)
    ask(0)
    one = cpu(home) - before
    with ThreadPoolExecutor(20) as pages:
        assert len(set(pages.map(ask, range(20)))) == 1
    assert cpu(home) - before - one < 10 * one


def cpu(home: Home) -> int:
    """The processor time of the daemon so far."""
    fields = Path(f"/proc/{control.holder(home.folder)}/stat").read_text().rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])

"""`billhook ui --fleet`: the page over all hosts, with the same views, and answers that are sent to the hosts."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from billhook.approvals.queue import Questions
from billhook.fleet import policy, questions, shipper
from fleet.conftest import Fleet
from fleet.hosts import eventually, linked, ship, written
from fleet.test_questions import answered, asked, person
from page.visiting import Visitor


@contextmanager
def page(fleet: Fleet, root: Path, member: str) -> Iterator[Visitor]:
    """The page of a person, in a process of its own."""
    argv = [sys.executable, "-P", "-m", "billhook", "ui", "--json", "--fleet", str(fleet.folder), "--as", member]
    inside = ("CLAUDE", "GEMINI", "CODEX", "CURSOR", "OPENCODE", "AI_AGENT")
    env = {name: value for name, value in os.environ.items() if not name.startswith(inside)}
    env |= {"BILLHOOK_HOME": str(root), "HOME": str(root)}
    with subprocess.Popen(
        argv, env=env, cwd=root, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdout is not None and process.stderr is not None
            line = process.stdout.readline()
            assert line, process.stderr.read()
            guest = Visitor(json.loads(line)["url"])
            with guest.http:
                assert guest.login().status_code == 200
                yield guest
        finally:
            process.terminate()


def test_views_of_all_hosts(fleet: Fleet, tmp_path: Path) -> None:
    """Each project with its host; what a host records meanwhile comes, too."""
    (tmp_path / "reader").mkdir()
    members = [fleet.host(tmp_path / name) for name in ("a", "b")]
    with linked(tmp_path / "a", members[0], [shipper.follow]), linked(tmp_path / "b", members[1], [shipper.follow]):
        for name in ("a", "b"):
            written(tmp_path / name, 3)
        with page(fleet, tmp_path / "reader", "reader") as guest:
            projects = [f"{member.name}:/srv/shop" for member in members]
            eventually(lambda: set(projects) <= set(guest.get("now")["projects"]))
            for project in projects:
                rows = guest.get("events", project=project)["rows"]
                assert [row["seq"] for row in rows] == [3, 2, 1] and {row["project"] for row in rows} == {project}
                whole = guest.get("event", project=project, id=rows[0]["id"])
                assert whole["problem"] == "" and whole["row"]["project"] == project
            written(tmp_path / "a", 1)
            eventually(lambda: guest.get("events", project=projects[0])["rows"][0]["seq"] == 4)


def test_views_of_one_machine(fleet: Fleet, tmp_path: Path) -> None:
    """Statistics are those of the host's log; what is only on the host is named, with where to see it."""
    (tmp_path / "reader").mkdir()
    host = tmp_path / "host"
    member = fleet.host(host)
    words = ["fire", "PreToolUse", "--tool", "Bash", "--input", '{"command": "git push"}']
    env = {**os.environ, "BILLHOOK_HOME": str(host), "HOME": str(host)}
    subprocess.run([sys.executable, "-P", "-m", "billhook", *words], cwd=host, env=env, check=False)
    ship(host, member)
    with page(fleet, tmp_path / "reader", "reader") as guest:
        project = f"{member.name}:{host}"
        (found,) = guest.get("command", name="summary", project=project)
        assert found["events"] == 1 and "guard" in {one["name"] for one in found["hooks"]}
        for name in ("list", "check", "doctor", "explain"):
            refused = guest.http.get("/ui/api/command", params={"name": name, "project": project})
            error = refused.json()["error"]
            assert refused.status_code == 400
            assert f"only the event logs of {member.name} are here" in error["message"] and member.name in error["hint"]


def test_answer_on_the_page(fleet: Fleet, tmp_path: Path) -> None:
    """A question of a host is on the page of another machine; the answer reaches the host, signed."""
    (tmp_path / "ana").mkdir()
    person(fleet, "ana")
    member = fleet.host(tmp_path / "host")
    fleet.publish(approvers=fleet.record.approvers)
    one = asked(tmp_path / "host")
    with (
        linked(tmp_path / "host", member, [policy.follow, questions.follow]),
        page(fleet, tmp_path / "ana", "ana") as guest,
    ):
        waiting = lambda: [this for this in guest.get("now")["questions"] if this["id"] == one.id]
        [shown] = eventually(waiting, 20)
        assert shown["call"] == one.call and shown["project"] == f"{member.name}:/srv/shop"
        assert guest.answer(one.id, True).status_code == 200
        eventually(lambda: answered(Questions(tmp_path / "host"), one.id) == "allow")
    found = Questions(tmp_path / "host").find(one.id)
    assert found is not None and (found.by, found.via) == ("ana", "fleet")

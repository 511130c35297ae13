"""The audit stream as people read it: the same as each host's log, checked against it, and where it differs."""

import asyncio
import json
import os
import subprocess
import sys
import time
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from billhook.cli.fleet.events import copy_of
from billhook.fleet.connection import publish
from billhook.fleet.members import AUDIT
from billhook.fleet.reader import StreamCopy, StreamError, messages
from billhook.fleet.server import create_folder
from billhook.store.files import log_folder
from billhook.store.log.eventlog import CURRENT, EventLog
from cli import terminal
from fleet.conftest import Fleet
from fleet.hosts import PROJECT, lines, ship, written


def billhook(root: Path, *words: str, code: int = 0, **env: str) -> str:
    """What a command prints."""
    env = {**os.environ, "BILLHOOK_HOME": str(root), "HOME": str(root), "TZ": "UTC", **env}
    done = terminal.billhook(*words, env=env, cwd=root)
    assert done.code == code, done
    return done.out


def copied(fleet: Fleet, copy: StreamCopy, *hosts: str) -> int:
    """Copy what is new; the number of messages."""

    async def update(client: Any) -> int:
        return sum([len(part) async for part in copy.update(client, AUDIT, fleet.record.subjects.audits, hosts)])

    return int(fleet.run(update, "reader"))


def test_copy(fleet: Fleet, tmp_path: Path) -> None:
    """Only what is new is fetched, and the copy of each log is the log."""
    members = [fleet.host(tmp_path / name) for name in ("a", "b")]
    copy = StreamCopy(tmp_path / "reader" / "copy", tmp_path / "reader")
    for number in (400, 3, 1):
        for name, member in zip("ab", members, strict=True):
            written(tmp_path / name, number)
            ship(tmp_path / name, member)
        copied(fleet, copy)
        assert copied(fleet, copy) == 0
    for name, member in zip("ab", members, strict=True):
        [(_, reader)] = copy.logs([member.name])
        assert [entry.line for entry in reader.forward(notes=True)] == lines(tmp_path / name)


def test_organisations_with_one_name(tmp_path: Path) -> None:
    """Each has a copy of its own: a new `fleet dev` shows nothing of the one before."""
    made = [copy_of(create_folder(tmp_path / name, "dev")).folder for name in ("a", "b")]
    assert made[0] != made[1]


def test_copy_of_one_host(fleet: Fleet, tmp_path: Path) -> None:
    """One host first, then all: nothing is copied twice."""
    one, other = fleet.host(tmp_path / "a"), fleet.host(tmp_path / "b")
    copy = StreamCopy(tmp_path / "reader" / "copy", tmp_path / "reader")
    for name, member in (("a", one), ("b", other)):
        written(tmp_path / name, 5)
        ship(tmp_path / name, member)

    assert copied(fleet, copy, one.name) == 1 and [host for host, _ in copy.logs()] == [one.name]
    copied(fleet, copy)

    for name, member in (("a", one), ("b", other)):
        [(_, reader)] = copy.logs([member.name])
        assert [entry.line for entry in reader.forward(notes=True)] == lines(tmp_path / name)


def test_copy_that_was_interrupted(fleet: Fleet, tmp_path: Path) -> None:
    """A process died between the file and the position: what it added is written again."""
    member = fleet.host(tmp_path / "a")
    copy = StreamCopy(tmp_path / "reader" / "copy", tmp_path / "reader")
    written(tmp_path / "a", 5)
    ship(tmp_path / "a", member)
    copied(fleet, copy, member.name)
    with open(copy.file_of(member.name, "-srv-shop"), "ab") as file:
        file.write(b'{"v":1,"seq":6,"pre')
    written(tmp_path / "a", 5)
    ship(tmp_path / "a", member)

    copied(fleet, copy, member.name)

    [(_, reader)] = copy.logs()
    assert [entry.line for entry in reader.forward(notes=True)] == lines(tmp_path / "a") and reader.foreign == 0


def test_events_are_the_same_as_on_the_host(fleet: Fleet, tmp_path: Path) -> None:
    """The same queries give the same records."""
    host, reader = tmp_path / "a", tmp_path / "reader"
    reader.mkdir()
    member = fleet.host(host)
    (host / "hooks.yaml").write_text("hooks: {no-push: {events: PreToolUse, match: Bash(git push *), deny: not here}}")
    env = {**os.environ, "BILLHOOK_HOME": str(host), "HOME": str(host)}
    for command in ("ls", "git push origin", "make test"):
        call = json.dumps({"command": command})
        argv = [sys.executable, "-P", "-m", "billhook", "fire", "PreToolUse", "--tool", "Bash", "--input", call]
        subprocess.run(argv, cwd=host, env=env, capture_output=True, check=False)
    ship(host, member)
    for query in (["--tool", "bash"], ["--decision", "none"], ["--last", "1"], ["--hook", "guard"], ["--since", "1h"]):
        own = billhook(host, "events", "--json", *query)
        of_fleet = billhook(
            reader, "fleet", "events", "--fleet", str(fleet.folder), "--host", member.name, "--json", *query
        )
        there = [json.loads(line) for line in of_fleet.splitlines()]
        assert {one.pop("machine") for one in there} == {member.name}
        assert there == [json.loads(line) for line in own.splitlines()] and there

    table = billhook(reader, "fleet", "events", "--fleet", str(fleet.folder), "--host", member.name, "--human")
    assert "git push origin" in table and f"{member.name}:" in table


def test_session_id_on_two_hosts(fleet: Fleet, tmp_path: Path) -> None:
    """They are two sessions, each with the name that it has on its host."""
    (tmp_path / "reader").mkdir()
    names = []
    for name in ("a", "b"):
        root = tmp_path / name
        member = fleet.host(root)
        names.append(member.name)
        log = EventLog(root, log_folder(root, PROJECT))
        about = {"event": "PreToolUse", "tool": "Bash", "project": PROJECT, "session_id": "s1", "session_name": name}
        log.append({**about, "id": f"{time.time_ns():032x}", "time": "2026-11-19T05:00:00.000000Z", "mono": 1.0})
        ship(root, member)
    table = billhook(
        tmp_path / "reader", "fleet", "events", "--fleet", str(fleet.folder), "--human", "--host", ",".join(names)
    )
    assert f"{names[0]}:a" in table and f"{names[1]}:b" in table and not table.startswith("session")


def test_verify_on_the_host(fleet: Fleet, tmp_path: Path) -> None:
    """With the host's own credentials: every record is compared; what is not shipped yet is counted."""
    member = fleet.host(tmp_path)
    written(tmp_path, 600, max_bytes=100_000)
    ship(tmp_path, member)
    written(tmp_path, 2)

    found = json.loads(billhook(tmp_path, "fleet", "verify", member.name, "--json"))

    assert (found["records"], found["compared"], found["findings"]) == (found["last"], found["last"], [])
    assert found["waiting"] == 2


def test_verify_finds_a_change_on_the_host(fleet: Fleet, tmp_path: Path) -> None:
    """A record that was changed in the host's log after it was shipped, with right hashes all the way."""
    member = fleet.host(tmp_path)
    written(tmp_path, 9)
    ship(tmp_path, member)
    path = log_folder(tmp_path, PROJECT) / CURRENT
    path.write_bytes(path.read_bytes().replace(b'"tool":"Bash"', b'"tool":"Read"', 4).replace(b'"Read"', b'"Bash"', 3))

    found = json.loads(billhook(tmp_path, "fleet", "verify", member.name, "--json", code=1))

    assert found["findings"][0] == "record 4 differs from the host's log"


@pytest.mark.parametrize(
    ("change", "finding"),
    [
        (lambda all_of_them: [], ""),
        (lambda all_of_them: [all_of_them[4]], "record 4 is missing"),
        (lambda all_of_them: [all_of_them[5]], "records 4 to 5 are missing"),
        (lambda all_of_them: [all_of_them[1]], "record 2 follows record 3"),
        (lambda all_of_them: [all_of_them[3].replace(b"make", b"rm  ")], "record 4: hash mismatch"),
        (lambda all_of_them: [b"something"], "has a line that is not a record"),
    ],
)
def test_verify_for_the_administrator(fleet: Fleet, tmp_path: Path, change: Any, finding: str) -> None:
    """The chain in the stream alone."""
    member = fleet.host(tmp_path)
    written(tmp_path, 3)
    ship(tmp_path, member)
    written(tmp_path, 6)
    subject = f"{member.subjects.audit(member.name)}.-srv-shop"
    for line in change(lines(tmp_path)):
        fleet.run(partial(publish, subject=subject, data=line))  # as one who has the host's credentials

    words = ["fleet", "verify", member.name, "--fleet", str(fleet.folder), "--json"]
    found = json.loads(billhook(tmp_path, *words, code=int(bool(finding))))

    assert found["findings"] == [] if not finding else finding in found["findings"][0]


def test_verify_since(fleet: Fleet, tmp_path: Path) -> None:
    """Only the messages since a time, on the host and elsewhere."""
    member = fleet.host(tmp_path)
    written(tmp_path, 3)
    ship(tmp_path, member)
    time.sleep(1.1)
    since = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    written(tmp_path, 2)
    ship(tmp_path, member)

    for more in ([], ["--fleet", str(fleet.folder)]):
        found = json.loads(billhook(tmp_path, "fleet", "verify", member.name, "--since", since, "--json", *more))
        assert (found["first"], found["last"], found["findings"]) == (4, 5, [])


def test_host_reads_nothing_of_others(fleet: Fleet, tmp_path: Path) -> None:
    """With the credentials of a host the stream can't be read."""
    member = fleet.host(tmp_path)

    async def read(client: Any) -> None:
        async for _ in messages(client, AUDIT, f"{fleet.record.subjects.audits}.>"):
            raise AssertionError

    with pytest.raises(StreamError, match="can't be read"):
        asyncio.run(asyncio.wait_for(asyncio.to_thread(fleet.run, read, member.name), 20))

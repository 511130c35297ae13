"""Audit records reach the stream exactly once, whatever is interrupted; and only a host itself can send its own."""

import asyncio
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from nats.errors import Error as NatsError

from billhook.fleet import shipper
from billhook.fleet.connection import FleetError, connect, publish
from billhook.fleet.members import AUDIT, read_credentials
from billhook.store.files import log_folder
from fleet.conftest import Fleet
from fleet.hosts import PROJECT, eventually, lines, linked, new_shipper, ship, shipped, stream, written


def in_stream(fleet: Fleet, host: str) -> list[bytes]:
    return shipped(read_credentials(fleet.folder / "reader.creds"), fleet.cluster.url, host)


def test_records_arrive_unchanged(fleet: Fleet, tmp_path: Path) -> None:
    """Two logs, one of them rotated: every line is in the stream, notes too."""
    member = fleet.host(tmp_path)
    written(tmp_path, 3000, max_bytes=300_000)
    written(tmp_path, 3, "/srv/other")

    done = ship(tmp_path, member)

    assert in_stream(fleet, member.name) == [*lines(tmp_path, "/srv/other"), *lines(tmp_path)]
    assert len(os.listdir(log_folder(tmp_path, PROJECT))) > 3
    assert (done.status.waiting, done.status.lost, done.status.problem) == (0, 0, "")


def test_nothing_is_sent_again(fleet: Fleet, tmp_path: Path) -> None:
    """Not by a new process, not without the cursor, not with an old one: the stream shows where to continue."""
    member = fleet.host(tmp_path)
    written(tmp_path, 5)
    ship(tmp_path, member)
    cursor = tmp_path / "billhook" / "fleet" / "shipped.json"
    old = cursor.read_bytes()
    for forget in (lambda: None, cursor.unlink, lambda: cursor.write_bytes(old), lambda: cursor.write_bytes(b"{")):
        written(tmp_path, 4)
        forget()
        ship(tmp_path, member)

        assert in_stream(fleet, member.name) == lines(tmp_path)


def test_two_links_at_once(fleet: Fleet, tmp_path: Path) -> None:
    """A second process of the same host, for example one that is just ending, doubles nothing."""
    member = fleet.host(tmp_path)
    written(tmp_path, 2000)

    async def both() -> None:
        pairs = [await new_shipper(tmp_path, member, f"{number}.json") for number in range(2)]
        for _ in range(30):
            await asyncio.gather(*(one.ship() for _, one in pairs))
            written(tmp_path, 20)
        await asyncio.gather(*(one.ship() for _, one in pairs))
        for client, _ in pairs:
            await client.close()

    asyncio.run(both())
    ship(tmp_path, member)

    assert in_stream(fleet, member.name) == lines(tmp_path)


def test_acknowledgement_that_is_lost(fleet: Fleet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The record is stored, but the host does not hear of it, and sends it again much later: the server has forgotten
    its id by then, and refuses it because of its place."""
    member = fleet.host(tmp_path)
    written(tmp_path, 7)

    async def interrupted() -> None:
        client, one = await new_shipper(tmp_path, member)
        send = one._send

        async def unheard(log: shipper._LogCursor, batch: shipper.LogBatch) -> int:
            await send(log, batch)
            raise TimeoutError

        one._send = unheard  # type: ignore[method-assign]
        assert await one.ship() == 0 and "can't be sent" in one.problem
        one._send = send  # type: ignore[method-assign]
        written(tmp_path, 2)
        one._logs["-srv-shop"].pending = None  # as another process, which cuts its messages differently
        monkeypatch.setattr(shipper, "_ID", "X-Forgotten")
        while await one.ship():
            pass
        await client.close()

    asyncio.run(interrupted())

    assert in_stream(fleet, member.name) == lines(tmp_path)


def test_records_that_were_removed_before_they_were_shipped(fleet: Fleet, tmp_path: Path) -> None:
    """They are counted, and the rest arrives."""
    member = fleet.host(tmp_path)
    written(tmp_path, 10)
    ship(tmp_path, member)
    written(tmp_path, 2000, max_bytes=200_000)
    kept = lines(tmp_path)[:10]
    rotated = sorted(log_folder(tmp_path, PROJECT).glob("hooks-*.jsonl"))
    for path in rotated[:-1]:
        path.unlink()

    done = ship(tmp_path, member)

    left = lines(tmp_path)
    assert in_stream(fleet, member.name) == kept + left
    assert done.status.lost == json.loads(left[0])["seq"] - 11


def test_log_that_was_begun_again(fleet: Fleet, tmp_path: Path) -> None:
    """The user removed a log: the next one is shipped as well, from its first record."""
    member = fleet.host(tmp_path)
    written(tmp_path, 10)
    ship(tmp_path, member)
    before = lines(tmp_path)
    for number in (3, 30):
        shutil.rmtree(log_folder(tmp_path, PROJECT))
        written(tmp_path, number)
        ship(tmp_path, member)
        before += lines(tmp_path)

        assert in_stream(fleet, member.name) == before


def test_secrets_are_removed_before(fleet: Fleet, tmp_path: Path) -> None:
    """What is shipped is the log, and the log is redacted."""
    member = fleet.host(tmp_path / "home")
    secret = "ghp_" + "a1B2c3D4e5F6g7H8i9J0" + "k1L2m3N4o5P6q7R8"
    command = f"curl -H 'Authorization: token {secret}' https://api.github.com"
    env = {**os.environ, "BILLHOOK_HOME": str(tmp_path / "home"), "HOME": str(tmp_path)}
    argv = [sys.executable, "-P", "-m", "billhook", "fire", "PreToolUse", "--tool", "Bash", "--input"]
    done = subprocess.run(
        [*argv, json.dumps({"command": command})], cwd=tmp_path, env=env, capture_output=True, check=False
    )
    assert done.returncode in (0, 2), done.stderr

    ship(tmp_path / "home", member)

    data = b"\n".join(in_stream(fleet, member.name))
    assert b"api.github.com" in data and secret.encode() not in data


def test_link_ships(fleet: Fleet, tmp_path: Path) -> None:
    """A record is in the stream soon after it was written."""
    member = fleet.host(tmp_path)
    with linked(tmp_path, member, [shipper.follow]):
        for _ in range(2):
            written(tmp_path, 3)
            eventually(lambda: in_stream(fleet, member.name) == lines(tmp_path))


def test_as_another_host(fleet: Fleet, tmp_path: Path) -> None:
    """The server refuses what a host publishes as another one, and what it reads of another one."""
    member, other = fleet.host(tmp_path / "a"), fleet.host(tmp_path / "b")
    written(tmp_path / "b", 1)
    ship(tmp_path / "b", other)
    refused: list[str] = []

    async def note(error: Exception) -> None:
        refused.append(str(error))

    async def attack() -> None:
        client = await connect(member, member.url, on_error=note)
        subject = f"{other.subjects.audit(other.name)}.-srv-shop"
        for ask in (subject, f"$JS.API.DIRECT.GET.{AUDIT}.{subject}", f"$JS.API.DIRECT.GET.{AUDIT}"):
            with pytest.raises(NatsError):
                await client.request(ask, b"{}", timeout=0.3)
        own = f"$JS.API.CONSUMER.CREATE.{AUDIT}.{member.name}.{member.subjects.audit(member.name)}.>"
        wanted = {"name": member.name, "filter_subject": subject}
        reply = await client.request(own, json.dumps({"stream_name": AUDIT, "config": wanted}).encode(), timeout=2)
        assert "error" in json.loads(reply.data)
        await client.close()

    asyncio.run(attack())

    assert len(refused) == 3 and all("permissions violation" in one.lower() for one in refused)
    assert in_stream(fleet, other.name) == lines(tmp_path / "b")


def test_reader_writes_nothing(fleet: Fleet, tmp_path: Path) -> None:
    """The reader can't add records, and can't remove any; not even the administrator can."""
    member = fleet.host(tmp_path)
    written(tmp_path, 2)
    ship(tmp_path, member)
    subject = f"{member.subjects.audit(member.name)}.-srv-shop"
    number = stream(read_credentials(fleet.folder / "reader.creds"), member.url, member.name)[0].seq

    async def attack(client: object) -> None:
        with pytest.raises(FleetError):
            await publish(client, subject, b"x")  # type: ignore[arg-type]

    async def remove(client: object) -> None:
        for ask, what in (("STREAM.MSG.DELETE", {"seq": number}), ("STREAM.PURGE", {})):
            reply = await client.request(f"$JS.API.{ask}.{AUDIT}", json.dumps(what).encode(), timeout=2)  # type: ignore[attr-defined]
            assert "error" in json.loads(reply.data)

    fleet.run(attack, "reader")
    fleet.run(remove, "admin")

    assert in_stream(fleet, member.name) == lines(tmp_path)

"""What tests of the fleet's stream share: a host's log, its link in a thread, and what the stream holds."""

import asyncio
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from billhook.fleet import link
from billhook.fleet.connection import connect
from billhook.fleet.enrolment import Enrolment, FleetCredentials
from billhook.fleet.reader import AuditMessage, messages
from billhook.fleet.shipping import Shipper
from billhook.fleet.subjects import AUDIT
from billhook.store.files import log_folder
from billhook.store.log.eventlog import EventLog
from billhook.store.log.reader import LogReader

PROJECT = "/srv/shop"


def written(root: Path, number: int, project: str = PROJECT, *, max_bytes: int = 64 << 20) -> EventLog:
    """A log with so many more records."""
    log = EventLog(root, log_folder(root, project), max_bytes=max_bytes)
    for _ in range(number):
        now = time.time_ns()
        log.append(
            {
                "id": f"{now:032x}",
                "time": time.strftime("%Y-%m-%dT%H:%M:%S.000000Z", time.gmtime()),
                "mono": time.monotonic(),
                "event": "PreToolUse",
                "tool": "Bash",
                "project": project,
                "input": {"command": f"make {now}"},
            }
        )
    return log


def lines(root: Path, project: str = PROJECT) -> list[bytes]:
    """The records of a log, with its notes."""
    return [entry.line for entry in LogReader(log_folder(root, project), root).forward(notes=True)]


async def shipper(root: Path, member: Enrolment, cursor: str = "shipped.json") -> tuple[Any, Shipper]:
    """A connection of a host, and what ships its logs."""
    client = await connect(member, member.url)
    file = root / "billhook" / "fleet" / cursor
    return client, Shipper(root, client.jetstream(timeout=2), AUDIT, member.subjects.audit(member.name), file)


def ship(root: Path, member: Enrolment, cursor: str = "shipped.json") -> Shipper:
    """Ship everything that is there, as a new process does."""

    async def all_of_it() -> Shipper:
        client, one = await shipper(root, member, cursor)
        while await one.ship():
            pass
        await client.close()
        return one

    return asyncio.run(all_of_it())


def stream(reader: FleetCredentials, url: str, host: str) -> list[AuditMessage]:
    """The messages of one host."""

    async def read() -> list[AuditMessage]:
        client = await connect(reader, url)
        try:
            return [one async for one in messages(client, AUDIT, f"{reader.subjects.audit(host)}.>")]
        finally:
            await client.close()

    return asyncio.run(read())


def shipped(reader: FleetCredentials, url: str, host: str) -> list[bytes]:
    """The lines of one host in the stream."""
    return [line for message in stream(reader, url, host) for line in message.lines]


@contextmanager
def linked(root: Path, member: Enrolment, tasks: Sequence[link.LinkTask] = link.TASKS) -> Iterator[None]:
    """The link of a host, in a thread."""
    loop = asyncio.new_event_loop()
    running = loop.create_task(link.run(root, member, tasks=tasks))

    def run() -> None:
        with suppress(asyncio.CancelledError):
            loop.run_until_complete(running)
        loop.close()

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        loop.call_soon_threadsafe(running.cancel)
        thread.join(20)
        assert not thread.is_alive()


def eventually(check: Callable[[], Any], seconds: float = 10.0) -> Any:
    """The first true result; fails if there is none in time."""
    end = time.monotonic() + seconds
    while not (found := check()):
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.05)
    return found


async def until(check: Callable[[], Any], seconds: float = 15.0) -> None:
    """The same, beside other tasks."""
    end = time.monotonic() + seconds
    while not check():
        assert time.monotonic() < end, "it did not happen in time"
        await asyncio.sleep(0.05)

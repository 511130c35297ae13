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
from billhook.fleet.members import AUDIT, Enrolment, FleetCredentials
from billhook.fleet.reader import AuditMessage, messages
from billhook.fleet.shipper import Shipper
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


async def new_shipper(root: Path, member: Enrolment, cursor: str = "shipped.json") -> tuple[Any, Shipper]:
    """A connection of a host, and what ships its logs."""
    client = await connect(member, member.url)
    file = root / "billhook" / "fleet" / cursor
    return client, Shipper(root, client, member.subjects.audit(member.name), file)


def ship(root: Path, member: Enrolment, cursor: str = "shipped.json") -> Shipper:
    """Ship everything that is there, as a new process does."""

    async def all_of_it() -> Shipper:
        client, one = await new_shipper(root, member, cursor)
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


class Writer:
    """Writes records to the logs of hosts, a few each time, until it is stopped; notes the longest time of a write."""

    def __init__(self, roots: Sequence[Path], pause: float = 0.02) -> None:
        self.roots, self.longest, self.written = roots, 0.0, 0
        self._stopped = threading.Event()
        self._pause = pause
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> "Writer":
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._stopped.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stopped.wait(self._pause):
            for root in self.roots:
                began = time.monotonic()
                written(root, 1)
                self.longest = max(self.longest, time.monotonic() - began)
                self.written += 1


class Proxy:
    """A TCP proxy in front of a server, whose network can be cut: closed, or silent, as behind a firewall."""

    def __init__(self, port: int) -> None:
        self._to, self._pairs = port, set[asyncio.StreamWriter]()
        self.refuses = self.is_silent = False
        self.port = 0
        self._listening, self._thread = threading.Event(), threading.Thread(target=lambda: asyncio.run(self._run()))

    def __enter__(self) -> "Proxy":
        self._thread.start()
        assert self._listening.wait(10)
        return self

    def __exit__(self, *error: object) -> None:
        self.cut()
        self._loop.call_soon_threadsafe(self._stopped.set)
        self._thread.join()

    async def _run(self) -> None:
        self._loop, self._stopped = asyncio.get_running_loop(), asyncio.Event()
        async with await asyncio.start_server(self._accept, "127.0.0.1", 0) as server:
            self.port = server.sockets[0].getsockname()[1]
            self._listening.set()
            await self._stopped.wait()
        await asyncio.sleep(0.1)  # connections that were cut end by themselves

    def cut(self) -> None:
        """Close all connections, and accept no more."""
        self.refuses = True
        for one in list(self._pairs):
            self._loop.call_soon_threadsafe(one.transport.abort)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self.refuses:
            writer.transport.abort()
            return
        there, back = await asyncio.open_connection("127.0.0.1", self._to)
        self._pairs |= {writer, back}
        await asyncio.gather(self._copy(reader, back), self._copy(there, writer), return_exceptions=True)
        self._pairs -= {writer, back}

    async def _copy(self, source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
        while data := await source.read(1 << 16):
            while self.is_silent:  # noqa: ASYNC110 (a test ends it)
                await asyncio.sleep(0.05)
            target.write(data)
            await target.drain()
        target.close()


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

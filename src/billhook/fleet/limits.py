"""Limits that many machines share: counters of the fleet, one for each window of time.

A hook asks over a Unix socket, because only this process is connected: `{"limit": ..., "seconds": 60, "add": 1}`, and
gets `{"total": 17, "left": 12.5}`. Windows follow the server's clock: a host whose clock is wrong counts in the same
window as all others.
"""

import asyncio
import os
import time
from collections.abc import Callable
from contextlib import asynccontextmanager, suppress
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec

from billhook.builtins.rate_limit import SOCKET
from billhook.core.errors import BillhookError
from billhook.fleet.connection import api, publish
from billhook.fleet.members import LIMITS
from billhook.store import files

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from nats.aio.client import Client

    from billhook.fleet.link import FleetLink

_CLOCK_VALID: Final = 300.0  # seconds
_REPORTED: Final = 1.0


class LimitRequest(msgspec.Struct):
    """What a hook asks."""

    limit: str
    seconds: float
    add: int = 1


class LimitReply(msgspec.Struct):
    total: int
    left: float


class ServerClock:
    """The server's time, however wrong the clock of this machine is."""

    def __init__(self, client: "Client", stream: str) -> None:
        self._client, self._stream = client, stream
        self._ahead = self._read = 0.0

    async def now(self) -> float:
        """Seconds since 1970. Raises FleetError."""
        began = time.monotonic()
        if not self._read or began - self._read > _CLOCK_VALID:
            reply = await api(self._client, f"STREAM.INFO.{self._stream}")
            ended = time.monotonic()
            self._ahead = datetime.fromisoformat(reply["ts"]).timestamp() - (began + ended) / 2
            self._read = ended
        return time.monotonic() + self._ahead


class SharedLimits:
    """Counts for the hooks of this host. `subject` makes the subject of a counter from a name of one token."""

    def __init__(self, client: "Client", stream: str, subject: Callable[[str], str]) -> None:
        self._client, self._subject = client, subject
        self._clock = ServerClock(client, stream)
        self.problem = ""

    async def count(self, request: LimitRequest) -> LimitReply:
        """Add to the counter of the present window. Raises FleetError."""
        now = await self._clock.now()
        window = int(now // request.seconds)
        name = files.sha256(request.limit.encode()).hexdigest()[:24]
        subject = f"{self._subject(name)}.{int(request.seconds)}.{window}"
        found = await publish(self._client, subject, b"", {"Nats-Incr": f"+{request.add}"})
        return LimitReply(int(found["val"]), (window + 1) * request.seconds - now)

    @asynccontextmanager
    async def serving(self, root: Path) -> "AsyncIterator[None]":
        """The socket for hooks, as long as this context lasts."""
        path = root / SOCKET
        with files.opened(path.parent, root, create=True, private=True) as folder:
            place = f"/proc/self/fd/{folder}/{path.name}"  # a path of any length
            with suppress(FileNotFoundError):
                os.unlink(place)
            server = await asyncio.start_unix_server(self._answer, place)
            try:
                yield
            finally:
                server.close()
                with suppress(OSError):
                    os.unlink(path)

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            request = msgspec.json.decode(await reader.readline(), type=LimitRequest)
            if request.seconds < 1 or request.add < 1:
                raise BillhookError("`seconds` and `add` must be at least 1")
            reply: Any = await self.count(request)
            self.problem = ""
        except Exception as error:  # the hook counts on its own then
            self.problem = str(error) or type(error).__name__
            reply = {"error": self.problem}
        with suppress(OSError):
            writer.write(msgspec.json.encode(reply) + b"\n")
            await writer.drain()
            writer.close()


async def follow(link: "FleetLink") -> None:
    """Answer this host's hooks."""
    limits = SharedLimits(link.client, LIMITS, link.subjects.limit)
    async with limits.serving(link.root):
        while True:
            link.status["limits_problem"] = limits.problem
            await asyncio.sleep(_REPORTED)

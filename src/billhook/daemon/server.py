"""The socket's side of the daemon: bytes in, frames out, one task for each caller."""

import asyncio
import os
import select
import socket
import struct
import sys
from collections.abc import Awaitable, Callable
from typing import Any, Final, cast

from billhook import __version__
from billhook.answering import Heard
from billhook.cli.pipes import lines_for_people
from billhook.daemon import wire
from billhook.daemon.logs import Seldom

SLOWEST: Final = 30.0
"""Seconds for a caller to send its request."""

Answer = Callable[[wire.Asked], Awaitable[Heard]]

_RDHUP: Final = getattr(select, "POLLRDHUP", 0)
"""The other end is closed. Where the system has no name for that, it says so unasked."""
_stranger = Seldom("refused a caller that is another user")
_garbage = Seldom("refused a request")


class Server:
    """What all connections share. Lives as long as the daemon."""

    def __init__(self, answer: Answer, *, refuse: Callable[[], str], about: Callable[[], bytes]) -> None:
        """`refuse` says why no new request is taken; nothing: it is. `about` says how the daemon is, as JSON."""
        self.answer, self.refuse, self.about = answer, refuse, about
        self.connections: set[Connection] = set()
        self.served = 0
        self.touched = 0.0
        """When somebody last asked, by the loop's clock."""

    def __call__(self) -> "Connection":
        return Connection(self)

    @property
    def busy(self) -> int:
        """How many requests are being answered."""
        return sum(connection.task is not None for connection in self.connections)


class Connection(asyncio.Protocol):
    """One caller: one request, one answer. A caller that goes away takes its hooks along."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self.task: asyncio.Task[None] | None = None
        self._data = bytearray()
        self._wanted = -1
        self._timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)
        self.server.connections.add(self)
        if not _is_ours(self.transport.get_extra_info("socket")):
            _stranger.note()
            self.transport.abort()
            return
        self._timer = asyncio.get_running_loop().call_later(SLOWEST, self.transport.abort)

    def connection_lost(self, error: Exception | None) -> None:
        self.server.connections.discard(self)
        if self._timer is not None:
            self._timer.cancel()
        if self.task is not None:
            self.task.cancel()

    def eof_received(self) -> bool:
        """The caller has no more to say. Before its request is whole, that is its end; afterwards it has gone."""
        return False

    def data_received(self, data: bytes) -> None:
        if self.task is not None:
            self.transport.abort()  # nobody says anything after a request
            return
        self._data += data
        if self._data[3:4] == wire.ABOUT[3:4] and wire.ABOUT.startswith(self._data):
            if len(self._data) == len(wire.ABOUT):
                self._finish(wire.about(self.server.about()))
            return
        try:
            if self._wanted < 0 and len(self._data) >= wire.HEAD:
                self._wanted = wire.HEAD + wire.length(bytes(self._data[: wire.HEAD]))
            elif self._wanted < 0:
                wire.length(bytes(self._data).ljust(wire.HEAD, b"\0"))  # the wrong beginning is known at once
            if 0 <= self._wanted < len(self._data):
                raise wire.GarbageError("bytes after the end of the request")
            if len(self._data) == self._wanted:
                self._take(wire.read(bytes(self._data[wire.HEAD :])))
        except wire.GarbageError as error:
            _garbage.note(error)
            self._finish(wire.not_started(str(error)))

    def _take(self, asked: wire.Asked) -> None:
        self._data.clear()
        if self._timer is not None:
            self._timer.cancel()
        server = self.server
        server.touched = asyncio.get_running_loop().time()
        why = server.refuse() or ("" if asked.version == __version__ else f"this is billhook {__version__}")
        if why:
            self._finish(wire.not_started(why))
            return
        self.transport.write(wire.STARTED)
        if self._has_gone():
            # It may or may not have seen that we began, so we did not: it is its own hook, or it reports a failure.
            self.transport.abort()
            return
        server.served += 1
        self.task = asyncio.ensure_future(self._serve(asked))

    def _has_gone(self) -> bool:
        # uvloop's sockets can't be read from, so the system is asked about the descriptor.
        looking = select.poll()
        looking.register(self.transport.get_extra_info("socket").fileno(), _RDHUP)
        return self.transport.is_closing() or bool(looking.poll(0))

    async def _serve(self, asked: wire.Asked) -> None:
        heard = await self.server.answer(asked)
        self.task = None
        spoken = heard.stderr
        newline = b"\n" if spoken and not spoken.endswith(b"\n") and heard.lines else b""
        self._finish(wire.answer(heard.code, heard.stdout, spoken + newline + lines_for_people(heard.lines)))

    def _finish(self, frame: bytes) -> None:
        self.transport.write(frame)
        self.transport.close()
        if self._timer is not None:
            self._timer.cancel()
        # One that does not read its answer is not kept for ever.
        self._timer = asyncio.get_running_loop().call_later(SLOWEST, self.transport.abort)


def _is_ours(sock: Any) -> bool:
    """Whether the other end belongs to the same user."""
    if not hasattr(socket, "SO_PEERCRED"):
        return True  # the folder lets nobody else in
    size = struct.calcsize("3i")
    _, uid, _ = struct.unpack("3i", sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, size))
    return bool(uid == os.geteuid()) or sys.platform == "win32"

"""The socket's side of the daemon: bytes in, frames out, one task for each caller."""

import asyncio
import os
import socket
import struct
from collections.abc import Callable, Coroutine
from typing import Any, Final

from billhook import __version__
from billhook.answering import Heard
from billhook.daemon import wire
from billhook.daemon.logs import Seldom

SLOWEST: Final = 30.0
"""Seconds for a caller to send its request."""

Begin = Callable[[wire.Asked], Heard | Coroutine[Any, Any, Heard]]
"""The answer to a request, or what is to be awaited for it. Neither raises."""

_SOON: Final = 0.01
_PAUSE: Final = 0.1
_EARLIER: Final = 32
"""Callers before one that are listened to once more."""
_CHUNK: Final = 1 << 18
_stranger = Seldom("refused a caller that is another user")
_garbage = Seldom("refused a request")
_exhausted = Seldom("can't take a caller")


class Server:
    """What all connections share. Lives as long as the daemon.

    Sockets are read and written here, not by transports: a request is nearly always there as a whole when its
    connection is, and the answer fits into the socket.
    """

    def __init__(self, begin: Begin, *, refuse: Callable[[], str], about: Callable[[], bytes]) -> None:
        """`refuse` says why no new request is taken; nothing: it is. `about` says how the daemon is, as JSON."""
        self.begin, self.refuse, self.about = begin, refuse, about
        self.room = memoryview(bytearray(_CHUNK))
        """What all read into: a buffer of its own for each would cost more than to read."""
        self.connections: set[Connection] = set()
        self.served = 0
        self.touched = 0.0
        """When somebody last asked, by the loop's clock."""
        self.silent: dict[Connection, None] = {}
        """Those who have not asked yet, in the order in which they came."""
        self._listener: socket.socket | None = None

    def listen(self, listener: socket.socket) -> None:
        """Take callers from a socket that listens, until `close`."""
        listener.setblocking(False)
        self._listener = listener
        asyncio.get_running_loop().add_reader(listener.fileno(), self._accept, listener)

    def close(self) -> None:
        """Take no more callers."""
        if self._listener is not None:
            asyncio.get_running_loop().remove_reader(self._listener.fileno())
            self._listener.close()
            self._listener = None

    @property
    def busy(self) -> int:
        """How many requests are being answered."""
        return sum(connection.task is not None for connection in self.connections)

    def _accept(self, listener: socket.socket) -> None:
        try:
            sock, _address = listener.accept()  # if there are more, we are called again
        except (BlockingIOError, InterruptedError, ConnectionAbortedError):
            return
        except OSError as error:  # no descriptors left: those who wait are taken when others have gone
            _exhausted.note(error)
            loop = asyncio.get_running_loop()
            loop.remove_reader(listener.fileno())
            loop.call_later(_PAUSE, self._again)
            return
        sock.setblocking(False)
        if self.silent:
            self._hear_earlier()
        Connection(self, sock).begin()

    def _hear_earlier(self) -> None:
        """Take those who came before, if they have asked by now: events of one session begin in their order."""
        for connection in list(self.silent)[-_EARLIER:]:
            connection.read()

    def _again(self) -> None:
        if self._listener is not None:
            asyncio.get_running_loop().add_reader(self._listener.fileno(), self._accept, self._listener)


class Connection:
    """One caller: one request, one answer. A caller that goes away takes its hooks along."""

    def __init__(self, server: Server, sock: socket.socket) -> None:
        self.server, self._sock = server, sock
        self.task: asyncio.Task[None] | None = None
        self.is_closed = False
        self._loop = asyncio.get_running_loop()
        self._data = bytearray()
        self._wanted = -1
        self._reads = self._writes = False
        self._timer: asyncio.TimerHandle | None = None

    @property
    def is_waited_for(self) -> bool:
        """It has not sent its request yet."""
        return self.task is None and not self._writes

    def begin(self) -> None:
        """Look whether the request is there already."""
        self.server.connections.add(self)
        if not _is_ours(self._sock):
            _stranger.note()
            self.abort()
            return
        self.read()
        if not self.is_closed and self.task is None and not self._writes:
            self.server.silent[self] = None
            self._reads = True
            self._loop.add_reader(self._sock.fileno(), self.read)
            self._limit()

    def abort(self) -> None:
        """Let go of it: its hooks are ended, and it gets no answer."""
        if self.task is not None:
            self.task.cancel()
        self._close()

    # -- the request

    def read(self) -> None:
        """Take what has come."""
        room = self.server.room
        try:
            size = self._sock.recv_into(room)
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            size = 0
        if not size or self.task is not None:
            self.abort()  # it has gone, or says something after its request
            return
        self._data += room[:size]
        try:
            self._take_data()
        except wire.GarbageError as error:
            _garbage.note(error)
            self._finish(wire.not_started(str(error)))

    def _take_data(self) -> None:
        data = self._data
        if data[3:4] == wire.ABOUT[3:4] and wire.ABOUT.startswith(data):
            if len(data) == len(wire.ABOUT):
                self._finish(wire.about(self.server.about()))
            return
        if self._wanted < 0:
            size = wire.length(bytes(data[: wire.HEAD]).ljust(wire.HEAD, b"\0"))  # a wrong beginning is known at once
            if len(data) < wire.HEAD:
                return
            self._wanted = wire.HEAD + size
        if len(data) > self._wanted:
            raise wire.GarbageError("bytes after the end of the request")
        if len(data) == self._wanted:
            self._take(wire.read(bytes(memoryview(data)[wire.HEAD :])))
        elif len(data) % _CHUNK == 0:
            self.read()  # there may be more already

    def _take(self, asked: wire.Asked) -> None:
        self._data = bytearray()
        self._still()
        server = self.server
        server.touched = self._loop.time()
        why = server.refuse() or ("" if asked.version == __version__ else f"this is billhook {__version__}")
        if why:
            self._finish(wire.not_started(why))
            return
        if not self._says_started():
            # It may or may not have seen that we began, so we did not: it is its own hook, or it reports a failure.
            self.abort()
            return
        server.served += 1
        said = server.begin(asked)
        if isinstance(said, Heard):
            self._finish(wire.answer(said.code, said.stdout, said.all_of_stderr))
            return
        self.task = self._loop.create_task(self._serve(said))
        # Whoever goes away takes its hooks along; most answers are there before anybody could.
        self._timer = self._loop.call_later(_SOON, self._watch)

    def _says_started(self) -> bool:
        try:
            return self._sock.send(wire.STARTED) == len(wire.STARTED) and self._is_there()
        except OSError:
            return False

    def _is_there(self) -> bool:
        try:
            return self._sock.recv(1, socket.MSG_PEEK) != b""
        except BlockingIOError:
            return True  # and says nothing
        except OSError:
            return False

    def _watch(self) -> None:
        if self.task is not None and not self.is_closed:
            self._reads = True
            self._loop.add_reader(self._sock.fileno(), self.read)

    # -- the answer

    async def _serve(self, rest: Coroutine[Any, Any, Heard]) -> None:
        heard = await rest
        self.task = None
        self._finish(wire.answer(heard.code, heard.stdout, heard.all_of_stderr))

    def _finish(self, frame: bytes) -> None:
        self._still()
        self._data = bytearray(frame)
        self._write()
        if self._data and not self.is_closed:
            self._writes = True
            self._loop.add_writer(self._sock.fileno(), self._write)
            self._limit()

    def _write(self) -> None:
        try:
            sent = self._sock.send(self._data)
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            self._close()
            return
        del self._data[:sent]
        if not self._data:
            self._close()

    # -- the end

    def _limit(self) -> None:
        """Nobody may take for ever to send a request, or to read an answer."""
        self._timer = self._loop.call_later(SLOWEST, self.abort)

    def _still(self) -> None:
        self.server.silent.pop(self, None)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._reads:
            self._reads = False
            self._loop.remove_reader(self._sock.fileno())
        if self._writes:
            self._writes = False
            self._loop.remove_writer(self._sock.fileno())

    def _close(self) -> None:
        if not self.is_closed:
            self.is_closed = True
            self._still()
            self._sock.close()
            self.server.connections.discard(self)


def _is_ours(sock: socket.socket) -> bool:
    """Whether the other end belongs to the same user."""
    if not hasattr(socket, "SO_PEERCRED"):
        return True  # the folder lets nobody else in
    size = struct.calcsize("3i")
    _, uid, _ = struct.unpack("3i", sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, size))
    return bool(uid == os.geteuid())

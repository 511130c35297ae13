"""The daemon's socket: bytes in, frames out, one task for each caller."""

import _socket
import asyncio
import logging
import os
import socket
import sys
import time
from collections.abc import Callable, Coroutine
from typing import Any, Final

from billhook import __version__
from billhook.serve import control, protocol
from billhook.serve.hook_server import HookResponse
from billhook.store.files import stamp

SLOWEST: Final = 30.0  # seconds for a caller to send its request

Begin = Callable[[protocol.CallerRequest, Callable[[], int]], HookResponse | Coroutine[Any, Any, HookResponse]]
"""The answer to a request of a process (0: unknown), or a coroutine that returns it. Neither raises."""

Page = Callable[[int], Coroutine[Any, Any, bytes]]
"""A link to the page for the process that is connected (0: unknown), or why it gets none."""
_SOON: Final = 0.01
_PAUSE: Final = 0.1
_EARLIER: Final = 32  # earlier callers whose sockets are read once more before a new one
_CHUNK: Final = 1 << 18
_FAMILY, _STREAM, _AT_ONCE = int(socket.AF_UNIX), int(socket.SOCK_STREAM), int(socket.MSG_DONTWAIT)
_PEER: Final[int | None] = getattr(socket, "SO_PEERCRED", None)
_NOTHING: Final = memoryview(b"")
_US: Final = os.geteuid().to_bytes(4, sys.byteorder)
Socket = _socket.socket  # the base class of `socket.socket`, which is faster and has everything that is needed here
_RARELY: Final = 1.0  # seconds between two lines of the log that the same kind of caller causes
_log = logging.getLogger("billhook.serve")


class ThrottledLog:
    """Logs something that may happen very often: at most one line per second, with a count."""

    def __init__(self, what: str) -> None:
        self._what, self._next, self._unsaid = what, 0.0, 0

    def note(self, why: object = "") -> None:
        self._unsaid += 1
        now = time.monotonic()
        if now < self._next:
            return
        self._next = now + _RARELY
        times = f" ({self._unsaid:,} times)" if self._unsaid > 1 else ""
        self._unsaid = 0
        _log.warning("%s%s%s", self._what, f": {why}" if why else "", times)


_stranger = ThrottledLog("rejected a caller of another user")
_garbage = ThrottledLog("rejected a request")
_exhausted = ThrottledLog("can't accept a caller")


class Server:
    """What all connections share. Lives as long as the daemon.

    Sockets are read and written directly, without transports: a request is nearly always complete when its connection
    arrives, and the answer fits into the socket's buffer.
    """

    def __init__(
        self, begin: Begin, *, about: Callable[[], bytes], page: Page | None = None, changed: Callable[[str], None]
    ) -> None:
        """`about` returns the daemon's status as JSON, `page` a link to the page; `changed` is called when one of
        `files` has changed."""
        self.begin, self.about, self.page, self.changed = begin, about, page, changed
        self.files: dict[str, tuple[int, ...]] = {}  # files that must not change while requests are accepted
        self.leaving = ""  # why no more requests are accepted
        self.room = memoryview(bytearray(_CHUNK))
        """The read buffer of all connections: one buffer for each would cost more than the reading."""
        self.connections: set[Connection] = set()  # connections that could not be answered at once
        self.served = 0
        self.touched = 0.0  # the time of the last request, by the loop's clock
        self.silent: dict[Connection, None] = {}  # connections without a request so far, in order of arrival
        self.loop: asyncio.AbstractEventLoop  # set when it listens
        self._listener: Socket | None = None

    def listen(self, listener: socket.socket) -> None:
        """Accept callers from a listening socket, until `close`."""
        self.loop = asyncio.get_running_loop()
        listener.setblocking(False)
        self._listener = Socket(listener.family, listener.type, listener.proto, listener.detach())
        self.loop.add_reader(self._listener.fileno(), self._accept, self._listener)

    def close(self) -> None:
        """Accept no more callers."""
        if self._listener is not None:
            self.loop.remove_reader(self._listener.fileno())
            self._listener.close()
            self._listener = None

    @property
    def busy(self) -> int:
        """How many requests are being answered."""
        return sum(connection.task is not None for connection in self.connections)

    def refuse(self) -> str:
        """Why no new request is accepted; empty: it is."""
        if not self.leaving:
            for file, known in self.files.items():
                if stamp(file) != known:
                    self.changed(file)
        return self.leaving

    def _accept(self, listener: Socket) -> None:
        try:
            file, _ = listener._accept()  # type: ignore[attr-defined]  # if there are more, we are called again
        except (BlockingIOError, InterruptedError, ConnectionAbortedError):
            return
        except OSError as error:  # no descriptors left: callers wait until others have disconnected
            _exhausted.note(error)
            self.loop.remove_reader(listener.fileno())
            self.loop.call_later(_PAUSE, self._again)
            return
        for connection in list(self.silent)[-_EARLIER:]:
            connection.read()  # earlier callers first, if their request is here: events of a session begin in order
        Connection(self, Socket(_FAMILY, _STREAM, 0, file)).begin()

    def _again(self) -> None:
        if self._listener is not None:
            self.loop.add_reader(self._listener.fileno(), self._accept, self._listener)


class Connection:
    """One caller: one request, one answer. If the caller disconnects, its hooks are ended."""

    def __init__(self, server: Server, sock: Socket) -> None:
        self.server, self._sock = server, sock
        self.task: asyncio.Task[None] | None = None
        self.is_closed = False
        self._data: bytes | bytearray = b""  # the received part of the request
        self._wanted = -1
        self._unsent = _NOTHING  # the unsent part of the answer
        self._reads = self._writes = False
        self._timer: asyncio.TimerHandle | None = None

    @property
    def is_waited_for(self) -> bool:
        """Whether it has not sent its request yet."""
        return self.task is None and not self._writes

    def begin(self) -> None:
        """Answer at once if the request is already here, as it nearly always is, and needs no waiting."""
        # Process, user and group of the other end. Where this is not supported, the folder's mode keeps others out.
        if _PEER is not None and self._sock.getsockopt(socket.SOL_SOCKET, _PEER, 12)[4:8] != _US:
            _stranger.note()
            self.abort()
            return
        self.read()
        if self.is_closed:
            return
        self.server.connections.add(self)
        if self.is_waited_for:
            self.server.silent[self] = None
            self._reads = True
            self.server.loop.add_reader(self._sock.fileno(), self.read)
            self._limit()

    def abort(self) -> None:
        """Disconnect: its hooks are ended, and it gets no answer."""
        if self.task is not None:
            self.task.cancel()
        self._close()

    # -- the request

    def read(self) -> None:
        """Read the bytes that have arrived."""
        room = self.server.room
        try:
            size = self._sock.recv_into(room, 0, _AT_ONCE)
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            size = 0
        if not size or self.task is not None:
            self.abort()  # it disconnected, or sent bytes after its request
            return
        try:
            if not self._data and (body := protocol.whole(room, size)) is not None:
                self._take(protocol.read(body))
                return
            if not self._data:
                self._data = bytearray()
            self._data += room[:size]
            self._take_data()
        except protocol.BadRequestError as error:
            _garbage.note(error)
            self._finish(protocol.not_started(str(error)))

    def _take_data(self) -> None:
        """Handle a request that arrives in several parts, or that is invalid."""
        data = self._data
        if protocol.ABOUT.startswith(data):  # also a common prefix of both
            if len(data) == len(protocol.ABOUT):
                self._finish(protocol.about(self.server.about()))
            return
        if self.server.page is not None and protocol.PAGE.startswith(data):
            if len(data) == len(protocol.PAGE):
                self._still()
                self.task = self.server.loop.create_task(self._serve_page(self.server.page))
            return
        if self._wanted < 0:
            size = protocol.length(bytes(data[: protocol.HEAD]))  # a wrong head is rejected at once
            if len(data) < protocol.HEAD:
                return
            self._wanted = protocol.HEAD + size
        if len(data) > self._wanted:
            raise protocol.BadRequestError("bytes after the end of the request")
        if len(data) == self._wanted:
            self._take(protocol.read(bytes(memoryview(data)[protocol.HEAD :])))
        elif len(data) % _CHUNK == 0:
            self.read()  # there may already be more

    def _take(self, asked: protocol.CallerRequest) -> None:
        self._data = b""
        self._still()
        server = self.server
        server.touched = server.loop.time()
        why = server.refuse() or ("" if asked.version == __version__ else f"this is billhook {__version__}")
        if why:
            self._finish(protocol.not_started(why))
            return
        try:
            told = self._sock.send(protocol.STARTED, _AT_ONCE) == len(protocol.STARTED)
        except OSError:
            told = False
        if not told:
            # The caller disconnected, or may not have seen that we began: so nothing runs here. It runs the hooks
            # itself, or reports a failure.
            self.abort()
            return
        server.served += 1
        said = server.begin(asked, self._process)
        if isinstance(said, HookResponse):
            self._finish(protocol.answer(said.code, said.stdout, said.all_of_stderr))
            return
        self.task = server.loop.create_task(self._serve(said))
        # If the caller disconnects, its hooks are ended; most answers are ready before it could.
        self._timer = server.loop.call_later(_SOON, self._watch)

    def _process(self) -> int:
        """The caller's process."""
        return 0 if self.is_closed else control.peer_of(self._sock)

    def _watch(self) -> None:
        if self.task is not None and not self.is_closed:
            self._reads = True
            self.server.loop.add_reader(self._sock.fileno(), self.read)

    # -- the answer

    async def _serve(self, rest: Coroutine[Any, Any, HookResponse]) -> None:
        response = await rest
        self.task = None
        self._finish(protocol.answer(response.code, response.stdout, response.all_of_stderr))

    async def _serve_page(self, page: Page) -> None:
        link = await page(control.peer_of(self._sock))
        self.task = None
        self._finish(protocol.about(link))

    def _finish(self, frame: bytes) -> None:
        self._unsent = memoryview(frame)
        self._write()
        if not self.is_closed:
            self._still()
            self._writes = True
            self.server.loop.add_writer(self._sock.fileno(), self._write)
            self._limit()

    def _write(self) -> None:
        try:
            sent = self._sock.send(self._unsent, _AT_ONCE)
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            self._close()
            return
        self._unsent = self._unsent[sent:]
        if not self._unsent:
            self._close()

    # -- the end

    def _limit(self) -> None:
        """Limit the time for sending a request, and for reading an answer."""
        self._timer = self.server.loop.call_later(SLOWEST, self.abort)

    def _still(self) -> None:
        self.server.silent.pop(self, None)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._reads:
            self._reads = False
            self.server.loop.remove_reader(self._sock.fileno())
        if self._writes:
            self._writes = False
            self.server.loop.remove_writer(self._sock.fileno())

    def _close(self) -> None:
        if not self.is_closed:
            self.is_closed = True
            self._still()
            self._sock.close()
            self.server.connections.discard(self)

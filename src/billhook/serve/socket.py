"""The socket's side of the daemon: bytes in, frames out, one task for each caller."""

import _socket
import asyncio
import os
import socket
import sys
from collections.abc import Callable, Coroutine
from typing import Any, Final

from billhook import __version__
from billhook.serve import protocol
from billhook.serve.hook_server import HookResponse
from billhook.serve.server_log import Seldom

SLOWEST: Final = 30.0  # seconds for a caller to send its request

Begin = Callable[[protocol.CallerRequest], HookResponse | Coroutine[Any, Any, HookResponse]]
"""The answer to a request, or what is to be awaited for it. Neither raises."""

_SOON: Final = 0.01
_PAUSE: Final = 0.1
_EARLIER: Final = 32  # callers before one that are listened to once more
_CHUNK: Final = 1 << 18
_FAMILY, _STREAM, _AT_ONCE = int(socket.AF_UNIX), int(socket.SOCK_STREAM), int(socket.MSG_DONTWAIT)
_PEER: Final[int | None] = getattr(socket, "SO_PEERCRED", None)
_NOTHING: Final = memoryview(b"")
_US: Final = os.geteuid().to_bytes(4, sys.byteorder)
Socket = _socket.socket  # What `socket.socket` is made of, and all that is needed here: quicker to make, and to ask
_stranger = Seldom("refused a caller that is another user")
_garbage = Seldom("refused a request")
_exhausted = Seldom("can't take a caller")


class Server:
    """What all connections share. Lives as long as the daemon.

    Sockets are read and written here, not by transports: a request is nearly always there as a whole when its
    connection is, and the answer fits into the socket.
    """

    def __init__(self, begin: Begin, *, about: Callable[[], bytes], changed: Callable[[str], None]) -> None:
        """`about` says how the daemon is, as JSON; `changed` is called when a file is not what it was."""
        self.begin, self.about, self.changed = begin, about, changed
        self.files: dict[str, tuple[int, ...]] = {}  # what must stay as it is for requests to be taken
        self.leaving = ""  # why no more requests are taken
        self.room = memoryview(bytearray(_CHUNK))
        """What all read into: a buffer of its own for each would cost more than to read."""
        self.connections: set[Connection] = set()  # those that could not be answered at once
        self.served = 0
        self.touched = 0.0  # when somebody last asked, by the loop's clock
        self.silent: dict[Connection, None] = {}  # those who have not asked yet, in the order in which they came
        self.loop: asyncio.AbstractEventLoop  # known when it listens
        self._listener: Socket | None = None

    def listen(self, listener: socket.socket) -> None:
        """Take callers from a socket that listens, until `close`."""
        self.loop = asyncio.get_running_loop()
        listener.setblocking(False)
        self._listener = Socket(listener.family, listener.type, listener.proto, listener.detach())
        self.loop.add_reader(self._listener.fileno(), self._accept, self._listener)

    def close(self) -> None:
        """Take no more callers."""
        if self._listener is not None:
            self.loop.remove_reader(self._listener.fileno())
            self._listener.close()
            self._listener = None

    @property
    def busy(self) -> int:
        """How many requests are being answered."""
        return sum(connection.task is not None for connection in self.connections)

    def refuse(self) -> str:
        """Why no new request is taken; nothing: it is."""
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
        except OSError as error:  # no descriptors left: those who wait are taken when others have gone
            _exhausted.note(error)
            self.loop.remove_reader(listener.fileno())
            self.loop.call_later(_PAUSE, self._again)
            return
        for connection in list(self.silent)[-_EARLIER:]:
            connection.read()  # those who came before, if they have asked by now: events of a session begin in order
        Connection(self, Socket(_FAMILY, _STREAM, 0, file)).begin()

    def _again(self) -> None:
        if self._listener is not None:
            self.loop.add_reader(self._listener.fileno(), self._accept, self._listener)


def stamp(path: str) -> tuple[int, ...]:
    """What tells a file from another one, and from what it was; nothing where there is none."""
    try:
        found = os.stat(path)
    except OSError:
        return ()
    return found.st_dev, found.st_ino, found.st_mtime_ns, found.st_size


class Connection:
    """One caller: one request, one answer. A caller that goes away takes its hooks along."""

    def __init__(self, server: Server, sock: Socket) -> None:
        self.server, self._sock = server, sock
        self.task: asyncio.Task[None] | None = None
        self.is_closed = False
        self._data: bytes | bytearray = b""  # what has come of the request
        self._wanted = -1
        self._unsent = _NOTHING  # what is left of the answer
        self._reads = self._writes = False
        self._timer: asyncio.TimerHandle | None = None

    @property
    def is_waited_for(self) -> bool:
        """It has not sent its request yet."""
        return self.task is None and not self._writes

    def begin(self) -> None:
        """Look whether the request is there already, as it nearly always is, and its answer can be given at once."""
        # What the other end is: the numbers of its process, user and group. Without it, the folder lets nobody else in.
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
        """Let go of it: its hooks are ended, and it gets no answer."""
        if self.task is not None:
            self.task.cancel()
        self._close()

    # -- the request

    def read(self) -> None:
        """Take what has come."""
        room = self.server.room
        try:
            size = self._sock.recv_into(room, 0, _AT_ONCE)
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            size = 0
        if not size or self.task is not None:
            self.abort()  # it has gone, or says something after its request
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
        """Take a request that comes in several pieces, or that is none."""
        data = self._data
        if protocol.ABOUT.startswith(data):  # or what both begin with
            if len(data) == len(protocol.ABOUT):
                self._finish(protocol.about(self.server.about()))
            return
        if self._wanted < 0:
            size = protocol.length(bytes(data[: protocol.HEAD]))  # a wrong beginning is known at once
            if len(data) < protocol.HEAD:
                return
            self._wanted = protocol.HEAD + size
        if len(data) > self._wanted:
            raise protocol.BadRequestError("bytes after the end of the request")
        if len(data) == self._wanted:
            self._take(protocol.read(bytes(memoryview(data)[protocol.HEAD :])))
        elif len(data) % _CHUNK == 0:
            self.read()  # there may be more already

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
            # It has gone, or may have seen that we began and may not: so we did not. It is its own hook, or it reports
            # a failure.
            self.abort()
            return
        server.served += 1
        said = server.begin(asked)
        if isinstance(said, HookResponse):
            self._finish(protocol.answer(said.code, said.stdout, said.all_of_stderr))
            return
        self.task = server.loop.create_task(self._serve(said))
        # Whoever goes away takes its hooks along; most answers are there before anybody could.
        self._timer = server.loop.call_later(_SOON, self._watch)

    def _watch(self) -> None:
        if self.task is not None and not self.is_closed:
            self._reads = True
            self.server.loop.add_reader(self._sock.fileno(), self.read)

    # -- the answer

    async def _serve(self, rest: Coroutine[Any, Any, HookResponse]) -> None:
        heard = await rest
        self.task = None
        self._finish(protocol.answer(heard.code, heard.stdout, heard.all_of_stderr))

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
        """Nobody may take for ever to send a request, or to read an answer."""
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

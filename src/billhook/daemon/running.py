"""The daemon itself: one for each user and state root, until it is told to end, nobody asks any more, or it is out of
date."""

import asyncio
import fcntl
import logging
import os
import signal
import sys
from pathlib import Path
from typing import Any, Final

import billhook
from billhook import process
from billhook.daemon import places
from billhook.daemon.server import Server
from billhook.daemon.serving import Served

IDLE: Final = 3600.0
"""Seconds without a request after which a daemon ends."""
_LOOKED: Final = 1.0
"""Seconds between two looks at what a daemon was made from."""
_log = logging.getLogger("billhook.daemon")


class AlreadyError(Exception):
    """There is a daemon already."""


class Daemon:
    """One run of the daemon."""

    def __init__(self, root: Path, *, idle: float = IDLE) -> None:
        self.folder = places.made(root)
        self.idle = idle
        self.leaving = ""
        """Why it takes no more requests."""
        self._made_from = _identity(self.folder)
        self._lock = _locked(self.folder)
        self._ended = asyncio.Event()

    async def run(self) -> str:
        """Serve until there is a reason not to; the reason."""
        loop = asyncio.get_running_loop()
        served = Served()
        server = Server(served.answer, refuse=self._refuse)
        server.touched = loop.time()
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            loop.add_signal_handler(number, self.leave, f"signal {number}")
        listener = await self._listen(server)
        watch = asyncio.ensure_future(self._watch(server))
        try:
            await self._ended.wait()
            listener.close()
            await self._finish(server)
        finally:
            watch.cancel()
            self._remove_socket()
        return self.leaving

    def leave(self, why: str) -> None:
        """Take no more requests, and end when those that run have their answers."""
        if not self.leaving:
            self.leaving = why
            self._remove_socket()  # the next caller starts another
        self._ended.set()

    async def _listen(self, server: Server) -> asyncio.AbstractServer:
        self._remove_socket()
        with places.reachable(self.folder) as path:
            before = os.umask(0o177)
            try:
                return await asyncio.get_running_loop().create_unix_server(server, path, backlog=512)
            finally:
                os.umask(before)

    async def _watch(self, server: Server) -> None:
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(_LOOKED)
            self._refuse()
            if self.idle and not server.busy and loop.time() - server.touched > self.idle:
                self.leave(f"nobody asked for {self.idle:g} s")

    def _refuse(self) -> str:
        """Why no new request is taken."""
        if not self.leaving and _identity(self.folder) != self._made_from:
            self.leave("billhook, its interpreter or its folder has changed")
        return self.leaving

    async def _finish(self, server: Server) -> None:
        """Let those who wait have their answers; what never ends has a time-out of its own."""
        tasks = [connection.task for connection in server.connections if connection.task is not None]
        if tasks:
            await asyncio.wait(tasks)

    def _remove_socket(self) -> None:
        if _identity(self.folder)[-1] == self._made_from[-1]:  # only in the folder that is ours
            (self.folder / places.SOCKET).unlink(missing_ok=True)


def _locked(folder: Path) -> int:
    """The lock that one daemon at a time holds, as long as its process lives."""
    descriptor = os.open(folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        raise AlreadyError(str(folder)) from None
    os.truncate(descriptor, 0)
    os.write(descriptor, f"{os.getpid()}\n".encode())
    return descriptor


def _identity(folder: Path) -> tuple[Any, ...]:
    """What changes when billhook is upgraded, its interpreter is replaced, or the home is moved."""
    return tuple(map(_stamp, (billhook.__file__, sys.executable, str(folder))))


def _stamp(path: str) -> tuple[int, ...]:
    try:
        found = os.stat(path)
    except OSError:
        return ()
    folder = os.path.isdir(path)
    return (found.st_dev, found.st_ino) if folder else (found.st_dev, found.st_ino, found.st_mtime_ns, found.st_size)


def run(root: Path, *, idle: float = IDLE) -> str:
    """Be the daemon, in this process. Raises AlreadyError."""
    process.adopt_orphans()

    async def serve() -> str:
        return await Daemon(root, idle=idle).run()

    try:
        with asyncio.Runner(loop_factory=_loop_factory()) as runner:
            return runner.run(serve())
    finally:
        process.settle()


def _loop_factory() -> Any:
    """uvloop's, where that is installed."""
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.new_event_loop

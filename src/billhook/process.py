"""Run one command: standard input, environment, deadline, and the end of everything it started. Knows no hooks.

    exit = await run(["./check.sh"], stdin=b"{}", env=os.environ, seconds=10)

What a caller may rely on:

- The exit status decides, not the end of the output: a background process that holds stdout delays a result by 0.1 s.
- A command that ended leaves nothing behind: what remains of its process group, and whatever still holds its output, gets
  TERM at once and KILL 0.5 s later. A process that left the group and closed the output is a daemon on purpose and is spared.
- At the deadline, or when the waiting task is cancelled, the whole tree (see `tree`) gets TERM and CONT, after 0.5 s KILL.
- Output is kept up to a cap and drained beyond it.
- Nothing process-wide changes: no signal handler, no child watcher, and only our own children are ever collected. So it
  works in any event loop of any thread.
"""

import asyncio
import os
import selectors
import signal
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence

from billhook import spawn
from billhook.exits import Exit
from billhook.tree import GRACE, MARKER, Tree, bury, settle

__all__ = ["Child", "adopt_orphans", "run", "settle", "shell_argv", "start"]

STDOUT_CAP = 1 << 20
STDERR_CAP = 1 << 16
LINGER = 0.1
"""Seconds for which output is still read after the exit: a helper such as `>(tee log)` may be flushing."""

_CHUNK = 1 << 16
_PIPE_MAX = 1 << 20


def shell_argv(command: str, platform: str = sys.platform) -> tuple[str, ...]:
    """The argv that gives `command` to the system's shell."""
    return ("cmd", "/C", command) if platform == "win32" else ("/bin/sh", "-c", command)


async def run(
    argv: Sequence[str],
    *,
    stdin: bytes,
    env: Mapping[str, str],
    cwd: str | bytes | os.PathLike[str] | None = None,
    seconds: float,
) -> Exit:
    """Run a command to its end, at most for `seconds`."""
    exit = await start(argv, stdin=stdin, env=env, cwd=cwd).wait(seconds)
    assert exit is not None
    return exit


def start(
    argv: Sequence[str],
    *,
    stdin: bytes,
    env: Mapping[str, str],
    cwd: str | bytes | os.PathLike[str] | None = None,
) -> "Child":
    """Start a command in its own process group, with the payload on its standard input.

    Never raises for a command that can't be started: then `wait` returns an `Exit` with `start_error` at once.
    The child must be waited for until it gave an `Exit`; `wait(0)` ends it now.
    """
    marker = os.urandom(8).hex()
    env = {**env, MARKER: f"{env[MARKER]} {marker}" if MARKER in env else marker}
    pipes: list[int] = []
    try:
        for _ in range(3):
            pipes += _pipe()
        in_read, in_write, out_read, out_write, err_read, err_write = pipes
        rest = _prefill(in_write, stdin)
        pid = spawn.spawn(argv, (in_read, out_write, err_write), env, cwd)
    except (OSError, ValueError) as error:
        for fd in pipes:
            os.close(fd)
        return Child.failed(spawn.explain(error, argv, env, cwd))
    os.close(out_write)
    os.close(err_write)
    if not rest:
        os.close(in_read)
        os.close(in_write)
    return Child(pid, marker, out=out_read, err=err_read, feed=(in_write, in_read) if rest else (), payload=rest)


class Child:
    """One running command; lives until `wait` has returned its `Exit`.

    It holds descriptors, a process number and buffers, but nothing of an event loop: a `wait` may go on in another
    loop of another thread. One `wait` at a time.
    """

    def __init__(
        self, pid: int, marker: str, *, out: int, err: int, feed: tuple[int, ...], payload: memoryview | bytes
    ) -> None:
        self._pid = pid
        self._tree = Tree(pid, marker)
        self._kept = {out: bytearray(), err: bytearray()}
        self._room = {out: STDOUT_CAP, err: STDERR_CAP}
        self._out, self._err = out, err
        self._open = {out, err}
        self._truncated = False
        # Our copy of the reading end stays open while we feed: a child that closes its stdin can't give us SIGPIPE then.
        self._feed = feed
        self._payload = memoryview(payload)
        self._exited = False
        self._ended: Exit | None = None
        # One selector for all of it: a loop watches a single descriptor, and a wait moves between loops by that one.
        self._selector = selectors.DefaultSelector()
        self._watch = _watch_exit(pid)
        self._selector.register(self._watch, selectors.EVENT_READ)
        for fd in self._open:
            os.set_blocking(fd, False)
            self._selector.register(fd, selectors.EVENT_READ)
        if feed:
            self._selector.register(feed[0], selectors.EVENT_WRITE)

    @classmethod
    def failed(cls, reason: str) -> "Child":
        child = cls.__new__(cls)
        child._ended = Exit(start_error=reason)
        return child

    async def wait(self, seconds: float, *, until: Callable[[bytes], bool] | None = None) -> Exit | None:
        """Wait for the end, at most for `seconds`, then kill the tree.

        `until` sees the stdout so far whenever there is more of it; when it returns True, `wait` returns None and the
        command goes on running, for a later `wait` to collect. A cancelled wait kills the tree before it raises.
        """
        if self._ended is not None:
            return self._ended
        seen = 0

        def enough() -> bool:
            nonlocal seen
            stdout = self._kept[self._out]
            if until is None or len(stdout) == seen:
                return self._exited
            seen = len(stdout)
            return until(bytes(stdout)) or self._exited

        try:
            in_time = await self._pump(enough, seconds)
            if in_time and not self._exited:
                return None
            if in_time and self._open:
                await self._pump(lambda: not self._open, LINGER)
            if not in_time:
                await self._end_tree()
        except (asyncio.CancelledError, Exception):
            await self._end_tree()
            self._finish(timed_out=True)
            raise
        except BaseException:
            self._kill_tree()
            self._finish(timed_out=True)
            raise
        return self._finish(timed_out=not in_time)

    async def _pump(self, enough: Callable[[], bool], seconds: float) -> bool:
        """Move bytes until there is `enough` or the time is over; says whether there was."""
        loop = asyncio.get_running_loop()
        done: asyncio.Future[bool] = loop.create_future()

        def step() -> None:
            if done.done():
                return
            try:
                self._move()
                if enough():
                    done.set_result(True)
            except Exception as error:  # a broken `until`, which belongs to the waiter and not to the loop
                done.set_exception(error)

        def late() -> None:
            if not done.done():
                done.set_result(False)

        fd = self._selector.fileno()
        loop.add_reader(fd, step)
        timer = loop.call_later(seconds, late)
        try:
            return await done
        finally:
            timer.cancel()
            loop.remove_reader(fd)

    def _move(self) -> None:
        for key, _ in self._selector.select(0):
            if key.fd in self._open:
                self._read(key.fd)
            elif key.fd == self._watch:
                self._exited = True
                self._selector.unregister(self._watch)
            else:
                self._write()
        if self._exited:
            self._stop_feeding()
            for fd in tuple(self._open):
                # What was printed is in the pipe now, and never more than a pipe holds.
                self._read(fd, _PIPE_MAX)

    def _read(self, fd: int, most: int = _CHUNK) -> None:
        while most > 0:
            try:
                chunk = os.read(fd, _CHUNK)
            except BlockingIOError:
                return
            if not chunk:
                self._close_output(fd)
                return
            most -= len(chunk)
            room = self._room[fd] - len(self._kept[fd])
            if room >= len(chunk):
                self._kept[fd] += chunk
            else:
                self._kept[fd] += chunk[:room]
                self._truncated = True

    def _write(self) -> None:
        try:
            self._payload = self._payload[os.write(self._feed[0], self._payload) :]
        except BlockingIOError:
            return
        if not self._payload:
            self._stop_feeding()

    def _stop_feeding(self) -> None:
        if self._feed:
            self._selector.unregister(self._feed[0])
            for fd in self._feed:
                os.close(fd)
            self._feed, self._payload = (), memoryview(b"")

    def _close_output(self, fd: int) -> None:
        self._open.discard(fd)
        self._selector.unregister(fd)
        os.close(fd)

    async def _end_tree(self) -> None:
        """TERM and CONT, a grace, KILL. When it is cancelled in the grace, KILL comes at once."""
        try:
            self._tree.signal(signal.SIGTERM, signal.SIGCONT)
            end, pause = time.monotonic() + GRACE, 0.005
            while await self._pump(lambda: self._exited, end - time.monotonic()) and self._tree.signal():
                # The leader is gone; others may use up the grace.
                if time.monotonic() > end:
                    break
                await asyncio.sleep(pause)
                pause *= 2
            for pause in self._tree.kill():
                await asyncio.sleep(pause)
        finally:
            self._kill_tree()

    def _kill_tree(self) -> None:
        for pause in self._tree.kill():
            time.sleep(pause)

    def _finish(self, *, timed_out: bool) -> Exit:
        """Collect the leader and let go of everything."""
        held = bool(self._open)
        self._stop_feeding()
        if timed_out:
            self._move()
        info = self._status(os.WNOWAIT)
        if not timed_out:
            self._sweep(held)
        self._status(0)
        for fd in tuple(self._open):
            self._close_output(fd)
        self._selector.close()
        os.close(self._watch)
        ...

"""Run one command: standard input, environment, deadline, and the end of everything it started. Independent of hooks.

    ended = await run(["./check.sh"], stdin=b"{}", env=os.environ, seconds=10)

What a caller may rely on:

- The exit status decides, not the end of the output: a background process that keeps stdout open delays a result by
  0.1 s.
- A command that ended leaves nothing behind: other members of its process group, and processes that still have its
  output open, get TERM at once and KILL 0.5 s later. A process that left the group and closed the output is a daemon
  on purpose, and is spared.
- At the deadline, or when the waiting task is cancelled, the whole tree (see `tree`) gets TERM and CONT, then KILL:
  0.1 s after the deadline, because the caller has one, too; 0.5 s after a cancellation. The output up to then counts.
- Only the first bytes of the output are kept; the remaining output is read and dropped.
- Nothing process-wide changes: no signal handler, no child watcher, and only children that were started here are ever
  collected. So it works in any event loop of any thread.
"""

import os
import select
import signal
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, TypeVar

from billhook.core.answers import Exit
from billhook.core.lazy import lazy_module
from billhook.runners.process_tree import (
    GRACE,
    MARKER,
    Tree,
    adopt_orphans,
    bury,
    reap_orphans,
    settle,
    starting,
    sweep,
)
from billhook.runners.spawn import PIPE_MAX, Poll, explain, pipe, prefill, spawn, watch_exit, why_not, widen

if TYPE_CHECKING:
    import asyncio
else:
    asyncio = lazy_module("asyncio")

__all__ = ["Child", "adopt_orphans", "run", "settle", "shell_argv", "start", "sweep", "why_not"]

STDOUT_CAP = 1 << 20
STDERR_CAP = 1 << 16
HEAD_START = 0.005
"""Seconds without any check at the start: most commands print little and end soon, and each wake-up slows them down."""
LAST_WORDS = 0.1
"""Seconds for which output is still read after a timeout, while the command ends: the caller has a deadline, too."""
LINGER = 0.1  # seconds for which output is still read after the exit: a helper such as `>(tee log)` may be flushing

Folder = str | bytes | os.PathLike[str] | None
Spawn = Callable[[Sequence[str], tuple[int, int, int], Mapping[str, str], Folder], int]
"""Starts a process with these arguments, standard streams, variables and folder: its number. Raises OSError."""

_CHUNK = 1 << 16
_Child = TypeVar("_Child", bound="Child")


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
    ended = await start(argv, stdin=stdin, env=env, cwd=cwd).wait(seconds)
    assert ended is not None
    return ended


def start(
    argv: Sequence[str],
    *,
    stdin: bytes,
    env: Mapping[str, str],
    cwd: str | bytes | os.PathLike[str] | None = None,
    keep: bytearray | None = None,
) -> "Child":
    """Start a command in its own process group, with the payload on its standard input.

    Standard output is appended to `keep`; without it the first bytes are kept.

    Never raises for a command that can't be started: then `wait` returns an `Exit` with `start_error` at once.
    The caller must wait until there is an `Exit`; `wait(0)` ends the child now.
    """
    if sys.platform == "win32":
        from billhook.runners import process_windows

        return process_windows.start(argv, stdin=stdin, env=env, cwd=cwd)
    started = launch(Child, argv, stdin, env, cwd)
    return Child.failed(started) if isinstance(started, str) else fed(*started, keep)


def fed(child: _Child, ends: tuple[int, int], rest: memoryview, keep: bytearray | None = None) -> _Child:
    """The command that `launch` started, with the rest of its input on the way."""
    in_read, in_write = ends
    if keep is not None:
        child._kept[child._out] = keep
    if rest:
        child.feed(in_write, in_read, rest)
    else:
        os.close(in_read)
        os.close(in_write)
    return child


def launch(
    kind: type[_Child],
    argv: Sequence[str],
    stdin: bytes,
    env: Mapping[str, str],
    cwd: str | bytes | os.PathLike[str] | None,
    *,
    marker: str = "",
    spawn: Spawn = spawn,
) -> tuple[_Child, tuple[int, int], memoryview] | str:
    """A running command, both ends of its standard input, and the input that did not fit; or why it can't run."""
    marker, pipes, pid = marker or os.urandom(8).hex(), list[int](), 0
    env = {**env, MARKER: f"{env[MARKER]} {marker}" if MARKER in env else marker}
    with starting():
        try:
            for _ in range(3):
                pipes += pipe()
            in_read, in_write, out_read, out_write, err_read, err_write = pipes
            widen(out_write, len(stdin))  # a command that echoes the payload must not wait for us
            rest = prefill(in_write, stdin)
            pid = spawn(argv, (in_read, out_write, err_write), env, cwd)
            child = kind(pid, marker, out_read, err_read)
        except (OSError, ValueError) as error:
            if pid:
                Tree(pid, marker).abandon()
            for fd in pipes:
                os.close(fd)
            return explain(error, argv, env, cwd)
    os.close(out_write)
    os.close(err_write)
    return child, (in_read, in_write), rest


class Child:
    """One running command; lives until `wait` has returned its `Exit`.

    It has descriptors, a process number and buffers, but nothing of an event loop: a `wait` may continue in another
    loop of another thread. One `wait` at a time.
    """

    def __init__(self, pid: int, marker: str, out: int, err: int) -> None:
        self._pid = pid
        self._tree = Tree(pid, marker)
        self._out, self._err = out, err
        self._kept = {out: bytearray(), err: bytearray()}
        self._room = {out: STDOUT_CAP, err: STDERR_CAP}
        self._open = {out, err}
        self._truncated = False
        self._pipe: tuple[int, ...] = ()
        self._payload = memoryview(b"")
        self._exited = False
        self._ended: Exit | None = None
        # A loop watches a single descriptor, so that a wait can move between loops: the exit, or a poll for all
        # descriptors. It is made now, while a lack of descriptors can still be reported.
        self._watch, self._id = watch_exit(pid)
        try:
            self._poll = Poll()
        except OSError:
            os.close(self._watch)
            raise
        self._listening = False
        for fd in self._open:
            os.set_blocking(fd, False)

    @classmethod
    def failed(cls, reason: str) -> "Child":
        child = cls.__new__(cls)
        child._ended = Exit(start_error=reason)
        return child

    def feed(self, write: int, read: int, payload: memoryview) -> None:
        """Send the remaining payload while waiting."""
        # Our copy of the reading end stays open meanwhile: otherwise a child that closes its stdin causes SIGPIPE.
        self._pipe, self._payload = (write, read), payload
        self._listen()
        self._poll.register(write, select.POLLOUT)

    async def wait(self, seconds: float, *, until: Callable[[bytes], bool] | None = None) -> Exit | None:
        """Wait for the end, at most for `seconds`, then kill the tree.

        `until` gets the stdout so far whenever there is more of it; when it returns True, `wait` returns None and the
        command keeps running, for a later `wait`. A cancelled wait kills the tree before it raises.
        """
        if self._ended is not None:
            return self._ended
        deadline = time.monotonic() + seconds
        enough = self._enough(self._kept[self._out], until)
        try:
            in_time = not self._listening and await self._pump(enough, min(seconds, HEAD_START))
            if not in_time:
                self._listen()
                in_time = await self._pump(enough, deadline - time.monotonic())
            if not in_time and until is not None:
                self._drain()  # output that was there before the deadline counts, even if we look at it later
                in_time = enough()
            if in_time and not self._exited:
                return None
            if not in_time:
                await self._end_tree(LAST_WORDS)
            elif self._open:
                self._listen()
                await self._pump(lambda: not self._open, LINGER)
        except (asyncio.CancelledError, Exception):
            try:
                await self._end_tree()
            finally:
                self._finish(timed_out=True)
            raise
        except BaseException:  # the coroutine was closed: it can't await any more
            self._tree.kill_now()
            self._tree.doubt()
            self._finish(timed_out=True)
            raise
        return self._finish(timed_out=not in_time)

    def _has_exited(self) -> bool:
        return self._exited

    def _enough(self, stdout: bytearray, until: Callable[[bytes], bool] | None) -> Callable[[], bool]:
        """Whether the wait is over: the command ended, or `until` accepts the new output."""
        if until is None:
            return self._has_exited
        seen = 0

        def enough() -> bool:
            nonlocal seen
            if self._exited or len(stdout) == seen:
                return self._exited
            seen = len(stdout)
            return until(bytes(stdout))

        return enough

    async def _pump(self, enough: Callable[[], bool], seconds: float) -> bool:
        """Move bytes until there is `enough` or the time is over; returns whether there was."""
        if enough():
            return True
        loop = asyncio.get_running_loop()
        done: asyncio.Future[bool] = loop.create_future()
        fd = self._poll.fileno() if self._listening else self._watch

        def step() -> None:
            try:
                self._move()
                if enough():
                    stop(True)
            except Exception as error:  # a broken `until` belongs to the waiter, not to the loop
                stop(False, error)

        def stop(in_time: bool, error: Exception | None = None) -> None:
            loop.remove_reader(fd)  # now, or the loop reports it once more before the waiter continues
            if not done.done():
                done.set_result(in_time) if error is None else done.set_exception(error)

        loop.add_reader(fd, step)
        timer = loop.call_later(seconds, stop, False)
        try:
            return await done
        finally:
            timer.cancel()
            if (done.cancelled() or not done.done()) and not loop.is_closed():
                loop.remove_reader(fd)

    def _listen(self) -> None:
        if not self._listening:
            self._listening = True
            for fd in self._open if self._exited else (self._watch, *self._open):
                self._poll.register(fd, select.POLLIN)

    def _move(self) -> None:
        for fd, _ in self._poll.poll(0) if self._listening else ((self._watch, 0),):
            if fd in self._open:
                self._read(fd)
            elif fd == self._watch:
                self._note_exit()
            else:
                self._write()
        if self._exited:
            self._stop_feeding()
            self._drain()

    def _note_exit(self) -> None:
        self._exited = True
        if self._listening:
            self._poll.unregister(self._watch)

    def _read(self, fd: int) -> int:
        """Read once; returns how much there was."""
        try:
            chunk = os.read(fd, _CHUNK)
        except BlockingIOError:
            return 0
        if not chunk:
            self._close_output(fd)
            return 0
        self._add(fd, chunk)
        return len(chunk)

    def _add(self, fd: int, chunk: bytes) -> None:
        kept = self._kept[fd]
        room = self._room[fd] - len(kept)
        self._truncated = self._truncated or len(chunk) > room
        kept += chunk[:room]

    def _drain(self) -> None:
        """Read what is in the pipes now. That is limited by their size, however fast a process writes."""
        for fd in tuple(self._open):
            left = PIPE_MAX
            while left > 0 and (count := self._read(fd)):
                left -= count

    def _write(self) -> None:
        try:
            self._payload = self._payload[os.write(self._pipe[0], self._payload) :]
        except BlockingIOError:
            return
        if not self._payload:
            self._stop_feeding()

    def _stop_feeding(self) -> None:
        if self._pipe:
            self._poll.unregister(self._pipe[0])
            for fd in self._pipe:
                os.close(fd)
            self._pipe, self._payload = (), memoryview(b"")

    def _close_output(self, fd: int) -> None:
        self._open.discard(fd)
        if self._listening:
            self._poll.unregister(fd)
        os.close(fd)

    async def _end_tree(self, grace: float = GRACE) -> None:
        """TERM and CONT, a grace period, KILL. If it is cancelled meanwhile, KILL comes at once."""
        dead = False
        try:
            await self._ask_to_end(grace)
            for pause in self._tree.kill():
                await asyncio.sleep(pause)
            dead = True
        finally:
            if not dead:
                self._tree.kill_now()
            self._tree.doubt()

    async def _ask_to_end(self, seconds: float) -> bool:
        """TERM and CONT; returns whether all are dead within so long."""
        self._tree.signal(signal.SIGTERM, signal.SIGCONT)
        end, pause = time.monotonic() + seconds, 0.005
        await self._pump(self._has_exited, seconds)
        self._tree.reserved = not self._is_lost()
        while self._tree.signal():
            left = end - time.monotonic()
            if left <= 0:
                return False
            await asyncio.sleep(min(pause, left))
            pause *= 2
        return True

    def _finish(self, *, timed_out: bool) -> Exit:
        """Handle the processes that the leader left, collect the leader, and close everything."""
        self._stop_feeding()
        if timed_out:
            self._drain()
        status = None if timed_out or self._open else self._collect()
        left = self._tree.dismiss() if status is not None else False
        if status is None:
            status, left = self._collect_last(timed_out=timed_out)
        if left:
            bury(self._tree)
        self._tree.close()
        for fd in tuple(self._open):
            self._close_output(fd)
        self._poll.close()
        os.close(self._watch)
        reap_orphans()
        self._ended = self._as_exit(status, timed_out=timed_out)
        return self._ended

    def _collect_last(self, *, timed_out: bool) -> tuple[int | None, bool]:
        """The status of a leader whose tree has to be searched first, or that other code collected; and whether there
        is more to end."""
        lost = self._is_lost()
        self._tree.reserved = not lost
        left = not timed_out and self._tree.signal(signal.SIGTERM, signal.SIGCONT)
        status = None if lost else self._collect()
        self._tree.reserved = not lost and status is None
        return status, left or self._tree.reserved or (status is not None and not timed_out and self._tree.dismiss())

    def _as_exit(self, status: int | None, *, timed_out: bool = False) -> Exit:
        known = None if timed_out else status
        return Exit(
            stdout=bytes(self._kept[self._out]),
            stderr=bytes(self._kept[self._err]),
            truncated=self._truncated,
            timed_out=timed_out,
            lost=not timed_out and status is None,
            code=known if known is not None and known >= 0 else None,
            signal=-known if known is not None and known < 0 else None,
        )

    def _is_lost(self) -> bool:
        """Whether other code collected the leader: the host ignores SIGCHLD or waits for any child."""
        try:
            if hasattr(os, "waitid"):
                os.waitid(*self._id, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        except ChildProcessError:
            return True
        return False

    def _collect(self) -> int | None:
        """The exit code, or minus the number of the signal; None if it is unknown."""
        try:
            if not hasattr(os, "waitid"):
                pid, status = os.waitpid(self._pid, os.WNOHANG)
                return os.waitstatus_to_exitcode(status) if pid else None
            found = os.waitid(*self._id, os.WEXITED | os.WNOHANG)
        except ChildProcessError:
            return None
        if found is None:
            return None
        return found.si_status if found.si_code == os.CLD_EXITED else -found.si_status

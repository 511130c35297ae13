"""The workers of this process: started when none is idle, kept for the next event of their project, ended in time.

A worker is a `process.Child` that is spoken to more than once: the tree, the deadline and the clean-up are the same.
"""

import atexit
import os
import signal
import threading
import time
from collections.abc import Mapping
from typing import NamedTuple

from billhook.answers import FAILURES
from billhook.exits import Exit
from billhook.process import Child
from billhook.spawn import explain, pipe, prefill, spawn
from billhook.tree import GRACE, MARKER, Tree, starting
from billhook.worker_wire import (
    HEADER,
    LARGEST_ANSWER,
    PROTOCOL,
    File,
    GarbageError,
    Greeting,
    Told,
    as_file,
    read_greeting,
    read_told,
    unframed,
)

MOST_IDLE = 8  # workers that wait for an event; when there are more, the one that waits longest is ended


class Key(NamedTuple):
    """Whom a worker works for."""

    folder: str
    program: str


class StrangerError(GarbageError):
    """The billhook at the other end speaks another protocol."""

    def __init__(self, greeting: Greeting) -> None:
        super().__init__(f"billhook {greeting.billhook} there speaks protocol {greeting.protocol}, not {PROTOCOL}")


class Worker(Child):
    """One Python process of one project. It is asked one thing at a time, by whoever took it from the pool."""

    def __init__(self, pid: int, marker: str, out: int, err: int) -> None:
        super().__init__(pid, marker, out, err)
        self.key = Key("", "")
        self.env: Mapping[str, str] = {}
        self.closings = 0
        self.greeting: Greeting | None = None
        self.usable = False  # it has answered, and nothing of that is left
        self._requests: tuple[int, ...] = ()
        self._greeted = False
        self._files: dict[str, File] = {}
        # Stdout is cut where nobody could mistake it for a whole answer.
        self._room[out] = LARGEST_ANSWER + (1 << 17) + 2 * HEADER.size

    @property
    def stderr(self) -> str:
        """The first of what was printed since the last request."""
        return bytes(self._kept[self._err]).decode("utf-8", "replace")

    async def ask(self, request: bytes, number: int, seconds: float) -> Told | Exit:
        """The answer to the framed request of that number, or how the worker ended without one. What a late worker said
        counts only if it objects. Raises GarbageError, and OSError when there are no descriptors left."""
        self.usable = False
        self._clear()
        self._send(request)
        ended = await self.wait(seconds, until=self._is_enough)
        body = self._answer(bytes(self._kept[self._out]))
        told = None if body is None else read_told(body, number)
        if told is None or (ended is not None and ended.timed_out and not told.answer.objects):
            assert ended is not None
            return ended
        self._greeted = True
        self._kept[self._out].clear()
        self._files.update((file[0], file) for file in told.files)
        self.usable = ended is None and told.reusable and told.status not in FAILURES
        return told

    def is_fit(self) -> bool:
        """Whether it can be asked again: it is alive and quiet, and nothing that it was made from has changed."""
        self._move()
        if self._exited or self._kept[self._out] or self._out not in self._open:
            return False
        return all((as_file(path) or (path, -1, 0, 0, 0)) == file for path, file in self._files.items())

    def rest(self, resting: bool) -> None:
        """Say whether it waits for an event: an orphan that appears then is none of its."""
        self._tree.resting = resting

    def end_now(self) -> None:
        """End it, unless it has ended already. What it started is dismissed as after any command: only a process that
        left the group and let go of the output is spared."""
        if self._ended is not None:
            return
        if not self._is_lost():
            os.kill(self._pid, signal.SIGKILL)
        end = time.monotonic() + GRACE
        while not self._exited and time.monotonic() < end:
            self._move()
            if not self._exited:
                time.sleep(0.001)
        self._finish(timed_out=False)

    def forget(self) -> None:
        """Let go of it in a copy of this process, made by fork: it belongs to the original."""
        for fd in (*self._requests, *self._pipe, *self._open, self._watch, self._poll.fileno()):
            try:
                os.close(fd)
            except OSError:  # pragma: no cover - whoever forked has closed it
                pass
        self._requests = ()

    def adopt(self, key: Key, env: Mapping[str, str], requests: tuple[int, int]) -> None:
        """Know whom it works for, and both ends of the pipe with its requests. Our copy of the reading end stays open:
        a worker that closes its own can't give us SIGPIPE then."""
        self.key, self.env, self._requests = key, env, requests
        self._listen()

    def _clear(self) -> None:
        """Forget what belongs to the last request."""
        for kept in self._kept.values():
            kept.clear()
        self._truncated = False

    def _send(self, request: bytes) -> None:
        rest = prefill(self._requests[1], request)
        if rest:
            ends: list[int] = []
            try:
                ends += [os.dup(self._requests[1])]
                ends += [os.dup(self._requests[0])]
            except OSError:
                for fd in ends:
                    os.close(fd)
                raise
            self.feed(ends[0], ends[1], rest)  # which closes them after the last byte

    def _is_enough(self, stdout: bytes) -> bool:
        try:
            return self._answer(stdout) is not None
        except GarbageError:
            return True

    def _answer(self, stdout: bytes) -> bytes | None:
        """The answer in what was printed, if it is whole; before the first one stands the greeting."""
        if not self._greeted:
            # What the interpreter's own start printed (`sitecustomize`) stands before that.
            first = unframed(stdout, noise=True)
            if first is None:
                return None
            self.greeting, stdout = read_greeting(first[0]), first[1]
            if self.greeting.protocol != PROTOCOL:
                raise StrangerError(self.greeting)
        found = unframed(stdout)
        if found is not None and found[1]:
            raise GarbageError("it said more than one answer")
        return found and found[0]

    def _finish(self, *, timed_out: bool) -> Exit:
        ended = super()._finish(timed_out=timed_out)
        for fd in self._requests:
            os.close(fd)
        self._requests = ()
        return ended


def start(key: Key, env: Mapping[str, str]) -> Worker | str:
    """A new worker, or why it could not be started."""
    # `-P`: what lies in the working directory can't stand in for our modules.
    argv = [key.program, "-P", "-m", "billhook.worker_main"]
    marker = os.urandom(8).hex()
    marked = {**env, MARKER: f"{env[MARKER]} {marker}" if MARKER in env else marker}
    with starting():
        return _start(key, argv, env, marked, marker)


def _start(key: Key, argv: list[str], env: Mapping[str, str], marked: Mapping[str, str], marker: str) -> Worker | str:
    pipes: list[int] = []
    pid = 0
    try:
        for _ in range(3):
            pipes += pipe()
        in_read, in_write, out_read, out_write, err_read, err_write = pipes
        # Not in the project: a relative PYTHONPATH means what it means for us. The worker goes there itself.
        pid = spawn(argv, (in_read, out_write, err_write), marked, None)
        worker = Worker(pid, marker, out_read, err_read)
    except (OSError, ValueError) as error:
        if pid:
            Tree(pid, marker).abandon()
        for fd in pipes:
            os.close(fd)
        return explain(error, argv, marked, None)
    os.close(out_write)
    os.close(err_write)
    worker.adopt(key, env, (in_read, in_write))
    return worker


class Workers:
    """The workers that wait for an event, the one that was asked last at the end. Safe for any number of threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._idle: list[Worker] = []
        self._closings = 0
        self._in_use = False

    def take(self, key: Key, env: Mapping[str, str]) -> Worker | str:
        """A worker for one event, or why there is none. Whoever takes it gives it back or ends it."""
        while (worker := self._pop(key, env)) is not None:
            if worker.is_fit():
                worker.rest(False)
                return worker
            worker.end_now()
        closings = self._closings
        made = start(key, env)
        if isinstance(made, Worker):
            made.closings = closings
        return made

    def give_back(self, worker: Worker) -> None:
        """Keep it for the next event, if it can be used again."""
        surplus = worker
        with self._lock:
            if worker.usable and worker.closings == self._closings:
                worker.rest(True)
                self._idle.append(worker)
                if len(self._idle) <= MOST_IDLE:
                    return
                surplus = self._idle.pop(0)
        surplus.end_now()

    def close(self) -> None:
        """End those that wait. The busy ones end when they are given back."""
        with self._lock:
            idle, self._idle = self._idle, []
            self._closings += 1
        for worker in idle:
            worker.end_now()

    def forget(self) -> None:
        """Start anew in a copy of this process, made by fork."""
        idle, self._idle = self._idle, []
        self._lock, self._in_use = threading.Lock(), False
        for worker in idle:
            worker.forget()

    def _pop(self, key: Key, env: Mapping[str, str]) -> Worker | None:
        """The one that was last asked of those with this environment. Others may be there for other callers."""
        with self._lock:
            if not self._in_use:
                self._in_use = True
                atexit.register(self.close)
            for place in reversed(range(len(self._idle))):
                if self._idle[place].key == key and self._idle[place].env == env:
                    return self._idle.pop(place)
        return None


WORKERS = Workers()  # the pool of this process

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=WORKERS.forget)

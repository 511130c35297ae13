"""A small pool of forked workers: each sets up once, does every n-th piece of work, and sends its results back."""

import os
import selectors
import struct
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Final

Work = Callable[[int], bytes]  # the result of one piece of work, by its number
Setup = Callable[[str], AbstractContextManager[Work]]  # what a worker of this name does
_HEAD: Final = struct.Struct("!iI")
_FAILED: Final = -1  # in place of a number: the worker ended with this error


class WorkerError(Exception):
    """A worker ended early."""


def workers_for(pieces: int, least: int) -> int:
    """How many workers are useful: one for each processor, and each with some work."""
    return max(1, min(os.cpu_count() or 1, pieces // least))


def spread(pieces: int, workers: int, setup: Setup, done: Callable[[int, bytes], None]) -> None:
    """Do all pieces of work, and call `done` with each result, in any order. One worker is this process itself."""
    if workers == 1:
        with setup("0") as work:
            for number in range(pieces):
                done(number, work(number))
        return
    sys.stdout.flush()
    sys.stderr.flush()
    started = [_start(setup, name, pieces, workers) for name in range(workers)]
    try:
        _collect([end for _, end in started], done)
    finally:
        for pid, end in started:
            os.close(end)
            os.waitpid(pid, 0)


def _start(setup: Setup, name: int, pieces: int, workers: int) -> tuple[int, int]:
    ours, theirs = os.pipe()
    pid = os.fork()
    if pid:
        os.close(theirs)
        return pid, ours
    code = 1
    try:  # in the worker, which never returns
        os.close(ours)
        with os.fdopen(theirs, "wb") as out:
            try:
                with setup(str(name)) as work:
                    for number in range(name, pieces, workers):
                        _send(out.write, number, work(number))
                        out.flush()
            except Exception as error:
                _send(out.write, _FAILED, f"{type(error).__name__}: {error}".encode("utf-8", "replace"))
        code = 0
    finally:
        os._exit(code)


def _send(write: Callable[[bytes], object], number: int, data: bytes) -> None:
    write(_HEAD.pack(number, len(data)) + data)


def _collect(ends: list[int], done: Callable[[int, bytes], None]) -> None:
    buffers = dict.fromkeys(ends, b"")
    with selectors.DefaultSelector() as selector:
        for end in ends:
            selector.register(end, selectors.EVENT_READ)
        while selector.get_map():
            for key, _ in selector.select():
                data = os.read(key.fd, 1 << 16)
                if not data:
                    selector.unregister(key.fd)
                buffers[key.fd] = _taken(buffers[key.fd] + data, done)
    if any(buffers.values()):
        raise WorkerError("a worker was ended")


def _taken(data: bytes, done: Callable[[int, bytes], None]) -> bytes:
    """Pass on the whole results at the begin of the data. Returns the rest."""
    while len(data) >= _HEAD.size:
        number, size = _HEAD.unpack_from(data)
        if len(data) < _HEAD.size + size:
            break
        body, data = data[_HEAD.size : _HEAD.size + size], data[_HEAD.size + size :]
        if number == _FAILED:
            raise WorkerError(body.decode())
        done(number, body)
    return data

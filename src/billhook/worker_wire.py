"""What the two ends of a worker say to each other: frames over two pipes, JSON inside, and nothing that can run.

The owner sends a request for each event; the worker sends a greeting once, and then one answer for each request.
"""

import os
import struct
from typing import Any

import msgspec

from billhook import strictjson
from billhook.answers import Answer, OnFailure, Outcome, Status
from billhook.errors import StrictJSONError
from billhook.hook import Known

PROTOCOL = 2  # changes whenever one end could misread what the other says
LARGEST_REQUEST = 64 << 20
LARGEST_ANSWER = 1 << 20
HEADER = struct.Struct(">4sI")
MAGIC = b"bhw\n"

File = tuple[str, int, int, int, int]  # a file and what tells that it changed: path, size, mtime_ns, ctime_ns, inode


class Greeting(msgspec.Struct, frozen=True):
    """The first thing that a worker says."""

    protocol: int
    billhook: str = ""


class Request(msgspec.Struct, frozen=True):
    """One event for one function; the event itself follows on the second line, as it would be sent to any hook."""

    number: int
    """Comes back with the answer: one that a hook left in the pipe can't be taken for that of the next event."""
    target: str
    folder: str
    dialect: str
    seconds: float | None  # none: for ever
    results: list[Outcome] = []
    state: dict[str, Any] = {}
    env: dict[str, str] = {}
    known: Known = Known()


class Changes(msgspec.Struct, frozen=True):
    """What a hook did to a dict of the firing."""

    made: dict[str, Any] = {}
    gone: list[str] = []


class Told(msgspec.Struct, frozen=True, kw_only=True):
    """What a worker answers."""

    number: int = -1
    status: Status = Status.OK
    error: str = ""
    answer: Answer = Answer()
    lost: list[str] = []
    exit_code: int | None = None
    on_failure: OnFailure | None = None
    state: Changes = Changes()
    env: Changes = Changes()
    files: list[File] = []  # what it loaded since its last answer, as it was when it was loaded
    reusable: bool = True  # nothing of the hook is still running: no thread, no process


class GarbageError(Exception):
    """The other end does not keep to the protocol."""


def framed(body: bytes) -> bytes:
    return HEADER.pack(MAGIC, len(body)) + body


def unframed(data: bytes, *, limit: int = LARGEST_ANSWER, noise: bool = False) -> tuple[bytes, bytes] | None:
    """The first frame and what follows it; None: there is not enough yet. `noise`: something may stand before it."""
    if noise:
        start = data.find(MAGIC)
        data = data[start:] if start >= 0 else b""
    if len(data) < HEADER.size:
        if not MAGIC.startswith(data[:4]):
            raise GarbageError("it wrote something into the worker's pipe")
        return None
    magic, size = HEADER.unpack_from(data)
    if magic != MAGIC:
        raise GarbageError("it wrote something into the worker's pipe")
    if size > limit:
        raise GarbageError(f"its answer is longer than {limit:,} bytes")
    end = HEADER.size + size
    return (data[HEADER.size : end], data[end:]) if len(data) >= end else None


def read_greeting(body: bytes) -> Greeting:
    try:
        return msgspec.convert(strictjson.loads(body), Greeting)
    except (StrictJSONError, msgspec.ValidationError) as error:
        raise GarbageError(f"its greeting can't be read: {error}") from None


def read_told(body: bytes, number: int) -> Told:
    """The answer to the request of that number."""
    try:
        told = msgspec.convert(strictjson.loads(body, max_bytes=LARGEST_ANSWER), Told)
    except (StrictJSONError, msgspec.ValidationError) as error:
        raise GarbageError(f"its answer can't be read: {error}") from None
    if told.number != number:
        raise GarbageError("it answered something that it was not asked")
    return told


def as_file(path: str) -> File | None:
    """How a file looks now; None: it is not there."""
    try:
        found = os.stat(path)
    except (OSError, ValueError):
        return None
    return (path, found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_ino)

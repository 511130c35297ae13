"""What client and daemon send each other, and the status that a daemon reports."""

import os
import struct
import sys
from pathlib import Path
from typing import Final, NamedTuple

import msgspec


class DaemonStatus(msgspec.Struct, frozen=True):
    """What `billhook daemon status` shows."""

    pid: int
    version: str
    socket: str
    since: str  # when it began, in UTC
    requests: int  # how many it has taken
    busy: int  # how many it is answering
    memory: int  # bytes of memory in use; 0 where nobody can tell
    idle_exit: float  # seconds without a request after which it ends; 0: never
    idle_left: float | None  # how many of them are left; None while it is busy, and where it never ends
    http: str  # where it listens for HTTP; nothing where it does not
    log: str
    leaving: str  # why it takes no more requests; nothing: it does


def memory_in_use() -> int:
    """Bytes of this process in memory; 0 where nobody can tell."""
    try:
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        import resource

        most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return most if sys.platform == "darwin" else 0


# What client and daemon say to each other.

MAGIC: Final = b"bh\x00\x01"
HEAD: Final = len(MAGIC) + 4
ABOUT: Final = b"bh\x00?\x00\x00\x00\x00"  # the question how the daemon is, whole: no agent's call begins like that
LARGEST: Final = 1 << 26  # bytes of a request
MOST_ARGUMENTS: Final = 64
MOST_VARIABLES: Final = 8192

_NUMBER = struct.Struct(">I")
_BEGIN = struct.Struct(">4sI")
STARTED: Final = b"S" + _NUMBER.pack(0)


class BadRequestError(Exception):
    """Bytes that are no request."""


class CallerRequest(msgspec.Struct, frozen=True):
    """A caller's request."""

    version: str
    argv: list[str]
    cwd: str
    environ: bytes  # the variables as they came: most callers send the same again and again
    stdin: bytes


def length(head: bytes) -> int:
    """How many bytes follow the head of a request; none is known of a part of one. Raises GarbageError."""
    if not head.startswith(MAGIC[: len(head)]):
        raise BadRequestError("the request is not in our protocol")
    if len(head) < HEAD:
        return 0
    (size,) = _NUMBER.unpack_from(head, len(MAGIC))
    if size > LARGEST:
        raise BadRequestError(f"a request of {size:,} bytes")
    return int(size)


def whole(room: memoryview, size: int) -> memoryview | None:
    """The body of the request that these bytes are; None: it is not whole, or none. Then `length` tells more."""
    said = (MAGIC, size - HEAD)
    return room[HEAD:size] if HEAD <= size <= LARGEST and _BEGIN.unpack_from(room) == said else None


def read(body: bytes | memoryview) -> CallerRequest:
    """The request after its head. Raises GarbageError."""
    for who in _recent:  # of which nothing is copied
        if who.said.startswith(body[: who.size]) and len(body) > who.size:
            return _asked(who, body)
    who = _who(_RequestReader(bytes(body)))
    if who.size <= _LARGE:
        _recent.insert(0, who)
        del _recent[_MOST_RECENT:]
    return _asked(who, body)


def _asked(who: "_Who", body: bytes | memoryview) -> CallerRequest:
    at = who.size + _NUMBER.size
    left = len(body) - at
    size = _NUMBER.unpack_from(body, who.size)[0] if left >= 0 else 0
    if left < size:
        raise BadRequestError("the request is cut off")
    if left > size:
        raise BadRequestError("bytes after the end of the request")
    return CallerRequest(who.version, who.argv, who.cwd, who.environ, bytes(body[at:]))


class _Who(NamedTuple):
    """Everything of a request but the event."""

    said: bytes
    size: int
    version: str
    argv: list[str]
    cwd: str
    environ: bytes


_recent: list[_Who] = []  # who asked lately: an agent says the same of itself at every event, and much of it
_MOST_RECENT: Final = 8
_LARGE: Final = 1 << 18  # bytes of somebody who is not remembered


def _who(reader: "_RequestReader") -> _Who:
    version = reader.text()
    argv = [reader.text() for _ in range(reader.number(MOST_ARGUMENTS))]
    cwd = reader.text()
    began = reader.at
    reader.skip(reader.number(MOST_VARIABLES))
    return _Who(reader.data[: reader.at], reader.at, version, argv, cwd, reader.data[began : reader.at])


def variables(environ: bytes) -> dict[str, str]:
    """The variables of a request. What names nothing is left out, as a shell does."""
    reader = _RequestReader(environ)
    found = {}
    for _ in range(reader.number(MOST_VARIABLES)):
        name, equals, value = reader.text().partition("=")
        if name and equals:
            found[name] = value
    return found


def answer(code: int, stdout: bytes, stderr: bytes) -> bytes:
    """The frame with the answer."""
    if not (code or stdout or stderr):
        return _NOTHING
    body = bytes([code & 0xFF]) + _text(stdout) + _text(stderr)
    return b"A" + _NUMBER.pack(len(body)) + body


def not_started(why: str) -> bytes:
    """The frame that says: be your own hook."""
    return b"N" + _text(why.encode("utf-8", "replace"))


def about(status: bytes) -> bytes:
    """The frame that says how the daemon is."""
    return b"I" + _text(status)


def read_about(reply: bytes) -> bytes:
    """What such a frame says. Raises GarbageError."""
    if len(reply) < 5 or reply[:1] != b"I" or _NUMBER.unpack_from(reply, 1)[0] != len(reply) - 5:
        raise BadRequestError("the daemon did not say how it is")
    return reply[5:]


def request(version: str, argv: list[str], cwd: str, environ: dict[str, str], stdin: bytes) -> bytes:
    """A whole request, as the client makes it."""
    parts = [_said(version), _NUMBER.pack(len(argv)), *map(_said, argv), _said(cwd), _NUMBER.pack(len(environ))]
    parts += [_said(f"{name}={value}") for name, value in environ.items()]
    body = b"".join([*parts, _text(stdin)])
    return MAGIC + _NUMBER.pack(len(body)) + body


def _said(text: str) -> bytes:
    return _text(text.encode("utf-8", "surrogateescape"))


def _text(data: bytes) -> bytes:
    return _NUMBER.pack(len(data)) + data


_NOTHING: Final = b"A" + _NUMBER.pack(9) + bytes(9)  # the answer that objects to nothing


class _RequestReader:
    """Reads a request from its beginning; never beyond its end."""

    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    def number(self, largest: int) -> int:
        if self.at + 4 > len(self.data):
            raise BadRequestError("the request is cut off")
        (value,) = _NUMBER.unpack_from(self.data, self.at)
        if value > largest:
            raise BadRequestError(f"{value:,} where {largest:,} is the most")
        self.at += 4
        return int(value)

    def skip(self, texts: int) -> None:
        """Go past so many texts; nobody looks at them here, and there are many."""
        at, data, unpack = self.at, self.data, _NUMBER.unpack_from
        try:
            for _ in range(texts):
                at += 4 + unpack(data, at)[0]
        except struct.error:
            at = len(data) + 1
        if at > len(data):
            raise BadRequestError("the request is cut off")
        self.at = at

    def bytes(self) -> bytes:
        size = self.number(len(self.data))
        self.at += size
        if self.at > len(self.data):
            raise BadRequestError("the request is cut off")
        return self.data[self.at - size : self.at]

    def text(self) -> str:
        return self.bytes().decode("utf-8", "surrogateescape")

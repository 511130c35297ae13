"""What client and daemon send each other, and the status that a daemon reports."""

import os
import struct
import sys
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec


class DaemonStatus(msgspec.Struct, frozen=True):
    """What `billhook daemon status` shows."""

    pid: int
    version: str
    socket: str
    since: str  # when it began, in UTC
    requests: int  # how many it has taken
    busy: int  # how many it is answering
    memory: int  # bytes of memory in use; 0 if unknown
    idle_exit: float  # seconds without a request after which it ends; 0: never
    idle_left: float | None  # how many of them are left; None while it is busy, or if it never ends
    http: str  # where it listens for HTTP; empty if it does not
    log: str
    leaving: str  # why it accepts no more requests; empty: it does
    only_page: bool = False  # it was started without --http, and listens for the page that `billhook ui` opened
    warm: dict[str, int] = {}
    """What went wrong with warm interpreters, and how often: these calls started the plain way."""
    telemetry: dict[str, int | str] = {}
    """Where it is exported to, what was sent, dropped and failed, and the last problem; empty: it is off."""
    fleet: dict[str, Any] = {}
    """The state of the link to the fleet; empty: this machine is no host of one."""


def memory_in_use() -> int:
    """Bytes of this process in memory; 0 if unknown."""
    try:
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        import resource

        most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return most if sys.platform == "darwin" else 0


class PageLink(msgspec.Struct, frozen=True):
    """The answer to a request for a link to the page."""

    url: str = ""  # with a code that works once
    problem: str = ""  # why there is no page
    hint: str = ""


# The messages between client and daemon.

MAGIC: Final = b"bh\x00\x01"
HEAD: Final = len(MAGIC) + 4
ABOUT: Final = b"bh\x00?\x00\x00\x00\x00"  # a whole status request: no call begins with these bytes
PAGE: Final = b"bh\x00u\x00\x00\x00\x00"  # a whole request for a link to the page
LARGEST: Final = 1 << 26  # bytes of a request
MOST_ARGUMENTS: Final = 64
MOST_VARIABLES: Final = 8192

_NUMBER = struct.Struct(">I")
_BEGIN = struct.Struct(">4sI")
STARTED: Final = b"S" + _NUMBER.pack(0)


class BadRequestError(Exception):
    """The bytes are not a valid request."""


class CallerRequest(msgspec.Struct, frozen=True):
    """A caller's request."""

    version: str
    argv: list[str]
    cwd: str
    environ: bytes  # the variables, undecoded: most callers send the same ones each time
    stdin: bytes


def length(head: bytes) -> int:
    """How many bytes follow the head of a request; 0 for an incomplete head. Raises BadRequestError."""
    if not head.startswith(MAGIC[: len(head)]):
        raise BadRequestError("the request does not follow the protocol")
    if len(head) < HEAD:
        return 0
    (size,) = _NUMBER.unpack_from(head, len(MAGIC))
    if size > LARGEST:
        raise BadRequestError(f"the request is too large: {size:,} bytes")
    return int(size)


def whole(room: memoryview, size: int) -> memoryview | None:
    """The body of a request; None if it is incomplete or invalid. Then `length` tells more."""
    said = (MAGIC, size - HEAD)
    return room[HEAD:size] if HEAD <= size <= LARGEST and _BEGIN.unpack_from(room) == said else None


def read(body: bytes | memoryview) -> CallerRequest:
    """The request after its head. Raises BadRequestError."""
    for who in _recent:  # compared without copying
        if who.said.startswith(body[: who.size]) and len(body) > who.size:
            return _decode_request(who, body)
    who = _who(_RequestReader(bytes(body)))
    if who.size <= _LARGE:
        _recent.insert(0, who)
        del _recent[_MOST_RECENT:]
    return _decode_request(who, body)


def _decode_request(who: "_Who", body: bytes | memoryview) -> CallerRequest:
    at = who.size + _NUMBER.size
    left = len(body) - at
    size = _NUMBER.unpack_from(body, who.size)[0] if left >= 0 else 0
    if left < size:
        raise BadRequestError("the request is cut off")
    if left > size:
        raise BadRequestError("there are bytes after the end of the request")
    return CallerRequest(who.version, who.argv, who.cwd, who.environ, bytes(body[at:]))


class _Who(NamedTuple):
    """Everything in a request except for the event."""

    said: bytes
    size: int
    version: str
    argv: list[str]
    cwd: str
    environ: bytes


_recent: list[_Who] = []  # recent callers: an agent sends the same large head with every event
_MOST_RECENT: Final = 8
_LARGE: Final = 1 << 18  # bytes of a head that is not cached


def _who(reader: "_RequestReader") -> _Who:
    version = reader.text()
    argv = [reader.text() for _ in range(reader.number(MOST_ARGUMENTS))]
    cwd = reader.text()
    began = reader.at
    reader.skip(reader.number(MOST_VARIABLES))
    return _Who(reader.data[: reader.at], reader.at, version, argv, cwd, reader.data[began : reader.at])


def variables(environ: bytes) -> dict[str, str]:
    """The variables of a request. Entries without a name are skipped, as in a shell."""
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
    """The frame that rejects a request: the client runs the hooks itself."""
    return b"N" + _text(why.encode("utf-8", "replace"))


def about(status: bytes) -> bytes:
    """The frame with the daemon's status."""
    return b"I" + _text(status)


def read_about(reply: bytes) -> bytes:
    """The content of a status frame. Raises BadRequestError."""
    if len(reply) < 5 or reply[:1] != b"I" or _NUMBER.unpack_from(reply, 1)[0] != len(reply) - 5:
        raise BadRequestError("the daemon did not report its status")
    return reply[5:]


def request(version: str, argv: list[str], cwd: str, environ: dict[str, str], stdin: bytes) -> bytes:
    """A whole request, as the client sends it."""
    parts = [
        _encoded_text(version),
        _NUMBER.pack(len(argv)),
        *map(_encoded_text, argv),
        _encoded_text(cwd),
        _NUMBER.pack(len(environ)),
    ]
    parts += [_encoded_text(f"{name}={value}") for name, value in environ.items()]
    body = b"".join([*parts, _text(stdin)])
    return MAGIC + _NUMBER.pack(len(body)) + body


def _encoded_text(text: str) -> bytes:
    return _text(text.encode("utf-8", "surrogateescape"))


def _text(data: bytes) -> bytes:
    return _NUMBER.pack(len(data)) + data


_NOTHING: Final = b"A" + _NUMBER.pack(9) + bytes(9)  # the answer without an objection


class _RequestReader:
    """Reads a request from its beginning; never beyond its end."""

    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    def number(self, largest: int) -> int:
        if self.at + 4 > len(self.data):
            raise BadRequestError("the request is cut off")
        (value,) = _NUMBER.unpack_from(self.data, self.at)
        if value > largest:
            raise BadRequestError(f"{value:,} is more than the limit of {largest:,}")
        self.at += 4
        return int(value)

    def skip(self, texts: int) -> None:
        """Skip so many texts without decoding them: there are many."""
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

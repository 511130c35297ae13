"""One line of the event log: how it is made, and how it is told from everything else.

    {"v":1,"seq":12,"prev":"<64 hex>", ... what is recorded ... ,"hash":"<64 hex>"}

`hash` is the SHA-256 of the bytes before `,"hash":`, and `prev` the hash of the line before, so that a line vouches for
all that stand above it. Both ends of a line are the same to the byte in every record: nothing has to be decoded to
follow the chain. `tests/store/test_lines.py` holds the two ends and `record.Record` together.
"""

import os
import time
from collections.abc import Mapping
from typing import Any, NamedTuple

from billhook import strictjson
from billhook.later import pattern
from billhook.store.digest import sha256

START = b'{"v":1,"seq":'  # how every line of ours begins; also one that was never finished
ROOM = 200  # more than what the chain adds to a record: version, number, two hashes, the newline
_HEAD = pattern(START + rb'([1-9][0-9]{0,17}),"prev":"((?:[0-9a-f]{64})?)",(?:"note":"([a-z]+)",)?')
_TAIL = pattern(rb',"hash":"([0-9a-f]{64})"\}')
_TAIL_BYTES = 75
_NOTHING_YET = sha256()


class Line(NamedTuple):
    """What the two ends of a line say. That the hash is right is not said by that."""

    seq: int
    prev: str
    hash: str
    note: str  # `torn`, `rotated`: about the log itself. Empty for a verdict.


def read_line(line: bytes) -> Line | None:
    """A line without its newline; None for what has not the form of ours."""
    head = _HEAD.match(line)
    tail = _TAIL.fullmatch(line, len(line) - _TAIL_BYTES) if head and head.end() <= len(line) - _TAIL_BYTES else None
    if head is None or tail is None:
        return None
    note = head[3].decode() if head[3] else ""
    return Line(int(head[1]), head[2].decode(), tail[1].decode(), note)


def is_whole(line: bytes) -> bool:
    """Whether the hash of a line (without its newline) is the hash of this line."""
    text = line[:-_TAIL_BYTES]
    return line[-_TAIL_BYTES:] == b',"hash":"%b"}' % sha256(text).hexdigest().encode()


def make_line(seq: int, prev: str, body: bytes) -> tuple[bytes, str]:
    """A line with its newline, and its hash. `body` is a JSON object that is not empty, encoded."""
    text = b'{"v":1,"seq":%d,"prev":"%b",%b' % (seq, prev.encode(), body[1:-1])
    hashed = _NOTHING_YET.copy()  # quicker than to make one
    hashed.update(text)
    digest = hashed.hexdigest()
    return text + b',"hash":"%b"}\n' % digest.encode(), digest


def note(kind: str, reason: str, detail: Mapping[str, Any] | None = None) -> bytes:
    """The encoded record of something that happened to the log itself. `note` comes first, where `read_line` looks."""
    now = time.time_ns()
    content = {
        "note": kind,
        "id": f"{now // 1_000_000:012x}{os.urandom(10).hex()}",
        "time": f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(now // 10**9))}.{now // 1000 % 10**6:06d}Z",
        "mono": time.monotonic(),
        "event": "log",
        "reason": reason,
    }
    return strictjson.encode({**content, "input": dict(detail)} if detail else content)

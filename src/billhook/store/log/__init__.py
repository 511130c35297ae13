"""The event log: one line per verdict, chained by hashes. Here are the line and its record, their side file, and the
snapshot of the configuration that they name.

    {"v":1,"seq":12,"prev":"<64 hex>", ... the record ... ,"hash":"<64 hex>"}

`hash` is the SHA-256 of the bytes before `,"hash":`, and `prev` is the hash of the line before, so that a line confirms
all lines before it. The format of both ends is fixed to the byte: the chain can be followed without decoding.
`tests/store/test_lines.py` compares the two ends with `Record`.
"""

import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import msgspec

from billhook.core import strictjson
from billhook.core.answers import WaivedAnswer
from billhook.core.lazy import pattern
from billhook.store import files
from billhook.store.files import StoreError, sha256

START = b'{"v":1,"seq":'  # the beginning of every line, also of an incomplete one
ROOM = 200  # more than the chain adds to a record: version, number, two hashes, the newline
_HEAD = pattern(START + rb'([1-9][0-9]{0,17}),"prev":"((?:[0-9a-f]{64})?)",(?:"note":"([a-z]+)",)?')
_TAIL = pattern(rb',"hash":"([0-9a-f]{64})"\}')
_TAIL_BYTES = 75


class LineEnds(msgspec.Struct, frozen=True):
    """The fields at the two ends of a line. The hash is not checked."""

    seq: int
    prev: str
    hash: str
    note: str  # `torn`, `rotated`: about the log itself. Empty for a verdict.


def read_line(line: bytes) -> LineEnds | None:
    """Read a line without its newline; None if it does not have the format of a record."""
    head = _HEAD.match(line)
    tail = _TAIL.fullmatch(line, len(line) - _TAIL_BYTES) if head and head.end() <= len(line) - _TAIL_BYTES else None
    if head is None or tail is None:
        return None
    note = head[3].decode() if head[3] else ""
    return LineEnds(int(head[1]), head[2].decode(), tail[1].decode(), note)


def is_whole(line: bytes) -> bool:
    """Whether the hash in a line (without its newline) matches the line."""
    text = line[:-_TAIL_BYTES]
    return line[-_TAIL_BYTES:] == b',"hash":"%b"}' % sha256(text).hexdigest().encode()


def note(kind: str, reason: str, detail: Mapping[str, Any] | None = None) -> bytes:
    """An encoded record about the log itself. `note` comes first, where `read_line` expects it."""
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


# One record of the event log:

VERSION: Final = 1
LARGEST_LINE: Final = 64 << 10  # Bytes. Larger records have a side file.
LARGE_FIELDS: Final = ("input", "output", "fields", "context", "messages", "outcomes", "not_asked", "rewritten_input",
                       "rewritten_output")  # fmt: skip
"""The fields that may move to the side file, largest first, until the line fits."""


class Side(msgspec.Struct, frozen=True):
    """The fields of a record that are in a side file: a JSON object with these fields, `large/{sha256}.json`."""

    sha256: str
    bytes: int
    fields: tuple[str, ...]


class OutcomeRecord(msgspec.Struct, frozen=True, kw_only=True):
    """The outcome of one hook: `Outcome.to_dict()` as it was logged, with the data that the hook returned."""

    hook: str
    source: str | None = None
    dialect: str = ""
    status: str = "ok"
    decision: str = "none"
    reason: str | None = None
    exit_code: int | None = None
    signal: int | None = None
    failed_open: bool = False
    duration_ms: float = 0.0
    error: str | None = None
    lost: tuple[str, ...] = ()
    output_bytes: int | None = None  # how much it printed or sent; None if it has no output
    data: Any = None
    stop: bool = False
    keep_going: bool = False
    context: str = ""  # for the model
    message: str = ""  # for the user
    rewrote_input: bool = False
    rewrote_output: bool = False
    waived: WaivedAnswer | None = (
        None  # its answer, if that did not count: shadow mode, a pause, or a call allowed once
    )
    code: str = ""  # `billhook allow-once CODE` could allow the call


class Record(msgspec.Struct, frozen=True, kw_only=True):
    """One verdict, as it is logged. Fields of later versions are ignored."""

    v: int
    seq: int  # counts from 1 in each log, without a gap
    prev: str  # the hash of the record before; empty for the first
    id: str  # the verdict's id: 32 hex digits that sort by time
    time: str  # UTC, ISO 8601 with microseconds and `Z`
    mono: float  # seconds of the monotonic clock: durations between records of one boot don't depend on the wall clock
    event: str
    session_id: str = ""
    session_name: str = ""
    turn_id: str = ""
    tool: str | None = None  # its canonical name
    tool_use_id: str | None = None
    cwd: str = ""
    transcript_path: str = ""
    permission_mode: str | None = None
    agent_id: str | None = None  # the subagent in which it happened
    agent_type: str | None = None
    project: str = ""
    host: str = ""  # the caller: `claude` and the other dialects of `billhook hook`, `fire`, `library`
    decision: str = "none"
    reason: str | None = None
    stop: bool = False
    keep_going: bool = False
    failed_open: int = 0
    duration_ms: float = 0.0
    config: str = ""  # The hash of the configuration in `billhook/configs/{hash}.json`
    redacted: int = 0  # how many texts were redacted
    input: Any = None  # The tool's input; for other events, their fields. Absent if the options exclude it.
    output: Any = None
    fields: Any = None  # the other fields of a tool's event, with their original names
    rewritten_input: Any = None
    rewritten_output: Any = None
    context: tuple[str, ...] = ()
    messages: tuple[str, ...] = ()
    lost: tuple[str, ...] = ()  # parts of the verdict that could not be sent to the caller, or wait for a later event
    outcomes: tuple[OutcomeRecord, ...] = ()
    not_asked: dict[str, str] = {}
    """For each configured hook of this event that was skipped, the reason: `did not match`, `condition false`,
    `not trusted`, `disabled`, or another one."""
    side: Side | None = None
    note: str | None = None
    """A record about the log itself, not a verdict: `torn` (a line that a crashed writer left incomplete was closed),
    `rotated` (the last line of a file). `event` is `log` then."""
    hash: str  # SHA-256 of the line up to here, prev included: the text before `,"hash":`

    @property
    def judged(self) -> bool:
        """Whether hooks could run: not if the event was invalid, or an internal error came first. Such a record has a
        reason, but no outcomes."""
        elsewhere = self.side is not None and "outcomes" in self.side.fields
        return bool(self.outcomes) or elsewhere or not (self.reason or self.failed_open)

    @property
    def payload(self) -> dict[str, Any]:
        """The event with the original names of its fields, as far as it was logged: without secrets and excluded
        fields. A record with a side file has to be completed first."""
        placed = {"transcript_path": self.transcript_path, "cwd": self.cwd, "permission_mode": self.permission_mode,
                  "agent_id": self.agent_id, "agent_type": self.agent_type}  # fmt: skip
        placed = {name: value for name, value in placed.items() if value is not None}
        base = {"session_id": self.session_id, **placed, "hook_event_name": self.event}
        if self.tool is None:
            return {**base, **self.input} if isinstance(self.input, dict) else base
        said = "error" if self.event == "PostToolUseFailure" else "tool_response"
        about_tool = {"tool_input": self.input, said: self.output, "tool_use_id": self.tool_use_id}
        known = {name: value for name, value in about_tool.items() if value is not None}
        return {**base, "tool_name": self.tool, **known, **(self.fields if isinstance(self.fields, dict) else {})}


class RecordFilter(msgspec.Struct, frozen=True, kw_only=True):
    """A filter for records. None: all."""

    sessions: frozenset[str] | None = None  # session ids
    events: frozenset[str] | None = None
    tools: frozenset[str] | None = None  # canonical names
    decisions: frozenset[str] | None = None
    hook: str | None = None  # records in which this hook has an outcome, or was skipped
    since: str | None = None  # in the format of `Record.time`
    until: str | None = None
    project: str | None = None
    text: str | None = None  # anywhere in the record, including its side file; case-sensitive


ALL: Final = RecordFilter()

# Side files:

LARGEST_BODY: Final = LARGEST_LINE - ROOM  # bytes of an encoded record that fits into a line
LARGEST_SIDE: Final = 1 << 30
_SIDE_ROOM: Final = 400  # bytes that `side` takes in the line


def side_path(folder: Path, sha256: str) -> Path:
    """The path of the side file with this digest, for the log in `folder`."""
    return folder / "large" / f"{sha256}.json"


def moved(content: Mapping[str, Any], keep: Callable[[str, bytes], None]) -> bytes:
    """The encoded record without its largest fields, which are passed to `keep` as one JSON object with its digest.
    Moves only as many fields as necessary for the line to fit: first of those that are meant for the side file, then of
    all fields except for the required ones."""
    encoded = {name: strictjson.encode(value) for name, value in content.items()}
    gone = _too_many(encoded)
    data = _object({name: encoded[name] for name in encoded if name in gone})
    digest = sha256(data).hexdigest()
    keep(digest, data)
    side = Side(digest, len(data), tuple(name for name in encoded if name in gone))
    stay = {name: value for name, value in encoded.items() if name not in gone}
    return _object({**stay, "side": strictjson.encode(side)})


def write_side(folder: Path, root: Path, sha256: str, data: bytes, *, sync: bool) -> None:
    """Write a side file, completely or not at all. Raises StoreError."""
    files.write_atomically(side_path(folder, sha256), data, root=root, durable=sync)


def read_side(folder: Path, root: Path, side: Side) -> tuple[bytes, str]:
    """The bytes of a side file, and the problem with it. Never raises."""
    if not is_hash(side.sha256):
        return b"", "can't be read: the record has no digest"
    path = side_path(folder, side.sha256)
    data, wrong = read_hashed(path, root, side.sha256, max(0, min(side.bytes, LARGEST_SIDE)))
    return data, wrong or ("" if len(data) == side.bytes else "was changed")


def read_hashed(path: Path, root: Path, digest: str, limit: int) -> tuple[bytes, str]:
    """The bytes of a file that is named by its digest, and the problem with it; an empty string if it is unchanged."""
    try:
        data = files.read_bytes(path, limit, root=root)
    except files.TooLargeError:
        return b"", "was changed"  # something was appended; no need to read all of it
    except StoreError as error:
        return b"", f"can't be read: {error.message}"
    if data is None:
        return b"", "is missing"
    return (data, "") if sha256(data).hexdigest() == digest else (b"", "was changed")


def _too_many(encoded: Mapping[str, bytes]) -> frozenset[str]:
    total = sum(len(name) + len(value) + 4 for name, value in encoded.items()) + _SIDE_ROOM
    gone: set[str] = set()
    for name in sorted(encoded, key=lambda name: (name not in LARGE_FIELDS, -len(encoded[name]))):
        if total > LARGEST_BODY and name not in {"id", "time", "mono", "event"}:  # a record must have these
            gone.add(name)
            total -= len(encoded[name])
    return frozenset(gone)


def _object(encoded: Mapping[str, bytes]) -> bytes:
    return b"{%b}" % b",".join(strictjson.encode(name) + b":" + value for name, value in encoded.items())


# Snapshots of configurations, which records name by their hash.

LARGEST_SNAPSHOT: Final = 64 << 20
_HASH: Final = pattern(r"[0-9a-f]{64}")


def snapshot_path(root: Path, hash: str) -> Path:  # noqa: A002 (the name in records)
    """The file of the configuration with this hash."""
    return root / "billhook" / "configs" / f"{hash}.json"


def is_hash(text: object) -> bool:
    """Whether it could be the hash of a configuration."""
    return isinstance(text, str) and _HASH.fullmatch(text) is not None

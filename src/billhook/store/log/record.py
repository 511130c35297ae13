"""One line of the event log and its record: how they are made and read, and the side file of a record that is too long.

    {"v":1,"seq":12,"prev":"<64 hex>", ... what is recorded ... ,"hash":"<64 hex>"}

`hash` is the SHA-256 of the bytes before `,"hash":`, and `prev` the hash of the line before, so that a line vouches for
all that stand above it. Both ends of a line are the same to the byte in every record: nothing has to be decoded to
follow the chain. `tests/store/test_lines.py` holds the two ends and `record.Record` together.
"""

import os
import time
from collections.abc import Callable, Mapping
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec

from billhook.core import strictjson
from billhook.core.lazy import pattern
from billhook.store import files
from billhook.store.files import StoreError, sha256

START = b'{"v":1,"seq":'  # how every line of ours begins; also one that was never finished
ROOM = 200  # more than what the chain adds to a record: version, number, two hashes, the newline
_HEAD = pattern(START + rb'([1-9][0-9]{0,17}),"prev":"((?:[0-9a-f]{64})?)",(?:"note":"([a-z]+)",)?')
_TAIL = pattern(rb',"hash":"([0-9a-f]{64})"\}')
_TAIL_BYTES = 75


class LineEnds(NamedTuple):
    """What the two ends of a line say. That the hash is right is not said by that."""

    seq: int
    prev: str
    hash: str
    note: str  # `torn`, `rotated`: about the log itself. Empty for a verdict.


def read_line(line: bytes) -> LineEnds | None:
    """A line without its newline; None for what has not the form of ours."""
    head = _HEAD.match(line)
    tail = _TAIL.fullmatch(line, len(line) - _TAIL_BYTES) if head and head.end() <= len(line) - _TAIL_BYTES else None
    if head is None or tail is None:
        return None
    note = head[3].decode() if head[3] else ""
    return LineEnds(int(head[1]), head[2].decode(), tail[1].decode(), note)


def is_whole(line: bytes) -> bool:
    """Whether the hash of a line (without its newline) is the hash of this line."""
    text = line[:-_TAIL_BYTES]
    return line[-_TAIL_BYTES:] == b',"hash":"%b"}' % sha256(text).hexdigest().encode()


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


# One record of the event log:

VERSION: Final = 1
LARGEST_LINE: Final = 64 << 10  # Bytes. What a record has beyond that lies in a side file.
LARGE_FIELDS: Final = ("input", "output", "fields", "context", "messages", "outcomes", "not_asked", "rewritten_input",
                       "rewritten_output")  # fmt: skip
"""The fields that may move to the side file, largest first, until the line fits."""


class Side(msgspec.Struct, frozen=True):
    """What of a record lies in a file of its own: a JSON object with these fields, `large/{sha256}.json`."""

    sha256: str
    bytes: int
    fields: tuple[str, ...]


class OutcomeRecord(msgspec.Struct, frozen=True, kw_only=True):
    """What happened when one hook was asked: `Outcome.to_dict()` as it was logged, with the data that it returned."""

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
    output_bytes: int | None = None  # how much it printed or sent; None for what prints nothing
    data: Any = None
    stop: bool = False
    keep_going: bool = False
    context: str = ""  # what it told the model
    message: str = ""  # what it told the user
    rewrote_input: bool = False
    rewrote_output: bool = False


class Record(msgspec.Struct, frozen=True, kw_only=True):
    """One verdict, as the log has it. Fields that a later version adds are ignored by this one."""

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
    host: str = ""  # who asked: `claude` and the other dialects of `billhook hook`, `fire`, `library`
    decision: str = "none"
    reason: str | None = None
    stop: bool = False
    keep_going: bool = False
    failed_open: int = 0
    duration_ms: float = 0.0
    config: str = ""  # The hash of the configuration: `billhook/configs/{hash}.json` has it
    redacted: int = 0  # how many texts were taken out
    input: Any = None  # The tool's input; of other events, their own fields. Absent when the options say so.
    output: Any = None
    fields: Any = None  # the fields of a tool's event that have no other place here, by the names that they came with
    rewritten_input: Any = None
    rewritten_output: Any = None
    context: tuple[str, ...] = ()
    messages: tuple[str, ...] = ()
    lost: tuple[str, ...] = ()  # what of the verdict could not be said to who asked, or is held for a later event
    outcomes: tuple[OutcomeRecord, ...] = ()
    not_asked: dict[str, str] = {}
    """For each configured hook of this event that was not asked, why: `did not match`, `condition false`,
    `not trusted`, `disabled`, or what else kept it."""
    side: Side | None = None
    note: str | None = None
    """Not a verdict, but something about the log itself: `torn` (a line that a dying writer left unfinished was
    closed), `rotated` (the last line of a file). `event` is `log` then."""
    hash: str  # SHA-256 of the line up to here, prev included: the text before `,"hash":`

    @property
    def judged(self) -> bool:
        """Whether hooks could be asked at all: not when the event could not be read, or a fault came before them. Such
        a record has a reason, and nobody's outcome."""
        elsewhere = self.side is not None and "outcomes" in self.side.fields
        return bool(self.outcomes) or elsewhere or not (self.reason or self.failed_open)

    @property
    def payload(self) -> dict[str, Any]:
        """The event as it came, in the names of the wire, as far as the log has it: secrets taken out, and without what
        its owner did not want in the log. Of a record with a side file, that which was put together."""
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


class Wanted(msgspec.Struct, frozen=True, kw_only=True):
    """Which records somebody wants. None: all."""

    sessions: frozenset[str] | None = None  # session ids
    events: frozenset[str] | None = None
    tools: frozenset[str] | None = None  # canonical names
    decisions: frozenset[str] | None = None
    hook: str | None = None  # records in which this hook has an outcome, or is not asked
    since: str | None = None  # As `Record.time` is written
    until: str | None = None
    project: str | None = None
    text: str | None = None  # somewhere in the record, side file included; capitals count


ALL: Final = Wanted()


# Side files:

LARGEST_BODY: Final = LARGEST_LINE - ROOM  # bytes of an encoded record that fits into a line
LARGEST_SIDE: Final = 1 << 30
_STAY: Final = frozenset({"id", "time", "mono", "event"})  # without these a line is no record
_OLD: Final = 3600  # seconds after which a file that is still called temporary was left by a writer that died
_LOOK_AT: Final = 2000  # names in the folder that are looked at for that: a process may write one side file and end
_SIDE_ROOM: Final = 400  # bytes that `side` takes in the line


def side_path(folder: Path, sha256: str) -> Path:
    """Where the side file of this digest lies, for the log in `folder`."""
    return folder / "large" / f"{sha256}.json"


def moved(content: Mapping[str, Any], keep: Callable[[str, bytes], None]) -> bytes:
    """The encoded record without its largest fields, which are handed to `keep` with their digest as one JSON object.

    Only as many go as must for the line to fit: of those that are meant for it first, then of all but the few that a
    record can't do without.
    """
    encoded = {name: strictjson.encode(value) for name, value in content.items()}
    gone = _too_many(encoded)
    data = _object({name: encoded[name] for name in encoded if name in gone})
    digest = sha256(data).hexdigest()
    keep(digest, data)
    side = Side(digest, len(data), tuple(name for name in encoded if name in gone))
    stay = {name: value for name, value in encoded.items() if name not in gone}
    return _object({**stay, "side": strictjson.encode(side)})


def write_side(folder: Path, root: Path, sha256: str, data: bytes, *, sync: bool) -> None:
    """Keep a side file: whole or not at all. Raises StoreError.

    The first time in a process, what writers that died left half written there is removed.
    """
    _sweep(side_path(folder, sha256).parent, root)
    files.write_atomically(side_path(folder, sha256), data, root=root, durable=sync)


def read_side(folder: Path, root: Path, side: Side) -> tuple[bytes, str]:
    """The bytes of a side file, and what is wrong with it. Never raises."""
    if not is_hash(side.sha256):
        return b"", "can't be read: the record gives no digest"
    path = side_path(folder, side.sha256)
    data, wrong = read_hashed(path, root, side.sha256, max(0, min(side.bytes, LARGEST_SIDE)))
    return data, wrong or ("" if len(data) == side.bytes else "was changed")


def read_hashed(path: Path, root: Path, digest: str, limit: int) -> tuple[bytes, str]:
    """The bytes of a file that is named by their digest, and what became of it: nothing where it is as it was."""
    try:
        data = files.read_bytes(path, limit, root=root)
    except files.TooLargeError:
        return b"", "was changed"  # it was added to, which need not be read to its end to know that
    except StoreError as error:
        return b"", f"can't be read: {error.message}"
    if data is None:
        return b"", "is missing"
    return (data, "") if sha256(data).hexdigest() == digest else (b"", "was changed")


@lru_cache(maxsize=100)
def _sweep(folder: Path, root: Path) -> None:
    """Remove temporary files of ours that nobody has been writing for an hour, once. Whatever goes wrong can wait."""
    try:
        with files.opened(folder, root) as opened:
            if opened is None:
                return
            with os.scandir(opened) as entries:
                old = [one.name for one in islice(entries, _LOOK_AT) if _is_left_behind(one)]
            for name in old:
                os.unlink(name, dir_fd=opened)
    except (OSError, files.StoreError):
        pass


def _is_left_behind(entry: "os.DirEntry[str]") -> bool:
    rest = entry.name.removeprefix(files.TEMPORARY)
    if rest == entry.name or len(rest) != 16 or not entry.is_file(follow_symlinks=False):
        return False
    found = entry.stat(follow_symlinks=False)
    return found.st_uid == os.geteuid() and found.st_mtime < time.time() - _OLD


def _too_many(encoded: Mapping[str, bytes]) -> frozenset[str]:
    total = sum(len(name) + len(value) + 4 for name, value in encoded.items()) + _SIDE_ROOM
    gone: set[str] = set()
    for name in sorted(encoded, key=lambda name: (name not in LARGE_FIELDS, -len(encoded[name]))):
        if total > LARGEST_BODY and name not in _STAY:
            gone.add(name)
            total -= len(encoded[name])
    return frozenset(gone)


def _object(encoded: Mapping[str, bytes]) -> bytes:
    return b"{%b}" % b",".join(strictjson.encode(name) + b":" + value for name, value in encoded.items())


# Where configurations are kept that records name by their hash, and whether one is still what it was.

LARGEST_SNAPSHOT: Final = 64 << 20
_HASH: Final = pattern(r"[0-9a-f]{64}")


def snapshot_path(root: Path, hash: str) -> Path:  # noqa: A002 (the word that records use)
    """The file of the configuration that has this hash."""
    return root / "billhook" / "configs" / f"{hash}.json"


def is_hash(text: object) -> bool:
    """Whether it could be the hash of a configuration."""
    return isinstance(text, str) and _HASH.fullmatch(text) is not None

"""Goals 16 to 18: the cost of a line in the event log: alone, with eight writers, and safe from a loss of power."""

import functools
import json
import os
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from billhook.core import strictjson
from billhook.store.log.eventlog import EventLog, open_log
from billhook.store.log.verify import verify
from harness import LOOPS, Bar, Case, Goal, T, Trial, looped

WRITERS = 8
EACH = 2500
"""Events that every writer adds in one round."""
_ROUNDS = 8
_DURABLE = 60
_FEW = 4
_PROJECT = "/home/u/x"


def record(size: int) -> dict[str, Any]:
    """The log record of one tool call, with a command that makes the line about `size` bytes long."""
    session = "0b8e2f0e-5a0f-4b0f-9a53-0a2d7f6e1b11"
    return {
        "id": "01a1e208e895771311ff188ea000c744",
        "time": "2026-11-16T01:46:37.077207Z",
        "mono": 23622.400351,
        "event": "PreToolUse",
        "session_id": session,
        "session_name": "brave-otter",
        "turn_id": f"{session}:5",
        "tool": "Bash",
        "tool_use_id": "toolu_01ABC",
        "cwd": "/home/u/x",
        "project": "/home/u/x",
        "host": "claude",
        "decision": "allow",
        "stop": False,
        "keep_going": False,
        "failed_open": 0,
        "duration_ms": 2.417,
        "config": "9f3ac21b77d09f3ac21b77d0",
        "redacted": 0,
        "reason": None,
        "input": {"command": 'echo "hello"\n' * max(1, (size - 905) // 16)},
        "outcomes": [
            {"hook": "guard", "status": "ok", "decision": "allow", "duration_ms": 0.412},
            {"hook": "event-logger", "status": "ok", "decision": "none", "duration_ms": 0.017},
        ],
        "not_asked": {"format": "did not match"},
    }


# -- 16 ------------------------------------------------------------------------------------------------------------


def _unchained(folder: Path) -> EventLog:
    """A log without the chain: the line is given, and nothing is hashed."""
    log = EventLog(folder, folder / "hooks" / "unchained")
    log._seal = lambda seq, prev, body: (body, prev)
    return log


async def one_line() -> AsyncGenerator[Trial, None]:
    """Without encoding against one write; with encoding, from the same record, against the usual alternatives."""
    content = record(1000)
    body = strictjson.encode(content)
    with _folder() as folder:
        log = open_log(folder, _PROJECT)
        log.append(content)
        log.append(content)
        line = log.path.read_bytes().splitlines(keepends=True)[1]
        with ExitStack() as stack:
            one_write = looped(functools.partial(os.write, stack.enter_context(_kept(folder / "w"))), line)
            # Not together: the interpreter adapts the code to its use, and real programs use only one of them.
            cases: dict[str, Case] = {"a line without the chain": looped(_unchained(folder).append_encoded, line)}
            bars = [Bar("a line without the chain", "one write", 2.5)]
            yield Trial("1 KB, encoded", {**cases, "one write": one_write}, bars, LOOPS)
            cases = {"a line": looped(log.append_encoded, body), "one write": one_write}
            yield Trial("1 KB, encoded", cases, [Bar("a line", "one write", 5)], LOOPS)
            cases = {
                "append": looped(log.append, content),
                'open("a") and json.dumps': looped(_usual(folder / "usual.jsonl"), content),
                "SQLite WAL": looped(_sqlite(folder / "log.db", "normal"), content),
            }
            bars = [Bar("append", 'open("a") and json.dumps', 0.3), Bar("append", "SQLite WAL", 0.4)]
            yield Trial("1 KB", cases, bars, LOOPS)
        _check(folder, log)


def _usual(path: Path) -> Callable[[dict[str, Any]], None]:
    def add(content: dict[str, Any]) -> None:
        with open(path, "a") as stream:
            stream.write(json.dumps(content) + "\n")

    return add


def _sqlite(path: Path, synchronous: str) -> Callable[[dict[str, Any]], None]:
    """One insert, one transaction. `normal` may lose the last ones in a power loss and nothing else, like our log."""
    database = sqlite3.connect(path, timeout=60, isolation_level=None, check_same_thread=False)
    database.execute("PRAGMA journal_mode=WAL")
    database.execute(f"PRAGMA synchronous={synchronous}")
    database.execute("CREATE TABLE IF NOT EXISTS events (seq INTEGER PRIMARY KEY, record TEXT)")

    def add(content: dict[str, Any]) -> None:
        database.execute("INSERT INTO events (record) VALUES (?)", (json.dumps(content),))

    return add


# -- 17 ------------------------------------------------------------------------------------------------------------


async def many_writers() -> AsyncGenerator[Trial, None]:
    """First of all no line may be torn or lost: otherwise the times mean nothing."""
    for size in (60_000, 100_000):
        with _folder() as folder, _writers("ours", folder, size) as write:
            write(100)
            _check(folder, open_log(folder, _PROJECT), WRITERS * 100)
    with _folder() as folder, _writers("ours", folder, 1000) as ours, _writers("sqlite", folder, 1000) as theirs:
        cases: dict[str, Case] = {f"{WRITERS} writers": looped(ours, EACH), "SQLite WAL": looped(theirs, EACH)}
        yield Trial("1 KB", cases, [Bar(f"{WRITERS} writers", "SQLite WAL", 0.6)], _ROUNDS)
        rows = sqlite3.connect(folder / "log.db").execute("SELECT count(*) FROM events").fetchone()[0]
        assert rows % (WRITERS * EACH) == 0, "SQLite lost some"
        _check(folder, open_log(folder, _PROJECT))


@contextmanager
def _writers(kind: str, folder: Path, size: int) -> Iterator[Callable[[int], None]]:
    """Eight running processes; call it, and each of them adds so many events, all at once."""
    argv = [sys.executable, __file__, kind, os.fspath(folder), str(size)]
    started = [subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE) for _ in range(WRITERS)]

    def write(each: int) -> None:
        line = b"%d\n" % each
        for process in started:
            os.write(process.stdin.fileno(), line)  # type: ignore[union-attr]
        for process in started:
            answer = process.stdout.readline()  # type: ignore[union-attr]
            assert answer == line, f"a writer failed: {answer!r}"

    try:
        yield write
    finally:
        for process in started:
            process.communicate(timeout=60)


def write_when_told(kind: str, folder: Path, size: int) -> None:
    """One writer: for every number on stdin so many events, then the number on stdout."""
    content = record(size)
    add = _sqlite(folder / "log.db", "normal") if kind == "sqlite" else open_log(folder, _PROJECT).append
    for line in sys.stdin.buffer:
        for _ in range(int(line)):
            add(content)
        print(int(line), flush=True)


# -- 18 ------------------------------------------------------------------------------------------------------------


async def durable() -> AsyncGenerator[Trial, None]:
    """A single record costs one flush, in any program; many at once may share one."""
    content = record(1000)
    with _folder() as folder, _kept(folder / "w") as file, ThreadPoolExecutor(WRITERS) as pool:
        log = open_log(folder, _PROJECT, sync=True)
        log.append(content)
        cases: dict[str, Case] = {
            "durable append": looped(_few(log.append), content),
            "write and fdatasync": looped(_few(_write_and_sync(file)), log.path.read_bytes()),
        }
        yield Trial("1 KB", cases, [Bar("durable append", "write and fdatasync", 1.2)], _DURABLE)
        insert = _sqlite(folder / "log.db", "full")
        cases = {
            f"{WRITERS} durable appends at once": looped(_at_once(pool, log.append), content),
            "SQLite WAL, synchronous=full": looped(_at_once(pool, insert), content),
        }
        bars = [Bar(f"{WRITERS} durable appends at once", "SQLite WAL, synchronous=full", 0.7)]
        yield Trial("1 KB", cases, bars, _DURABLE // 2)
        _check(folder, log)


def _few(add: Callable[[T], object]) -> Callable[[T], None]:
    """Several in sequence: a flush right after another one is faster, so all cases must be in the same position."""

    def all_of_them(content: T) -> None:
        for _ in range(_FEW):
            add(content)

    return all_of_them


def _at_once(pool: ThreadPoolExecutor, add: Callable[[dict[str, Any]], object]) -> Callable[[dict[str, Any]], None]:
    def all_of_them(content: dict[str, Any]) -> None:
        for future in [pool.submit(add, content) for _ in range(WRITERS)]:
            future.result()

    return all_of_them


def _write_and_sync(file: int) -> Callable[[bytes], None]:
    def add(line: bytes) -> None:
        os.write(file, line)
        os.fdatasync(file)

    return add


# -- all -----------------------------------------------------------------------------------------------------------


@contextmanager
def _folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as folder:
        yield Path(folder)


@contextmanager
def _kept(path: Path) -> Iterator[int]:
    file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        yield file
    finally:
        os.close(file)


def _check(folder: Path, log: EventLog, records: int | None = None) -> None:
    """Check that the result is a valid log: every record is there, complete and in order."""
    found = verify(log.folder, folder)
    assert found.ok and not found.torn, f"{found.findings[:3]}, {found.torn} torn"
    assert records is None or found.records - found.notes == records, f"{found} of {records} records"


GOALS: Sequence[Goal] = (
    Goal(16, "One line of the event log", one_line),
    Goal(17, f"{WRITERS} processes writing the log at once, none torn, none lost", many_writers),
    Goal(18, "One line, safe from a loss of power", durable),
)

if __name__ == "__main__":
    write_when_told(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]))

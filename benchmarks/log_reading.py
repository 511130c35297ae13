"""Goals 19 and 20: a search through an event log of 1 GB, and its last five events.

BILLHOOK_BENCH_LOG=200MB makes the log smaller. ripgrep and DuckDB are included if they are installed. The loops and
DuckDB are so slow that they are measured on one file of the log, and their time is multiplied.
"""

import importlib.util
import json
import os
import shutil
import sys
import tempfile
import time
from collections import deque
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

import loggen
from billhook.store.log import RecordFilter
from billhook.store.log.reader import LogReader, program
from harness import PROCESSES, Bar, Case, Goal, Trial

_SIZE = 10**9
_SMALL = 2 * 10**6
"""For the tests of this script, which use few passes."""
_PASSES = 7
_BUFFER = 256 << 10
_ROOM = 3
"""So many times the size of the log must be free on the disk; otherwise the log is smaller."""


class Log(NamedTuple):
    """A log in the page cache."""

    root: Path
    folder: Path
    files: list[Path]
    size: int

    @property
    def share(self) -> float:
        """The size of the whole log, as a multiple of the first file."""
        return self.size / self.files[0].stat().st_size

    @property
    def name(self) -> str:
        return f"{self.size / 10**9:.2g} GB" if self.size >= 10**8 else f"{self.size / 10**6:.2g} MB"


async def search() -> AsyncGenerator[Trial, None]:
    with made_log() as log:
        cases: dict[str, Case] = {
            "search": timed(lambda: found_without_ripgrep(log)),
            "reading it": timed(lambda: read(log)),
            "msgspec line loop": timed(lambda: msgspec_loop(log.files[0]), log.share),
            "json line loop": timed(lambda: json_loop(log.files[0]), log.share),
        }
        bars = [
            Bar("search", "reading it", 8),
            Bar("search", "msgspec line loop", 1 / 4),
            Bar("search", "json line loop", 1 / 15),
        ]
        if importlib.util.find_spec("duckdb") is not None:
            query = duckdb_query(log.files[0])
            assert query() == msgspec_loop(log.files[0])
            cases["DuckDB read_json"] = timed(query, log.share)
            bars.append(Bar("search", "DuckDB read_json", 1 / 2))
        if path_with_ripgrep() is not None:
            assert found_with_ripgrep(log) == found_without_ripgrep(log)
            cases["search with ripgrep"] = timed(lambda: found_with_ripgrep(log))
            bars.append(Bar("search with ripgrep", "reading it", 2))
        assert msgspec_loop(log.files[0]) == json_loop(log.files[0]) > 0
        assert read(log) == log.size
        yield Trial(log.name, cases, bars, _PASSES)


async def last_five() -> AsyncGenerator[Trial, None]:
    with made_log() as log:
        reading_ours = timed(lambda: ours_last(log))
        assert ours_last(log) == log.files[-1].read_bytes().splitlines()[-5:]
        # Separate trials: after reading everything, none of our data is in the processor's caches any more.
        cases: dict[str, Case] = {"last five": reading_ours, "tail -n 5": tail_case(log.files[-1])}
        yield Trial(log.name, cases, [Bar("last five", "tail -n 5", 1 / 3)], PROCESSES)
        cases = {"last five": reading_ours, "reading all lines": timed(lambda: all_lines(log.files[0]), log.share)}
        yield Trial(log.name, cases, [Bar("last five", "reading all lines", 1 / 1000)], 4 * _PASSES)


def timed(work: Callable[[], object], times: float = 1.0) -> Case:
    """Work as a case; `times`: it is done on a part, and the whole would take so many times as long."""

    async def case(count: int) -> float:
        began = time.perf_counter_ns()
        for _ in range(count):
            work()
        return (time.perf_counter_ns() - began) * times

    return case


def tail_case(path: Path) -> Case:
    """The system's `tail`, started in the fastest way; its output is dropped."""
    tail = shutil.which("tail")
    assert tail is not None
    argv = [tail, "-n", "5", os.fspath(path)]
    actions = [(os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0)]

    def run() -> None:
        child = os.posix_spawn(tail, argv, os.environ, file_actions=actions)
        assert os.waitpid(child, 0)[1] == 0

    return timed(run)


def ours(log: Log) -> int:
    return sum(1 for _ in LogReader(log.folder, log.root).forward(RecordFilter(text=loggen.NEEDLE)))


def found_without_ripgrep(log: Log) -> int:
    with path_is(os.devnull):
        return ours(log)


def found_with_ripgrep(log: Log) -> int:
    with path_is(path_with_ripgrep() or os.devnull):
        return ours(log)


def path_with_ripgrep() -> str | None:
    path = os.pathsep.join((os.path.dirname(sys.executable), os.environ.get("PATH", os.defpath)))
    with path_is(path):
        return path if program() is not None else None


@contextmanager
def path_is(path: str) -> Iterator[None]:
    before = os.environ.get("PATH", os.defpath)
    os.environ["PATH"] = path
    try:
        yield
    finally:
        os.environ["PATH"] = before


def ours_last(log: Log) -> list[bytes]:
    return [entry.line for entry in islice(LogReader(log.folder, log.root).backward(), 5)][::-1]


def read(log: Log) -> int:
    """The limit: read all bytes into the same memory."""
    buffer, size = bytearray(_BUFFER), 0
    for path in log.files:
        file = os.open(path, os.O_RDONLY)
        while got := os.readv(file, [buffer]):
            size += got
        os.close(file)
    return size


class Input(msgspec.Struct, frozen=True):
    command: str = ""


class Line(msgspec.Struct, frozen=True):
    """Decodes only the needed fields: the fast way to write such a loop."""

    input: Input = Input()


def msgspec_loop(path: Path) -> int:
    decode = msgspec.json.Decoder(Line).decode
    with path.open("rb") as file:
        return sum(loggen.NEEDLE in decode(line).input.command for line in file)


def json_loop(path: Path) -> int:
    with path.open("rb") as file:
        return sum(loggen.NEEDLE in json.loads(line).get("input", {}).get("command", "") for line in file)


def all_lines(path: Path) -> list[bytes]:
    with path.open("rb") as file:
        return list(deque(file, 5))


def duckdb_query(path: Path) -> Callable[[], int]:
    import duckdb  # type: ignore[import-not-found,unused-ignore]

    connection: Any = duckdb.connect()
    columns = "{'input': 'STRUCT(command VARCHAR)'}"
    source = f"read_json('{path}', format='newline_delimited', columns={columns})"
    query = f"SELECT count(*) FROM {source} WHERE contains(input.command, '{loggen.NEEDLE}')"
    return lambda: int(connection.execute(query).fetchall()[0][0])


@contextmanager
def made_log() -> Iterator[Log]:
    """A log in a folder that is removed afterwards."""
    with tempfile.TemporaryDirectory(prefix="billhook-bench-") as folder:
        root = Path(folder)
        folder_of_log = loggen.make_log(root, log_size(root), max_bytes=loggen.MAX_BYTES)
        reader = LogReader(folder_of_log, root)
        yield Log(root, folder_of_log, reader.files(), reader.bytes)


def log_size(root: Path) -> int:
    """BILLHOOK_BENCH_LOG, else 1 GB, or little with few passes; never most of the disk."""
    few = int(os.environ.get("BILLHOOK_BENCH_PASSES") or _PASSES) < 3
    chosen = os.environ.get("BILLHOOK_BENCH_LOG")
    size = loggen.read_size(chosen) if chosen else _SMALL if few else _SIZE
    room = shutil.disk_usage(root).free // _ROOM
    if size > room:
        print(f"the log has {room:,} bytes instead of {size:,}: the disk is almost full", file=sys.stderr)
    return min(size, room)


GOALS = (
    Goal(19, "Searching the event log", search),
    Goal(20, "The last five events without reading the log", last_five),
)

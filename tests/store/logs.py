"""Event logs for tests: made by the real writer, or line by line where the writer would not make them."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from billhook.core import strictjson
from billhook.store.log.eventlog import EventLog, make_line
from billhook.store.log.reader import LogReader

PROJECT = "-srv-shop"


def content(number: int, **more: Any) -> dict[str, Any]:
    """The content of one record."""
    return {
        "id": f"{number:032x}",
        "time": f"2026-01-01T00:{number // 60 % 60:02d}:{number % 60:02d}.000000Z",
        "mono": float(number),
        "event": "PreToolUse",
        "session_id": "s1",
        "tool": "Bash",
        "input": {"command": f"echo {number}"},
        **more,
    }


def log_folder(root: Path) -> Path:
    return root / "hooks" / PROJECT


def reader(root: Path) -> LogReader:
    return LogReader(log_folder(root), root)


def written(root: Path, count: int, *, max_bytes: int = 64 << 20) -> LogReader:
    """A log of so many records, rotated at `max_bytes`."""
    append(root, *(content(number) for number in range(1, count + 1)), max_bytes=max_bytes)
    return reader(root)


def append(root: Path, *contents: dict[str, Any], max_bytes: int = 64 << 20) -> None:
    log = EventLog(root, log_folder(root), max_bytes=max_bytes)
    for one in contents:
        log.append(one)
    log.close()


def made_lines(count: int, start: int = 1) -> Iterator[bytes]:
    """Lines as the writer makes them, newline included."""
    prev = ""
    for number in range(start, start + count):
        line, prev = make_line(number, prev, strictjson.encode(content(number)))
        yield line


def put(root: Path, data: bytes, name: str = "hooks.jsonl") -> LogReader:
    """A log's file with this content."""
    log_folder(root).mkdir(parents=True, exist_ok=True, mode=0o700)
    (log_folder(root) / name).write_bytes(data)
    return reader(root)

"""Records for the tests of the event log, and the log as its bytes."""

import json
from pathlib import Path
from typing import Any

from billhook.store.files import log_folder
from billhook.store.log.eventlog import CURRENT, EventLog, open_log
from billhook.store.log.verify import VerifyResult, verify

PROJECT = "/home/me/project"


def content(number: int, size: int = 0, **more: Any) -> dict[str, Any]:
    """What is given to `append`: a record that can be told from others, with `size` characters of input."""
    return {
        "id": f"{number:032x}",
        "time": "2026-11-16T01:46:37.077207Z",
        "mono": 1.5,
        "event": "PreToolUse",
        "session_id": "abc",
        "tool": "Bash",
        "decision": "allow",
        "input": {"command": "x" * size},
        **more,
    }


def fresh(root: Path, *, max_bytes: int = 64 << 20, sync: bool = False) -> EventLog:
    """A writer that knows nothing yet, as in a process that was just started."""
    return EventLog(root, log_folder(root, PROJECT), max_bytes=max_bytes, sync=sync)


def filled(root: Path, records: int, **options: Any) -> EventLog:
    """The log of a project with some short records."""
    log = open_log(root, PROJECT, **options)
    for number in range(1, records + 1):
        log.append(content(number))
    return log


def files_of(folder: Path) -> list[Path]:
    """The files of a log, the oldest first."""
    return [*sorted(folder.glob("hooks-*.jsonl")), folder / CURRENT]


def lines_of(folder: Path) -> list[dict[str, Any]]:
    """Every line of a log, decoded; none may be anything else."""
    return [json.loads(line) for file in files_of(folder) for line in file.read_bytes().splitlines()]


def whole(log: EventLog) -> VerifyResult:
    """Check a log in which nothing may be wrong."""
    found = verify(log.folder, log.root)
    assert found.findings == [] and found.foreign == found.more == 0
    return found

"""A log with the records that a test needs, written by the real writer."""

import itertools
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from billhook.store.files import log_folder
from billhook.store.log.eventlog import open_log
from billhook.store.log.reader import LogReader

_ids = itertools.count(0x0199_0000_0000)


def at(**ago: float) -> str:
    """A time in the past, in the format of records."""
    return (datetime.now(UTC) - timedelta(**ago)).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def content(project: Path | str, **fields: Any) -> dict[str, Any]:
    """The content of a record: a call of `ls` without hooks, unless `fields` differ."""
    usual = {
        "id": f"{next(_ids):012x}{0:020x}",
        "time": at(),
        "mono": 1.0,
        "event": "PreToolUse",
        "session_id": "s1",
        "session_name": "jolly-squid",
        "turn_id": "s1:1",
        "tool": "Bash",
        "tool_use_id": "t1",
        "cwd": str(project),
        "project": str(project),
        "host": "claude",
        "decision": "none",
        "duration_ms": 1.5,
        "config": "",
        "input": {"command": "ls"},
        "outcomes": [],
        "not_asked": {},
    }
    return {**usual, **fields}


def said(hook: str, **fields: Any) -> dict[str, Any]:
    """One outcome."""
    return {
        "hook": hook,
        "source": "user hooks.yaml:1",
        "status": "ok",
        "decision": "none",
        "duration_ms": 1.0,
        **fields,
    }


def write(root: Path, project: Path | str, contents: Iterable[dict[str, Any]]) -> LogReader:
    """Add records to the log of a project, and read it."""
    root.mkdir(parents=True, exist_ok=True)
    log = open_log(root, str(project))
    for one in contents:
        log.append(one)
    return LogReader(log_folder(root, str(project)), root)

#!/usr/bin/env python3
"""Any event: counters in a SQLite database, and a summary at the end of a session."""

import json
import os
import sqlite3
import sys
from pathlib import Path

SCHEMA = """
CREATE TABLE IF NOT EXISTS calls (
    id INTEGER PRIMARY KEY,
    session TEXT NOT NULL,
    event TEXT NOT NULL,
    tool TEXT,
    size INTEGER NOT NULL
);
CREATE INDEX IF NOT EXISTS calls_by_session ON calls (session);
"""


def connect():
    path = Path(os.environ["CLAUDE_PROJECT_DIR"]) / ".telemetry" / "calls.sqlite"
    path.parent.mkdir(exist_ok=True)
    base = sqlite3.connect(path, timeout=10)
    base.row_factory = sqlite3.Row
    base.executescript(SCHEMA)
    return base


def record(base, event, size):
    with base:
        base.execute(
            "INSERT INTO calls (session, event, tool, size) VALUES (:session, :event, :tool, :size)",
            {
                "session": event["session_id"],
                "event": event["hook_event_name"],
                "tool": event.get("tool_name"),
                "size": size,
            },
        )


def summary(base, session):
    query = (
        "SELECT coalesce(tool, event) AS name, count(*) AS n, sum(size) AS size FROM calls WHERE session = ? GROUP BY 1"
    )
    for found in base.execute(query, (session,)):
        print(f"{found['name']:<16}{found['n']:>5}{found['size']:>8}")


raw = sys.stdin.buffer.read()
event = json.loads(raw)
base = connect()
for _ in range(int(os.environ.get("TIMES", "1"))):
    record(base, event, len(raw))
if event["hook_event_name"] in ("Stop", "SessionEnd"):
    summary(base, event["session_id"])
# The connection is left open: the interpreter closes it.

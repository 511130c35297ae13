#!/usr/bin/env python3
"""PostToolUse: a CSV audit file with one row per tool call, rotated by size, safe with parallel agents."""

import contextlib
import csv
import fcntl
import hashlib
import json
import os
import sys

FIELDS = ["session", "event", "tool", "target", "digest", "ok"]
LARGEST = int(os.environ.get("AUDIT_BYTES", "4096"))


@contextlib.contextmanager
def locked(path):
    with open(path + ".lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        try:
            yield
        finally:
            fcntl.flock(lock, fcntl.LOCK_UN)


def rotate(path):
    if os.path.exists(path) and os.path.getsize(path) > LARGEST:
        for number in range(3, 0, -1):
            older, newer = f"{path}.{number}", f"{path}.{number - 1}" if number > 1 else path
            if os.path.exists(newer):
                os.replace(newer, older)


def row(event):
    tool_input = event.get("tool_input", {})
    digest = hashlib.sha256(json.dumps(tool_input, sort_keys=True).encode()).hexdigest()[:12]
    return {
        "session": event["session_id"][:8],
        "event": event["hook_event_name"],
        "tool": event.get("tool_name", ""),
        "target": tool_input.get("file_path") or tool_input.get("command", ""),
        "digest": digest,
        "ok": "error" not in str(event.get("tool_response", "")).lower(),
    }


event = json.load(sys.stdin)
path = os.path.join(event["cwd"], "audit.csv")
with locked(path):
    rotate(path)
    new = not os.path.exists(path)
    with open(path, "a", newline="") as file:
        writer = csv.DictWriter(file, FIELDS, quoting=csv.QUOTE_MINIMAL)
        if new:
            writer.writeheader()
        writer.writerow(row(event))

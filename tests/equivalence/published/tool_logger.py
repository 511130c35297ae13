#!/usr/bin/env python3
"""Any event: append one JSON line to logs/EVENT.jsonl below the project."""

import datetime
import json
import os
import sys
import traceback
from pathlib import Path

REDACTED = ("token", "password", "secret", "authorization")


def redact(value):
    if isinstance(value, dict):
        return {k: "***" if any(r in k.lower() for r in REDACTED) else redact(v) for k, v in value.items()}
    if isinstance(value, list):
        return [redact(item) for item in value]
    if isinstance(value, str) and len(value) > 200:
        return value[:200] + f"… ({len(value)} characters)"
    return value


def log_folder(event):
    root = Path(os.environ.get("CLAUDE_PROJECT_DIR") or event.get("cwd") or Path.cwd())
    folder = root / "logs"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def main():
    raw = sys.stdin.read()
    try:
        event = json.loads(raw)
        line = {"time": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"), **redact(event)}
        with open(log_folder(event) / f"{event['hook_event_name']}.jsonl", "a", encoding="utf-8") as log:
            log.write(json.dumps(line, ensure_ascii=False, sort_keys=True) + "\n")
    except Exception:
        # A logger never stops the agent.
        traceback.print_exc()
        print(f"{len(raw)} characters were not logged", file=sys.stderr)
    sys.exit(0)


if __name__ == "__main__":
    main()

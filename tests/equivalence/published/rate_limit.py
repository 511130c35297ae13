#!/usr/bin/env python3
"""PreToolUse: at most so many calls of a tool in a window, with the state in a file that is replaced atomically."""

import json
import os
import sys
import tempfile
import time
from pathlib import Path

LIMIT = int(os.environ.get("LIMIT", 5))
WINDOW = float(os.environ.get("WINDOW", 3600))


def load(path):
    try:
        return json.loads(path.read_text())
    except FileNotFoundError:
        return {}
    except ValueError:
        path.rename(path.with_suffix(".broken"))
        print("state was broken, starting again", file=sys.stderr)
        return {}


def save(path, state):
    number, name = tempfile.mkstemp(dir=path.parent, prefix=".state-")
    try:
        with os.fdopen(number, "w") as file:
            json.dump(state, file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(name, path)
    except BaseException:
        os.unlink(name)
        raise


def main():
    event = json.load(sys.stdin)
    path = Path(os.environ["CLAUDE_PROJECT_DIR"], "state.json")
    state, now = load(path), time.time()
    tool = event["tool_name"]
    recent = [when for when in state.get(tool, []) if now - when < WINDOW]
    if len(recent) >= LIMIT:
        sys.exit(f"{tool}: {len(recent)} calls within {WINDOW:g} s, limit {LIMIT}")
    state[tool] = [*recent, now]
    save(path, state)
    print(f"{len(recent) + 1}/{LIMIT}")


main()

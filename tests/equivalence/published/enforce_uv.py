#!/usr/bin/env python3
# /// script
# requires-python = ">=3.8"
# dependencies = []
# ///
"""PreToolUse: suggest uv where an agent calls pip or python directly; rewrites what is certain."""

import json
import re
import sys
from functools import cache
from pathlib import Path

REWRITES = [
    (re.compile(r"^pip3?\s+install\s+-r\s+(\S+)$"), r"uv pip install -r \1"),
    (re.compile(r"^pip3?\s+install\s+(.+)$"), r"uv add \1"),
    (re.compile(r"^python3?\s+-m\s+pytest\b(.*)$"), r"uv run pytest\1"),
    (re.compile(r"^python3?\s+(\S+\.py\b.*)$"), r"uv run \1"),
]


@cache
def is_uv_project(folder: str) -> bool:
    return any((parent / "uv.lock").exists() for parent in [Path(folder), *Path(folder).parents])


def rewrite(command: str) -> str | None:
    for pattern, replacement in REWRITES:
        if pattern.match(command.strip()):
            return pattern.sub(replacement, command.strip())
    return None


def main() -> int:
    event = json.load(sys.stdin)
    command = event.get("tool_input", {}).get("command", "")
    if event.get("tool_name") != "Bash" or not is_uv_project(event["cwd"]):
        return 0
    better = rewrite(command)
    if better is None:
        return 0
    answer = {
        "hookSpecificOutput": {
            "hookEventName": "PreToolUse",
            "permissionDecision": "allow",
            "permissionDecisionReason": f"uses uv: {command} → {better}",
            "updatedInput": {**event["tool_input"], "command": better},
        },
        "suppressOutput": True,
    }
    json.dump(answer, sys.stdout, ensure_ascii=False, indent=2)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())

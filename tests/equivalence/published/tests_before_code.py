#!/usr/bin/env python3
"""PreToolUse: code below src/ may only change once there is a test for it."""

import json
import os
import sys
from pathlib import Path, PurePosixPath

import hook_config

EXEMPT = {"__init__.py", "conftest.py", "_version.py"}


def tests_for(path: PurePosixPath):
    """Where a test of this file may be."""
    inside = path.relative_to("src")
    flat = "_".join(inside.with_suffix("").parts)
    return [
        PurePosixPath("tests", *inside.parent.parts, f"test_{inside.name}"),
        PurePosixPath("tests", f"test_{inside.name}"),
        PurePosixPath("tests", f"test_{flat}.py"),
    ]


def decide(event) -> dict:
    root = Path(os.environ.get("CLAUDE_PROJECT_DIR", "."))
    path = PurePosixPath(os.path.relpath(event["tool_input"]["file_path"], root))
    if path.parts[0] != "src" or path.name in EXEMPT or path.suffix not in hook_config.SUFFIXES:
        return {"permissionDecision": "allow", "permissionDecisionReason": "not covered by the rule"}
    candidates = tests_for(path)
    existing = [str(c) for c in candidates if (root / c).exists()]
    if existing:
        return {"permissionDecision": "allow", "permissionDecisionReason": f"tested by {existing[0]}"}
    listed = "\n".join(f"  - {c}" for c in candidates)
    return {
        "permissionDecision": hook_config.DECISION,
        "permissionDecisionReason": f"Write a failing test for {path} first, in one of:\n{listed}",
    }


if __name__ == "__main__":
    event = json.load(sys.stdin)
    print(json.dumps({"hookSpecificOutput": {"hookEventName": "PreToolUse", **decide(event)}}, indent=4))

#!/usr/bin/env python3
"""PreToolUse guard: refuse edits of protected files, with a JSON decision."""

import fnmatch
import json
import os
import sys
from pathlib import Path

PROTECTED = [".env", ".env.*", "*.pem", "*.key", "package-lock.json", "uv.lock", ".git/*", "secrets/*"]
ALLOWED = {".env.example", ".env.sample"}


def deny(reason: str) -> None:
    print(
        json.dumps(
            {
                "hookSpecificOutput": {
                    "hookEventName": "PreToolUse",
                    "permissionDecision": "deny",
                    "permissionDecisionReason": reason,
                }
            }
        )
    )
    sys.exit(0)


def relative(path: str, root: str) -> str:
    try:
        return str(Path(path).resolve().relative_to(Path(root).resolve()))
    except ValueError:
        return path


def main() -> None:
    event = json.load(sys.stdin)
    if event["tool_name"] not in {"Edit", "Write", "MultiEdit", "NotebookEdit"}:
        return
    root = os.environ.get("CLAUDE_PROJECT_DIR", event.get("cwd", "."))
    target = event["tool_input"].get("file_path") or event["tool_input"].get("notebook_path", "")
    name = relative(target, root)
    if os.path.basename(name) in ALLOWED:
        return
    for pattern in PROTECTED:
        if fnmatch.fnmatch(name, pattern) or fnmatch.fnmatch(os.path.basename(name), pattern):
            deny(f"{name} is protected by the pattern {pattern!r}")
    if ".." in Path(target).parts:
        deny(f"path traversal: {target}")


main()

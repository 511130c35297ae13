#!/usr/bin/env python3
"""PreToolUse guard: refuse shell commands that destroy data. Exit 2 sends stderr to the agent."""

import json
import re
import sys

DANGEROUS = [
    (r"\brm\s+(-\w*[rf]\w*\s+)+(/|~|\$HOME|\*)(\s|$)", "recursive delete of a root folder"),
    (r"\bgit\s+push\s+.*(--force\b|-f\b)", "force push"),
    (r"\bgit\s+reset\s+--hard\b", "hard reset"),
    (r"\bdd\s+.*of=/dev/", "raw write to a device"),
    (r"\bmkfs(\.\w+)?\b", "format a disk"),
    (r":\(\)\s*\{\s*:\|:&\s*\};:", "fork bomb"),
    (r"\bchmod\s+-R\s+777\b", "world-writable tree"),
    (r"\bcurl\b[^|]*\|\s*(sudo\s+)?(ba)?sh\b", "pipe from the network to a shell"),
]


def find_problems(command):
    problems = []
    for pattern, description in DANGEROUS:
        if re.search(pattern, command, re.IGNORECASE):
            problems.append(description)
    return problems


def main():
    try:
        data = json.load(sys.stdin)
    except json.JSONDecodeError as e:
        print(f"Error: invalid JSON input: {e}", file=sys.stderr)
        sys.exit(1)
    if data.get("tool_name") != "Bash":
        sys.exit(0)
    command = data.get("tool_input", {}).get("command", "")
    problems = find_problems(command)
    if problems:
        for problem in problems:
            print(f"• {problem}", file=sys.stderr)
        print(f"BLOCKED: {command!r}", file=sys.stderr)
        sys.exit(2)


if __name__ == "__main__":
    main()

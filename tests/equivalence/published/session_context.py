#!/usr/bin/env python3
"""SessionStart: tell the agent about the git state, open tasks and notes."""

import argparse
import json
import subprocess
import sys
from pathlib import Path


def git(*args):
    try:
        done = subprocess.run(("git", *args), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return ""
    return done.stdout.strip()


def git_state():
    branch = git("rev-parse", "--abbrev-ref", "HEAD") or git("branch", "--show-current")
    if not branch:
        return None
    changed = git("status", "--porcelain").splitlines()
    lines = [f"Branch: {branch}", f"Changed files: {len(changed)}"]
    lines += [f"  {line}" for line in changed[:10]]
    log = git("log", "--format=%s", "-3")
    if log:
        lines += ["Last commits:", *(f"  {line}" for line in log.splitlines())]
    return "\n".join(lines)


def notes(names):
    for name in names:
        path = Path(name)
        if path.is_file():
            yield f"--- {name}\n{path.read_text(encoding='utf-8', errors='replace')[:1000]}"


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--notes", nargs="*", default=["NOTES.md", "TODO.md", ".claude/CONTEXT.md"])
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(argv)
    event = json.load(sys.stdin)
    parts = [f"Session started: {event.get('source', 'unknown')}", git_state(), *notes(options.notes)]
    text = "\n\n".join(part for part in parts if part)
    if options.json:
        print(json.dumps({"hookSpecificOutput": {"hookEventName": "SessionStart", "additionalContext": text}}))
    else:
        print(text)


if __name__ == "__main__":
    main()

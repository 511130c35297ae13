#!/usr/bin/env python3
"""PreToolUse guard: no commits or pushes on a protected branch."""

import json
import os
import shlex
import subprocess
import sys

PROTECTED = os.environ.get("PROTECTED_BRANCHES", "main,master").split(",")


def current_branch(cwd):
    result = subprocess.run(
        ["git", "symbolic-ref", "--short", "HEAD"], cwd=cwd, capture_output=True, text=True, timeout=20
    )
    if result.returncode != 0:
        return None
    return result.stdout.strip()


def git_words(command):
    """The words after each `git`."""
    try:
        words = shlex.split(command)
    except ValueError as error:
        print(f"can't parse: {error}", file=sys.stderr)
        return []
    found = []
    for index, word in enumerate(words):
        if word == "git" and index + 1 < len(words):
            found.append(words[index + 1 :])
    return found


def main():
    event = json.load(sys.stdin)
    cwd = event.get("cwd") or os.getcwd()
    branch = current_branch(cwd)
    for words in git_words(event["tool_input"]["command"]):
        if words[0] == "commit" and branch in PROTECTED:
            print(f"You are on {branch}. Create a branch first:", file=sys.stderr)
            print("  git switch -c feature/NAME", file=sys.stderr)
            return 2
        if words[0] == "push" and any(name in words for name in PROTECTED):
            print(f"Push to a protected branch: {' '.join(words)}", file=sys.stderr)
            return 2
    print(f"branch: {branch}")
    return 0


sys.exit(main())

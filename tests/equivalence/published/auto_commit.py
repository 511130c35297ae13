#!/usr/bin/env python3
"""Stop: commit what the agent changed, with a message made from the files."""

import json
import os
import subprocess
import sys
import tempfile


class Git:
    def __init__(self, folder):
        self.folder = folder

    def __call__(self, *args, check=True):
        return subprocess.run(["git", "-C", self.folder, *args], check=check, capture_output=True, text=True).stdout


def subject(changes):
    verbs = {"A": "Add", "M": "Update", "D": "Remove", "R": "Rename"}
    kinds = {line[0] for line in changes}
    verb = verbs[kinds.pop()] if len(kinds) == 1 else "Change"
    names = [line.split("\t")[-1] for line in changes]
    return f"{verb} {', '.join(names[:3])}" + (f" and {len(names) - 3} more" if len(names) > 3 else "")


def main():
    event = json.load(sys.stdin)
    git = Git(event["cwd"])
    try:
        git("add", "--all")
        changes = git("diff", "--cached", "--name-status").splitlines()
        if not changes:
            print("nothing to commit")
            return
        with tempfile.NamedTemporaryFile("w", suffix=".txt") as message:
            message.write(f"{subject(changes)}\n\nSession: {event['session_id']}\n")
            message.flush()
            git("-c", "commit.gpgsign=false", "commit", "--no-verify", "--file", message.name)
    except subprocess.CalledProcessError as error:
        print(error.stderr, file=sys.stderr)
        sys.exit(error.returncode)
    print(git("log", "-1", "--format=%s (%an)").strip(), os.path.exists(message.name))


if __name__ == "__main__":
    main()

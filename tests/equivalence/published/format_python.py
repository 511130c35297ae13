#!/usr/bin/env python3
"""PostToolUse: format a Python file after an edit, or at least check that it compiles."""

import ast
import json
import os
import shutil
import subprocess
import sys
import tokenize


def tidy(source):
    """Trailing spaces and blank lines at the end."""
    lines = [line.rstrip() for line in source.splitlines()]
    while lines and not lines[-1]:
        lines.pop()
    return "\n".join(lines) + "\n"


def run_formatter(path):
    for tool, args in (("ruff", ["format", "--quiet"]), ("black", ["--quiet"])):
        program = shutil.which(tool, path=os.environ.get("FORMATTERS", ""))
        if program:
            done = subprocess.run([program, *args, path], capture_output=True, text=True)
            print(f"{tool}: {done.returncode}")
            return True
    return False


def main():
    event = json.load(sys.stdin)
    path = event.get("tool_input", {}).get("file_path")
    if not path or not path.endswith((".py", ".pyi")) or not os.path.exists(path):
        return
    with tokenize.open(path) as file:
        source = file.read()
    try:
        ast.parse(source, filename=os.path.basename(path))
    except SyntaxError as error:
        print(f"{error.filename}:{error.lineno}: {error.msg}", file=sys.stderr)
        print(error.text, file=sys.stderr)
        sys.exit(2)
    if not run_formatter(path):
        better = tidy(source)
        if better != source:
            with open(path, "w", encoding="utf-8") as file:
                file.write(better)
            print(f"tidied {os.path.basename(path)}")


main()

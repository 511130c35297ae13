#!/usr/bin/env python3
"""Stop: run the project's checks, and send the agent back to work if one fails."""

import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

CHECKS = {
    "syntax": [sys.executable, "-m", "py_compile"],
    "tests": [sys.executable, "-m", "unittest", "-q"],
    "style": ["grep", "-nE", "[[:space:]]+$"],
}


def run_check(name, files):
    if not files:
        return name, 0, ""
    arguments = ["discover", "-s", "."] if name == "tests" else files
    done = subprocess.run([*CHECKS[name], *arguments], capture_output=True, text=True, timeout=60)
    failed = done.returncode == 0 if name == "style" else done.returncode != 0
    return name, failed, (done.stdout + done.stderr).strip()


def main():
    event = json.load(sys.stdin)
    if event.get("stop_hook_active"):
        print("already stopped once", file=sys.stderr)
        return 0
    files = sorted(str(path) for path in Path(".").glob("*.py"))
    with ThreadPoolExecutor(max_workers=3) as pool:
        futures = [pool.submit(run_check, name, files) for name in sys.argv[1:] or CHECKS]
        results = sorted(future.result() for future in as_completed(futures))
    failures = [(name, text) for name, failed, text in results if failed]
    if not failures:
        print("all checks passed:", ", ".join(name for name, *_ in results))
        return 0
    for name, text in failures:
        print(f"{name} failed:\n{text}", file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""PostToolUse: several checks at the same time, each with its own time-out; the first failure cancels the rest."""
import asyncio
import json
import os
import sys
from contextlib import suppress


class Failed(Exception):
    pass


async def check(name, *command, seconds=30.0):
    process = await asyncio.create_subprocess_exec(
        *command, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
    )
    try:
        output, _ = await asyncio.wait_for(process.communicate(), seconds)
    except asyncio.CancelledError:
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()
        print(f"{name}: cancelled", flush=True)
        raise
    if process.returncode:
        raise Failed(f"{name}: exit {process.returncode}: {output.decode().strip()}")
    return f"{name}: {output.decode().strip() or 'ok'}"


async def run_all(path):
    checks = [
        check("size", "wc", "-c", path),
        check("markers", "sh", "-c", f'! grep -n "<<<<<<<" "{path}"'),
        check("name", "test", "-n", os.path.basename(path)),
    ]
    if os.environ.get("SLOW"):
        checks.append(check("slow", "sleep", "30"))
    tasks = [asyncio.create_task(each) for each in checks]
    try:
        for line in await asyncio.gather(*tasks):
            print(line)
    except Failed as error:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        print(error, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    event = json.load(sys.stdin)
    sys.exit(asyncio.run(run_all(os.path.relpath(event["tool_input"]["file_path"]))))

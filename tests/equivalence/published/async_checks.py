#!/usr/bin/env python3
"""PostToolUse: several checks at the same time, each with its own timeout; a failure cancels the slow one."""

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
    slow = asyncio.create_task(check("slow", "sleep", os.environ.get("SLOW", "0")))
    results = await asyncio.gather(*checks, return_exceptions=True)
    print(*(result for result in results if isinstance(result, str)), sep="\n")
    problems = [result for result in results if isinstance(result, Exception)]
    if problems:
        slow.cancel()
        await asyncio.gather(slow, return_exceptions=True)
        print(*problems, sep="\n", file=sys.stderr)
        return 2
    print(await slow)
    return 0


if __name__ == "__main__":
    event = json.load(sys.stdin)
    sys.exit(asyncio.run(run_all(os.path.relpath(event["tool_input"]["file_path"]))))

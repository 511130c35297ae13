"""Views that need much work: the output of billhook's own commands, from a process of low priority.

They run beside the daemon, so that no verdict waits for them. Equal requests share one process, and its result is
kept for some seconds.
"""

import asyncio
import os
import shutil
import sys
import time
from contextlib import suppress
from typing import Any, Final

from billhook.core import strictjson
from billhook.core.errors import StrictJSONError, UsageError
from billhook.runners import process
from billhook.store.log.folders import MachineLogs

_KEPT: Final = 5.0
_TIMEOUT: Final = 60.0
_AT_ONCE: Final = 2
_MOST: Final = 32
_COMMANDS: Final = {name: ("billhook", name, "--json") for name in ("list", "check", "doctor", "explain")} | {
    "summary": ("billhook.config.history", "{project}")
}
_PROGRAM: Final = (sys.executable, "-P", "-X", "utf8", "-m")


class Commands:
    """The results of commands. Lives as long as the HTTP server."""

    def __init__(self, logs: MachineLogs) -> None:
        self._logs = logs
        self._results: dict[tuple[str, ...], tuple[float, asyncio.Task[list[Any]]]] = {}
        self._room = asyncio.Semaphore(_AT_ONCE)

    async def get(self, name: str, project: str, id_: str = "") -> list[Any]:
        """The values that a command prints. Raises UsageError."""
        if name not in _COMMANDS or (id_ and not (id_.isalnum() and id_.isascii())):
            raise UsageError("unknown command")
        if name != "summary":
            self._logs.folder(project)
        key, now = (name, project, id_), time.monotonic()
        made, task = self._results.get(key, (0.0, None))
        if task is None or (task.done() and now - made > _KEPT):
            while len(self._results) >= _MOST:
                del self._results[next(iter(self._results))]
            task = asyncio.ensure_future(self._run(name, project, id_))
            self._results[key] = now, task
        return await asyncio.shield(task)

    async def _run(self, name: str, project: str, id_: str) -> list[Any]:
        log, path = self._logs.find(project)
        nice = [program, "-n", "10"] if (program := shutil.which("nice")) else []
        argv = [*nice, *_PROGRAM, *(word.replace("{project}", path) for word in (*_COMMANDS[name], id_) if word)]
        kept = bytearray()
        async with self._room:
            env = {**os.environ, "BILLHOOK_HOME": str(log.root)}
            cwd = str(log.folder) if name == "summary" else path
            ended = await process.start(argv, stdin=b"", env=env, cwd=cwd, keep=kept).wait(_TIMEOUT)
        with suppress(StrictJSONError):
            lines = [line for line in bytes(kept).splitlines() if line.strip()]
            if lines or (ended is not None and ended.code in (0, 1)):
                return [strictjson.loads_leniently(line, max_depth=500) for line in lines]
        told = "" if ended is None else ended.stderr.decode("utf-8", "replace").strip().partition("\n")[0]
        why = "it took too long" if ended is not None and ended.timed_out else told or "no output"
        raise UsageError(f"`billhook {name}` failed: {why}", hint="run it in a terminal")

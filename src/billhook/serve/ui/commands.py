"""Views that need much work: the output of billhook's own commands, from a process of low priority.

They run beside the daemon, so that no verdict waits for them. Equal requests share one process, and its result is
kept for some seconds.
"""

import asyncio
import os
import shutil
import sys
import time
from typing import Any, Final

from billhook.core import strictjson
from billhook.core.errors import StrictJSONError, UsageError
from billhook.runners import process

_KEPT: Final = 5.0
_TIMEOUT: Final = 60.0
_AT_ONCE: Final = 2
_MOST: Final = 32
_MODULE: Final = {"summary": "billhook.config.log_summary"}
_VERBS: Final = {"list": "list", "check": "check", "doctor": "doctor", "explain": "explain"}
_PROGRAM: Final = (sys.executable, "-P", "-X", "utf8", "-m")


class Commands:
    """The results of commands. Lives as long as the HTTP server."""

    def __init__(self) -> None:
        self._results: dict[tuple[str, ...], tuple[float, asyncio.Task[list[Any]]]] = {}
        self._room = asyncio.Semaphore(_AT_ONCE)

    async def get(self, name: str, project: str, id_: str = "") -> list[Any]:
        """The values that a command prints. Raises UsageError."""
        if not os.path.isabs(project) or not os.path.isdir(project):  # noqa: ASYNC240 (one stat)
            raise UsageError("the folder of this project does not exist any more")
        if name not in _MODULE and name not in _VERBS:
            raise UsageError("unknown command")
        if id_ and not (id_.isalnum() and id_.isascii()):
            raise UsageError("invalid id")
        key = (name, project, id_)
        now = time.monotonic()
        made, task = self._results.get(key, (0.0, None))
        if task is None or (task.done() and now - made > _KEPT):
            while len(self._results) >= _MOST:
                del self._results[next(iter(self._results))]
            task = asyncio.ensure_future(self._run(name, project, id_))
            self._results[key] = now, task
        return await asyncio.shield(task)

    async def _run(self, name: str, project: str, id_: str) -> list[Any]:
        words = [_MODULE[name], project] if name in _MODULE else ["billhook", _VERBS[name], *([id_] if id_ else [])]
        words += ["--json"] if name in _VERBS else []
        nice = shutil.which("nice")
        argv = [*([nice, "-n", "10"] if nice else []), *_PROGRAM, *words]
        kept = bytearray()
        async with self._room:
            ended = await process.start(argv, stdin=b"", env=os.environ, cwd=project, keep=kept).wait(_TIMEOUT)
        try:
            lines = [line for line in bytes(kept).splitlines() if line.strip()]
            found = [strictjson.loads_leniently(line, max_depth=500) for line in lines]
        except StrictJSONError:
            found = []
        if not found and (ended is None or ended.code not in (0, 1)):
            why = "it took too long" if ended is not None and ended.timed_out else _first_line(ended)
            raise UsageError(f"`billhook {name}` failed: {why}", hint="run it in a terminal")
        return found


def _first_line(ended: Any) -> str:
    lines = ended.stderr.decode("utf-8", "replace").strip().splitlines() if ended is not None else []
    return lines[0] if lines else "no output"

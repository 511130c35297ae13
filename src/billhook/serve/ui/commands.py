"""Views that need much work: the output of billhook's own commands, from a process of low priority.

They run beside the daemon, so that no verdict waits for them.
"""

import os
import shutil
import sys
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Final

from billhook.core import strictjson
from billhook.core.errors import StrictJSONError, UsageError
from billhook.runners import process
from billhook.store.log.folders import MachineLogs

_TIMEOUT: Final = 60.0
_COMMANDS: Final = {name: ("billhook", name, "--json") for name in ("list", "check", "doctor", "explain")} | {
    "summary": ("billhook.config.log_summary", "{project}")
}
_PROGRAM: Final = (sys.executable, "-P", "-X", "utf8", "-m")


async def output(logs: MachineLogs, query: Mapping[str, str]) -> list[Any]:
    """The values that a command prints. Raises UsageError."""
    name, project, id_ = (query.get(field, "") for field in ("name", "project", "id"))
    if name not in _COMMANDS or (id_ and not (id_.isalnum() and id_.isascii())):
        raise UsageError("unknown command")
    log, path = logs.find(project)
    nice = [program, "-n", "10"] if (program := shutil.which("nice")) else []
    argv = [*nice, *_PROGRAM, *(word.replace("{project}", path) for word in (*_COMMANDS[name], id_) if word)]
    kept, env = bytearray(), {**os.environ, "BILLHOOK_HOME": str(log.root)}
    cwd = str(log.folder) if name == "summary" else logs.folder(project)
    ended = await process.start(argv, stdin=b"", env=env, cwd=cwd, keep=kept).wait(_TIMEOUT)
    with suppress(StrictJSONError):
        lines = [line for line in bytes(kept).splitlines() if line.strip()]
        if lines or (ended is not None and ended.code in (0, 1)):
            return [strictjson.loads_leniently(line, max_depth=500) for line in lines]
    told = "" if ended is None else ended.stderr.decode("utf-8", "replace").strip().partition("\n")[0]
    why = "it took too long" if ended is not None and ended.timed_out else told or "no output"
    raise UsageError(f"`billhook {name}` failed: {why}", hint="run it in a terminal")

"""Wait for a warm interpreter."""

import os
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress

from billhook.runners.interpreters import PENDING
from billhook.runners.python_command import recognise
from billhook.runners.spawn import Folder
from billhook.runners.warm import PARENTS, START, NotWarmError, _key


def wait_until_ready(argv: Sequence[str], env: Mapping[str, str], cwd: Folder = None, seconds: float = START) -> str:
    """Start the parent for a command, and wait until it has a spare: "", or why the command would start plain."""
    folder, end = os.fsdecode(cwd or ""), time.monotonic() + seconds
    why = "its parent does not start"
    while time.monotonic() < end:
        call = recognise(argv, env, folder)
        if not isinstance(call, str):
            with PARENTS.lock, suppress(NotWarmError):
                parent = PARENTS.get(call, folder)
                if parent is not None and parent.has_spare():
                    return ""
            if problem := getattr(PARENTS._by_key.get(_key(call, folder)), "problem", ""):
                return str(problem)
        elif call != PENDING:
            return call
        time.sleep(0.005)
    return why

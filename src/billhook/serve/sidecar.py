"""A process beside the daemon: it starts with the daemon, is started again if it ends, and reports as lines of JSON."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import IO, Any, Final

from billhook.runners import process_tree
from billhook.runners.process_tree import Tree

_PAUSE: Final = 10.0  # seconds after which a process that ended is started again


class Sidecar:
    """One such process. It ends when its stdin is closed."""

    def __init__(self, module: str, arguments: Sequence[str] = (), env: Mapping[str, str] | None = None) -> None:
        self._argv = [sys.executable, "-P", "-m", module, *arguments]
        self._env = dict(os.environ if env is None else env)
        self.said: dict[str, Any] = {}  # its newest report
        self.stdin: IO[bytes] | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._tree: Tree | None = None
        self._unread = b""
        self._next = 0.0

    def tick(self, now: float) -> bool:
        """Start it, also if it ended, and read its report: whether it was started now."""
        if self._process is not None and self._process.poll() is not None:
            self.close()
            self._next = now + _PAUSE
        start = self._process is None and now >= self._next
        if start:
            self._start()
        self._read()
        return start

    def close(self) -> None:
        """Close its stdin: it does what is left to do, within seconds, and ends."""
        process, self._process, self.stdin = self._process, None, None
        if process is None:
            return
        for pipe in (process.stdin, process.stdout):
            assert pipe is not None
            pipe.close()
        process.returncode = process.poll() or 0  # it may still be working
        if self._tree is not None:
            self._tree.close()

    def _start(self) -> None:
        pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
        with process_tree.starting():
            self._process = subprocess.Popen(self._argv, env=self._env, start_new_session=True, bufsize=0, **pipes)
            self._tree = Tree(self._process.pid, "")
        self._tree.resting = True
        self._unread = b""
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            os.set_blocking(pipe.fileno(), False)
        self.stdin = self._process.stdin

    def _read(self) -> None:
        if self._process is None or self._process.stdout is None:
            return
        with suppress(OSError, ValueError):
            *lines, self._unread = (self._unread + (self._process.stdout.read(1 << 16) or b"")).split(b"\n")
            if lines:
                self.said = json.loads(lines[-1])

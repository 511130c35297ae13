"""`process` for Windows, where a loop can't watch pipes and there are no process groups: threads and `taskkill`.

Not tested on Windows so far. Differences: processes that an ended command left behind are not found (that needs job
objects), and at the deadline the tree is ended at once, without a grace period, because a parent that ends first hides
its children.
"""

import asyncio
import errno
import os
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import IO

from billhook.core.answers import Exit
from billhook.runners.process import LINGER, STDERR_CAP, STDOUT_CAP, Child

_OWN_GROUP: int = getattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 0)
_CHUNK = 1 << 16


def start(
    argv: Sequence[str], *, stdin: bytes, env: Mapping[str, str], cwd: str | bytes | os.PathLike[str] | None = None
) -> Child:
    pipe = subprocess.PIPE
    folder = None if cwd is None else os.fsdecode(cwd)
    try:
        popen = subprocess.Popen(
            command_line(argv), stdin=pipe, stdout=pipe, stderr=pipe, env=env, cwd=folder, creationflags=_OWN_GROUP
        )
    except (OSError, ValueError) as error:
        number = error.errno if isinstance(error, OSError) else errno.EINVAL
        return Child.failed(f"{errno.errorcode.get(number or 0, 'EIO')}: {error}")
    return ThreadedChild(popen, stdin)


def command_line(argv: Sequence[str]) -> str | Sequence[str]:
    """The command line for `cmd /C`, which has its own rules for quotes: the command unchanged between two of them."""
    if len(argv) == 3 and tuple(argv[:2]) == ("cmd", "/C"):
        return f'cmd /d /s /c "{argv[2]}"'
    return argv


def kill_tree(pid: int) -> None:
    subprocess.run(["taskkill", "/T", "/F", "/PID", str(pid)], capture_output=True, check=False, timeout=5)


class ThreadedChild(Child):
    """One running command, with a thread for each pipe and one for its end; lives until `wait` returned its Exit."""

    def __init__(self, popen: subprocess.Popen[bytes], payload: bytes) -> None:
        assert popen.stdin and popen.stdout and popen.stderr
        self._ended: Exit | None = None
        self._popen = popen
        self._stdout, self._stderr = bytearray(), bytearray()
        self._truncated = False
        self._reading = 2
        self._exited = False
        self._lock = threading.Lock()
        self._wake: Callable[[], None] = lambda: None
        for target, arguments in (
            (self._send, (popen.stdin, payload)),
            (self._keep, (popen.stdout, self._stdout, STDOUT_CAP)),
            (self._keep, (popen.stderr, self._stderr, STDERR_CAP)),
            (self._await_exit, ()),
        ):
            threading.Thread(target=target, args=arguments, name="billhook-pipe", daemon=True).start()

    async def wait(self, seconds: float, *, until: Callable[[bytes], bool] | None = None) -> Exit | None:
        if self._ended is not None:
            return self._ended
        try:
            in_time = await self._until(self._enough(self._stdout, until), seconds)
            if in_time and not self._exited:
                return None
            if not in_time:
                await asyncio.to_thread(kill_tree, self._popen.pid)
            await self._until(lambda: self._exited and not self._reading, LINGER)
        except BaseException:
            kill_tree(self._popen.pid)
            raise
        code = self._popen.returncode
        self._ended = Exit(
            code=code if in_time and code >= 0 else None,
            signal=-code if in_time and code < 0 else None,
            stdout=bytes(self._stdout),
            stderr=bytes(self._stderr),
            truncated=self._truncated,
            timed_out=not in_time,
        )
        return self._ended

    async def _until(self, enough: Callable[[], bool], seconds: float) -> bool:
        loop, changed, end = asyncio.get_running_loop(), asyncio.Event(), time.monotonic() + seconds
        self._wake = lambda: _set_event(loop, changed)
        while not enough():
            changed.clear()
            try:
                await asyncio.wait_for(changed.wait(), end - time.monotonic())
            except TimeoutError:
                return enough()
        return True

    def _send(self, pipe: IO[bytes], payload: bytes) -> None:
        with suppress(OSError), pipe:  # it may not read it
            pipe.write(payload)

    def _keep(self, pipe: IO[bytes], kept: bytearray, room: int) -> None:
        with pipe:
            while chunk := os.read(pipe.fileno(), _CHUNK):
                self._truncated |= len(kept) + len(chunk) > room
                kept += chunk[: room - len(kept)]
                self._wake()
        with self._lock:
            self._reading -= 1
        self._wake()

    def _await_exit(self) -> None:
        self._popen.wait()
        self._exited = True
        self._wake()


def _set_event(loop: asyncio.AbstractEventLoop, changed: asyncio.Event) -> None:
    with suppress(RuntimeError):  # that loop is closed; a later wait checks itself
        loop.call_soon_threadsafe(changed.set)

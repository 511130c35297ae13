"""Runs `billhook` as users do, and reads its screen."""

import json
import os
import pty
import re
import subprocess
import sys
import termios
import time
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from cli import fork_server

PROGRAM = str(Path(sys.executable).with_name("billhook"))


class Ended(NamedTuple):
    """How a run of billhook ended."""

    code: int
    out: str
    err: str

    @property
    def verdict(self) -> dict[str, Any]:
        """The verdict of --json: exactly one line."""
        assert self.out.endswith("\n") and self.out.count("\n") == 1, self
        found: dict[str, Any] = json.loads(self.out)
        return found

    @property
    def screen(self) -> str:
        """The screen, with fixed times and ids: output, then errors, then the exit code."""
        text = self.out + (f"-- stderr\n{self.err}" if self.err else "")
        return steady(f"{text}-- exit {self.code}\n")


def steady(text: str) -> str:
    """The text without values that differ between runs."""
    text = re.sub(r" +\d+\.\d ms", lambda time: "N.N ms".rjust(len(time[0])), text)
    text = re.sub(r'"duration_ms":[\d.]+', '"duration_ms":0', text)
    return re.sub(r'"id":"[0-9a-f]{32}"', '"id":"<id>"', text)


def environment(**changes: str | None) -> dict[str, str]:
    """This environment with changes; None removes a variable. The screen is 80 columns wide."""
    changes = {"COLUMNS": "80", "NO_COLOR": None, **changes}
    env = {**os.environ, **{key: value for key, value in changes.items() if value is not None}}
    return {key: value for key, value in env.items() if changes.get(key, "") is not None}


def billhook(
    *arguments: str | bytes,
    stdin: bytes = b"",
    env: dict[str, str] | None = None,
    cwd: str | bytes | Path | None = None,
    seconds: float = 120,
) -> Ended:
    env = env if env is not None else environment()
    command = [PROGRAM, *map(os.fsdecode, arguments)]
    if fork_server.forked(command, env, cwd):
        code, (out, err) = fork_server.run(command, stdin, env, os.fsdecode(cwd or os.getcwd()), seconds)
    else:
        done = subprocess.run(command, input=stdin, env=env, cwd=cwd, capture_output=True, timeout=seconds, check=False)
        code, out, err = done.returncode, done.stdout, done.stderr
    return Ended(code, out.decode(), err.decode("utf-8", "replace"))


def on_terminal(*arguments: str, cwd: Path | None = None, window: int = 0, **changes: str | None) -> Ended:
    """Run billhook on a pseudo-terminal; `window`: its columns, as a terminal emulator sets them."""
    env = environment(**{"TERM": "xterm-256color", **changes, **({"COLUMNS": None} if window else {})})
    ours, theirs = pty.openpty()
    if window:
        termios.tcsetwinsize(theirs, (24, window))
    process = subprocess.Popen([PROGRAM, *arguments], stdin=theirs, stdout=theirs, stderr=theirs, env=env, cwd=cwd)
    os.close(theirs)
    seen = b""
    with suppress(OSError):  # EIO: the other end is closed
        while chunk := os.read(ours, 65536):
            seen += chunk
    os.close(ours)
    return Ended(process.wait(60), seen.decode().replace("\r\n", "\n"), "")


def living(tag: str) -> list[int]:
    """The processes with a tag in their command line; zombies have none."""
    found = []
    for name in os.listdir("/proc"):
        if name.isdigit():
            with suppress(OSError):
                if tag.encode() in Path(f"/proc/{name}/cmdline").read_bytes():
                    found.append(int(name))
    return found


def gone(tag: str, seconds: float) -> bool:
    """Whether all processes with that tag end within this time."""
    end = time.monotonic() + seconds
    while living(tag) and time.monotonic() < end:
        time.sleep(0.02)
    return not living(tag)

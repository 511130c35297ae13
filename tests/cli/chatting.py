"""Runs `billhook agent` on a pseudo-terminal, types lines, and presses Ctrl-C."""

import json
import os
import pty
import re
import select
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

from cli.place import Place
from cli.terminal import PROGRAM

_ON_ITS_TERMINAL = (
    "import fcntl, os, sys, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0); os.execv(sys.argv[1], sys.argv[1:])"
)
_ESCAPES = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
CTRL_C, CTRL_D = "\x03", "\x04"


class Chatting:
    """One run on a pseudo-terminal. Lives as long as its `with` block; remaining processes are killed at its end."""

    def __init__(self, place: Place, *arguments: str, **changes: str | None) -> None:
        self._ours, theirs = pty.openpty()
        self.process = subprocess.Popen(
            [sys.executable, "-c", _ON_ITS_TERMINAL, PROGRAM, "agent", *arguments],
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            env=place.env(**{"TERM": "xterm", "COLUMNS": "200", **changes}),
            cwd=place.project,
            start_new_session=True,
        )
        os.close(theirs)
        self.seen = ""
        self._looked = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: Any) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(10)
        self.hang_up()

    def hang_up(self) -> None:
        """Close the terminal."""
        if self._ours >= 0:
            os.close(self._ours)
        self._ours = -1

    def until(self, text: str, seconds: float = 20) -> str:
        """Wait until the text is on the screen, after the last one that was awaited; returns the output up to it."""
        end = time.monotonic() + seconds
        while (at := self.seen.find(text, self._looked)) < 0:
            assert time.monotonic() < end, f"no `{text}` in {self.seen[self._looked :]!r}"
            if not self._read(0.1) and self.process.poll() is not None and not self._read(0.1):
                raise AssertionError(f"ended without `{text}`: {self.seen!r}")
        began, self._looked = self._looked, at + len(text)
        return self.seen[began : self._looked]

    def type(self, text: str) -> None:
        os.write(self._ours, text.encode())

    def say(self, line: str) -> None:
        """Wait for the prompt, and type a line."""
        self.until("> ")
        self.type(line + "\n")

    def end(self, seconds: float = 20) -> int:
        """Wait for its end; the exit code."""
        deadline = time.monotonic() + seconds
        while self.process.poll() is None:
            assert time.monotonic() < deadline, f"it does not end: {self.seen!r}"
            self._read(0.05)
        while self._read(0.05):
            pass
        return self.process.returncode

    def _read(self, seconds: float) -> bool:
        with suppress(OSError):  # EIO: the other end is closed
            if select.select([self._ours], [], [], seconds)[0] and (chunk := os.read(self._ours, 65536)):
                self.seen += _ESCAPES.sub("", chunk.decode("utf-8", "replace")).replace("\r\n", "\n")
                return True
        return False


def events(place: Place) -> list[dict[str, Any]]:
    """The project's log, with all sessions."""
    logs = (place.home / ".claude" / "hooks").glob("*/hooks.jsonl")
    return [json.loads(line) for log in logs for line in log.read_text().splitlines()]


def names(place: Place) -> list[str]:
    """The names of the fired events."""
    return [record["event"] for record in events(place)]


def transcripts(place: Place) -> list[Path]:
    """The transcripts of main agents, the oldest first."""
    found = (place.home / ".claude" / "billhook" / "transcripts").glob("*/*.jsonl")
    return sorted(found, key=lambda path: path.stat().st_mtime_ns)


def conversation(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]

"""A temporary home and project for each test, in which billhook runs as for a user."""

import os
import pty
import subprocess
import tempfile
import termios
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from billhook.agents.around import MARKS
from cli.terminal import PROGRAM, Ended, billhook, environment


class Place:
    """A folder with `home` and `project`. Lives as long as its test."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.home = folder / "home"
        self.project = folder / "project"
        (self.home / ".config" / "billhook").mkdir(parents=True)
        self.project.mkdir()

    def env(self, **changes: str | None) -> dict[str, str]:
        """The environment of a user with this home, independent of the suite's environment."""
        nobody: dict[str, str | None] = dict.fromkeys(
            (*MARKS, "XDG_CONFIG_HOME", "BILLHOOK_HOME", "CLAUDE_PROJECT_DIR", "BILLHOOK_DEBUG")
        )
        return environment(**{**nobody, "HOME": str(self.home), **changes})

    def file(self, name: str, text: str, mode: int = 0o644) -> Path:
        """A file of the project."""
        path = self.project / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(mode)
        return path

    def own(self, text: str) -> Path:
        """The user's hooks.yaml."""
        path = self.home / ".config" / "billhook" / "hooks.yaml"
        path.write_text(text)
        return path

    def run(
        self,
        *arguments: str,
        stdin: bytes = b"",
        cwd: Path | None = None,
        told: Mapping[str, str | None] | None = None,
        **changes: str | None,
    ) -> Ended:
        """Run billhook in the project; `told` and `changes` are variables."""
        env = self.env(**{**(told or {}), **changes})
        return billhook(*arguments, stdin=stdin, env=env, cwd=cwd or self.project)

    def alone(self, *arguments: str, **changes: str | None) -> Ended:
        """Run billhook, with a fixed name for the temporary folder in its output."""
        code, out, err = self.run(*arguments, told=changes)
        return Ended(code, self.plain(out), self.plain(err))

    def typing(
        self,
        *arguments: str,
        answers: Sequence[tuple[str, str | Callable[[], str]]],
        early: str = "",
        **changes: str | None,
    ) -> Ended:
        """Run billhook on a terminal as a child of init, and type each answer once its question is on the screen."""
        ours, theirs = pty.openpty()
        settings = termios.tcgetattr(theirs)
        settings[3] &= ~termios.ECHO
        termios.tcsetattr(theirs, termios.TCSANOW, settings)
        os.write(ours, early.encode())
        with tempfile.TemporaryDirectory() as folder:
            code = Path(folder, "code")
            subprocess.Popen(
                [*_orphan(code), *arguments],
                stdin=theirs,
                stdout=theirs,
                stderr=theirs,
                env=self.env(TERM="dumb", **changes),
                cwd=self.project,
            ).wait(60)
            os.close(theirs)
            seen, left = "", list(answers)
            looked = 0
            with suppress(OSError):  # EIO: the other end is closed
                while chunk := os.read(ours, 65536):
                    seen += chunk.decode().replace("\r\n", "\n")
                    while left and (at := seen.find(left[0][0], looked)) >= 0:
                        looked = at + len(left[0][0])
                        time.sleep(0.1)  # input from before the question is discarded
                        answer = left.pop(0)[1]
                        os.write(ours, (answer if isinstance(answer, str) else answer()).encode())
            os.close(ours)
            return Ended(_code(code), self.plain(seen), "")

    def plain(self, text: str) -> str:
        """The text with a fixed name for the temporary folder."""
        return text.replace(os.path.realpath(self.folder), "<here>")


def _orphan(code: Path) -> list[str]:
    """Starts a detached command; its exit code is written to a file."""
    script = 'exec 3<&0; (sleep 0.1; "$@" <&3 3<&-; echo $? >"$0") &'
    return ["/bin/sh", "-c", script, str(code), PROGRAM]


def _code(path: Path) -> int:
    end = time.monotonic() + 60
    while time.monotonic() < end:
        with suppress(OSError, ValueError):
            return int(path.read_text())
        time.sleep(0.01)
    raise AssertionError("it did not end")

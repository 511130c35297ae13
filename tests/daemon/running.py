"""A home and a project of their own with a real daemon, and a caller that speaks to it as `billhook-hook` does."""

import json
import os
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import billhook
from billhook.config import load_config
from billhook.config.trust import approve_entry
from billhook.serve import control, protocol
from billhook.serve.protocol import DaemonStatus

PROGRAM = (sys.executable, "-m", "billhook")


class Reply(NamedTuple):
    """The response to a caller; `why` is the reason of a daemon that did not begin. No code and no reason: the
    connection was closed."""

    began: bool
    code: int | None = None
    stdout: bytes = b""
    stderr: bytes = b""
    why: str = ""

    @property
    def denied(self) -> bool:
        return b'"permissionDecision":"deny"' in self.stdout


class Home:
    """A folder with a home, a state root and a project. Lives as long as its test; so do its daemons."""

    def __init__(self, base: Path) -> None:
        self.home, self.project, self.root = base / "home", base / "project", base / "root"
        (self.home / ".config" / "billhook").mkdir(parents=True)
        self.project.mkdir()
        self.children: list[subprocess.Popen[Any]] = []

    @property
    def folder(self) -> Path:
        return control.folder_of(self.root)

    def env(self, **changes: str | None) -> dict[str, str]:
        kept = {name: os.environ[name] for name in ("PATH", "LANG", "TMPDIR", "PYTHONPATH") if name in os.environ}
        changed = {**kept, "HOME": str(self.home), "BILLHOOK_HOME": str(self.root), "COLUMNS": "80", **changes}
        return {name: value for name, value in changed.items() if value is not None}

    # -- what is configured

    def own(self, text: str) -> Path:
        """The user's own hooks.yaml, which is trusted."""
        return written(self.home / ".config" / "billhook" / "hooks.yaml", text)

    def file(self, name: str, text: str, mode: int = 0o644) -> Path:
        path = written(self.project / name, text)
        path.chmod(mode)
        return path

    def approve(self) -> None:
        """Approve what waits in the project's files."""
        config = load_config(self.project, layers=("project", "local"), home=self.root, builtins=False)
        for entry in config.pending:
            approve_entry(entry, config.root)

    # -- the daemon

    def start(self, *options: str, program: tuple[str, ...] = PROGRAM, **how: Any) -> "subprocess.Popen[bytes]":
        """A daemon in the foreground, as a child of ours; comes back when it serves."""
        how = {"env": self.env(), "cwd": "/", "stdin": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, **how}
        child = subprocess.Popen([*program, "daemon", "run", *options], stdout=subprocess.DEVNULL, **how)
        self.children.append(child)
        eventually(lambda: child.poll() is not None or self.status(child.pid) is not None, 30)
        assert child.poll() is None, f"the daemon ended with {child.returncode}"
        return child

    def status(self, pid: int = 0) -> DaemonStatus | None:
        """How the daemon is, of that process if one is given."""
        found = control.query_status(self.root)
        return found if found is not None and (not pid or found.pid == pid) else None

    def billhook(self, *arguments: str, seconds: float = 60, **how: Any) -> "subprocess.CompletedProcess[str]":
        """A verb, as a person runs it."""
        how = {"env": self.env(), "cwd": self.project, **how}
        return subprocess.run(
            [*PROGRAM, *arguments],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=seconds,
            check=False,
            **how,
        )

    def close(self) -> None:
        pid = control.holder(self.folder)
        for number in filter(None, [pid, *(child.pid for child in self.children if child.poll() is None)]):
            try:
                os.kill(number, signal.SIGKILL)
            except ProcessLookupError:
                continue
        for child in self.children:
            child.wait()

    # -- callers

    def event(self, name: str = "PreToolUse", **fields: Any) -> dict[str, Any]:
        about = {"session_id": "s1", "transcript_path": "/t", "cwd": str(self.project), "hook_event_name": name}
        tool = {"tool_name": "Bash", "tool_input": {"command": "ls"}, "tool_use_id": "t1"} if "Tool" in name else {}
        return {**about, **tool, **fields}

    def call(self, event: dict[str, Any] | bytes | None = None, *argv: str, **how: Any) -> "Call":
        """Ask, without waiting for the answer."""
        return Call(self, self.event() if event is None else event, argv, **how)

    def ask(self, event: dict[str, Any] | bytes | None = None, *argv: str, **how: Any) -> Reply:
        """Ask, and wait for the answer."""
        with self.call(event, *argv, **how) as call:
            return call.reply()

    def records(self) -> list[dict[str, Any]]:
        """The event log, in its order."""
        files = sorted((self.root / "hooks").glob("*/hooks*.jsonl"))
        return [json.loads(line) for file in files for line in file.read_text().splitlines()]

    def log(self) -> str:
        """The daemon's own log."""
        return (self.folder / control.LOG).read_text()


class Call:
    """One caller."""

    def __init__(
        self,
        home: Home,
        event: dict[str, Any] | bytes,
        argv: tuple[str, ...],
        *,
        env: dict[str, str] | None = None,
        cwd: str | Path | None = None,
        version: str = billhook.__version__,
    ) -> None:
        stdin = event if isinstance(event, bytes) else json.dumps(event).encode()
        self.line = control.connect(home.folder, 60)
        variables = home.env() if env is None else env
        folder = str(home.project if cwd is None else cwd)
        try:
            self.line.sendall(protocol.request(version, ["--as", "claude", *argv], folder, variables, stdin))
        except OSError:
            self.line.close()
            raise

    def __enter__(self) -> "Call":
        return self

    def __exit__(self, *error: object) -> None:
        self.line.close()

    def began(self) -> None:
        """Wait until the daemon has begun."""
        assert self.line.recv(len(protocol.STARTED), socket.MSG_PEEK) == protocol.STARTED

    @property
    def has_answer(self) -> bool:
        """Whether the answer has begun to arrive."""
        arrived, _, _ = select.select([self.line], [], [], 0)
        return bool(arrived) and len(self.line.recv(64, socket.MSG_PEEK)) > len(protocol.STARTED)

    def reply(self) -> Reply:
        """The answer; the caller is gone afterwards."""
        with self.line:
            return read_reply(self.all())

    def all(self) -> bytes:
        parts = []
        try:
            while part := self.line.recv(1 << 20):
                parts.append(part)
        except ConnectionError:
            pass
        return b"".join(parts)


def read_reply(data: bytes) -> Reply:
    began = data.startswith(protocol.STARTED)
    frame = data.removeprefix(protocol.STARTED)
    if frame[:1] == b"N":
        return Reply(began, why=frame[5:].decode())
    if frame[:1] != b"A":
        return Reply(began)
    out = int.from_bytes(frame[6:10], "big")
    return Reply(began, frame[5], frame[10 : 10 + out], frame[14 + out :])


@contextmanager
def home_in(base: Path) -> Iterator[Home]:
    home = Home(base)
    try:
        yield home
    finally:
        home.close()


def written(path: Path, text: str) -> Path:
    """The file, with times of long ago: what was written just now is read again at every event anyway."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def eventually(what: Callable[[], Any], seconds: float = 20, *, pause: float = 0.02) -> Any:
    """Wait until it is true; what it returned."""
    end = time.monotonic() + seconds
    while not (found := what()):
        assert time.monotonic() < end, "this did not happen in time"
        time.sleep(pause)
    return found


def is_alive(pid: int) -> bool:
    """Whether it runs, zombies apart."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] not in ("Z", "X")
    except (FileNotFoundError, ProcessLookupError):
        return False


def children_of(pid: int) -> list[int]:
    """Its children, zombies included."""
    found = []
    for task in Path(f"/proc/{pid}/task").iterdir():
        found += [int(word) for word in (task / "children").read_text().split()]
    return found


def numbers_in(path: Path, many: int = 1) -> list[int]:
    """The process numbers that hooks wrote into a file, one in a line, as soon as there are so many."""
    return [int(word) for word in eventually(lambda: path.exists() and _enough(path, many))]


def _enough(path: Path, many: int) -> list[str]:
    words = path.read_text().split()
    return words if len(words) >= many else []

"""Runs of `billhook` as forks of a process that has imported the command line.

Python and billhook's imports need ten times as long as most verbs do. A fork is a process like any other: its own
environment, folder and streams, and an exit code. What happens at start-up is tested with real starts.
"""

import atexit
import json
import os
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from functools import cache
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from tempfile import TemporaryFile
from threading import Lock
from typing import NoReturn

ROOMS = ["agent", "approvals", "builtins", "cli", "cli.agent", "cli.doctor", "cli.events", "cli.install", "config"]
ROOMS += ["config.lint", "effects", "effects.families", "engine", "session", "store", "testing"]
_READ_AT_START = ("PYTHON", "LC_", "LANG")
_lock = Lock()


def forked(arguments: Sequence[str], env: dict[str, str], cwd: str | bytes | Path | None) -> bool:
    """Whether a fork does the same as a new process. A start-up of `hook` is different from that of other verbs."""
    same = all(env.get(name) == os.environ.get(name) for name in {*env, *os.environ} if name.startswith(_READ_AT_START))
    return same and arguments[1:2] != ["hook"] and (cwd is None or os.path.isdir(cwd))


def run(
    arguments: Sequence[str], stdin: bytes, env: dict[str, str], cwd: str, seconds: float
) -> tuple[int, list[bytes]]:
    """The exit code of one run, negative for a signal, and what it wrote to stdout and stderr."""
    asked = json.dumps([arguments, env, cwd]).encode()
    ours, theirs = socket.socketpair()
    (out, their_out), (err, their_err) = os.pipe(), os.pipe()
    with TemporaryFile() as given, ours:
        given.write(stdin)
        given.seek(0)
        with theirs, _lock:
            sending = [given.fileno(), their_out, their_err, theirs.fileno()]
            socket.send_fds(_server(), [len(asked).to_bytes(4, "big")], sending)
            _server().sendall(asked)
        os.close(their_out)
        os.close(their_err)
        written = _read([out, err], seconds)
        return int(ours.recv(16)), written


def _read(pipes: Sequence[int], seconds: float) -> list[bytes]:
    """What comes out of pipes until all of them are closed."""
    found, left = dict.fromkeys(pipes, b""), [*pipes]
    while left:
        ready = select.select(left, [], [], seconds)[0]
        assert ready, f"the run takes longer than {seconds} s"
        for fd in ready:
            chunk = os.read(fd, 65536)
            found[fd] += chunk
            if not chunk:
                left.remove(fd)
                os.close(fd)
    return [*found.values()]


@cache
def _server() -> socket.socket:
    """The server of this process, a child of init: an agent may run this suite. It ends when this process does."""
    ours, theirs = socket.socketpair()
    atexit.register(ours.close)
    with theirs:
        subprocess.run([sys.executable, __file__, str(theirs.fileno())], pass_fds=[theirs.fileno()], check=True)
    return ours


def _serve(server: socket.socket) -> None:
    import_rooms()
    signal.signal(signal.SIGCHLD, _reap)
    while fds := (received := socket.recv_fds(server, 4, 4))[1]:
        asked = json.loads(server.recv(int.from_bytes(received[0], "big"), socket.MSG_WAITALL))
        if not os.fork():
            server.close()
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            _answer(fds.pop(), fds, *asked)
        for fd in fds:
            os.close(fd)


def _reap(*_signal: object) -> None:
    with suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def import_rooms() -> None:
    """Import what the verbs need."""
    for room in ROOMS:
        for module in iter_modules(import_module(f"billhook.{room}").__path__):
            import_module(f"billhook.{room}.{module.name}")


def _answer(answer: int, streams: list[int], arguments: list[str], env: dict[str, str], cwd: str) -> NoReturn:
    """Fork the run, and send its exit code when it has ended."""
    pid = os.fork()
    if not pid:
        os.close(answer)
        _become(streams, arguments, env, cwd)
    os.write(answer, b"%d" % os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
    os._exit(0)


def _become(streams: list[int], arguments: list[str], env: dict[str, str], cwd: str) -> NoReturn:
    for number, fd in enumerate(streams):
        os.dup2(fd, number)
        os.close(fd)
    os.chdir(cwd)
    os.environ.clear()
    os.environ.update(env)
    time.tzset()
    sys.argv = arguments
    sys.orig_argv = [sys.executable, *sys.argv]
    from billhook.cli.main import _end, main

    try:
        main()
    except SystemExit as ended:
        _end(int(ended.code or 0))  # the interpreter's cleanup takes ten times as long as the run
    raise AssertionError("main ends the process")


if __name__ == "__main__":
    sys.path[0] = str(Path(sys.executable).parent)
    if not os.fork():
        _serve(socket.socket(fileno=int(sys.argv[1])))

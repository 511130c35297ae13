"""Print the modules that one `PreToolUse` passes through in the daemon, with the number of calls in each.

    .venv/bin/python benchmarks/trace_modules.py            modules, most calls first
    .venv/bin/python benchmarks/trace_modules.py --calls    the functions, too
    .venv/bin/python benchmarks/trace_modules.py --loop N   no trace, N events: for `perf stat` and callgrind

The daemon runs in this process, with the hooks that `billhook init` writes. Files and folders are older than a second,
and earlier events have filled all caches: this is what an agent's usual tool call costs.
"""

import argparse
import asyncio
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import msgspec

import billhook
from billhook.serve import control, protocol
from billhook.serve.control import DaemonOptions
from billhook.serve.daemon import IDLE, Daemon
from billhook.serve.socket import Connection, Socket

_SOURCE = str(Path(billhook.__file__).parent)
_SESSION = "0b8e2f0e-5a0f-4b0f-9a53-0a2d7f6e1b11"
_SETTLED = 1.2  # seconds after which files count as unchanged
Calls = Counter[tuple[str, str]]


class Caller:
    """An agent in a project with the hooks of `billhook init`, and the daemon that it calls."""

    def __init__(self, base: Path) -> None:
        self.folder = base / "project"
        (self.folder / ".git").mkdir(parents=True)
        self.env = {**os.environ, "HOME": str(base), "BILLHOOK_HOME": str(base / "state"), "BILLHOOK_NO_DAEMON": "1"}
        billhook_init = [sys.executable, "-m", "billhook", "init"]
        subprocess.run(billhook_init, cwd=self.folder, env=self.env, check=True, capture_output=True)
        self.server = Daemon(control.ensure_folder(base / "state"), DaemonOptions(IDLE)).server
        self.server.loop = asyncio.get_running_loop()
        self.waiting: list[socket.socket] = []

    def request(self, name: str, **fields: object) -> bytes:
        about = {"session_id": _SESSION, "cwd": str(self.folder), "hook_event_name": name, "permission_mode": "default"}
        stdin = msgspec.json.encode({**about, "transcript_path": "/home/u/t.jsonl", **fields})
        return protocol.request(billhook.__version__, ["--as", "claude"], str(self.folder), self.env, stdin)

    def ask(self, request: bytes) -> Connection:
        """Send a request to the daemon over a socket. It answers at once if no hook waits for anything."""
        ours, theirs = socket.socketpair()
        ours.sendall(request)
        connection = Connection(self.server, Socket(fileno=theirs.detach()))
        connection.begin()
        if not connection.is_closed:
            self.waiting.append(ours)
        return connection


@contextmanager
def traced(calls: Calls) -> Iterator[None]:
    """Count the calls of billhook's functions, by module and function."""

    def note(frame: FrameType, what: str, _: Any) -> None:
        code = frame.f_code
        if what == "call" and code.co_filename.startswith(_SOURCE):
            calls[code.co_filename[len(_SOURCE) + 1 : -3].replace("/", "."), code.co_qualname] += 1

    sys.setprofile(note)
    try:
        yield
    finally:
        sys.setprofile(None)


async def settled(caller: Caller) -> bytes:
    """The request of a tool call, after all one-time work."""
    started = caller.request("SessionStart", source="startup")
    fields = {"command": "ls -la", "description": "x" * 700}
    called = caller.request("PreToolUse", tool_name="Bash", tool_input=fields, tool_use_id="toolu_01ABC")
    for request in (started, called):
        caller.ask(request)
        await asyncio.sleep(_SETTLED)
    for _ in range(3):
        caller.ask(called)
    return called


async def main() -> None:
    parser = argparse.ArgumentParser(prog="trace_modules.py", description="Trace one PreToolUse through the daemon.")
    parser.add_argument("--calls", action="store_true", help="print the functions as well")
    parser.add_argument("--loop", type=int, metavar="N", help="handle N events without a trace")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="billhook-trace-") as name:
        caller = Caller(Path(name))
        request = await settled(caller)
        if options.loop:
            began = time.perf_counter()
            for _ in range(options.loop):
                caller.ask(request)
            print(f"{(time.perf_counter() - began) / options.loop * 1e6:.1f} us an event")
            return
        calls: Calls = Counter()
        with traced(calls):
            answered = caller.ask(request).is_closed
        assert answered, "this event was not answered at once"
        report(calls, functions=options.calls)


def report(calls: Calls, *, functions: bool) -> None:
    modules: Counter[str] = Counter()
    for (module, _), times in calls.items():
        modules[module] += times
    for module, times in modules.most_common():
        print(f"{times:5}  {module}")
        for (of, function), number in calls.items():
            if functions and of == module:
                print(f"{number:12}  {function}")
    print(f"{modules.total()} calls in {len(modules)} modules")


if __name__ == "__main__":
    asyncio.run(main())

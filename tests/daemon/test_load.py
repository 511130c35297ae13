"""The daemon under load, and over a long time: no error, and no memory that stays."""

import asyncio
import json
import os
import socket
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import billhook
from billhook.serve import control, protocol
from daemon.running import Home, Reply, home_in, read_reply

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc"),
]

MiB = 1 << 20
Recorded = Callable[[str, object], None]


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    with home_in(tmp_path) as one:
        yield one


HOOKS = """\
hooks:
  no-rm: {events: PreToolUse, if: Bash(rm *), deny: never}
  shell: {events: PreToolUse, match: Shell, run: 'exit 2'}
  later: {events: Stop, run: 'echo later', background: true}
"""


class Load:
    """Many callers in one event loop, each with a connection of its own for each call."""

    def __init__(self, home: Home, environments: int) -> None:
        self.home = home
        self.seconds: list[float] = []
        self.wrong: list[tuple[str, Reply | str]] = []
        self.calls = 0
        self._environments = [home.env(NUMBER=str(number)) for number in range(environments)]

    def event(self, number: int) -> tuple[str, dict[str, Any]]:
        """The event of that number and what kind it is; of each hundred one runs a shell."""
        session = f"s{number % 700}"
        if number % 500 == 0:
            return "Stop", self.home.event("Stop", session_id=session, stop_hook_active=False)
        if number % 100 == 1:
            return "Shell", self.home.event(session_id=session, tool_name="Shell")
        match number % 4:
            case 0:
                return "rm", self.home.event(session_id=session, tool_input={"command": "rm -rf x"})
            case 1:
                return "ls", self.home.event(session_id=session)
            case 2:
                return "after", self.home.event("PostToolUse", session_id=session, tool_response="r" * (number % 999))
            case _:
                return "prompt", self.home.event("UserPromptSubmit", session_id=session, prompt="p")

    async def call(self) -> None:
        number = self.calls
        self.calls += 1
        kind, event = self.event(number)
        env = self._environments[number // 20 % len(self._environments)]  # one terminal after the other
        stdin = json.dumps(event).encode()
        request = protocol.request(billhook.__version__, ["--as", "claude"], str(self.home.project), env, stdin)
        began = time.perf_counter()
        try:
            reply = read_reply(await asyncio.wait_for(self._said(request), 30))
        except (OSError, TimeoutError) as error:
            self.wrong.append((kind, f"{type(error).__name__}: {error}"))
            return
        self.seconds.append(time.perf_counter() - began)
        if reply.code != 0 or reply.denied is not (kind in ("rm", "Shell")):
            self.wrong.append((kind, reply))

    async def _said(self, request: bytes) -> bytes:
        loop = asyncio.get_running_loop()
        with socket.socket(socket.AF_UNIX) as line, control.reachable(self.home.folder) as path:
            line.setblocking(False)
            await self._connect(line, path)
            await loop.sock_sendall(line, request)
            parts = []
            while part := await loop.sock_recv(line, 1 << 16):
                parts.append(part)
            return b"".join(parts)

    async def _connect(self, line: socket.socket, path: str) -> None:
        """As the client does it: where the daemon has no room yet, it asks again."""
        while True:
            try:
                line.connect(path)
                return
            except BlockingIOError:
                await asyncio.sleep(0.005)

    def shown(self) -> str:
        times = sorted(self.seconds)
        p50, p99 = times[len(times) // 2], times[len(times) * 99 // 100]
        shown = {"p50": p50, "p99": p99, "longest": times[-1]}
        return f"{len(times):,} calls, " + ", ".join(f"{name} {1000 * time:.2f} ms" for name, time in shown.items())


def measured(home: Home, pid: int) -> tuple[int, int]:
    """Memory and descriptors of the daemon."""
    status = home.status(pid)
    assert status is not None
    return status.memory, len(os.listdir(f"/proc/{pid}/fd"))


def grown(before: tuple[int, int], after: tuple[int, int]) -> str:
    return f"memory {before[0] / MiB:.1f} -> {after[0] / MiB:.1f} MiB"


def test_two_hundred_connections_for_a_minute(home: Home, record_property: Recorded) -> None:
    """Each is asked again as soon as it has its answer: no error, no wrong answer, and memory is flat."""
    home.own(HOOKS)
    daemon = home.start()
    load = Load(home, environments=8)

    async def go_on(until: float) -> None:
        while time.monotonic() < until:
            await load.call()

    async def all_of(seconds: float) -> None:
        await asyncio.gather(*(go_on(time.monotonic() + seconds) for _ in range(200)))

    asyncio.run(all_of(10))
    before = measured(home, daemon.pid)
    load.seconds.clear()
    asyncio.run(all_of(60))
    after = measured(home, daemon.pid)
    record_property("measured", f"200 connections, 60 s: {load.shown()}; {grown(before, after)}")
    assert not load.wrong, (len(load.wrong), load.wrong[:3])
    assert after[0] - before[0] < 8 * MiB, (before, after)
    assert after[1] <= before[1] + 4, (before, after)
    assert home.billhook("events", "verify", seconds=300).returncode == 0


def test_memory_is_flat_over_a_hundred_thousand_events(home: Home, record_property: Recorded) -> None:
    """Of hundreds of sessions and environments; descriptors, too."""
    home.own(HOOKS)
    daemon = home.start()
    load = Load(home, environments=200)

    async def many(calls: int) -> None:
        until = load.calls + calls

        async def go_on() -> None:
            while load.calls < until:
                await load.call()

        await asyncio.gather(*(go_on() for _ in range(8)))

    asyncio.run(many(10_000))
    before = measured(home, daemon.pid)
    asyncio.run(many(100_000))
    after = measured(home, daemon.pid)
    record_property("measured", f"100,000 events: {load.shown()}; {grown(before, after)}")
    assert not load.wrong, (len(load.wrong), load.wrong[:3])
    status = home.status(daemon.pid)
    assert status is not None and status.requests == load.calls
    assert after[0] - before[0] < 8 * MiB, (before, after)
    assert after[1] <= before[1] + 4, (before, after)

"""Limits that many machines share: exactly so many calls, the answer in time, and what happens without the server."""

import asyncio
import json
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Literal

import pytest

from billhook import Engine
from billhook.builtins import rate_limit as limiter
from billhook.builtins.rate_limit import RateLimit, rate_limit
from billhook.fleet import limits
from billhook.store.state import FileState
from daemon.running import Home, home_in
from fleet.conftest import Fleet
from fleet.hosts import eventually, linked

_CLIENT = Path(sys.executable).parent / "billhook-hook"
_PATIENT = (
    sys.executable,
    "-c",
    "import sys\nfrom billhook.builtins import rate_limit\nfrom billhook.cli.main import main\n"
    "rate_limit.DEADLINE = 20.0  # this machine may be busy: the number matters here\nsys.exit(main())",
)
"""`billhook`, whose verdicts wait longer for the fleet."""


def decide(root: Path, limit: RateLimit, session: str = "s") -> str:
    """The decision about one call on a host, as in a separate process."""
    event = {
        "hook_event_name": "PreToolUse",
        "session_id": session,
        "cwd": "/",
        "tool_name": "Bash",
        "tool_input": {"command": "curl example.com"},
    }
    return Engine([rate_limit(FileState(root), [limit])]).fire_sync(event).decision.value


def shared(name: str, at_most: int, **settings: Any) -> RateLimit:
    rule = f"Bash(curl *{name}*)" if name else None
    return RateLimit(rule=rule, at_most=at_most, per="minute", scope="fleet", **settings)


@contextmanager
def hosts(fleet: Fleet, folder: Path, number: int) -> Iterator[list[Path]]:
    """The state roots of hosts whose links answer."""
    with ExitStack() as stack:
        roots = [folder / str(one) for one in range(number)]
        for root in roots:
            stack.enter_context(linked(root, fleet.host(root), [limits.follow]))
        for root in roots:
            eventually(partial(limiter._request_count, root, f"warm {root}", 60.0, 1))
        yield roots


def away_from_the_end() -> None:
    """Wait if the present minute is nearly over: a test must be in one window."""
    left = 60 - time.time() % 60
    if left < 10:
        time.sleep(left + 0.1)


@pytest.mark.parametrize(
    ("links", "at_most", "calls"),
    [(3, 10, 10), pytest.param(20, 100, 10, marks=pytest.mark.slow)],
)
def test_exactly_as_many_as_allowed(
    fleet: Fleet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, links: int, at_most: int, calls: int
) -> None:
    """All machines together, however the calls are spread over them."""
    monkeypatch.setattr(limiter, "DEADLINE", 20.0)  # this machine may be busy: the number matters here
    limit = shared("", at_most, offline="deny", reason=f"{tmp_path}")
    monkeypatch.setattr(RateLimit, "key", property(lambda self: f"{self.reason} {self.at_most}"))
    with hosts(fleet, tmp_path, links) as roots, ThreadPoolExecutor(links) as pool:
        away_from_the_end()
        work = [pool.submit(decide, root, limit, f"s{number}") for number in range(calls) for root in roots]
        found = Counter(one.result() for one in work)

    assert found == {"none": at_most, "deny": links * calls - at_most}


@pytest.mark.slow
def test_twenty_daemons_admit_exactly_as_many_as_allowed(fleet: Fleet, tmp_path: Path) -> None:
    """Twenty machines, each with a daemon and a link of its own, and calls as agents make them."""
    rule = "{rule: Bash(curl example.*), at_most: 100, per: hour, scope: fleet, offline: deny}"
    homes = []
    with ExitStack() as stack, ThreadPoolExecutor(4) as pool:
        for number in range(20):
            (tmp_path / str(number)).mkdir()
            home = Home(tmp_path / str(number))
            stack.callback(home.close)
            home.own(f"builtins: {{rate-limit: {{options: {{limits: [{rule}]}}}}}}\n")
            fleet.host(home.root)
            homes.append(home)
        for home in homes:
            home.start(program=_PATIENT)
        for home in homes:
            eventually(partial(limiter._request_count, home.root, f"warm {home.root}", 60.0, 1), 60)

        def called(home: Home) -> str:
            """What an agent learns about a call on this machine."""
            event = home.event(tool_input={"command": "curl example.com"})
            call = json.dumps(event).encode()
            how: dict[str, Any] = {"env": home.env(), "cwd": home.project, "capture_output": True}
            done = subprocess.run([_CLIENT], input=call, check=False, **how)
            assert done.returncode == 0, done.stderr
            late = b"counter can't be reached" in done.stdout
            return "late" if late else "deny" if b'"permissionDecision":"deny"' in done.stdout else "allow"

        found = Counter(pool.map(called, homes * 8))

    assert found == {"allow": 100, "deny": 60}


def test_deadline(tmp_path: Path) -> None:
    """A link that accepts and never answers costs 50 ms, and one that is missing costs nothing."""
    folder = (tmp_path / limiter.SOCKET).parent
    folder.mkdir(parents=True, mode=0o700)
    began = time.monotonic()
    assert limiter._request_count(tmp_path, "x", 60.0, 1) is None
    assert time.monotonic() - began < 0.04
    with socket.socket(socket.AF_UNIX) as silent:
        silent.bind(str(tmp_path / limiter.SOCKET))
        silent.listen()
        times = []
        for _ in range(5):
            began = time.monotonic()
            assert limiter._request_count(tmp_path, "x", 60.0, 1) is None
            times.append(time.monotonic() - began)

    assert 0.04 < min(times) < 0.08


def test_other_verdicts_do_not_wait(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """While one call waits for the fleet, the loop of the daemon goes on."""
    entered, leave = threading.Event(), threading.Event()

    def waiting(*_: object) -> None:
        entered.set()
        leave.wait(10)

    monkeypatch.setattr(limiter, "_request_count", waiting)
    engine = Engine([rate_limit(FileState(tmp_path), [shared("", 5)])])
    event = {"hook_event_name": "PreToolUse", "session_id": "s", "tool_name": "Bash", "tool_input": {"command": "x"}}

    async def both() -> bool:
        call = asyncio.ensure_future(engine.fire(event))
        await asyncio.to_thread(entered.wait, 10)
        was_waiting = not call.done()
        leave.set()
        return was_waiting and (await call).decision.value == "none"

    assert asyncio.run(both())


def test_in_a_daemon(tmp_path: Path) -> None:
    """The daemon judges without a loop if no hook waits; this one does."""
    with home_in(tmp_path) as home:
        home.own("builtins: {rate-limit: {options: {limits: [{at_most: 2, per: hour, scope: fleet}]}}}\n")
        home.start()
        replies = [home.ask() for _ in range(3)]
    assert [one.denied for one in replies] == [False, False, True]
    assert b"this machine alone has used it up" in replies[2].stdout


def test_without_a_link(tmp_path: Path) -> None:
    """`local` counts on this machine; `deny` denies."""
    assert [decide(tmp_path, shared("", 3)) for _ in range(5)] == ["none"] * 3 + ["deny"] * 2
    assert decide(tmp_path, shared("elsewhere", 3, offline="deny")) == "none"  # the rule does not match the call
    assert decide(tmp_path, shared("example", 3, offline="deny")) == "deny"


def test_calls_of_an_outage_are_counted_afterwards(fleet: Fleet, tmp_path: Path) -> None:
    """Four calls without the server, then the rest of the limit with it."""
    limit = shared("example.com", 10)
    key = limit.key
    away_from_the_end()
    assert [decide(tmp_path, limit) for _ in range(4)] == ["none"] * 4
    with linked(tmp_path, fleet.host(tmp_path), [limits.follow]):
        eventually(lambda: limiter._request_count(tmp_path, f"warm {tmp_path}", 60.0, 1))
        found = [decide(tmp_path, limit) for _ in range(8)]
        told = limiter._request_count(tmp_path, key, 60.0, 1)

    assert found == ["none"] * 6 + ["deny"] * 2
    assert told is not None and told.total == 13


def test_limits_of_an_hour_and_a_day(fleet: Fleet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They count on all machines, too."""
    monkeypatch.setattr(limiter, "DEADLINE", 20.0)
    periods: list[Literal["hour", "day"]] = ["hour", "day"]
    with hosts(fleet, tmp_path, 2) as roots:
        for per in periods:
            limit = RateLimit(rule="Bash(curl *)", at_most=3, per=per, scope="fleet")
            assert [decide(root, limit) for root in [*roots, *roots]] == ["none"] * 3 + ["deny"]


def test_clock_that_is_wrong(fleet: Fleet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Windows follow the server's clock: nothing here reads the clock of the host."""
    key = f"clock {tmp_path}"
    away_from_the_end()
    with hosts(fleet, tmp_path, 1) as [right]:
        first = limiter._request_count(right, key, 60.0, 1)
    monkeypatch.setattr(time, "time", lambda: 1e9)
    with hosts(fleet, tmp_path / "wrong", 1) as [wrong]:
        second = limiter._request_count(wrong, key, 60.0, 1)

    assert first and second and (first.total, second.total) == (1, 2)
    assert second.left <= first.left

"""What is left when the daemon is killed in the midst of its work: nothing, whatever a hook did to leave it."""

import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from daemon.running import Home, eventually, home_in, is_alive, numbers_in

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    with home_in(tmp_path) as one:
        yield one


def parent_of(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[1])


SLEEPS = "echo \\$\\$ >> {pids}; exec sleep 300"
ESCAPES = (
    '(env -i setsid /bin/sh -c "{sleeps}" >/dev/null 2>&1 </dev/null &)',
    '(setsid /bin/sh -c "{sleeps}" &)',
    "(setsid /bin/sh -c \"env -i /bin/sh -c 'sleep 300 & sleep 300 &'; {sleeps}\" >/dev/null 2>&1 &)",
)


def test_nothing_is_left_of_a_daemon_in_the_background(home: Home) -> None:
    """Children without a trace of where they come from are gone, too, and so is the process that saw to it."""
    pids = home.project / "pids"
    escapes = [line.format(sleeps=SLEEPS.format(pids=pids), pids=pids) for line in ESCAPES]
    script = home.file("hook.sh", "\n".join(["#!/bin/sh", *escapes, f"echo $$ >> {pids}", "sleep 300"]), 0o755)
    home.own(f"hooks:\n  escape: {{events: PreToolUse, run: '{script}', timeout: 60}}\n")
    assert home.billhook("daemon", "start").returncode == 0
    daemon = eventually(home.status).pid
    guard = parent_of(daemon)
    with home.call() as call:
        started = numbers_in(pids, 4)
        os.kill(daemon, signal.SIGKILL)
        assert call.reply()[:2] == (True, None)
    eventually(lambda: not any(map(is_alive, [*started, guard, daemon])), 15)


def test_guard_ends_with_its_daemon(home: Home) -> None:
    """A daemon that ends as it should leaves no guard; and the guard is small, and keeps nothing open."""
    assert home.billhook("daemon", "start").returncode == 0
    daemon = eventually(home.status).pid
    guard = parent_of(daemon)
    assert len(os.listdir(f"/proc/{guard}/fd")) == 4
    os.kill(guard, signal.SIGTERM)  # ignored: the daemon has to end first
    assert home.billhook("daemon", "stop").stdout == f"stopped: process {daemon}\n"
    eventually(lambda: not is_alive(guard), 10)


def test_daemon_without_its_guard_serves_on(home: Home) -> None:
    """The guard is killed: no answer depends on it."""
    assert home.billhook("daemon", "start").returncode == 0
    daemon = eventually(home.status).pid
    os.kill(parent_of(daemon), signal.SIGKILL)
    assert home.ask().code == 0
    assert home.billhook("daemon", "stop").stdout == f"stopped: process {daemon}\n"

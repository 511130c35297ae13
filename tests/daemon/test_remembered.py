"""Who starts a daemon in another's place starts it as that one was, unless that was meant to end."""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import billhook
from billhook.serve.control import REMEMBERED, DaemonOptions, forget, recalled, remember
from billhook.serve.protocol import DaemonStatus
from daemon import calling
from daemon.running import Home, eventually, home_in, is_alive

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")

OPTIONS = ("--http", "127.0.0.1:0", "--idle-exit", "500")


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    with home_in(tmp_path / "of") as one:
        yield one


def started(home: Home, *options: str, **env: str) -> DaemonStatus:
    """The daemon that `billhook daemon start` started, or found."""
    done = home.billhook("daemon", "start", *options, env=home.env(**env))
    assert done.returncode == 0, done.stderr
    return eventually(home.status)  # type: ignore[no-any-return]


def gone(pid: int) -> None:
    eventually(lambda: not is_alive(pid))


def answers_at(url: str) -> bool:
    host, _, port = url.removeprefix("http://").rpartition(":")
    try:
        with socket.create_connection((host, int(port)), 10) as line:
            line.sendall(f"GET /healthz HTTP/1.1\r\nHost: {host}:{port}\r\n\r\n".encode())
            return line.recv(100).startswith(b"HTTP/1.1 200")
    except ConnectionRefusedError:
        return False


def test_http_is_there_again_after_a_kill(home: Home) -> None:
    """At the same port, also where any had been asked for, with the same token; `stop` ends that."""
    first = started(home, *OPTIONS)
    token = (home.folder / "token").read_text()
    assert answers_at(first.http)
    os.kill(first.pid, signal.SIGKILL)
    gone(first.pid)
    second = started(home, "--quiet")
    assert (second.http, second.idle_exit) == (first.http, 500)
    assert answers_at(first.http) and (home.folder / "token").read_text() == token
    os.kill(second.pid, signal.SIGTERM)  # the machine goes down
    gone(second.pid)
    assert (third := started(home)).http == first.http
    assert home.billhook("daemon", "stop").returncode == 0
    assert not is_alive(third.pid) and not (home.folder / REMEMBERED).exists()
    fourth = started(home)
    assert (fourth.http, fourth.idle_exit) == ("", 3600)


def test_http_is_there_again_after_an_upgrade(home: Home, tmp_path: Path) -> None:
    """The client that finds the daemon out of date is its own hook, and starts the new one with HTTP."""
    package = tmp_path / "site" / "billhook"
    shutil.copytree(Path(billhook.__file__).parent, package)
    (tmp_path / "billhook").symlink_to(Path(sys.executable).with_name("billhook"))
    client = calling.built("c", tmp_path)
    env = home.env(PYTHONPATH=str(package.parent))
    home.own("hooks:\n  no: {events: PreToolUse, deny: never}\n")
    first = started(home, *OPTIONS, PYTHONPATH=str(package.parent))
    changed = package / "__init__.py"
    changed.with_suffix(".new").write_text(changed.read_text())
    changed.with_suffix(".new").rename(changed)
    done = subprocess.run(
        [client],
        input=json.dumps(home.event()).encode(),
        env=env,
        cwd=home.project,
        capture_output=True,
        timeout=60,
        check=True,
    )
    assert b'"deny"' in done.stdout
    gone(first.pid)
    # A caller that is refused leaves the start to the next.
    eventually(lambda: home.status() or not started(home, "--quiet", PYTHONPATH=str(package.parent)))
    second = eventually(home.status)
    assert second.pid != first.pid
    eventually(lambda: answers_at(first.http))
    assert eventually(home.status).http == first.http


def test_address_that_is_taken_meanwhile(home: Home) -> None:
    """The daemon still runs; as soon as the address is free, it listens there."""
    first = started(home, *OPTIONS)
    os.kill(first.pid, signal.SIGKILL)
    gone(first.pid)
    host, _, port = first.http.removeprefix("http://").rpartition(":")
    with socket.socket() as other:
        other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        other.bind((host, int(port)))
        other.listen()
        second = started(home, "--quiet")
        assert second.http == "" and home.ask().code == 0
        assert "no HTTP yet: can't listen on" in home.log()
    eventually(lambda: answers_at(first.http))
    assert home.status(second.pid).http == first.http  # type: ignore[union-attr]


def test_daemon_in_the_foreground_that_is_ended_there_is_forgotten(home: Home) -> None:
    """Ctrl-C ends HTTP, too; so does an idle exit."""
    daemon = home.start(*OPTIONS)
    assert (home.folder / REMEMBERED).stat().st_mode & 0o777 == 0o600
    daemon.send_signal(signal.SIGINT)
    assert daemon.wait(20) == 0
    assert not (home.folder / REMEMBERED).exists()
    daemon = home.start("--idle-exit", "1")
    assert (home.folder / REMEMBERED).exists()
    assert daemon.wait(20) == 0
    assert not (home.folder / REMEMBERED).exists()


UNREADABLE: dict[str, Callable[[Path], object]] = {
    "no JSON": lambda path: path.write_text("{"),
    "something else": lambda path: path.write_text('{"idle_exit": 5, "more": 1}'),
    "a link": lambda path: path.symlink_to("/etc/passwd"),
    "a folder": lambda path: path.mkdir(),
}


@pytest.mark.parametrize("make", UNREADABLE.values(), ids=UNREADABLE.keys())
def test_what_can_not_be_read_is_not_heeded(tmp_path: Path, make: Callable[[Path], object]) -> None:
    """It is treated as missing; forgetting or rewriting it is not an error, either."""
    make(tmp_path / REMEMBERED)
    assert recalled(tmp_path) is None
    remember(tmp_path, DaemonOptions(5.0))
    assert recalled(tmp_path) in (None, DaemonOptions(5.0))
    forget(tmp_path)

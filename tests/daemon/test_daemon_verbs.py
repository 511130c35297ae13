"""`billhook daemon run|start|stop|status` as people use them."""

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import billhook
from billhook.serve import control
from daemon.running import PROGRAM, Home, eventually, home_in, is_alive, numbers_in

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    with home_in(tmp_path) as one:
        yield one


def test_start_status_stop(home: Home) -> None:
    """One is started, found, queried and stopped; each verb reports what it did."""
    assert home.billhook("daemon", "status").stdout == "the daemon is not running\n"
    started = home.billhook("daemon", "start")
    assert (started.returncode, started.stderr) == (0, "")
    found = re.fullmatch(r"started: process (\d+), (.*)\n", started.stdout)
    assert found and found[2] == str(home.folder / "s")
    again = home.billhook("daemon", "start")
    assert (again.returncode, again.stdout) == (0, f"already running: process {found[1]}, {found[2]}\n")
    home.ask()
    shown = home.billhook("daemon", "status")
    assert shown.returncode == 0
    words = [line.split("  ")[0] for line in shown.stdout.splitlines()]
    assert words == ["running", "since", "requests", "memory", "idle exit", "socket", "log"]
    assert f"process {found[1]}, billhook {billhook.__version__}" in shown.stdout
    assert "1, 0 in progress" in shown.stdout and str(home.folder / control.LOG) in shown.stdout
    stopped = home.billhook("daemon", "stop")
    assert (stopped.returncode, stopped.stdout) == (0, f"stopped: process {found[1]}\n")
    none = home.billhook("daemon", "stop")
    assert (none.returncode, none.stdout) == (0, "the daemon is not running\n")
    assert home.billhook("daemon", "status").returncode == 1


def test_http_without_its_extra(home: Home, tmp_path: Path) -> None:
    """What is missing is named, and how to install it."""
    (tmp_path / "without" / "starlette").mkdir(parents=True)
    (tmp_path / "without" / "starlette" / "__init__.py").write_text("raise ImportError('no starlette')")
    env = home.env(PYTHONPATH=str(tmp_path / "without"))
    ended = home.billhook("daemon", "run", "--http", "127.0.0.1:0", env=env)
    assert ended.returncode == 2, ended
    assert "HTTP needs the extra `serve`: no starlette" in ended.stderr and "hint: " in ended.stderr


def test_json(home: Home) -> None:
    """The same for programs."""
    started = json.loads(home.billhook("daemon", "start", "--idle-exit", "600", "--json").stdout)
    assert started["running"] is started["started"] is True
    assert json.loads(home.billhook("daemon", "start", "--json").stdout)["started"] is False
    home.ask()
    found = json.loads(home.billhook("daemon", "status", "--json").stdout)
    assert {key: found[key] for key in ("running", "version", "requests", "busy", "idle_exit", "http", "leaving")} == {
        "running": True,
        "version": billhook.__version__,
        "requests": 1,
        "busy": 0,
        "idle_exit": 600.0,
        "http": "",
        "leaving": "",
    }
    assert found["pid"] == started["pid"] and found["memory"] > 1e6 and 590 < found["idle_left"] <= 600
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", found["since"])
    assert json.loads(home.billhook("daemon", "stop", "--json").stdout) == {"stopped": True, "pid": found["pid"]}
    assert json.loads(home.billhook("daemon", "stop", "--json").stdout) == {"stopped": False, "pid": None}
    assert json.loads(home.billhook("daemon", "status", "--json").stdout) == {"running": False}


def test_start_where_one_serves_otherwise(home: Home) -> None:
    """With HTTP requested, the daemon reports that it does not listen there; for another idle exit there is a note."""
    home.start("--idle-exit", "600")
    asked = home.billhook("daemon", "start", "--http", "127.0.0.1:8123", "--json")
    assert asked.returncode == 2
    assert "does not listen for HTTP" in asked.stderr and "`billhook daemon stop`" in asked.stderr
    found = json.loads(asked.stdout)
    assert (found["running"], found["started"], found["http"]) == (True, False, "")
    assert home.billhook("daemon", "start", "--http", "127.0.0.1:8123", "--quiet").returncode == 2
    shorter = home.billhook("daemon", "start", "--idle-exit", "60", "--json")
    assert shorter.returncode == 0 and json.loads(shorter.stdout)["idle_exit"] == 600
    assert "is 600 s, not 60" in shorter.stderr
    assert home.billhook("daemon", "start", "--idle-exit", "600").stderr == ""


def test_start_where_one_listens_already(home: Home) -> None:
    """The same address is fine, however it is written; another one is not."""
    home.start("--http", "127.0.0.1:0")
    status = home.status()
    assert status is not None
    port = status.http.rpartition(":")[2]
    for same in (f"127.0.0.1:{port}", "127.0.0.1:0"):
        assert home.billhook("daemon", "start", "--http", same).returncode == 0, same
    other = home.billhook("daemon", "start", "--http", f"127.0.0.2:{port}")
    assert other.returncode == 2
    assert f"listens for HTTP at {status.http}, not at 127.0.0.2:{port}" in other.stderr


def test_start_of_one_that_hangs_in_json(home: Home) -> None:
    """Programs get JSON also where a daemon does not answer."""
    daemon = home.start()
    daemon.send_signal(signal.SIGSTOP)
    try:
        asked = home.billhook("daemon", "start", "--json")
    finally:
        daemon.send_signal(signal.SIGCONT)
    assert asked.returncode == 2 and "does not answer" in asked.stderr
    assert json.loads(asked.stdout) == {"running": False, "silent": True, "pid": daemon.pid}


def test_started_daemon_is_nobodys(home: Home) -> None:
    """It has a session of its own, no streams but /dev/null, no folder but the root, and none of our descriptors."""
    with open(home.project / "open", "w") as file:
        home.billhook("daemon", "start", pass_fds=[file.fileno()])
    status = home.status()
    assert status is not None
    proc = Path(f"/proc/{status.pid}")
    assert os.getsid(status.pid) == status.pid
    assert os.readlink(proc / "cwd") == "/"
    streams = {os.readlink(proc / "fd" / str(number)) for number in range(3)}
    assert streams == {"/dev/null"}
    assert not any(str(home.project) in os.readlink(fd) for fd in (proc / "fd").iterdir())


def test_start_comes_back_although_the_daemon_lives(home: Home) -> None:
    """Reading the output of `start` to its end does not wait for the daemon."""
    done = subprocess.run(
        ["/bin/sh", "-c", '"$@" | cat', "sh", *PROGRAM, "daemon", "start"],
        env=home.env(),
        capture_output=True,
        timeout=30,
        check=True,
    )
    assert done.stdout.startswith(b"started: ")


def test_quiet(home: Home) -> None:
    """What the client calls prints nothing, whether one is there or not; but an error is an error."""
    for _ in range(2):
        done = home.billhook("daemon", "start", "--quiet")
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert home.status()
    assert home.billhook("daemon", "start", "--quiet", env=home.env(BILLHOOK_HOME="/dev/null/x")).returncode == 2


def test_relative_root(home: Home) -> None:
    """A relative BILLHOOK_HOME means the folder in which `start` was run."""
    env = home.env(BILLHOOK_HOME="../root")
    assert home.billhook("daemon", "start", env=env).returncode == 0
    assert home.status()


def test_root_with_a_long_path(tmp_path: Path) -> None:
    """The path of a state root may be longer than a socket's address allows."""
    with home_in(tmp_path / ("x" * 100) / ("y" * 100)) as home:
        assert home.billhook("daemon", "start").returncode == 0
        assert home.ask().code == 0
        assert home.billhook("daemon", "stop").stdout.startswith("stopped")


def test_run_in_the_foreground(home: Home) -> None:
    """It reports where it serves, and why it ended; Ctrl-C ends it with 0."""
    child = subprocess.Popen(
        [*PROGRAM, "daemon", "run"], env=home.env(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    home.children.append(child)
    eventually(home.status)
    child.send_signal(signal.SIGINT)
    out, err = child.communicate(timeout=20)
    assert (child.returncode, out) == (0, "")
    assert err == f"note: listening at {home.folder / 's'} (stop it with Ctrl-C)\nnote: stopped: signal SIGINT\n"


def test_stop_waits_for_answers(home: Home) -> None:
    """Who waits when `stop` comes is answered, and `stop` comes back afterwards."""
    home.own(f"hooks:\n  slow: {{events: PreToolUse, run: 'echo $$ > {home.project}/pid; sleep 2; exit 2'}}\n")
    daemon = home.start()
    with home.call() as call:
        numbers_in(home.project / "pid")
        stopped = home.billhook("daemon", "stop")
        assert daemon.poll() == 0
        assert stopped.stdout == f"stopped: process {daemon.pid}\n"
        assert stopped.stderr == "note: waiting for the daemon to stop ...\n"
        assert call.reply().denied


def test_stop_of_one_that_is_stopped(home: Home) -> None:
    """A daemon that was stopped is woken up to end."""
    daemon = home.start()
    daemon.send_signal(signal.SIGSTOP)
    assert home.billhook("daemon", "stop").stdout == f"stopped: process {daemon.pid}\n"
    assert daemon.wait(20) == 0


def test_stop_by_force(home: Home) -> None:
    """`--force` does not wait, and processes of the daemon are ended, too."""
    home.own(f"hooks:\n  slow: {{events: PreToolUse, run: 'echo $$ > {home.project}/pid; sleep 60'}}\n")
    daemon = home.start()
    with home.call() as call:
        (pid,) = numbers_in(home.project / "pid")
        assert home.billhook("daemon", "stop", "--force").returncode == 0
        assert call.reply()[:2] == (True, None)
    assert daemon.wait(20) == -signal.SIGKILL
    eventually(lambda: not is_alive(pid), 10)


WRONG = {
    "no command": (["strat"], "did you mean `start`?"),
    "no number": (["start", "--idle-exit", "soon"], "as in --idle-exit 600"),
    "less than nothing": (["run", "--idle-exit=-1"], "0 means never"),
    "no address": (["start", "--http", ""], "as in 127.0.0.1:8123"),
    "no address to run at": (["run", "--http", "8123"], "as in 127.0.0.1:8123"),
    "exposed where": (["start", "--exposed"], "add --http HOST:PORT"),
    "run exposed where": (["run", "--exposed"], "add --http HOST:PORT"),
    "no option": (["start", "--htp", "x"], "did you mean `--http`?"),
}


@pytest.mark.parametrize(("words", "hint"), WRONG.values(), ids=WRONG.keys())
def test_usage(home: Home, words: list[str], hint: str) -> None:
    """What makes no sense is answered with what was probably meant."""
    done = home.billhook("daemon", *words)
    assert done.returncode == 2
    assert done.stderr.startswith("error: ") and hint in done.stderr


def test_help(home: Home) -> None:
    """Every command is explained."""
    shown = home.billhook("daemon", "--help").stdout
    assert all(f"\n  {name} " in shown for name in ("run", "start", "stop", "status"))
    assert "--detached" not in home.billhook("daemon", "run", "--help").stdout

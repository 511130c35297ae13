"""What clients get when their daemon, its hooks or another user do their worst: real programs, real daemons."""

import concurrent.futures
import json
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from billhook.serve import control, protocol
from daemon import calling, killing
from daemon.calling import Result
from daemon.running import Home, children_of, eventually, home_in, is_alive, numbers_in

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc"),
    pytest.mark.skipif(calling.COMPILER is None, reason="there is no compiler for billhook-hook"),
]


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    with home_in(tmp_path / "of") as one:
        yield one


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """billhook-hook, with the billhook beside it that it runs where there is no daemon."""
    folder = tmp_path_factory.mktemp("bin")
    (folder / "billhook").symlink_to(Path(sys.executable).with_name("billhook"))
    return calling.built("c", folder)


def run(client: Path, home: Home, *words: str, event: dict[str, Any] | None = None, **env: str) -> Result:
    """One call of the client, to its end."""
    began = time.monotonic()
    done = subprocess.run(
        [client, "--as", "claude", *words],
        input=json.dumps(home.event() if event is None else event).encode(),
        env=home.env(**env),
        cwd=home.project,
        capture_output=True,
        timeout=90,
        check=False,
    )
    return Result(done.returncode, done.stdout, done.stderr, time.monotonic() - began)


def denied(result: Result) -> bool:
    return result.code == 2 or b'"permissionDecision":"deny"' in result.stdout


def guarded(home: Home) -> Path:
    """A guard that refuses everything, and writes down that it ran."""
    ran = home.project / "ran"
    home.own(f"hooks:\n  guard: {{events: PreToolUse, run: 'echo $$ >> {ran}; exit 2', gate: true}}\n")
    return ran


# -- hooks that fail


MISCHIEF = {
    "Loops": ("while True: pass", 1),
    "Sleeps": ("time.sleep(1e9)", 1),
    "Exits": ("os._exit(3)", 30),
    "Crashes": ("ctypes.string_at(0)", 30),
}
FINE = "def fine(event):\n    return {'decision': 'block', 'reason': 'fine refused'}\n"


def test_eight_clients_beside_hooks_that_fail(home: Home, client: Path) -> None:
    """While Python hooks loop, sleep, exit and crash, eight clients are answered rightly and in time; and so are those
    whose hooks failed: they are gates."""
    bodies = [f"def {name.lower()}(event):\n    {body}\n" for name, (body, _) in MISCHIEF.items()]
    home.file("bad.py", "import ctypes, os, time\n" + "".join([*bodies, FINE]))
    entries = []
    for name, seconds in [*((name, seconds) for name, (_, seconds) in MISCHIEF.items()), ("Fine", 30)]:
        about = f"match: {name}, python: 'bad:{name.lower()}', gate: true, timeout: {seconds}"
        entries.append(f"  {name}: {{events: PreToolUse, {about}}}\n")
    home.file("hooks.yaml", "hooks:\n" + "".join(entries))
    home.own("hooks:\n  plain: {events: PreToolUse, match: Plain, run: 'echo plain refused >&2; exit 2'}\n")
    home.approve()
    daemon = home.start()

    def call(kind: str) -> tuple[str, Result]:
        event = home.event(tool_name=kind, session_id=kind)
        return kind, run(client, home, "--deadline", "60000", event=event)

    fine, bad = ["Fine", "Plain", "Allowed"] * 8, list(MISCHIEF) * 2
    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        failing = [pool.submit(call, kind) for kind in bad]
        answers = list(pool.map(call, fine))
        failures = [future.result() for future in failing]
    for kind, answer in answers:
        reason = b"" if kind == "Allowed" else f"{kind.lower()} refused".encode()
        assert answer.code == 0 and reason in answer.stdout and denied(answer) is bool(reason), (kind, answer)
        assert answer.seconds < 30, (kind, answer)
    for kind, answer in failures:
        assert denied(answer) and answer.seconds < 45, (kind, answer)
    assert home.status(daemon.pid)
    assert denied(call("Fine")[1])


# -- daemons that fail


@pytest.mark.parametrize("on_failure", ["deny", "allow"])
def test_client_of_a_daemon_that_is_stopped(home: Home, client: Path, on_failure: str) -> None:
    """Its answer is there at the deadline, from `--on-failure` or from its own hooks; and the daemon that resumes later
    runs nothing for a caller that has disconnected."""
    ran = guarded(home)
    daemon = home.start()
    daemon.send_signal(signal.SIGSTOP)
    try:
        answer = run(client, home, "--deadline", "3000", "--on-failure", on_failure)
    finally:
        daemon.send_signal(signal.SIGCONT)
    assert answer.seconds < 15, answer
    alone = len(ran.read_text().split()) if ran.exists() else 0
    assert denied(answer) or (on_failure == "allow" and not alone), answer
    assert eventually(home.status).busy == 0
    assert run(client, home).code == 0  # the next is answered by it
    assert len(ran.read_text().split()) == alone + 1


def test_call_that_a_stopped_daemon_finds_later_is_in_the_log_once(home: Home, client: Path) -> None:
    """The caller was its own hook meanwhile, or has given up: a daemon that wakes up judges nothing for it."""
    home.own("hooks:\n  no: {events: PreToolUse, deny: never}\n")
    daemon = home.start()
    daemon.send_signal(signal.SIGSTOP)
    try:
        assert denied(run(client, home, "--deadline", "5000", event=home.event(tool_use_id="late")))
    finally:
        daemon.send_signal(signal.SIGCONT)
    assert eventually(home.status).busy == 0
    assert home.ask().denied
    assert [record["tool_use_id"] for record in home.records()].count("late") <= 1


def test_client_of_another_version_is_its_own_hook(home: Home, client: Path, tmp_path: Path) -> None:
    """After an upgrade of the client alone the answer is right, and each hook has run once."""
    ran = guarded(home)
    daemon = home.start()
    (tmp_path / "billhook").symlink_to(Path(sys.executable).with_name("billhook"))
    newer = calling.compile_client(tmp_path / "billhook-hook", "-UBILLHOOK_VERSION", '-DBILLHOOK_VERSION="9.9.9"')
    assert denied(run(newer, home, "--deadline", "60000"))
    assert len(ran.read_text().split()) == 1
    assert home.status(daemon.pid).requests == 0  # type: ignore[union-attr]


def test_killed_in_the_midst_of_a_request(home: Home, client: Path) -> None:
    """The client gives the failure answer at once and does not try again: the hook may have done its work."""
    ran = home.project / "ran"
    home.own(f"hooks:\n  slow: {{events: PreToolUse, run: 'echo $$ >> {ran}; sleep 60'}}\n")
    daemon = home.start()
    words = [("--on-failure", word, "--deadline", "50000") for word in ("deny", "allow")]
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        calls = [pool.submit(run, client, home, *options) for options in words]
        pids = numbers_in(ran, 2)
        daemon.kill()
        refused, passed = [call.result() for call in calls]
    assert (refused.code, passed.code) == (2, 0)
    assert all(b"the daemon closed the connection before it answered" in answer.stderr for answer in (refused, passed))
    assert max(refused.seconds, passed.seconds) < 40
    assert len(ran.read_text().split()) == 2
    eventually(lambda: not any(map(is_alive, pids)), 10)


def test_stopped_repeatedly_no_caller_gets_a_failure(home: Home, client: Path) -> None:
    """Daemons that are told to end while callers never pause answer all that they took; the others never began."""
    ran, mark, chance = killing.prepared(home), f"told-{os.getpid()}", random.Random(7)
    callers = killing.Callers(home, client, seed=7, bold=0.01, mark=mark, BILLHOOK_NO_DAEMON="1")
    nursery = killing.Nursery(home)
    told = []
    try:
        callers.begin(clients=1, speakers=3)
        for _ in range(15):
            pid = nursery.start()
            eventually(lambda: killing.serving(home) == pid, pause=0.002)  # noqa: B023
            callers.serves.set()
            callers.wait_for(chance.choice((1, 2, 4, 8)))
            time.sleep(chance.uniform(0, 0.02))
            callers.serves.clear()
            os.kill(pid, signal.SIGTERM)
            told.append(pid)
    finally:
        called = callers.end()
        nursery.close()
    outcomes = killing.check(home, called, ran)
    assert outcomes["answered"] > 15 and not outcomes["failed"], outcomes
    eventually(lambda: not any(map(is_alive, told)))
    killing.check_nothing_is_left(mark)


def test_log_has_the_events_of_a_session_in_their_order(home: Home) -> None:
    """Of many concurrent events without waiting hooks, each keeps its order."""
    home.own("hooks:\n  no-rm: {events: PreToolUse, if: Bash(rm *), deny: never}\n")
    home.start()
    events = [home.event(tool_use_id=f"{number:03}", tool_input={"command": "rm x"}) for number in range(120)]
    calls = [home.call(event) for event in events]
    assert [call.reply().denied for call in calls] == [True] * 120
    records = [record for record in home.records() if record.get("tool_use_id")]
    assert [record["tool_use_id"] for record in records] == [event["tool_use_id"] for event in events]


ESCAPES = {
    "background": "sleep 300 &",
    "setsid": "setsid sleep 300 &",
    "double fork": "(setsid sh -c 'sleep 300 & sleep 300' &)",
    "nothing of ours": "(env -i setsid /bin/sh -c 'exec sleep 300' >/dev/null 2>&1 </dev/null &)",
    "deaf": "(trap '' TERM HUP; setsid sh -c 'trap \"\" TERM; while :; do sleep 300; done' &)",
    "python": f"{sys.executable} -c 'import os,time; os.fork() or (os.setsid(), os.fork() or time.sleep(300))' &",
}


def test_nothing_that_hooks_start_survives_their_deadline(home: Home) -> None:
    """Whatever way a child takes to leave its hook, it is gone with the hook's time; the daemon has no child left."""
    pids, entries = home.project / "pids", []
    for number, escape in enumerate(ESCAPES.values()):
        script = home.file(f"hook{number}.sh", f"#!/bin/sh\necho $$ >> {pids}\n{escape}\nsleep 300\n", 0o755)
        entries.append(
            f"  e{number}: {{events: PreToolUse, match: E{number}, run: '{script}', timeout: 1, gate: true}}\n"
        )
    home.own("hooks:\n" + "".join(entries))
    daemon = home.start()
    began = time.monotonic()
    calls = [home.call(home.event(tool_name=f"E{number}", session_id=f"e{number}")) for number in range(len(ESCAPES))]
    eventually(lambda: len(children_of(daemon.pid)) > len(ESCAPES), 10)  # those who escaped are adopted
    assert [call.reply().denied for call in calls] == [True] * len(ESCAPES)
    assert time.monotonic() - began < 20
    eventually(lambda: not any(map(is_alive, numbers_in(pids, len(ESCAPES)))), 10)
    eventually(lambda: not children_of(daemon.pid), 10)


# -- garbage


def broken(request: bytes, chance: random.Random) -> bytes:
    """The request, with a few bytes that are not as they should be."""
    data = bytearray(request)
    for _ in range(chance.randint(1, 4)):
        at = chance.randrange(min(len(data), 60)) if chance.random() < 0.7 else chance.randrange(len(data))
        match chance.randrange(5):
            case 0:
                data[at] = chance.randrange(256)
            case 1:
                del data[at : at + chance.randint(1, 30)]
            case 2:
                data[at:at] = chance.randbytes(chance.randint(1, 30))
            case 3:
                data[at : at + 4] = chance.choice((b"\xff" * 4, b"\0" * 4, b"\x7f\xff\xff\xff", b"\0\0\0\1"))
            case _:
                del data[at + 1 :]
        if not data:
            return b"\0"
    return bytes(data)


def pester(home: Home, many: int, seed: int) -> None:
    """Many broken requests, some of them slow, some without waiting for an answer."""
    chance = random.Random(seed)
    env = {"HOME": str(home.home), "BILLHOOK_HOME": str(home.root), "PATH": os.environ["PATH"]}
    whole = protocol.request("0.0", ["--as", "claude"], "/", env, json.dumps(home.event()).encode())
    for _ in range(many):
        with control.connect(home.folder, 30) as line:
            data = broken(whole, chance)
            try:
                line.sendall(data[: len(data) // 2])
                line.sendall(data[len(data) // 2 :])
                if chance.random() < 0.8:
                    line.shutdown(socket.SHUT_WR)
                    assert line.recv(100)[:1] in (b"", b"N", b"I"), data
            except ConnectionError:
                continue


@pytest.mark.parametrize("many", [500, pytest.param(10_000, marks=pytest.mark.slow)])
def test_broken_requests_cost_nothing(home: Home, many: int) -> None:
    """No crash, no hook, no descriptor, no connection and no memory that stays."""
    ran = guarded(home)
    daemon = home.start()
    assert home.ask().denied

    def measured() -> tuple[int, int]:
        status = home.status(daemon.pid)
        assert status is not None
        return len(os.listdir(f"/proc/{daemon.pid}/fd")), status.memory

    pester(home, 200, 1)
    eventually(lambda: measured()[0] <= 20)
    before = measured()
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        for part in [pool.submit(pester, home, many // 4, seed) for seed in range(4)]:
            part.result()
    eventually(lambda: measured()[0] <= before[0])
    assert measured()[1] - before[1] < 8 << 20, (before, measured())
    assert home.ask().denied and len(ran.read_text().split()) == 2
    status = home.status(daemon.pid)
    assert status is not None and (status.requests, status.busy) == (2, 0)


# -- another user


STRANGER = """\
import encodings.idna, os, socket, sys
root, port = sys.argv[1:]
os.setgroups([]); os.setresgid(12345, 12345, 12345); os.setresuid(12345, 12345, 12345)
for path in sys.stdin.read().splitlines():
    try:
        if os.path.isdir(path): os.listdir(path)
        elif path.endswith("/s"): socket.socket(socket.AF_UNIX).connect(path)
        else: open(path, "rb").read()
        print("reached", path)
    except PermissionError:
        pass
for words in ("GET /events", "POST /fire", "POST /hook/claude"):
    line = socket.create_connection(("127.0.0.1", int(port)), 10)
    line.sendall(f"{words} HTTP/1.1\\r\\nHost: 127.0.0.1:{port}\\r\\nContent-Length: 2\\r\\n\\r\\n{{}}".encode())
    print(words, line.recv(100).split()[1].decode())
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be another user")
@pytest.mark.parametrize("mode", [None, 0o755], ids=["new root", "root that was there"])
def test_another_user_reaches_nothing(mode: int | None) -> None:
    """Socket, token, log, event log, state: nothing below the root can be read or entered, and HTTP needs the token;
    also if the root was open before, like an agent's folder."""
    base = Path(tempfile.mkdtemp(prefix="bh-"))
    base.chmod(0o755)
    try:
        with home_in(base) as home:
            if mode is not None:
                home.root.mkdir(mode=mode)
            home.own("hooks:\n  no: {events: PreToolUse, deny: never}\n")
            daemon = home.start("--http", "127.0.0.1:0", preexec_fn=lambda: os.umask(0))
            assert home.ask().denied and home.ask(home.event("UserPromptSubmit", prompt="p")).code == 0
            paths = [str(path) for path in home.root.rglob("*")]
            names = {Path(path).name for path in paths}
            assert {"s", "token", "log", "lock", "options"} <= names and any(name.endswith("l") for name in names)
            status = home.status(daemon.pid)
            assert status is not None
            done = subprocess.run(
                [sys.executable, "-ISc", STRANGER, str(home.root), status.http.rpartition(":")[2]],
                input="\n".join(paths),
                cwd="/",
                capture_output=True,
                text=True,
                check=True,
                timeout=30,
            )
            assert done.stdout.splitlines() == ["GET /events 401", "POST /fire 401", "POST /hook/claude 401"]
    finally:
        shutil.rmtree(base)

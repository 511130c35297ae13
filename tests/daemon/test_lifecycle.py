"""The daemon's life: how it begins and ends, and what callers find when it ended in any other way."""

import json
import os
import resource
import shutil
import signal
import socket
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import billhook
from billhook.serve import control, daemon, protocol
from daemon import calling
from daemon.running import PROGRAM, Home, children_of, eventually, home_in, is_alive, numbers_in

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")

SLOW_HOOK = "hooks:\n  slow: {events: PreToolUse, run: 'echo $$ >> %s; sleep %s; echo no >&2; exit 2', timeout: 60}\n"


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    with home_in(tmp_path) as one:
        yield one


def slowly(home: Home, seconds: float) -> Path:
    """A hook that takes so long; the file into which it writes its number."""
    file = home.project / "pids"
    home.own(SLOW_HOOK % (file, seconds))
    return file


# -- beginnings ------------------------------------------------------------------------------------------------------


def test_killed_daemon_leaves_nothing_that_matters(home: Home) -> None:
    """After kill -9 the lock is free and the socket refuses; the next one takes its place."""
    first = home.start()
    first.kill()
    first.wait()
    assert (home.folder / control.SOCKET).is_socket()
    assert control.holder(home.folder) == 0
    with pytest.raises(ConnectionRefusedError):
        control.connect(home.folder, 1)
    second = home.start()
    assert home.ask().code == 0
    assert control.holder(home.folder) == second.pid


@pytest.mark.parametrize("killed_first", [False, True], ids=["new folder", "after a kill"])
def test_many_starts_at_once_make_one_daemon(home: Home, killed_first: bool) -> None:
    """Of ten that start one at the same time, each finds the same daemon."""
    if killed_first:
        home.start().kill()
    words = [*PROGRAM, "daemon", "start", "--json"]
    starts = [subprocess.Popen(words, env=home.env(), stdout=subprocess.PIPE) for _ in range(10)]
    reported = [starter.communicate(timeout=60)[0] for starter in starts]
    assert [starter.returncode for starter in starts] == [0] * 10
    assert len({line.split(b'"pid":')[1].split(b",")[0] for line in reported}) == 1
    assert sum(b'"started":true' in line for line in reported) == 1


def test_second_daemon_in_the_foreground_is_refused(home: Home) -> None:
    """`run` reports that one is running, and changes nothing."""
    first = home.start()
    second = home.billhook("daemon", "run")
    assert (second.returncode, second.stdout) == (2, "")
    assert "the daemon is already running" in second.stderr
    assert home.status(first.pid)


INHERITED: dict[str, tuple[Callable[[], object], dict[str, Any]]] = {
    "nothing odd": (lambda: None, {}),
    "open mask": (lambda: os.umask(0), {}),
    "closed mask": (lambda: os.umask(0o777), {}),
    "signals ignored": (
        lambda: [signal.signal(n, signal.SIG_IGN) for n in (signal.SIGTERM, signal.SIGHUP, signal.SIGCHLD)],
        {},
    ),
    "signals blocked": (lambda: signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM, signal.SIGCHLD}), {}),
    "few open files": (lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (32, 4096)), {}),
    "no standard streams": (lambda: os.closerange(0, 3), {"stdin": None, "stderr": None}),
    "another encoding": (lambda: None, {"LC_ALL": "en_US.ISO-8859-1", "PYTHONCOERCECLOCALE": "0"}),
    "files of no size": (lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0)), {}),
    "a child of a hook": (lambda: None, {"BILLHOOK_CHILD": "abc", "BILLHOOK_DEPTH": "2"}),
}


@pytest.mark.parametrize(("inherit", "how"), INHERITED.values(), ids=INHERITED.keys())
def test_what_was_inherited_does_not_matter(home: Home, inherit: Callable[[], object], how: dict[str, Any]) -> None:
    """Started in any way, it serves, its files are private, and TERM ends it."""
    home.own("hooks:\n  no: {events: PreToolUse, run: 'echo no >&2; exit 2'}\n")
    streams = {name: value for name, value in how.items() if name.startswith("std")}
    variables = {name: value for name, value in how.items() if name not in streams}
    daemon = home.start(env=home.env(**variables), preexec_fn=inherit, **streams)
    answers = [home.ask() for _ in range(3)]
    assert [answer.denied for answer in answers] == [True] * 3
    for path, mode in ((home.folder, 0o700), *((file, 0o600) for file in home.folder.iterdir())):
        assert stat.S_IMODE(path.lstat().st_mode) == mode, path
    daemon.terminate()
    assert daemon.wait(20) == 0


def test_limit_of_open_files_is_raised(home: Home) -> None:
    """More callers than the inherited limit allows are served at once."""
    home.own("hooks:\n  wait: {events: PreToolUse, run: 'sleep 0.3'}\n")
    home.start(preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (40, 4096)))
    calls = [home.call() for _ in range(30)]
    assert [call.reply().code for call in calls] == [0] * 30


def _link(folder: Path) -> None:
    (folder.parent / "elsewhere").mkdir(mode=0o700)
    folder.symlink_to(folder.parent / "elsewhere")


def _foreign(folder: Path) -> None:
    folder.mkdir(mode=0o700)
    os.chown(folder, 12345, 12345)


def _in_the_way(folder: Path) -> None:
    (folder / control.SOCKET / "x").mkdir(parents=True, mode=0o700)
    folder.chmod(0o700)


def _linked_lock(folder: Path, name: str = control.LOCK) -> None:
    folder.mkdir(mode=0o700)
    (folder / name).symlink_to("/etc/passwd")


WRONG: dict[str, tuple[Callable[[Path], object], str]] = {
    "others may enter": (lambda folder: folder.mkdir(mode=0o755), "other users can access the folder"),
    "a link": (_link, "symbolic link"),
    "a file": (lambda folder: folder.write_text(""), "not a folder"),
    "another user's": (_foreign, "belongs to another user"),
    "a folder where the socket goes": (_in_the_way, "can't create the daemon's socket"),
    "a link where the lock goes": (_linked_lock, "lock"),
    "a link where the lock of those who start goes": (lambda folder: _linked_lock(folder, "starting"), "starting"),
}


@pytest.mark.parametrize(("make", "reported"), WRONG.values(), ids=WRONG.keys())
def test_folder_that_can_not_be_trusted_is_refused(home: Home, make: Callable[[Path], object], reported: str) -> None:
    """`start` reports the problem and the fix, and nothing is served."""
    home.folder.parent.mkdir(parents=True, mode=0o700)
    try:
        make(home.folder)
    except PermissionError:
        pytest.skip("only root can give a folder away")
    ended = home.billhook("daemon", "start")
    assert ended.returncode == 2, ended
    assert reported in ended.stderr and "hint: " in ended.stderr
    assert control.holder(home.folder) == 0


@pytest.mark.parametrize("root", ["/proc/1/no", "/dev/null/no"])
def test_root_that_can_not_be_written(home: Home, root: str) -> None:
    """`start` reports it and exits with 2, `status` and `stop` find none."""
    env = home.env(BILLHOOK_HOME=root)
    assert [home.billhook("daemon", verb, env=env).returncode for verb in ("start", "status", "stop")] == [2, 1, 0]


def _full(root: Path) -> None:
    (root / "x").write_bytes(b"x" * 4096)


def _read_only(root: Path) -> None:
    control.ensure_folder(root)
    subprocess.run(["mount", "-o", "remount,ro", root], check=True)


@pytest.mark.parametrize(("spoil", "reported"), [(_full, "No space left"), (_read_only, "Read-only file system")])
def test_disk_that_takes_nothing(home: Home, spoil: Callable[[Path], None], reported: str) -> None:
    """On a disk that is full or read-only `start` reports it, or serves without a log; it never hangs."""
    home.root.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=4k", "none", str(home.root)]
    if shutil.which("mount") is None or subprocess.run(mount, check=False, capture_output=True).returncode:
        pytest.skip("nothing can be mounted here")
    try:
        spoil(home.root)
        ended = home.billhook("daemon", "start")
        assert ended.returncode == 2 or (spoil is _full and home.status())
        assert ended.returncode == 0 or reported in ended.stderr
    finally:
        home.close()
        subprocess.run(["umount", "-l", home.root], check=True)


# -- ends ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_signal_lets_running_requests_have_their_answers(home: Home, number: int) -> None:
    """It takes no more requests at once, another one may begin, and who waits is answered."""
    file = slowly(home, 1.5)
    first = home.start()
    with home.call() as call:
        numbers_in(file)
        first.send_signal(number)
        eventually(lambda: not (home.folder / control.SOCKET).exists())
        second = home.start()
        assert first.poll() is None
        assert call.reply().denied
    assert first.wait(20) == 0
    assert home.status(second.pid)


def test_long_answer_is_written_to_its_end(home: Home) -> None:
    """An answer that does not fit into the socket is not cut off by the end of the daemon."""
    home.own("hooks:\n  much: {events: UserPromptSubmit, run: \"sleep 0.5; printf '%0900000d' 7\"}\n")
    daemon = home.start()
    with home.call(home.event("UserPromptSubmit", prompt="x")) as call:
        call.began()
        daemon.terminate()
        time.sleep(1.5)
        assert call.reply().stdout.count(b"0") > 500_000
    assert daemon.wait(20) == 0


def test_told_twice_it_ends_without_answers(home: Home) -> None:
    """The second TERM cancels what runs, and nothing of it lives on."""
    file = slowly(home, 50)
    daemon = home.start()
    with home.call() as call:
        (pid,) = numbers_in(file)
        daemon.terminate()
        eventually(lambda: "stopping" in home.log())
        daemon.terminate()
        assert call.reply()[:2] == (True, None)
    assert daemon.wait(20) == 0
    assert not is_alive(pid)


@pytest.mark.slow
def test_no_request_delays_the_end_for_more_than_half_a_minute(home: Home) -> None:
    """A request that takes longer after TERM is cancelled, and its hook ended."""
    file = slowly(home, 500)
    daemon = home.start()
    with home.call() as call:
        (pid,) = numbers_in(file)
        daemon.terminate()
        began = time.monotonic()
        assert call.reply()[:2] == (True, None)
    assert 25 < time.monotonic() - began < 45
    assert daemon.wait(10) == 0
    assert not is_alive(pid)
    assert "1 requests did not finish in time" in home.log()


LATER = "hooks:\n  later: {events: PostToolUse, run: 'echo $$ > %s/pid; %s', background: true, timeout: 60}\n"


@pytest.mark.parametrize("how", ["told", "upgraded"])
def test_hooks_in_the_background_come_to_their_end(home: Home, copied: tuple[Path, dict[str, str]], how: str) -> None:
    """A daemon that leaves lets them, as a process of their own would."""
    home.own(LATER % (home.project, f"sleep 1.5; echo done > {home.project}/done"))
    daemon = home.start(env=home.env(**copied[1]))
    assert home.ask(home.event("PostToolUse", tool_response={})).code == 0
    numbers_in(home.project / "pid")
    if how == "told":
        assert home.billhook("daemon", "stop").returncode == 0
    else:
        os.utime(copied[0] / "__init__.py")
    assert daemon.wait(20) == 0
    assert (home.project / "done").read_text() == "done\n"
    assert "background" not in home.log()


def test_told_twice_it_waits_for_no_hook_in_the_background(home: Home) -> None:
    """They are ended, and the log reports it."""
    home.own(LATER % (home.project, "sleep 50"))
    daemon = home.start()
    home.ask(home.event("PostToolUse", tool_response={}))
    (pid,) = numbers_in(home.project / "pid")
    daemon.terminate()
    eventually(lambda: "stopping" in home.log())
    daemon.terminate()
    assert daemon.wait(20) == 0
    assert not is_alive(pid)
    assert "hooks in the background did not finish in time and are killed" in home.log()


def test_idle_exit(home: Home) -> None:
    """It ends after so long without a request; a request that takes longer is not cancelled."""
    slowly(home, 2.5)
    daemon = home.start("--idle-exit", "1")
    assert home.ask().denied
    assert daemon.poll() is None
    assert daemon.wait(20) == 0
    assert not (home.folder / control.SOCKET).exists()
    assert "no requests for 1 s" in home.log()


GONE: dict[str, Callable[[Home], object]] = {
    "moved": lambda home: home.root.rename(home.root.with_name("moved")),
    "removed": lambda home: shutil.rmtree(home.root),
    "its folder moved": lambda home: home.folder.rename(home.folder.with_name("moved")),
    "its socket removed": lambda home: (home.folder / control.SOCKET).unlink(),
    "its lock removed": lambda home: (home.folder / control.LOCK).unlink(),
}


@pytest.mark.parametrize("change", GONE.values(), ids=GONE.keys())
def test_home_that_is_another_one(home: Home, change: Callable[[Home], object]) -> None:
    """A daemon whose folder is gone ends, and leaves the one alone that has taken its place."""
    first = home.start()
    change(home)
    assert home.billhook("daemon", "start").returncode == 0
    assert first.wait(20) == 0
    assert home.billhook("daemon", "start").returncode == 0
    status = home.status()
    assert status is not None and status.pid != first.pid
    assert home.ask().code == 0


@pytest.fixture
def copied(tmp_path: Path) -> tuple[Path, dict[str, str]]:
    """A billhook of its own, and the variables with which Python finds that one."""
    package = tmp_path / "site" / "billhook"
    shutil.copytree(Path(billhook.__file__).parent, package)
    return package, {"PYTHONPATH": str(package.parent)}


@pytest.mark.parametrize("name", ["__init__.py", "engine/engine.py"])
def test_upgrade(home: Home, copied: tuple[Path, dict[str, str]], name: str) -> None:
    """When billhook's files change, who waits is answered, and new callers are told to answer by themselves."""
    file = slowly(home, 3)
    daemon = home.start(env=home.env(**copied[1]))
    with home.call() as call:
        numbers_in(file)
        time.sleep(1.2 if name != "__init__.py" else 0)  # it has looked at its modules once
        late = control.connect(home.folder, 20)
        changed = copied[0] / name
        changed.rename(changed.with_suffix(".old"))
        changed.write_text(changed.with_suffix(".old").read_text())
        if name != "__init__.py":
            eventually(lambda: "stopping" in home.log())
        late.sendall(protocol.request(billhook.__version__, [], "/", home.env(), b"{}"))
        assert late.recv(1) == b"N"
        late.close()
        assert call.reply().denied
    assert daemon.wait(20) == 0
    assert "changed" in home.log()
    home.own("hooks: {}\n")
    home.start()
    assert home.ask().code == 0


def test_interpreter_that_was_replaced(home: Home, tmp_path: Path) -> None:
    """When its interpreter is another file, it ends."""
    python = tmp_path / "venv" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.symlink_to(os.path.realpath(sys.executable))
    shutil.copy(Path(sys.prefix) / "pyvenv.cfg", tmp_path / "venv")
    (tmp_path / "venv" / "lib").symlink_to(Path(sys.prefix) / "lib")
    daemon = home.start(program=(str(python), "-m", "billhook"))
    python.unlink()
    python.symlink_to("/bin/sh")
    assert daemon.wait(20) == 0
    assert "billhook or its interpreter has changed" in home.log()


@pytest.mark.parametrize("kind", ["c", "portable c"])
def test_client_starts_one(home: Home, tmp_path: Path, kind: str) -> None:
    """`billhook-hook` answers by itself where there is no daemon, or a dead one, and starts another, which answers the
    next call."""
    home.own(f"hooks:\n  who: {{events: PreToolUse, run: 'echo $PPID >> {home.project}/who; exit 2'}}\n")
    program = calling.built(kind, tmp_path)
    (tmp_path / "billhook").symlink_to(Path(sys.executable).with_name("billhook"))

    def ask() -> int:
        stdin = json.dumps(home.event()).encode()
        done = subprocess.run(
            [program, "--deadline", "60000"],
            input=stdin,
            env=home.env(),
            cwd=home.project,
            capture_output=True,
            check=True,
        )
        assert b'"deny"' in done.stdout, done
        return numbers_in(home.project / "who")[-1]

    for _ in range(2):
        alone = ask()
        daemon = eventually(home.status).pid
        assert alone != daemon
        assert ask() == daemon
        os.kill(daemon, signal.SIGKILL)
        eventually(lambda: not is_alive(daemon))  # noqa: B023


def test_another_version_answers_by_itself(home: Home) -> None:
    """A caller of another version is told so before anything began."""
    home.start()
    reply = home.ask(version="9.9.9")
    assert (reply.began, reply.why) == (False, f"this is billhook {billhook.__version__}")


# -- faults ----------------------------------------------------------------------------------------------------------


def test_killed_daemon_takes_its_hooks_along(home: Home) -> None:
    """After kill -9 in the middle of requests callers get no answer, and of the hooks nothing is alive."""
    file = home.project / "pids"
    script = home.file(
        "hook.sh", f"#!/bin/sh\necho $$ >> {file}\nsetsid sleep 77 & echo $! >> {file}\nsleep 77\n", 0o755
    )
    home.file(
        "loops.py",
        f"import os\ndef f(event):\n    open({str(file)!r}, 'a').write(f'{{os.getpid()}}\\n')\n    while True: pass\n",
    )
    home.own(
        f"hooks:\n  slow: {{events: PreToolUse, run: '{script}', timeout: 60}}\n"
        "  loops: {events: PostToolUse, python: 'loops:f', timeout: 60}\n"
    )
    home.approve()
    daemon = home.start()
    calls = [home.call(), home.call()]
    pids = numbers_in(file, 4)
    daemon.kill()
    daemon.wait()
    assert [call.reply()[:2] for call in calls] == [(True, None)] * 2
    eventually(lambda: not any(map(is_alive, pids)), 10)


def test_wedged_daemon(home: Home) -> None:
    """If it is suspended, `start` and `status` report that it does not answer; `stop --force` ends it."""
    daemon = home.start()
    daemon.send_signal(signal.SIGSTOP)
    reported = home.billhook("daemon", "start")
    assert reported.returncode == 2
    assert f"the daemon (process {daemon.pid}) does not answer" in reported.stderr and "--force" in reported.stderr
    status = home.billhook("daemon", "status", "--json")
    assert status.returncode == 1
    assert f'"pid":{daemon.pid}' in status.stdout and '"running":false' in status.stdout
    assert home.billhook("daemon", "stop", "--force").stdout == f"stopped: process {daemon.pid}\n"
    assert daemon.wait(20) == -signal.SIGKILL
    home.start()
    assert home.ask().code == 0


def test_caller_that_goes_away_takes_its_hooks_along(home: Home) -> None:
    """The hooks of a caller that disconnected are ended; others are not disturbed."""
    file = slowly(home, 40)
    daemon = home.start()
    with home.call():
        (pid,) = numbers_in(file)
    eventually(lambda: not is_alive(pid), 10)
    assert home.status(daemon.pid)
    eventually(lambda: home.status().busy == 0)  # type: ignore[union-attr]


def test_what_escapes_is_ended_at_the_deadline(home: Home) -> None:
    """A process that left its hook in every way there is dies with the hook's time, while a warm worker waits."""
    home.file("fine.py", "def f(event):\n    return None\n")
    home.file("hooks.yaml", "hooks:\n  fine: {events: Stop, python: 'fine:f'}\n")
    file = home.project / "pids"
    escape = f'env -i setsid /bin/sh -c "echo \\$\\$ >> {file}; exec sleep 300" >/dev/null 2>&1 </dev/null &'
    script = home.file("escape.sh", f"#!/bin/sh\n({escape})\nsleep 300\n", 0o755)
    home.own(f"hooks:\n  escape: {{events: PreToolUse, run: '{script}', timeout: 1}}\n")
    home.approve()
    daemon = home.start()
    assert home.ask(home.event("Stop", stop_hook_active=False)).code == 0
    assert any("fine" in str(record.get("outcomes")) for record in home.records())
    calls = [home.call(home.event(session_id=f"s{number}")) for number in range(3)]
    assert [call.reply().code for call in calls] == [0] * 3
    pids = numbers_in(file, 3)
    eventually(lambda: not any(map(is_alive, pids)), 10)
    eventually(lambda: len(children_of(daemon.pid)) == 3, 10)  # the worker, and a warm interpreter with a spare


def test_orphans_are_collected_while_idle(home: Home) -> None:
    """A process that a hook left on purpose is no zombie when it ends long after."""
    home.own("hooks:\n  left: {events: PreToolUse, run: 'setsid sleep 2 >/dev/null 2>&1 </dev/null & sleep 0.5'}\n")
    daemon = home.start()
    assert home.ask().code == 0
    assert len(children_of(daemon.pid)) == 1
    eventually(lambda: not children_of(daemon.pid), 10)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be another user")
def test_another_user_gets_nothing() -> None:
    """Neither socket nor log can be reached; and who got through to the socket all the same is not heard."""
    base = Path(tempfile.mkdtemp(prefix="bh-"))
    base.chmod(0o755)
    code = (
        "import os, socket, sys\n"
        "os.setresgid(12345, 12345, 12345); os.setresuid(12345, 12345, 12345)\n"
        "for name in ('s', 'log', 'lock', '.'):\n"
        "    print(name, os.access(os.path.join(sys.argv[1], name), os.R_OK))\n"
        "line = socket.socket(socket.AF_UNIX)\n"
        "try: line.connect(sys.argv[1] + '/s'); line.sendall(bytes.fromhex(sys.argv[2])); print(line.recv(100))\n"
        "except OSError as error: print(type(error).__name__)\n"
    )
    words = [sys.executable, "-ISc", code]
    with home_in(base) as home:
        home.start()
        words += [str(home.folder), protocol.ABOUT.hex()]
        seen = subprocess.run(words, cwd="/", capture_output=True, text=True, check=True, timeout=30).stdout.split()
        assert seen == ["s", "False", "log", "False", "lock", "False", ".", "False", "PermissionError"]
        for path in (home.folder, *home.folder.parents):
            if path.is_relative_to(base):
                path.chmod(0o755)
        (home.folder / control.SOCKET).chmod(0o666)
        seen = subprocess.run(words, cwd="/", capture_output=True, text=True, check=True, timeout=30).stdout.split()
        assert seen[-1] in ("b''", "ConnectionResetError", "BrokenPipeError")
        assert "rejected a caller of another user" in home.log()
    shutil.rmtree(base)


GARBAGE = {
    "nothing": b"",
    "another protocol": b"GET / HTTP/1.1\r\n\r\n",
    "too long": protocol.MAGIC + b"\xff\xff\xff\xff",
    "cut off inside": protocol.MAGIC + b"\0\0\0\x04\0\0\0\xff",
    "more after the end": protocol.request("0", [], "/", {}, b"") + b"x",
    "the question, and more": protocol.ABOUT + b"x",
    "the question, cut off": protocol.ABOUT[:5],
}


def test_garbage_is_refused(home: Home) -> None:
    """Nothing begins, the log has a line without their bytes, and the next caller is served."""
    home.start()
    for data in GARBAGE.values():
        with control.connect(home.folder, 10) as line:
            line.sendall(data)
            line.shutdown(socket.SHUT_WR)
            assert line.recv(100)[:1] in (b"", b"N", b"I")
    assert home.ask().code == 0
    assert "rejected a request" in home.log() and "HTTP" not in home.log()


@pytest.mark.parametrize("size", [1, 2, 3, 4, 7, 8, 9])
def test_requests_in_small_pieces(home: Home, size: int) -> None:
    """However few bytes come at first."""
    home.own("hooks: {no: {events: PreToolUse, deny: never}}\n")
    home.start()
    request = protocol.request(
        billhook.__version__, ["--as", "claude"], "/", home.env(), json.dumps(home.event()).encode()
    )
    for data, begins in ((request, protocol.STARTED), (protocol.ABOUT, b"I")):
        with control.connect(home.folder, 10) as line:
            for piece in filter(None, (data[:size], data[size : 2 * size], data[2 * size :])):
                line.sendall(piece)
                time.sleep(0.02)
            assert line.recv(len(begins)) == begins


# -- its log ---------------------------------------------------------------------------------------------------------


def test_log_has_beginnings_and_ends_and_no_payloads(home: Home) -> None:
    """What callers send is not in it, whatever goes wrong."""
    home.own("hooks:\n  no: {events: PreToolUse, run: 'cat >&2; exit 2'}\n")
    daemon = home.start()
    secret = "hunter2-very-secret"
    home.ask(home.event(tool_input={"command": secret}), env=home.env(TOKEN=secret))
    home.ask(f'{{"broken {secret}'.encode())
    home.ask(home.event(), f"--{secret}")
    daemon.terminate()
    daemon.wait(20)
    text = home.log()
    assert "began: billhook" in text and "ended: signal SIGTERM" in text
    assert secret not in text


def test_log_is_rotated(tmp_path: Path) -> None:
    """Three private files of a megabyte at most."""
    handler = daemon.begin_log(tmp_path)
    assert handler is not None
    try:
        for number in range(26_000):
            daemon.log.info("%d %s", number, "x" * 100)
        daemon.log.error("\udc80 odd", exc_info=ValueError("secret"))
    finally:
        handler.close()
        handler_of = daemon.log.parent
        assert handler_of is not None
        handler_of.removeHandler(handler)
        handler_of.propagate = True
    files = sorted(tmp_path.iterdir())
    assert [file.name for file in files] == ["log", "log.1", "log.2"]
    assert all(file.stat().st_size <= 1_000_000 and file.stat().st_mode & 0o777 == 0o600 for file in files)
    last = files[0].read_text().splitlines()[-2:]
    assert "\\udc80 odd" in last[0] and last[1] == "ValueError"

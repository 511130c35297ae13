"""`billhook-hook` as an agent runs it: its requests, its output, and the path without a daemon.

Every test runs for the client as it is built on Linux, and for the portable one.
"""

import os
import signal
import subprocess
import sys
import time
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

import billhook
from daemon import calling
from daemon.calling import SOURCE, Client, closing
from daemon.fake_daemon import STARTED, WITHOUT_READING, FakeDaemon, answer, frame

EVENT = b'{"hook_event_name":"PreToolUse","tool_name":"Bash","tool_input":{"command":"ls"}}'


@pytest.fixture(scope="session", params=calling.KINDS)
def built(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path]:
    return request.param, calling.built(request.param, tmp_path_factory.mktemp("built"))


@pytest.fixture
def client(built: tuple[str, Path]) -> Iterator[Client]:
    with calling.installed(*built) as one:
        yield one


# -- the usual answer ----------------------------------------------------------------------------------------------

ANSWERS = {
    "nothing": (0, b"", b""),
    "one byte": (0, b"x", b""),
    "a decision": (0, b'{"decision":"block","reason":"no"}\n', b""),
    "a refusal": (2, b"", b"not in this house\n"),
    "both, no newline": (2, b"out", b"err"),
    "every byte": (7, bytes(range(256)), bytes(range(255, -1, -1))),
    "the highest code": (255, b"", b""),
    "just over a read": (0, b"y" * 65537, b""),
    "10 MB": (0, b"0123456789abcde\n" * 655360, b""),
    "10 MB of both": (1, b"o" * 10_000_000, b"e" * 6_000_000),
}


@pytest.mark.parametrize(("code", "out", "err"), ANSWERS.values(), ids=ANSWERS.keys())
def test_answer_is_given_back_as_it_is(client: Client, code: int, out: bytes, err: bytes) -> None:
    """stdout, stderr and the exit code are the daemon's, to the last byte."""
    with FakeDaemon(client.root, [STARTED, answer(code, out, err)]):
        result = client.run(stdin=EVENT)
    assert result[:3] == (code, out, err)
    assert not client.calls("hook") and not client.calls("daemon")


def test_answer_in_small_pieces(client: Client) -> None:
    """An answer may come a byte at a time."""
    whole = STARTED + answer(3, b"out", b"err")
    steps = [step for byte in whole for step in (bytes([byte]), 0.001)]
    with FakeDaemon(client.root, steps):
        assert client.run(stdin=EVENT)[:3] == (3, b"out", b"err")


def test_answer_without_started(client: Client) -> None:
    """A daemon that had nothing to start answers all the same."""
    with FakeDaemon(client.root, [answer(2, b"", b"no such option\n")]):
        assert client.run("--nonsense")[:3] == (2, b"", b"no such option\n")


def test_bytes_after_the_answer_are_not_read(client: Client) -> None:
    """The answer is the last frame."""
    with FakeDaemon(client.root, [STARTED, answer(0, b"yes") + b"S\xff\xff\xff\xffgarbage"]):
        assert client.run()[:3] == (0, b"yes", b"")


# -- what arrives --------------------------------------------------------------------------------------------------

COMMAND_LINES: dict[str, list[str | bytes]] = {
    "none": [],
    "the usual": ["--as", "claude", "--on-failure", "deny", "--deadline", "5000"],
    "with equals signs": ["--as=claw", "--deadline=5000", "--on-failure=allow", "--config=a=b"],
    "an event": ["--as", "claude", "PreToolUse"],
    "odd bytes": [b"\xff\xfe\x01", "ü €", "", " ", "a\nb", "--config", "\\"],
    "values missing": ["--deadline"],
    "no number": ["--deadline", "soon", "--deadline", "-5", "--deadline", ""],
    "as many as are allowed": ["x"] * 64,
}


@pytest.mark.parametrize("words", COMMAND_LINES.values(), ids=COMMAND_LINES.keys())
def test_arguments_arrive(client: Client, words: list[str | bytes]) -> None:
    """Arguments are sent as they are, also those that the client itself reads or does not understand."""
    with FakeDaemon(client.root) as daemon:
        assert client.run(*words).code == 0
    assert daemon.request.arguments == [word if isinstance(word, bytes) else word.encode() for word in words]
    assert daemon.request.version.decode() == billhook.__version__


def test_environment_arrives(client: Client) -> None:
    """Variables arrive byte for byte and in order: empty ones, odd bytes, odd names, large ones."""
    env = {
        **{name.encode(): value.encode() for name, value in client.env.items()},
        b"EMPTY": b"",
        b"ODD": bytes(range(1, 256)),
        b"odd name.\xff-%%": b"=a=b=",
        b"LARGE": b"x" * 100_000,
        b"LC_ALL": b"C",
    }
    with FakeDaemon(client.root) as daemon:
        client.run(env=env)
    assert daemon.request.environment == [name + b"=" + value for name, value in env.items()]


def test_folder_arrives(client: Client) -> None:
    """The working directory is the caller's, with whatever bytes its name has."""
    odd = os.fsencode(client.folder) + b"/\xff odd \n name"
    os.mkdir(odd)
    with FakeDaemon(client.root) as daemon:
        client.run(cwd=odd)
    assert daemon.request.cwd == odd


def test_folder_that_is_gone(client: Client) -> None:
    """A working directory that was deleted is sent as nothing."""
    gone = client.folder / "gone"
    gone.mkdir()
    script = 'cd "$0" && rmdir "$0" && exec "$@"'
    with FakeDaemon(client.root) as daemon:
        words = ["/bin/sh", "-c", script, str(gone), str(client.program)]
        subprocess.run(words, env=client.env, input=b"{}", check=True, timeout=30)
    assert daemon.request.cwd == b""


@pytest.mark.parametrize("size", [0, 1, 65536, 65537, 10_000_000], ids=lambda size: f"{size} bytes")
def test_stdin_arrives(client: Client, size: int) -> None:
    """All of stdin arrives, zero bytes included."""
    data = (bytes(range(256)) * (size // 256 + 1))[:size]
    with FakeDaemon(client.root) as daemon:
        assert client.run(stdin=data).code == 0
    assert daemon.request.stdin == data


def test_stdin_in_pieces(client: Client) -> None:
    """An agent may take its time to write the event."""
    with FakeDaemon(client.root) as daemon:
        process = client.start("--deadline", "20000")
        assert process.stdin is not None
        for piece in (EVENT[:10], EVENT[10:30], EVENT[30:]):
            process.stdin.write(piece)
            process.stdin.flush()
            time.sleep(0.05)
        process.communicate(timeout=30)
    assert daemon.request.stdin == EVENT


LEFT_OPEN = {
    "an event": EVENT,
    "with a newline": EVENT + b"\n",
    "with brackets in a string": b'{"a":"}{[\\"}"}',
    "no JSON, but whole": b"{what is this}",
}


@pytest.mark.parametrize("deadline", [[], ["--deadline", "20000"]], ids=["no deadline", "deadline"])
def test_stdin_that_stays_open(client: Client, deadline: list[str]) -> None:
    """An agent may leave our stdin open after a whole document: half a second of silence, and that was all."""
    for reported in LEFT_OPEN.values() if deadline and client.kind == "c" else (EVENT,):
        with FakeDaemon(client.root, [STARTED, answer(0, b"yes")]) as daemon:
            process = client.start(*deadline)
            assert process.stdin is not None and process.stdout is not None
            process.stdin.write(reported)
            process.stdin.flush()
            assert process.stdout.read() == b"yes" and process.wait(timeout=10) == 0
            process.communicate()
        assert daemon.request.stdin == reported
        (client.root / "billhook" / "daemon" / "s").unlink()


def test_stdin_that_stays_open_without_a_daemon(client: Client) -> None:
    """`billhook hook` does not have to wait a second time: what was read is all of its stdin."""
    process = client.start()
    assert process.stdin is not None and process.stdout is not None
    process.stdin.write(EVENT)
    process.stdin.flush()
    assert process.stdout.read() == b"cold\n"
    process.communicate()
    assert client.cold_call()["input"] == EVENT


def test_stdin_with_a_pause(client: Client) -> None:
    """Half of a document that looks like its end is waited for, also in silence."""
    with FakeDaemon(client.root) as daemon:
        process = client.start()
        assert process.stdin is not None
        for piece in (b'{"a":{}', b',"b":{}}'):
            process.stdin.write(piece)
            process.stdin.flush()
            time.sleep(0.7)
        process.communicate(timeout=30)
    assert daemon.request.stdin == b'{"a":{},"b":{}}'


@pytest.mark.parametrize("what", ["closed", "/dev/null", "a folder"])
def test_stdin_without_anything_to_read(client: Client, what: str) -> None:
    """Without a readable stdin the daemon still gets the request, and reports the problem."""
    fd = os.open(client.folder if what == "a folder" else "/dev/null", os.O_RDONLY)
    with FakeDaemon(client.root, [STARTED, answer(2, b"", b"no event\n")]) as daemon:
        process = client.start(stdin=fd, preexec_fn=closing(0) if what == "closed" else None)
        assert process.communicate(timeout=30) == (b"", b"no event\n")
        assert process.returncode == 2
    os.close(fd)
    assert daemon.request.stdin == b""


# -- where the daemon is -------------------------------------------------------------------------------------------


def test_default_home(client: Client) -> None:
    """Without BILLHOOK_HOME, or with an empty one, the root is `~/.claude`."""
    with FakeDaemon(client.folder / ".claude", [STARTED, answer(0, b"here")]):
        for home in ({"BILLHOOK_HOME": ""}, {}):
            env = {"PATH": client.env["PATH"], "HOME": client.env["HOME"], **home}
            assert client.run(env=env).stdout == b"here"


@pytest.mark.parametrize("home", ["~/root", "root", "./root/", "~"])
def test_home_as_billhook_reads_it(client: Client, home: str) -> None:
    """BILLHOOK_HOME may begin with `~` and may be relative, as for `billhook hook`."""
    root = client.folder if home == "~" else client.root
    with FakeDaemon(root, [STARTED, answer(0, b"here")]):
        assert client.run(env={**client.env, "BILLHOOK_HOME": home}).stdout == b"here"


@pytest.mark.parametrize("length", [*range(100, 116), 300, 3000])
def test_long_root(client: Client, length: int) -> None:
    """A root whose socket's path is longer than an address may be works, and the folder stays what it was."""
    root = os.fspath(client.root)
    while len(root) < length - 200:
        root += "/" + "d" * 100
    root += "/" + "e" * (length - len(root) - 1)
    with FakeDaemon(Path(root), [STARTED, answer(0, b"far")]) as daemon:
        assert client.run(env={**client.env, "BILLHOOK_HOME": root}).stdout == b"far"
    assert daemon.request.cwd == os.fsencode(client.folder)


def test_long_root_and_cold_path(client: Client) -> None:
    """The cold path runs in the caller's folder, also when the client had to go into the daemon's to look for it."""
    root = client.root / ("d" * 200)
    (root / "billhook" / "daemon").mkdir(parents=True, mode=0o700)
    client.run(env={**client.env, "BILLHOOK_HOME": str(root)})
    assert client.cold_call()["cwd"] == str(client.folder)
    assert len(client.daemon_starts(1)) == 1


def unreachable(client: Client, what: str) -> dict[str, str]:
    """Puts a daemon, or none, where no client should talk to it; the environment to run with."""
    folder = client.root / "billhook" / "daemon"
    env = client.env
    if what == "no home":
        return {"PATH": env["PATH"]}
    if what == "home of a stranger":
        return {**env, "BILLHOOK_HOME": "~unknown/x"}
    if what == "longer than any path":
        return {**env, "BILLHOOK_HOME": "/" + "x" * 5000}
    if what == "a file":
        folder.parent.mkdir(parents=True)
        folder.touch(0o600)
    elif what == "no socket":
        folder.mkdir(parents=True, mode=0o700)
    elif what == "a file for a socket":
        folder.mkdir(parents=True, mode=0o700)
        (folder / "s").touch()
    elif what == "stale socket":
        daemon = FakeDaemon(client.root)
        daemon.listener.close()
    return env


PLACES = ["no folder", "a file", "no socket", "a file for a socket", "stale socket"]
NOWHERE = ["no home", "home of a stranger", "longer than any path"]


@pytest.mark.parametrize("what", [*PLACES, *NOWHERE])
def test_no_daemon(client: Client, what: str) -> None:
    """Without a daemon `billhook hook` runs with the same arguments and stdin, and a daemon is started, once."""
    client.tell({"stdout": "out\n", "stderr": "err\n", "code": 2})
    result = client.run("--as", "claude", stdin=EVENT, env=unreachable(client, what))
    assert result[:3] == (2, b"out\n", b"err\n")
    call = client.cold_call()
    assert call["words"] == [b"hook", b"--as", b"claude"] and call["input"] == EVENT
    starts = client.daemon_starts(what in PLACES)
    assert len(starts) == (what in PLACES)


@pytest.mark.parametrize("mode", [0o755, 0o710, 0o701, 0o770])
def test_folder_open_to_others(client: Client, mode: int) -> None:
    """A folder that others may enter or write is not trusted."""
    with FakeDaemon(client.root, mode=mode) as daemon:
        assert client.run().stdout == b"cold\n"
    assert not daemon.requests


def test_folder_that_is_a_link(client: Client) -> None:
    """A link in the place of the folder is not followed."""
    with FakeDaemon(client.root) as daemon:
        (client.folder / "other" / "billhook").mkdir(parents=True)
        (client.folder / "other" / "billhook" / "daemon").symlink_to(client.root / "billhook" / "daemon")
        env = {**client.env, "BILLHOOK_HOME": str(client.folder / "other")}
        assert client.run(env=env).stdout == b"cold\n"
    assert not daemon.requests


# -- the cold path -------------------------------------------------------------------------------------------------


def test_daemon_is_started_detached(client: Client) -> None:
    """The daemon gets a new session, none of the caller's open files, and no process waits for it."""
    read, write = os.pipe()
    client.run(pass_fds=(write,))
    os.close(read)
    os.close(write)
    (start,) = client.daemon_starts(1)
    assert [bytes.fromhex(word) for word in start["arguments"]] == [b"daemon", b"start", b"--quiet"]
    assert start["session"] not in (os.getsid(0), client.cold_call()["session"])
    assert start["stdin"] == start["stdout"] == "/dev/null"
    assert write not in start["descriptors"]


@pytest.mark.parametrize("value", ["1", "no"])
def test_no_daemon_wanted(client: Client, value: str) -> None:
    """With BILLHOOK_NO_DAEMON none is started; one that runs is used."""
    env = {**client.env, "BILLHOOK_NO_DAEMON": value}
    assert client.run(env=env).stdout == b"cold\n"
    with FakeDaemon(client.root, [STARTED, answer(0, b"warm")]):
        assert client.run(env=env).stdout == b"warm"
    time.sleep(0.2)
    assert not client.calls("daemon")


@pytest.mark.parametrize("reason", [b"version differs", b"", b"x" * 100_000], ids=["words", "no words", "many words"])
def test_refused(client: Client, reason: bytes) -> None:
    """A daemon that does not want the call is not started again; the cold path answers."""
    with FakeDaemon(client.root, [frame(b"N", reason)]) as daemon:
        assert client.run("--as", "claude", stdin=EVENT)[:3] == (0, b"cold\n", b"")
    assert daemon.request.stdin == client.cold_call()["input"] == EVENT
    time.sleep(0.2)
    assert not client.calls("daemon")


def test_refused_while_sending(client: Client) -> None:
    """A refusal is heard, too, when the daemon hangs up in the middle of a large request."""
    data = b"x" * 10_000_000
    with FakeDaemon(client.root, [WITHOUT_READING, frame(b"N", b"too much")]):
        assert client.run(stdin=data).stdout == b"cold\n"
    assert client.cold_call()["input"] == data
    time.sleep(0.2)
    assert not client.calls("daemon")


@pytest.mark.parametrize("deadline", [[], ["--deadline", "20000"]], ids=["no deadline", "deadline"])
def test_cold_path_sees_the_caller(client: Client, deadline: list[str]) -> None:
    """`billhook hook` gets the caller's arguments, folder, environment and all of stdin."""
    env = {**client.env, "ODD": "\udcff\udcfe ü", "EMPTY": ""}
    data = os.urandom(3_000_000)
    words: list[str | bytes] = ["--config", b"\xff", "", "--as=claude", *deadline]
    client.run(*words, env=env, stdin=data)
    call = client.cold_call()
    assert call["words"] == [b"hook", b"--config", b"\xff", b"", b"--as=claude", *(w.encode() for w in deadline)]
    assert call["input"] == data and call["cwd"] == str(client.folder)
    seen = {bytes.fromhex(name): bytes.fromhex(value) for name, value in call["environment"].items()}
    assert {name: seen.get(os.fsencode(name)) for name in env} == {n: os.fsencode(v) for n, v in env.items()}


@pytest.mark.parametrize("much", ["arguments", "variables", "stdin"])
def test_more_than_the_daemon_takes(client: Client, much: str) -> None:
    """A request that is too large for the daemon takes the cold path, complete; the daemon is not called."""
    words = ["x"] * (65 if much == "arguments" else 1)
    env = {**client.env, **{f"V{i}": "" for i in range(8192 if much == "variables" else 1)}}
    data = b"0123456789abcdef" * ((64 << 16) + 3 if much == "stdin" else 1)
    with FakeDaemon(client.root) as daemon:
        assert client.run(*words, env=env, stdin=data).stdout == b"cold\n"
    assert not daemon.requests and not daemon.broken
    assert client.cold_call()["input"] == data
    assert len(client.cold_call()["arguments"]) == len(words) + 1


def test_billhook_from_path(client: Client) -> None:
    """Where no `billhook` is beside the client, the one on PATH is run."""
    elsewhere = client.folder / "elsewhere"
    client.bin.rename(elsewhere)
    client.bin.mkdir()
    (elsewhere / "billhook-hook").rename(client.program)
    env = {**client.env, "PATH": f"/nowhere:{elsewhere}:/usr/bin"}
    assert client.run(env=env, stdin=EVENT).stdout == b"cold\n"
    client.bin = elsewhere
    assert client.cold_call()["input"] == EVENT
    assert len(client.daemon_starts(1)) == 1


def test_through_a_link(client: Client) -> None:
    """A link to the client finds the `billhook` beside the real one."""
    link = client.folder / "link"
    link.symlink_to("bin/billhook-hook")
    client.program = link
    assert client.run().stdout == b"cold\n"
    assert len(client.daemon_starts(1)) == 1


@pytest.mark.parametrize("deadline", [[], ["--deadline", "20000"]], ids=["no deadline", "deadline"])
def test_no_billhook_at_all(client: Client, deadline: list[str]) -> None:
    """Without any `billhook` there is the failure answer."""
    (client.bin / "billhook").unlink()
    result = client.run("--as", "codex", *deadline, stdin=EVENT)
    assert result[:3] == (2, b"", b"billhook: cannot start billhook hook\n")


@pytest.mark.parametrize("words", [["--help"], ["-h"], ["--as", "claude", "--help"], ["PreToolUse", "-h"]])
def test_help_does_not_wait(client: Client, words: list[str]) -> None:
    """Help is shown by `billhook hook` at once, at any position: it needs no event, and starts no daemon."""
    (client.bin / "billhook").write_text("#!/bin/sh\necho usage $*\n")
    process = client.start(*words)
    assert process.wait(timeout=30) == 0
    assert process.communicate()[0].decode() == f"usage hook {' '.join(words)}\n"


DEAF = "hooks: {deaf: {events: PreToolUse, run: \"trap '' TERM; touch began; sleep 60; : TAG\", timeout: 30}}\n"


def with_a_deaf_hook(client: Client) -> tuple[str, dict[str, str]]:
    """The real `billhook`, and a hook that ignores TERM: what it is known by, and the environment."""
    tag = f"billhook-test-{os.getpid()}-{time.monotonic_ns()}"
    (client.bin / "billhook").write_text(f"#!{sys.executable}\nfrom billhook.cli.main import main\nmain()\n")
    (client.folder / "own.yaml").write_text(DEAF.replace("TAG", tag))
    return tag, {**client.env, "BILLHOOK_NO_DAEMON": "1"}


def gone(tag: str) -> bool:
    """Whether nothing runs any more that has the tag in its command line; it may take a moment."""
    until = time.monotonic() + 3
    while True:
        lines = [path.read_bytes() for path in Path("/proc").glob("[0-9]*/cmdline") if path.exists()]
        if not any(tag.encode() in line for line in lines) or time.monotonic() > until:
            return not any(tag.encode() in line for line in lines)
        time.sleep(0.02)


def test_cold_path_with_a_hook_that_ignores_term(client: Client) -> None:
    """The client ends it at the deadline; there is one answer, and it is in time."""
    tag, env = with_a_deaf_hook(client)
    result = client.run("--config", "own.yaml", "--deadline", "2500", stdin=EVENT, env=env)
    assert gone(tag)
    if result.code == 0:
        assert (client.folder / "began").exists()
        assert b'{"systemMessage":' in result.stdout and b"hook `deaf` timed out" in result.stderr
    else:  # on a very busy machine
        assert (result.code, result.stderr) == (2, b"billhook: no answer within 2500 ms\n")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL], ids=lambda number: number.name)
def test_signal_in_the_cold_path_with_a_hook_that_ignores_it(client: Client, number: int) -> None:
    """The end of the client, even by SIGKILL, ends its hooks."""
    tag, env = with_a_deaf_hook(client)
    process = client.start("--config", "own.yaml", "--deadline", "20000", env=env)
    assert process.stdin is not None
    process.stdin.write(EVENT)
    process.stdin.close()
    process.stdin = None
    until = time.monotonic() + 20
    while not (client.folder / "began").exists() and time.monotonic() < until:
        time.sleep(0.01)
    process.send_signal(number)
    out, err = process.communicate(timeout=10)
    assert gone(tag)
    if number == signal.SIGTERM:
        assert b'"permissionDecision":"deny"' in out  # the guard has not judged the call
        assert err == b"billhook: ended by signal 15 before there was a verdict\n"


# -- the package ---------------------------------------------------------------------------------------------------


def test_one_version() -> None:
    """The package and the project name the same version: the daemon compares it with the client's."""
    project = tomllib.loads((SOURCE.parents[3] / "pyproject.toml").read_text())["project"]["version"]
    assert project == billhook.__version__

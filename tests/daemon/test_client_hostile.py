"""`billhook-hook` when things go wrong: peers that break off or lie, deadlines, signals, closed descriptors.

It never hangs beyond its deadline, never runs a hook a second time, and its own answer is in the dialect's words.
"""

import os
import random
import resource
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from daemon import calling, fake_daemon
from daemon.calling import Client, closing, ignoring, is_alive
from daemon.fake_daemon import HANG, STARTED, WITHOUT_READING, FakeDaemon, Step, answer, frame
from daemon.fuzz_client import fuzz

pytestmark = pytest.mark.slow

EVENT = b'{"hook_event_name":"PreToolUse","tool_name":"Bash","tool_input":{"command":"ls"}}'
BROKE = b"billhook: the daemon closed the connection before it answered; hooks may have run\n"
PASSES = b"billhook: the event continues without being checked\n"


TRAPS = ("-fsanitize=undefined", "-fsanitize-undefined-trap-on-error")


@pytest.fixture(scope="session", params=calling.KINDS)
def built(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path]:
    return request.param, calling.built(request.param, tmp_path_factory.mktemp("built"))


@pytest.fixture
def client(built: tuple[str, Path]) -> Iterator[Client]:
    with calling.installed(*built) as one:
        yield one


def close_stdin(process: "subprocess.Popen[bytes]") -> None:
    assert process.stdin is not None
    process.stdin.close()
    process.stdin = None


def finish(process: "subprocess.Popen[bytes]") -> None:
    """It has ended: nothing of it stays open."""
    for pipe in (process.stdin, process.stdout, process.stderr):
        if pipe is not None:
            pipe.close()
    process.wait(timeout=10)


def is_listening(pid: int) -> bool:
    """Whether the process already handles signals; SIGHUP is the last of them."""
    status = Path(f"/proc/{pid}/status").read_text()
    return bool(int(status.split("SigCgt:")[1].split()[0], 16) >> (signal.SIGHUP - 1) & 1)


# -- a peer that breaks off or lies --------------------------------------------------------------------------------

BEFORE_STARTED: dict[str, list[Step]] = {
    "a close without a word": [b""],
    "a close without reading": [WITHOUT_READING],
    "garbage": [b"HTTP/1.1 400 Bad Request\r\n\r\n"],
    "a zero byte": [b"\0" * 100],
    "a small s": [b"s\0\0\0\0"],
    "half of a refusal": [b"N\0\0"],
    "a refusal of 4 GB": [b"N\xff\xff\xff\xff"],
}


@pytest.mark.parametrize("steps", BEFORE_STARTED.values(), ids=BEFORE_STARTED.keys())
def test_broken_before_it_started(client: Client, steps: list[Step]) -> None:
    """Until the daemon reports that it started, the cold path answers, and a new daemon is started."""
    with FakeDaemon(client.root, steps):
        assert client.run("--as", "claude", stdin=EVENT)[:3] == (0, b"cold\n", b"")
    assert client.cold_call()["input"] == EVENT
    assert len(client.daemon_starts(1)) == 1


AFTER_STARTED: dict[str, list[Step]] = {
    "a close": [STARTED],
    "a close in the frame": [b"S\0\0"],
    "only the kind": [b"S"],
    "started with a body": [b"S\0\0\0\1x", answer(0, b"yes")],
    "started twice": [STARTED, STARTED, answer(0, b"yes")],
    "a refusal": [STARTED, frame(b"N", b"sorry")],
    "garbage": [STARTED, b"garbage"],
    "an unknown frame": [STARTED, frame(b"B", b"x"), answer(0, b"yes")],
    "half of an answer": [STARTED, answer(0, b"yes, go on")[:-7]],
    "half of an answer without a start": [answer(0, b"yes, go on")[:-7]],
    "the kind of an answer": [b"A"],
    "an answer of 4 GB": [STARTED, b"A\xff\xff\xff\xff", b"x" * 1000],
    "an answer of one byte too much": [STARTED, b"A\x01\x00\x00\x0a", b"\0" * 1000],
    "an empty answer": [STARTED, frame(b"A")],
    "an answer too short for its lengths": [STARTED, frame(b"A", b"\0" * 8)],
    "stdout longer than its frame": [STARTED, frame(b"A", b"\0\0\0\0\x05abcd\0\0\0\0")],
    "stdout of 4 GB": [STARTED, frame(b"A", b"\0\xff\xff\xff\xffabcd\0\0\0\0")],
    "stdout over the second length": [STARTED, frame(b"A", b"\0\0\0\0\x02ab\0\0")],
    "stderr longer than its frame": [STARTED, frame(b"A", b"\0\0\0\0\x01a\0\0\0\x03b")],
    "stderr shorter than its frame": [STARTED, frame(b"A", b"\0\0\0\0\x01a\0\0\0\x01bc")],
    "a reset": [WITHOUT_READING, STARTED],
}


@pytest.mark.parametrize("steps", AFTER_STARTED.values(), ids=AFTER_STARTED.keys())
def test_broken_after_it_started(client: Client, steps: list[Step]) -> None:
    """From the first byte of the news that it started, hooks may have run: the failure answer, never the cold path."""
    with FakeDaemon(client.root, steps):
        assert client.run("--as", "codex", stdin=EVENT)[:3] == (2, b"", BROKE)
    time.sleep(0.05)
    assert not client.calls("hook") and not client.calls("daemon")


def test_largest_answer(client: Client) -> None:
    """16 MiB in both texts is the most that an answer may have."""
    with FakeDaemon(client.root, [STARTED, answer(0, b"o" * (16 << 20))]):
        assert client.run().stdout == b"o" * (16 << 20)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can serve as another user")
def test_daemon_of_another_user(client: Client) -> None:
    """A reply of another uid is not trusted, and it does not get the event."""
    words = [sys.executable, fake_daemon.__file__, str(client.root), "65534"]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout is not None and other.stdout.readline() == b"ready\n"
        assert client.run(stdin=EVENT)[:3] == (0, b"cold\n", b"")
        other.communicate(timeout=10)
    assert client.cold_call()["input"] == EVENT


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder away")
def test_folder_of_another_user(client: Client) -> None:
    """A folder that belongs to another uid is not looked into."""
    with FakeDaemon(client.root) as daemon:
        os.chown(client.root / "billhook" / "daemon", 65534, 65534)
        assert client.run().stdout == b"cold\n"
    assert not daemon.requests


# -- the deadline --------------------------------------------------------------------------------------------------

LATE = b"billhook: no answer within 300 ms\n"


def in_time(client: Client, *words: str, stdin: bytes = EVENT) -> None:
    """A call that the deadline ends."""
    result = client.run("--as", "codex", "--deadline", "300", *words, stdin=stdin)
    assert result[:3] == (2, b"", LATE)
    assert 0.25 < result.seconds < 5


WEDGED: dict[str, list[Step]] = {
    "in the news": [b"S\0\0", HANG],
    "after it started": [STARTED, HANG],
    "in the answer": [STARTED, answer(0, b"yes")[:-4], HANG],
}


@pytest.mark.parametrize("steps", WEDGED.values(), ids=WEDGED.keys())
def test_wedged_daemon(client: Client, steps: list[Step]) -> None:
    """A daemon that falls silent after it began costs the deadline and no more; nothing is run a second time."""
    with FakeDaemon(client.root, steps):
        in_time(client, stdin=EVENT + b" " * 5_000_000)
    assert not client.calls("hook") and not client.calls("daemon")


def test_wedged_daemon_and_no_deadline(built: tuple[str, Path], tmp_path: Path) -> None:
    """Without a deadline one that began is waited for ten minutes; here it is less."""
    kind, _ = built
    program = calling.compile_client(tmp_path / "billhook-hook", "-DANSWER_MS=400", *calling.C[kind])
    with calling.installed(kind, program) as client, FakeDaemon(client.root, [STARTED, HANG]):
        result = client.run("--as", "codex", stdin=EVENT)
    assert result[:3] == (2, b"", b"billhook: no answer within 400 ms\n")
    assert result.seconds < 10


NOT_BEGUN: dict[str, list[Step]] = {
    "before it reads": [WITHOUT_READING, HANG],
    "before it started": [HANG],
}


@pytest.mark.parametrize("steps", NOT_BEGUN.values(), ids=NOT_BEGUN.keys())
def test_wedged_daemon_that_has_not_begun(client: Client, steps: list[Step]) -> None:
    """One that does not even begin is left alone after half of the time, and the cold path answers."""
    data = EVENT + b" " * 5_000_000
    with FakeDaemon(client.root, steps):
        result = client.run("--deadline", "3000", stdin=data)
    assert result[:3] == (0, b"cold\n", b"")
    assert 1.3 < result.seconds < 3
    assert client.cold_call()["input"] == data
    assert not client.calls("daemon")


@pytest.mark.parametrize("deadline", [[], ["--deadline", "2000"]], ids=["no deadline", "deadline"])
def test_daemon_that_begins_after_the_client_has_given_up(client: Client, deadline: list[str]) -> None:
    """The client does not wait for a suspended daemon; when it resumes, it can't report its start, so nothing runs."""
    listener = FakeDaemon(client.root).listener
    assert client.run(*deadline, stdin=EVENT)[:3] == (0, b"cold\n", b"")
    line, _ = listener.accept()
    assert fake_daemon.read_request(line).stdin == EVENT
    with pytest.raises(BrokenPipeError):
        line.send(STARTED)
    line.close()
    listener.close()


def test_daemon_that_accepts_no_connection(client: Client) -> None:
    """With a full queue of connections the client waits for its turn, half of its time; then the cold path answers."""
    daemon = FakeDaemon(client.root, backlog=0)
    waiting = []
    while True:
        line = socket.socket(socket.AF_UNIX)
        line.setblocking(False)
        waiting.append(line)
        try:
            line.connect(str(client.root / "billhook" / "daemon" / "s"))
        except BlockingIOError:
            break
    result = client.run("--deadline", "2000", env={**client.env, "BILLHOOK_NO_DAEMON": "1"})
    assert result[:3] == (0, b"cold\n", b"") and result.seconds > 0.9
    for line in waiting:
        line.close()
    with daemon:
        assert client.run("--deadline", "20000").code == 0


def left_open(client: Client, stdin: bytes, *words: str) -> "subprocess.Popen[bytes]":
    """A client whose stdin stays open."""
    process = client.start("--as", "codex", *words)
    assert process.stdin is not None
    process.stdin.write(stdin)
    process.stdin.flush()
    return process


def test_half_of_an_event_and_then_nothing(client: Client) -> None:
    """An agent that never sends the end still gets its answer; the event's name is in what it sent."""
    for event, code in ((b'{"hook_event_name":"PreToolUse",', 2), (b'{"hook_event_name":"Stop","a":{}', 0)):
        process = left_open(client, event, "--deadline", "900")
        assert process.stderr is not None
        assert process.wait(timeout=10) == code
        assert process.stderr.read() == LATE.replace(b"300", b"900") + (b"" if code else PASSES)
        finish(process)


@pytest.mark.parametrize("deaf", [False, True], ids=["that ends when asked", "that does not end"])
def test_cold_path_that_hangs(client: Client, deaf: bool) -> None:
    """The deadline holds in the cold path, too: `billhook hook` is ended, with its group."""
    client.tell({"asleep": 60, "deaf": deaf})
    words = ["--as", "codex", "--deadline", "1500"]
    result = client.run(*words, stdin=EVENT, env={**client.env, "BILLHOOK_NO_DAEMON": "1"})
    assert result[:3] == (2, b"", b"billhook: no answer within 1500 ms\n")
    assert result.seconds < 10
    call = client.cold_call()
    assert call["group"] == call["pid"]
    until = time.monotonic() + 5
    while is_alive(call["pid"]) and time.monotonic() < until:
        time.sleep(0.01)
    assert not is_alive(call["pid"])


def test_cold_path_that_answers_when_asked_to_end(client: Client) -> None:
    """`billhook hook` knows its hooks: what it answers when the time is over is the answer."""
    script = "#!/bin/sh\ntrap 'echo in my own words >&2; exit 2' TERM\nsleep 60 & wait\n"
    (client.bin / "billhook").write_text(script)
    result = client.run("--deadline", "1500", env={**client.env, "BILLHOOK_NO_DAEMON": "1"})
    assert result[:3] == (2, b"", b"in my own words\n")


@pytest.mark.parametrize("code", [0, 2])
def test_cold_path_within_the_deadline(client: Client, code: int) -> None:
    """In time the answer of the cold path is given as it is."""
    client.tell({"stdout": "out", "stderr": "err", "code": code})
    assert client.run("--deadline", "20000", stdin=EVENT)[:3] == (code, b"out", b"err")


FAULTS = {
    "a crash of Python": ({"code": 1, "stderr": "Traceback\n"}, "claude", 2),
    "the same in lesson, where 1 denies": ({"code": 1, "stderr": "no\n"}, "lesson", 1),
    "a signal": ({"signal": 9}, "claude", 2),
    "not to be executed": ({"code": 126}, "claude", 2),
    "passing after a signal": ({"code": 143}, "claude", 2),
}


@pytest.mark.parametrize(("told", "name", "code"), FAULTS.values(), ids=FAULTS.keys())
def test_cold_path_that_breaks(client: Client, told: dict[str, object], name: str, code: int) -> None:
    """A code that `billhook hook` never uses is a failure: an agent would allow the call."""
    client.tell({"stdout": "", **told})
    result = client.run("--as", name, "--deadline", "20000", stdin=EVENT)
    assert result.code == code
    assert result.stderr.endswith(b"billhook: billhook hook exited unexpectedly\n") == (name == "claude")


DEADLINES = ["0", "", "-1", "soon", "99999999999999999999999", "1e9", "0x10", "20000", "00020000"]


@pytest.mark.parametrize("deadline", DEADLINES)
def test_strange_deadlines(client: Client, deadline: str) -> None:
    """An invalid deadline, or one of years, is passed on: billhook reports the error."""
    with FakeDaemon(client.root, [STARTED, answer(0, b"yes")]) as daemon:
        assert client.run("--deadline", deadline)[:3] == (0, b"yes", b"")
    assert daemon.request.arguments == [b"--deadline", deadline.encode()]


# -- the failure answer --------------------------------------------------------------------------------------------


def failing(client: Client, *words: str, stdin: bytes = EVENT, **env: str) -> tuple[int, bytes, bytes]:
    """A call whose daemon broke off: how it ended, with the reason as `WHY`."""
    with FakeDaemon(client.root, [STARTED]):
        code, out, err, _ = client.run(*words, stdin=stdin, env={**client.env, **env})
    (client.root / "billhook" / "daemon" / "s").unlink()
    why = BROKE.strip()
    return code, out.replace(why, b"WHY"), err.replace(why, b"WHY")


STOP, TOOL = (0, b"", b"WHY\n" + PASSES), (2, b"", b"WHY\n")
NAMES: dict[str, tuple[bytes, list[str], dict[str, str], tuple[int, bytes, bytes]]] = {
    "in the JSON": (b'{"hook_event_name":"Stop"}', [], {}, STOP),
    "with spaces": (b' {\n "a" : [1, {"b": 2}] ,\t"hook_event_name" :\r\n "Stop" }', [], {}, STOP),
    "after a BOM": (b'\xef\xbb\xbf{"hook_event_name":"Stop"}', [], {}, STOP),
    "in a tool's input": (b'{"tool_input":{"hook_event_name":"Stop"},"hook_event_name":"PreToolUse"}', [], {}, TOOL),
    "only in a tool's input": (b'{"tool_input":{"hook_event_name":"Stop"}}', [], {}, TOOL),
    "in a list": (b'[{"hook_event_name":"Stop"}]', [], {}, TOOL),
    "in a string": (b'{"a":"\\"hook_event_name\\":\\"Stop\\"","hook_event_name":"PreToolUse"}', [], {}, TOOL),
    "as a value": (b'{"a":"hook_event_name","b":"Stop","hook_event_name":"PreToolUse"}', [], {}, TOOL),
    "behind an escape": (b'{"a":"\\\\","hook_event_name":"Stop"}', [], {}, STOP),
    "after brackets in a string": (b'{"a":"}}]]{[","hook_event_name":"Stop"}', [], {}, STOP),
    "the first of two": (b'{"hook_event_name":"PreToolUse","hook_event_name":"Stop"}', [], {}, TOOL),
    "behind the end": (b'{} {"hook_event_name":"Stop"}', [], {}, TOOL),
    "cut off": (b'{"hook_event_name":"Sto', [], {}, TOOL),
    "no text": (b'{"hook_event_name":["Stop"]}', [], {}, TOOL),
    "with a space at its end": (b'{"hook_event_name":"Stop "}', [], {}, TOOL),
    "empty, then the argument": (b'{"hook_event_name":""}', ["Stop"], {}, STOP),
    "no text, then the argument": (b'{"hook_event_name":7}', ["Stop"], {}, STOP),
    "an argument": (b"{}", ["Stop"], {}, STOP),
    "an argument in other letters": (b"not JSON", ["subagent_stop"], {}, STOP),
    "the JSON before an argument": (EVENT, ["Stop"], {}, TOOL),
    "an argument before the variable": (b"", ["PreToolUse"], {"HOOK_EVENT": "Stop"}, TOOL),
    "the variable": (b"", [], {"HOOK_EVENT": "Stop"}, STOP),
    "no argument but the value of an option": (b"", ["--config", "Stop"], {}, TOOL),
    "the first of two arguments": (b"", ["Stop", "PreToolUse"], {}, STOP),
    "nowhere": (b"", [], {}, TOOL),
    "longer than any": (b'{"hook_event_name":"' + b"Stop" * 1000 + b'"}', [], {}, TOOL),
    "deeper than any": (b"[" * 1_000_000, ["Stop"], {}, STOP),
    "closed before it was opened": (b'}}}}{"hook_event_name":"Stop"}', [], {}, TOOL),
    "a backslash at the end": (b'{"hook_event_name":"Stop\\', [], {}, TOOL),
}


@pytest.mark.parametrize(("stdin", "words", "env", "expected"), NAMES.values(), ids=NAMES.keys())
def test_where_the_event_is_named(
    client: Client, stdin: bytes, words: list[str], env: dict[str, str], expected: tuple[int, bytes, bytes]
) -> None:
    """The event's name is that of the JSON's top level, else the argument's, else the variable's."""
    assert failing(client, "--as", "codex", *words, stdin=stdin, **env) == expected


# -- descriptors and signals ---------------------------------------------------------------------------------------

GONE = b"billhook: the answer could not be written to stdout\n"


@pytest.mark.parametrize("size", [10, 1_000_000])
def test_stdout_without_a_reader(client: Client, size: int) -> None:
    """An answer that can't be written may have been a refusal: the exit code refuses."""
    read, write = os.pipe()
    os.close(read)
    with FakeDaemon(client.root, [STARTED, answer(0, b"x" * size, b"more")]):
        result = client.run("--as", "claude", stdin=EVENT, stdout=write)
    os.close(write)
    assert (result.code, result.stderr) == (2, GONE)


def test_stdout_that_is_closed(client: Client) -> None:
    """Without any stdout nothing is written into something else that has its number."""
    for steps, expected in (([STARTED, answer(0, b"yes")], (2, GONE)), ([STARTED, answer(0, b"", b"e")], (0, b"e"))):
        with FakeDaemon(client.root, steps) as daemon:
            result = client.run(stdin=EVENT, stdout=None, preexec_fn=closing(1))
        assert (result.code, result.stderr) == expected
        assert not daemon.broken
        (client.root / "billhook" / "daemon" / "s").unlink()


def test_everything_closed(client: Client) -> None:
    """Without stdin, stdout and stderr the exit code still has the result."""
    how = {"stdin": None, "stdout": None, "stderr": None, "preexec_fn": closing(0, 1, 2)}
    with FakeDaemon(client.root, [STARTED, answer(0, b"yes", b"more")]) as daemon:
        assert client.start("--as", "claude", **how).wait(timeout=30) == 2
    assert daemon.request.stdin == b""
    (client.root / "billhook" / "daemon" / "s").unlink()
    assert client.start("--as", "claude", **how).wait(timeout=30) == 2
    assert client.cold_call()["input"] == b""


def test_stderr_without_a_reader(client: Client) -> None:
    """A reason that can't be written does not undo the refusal."""
    read, write = os.pipe()
    os.close(read)
    with FakeDaemon(client.root, [STARTED, answer(2, b"", b"no" * 100_000)]):
        assert client.run("--as", "claude", stdin=EVENT, stderr=write)[:2] == (2, b"")
    os.close(write)


def test_reader_that_does_not_read(client: Client) -> None:
    """An agent that does not read our stdout can't make us hang."""
    with FakeDaemon(client.root, [STARTED, answer(0, b"x" * 1_000_000)]):
        process = client.start("--deadline", "300")
        assert process.stdin is not None and process.stderr is not None
        process.stdin.close()
        assert process.wait(timeout=10) == 2
        assert process.stderr.read() == LATE
    finish(process)


ENDING = [
    *(signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2, signal.SIGXCPU),
    *(signal.SIGVTALRM, signal.SIGPROF, signal.SIGIO),
]


@pytest.mark.parametrize("number", ENDING, ids=lambda number: number.name)
@pytest.mark.parametrize("where", ["stdin", "before it started", "after it started"])
def test_signal(client: Client, number: int, where: str) -> None:
    """A signal ends the waiting with the failure answer, wherever that is."""
    steps: list[Step] = [HANG] if where == "before it started" else [STARTED, HANG]
    with FakeDaemon(client.root, steps) as daemon:
        process = client.start("--as", "claude")
        assert process.stdin is not None and process.stderr is not None
        if where != "stdin":
            process.stdin.close()
        while not (daemon.requests if where != "stdin" else is_listening(process.pid)):
            time.sleep(0.01)
        process.send_signal(number)
        assert process.wait(timeout=10) == 2
        expected = f"billhook: ended by signal {int(number)} before there was a verdict\n"
        assert process.stderr.read() == expected.encode()
        finish(process)
    assert not client.calls("hook")


def test_signal_that_is_ignored(client: Client) -> None:
    """Signals that the caller ignores stay ignored, as with `nohup`."""
    with FakeDaemon(client.root, [STARTED, 0.6, answer(0, b"yes")]) as daemon:
        process = client.start(preexec_fn=ignoring(signal.SIGHUP))
        close_stdin(process)
        while not daemon.requests:
            time.sleep(0.01)
        process.send_signal(signal.SIGHUP)
        assert process.communicate(timeout=10)[0] == b"yes"


@pytest.mark.parametrize("deadline", [[], ["--deadline", "20000"]], ids=["no deadline", "deadline"])
def test_signal_in_the_cold_path(client: Client, deadline: list[str]) -> None:
    """`billhook hook` hears the signal and is gone; without a word from it the client answers."""
    client.tell({"asleep": 60})
    process = client.start("--as", "claude", *deadline, env={**client.env, "BILLHOOK_NO_DAEMON": "1"})
    close_stdin(process)
    while not client.calls("hook"):
        time.sleep(0.01)
    process.send_signal(signal.SIGTERM)
    _, err = process.communicate(timeout=10)
    assert process.returncode == 2
    assert b"ended by signal 15" in err
    assert not is_alive(client.cold_call()["pid"])


LIMITS: dict[str, tuple[int, int, int]] = {
    "no file may grow": (resource.RLIMIT_FSIZE, 0, 1),
    "files of 1 KiB": (resource.RLIMIT_FSIZE, 1024, 200_000),
    "files of 1 MiB": (resource.RLIMIT_FSIZE, 1 << 20, 3_000_000),
    "little memory": (resource.RLIMIT_AS, 120 << 20, 60_000_000),
    "no descriptor": (resource.RLIMIT_NOFILE, 3, 10),
    "few descriptors": (resource.RLIMIT_NOFILE, 5, 10),
    "no process": (resource.RLIMIT_NPROC, 0, 10),
    "a small stack": (resource.RLIMIT_STACK, 128 << 10, 200_000),
    "a second of a processor": (resource.RLIMIT_CPU, 1, 10),
}


@pytest.mark.parametrize(("limit", "value", "size"), LIMITS.values(), ids=LIMITS.keys())
@pytest.mark.parametrize("deadline", [[], ["--deadline", "20000"]], ids=["no deadline", "deadline"])
def test_limits(client: Client, limit: int, value: int, size: int, deadline: list[str]) -> None:
    """Whatever runs out, there is an answer: that of `billhook hook`, or a refusal."""
    if client.kind == "sanitized c" and limit == resource.RLIMIT_AS:
        pytest.skip("the sanitizer needs more than that")
    stdin = b'{"hook_event_name": "PreToolUse", "tool_input": "%s"}' % (b"x" * size)
    found = client.run("--as", "claude", *deadline, stdin=stdin, preexec_fn=limited(limit, value))
    assert found.code == 2 or (found.code, found.stdout) == (0, b"cold\n"), found


def limited(limit: int, value: int) -> Any:
    """For `preexec_fn`: no more than that in the child."""
    return lambda: resource.setrlimit(limit, (value, value))


def test_stdout_in_a_file_that_may_not_grow(client: Client, tmp_path: Path) -> None:
    """The exit code refuses."""
    with open(tmp_path / "out", "wb") as out:
        client.tell({"code": 2})
        found = client.run("--as", "claude", stdout=out, preexec_fn=limited(resource.RLIMIT_FSIZE, 0))
    assert found.code == 2


def test_caller_that_ignores_the_end_of_its_children(client: Client) -> None:
    """How `billhook hook` ended is known also where SIGCHLD was ignored."""
    client.tell({"code": 2})
    assert client.run("--deadline", "20000", preexec_fn=ignoring(signal.SIGCHLD)).code == 2


def test_client_that_is_killed(client: Client) -> None:
    """When an agent kills the client, `billhook hook` does not stay behind: the client asks for it before Python has
    started."""
    if client.kind == "portable c":
        pytest.skip("there `billhook hook` has to ask for it itself")
    client.tell({"asleep": 60})
    process = client.start("--deadline", "20000", env={**client.env, "BILLHOOK_NO_DAEMON": "1"})
    close_stdin(process)
    while not client.calls("hook"):
        time.sleep(0.01)
    process.kill()
    process.communicate()
    until = time.monotonic() + 5
    while is_alive(client.cold_call()["pid"]) and time.monotonic() < until:
        time.sleep(0.01)
    assert not is_alive(client.cold_call()["pid"])


# -- malformed replies and odd command lines -----------------------------------------------------------------------


def test_malformed_replies(built: tuple[str, Path]) -> None:
    """For any reply, the result is the one of the protocol."""
    kind, program = built
    fuzz(program, 500 if kind == "c" else 100, seed=random.randrange(2**32))


@pytest.mark.slow
@pytest.mark.skipif(not calling.COMPILER, reason="there is no compiler")
@pytest.mark.parametrize("options", [calling.C["sanitized c"], (*calling.C["c"], *TRAPS)], ids=["library", "alone"])
def test_malformed_replies_sanitized(options: tuple[str, ...], tmp_path: Path) -> None:
    """Ten thousand malformed replies and odd command lines: no byte is read or written that is not ours."""
    program = calling.compile_client(tmp_path / "billhook-hook", *options)
    fuzz(program, 10_000, seed=random.randrange(2**32))

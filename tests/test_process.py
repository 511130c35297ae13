"""Commands that behave badly in every way we know, run for real."""

import asyncio
import fcntl
import os
import pty
import random
import resource
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from billhook.core.answers import Exit
from billhook.runners import process, process_tree, process_windows, spawn
from billhook.runners.process import run, shell_argv, start
from billhook.runners.process_tree import settle

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
ENV = {"PATH": os.environ["PATH"]}


def sh(command: str, *, stdin: bytes = b"", seconds: float = 20, cwd: str | bytes | Path | None = None) -> Exit:
    return asyncio.run(run(shell_argv(command), stdin=stdin, env=ENV, cwd=cwd, seconds=seconds))


def timed(call: Callable[[], Exit]) -> tuple[Exit, float]:
    begin = time.monotonic()
    return call(), time.monotonic() - begin


@pytest.fixture
def tag() -> Iterator[str]:
    """A number of seconds to sleep that no other test uses; what still sleeps so long afterwards is killed."""
    name = str(random.randrange(10**8, 10**9))
    yield name
    for pid in living(name):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def living(tag: str) -> list[int]:
    """Processes with the tag in their command line; zombies have none."""
    found = []
    for name in os.listdir("/proc"):
        if name.isdigit():
            with suppress(OSError):
                if tag.encode() in Path(f"/proc/{name}/cmdline").read_bytes():
                    found.append(int(name))
    return found


def gone(tag: str, seconds: float = 3) -> bool:
    end = time.monotonic() + seconds
    while living(tag) and time.monotonic() < end:
        time.sleep(0.05)
    return not living(tag)


PRELUDE = """
import asyncio, os, signal, subprocess, sys, threading, time
from billhook.runners import process_tree as tree
from billhook.runners.process import *
ENV = {'PATH': os.environ['PATH']}
def sh(command, seconds=10, stdin=b'', cwd=None):
    return asyncio.run(run(('/bin/sh', '-c', command), stdin=stdin, env=ENV, seconds=seconds, cwd=cwd))
"""


def python(code: str, *arguments: str, stdin: bytes = b"", session: bool = False) -> str:
    """Run code in a fresh interpreter, warnings as errors, and return what it printed."""
    argv = [sys.executable, "-W", "error", "-c", PRELUDE + code, *arguments]
    done = subprocess.run(argv, input=stdin, capture_output=True, timeout=60, check=False, start_new_session=session)
    assert not done.stderr, done.stderr.decode()
    return done.stdout.decode()


# How it ends


@pytest.mark.parametrize("code", [0, 1, 2, 3, 126, 127, 128, 255])
def test_exit_code(code: int) -> None:
    """The exit code is the child's."""
    assert sh(f"exit {code}") == Exit(code=code)


@pytest.mark.parametrize("name", ["HUP", "INT", "TERM", "KILL", "SEGV", "USR1"])
def test_signal(name: str) -> None:
    """An end by a signal is reported as that signal."""
    ended = sh(f"ulimit -c 0; kill -{name} $$")
    assert (ended.code, ended.signal) == (None, getattr(signal, f"SIG{name}"))


def test_streams() -> None:
    """The payload arrives on stdin; stdout and stderr are returned separately, as bytes."""
    ended = sh("cat; printf 'err\\377' >&2; exit 2", stdin=b"in\x00\xff")
    assert ended == Exit(code=2, stdout=b"in\x00\xff", stderr=b"err\xff")


@pytest.mark.parametrize("size", [0, 1, 65_535, 65_536, 65_537, 131_072, 1 << 20, (1 << 20) + 1, 10_000_000])
def test_payload_arrives_whole(size: int) -> None:
    """A payload of any size is read to its end."""
    payload = random.Random(size).randbytes(size)
    digest = subprocess.run(["sha256sum"], input=payload, capture_output=True, check=True).stdout
    assert sh("sha256sum", stdin=payload).stdout == digest


@pytest.mark.slow
def test_payload_of_50_mb_arrives_whole() -> None:
    """Fifty megabytes arrive too."""
    assert sh("wc -c", stdin=b"x" * 50_000_000).stdout.strip() == b"50000000"


@pytest.mark.parametrize("size", [1000, 100_000, 10_000_000])
def test_unread_payload(size: int) -> None:
    """A child that never reads its stdin, or closes it, ends as it likes."""
    assert sh("exit 2", stdin=b"x" * size).code == 2
    assert sh("exec <&-; sleep 0.1; exit 2", stdin=b"x" * size).code == 2


def test_stdin_is_never_ours() -> None:
    """Without a payload the child reads the end at once, whatever our own stdin is."""
    code = "print(sh('cat').stdout)"
    assert python(code, stdin=b"ours") == "b''\n"


def test_working_directory(tmp_path: Path) -> None:
    """A directory may have any bytes in its name, and be given as text, bytes or path."""
    folder = os.fsencode(tmp_path) + b"/caf\xe9 -n"
    os.mkdir(folder)
    for cwd in (folder, os.fsdecode(folder), Path(os.fsdecode(folder))):
        assert sh("pwd -P", cwd=cwd).stdout == os.path.realpath(folder) + b"\n"


def test_relative_command_is_found_in_the_directory(tmp_path: Path) -> None:
    """A relative path counts from the directory the command starts in."""
    (tmp_path / "hook").write_text("#!/bin/sh\nexit 3\n")
    (tmp_path / "hook").chmod(0o755)
    assert asyncio.run(run(["./hook"], stdin=b"", env=ENV, cwd=tmp_path, seconds=10)).code == 3


# Start errors


def script(folder: Path, name: str, text: bytes, mode: int = 0o755) -> str:
    path = folder / name
    path.write_bytes(text)
    path.chmod(mode)
    return str(path)


@pytest.fixture(params=["here", "elsewhere", "signals ignored"])
def attempt(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Callable[..., str]]:
    """Start something that can't be started, in each of the three ways there are; the error."""
    before = signal.getsignal(signal.SIGUSR2)
    if request.param == "signals ignored":
        signal.signal(signal.SIGUSR2, signal.SIG_IGN)
    here = None if request.param == "here" else tmp_path

    def call(*argv: str, env: dict[str, str] = ENV, cwd: Path | str | None = here) -> str:
        ended = asyncio.run(run(argv, stdin=b"x", env=env, cwd=cwd, seconds=10))
        assert ended == Exit(start_error=ended.start_error)
        return ended.start_error

    yield call
    signal.signal(signal.SIGUSR2, before)


def test_start_errors(attempt: Callable[..., str], tmp_path: Path) -> None:
    """Each reason not to start is named, with its errno and what to do."""
    assert attempt("billhook-no-such").startswith("ENOENT: `billhook-no-such` was not found in PATH")
    assert attempt("/no/such").startswith("ENOENT: `/no/such` does not exist")
    assert "chmod +x" in attempt(script(tmp_path, "plain", b"#!/bin/sh\n", 0o644)) or os.geteuid() == 0
    assert attempt(script(tmp_path, "plain2", b"#!/bin/sh\n", 0o600)).startswith("EACCES:")
    assert attempt(str(tmp_path)).startswith("EACCES:") and "is a directory" in attempt(str(tmp_path))
    missing = attempt(script(tmp_path, "missing", b"#!/no/interpreter -x\n"))
    assert missing.startswith("ENOENT:") and "`/no/interpreter`" in missing
    assert "CRLF" in attempt(script(tmp_path, "crlf", b"#!/bin/sh\r\nexit 0\r\n"))
    assert attempt(script(tmp_path, "empty", b"")).startswith("ENOEXEC:")
    assert attempt(script(tmp_path, "no-shebang", b"exit 0\n")).startswith("ENOEXEC:")
    assert attempt("/bin/sh", "-c", "x" * 200_000).startswith("E2BIG:")
    assert attempt("/bin/true", env={**ENV, "BIG": "x" * 200_000}).startswith("E2BIG:")
    (tmp_path / "dangling").symlink_to("/no/such")
    assert "link to a missing file" in attempt(str(tmp_path / "dangling"))
    assert attempt().startswith("EINVAL:")


def test_bad_characters_are_start_errors(attempt: Callable[..., str]) -> None:
    """NUL and lone surrogates, which Python refuses before any process exists, are reported like other reasons."""
    assert attempt("/bin/echo", "a\0b").startswith("EINVAL:")
    assert attempt("/bin/echo", "\ud800").startswith("EINVAL:")
    assert attempt("a\0b").startswith("EINVAL:")
    assert attempt("\ud800").startswith("EINVAL:")
    assert attempt("/bin/echo", env={**ENV, "A": "a\0b"}).startswith("EINVAL:")
    assert attempt("/bin/echo", env={**ENV, "A": "\ud800"}).startswith("EINVAL:")
    assert attempt("/bin/echo", env={**ENV, "A=B": "c"}).startswith("EINVAL:")
    assert attempt("/bin/echo", cwd="a\0b").startswith("EINVAL:")
    assert attempt("/bin/echo", cwd="\ud800").startswith("EINVAL:")


def test_bad_directories_are_start_errors(attempt: Callable[..., str], tmp_path: Path) -> None:
    """A working directory that is gone, a file or closed to us is named as such."""
    (tmp_path / "file").touch()
    (tmp_path / "closed").mkdir(mode=0)
    assert attempt("/bin/true", cwd=tmp_path / "gone").startswith("ENOENT: the working directory")
    assert attempt("/bin/true", cwd=tmp_path / "file").startswith("ENOTDIR: the working directory")
    if os.geteuid() != 0:
        assert attempt("/bin/true", cwd=tmp_path / "closed").startswith("EACCES: the working directory")


@pytest.mark.parametrize("mode", [(), ("adopt",)], ids=["library", "adopting orphans"])
def test_too_many_open_files(mode: tuple[str, ...]) -> None:
    """Without a free descriptor the command is not started, and no descriptor or process is lost."""
    code = """
import resource
if sys.argv[1:]:
    adopt_orphans()
async def main():
    before = len(os.listdir('/proc/self/fd'))
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    seen = set()
    for limit in range(before, before + 14):
        resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))
        ended = await run(('/bin/true',), stdin=b'', env=ENV, seconds=10)
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        seen.add(ended.start_error.partition(':')[0] or ended.code)
        assert len(os.listdir('/proc/self/fd')) == before, limit
    print(seen)
asyncio.run(main())
"""
    assert python(code, *mode) in ("{0, 'EMFILE'}\n", "{'EMFILE', 0}\n")


def test_descriptors_beyond_the_limit(tmp_path: Path) -> None:
    """A descriptor that was inherited from a time with a higher limit does not stop a command, nor reach it."""
    code = """
import resource
high = os.dup2(1, 100)
resource.setrlimit(resource.RLIMIT_NOFILE, (40, 40))
for cwd in (None, sys.argv[1]):
    print(sh('ls /proc/self/fd', cwd=cwd).stdout.split())
signal.signal(signal.SIGHUP, signal.SIG_IGN)
print(sh('exit 3', cwd=sys.argv[1]).code)
"""
    assert python(code, str(tmp_path)) == f"{[b'0', b'1', b'2', b'3']}\n" * 2 + "3\n"


# The exit status decides


@pytest.mark.parametrize("code", [0, 2])
def test_background_child_that_holds_stdout(code: int, tag: str) -> None:
    """A background child that holds stdout can't turn an exit 2 into a timeout, and does not outlive it."""
    ended, took = timed(lambda: sh(f"sleep {tag} & echo printed; exit {code}"))
    assert ended == Exit(code=code, stdout=b"printed\n")
    assert took < 1.5
    assert settle(5)
    assert gone(tag)


def test_escapee_that_holds_stdout(tag: str) -> None:
    """A process in another session that keeps stdout open is found by its marker."""
    ended, took = timed(lambda: sh(f"setsid sleep {tag} & sleep 0.1; exit 2"))
    assert ended.code == 2 and took < 2
    assert settle(5)
    assert gone(tag)


def test_helper_that_still_flushes() -> None:
    """What a helper writes just after the exit is still read."""
    assert sh("(sleep 0.02; echo late) & exit 0").stdout == b"late\n"


def test_quiet_leftovers_die(tag: str) -> None:
    """A leftover of the group that closed its output dies as well, also when it ignores TERM."""
    ended = sh(f"(trap '' TERM; sleep {tag}; sleep {tag}) >/dev/null 2>&1 & exit 0")
    assert ended.code == 0
    assert settle(5)
    assert gone(tag)


def test_daemon_is_spared(tag: str) -> None:
    """A process that left the group and closed the output is a daemon on purpose."""
    assert sh(f"setsid sleep {tag} </dev/null >/dev/null 2>&1 & sleep 0.1; exit 0").code == 0
    assert settle(5)
    time.sleep(0.7)
    assert living(tag)


def test_flooding_background_child(tag: str) -> None:
    """A background child that floods stdout after the exit delays it no more than a silent one."""
    ended, took = timed(lambda: sh(f"(while :; do echo {tag}; done) & exit 2"))
    assert ended.code == 2 and took < 2
    assert settle(5)
    assert gone(tag)


# The deadline

HANGING = {
    "ignores TERM": "trap '' TERM; while :; do sleep {tag}; done",
    "stopped": "sleep {tag} & kill -STOP $$; sleep {tag}",
    "escapee": "setsid sleep {tag} & sleep {tag}",
    "daemon": "(setsid sh -c 'trap \"\" TERM; sleep {tag} & sleep {tag}' &) ; sleep {tag}",
    "flooder": ": {tag}; exec yes",
    "never reads": "sleep {tag}",
    "trickler": ": {tag}; while :; do echo x; sleep 0.01; done",
    "respawner": "trap '' TERM; f() {{ sh -c 'sleep 0.01; : {tag}' & wait; f; }}; f",
    "50 children": "for i in $(seq 50); do sleep {tag} & done; wait",
    "sub-shell": "(sleep {tag}; echo never)",
}


@pytest.mark.parametrize("kind", HANGING)
def test_hanging(kind: str, tag: str) -> None:
    """Whatever a command hangs in, it is over soon after its deadline, and so is its tree."""
    payload = b"x" * 10_000_000 if kind == "never reads" else b""
    ended, took = timed(lambda: sh(HANGING[kind].format(tag=tag), stdin=payload, seconds=0.3))
    assert (ended.timed_out, ended.code, ended.signal) == (True, None, None)
    assert took < 3
    assert gone(tag, 1)


def test_what_was_printed_before_the_deadline_is_kept(tag: str) -> None:
    """A timeout keeps the output so far."""
    ended = sh(f"echo out; echo err >&2; sleep {tag}", seconds=0.5)
    assert ended == Exit(timed_out=True, stdout=b"out\n", stderr=b"err\n")


def test_orderly_end_in_the_grace(tag: str) -> None:
    """A command may clean up when TERM comes; it has timed out nevertheless."""
    ended, took = timed(lambda: sh(f"trap 'echo bye; exit 0' TERM; sleep {tag} & wait", seconds=0.3))
    assert ended == Exit(timed_out=True, stdout=b"bye\n")
    assert took < 2


def test_result_does_not_wait_for_the_kill(tag: str) -> None:
    """The caller has a deadline, too: the result of a command that ignores TERM is there before it is killed."""
    body = f"trap '' TERM; echo so far; sleep {tag}; sleep {tag}"
    ended, took = timed(lambda: sh(body, seconds=0.2))
    assert ended == Exit(timed_out=True, stdout=b"so far\n")
    assert took < 0.2 + process_tree.GRACE or living(tag), "it waited, and was not even slow"
    assert settle(5) and gone(tag, 0.2)


def test_settling_may_be_urgent(tag: str) -> None:
    """Without a grace period, processes that are still alive get KILL at once."""
    assert sh(f"trap '' TERM; sleep {tag}; sleep {tag}", seconds=0.1).timed_out
    assert settle(5, grace=0) and not living(tag)


def test_orphans_of_one_that_ignores_term(tag: str) -> None:
    """What a command leaves while it is killed behind our back is still its own, also without a marker."""
    stray = f"trap '' TERM; sleep 0.35; (setsid env -i sh -c 'sleep {tag}; :' &); sleep {tag}"
    code = "adopt_orphans(); print(sh(sys.argv[1], 0.1).timed_out, settle())"
    assert python(code, stray) == "True True\n"
    assert not living(tag)


def test_two_hundred_children(tag: str) -> None:
    """A tree of two hundred that ignores TERM is gone."""
    ended, took = timed(lambda: sh(f"trap '' TERM; for i in $(seq 200); do sleep {tag} & done; wait", seconds=1))
    assert ended.timed_out and took < 6
    assert gone(tag, 2)


def test_forking_escapees(tag: str) -> None:
    """Processes that keep forking into new sessions are found and ended."""
    body = f"trap '' TERM; f() {{ setsid sh -c 'sleep 0.05; : {tag}' & sleep 0.01; f; }}; f"
    assert sh(body, seconds=0.5).timed_out
    assert gone(tag, 10)


def test_time_is_up_at_once(tag: str) -> None:
    """`wait(0)` ends a command now."""
    child = start(shell_argv(f"sleep {tag}"), stdin=b"", env=ENV)
    ended = asyncio.run(child.wait(0))
    assert ended and ended.timed_out
    assert gone(tag, 1)


def test_second_wait_repeats_the_result() -> None:
    """`wait` can be called again for the same `Exit`."""
    child = start(shell_argv("exit 2"), stdin=b"", env=ENV)
    first = asyncio.run(child.wait(10))
    assert first == asyncio.run(child.wait(10)) == Exit(code=2)


@pytest.mark.slow
def test_five_hundred_hanging_hooks() -> None:
    """Five hundred hanging commands of ten kinds, four at once: in time, and nothing alive one second later."""
    seconds, late = 0.5, []
    name = str(random.randrange(10**8, 10**9))

    async def one(kind: str, gate: asyncio.Semaphore) -> None:
        async with gate:
            payload = b"x" * 10_000_000 if kind == "never reads" else b""
            child = start(shell_argv(HANGING[kind].format(tag=name)), stdin=payload, env=ENV)
            begin = time.monotonic()
            ended = await child.wait(seconds)
            late.append(time.monotonic() - begin - seconds)
            assert ended and ended.timed_out, kind

    async def main() -> None:
        gate = asyncio.Semaphore(4)
        await asyncio.gather(*(one(kind, gate) for kind in list(HANGING) * 50))

    asyncio.run(main())
    assert gone(name, 1)
    assert sorted(late)[494] <= 1.0, sorted(late)[-10:]
    assert max(late) <= 2.5


def test_many_deadlines_at_once(tag: str) -> None:
    """Thirty-two commands that reach their deadline together are all dealt with soon."""

    async def main() -> list[float]:
        async def one(kind: str) -> float:
            child = start(shell_argv(HANGING[kind].format(tag=tag)), stdin=b"", env=ENV)
            begin = time.monotonic()
            ended = await child.wait(1)
            assert ended and ended.timed_out
            return time.monotonic() - begin - 1

        return await asyncio.gather(*(one(kind) for kind in (list(HANGING) * 4)[:32]))

    assert max(asyncio.run(main())) < 10
    assert gone(tag, 1)


# Cancelling


def cancelled(tag: str, *delays: float) -> float:
    async def main() -> float:
        task = asyncio.create_task(
            run(
                shell_argv(f"trap '' TERM; setsid sleep {tag} & sleep {tag}; sleep {tag}"),
                stdin=b"",
                env=ENV,
                seconds=60,
            )
        )
        begin = 0.0
        for delay in delays:
            await asyncio.sleep(delay)
            begin = begin or time.monotonic()
            task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return time.monotonic() - begin

    return asyncio.run(main())


def test_cancelling_kills_the_tree(tag: str) -> None:
    """Cancelling the waiting task kills the tree, and then raises."""
    assert cancelled(tag, 0.3) < 3
    assert gone(tag, 1)


def test_cancelling_twice_kills_at_once(tag: str) -> None:
    """A second cancel in the grace leaves nothing alive either."""
    cancelled(tag, 0.3, 0.1)
    assert not living(tag) or gone(tag, 0.2)


def test_broken_until_kills_the_tree(tag: str) -> None:
    """An `until` that raises ends the command and reaches the caller."""

    def until(_: bytes) -> bool:
        raise KeyError("broken")

    with pytest.raises(KeyError):
        asyncio.run(start(shell_argv(f"echo x; sleep {tag}"), stdin=b"", env=ENV).wait(10, until=until))
    assert gone(tag, 1)


def test_a_wait_that_is_thrown_away_kills_the_tree(tag: str) -> None:
    """A coroutine that is closed instead of cancelled leaves nothing alive either."""

    async def main() -> None:
        wait = start(shell_argv(f"trap '' TERM; sleep {tag}; sleep {tag}"), stdin=b"", env=ENV).wait(60)
        wait.send(None)
        wait.close()

    asyncio.run(main())
    assert gone(tag, 1)


# Until


def test_until_then_another_loop_in_another_thread() -> None:
    """A command that went into the background is collected by another loop of another thread."""
    child = start(shell_argv("echo '{\"async\": true}'; sleep 0.3; cat; exit 3"), stdin=b"x" * 100_000, env=ENV)
    seen: list[bytes] = []

    def until(stdout: bytes) -> bool:
        seen.append(stdout)
        return stdout.endswith(b"}\n")

    assert asyncio.run(child.wait(10, until=until)) is None
    assert seen[-1] == b'{"async": true}\n'
    results: list[Exit | None] = []
    thread = threading.Thread(target=lambda: results.append(asyncio.run(child.wait(10))))
    thread.start()
    thread.join()
    assert results == [Exit(code=3, stdout=b'{"async": true}\n' + b"x" * 100_000)]


def test_until_that_is_never_satisfied() -> None:
    """Without a yes the wait ends with the command."""
    child = start(shell_argv("echo a; echo b; exit 1"), stdin=b"", env=ENV)
    assert asyncio.run(child.wait(10, until=lambda _: False)) == Exit(code=1, stdout=b"a\nb\n")


def test_background_command_meets_its_deadline(tag: str) -> None:
    """The later wait has a deadline too."""
    child = start(shell_argv(f"echo go; sleep {tag}"), stdin=b"", env=ENV)
    assert asyncio.run(child.wait(10, until=lambda out: b"go" in out)) is None
    assert asyncio.run(child.wait(0.2)) == Exit(timed_out=True, stdout=b"go\n")
    assert gone(tag, 1)


# Output


def test_output_is_capped() -> None:
    """A hundred megabytes grow memory by no more than 16, and keep the exit code and the first bytes."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    ended = sh("echo first; head -c 100000000 /dev/zero; echo first >&2; head -c 1000000 /dev/zero >&2; exit 2")
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 16 * 1024
    assert (ended.code, ended.truncated) == (2, True)
    assert (len(ended.stdout), len(ended.stderr)) == (1 << 20, 1 << 16)
    assert ended.stdout.startswith(b"first\n\0") and ended.stderr.startswith(b"first\n\0")


def test_exactly_the_cap_is_not_truncated() -> None:
    """Output as long as the cap is whole."""
    ended = sh("head -c 1048576 /dev/zero; head -c 65536 /dev/zero >&2")
    assert (len(ended.stdout), len(ended.stderr), ended.truncated) == (1 << 20, 1 << 16, False)


# The host


def test_signals_are_reset(tmp_path: Path) -> None:
    """A child inherits neither ignored nor blocked signals, from either way of starting."""
    code = f"""
for n in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGUSR1):
    signal.signal(n, signal.SIG_IGN)
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR2, signal.SIGALRM])
for cwd in (None, {str(tmp_path)!r}):
    out = sh("exec grep -E 'Sig(Blk|Ign)' /proc/self/status", cwd=cwd)
    blocked, ignored = (int(word, 16) for word in out.stdout.split()[1::2])
    print(blocked, ignored & ~(3 << 31))  # 32 and 33 belong to the C library
"""
    assert python(code) == "0 0\n" * 2


def test_sigpipe_is_reset() -> None:
    """A writer whose reader is gone dies quietly, as in a shell."""
    assert sh("yes | head -1").stdout == b"y\n"


def test_host_that_ignores_sigchld() -> None:
    """When the system throws the exit status away, it is lost and not 0."""
    code = """
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
for cwd in (None, '/'):
    for seconds in (10, 0.2):
        print(sh('echo x; exit 2' if seconds == 10 else 'sleep 30', seconds, cwd=cwd))
"""
    lost, late = repr(Exit(lost=True, stdout=b"x\n")), repr(Exit(timed_out=True))
    assert python(code) == f"{lost}\n{late}\n" * 2


def test_host_that_collects_every_child(tag: str) -> None:
    """When another thread of the host collects our child, the status is lost and not 0; leftovers die nevertheless."""
    code = """
def collect():
    while True:
        try:
            os.waitpid(-1, 0)
        except ChildProcessError:
            time.sleep(0.001)
threading.Thread(target=collect, daemon=True).start()
for _ in range(10):
    ended = sh(f'sleep {sys.argv[1]} >/dev/null 2>&1 & exit 2')
    assert ended.lost != (ended.code == 2) and ended.code != 0, ended
print(settle(5))
"""
    assert python(code, tag) == "True\n"
    assert gone(tag)


def test_no_process_wide_setting_changes() -> None:
    """A run leaves signal handlers, the mask, umask, children and threads of the host alone."""
    code = """
def state():
    os.umask(mask := os.umask(0))
    handlers = [signal.getsignal(n) for n in signal.valid_signals()]
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, ())
    return handlers, mask, blocked, threading.active_count(), os.listdir('/proc/self/fd')
other = subprocess.Popen(['sh', '-c', 'exit 7'])
before = state()
for command in ('exit 0', 'sleep 30'):
    sh(command, 0.2, stdin=b'x' * 2_000_000)
settle()  # on a busy machine even the obedient take their time
print(before == state(), other.wait())
"""
    assert python(code) == "True 7\n"


def test_closed_standard_streams() -> None:
    """A host that closed descriptors 0 to 2 gets the same."""
    code = """
keep = os.dup(1)
os.closerange(0, 3)
text = []
for cwd in (None, '/'):
    for size in (10, 100_000):
        ended = sh('cat; echo err >&2; exit 3', stdin=b'x' * size, cwd=cwd)
        text.append((ended.code, len(ended.stdout), ended.stderr))
os.write(keep, repr(text).encode())
os._exit(0)
"""
    once = "(3, 10, b'err\\n'), (3, 100000, b'err\\n')"
    assert python(code) == f"[{once}, {once}]"


@pytest.mark.skipif(sys.platform != "linux", reason="other systems list the descriptors each time")
def test_what_a_child_would_inherit_is_found_whatever_changed() -> None:
    """A flag that changed, a new descriptor, and as many descriptors as before, but another one."""
    read, write = os.pipe()
    before = spawn._inheritable()
    assert write not in before and spawn._inheritable() == before
    os.set_inheritable(write, True)
    assert set(spawn._inheritable()) == {*before, write}
    other = fcntl.fcntl(write, fcntl.F_DUPFD, 200)
    os.close(write)
    assert set(spawn._inheritable()) == {*before, other}
    os.close(other)
    os.close(read)
    assert set(spawn._inheritable()) == set(before)


def test_descriptors_do_not_leak(tmp_path: Path) -> None:
    """A child has its three streams and nothing of ours, even what the host made inheritable."""
    fd = os.open(tmp_path, os.O_RDONLY)
    os.set_inheritable(fd, True)
    try:
        for cwd in (None, tmp_path):
            listing = sh("exec ls /proc/self/fd", cwd=cwd).stdout.split()
            assert listing == [b"0", b"1", b"2", b"3"]  # 3 is the listing itself
    finally:
        os.close(fd)


def test_nothing_is_lost_over_many_runs() -> None:
    """Descriptors, threads and children are as many after fifty runs as before."""

    def state() -> tuple[int, int]:
        return len(os.listdir("/proc/self/fd")), threading.active_count()

    async def main() -> None:
        await run(("/bin/true",), stdin=b"", env=ENV, seconds=10)
        before = state()
        for _ in range(50):
            await run(("/bin/true",), stdin=b"x" * 100, env=ENV, seconds=10)
            await run(("/no/such",), stdin=b"x" * 2_000_000, env=ENV, seconds=10)
        assert state() == before

    def ended() -> set[int]:
        return {p.pid for p in process_tree.processes() if p.parent == os.getpid() and not p.alive}

    others = ended()  # of other tests in this process
    asyncio.run(main())
    assert ended() <= others


def test_own_process_group() -> None:
    """`kill 0` in a command reaches the command alone."""
    assert sh("kill -TERM 0; sleep 5").signal == signal.SIGTERM


def test_own_session_only_with_a_terminal() -> None:
    """With a controlling terminal the command has a separate session; else only a group."""
    code = """
ended = sh('exec cat /proc/self/stat')
pid, session = (int(ended.stdout.split()[n]) for n in (0, 5))
print(session == pid, session == os.getsid(0))
"""
    assert python(code, session=True) == "False True\n"
    pid, terminal = pty.fork()
    if pid == 0:
        os.execv(sys.executable, [sys.executable, "-c", PRELUDE + code])
    output = b""
    with suppress(OSError):
        while chunk := os.read(terminal, 1000):
            output += chunk
    os.close(terminal)
    os.waitpid(pid, 0)
    assert output == b"True False\r\n"


@pytest.mark.parametrize("cwd", [None, "/"])
def test_thirty_two_threads(cwd: str | None) -> None:
    """Thirty-two threads with separate loops each get their own bytes."""
    failures: list[object] = []

    def work(number: int) -> None:
        async def main() -> None:
            for turn in range(5):
                payload = f"{number}-{turn};".encode() * 5000
                ended = await run(shell_argv("cat; exit 2"), stdin=payload, env=ENV, cwd=cwd, seconds=60)
                if ended != Exit(code=2, stdout=payload):
                    failures.append(ended)

        asyncio.run(main())

    threads = [threading.Thread(target=work, args=(number,)) for number in range(32)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


def test_without_pidfd(monkeypatch: pytest.MonkeyPatch, tag: str) -> None:
    """Without a pidfd a thread notices the exit; everything else is the same."""

    def refuse(pid: int) -> int:
        raise OSError(38, "Function not implemented")

    monkeypatch.setattr(os, "pidfd_open", refuse)
    assert sh("cat; exit 2", stdin=b"x").stdout == b"x"
    assert sh(f"sleep {tag}", seconds=0.2).timed_out
    assert sh("kill -9 $$").signal == 9
    assert gone(tag, 1)


# Orphans


def test_adopted_orphans_are_killed_and_reaped(tag: str) -> None:
    """A process that adopts orphans kills even those that lost the marker, and keeps no zombies."""
    stray = f"""env -i sh -c "(setsid sh -c 'sleep {tag} & exit') & exit"; setsid sleep {tag} & sleep {tag}"""
    code = """
adopt_orphans()
other = subprocess.Popen(['sleep', '60'])
time.sleep(0.05)
def strangers():
    return [p for p in tree.processes() if p.parent == os.getpid() and p.pid != other.pid]
assert sh(sys.argv[1], 0.5).timed_out
assert not [p for p in strangers() if p.alive], strangers()
sh("(setsid sh -c '(sleep 0.1; exit) & exit' >/dev/null 2>&1 </dev/null &)")
for _ in range(3):
    time.sleep(0.2)
    sh('exit 0')
print(strangers(), other.poll())
other.kill(); other.wait()
"""
    assert python(code, stray) == "[] None\n"
    assert gone(tag, 1)


ESCAPES = ["(setsid env -i sleep {tag} &); sleep 30", "setsid -f env -i sleep {tag}; sleep 30"]


@pytest.mark.parametrize("escape", ESCAPES)
def test_orphans_that_lead_a_session_are_killed(escape: str, tag: str) -> None:
    """A process that adopts orphans also kills a session leader without a marker."""
    assert python("adopt_orphans(); print(sh(sys.argv[1], 0.4).timed_out)", escape.format(tag=tag)) == "True\n"
    assert not living(tag)


@pytest.mark.parametrize(
    ("other", "meanwhile"),
    [
        pytest.param("sleep 1.2; echo done", "b'done'", id="another command ends later"),
        pytest.param("sleep 30", "b''", id="another command is ended later"),
    ],
)
def test_orphans_in_doubt_die_with_the_last_that_may_own_them(other: str, meanwhile: str, tag: str) -> None:
    """While another command runs that may have left it, an orphan without a marker is spared; then it dies."""
    code = """
adopt_orphans()
def start_run(command, seconds):
    return run(('/bin/sh', '-c', command), stdin=b'', env=ENV, seconds=seconds)
async def main():
    other = asyncio.create_task(start_run(sys.argv[2], 1.5))
    await asyncio.sleep(0.05)
    first = await start_run(sys.argv[1], 0.3)
    await asyncio.sleep(0.3)  # on a busy machine even the obedient take their time
    spared = [p for p in tree.processes() if p.parent == os.getpid() and p.alive]
    print(first.timed_out, len(spared), (await other).stdout.strip())
asyncio.run(main())
print(settle(), [p for p in tree.processes() if p.parent == os.getpid() and p.alive])
"""
    assert python(code, ESCAPES[0].format(tag=tag), other) == f"True 2 {meanwhile}\nTrue []\n"
    assert not living(tag)


def test_settling_kills_orphans_in_doubt(tag: str) -> None:
    """Nothing that a deadline should have killed outlives the process that settles before it exits."""
    code = """
adopt_orphans()
other = start(('/bin/sh', '-c', 'sleep 30'), stdin=b'', env=ENV)
time.sleep(0.05)
print(sh(sys.argv[1], 0.3).timed_out, settle())
print(asyncio.run(other.wait(0)).timed_out)
"""
    assert python(code, ESCAPES[0].format(tag=tag)) == "True True\nTrue\n"
    assert not living(tag)


def test_commands_that_start_meanwhile_are_not_orphans() -> None:
    """Threads that start commands while others look for orphans: no leader is taken for one."""
    code = """
adopt_orphans()
codes = []
def work(number):
    for _ in range(8):
        codes.append(sh('exit 7').code if number % 2 else sh('sleep 5 & sleep 5', 0.05).timed_out)
threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
print(codes.count(7), codes.count(True), settle())
"""
    assert python(code) == "32 32 True\n"


def test_nested_markers_name_every_command(tag: str) -> None:
    """A command inside a command carries both markers, so that the outer deadline reaches it."""
    ended = sh("echo $BILLHOOK_CHILD")
    inner = asyncio.run(
        run(shell_argv("echo $BILLHOOK_CHILD"), stdin=b"", env={**ENV, "BILLHOOK_CHILD": "outer"}, seconds=10)
    )
    assert len(ended.stdout.split()) == 1
    assert inner.stdout.startswith(b"outer ")


def test_another_live_command_is_spared(tag: str) -> None:
    """The end of one command's tree leaves another's alone."""

    async def main() -> tuple[Exit, Exit]:
        hang = run(shell_argv(f"setsid sleep {tag} & sleep {tag}"), stdin=b"", env=ENV, seconds=0.3)
        other = run(shell_argv("setsid sleep 1.5; echo done"), stdin=b"", env=ENV, seconds=20)
        first, second = await asyncio.gather(hang, other)
        return first, second

    first, second = asyncio.run(main())
    assert first.timed_out and second == Exit(code=0, stdout=b"done\n")


def test_fork_of_the_host_while_leftovers_wait(tag: str) -> None:
    """A host that forks while leftovers wait for their KILL has a working child."""
    code = """
tag = sys.argv[1]
sh(f"(trap '' TERM; sleep {tag}; sleep {tag}) >/dev/null 2>&1 & exit 0")
pid = os.fork()
if pid == 0:
    ended = sh(f'sleep {tag} >/dev/null 2>&1 & exit 2')
    os._exit(ended.code if settle(5) else 9)
print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), settle(5))
"""
    assert python(code, tag) == "2 True\n"
    assert gone(tag)


# Words


def test_shell_argv() -> None:
    """A command text goes to the system's shell."""
    assert shell_argv("a b", "linux") == shell_argv("a b", "darwin") == ("/bin/sh", "-c", "a b")
    assert shell_argv("a b", "win32") == ("cmd", "/C", "a b")
    assert shell_argv("x")[0] == "/bin/sh"


def test_odd_signals_are_seen_without_proc(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without /proc, the interpreter's own record has the ignored signals."""

    def refuse(*_: object) -> int:
        raise OSError

    monkeypatch.setattr(os, "open", refuse)
    assert not spawn._signals_are_odd()
    before = signal.signal(signal.SIGUSR2, signal.SIG_IGN)
    try:
        assert spawn._signals_are_odd()
    finally:
        signal.signal(signal.SIGUSR2, before)


WINDOWS = """
sys.platform = 'win32'
sys.modules['fcntl'] = None
for name in [name for name in sys.modules if name.startswith('billhook')]:
    del sys.modules[name]
from billhook.runners import process, process_windows
killed = []
process_windows.kill_tree = lambda pid: (killed.append(pid), os.kill(pid, 9))
def win(command, seconds=10, stdin=b''):
    return asyncio.run(process.run(('/bin/sh', '-c', command), stdin=stdin, env=ENV, seconds=seconds))
"""


def test_windows_branch() -> None:
    """The threads of the Windows branch do the same, as far as another system can tell."""
    code = """
much = b'x' * 300_000
assert win('cat; echo err >&2; exit 2', stdin=much) == process.Exit(code=2, stdout=much, stderr=b'err\\n')
assert win('exit 3', stdin=b'x' * 10_000_000).code == 3
late = win('echo so far; exec sleep 60', 0.3)
assert late == process.Exit(timed_out=True, stdout=b'so far\\n') and len(killed) == 1
much = win('head -c 3000000 /dev/zero; exit 2')
assert (much.code, len(much.stdout), much.truncated) == (2, 1 << 20, True)
assert win('sleep 3 & exit 2').code == 2
child = process.start(('/bin/sh', '-c', 'echo go; sleep 0.2; exit 4'), stdin=b'', env=ENV)
assert asyncio.run(child.wait(10, until=lambda out: b'go' in out)) is None
assert asyncio.run(child.wait(10)).code == 4
assert asyncio.run(process.run(('/no/such',), stdin=b'', env=ENV, seconds=1)).start_error.startswith('ENOENT:')
async def cancel():
    task = asyncio.create_task(process.run(('/bin/sleep', '60'), stdin=b'', env=ENV, seconds=60))
    await asyncio.sleep(0.2)
    task.cancel()
    await asyncio.wait([task])
    return task.cancelled()
assert asyncio.run(cancel()) and len(killed) == 2
print('fine')
"""
    assert python(WINDOWS + code) == "fine\n"


def test_windows_command_line() -> None:
    """`cmd` gets its command unchanged; other programs get their arguments one by one."""
    assert process_windows.command_line(shell_argv('echo "a b"', "win32")) == 'cmd /d /s /c "echo "a b""'
    assert process_windows.command_line(("git", "log")) == ("git", "log")


def test_names_are_few() -> None:
    """The public names are these."""
    names = ["Child", "adopt_orphans", "run", "settle", "shell_argv", "start", "sweep", "why_not"]
    assert sorted(process.__all__) == names

"""Goals 6 to 9: one shell hook, from an event to its verdict.

Users notice `Engine.fire`: it includes the JSON for the hook, its environment, the deadline, the process and reading
its output. Its limit and its peers begin with the same event and write it with the fastest encoder. `process.run` is
only the process: there, all cases begin with the same bytes.
"""

import asyncio
import fcntl
import os
import subprocess
import sys
import tempfile
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self, TypeVar

import msgspec

from billhook import Context, Engine, Event, Hook, PreToolUse, command
from billhook.agents import dialect
from billhook.runners import process
from harness import PROCESSES, Bar, Case, Goal, Trial, awaited, looped

# Reads all of its input and prints something short. (From a pipe; for a file, `wc` would only look up the size.)
COUNT = "exec wc -c"
# A hook that does nothing, to measure the start alone.
NOTHING = ":"
_TIMEOUT = 60.0
_PIPE, _PIPE_MAX = 1 << 16, 1 << 20
KB, _MB = 1000, 1_000_000
T = TypeVar("T")


def shell(script: str, option: str = "-c") -> tuple[str, ...]:
    return ("/bin/sh", option, script)


# -- ours ----------------------------------------------------------------------------------------------------------


def write_of(size: int) -> dict[str, Any]:
    """The input of a Write whose event is about `size` bytes of JSON."""
    line = 'print("hello, world")  # a line\n'
    escaped = len(line) + 3
    return {"file_path": "/home/u/x/hello.py", "content": line * max(1, (size - 330) // escaped)}


_HEAD: dict[str, Any] = {
    "session_id": "0b8e2f0e-5a0f-4b0f-9a53-0a2d7f6e1b11",
    "transcript_path": "/home/u/.agent/projects/x/t.jsonl",
    "cwd": os.getcwd(),
    "permission_mode": "default",
    "tool_name": "Write",
    "tool_use_id": "toolu_01ABC",
}


def event(tool_input: dict[str, Any]) -> Event:
    """A new event for each firing, as in an agent: an event caches its JSON."""
    return PreToolUse(**_HEAD, tool_input=tool_input)


def encoded(tool_input: dict[str, Any]) -> bytes:
    """The same event for the limit and the peers."""
    return msgspec.json.encode({"hook_event_name": "PreToolUse", **_HEAD, "tool_input": tool_input})


def firing(script: str, speech: str = "claude") -> Callable[[dict[str, Any]], Any]:
    """`Engine.fire` with one command hook."""
    hook = Hook(name="hook", run=command(script, dialect=speech), events=("PreToolUse",), dialect=speech)
    engine = Engine([hook])

    async def fire(tool_input: dict[str, Any]) -> None:
        verdict = await engine.fire(event(tool_input))
        assert verdict.outcomes[0].exit_code == 0, verdict.warnings

    return fire


async def ours_alone(payload: bytes) -> None:
    ended = await process.run(shell(COUNT), stdin=payload, env=os.environ, seconds=_TIMEOUT)
    check(ended.stdout, payload)


# -- the limit and the peers ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Bare:
    """The limit: the same argv, the same bytes on the same kind of stdin, reading the output; nothing else.

    It blocks, has no deadline, catches nothing and leaves stderr alone.
    """

    argv: tuple[str, ...]

    def __call__(self, payload: bytes) -> None:
        in_read, in_write = os.pipe()
        out_read, out_write = os.pipe()
        if len(payload) > _PIPE:
            fcntl.fcntl(in_write, fcntl.F_SETPIPE_SZ, min(len(payload), _PIPE_MAX))
        fits = len(payload) <= _PIPE_MAX
        if fits:  # a payload that is already in the pipe saves both sides a wake-up
            os.write(in_write, payload)
        actions = [(os.POSIX_SPAWN_DUP2, in_read, 0), (os.POSIX_SPAWN_DUP2, out_write, 1)]
        pid = os.posix_spawn(self.argv[0], self.argv, os.environ, file_actions=actions)
        os.close(in_read)
        os.close(out_write)
        rest = memoryview(b"" if fits else payload)
        while rest:
            rest = rest[os.write(in_write, rest) :]
        os.close(in_write)
        output = b""
        while chunk := os.read(out_read, _PIPE):
            output += chunk
        os.close(out_read)
        os.waitpid(pid, 0)


async def communicate(payload: bytes) -> None:
    """The usual code: asyncio's subprocess, with a timeout."""
    pipe = asyncio.subprocess.PIPE
    child = await asyncio.create_subprocess_exec(*shell(COUNT), stdin=pipe, stdout=pipe, stderr=pipe)
    async with asyncio.timeout(_TIMEOUT):
        output, _ = await child.communicate(payload)
    check(output, payload)


def subprocess_run(payload: bytes) -> None:
    """The usual code that blocks the loop."""
    ended = subprocess.run(shell(COUNT), input=payload, capture_output=True, timeout=_TIMEOUT, check=True)
    check(ended.stdout, payload)


def fork_and_run(payload: bytes) -> None:
    """The usual code to end a hook's children with it: `preexec_fn`, which needs a real fork."""
    argv = shell(NOTHING)
    subprocess.run(argv, input=payload, capture_output=True, timeout=_TIMEOUT, check=True, preexec_fn=os.setsid)


def check(output: bytes, payload: bytes) -> None:
    assert int(output) == len(payload), "the hook did not get the whole payload"


def watch_children_well() -> None:
    """Python 3.11 waits for each child in a thread by default; give the peer its fastest setting."""
    if sys.version_info < (3, 12):
        watcher = asyncio.PidfdChildWatcher()
        watcher.attach_loop(asyncio.get_running_loop())
        asyncio.set_child_watcher(watcher)


# -- goals ---------------------------------------------------------------------------------------------------------


async def small_payloads() -> AsyncGenerator[Trial, None]:
    limits = {"bare posix_spawn": 1.15, "asyncio communicate": 0.95}
    for name, size in (("1 KB", KB), ("100 KB", 100 * KB)):
        for trial in _from_event_and_from_bytes(name, size, limits, PROCESSES):
            yield trial


async def large_payload() -> AsyncGenerator[Trial, None]:
    limits = {"bare posix_spawn": 1.4, "asyncio communicate": 1.1, "subprocess.run": 0.8}
    for trial in _from_event_and_from_bytes("10 MB", 10 * _MB, limits, PROCESSES // 4):
        yield trial


def _from_event_and_from_bytes(name: str, size: int, limits: Mapping[str, float], passes: int) -> Iterator[Trial]:
    tool_input = write_of(size)
    payload = encoded(tool_input)
    from_event: dict[str, Case] = {
        "Engine.fire": awaited(firing(COUNT), tool_input),
        "bare posix_spawn": looped(_on_event(Bare(shell(COUNT))), tool_input),
        "asyncio communicate": awaited(_on_event(communicate), tool_input),
        "subprocess.run": looped(_on_event(subprocess_run), tool_input),
    }
    from_bytes: dict[str, Case] = {
        "process.run": awaited(ours_alone, payload),
        "bare posix_spawn": looped(Bare(shell(COUNT)), payload),
        "asyncio communicate": awaited(communicate, payload),
        "subprocess.run": looped(subprocess_run, payload),
    }
    for ours, cases in (("Engine.fire", from_event), ("process.run", from_bytes)):
        wanted = {case: run for case, run in cases.items() if case == ours or case in limits}
        yield Trial(name, wanted, [Bar(ours, other, at_most) for other, at_most in limits.items()], passes)


def _on_event(function: Callable[[bytes], T]) -> Callable[[dict[str, Any]], T]:
    return lambda tool_input: function(encoded(tool_input))


_PROFILE = """\
PATH="$HOME/bin:$HOME/.local/bin:$PATH"
export USER_NAME=$(id -un) HOST_NAME=$(uname -n) SYSTEM=$(uname -s)
eval "$(dircolors -b)"
"""


async def login_shell() -> AsyncGenerator[Trial, None]:
    with _home_with_profile():
        tool_input = write_of(KB)
        payload = dialect("claw").write_call(Context(event(tool_input), [])).stdin
        cases: dict[str, Case] = {
            "Engine.fire": awaited(firing(NOTHING, "claw"), tool_input),
            "sh -c": looped(Bare(shell(NOTHING)), payload),
            "sh -lc each time": looped(Bare(shell(NOTHING, "-lc")), payload),
        }
        bars = [Bar("Engine.fire", "sh -c", 1.25), Bar("Engine.fire", "sh -lc each time", 1 / 8)]
        yield Trial("1 KB", cases, bars, PROCESSES)


@contextmanager
def _home_with_profile() -> Iterator[None]:
    """A home folder whose profile runs four programs, as usual profiles do."""
    before = os.environ.get("HOME")
    with tempfile.TemporaryDirectory() as home:
        Path(home, ".profile").write_text(_PROFILE)
        os.environ["HOME"] = home
        try:
            yield
        finally:
            del os.environ["HOME"]
            if before is not None:
                os.environ["HOME"] = before


async def large_parent() -> AsyncGenerator[Trial, None]:
    # The forking case has a separate process: every page that it shared with a child costs a fault at the next write,
    # which must not count for our case.
    with _Parent(0) as small, _Parent(1024) as large, _Parent(1024) as forks:
        cases: dict[str, Case] = {
            "Engine.fire in 1 GiB": large.asked_to("fire"),
            "Engine.fire in a small process": small.asked_to("fire"),
            "preexec_fn in 1 GiB": forks.asked_to("fork"),
        }
        bars = [
            Bar("Engine.fire in 1 GiB", "Engine.fire in a small process", 1.5),
            Bar("Engine.fire in 1 GiB", "preexec_fn in 1 GiB", 1 / 10),
        ]
        yield Trial("1 KB", cases, bars, PROCESSES // 2)


class _Parent:
    """An agent of some size in a separate process (see parent.py). It measures itself, on request."""

    def __init__(self, mebibytes: int) -> None:
        script = Path(__file__).with_name("parent.py")
        self._process = subprocess.Popen(
            [sys.executable, script, str(mebibytes)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def asked_to(self, word: str) -> Case:
        async def case(count: int) -> float:
            assert self._process.stdin and self._process.stdout
            self._process.stdin.write(f"{word} {count}\n")
            self._process.stdin.flush()
            return float(self._process.stdout.readline())

        return case

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.communicate()  # the end of its stdin is the end of it


GOALS = (
    Goal(6, "One shell hook through the async API", small_payloads),
    Goal(7, "The same with a payload of 10 MB", large_payload),
    Goal(8, "A shell hook in the environment of a login shell", login_shell),
    Goal(9, "A shell hook from an agent of 1 GiB", large_parent),
)

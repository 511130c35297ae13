"""Runs billhook under a tracer that sees every program that is started and every connection that is made.

`strace` if the machine has it: it sees the system calls of all processes. Else Python's audit events, which see
the calls of Python code. Run as a program, this file is the traced process: it calls the real `main` of billhook
for each verb, in a separate fork.
"""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

Verb = tuple[str, tuple[str, ...], str]
"""A title, the arguments after `billhook`, and standard input. The title `library`: use the library."""

_CALL = re.compile(r'\b(execve|execveat|connect)\((?:\d+, |AT_FDCWD, )?(?:"((?:[^"\\]|\\.)*)"|\{([^}]*)\})?')
_SECONDS = 60
_STARTS = ("os.exec", "os.posix_spawn", "os.spawn", "os.system", "pty.spawn", "subprocess.Popen")
_CONNECTS = ("socket.connect", "socket.getaddrinfo", "socket.gethostbyname", "socket.sendto")


class Screen(NamedTuple):
    """How one verb ended."""

    code: int
    out: str
    err: str


class KnownValue(NamedTuple):
    """What the tracer saw, and what the verbs printed."""

    started: list[str]
    """The started programs, whether they exist or not; with `strace` the traced process is the first."""
    connected: list[str]
    screens: dict[str, Screen]


def tracers() -> list[str]:
    """The tracers that work on this machine."""
    return ["strace", "audit"] if _strace_works() else ["audit"]


def watch(verbs: Sequence[Verb], folder: Path, env: Mapping[str, str], work: Path, tracer: str) -> KnownValue:
    """Run verbs in a folder, and return what happened. `work` is a temporary folder."""
    work.mkdir(parents=True)
    log = work / "log"
    log.touch()
    job = work / "job.json"
    job.write_text(json.dumps({"verbs": verbs, "out": str(work), "audit": str(log) if tracer == "audit" else ""}))
    argv = [sys.executable, "-P", "-W", "ignore", __file__, str(job)]
    done = traced(argv, folder, env, log) if tracer == "strace" else _run(argv, folder, env)
    assert done.returncode == 0, done.stderr.decode()
    started, connected = _calls(log) if tracer == "strace" else _events(log)
    return KnownValue(started[1:] if tracer == "strace" else started, connected, _screens(verbs, work))


def traced(argv: Sequence[str], folder: Path, env: Mapping[str, str], log: Path) -> subprocess.CompletedProcess[bytes]:
    """Run a command under strace."""
    calls = "trace=execve,execveat,connect"
    return _run(
        ["strace", "-f", "-qq", "--seccomp-bpf", "-s", "4096", "-e", calls, "-e", "signal=none", "-o", log, *argv],
        folder,
        env,
    )


def calls_in(log: Path) -> tuple[list[str], list[str]]:
    """The output of strace: the programs that were started, and the addresses."""
    return _calls(log)


def _run(argv: Sequence[Any], folder: Path, env: Mapping[str, str]) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(argv, cwd=folder, env=dict(env), capture_output=True, timeout=300, check=False)


def _calls(log: Path) -> tuple[list[str], list[str]]:
    found = [match.groups() for match in map(_CALL.search, log.read_text(errors="replace").splitlines()) if match]
    started = [str(text) for call, text, _ in found if call != "connect"]
    return started, [str(address) for call, _, address in found if call == "connect"]


def _events(log: Path) -> tuple[list[str], list[str]]:
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    return [text for kind, text in lines if kind == "start"], [text for kind, text in lines if kind == "connect"]


def _screens(verbs: Sequence[Verb], work: Path) -> dict[str, Screen]:
    codes = json.loads((work / "codes.json").read_text())
    return {
        title: Screen(codes[title], *((work / f"{title}.{end}").read_text(errors="replace") for end in ("out", "err")))
        for title, _, _ in verbs
    }


def _strace_works() -> bool:
    """Whether strace works: some containers have it but do not allow it."""
    if shutil.which("strace") is None:
        return False
    done = subprocess.run(
        ["strace", "-f", "-qq", "--seccomp-bpf", "-o", "/dev/null", "true"], capture_output=True, check=False
    )
    return done.returncode == 0


# -- the traced process--------------------------------------------------------------------------------------------


def _looks(job: dict[str, Any]) -> None:
    if job["audit"]:
        _audit(job["audit"])
    _import_all()
    codes = {}
    for title, arguments, stdin in job["verbs"]:
        base = os.path.join(job["out"], title)
        Path(f"{base}.in").write_text(stdin)
        child = os.fork()
        if not child:
            _verb(title, arguments, base)
        codes[title] = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    Path(job["out"], "codes.json").write_text(json.dumps(codes))


def _import_all() -> None:
    """Import before the forks, because importing is expensive."""
    sys.path.append(str(Path(__file__).parents[1]))
    from cli.fork_server import import_rooms

    sys.path.pop()
    import_rooms()


def _verb(title: str, arguments: Sequence[str], base: str) -> None:
    code = 99
    try:
        signal.alarm(_SECONDS)  # a verb that hangs is killed, and its exit code is -14
        for number, end, mode in ((0, "in", os.O_RDONLY), (1, "out", os.O_WRONLY), (2, "err", os.O_WRONLY)):
            os.dup2(os.open(f"{base}.{end}", mode | os.O_CREAT, 0o600), number)
        code = _library() if title == "library" else _main(arguments)
    except BaseException:
        import traceback

        traceback.print_exc()
    finally:
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        os._exit(code)


def _main(arguments: Sequence[str]) -> int:
    from billhook.cli.main import main

    sys.argv = ["billhook", *arguments]
    try:
        main()
    except SystemExit as ended:
        return ended.code if isinstance(ended.code, int) else 0
    return 0


def _library() -> int:
    """What a program with billhook as a library does: load, inspect everything, fire."""
    from billhook.config import load_config
    from billhook.config.lint import lint
    from billhook.core.events import parse

    config = load_config()
    shown = [repr(config.entries), repr(config.problems), repr(lint([entry.declared for entry in config.entries]))]
    for about in EVENTS:
        shown.append(config.engine().fire_sync(parse({**about, "cwd": os.getcwd()})).to_json())
    sys.stdout.write("\n".join(shown) + "\n")
    return 0


EVENTS: tuple[dict[str, Any], ...] = (
    {
        "hook_event_name": "PreToolUse",
        "session_id": "s",
        "tool_name": "Bash",
        "tool_input": {"command": "ls"},
    },
    {"hook_event_name": "SessionStart", "session_id": "s", "source": "startup"},
)


def _audit(log: str) -> None:
    descriptor = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC)

    def note(event: str, arguments: tuple[Any, ...]) -> None:
        kind = "start" if event in _STARTS else "connect" if event in _CONNECTS else ""
        if kind:
            os.write(descriptor, json.dumps([kind, f"{event} {arguments!r}"]).encode() + b"\n")

    sys.addaudithook(note)


if __name__ == "__main__":
    _looks(json.loads(Path(sys.argv[1]).read_text()))

"""The client in each of its builds, installed as a user has it: in a folder, with a `billhook` beside it.

That `billhook` is a stand-in which writes down how it was called, and then does as it was told.
"""

import json
import os
import platform
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import billhook

SOURCE = Path(billhook.__file__).parent / "serve" / "client"
LAUNCHER = SOURCE / "launcher.sh"
COMPILER = shutil.which("cc") or shutil.which("gcc")

STAND_IN = f"""\
#!{sys.executable} -IS
import _signal, json, os, sys, time
here = os.path.dirname(os.path.abspath(sys.argv[0]))
told = json.load(open(here + "/told.json"))
verb = sys.argv[1]
def link(fd):
    return os.readlink("/proc/self/fd/%d" % fd) if os.path.lexists("/proc/self/fd/%d" % fd) else ""
def put(fd, words):
    try:
        os.write(fd, words.encode())
    except OSError:
        pass
seen = {{"arguments": [os.fsencode(a).hex() for a in sys.argv[1:]], "cwd": os.path.realpath("."), "pid": os.getpid(),
        "group": os.getpgid(0), "session": os.getsid(0), "descriptors": sorted(map(int, os.listdir("/proc/self/fd"))),
        "stdin": link(0), "stdout": link(1),
        "environment": {{os.fsencode(k).hex(): os.fsencode(v).hex() for k, v in os.environ.items()}}}}
if verb == "hook" and "--help" not in sys.argv:
    open(here + "/stdin-%d" % os.getpid(), "wb").write(sys.stdin.buffer.read())
if told.get("deaf"):
    _signal.signal(_signal.SIGTERM, _signal.SIG_IGN)
open(here + "/call-%d.new" % os.getpid(), "w").write(json.dumps(seen))
os.rename(here + "/call-%d.new" % os.getpid(), here + "/call-%s-%d" % (verb, os.getpid()))
if verb == "hook":
    time.sleep(told.get("asleep", 0))
    put(1, told.get("stdout", "cold\\n"))
    put(2, told.get("stderr", ""))
    if told.get("signal"):
        os.kill(os.getpid(), told["signal"])
    os._exit(told.get("code", 0))
"""


class Result(NamedTuple):
    """How a client ended."""

    code: int
    stdout: bytes
    stderr: bytes
    seconds: float


class Client:
    """One kind of client in a folder of its own, with a state root of its own."""

    def __init__(self, kind: str, built: Path, folder: Path) -> None:
        self.kind = kind
        self.bin = folder / "bin"
        self.root = folder / "root"
        self.folder = folder
        self.bin.mkdir()
        self.program = self.bin / "billhook-hook"
        shutil.copy2(built, self.program)
        self.program.chmod(0o755)
        self.tell({})
        (self.bin / "billhook").write_text(STAND_IN)
        (self.bin / "billhook").chmod(0o755)
        self.env = {"PATH": "/usr/bin:/bin", "HOME": str(folder), "BILLHOOK_HOME": str(self.root)}

    def tell(self, words: dict[str, Any]) -> None:
        """What the stand-in does as `billhook hook`."""
        (self.bin / "told.json").write_text(json.dumps(words))

    def start(self, *arguments: str | bytes, **how: Any) -> "subprocess.Popen[bytes]":
        options: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        options |= {"env": self.env, "cwd": self.folder, **how}
        return subprocess.Popen([self.program, *arguments], **options)

    def run(self, *arguments: str | bytes, stdin: bytes = b"{}", **how: Any) -> Result:
        began = time.monotonic()
        process = self.start(*arguments, **how)
        try:
            out, err = process.communicate(stdin, timeout=30)
        finally:
            process.kill()
        return Result(process.returncode, out or b"", err or b"", time.monotonic() - began)

    def calls(self, verb: str) -> list[dict[str, Any]]:
        """How the stand-in was called as `billhook VERB`."""
        return [json.loads(path.read_text()) for path in sorted(self.bin.glob(f"call-{verb}-*"))]

    def cold_call(self) -> dict[str, Any]:
        """The only call of `billhook hook`; its stdin is under `input`."""
        (call,) = self.calls("hook")
        call["input"] = (self.bin / f"stdin-{call['pid']}").read_bytes()
        call["words"] = [bytes.fromhex(word) for word in call["arguments"]]
        return call

    def daemon_starts(self, expected: int) -> list[dict[str, Any]]:
        """Wait until the daemon was started that often, because the client does not wait for it."""
        until = time.monotonic() + 10
        while len(self.calls("daemon")) < expected and time.monotonic() < until:
            time.sleep(0.01)
        return self.calls("daemon")


def compile_client(target: Path, *options: str) -> Path:
    """The C client as a program."""
    assert COMPILER is not None
    words = [COMPILER, "-O2", f'-DBILLHOOK_VERSION="{billhook.__version__}"', *options]
    subprocess.run([*words, "-o", target, SOURCE / "client.c"], check=True, timeout=120)
    return target


def is_alive(pid: int) -> bool:
    """Whether it runs, zombies apart."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


def closing(*descriptors: int) -> Any:
    """For `preexec_fn`: these are closed in the child."""

    def close() -> None:
        for fd in descriptors:
            os.close(fd)

    return close


def ignoring(number: int) -> Any:
    """For `preexec_fn`: this signal is ignored in the child."""
    return lambda: signal.signal(number, signal.SIG_IGN)


WARNED = ("-Wall", "-Wextra", "-Wshadow", "-Werror")
POSIX_ONLY = str(Path(__file__).with_name("posix_only.h"))
ALONE = ("-nostdlib", "-DBILLHOOK_ALONE", "-U_FORTIFY_SOURCE", "-fno-builtin", "-fno-stack-protector")
"""Without a C library, as hatch_build.py builds it where it can."""
C = {
    "c": ("-static", *WARNED, *(ALONE if platform.machine() in ("x86_64", "aarch64") else ())),
    "portable c": ("-static", *WARNED, "-DBILLHOOK_PORTABLE", "-include", POSIX_ONLY),
    "c with a library": ("-static", *WARNED),
    "sanitized c": ("-g", "-O1", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"),
}
KINDS = [pytest.param(kind, marks=[] if kind in ("c", "portable c") else pytest.mark.slow) for kind in C]


def built(kind: str, folder: Path) -> Path:
    """A client of this kind, to be copied."""
    if not COMPILER:
        pytest.skip("there is no compiler")
    return compile_client(folder / "billhook-hook", *C[kind])


@contextmanager
def installed(kind: str, program: Path) -> Iterator[Client]:
    """The client in a new folder with a short path: pytest's own may be too long for an address."""
    folder = Path(tempfile.mkdtemp(prefix="bh-"))
    try:
        yield Client(kind, program, folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)

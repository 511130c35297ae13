"""Goals 1 to 5, 21, 29 and 31: the cost of one event for an agent that runs billhook as its hook.

The agent starts a process and waits for its end; nothing else delays it. With a daemon the process is the small client,
without one it is Python. Everything is measured with the event log on, the default.
"""

import asyncio
import compileall
import contextlib
import math
import multiprocessing
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from billhook import __version__
from billhook.serve import protocol
from billhook.serve.hook_server import HookResponse
from billhook.serve.socket import Server
from harness import LOOPS, PROCESSES, Bar, Case, Goal, Trial, looped

_BIN = Path(sys.executable).parent
CLIENT = str(_BIN / "billhook-hook")
_FOLDER = str(Path(protocol.__file__).parent)
_SESSION = "0b8e2f0e-5a0f-4b0f-9a53-0a2d7f6e1b11"
_JSON = "import json, sys; e = json.load(sys.stdin); sys.exit(2 if 'rm -rf' in str(e['tool_input']) else 0)"
_CCHOOKS = "from cchooks import create_context; c = create_context(); c.output.exit_success()"
_NODE = "let s='';process.stdin.on('data',d=>s+=d).on('end',()=>{JSON.parse(s)})"


@contextmanager
def project() -> Iterator[tuple[Path, dict[str, str]]]:
    """A project without hooks, and the environment of an agent in it. Afterwards the working folder is the same again:
    later goals start their hooks there, as their limits do."""
    with tempfile.TemporaryDirectory(prefix="billhook-bench-") as name, contextlib.chdir("."):
        base = Path(name)
        (base / "p" / ".git").mkdir(parents=True)
        env = {**os.environ, "HOME": name, "BILLHOOK_HOME": str(base / "state")}
        event = {
            "session_id": _SESSION,
            "transcript_path": "/home/u/.agent/projects/x/t.jsonl",
            "cwd": str(base / "p"),
            "permission_mode": "default",
            "hook_event_name": "PreToolUse",
            "tool_name": "Bash",
            "tool_input": {"command": "ls -la", "description": "x" * 700},
            "tool_use_id": "toolu_01ABC",
        }
        (base / "event.json").write_bytes(msgspec.json.encode(event))
        yield base, env


@contextmanager
def daemon(env: dict[str, str]) -> Iterator[None]:
    """A daemon for that environment."""
    billhook = str(_BIN / "billhook")
    subprocess.run([billhook, "daemon", "start", "--quiet"], env=env, check=True)
    # As in every agent, the session has begun before a tool call.
    begun = {"hook_event_name": "SessionStart", "session_id": _SESSION, "source": "startup", "cwd": env["HOME"]}
    subprocess.run([CLIENT, "--as", "claude"], input=msgspec.json.encode(begun), env=env, check=True)
    settle()
    try:
        yield
    finally:
        subprocess.run([billhook, "daemon", "stop"], env=env, check=True, stdout=subprocess.DEVNULL)


def settle() -> None:
    """Wait until the folders of a new project are a second old.

    Each event looks closely at a folder that changed within the last second, because its times may not show the next
    change. That takes about 0.2 ms, and would count for only one of two cases that are compared.
    """
    time.sleep(1.2)


def process(base: Path, env: dict[str, str]) -> Callable[[list[str]], Case]:
    """The agent's side: start a program with the event on stdin, and wait for its end."""
    event, folder = os.open(base / "event.json", os.O_RDONLY), str(base / "p")
    nowhere = os.open(os.devnull, os.O_WRONLY)

    def case(argv: list[str]) -> Case:
        return looped(once, argv)

    def once(argv: list[str]) -> None:
        os.lseek(event, 0, os.SEEK_SET)
        moves = [(os.POSIX_SPAWN_DUP2, event, 0), (os.POSIX_SPAWN_DUP2, nowhere, 1)]
        pid = os.posix_spawn(argv[0], argv, env, file_actions=moves)
        status = os.waitpid(pid, 0)[1]
        assert status == 0, f"{argv} ended with {status}"

    os.chdir(folder)
    return case


async def with_client() -> AsyncGenerator[Trial, None]:
    """Goal 1: the client is compiled, the daemon is running."""
    with project() as (base, env), daemon(env):
        run = process(base, env)
        cases = {
            "billhook-hook": run([CLIENT, "--as", "claude"]),
            "/bin/true": run(["/bin/true"]),
            "a script with json": run([sys.executable, "-c", _JSON]),
        }
        bars = [Bar("billhook-hook", "/bin/true", 1.5), Bar("billhook-hook", "a script with json", 1 / 10)]
        if node := shutil.which("node"):
            cases["node"] = run([node, "-e", _NODE])
            bars.append(Bar("billhook-hook", "node", 1 / 40))
        yield Trial("daemon warm", cases, [*bars, Bar("billhook-hook", "/bin/true", quantile=0.99)], PROCESSES // 2)
    async for trial in _with_hooks("one shell hook", ["run: 'true'"]):
        yield trial


async def python_hooks() -> AsyncGenerator[Trial, None]:
    """Goal 31: Python functions of the user that don't object, in a worker that has loaded them."""
    for name, count, at_most in (
        ("1 Python hook", 1, math.inf),
        ("10 Python hooks", 10, 4),
        ("50 Python hooks", 50, 10),
    ):
        async for trial in _with_hooks(name, ["python: judging:judge"] * count, at_most):
            yield trial


_PYTHON = "def judge(event):\n    return None\n"


async def _with_hooks(name: str, hooks: list[str], at_most: float = math.inf) -> AsyncGenerator[Trial, None]:
    """The same with hooks of the user, against the start of a process."""
    with project() as (base, env):
        folder = base / ".config" / "billhook"
        folder.mkdir(parents=True)
        (folder / "judging.py").write_text(_PYTHON)
        # Different timeouts: identical hooks run only once.
        lines = [f"  h{i}: {{events: PreToolUse, timeout: {i + 10}, {what}}}\n" for i, what in enumerate(hooks)]
        (folder / "hooks.yaml").write_text("hooks:\n" + "".join(lines))
        with daemon(env):
            run = process(base, env)
            cases = {"billhook-hook": run([CLIENT, "--as", "claude"]), "/bin/true": run(["/bin/true"])}
            bars = [Bar("billhook-hook", "/bin/true", at_most), Bar("billhook-hook", "/bin/true", quantile=0.99)]
            yield Trial(name, cases, bars, PROCESSES // 2)


async def through_a_shell() -> AsyncGenerator[Trial, None]:
    """Goal 2: as agents start their hooks."""
    with project() as (base, env), daemon(env):
        run = process(base, env)
        cases = {
            "sh -c 'exec billhook-hook'": run(["/bin/sh", "-c", f"exec {CLIENT} --as claude"]),
            "sh -c 'exec /bin/true'": run(["/bin/sh", "-c", "exec /bin/true"]),
        }
        bars = [Bar("sh -c 'exec billhook-hook'", "sh -c 'exec /bin/true'", 1.2)]
        yield Trial("daemon warm", cases, bars, PROCESSES)


async def cold_module() -> AsyncGenerator[Trial, None]:
    """Goal 4: no daemon; Python is started for the event, and no hook listens for it."""
    async for trial in _cold("billhook hook", [sys.executable, "-m", "billhook", "hook", "--as", "claude"]):
        yield trial


async def cold_script() -> AsyncGenerator[Trial, None]:
    """Goal 5: the same through the script that pip makes."""
    async for trial in _cold("the script billhook hook", [str(_BIN / "billhook"), "hook", "--as", "claude"]):
        yield trial


async def _cold(name: str, argv: list[str]) -> AsyncGenerator[Trial, None]:
    # Compile as installers do: otherwise a read-only tree that was just edited would be compiled at each start.
    compileall.compile_dir(str(Path(_FOLDER).parent), quiet=2)
    with project() as (base, env):
        run = process(base, {**env, "BILLHOOK_NO_DAEMON": "1"})
        cases = {name: run(argv), "a cchooks hook": run([sys.executable, "-c", _CCHOOKS])}
        yield Trial("no daemon", cases, [Bar(name, "a cchooks hook", 2)], PROCESSES // 4)


# -- 29 ------------------------------------------------------------------------------------------------------------


_GUARD = """
import json
import re
import sys

event = json.load(sys.stdin)
command = event.get("tool_input", {}).get("command", "")
if re.search(r"\\brm\\s+-rf\\b", command):
    print("no", file=sys.stderr)
    sys.exit(2)
sys.exit(0)
"""


async def warm_script() -> AsyncGenerator[Trial, None]:
    """Goal 29: a hook that is a Python script, as people publish them, in a warm interpreter."""
    with project() as (base, env):
        folder = base / ".config" / "billhook"
        folder.mkdir(parents=True)
        (base / "guard.py").write_text(_GUARD)
        argv = [sys._base_executable, str(base / "guard.py")]  # type: ignore[attr-defined]
        (folder / "hooks.yaml").write_text(f"hooks:\n  g: {{events: PreToolUse, exec: {argv}}}\n")
        with daemon(env):
            run = process(base, env)
            cases = {"billhook-hook": run([CLIENT, "--as", "claude"]), "/bin/true": run(["/bin/true"])}
            cases["the script, plain"] = run(argv)
            await cases["billhook-hook"](3)
            await asyncio.sleep(1)  # until its interpreter is ready
            cases = {name: _after_a_pause(case) for name, case in cases.items()}
            bars = [Bar("billhook-hook", "/bin/true", 5), Bar("billhook-hook", "the script, plain", 1 / 6)]
            yield Trial("a warm script", cases, bars, PROCESSES // 2)
            _check_memory(env)


def _after_a_pause(case: Case) -> Case:
    """The same, each time after a short pause: the tool calls of an agent are further apart."""

    async def paused(count: int) -> float:
        total = 0.0
        for _ in range(count):
            await asyncio.sleep(0.03)
            total += await case(1)
        return total

    return paused


def _check_memory(env: dict[str, str]) -> None:
    """A warm parent may have 15 MB for itself and its forks."""
    billhook = str(_BIN / "billhook")
    status = subprocess.run([billhook, "daemon", "status", "--json"], env=env, capture_output=True, check=True)
    pid = msgspec.json.decode(status.stdout)["pid"]
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    warm = [int(child) for child in children if b"warm_main" in Path(f"/proc/{child}/cmdline").read_bytes()]
    used = max(map(_private, warm))
    print(f"private memory of a warm parent: {used / 1e6:.1f} MB", file=sys.stderr)
    assert used <= 15e6


def _private(pid: int) -> int:
    """Bytes that only the parent and its forks have."""
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return sum(int(line.split()[1]) << 10 for line in lines if line.startswith(("Private_Dirty", "Shared_Dirty")))


# -- 21 ------------------------------------------------------------------------------------------------------------


async def on_the_wire() -> AsyncGenerator[Trial, None]:
    """Goal 21: only the socket, each server in a separate process. No hook runs: the same bytes in and the same bytes
    out, with one connection each."""
    asked = protocol.request(__version__, ["--as", "claude"], "/", dict(os.environ), b"x" * 1000)
    servers = {
        "our server": _serve_ours,
        "blocking sockets, a thread each": _serve_in_threads,
        "a blocking socket, one at a time": _serve_plainly,
        "uvicorn+starlette": _serve_http,
    }
    with tempfile.TemporaryDirectory(prefix="billhook-bench-") as name, contextlib.ExitStack() as stack:
        cases: dict[str, Case] = {}
        for number, (server, serve) in enumerate(servers.items()):
            path = Path(name) / str(number)
            serving = multiprocessing.get_context("spawn").Process(
                target=serve, args=(str(path), len(asked)), daemon=True
            )
            serving.start()
            stack.callback(serving.kill)
            while not path.exists():  # noqa: ASYNC110 (another process makes it)
                await asyncio.sleep(0.01)
            cases[server] = looped(_asking(path, _posted(asked) if serve is _serve_http else asked), None)
        bars = [
            Bar("our server", "blocking sockets, a thread each", 1.5),
            Bar("our server", "uvicorn+starlette", 0.5),
            Bar("our server", "a blocking socket, one at a time"),
        ]
        yield Trial("1 KB", cases, bars, LOOPS)


def _serve_ours(path: str, size: int) -> None:
    def begin(asked: protocol.CallerRequest, process: Callable[[], int]) -> HookResponse:
        return HookResponse()

    async def serve() -> None:
        Server(begin, about=lambda: b"{}", changed=lambda file: None).listen(_listener(path))
        await asyncio.Event().wait()

    try:
        import uvloop
    except ImportError:
        asyncio.run(serve())
    else:
        uvloop.run(serve())


def _serve_in_threads(path: str, size: int) -> None:
    """A thread for each caller, as a server for many needs: a slow caller does not delay others."""
    listener = _listener(path)
    while True:
        threading.Thread(target=_serve_plain, args=(listener.accept()[0], size), daemon=True).start()


def _serve_plainly(path: str, size: int) -> None:
    listener = _listener(path)
    while True:
        _serve_plain(listener.accept()[0], size)


def _serve_plain(caller: socket.socket, size: int) -> None:
    left = size
    while left:
        left -= len(caller.recv(left))
    caller.sendall(protocol.STARTED + protocol.answer(0, b"", b""))
    caller.close()


def _serve_http(path: str, size: int) -> None:
    import uvicorn
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.routing import Route

    async def answer(request: Request) -> Response:
        await request.body()
        return Response(protocol.answer(0, b"", b""), headers={"connection": "close"})

    uvicorn.run(Starlette(routes=[Route("/", answer, methods=["POST"])]), uds=path, log_level="error", access_log=False)


def _listener(path: str) -> socket.socket:
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(path)
    listener.listen(128)
    return listener


def _posted(body: bytes) -> bytes:
    return b"POST / HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: %d\r\n\r\n" % len(body) + body


def _asking(path: Path, asked: bytes) -> Callable[[None], None]:
    def once(_: None) -> None:
        with socket.socket(socket.AF_UNIX) as caller:
            while True:
                try:
                    caller.connect(str(path))
                    break
                except (BlockingIOError, ConnectionRefusedError):  # the queue is full, or no server listens yet
                    time.sleep(0.001)
            caller.sendall(asked)
            while caller.recv(1 << 16):
                pass

    return once


GOALS = (
    Goal(1, "installed as one command hook, daemon warm", with_client),
    Goal(2, "the same through the agent's shell", through_a_shell),
    Goal(4, "cold, no daemon, an event that no hook listens for", cold_module, needs=("cchooks",)),
    Goal(5, "cold, through the script of the package", cold_script, needs=("cchooks",)),
    Goal(29, "a Python script in a warm interpreter", warm_script),
    Goal(31, "Python functions as hooks, daemon warm", python_hooks),
    Goal(21, "the daemon's socket", on_the_wire, needs=("uvicorn", "starlette")),
)

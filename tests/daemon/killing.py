"""Daemons that are killed again and again while clients call, and the account of what each call came to."""

import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from billhook.serve import control
from daemon.running import Home, eventually

NURSERY = """\
import asyncio, importlib, json, os, signal, sys
from pathlib import Path
from billhook.serve import http, daemon as running, engine_pool as serving, protocol as wire
import uvloop

root, aside, project = sys.argv[1:]
read, write = os.pipe()
if not os.fork():  # what the first answer imports, later ones need not wait for
    env = {**os.environ, "BILLHOOK_HOME": aside, "CALL": "0"}
    event = json.dumps({"hook_event_name": "PreToolUse", "tool_name": "Bash", "tool_input": {"command": "list"}})
    request = wire.request("", ["--as", "claude"], project, env, event.encode())
    asyncio.run(serving.EnginePool().answer(wire.read(request[wire.HEAD:])))
    os.write(write, " ".join(name for name in sys.modules if name.startswith(("billhook", "yaml"))).encode())
    os._exit(0)
os.wait()
for name in os.read(read, 65536).decode().split():
    importlib.import_module(name)
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
for line in sys.stdin.buffer.raw:
    pid = os.fork()
    if not pid:
        try:
            os.setsid()
            running.run(Path(root), ready=running.let_go_of_streams)
        finally:
            os._exit(1)
    os.write(1, b"%d\\n" % pid)
"""
"""Starts daemons as `billhook daemon run` does, only without the time that Python's imports take."""

HOOKS = """\
hooks:
  guard: {{events: PreToolUse, if: Bash(drop *), run: 'echo guard $CALL $PPID >> {ran}; exit 2', gate: true}}
  rule: {{events: PreToolUse, match: Rule, deny: never}}
  note: {{events: PreToolUse, match: Bash, run: 'echo note $CALL $PPID >> {ran}'}}
  leaves: {{events: PreToolUse, if: Bash(leave *), run: 'setsid sleep 300 & echo leaves $CALL $PPID >> {ran}'}}
  hangs: {{events: PreToolUse, if: Bash(hang *), run: 'echo hangs $CALL $PPID >> {ran}; (sleep 300 &) ; sleep 300',
           timeout: 1, gate: true}}
  worker: {{events: PreToolUse, match: Worker, python: 'worker:ask'}}
"""
WORKER = """\
import os
def ask(event):
    with open({ran!r}, "a") as file:
        file.write(f"worker {{os.environ['CALL']}} {{os.getppid()}}\\n")
    return {{"decision": "block", "reason": "the worker refused"}}
"""
ORDINARY = ("drop", "list", "after", "drop", "list", "rule", "list", "drop", "after", "drop")
UNUSUAL = ("leave", "Worker", "hang")
DENIED = ("drop", "hang", "Worker", "rule")
HOOK_OF = {"drop": "guard", "list": "note", "leave": "leaves", "Worker": "worker", "hang": "hangs"}
"""After `after` and `rule` no hook is run: they are answered at once."""
IN_TIME = 30.0


class Called(NamedTuple):
    """One call and what came of it."""

    number: int
    kind: str
    seconds: float
    code: int | None = None
    stdout: bytes = b""
    stderr: bytes = b""
    began: bool = True
    """What a caller that speaks to the socket itself was told."""

    @property
    def unheard(self) -> bool:
        """A client would be its own hook now; so nothing may have run."""
        return not self.began and self.code is None

    @property
    def failed(self) -> bool:
        """It is the failure answer, which only follows when the daemon had begun."""
        reported = b"the daemon closed the connection before it answered; hooks may have run" in self.stderr
        refused = self.code == (0 if self.kind == "after" else 2)  # what has happened can't be refused any more
        return (reported and refused) or (self.code is None and self.began)

    @property
    def answered(self) -> bool:
        """It is a whole answer, and the right one."""
        return self.code == 0 and self.denied is (self.kind in DENIED) and not self.failed

    @property
    def denied(self) -> bool:
        return b'"permissionDecision":"deny"' in self.stdout


class Callers:
    """Threads that make one call after the other, until told otherwise: some run the client, some speak to the socket
    as it does, which is quicker and shows whether the daemon had begun."""

    def __init__(self, home: Home, client: Path, *, seed: int, bold: float, mark: str, **env: str) -> None:
        """`bold` is the part of calls that are made even when no daemon is known to serve."""
        self.home, self.client, self.bold = home, client, bold
        self.env = home.env(MARK=mark, **env)
        self.called: list[Called] = []
        self.serves = threading.Event()
        self._chance = random.Random(seed)
        self._numbers = iter(range(1, 10**9))
        self._over = False
        self._lock = threading.Lock()
        self._threads: list[threading.Thread] = []

    def begin(self, *, clients: int, speakers: int) -> None:
        how = [self.run_client] * clients + [self.speak] * speakers
        self._threads = [threading.Thread(target=self._go_on, args=[call]) for call in how]
        for thread in self._threads:
            thread.start()

    def end(self) -> list[Called]:
        self._over = True
        self.serves.set()
        for thread in self._threads:
            thread.join()
        return self.called

    def wait_for(self, more: int) -> None:
        """Wait until so many more calls have come to an end."""
        enough = len(self.called) + more
        eventually(lambda: len(self.called) >= enough, pause=0.001)

    def _go_on(self, call: Callable[[int, str], Called]) -> None:
        while not self._over:
            with self._lock:
                number, chance = next(self._numbers), self._chance.random()
            if chance >= self.bold:
                self.serves.wait()
            kind = UNUSUAL[number // 40 % len(UNUSUAL)] if number % 40 == 0 else ORDINARY[number % len(ORDINARY)]
            called = call(number, kind)
            with self._lock:
                self.called.append(called)

    def _event(self, number: int, kind: str) -> dict[str, Any]:
        tool = kind.title() if kind in ("Worker", "rule") else "Bash"
        about: dict[str, Any] = {
            "tool_name": tool,
            "tool_input": {"command": f"{kind} it"},
            "tool_use_id": f"t{number}",
        }
        name = "PostToolUse" if kind == "after" else "PreToolUse"
        return self.home.event(name, session_id=f"s{number % 5}", tool_response="", **about)

    def run_client(self, number: int, kind: str) -> Called:
        """One call by the program that agents run."""
        began = time.monotonic()
        done = subprocess.run(
            [self.client, "--as", "claude", "--deadline", str(int(IN_TIME * 1000))],
            input=json.dumps(self._event(number, kind)).encode(),
            env={**self.env, "CALL": str(number)},
            cwd=self.home.project,
            capture_output=True,
            check=False,
            timeout=3 * IN_TIME,
        )
        return Called(number, kind, time.monotonic() - began, done.returncode, done.stdout, done.stderr)

    def speak(self, number: int, kind: str) -> Called:
        """The same over a connection of our own, without the cold path."""
        began = time.monotonic()
        try:
            reply = self.home.ask(self._event(number, kind), env={**self.env, "CALL": str(number)})
        except (FileNotFoundError, ConnectionError):
            time.sleep(0.005)
            return Called(number, kind, time.monotonic() - began, began=False)
        return Called(number, kind, time.monotonic() - began, reply.code, reply.stdout, reply.stderr, reply.began)


class Nursery:
    """Starts daemons of one state root quickly."""

    def __init__(self, home: Home) -> None:
        self._home = home
        self._process = subprocess.Popen(
            [sys.executable, "-c", NURSERY, str(home.root), str(home.home / "aside"), str(home.project)],
            env=home.env(),
            cwd="/",
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            bufsize=0,
        )

    def start(self) -> int:
        """The number of a daemon that begins just now, once the one before has given up its lock."""
        eventually(lambda: not control.holder(self._home.folder), pause=0.002)
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(b"start\n")
        return int(self._process.stdout.readline())

    def close(self) -> None:
        self._process.communicate()


def prepared(home: Home) -> Path:
    """A project whose hooks write down for which call they ran; where they do."""
    ran = home.project / "ran"
    ran.touch()
    home.file("worker.py", WORKER.format(ran=str(ran)))
    home.own(HOOKS.format(ran=ran))
    written = home.home / ".config" / "billhook" / "worker.py"
    written.write_text(WORKER.format(ran=str(ran)))
    return ran


def kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        pass


def serving(home: Home) -> int:
    """The number of the daemon that takes callers now; 0: none does."""
    try:
        with control.connect(home.folder, 5) as line:
            return control.peer_of(line)
    except OSError:
        return 0


def owners(ran: Path) -> list[int]:
    """The processes whose children the hooks were: a daemon, or a `billhook hook` that was alone."""
    return [int(line.split()[2]) for line in ran.read_text().splitlines()]


def starting(mark: str) -> list[str]:
    """Those that are about to start a daemon."""
    return [words for words in carrying(mark) if "daemon start" in words]


def carrying(mark: str) -> list[str]:
    """The processes that have the mark among their variables, as they were started."""
    found = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                if f"MARK={mark}".encode() in (folder / "environ").read_bytes():
                    found.append((folder / "cmdline").read_bytes().replace(b"\0", b" ").decode())
            except OSError:
                continue
    return found


# -- the account


def used(home: Home) -> Iterator[str]:
    """The numbers of all calls that are in the log."""
    for file in sorted((home.root / "hooks").glob("*/hooks*.jsonl")):
        for line in file.read_bytes().splitlines():
            try:
                record = json.loads(line)
            except ValueError:  # incomplete, because its writer was killed; `verify` checks that
                continue
            if record.get("tool_use_id"):
                yield record["tool_use_id"]


def check(home: Home, called: list[Called], ran: Path) -> Counter[str]:
    """Assert what holds whatever happened to daemons; how many calls there were of each outcome."""
    wrong = [call for call in called if not (call.answered or call.failed or call.unheard)]
    assert not wrong, wrong[:3]
    late = [call for call in called if call.seconds > IN_TIME + 5]
    assert not late, late[:3]
    runs = Counter((words[0], int(words[1])) for words in map(str.split, ran.read_text().splitlines()))
    twice = {run: many for run, many in runs.items() if many != 1}
    assert not twice, twice
    logged = Counter(used(home))
    assert set(logged.values()) <= {1}, [use for use, many in logged.items() if many > 1][:5]
    begun = {number for _, number in runs}
    for call in called:
        if call.answered:
            assert f"t{call.number}" in logged, f"an answer without a record: {call}"
            assert call.kind not in HOOK_OF or (HOOK_OF[call.kind], call.number) in runs, f"no hook ran: {call}"
        assert not (call.unheard and call.number in begun), f"a hook ran, and the daemon had not begun: {call}"
        # A client that answers by itself now would have a second record.
        assert not (call.unheard and f"t{call.number}" in logged), f"a record, and the daemon had not begun: {call}"
    return Counter("failed" if call.failed else "unheard" if call.unheard else "answered" for call in called)


def check_log(home: Home) -> None:
    """The log's chain is whole."""
    done = home.billhook("events", "verify", seconds=120)
    assert done.returncode == 0, done.stdout + done.stderr


def check_nothing_is_left(mark: str) -> None:
    """Of all that hooks and daemons started nothing runs."""
    try:
        eventually(lambda: not carrying(mark), 15)
    except AssertionError:
        raise AssertionError(f"still there: {carrying(mark)}") from None

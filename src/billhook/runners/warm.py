"""Warm interpreters: start a Python script as a fork of an interpreter that has started already.

    child = await warm.start(("python3", "guard.py"), stdin=b"{}", env=os.environ, cwd="/p") or process.start(...)

There is one parent (`warm_main.py`) for each interpreter that hooks name: the same file, flags, and variables that are
read at start. A parent forks spares ahead of time; this process adopts them, so it must be a subreaper
(`adopt_orphans`). A call sends the script's text and its three pipes to a spare. Everything after that is as for any
other command: deadline, tree, output, exit status.

Nothing here is needed: whenever a parent or spare is missing, dead or stopped, the caller starts the plain way.
"""

import asyncio
import functools
import hashlib
import marshal
import os
import select
import signal
import socket
import struct
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final, NamedTuple

from billhook.core.answers import Exit
from billhook.runners import process, process_tree
from billhook.runners.command import CoveredFiles
from billhook.runners.interpreters import PENDING, Identity, identities, identity
from billhook.runners.process import Child, _Child, fed, launch
from billhook.runners.process_tree import MARKER, Tree
from billhook.runners.python_command import PythonCall, recognise
from billhook.runners.spawn import Folder, Poll, _has_terminal, pipe, spawn

IDLE: Final = 600.0  # seconds without a call after which a parent ends
MOST_PARENTS: Final = 8
MOST_SPARES: Final = 10  # of one parent: people have up to ten hooks for one event
LARGEST: Final = 128 << 10  # bytes of a script and its environment: more does not fit into a socket at once
FORK_WAIT: Final = 0.05  # seconds for a parent to fork while a call waits; a busy machine starts the plain way then
POLL: Final = 0.001  # seconds between two looks for a spare that a call waits for
PAUSE: Final = 0.02
"""Seconds after a call until its spare is replaced: until then the other hooks of the event need the processor."""
ARRIVAL: Final = 0.05  # seconds until that spare is usually there
TEARDOWN: Final = 0.003  # seconds that the kernel usually takes to end a process
STUCK: Final = 2.0  # seconds without an expected spare after which a parent counts as stopped
PROBE: Final = 3.0  # seconds for uv or pyenv to find an interpreter
START: Final = 10.0  # seconds for a parent to start
RELAX: Final = 30.0  # seconds without a call after which one spare is enough
MOST_CODES: Final = 200  # compiled scripts that a parent keeps
RETRY: Final = 60.0  # seconds after which an interpreter that could not be used is tried again
_MAIN: Final = os.path.join(os.path.dirname(os.path.abspath(__file__)), "warm_main.py")
_ROOM: Final = "-" * 2000  # the memory in which `ps` finds the command line of a call
_AT_START: Final = ("PYTHON", "LC_", "LD_", "MALLOC_", "COVERAGE_")
_NAMED_AT_START: Final = frozenset(
    {
        "LANG",
        "LANGUAGE",
        "TZ",
        "TZDIR",
        "HOME",
        "GLIBC_TUNABLES",
        "LOCPATH",
        "NLSPATH",
        "GCONV_PATH",
        "__PYVENV_LAUNCHER__",
        "SETUPTOOLS_USE_DISTUTILS",
    }
)
"""Variables that an interpreter or the C library reads when it starts."""


class InterpreterKey(NamedTuple):
    """What makes two calls forks of the same parent."""

    program: str
    spelt: str
    flags: tuple[str, ...]
    variables: tuple[tuple[str, str], ...]
    cwd: str  # if the interpreter is spelt relative to it
    identity: Identity
    preload: str


class NotWarmError(OSError):
    """Why this call starts the plain way."""


class ChangedScriptError(Exception):
    """Why the script may not run at all."""


async def start(
    argv: Sequence[str],
    *,
    stdin: bytes,
    env: Mapping[str, str],
    cwd: Folder = None,
    keep: bytearray | None = None,
    covered: CoveredFiles | None = None,
) -> Child | None:
    """The same as `process.start`, as a fork; None: start it the plain way. The first call of an interpreter starts
    its parent, and is None."""
    folder = os.fsdecode(cwd or "")
    call = recognise(argv, env, folder)
    if isinstance(call, str) or not process_tree.adopting():
        return None
    again = functools.partial(process.start, argv, stdin=stdin, env=env, cwd=cwd, keep=keep)
    try:
        with PARENTS.lock:
            parent = PARENTS.get(call, folder)
        if parent is None:
            return None
        script = _ScriptText.read(call, folder, parent, covered)
        child = _warm_child(script, call, stdin, folder, parent, await parent.take())
    except ChangedScriptError as error:
        return Child.failed(str(error))
    except OSError:  # NotWarmError, or no more descriptors or processes
        return None
    child.again, child.in_shell = again, call.in_shell
    return fed(child, child.ends, child.rest, keep)


def reason(argv: Sequence[str], env: Mapping[str, str], cwd: str) -> str:
    """Why a command can't be warm, in a few words; "" if it can, as far as its command line tells. Blocks while uv or
    pyenv look for the interpreter."""
    end = time.monotonic() + PROBE
    while (call := recognise(argv, env, cwd)) == PENDING and time.monotonic() < end:
        time.sleep(0.01)
    return call if isinstance(call, str) else ""


async def fork(
    kind: type[_Child], argv: Sequence[str], env: Mapping[str, str], *, script: str, preload: str
) -> tuple[_Child, tuple[int, int], socket.socket] | None:
    """Another program of billhook's own, as a fork of an interpreter that has imported `preload`: the child, both ends
    of its standard input, and the socket that must stay open until it has begun. None: start it the plain way."""
    call = recognise(argv, env, "")
    if isinstance(call, str) or not process_tree.adopting():
        return None
    try:
        with PARENTS.lock:
            parent = PARENTS.get(call._replace(preload=preload), "")
        if parent is None:
            return None
        text, spare = _ScriptText.of(script.encode()), await parent.take()
        child, ends, _ = _handed_over(kind, text.message(call, parent), call, b"", "", spare)
    except OSError:
        return None
    parent.last_used = time.monotonic()
    asyncio.get_running_loop().call_later(PAUSE, parent.refill, call.script, text)
    return child, ends, spare.link


def _warm_child(
    script: "_ScriptText", call: PythonCall, stdin: bytes, cwd: str, parent: "Parent", spare: "Spare"
) -> "WarmChild":
    try:
        report = EndReport()
    except OSError:
        spare.end()
        raise
    try:
        message = {**script.message(call, parent), "report": report.address}
        child, ends, rest = _handed_over(WarmChild, message, call, stdin, cwd, spare)
    except BaseException:
        report.close()
        raise
    child.ends, child.rest, child.link = ends, rest, spare.link
    child.expect(report)
    child.refill = functools.partial(parent.refill, _file(call, cwd), script)
    parent.last_used = time.monotonic()
    return child


def _handed_over(
    kind: type[_Child], message: dict[str, Any], call: PythonCall, stdin: bytes, cwd: str, spare: "Spare"
) -> tuple[_Child, tuple[int, int], memoryview]:
    handed = False

    def hand_over(_argv: Sequence[str], fds: tuple[int, int, int], env: Mapping[str, str], _cwd: Folder) -> int:
        nonlocal handed
        spare.send({**message, "env": _joined(env)}, fds, cwd)
        handed = True
        return spare.pid

    started = launch(kind, call.argv, stdin, call.env, cwd, marker=spare.marker, spawn=hand_over)
    if isinstance(started, str):
        if not handed:  # otherwise it was killed with its tree
            spare.end()
        raise NotWarmError(started)
    return started


def _file(call: PythonCall, cwd: str) -> str:
    """The script's `__file__`."""
    return call.script if call.script.startswith("/") else f"{cwd or os.getcwd()}/{call.script}"


class WarmChild(Child):
    """A call in a fork. If the fork ended before it began with the script, the command is started the plain way."""

    link: socket.socket
    ends: tuple[int, int]
    rest: memoryview
    again: Callable[[], Child]
    refill: Callable[[], None]
    in_shell = False
    _begun = b""  # the fork sent "!" when it began with the script, or "?" if that is better started the plain way
    _reported: int | None = None
    _instead: Child | None = None

    async def wait(self, seconds: float, *, until: Callable[[bytes], bool] | None = None) -> Exit | None:
        before = time.monotonic()
        if self._instead is None:
            ended = await super().wait(seconds, until=until)
            self._refill_soon()
            if ended is None or ended.timed_out or self._begun == b"!":
                return ended
            if not self._begun:
                FAULTS["a fork ended before its script began"] += 1
            self._instead = self.again()
        return await self._instead.wait(seconds - (time.monotonic() - before), until=until)

    def expect(self, report: "EndReport") -> None:
        """Take the report of the fork as its end: to free its memory, the kernel needs longer than most scripts run."""
        self._report, self._process, self._watch = report, self._watch, report.either.fileno()
        report.either.register(self._process, select.POLLIN)

    def _refill_soon(self) -> None:
        loop = asyncio.get_running_loop()
        loop.call_later(TEARDOWN, PARENTS.collect_ended)
        loop.call_later(PAUSE, self.refill)
        loop.call_later(ARRIVAL, PARENTS.collect)

    def _note_exit(self) -> None:
        self._reported = self._report.status()
        if self._reported is not None or _readable(self._process):
            super()._note_exit()

    def _finish(self, *, timed_out: bool) -> Exit:
        if self.link.fileno() >= 0:
            with suppress(OSError):
                self._begun = self.link.recv(1, socket.MSG_DONTWAIT)
            self.link.close()
        if self._reported is not None and not self._open and not timed_out:
            self._tree.resting = True
            self._ended = self._as_exit(self._reported)
            _ending.append(self.collect)
            return self._ended
        return self._finish_now(timed_out=timed_out)

    def collect(self) -> bool:
        """Whether the process has ended after its report. Ends what it left behind."""
        if not _readable(self._process):
            return False
        ended = self._ended
        self._finish_now(timed_out=False)
        self._ended = ended
        return True

    def _finish_now(self, *, timed_out: bool) -> Exit:
        self._report.close()
        self._watch = self._process
        ended = super()._finish(timed_out=timed_out)
        if self.in_shell and ended.signal is not None:
            self._ended = ended = _as_shell_reports(ended, ended.signal)
        return ended

    def _collect(self) -> int | None:
        status = super()._collect()
        return self._reported if status is None else status


class EndReport:
    """Receives the exit status of one call, just before its process ends."""

    def __init__(self) -> None:
        self._link, self._key = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM), os.urandom(8)
        try:
            self._link.bind("")  # the kernel chooses a name
            self.address = self._link.getsockname(), self._key
            self.either = Poll()  # readable if this report has come, or what else is registered there
        except OSError:
            self._link.close()
            raise
        self.either.register(self._link.fileno(), select.POLLIN)

    def status(self) -> int | None:
        """The status, if it was reported. Other processes could send something, too."""
        with suppress(OSError):
            while told := self._link.recv(len(self._key) + 2, socket.MSG_DONTWAIT):
                if told[:-1] == self._key:
                    return told[-1]
        return None

    def close(self) -> None:
        self._link.close()
        self.either.close()


def _as_shell_reports(ended: Exit, number: int) -> Exit:
    """How dash ends when its command was ended by a signal: with a message, except for two, and a code."""
    silent = number in (signal.SIGINT, signal.SIGPIPE)
    message = b"" if silent else f"{signal.strsignal(number)}\n".encode()
    stderr = (ended.stderr + message)[: process.STDERR_CAP]
    return Exit(stdout=ended.stdout, stderr=stderr, truncated=ended.truncated, code=128 + number)


# -- one call


class _ScriptText(NamedTuple):
    """The text that will run, read once."""

    text: bytes
    digest: str
    covered: CoveredFiles | None

    @classmethod
    def read(cls, call: PythonCall, cwd: str, parent: "Parent", covered: CoveredFiles | None) -> "_ScriptText":
        path = os.path.join(cwd or os.getcwd(), call.script)
        script = cls.of(_content(path), covered)
        if parent.shadowed_in(os.path.dirname(os.path.realpath(path))):
            raise NotWarmError("its folder has a module with the name of one in the standard library")
        if covered is not None:
            _check_approved(os.path.abspath(path), script.digest, covered)
        return script

    @classmethod
    def of(cls, text: bytes, covered: CoveredFiles | None = None) -> "_ScriptText":
        return cls(text, hashlib.sha256(text).hexdigest(), covered)

    def message(self, call: PythonCall, parent: "Parent") -> dict[str, Any]:
        encoded = os.fsencode
        return {
            "argv": [encoded(call.script), *map(encoded, call.arguments)],
            "orig_argv": [*map(encoded, call.argv)],
            "name": encoded(call.name),
            "text": self.text,
            "digest": self.digest,
            "umask": _umask(),
            "folder": "" if self.covered is None else os.path.realpath(self.covered.folder),
            "covered": None if self.covered is None else {encoded(path): known for path, known in self.covered.files},
            "prefixes": parent.prefixes,
        }


def _joined(env: Mapping[str, str]) -> bytes:
    """The variables as the kernel has them. Raises NotWarmError for some that no process can have."""
    joined = os.fsencode("\0".join(f"{name}={value}" for name, value in env.items()))
    if joined.count(b"\0") != len(env) - 1 or any("=" in name or not name for name in env):
        raise NotWarmError("its environment is invalid")
    return joined


def _check_approved(path: str, digest: str, covered: CoveredFiles) -> None:
    """Raise unless the text is the approved one. It is not read again: what was checked is what runs."""
    known = dict(covered.files)
    approved = known.get(path) or known.get(os.path.realpath(path))
    if approved is None:
        raise NotWarmError("the approval does not cover its script")
    if approved != digest:
        raise ChangedScriptError(f"{path} has changed since it was approved; `billhook trust` shows how")


def _content(path: str) -> bytes:
    """The text of a script. Raises NotWarmError for what Python would not read as one."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        with open(fd, "rb", buffering=0) as file:
            text = file.read(LARGEST + 1) or b""
    except OSError as error:
        raise NotWarmError(f"its script can't be read: {error.strerror}") from None
    if len(text) > LARGEST:
        raise NotWarmError("its script is too long")
    if b"\0" in text or b"PK\x05\x06" in text:
        raise NotWarmError("its script is not plain text")
    return text


def _umask() -> int:
    with open("/proc/self/status", "rb", buffering=0) as file:
        return int(file.read(256).partition(b"Umask:")[2].split(None, 1)[0], 8)


class Spare:
    """A process that waits for a script. It is our child, in its own process group."""

    def __init__(self, link: socket.socket, marker: str) -> None:
        """Adopt the spare that has reported its number on this socket. Raises OSError if it is dead."""
        self.link, self.marker = link, marker
        self.pid: int = _received(link)[0]
        self.tree = Tree(self.pid, marker)
        self.tree.resting = True

    def is_fit(self) -> bool:
        """Whether it waits: not dead, and not stopped."""
        with suppress(ChildProcessError):
            return os.waitid(os.P_PID, self.pid, os.WEXITED | os.WSTOPPED | os.WNOHANG | os.WNOWAIT) is None
        return False

    def send(self, message: dict[str, Any], fds: tuple[int, int, int], cwd: str) -> None:
        """Hand over a script. Raises OSError."""
        data = marshal.dumps(message, 2)
        if len(data) > LARGEST:
            raise NotWarmError("its script and environment are too long")
        folder = os.open(cwd or ".", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            if not os.access(cwd or ".", os.X_OK):
                raise NotWarmError("its folder can't be entered")
            self.link.setblocking(False)
            sent = socket.send_fds(self.link, [_HEADER.pack(len(data)) + data], [*fds, folder])
        finally:
            os.close(folder)
        if sent < len(data) + _HEADER.size:
            raise NotWarmError("its script does not fit")

    def end(self) -> None:
        self.link.close()
        _kill(self.tree)


# -- parents


class Parent:
    """One warm interpreter."""

    def __init__(self, call: PythonCall, key: InterpreterKey, cwd: str) -> None:
        """Start it; it greets when it is ready. Raises OSError."""
        self.key = key
        self.problem = ""
        self.prefixes: list[str] = []
        self.last_used = self.began = time.monotonic()
        self._names: frozenset[str] = frozenset()
        self._files: tuple[tuple[str, Identity], ...] = ()
        self._spares: list[Spare] = []
        self._arriving: list[tuple[socket.socket, str]] = []  # spares that have not reported yet, with their markers
        self._asked = self.began  # when the last spare was requested, or arrived
        self._requested = 0  # spares that were requested and are not here yet
        self._waiting = 0  # calls that wait for a spare
        self._target = 1  # spares that are kept ready
        self._known: set[tuple[str, str]] = set()  # scripts that it has compiled
        self._folders: dict[str, tuple[int, bool]] = {}
        self._greeted = False
        self._program = os.path.realpath(os.path.join(cwd, call.program))
        self._launch(call, cwd)

    def _launch(self, call: PythonCall, cwd: str) -> None:
        ours, theirs = socket.socketpair()
        self._errors, output = pipe()
        marker = os.urandom(8).hex()
        argv = (call.spelt, *call.flags, _MAIN, _ROOM, call.preload)
        env = {**call.env, MARKER: f"{marker} {'-' * len(marker)}"}  # with room for the marker of a spare
        try:
            with process_tree.starting():
                pid = spawn(argv, (theirs.fileno(), output, output), env, cwd or None)
                self.tree = Tree(pid, marker)
        except BaseException:
            ours.close()
            os.close(self._errors)
            raise
        finally:
            theirs.close()
            os.close(output)
        self.tree.resting = True
        self.control = ours

    def is_ready(self) -> bool:
        """Whether it has greeted, and can be used."""
        if not self._greeted and not self.problem and _readable(self.control.fileno()):
            try:
                greeting, _ = _received(self.control)
            except OSError:
                raise self._fault("its interpreter can't be used as a parent") from None
            self._greeted = True
            self.problem, self.prefixes = greeting["problem"], greeting["prefixes"]
            if greeting["program"] != self._program:  # which may be another one at each start, as with mise
                self.problem = f"{self.key.program} starts {greeting['program']}"
            self._names = frozenset(greeting["names"])
            self._files = identities(greeting["files"])
            if not self.problem:
                self._request_spares(1)
        return self._greeted and not self.problem

    def has_spare(self) -> bool:
        self._collect()
        if not self._spares and not self._requested:  # the last one did not report in time
            self._request_spares(1)
        return bool(self._spares)

    def is_over(self) -> bool:
        """Whether another one must take its place: it has a problem, does not start, or a start of the interpreter
        would not be the same as its own."""
        age = time.monotonic() - self.began
        if self.problem:
            served = self.last_used > self.began  # otherwise another one would have the same problem
            return served or age > RETRY or (self._greeted and not self._is_current())
        return not self._is_current() or (not self._greeted and age > START)

    def _is_current(self) -> bool:
        return all(identity(file) == known for file, known in self._files)

    def shadowed_in(self, folder: str) -> bool:
        """Whether the script's folder, the first in which Python looks, has a module that is imported already."""
        try:
            changed = os.stat(folder).st_mtime_ns
            known = self._folders.get(folder)
            if known is None or known[0] != changed or time.time_ns() - changed < 2_000_000_000:
                names = {name.partition(".")[0] for name in os.listdir(folder)}
                known = self._folders[folder] = changed, not names.isdisjoint(self._names)
        except OSError:
            return True
        return known[1]

    async def take(self) -> Spare:
        """A process for one call. Raises NotWarmError if there is none soon."""
        spare = self._ready()
        if spare is None:
            self._target = min(self._target + 1, MOST_SPARES)  # calls come faster than before
            self._waiting += 1
            try:
                spare = await self._next_ready(time.monotonic() + FORK_WAIT)
            finally:
                self._waiting -= 1
        return spare

    async def _next_ready(self, end: float) -> Spare:
        while (spare := self._ready()) is None:
            if time.monotonic() > end:
                if time.monotonic() - self._asked > STUCK:
                    raise self._fault("its parent does not fork")
                raise NotWarmError("no spare is ready")
            with PARENTS.lock:
                self._request_spares(self._waiting - self._requested - len(self._arriving), rehearse=False)
            await asyncio.sleep(POLL)
        return spare

    def _ready(self) -> Spare | None:
        """One of the spares that are here."""
        with PARENTS.lock:
            if self.control.fileno() < 0:
                raise NotWarmError("its parent was replaced")
            self._collect()
            return self._fit()

    def _fit(self) -> Spare | None:
        """One of the spares that are ready."""
        while self._spares:
            spare = self._spares.pop()
            if spare.is_fit():
                return spare
            FAULTS["a spare was dead or stopped"] += 1
            spare.end()
        return None

    def refill(self, file: str, script: _ScriptText) -> None:
        """After a call: the parent compiles its script, if it is new, and forks another spare."""
        with PARENTS.lock, suppress(NotWarmError):
            if self.problem or self.control.fileno() < 0:
                return
            if (file, script.digest) not in self._known and len(self._known) < MOST_CODES:
                self._known.add((file, script.digest))
                self._send(("code", file, script.digest, script.text))
            self._request_spares(self._target - len(self._spares) - len(self._arriving) - self._requested)

    def collect(self) -> None:
        """Adopt the spares that have been forked."""
        with suppress(NotWarmError):
            if self.is_ready():
                self._collect()

    def tidy(self) -> None:
        """Adopt the spares that have been forked, and end those that are seldom needed."""
        self.collect()
        if time.monotonic() - self.last_used > RELAX:
            self._target = 1
            for spare in self._spares[1:]:
                spare.end()
            del self._spares[1:]

    def _request_spares(self, count: int, *, rehearse: bool = True) -> None:
        for _ in range(count):
            if not self._requested:
                self._asked = time.monotonic()
            self._send(("spare", os.urandom(8).hex().encode(), _has_terminal(os.getsid(0)), rehearse))
            self._requested += 1

    def _send(self, message: tuple[Any, ...]) -> None:
        data = marshal.dumps(message, 2)
        try:
            self.control.settimeout(FORK_WAIT)
            self.control.sendall(_HEADER.pack(len(data)) + data)
        except OSError as error:
            raise self._fault("its parent has ended") from error

    def _collect(self) -> None:
        """Take the spares that it has announced, and adopt those that have reported."""
        try:
            while self._requested and _readable(self.control.fileno()):
                marker, links = _received(self.control)
                self._requested -= 1
                self._asked = time.monotonic()
                if not links:
                    raise self._fault("its parent can't fork")
                self._arriving.append((links[0], marker.decode()))
        except NotWarmError:
            raise
        except OSError as error:
            raise self._fault("its parent has ended") from error
        reported = _readable(*(link.fileno() for link, _ in self._arriving)) if self._arriving else ()
        for link, marker in [one for one in self._arriving if one[0].fileno() in reported]:
            self._arriving.remove((link, marker))
            try:
                self._spares.append(Spare(link, marker))
            except OSError:
                link.close()

    def _fault(self, why: str) -> NotWarmError:
        self.problem = why
        FAULTS[why] += 1
        return NotWarmError(why)

    def end(self) -> None:
        """End it and its spares. Running calls are not affected."""
        for spare in self._spares:
            spare.end()
        for link, _ in self._arriving:
            link.close()  # which ends it
        self._spares, self._arriving = [], []
        if self.control.fileno() >= 0:
            self.control.close()
            os.close(self._errors)
            _kill(self.tree)


class Parents:
    """The warm interpreters of this process."""

    def __init__(self) -> None:
        self._by_key: dict[InterpreterKey, Parent] = {}
        self.lock = threading.RLock()

    def get(self, call: PythonCall, cwd: str) -> Parent | None:
        """The parent for a call, if there is one that is ready; otherwise one is started for the next call."""
        key = _key(call, cwd)
        parent = self._by_key.get(key)
        if parent is not None and parent.is_over():
            parent.end()
            del self._by_key[key]
            parent = None
        _collect_ended()
        if parent is None:
            self._make_room()
            self._by_key[key] = Parent(call, key, cwd)
            return None
        return parent if parent.is_ready() else None

    def collect(self) -> None:
        """Adopt the spares that have been forked."""
        with self.lock:
            for parent in self._by_key.values():
                parent.collect()

    def collect_ended(self) -> None:
        """Collect processes that have ended."""
        with self.lock:
            _collect_ended()

    def tidy(self, now: float) -> None:
        """End parents that are not used any more, and collect processes that have ended."""
        with self.lock:
            for key, parent in list(self._by_key.items()):
                parent.tidy()
                if now - parent.last_used > IDLE:
                    parent.end()
                    del self._by_key[key]
            _collect_ended()

    def close(self) -> None:
        """End all of them. Running calls are not affected."""
        with self.lock:
            for parent in self._by_key.values():
                parent.end()
            self._by_key.clear()
            _collect_ended()

    def _make_room(self) -> None:
        while len(self._by_key) >= MOST_PARENTS:
            oldest = min(self._by_key, key=lambda key: self._by_key[key].last_used)
            self._by_key.pop(oldest).end()


PARENTS = Parents()
FAULTS: Counter[str] = Counter()
"""What went wrong with parents and spares, and how often: for `billhook doctor`."""


def _key(call: PythonCall, cwd: str) -> InterpreterKey:
    variables = tuple(
        sorted(one for one in call.env.items() if one[0].startswith(_AT_START) or one[0] in _NAMED_AT_START)
    )
    relative = "/" in call.spelt and not call.spelt.startswith("/")
    return InterpreterKey(
        call.program, call.spelt, call.flags, variables, cwd if relative else "", identity(call.program), call.preload
    )


# -- processes and messages


_HEADER: Final = struct.Struct(">I")
_ending: list[Callable[[], bool]] = []
"""Collect processes that end soon: each returns whether it has."""


def _kill(tree: Tree) -> None:
    """Kill a process that has no children, and collect it soon."""
    with suppress(ProcessLookupError):
        os.kill(tree.leader, signal.SIGKILL)
    _ending.append(functools.partial(_collect_killed, tree))


def _collect_killed(tree: Tree) -> bool:
    with suppress(ChildProcessError):
        if not os.waitpid(tree.leader, os.WNOHANG)[0]:
            return False
    tree.close()
    return True


def _collect_ended() -> None:
    _ending[:] = [collect for collect in _ending if not collect()]


def _readable(*fds: int) -> list[int]:
    """Those that have something to read now."""
    waiting = select.poll()
    for fd in fds:
        waiting.register(fd, select.POLLIN)
    return [fd for fd, _ in waiting.poll(0)]


def _received(link: socket.socket) -> tuple[Any, list[socket.socket]]:
    """The next message, and the sockets that came with it. Raises OSError if the other end is gone or stops inside."""
    link.settimeout(FORK_WAIT)
    data, fds, _, _ = socket.recv_fds(link, _HEADER.size, 1)
    sockets = [socket.socket(fileno=fd) for fd in fds]
    try:
        body = _exactly(link, _HEADER.unpack(_exactly(link, _HEADER.size, data))[0])
        return marshal.loads(body), sockets
    except (OSError, ValueError, EOFError, TypeError) as error:
        for one in sockets:
            one.close()
        raise OSError("no message") from error


def _exactly(link: socket.socket, size: int, data: bytes = b"") -> bytes:
    while len(data) < size:
        more = link.recv(size - len(data))
        if not more:
            raise OSError("the other end is gone")
        data += more
    return data


def close() -> None:
    """End all parents, and collect them. Running calls are not affected."""
    PARENTS.close()
    end = time.monotonic() + 1.0
    while _ending and time.monotonic() < end:
        time.sleep(0.001)
        _collect_ended()

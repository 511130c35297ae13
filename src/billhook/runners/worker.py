"""Python functions of a project as hooks (`python:`): worker processes, and the protocol between them and their owner.

Frames over two pipes contain JSON, never code. A request has an event and the functions that run for it one after the
other. The worker sends a greeting once, and then an answer for each function as soon as it returns.
"""

import atexit
import json
import keyword
import os
import re
import shlex
import signal
import struct
import sys
import threading
import time
from collections.abc import Iterable, Mapping, MutableMapping, Sequence
from typing import Any, ClassVar, NamedTuple, TypeVar

import msgspec

from billhook.agents.child import inherited
from billhook.core import client_env, strictjson
from billhook.core.answers import FAILURES, NOTHING, Answer, Decision, Exit, OnFailure, Outcome, Reply, Status
from billhook.core.dialect_traits import meanings
from billhook.core.errors import BillhookError, StrictJSONError, UsageError
from billhook.core.hook import Context, Known
from billhook.runners import process_tree
from billhook.runners.process import Child, launch
from billhook.runners.process_tree import GRACE
from billhook.runners.spawn import PIPE_MAX, prefill

PROTOCOL = 4  # changes whenever one end could misread the other
LARGEST_REQUEST = 64 << 20
LARGEST_ANSWER = 1 << 20
HEADER = struct.Struct(">4sI")
MAGIC = b"bhw\n"

_Kind = TypeVar("_Kind")
File = tuple[str, tuple[int, ...]]
"""A file with its state, to detect changes: path, and device, inode, size, mtime and ctime; () if it is missing."""


class Greeting(msgspec.Struct, frozen=True):
    """The first message of a worker."""

    protocol: int
    billhook: str = ""


class FunctionCall(msgspec.Struct, frozen=True):
    """One hook of a request."""

    target: str
    dialect: str
    options: str  # of the hook, as JSON
    seconds: float  # its timeout; the first one has the request's deadline
    outcome: Outcome  # what later hooks see of it; its answer is added
    files: list[File]  # its approved files. If one has changed, the owner must look at it before the function may run


class WorkerRequest(msgspec.Struct, frozen=True):
    """One event for functions that run one after the other; the event itself follows on the second line, as for any
    hook. Times are those of the monotonic clock, which all processes share."""

    number: int
    """Answers repeat it: an answer that a hook left in the pipe can't count for the next event."""
    folder: str
    calls: list[FunctionCall]
    deadline: float  # of the first function
    ends: float  # the event's deadline
    results: list[Outcome] = []
    state: dict[str, Any] = {}
    env: dict[str, str] = {}
    known: Known = Known()


class Changes(msgspec.Struct, frozen=True, omit_defaults=True):
    """The changes that a hook made to a dict of the firing."""

    made: dict[str, Any] = {}
    gone: list[str] = []


class WorkerReply(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A worker's answer."""

    number: int = -1
    status: Status = Status.OK
    error: str = ""
    answer: Answer = NOTHING
    lost: list[str] = []
    exit_code: int | None = None
    on_failure: OnFailure | None = None
    state: Changes = Changes()
    env: Changes = Changes()
    files: list[File] = []  # files that it loaded since its last answer, with their state at that time
    reusable: bool = True  # the hook left no running thread or process
    stopped: bool = False  # not an answer: the next function was not started
    seconds: float = 0.0  # how long the function ran

    @property
    def continues(self) -> bool:
        """The engine certainly runs the next hook, with the same event, and in the same worker: both ends know that the
        next function is started, or that a frame with `stopped` follows."""
        answer, silent = self.answer, self.answer.decision in (Decision.NONE, Decision.ALLOW)
        ends = answer.stop or answer.keep_going or answer.rewrites or answer.background
        return self.status is Status.OK and self.reusable and silent and not (ends or self.stopped)


class WorkerProtocolError(Exception):
    """The other end violates the protocol."""


def separator(number: int) -> bytes:
    """A worker prints it to stderr before each function but the first, so that a failure shows only its own output."""
    return b"\0%d\n" % number


def framed(body: bytes) -> bytes:
    return HEADER.pack(MAGIC, len(body)) + body


def unframed(data: bytes, *, limit: int = LARGEST_ANSWER, noise: bool = False) -> tuple[bytes, bytes] | None:
    """The first frame and the bytes after it; None: it is not complete yet. `noise`: other bytes may precede it."""
    if noise:
        start = data.find(MAGIC)
        data = data[start:] if start >= 0 else b""
    if len(data) < HEADER.size:
        if not MAGIC.startswith(data[:4]):
            raise WorkerProtocolError("it wrote something into the worker's pipe")
        return None
    magic, size = HEADER.unpack_from(data)
    if magic != MAGIC:
        raise WorkerProtocolError("it wrote something into the worker's pipe")
    if size > limit:
        raise WorkerProtocolError(f"its answer is longer than {limit:,} bytes")
    end = HEADER.size + size
    return (data[HEADER.size : end], data[end:]) if len(data) >= end else None


def read_frame(body: bytes, kind: type[_Kind], what: str) -> _Kind:
    try:
        return msgspec.convert(strictjson.loads(body, max_bytes=LARGEST_ANSWER), kind)
    except (StrictJSONError, msgspec.ValidationError) as error:
        raise WorkerProtocolError(f"its {what} can't be read: {error}") from None


def as_file(path: str) -> File:
    """The state of a file now; a missing one may appear later."""
    try:
        found = os.stat(path)
    except (OSError, ValueError):
        return path, ()
    return path, (found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)


def unchanged(files: Iterable[File]) -> bool:
    return all(as_file(file[0]) == file for file in files)


# The workers of this process:


MOST_IDLE = 8  # idle workers; if there are more, the one that waited longest is ended


class Key(NamedTuple):
    """The project and interpreter of a worker."""

    folder: str
    program: str
    warm: bool  # whether it may be a fork of a warm interpreter


class StrangerError(WorkerProtocolError):
    """The billhook at the other end has another version of the protocol."""

    def __init__(self, greeting: Greeting) -> None:
        super().__init__(f"its billhook {greeting.billhook} uses protocol {greeting.protocol}, not {PROTOCOL}")


class Worker(Child):
    """One Python process of one project. It handles one request at a time, for the caller that has taken it."""

    def __init__(self, pid: int, marker: str, out: int, err: int) -> None:
        super().__init__(pid, marker, out, err)
        self.key = Key("", "", False)
        self.env: Mapping[str, str] = {}
        self.closings = 0
        self.greeting: Greeting | None = None
        self.usable = False  # it has answered, and left nothing behind
        self.started = 0  # functions of this request, as far as its output shows
        self._requests: tuple[int, ...] = ()
        self._greeted = False
        self._separator, self._tail = separator(0), b""
        self._files: dict[str, File] = {}
        # Stdout is cut where it can't be mistaken for a complete answer. More answers may follow in the pipe.
        self._room[out] = LARGEST_ANSWER + PIPE_MAX + (1 << 17) + 2 * HEADER.size

    @property
    def stderr(self) -> str:
        """The start of what was printed by the function that was started last."""
        return bytes(self._kept[self._err]).decode("utf-8", "replace")

    def send(self, request: bytes, number: int) -> None:
        """Send the framed request of that number. Raises OSError if there are no descriptors left."""
        self.usable = False
        self._clear()
        self._separator, self.started = separator(number), 1
        self._send(request)

    async def answer(self, number: int, seconds: float) -> WorkerReply | Exit:
        """The next answer to the request of that number, or how the worker ended without one. A late answer counts
        only if it objects. Raises WorkerProtocolError."""
        self.usable = False
        if self._greeted and self._ended is None:
            self._move()  # often the next answer is there already
        ended = await self.wait(seconds, until=self._is_enough)
        found = self._answer(bytes(self._kept[self._out]))
        told = None if found is None else read_frame(found[0], WorkerReply, "answer")
        if told is not None and told.number != number:
            raise WorkerProtocolError("it answered another request")
        if found is None or told is None or (ended is not None and ended.timed_out and not told.answer.objects):
            assert ended is not None
            return ended
        self._greeted = True
        self._kept[self._out][:] = found[1]
        self._files.update((file[0], file) for file in told.files)
        self.usable = ended is None and told.reusable and told.status not in FAILURES
        return told

    async def greets(self, seconds: float) -> bool:
        """Whether it greets within so many seconds, and speaks our protocol. Otherwise it is ended."""
        ended = await self.wait(seconds, until=lambda out: self._is_enough(out) or self.greeting is not None)
        if ended is not None or self.greeting is None or self.greeting.protocol != PROTOCOL:
            self.end_now()
            return False
        self._clear()
        self._greeted = True
        return True

    def is_fit(self) -> bool:
        """Whether it can be used again: it is alive and quiet, and none of its files has changed."""
        self._move()
        if self._exited or self._kept[self._out] or self._out not in self._open:
            return False
        return unchanged(self._files.values())

    def rest(self, resting: bool) -> None:
        """Note whether it waits for an event: an orphan that appears then is not its own."""
        self._tree.resting = resting

    def end_now(self) -> None:
        """End it, unless it has ended already. Its processes are ended as after any command: only a process that left
        the group and closed the output is spared."""
        if self._ended is not None:
            return
        if not self._is_lost():
            os.kill(self._pid, signal.SIGKILL)
        end = time.monotonic() + GRACE
        while not self._exited and time.monotonic() < end:
            self._move()
            if not self._exited:
                time.sleep(0.001)
        self._finish(timed_out=False)

    def forget(self) -> None:
        """Forget it in a forked copy of this process: it belongs to the original."""
        for fd in (*self._requests, *self._pipe, *self._open, self._watch, self._poll.fileno()):
            try:
                os.close(fd)
            except OSError:  # pragma: no cover - the code that forked has closed it
                pass
        self._requests = ()

    def adopt(self, key: Key, env: Mapping[str, str], requests: tuple[int, int]) -> None:
        """Set its key, and both ends of the pipe with its requests. Our copy of the reading end stays open: otherwise a
        worker that closes its own causes SIGPIPE."""
        self.key, self.env, self._requests = key, env, requests
        self._listen()

    def _clear(self) -> None:
        """Forget the last request."""
        for kept in self._kept.values():
            kept.clear()
        self._truncated = False

    def _send(self, request: bytes) -> None:
        rest = prefill(self._requests[1], request)
        if rest:
            ends: list[int] = []
            try:
                ends += [os.dup(self._requests[1])]
                ends += [os.dup(self._requests[0])]
            except OSError:
                for fd in ends:
                    os.close(fd)
                raise
            self.feed(ends[0], ends[1], rest)  # it closes them after the last byte

    def _add(self, fd: int, chunk: bytes) -> None:
        """Drop what earlier functions printed: only the last one can have failed."""
        if fd == self._err:
            seen = self._tail + chunk
            self.started += seen.count(self._separator)
            self._tail = seen[1 - len(self._separator) :]
            _, found, after = seen.rpartition(self._separator)
            if found:
                self._kept[fd].clear()
                chunk = after
        super()._add(fd, chunk)

    def _is_enough(self, stdout: bytes) -> bool:
        try:
            return self._answer(stdout) is not None
        except WorkerProtocolError:
            return True

    def _answer(self, stdout: bytes) -> tuple[bytes, bytes] | None:
        """The next answer in the output, if it is complete, and the bytes after it. A greeting precedes the first."""
        if not self._greeted:
            # Output from the start of the interpreter (`sitecustomize`) precedes that.
            first = unframed(stdout, noise=True)
            if first is None:
                return None
            self.greeting, stdout = read_frame(first[0], Greeting, "greeting"), first[1]
            if self.greeting.protocol != PROTOCOL:
                raise StrangerError(self.greeting)
        return unframed(stdout)

    def _finish(self, *, timed_out: bool) -> Exit:
        ended = super()._finish(timed_out=timed_out)
        for fd in self._requests:
            os.close(fd)
        self._requests = ()
        return ended


# `-P`: files in the working directory can't replace our modules.
_FLAGS = ("-P",)
_PROGRAM = "billhook.runners.worker_main"
_MAIN = os.path.join(os.path.dirname(os.path.abspath(__file__)), "worker_main.py")  # the name of a fork in `ps`
_GREETING = 2.0  # seconds for a fork to greet; then a new interpreter is started


async def start(key: Key, env: Mapping[str, str]) -> Worker | str:
    """A new worker, or why it could not be started: a fork of a warm interpreter in the daemon, else a new one."""
    worker = await _forked(key, env) if key.warm else None
    if worker is not None:
        return worker
    # Not in the project: a relative PYTHONPATH means the same as for us. The worker changes its folder itself.
    started = launch(Worker, [key.program, *_FLAGS, "-m", _PROGRAM], b"", env, None)
    if isinstance(started, str):
        return started
    worker, requests, _ = started
    worker.adopt(key, env, requests)
    return worker


async def _forked(key: Key, env: Mapping[str, str]) -> Worker | None:
    from billhook.runners import warm

    argv, script = (key.program, *_FLAGS, _MAIN), f"from {_PROGRAM} import main\nmain()\n"
    forked = await warm.fork(Worker, argv, env, script=script, preload=_PROGRAM)
    if forked is None:
        return None
    worker, requests, link = forked
    worker.adopt(key, env, requests)
    try:
        return worker if await worker.greets(_GREETING) else None
    finally:
        link.close()


class Workers:
    """The idle workers, the last used one at the end. Safe for any number of threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._idle: list[Worker] = []
        self._closings = 0
        self._in_use = False

    async def take(self, key: Key, env: Mapping[str, str]) -> Worker | str:
        """A worker for one event, or why there is none. The caller returns it to the pool or ends it."""
        while (worker := self._pop(key, env)) is not None:
            if worker.is_fit():
                worker.rest(False)
                return worker
            worker.end_now()
        closings = self._closings
        made = await start(key, env)
        if isinstance(made, Worker):
            made.closings = closings
        return made

    def give_back(self, worker: Worker) -> None:
        """Keep it for the next event, if it can be used again."""
        surplus = worker
        with self._lock:
            if worker.usable and worker.closings == self._closings:
                worker.rest(True)
                self._idle.append(worker)
                if len(self._idle) <= MOST_IDLE:
                    return
                surplus = self._idle.pop(0)
        surplus.end_now()

    def close(self) -> None:
        """End the idle workers. Busy ones end when they are returned."""
        with self._lock:
            idle, self._idle = self._idle, []
            self._closings += 1
        for worker in idle:
            worker.end_now()

    def forget(self) -> None:
        """Start with an empty pool in a forked copy of this process."""
        idle, self._idle = self._idle, []
        self._lock, self._in_use = threading.Lock(), False
        for worker in idle:
            worker.forget()

    def _pop(self, key: Key, env: Mapping[str, str]) -> Worker | None:
        """The last used worker with this environment. There may be others for other callers."""
        with self._lock:
            if not self._in_use:
                self._in_use = True
                atexit.register(self.close)
            for place in reversed(range(len(self._idle))):
                if self._idle[place].key == key and self._idle[place].env == env:
                    return self._idle.pop(place)
        return None


WORKERS = Workers()  # the pool of this process

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=WORKERS.forget)


# `python:


_NEVER = 1e12  # a time that no clock reaches: JSON has no infinity
_STDERR_END = 160  # how much of the end of a worker's stderr an error shows


def python(target: str, *, folder: str, interpreter: str = "", dialect: str = "spec") -> "PythonHook":
    """`module:function` of the project in `folder`, run by `interpreter`: a path (a relative one starts from the
    folder), a name on PATH, or empty for our own. Raises UsageError for an invalid target."""
    problem = problem_with(target)
    if problem:
        raise UsageError(problem, hint="python: module:function")
    meanings(dialect)
    return PythonHook(target, os.path.abspath(folder), interpreter, dialect)


def problem_with(target: str) -> str:
    """Why this can't be a `module:function`; empty when it can."""
    module, colon, function = target.partition(":")
    if not target.strip():
        return "no function is named; write `module:function`"
    if not colon:
        head, _, tail = target.rpartition(".")
        return f"`{target}` names no function; write `{head or target}:{tail if head else 'function'}`"
    if "/" in module or module.endswith(".py"):
        dotted = module.removesuffix(".py").strip("./").replace("/", ".")
        return f"`{module}` is a file; name the module: `{dotted}:{function}`"
    for what, dotted in (("module", module), ("function", function)):
        for part in dotted.split("."):
            if not part.isidentifier() or keyword.iskeyword(part):
                return f"`{dotted}` can't be the name of a {what}; write `module:function`"
    return ""


def close() -> None:
    """End all idle workers; busy ones end after their event. The next event starts new ones."""
    WORKERS.close()


class PythonHook(msgspec.Struct, frozen=True):
    """Run a function in a worker. It keeps `ctx.deadline` itself."""

    target: str
    folder: str
    interpreter: str = ""
    dialect: str = "spec"
    options: str = ""  # for the function, as JSON
    warm: bool = True
    keeps_time: ClassVar[bool] = True

    @property
    def batch_key(self) -> tuple[str, str, bool]:
        """Hooks with the same key that follow each other at an event take one request."""
        return self.folder, self.interpreter, self.warm

    def batch_call(self, outcome: Outcome, seconds: float, files: Sequence[File] = ()) -> bytes:
        """This hook's part of a request, for a step with that empty outcome and timeout."""
        shown = {"hook": outcome.hook, "source": outcome.source, "dialect": outcome.dialect}
        call = {"target": self.target, "dialect": self.dialect, "options": self.options, "outcome": shown}
        return strictjson.encode({**call, "seconds": min(seconds, _NEVER), "files": files})

    async def __call__(self, ctx: Context) -> Reply:
        program = self._program()
        if not program or sys.platform == "win32":
            return _not_started("there is no Python that could be started as a worker; set `interpreter:`")
        number = int.from_bytes(os.urandom(6))
        calls = (ctx.batch.calls if ctx.batch else []) or [self.batch_call(Outcome(""), 0.0)]
        request = framed(_request(self.folder, ctx, number, calls))
        if len(request) > LARGEST_REQUEST:
            return Reply(status=Status.FAILED, error=f"the event is longer than {LARGEST_REQUEST:,} bytes")
        if ctx.seconds_left <= 0:
            return Reply(status=Status.TIMED_OUT, error="the deadline passed before it could start")
        warm = self.warm and client_env.served() is not None and process_tree.adopting()  # only in the daemon
        worker = await WORKERS.take(
            Key(self.folder, program, warm), {"CLAUDE_PROJECT_DIR": self.folder, **inherited(hook_variables=False)}
        )
        if isinstance(worker, str):
            return _not_started(worker)
        reply = await _Answers(worker, request, number, len(calls)).next(ctx)
        assert reply is not None  # the worker starts the first function in any case
        return reply

    def _program(self) -> str:
        given = client_env.expanduser(self.interpreter)
        if os.sep in given:
            return os.path.join(self.folder, given)
        return given or sys.executable


class _Answers:
    """The answers to one request, in the order of its functions. The worker is in use until the last one."""

    def __init__(self, worker: Worker, request: bytes, number: int, count: int) -> None:
        self._worker, self._request, self._number, self._left = worker, request, number, count
        self._answered = 0
        self._unread = 0  # functions that were started, and whose answers are lost in garbage

    async def next(self, ctx: Context) -> Reply | None:
        """The next answer; None if the worker did not start that function, and a new request is needed."""
        if self._unread:
            return self._unread_reply(ctx)
        worker, more = self._worker, False
        self._left -= 1
        self._answered += 1
        try:
            if self._request:
                worker.send(self._request, self._number)
                self._request = b""
            told = await worker.answer(self._number, ctx.seconds_left)
            more = isinstance(told, WorkerReply) and told.continues and self._left > 0
        except StrangerError as error:
            return _not_started(f"{error}; install the same billhook for `{worker.key.program}`")
        except WorkerProtocolError as error:
            printed = _printed(worker)
            worker.end_now()  # it may have started the next function already: that must not start again
            self._unread = worker.started - self._answered
            more = self._unread > 0
            return Reply(status=Status.FAILED, error=f"{error}{printed}")
        except OSError as error:
            return _not_started(f"the worker could not be called: {error.strerror}")
        finally:
            if not more:
                WORKERS.give_back(worker)
            if ctx.batch is not None:
                ctx.batch.next = self.next if more else None
        if isinstance(told, Exit):
            return _ended(told, worker)
        if told.stopped:
            return None
        _bring_back(ctx.state, told.state)
        _bring_back(ctx.env, told.env, str)
        if ctx.batch is not None:
            ctx.batch.seconds = told.seconds
        return Reply(
            answer=told.answer,
            status=told.status,
            error=told.error + (_printed(worker) if told.status in FAILURES else ""),
            exit_code=told.exit_code,
            on_failure=told.on_failure,
            lost=tuple(told.lost),
        )

    def _unread_reply(self, ctx: Context) -> Reply:
        self._unread -= 1
        if ctx.batch is not None:
            ctx.batch.next, ctx.batch.seconds = self.next if self._unread else None, 0.0
        return Reply(status=Status.FAILED, error="a hook before it wrote something into the worker's pipe")


# -- requests -------------------------------------------------------------------------------------------


def _request(folder: str, ctx: Context, number: int, calls: Sequence[bytes]) -> bytes:
    head = {
        "number": number,
        "folder": folder,
        "deadline": min(ctx.deadline, _NEVER),
        "ends": min(ctx.ends, _NEVER),
        "state": _plain_state(ctx.state),
        "env": {key: value for key, value in ctx.env.items() if isinstance(value, str)},
        "known": {"session_name": ctx.session_name, "turn_id": ctx.turn_id, "effects": _seen_effects(ctx)},
    }
    results = b",".join(map(_plain_outcome, ctx.results.values()))
    start, event = strictjson.encode(head)[:-1], strictjson.encode(ctx.payload)
    return b'%b,"results":[%b],"calls":[%b]}\n%b' % (start, results, b",".join(calls), event)


def _seen_effects(ctx: Context) -> list[str] | None:
    """The effects seen in the session; None if they are unknown, or their record can't be read."""
    try:
        return None if ctx.seen_effects is None else sorted(ctx.seen_effects)
    except BillhookError:
        return None


def _plain_outcome(outcome: Outcome) -> bytes:
    """An earlier result as JSON; values that JSON does not have become text."""
    try:
        return strictjson.encode(msgspec.to_builtins(outcome, enc_hook=str))
    except Exception:  # its data is a foreign object, which may run any code when it is read
        answer = msgspec.structs.replace(outcome.answer, data=None, updated_input=None, updated_output=None, extras={})
        return strictjson.encode(msgspec.to_builtins(msgspec.structs.replace(outcome, answer=answer)))


def _plain_state(state: Mapping[str, Any]) -> dict[str, Any]:
    """The part of the state that is plain data; other values are only for hooks in this process."""
    plain = {}
    for key, value in state.items():
        try:
            json.dumps(value, allow_nan=False)
        except (TypeError, ValueError, RecursionError):
            continue
        if isinstance(key, str):
            plain[key] = value
    return plain


# -- answers ----------------------------------------------------------------------------------------------------


def _bring_back(ours: MutableMapping[str, Any], changes: Changes, kind: type = object) -> None:
    ours.update({key: value for key, value in changes.made.items() if isinstance(value, kind)})
    for key in changes.gone:
        ours.pop(key, None)


def _ended(how: Exit, worker: Worker) -> Reply:
    """The failure for a worker that ended."""
    if how.timed_out:
        error = "no answer in time; the worker and all its processes were ended"
        return Reply(status=Status.TIMED_OUT, error=error + _printed(worker))
    if how.lost:
        return Reply(status=Status.FAILED, error="its worker ended, and other code collected the exit status")
    if how.signal is not None:
        error = f"its worker was killed by {_signal_name(how.signal)}{_printed(worker)}"
        return Reply(status=Status.FAILED, error=error, signal=how.signal)
    if worker.greeting is None:
        return msgspec.structs.replace(_not_started(_why_no_worker(worker, how.code)), exit_code=how.code)
    error = f"its worker ended with exit code {how.code} without an answer{_printed(worker)}"
    return Reply(status=Status.FAILED, error=error, exit_code=how.code)


def _why_no_worker(worker: Worker, code: int | None) -> str:
    """Why an interpreter could not start as a worker, from its output."""
    program, missing = worker.key.program, _MISSING.search(worker.stderr)
    install = f"install it: {shlex.quote(program)} -m pip install billhook"
    if missing is not None and missing[1] == "billhook":
        return f"`{program}` has no billhook; {install}"
    if missing is not None and missing[1].startswith("billhook."):
        return f"`{program}` has a billhook that is too old; {install.replace('install b', 'install -U b')}"
    if "Unknown option: -P" in worker.stderr:
        return f"`{program}` is too old; billhook needs Python 3.11 or later"
    return f"`{program}` could not start as a worker: exit code {code}{_printed(worker)}"


_MISSING = re.compile(r"No module named '?([\w.]+)")


def _signal_name(number: int) -> str:
    try:
        return f"signal {number} ({signal.Signals(number).name})"
    except ValueError:
        return f"signal {number}"


def _printed(worker: Worker) -> str:
    """The end of what the worker printed, for an error."""
    text = worker.stderr.strip()
    return f"; it printed: {strictjson.preview(text[-_STDERR_END:])}" if text else ""


def _not_started(why: str) -> Reply:
    return Reply(status=Status.COULD_NOT_START, error=why)

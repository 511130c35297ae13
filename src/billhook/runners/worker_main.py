"""The program inside a worker: runs functions, and reports to its owner which files it loaded."""

import difflib
import faulthandler
import fcntl
import importlib
import inspect
import json
import os
import queue
import signal
import sys
import sysconfig
import threading
import time
import traceback
from collections.abc import Iterator, Mapping
from contextlib import suppress
from importlib.machinery import EXTENSION_SUFFIXES, SOURCE_SUFFIXES, ExtensionFileLoader, FileFinder, SourceFileLoader
from types import TracebackType
from typing import Any

import msgspec

import billhook
from billhook import __version__
from billhook.core import drive, lazy, strictjson
from billhook.core.answer_schema import read_returned
from billhook.core.answers import NOTHING, Answer, Outcome, Reply, Status
from billhook.core.dialect_traits import meanings
from billhook.core.errors import BillhookError
from billhook.core.events import decode
from billhook.core.functions import callback
from billhook.core.hook import Context, Handler, Hook
from billhook.runners.worker import (
    HEADER,
    LARGEST_ANSWER,
    LARGEST_REQUEST,
    MAGIC,
    PROTOCOL,
    Changes,
    File,
    FunctionCall,
    Greeting,
    WorkerProtocolError,
    WorkerReply,
    WorkerRequest,
    as_file,
    framed,
    read_frame,
    separator,
    unchanged,
)

OWN_FOLDER = os.path.dirname(os.path.abspath(__file__)) + os.sep
_INSTALLED = tuple(
    os.path.abspath(path) + os.sep
    for key, path in sysconfig.get_paths().items()
    if key in ("stdlib", "platstdlib", "purelib", "platlib")
)


class LoadedFiles:
    """The loaded files that may change: modules that are not installed, and files of the project that they read during
    import. The state of each is taken before it is read, so that no edit is missed."""

    def __init__(self) -> None:
        self.folder = ""
        self.loading = False
        self._new: dict[str, File] = {}
        self.seen: dict[str, File] = {}
        look = SourceFileLoader.path_stats

        def path_stats(loader: SourceFileLoader, path: str) -> Mapping[str, Any]:
            if not os.path.abspath(path).startswith((OWN_FOLDER, *_INSTALLED)):
                self._note(path)
            return look(loader, path)

        SourceFileLoader.path_stats = path_stats  # type: ignore[method-assign,assignment]
        sys.addaudithook(self._opened)

    def news(self) -> list[File]:
        new, self._new = list(self._new.values()), {}
        return new

    def _opened(self, happening: str, arguments: tuple[Any, ...]) -> None:
        if happening != "open" or not self.loading:
            return
        path, _, flags = arguments
        if not isinstance(path, str | bytes) or flags & (os.O_WRONLY | os.O_RDWR):
            return
        with suppress(OSError, ValueError):  # the module's own `open` raises the same error
            full = os.path.abspath(os.fsdecode(path))
            if full.startswith(self.folder) and not full.startswith(_INSTALLED) and "__pycache__" not in full:
                self._note(full)

    def _note(self, path: str) -> None:
        full = os.path.abspath(path)
        if full not in self.seen:
            self._new[full] = self.seen[full] = as_file(full)


# The program inside a worker:


_HIGH = 100  # the pipes' numbers: a hook that closes foreign descriptors seldom goes so far
_LONGEST_TEXT = 1 << 16
_MOST_FILES = 2000  # files that are watched for changes; a worker that loaded more at once is not used again
_WATCHED = 1e6  # seconds; a longer timeout counts as none
_variables: dict[bytes, bytes] = vars(os.environ)["_data"]  # the same, undecoded: it is compared before each function
_THREAD_GRACE = 0.05
"""Seconds for the threads of a hook to end after its answer; after that the worker is not used again."""


def main() -> None:
    prepare()
    line = _OwnerPipes()
    files = LoadedFiles()
    line.send(msgspec.json.encode(Greeting(PROTOCOL, __version__)))
    threads = set(threading.enumerate())
    project: _Project | None = None
    while True:
        shared = _RequestState(line.requests.get())
        if project is None:
            project = _Project(shared.request.folder, files, threads)
        for body in _answers(project, shared):
            line.send(body)
        faulthandler.cancel_dump_traceback_later()


def _answers(project: "_Project", shared: "_RequestState") -> Iterator[bytes]:
    """The answers to one request. The next function starts after the answer before it was sent in time, and only if the
    engine certainly runs that hook, too."""
    request, deadline, asked, watched = shared.request, shared.request.deadline, False, 0.0
    for call in request.calls:
        began = time.monotonic()
        if asked:
            if began >= deadline or not unchanged((*project.files.seen.values(), *call.files)):
                yield msgspec.json.encode(WorkerReply(number=request.number, stopped=True))
                return
            deadline = min(began + call.seconds, request.ends)
            os.write(2, separator(request.number))
        if watched < deadline < began + _WATCHED:  # starting it takes time, so it covers several short functions
            longest = max(deadline - began, *(one.seconds for one in request.calls), 0.0)
            faulthandler.dump_traceback_later(longest + 1, exit=True, file=2)
            watched = began + longest + 0.5
        body = _fitted(project.handle(call, shared, deadline))
        yield body
        asked = True
        if not shared.continues_after(call, body, began):
            return


def prepare() -> None:
    """Import all modules that would otherwise be imported on first use. A warm parent does it once for its forks."""
    for name in billhook.__all__:
        getattr(billhook, name)
    lazy.import_all()


class _OwnerPipes:
    """The pipes to the owner, out of the way of the standard streams."""

    def __init__(self) -> None:
        self._in, self._out = _moved(0), _moved(1)
        self._pipe = _node(self._out)
        self._pid = os.getpid()
        null = os.open(os.devnull, os.O_RDONLY)
        os.dup2(null, 0)
        os.close(null)
        os.dup2(2, 1)
        self.requests: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        threading.Thread(target=self._listen, name="billhook-owner", daemon=True).start()

    def send(self, body: bytes) -> None:
        if os.getpid() != self._pid:  # a copy that a hook made by fork: it must not answer
            os._exit(0)
        try:
            if _node(self._out) != self._pipe:
                raise OSError("the hook closed the worker's pipe")
            rest = memoryview(framed(body))
            while rest:
                rest = rest[os.write(self._out, rest) :]
        except OSError as error:
            with suppress(OSError):
                os.write(2, f"billhook: the answer could not be sent: {error}\n".encode())
            os._exit(70)

    def _listen(self) -> None:
        try:
            while True:
                magic, size = HEADER.unpack(self._read(HEADER.size))
                if magic != MAGIC or size > LARGEST_REQUEST:
                    break
                self.requests.put(self._read(size))
        except OSError:  # the hook closed the pipe: its answer can't be sent either, and its owner ends it in time
            return
        except EOFError:
            pass
        if os.getpgrp() == os.getpid():
            os.killpg(0, signal.SIGKILL)
        os._exit(0)

    def _read(self, size: int) -> bytes:
        data = bytearray()
        while len(data) < size:
            chunk = os.read(self._in, min(size - len(data), 1 << 20))
            if not chunk:
                raise EOFError
            data += chunk
        return bytes(data)


def _moved(fd: int) -> int:
    try:
        return fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, _HIGH)
    except OSError:  # `ulimit -n` is lower than that
        return fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 3)


def _node(fd: int) -> tuple[int, int]:
    found = os.fstat(fd)
    return found.st_dev, found.st_ino


class _RequestState:
    """What the functions of one request share. Each gets its own copy, as if it had its own request."""

    def __init__(self, body: bytes) -> None:
        head, _, self._event = body.partition(b"\n")
        self.request = msgspec.convert(strictjson.loads_leniently(head, max_depth=400), WorkerRequest)
        self.results = list(self.request.results)
        self.state, self.env = _spelt(self.request.state), _spelt(self.request.env)

    def context(self) -> Context:
        env = {key: json.loads(text) for key, text in self.env.items()}
        ctx = Context(decode(self._event), list(map(_copied, self.results)), env, lambda event: self.request.known)
        ctx.state.update((key, json.loads(text)) for key, text in self.state.items())
        return ctx

    def continues_after(self, call: FunctionCall, body: bytes, began: float) -> bool:
        """Add an answer, as its owner reads it. Returns whether the next function may run."""
        try:
            told = read_frame(body, WorkerReply, "answer")
        except WorkerProtocolError:  # its owner can't read it either
            return False
        took = (time.monotonic() - began) * 1e3
        ended = {"answer": told.answer, "exit_code": told.exit_code, "error": told.error, "lost": tuple(told.lost)}
        self.results.append(msgspec.structs.replace(call.outcome, duration_ms=took, **ended))
        for ours, changes in ((self.state, told.state), (self.env, told.env)):
            ours.update(_spelt(changes.made))
            for key in changes.gone:
                ours.pop(key, None)
        return told.continues


def _copied(outcome: Outcome) -> Outcome:
    empty = outcome.answer is NOTHING  # most are
    return outcome if empty else msgspec.convert(msgspec.to_builtins(outcome), Outcome)


# -- running ----------------------------------------------------------------------------------------------------------


class _CannotLoadError(Exception):
    """Why the function can't be loaded."""


def _read_sources_only(folder: str) -> None:
    """Import the project's modules from their sources: compiled files could differ from the approved sources. Modules
    that are installed in an environment there are not approved file by file, and stay fast."""
    inside = folder + os.sep
    finder = FileFinder.path_hook((ExtensionFileLoader, EXTENSION_SUFFIXES), (_FromSource, SOURCE_SUFFIXES))

    def find(path: str) -> Any:
        if not (path + os.sep).startswith(inside) or "site-packages" in path:
            raise ImportError
        return finder(path)

    sys.path_hooks.insert(0, find)
    sys.path_importer_cache.clear()


class _FromSource(SourceFileLoader):
    def path_stats(self, path: Any) -> Any:
        """Raise, so that Python does not look for a compiled file."""
        super().path_stats(path)  # `Files` notes there what is read
        raise OSError


class _Project:
    """The project of this worker: its folder comes first on `sys.path`, and hooks run in it."""

    def __init__(self, folder: str, files: "LoadedFiles", threads: set[threading.Thread]) -> None:
        self.folder, self.files, self._threads = folder, files, threads
        self._handlers: dict[str, Handler] = {}
        homes = [os.path.join(folder, name) for name in (".billhook", ".claude")]
        sys.path[:0] = [folder, *(home for home in homes if os.path.isdir(home))]
        # The cache of compiled modules has whole seconds only: it could miss an edit. And the folder is not ours.
        sys.dont_write_bytecode = True
        _read_sources_only(folder)
        files.folder = folder + os.sep
        self._environment, self._variables = dict(os.environ), dict(_variables)
        self._mask = os.umask(0o077)

    def handle(self, call: FunctionCall, shared: _RequestState, deadline: float) -> WorkerReply:
        began = time.monotonic()
        told = self._run_call(call, shared, deadline)
        _flush()
        seconds = time.monotonic() - began
        loaded, alone = self.files.news(), _nothing_runs(self._threads)
        few = len(loaded) <= _MOST_FILES
        reusable, number = few and alone, shared.request.number
        told = msgspec.structs.replace(told, number=number, reusable=reusable, seconds=seconds)
        return msgspec.structs.replace(told, files=loaded) if few and loaded else told

    def _run_call(self, call: FunctionCall, shared: _RequestState, deadline: float) -> WorkerReply:
        try:
            self._start_afresh()
            handler, ctx = self._load(call.target), shared.context()
        except (_CannotLoadError, OSError, BillhookError) as error:
            return WorkerReply(status=Status.COULD_NOT_START, error=_text(error))
        ctx.options = json.loads(call.options) if call.options else {}
        ctx.deadline = deadline
        told = self._run(handler, ctx, call.dialect)
        lost: list[str] = []
        state = _changes("state", ctx.state, shared.state, lost)
        env = _changes("env", ctx.env, shared.env, lost)
        return msgspec.structs.replace(told, state=state, env=env, lost=[*told.lost, *lost])

    def _start_afresh(self) -> None:
        """Remove what an earlier event left, so that it does not reach this one."""
        os.umask(self._mask)
        os.chdir(self.folder)
        if _variables != self._variables:
            os.environ.clear()
            os.environ.update(self._environment)
        signal.setitimer(signal.ITIMER_REAL, 0)

    def _run(self, handler: Handler, ctx: Context, dialect: str) -> WorkerReply:
        try:
            returned: Any = handler(ctx)
            if inspect.isawaitable(returned):
                returned = drive.run(drive.awaiting(returned))
            reply = read_returned(ctx.event, returned, meanings(dialect))
            if reply.later is not None:
                error = "a function in a worker can't promise a later answer; set `background: true`"
                return WorkerReply(status=Status.FAILED, error=error)
            return _worker_reply(reply)
        except BaseException as error:
            code = error.code if isinstance(error, SystemExit) else None
            exit_code = code if isinstance(code, int) else (0 if code is None else 1)
            place = self._place(error.__traceback__)
            return WorkerReply(
                status=Status.FAILED,
                error=_text(error) + (f" ({place})" if place else ""),
                exit_code=exit_code if isinstance(error, SystemExit) else None,
            )

    def _load(self, target: str) -> Handler:
        known = self._handlers.get(target)
        if known is not None:
            return known
        name, _, path = target.partition(":")
        self.files.loading = True
        try:
            found: Any = self._import(name)
        finally:
            self.files.loading = False
        for part in path.split("."):
            found = _attribute(found, part, name)
        if isinstance(found, Hook):
            handler = found.run
        elif callable(found):
            handler = callback(found)
        else:
            raise _CannotLoadError(f"`{target}` is of type {type(found).__name__}, which can't be called")
        self._handlers[target] = handler
        return handler

    def _import(self, name: str) -> Any:
        try:
            return importlib.import_module(name)
        except BaseException as error:
            what, place = _text(error), self._place(error.__traceback__)
            if isinstance(error, SyntaxError) and error.filename:
                what, place = f"{type(error).__name__}: {error.msg}", f"{self._near(error.filename)}:{error.lineno}"
            elif isinstance(error, ModuleNotFoundError) and error.name and f"{name}.".startswith(f"{error.name}."):
                place = f"looked in {self.folder} first"
            raise _CannotLoadError(f"can't import `{name}`: {what}" + (f" ({place})" if place else "")) from None

    def _place(self, trace: TracebackType | None) -> str:
        """The last line of the traceback in the project's code, or at least not in ours."""
        frames = [(frame.filename, frame.lineno) for frame in traceback.extract_tb(trace)]
        others = [one for one in frames if not one[0].startswith((OWN_FOLDER, "<frozen"))]
        theirs = [one for one in others if self._near(one[0]) != one[0]] or others
        return f"{self._near(theirs[-1][0])}:{theirs[-1][1]}" if theirs else ""

    def _near(self, path: str) -> str:
        return path.removeprefix(self.folder + os.sep)


def _attribute(owner: Any, name: str, module: str) -> Any:
    try:
        return getattr(owner, name)
    except AttributeError:
        near = difflib.get_close_matches(name, dir(owner), 1)
        hint = f"; did you mean `{near[0]}`?" if near else f"; it was loaded from {getattr(owner, '__file__', '')}"
        raise _CannotLoadError(f"`{module}` has no `{name}`{hint}") from None


def _worker_reply(reply: Reply) -> WorkerReply:
    answer = reply.answer if reply.answer.plain else reply.answer.tidy()
    return WorkerReply(
        status=reply.status,
        error=str(reply.error),
        answer=answer,
        lost=[str(one) for one in reply.lost],
        exit_code=reply.exit_code,
        on_failure=reply.on_failure,
    )


def _text(error: BaseException) -> str:
    if isinstance(error, _CannotLoadError):
        return str(error)
    try:
        return f"{type(error).__name__}: {error}".removesuffix(": ")[:_LONGEST_TEXT]
    except BaseException:  # its own __str__ is broken, too
        return type(error).__name__


# -- changes ----------------------------------------------------------------------------------------------------


def _spelt(values: Mapping[str, Any]) -> dict[str, str]:
    return {key: json.dumps(value) for key, value in values.items()}


def _changes(name: str, now: Mapping[Any, Any], before: Mapping[str, str], lost: list[str]) -> Changes:
    """The hook's changes, as far as JSON can express them; other changes are listed as lost."""
    made = {}
    for key, value in now.items():
        try:
            text = json.dumps(value, allow_nan=False)
            fits = isinstance(key, str) and not (name == "env" and not isinstance(value, str))
        except (TypeError, ValueError, RecursionError):
            fits = False
        if not fits:
            lost.append(f"`ctx.{name}[{str(key)[:60]!r}]` is not plain data, and is lost")
        elif before.get(key) != text:
            made[key] = value
    return Changes(made, [key for key in before if key not in now])


# -- after the call ----------------------------------------------------------------------------------------------------


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        with suppress(Exception):
            stream.flush()


def _nothing_runs(before: set[threading.Thread]) -> bool:
    """Whether the hook left no thread and no process behind."""
    end = time.monotonic() + _THREAD_GRACE
    for thread in set(threading.enumerate()) - before:
        with suppress(RuntimeError):
            thread.join(max(0.0, end - time.monotonic()))
        if thread.is_alive():
            return False
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return True
    return False


def _fitted(told: WorkerReply) -> bytes:
    """An answer that can be sent: plain data of limited size. A deny counts, whatever else is wrong."""
    body, why = _encoded(told)
    if body is not None:
        return body
    answer = told.answer
    kept = msgspec.structs.replace(told, state=Changes(), env=Changes(), answer=Answer(), lost=[why])
    if answer.objects and told.status is Status.OK:
        plain = Answer(
            decision=answer.decision,
            reason=answer.reason[:_LONGEST_TEXT],
            stop=answer.stop,
            stop_reason=answer.stop_reason[:_LONGEST_TEXT],
        )
        kept = msgspec.structs.replace(kept, answer=plain)
    else:
        kept = msgspec.structs.replace(kept, status=Status.FAILED, error=told.error[:_LONGEST_TEXT] or why, lost=[])
    body, why = _encoded(kept)
    if body is None:
        body, _ = _encoded(WorkerReply(number=told.number, status=Status.FAILED, error=why, reusable=False))
    assert body is not None
    return body


def _encoded(told: WorkerReply) -> tuple[bytes | None, str]:
    try:
        text = json.dumps(msgspec.to_builtins(told), allow_nan=False, separators=(",", ":"))
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        return None, f"its answer is not plain data: {error or type(error).__name__}"
    if strictjson.too_deep(text):
        return None, f"its answer is nested deeper than {strictjson.MAX_DEPTH} levels"
    if len(text) > LARGEST_ANSWER:
        return None, f"its answer is longer than {LARGEST_ANSWER:,} bytes"
    return text.encode("ascii"), ""


if __name__ == "__main__":
    main()

"""The daemon: one for each user and state root. It runs until it is stopped, idle for too long, or out of date."""

import asyncio
import logging
import os
import signal
import socket
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from logging.handlers import RotatingFileHandler
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

import msgspec

import billhook
from billhook.agents.around import agent_around
from billhook.config.fleet_policy import enrolment_file
from billhook.core.errors import BillhookError, UsageError
from billhook.core.functions import in_thread
from billhook.core.text import install_command
from billhook.runners import process_tree, warm, worker
from billhook.runners.process_tree import MARKER, Tree, adopt_orphans, forget_markers
from billhook.serve import control
from billhook.serve.control import AlreadyError, DaemonOptions
from billhook.serve.engine_pool import EnginePool
from billhook.serve.protocol import DaemonStatus, PageLink, memory_in_use
from billhook.serve.sidecar import Sidecar, Telemetry, otel_settings
from billhook.serve.socket import Server
from billhook.store.files import StoreError, log_folder, stamp
from billhook.store.log import verify

if TYPE_CHECKING:
    from billhook.config.config import Config
    from billhook.serve.http import Http

IDLE: Final = 3600.0  # seconds without a request after which a daemon ends
TIMEOUT: Final = 30.0  # seconds for running requests to finish when the daemon ends
_LOOKED: Final = 1.0  # seconds between two checks of the daemon's source files
_RESTS: Final = 600.0  # seconds without a request after which Python workers are closed: each is as large as a daemon
_RETRIES: Final = 60.0  # seconds between two attempts, at most, to listen on an address that is in use
_BACKLOG: Final = 512
_GOODBYE: Final = b"."
log = logging.getLogger("billhook.serve")


class Daemon:
    """One run of the daemon."""

    def __init__(self, folder: Path, options: DaemonOptions, *, again: bool = False, detached: bool = False) -> None:
        """`folder` comes from `control.made`. `again`: the options are those of the last daemon, and this one starts
        even if it can't listen for HTTP yet. Raises AlreadyError and StoreError."""
        self.folder = folder
        self.options = options
        self.idle = options.idle_exit
        self.served = EnginePool()
        self.server = Server(self.served.begin, about=self._about, page=self._page, changed=self._changed)
        self.http: Http | None = None
        self.heads = HeadExports()
        self.telemetry = Telemetry(os.environ)
        self.link = FleetLinkProcess(folder.parent.parent)
        self._again, self._detached = again, detached
        self._http_pause, self._http_next = 1.0, 0.0
        self._hurried = False
        self._path = str(folder / control.SOCKET)
        self._lock = control.lock(folder)
        self._place = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        self._socket: tuple[int, ...] = ()
        self._made_from = {file: stamp(file) for file in (billhook.__file__, sys.executable)}
        self.server.files = {file: stamp(file) for file in (billhook.__file__, self._path)}
        self._began = time.time()
        self._ended = asyncio.Event()

    async def run(self, ready: Callable[[], None]) -> str:
        """Serve until there is a reason to end: the reason. `ready` is called as soon as callers are served."""
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(_unexpected)
        self.server.touched = loop.time()
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            loop.add_signal_handler(number, self._on_signal, number)
        await self._listen_for_http()
        self._listen()
        self._remember()
        if self.telemetry.is_on:
            self.telemetry.tick(time.monotonic())
            self.served.observers.append(self.telemetry.observe)
        self.link.tick(time.monotonic())
        http = "" if self.http is None else f", {self.http.url}"
        log.info("began: billhook %s, idle exit %g s%s", billhook.__version__, self.idle, http)
        ready()
        watch = asyncio.ensure_future(self._watch())
        try:
            await self._ended.wait()
            self.server.close()
            await self._finish()
        finally:
            watch.cancel()
        return self.leaving

    async def _listen_for_http(self) -> None:
        """Listen if the options contain an address. Raises UsageError and StoreError, except with `again`: the last
        daemon may not have released the address yet."""
        now = time.monotonic()
        if not self.options.http or self.http is not None or now < self._http_next:
            return
        try:
            from billhook.serve.http import serve
        except ImportError as error:
            raise UsageError(f"HTTP needs the extra `serve`: {error}", hint=install_command("serve")) from None
        try:
            host, port = control.address(self.options.http)
            self.http = await serve(self.served, host, port, self.folder, exposed=self.options.exposed)
        except BillhookError as error:
            if not self._again:
                raise
            if self._http_pause == 1.0:
                log.warning("no HTTP yet: %s", error)
            self._http_next = now + self._http_pause
            self._http_pause = min(2 * self._http_pause, _RETRIES)

    def _remember(self) -> None:
        options = self.options
        if self.http is not None:  # agents have the real port in their settings, not 0 for any port
            host = options.http.rpartition(":")[0]
            options = msgspec.structs.replace(options, http=f"{host}:{self.http.url.rpartition(':')[2]}")
        if options == DaemonOptions(IDLE):
            control.forget(self.folder)
        else:
            control.remember(self.folder, options)

    # -- the end

    def leave(self, why: str) -> None:
        """Accept no more requests, and end once pending ones are answered. Another daemon may start from now on: the
        socket and the lock are released at once."""
        if self.leaving:
            return
        self.server.leaving = why
        log.info("stopping: %s; %d requests are pending", why, self.server.busy)
        self._remove_socket()
        self._lock.close()
        self._ended.set()

    def _on_signal(self, number: int) -> None:
        if self.leaving:  # the second signal: pending requests get no answer
            self._hurried = True
            self._cancel()
        elif not self._detached:  # the user ended it in the terminal where it was started
            control.forget(self.folder)
        self.leave(f"signal {signal.Signals(number).name}")

    def _cancel(self) -> None:
        for connection in list(self.server.connections):
            connection.abort()  # which ends its hooks

    async def _finish(self) -> None:
        """Let pending requests and hooks in the background finish, within a time limit."""
        end = time.monotonic() + TIMEOUT
        closing = None if self.http is None else asyncio.ensure_future(self.http.close(TIMEOUT))
        await self._until(lambda: not self.server.busy, TIMEOUT)
        if self.server.busy:
            log.warning("%d requests did not finish in time and are cancelled", self.server.busy)
            self._cancel()
        for connection in list(self.server.connections):
            if connection.is_waited_for:
                connection.abort()  # it has sent no request yet, so the client runs the hooks itself
        await self._until(lambda: not self.server.connections, 5.0)  # a long answer takes a while to write
        if closing is not None:
            await asyncio.wait([closing], timeout=max(5.0, end - time.monotonic()))
        await self._until(lambda: self._hurried or not self.served.busy_engines, end - time.monotonic())
        self.heads.tick(self.served.configs, now=True)
        self.heads.wait(1.0)
        self.telemetry.close()
        self.link.close()
        if self.served.busy_engines:
            log.warning("hooks in the background did not finish in time and are killed")

    async def _until(self, done: Callable[[], bool], seconds: float) -> None:
        end = time.monotonic() + seconds
        while not done() and time.monotonic() < end:  # noqa: ASYNC110 (a short wait, and there is no event to wait for)
            await asyncio.sleep(0.01)

    # -- the socket

    def _listen(self) -> None:
        sock = socket.socket(socket.AF_UNIX)
        try:
            with suppress(FileNotFoundError):  # left by a daemon that was killed: we hold its lock
                os.unlink(control.SOCKET, dir_fd=self._place)
            with control.reachable(self.folder) as path:
                before = os.umask(0o177)
                try:
                    sock.bind(path)
                finally:
                    os.umask(before)
            self._socket = self._at_socket()
            self.server.files[self._path] = stamp(self._path)
        except OSError as error:
            sock.close()
            place, hint = str(self.folder / control.SOCKET), "move the file at this path away, or set BILLHOOK_HOME"
            why = error.strerror or str(error)
            raise StoreError(f"can't create the daemon's socket: {why}", place=place, hint=hint) from error
        sock.listen(_BACKLOG)
        self.server.listen(sock)

    def _at_socket(self) -> tuple[int, ...]:
        """The identity of the socket file in our folder. As long as we listen, no other file can have it."""
        try:
            found = os.stat(control.SOCKET, dir_fd=self._place, follow_symlinks=False)
        except OSError:
            return ()
        return found.st_dev, found.st_ino

    def _remove_socket(self) -> None:
        """Remove the socket file, even if the folder was moved; not if it is another daemon's."""
        if self._socket and self._at_socket() == self._socket:
            with suppress(OSError):
                os.unlink(control.SOCKET, dir_fd=self._place)

    # -- while it runs

    async def _watch(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(_LOOKED)
            if not self.server.refuse() and not self._lock.is_at_its_path():
                self.leave("its lock was removed")
            if not self.leaving and _changed(self._made_from):
                self.leave("billhook or its interpreter has changed")
            process_tree.sweep()
            warm.PARENTS.tidy(time.monotonic())
            if self._busy or (self.http is not None and self.http.app.page.live.stream.readers):
                self.server.touched = loop.time()
            elif _RESTS < self._idle_for() < _RESTS + 2 * _LOOKED:
                worker.close()
            self.heads.tick(self.served.configs)
            self.telemetry.tick(time.monotonic())
            self.link.tick(time.monotonic())
            if not self.leaving:
                await self._listen_for_http()
            if self.idle and not self._busy and self._idle_for() > self.idle:
                control.forget(self.folder)
                self.leave(f"no requests for {self.idle:g} s")

    @property
    def _busy(self) -> int:
        return self.server.busy + self.served.busy_engines + (0 if self.http is None else self.http.app.busy)

    def _idle_for(self) -> float:
        touched = max(self.server.touched, 0.0 if self.http is None else self.http.app.touched)
        return asyncio.get_running_loop().time() - touched

    @property
    def leaving(self) -> str:
        return self.server.leaving

    def _changed(self, file: str) -> None:
        is_socket = file == self._path
        self.leave("its folder was moved, or its socket was removed" if is_socket else "billhook has changed")

    async def _page(self, pid: int) -> bytes:
        """A link to the page. Without --http, the daemon listens for it on a free port from now on."""
        if pid and (agent := await in_thread(lambda: agent_around(pid))):
            return msgspec.json.encode(PageLink(problem=f"the page is for people: this runs inside {agent}"))
        try:
            if self.http is None:
                from billhook.serve.http import serve

                self.http = await serve(self.served, "127.0.0.1", 0, self.folder)
            name = urlsplit(self.http.url)
            host = "127.0.0.1" if name.hostname in ("0.0.0.0", "::") else name.netloc.rpartition(":")[0]
            link = PageLink(f"http://{host}:{name.port}/ui/#code={self.http.app.page.login.code()}")
        except ImportError as error:
            link = PageLink(problem=f"the page needs the extra `serve`: {error}", hint=install_command("serve"))
        except BillhookError as error:
            link = PageLink(problem=error.message, hint=error.hint or "")
        return msgspec.json.encode(link)

    def _about(self) -> bytes:
        busy = self._busy
        left = None if busy or not self.idle else max(0.0, self.idle - self._idle_for())
        status = DaemonStatus(
            pid=os.getpid(),
            version=billhook.__version__,
            socket=str(self.folder / control.SOCKET),
            since=time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(self._began)),
            requests=self.server.served + (0 if self.http is None else self.http.app.taken),
            busy=busy,
            memory=memory_in_use(),
            idle_exit=self.idle,
            idle_left=None if left is None else round(left, 1),
            http="" if self.http is None else self.http.url,
            log=str(self.folder / control.LOG),
            leaving=self.leaving,
            only_page=self.http is not None and not self.options.http,
            warm=dict(warm.FAULTS),
            telemetry=self.telemetry.status,
            fleet=self.link.status,
        )
        return msgspec.json.encode(status)


def _changed(known: dict[str, tuple[int, ...]]) -> bool:
    """Whether the file of the interpreter or of a billhook module has changed since it was first seen here."""
    files = [module.__file__ for name, module in list(sys.modules.items()) if name.startswith("billhook.")]
    files += known
    return any(known.setdefault(file, found) != found for file in files if file for found in [stamp(file)])


def run(
    root: Path,
    *,
    idle: float = IDLE,
    http: str = "",
    exposed: bool = False,
    again: bool = False,
    detached: bool = False,
    ready: Callable[[], None] = lambda: None,
) -> str:
    """Run the daemon in this process, which must not do anything else: why it ended. Raises AlreadyError, StoreError,
    and UsageError for an address that can't be used, unless it was used before (`again`)."""
    reset_process()
    folder = control.ensure_folder(root)
    options = DaemonOptions(idle, http, exposed, otel_settings(os.environ))

    async def serve() -> str:
        daemon = Daemon(folder, options, again=again, detached=detached)
        begin_log(folder)
        return await daemon.run(ready)

    with guarded(detached=detached):
        adopt_orphans()
        try:
            with asyncio.Runner(loop_factory=_loop_factory()) as runner:
                why = runner.run(serve())
            log.info("ended: %s", why)
            return why
        except (AlreadyError, BillhookError):
            raise
        except BaseException as error:
            log.exception("ended by an internal error: %s", type(error).__name__)
            raise
        finally:
            warm.close()
            process_tree.settle()


def _loop_factory() -> Any:
    """The loop of uvloop, if that is installed."""
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.new_event_loop


class FleetLinkProcess:
    """The link to the fleet, as long as this machine is enrolled. Lives as long as the daemon."""

    def __init__(self, root: Path) -> None:
        self._file = enrolment_file(root)
        self._link = Sidecar("billhook.fleet.link", [str(root)])
        self._enrolled: tuple[int, ...] = ()

    def tick(self, now: float) -> None:
        """Start it after an enrolment, and end it after `billhook fleet leave`."""
        enrolled = stamp(self._file)
        if enrolled != self._enrolled:
            self._enrolled = enrolled
            self._link.close()
        if enrolled:
            self._link.tick(now)

    def close(self) -> None:
        self._link.close()

    @property
    def status(self) -> dict[str, Any]:
        """For `billhook daemon status`: empty on a machine that is no host."""
        return self._link.said if self._enrolled else {}


# Heads of the logs, exported at intervals:


class HeadExports:
    """When the head of each log was last exported. Lives as long as the daemon."""

    def __init__(self) -> None:
        self._last: dict[tuple[str, Path], float] = {}
        self._running: dict[str, threading.Thread] = {}
        self._problems: dict[str, str] = {}

    def tick(self, configs: Iterable["Config"], *, now: bool = False) -> None:
        """Begin the exports that are due; with `now`, all of them."""
        for config in configs:
            options = {} if config.recording is None else config.recording.options
            target, folder = options.get("export_head_to", ""), log_folder(Path(config.root), config.project)
            since = time.monotonic() - self._last.get((target, folder), 0.0)
            running = self._running.get(target)
            if not target or (running is not None and running.is_alive()):
                continue
            if now or since >= options["export_head_every"]:
                self._last[target, folder] = time.monotonic()
                arguments = target, folder, Path(config.root)
                self._running[target] = threading.Thread(target=self._export, args=arguments, daemon=True)
                self._running[target].start()

    def _export(self, target: str, folder: Path, root: Path) -> None:
        problem = ""
        try:
            verify.export(Path(target), folder, root)
        except BillhookError as error:
            problem = f"{error.place}: {error.message}"
        except OSError as error:
            problem = f"{target}: {error.strerror or error}"
        if problem and self._problems.get(target) != problem:
            log.warning("the head of a log was not exported: %s", problem)
        self._problems[target] = problem

    def wait(self, seconds: float) -> None:
        """Wait a moment for running exports."""
        end = time.monotonic() + seconds
        for thread in list(self._running.values()):
            thread.join(max(0.0, end - time.monotonic()))


# What the daemon leaves behind. Processes that it started must not outlive it, even if it is killed and can't clean up:
# a small watcher process waits for its end and kills what is left, unless the daemon signed off first. For a daemon in
# the background the watcher is its parent, which inherits its orphans. A daemon in the foreground keeps its parent;
# there the watcher looks for the daemon's marker (`billhook.runners.process_tree`), a variable that all its descendants
# inherit unless they clear their environment. Linux only: elsewhere processes can't be found.


@contextmanager
def guarded(*, detached: bool = False) -> Iterator[None]:
    """While the block runs, everything that this process started ends with it. Call it before any thread starts.

    With `detached` the block runs in a child process; the parent waits and exits with the same code."""
    marker = os.urandom(8).hex()
    os.environ[MARKER] = marker
    if sys.platform != "linux":
        yield
        return
    write = _go_on_as_child(marker) if detached else _have_another(marker)
    try:
        yield
    finally:
        with suppress(OSError):
            os.write(write, _GOODBYE)
        os.close(write)


def _go_on_as_child(marker: str) -> int:
    """The descriptor for signing off. Returns in the child: the parent waits for its end."""
    read, write = os.pipe()
    adopt_orphans()
    child = os.fork()
    if child:
        try:
            _wait(read, marker)
            _, status = os.waitpid(child, 0)
            os._exit(max(os.waitstatus_to_exitcode(status), -1) & 0xFF)
        finally:
            os._exit(1)
    os.close(read)
    os.setsid()
    return write


def _have_another(marker: str) -> int:
    """The same for a process that must stay the child of its parent."""
    read, write = os.pipe()
    child = os.fork()
    if not child:
        _leave_to_another(read, marker)
    os.close(read)
    os.waitpid(child, 0)
    return write


def _leave_to_another(read: int, marker: str) -> None:
    """In the child: a grandchild waits, detached from this process. Never returns."""
    try:
        os.setsid()
        if not os.fork():
            _wait(read, marker)
    finally:
        os._exit(0)


def _wait(read: int, marker: str) -> None:
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    os.chdir("/")
    _keep_only(read)
    if os.read(read, 1) == _GOODBYE:
        return
    for _ in range(3):  # a process that is just starting gets its marker a moment later
        marked = Tree(-1, marker)
        marked.reserved = False  # there is no leader, only the marker
        marked.kill_now()
        forget_markers()
        time.sleep(0.05)


def _keep_only(descriptor: int) -> None:
    """Close everything else: the daemon's lock is held by every process that has it open."""
    let_go_of_streams()
    for name in os.listdir("/proc/self/fd"):
        if int(name) > 2 and int(name) != descriptor:
            with suppress(OSError):
                os.close(int(name))


# A process that does not depend on the one that started it:

_FILES: Final = 8192
"""A sufficient limit of open files. Not higher: hooks inherit it, and old programs close that many descriptors."""
_HANDED_DOWN: Final = (MARKER, "BILLHOOK_DEPTH")
"""Variables that mark the children of a hook. A daemon that such a child started does not belong to the hook."""


def reset_process() -> None:
    """Reset what this process inherited: streams, signals, limits, variables."""
    for name in _HANDED_DOWN:
        os.environ.pop(name, None)
    for descriptor in range(3):  # a closed standard stream would be the next file that is opened
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest free number
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    for number in (signal.SIGCHLD, signal.SIGALRM, signal.SIGUSR1, signal.SIGUSR2, signal.SIGQUIT):
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, signal.SIG_DFL)
    os.umask(os.umask(0o077) & 0o077)  # hooks inherit the user's part; billhook's files have explicit modes
    _raise_limit()


def let_go_of_streams() -> None:
    """Send standard streams to /dev/null from now on."""
    nowhere = os.open(os.devnull, os.O_RDWR)
    for descriptor in range(3):
        os.dup2(nowhere, descriptor)
    if nowhere > 2:
        os.close(nowhere)


def _raise_limit() -> None:
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = _FILES if hard == resource.RLIM_INFINITY else min(hard, _FILES)
    if soft != resource.RLIM_INFINITY and soft < most:
        with suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))


def ensure_utf8() -> None:
    """Restart Python in UTF-8 mode if it decodes file names and variables otherwise: callers' bytes must be passed on
    unchanged."""
    if sys.getfilesystemencoding().lower().replace("-", "") != "utf8":
        os.environ["PYTHONUTF8"] = "1"
        os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])


# The log: start and end, rejected callers, and internal errors. Data of callers is never in it: an error is written as
# its type and the lines of billhook's code.

_LARGEST: Final = 1_000_000  # bytes of the log
_OLDER: Final = 2  # logs of that size before it


def begin_log(folder: Path) -> logging.Handler | None:
    """Write to the folder's log from now on; None if that is impossible, and the daemon runs without a log."""
    try:
        handler = _PrivateFile(folder / control.LOG, maxBytes=_LARGEST, backupCount=_OLDER, encoding="utf-8")
    except OSError:
        return None
    handler.setFormatter(_TraceFormatter("%(asctime)s [%(process)d] %(message)s"))
    ours = logging.getLogger("billhook")
    ours.addHandler(handler)
    ours.setLevel(logging.INFO)
    ours.propagate = False
    return handler


def _unexpected(loop: object, context: dict[str, Any]) -> None:
    """An event loop's handler for uncaught exceptions."""
    log.error("%s", context.get("message") or "an exception", exc_info=context.get("exception"))


class _PrivateFile(RotatingFileHandler):
    """A file that only this user can read and that is not a link. Write errors are ignored."""

    def _open(self) -> Any:
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        return open(os.open(self.baseFilename, flags, 0o600), "a", encoding=self.encoding)

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 (its name in the standard library)
        pass


class _TraceFormatter(logging.Formatter):
    converter = staticmethod(time.gmtime)
    default_time_format = "%Y-%m-%dT%H:%M:%SZ"
    default_msec_format = ""

    def format(self, record: logging.LogRecord) -> str:
        return super().format(record).encode("utf-8", "backslashreplace").decode()

    def formatException(self, ei: Any) -> str:  # noqa: N802
        kind, _, trace = ei
        frames = traceback.extract_tb(trace)
        places_ = [f"  {frame.filename}:{frame.lineno} in {frame.name}" for frame in frames]
        return "\n".join([getattr(kind, "__name__", "an error"), *places_])

"""A warm parent, and the processes that it forks: see `warm_main.py`, which loads this file.

The parent has one thread. It forks spare processes ahead of time, which the daemon adopts (the process between them
ends at once) and to which it sends one script each. A spare makes everything as it is after an ordinary start, leaves
the script to `__main__`, and ends as every interpreter does.

Imports only the standard library, because the interpreter has no billhook, and works from Python 3.9.
"""

from __future__ import annotations

import _socket
import atexit
import functools
import gc
import marshal
import os
import sys
from importlib import import_module, machinery
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from types import CodeType, TracebackType

    Codes = dict[tuple[str, str], CodeType]  # of scripts, by file and hash

# fmt: off
COMMON = (
    "__future__", "abc", "argparse", "ast", "base64", "collections", "contextlib", "copy", "dataclasses",
    "datetime", "enum", "fnmatch", "functools", "glob", "hashlib", "inspect", "io", "itertools", "json", "logging",
    "math", "operator", "pathlib", "posixpath", "random", "re", "shlex", "shutil", "signal", "stat", "string",
    "struct", "subprocess", "tempfile", "textwrap", "threading", "time", "traceback", "types", "typing",
    "urllib.parse", "warnings", "weakref", "zlib",
)
# fmt: on
"""Modules of the standard library that hook scripts use most. None of them starts a thread or keeps a file open."""
KNOWN_PTH = ("distutils-precedence.pth", "_virtualenv.pth", "a1_coverage.pth", "coverage.pth")
"""Files whose code depends only on variables that choose the parent (`warm.py`)."""
DIFFERS = (b"environ", b"getenv", b"argv", b"getcwd", b"time")
"""Words in the code of another `.pth` file: it may do something else at each start."""
_FDS = 4  # of one call: standard input, output, error, and its folder
_INT = 4  # bytes of a descriptor's number in a message


# -- the parent


def serve(fresh: dict[str, Any], before: frozenset[str]) -> tuple[CodeType, dict[str, Any]]:
    """Serve the daemon. Returns only in a process that has got a script: its code and the dict of `__main__`.

    `fresh`: this dict as a script finds it; `before`: the modules of an interpreter that has just started."""
    control = _socket.socket(fileno=_moved(0))
    AtStart.ctype = os.environb.get(b"LC_CTYPE")
    AtStart.writes_none, sys.dont_write_bytecode = sys.dont_write_bytecode, True
    if sys.path and not getattr(sys.flags, "safe_path", False) and not sys.flags.isolated:
        sys.path_importer_cache.pop(sys.path.pop(0), None)  # the folder of this file
    atexit.register(QuickEnd.leave)
    for name in COMMON:
        import_module(name)
    greeting = _greeting(before)
    if sys.argv[2]:  # for programs of billhook's own
        import_module(sys.argv[2]).prepare()
    _send(control, greeting)
    QuickEnd.filters, QuickEnd.shared = list(sys.modules["warnings"].filters), frozenset(sys.modules) - {"__main__"}
    sys.dont_write_bytecode = AtStart.writes_none
    os.chdir("/")  # it must not keep a project's folder in use
    gc.collect()
    gc.freeze()  # no collection touches, and so copies, what all processes share
    codes: Codes = {}
    while True:
        kind, *rest = marshal.loads(_received(control)[0])
        if kind == "code":
            _remember(codes, *rest)
        elif (link := _fork_spare(control, fresh, *rest)) is not None:
            return _script(link, codes, fresh)


def _moved(fd: int) -> int:
    """The socket under another number; its old one becomes a pipe, as the standard streams of a call are."""
    import fcntl

    high = fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 10)
    read, write = os.pipe()
    os.dup2(read, fd)
    os.close(read)
    os.close(write)
    return high


def _greeting(before: frozenset[str]) -> dict[str, Any]:
    """What the daemon must know: why this interpreter can't be used, the modules that it has, its files."""
    import sysconfig

    site: Any = sys.modules.get("site")  # missing with -S, and so it must stay

    names = {name.partition(".")[0] for name in sys.modules} - {name.partition(".")[0] for name in before}
    QuickEnd.libraries = libraries = tuple(
        {os.path.realpath(sysconfig.get_path(key)) for key in ("stdlib", "platstdlib")}
    )
    user = site.getusersitepackages() if site and site.ENABLE_USER_SITE else ""
    files = [sys.executable, os.path.realpath(sys.executable), *sys.path, user, "/etc/localtime"]
    files += [os.path.join(sys.prefix, "pyvenv.cfg"), os.path.join(os.path.dirname(sys.executable), "pyvenv.cfg")]
    pth = [os.path.join(folder, name) for folder in sys.path for name in _names(folder) if name.endswith(".pth")]
    return {
        "problem": _problem(names, libraries, pth),
        "program": os.path.realpath("/proc/self/exe"),
        "names": sorted(names),
        "files": sorted({file for file in files + pth if file}),
        "prefixes": sorted({sys.prefix, sys.base_prefix, *libraries, *filter(None, [user])}),
    }


def _names(folder: str) -> list[str]:
    try:
        return os.listdir(folder)
    except OSError:
        return []


def _problem(names: Iterable[str], libraries: tuple[str, ...], pth: Iterable[str]) -> str:
    """Why calls would not be as after a start of their own; "" if they are."""
    for name in ("sitecustomize", "usercustomize"):
        if name in sys.modules and not _is_in(getattr(sys.modules[name], "__file__", ""), (*libraries, "/etc")):
            return f"`{name}` runs at each start"
    for name in names:
        file = getattr(sys.modules.get(name), "__file__", None)
        if file and not _is_in(file, libraries):
            return f"{file} replaces a module of the standard library"
    for file in pth:
        if os.path.basename(file) not in KNOWN_PTH and _runs_code(file):
            return f"{file} may do something else at each start"
    if len(os.listdir("/proc/self/task")) > 1:
        return "its packages start threads"
    if sys.gettrace() or sys.getprofile():
        return "its packages trace"
    return ""


def _is_in(file: str, folders: Iterable[str]) -> bool:
    return any(os.path.realpath(file).startswith(folder + "/") for folder in folders)


def _runs_code(file: str) -> bool:
    try:
        with open(file, "rb") as lines:
            code = [line for line in lines if line.startswith((b"import ", b"import\t"))]
            return any(word in line for line in code for word in DIFFERS)
    except OSError:
        return True


def _remember(codes: Codes, file: str, digest: str, text: bytes) -> None:
    """Compile a script for the calls to come, unless that prints warnings: each call must print them."""
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            codes[file, digest] = compile(text, file, "exec", dont_inherit=True)
        except Exception:
            pass


def _fork_spare(
    control: _socket.socket, fresh: dict[str, Any], marker: bytes, session: bool, rehearse: bool
) -> _socket.socket | None:
    """Fork a process that waits for a script: there, the socket on which it gets it. In the parent, None.

    The process in between ends at once, so that the daemon, which adopts orphans, becomes the parent of the spare: it
    gets its exit status, and the script's `os.getppid()` is what it would be. It also makes a session: the kernel may
    share the processors among sessions, and all hooks together would get no more than the daemon. Unless the script
    must have a session of its own, it leads only its group, as after a plain start."""
    ours, theirs = _socket.socketpair()
    try:
        between = os.fork()
    except OSError:
        _send(control, False)
        return None
    if between:
        theirs.close()
        if os.waitpid(between, 0)[1]:
            _send(control, False)
        else:
            _send(control, marker, ours)
        ours.close()
        return None
    try:
        os.setsid()
        if os.fork():
            os._exit(0)
    except OSError:
        os._exit(1)
    control.close()
    ours.close()
    (os.setsid if session else os.setpgrp)()
    _mark(b"BILLHOOK_CHILD=", marker)
    if rehearse:
        _rehearse(fresh)
    _send(theirs, os.getpid())
    return theirs


_REHEARSAL = b"""
import json, os, re, sys
from pathlib import Path
read, write = os.pipe()
os.write(write, json.dumps({"tool_input": {"command": "ls", "text": ""}, "list": [1, 2.5, None]}).encode())
os.close(write)
with open(read) as file:
    data = json.load(file)
command = data.get("tool_input", {}).get("command", "")
if re.search(r"\\brm\\s+-rf\\b", command) or Path(command).suffix == ".env":
    print(f"blocked: {command}", file=sys.stderr)
os.path.join(os.environ.get("HOME", ""), command)
sys.exit(0)
"""


def _rehearse(fresh: dict[str, Any]) -> None:
    """Do what a call does, while no caller waits: a page that is shared with the parent is copied at its first use,
    and that takes longer than anything else in a call."""
    main, path, argv, words = sys.modules["__main__"], [*sys.path], sys.argv, getattr(sys, "orig_argv", sys.argv)
    env = b"\0".join(map(b"=".join, os.environb.items()))
    call = {"argv": [b"/usr/bin/env"], "orig_argv": [*map(os.fsencode, words)], "name": b"", "env": env}
    call = marshal.loads(marshal.dumps({**call, "text": _REHEARSAL, "digest": ""}, 2))
    _set_environment(call)
    _name_process(call)
    try:
        with ScriptGuard():
            exec(*_as_main(call, {}, fresh))
    except SystemExit:
        pass
    kinds = {type(one) for one in gc.get_objects()}
    _ends_quietly(kinds)
    all(map(_is_inert, kinds))
    # `__main__` must keep its place in `sys.modules`: modules are destroyed in that order.
    sys.modules["rehearsal"], sys.modules["__main__"] = sys.modules["__main__"], main
    _destroy(["rehearsal"])
    _flushed()
    _names("/proc/self/fd")
    sys.path[:], sys.argv, QuickEnd.status = path, argv, None
    if hasattr(sys, "orig_argv"):
        sys.orig_argv = words
    gc.collect()
    gc.freeze()  # at the end, only the script's own objects are left to look at


# -- messages


def _send(link: _socket.socket, value: Any, *sockets: _socket.socket) -> None:
    data = marshal.dumps(value, 2)
    numbers = b"".join(one.fileno().to_bytes(_INT, sys.byteorder) for one in sockets)
    ancillary = [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, numbers)] if sockets else []
    link.sendmsg([len(data).to_bytes(4, "big") + data], ancillary)


def _received(link: _socket.socket) -> tuple[bytes, list[int]]:
    """The next message, and the descriptors that came with it. Ends the process if there is none."""
    head, ancillary, _, _ = link.recvmsg(4, _socket.CMSG_SPACE(_FDS * _INT))
    body = b""
    size = int.from_bytes(head, "big")
    while len(body) < size:
        more = link.recv(size - len(body))
        body, size = body + more, size if more else 0
    if len(head) < 4 or not size:
        os._exit(0)
    numbers = b"".join(bytes(content) for _, _, content in ancillary)
    fds = [int.from_bytes(numbers[at : at + _INT], sys.byteorder) for at in range(0, len(numbers), _INT)]
    return body, fds


# -- the process of one call


def _script(link: _socket.socket, codes: Codes, fresh: dict[str, Any]) -> tuple[CodeType, dict[str, Any]]:
    """Wait for the script, and put everything in place. A script that has a syntax error is left to the plain start:
    the reader of files has messages of its own for some of them."""
    body, fds = _received(link)
    call = marshal.loads(body)
    try:
        _take_place(call, fds)
        if call["covered"] is not None:
            _check_imports(call["folder"], call["covered"], call["prefixes"])
        ready = _as_main(call, codes, fresh)
        link.sendall(b"!")
        link.close()
        return ready
    except (SyntaxError, ValueError):
        link.sendall(b"?")
    except BaseException:
        pass
    os.kill(os.getpid(), 9)  # the daemon starts the hook in the plain way
    raise SystemExit


def _take_place(call: dict[str, Any], fds: list[int]) -> None:
    for number, fd in enumerate(fds[:3]):
        os.dup2(fd, number)
    os.fchdir(fds[3])
    for fd in fds:
        os.close(fd)
    os.umask(call["umask"])
    QuickEnd.pid, QuickEnd.report = os.getpid(), call.get("report", QuickEnd.report)
    _set_environment(call)
    _name_process(call)
    main_thread: Any = sys.modules["threading"].main_thread()
    main_thread._set_native_id()  # a fork keeps the number of its parent before Python 3.13
    if "logging" in sys.modules:
        import time

        logging: Any = sys.modules["logging"]
        logging._startTime = time.time_ns() if isinstance(logging._startTime, int) else time.time()


def _set_environment(call: dict[str, Any]) -> None:
    """Replace all variables, in this order, also for the C library. `os.environ` would take three times as long."""
    env = dict(pair.split(b"=", 1) for pair in call["env"].split(b"\0") if pair)
    if AtStart.ctype is not None:
        env[b"LC_CTYPE"] = AtStart.ctype
    known: Any = os.environ
    if [*known._data] != [*env]:  # otherwise each keeps its place
        for name in known._data:
            os.unsetenv(name)
        known._data.clear()
    for name, value in env.items():
        if known._data.get(name) != value:
            os.putenv(name, value)
    for variables in (known._data, sys.modules["posix"].environ):
        variables.clear()
        variables.update(env)


def _as_main(call: dict[str, Any], codes: Codes, fresh: dict[str, Any]) -> tuple[CodeType, dict[str, Any]]:
    """Make `__main__` what it is at the start of the script. Returns the script's code and this dict.

    It is a new module: the old one is exempt from garbage collection, and what the script leaves in it would never be
    destroyed."""
    sys.modules["__main__"] = type(sys)("__main__")
    main = sys.modules["__main__"].__dict__
    argv = [os.fsdecode(word) for word in call["argv"]]
    script = argv[0]
    file = script if script.startswith("/") else os.getcwd() + "/" + script
    sys.argv = argv
    if hasattr(sys, "orig_argv"):
        sys.orig_argv = [os.fsdecode(word) for word in call["orig_argv"]]
    if not getattr(sys.flags, "safe_path", False) and not sys.flags.isolated:
        sys.path.insert(0, os.path.dirname(os.path.realpath(script)))
    ScriptGuard.code = code = codes.get((file, call["digest"])) or compile(
        call["text"], file, "exec", dont_inherit=True
    )
    main.clear()
    main.update(fresh, __doc__=None, __file__=file, __loader__=machinery.SourceFileLoader("__main__", file))
    return code, main


class AtStart:
    """What an interpreter changes when it starts."""

    ctype: bytes | None = None  # the variable LC_CTYPE, which it sets if the locale is C
    writes_none = False  # whether compiled modules are not kept; they are not while the parent imports its own


class ScriptGuard:
    """Around the script. An uncaught exception is reported by the interpreter, but without the frame of this file."""

    code: CodeType | None = None

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: Any, error: Any, trace: TracebackType | None) -> None:
        if kind is None:
            QuickEnd.status = 0
        elif kind is SystemExit:
            QuickEnd.status = _status(error.code)
        elif not issubclass(kind, SystemExit):
            while trace is not None and trace.tb_frame.f_code is not ScriptGuard.code:
                trace = trace.tb_next
            # From Python 3.11 the interpreter goes on with the traceback of the exception, before with the one it had.
            if sys.version_info >= (3, 11):  # noqa: UP036
                error.__traceback__ = trace
                QuickEnd.status = _status_of_error(kind)
            else:
                _hide_frames(trace)


def _status_of_error(kind: type[BaseException]) -> int | None:
    """The exit status after an uncaught exception. An own hook may exit, and an interrupt ends by a signal."""
    own = getattr(sys, "excepthook", None) is not sys.__excepthook__
    return None if own or issubclass(kind, KeyboardInterrupt) else 1


def _hide_frames(trace: TracebackType | None) -> None:
    """Report an uncaught exception with this traceback."""
    theirs = getattr(sys, "excepthook", sys.__excepthook__)

    def hook(kind: Any, error: Any, _: object) -> None:
        sys.excepthook, sys.last_traceback = theirs, trace
        theirs(kind, error.with_traceback(trace), trace)
        QuickEnd.status = _status_of_error(kind)

    sys.excepthook = hook


def _status(code: object) -> int | None:
    """The exit status for `sys.exit(code)`; None if that is for the interpreter to tell."""
    if code is None or type(code) is bool:
        return int(code or 0)
    if type(code) is int:
        return code & 0xFF if abs(code) < 1 << 31 else None
    return 1 if type(code) is str else None


class QuickEnd:
    """The end of a call. An interpreter destroys all its objects, which takes ten times as long as the usual script,
    because nearly every page that is shared with the parent is copied. If nothing can tell the difference, only the
    script's own objects are destroyed."""

    status: int | None = None  # None: the interpreter tells it
    pid = 0
    report: tuple[bytes, bytes] = (b"", b"")  # where to report the end, and what the report begins with
    filters: Sequence[Any] = ()
    shared: frozenset[str] = frozenset()
    libraries: tuple[str, ...] = ()

    @classmethod
    def leave(cls) -> None:
        """Registered first with `atexit`, and so called last. Returns if the interpreter must do it."""
        kinds = {type(one) for one in gc.get_objects()}
        if cls.status is None or not _ends_quietly(kinds) or not _flushed():
            return
        inert = all(map(_is_inert, kinds))
        kinds.clear()  # a class keeps its module
        if not inert:
            for name in _FORGOTTEN:
                setattr(sys, name, None)
            _destroy([name for name in sys.modules if name not in cls.shared])
        if _flushed():
            cls._report_end()
            os._exit(cls.status)

    @classmethod
    def _report_end(cls) -> None:
        """Tell the daemon: the kernel takes long to free the memory. A plain process has closed its files by then."""
        name, key = cls.report
        if name and os.getpid() == cls.pid:  # not a fork that the script made
            os.closerange(0, max(map(int, _names("/proc/self/fd")), default=2) + 1)
            try:
                _socket.socket(_socket.AF_UNIX, _socket.SOCK_DGRAM).sendto(
                    key + bytes([cls.status or 0]), _socket.MSG_DONTWAIT, name
                )
            except OSError:
                pass


_HEAP_TYPE = 1 << 9  # a class that is not compiled into the interpreter; others can't be changed


def _is_inert(kind: type) -> bool:
    """Whether the end of such objects has no effect: they are of classes in Python, or built in. Files are not."""
    return all(
        one.__module__ == "builtins" or not {"__weakref__", "__slots__"}.isdisjoint(vars(one)) for one in kind.__mro__
    )


def _ends_quietly(kinds: Iterable[type]) -> bool:
    """Whether the end runs no Python code, prints nothing, and has no business with C libraries."""
    warnings = sys.modules["warnings"]
    traced = sys.gettrace() or sys.getprofile()
    if traced or sys.warnoptions or sys.flags.verbose or sys.flags.dev_mode or warnings.filters != QuickEnd.filters:
        return False
    if len(sys._current_frames()) > 1 or "_ctypes" in sys.modules:
        return False
    for name in [name for name in sys.modules if name not in QuickEnd.shared]:
        file = getattr(sys.modules[name], "__file__", None) or ""
        if not file.endswith(".py") and not _is_in(file, QuickEnd.libraries) and file:
            return False
    return not any(map(_runs_code_at_end, kinds))


def _runs_code_at_end(kind: type) -> bool:
    if not kind.__flags__ & _HEAP_TYPE:
        return kind.__name__ in ("generator", "coroutine", "async_generator")
    return any("__del__" in vars(base) and hasattr(vars(base)["__del__"], "__code__") for base in kind.__mro__)


def _flushed() -> bool:
    """Flush the output. False if that fails: then the interpreter reports it and ends with status 120."""
    try:
        for file in (sys.stdout, sys.stderr):
            if file is not None and not file.closed:
                file.flush()
        return True
    except BaseException:
        return False


_FORGOTTEN = (
    *("path", "argv", "ps1", "ps2", "last_exc", "last_type", "last_value", "last_traceback"),
    *("path_hooks", "path_importer_cache", "meta_path"),
)
"""What the interpreter removes from `sys` first."""


def _destroy(names: Sequence[str]) -> None:
    """Destroy modules as the interpreter does: collect, remove all, collect, and clear those that are still there.

    The first collection sorts the objects, each after the one that refers to it. Without it a file would be closed
    before the buffer above it, and its last lines lost."""
    import weakref

    if gc.isenabled():
        gc.collect()
    left = [weakref.ref(sys.modules[name]) for name in names if type(sys.modules[name]) is type(sys)]
    for name in names:
        del sys.modules[name]
    gc.collect()
    for module in [one() for one in reversed(left)]:
        if module is not None:
            content = module.__dict__
            hidden = [key for key in content if key.startswith("_") and not key.startswith("__")]
            for key in (*hidden, *(key for key in content if key != "__builtins__")):
                content[key] = None


# -- names in /proc


def _mark(name: bytes, value: bytes) -> None:
    """Overwrite the second word of a variable in the memory that /proc/PID/environ shows: the daemon finds the members
    of a tree there. The first word is the parent's: until the daemon has adopted this process, it belongs to it."""
    start, size = _areas()[1]
    with open("/proc/self/mem", "r+b", buffering=0) as memory:
        place = (b"\0" + os.pread(memory.fileno(), size, start)).find(b"\0" + name)
        if place >= 0:
            os.pwrite(memory.fileno(), value, start + place + len(name) + len(value) + 1)


def _name_process(call: dict[str, Any]) -> None:
    """Show the script's command line in `ps`."""
    start, size = _areas()[0]
    shown = b"\0".join(call["orig_argv"])[: size - 1]
    try:
        with open("/proc/self/mem", "r+b", buffering=0) as memory:
            os.pwrite(memory.fileno(), shown.ljust(size, b"\0"), start)
        if call["name"]:
            with open("/proc/self/comm", "wb", buffering=0) as file:
                file.write(call["name"])
    except OSError:
        pass  # a container without /proc/self/mem: only `ps` differs


@functools.lru_cache(None)  # the same in all forks
def _areas() -> tuple[tuple[int, int], tuple[int, int]]:
    """Where the arguments and the environment are: start and size."""
    with open("/proc/self/stat", "rb") as file:
        fields = file.read().rpartition(b") ")[2].split()
    first, last, begin, end = map(int, fields[45:49])
    return (first, last - first), (begin, end - begin)


# -- imports from the project


def _check_imports(folder: str, covered: dict[bytes, str], prefixes: Sequence[str]) -> None:
    """Load no code from the project but the approved files. Installed packages are not approved file by file."""
    folder, installed = folder.rstrip("/") + "/", tuple(prefix + "/" for prefix in prefixes)
    loader: Any = machinery.SourceFileLoader.__mro__[1]  # of sources, compiled files and extensions
    extension: Any = machinery.ExtensionFileLoader
    archive: Any = import_module("zipimport").zipimporter
    read, create, opened = loader.get_data, extension.create_module, archive.__init__

    def is_inside(path: str) -> bool:
        paths = (os.path.abspath(path), os.path.realpath(path))
        return any(path.startswith(folder) and not path.startswith(installed) for path in paths)

    def refusal(path: str, data: bytes) -> str:
        known = {covered.get(os.fsencode(one)) for one in (os.path.abspath(path), os.path.realpath(path))}
        approved = not is_inside(path) or import_module("hashlib").sha256(data).hexdigest() in known
        shown = os.path.abspath(path).removeprefix(folder)
        return "" if approved else f"{shown} is not covered by the hook's approval; run `billhook trust`"

    def get_data(self: Any, path: str) -> bytes:
        data: bytes = read(self, path)
        if path.endswith(".pyc") and isinstance(self, machinery.SourceFileLoader):
            if is_inside(path):
                raise OSError("a compiled file could differ from the approved source")
        elif why := refusal(path, data):
            raise ImportError(why, path=path)
        return data

    def create_module(self: Any, spec: Any) -> Any:
        if why := refusal(self.path, read(self, self.path)):
            raise ImportError(why, path=self.path)
        return create(self, spec)

    def open_archive(self: Any, path: Any) -> None:
        opened(self, path)
        with open(self.archive, "rb") as file:
            if why := refusal(self.archive, file.read()):
                raise PermissionError(why)  # an ImportError would only mean that it is no archive

    loader.get_data, extension.create_module, archive.__init__ = get_data, create_module, open_archive

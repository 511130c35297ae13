"""The program of a warm parent: runs in the interpreter that a hook names, and forks a process for each call.

It imports only the standard library, because that interpreter has no billhook, and works from Python 3.9. The parent
has one thread. It forks spare processes ahead of time, which the daemon adopts (the process between them ends at once)
and to which it sends one script each. A spare makes everything as it is after an ordinary start, leaves the script to
`__main__`, and ends as every interpreter does.
"""

_FRESH = globals().get("_FRESH") or dict(globals())  # `__main__` as a script finds it: must be the first statement
import sys  # noqa: E402

_BEFORE = globals().get("_BEFORE") or frozenset(sys.modules)

import gc  # noqa: E402
import marshal  # noqa: E402
import os  # noqa: E402
from importlib import import_module, machinery  # noqa: E402

import _socket  # noqa: E402

COMMON = (
    "__future__ abc argparse ast base64 bisect collections contextlib copy csv dataclasses datetime difflib enum "
    "fnmatch functools getpass glob hashlib heapq html inspect io itertools json locale logging math operator pathlib "
    "platform posixpath random re shlex shutil signal stat string struct subprocess tempfile textwrap threading time "
    "traceback types typing unicodedata urllib.parse uuid warnings weakref zlib"
).split()
"""Modules of the standard library that hook scripts use most. None of them starts a thread or keeps a file open."""
KNOWN_PTH = ("distutils-precedence.pth", "_virtualenv.pth", "a1_coverage.pth", "coverage.pth")
"""Files whose code depends only on variables that choose the parent (`warm.py`)."""
DIFFERS = (b"environ", b"getenv", b"argv", b"getcwd", b"time")
"""Words in the code of another `.pth` file: it may do something else at each start."""
_FDS = 4  # of one call: standard input, output, error, and its folder
_INT = 4  # bytes of a descriptor's number in a message


# -- the parent


def serve():
    """Serve the daemon. Returns only in a process that has got a script: its code and the dict of `__main__`."""
    control = _socket.socket(fileno=_moved(0))
    if sys.path and not getattr(sys.flags, "safe_path", False) and not sys.flags.isolated:
        sys.path_importer_cache.pop(sys.path.pop(0), None)  # the folder of this file
    for name in COMMON:
        import_module(name)
    _say(control, _greeting())
    gc.collect()
    gc.freeze()  # no collection touches, and so copies, what all processes share
    codes = {}
    while True:
        kind, *rest = marshal.loads(_received(control)[0])
        if kind == "spare":
            link = _spare(control, *rest)
            if link is not None:
                return _script(link, codes)
        elif kind == "code" and len(codes) < 200:
            _remember(codes, *rest)


def _moved(fd):
    """The socket under another number; its old one becomes a pipe, as the standard streams of a call are."""
    import fcntl

    high = fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 10)
    read, write = os.pipe()
    os.dup2(read, fd)
    os.close(read)
    os.close(write)
    return high


def _greeting():
    """What the daemon must know: why this interpreter can't be used, the modules that it has, its files."""
    import site
    import sysconfig

    names = {name.partition(".")[0] for name in sys.modules} - {name.partition(".")[0] for name in _BEFORE}
    libraries = tuple({os.path.realpath(sysconfig.get_path(key)) for key in ("stdlib", "platstdlib")})
    user = site.getusersitepackages() if site.ENABLE_USER_SITE else ""
    files = [sys.executable, os.path.realpath(sys.executable), *sys.path, user, "/etc/localtime"]
    files += [os.path.join(sys.prefix, "pyvenv.cfg"), os.path.join(os.path.dirname(sys.executable), "pyvenv.cfg")]
    pth = [os.path.join(folder, name) for folder in sys.path for name in _names(folder) if name.endswith(".pth")]
    return {
        "problem": _problem(names, libraries, pth),
        "names": sorted(names),
        "files": sorted({file for file in files + pth if file}),
        "prefixes": sorted({sys.prefix, sys.base_prefix, *libraries}),
    }


def _names(folder):
    try:
        return os.listdir(folder)
    except OSError:
        return []


def _problem(names, libraries, pth):
    """Why calls would not be as after a start of their own; "" if they are."""
    for name in ("sitecustomize", "usercustomize"):
        if name in sys.modules and not _is_in(getattr(sys.modules[name], "__file__", ""), (*libraries, "/etc")):
            return "`%s` runs at each start" % name
    for name in names:
        file = getattr(sys.modules.get(name), "__file__", None)
        if file and not _is_in(file, libraries):
            return "%s replaces a module of the standard library" % file
    for file in pth:
        if os.path.basename(file) not in KNOWN_PTH and _runs_code(file):
            return f"{file} may do something else at each start"
    if len(os.listdir("/proc/self/task")) > 1:
        return "its packages start threads"
    if sys.gettrace() or sys.getprofile():
        return "its packages trace"
    return ""


def _is_in(file, folders):
    return any(os.path.realpath(file).startswith(folder + "/") for folder in folders)


def _runs_code(file):
    try:
        with open(file, "rb") as lines:
            code = [line for line in lines if line.startswith((b"import ", b"import\t"))]
            return any(word in line for line in code for word in DIFFERS)
    except OSError:
        return True


def _remember(codes, file, digest, text):
    """Compile a script for the calls to come, unless that prints warnings: each call must print them."""
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            codes[file, digest] = compile(text, file, "exec", dont_inherit=True)
        except Exception:
            pass


def _spare(control, marker, session):
    """Fork a process that waits for a script: there, the socket on which it gets it. In the parent, None.

    The process in between ends at once, so that the daemon, which adopts orphans, becomes the parent of the spare: it
    gets its exit status, and the script's `os.getppid()` is what it would be."""
    ours, theirs = _socket.socketpair()
    try:
        between = os.fork()
    except OSError:
        _say(control, False)
        return None
    if between:
        theirs.close()
        if os.waitpid(between, 0)[1]:
            _say(control, False)
        else:
            _say(control, marker, ours)
        ours.close()
        return None
    try:
        if os.fork():
            os._exit(0)
    except OSError:
        os._exit(1)
    control.close()
    ours.close()
    (os.setsid if session else os.setpgrp)()
    _mark(b"BILLHOOK_CHILD=", marker)
    _say(theirs, os.getpid())
    return theirs


# -- messages


def _say(link, value, *sockets):
    data = marshal.dumps(value, 2)
    numbers = b"".join(one.fileno().to_bytes(_INT, sys.byteorder) for one in sockets)
    ancillary = [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, numbers)] if sockets else []
    link.sendmsg([len(data).to_bytes(4, "big") + data], ancillary)


def _received(link):
    """The next message, and the descriptors that came with it. Ends the process if there is none."""
    data, ancillary, _, _ = link.recvmsg(1 << 18, _socket.CMSG_SPACE(_FDS * _INT))
    size = int.from_bytes(data[:4], "big") + 4 if len(data) >= 4 else 0
    while data and len(data) < size:
        more = link.recv(size - len(data))
        data = data + more if more else b""
    if not data:
        os._exit(0)
    numbers = b"".join(bytes(content) for _, _, content in ancillary)
    fds = [int.from_bytes(numbers[at : at + _INT], sys.byteorder) for at in range(0, len(numbers), _INT)]
    return data[4:], fds


# -- the process of one call


def _script(link, codes):
    """Wait for the script, and put everything in place."""
    body, fds = _received(link)
    call = marshal.loads(body)
    try:
        _take_place(call, fds)
        if call["covered"] is not None:
            _check_imports(call["folder"], call["covered"], call["prefixes"])
        link.sendall(b"!")
        link.close()
    except BaseException:
        os.kill(os.getpid(), 9)  # the daemon starts the hook in the plain way
    return _as_main(call, codes)


def _take_place(call, fds):
    for number, fd in enumerate(fds[:3]):
        os.dup2(fd, number)
    os.fchdir(fds[3])
    for fd in fds:
        os.close(fd)
    os.umask(call["umask"])
    os.environ.clear()
    for name, value in call["env"]:
        os.environb[name] = value
    sys.modules["posix"].environ.clear()
    sys.modules["posix"].environ.update(call["env"])
    _name_process(call)
    if "logging" in sys.modules:
        import time

        logging = sys.modules["logging"]
        logging._startTime = time.time_ns() if isinstance(logging._startTime, int) else time.time()


def _as_main(call, codes):
    """Make `__main__` what it is at the start of the script. Returns the script's code and this dict."""
    main = sys.modules["__main__"].__dict__
    argv = [os.fsdecode(word) for word in call["argv"]]
    script = argv[0]
    file = script if script.startswith("/") else os.getcwd() + "/" + script
    sys.argv = argv
    if hasattr(sys, "orig_argv"):
        sys.orig_argv = [os.fsdecode(word) for word in call["orig_argv"]]
    if not getattr(sys.flags, "safe_path", False) and not sys.flags.isolated:
        sys.path.insert(0, os.path.dirname(os.path.realpath(script)))
    Guard.code = code = codes.get((file, call["digest"])) or compile(call["text"], file, "exec", dont_inherit=True)
    main.clear()
    main.update(_FRESH, __doc__=None, __file__=file, __loader__=machinery.SourceFileLoader("__main__", file))
    return code, main


class Guard:
    """Around the script. An uncaught exception is reported by the interpreter, but without the frame of this file."""

    code = None

    def __enter__(self):
        pass

    def __exit__(self, kind, error, trace):
        if kind is None or issubclass(kind, SystemExit):
            return
        theirs = getattr(sys, "excepthook", sys.__excepthook__)

        def hook(kind, error, trace):
            while trace is not None and trace.tb_frame.f_code is not Guard.code:
                trace = trace.tb_next
            sys.excepthook, sys.last_traceback = theirs, trace
            theirs(kind, error.with_traceback(trace), trace)

        sys.excepthook = hook


# -- names in /proc


def _mark(name, value):
    """Overwrite a variable in the memory that /proc/PID/environ shows: the daemon finds the members of a tree there."""
    start, size = _areas()[1]
    with open("/proc/self/mem", "r+b", buffering=0) as memory:
        place = (b"\0" + os.pread(memory.fileno(), size, start)).find(b"\0" + name)
        if place >= 0:
            os.pwrite(memory.fileno(), value, start + place + len(name))


def _name_process(call):
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


def _areas():
    """Where the arguments and the environment are: start and size."""
    with open("/proc/self/stat", "rb") as file:
        fields = file.read().rpartition(b") ")[2].split()
    first, last, begin, end = map(int, fields[45:49])
    return (first, last - first), (begin, end - begin)


# -- imports from the project


def _check_imports(folder, covered, prefixes):
    """Load no code from the project but the approved files. Installed packages are not approved file by file."""
    folder, prefixes = folder + "/", tuple(prefix + "/" for prefix in prefixes)
    from hashlib import sha256

    def check(path, data):
        for each in {os.path.abspath(path), os.path.realpath(path)}:
            if each.startswith(folder) and not each.startswith(prefixes):
                if covered.get(os.fsencode(each)) != sha256(data).hexdigest():
                    raise ImportError(
                        "%s is not covered by the hook's approval; run `billhook trust`" % path, path=path
                    )

    base = machinery.SourceFileLoader.__mro__[1]
    read = base.get_data

    def get_data(self, path):
        data = read(self, path)
        if path.endswith(".pyc") and not isinstance(self, machinery.SourcelessFileLoader):
            inside = os.path.abspath(path).startswith(folder) and not os.path.abspath(path).startswith(prefixes)
            if inside:
                raise OSError  # a compiled file could differ from the approved source
        else:
            check(path, data)
        return data

    base.get_data = get_data


if __name__ == "__main__":
    # `__main__` will be the script's: what runs here must live in another dict.
    _NAMESPACE = {"__name__": "billhook_warm", "_FRESH": _FRESH, "_BEFORE": _BEFORE, "__builtins__": __builtins__}
    with open(__file__, "rb") as _file:
        exec(compile(_file.read(), __file__, "exec"), _NAMESPACE)
    with _NAMESPACE["Guard"]():
        exec(*_NAMESPACE["serve"]())

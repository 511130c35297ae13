"""Start one process, and explain in plain words why that failed. POSIX only."""

import errno
import functools
import os
import select
import signal
import sys
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from billhook.core.lazy import lazy_module

if TYPE_CHECKING:
    import selectors
    import shlex
    import subprocess
else:
    selectors = lazy_module("selectors")
    shlex = lazy_module("shlex")
    subprocess = lazy_module("subprocess")

if sys.platform != "win32":
    import fcntl

Folder = str | bytes | os.PathLike[str] | None

# Python ignores PIPE and XFSZ itself, and Popen restores their default action; glibc's posix_spawn ignores 32 and 33,
# which it uses internally and which can't be reset.
_HARMLESS = 1 << 12 | 1 << 24 | 1 << 31 | 1 << 32
_ALL_SIGNALS = signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP} if sys.platform != "win32" else set()
PIPE_MAX = 1 << 20  # the largest pipe that a user may have without privileges
_PIPE = 1 << 16  # the default size of a pipe
_HEAD = 256  # how much of a script the kernel reads for the name of its interpreter
_CLOSE_FROM: int = getattr(os, "POSIX_SPAWN_CLOSEFROM", 0)
_IN_CWD = 'cd -- "$0" && exec "$@"'


def spawn(argv: Sequence[str], fds: tuple[int, int, int], env: Mapping[str, str], cwd: Folder) -> int:
    """Start a process in its own group with `fds` as its standard streams. Returns its number; the caller collects it.

    Its signals have their default actions and are not blocked. It gets a separate session only if we have a terminal:
    then it can neither read from it nor be stopped by it. (A session for each command takes twice the time on a busy
    machine.) Raises OSError or ValueError.
    """
    if not argv:
        raise ValueError("the command is empty")
    session = _has_terminal(os.getsid(0))
    try:
        if _is_here(cwd):
            return _posix_spawn(_find(argv[0], env, None), argv, fds, env, session)
        if _signals_are_odd():
            if found := diagnose(argv, env, cwd):
                raise OSError(*found)
            assert cwd is not None
            folder = os.fsdecode(cwd)
            folder = folder if os.path.isabs(folder) else os.path.join(os.getcwd(), folder)
            return _posix_spawn("/bin/sh", ("/bin/sh", "-c", _IN_CWD, folder, *argv), fds, env, session)
    except OSError as error:
        # posix_spawn can't close a descriptor above the current `ulimit -n`, which the host may have; Popen can.
        if error.errno != errno.EBADF:
            raise
    popen = subprocess.Popen(
        argv,
        stdin=fds[0],
        stdout=fds[1],
        stderr=fds[2],
        env=env,
        cwd=cwd,
        start_new_session=session,
        process_group=None if session else 0,
    )
    # Popen must not collect it: if other code did, Popen reports exit code 0.
    popen.returncode = 0
    return popen.pid


def _posix_spawn(
    path: str, argv: Sequence[str], fds: tuple[int, int, int], env: Mapping[str, str], session: bool
) -> int:
    """The fastest way, and the only one that resets signals; but it can't change the directory."""
    actions: list[tuple[int, int, int] | tuple[int, int]] = [
        (os.POSIX_SPAWN_DUP2, fd, number) for number, fd in enumerate(fds)
    ]
    # Popen closes descriptors that the host left inheritable. Here they must be listed before Python 3.13: slow.
    actions += [(_CLOSE_FROM, 3)] if _CLOSE_FROM else [(os.POSIX_SPAWN_CLOSE, fd) for fd in _inheritable()]
    group = {"setsid": True} if session else {"setpgroup": 0}
    return os.posix_spawn(path, tuple(argv), env, file_actions=actions, setsigmask=(), setsigdef=_ALL_SIGNALS, **group)


def _is_here(cwd: Folder) -> bool:
    try:
        return cwd is None or os.fsdecode(cwd) == os.getcwd()
    except OSError:
        return False


@functools.lru_cache(maxsize=1)
def _has_terminal(session: int) -> bool:
    """Whether this session has a controlling terminal; it may lose it later, which is harmless."""
    try:
        os.close(os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY | os.O_CLOEXEC))
    except OSError:
        return False
    return True


def _signals_are_odd() -> bool:
    """Whether a child would inherit a blocked or ignored signal: from `nohup`, or from a thread that blocks some."""
    try:
        fd = os.open("/proc/thread-self/status", os.O_RDONLY | os.O_CLOEXEC)
        try:
            _, _, after = os.read(fd, 4096).partition(b"\nSigBlk:\t")
        finally:
            os.close(fd)
        return int(after[:16], 16) != 0 or int(after[25:41], 16) & ~_HARMLESS != 0
    except (OSError, ValueError):
        ignored = (n for n in signal.valid_signals() if signal.getsignal(n) is signal.SIG_IGN)
        return bool(signal.pthread_sigmask(signal.SIG_BLOCK, ())) or any(not _HARMLESS >> (n - 1) & 1 for n in ignored)


def _inheritable() -> list[int]:
    """The descriptors that a child would inherit.

    Listing them takes longest. On Linux the size of the folder is their number (since 6.2; 0 before): if it is the same
    as before, and each descriptor from then is still open, they are the same.
    """
    global _open_before  # noqa: PLW0603
    folder, before = "/proc/self/fd" if sys.platform == "linux" else "/dev/fd", _open_before
    try:
        if before and sys.platform == "linux" and os.stat(folder).st_size == len(before):
            return [fd for fd in before if os.get_inheritable(fd) and fd > 2]
    except OSError:  # one of them was closed
        pass
    found: dict[int, bool] = {}
    for fd in map(int, os.listdir(folder)):
        with suppress(OSError):  # the descriptor of the listing itself
            found[fd] = os.get_inheritable(fd)
    _open_before = tuple(found)
    return [fd for fd, inherits in found.items() if inherits and fd > 2]


_open_before: tuple[int, ...] = ()


def watch_exit(pid: int) -> tuple[int, tuple[int, int]]:
    """A descriptor that becomes readable when the process ends, and the id of the process for `waitid`."""
    try:
        pidfd = os.pidfd_open(pid)
        return pidfd, (os.P_PIDFD, pidfd)
    except (AttributeError, OSError):
        # No such call here (macOS, an old kernel, a container that forbids it), or the process has ended already.
        read, write = pipe()
        try:
            threading.Thread(target=_close_at_exit, args=(pid, write), name="billhook-watch", daemon=True).start()
        except RuntimeError as error:
            os.close(read)
            os.close(write)
            raise OSError(errno.EAGAIN, str(error)) from error
        return read, (os.P_PID, pid)


def _close_at_exit(pid: int, write: int) -> None:
    try:
        if sys.platform != "darwin":
            os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
        else:
            exits = select.kevent(pid, select.KQ_FILTER_PROC, select.KQ_EV_ADD, select.KQ_NOTE_EXIT)
            with select.kqueue() as queue:
                queue.control([exits], 1)
    except (ChildProcessError, ProcessLookupError):
        pass
    finally:
        os.close(write)


def widen(fd: int, size: int) -> None:
    """Enlarge a pipe, if that is allowed."""
    if size > _PIPE and sys.platform == "linux":
        with suppress(OSError):  # the user has too many large pipes: then writing takes more steps
            fcntl.fcntl(fd, fcntl.F_SETPIPE_SZ, min(PIPE_MAX, size))


def prefill(write: int, payload: bytes) -> memoryview:
    """Fill the pipe before its reader starts; returns what did not fit."""
    os.set_blocking(write, False)
    widen(write, len(payload))
    rest = memoryview(payload)
    try:
        while rest:
            rest = rest[os.write(write, rest) :]
    except BlockingIOError:
        pass
    return rest


if sys.platform == "linux":
    Poll = select.epoll
else:

    class Poll:
        """A replacement for `select.epoll` on other systems."""

        def __init__(self) -> None:
            self._selector = selectors.DefaultSelector()
            self.fileno, self.close = self._selector.fileno, self._selector.close
            self.unregister = self._selector.unregister

        def register(self, fd: int, mask: int) -> None:
            self._selector.register(fd, selectors.EVENT_READ if mask == select.POLLIN else selectors.EVENT_WRITE)

        def poll(self, timeout: float) -> list[tuple[int, int]]:
            return [(key.fd, mask) for key, mask in self._selector.select(timeout)]


def pipe() -> tuple[int, int]:
    """A pipe with numbers above the standard streams, which a host may have closed."""
    ends = os.pipe()
    if min(ends) > 2:
        return ends
    high = [fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 3) for fd in ends]
    for fd in ends:
        os.close(fd)
    return high[0], high[1]


def explain(error: Exception, argv: Sequence[str], env: Mapping[str, str], cwd: Folder) -> str:
    """Why a command could not be started: the name of the errno, the problem, and the fix."""
    if not isinstance(error, OSError):
        what = "a character that can't be encoded" if isinstance(error, UnicodeError) else str(error)
        return f"EINVAL: {what} in the command, its directory or its environment; remove it there"
    try:
        number, text = diagnose(argv, env, cwd) or (error.errno or 0, "")
    except (OSError, ValueError):
        number, text = error.errno or 0, ""
    advice = text or _ADVICE.get(number, "{} could not be started: {}").format(_quoted(argv), os.strerror(number))
    return f"{errno.errorcode.get(number, 'EIO')}: {advice}"


def why_not(argv: Sequence[str], env: Mapping[str, str], cwd: Folder) -> str:
    """Why a command can't be started, as far as its files show; empty if there is no problem."""
    found = diagnose(argv, env, cwd)
    return f"{errno.errorcode.get(found[0], 'EIO')}: {found[1]}" if found else ""


_ADVICE = {
    errno.ENOEXEC: "{} has no `#!` line and is not a program; write `#!/bin/sh` as its first line",
    errno.E2BIG: "the arguments and environment of {} are too long; pass the data on standard input",
    errno.EMFILE: "too many open files to start {}; raise `ulimit -n` or run fewer at once",
    errno.ENFILE: "the system has too many open files to start {}; run fewer at once",
    errno.EAGAIN: "too many processes to start {}; raise `ulimit -u` or run fewer at once",
    errno.ENOMEM: "not enough memory to start {}; run fewer at once",
}


def diagnose(argv: Sequence[str], env: Mapping[str, str], cwd: Folder) -> tuple[int, str] | None:
    """Why this command would not start, as far as its files show: an errno and a message."""
    if cwd is not None and (bad := _bad_cwd(cwd)):
        return bad
    path, name = _find(argv[0], env, cwd), _quoted(argv)
    if not os.path.lexists(path):
        where = "does not exist" if "/" in argv[0] else "was not found in PATH"
        return errno.ENOENT, f"{name} {where}; check the spelling or give its full path"
    if os.path.isdir(path):
        return errno.EACCES, f"{name} is a directory; name a program in it"
    if not os.path.exists(path):
        return errno.ENOENT, f"{name} is a link to a missing file; fix or remove the link"
    if not os.access(path, os.X_OK):
        return errno.EACCES, f"{name} is not executable; run `chmod +x {shlex.quote(_printable(path))}`"
    return _bad_script(path, name, cwd)


def _bad_cwd(cwd: str | bytes | os.PathLike[str]) -> tuple[int, str] | None:
    name = f"the working directory `{_printable(os.fsdecode(cwd))}`"
    try:
        os.stat(cwd)
    except OSError as error:
        return error.errno or errno.ENOENT, f"{name} can't be entered: {error.strerror}; use one that exists"
    if not os.path.isdir(cwd):
        return errno.ENOTDIR, f"{name} is not a directory; use a directory"
    if not os.access(cwd, os.X_OK):
        return errno.EACCES, f"{name} may not be entered; run `chmod u+x` on it"
    return None


def _bad_script(path: str, name: str, cwd: Folder) -> tuple[int, str] | None:
    try:
        with open(path, "rb") as file:
            head = file.read(_HEAD)
    except OSError:
        return None  # a program may be executable but not readable
    if not head.startswith(b"#!"):
        text = not head.strip() or b"\0" not in head
        return (errno.ENOEXEC, _ADVICE[errno.ENOEXEC].format(name)) if text else None
    line = head[2:].split(b"\n")[0]
    if line.endswith(b"\r"):
        return errno.ENOENT, f"{name} has Windows line ends (CRLF); convert it with `sed -i 's/\\r$//'`"
    words = line.split(None, 1)
    interpreter = os.fsdecode(words[0]) if words else ""
    if not os.path.exists(os.path.join(os.fsdecode(cwd or ""), interpreter)) or not interpreter:
        return (
            errno.ENOENT,
            f"{name} names the interpreter `{_printable(interpreter)}`, which does not exist; install it",
        )
    return None


def _find(name: str, env: Mapping[str, str], cwd: Folder) -> str:
    """The file that would run; a name that is not in PATH stays unchanged."""
    if "/" in name and not cwd:
        return name
    if b"\0" in os.fsencode(name):
        raise ValueError("embedded null byte")
    base = os.fsdecode(cwd or "")
    if "/" in name:
        return os.path.join(base, name)
    paths = [os.path.join(base, folder, name) for folder in os.get_exec_path(env)]
    runnable = (path for path in paths if os.path.isfile(path) and os.access(path, os.X_OK))
    present = (path for path in paths if os.path.isfile(path))
    return next(runnable, None) or next(present, None) or os.path.join("/nonexistent", name)


def _quoted(argv: Sequence[str]) -> str:
    return f"`{_printable(argv[0])}`" if argv else "the empty command"


def _printable(text: str) -> str:
    short = text if len(text) <= 200 else text[:200] + "..."
    return short.encode("utf-8", "backslashreplace").decode()

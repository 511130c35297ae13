"""Starting a daemon, asking how it is, and ending it, from another process."""

import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

import msgspec

from billhook.core.errors import BillhookError
from billhook.serve import places, protocol
from billhook.serve import places as remembered
from billhook.serve.protocol import Status
from billhook.store.files import StoreError

ANSWERS: Final = 3.0  # seconds in which a daemon that is well says how it is, on a busy machine
BEGINS: Final = 20.0  # seconds in which one that was started serves
ENDS: Final = 40.0  # seconds in which one that was told to end has ended: it lets those who wait have their answers
TAKEN: Final = 75  # the exit code of a daemon that found another one at work

Waiting = Callable[[], None]  # called again and again while something takes its time


class SilentError(BillhookError):
    """There is a daemon, and it does not answer."""

    def __init__(self, folder: Path, pid: int) -> None:
        who = f"the daemon (process {pid})" if pid else "the daemon"
        hint = "it hangs or is stopped: `billhook daemon stop --force` ends it, and the next event starts another"
        super().__init__(f"{who} does not answer", place=str(folder / places.SOCKET), hint=hint)
        self.pid = pid


def ask(root: Path, seconds: float = ANSWERS) -> Status | None:
    """How the daemon is; None when none serves. Raises SilentError when there is one that does not say."""
    folder = places.checked(places.folder_of(root))
    try:
        connection = places.connect(folder, seconds)
    except (BlockingIOError, TimeoutError):
        raise SilentError(folder, places.holder(folder)) from None
    except OSError:
        return None
    with connection:
        pid = places.peer_of(connection)
        try:
            connection.sendall(protocol.ABOUT)
            reply = b"".join(iter(lambda: connection.recv(1 << 16), b""))
            return msgspec.json.decode(protocol.read_about(reply), type=Status)
        except TimeoutError:
            raise SilentError(folder, pid or places.holder(folder)) from None
        except (OSError, protocol.GarbageError, msgspec.MsgspecError):
            return None  # it ended just now, or is none of ours


def start(root: Path, options: list[str], waiting: Waiting, *, patient: bool = True) -> tuple[Status | None, bool]:
    """See to it that a daemon serves; how it is, and whether it was started now. Raises StoreError, and SilentError.

    `options` are those of `billhook daemon run`; without any it is as the last one was, unless that was meant to end.
    Who is not `patient` leaves it to another who starts one just now.
    """
    folder = places.made(root)
    found = ask(root)
    if found is not None:
        return found, False
    with _only_one(folder) as first:
        if not first and not patient:
            return None, False
        return _served(root, (options or _as_before(folder)) if first else None, waiting), first


def _as_before(folder: Path) -> list[str]:
    last = remembered.recalled(folder)
    return [] if last is None else [*last.words(), "--again"]


def _started(root: Path, options: list[str]) -> "subprocess.Popen[bytes]":
    """A daemon in a session of its own, which keeps nothing of ours but its standard error, until it serves."""
    argv = [sys.executable, "-P", "-X", "utf8", "-m", "billhook", "daemon", "run", "--detached", *options]
    # Where it is made no difference so far; from now on it does.
    env = {**os.environ, "BILLHOOK_HOME": str(root)}
    try:
        return subprocess.Popen(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            cwd="/",
            env=env,
            start_new_session=True,
        )
    except OSError as error:
        raise StoreError(f"the daemon can't be started: {error.strerror}", place=sys.executable) from error


def _served(root: Path, options: list[str] | None, waiting: Waiting) -> Status:
    """Start one, with these options, and wait until one says how it is; without options another starts it."""
    folder = places.folder_of(root)
    end = time.monotonic() + BEGINS
    child: subprocess.Popen[bytes] | None = None
    try:
        while time.monotonic() < end:
            if options is not None and child is None and not places.holder(folder):  # one that leaves may have it
                child = _started(root, options)
            found = ask(root)
            if found is not None and not found.leaving:
                return found
            if child is not None and child.poll() is not None:
                _complain(child, root)
                child = None
            waiting()
            time.sleep(0.02)
    finally:
        if child is not None and child.stderr is not None:
            child.stderr.close()
            child.returncode = 0  # nobody waits for it
    raise SilentError(folder, places.holder(folder))


def _complain(child: "subprocess.Popen[bytes]", root: Path) -> None:
    """StoreError with the words of a daemon that ended instead of serving, unless another one serves."""
    assert child.stderr is not None
    with child.stderr:
        said = child.stderr.read(1 << 16).decode("utf-8", "replace").strip()
    if child.returncode == TAKEN:
        return
    message, _, hint = said.removeprefix("error: ").partition("\n\nhint: ")
    message = message or f"the daemon ended at once, with exit code {child.returncode}"
    log = places.folder_of(root) / places.LOG
    raise StoreError(message, hint=hint or f"`billhook daemon run` shows more; its log: {log}")


@contextmanager
def _only_one(folder: Path) -> Iterator[bool]:
    """Whether nobody else starts a daemon here just now; then nobody does meanwhile."""
    import fcntl

    path = folder / "starting"
    try:
        file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    except OSError as error:
        hint = "set BILLHOOK_HOME to a folder that you can write"
        raise StoreError(f"can't open it: {error.strerror}", place=str(path), hint=hint) from error
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        yield False
    else:
        yield True
    finally:
        os.close(file)


def stop(root: Path, waiting: Waiting, *, force: bool = False) -> int:
    """End the daemon, and wait for that; its number, 0 when there was none. Raises SilentError when it does not end."""
    folder = places.checked(places.folder_of(root))
    remembered.forget(folder)
    pid = _pid_of(folder)
    if pid <= 1:
        return 0
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL if force else signal.SIGTERM)
        os.kill(pid, signal.SIGCONT)  # one that is stopped can't end
    end = time.monotonic() + ENDS
    while _is_alive(pid):
        if time.monotonic() > end:
            raise SilentError(folder, pid)
        waiting()
        time.sleep(0.02)
    return pid


def _pid_of(folder: Path) -> int:
    """The daemon's process: the one that listens, or else the one that has the lock; 0 when there is none."""
    try:
        with places.connect(folder, 1.0) as connection:
            return places.peer_of(connection) or places.holder(folder)
    except OSError:
        return places.holder(folder)


def _is_alive(pid: int) -> bool:
    """Whether it runs. One that has ended and that nobody collects does not."""
    if hasattr(os, "pidfd_open"):
        try:
            descriptor = os.pidfd_open(pid)
        except ProcessLookupError:
            return False
        except OSError:
            return _takes_signals(pid)
        try:
            return not select.select([descriptor], [], [], 0)[0]
        finally:
            os.close(descriptor)
    return _takes_signals(pid)


def _takes_signals(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True

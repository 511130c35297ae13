"""Everything that one command started: found through /proc, ended by signals.

On Linux a process belongs to the tree when it is in the leader's process group, descends from a member, or carries the
tree's marker in its environment; so one that left by `setsid` or by a double fork is found too. Elsewhere the process
group is all there is. Nothing here changes a setting of the host process, except `adopt_orphans`.
"""

import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from typing import NamedTuple

MARKER = "BILLHOOK_CHILD"
"""The variable that carries the markers of a command: its own, after those of the commands it runs in."""
GRACE = 0.5
"""Seconds between TERM and KILL."""
PATIENCE = 30.0
"""Seconds after which a process that even KILL can't end (a dead network file system) is given up."""


class Process(NamedTuple):
    """One line of /proc at the time of a scan."""

    pid: int
    state: bytes
    parent: int
    group: int
    session: int
    start: int

    @property
    def alive(self) -> bool:
        return self.state not in (b"Z", b"X")


class Tree:
    """The processes of one command; lives until a scan finds none of them.

    `reserved` says that the leader has not been collected yet, so that its number names nobody else's group.
    """

    def __init__(self, leader: int, marker: str) -> None:
        self.leader = leader
        self.reserved = True
        self._marker = marker.encode()
        self._start = 0
        self._known: dict[int, int] = {}

    def members(self, *, group: bool | None = None) -> dict[int, Process]:
        """The processes that are alive now. `group` trusts the leader's group even after the leader was collected."""
        trusted = self.reserved if group is None else group
        table = {process.pid: process for process in processes()}
        if self.reserved and self.leader in table:
            self._start = table[self.leader].start
        table.pop(os.getpid(), None)
        found = {pid for pid, process in table.items() if self._owns(process, trusted)}
        children: dict[int, list[int]] = {}
        for process in table.values():
            children.setdefault(process.parent, []).append(process.pid)
        front = list(found)
        while front:
            new = [child for child in children.get(front.pop(), ()) if child not in found]
            found.update(new)
            front += new
        self._known = {pid: table[pid].start for pid in found}
        self._reap(table)
        return {pid: table[pid] for pid in found if table[pid].alive}

    def _owns(self, process: Process, trusted: bool) -> bool:
        if self._known.get(process.pid) == process.start or (trusted and self.leader in (process.pid, process.group)):
            return True
        # The start time spares reading the environment of everything that was there before.
        return process.alive and process.start >= self._start and self._marker in _environment(process.pid)

    def _reap(self, table: dict[int, Process]) -> None:
        """Collect members that became our own children: we are a subreaper, or process 1 of a container."""
        for pid in self._known:
            if pid != self.leader and not table[pid].alive and table[pid].parent == os.getpid():
                _collect(pid)

    def signal(self, *signals: int, group: bool | None = None) -> bool:
        """Send the signals to every member; False when there was none."""
        if sys.platform != "linux":
            return all([_send_group(self.leader, number) for number in signals or (0,)])
        members = self.members(group=group)
        for number in signals:
            if self.reserved:
                # One atomic call for the whole group: nobody in it can fork its way out.
                _send_group(self.leader, number)
            for pid, process in members.items():
                if not (self.reserved and process.group == self.leader):
                    _send(pid, number)
        return bool(members)

    def kill(self, passes: int = 60) -> Iterator[float]:
        """KILL until a scan finds nothing. Yields the pauses (about 1 s in all) that the caller must make."""
        for number in range(passes):
            if not self.signal(signal.SIGKILL):
                return
            yield min(0.001 * 2**number, 0.02)


def processes() -> Iterator[Process]:
    for name in os.listdir("/proc"):
        if name.isdigit():
            # The name of the program may hold blanks and parentheses: the fields begin after the last one.
            fields = _read(f"/proc/{name}/stat").rpartition(b") ")[2].split()
            if len(fields) > 19:
                yield Process(int(name), fields[0], int(fields[1]), int(fields[2]), int(fields[3]), int(fields[19]))


def _environment(pid: int) -> bytes:
    try:
        return _read(f"/proc/{pid}/environ") if os.stat(f"/proc/{pid}").st_uid == os.geteuid() else b""
    except OSError:
        return b""


def _read(path: str) -> bytes:
    try:
        with open(path, "rb", buffering=0) as file:
            return file.read()
    except OSError:
        return b""


def _send(pid: int, number: int) -> None:
    try:
        os.kill(pid, number)
    except (ProcessLookupError, PermissionError):
        pass


def _send_group(group: int, number: int) -> bool:
    try:
        os.killpg(group, number)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True


def _collect(pid: int) -> None:
    try:
        os.waitpid(pid, os.WNOHANG)
    except ChildProcessError:
        pass


# What a command left behind is killed by one thread, which lives only while there is something to do: the event loop
# that ran the command may be gone by then.
_lock = threading.Condition()
_left: dict[Tree, float] = {}
_thread: threading.Thread | None = None


def bury(tree: Tree) -> None:
    """See to it that nothing of the tree, which has had its TERM, is alive after the grace. Returns at once."""
    global _thread  # noqa: PLW0603
    with _lock:
        _left[tree] = time.monotonic() + GRACE
        if _thread is None:
            _thread = threading.Thread(target=_undertake, name="billhook-undertaker", daemon=True)
            _thread.start()


def settle(timeout: float = 2 * GRACE) -> bool:
    """Wait until what ended commands left behind is dead too; False when the time was too short.

    For a short-lived process, which would take the thread that kills the leftovers with it.
    """
    with _lock:
        return _lock.wait_for(lambda: not _left, timeout)


def _undertake() -> None:
    global _thread  # noqa: PLW0603
    while True:
        with _lock:
            due = dict(_left)
            if not due:
                _thread = None
                return
        for tree, moment in due.items():
            if not _gone(tree, time.monotonic() - moment):
                continue
            with _lock:
                del _left[tree]
                _lock.notify_all()
        time.sleep(0.02)


def _gone(tree: Tree, late: float) -> bool:
    alive = tree.signal(signal.SIGKILL) if late >= 0 else tree.signal()
    if tree.reserved and not alive:
        _collect(tree.leader)
        tree.reserved = False
    return not alive or late > PATIENCE


def _after_fork() -> None:
    global _lock, _thread  # noqa: PLW0603
    _lock, _thread = threading.Condition(), None
    _left.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)

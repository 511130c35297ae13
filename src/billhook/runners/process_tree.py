"""Everything that one command started: found through /proc, ended by signals.

On Linux a process belongs to the tree if it is in the leader's process group, descends from a member, or has the tree's
marker in its environment; so a process that left by `setsid` or by a double fork is found, too. Elsewhere the tree is
the process group. Nothing here changes a setting of the host process, except `adopt_orphans`.
"""

import os
import signal
import sys
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext, suppress
from typing import NamedTuple

MARKER = "BILLHOOK_CHILD"
"""The variable with the markers of a command: its own, after those of the commands that it runs in."""
GRACE = 0.5  # seconds between TERM and KILL
GIVE_UP = 30.0  # seconds after which we stop waiting for a process that even KILL can't end (a dead network disk)


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

    `reserved`: the leader has not been collected yet, so that no other group can have its number.
    """

    def __init__(self, leader: int, marker: str) -> None:
        self.leader = leader
        self.reserved = True
        self.resting = False  # it waits for its next request: processes that appear meanwhile are not its own
        self._marker = marker.encode()
        self._start = next((process.start for process in processes([str(leader)])), 0) if _adopting else 0
        self._known: dict[int, int] = {}
        self._doubtful: dict[int, int] = {}
        _live[leader] = self

    def close(self) -> None:
        """Note that the command has ended, whatever it left."""
        _live.pop(self.leader, None)
        _end_doubts()

    def abandon(self) -> None:
        """Kill and collect a command that is not needed."""
        self.kill_now()
        _collect(self.leader)
        self.close()

    def members(self, *, group: bool | None = None) -> dict[int, Process]:
        """The processes that are alive now. `group` trusts the leader's group even after the leader was collected."""
        trusted = self.reserved if group is None else group
        with starting():
            leaders = _leaders()
            table = {process.pid: process for process in processes()}
        if self.reserved and self.leader in table:
            self._start = table[self.leader].start
        table.pop(os.getpid(), None)
        found = {pid for pid, process in table.items() if self._owns(process, trusted, leaders)}
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
        _forget_markers(table)
        return {pid: table[pid] for pid in found if table[pid].alive}

    def _owns(self, process: Process, trusted: bool, leaders: set[int]) -> bool:
        if self._known.get(process.pid) == process.start or (trusted and self.leader in (process.pid, process.group)):
            return True
        # Older processes are skipped by their start time, without reading their environment.
        if not process.alive or process.start < self._start:
            return False
        if self._marker in _marker_of(process):
            return True
        if _live.get(self.leader) is not self or not _is_adopted(process, leaders):
            return False
        owners = _owners(process)
        if len(owners) > 1:
            self._doubtful[process.pid] = process.start
        return owners == [self]

    def doubt(self) -> None:
        """Note that the command had to be ended: orphans that may be its own die as soon as no other can own them."""
        if self._doubtful:
            with _lock:
                _doubted.append(self)

    def resolve(self, *, now: bool) -> bool:
        """Kill the uncertain orphans that no other command can own, or all `now`; returns whether none is left."""
        there = [p for p in processes(map(str, self._doubtful)) if p.alive and self._doubtful[p.pid] == p.start]
        sure = {p.pid: p.start for p in there if now or not _owners(p)}
        if sure:
            self._known.update(sure)
            bury(self, grace=0.0)
        self._doubtful = {p.pid: p.start for p in there if p.pid not in sure}
        return not self._doubtful

    def _reap(self, table: dict[int, Process]) -> None:
        """Collect members that became our own children: we are a subreaper, or process 1 of a container."""
        for pid in self._known:
            if pid != self.leader and not table[pid].alive and table[pid].parent == os.getpid():
                _collect(pid)

    def signal(self, *signals: int, group: bool | None = None) -> bool:
        """Send the signals to every member; False if there was none."""
        if sys.platform != "linux":
            return [_send_group(self.leader, number) for number in signals or (0,)][-1]
        members = self.members(group=group)
        for number in signals:
            if self.reserved:
                # One atomic call for the whole group: no member can escape by a fork.
                _send_group(self.leader, number)
            for pid, process in members.items():
                if not (self.reserved and process.group == self.leader):
                    _send(pid, number)
        return bool(members)

    def dismiss(self) -> bool:
        """TERM and CONT to the group, if it outlives its leader; returns whether it does.

        Call it right after the leader was collected: its number is free. One call usually finds that nothing is left;
        a scan of /proc after each command would cost more than the command.
        """
        self.reserved = False
        if not _send_group(self.leader, 0):
            return False
        _send_group(self.leader, signal.SIGTERM)
        _send_group(self.leader, signal.SIGCONT)
        return sys.platform != "linux" or bool(self.members(group=True))

    def kill(self, passes: int = 60) -> Iterator[float]:
        """KILL until a scan finds nothing. Yields the pauses (about 1 s in total) that the caller must make."""
        for number in range(passes):
            if not self.signal(signal.SIGKILL):
                return
            yield min(0.001 * 2**number, 0.02)

    def kill_now(self) -> None:
        """The same with blocking pauses."""
        for pause in self.kill():
            time.sleep(pause)


def processes(names: Iterable[str] | None = None) -> Iterator[Process]:
    """The data of /proc about these processes, or all."""
    for name in os.listdir("/proc") if names is None else names:
        if name.isdigit():
            # The name of the program may contain blanks and parentheses: the fields begin after the last one.
            fields = _read(f"/proc/{name}/stat").rpartition(b") ")[2].split()
            if len(fields) > 19:
                yield Process(int(name), fields[0], int(fields[1]), int(fields[2]), int(fields[3]), int(fields[19]))


_markers: dict[tuple[int, int], bytes] = {}


def _marker_of(process: Process) -> bytes:
    """The markers of a process.

    It has them from its start, as a copy of its parent. They are read once, and kept if it later runs another program
    with an empty environment.
    """
    key = process.pid, process.start
    found = _markers.get(key)
    if found is None:
        environment = _environment(process.pid)
        found = (b"\0" + environment).partition(b"\0" + MARKER.encode() + b"=")[2].partition(b"\0")[0]
        if environment:  # while a program starts, it is empty for a moment
            _markers[key] = found
    return found


def _environment(pid: int) -> bytes:
    try:
        return _read(f"/proc/{pid}/environ") if os.stat(f"/proc/{pid}").st_uid == os.geteuid() else b""
    except OSError:
        return b""


def forget_markers() -> None:
    """Scan all processes again."""
    _markers.clear()


def _forget_markers(table: dict[int, Process]) -> None:
    if len(_markers) > 2 * len(table) + 100:
        for key in [key for key in list(_markers) if key[0] not in table]:
            _markers.pop(key, None)


def _read(path: str) -> bytes:
    try:
        with open(path, "rb", buffering=0) as file:
            return file.read()
    except OSError:
        return b""


def _send(pid: int, number: int) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.kill(pid, number)


def _send_group(group: int, number: int) -> bool:
    try:
        os.killpg(group, number)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True


def _collect(pid: int) -> None:
    with suppress(ChildProcessError):
        os.waitpid(pid, os.WNOHANG)


_live: dict[int, Tree] = {}  # the commands that have not ended, by their leaders
_doubted: list[Tree] = []  # commands that had to be ended while there were orphans that another command may have left
_adopting = False
_start_lock = threading.RLock()
_NO_LOCK = nullcontext()


def adopt_orphans() -> None:
    """Make this process the parent of everything that its commands leave behind, so that no process escapes.

    It is a setting of the whole process, which from now on must start children only through `process`: any other child
    that appears while a command runs counts as an orphan of that command, and is killed and collected with it. So it is
    only for billhook's own processes, such as the command line or the daemon. Does nothing outside Linux.
    """
    global _adopting  # noqa: PLW0603
    _adopting = _prctl(_SET_CHILD_SUBREAPER, 1)


def adopting() -> bool:
    """Whether `adopt_orphans` was called, and worked."""
    return _adopting


def end_with(parent: int) -> bool:
    """Get TERM when the parent ends, however it ends; False if it has ended already.

    A process that is not our direct parent is only checked now; so is every process outside Linux."""
    if os.getppid() != parent:
        return exists(parent)
    _prctl(_SET_PDEATHSIG, signal.SIGTERM)
    return os.getppid() == parent


def outlive_parent() -> None:
    """Undo `end_with`."""
    _prctl(_SET_PDEATHSIG, 0)


_SET_PDEATHSIG, _SET_CHILD_SUBREAPER = 1, 36


def _prctl(what: int, value: int) -> bool:
    if sys.platform != "linux":
        return False
    import ctypes

    return bool(ctypes.CDLL(None).prctl(what, value, 0, 0, 0) == 0)


def exists(pid: int) -> bool:
    """Whether there is a process with this number, even if it has ended and was not collected."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        pass
    return True


def starting() -> AbstractContextManager[object]:
    """Held while a command is started and its tree made: a scan meanwhile would mistake the leader for an orphan."""
    return _start_lock if _adopting else _NO_LOCK


def reap_orphans() -> None:
    """Collect adopted orphans that have ended by themselves. Does nothing unless orphans are adopted."""
    if not _adopting:
        return
    with starting():
        leaders = _leaders()
        found = list(processes(_children()))
    for process in found:
        if not process.alive and _is_adopted(process, leaders):
            _collect(process.pid)


def sweep() -> None:
    """Collect orphans that have ended, and kill the uncertain ones that no command can own any more. Commands do that
    at their end; this is for a process that keeps running without commands."""
    reap_orphans()
    _end_doubts()


def _leaders() -> set[int]:
    """The children that we started ourselves and have not collected. Read before a scan, so that none is missing."""
    return {*list(_live), *(tree.leader for tree in list(_left))}


def _is_adopted(process: Process, leaders: set[int]) -> bool:
    return _adopting and process.parent == os.getpid() and process.pid not in leaders


def _owners(orphan: Process) -> list[Tree]:
    """The running commands that may have left it: the one whose marker it has, or all that are older."""
    running = list(_live.values())
    marked = [tree for tree in running if tree._marker in _marker_of(orphan)]
    return marked or [tree for tree in running if tree._start <= orphan.start and not tree.resting]


def _end_doubts(*, now: bool = False) -> None:
    if _doubted:
        with _lock:
            _doubted[:] = [tree for tree in _doubted if not tree.resolve(now=now)]


def _children() -> list[str] | None:
    """Our children, or None if the kernel has no list of them."""
    folder = "/proc/self/task"
    tasks = [f"{folder}/{task}/children" for task in os.listdir(folder)]
    return b" ".join(_read(task) for task in tasks).decode().split() if os.path.exists(tasks[0]) else None


# One thread kills the processes that commands left behind. It lives only while there is work: the event loop that ran
# the command may be closed by then.
_lock = threading.Condition()
_left: dict[Tree, float] = {}
_thread: threading.Thread | None = None


def bury(tree: Tree, grace: float = GRACE) -> None:
    """Make sure that no process of the tree, which already got TERM, lives longer than the grace period. Returns at
    once."""
    global _thread  # noqa: PLW0603
    with _lock:
        _left[tree] = time.monotonic() + grace
        if _thread is not None:
            return
        _thread = threading.Thread(target=_undertake, name="billhook-undertaker", daemon=True)
        try:
            _thread.start()
        except RuntimeError:  # no more threads, or the interpreter is ending
            _thread = None
            del _left[tree]
            tree.kill_now()


def settle(timeout: float = 2 * GRACE, *, grace: float = GRACE) -> bool:
    """Wait until the processes that ended commands left behind are dead, too; False if the time was too short.

    For a short-lived process, whose end would also end the thread that kills the leftovers. `grace`: KILL comes after
    so many seconds at the latest.
    """
    _end_doubts(now=True)
    soon = time.monotonic() + max(0.0, grace)
    with _lock:
        _left.update((tree, min(moment, soon)) for tree, moment in _left.items())
        settled = _lock.wait_for(lambda: not _left, timeout)
    _end_doubts(now=True)  # of commands that ended just now
    with _lock:
        settled = _lock.wait_for(lambda: not _left, timeout) and settled
        thread = _thread
    if settled and thread is not None:
        thread.join(0.05)  # a process without threads ends faster
    return settled


def _undertake() -> None:
    global _thread  # noqa: PLW0603
    while True:
        with _lock:
            due = dict(_left)
            if not due:
                _thread = None
                return
        for tree, moment in due.items():
            if not _has_ended(tree, time.monotonic() - moment):
                continue
            with _lock:
                if _left[tree] == moment:  # else its processes were handed over again meanwhile
                    del _left[tree]
                _lock.notify_all()
        if _left:
            late = min(due.values()) < time.monotonic() - GRACE
            time.sleep(0.25 if late else 0.02)


def _has_ended(tree: Tree, late: float) -> bool:
    alive = tree.signal(signal.SIGKILL) if late >= 0 else tree.signal()
    if tree.reserved and not alive:
        _collect(tree.leader)
        tree.reserved = False
    return not alive or late > GIVE_UP


def _after_fork() -> None:
    global _lock, _start_lock, _thread
    _lock, _start_lock, _thread = threading.Condition(), threading.RLock(), None
    _left.clear()
    _doubted.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)

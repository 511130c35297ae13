"""Whatever happens to a warm interpreter or its forks, a hook runs: warm, or the plain way."""

import asyncio
import os
import resource
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from billhook.core.answers import Exit
from billhook.runners import process, process_tree, warm
from warm_ready import wait_until_ready

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="warm interpreters need Linux"),
    pytest.mark.usefixtures("adopting"),
]
SAY = "import sys\nprint('heard', sys.stdin.read())"


class Hook:
    """A script, its parent, and its next spare."""

    def __init__(self, folder: Path, text: str = SAY, python: str = sys.executable) -> None:
        self.folder = folder
        (folder / "hook.py").write_text(text)
        self.argv = (python, "hook.py")
        self.env = dict(os.environ)
        warm.FAULTS.clear()
        assert wait_until_ready(self.argv, self.env, folder) == ""

    @property
    def parent(self) -> warm.Parent:
        return next(iter(warm.PARENTS._by_key.values()))

    @property
    def spare(self) -> warm.Spare:
        """The only spare: the next call gets it."""
        parent = self.parent
        until(lambda: parent.has_spare() and not parent._requested and not parent._arriving)
        for more in parent._spares[1:]:
            more.end()
        del parent._spares[1:]
        return parent._spares[0]

    def start(self, stdin: bytes = b"x") -> process.Child | None:
        return asyncio.run(warm.start(self.argv, stdin=stdin, env=self.env, cwd=self.folder))

    def run(self, seconds: float = 30) -> Exit:
        """As a command hook runs it."""
        child = self.start() or process.start(self.argv, stdin=b"x", env=self.env, cwd=self.folder)
        ended = asyncio.run(child.wait(seconds))
        assert ended is not None
        return ended

    def says(self) -> None:
        assert self.run().stdout == b"heard x\n"


def until(true: Callable[[], object], seconds: float = 10) -> None:
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end
        time.sleep(0.005)


def test_a_parent_that_was_killed_is_replaced(tmp_path: Path) -> None:
    hook = Hook(tmp_path)
    hook.says()
    first = hook.parent
    os.kill(first.tree.leader, signal.SIGKILL)
    for _ in range(4):  # the last spares, then plain starts
        hook.says()
    assert warm.FAULTS["its parent has ended"] >= 1
    assert hook.parent is not first
    assert wait_until_ready(hook.argv, hook.env, tmp_path) == ""
    hook.says()
    assert hook.parent.last_used > hook.parent.began


def test_a_parent_that_is_stopped_is_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(warm, "STUCK", 0.05)
    hook = Hook(tmp_path)
    hook.says()
    first = hook.parent
    os.kill(first.tree.leader, signal.SIGSTOP)
    for _ in range(6):
        hook.says()
    assert warm.FAULTS["its parent does not fork"] >= 1
    assert hook.parent is not first


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
def test_a_spare_that_does_not_wait_is_not_used(tmp_path: Path, number: int) -> None:
    hook = Hook(tmp_path)
    spare = hook.spare
    os.kill(spare.pid, number)
    until(lambda: not spare.is_fit())
    hook.says()
    assert warm.FAULTS["a spare was dead or stopped"] == 1


def test_a_fork_that_ends_before_its_script_is_started_again(tmp_path: Path) -> None:
    hook = Hook(tmp_path)
    spare = hook.spare
    spare.link.shutdown(1)  # it gets nothing, and ends
    spare.is_fit = lambda: True  # type: ignore[method-assign]
    hook.says()


def test_a_fork_that_is_killed_while_it_starts_is_started_again(tmp_path: Path) -> None:
    hook = Hook(tmp_path)
    spare = hook.spare
    spare.is_fit = lambda: True  # type: ignore[method-assign]
    os.kill(spare.pid, signal.SIGSTOP)
    child = hook.start()
    assert isinstance(child, warm.WarmChild)
    os.kill(spare.pid, signal.SIGKILL)
    ended = asyncio.run(child.wait(30))
    assert ended is not None
    assert ended.stdout == b"heard x\n"
    assert warm.FAULTS["a fork ended before its script began"] == 1


def test_a_spare_that_is_stopped_with_its_script_ends_at_the_deadline(tmp_path: Path) -> None:
    hook = Hook(tmp_path)
    spare = hook.spare
    spare.is_fit = lambda: True  # type: ignore[method-assign]
    os.kill(spare.pid, signal.SIGSTOP)
    child = hook.start()
    assert isinstance(child, warm.WarmChild)
    ended = asyncio.run(child.wait(0.3))
    assert ended is not None
    assert ended.timed_out


def test_without_descriptors_it_starts_plain(tmp_path: Path) -> None:
    hook = Hook(tmp_path)
    before = len(os.listdir("/proc/self/fd"))
    runner = asyncio.Runner()
    runner.get_loop()  # which needs descriptors of its own
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    highest = max(map(int, os.listdir("/proc/self/fd")))
    held = [os.dup(0) for _ in range(highest)]  # fill the gaps
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(held) + 1, hard))
    try:
        assert runner.run(warm.start(hook.argv, stdin=b"x", env=hook.env, cwd=tmp_path)) is None
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        runner.close()
        for fd in held:
            os.close(fd)
    assert len(os.listdir("/proc/self/fd")) <= before
    hook.says()


_REFUSED = """
import asyncio, os, resource, sys
from billhook.core import client_env
from billhook.runners import process, process_tree, warm
sys.path.append(sys.argv[2])
from warm_ready import wait_until_ready
process_tree.adopt_orphans()
argv, env, folder = ("/usr/bin/python3", sys.argv[1]), {"PATH": "/usr/bin:/bin"}, "/"
asyncio.run(process.run(("/bin/true",), stdin=b"", env=env, seconds=9))
if os.getuid() == 0:
    os.setgroups([]); os.setgid(65534); os.setuid(65534)
assert wait_until_ready(argv, env, folder) == "", warm.PARENTS._by_key
parent = next(iter(warm.PARENTS._by_key.values()))
resource.prlimit(parent.tree.leader, resource.RLIMIT_NPROC, (0, 0))
calls = [asyncio.run(warm.start(argv, stdin=b"", env=env, cwd=folder)) for _ in range(4)]
print([child is not None for child in calls if child is None or asyncio.run(child.wait(20)).code == 0])
print(warm.FAULTS)
"""


@pytest.mark.skipif(not os.path.exists("/usr/bin/python3"), reason="needs an interpreter that every user may start")
def test_a_parent_that_may_not_fork_is_given_up() -> None:
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:  # every user may read it
        os.chmod(folder, 0o755)
        script = Path(folder) / "hook.py"
        script.write_text("print('x')")
        argv = [sys.executable, "-c", _REFUSED, str(script), str(Path(__file__).parents[1])]
        done = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    started, faults = done.stdout.splitlines()
    assert "False" in started
    assert "its parent can't fork" in faults


def test_another_interpreter_at_the_same_place_gets_another_parent(tmp_path: Path) -> None:
    import venv

    venv.create(tmp_path / "env", symlinks=True)
    hook = Hook(tmp_path, "import new\nprint(new.word)", str(tmp_path / "env" / "bin" / "python"))
    first = hook.parent
    packages = next((tmp_path / "env" / "lib").glob("python*/site-packages"))
    (packages / "new.pth").write_text(f"{tmp_path}/more\n")
    (tmp_path / "more").mkdir()
    (tmp_path / "more" / "new.py").write_text("word = 'found'")
    assert hook.start() is None
    assert wait_until_ready(hook.argv, hook.env, tmp_path) == ""
    assert hook.parent is not first
    assert hook.run().stdout == b"found\n"


def test_an_interpreter_that_was_replaced_gets_another_parent(tmp_path: Path) -> None:
    import venv

    venv.create(tmp_path / "env", symlinks=True)
    python = tmp_path / "env" / "bin" / "python"
    hook = Hook(tmp_path, SAY, str(python))
    hook.says()
    (tmp_path / "env" / "pyvenv.cfg").write_text((tmp_path / "env" / "pyvenv.cfg").read_text() + "x = 1\n")
    assert hook.start() is None
    hook.says()


_DOES = {
    "forks": "import os\npid = os.fork()\nprint('child' if not pid else os.waitpid(pid, 0)[1], flush=True)",
    "forks and exits": "import os, sys\nif not os.fork(): sys.exit(3)\nprint(os.waitstatus_to_exitcode(os.wait()[1]))",
    "multiprocessing": """
import multiprocessing as m, sys
def double(x): return 2 * x
if __name__ == "__main__":
    for method in ("fork", "spawn"):
        with m.get_context(method).Pool(2) as pool:
            print(pool.map(double, range(5)))
""",
    "closes all": "import os\nprint('x', flush=True)\nos.closerange(0, 100)\nos._exit(7)",
    "closes its output": "import os, sys\nprint('x')\nsys.stdout.flush()\nos.close(1)",
    "signals itself": "import os, time\nprint('x', flush=True)\nos.kill(0, 15)\ntime.sleep(9)",
    "recurses": "def f(): f()\ntry: f()\nexcept RecursionError: print('deep')",
    "uses memory": "import resource as r\nr.setrlimit(r.RLIMIT_AS, (1 << 28, 1 << 28))\nprint(len('x' * (1 << 30)))",
}


@pytest.mark.parametrize("what", _DOES)
def test_a_script_may_do_anything(tmp_path: Path, what: str) -> None:
    hook = Hook(tmp_path, _DOES[what])
    plain = asyncio.run(process.run(hook.argv, stdin=b"x", env=hook.env, cwd=tmp_path, seconds=60))
    child = hook.start()
    assert isinstance(child, warm.WarmChild)
    assert asyncio.run(child.wait(60)) == plain
    assert hook.parent.problem == ""


_LEAVES = """
import os, time
if not os.fork():
    if DAEMON:
        os.setsid()
        for fd in range(3): os.close(fd)
    open("pid", "w").write(str(os.getpid()))
    time.sleep(60)
    os._exit(0)
while not os.path.exists("pid") or not open("pid").read(): time.sleep(0.01)
print("done")
"""


@pytest.mark.parametrize("daemon", [True, False])
def test_only_a_daemon_outlives_the_script(tmp_path: Path, daemon: bool) -> None:
    hook = Hook(tmp_path, _LEAVES.replace("DAEMON", str(daemon)))
    child = hook.start()
    assert isinstance(child, warm.WarmChild)
    ended = asyncio.run(child.wait(30))
    assert ended is not None
    assert ended.stdout == b"done\n"
    process_tree.settle()
    pid = int((tmp_path / "pid").read_text())
    assert os.path.exists(f"/proc/{pid}") == daemon
    if daemon:
        os.kill(pid, signal.SIGKILL)


def test_a_script_that_never_ends_is_killed_with_its_tree(tmp_path: Path) -> None:
    text = """
import os, signal, subprocess, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
if not os.fork(): os.setsid()
os.write(1, b"%d\\n" % os.getpid())
while True: time.sleep(1)
"""
    hook = Hook(tmp_path, text)
    child = hook.start()
    assert isinstance(child, warm.WarmChild)
    ended = asyncio.run(child.wait(4.0))
    assert ended is not None
    assert ended.timed_out
    pids = ended.stdout.split()
    assert len(pids) == 2
    until(lambda: not any(os.path.exists(f"/proc/{int(pid)}") for pid in pids))


def test_it_ends_with_its_owner(tmp_path: Path) -> None:
    hook = Hook(tmp_path)
    pids = [hook.parent.tree.leader, hook.spare.pid]
    warm.close()
    assert not any(os.path.exists(f"/proc/{pid}") for pid in pids)


def test_it_ends_after_an_idle_time(tmp_path: Path) -> None:
    hook = Hook(tmp_path)
    warm.PARENTS.tidy(time.monotonic())
    assert warm.PARENTS._by_key
    pid = hook.parent.tree.leader
    warm.PARENTS.tidy(time.monotonic() + warm.IDLE + 1)
    assert not warm.PARENTS._by_key
    warm.close()
    assert not os.path.exists(f"/proc/{pid}")


@pytest.mark.slow
def test_a_thousand_calls_leave_nothing(tmp_path: Path) -> None:
    hook = Hook(tmp_path)

    def state() -> tuple[int, int]:
        return len(os.listdir("/proc/self/fd")), len(_children())

    async def calls(count: int) -> None:
        while count:
            child = await warm.start(hook.argv, stdin=b"x", env=hook.env, cwd=tmp_path)
            if child is None:  # no spare was ready in time, on a busy machine: then it would start plain
                await asyncio.sleep(0.01)
                continue
            ended = await child.wait(30)
            assert ended is not None
            assert ended.stdout == b"heard x\n"
            count -= 1

    asyncio.run(calls(100))
    until(hook.parent.has_spare)
    before, memory = state(), _private(hook.parent.tree.leader)
    asyncio.run(calls(1000))
    warm.PARENTS.tidy(time.monotonic())
    until(lambda: state()[1] <= before[1] + 2)
    assert state()[0] <= before[0] + 4  # a spare that has just come
    assert _private(hook.parent.tree.leader) <= memory + 1024


def _children() -> list[str]:
    return process_tree._children() or []


def _private(pid: int) -> int:
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return sum(int(line.split()[1]) for line in lines if line.startswith(("Private_", "Shared_Dirty")))


def test_a_call_that_waits_for_a_spare_blocks_no_other(tmp_path: Path) -> None:
    """A stopped parent, without a spare: the call waits in its own time."""
    hook = Hook(tmp_path)
    hook.spare.end()
    hook.parent._spares.clear()
    os.kill(hook.parent.tree.leader, signal.SIGSTOP)

    async def turns() -> int:
        starting, count = asyncio.ensure_future(warm.start(hook.argv, stdin=b"", env=hook.env, cwd=tmp_path)), 0
        while not starting.done():
            await asyncio.sleep(0)
            count += 1
        assert await starting is None
        return count

    assert asyncio.run(turns()) > 20


def test_the_next_hook_finds_the_files_of_the_last_one_closed(tmp_path: Path) -> None:
    """A fork reports its end before the kernel has freed its memory: its locks must be gone by then."""
    text = "import fcntl\nkeep = open('lock', 'w')\nfcntl.flock(keep, fcntl.LOCK_EX | fcntl.LOCK_NB)\nprint('locked')"
    hook = Hook(tmp_path, text)
    for _ in range(20):
        assert hook.run().stdout == b"locked\n"


def test_only_the_script_reports_its_end(tmp_path: Path) -> None:
    hook = Hook(tmp_path, "import os, sys\nif not os.fork(): sys.exit(7)\nos.wait()\nsys.exit(3)")
    child = hook.start()
    assert isinstance(child, warm.WarmChild)
    ended = asyncio.run(child.wait(30))
    assert ended is not None
    assert ended.code == 3


def test_what_other_processes_send_is_no_end(tmp_path: Path) -> None:
    hook = Hook(tmp_path, "import time\ntime.sleep(0.3)\nprint('done')")
    child = hook.start()
    assert isinstance(child, warm.WarmChild)
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as other:
        for noise in (b"x", b"", b"x" * 9):
            other.sendto(noise, child._report.address[0])
    ended = asyncio.run(child.wait(30))
    assert ended is not None
    assert (ended.code, ended.stdout) == (0, b"done\n")


def test_what_a_script_leaves_in_its_group_ends(tmp_path: Path) -> None:
    text = "import subprocess\nprint(subprocess.Popen(['sleep', '60'], stdout=-3, stderr=-3).pid)\nprint = None"
    hook = Hook(tmp_path, text)
    pid = int(hook.run().stdout)

    def is_gone() -> bool:
        warm.PARENTS.collect_ended()
        return not os.path.exists(f"/proc/{pid}")

    until(is_gone)

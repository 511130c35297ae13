"""State that many processes change at once: nothing lost, nothing outside the root, never a hang."""

import json
import os
import signal
import stat
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from billhook.store.files import LockFile, StoreError, locked
from billhook.store.state import FOLDERS, LARGEST, RECREATED, FileState, Value
from descriptors import open_descriptors

KINDS = sorted(FOLDERS)


def one_more(record: Value | None) -> Value:
    return {"count": (record or {"count": 0})["count"] + 1}


def always(record: Value) -> Callable[[Value | None], Value]:
    return lambda _: record


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@contextmanager
def python(code: str, *arguments: object) -> Iterator[subprocess.Popen[str]]:
    """A process that runs this code, with `root` as its first argument; it is killed at the end."""
    start = "import os, signal, sys, time\nfrom pathlib import Path\nroot = Path(sys.argv[1])\n"
    command = [sys.executable, "-c", start + textwrap.dedent(code), *map(str, arguments)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def reported(process: subprocess.Popen[str]) -> str:
    """The next line that it prints."""
    assert process.stdout is not None
    return process.stdout.readline().strip()


HOLD = """
from billhook.store.files import locked
with locked(Path(sys.argv[2]), root=root):
    print("held", os.getpid(), flush=True)
    sys.stdin.read()
"""


# -- records -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "place"),
    [
        ("turns", "turns/abc.json"),
        ("sessions", "billhook/sessions/abc.json"),
        ("names", "billhook/names/abc.json"),
        ("limits", "billhook/limits/abc.json"),
        ("calls", "billhook/calls/abc.json"),
    ],
)
def test_each_kind_has_its_place(tmp_path: Path, kind: str, place: str) -> None:
    """Records lie where seed 002 and the design put them, for the owner alone."""
    state: FileState = FileState(tmp_path / "home")
    assert state.read(kind, "abc") is None
    assert not (tmp_path / "home").exists()

    assert state.update(kind, "abc", lambda _: {"sequence": 5, "subagentSeq": 0}) == {"sequence": 5, "subagentSeq": 0}

    file = tmp_path / "home" / place
    assert json.loads(file.read_text()) == {"sequence": 5, "subagentSeq": 0} == state.read(kind, "abc")
    made = list((tmp_path / "home").rglob("*"))
    assert {mode(path) for path in made if path.is_file()} == {0o600}
    assert {mode(path) for path in [tmp_path / "home", *made] if path.is_dir()} == {0o700}


def test_a_change_of_nothing_writes_nothing(tmp_path: Path) -> None:
    """A change that returns None leaves the record, or its absence, as it is."""
    state = FileState(tmp_path)
    assert state.update("turns", "a", lambda _: None) is None
    assert not (tmp_path / "turns" / "a.json").exists()

    state.update("turns", "a", one_more)
    before = (tmp_path / "turns" / "a.json").stat()
    assert state.update("turns", "a", lambda _: None) == {"count": 1}
    assert (tmp_path / "turns" / "a.json").stat().st_ino == before.st_ino


def test_a_change_that_raises_changes_nothing(tmp_path: Path) -> None:
    """What it raises comes through, the record stays, and the lock is free."""
    state = FileState(tmp_path, seconds=0.2)
    state.update("turns", "a", one_more)

    def fail(_: Value | None) -> Value:
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        state.update("turns", "a", fail)
    assert state.update("turns", "a", one_more) == {"count": 2}


def test_a_change_may_update_another_kind(tmp_path: Path) -> None:
    """Kinds have locks of their own; within one kind it ends with an error, and not never."""
    state = FileState(tmp_path, seconds=0.2)
    state.update("names", "a", lambda _: state.update("sessions", "a", one_more))
    assert state.read("names", "a") == state.read("sessions", "a") == {"count": 1}

    with pytest.raises(StoreError, match="still locked"):
        state.update("names", "a", lambda _: state.update("names", "a", one_more))


def test_what_could_not_be_read_is_not_written(tmp_path: Path) -> None:
    """A record beyond the limit is refused, and the one before it stays."""
    state = FileState(tmp_path)
    state.update("turns", "a", one_more)
    with pytest.raises(StoreError, match="more than"):
        state.update("turns", "a", lambda _: {"x": "x" * LARGEST})
    assert state.read("turns", "a") == {"count": 1}


# -- keys ----------------------------------------------------------------------------------------------------------

HOSTILE = {
    "a path up": "../../x",
    "an absolute path": "/etc/passwd",
    "a path in the home": "billhook/approvals/x",
    "two dots": "..",
    "a dot": ".",
    "empty": "",
    "a space": " ",
    "4 KB": "x" * 4096,
    "4 KB, another end": "x" * 4095 + "y",
    "1 MB": "é" * (1 << 20),
    "NUL": "a\0b",
    "a lone surrogate": "a\ud800b",
    "another lone surrogate": "a\udfffb",
    "a newline": "a\nb",
    "a reserved name": "CON",
    "hidden": ".bashrc",
    "our own mark": "x~2d711642b726b044",
    "capitals": "ABC",
    "small letters": "abc",
    "composed": "\u00e9",
    "decomposed": "e\u0301",
    "an ending": "abc.json",
    "wildcards": "*?[a]",
    "a terminal's escape": "\x1b[2J",
    "back slashes": "..\\..\\x",
    "a temporary file": ".new-0123456789abcdef",
}


def test_any_key_is_a_record_of_its_own(tmp_path: Path) -> None:
    """Each of the hostile ids has a file inside its folder, and none has another's."""
    root = tmp_path / "home"
    state = FileState(root)
    for number, key in enumerate(HOSTILE.values()):
        state.update("turns", key, always({"number": number}))

    for number, key in enumerate(HOSTILE.values()):
        assert state.read("turns", key) == {"number": number}
    made = {path for path in tmp_path.rglob("*") if path.is_file() and path.suffix != ".lock"}
    assert {path.parent for path in made} == {root / "turns"} and len(made) == len(HOSTILE)
    assert os.listdir(tmp_path) == ["home"]


def test_twins_where_capitals_do_not_count(tmp_path: Path) -> None:
    """Where the file system takes `TURNS` for `turns`, ids that differ in capitals alone have names that don't."""
    (tmp_path / "TURNS").symlink_to("turns")  # which is what such a file system looks like from here
    state = FileState(tmp_path)
    for key in ("abc", "ABC", "Abc"):
        state.update("turns", key, always({"key": key}))

    assert [state.read("turns", key) for key in ("abc", "ABC", "Abc")] == [
        {"key": "abc"},
        {"key": "ABC"},
        {"key": "Abc"},
    ]
    assert len({name.lower() for name in os.listdir(tmp_path / "turns")}) == 3


def test_few_lock_files_serve_many_records(tmp_path: Path) -> None:
    """Lock files don't grow with the number of sessions."""
    state = FileState(tmp_path)
    for number in range(300):
        state.update("turns", f"s{number}", one_more)
    assert len(os.listdir(tmp_path / "billhook" / "locks")) <= 256


# -- many at once --------------------------------------------------------------------------------------------------

COUNT = """
from billhook.store.state import FileState
state = FileState(root, seconds=600)  # a busy machine is no failure
for _ in range(int(sys.argv[2])):
    state.update("turns", "../x", lambda record: {"count": (record or {"count": 0})["count"] + 1})
"""


def count_in_processes(root: Path, processes: int, updates: int) -> None:
    with ExitStack() as stack:
        started = [stack.enter_context(python(COUNT, root, updates)) for _ in range(processes)]
        assert [process.wait() for process in started] == [0] * processes
    assert FileState(root).read("turns", "../x") == {"count": processes * updates}
    assert not [path for path in (root / "turns").iterdir() if path.name.startswith(".")]


def test_processes_lose_no_update(tmp_path: Path) -> None:
    """16 processes make 200 updates each of one record: 3,200."""
    count_in_processes(tmp_path, 16, 200)


@pytest.mark.slow
def test_many_processes_lose_no_update(tmp_path: Path) -> None:
    """64 processes make 1,000 updates each of one record: 64,000, and none waits in vain."""
    count_in_processes(tmp_path, 64, 1000)


def test_threads_lose_no_update(tmp_path: Path) -> None:
    """Threads of one process exclude each other as processes do."""
    state = FileState(tmp_path)
    threads = [
        threading.Thread(target=lambda: [state.update("turns", "a", one_more) for _ in range(50)]) for _ in range(16)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert state.read("turns", "a") == {"count": 800}


def test_readers_never_see_half_a_record(tmp_path: Path) -> None:
    """While others write, a read without a lock gives one whole record after the other."""
    state = FileState(tmp_path)
    state.update("turns", "../x", lambda _: {"count": 0})
    with python(COUNT, tmp_path, 300) as writer:
        seen = [state.read("turns", "../x") for _ in iter(writer.poll, 0)]
    counts = [record["count"] for record in seen if record]
    assert len(counts) == len(seen) and counts == sorted(counts)


def test_nothing_stays_open(tmp_path: Path) -> None:
    """A thousand updates and as many that fail leave no descriptor behind."""
    state = FileState(tmp_path, seconds=0.0)
    state.update("turns", "a", one_more)
    before = open_descriptors()
    for _ in range(1000):
        state.update("turns", "a", one_more)
    (tmp_path / "turns" / "a.json").unlink()
    os.mkfifo(tmp_path / "turns" / "a.json")
    with locked(next((tmp_path / "billhook" / "locks").iterdir()), root=tmp_path):
        for _ in range(100):
            with pytest.raises(StoreError, match="still locked"):
                state.update("turns", "a", one_more)
    for _ in range(100):
        with pytest.raises(StoreError, match="not a file"):
            state.update("turns", "a", one_more)
    assert open_descriptors() <= before


# -- writers that die ----------------------------------------------------------------------------------------------

ACKNOWLEDGE = """
from billhook.store.state import FileState
state = FileState(root)
while True:
    record = state.update("turns", "a", lambda record: {
        "count": (record or {"count": 0})["count"] + 1, "filling": "x" * 20_000})
    os.write(1, b"%d\\n" % record["count"])
"""


def killed_writers(root: Path, runs: int) -> None:
    """Kill writers at random points: acknowledged changes are there, complete, and the next writer continues."""
    state = FileState(root)
    for run in range(runs):
        with python(ACKNOWLEDGE, root) as writer:
            reported(writer)
            time.sleep((run * 7 % 20) / 1000)
            writer.kill()
            assert writer.stdout is not None
            acknowledged = [int(line) for line in writer.stdout.read().splitlines() if line]
        record = state.read("turns", "a")
        assert record is not None and record["filling"] == "x" * 20_000
        last = max(acknowledged, default=0)
        assert last <= record["count"] and (not acknowledged or record["count"] <= last + 1)
        after = state.update("turns", "a", lambda now: now)  # the lock is free
        assert after == record


def test_killed_writers_lose_nothing(tmp_path: Path) -> None:
    """kill -9 in the middle of an update, 20 times."""
    killed_writers(tmp_path, 20)


@pytest.mark.slow
def test_many_killed_writers_lose_nothing(tmp_path: Path) -> None:
    """kill -9 in the middle of an update, 300 times."""
    killed_writers(tmp_path, 300)


def test_a_writer_that_died_half_way_left_the_old_record(tmp_path: Path) -> None:
    """Killed inside its change, it has changed nothing, and it holds nothing."""
    state = FileState(tmp_path)
    state.update("turns", "a", one_more)
    code = """
    from billhook.store.state import FileState
    FileState(root).update("turns", "a", lambda _: os.kill(os.getpid(), signal.SIGKILL))
    """
    with python(code, tmp_path) as writer:
        assert writer.wait() == -signal.SIGKILL
    assert state.read("turns", "a") == {"count": 1}
    assert state.update("turns", "a", one_more) == {"count": 2}


def test_a_writer_that_is_stopped_is_not_waited_for_for_ever(tmp_path: Path) -> None:
    """The wait ends with an error that has the process and a hint; when that process resumes, all continue."""
    code = """
    from billhook.store.state import FileState
    def change(_):
        print("inside", flush=True)
        os.kill(os.getpid(), signal.SIGSTOP)
        return {"count": 7}
    FileState(root).update("turns", "a", change)
    """
    state = FileState(tmp_path, seconds=0.5)
    with python(code, tmp_path) as writer:
        assert reported(writer) == "inside"
        os.waitpid(writer.pid, os.WUNTRACED)
        began = time.monotonic()
        with pytest.raises(StoreError) as caught:
            state.update("turns", "a", one_more)
        assert 0.5 <= time.monotonic() - began < 5.0
        assert f"still locked by process {writer.pid} after 0.5 s" in caught.value.message
        assert "fuser" in caught.value.hint and caught.value.place.endswith(".lock")
        assert state.read("turns", "a") is None  # reading does not wait

        os.kill(writer.pid, signal.SIGCONT)
        assert writer.wait() == 0
    assert state.update("turns", "a", one_more) == {"count": 8}


# -- the lock and its heirs ----------------------------------------------------------------------------------------


def free(lock: Path, root: Path) -> bool:
    try:
        with locked(lock, root=root, seconds=0.0):
            return True
    except StoreError:
        return False


@pytest.mark.parametrize(
    "leave",
    [
        pytest.param("import subprocess; subprocess.Popen(['sleep', '60'], stdout=2)", id="a command"),
        pytest.param("import subprocess; subprocess.Popen(['sleep', '60'], stdout=2, close_fds=False)", id="unclosed"),
        pytest.param("os.fork() or (os.dup2(2, 1), time.sleep(60), os._exit(0))", id="a fork"),
    ],
)
def test_a_child_does_not_inherit_the_lock(tmp_path: Path, leave: str) -> None:
    """A hook that hangs on, after the process that started it died with the lock, holds nothing."""
    lock = tmp_path / "a.lock"
    code = f"""
    from billhook.store.files import locked
    os.setsid()
    with locked(Path(sys.argv[2]), root=root):
        {leave}
        print("left", flush=True)
        time.sleep(0.2)
        os.kill(os.getpid(), signal.SIGKILL)
    """
    with python(code, tmp_path, lock) as holder:
        assert reported(holder) == "left" and not free(lock, tmp_path)
        holder.wait()
        try:
            with locked(lock, root=tmp_path, seconds=5.0):
                os.killpg(holder.pid, 0)  # the child is still there
        finally:
            os.killpg(holder.pid, signal.SIGKILL)


def test_a_forked_child_can_not_give_the_lock_away(tmp_path: Path) -> None:
    """Whatever a child does with a lock that it was forked with, its parent still holds it."""
    lock = LockFile(tmp_path / "a.lock", tmp_path)
    lock.acquire()
    for act in (lock.release, lock.close, lambda: None):
        child = os.fork()
        if not child:
            act()
            waits = not lock.held and not free(tmp_path / "a.lock", tmp_path)
            os._exit(0 if waits else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert lock.held and not free(tmp_path / "a.lock", tmp_path)
    lock.release()

    child = os.fork()
    if not child:
        lock.acquire(5.0)
        os._exit(0 if not free(tmp_path / "a.lock", tmp_path) else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert free(tmp_path / "a.lock", tmp_path)
    lock.close()


def test_a_fork_while_another_thread_holds_the_lock(tmp_path: Path) -> None:
    """The child, in which that thread does not exist, is not left with its lock."""
    code = """
    import threading, warnings
    from billhook.store.files import LockFile
    warnings.simplefilter("ignore")
    lock, holds, ends = LockFile(root / "a.lock", root), threading.Event(), threading.Event()
    def hold():
        lock.acquire()
        holds.set()
        ends.wait()
        lock.release()
    thread = threading.Thread(target=hold)
    thread.start()
    holds.wait()
    child = os.fork()
    if not child:
        lock.acquire(20.0)
        os._exit(7)
    ends.set()
    thread.join()
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
    """
    with python(code, tmp_path) as parent:
        assert reported(parent) == "7"


def test_a_lock_file_that_stays_open(tmp_path: Path) -> None:
    """It is taken and released many times, by many threads, and excludes all others meanwhile."""
    path = tmp_path / "deep" / "a.lock"
    lock = LockFile(path, tmp_path)
    assert not lock.held and not path.exists()
    for check in (True, False, True):
        lock.acquire(1.0, check=check)
        assert lock.held and not free(path, tmp_path)
        lock.release()
        lock.release()
        assert not lock.held and free(path, tmp_path)

    lock.acquire()
    with pytest.raises(StoreError, match=r"another thread of this process after 0\.05 s"):
        lock.acquire(0.05)
    assert lock.held
    lock.close()
    lock.close()
    assert free(path, tmp_path)


def test_a_lock_that_was_removed_meanwhile(tmp_path: Path) -> None:
    """A process that kept it open takes the new file, otherwise it would exclude no other."""
    path = tmp_path / "locks" / "a.lock"
    lock = LockFile(path, tmp_path)
    lock.acquire()
    lock.release()
    path.unlink()
    lock.acquire()
    assert path.exists() and not free(path, tmp_path)
    lock.release()

    path.unlink()
    with locked(path, root=tmp_path), pytest.raises(StoreError, match="still locked"):
        lock.acquire(0.05)
    lock.close()


def test_waiting_goes_on_when_the_lock_is_given_back(tmp_path: Path) -> None:
    """A lock that another process holds for a while is taken soon after."""
    lock = tmp_path / "a.lock"
    with python(HOLD, tmp_path, lock) as holder:
        assert reported(holder).startswith("held")
        assert holder.stdin is not None
        threading.Timer(0.2, holder.stdin.close).start()
        with locked(lock, root=tmp_path, seconds=20.0):
            pass
        assert holder.wait() == 0


def a_link(path: Path) -> None:
    (path.parent / "victim").write_text("")
    path.symlink_to("victim")


STRANGE: dict[str, Callable[[Path], object]] = {
    "a link": a_link,
    "a link to nowhere": lambda path: path.symlink_to("nowhere"),
    "a FIFO": os.mkfifo,
    "a folder": Path.mkdir,
    "a device": lambda path: os.mknod(path, 0o600 | stat.S_IFCHR, os.makedev(1, 5)),
}


@pytest.mark.parametrize("make", STRANGE.values(), ids=STRANGE.keys())
@pytest.mark.parametrize("where", ["the record", "the lock"])
def test_strange_files_are_refused(tmp_path: Path, where: str, make: Callable[[Path], object]) -> None:
    """A link, a pipe, a folder or a device where a file of ours should be: an error at once, nothing is followed."""
    state = FileState(tmp_path)
    state.update("turns", "a", one_more)
    lock = next((tmp_path / "billhook" / "locks").iterdir())
    path = state.path("turns", "a") if where == "the record" else lock
    path.unlink()
    try:
        make(path)
    except PermissionError:
        pytest.skip("only root makes devices")
    began = time.monotonic()
    with pytest.raises(StoreError) as caught:
        state.update("turns", "a", one_more)
    assert time.monotonic() - began < 4.0
    assert str(path) in str(caught.value) and caught.value.hint
    assert not (path.parent / "nowhere").exists()
    if where == "the record":
        with pytest.raises(StoreError):
            state.read("turns", "a")


@pytest.mark.parametrize("folder", ["turns", "billhook", "billhook/locks"])
def test_a_link_instead_of_a_folder(tmp_path: Path, folder: str) -> None:
    """Nothing is written through it."""
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    root = tmp_path / "home"
    (root / folder).parent.mkdir(parents=True)
    (root / folder).symlink_to(elsewhere)
    with pytest.raises(StoreError, match="symbolic link"):
        FileState(root).update("turns", "a", one_more)
    assert os.listdir(elsewhere) == []


# -- invalid homes -------------------------------------------------------------------------------------------------


def test_a_home_that_can_not_be_made(tmp_path: Path) -> None:
    """A file is in the place of the home: reading and updating end with an error that reports it."""
    (tmp_path / "home").write_text("")
    for root in (tmp_path / "home", tmp_path / "home" / "below"):
        state = FileState(root)
        with pytest.raises(StoreError, match=r"BILLHOOK_HOME|in the place of a folder"):
            state.update("turns", "a", one_more)
        with pytest.raises(StoreError, match="in the place of a folder"):
            state.read("turns", "a")


def in_a_mount(mount: str, code: str, root: Path) -> subprocess.CompletedProcess[str]:
    """Run code with something mounted at `root`, which only that process sees; skips where that is not allowed."""
    script = f'{mount} || exit 77; exec "$0" -c "$1" "$2"'
    command = ["unshare", "--mount", "sh", "-c", script, sys.executable, textwrap.dedent(code), str(root)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    except FileNotFoundError:
        pytest.skip("no unshare here")
    if done.returncode == 77 or "unshare" in done.stderr:
        pytest.skip(f"can't mount here: {done.stderr.strip()}")
    return done


UPDATE = """
import sys, time
from pathlib import Path
from billhook.store.files import StoreError
from billhook.store.state import FileState
state = FileState(Path(sys.argv[1]))
began = time.monotonic()
try:
    state.update("turns", "a", lambda _: {"count": 2, "filling": "x" * 100_000})
except StoreError as error:
    print(error)
print(time.monotonic() - began < 4.0, state.read("turns", "a"))
"""


def test_a_read_only_home(tmp_path: Path) -> None:
    """Existing records can be read; an update fails at once with a hint."""
    FileState(tmp_path).update("turns", "a", one_more)
    done = in_a_mount('mount --bind "$2" "$2" && mount -o remount,bind,ro "$2"', UPDATE, tmp_path)
    assert "Read-only file system" in done.stdout and "hint: set BILLHOOK_HOME" in done.stdout, done
    assert done.stdout.endswith("True {'count': 1}\n")


def test_a_disk_that_is_full(tmp_path: Path) -> None:
    """The record that was there stays, and nothing half-written lies beside it."""
    code = """
    import os, sys
    from pathlib import Path
    from billhook.store.state import FileState
    FileState(Path(sys.argv[1])).update("turns", "a", lambda _: {"count": 1})
    """
    check = "print(os.listdir(Path(sys.argv[1]) / 'turns'))\n"
    whole = textwrap.dedent(code) + textwrap.dedent(UPDATE) + check
    done = in_a_mount('mount -t tmpfs -o size=64k tmpfs "$2"', whole, tmp_path)
    assert "No space left" in done.stdout and "hint: free some space" in done.stdout, done
    assert done.stdout.endswith("True {'count': 1}\n['a.json']\n")


# -- damage --------------------------------------------------------------------------------------------------------

DAMAGED = {
    "empty": b"",
    "zeros": b"\0" * 40,
    "torn": b'{"count": ',
    "a list": b"[1]",
    "null": b"null",
    "text": b"hello",
    "binary": bytes(range(256)),
    "two": b'{"count":1}{"count":2}',
    "the same key twice": b'{"count":1,"count":2}',
    "NaN": b'{"count":NaN}',
    "deep": b'{"count":' + b"[" * 100_000 + b"]" * 100_000 + b"}",
}


@pytest.mark.parametrize("data", DAMAGED.values(), ids=DAMAGED.keys())
@pytest.mark.parametrize("kind", KINDS)
def test_a_damaged_record_is_no_record(tmp_path: Path, kind: str, data: bytes) -> None:
    """Reading it is an error with the file to remove. An update doesn't overwrite it, but turns and held context begin
    again."""
    state = FileState(tmp_path)
    state.update(kind, "a", one_more)
    file = state.path(kind, "a")
    file.write_bytes(data)

    with pytest.raises(StoreError) as caught:
        state.read(kind, "a")
    assert caught.value.place == str(file) and caught.value.hint == f"remove it: rm {file}"

    if kind in RECREATED:
        assert state.update(kind, "a", one_more) == {"count": 1} == state.read(kind, "a")
        return
    with pytest.raises(StoreError, match="damaged"):
        state.update(kind, "a", one_more)
    assert file.read_bytes() == data


def test_a_huge_record_is_not_read(tmp_path: Path) -> None:
    """The file has gigabytes: an error, not all of the memory; for turns, too."""
    state = FileState(tmp_path)
    state.update("turns", "a", one_more)
    with state.path("turns", "a").open("r+b") as stream:
        stream.truncate(1 << 40)
    with pytest.raises(StoreError, match="more than"):
        state.read("turns", "a")
    with pytest.raises(StoreError, match="more than"):
        state.update("turns", "a", one_more)


def test_what_a_record_can_contain(tmp_path: Path) -> None:
    """Text of every kind comes back as it was."""
    state = FileState(tmp_path)
    record: dict[str, Any] = {"a\ud800": ["\0", "é", "\udfff", "\u2028"], "n": [1, -1.5, None, True, {}]}
    state.update("limits", "a", lambda _: record)
    assert state.read("limits", "a") == record
    assert state.path("limits", "a").read_bytes().isascii()


def test_importing_is_light() -> None:
    """FileState is looked at in every run of a hook: what only locks need comes with the first lock."""
    code = "import sys; import billhook.store.state; print('fcntl' in sys.modules, 'asyncio' in sys.modules)"
    assert subprocess.check_output([sys.executable, "-c", code], text=True) == "False False\n"


@pytest.mark.parametrize("kind", ["turns", "sessions"])
def test_what_is_remembered_is_never_old(tmp_path: Path, kind: str) -> None:
    """A record that was read long after it was written is cached; a replacement is noticed at once."""
    reader, writer = FileState(tmp_path), FileState(tmp_path)
    for number in range(30):
        writer.update(kind, "key", lambda record, number=number: {"number": number})  # type: ignore[misc]
        path = reader.path(kind, "key")
        if number % 2:
            os.utime(path, (1, 1))
        found = [reader.read(kind, "key") for _ in range(3)]
        assert found == [{"number": number}] * 3
        assert found[0] is not found[1]
    path.unlink()
    assert reader.read(kind, "key") is None


def test_a_folder_that_is_no_longer_a_folder_is_no_missing_record(tmp_path: Path) -> None:
    """A missing record is looked up again: an unreadable limit must not count as no limit."""
    state = FileState(tmp_path)
    assert state.read("turns", "abc") is None
    (tmp_path / "turns").write_text("in its place")
    with pytest.raises(StoreError, match="not a folder"):
        state.read("turns", "abc")


def test_a_lock_whose_path_is_too_long(tmp_path: Path) -> None:
    """It can be opened from its folder, and not be found by its path: an error, and no endless loop."""
    root = tmp_path.joinpath(*["d" * 200] * 30)
    lock = LockFile(root / "lock", root)
    here = os.getcwd()
    try:
        os.chdir(tmp_path)
        for _ in range(30):
            os.mkdir("d" * 200)
            os.chdir("d" * 200)
        file = os.open("lock", os.O_RDWR | os.O_CREAT, 0o600)
    finally:
        os.chdir(here)
    lock._file = file
    began = time.monotonic()
    with pytest.raises(StoreError, match="File name too long"):
        lock.acquire(5.0)
    assert time.monotonic() - began < 5 and not lock.held

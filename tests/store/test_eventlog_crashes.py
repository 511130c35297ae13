"""The event log when writers die, crowd, and run out of disk: nothing acknowledged is lost, nothing stays torn.

Each experiment is a program of its own, so that it may fork and be killed as it likes.
"""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="forks, and looks into /proc")

TESTS = Path(__file__).parent.parent


def run(program: str, *arguments: object, seconds: float = 120, within: tuple[str, ...] = ()) -> dict[str, Any]:
    """Run a program; the object that it prints."""
    argv = [*within, sys.executable, "-c", program, *map(str, arguments)]
    env = {**os.environ, "PYTHONPATH": str(TESTS)}
    ended = subprocess.run(argv, env=env, capture_output=True, text=True, timeout=seconds, check=False)
    assert ended.stderr == ""
    assert ended.returncode == 0
    reported: dict[str, Any] = json.loads(ended.stdout)
    return reported


# -- kill -9 -------------------------------------------------------------------------------------------------------

_KILLED = """
import json, os, random, shutil, signal, sys, time
from pathlib import Path
from billhook.core import strictjson
from store.written import content, files_of, fresh, lines_of, whole

root, runs = Path(sys.argv[1]), int(sys.argv[2])
chance = random.Random(int(sys.argv[3]))


def write_until_killed(told, kind):
    log = fresh(root, max_bytes=chance.choice([20_000, 3 << 20, 64 << 20]))
    number = 0
    while True:
        number += 1
        if kind == "huge":  # a write that takes long enough to be hit
            seq, digest = log.append_encoded(strictjson.encode(content(number, 1 << 20)))
        else:
            seq, digest = log.append(content(number, chance.choice([0, 300, 5000, 60_000, 200_000])))
        os.write(told, b"%d %b\\n" % (seq, digest.encode()))


totals = {"acknowledged": 0, "torn": 0, "side": 0}
for run in range(runs):
    heard, told = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            write_until_killed(told, "huge" if run % 2 else "mixed")
        finally:
            os._exit(1)
    os.close(told)
    os.read(heard, 1)  # the first one is there
    time.sleep(chance.random() * 0.01)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    reported = b"?"
    while data := os.read(heard, 1 << 16):
        reported += data
    os.close(heard)
    acknowledged = [line.split() for line in reported[:-1].split(b"\\n")[1:] if len(line.split()) == 2]
    log = fresh(root)
    log.append(content(10**6))
    log.close()
    found = whole(log)
    kept = {}
    for path in files_of(log.folder):
        for line in path.read_bytes().split(b"\\n"):
            if line.endswith(b'"}') and b',"hash":"' in line[-80:]:
                kept[int(line[13:30].split(b",")[0])] = line[-66:-2]
    for seq, digest in acknowledged:
        assert kept[int(seq)] == digest, (run, seq)
    totals["acknowledged"] += len(acknowledged)
    totals["torn"] += found.torn
    totals["side"] += len(list(log.folder.glob("large/*.json")))
    shutil.rmtree(root)
print(json.dumps(totals))
"""


@pytest.mark.parametrize(
    ("runs", "seed"), [pytest.param(50, 1, id="50"), pytest.param(1000, 2, id="1000", marks=pytest.mark.slow)]
)
def test_a_writer_that_is_killed_takes_nothing_with_it(tmp_path: Path, runs: int, seed: int) -> None:
    """kill -9 at random points: no acknowledged record is lost, no line stays torn, and the chain verifies."""
    reported = run(_KILLED, tmp_path / "root", runs, seed, seconds=1200)
    assert reported["acknowledged"] > runs


_INTERRUPTED = """
import json, random, signal, sys
from pathlib import Path
from store.written import content, fresh, lines_of, whole

class Now(BaseException):
    pass


def interrupt(*_):
    raise Now


log, chance = fresh(Path(sys.argv[1]), max_bytes=50_000), random.Random(3)
signal.signal(signal.SIGALRM, interrupt)
kept, hits, number = {}, 0, 0
while hits < int(sys.argv[2]):
    try:
        signal.setitimer(signal.ITIMER_REAL, 1e-6 + chance.random() * 0.003)
        while True:
            number += 1
            kept[number] = log.append(content(number)).hash
    except Now:
        hits += 1
signal.setitimer(signal.ITIMER_REAL, 0)
kept[number + 1] = log.append(content(number + 1)).hash  # an interrupt between two files leaves none to read
found = whole(log)
there = {int(line["id"], 16): line["hash"] for line in lines_of(log.folder) if line["event"] != "log"}
print(json.dumps({"kept": len(kept), "lost": [n for n in kept if there.get(n) != kept[n]], "torn": found.torn}))
"""


def test_interrupts_cost_nothing(tmp_path: Path) -> None:
    """Ctrl-C at any moment: what was acknowledged is there, nothing is torn, and the next record is written at once."""
    reported = run(_INTERRUPTED, tmp_path / "root", 300)
    assert reported["lost"] == [] and reported["torn"] == 0 and reported["kept"] > 2000


# -- many at once --------------------------------------------------------------------------------------------------

_CROWD = """
import json, os, random, sys
from pathlib import Path
from store.written import content, files_of, fresh, lines_of, whole

root, writers, each, max_bytes = Path(sys.argv[1]), *map(int, sys.argv[2:5])
children = []
for writer in range(writers):
    pid = os.fork()
    if pid == 0:
        try:
            chance, log = random.Random(writer), fresh(root, max_bytes=max_bytes)
            for number in range(each):
                size = chance.choices([0, 300, 2000, 30_000, 200_000], [20, 20, 10, 2, 1])[0]
                log.append(content(writer * 10**6 + number, size))
            os._exit(0)
        finally:
            os._exit(1)
    children.append(pid)
failed = [pid for pid in children if os.waitpid(pid, 0)[1] != 0]
log = fresh(root)
found = whole(log)
lines = lines_of(log.folder)
ids = [line["id"] for line in lines if line["event"] != "log"]
print(json.dumps({
    "failed": len(failed), "torn": found.torn, "lines": len(ids), "different": len(set(ids)), "files": found.files,
    "gapless": [line["seq"] for line in lines] == list(range(1, len(lines) + 1)),
}))
"""


@pytest.mark.parametrize(
    ("writers", "each", "max_bytes"),
    [
        pytest.param(64, 15, 64 << 20, id="one file"),
        pytest.param(64, 15, 100_000, id="many files"),
        pytest.param(64, 500, 64 << 20, id="one file, long", marks=pytest.mark.slow),
        pytest.param(64, 500, 1 << 20, id="many files, long", marks=pytest.mark.slow),
    ],
)
def test_sixty_four_writers(tmp_path: Path, writers: int, each: int, max_bytes: int) -> None:
    """Records of 300 bytes to 200 KB: no line torn, lost or there twice, numbers without a gap."""
    reported = run(_CROWD, tmp_path / "root", writers, each, max_bytes, seconds=600)
    total = writers * each
    assert (reported["failed"], reported["torn"], reported["lines"], reported["different"]) == (0, 0, total, total)
    assert reported["gapless"] and (reported["files"] > 1) is (max_bytes <= 1 << 20)


# -- no room -------------------------------------------------------------------------------------------------------

_FULL = """
import json, os, subprocess, sys
from pathlib import Path
from billhook.store.files import StoreError
from store.written import content, fresh, whole

place = Path(sys.argv[1])
subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", place], check=True)
log, errors, kept = fresh(place / "root"), [], 0
for number in range(1000):
    try:
        log.append(content(number, 700))
        kept += 1
    except StoreError as error:
        errors.append([error.message, error.hint])
        if len(errors) == 5:
            break
filler = os.open(place / "filler", os.O_WRONLY | os.O_CREAT)
try:
    while os.write(filler, b"x" * 100):  # to the last byte
        pass
except OSError:
    os.close(filler)
for size_of_line in range(0, 3000, 100):
    try:
        fresh(place / "root").append(content(1, size_of_line))
        kept += 1
    except StoreError as error:
        errors.append([error.message, error.hint])
try:
    log.append(content(1, 100_000))
except StoreError as error:
    side = error.hint
full = whole(log).records
os.unlink(place / "filler")
subprocess.run(["mount", "-o", "remount,size=1m", place], check=True)
after = log.append(content(2)).seq
log.close()
subprocess.run(["mount", "-o", "remount,ro", place], check=True)
try:
    fresh(place / "root").append(content(3))
except StoreError as error:
    read_only = error.message
print(json.dumps({
    "kept": kept, "errors": errors, "full": full, "after": after, "records": whole(log).records, "side": side,
    "torn": whole(log).torn, "read_only": read_only,
}))
"""


def namespace() -> tuple[str, ...]:
    """How to mount something that only the program itself sees."""
    for options in (("-m",), ("-r", "-m")):
        argv = ("unshare", *options)
        try:
            if subprocess.run([*argv, "true"], capture_output=True, check=False).returncode == 0:
                return argv
        except OSError:
            break
    pytest.skip("no file system can be mounted here")


def test_a_full_disk(tmp_path: Path) -> None:
    """64 KB in all: what doesn't fit is refused with a hint and leaves no trace; when there is room it goes on."""
    place = tmp_path / "disk"
    place.mkdir()
    reported = run(_FULL, place, within=namespace())

    assert reported["kept"] > 20 and len(reported["errors"]) > 5
    assert {hint for _, hint in reported["errors"]} == {"free some space on that disk"} == {reported["side"]}
    assert reported["full"] == reported["kept"] and reported["after"] == reported["kept"] + 1 == reported["records"]
    assert reported["torn"] == 0
    assert "Read-only file system" in reported["read_only"]


_SHORT = """
import json, os, resource, sys
from pathlib import Path
from billhook.store.files import StoreError
from store.written import content, filled, fresh, whole

root = Path(sys.argv[1])
log = filled(root, 3)
size, refused = log.path.stat().st_size, 0
line = 700
for limit in range(size, size + line + 300, 7):
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
    try:
        fresh(root).append(content(4, 400))
        break
    except StoreError as error:
        refused += 1
        assert "only" in error.message or "File too large" in error.message, error
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    assert log.path.stat().st_size == size
log.append(content(5))
print(json.dumps({"refused": refused, "records": whole(log).records, "torn": whole(log).torn}))
"""


def test_a_write_that_ends_anywhere_is_taken_back(tmp_path: Path) -> None:
    """The largest size of a file makes the write short at every place of the line: the file stays as it was."""
    reported = run(_SHORT, tmp_path / "root")
    assert reported["refused"] > 50 and (reported["records"], reported["torn"]) == (5, 0)


_FAULTY = """
import json, os, resource, sys
from pathlib import Path
from billhook.store.files import StoreError
from store.written import content, files_of, fresh, lines_of, whole

# Every system call that the log makes fails in turn: which one, is told by how many descriptors there may be, and by
# the size that a file may have. Whatever happens, what was acknowledged is there and the rest is not.
root = Path(sys.argv[1])
kept = errors = 0
for free in [*range(0, 12), 100]:
    for limit in (0, 1, 200, 400, 650, 1000, 5000, 1 << 30):
        used = len(os.listdir("/proc/self/fd")) - 1
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
        resource.setrlimit(resource.RLIMIT_NOFILE, (used + free, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
        try:
            log = fresh(root, max_bytes=2000)
            for size in (0, 100, 70_000):
                try:
                    log.append(content(kept, size))
                    kept += 1
                except StoreError:
                    errors += 1
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (1024, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
            resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        log.close()
found = whole(log)
ids = [int(line["id"], 16) for line in lines_of(log.folder) if line["event"] != "log"]
print(json.dumps({"kept": kept, "errors": errors, "ids": ids == list(range(kept)), "torn": found.torn}))
"""


def test_a_fault_at_every_step(tmp_path: Path) -> None:
    """No descriptor, no room in the file, in every combination: StoreError or a whole record, nothing between."""
    reported = run(_FAULTY, tmp_path / "root")
    assert reported["kept"] > 20 and reported["errors"] > 20
    assert reported["ids"] and reported["torn"] == 0


def test_a_home_that_can_not_be_written(tmp_path: Path) -> None:
    """A read-only home is an error with a hint, at once; nothing hangs."""
    program = """
import json, os, subprocess, sys, time
from pathlib import Path
from billhook.store.files import StoreError
from store.written import content, fresh

place = Path(sys.argv[1])
subprocess.run(["mount", "-t", "tmpfs", "-o", "ro", "tmpfs", place], check=True)
began = time.monotonic()
try:
    fresh(place / "root").append(content(1))
except StoreError as error:
    print(json.dumps({"message": error.message, "hint": error.hint, "quick": time.monotonic() - began < 2}))
"""
    reported = run(program, tmp_path, within=namespace())
    assert "Read-only file system" in reported["message"] and "BILLHOOK_HOME" in reported["hint"] and reported["quick"]


# -- for long ------------------------------------------------------------------------------------------------------

_LONG = """
import gc, json, os, sys, threading
from pathlib import Path
from billhook.store.log.eventlog import open_log
from store.written import PROJECT, content, whole

root = Path(sys.argv[1])


def state():
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE"), len(os.listdir("/proc/self/fd")), threading.active_count()


for number in range(100_000):
    open_log(root, PROJECT, max_bytes=8 << 20).append(content(number, number % 300))
    if number == 20_000:
        before = state()
after = state()
found = whole(open_log(root, PROJECT))
print(json.dumps({"grown": after[0] - before[0], "before": before[1:], "after": after[1:],
                  "records": found.records - found.notes, "files": found.files}))
"""


@pytest.mark.slow
def test_a_hundred_thousand_records_of_one_process(tmp_path: Path) -> None:
    """Memory is flat after the warm-up, descriptors and threads are unchanged, rotations included."""
    reported = run(_LONG, tmp_path / "root")
    assert reported["grown"] < 1 << 20 and reported["before"] == reported["after"]
    assert reported["records"] == 100_000 and reported["files"] > 3


@pytest.fixture(autouse=True)
def swept(tmp_path: Path) -> Any:
    """These logs are large, and pytest keeps the folders of three runs."""
    yield
    shutil.rmtree(tmp_path, ignore_errors=True)

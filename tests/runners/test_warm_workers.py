"""Workers of `python:` hooks in the daemon: forks of an interpreter that has imported billhook."""

import asyncio
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest

from billhook import Engine, Hook, PreToolUse
from billhook.core import client_env
from billhook.core.answers import Decision, Outcome
from billhook.runners import warm, worker

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="warm interpreters need Linux"),
    pytest.mark.usefixtures("adopting"),
]
JUDGE = """
import os
from billhook import deny
def judge(event):
    return deny(f"{os.getpid()} {os.environ.get('WORD')}")
"""


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    warm.FAULTS.clear()
    yield
    worker.close()


class Project:
    """A project with one function, and the parent of its workers."""

    def __init__(self, folder: Path, text: str = JUDGE) -> None:
        self.folder = folder
        self.write(text)
        self.fire()
        until(lambda: self.parent.is_ready() and self.parent.has_spare())

    def write(self, text: str) -> None:
        (self.folder / "judging.py").write_text(text)

    @property
    def parent(self) -> warm.Parent:
        return next(iter(warm.PARENTS._by_key.values()))

    def fire(self, *, warm: bool = True, interpreter: str = "", word: str = "") -> Outcome:
        """An event of the daemon for a caller."""
        run = worker.python("judging:judge", folder=str(self.folder), interpreter=interpreter)
        hook = Hook(name="h", run=msgspec.structs.replace(run, warm=warm), timeout=30)
        event = PreToolUse(tool_name="Bash", tool_input={}, session_id="s", cwd="/")
        with client_env.Serving(client_env.Caller({**os.environ, "WORD": word}, "/")):
            return asyncio.run(Engine([hook]).fire(event)).outcomes[0]

    def worker(self) -> int:
        """The number of the process that answers."""
        outcome = self.fire()
        assert outcome.answer.decision is Decision.DENY, outcome
        return int(outcome.answer.reason.split()[0])

    def new_worker(self) -> int:
        worker.close()
        return self.worker()


def until(true: Callable[[], object], seconds: float = 20) -> None:
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end
        time.sleep(0.005)


def is_forked(pid: int) -> bool:
    return b"worker_main.py" in Path(f"/proc/{pid}/cmdline").read_bytes()


def test_the_first_worker_is_started_plain_and_the_next_are_forks(tmp_path: Path) -> None:
    project = Project(tmp_path)
    first = project.worker()
    assert not is_forked(first)
    second = project.new_worker()
    assert is_forked(second)
    assert project.worker() == second
    assert not os.path.exists(f"/proc/{first}")


def test_a_fork_has_the_environment_of_its_event(tmp_path: Path) -> None:
    outcome = Project(tmp_path).fire(word="new")
    assert outcome.answer.reason.endswith(" new")
    assert is_forked(int(outcome.answer.reason.split()[0]))


def test_a_changed_file_reaches_a_new_fork(tmp_path: Path) -> None:
    project = Project(tmp_path)
    project.write(JUDGE.replace("{os.getpid()}", "{os.getpid()} changed"))
    outcome = project.fire()
    assert "changed" in outcome.answer.reason
    assert is_forked(int(outcome.answer.reason.split()[0]))


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
@pytest.mark.parametrize("whose", ["parent", "spare"])
def test_if_a_parent_or_spare_fails_a_worker_starts_plain(tmp_path: Path, whose: str, number: int) -> None:
    project = Project(tmp_path)
    parent = project.parent
    until(lambda: parent.has_spare() and not parent._requested and not parent._arriving)
    os.kill(parent.tree.leader, number)
    for spare in parent._spares:
        spare.is_fit = lambda: True  # type: ignore[method-assign]
        os.kill(spare.pid, number if whose == "spare" else signal.SIGKILL)
    assert not is_forked(project.new_worker())


def test_an_interpreter_without_billhook_is_reported(tmp_path: Path) -> None:
    import venv

    venv.create(tmp_path / "env", symlinks=True)
    project = Project(tmp_path)
    for _ in range(2):
        outcome = project.fire(interpreter=str(tmp_path / "env" / "bin" / "python"))
        assert "has no billhook" in outcome.error


def test_without_warm_every_worker_starts_plain(tmp_path: Path) -> None:
    project = Project(tmp_path)
    for word in ("a", "b"):
        outcome = project.fire(warm=False, word=word)
        assert not is_forked(int(outcome.answer.reason.split()[0]))


def test_many_workers_leave_nothing(tmp_path: Path) -> None:
    project = Project(tmp_path)
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(10):
        project.new_worker()
    worker.close()
    until(lambda: project.parent.has_spare() and not project.parent._arriving)
    assert len(os.listdir("/proc/self/fd")) <= before + 3 * len(project.parent._spares)

"""kill -9 at any moment: callers get the right answer, a hook runs at most once, every answer is in the log, and
nothing is left behind."""

import os
import random
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from daemon import calling, killing
from daemon.killing import Callers, Nursery
from daemon.running import Home, eventually, home_in

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc"),
    pytest.mark.skipif(calling.COMPILER is None, reason="there is no compiler for billhook-hook"),
]


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    with home_in(tmp_path / "of") as one:
        yield one


@pytest.fixture
def client(tmp_path: Path) -> Path:
    """billhook-hook, with the billhook beside it that it runs where there is no daemon."""
    (tmp_path / "billhook").symlink_to(Path(sys.executable).with_name("billhook"))
    return calling.built("c", tmp_path)


MANY = [150, pytest.param(1000, marks=pytest.mark.slow)]


@pytest.mark.parametrize("kills", MANY)
def test_killed_at_random_points_under_load(home: Home, client: Path, kills: int) -> None:
    """While callers never pause, daemons are killed while they begin, and a moment after they began."""
    ran, mark, chance = killing.prepared(home), f"killed-{os.getpid()}-{kills}", random.Random(kills)
    callers = Callers(home, client, seed=kills, bold=0.01, mark=mark, BILLHOOK_NO_DAEMON="1")
    nursery = Nursery(home)
    try:
        callers.begin(clients=1, speakers=4)
        for _ in range(kills):
            pid = nursery.start()
            if chance.random() < 0.8:
                eventually(lambda: killing.serving(home) == pid, pause=0.002)  # noqa: B023
                callers.serves.set()
                callers.wait_for(chance.choice((0, 1, 2, 4)))
            time.sleep(chance.uniform(0, 0.02))
            callers.serves.clear()
            killing.kill(pid)
    finally:
        called = callers.end()
        nursery.close()
    outcomes = killing.check(home, called, ran)
    # Otherwise nothing was tested: daemons answered, and were killed in the midst of it.
    assert min(outcomes["answered"], outcomes["failed"]) > kills / 4, outcomes
    killing.check_log(home)
    killing.check_nothing_is_left(mark)


@pytest.mark.slow
def test_killed_and_started_again_by_clients(home: Home, client: Path) -> None:
    """Clients that find no daemon answer by themselves, and one of them starts the next, which is killed in turn."""
    kills = 100
    ran, mark, chance = killing.prepared(home), f"started-{os.getpid()}-{kills}", random.Random(kills)
    callers = Callers(home, client, seed=kills, bold=1.0, mark=mark)
    killed: set[int] = set()
    try:
        callers.begin(clients=3, speakers=1)
        for _ in range(kills):
            pid = eventually(lambda: killing.serving(home), 60)
            time.sleep(chance.uniform(0, 0.3))
            killing.kill(pid)
            killed.add(pid)
            eventually(lambda: killing.serving(home) != pid, pause=0.002)  # noqa: B023
    finally:
        called = callers.end()
    killing.check(home, called, ran)
    assert len(killed) == kills
    killing.check_log(home)
    eventually(lambda: not killing.starting(mark))
    home.billhook("daemon", "stop", "--force")
    killing.check_nothing_is_left(mark)
    warm = Counter(pid in killed for pid in killing.owners(ran))
    assert warm[False], warm

"""What a verdict costs on a host of a fleet, compared with a machine that has the same rule in its own file."""

import os
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from billhook.config.fleet_policy import applied
from daemon.running import Home
from fleet.conftest import RULES, Fleet
from fleet.hosts import eventually

CALLS = 1500
MOST = 1.05


def ratio(own: Home, host: Home) -> float:
    """The median time of a verdict on the host, over that on the other machine; their calls alternate."""
    times: dict[str, list[float]] = {"own": [], "host": []}
    for _ in range(CALLS):
        for name, home in (("own", own), ("host", host)):
            began = time.perf_counter()
            home.ask()
            times[name].append(time.perf_counter() - began)
    return statistics.median(times["host"]) / statistics.median(times["own"])


@pytest.mark.slow
def test_a_verdict_costs_the_same(fleet: Fleet, tmp_path: Path, record_property: Callable[[str, object], None]) -> None:
    """With a cluster that answers, and with one that is stopped."""
    homes = [tmp_path / "own", tmp_path / "host"]
    for one in homes:
        one.mkdir()
    own, host = map(Home, homes)
    try:
        own.own(RULES)
        fleet.host(host.root)
        document = fleet.publish()
        for home in (own, host):
            home.start()
            home.ask()
        eventually(lambda: (policy := applied(host.root)) is not None and policy.sequence == document.sequence)
        push = host.event(tool_input={"command": "git push origin x"})
        assert host.ask(push).denied and own.ask(own.event(tool_input=push["tool_input"])).denied
        alive = min(ratio(own, host) for _ in range(3))
        fleet.cluster.stop()
        dead = min(ratio(own, host) for _ in range(3))
        assert host.ask(push).denied
    finally:
        own.close()
        host.close()
        fleet.cluster.start()
    told = f"cluster alive {alive:.2f}, stopped {dead:.2f} (load {os.getloadavg()[0]:.1f})"
    record_property("measured", f"a verdict on a host of a fleet, times that of a machine alone: {told}")
    assert alive <= MOST and dead <= MOST

"""A policy reaches 1,000 hosts of a cluster with three servers."""

import asyncio
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from billhook.fleet import policy, server
from billhook.fleet.connection import connect
from billhook.fleet.policy import PolicySettings
from billhook.fleet.server import DevCluster
from fleet.conftest import RULES
from fleet.many import ManyHosts

HOSTS = 1000


async def published(cluster: DevCluster, rules: str) -> int:
    """Publish some rules: the number of the policy."""
    client = await connect(server.staff(cluster.folder), cluster.url)
    now, after = await policy.published(client, cluster.fleet)
    document = policy.next_document(now, cluster.fleet, rules, PolicySettings(), 0.0)
    await policy.publish(client, cluster.fleet, server.signing_seed(cluster.folder), document, after)
    await client.close()
    return document.sequence


@pytest.fixture
def in_memory(tmp_path: Path) -> Iterator[Path]:
    """A folder without a disk, if the system has one: 1,000 hosts don't share a disk."""
    with tempfile.TemporaryDirectory(dir="/dev/shm" if os.path.isdir("/dev/shm") else tmp_path) as folder:
        yield Path(folder)


@pytest.mark.slow
def test_a_policy_reaches_all_hosts(
    tmp_path: Path, in_memory: Path, record_property: Callable[[str, object], None]
) -> None:
    """Within 5 s, also if their server is killed: they go to another one."""
    cluster = DevCluster(tmp_path / "cluster", org="acme", nodes=3)
    hosts = ManyHosts(cluster, in_memory, HOSTS)

    async def measure() -> list[list[float]]:
        first = await published(cluster, RULES)
        await hosts.start([policy.follow])
        try:
            assert len(await hosts.reach("sequence", first, time.monotonic(), 60)) == HOSTS
            times = []
            for number in range(3):
                if number == 2:
                    cluster.servers[0].kill()
                began = time.monotonic()
                reaching = asyncio.ensure_future(hosts.reach("sequence", first + number + 1, began, 30))
                await published(cluster, f"{RULES}# {number}\n")
                times.append(await reaching)
            return times
        finally:
            await hosts.stop()

    try:
        cluster.start()
        times = asyncio.run(measure())
    finally:
        cluster.stop()
    load = os.getloadavg()[0]
    texts = [f"{sorted(some)[HOSTS // 2]:.2f} s, all {max(some):.2f} s" for some in times]
    names = ("first", "second", "third, one server killed just before")
    told = "; ".join(f"{name}: half {text}" for name, text in zip(names, texts, strict=True))
    record_property("measured", f"a policy reaches {HOSTS} hosts (load {load:.1f}): {told}")
    assert [len(some) for some in times] == [HOSTS] * 3
    assert max(times[0]) < 5 and max(times[1]) < 5

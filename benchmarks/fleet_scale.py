"""What one event costs in a fleet of 1 to 1,000 hosts: CPU time of the senders and of three servers, and a plot of it.

    python benchmarks/fleet_scale.py [PLOT.svg]

One process is all hosts: each has a log of its own, and 50 of them share a connection. Every event is written to a log
and shipped alone, as on hosts that are mostly idle.
"""

import asyncio
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from billhook.fleet import server
from billhook.fleet.connection import connect
from billhook.fleet.server import DevCluster
from billhook.fleet.shipper import Shipper
from billhook.store.files import log_folder
from billhook.store.log.eventlog import EventLog

HOSTS = (1, 10, 100, 1000)
PER_CONNECTION = 50
_EVENTS = 2000
_ROUNDS = 5
_PROJECT = "/srv/shop"
_COMMAND = "make " + "x" * 400  # a record of about 800 bytes, as most are


class SimulatedHost:
    """One host: its log, and what ships it."""

    def __init__(self, root: Path, name: str, client: Any, subject: str) -> None:
        self.name, self.root = name, root
        self.log = EventLog(root, log_folder(root, _PROJECT))
        self.shipper = Shipper(root, client, subject, root / "billhook/fleet/shipped.json")
        self.written = 0

    def write(self) -> None:
        """One event."""
        now = time.time_ns()
        record = {"id": f"{now:032x}", "time": time.strftime("%Y-%m-%dT%H:%M:%S.000000Z", time.gmtime())}
        about = {"mono": time.monotonic(), "event": "PreToolUse", "tool": "Bash", "project": _PROJECT}
        self.log.append({**record, **about, "input": {"command": _COMMAND}})
        self.log.close()  # a thousand hosts in one process would need too many descriptors
        self.written += 1


class CpuTime(NamedTuple):
    """Seconds of CPU time."""

    senders: float
    servers: float


def cpu_time(cluster: DevCluster) -> CpuTime:
    """The CPU time so far of this process, and of the servers."""
    ticks = 0
    for one in cluster.servers:
        fields = Path(f"/proc/{one.pid}/stat").read_text().rpartition(")")[2].split()
        ticks += int(fields[11]) + int(fields[12])
    return CpuTime(time.process_time(), ticks / os.sysconf("SC_CLK_TCK"))


@contextmanager
def running(nodes: int = 3) -> Iterator[DevCluster]:
    """A cluster on this machine."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        cluster = DevCluster(Path(folder), org="scale", nodes=nodes)
        try:
            cluster.start()
            yield cluster
        finally:
            cluster.stop()


async def connected(cluster: DevCluster, number: int) -> list[Any]:
    """Connections for so many hosts. They are the administrator's, because each is for many hosts."""
    urls = cluster.url.split(",")
    admin = server.staff(cluster.folder)
    many = range(-(-number // PER_CONNECTION))
    return [await connect(admin, urls[one % len(urls)]) for one in many]


def simulated(cluster: DevCluster, clients: Sequence[Any], folder: Path, number: int) -> list[SimulatedHost]:
    """So many hosts with empty logs."""
    names = [f"{folder.name}-{one}" for one in range(number)]
    subjects = cluster.fleet.subjects
    return [
        SimulatedHost(folder / name, name, clients[one // PER_CONNECTION], subjects.audit(name))
        for one, name in enumerate(names)
    ]


async def cost(cluster: DevCluster, folder: Path, number: int, events: int = _EVENTS) -> CpuTime:
    """The CPU time of one event, in seconds, with so many hosts."""
    clients = await connected(cluster, number)
    hosts = simulated(cluster, clients, folder, number)
    groups = [hosts[one : one + PER_CONNECTION] for one in range(0, number, PER_CONNECTION)]
    for host in hosts:  # what a host does once is not the cost of an event
        host.write()
        await host.shipper.ship()
    before = cpu_time(cluster)
    for _ in range(events // number):
        for group in zip(*groups, strict=True):
            for host in group:
                host.write()
            await asyncio.gather(*(host.shipper.ship() for host in group))
    after = cpu_time(cluster)
    for client in clients:
        await client.close()
    assert all(host.shipper.status.waiting == 0 for host in hosts)
    return CpuTime(*((b - a) / events for a, b in zip(before, after, strict=True)))


def measured(cluster: DevCluster, folder: Path, rounds: int = _ROUNDS) -> dict[int, CpuTime]:
    """The median of some rounds, by number of hosts. The rounds alternate, because this machine does other work."""
    found: dict[int, list[CpuTime]] = {number: [] for number in HOSTS}
    for round_ in range(rounds):
        for number in HOSTS:
            events = max(_EVENTS, number)
            found[number].append(asyncio.run(cost(cluster, folder / f"r{round_}-{number}", number, events)))
    return {
        number: CpuTime(*(statistics.median(one) for one in zip(*times, strict=True)))
        for number, times in found.items()
    }


def plot(found: dict[int, CpuTime]) -> str:
    """The costs as SVG: number of hosts to microseconds, in two parts."""
    width, height, left, top, room = 640, 360, 70, 40, 240
    most = max(sum(one) for one in found.values()) * 1e6 * 1.25
    gap = (width - left - 20) / len(found)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-size="13"',
        'font-family="sans-serif">',
        f'<rect width="{width}" height="{height}" fill="#fff"/>',
        f'<text x="{left}" y="24" font-size="15">CPU time of one event, by the number of hosts</text>',
    ]
    for step in range(5):
        value = most * step / 4
        y = top + room - room * step / 4
        parts.append(f'<line x1="{left}" x2="{width - 20}" y1="{y:.0f}" y2="{y:.0f}" stroke="#ddd"/>')
        parts.append(f'<text x="{left - 8}" y="{y + 4:.0f}" text-anchor="end">{value:.0f} µs</text>')
    for place, (number, one) in enumerate(found.items()):
        x, bottom = left + gap * place + gap * 0.25, float(top + room)
        for seconds, colour in zip(one, ("#4269d0", "#efb118"), strict=True):
            size = room * seconds * 1e6 / most
            bottom -= size
            parts.append(
                f'<rect x="{x:.0f}" y="{bottom:.1f}" width="{gap / 2:.0f}" height="{size:.1f}" fill="{colour}"/>'
            )
        middle = x + gap / 4
        parts.append(f'<text x="{middle:.0f}" y="{bottom - 6:.0f}" text-anchor="middle">{sum(one) * 1e6:.0f}</text>')
        parts.append(f'<text x="{middle:.0f}" y="{top + room + 18}" text-anchor="middle">{number:,}</text>')
    for x, colour, text in ((left, "#4269d0", "senders, with writing the record"), (330, "#efb118", "three servers")):
        parts.append(f'<rect x="{x}" y="{height - 36}" width="12" height="12" fill="{colour}"/>')
        parts.append(f'<text x="{x + 18}" y="{height - 25}">{text}</text>')
    return "\n".join([*parts, "</svg>", ""])


def main(argv: Sequence[str]) -> None:
    with running() as cluster, tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        found = measured(cluster, Path(folder))
    for number, one in found.items():
        print(f"{number:5} hosts: {one.senders * 1e6:4.0f} µs senders, {one.servers * 1e6:4.0f} µs servers")
    sums = [sum(one) for one in found.values()]
    print(f"1,000 hosts to 1: {sums[-1] / sums[0]:.2f}; load {os.getloadavg()[0]:.0f}")
    if argv:
        Path(argv[0]).write_text(plot(found), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])

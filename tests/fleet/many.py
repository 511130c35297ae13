"""Many simulated hosts in one process: each with a state root and a link of its own, and one connection for fifty."""

import asyncio
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from billhook.fleet import server
from billhook.fleet.connection import connect
from billhook.fleet.link import FleetLink, LinkTask
from billhook.fleet.members import Enrolment
from billhook.fleet.server import DevCluster

PER_CONNECTION = 50


class ManyHosts:
    """A fleet of simulated hosts. They log in as the administrator, because one connection has one login."""

    def __init__(self, cluster: DevCluster, folder: Path, count: int) -> None:
        self.cluster, self.folder = cluster, folder
        admin = server.staff(cluster.folder)
        self.members = [
            Enrolment(admin.org, f"host-{number}", admin.seed, admin.policy_key, url=cluster.url)
            for number in range(count)
        ]
        self.links: list[FleetLink] = []
        self._clients: list[Any] = []
        self._tasks: list[asyncio.Task[None]] = []

    def root(self, member: Enrolment) -> Path:
        return self.folder / member.name

    async def start(self, tasks: Sequence[LinkTask]) -> None:
        """Connect all hosts, and begin their tasks."""
        for place, member in enumerate(self.members):
            if place % PER_CONNECTION == 0:
                admin = server.staff(self.cluster.folder)
                self._clients.append(await connect(admin, self.cluster.url, forever=True))
            self.links.append(FleetLink(self.root(member), member, self._clients[-1]))
        self._tasks = [asyncio.ensure_future(_run(task, link)) for link in self.links for task in tasks]

    async def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        with suppress(asyncio.CancelledError):
            await asyncio.gather(*self._tasks, return_exceptions=True)
        for client in self._clients:
            await client.close()

    async def reach(self, key: str, value: Any, began: float, seconds: float) -> list[float]:
        """When each host had this value in its status, in seconds after a time; none for hosts that took longer."""
        waiting, found = list(self.links), []
        while waiting and time.monotonic() - began < seconds:
            left = [link for link in waiting if link.status.get(key) != value]
            found += [time.monotonic() - began] * (len(waiting) - len(left))
            waiting = left
            await asyncio.sleep(0.02)
        return found


async def _run(task: LinkTask, link: FleetLink) -> None:
    with suppress(asyncio.CancelledError):
        await task(link)

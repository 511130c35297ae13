"""The link: a process beside the daemon that holds the host's only connection to the fleet.

`python -m billhook.fleet.link ROOT` runs until its stdin is closed. It prints its state as a line of JSON, once per
second. It writes what it learns into files of the state folder: a verdict reads those and never waits for the network.
"""

import asyncio
import json
import os
import random
import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec

from billhook import __version__
from billhook.fleet import limits, policy, questions, shipper
from billhook.fleet.connection import member_connection
from billhook.fleet.members import Enrolment, FleetSubjects, enrolment

if TYPE_CHECKING:
    from nats.aio.client import Client


_EVERY: Final = 15.0  # seconds between two reports without a change
_AT_ONCE: Final = 0.5


class HostState(msgspec.Struct, frozen=True, omit_defaults=True):
    """The last report of a host."""

    host: str
    version: str
    at: float  # when it was sent, by the host's clock
    sequence: int = 0  # of the policy in force
    stage: str = ""  # of the candidate: empty, `shadow` or `candidate`
    managed: bool = False
    tags: tuple[str, ...] = ()
    refused: str = ""  # why the newest policy was refused
    lag: int = 0  # records that are not shipped yet
    lost: int = 0  # records that were removed from the logs before they were shipped
    answers_refused: int = 0  # answers to its questions that did not count
    would: dict[str, int] = {}  # would-be decisions of the shadow stage


async def repeat(link: "FleetLink") -> None:
    """Report changes soon, and the rest at intervals."""
    subject = link.subjects.host(link.member.name)
    last, due = b"", 0.0
    while True:
        now = time.monotonic()
        state = msgspec.json.encode(_host_state(link, 0.0))
        if state != last or now >= due:
            await link.client.publish(subject, msgspec.json.encode(_host_state(link, time.time())))
            last, due = state, now + _EVERY * random.uniform(0.8, 1.2)
        await asyncio.sleep(_AT_ONCE)


def _host_state(link: "FleetLink", at: float) -> HostState:
    names = ("sequence", "stage", "refused", "lag", "lost", "would")
    known = {name: link.status[name] for name in names if name in link.status}
    known["answers_refused"] = link.status.get("answers", {}).get("refused", 0)
    return HostState(link.member.name, __version__, at, managed=link.member.managed, tags=link.member.tags, **known)


# The link:

_PAUSE: Final = 2.0  # seconds after which a task that failed begins again
_INTERVAL: Final = 1.0


class FleetLink:
    """The link of one host. `status` is for `billhook daemon status`: every task adds its own."""

    def __init__(self, root: Path, member: Enrolment, client: "Client") -> None:
        self.root = root
        self.member = member
        self.client = client
        self.subjects: FleetSubjects = member.subjects
        self.status: dict[str, Any] = {"url": member.url, "org": member.org, "host": member.name}


LinkTask = Callable[[FleetLink], Awaitable[None]]
TASKS: Final[Sequence[LinkTask]] = (policy.follow, repeat, shipper.follow, limits.follow, questions.follow)
"""What the link does, each in an asyncio task that begins again if it fails."""


async def run(root: Path, member: Enrolment, *, tasks: Sequence[LinkTask] = TASKS) -> None:
    """Connect, and do all tasks until this is cancelled."""
    problems: dict[str, Any] = {}

    async def refused(error: Exception) -> None:
        problems["problem"] = str(error)
        if client is None:
            _print_status({"org": member.org, "host": member.name, "connected": False, **problems})

    client = None
    while client is None:
        try:
            client = await member_connection(member, on_error=refused, forever=True)
        except Exception as error:
            _print_status({"org": member.org, "host": member.name, "connected": False, "problem": str(error)})
            await asyncio.sleep(_PAUSE)
    link = FleetLink(root, member, client)
    try:
        async with asyncio.TaskGroup() as group:
            group.create_task(_report(link, problems))
            for task in tasks:
                group.create_task(_forever(task, link))
    finally:
        await client.close()


async def _forever(task: LinkTask, link: FleetLink) -> None:
    name = task.__module__.rpartition(".")[2]
    while True:
        try:
            await task(link)
        except Exception as error:
            link.status[f"{name}_problem"] = f"{type(error).__name__}: {error}"
        await asyncio.sleep(_PAUSE)


async def _report(link: FleetLink, problems: dict[str, Any]) -> None:
    while True:
        _print_status(
            {**link.status, "connected": link.client.is_connected, **({} if link.client.is_connected else problems)}
        )
        await asyncio.sleep(_INTERVAL)


def _print_status(status: dict[str, Any]) -> None:
    try:
        os.write(sys.stdout.fileno(), json.dumps(status).encode() + b"\n")
    except (BlockingIOError, ValueError):
        pass  # the daemon is slow: the next line is newer
    except OSError:
        os._exit(0)  # the daemon ended


def main(root: Path) -> int:
    """Run the link until stdin is closed."""
    member = enrolment(root)
    if member is None:
        return 0

    async def until_closed() -> None:
        ended = asyncio.Event()

        def read() -> None:
            if not os.read(sys.stdin.fileno(), 4096):
                ended.set()

        asyncio.get_running_loop().add_reader(sys.stdin.fileno(), read)
        link = asyncio.ensure_future(run(root, member))
        await asyncio.wait([link, asyncio.ensure_future(ended.wait())], return_when=asyncio.FIRST_COMPLETED)
        link.cancel()
        await asyncio.wait([link])

    asyncio.run(until_closed())
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))

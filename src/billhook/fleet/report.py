"""Report this host to the fleet: its version, its policy, and how far its records are behind."""

import asyncio
import random
import time
from typing import TYPE_CHECKING, Final

import msgspec

from billhook import __version__

if TYPE_CHECKING:
    from billhook.fleet.link import FleetLink

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
        state = msgspec.json.encode(_report(link, 0.0))
        if state != last or now >= due:
            await link.client.publish(subject, msgspec.json.encode(_report(link, time.time())))
            last, due = state, now + _EVERY * random.uniform(0.8, 1.2)
        await asyncio.sleep(_AT_ONCE)


def _report(link: "FleetLink", at: float) -> HostState:
    names = ("sequence", "stage", "refused", "lag", "lost", "would")
    known = {name: link.status[name] for name in names if name in link.status}
    known["answers_refused"] = link.status.get("answers", {}).get("refused", 0)
    return HostState(link.member.name, __version__, at, managed=link.member.managed, tags=link.member.tags, **known)

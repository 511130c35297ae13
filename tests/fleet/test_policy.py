"""A published policy reaches the hosts of its organisation, and nothing else does."""

import asyncio
import contextlib
import time
from pathlib import Path

from billhook.config.fleet_policy import AppliedPolicy, applied, folder
from billhook.fleet import link, policy
from billhook.fleet.enrolment import Enrolment
from fleet.conftest import RULES, Fleet


def followed(root: Path, member: Enrolment, *, sequence: int, seconds: float = 5.0) -> AppliedPolicy | None:
    """The policy in force on a host whose link runs until it has the policy with this number."""

    async def wait() -> AppliedPolicy | None:
        running = asyncio.ensure_future(link.run(root, member, tasks=[policy.follow]))
        end = time.monotonic() + seconds
        while time.monotonic() < end and ((now := applied(root)) is None or now.sequence != sequence):  # noqa: ASYNC110 (no event tells it)
            await asyncio.sleep(0.02)
        running.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await running
        return applied(root)

    return asyncio.run(wait())


def test_a_host_gets_the_published_policy(fleet: Fleet, tmp_path: Path) -> None:
    """Its rules are in a file of the state folder."""
    member = fleet.host(tmp_path)
    document = fleet.publish()

    found = followed(tmp_path, member, sequence=document.sequence)

    assert found is not None and found.sequence == document.sequence and found.org == "acme"
    assert (folder(tmp_path) / found.file).read_text() == RULES

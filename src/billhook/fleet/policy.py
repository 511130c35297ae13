"""Follow the policy of the organisation: verify it, and write it where the configuration is loaded from."""

import random
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from billhook import __version__
from billhook.config.fleet_policy import AppliedPolicy, applied, folder, note_contact, write, write_rules
from billhook.fleet import connection, keys
from billhook.fleet.enrolment import Enrolment
from billhook.fleet.signing import LARGEST, PolicyDocument, RefusedPolicyError, in_stage, verified
from billhook.fleet.subjects import POLICY
from billhook.store.files import read_bytes, write_atomically

if TYPE_CHECKING:
    from billhook.fleet.link import FleetLink

SIGNED: Final = "signed.json"  # the newest document, as it came: it is verified again when the link starts
_EVERY: Final = 20.0  # seconds between two looks at the stream: a message to a subscriber may be lost
_SOON: Final = 1.0


class PolicyFollower:
    """The policy of one host."""

    def __init__(self, root: Path, member: Enrolment) -> None:
        self.root, self.member = root, member
        self.policy = applied(root) or AppliedPolicy(member.org, member.name, keys.fingerprint(member.policy_key))
        self._newest = self.policy.sequence  # of the documents that were verified
        self._taken = b""
        self._pending: PolicyDocument | None = None  # it is not valid yet

    def restore(self) -> None:
        """Apply the last document again: the host may have other tags by now."""
        data = read_bytes(folder(self.root) / SIGNED, 2 * LARGEST, root=self.root, private=True)
        if data is None or not self.take(data):
            write(self.root, self.policy)

    def take(self, data: bytes) -> bool:
        """Verify a document and bring it into force, or note why it is refused: whether it is obeyed."""
        if data == self._taken:
            return True
        try:
            document = verified(data, self.member, newest=self._newest)
            if document.sequence == self._newest and self._taken:
                raise RefusedPolicyError(f"it is another document with the sequence {self._newest}")
            _refuse_version(document)
        except RefusedPolicyError as error:
            self._set(replace(self.policy, refused=error.message))
            return False
        self._newest, self._taken, self._pending = document.sequence, data, None
        if document.valid_from > time.time():
            self._pending = document
        else:
            self._obey(document)
        return True

    def tick(self) -> None:
        """Obey a document whose time has come."""
        if self._pending is not None and self._pending.valid_from <= time.time():
            self._obey(self._pending)
            self._pending = None

    def _obey(self, document: PolicyDocument) -> None:
        write_atomically(folder(self.root) / SIGNED, self._taken, root=self.root, private=True)
        self._set(in_force(self.root, self.member, document))

    def _set(self, policy: AppliedPolicy) -> None:
        if policy != self.policy:
            write(self.root, policy)
            self.policy = policy


def in_force(root: Path, member: Enrolment, document: PolicyDocument) -> AppliedPolicy:
    """What a document means on this host, with its rules in files."""
    stage, candidate = in_stage(document.candidate, member.name, member.tags), document.candidate
    rules, shadow = document.rules, ""
    if candidate is not None and stage:
        rules, shadow = (candidate.rules, "") if stage == "candidate" else (rules, candidate.rules)
    return AppliedPolicy(
        document.org,
        member.name,
        keys.fingerprint(member.policy_key),
        sequence=document.sequence,
        file=write_rules(root, rules),
        shadow=write_rules(root, shadow) if shadow else "",
        stage=stage,
        managed=member.managed,
        valid_until=document.valid_until,
        on_expiry=document.on_expiry,
    )


def _refuse_version(document: PolicyDocument) -> None:
    if _numbers(__version__) < _numbers(document.minimum_version):
        raise RefusedPolicyError(f"it needs billhook {document.minimum_version}, and this is {__version__}")


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".") if part.isdigit())


async def follow(link: "FleetLink") -> None:
    """Take each policy as soon as it is published, and look at the stream at intervals and after each interruption."""
    follower = PolicyFollower(link.root, link.member)
    follower.restore()
    subscription = await link.client.subscribe(link.subjects.policy)
    due, connections = 0.0, -1
    try:
        while True:
            policy = follower.policy
            link.status |= {"sequence": policy.sequence, "stage": policy.stage, "refused": policy.refused}
            again = link.client.stats["reconnects"]
            if link.client.is_connected and (time.monotonic() >= due or again != connections):
                connections = again
                due = time.monotonic() + _EVERY * random.uniform(0.7, 1.3)
                newest = await connection.last(link.client, POLICY, link.subjects.policy)
                note_contact(link.root)
                if newest is not None:
                    follower.take(newest)
            follower.tick()
            with suppress(TimeoutError):
                follower.take((await subscription.next_msg(_SOON)).data)
    finally:
        await subscription.unsubscribe()

"""Signed policies: the document and its stages, how a host follows them, how an administrator publishes them."""

import asyncio
import random
import re
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

import msgspec
from msgspec.structs import replace

from billhook import __version__
from billhook.config.fleet_policy import AppliedPolicy, applied, folder, note_contact, write, write_rules
from billhook.core.errors import BillhookError, UsageError
from billhook.fleet import connection, members
from billhook.fleet.connection import FleetError, NoAnswerError
from billhook.fleet.members import POLICY, Enrolment, FleetCredentials
from billhook.fleet.server import FleetFolder
from billhook.store.files import read_bytes, sha256, write_atomically

if TYPE_CHECKING:
    from nats.aio.client import Client

    from billhook.fleet.link import FleetLink
    from billhook.fleet.server import FleetFolder


_CONTEXT: Final = b"billhook policy 1\n"  # a signature of something else is not one of a policy
LARGEST: Final = 512 << 10
WHOLE: Final = "100%"
SHADOW: Final = "shadow"


class RefusedPolicyError(BillhookError):
    """A policy that this host must not obey."""


class PolicyCandidate(msgspec.Struct, frozen=True, omit_defaults=True):
    """Rules that some hosts have already: the next policy, on its way through its stages."""

    rules: str
    stages: tuple[str, ...]  # `shadow`, `tag:NAME`, `10%`; the last is `100%`
    at: int = 0
    since: float = 0.0

    @property
    def stage(self) -> str:
        return self.stages[self.at]


class PolicyDocument(msgspec.Struct, frozen=True, omit_defaults=True):
    """What an organisation publishes. `rules` is the text of a hooks.yaml."""

    org: str
    sequence: int
    rules: str
    valid_from: float = 0.0
    valid_until: float = 0.0  # 0: it does not expire
    on_expiry: Literal["keep", "deny"] = "keep"
    minimum_version: str = ""
    candidate: PolicyCandidate | None = None
    approvers: dict[str, str] = {}  # the names and public keys of those whose answers to questions count


class SignedPolicy(msgspec.Struct, frozen=True):
    """A document as bytes, with the signature of exactly these bytes."""

    document: bytes
    signature: bytes


def signed(document: PolicyDocument, seed: str) -> bytes:
    """A document, ready to be published."""
    data = msgspec.json.encode(document)
    return msgspec.json.encode(SignedPolicy(data, members.sign(seed, _CONTEXT + data)))


def verified(data: bytes, member: "FleetCredentials | FleetFolder", *, newest: int = 0) -> PolicyDocument:
    """The document, if it is a policy for this host that is not older than the `newest` known. Raises
    RefusedPolicyError."""
    try:
        found = msgspec.json.decode(data, type=SignedPolicy)
        if not members.verifies(member.policy_key, _CONTEXT + found.document, found.signature):
            raise RefusedPolicyError("its signature is not valid")
        document = msgspec.json.decode(found.document, type=PolicyDocument)
    except msgspec.DecodeError as error:
        raise RefusedPolicyError(f"it can't be read: {error}") from None
    if document.org != member.org:
        raise RefusedPolicyError(f"it is a policy of `{document.org}`")
    if document.sequence < newest:
        raise RefusedPolicyError(f"it is older (sequence {document.sequence}) than one that was seen ({newest})")
    return document


def in_stage(candidate: PolicyCandidate | None, host: str, tags: tuple[str, ...]) -> str:
    """What a host does with a candidate: nothing (empty), `shadow`, or `candidate`, which it obeys."""
    if candidate is None:
        return ""
    stage = candidate.stage
    if stage == SHADOW:
        return SHADOW
    if stage.startswith("tag:"):
        return "candidate" if stage.removeprefix("tag:") in tags else ""
    return "candidate" if place(host) < float(stage.removesuffix("%")) else ""


def place(host: str) -> float:
    """The place of a host in a rollout, from 0 to 100: a stage of 10% has the hosts below 10."""
    return int.from_bytes(sha256(host.encode()).digest()[:8]) / 2**64 * 100


# Follow the policy of the organisation: verify it, and write it where the configuration is loaded from.

SIGNED: Final = "signed.json"  # the newest document, as it came: it is verified again when the link starts
_EVERY: Final = 20.0  # seconds between two looks at the stream: a message to a subscriber may be lost
_SOON: Final = 1.0


class PolicyFollower:
    """The policy of one host."""

    def __init__(self, root: Path, member: Enrolment) -> None:
        self.root, self.member = root, member
        self.policy = applied(root) or AppliedPolicy(member.org, member.name, members.fingerprint(member.policy_key))
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
            self._apply(document)
        return True

    def tick(self) -> None:
        """Obey a document whose time has come."""
        if self._pending is not None and self._pending.valid_from <= time.time():
            self._apply(self._pending)
            self._pending = None

    def _apply(self, document: PolicyDocument) -> None:
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
        members.fingerprint(member.policy_key),
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


# The administrator's side of a policy: from a file to the document that is published, and through its stages.

_STAGE: Final = re.compile(r"shadow|tag:[\w.-]+|(?:100|\d{1,2})(?:\.\d+)?%")
_NO_RULES: Final = "hooks: {}\n"


class PolicySettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`fleet:` in a policy file."""

    valid: str = ""
    on_expiry: Literal["keep", "deny"] = "keep"
    minimum_version: str = ""
    stages: tuple[str, ...] = ()


def settings_of(text: str, file: str) -> PolicySettings:
    """The settings of a policy file. Raises UsageError."""
    import yaml

    try:
        found = yaml.safe_load(text)
        data = found.get("fleet") if isinstance(found, dict) else None
        settings = msgspec.convert(data or {}, PolicySettings)
    except (yaml.YAMLError, msgspec.ValidationError) as error:
        hint = "known here: valid, on_expiry, minimum_version, stages"
        raise UsageError(f"`fleet`: {error}", place=file, hint=hint) from None
    for stage in settings.stages:
        if not _STAGE.fullmatch(stage):
            raise UsageError(f"no stage `{stage}`", place=file, hint="use shadow, tag:NAME or a percentage: 10%")
    return settings


def next_document(
    now: PolicyDocument | None, fleet: FleetFolder, rules: str, settings: PolicySettings, seconds: float
) -> PolicyDocument:
    """The document after `now` with new rules: for all hosts, or at the first of their stages. `seconds`: how long it
    is valid; 0: it does not expire."""
    candidate = None
    if settings.stages:
        stages = settings.stages if settings.stages[-1] == WHOLE else (*settings.stages, WHOLE)
        rules, candidate = now.rules if now else _NO_RULES, PolicyCandidate(rules, stages, since=time.time())
    return PolicyDocument(
        fleet.org,
        now.sequence + 1 if now else 1,
        rules,
        valid_until=time.time() + seconds if seconds else 0.0,
        on_expiry=settings.on_expiry,
        minimum_version=settings.minimum_version,
        candidate=candidate,
        approvers=fleet.approvers,
    )


def widened(now: PolicyDocument) -> PolicyDocument:
    """The document with its candidate at the next stage. At the last one the candidate is the policy."""
    candidate = now.candidate
    assert candidate is not None
    if candidate.at + 2 >= len(candidate.stages):
        return replace(now, sequence=now.sequence + 1, rules=candidate.rules, candidate=None)
    return replace(now, sequence=now.sequence + 1, candidate=replace(candidate, at=candidate.at + 1))


def ended(now: PolicyDocument) -> PolicyDocument:
    """The document without its candidate: all hosts go back to the rules before."""
    return replace(now, sequence=now.sequence + 1, candidate=None)


async def published(client: "Client", fleet: FleetFolder) -> tuple[PolicyDocument | None, int]:
    """The newest document that is valid, and the number of the newest message. Raises FleetError."""
    newest = number = 0
    while (found := await connection.last_message(client, POLICY, fleet.subjects.policy, number)) is not None:
        number = int((found.headers or {})["Nats-Sequence"])
        newest = newest or number
        with suppress(RefusedPolicyError):
            return verified(found.data, fleet), newest
    return None, newest


async def publish(client: "Client", fleet: FleetFolder, seed: str, document: PolicyDocument, after: int) -> None:
    """Publish a document, if the one with the number `after` is still the newest. Raises FleetError."""
    data = signed(document, seed)
    if len(data) > LARGEST:
        raise UsageError(f"the policy has {len(data)} bytes, and at most {LARGEST} are possible", hint="split it")
    for pause in (1, 2, 4, 0):
        try:
            await connection.publish(client, fleet.subjects.policy, data, {connection.EXPECTED_LAST: str(after)})
            return
        except NoAnswerError:  # the servers may be choosing a new leader
            if not pause:
                raise
            await asyncio.sleep(pause)
        except FleetError as error:
            if connection.WRONG_LAST not in error.message:
                raise
            if await connection.last(client, POLICY, fleet.subjects.policy) == data:
                return  # the attempt before succeeded
            raise FleetError("another policy was published in the meantime", hint="look at it, and try again") from None

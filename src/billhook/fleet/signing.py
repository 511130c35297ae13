"""Signed policies: the document, its signature, and why one is refused."""

from typing import TYPE_CHECKING, Final, Literal

import msgspec

from billhook.core.errors import BillhookError
from billhook.fleet import keys
from billhook.fleet.enrolment import FleetCredentials
from billhook.store.files import sha256

if TYPE_CHECKING:
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
    return msgspec.json.encode(SignedPolicy(data, keys.sign(seed, _CONTEXT + data)))


def verified(data: bytes, member: "FleetCredentials | FleetFolder", *, newest: int = 0) -> PolicyDocument:
    """The document, if it is a policy for this host that is not older than the `newest` known. Raises
    RefusedPolicyError."""
    try:
        found = msgspec.json.decode(data, type=SignedPolicy)
        if not keys.verifies(member.policy_key, _CONTEXT + found.document, found.signature):
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

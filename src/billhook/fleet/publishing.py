"""The administrator's side of a policy: from a file to the document that is published, and through its stages."""

import asyncio
import re
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Final, Literal

import msgspec
import yaml
from msgspec.structs import replace

from billhook.core.errors import UsageError
from billhook.fleet import connection
from billhook.fleet.connection import FleetError, NoAnswerError
from billhook.fleet.server import FleetFolder
from billhook.fleet.signing import LARGEST, WHOLE, PolicyCandidate, PolicyDocument, RefusedPolicyError, signed, verified
from billhook.fleet.subjects import POLICY

if TYPE_CHECKING:
    from nats.aio.client import Client

_STAGE: Final = re.compile(r"shadow|tag:[\w.-]+|(?:100|\d{1,2})(?:\.\d+)?%")
_NO_RULES: Final = "hooks: {}\n"
_EXPECTED: Final = "Nats-Expected-Last-Subject-Sequence"


class PolicySettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`fleet:` in a policy file."""

    valid: str = ""
    on_expiry: Literal["keep", "deny"] = "keep"
    minimum_version: str = ""
    stages: tuple[str, ...] = ()


def settings_of(text: str, file: str) -> PolicySettings:
    """The settings of a policy file. Raises UsageError."""
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
            await connection.publish(client, fleet.subjects.policy, data, {_EXPECTED: str(after)})
            return
        except NoAnswerError:  # the servers may be choosing a new leader
            if not pause:
                raise
            await asyncio.sleep(pause)
        except FleetError as error:
            if "wrong last sequence" not in error.message:
                raise
            if await connection.last(client, POLICY, fleet.subjects.policy) == data:
                return  # the attempt before succeeded
            raise FleetError("another policy was published in the meantime", hint="look at it, and try again") from None

"""A published policy reaches the hosts of its organisation. What is forged, old or foreign is refused and reported."""

import asyncio
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from billhook.config.fleet_policy import AppliedPolicy, applied, folder, last_contact
from billhook.config.loader import load_config
from billhook.config.notices import fleet as fleet_notices
from billhook.fleet import link, members, policy, server
from billhook.fleet.connection import FleetError, connect, last, publish
from billhook.fleet.link import HostState
from billhook.fleet.members import HOSTS, POLICY, Enrolment, enrolment, leave
from billhook.fleet.policy import PolicyCandidate, PolicyDocument, PolicyFollower, SignedPolicy, in_stage, place, signed
from fleet.conftest import RULES, Fleet
from fleet.hosts import eventually, linked

OTHER = RULES.replace("no-push", "other").replace("push", "fetch")
Forge = Callable[[Fleet, PolicyDocument], bytes]


def follower(root: Path, **fields: Any) -> tuple[PolicyFollower, str]:
    """The follower of a host, and the key that signs its policies."""
    seed = members.new_seed()
    given = {"org": "acme", "name": "h", "seed": members.new_seed(), "policy_key": members.public_key(seed), **fields}
    return PolicyFollower(root, Enrolment(**given)), seed


def has(root: Path, sequence: int) -> Callable[[], AppliedPolicy | None]:
    """Whether a host has the policy with this number."""
    return lambda: found if (found := applied(root)) is not None and found.sequence == sequence else None


def test_a_host_gets_each_policy_within_seconds(fleet: Fleet, tmp_path: Path) -> None:
    """First the one that was there, then each new one. Its rules are in a file of the state folder."""
    member = fleet.host(tmp_path)
    first = fleet.publish()
    with linked(tmp_path, member, [policy.follow]):
        assert eventually(has(tmp_path, first.sequence), 5)
        second = fleet.publish(OTHER)
        found = eventually(has(tmp_path, second.sequence), 5)

    assert (folder(tmp_path) / found.file).read_text() == OTHER
    assert time.time() - last_contact(tmp_path) < 60


def test_a_host_reports_itself(fleet: Fleet, tmp_path: Path) -> None:
    """Its version, and the policy that it obeys."""
    member = fleet.host(tmp_path, tags=("canary",))
    document = fleet.publish()

    def reported() -> HostState | None:
        data = fleet.run(lambda client: last(client, HOSTS, fleet.record.subjects.host(member.name)))
        state = msgspec.json.decode(data, type=HostState) if data else None
        return state if state is not None and state.sequence == document.sequence else None

    with linked(tmp_path, member, [policy.follow, link.repeat]):
        state = eventually(reported, 8)

    assert state.host == member.name and state.tags == ("canary",) and state.version


def other_key(fleet: Fleet, document: PolicyDocument) -> bytes:
    return signed(document, members.new_seed())


def changed(fleet: Fleet, document: PolicyDocument) -> bytes:
    found = msgspec.json.decode(signed(document, server.signing_seed(fleet.folder)), type=SignedPolicy)
    return msgspec.json.encode(msgspec.structs.replace(found, document=found.document.replace(b"deny", b"allow")))


def foreign(fleet: Fleet, document: PolicyDocument) -> bytes:
    return signed(msgspec.structs.replace(document, org="evil"), server.signing_seed(fleet.folder))


def older(fleet: Fleet, document: PolicyDocument) -> bytes:
    again = msgspec.structs.replace(document, sequence=document.sequence - 2)
    return signed(again, server.signing_seed(fleet.folder))


def same_number(fleet: Fleet, document: PolicyDocument) -> bytes:
    again = msgspec.structs.replace(document, sequence=document.sequence - 1)
    return signed(again, server.signing_seed(fleet.folder))


def too_new(fleet: Fleet, document: PolicyDocument) -> bytes:
    return signed(msgspec.structs.replace(document, minimum_version="999.0"), server.signing_seed(fleet.folder))


def no_json(fleet: Fleet, document: PolicyDocument) -> bytes:
    return b"{}"


@pytest.mark.parametrize(
    ("forge", "why"),
    [
        (other_key, "its signature is not valid"),
        (changed, "its signature is not valid"),
        (foreign, "it is a policy of `evil`"),
        (older, "it is older"),
        (same_number, "it is another document with the sequence"),
        (too_new, "it needs billhook 999.0"),
        (no_json, "it can't be read"),
    ],
)
def test_what_is_refused(fleet: Fleet, tmp_path: Path, forge: Forge, why: str) -> None:
    """Even if it is in the stream. The last good policy stays in force, and the user is told in the agent."""
    member = fleet.host(tmp_path)
    fleet.publish()
    good = fleet.publish()
    bad = forge(fleet, fleet.document(OTHER, sequence=good.sequence + 1))
    with linked(tmp_path, member, [policy.follow]):
        eventually(has(tmp_path, good.sequence))
        fleet.run(lambda client: publish(client, fleet.record.subjects.policy, bad))
        found = eventually(lambda: one if (one := applied(tmp_path)) is not None and one.refused else None)

    assert found.sequence == good.sequence and why in found.refused
    config = load_config(tmp_path, home=tmp_path, layers=["fleet"])
    assert [entry.shown for entry in config.entries] == ["no-push"]
    assert why in next(fleet_notices(config)).text


def test_a_replay_is_refused_after_a_restart(tmp_path: Path) -> None:
    """The host remembers the newest policy that it saw."""
    one, seed = follower(tmp_path)
    documents = [signed(PolicyDocument("acme", number, RULES), seed) for number in (1, 2)]
    assert one.take(documents[1])

    again = PolicyFollower(tmp_path, one.member)
    again.restore()

    assert not again.take(documents[0]) and again.policy.sequence == 2
    assert "it is older" in again.policy.refused


def test_a_policy_that_is_not_valid_yet(tmp_path: Path) -> None:
    """The last one stays in force until then."""
    one, seed = follower(tmp_path)
    assert one.take(signed(PolicyDocument("acme", 1, RULES), seed))
    assert one.take(signed(PolicyDocument("acme", 2, OTHER, valid_from=time.time() + 0.2), seed))
    one.tick()
    assert one.policy.sequence == 1

    time.sleep(0.25)
    one.tick()

    assert one.policy.sequence == 2


def test_after_leaving_no_rule_applies(tmp_path: Path) -> None:
    one, seed = follower(tmp_path)
    one.take(signed(PolicyDocument("acme", 1, RULES), seed))

    leave(tmp_path)

    assert enrolment(tmp_path) is None and applied(tmp_path) is None
    assert load_config(tmp_path, home=tmp_path, layers=["fleet"]).entries == ()


# -- stages


@pytest.mark.parametrize(
    ("stage", "tags", "expected"),
    [
        ("shadow", (), "shadow"),
        ("tag:canary", ("canary",), "candidate"),
        ("tag:canary", (), ""),
        ("0%", (), ""),
        ("100%", (), "candidate"),
    ],
)
def test_stages(stage: str, tags: tuple[str, ...], expected: str) -> None:
    assert in_stage(PolicyCandidate(RULES, (stage,)), "h1", tags) == expected


def test_a_wider_stage_keeps_its_hosts() -> None:
    """A percentage has about that part of the hosts, always the same ones."""
    names = [f"host-{number}" for number in range(2000)]
    stages = [PolicyCandidate(RULES, (stage,)) for stage in ("10%", "50%")]
    chosen = [{name for name in names if in_stage(stage, name, ())} for stage in stages]

    assert chosen[0] < chosen[1]
    assert 150 < len(chosen[0]) < 250 and 900 < len(chosen[1]) < 1100
    assert all(0 <= place(name) < 100 for name in names)


def test_a_candidate_applies_to_its_hosts_only(tmp_path: Path) -> None:
    """The others keep the rules before; in the shadow stage the new ones are in a file of their own."""
    for tags, stage, expected in [(("a",), "tag:a", OTHER), (("b",), "tag:a", RULES), ((), "shadow", RULES)]:
        root = tmp_path / f"{stage}{tags}"
        one, seed = follower(root, tags=tags)
        one.take(signed(PolicyDocument("acme", 1, RULES, candidate=PolicyCandidate(OTHER, (stage,))), seed))

        assert (folder(root) / one.policy.file).read_text() == expected
        assert bool(one.policy.shadow) is (stage == "shadow")


def test_publishing_again_is_harmless(fleet: Fleet) -> None:
    """A second attempt publishes nothing; another document needs to know the newest one."""
    seed = server.signing_seed(fleet.folder)

    async def publish_twice(client: Any) -> str:
        now, after = await policy.published(client, fleet.record)
        one, other = (fleet.document(rules, sequence=(now.sequence if now else 0) + 1) for rules in (RULES, OTHER))
        for _ in range(2):
            await policy.publish(client, fleet.record, seed, one, after)
        with pytest.raises(FleetError) as error:
            await policy.publish(client, fleet.record, seed, other, after)
        return error.value.message

    assert fleet.run(publish_twice) == "another policy was published in the meantime"


# -- what the server refuses


def refused(fleet: Fleet, name: str, work: Callable[[Any], Any]) -> bool:
    """Whether the server refuses what a member does."""
    errors: list[str] = []

    async def attempt() -> bool:
        async def note(error: Exception) -> None:
            errors.append(str(error).lower())

        client = await connect(server.staff(fleet.folder, name), fleet.cluster.url, on_error=note)
        try:
            await asyncio.wait_for(work(client), 0.7)
            await client.flush()
        except (FleetError, TimeoutError):
            await client.flush()
        finally:
            await client.close()
        return any("permissions violation" in one for one in errors)

    return asyncio.run(attempt())


def test_a_host_can_only_act_for_itself(fleet: Fleet, tmp_path: Path) -> None:
    """It can't publish a policy, nor records, reports or answers of another host, nor read others' records."""
    name, subjects = fleet.host(tmp_path).name, fleet.record.subjects
    api = "$JS.API"
    attempts: dict[str, Callable[[Any], Any]] = {
        "policy": lambda client: client.publish(subjects.policy, b"x"),
        "report": lambda client: client.publish(subjects.host("admin"), b"x"),
        "records": lambda client: client.publish(f"{subjects.audit('admin')}.log", b"x"),
        "answer": lambda client: client.publish(f"{subjects.approval('admin', 'x')}.answer", b"x"),
        "delete": lambda client: client.publish(f"{api}.STREAM.DELETE.{POLICY}", b""),
        "purge": lambda client: client.publish(f"{api}.STREAM.PURGE.{POLICY}", b""),
        "read records": lambda client: client.publish(f"{api}.DIRECT.GET.billhook_audit.{subjects.audit('x')}.l", b""),
        "read reports": lambda client: client.publish(f"{api}.DIRECT.GET.{HOSTS}.{subjects.host('x')}", b""),
        "listen": lambda client: client.subscribe(">"),
        "inboxes": lambda client: client.subscribe("_INBOX_admin.>"),
    }

    assert {what for what, attempt in attempts.items() if not refused(fleet, name, attempt)} == set()
    assert not refused(fleet, name, lambda client: client.publish(subjects.host(name), b"{}"))


def test_a_reader_can_only_read(fleet: Fleet) -> None:
    subjects = fleet.record.subjects
    attempts: dict[str, Callable[[Any], Any]] = {
        "policy": lambda client: client.publish(subjects.policy, b"x"),
        "records": lambda client: client.publish(f"{subjects.audit('h1')}.log", b"x"),
        "delete": lambda client: client.publish(f"$JS.API.STREAM.DELETE.{POLICY}", b""),
    }

    assert {what for what, attempt in attempts.items() if not refused(fleet, "reader", attempt)} == set()


def test_revoked_credentials(fleet: Fleet, tmp_path: Path) -> None:
    """The server refuses them as soon as it has read its configuration again."""
    name = fleet.host(tmp_path).name
    fleet.cluster.write(server.without_member(fleet.record, name))

    def is_refused() -> bool:
        try:
            fleet.run(lambda client: asyncio.sleep(0), name)
        except FleetError as error:
            return "authorization" in error.message.lower()
        return False

    assert eventually(is_refused)

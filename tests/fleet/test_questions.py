"""A question of one host, answered by a person elsewhere: signed, and the first answer wins."""

import asyncio
import json
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from billhook.approvals.queue import AnsweredError, Questions, QueuedQuestion, new_id
from billhook.core.errors import UsageError
from billhook.fleet import link, members, policy, questions, server
from billhook.fleet.connection import last
from billhook.fleet.members import HOSTS, FleetCredentials, read_credentials
from billhook.fleet.questions import ApproverDesk, FleetQuestion, FleetQueue, signed
from fleet.conftest import Fleet
from fleet.hosts import eventually, linked, until

TASKS = [policy.follow, questions.follow]


def asked(root: Path, seconds: float = 60.0) -> QueuedQuestion:
    """A question that waits on a host."""
    now, id_ = time.time(), new_id()
    one = QueuedQuestion(
        id=id_, code=id_[:6].upper(), session="s", project="/srv/shop", agent="claude", event="PreToolUse", tool="Bash",
        call="git push", reason="a push", hooks=("pushes",), asked=now, until=now + seconds, key=id_,
    )  # fmt: skip
    return Questions(root).add(one)


def answered(queue: Questions, id_: str) -> str:
    """The answer to a question; empty if there is none."""
    found = queue.find(id_)
    return found.answer if found is not None else ""


def person(fleet: Fleet, name: str, role: Any = "approver") -> FleetCredentials:
    """A member that may answer; the next policy names its key."""
    if not (fleet.folder / f"{name}.creds").exists():
        fleet.cluster.write(server.add_member(fleet.folder, fleet.record, name, role))
        fleet.wait_for(name)
    return read_credentials(fleet.folder / f"{name}.creds")


def told(fleet: Fleet, host: str) -> int:
    """How many refused answers a host has reported to the fleet."""
    state = fleet.run(lambda client: last(client, HOSTS, fleet.record.subjects.host(host)))
    return int(json.loads(state or b"{}").get("answers_refused", 0))


def at_desk(fleet: Fleet, name: str, work: Callable[[ApproverDesk], Awaitable[Any]]) -> Any:
    """What a person does with the questions of all hosts."""

    async def connected(client: Any) -> Any:
        desk = ApproverDesk(client, read_credentials(fleet.folder / f"{name}.creds"))
        async with desk.listening():
            return await work(desk)

    return fleet.run(connected, name)


@pytest.mark.parametrize("allow", [True, False])
def test_answer_from_elsewhere(fleet: Fleet, tmp_path: Path, allow: bool) -> None:
    """It is in the host's queue, with the name of the person."""
    person(fleet, "ana")
    member = fleet.host(tmp_path)
    fleet.publish(approvers=fleet.record.approvers)
    one = asked(tmp_path)

    async def answer(desk: ApproverDesk) -> QueuedQuestion:
        waiting = await desk.collect()
        assert waiting[one.id].host == member.name and waiting[one.id].question.key == ""
        return await desk.answer(waiting[one.id], allow, "go on")

    with linked(tmp_path, member, TASKS):
        shown = at_desk(fleet, "ana", answer)

    found = Questions(tmp_path).find(one.id)
    assert found is not None and shown.answer == found.answer == ("allow" if allow else "deny")
    assert (found.by, found.via, found.why, found.key) == ("ana", "fleet", "go on", one.key)


def test_first_answer_wins(fleet: Fleet, tmp_path: Path) -> None:
    """Someone answered on the host itself: the second person is told."""
    person(fleet, "ana")
    member = fleet.host(tmp_path)
    fleet.publish(approvers=fleet.record.approvers)
    one = asked(tmp_path)

    async def late(desk: ApproverDesk) -> None:
        waiting = await desk.collect()
        Questions(tmp_path).answer(one.id, False, "bob", "terminal")
        with pytest.raises(AnsweredError, match=r"bob \(terminal\) answered first"):
            await desk.answer(waiting[one.id], True)

    with linked(tmp_path, member, TASKS):
        at_desk(fleet, "ana", late)

    assert answered(Questions(tmp_path), one.id) == "deny"


def test_answers_that_do_not_count(fleet: Fleet, tmp_path: Path) -> None:
    """Another key, another question, another host, another organisation, a changed text: refused, and reported."""
    ana, member = person(fleet, "ana"), fleet.host(tmp_path)
    fleet.publish(approvers=fleet.record.approvers)
    one = asked(tmp_path)
    question = FleetQuestion(member.name, one)
    other = FleetCredentials("acme", "ana", members.new_seed(), member.policy_key, "approver")
    right = signed(ana, question, True)
    wrong = [
        signed(other, question, True),
        signed(ana, FleetQuestion("web-9", one), True),
        signed(ana, FleetQuestion(member.name, asked(tmp_path)), True),
        signed(FleetCredentials("evil", "ana", ana.seed, member.policy_key, "approver"), question, True),
        right[:-30] + b'"}',
        b"{}",
    ]
    link_status: dict[str, Any] = {}

    async def follow(link: Any) -> None:
        link_status["all"] = link.status
        await questions.follow(link)

    async def send(client: Any) -> None:
        for data in wrong:
            await client.publish(f"{fleet.record.subjects.approval(member.name, one.id)}.answer", data)
        await client.flush()

    with linked(tmp_path, member, [policy.follow, link.repeat, follow]):
        eventually(lambda: "answers" in link_status.get("all", {}))
        time.sleep(0.5)  # the subscription
        fleet.run(send, "ana")
        eventually(lambda: link_status["all"]["answers"]["refused"] == len(wrong))
        eventually(lambda: told(fleet, member.name) == len(wrong))

    assert link_status["all"]["answers"]["problem"].startswith("an answer was refused")
    assert answered(Questions(tmp_path), one.id) == ""


def test_person_that_is_no_approver(fleet: Fleet, tmp_path: Path) -> None:
    """The server takes no answer of a reader, and the host none of a key that the policy no longer names."""
    person(fleet, "eve")
    member = fleet.host(tmp_path)
    fleet.publish(approvers={name: key for name, key in fleet.record.approvers.items() if name != "eve"})
    one = asked(tmp_path)

    async def answer(desk: ApproverDesk) -> None:
        waiting = await desk.collect()
        with pytest.raises(UsageError, match="did not accept"):
            await desk.answer(waiting[one.id], True, seconds=1.0)

    with linked(tmp_path, member, TASKS):
        for name in ("eve", "reader"):
            at_desk(fleet, name, answer)

    assert answered(Questions(tmp_path), one.id) == ""


def test_queue_of_the_page(fleet: Fleet, tmp_path: Path) -> None:
    """The page of the fleet has a queue of its own: its questions are those of all hosts, its answers are sent. An
    answer that another person was before is not one."""
    person(fleet, "ana")
    member, page, own = fleet.host(tmp_path / "host"), Questions(tmp_path / "page"), Questions(tmp_path / "host")
    fleet.publish(approvers=fleet.record.approvers)
    one, two, three = (asked(tmp_path / "host") for _ in range(3))

    async def answer(desk: ApproverDesk) -> None:
        mirror = asyncio.ensure_future(desk.mirror(tmp_path / "page"))
        queue = FleetQueue(tmp_path / "page", desk)
        await until(lambda: len(page.pending()) == 3)
        await asyncio.to_thread(queue.answer, one.id, True, "ana", "page")
        own.answer(two.id, False, "bob", "terminal")
        await until(lambda: answered(page, two.id) and answered(page, one.id))
        own.answer(three.id, False, "bob", "terminal")
        with pytest.raises(AnsweredError, match="bob"):
            await asyncio.to_thread(queue.answer, three.id, True, "ana", "page")
        await until(lambda: answered(page, three.id))
        mirror.cancel()

    with linked(tmp_path / "host", member, TASKS):
        at_desk(fleet, "ana", answer)

    found, shown, lost = own.find(one.id), page.find(two.id), page.find(three.id)
    assert found is not None and shown is not None and lost is not None
    assert (found.answer, found.by) == ("allow", "ana") and (shown.answer, shown.by) == ("deny", "bob")
    assert (lost.answer, lost.by) == ("deny", "bob")
    assert shown.project == f"{member.name}:/srv/shop"

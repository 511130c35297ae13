"""Questions of one host, answered on another.

A host announces its waiting questions on `approval.{host}.{id}`, again and again until they are over, and accepts
signed answers on `approval.{host}.{id}.answer`. The first answer wins: the host's own queue decides, and announces the
result. An answer counts if it is signed with the organisation's key, or with one that the policy in force names.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec
from msgspec.structs import replace

from billhook.approvals.queue import OPEN, AnsweredError, Questions, QueuedQuestion
from billhook.config.fleet_policy import folder
from billhook.core.errors import BillhookError, UsageError
from billhook.fleet import members
from billhook.fleet.members import FleetCredentials, FleetSubjects
from billhook.fleet.policy import LARGEST, SIGNED
from billhook.fleet.policy import verified as verified_policy
from billhook.store.files import read_bytes

if TYPE_CHECKING:
    from nats.aio.client import Client
    from nats.aio.msg import Msg

    from billhook.fleet.link import FleetLink

_CONTEXT: Final = b"billhook answer 1\n"  # a signature of something else is not one of an answer
_EVERY: Final = 2.0  # seconds between two announcements of a waiting question
_POLL: Final = 0.2
_LARGEST_ANSWER: Final = 256 << 10
_MOST: Final = 64  # questions of other hosts at once
_VIA: Final = "fleet"


class AnswerStatement(msgspec.Struct, frozen=True):
    """What a person signs."""

    org: str
    host: str
    id: str
    allow: bool
    by: str
    at: float
    why: str = ""


class SignedAnswer(msgspec.Struct, frozen=True):
    """A statement as bytes, with the signature of exactly these bytes."""

    statement: bytes
    signature: bytes


class FleetQuestion(msgspec.Struct, frozen=True):
    """A question, as its host announces it."""

    host: str
    question: QueuedQuestion


def signed(person: FleetCredentials, asked: FleetQuestion, allow: bool, why: str = "") -> bytes:
    """An answer, ready to be sent."""
    said = AnswerStatement(person.org, asked.host, asked.question.id, allow, person.name, time.time(), why)
    data = msgspec.json.encode(said)
    return msgspec.json.encode(SignedAnswer(data, members.sign(person.seed, _CONTEXT + data)))


def verified(data: bytes, approvers: Iterable[str], org: str, host: str, id_: str) -> AnswerStatement:
    """The answer to a question of a host, if one of the keys signed it. Raises UsageError."""
    try:
        found = msgspec.json.decode(data, type=SignedAnswer)
        if not any(members.verifies(key, _CONTEXT + found.statement, found.signature) for key in approvers):
            raise UsageError("an answer was refused: no approver signed it")
        said = msgspec.json.decode(found.statement, type=AnswerStatement)
    except msgspec.DecodeError as error:
        raise UsageError(f"an answer was refused: it can't be read: {error}") from None
    if (said.org, said.host, said.id) != (org, host, id_):
        raise UsageError("an answer was refused: it is for another question")
    return said


class QuestionDesk:
    """The host's side: announces what waits, and applies answers. `approvers` returns the keys that count now."""

    def __init__(
        self, client: "Client", subjects: FleetSubjects, host: str, root: Path, approvers: Callable[[], Iterable[str]]
    ) -> None:
        self._client, self._subjects, self._host = client, subjects, host
        self._queue, self._approvers = Questions(root), approvers
        self._announced: dict[str, QueuedQuestion] = {}
        self.counts: dict[str, Any] = {"accepted": 0, "refused": 0, "problem": ""}

    async def run(self) -> None:
        """Announce and accept, without end."""
        await self._client.subscribe(self._subjects.approval(self._host, "*.answer"), cb=self._accept)
        stamp, due = None, 0.0
        while True:
            now = self._queue.stamp()
            if now != stamp or (self._announced and time.monotonic() >= due):
                stamp, due = now, time.monotonic() + _EVERY
                await self._announce()
            await asyncio.sleep(_POLL)

    async def _announce(self) -> None:
        """Announce what waits, and once more what is over."""
        known = {one.id: one for one in self._queue.all()}
        waiting = {id_: one for id_, one in known.items() if one.state in OPEN}
        over = [known.get(id_, replace(one, until=0.0)) for id_, one in self._announced.items() if id_ not in waiting]
        for one in [*waiting.values(), *over]:
            data = msgspec.json.encode(FleetQuestion(self._host, replace(one, key="")))
            await self._client.publish(self._subjects.approval(self._host, one.id), data)
        self._announced = waiting

    async def _accept(self, message: "Msg") -> None:
        id_ = message.subject.split(".")[-2]
        try:
            if len(message.data) > _LARGEST_ANSWER:
                raise UsageError("an answer was refused: it is too long")
            answer = verified(message.data, self._approvers(), self._subjects.org, self._host, id_)
            with suppress(AnsweredError):  # the announcement shows who was first
                self._queue.answer(id_, answer.allow, answer.by, _VIA, answer.why[:1000])
                self.counts["accepted"] += 1
            await self._announce()
        except BillhookError as error:
            self.counts |= {"refused": self.counts["refused"] + 1, "problem": error.message}


class ApproverDesk:
    """The side of a person: the questions of all hosts, and signed answers."""

    def __init__(self, client: "Client", person: FleetCredentials) -> None:
        self._client, self.person, self._subjects = client, person, person.subjects
        self.questions: dict[str, FleetQuestion] = {}
        self._changed = asyncio.Event()

    @asynccontextmanager
    async def listening(self) -> AsyncIterator[None]:
        """Collect what hosts announce, as long as this context lasts."""
        heard = await self._client.subscribe(self._subjects.approval("*", "*"), cb=self._receive)
        try:
            yield
        finally:
            await heard.unsubscribe()

    async def collect(self) -> Mapping[str, FleetQuestion]:
        """What waits now: every host announces it within some seconds."""
        await asyncio.sleep(_EVERY + 2 * _POLL)
        return {id_: one for id_, one in self.questions.items() if one.question.state in OPEN}

    async def answer(self, asked: FleetQuestion, allow: bool, why: str = "", seconds: float = 10.0) -> QueuedQuestion:
        """Answer, and wait for the host. Raises AnsweredError if another answer was first, UsageError if the host does
        not accept it."""
        id_, ends = asked.question.id, time.monotonic() + seconds
        subject = f"{self._subjects.approval(asked.host, id_)}.answer"
        await self._client.publish(subject, signed(self.person, asked, allow, why))
        while time.monotonic() < ends:
            now = self.questions.get(id_, asked).question
            if now.answer:
                if (now.by, now.via) != (self.person.name, _VIA) or (now.answer == "allow") != allow:
                    raise AnsweredError(now)
                return now
            self._changed.clear()
            with suppress(TimeoutError):
                await asyncio.wait_for(self._changed.wait(), _POLL)
        raise UsageError(
            f"`{asked.host}` did not accept the answer",
            hint="its policy must name your key as an approver, and it must be connected",
        )

    async def mirror(self, root: Path) -> None:
        """Keep the queue below `root` like those of the hosts, without end."""
        queue = Questions(root)
        while True:
            for id_, asked in list(self.questions.items()):
                mirrored = queue.find(id_)
                one = asked.question
                if mirrored is None and one.state in OPEN and len(queue.pending()) < _MOST:
                    queue.add(replace(one, project=f"{asked.host}:{one.project}", key=f"{asked.host}/{id_}"))
                elif mirrored is not None and one.answer and not mirrored.answer:
                    with suppress(UsageError):
                        queue.answer(id_, one.answer == "allow", one.by, one.via, one.why)
            await asyncio.sleep(_POLL)

    async def _receive(self, message: "Msg") -> None:
        with suppress(msgspec.DecodeError, ValueError):
            asked = msgspec.json.decode(message.data, type=FleetQuestion)
            _, _, _, host, id_ = message.subject.split(".")
            if (asked.host, asked.question.id) == (host, id_):
                self.questions[id_] = asked
                self._changed.set()


class FleetQueue(Questions):
    """The mirror of the hosts' queues. An answer is one as soon as the host has accepted it."""

    def __init__(self, root: Path, desk: ApproverDesk) -> None:
        super().__init__(root)
        self._desk, self._loop = desk, asyncio.get_running_loop()

    def answer(self, name: str, allow: bool, by: str, via: str, why: str = "") -> QueuedQuestion:
        """Sign and send an answer, from a thread. Raises what `ApproverDesk.answer` raises."""
        asked = self._desk.questions.get(name)
        if asked is None:
            raise UsageError("this question is over", hint="the agent can repeat the call")
        return asyncio.run_coroutine_threadsafe(self._desk.answer(asked, allow, why), self._loop).result()


async def follow(link: "FleetLink") -> None:
    """Announce this host's questions, and accept answers."""
    desk = QuestionDesk(link.client, link.subjects, link.member.name, link.root, lambda: approver_keys(link))
    link.status["answers"] = desk.counts
    await desk.run()


def approver_keys(link: "FleetLink") -> list[str]:
    """The keys whose answers count: the organisation's, and those that its policy names."""
    found = [link.member.policy_key]
    with suppress(BillhookError):
        data = read_bytes(folder(link.root) / SIGNED, 2 * LARGEST, root=link.root, private=True)
        found += verified_policy(data, link.member).approvers.values() if data else ()
    return found

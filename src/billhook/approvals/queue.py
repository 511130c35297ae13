"""The questions that wait for a person, and their answers: one small record on disk that every process sees.

A question is one event whose verdict is `ask`. An allow is for exactly that call, once, within 15 minutes: so it also
counts if silence has denied the call, and the agent repeats it. An answer never changes: the first one wins.
"""

import asyncio
import os
import secrets
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final, Literal

import msgspec
from msgspec.structs import replace

from billhook.core.errors import UsageError
from billhook.store.files import LockedError, LockFile, StoreError, locked, stamp
from billhook.store.state import FileState, Value, listed

KIND: Final = "questions"
KEY: Final = "questions"
WINDOW: Final = 15 * 60.0  # seconds after `until` in which a question can be answered, and in which an allow is valid
_MOST: Final = 128
_REMEMBERED: Final = 86400.0
_turn: Final = threading.Lock()  # many threads that wait for the lock of a file could time out

OPEN: Final = ("waiting", "late")  # the states in which a question can be answered
State = Literal["waiting", "late", "expired", "allowed", "denied"]


class QueuedQuestion(msgspec.Struct, frozen=True):
    """One question. Its texts contain no secrets."""

    id: str  # can't be guessed
    code: str  # for people; an equal call has the same one
    session: str
    project: str
    agent: str
    event: str
    tool: str
    call: str
    reason: str
    hooks: tuple[str, ...]
    asked: float
    until: float  # when silence denies
    content: str = ""  # what a file tool would write
    hint: str = ""  # how such questions wait longer, if something ends this wait early
    answer: Literal["", "allow", "deny"] = ""
    by: str = ""
    via: str = ""  # `terminal`, `page`, or the channel whose link was used
    answered: float = 0.0
    why: str = ""  # the reason of a deny, in the words of the person
    key: str = ""  # identifies project, folder, session, tool and input
    used: float = 0.0  # when the call ran with the answer

    @property
    def text(self) -> str:
        """The call with its content, for people."""
        return f"{self.call}\n{self.content}" if self.content else self.call

    @property
    def state(self) -> State:
        """`late`: silence has denied the call, and an allow is for the next equal call."""
        if self.answer:
            return "allowed" if self.answer == "allow" else "denied"
        over = time.time() - self.until
        return "waiting" if over < 0 else "late" if over < WINDOW else "expired"

    @property
    def shown(self) -> dict[str, object]:
        """For people and programs, without what identifies the call."""
        fields: dict[str, object] = msgspec.to_builtins(self)
        return {name: value for name, value in fields.items() if name not in ("key", "used")} | {"state": self.state}

    @property
    def usable(self) -> bool:
        """Whether an allow is still valid."""
        return self.answer == "allow" and not self.used and time.time() - self.answered < WINDOW


class AnsweredError(UsageError):
    """The question has an answer already; `question` shows whose it is."""

    def __init__(self, question: QueuedQuestion) -> None:
        when = time.strftime("%H:%M:%S", time.localtime(question.answered))
        who = f"{question.by or 'someone'} ({question.via})"
        super().__init__(f"{who} answered first, at {when}: {question.answer}")
        self.question = question


class Questions:
    """The questions of all projects, below one root. Keeps nothing open; every method raises StoreError."""

    def __init__(self, root: Path) -> None:
        self.root = Path(root)
        self._state = FileState(self.root)
        self._path = self._state.path(KIND, KEY)

    def stamp(self) -> tuple[int, ...]:
        """Changes if another process has changed the questions. Costs one stat."""
        return stamp(self._path)

    def all(self) -> list[QueuedQuestion]:
        """The questions of one day, oldest first."""
        return _known(self._state.read(KIND, KEY))

    def pending(self) -> list[QueuedQuestion]:
        """Those that a process waits for."""
        return [one for one in self.all() if one.state == "waiting"]

    def find(self, name: str) -> QueuedQuestion | None:
        """The question with this id, or the newest with this code; letters of a code in any case."""
        return next((one for one in reversed(self.all()) if name == one.id or name.upper() == one.code), None)

    def add(self, question: QueuedQuestion) -> QueuedQuestion:
        """Add a question. If an equal call has one that can still be answered, or whose allow is still valid, that one
        is returned instead."""
        asked: list[QueuedQuestion] = []

        def change(known: list[QueuedQuestion]) -> list[QueuedQuestion]:
            same = next((one for one in reversed(known) if one.key == question.key and _joins(one)), question)
            asked.append(replace(same, until=max(same.until, question.until)))
            return [*(one for one in known if one.id != same.id), asked[0]]

        self._update(change)
        return asked[0]

    def answer(self, name: str, allow: bool, by: str, via: str, why: str = "") -> QueuedQuestion:
        """Answer a question. Raises AnsweredError if it has an answer, UsageError if it can't be answered."""
        answer: Literal["allow", "deny"] = "allow" if allow else "deny"

        def change(one: QueuedQuestion) -> QueuedQuestion:
            if one.answer:
                raise AnsweredError(one)
            if one.state == "expired":
                raise UsageError("the question has expired", hint="the agent can repeat the call")
            return replace(one, answer=answer, by=by, via=via, why=why, answered=time.time())

        return self._change(name, change)

    def use(self, name: str) -> bool:
        """Whether the call may run now. An allow is used up by this: an equal call needs another one."""
        usable: list[bool] = []

        def change(one: QueuedQuestion) -> QueuedQuestion:
            usable.append(one.usable)
            return replace(one, used=time.time()) if one.usable else one

        self._change(name, change)
        return usable[0]

    def _change(self, name: str, change: Callable[[QueuedQuestion], QueuedQuestion]) -> QueuedQuestion:
        changed: list[QueuedQuestion] = []

        def with_change(known: list[QueuedQuestion]) -> list[QueuedQuestion]:
            found = next((one for one in reversed(known) if name == one.id or name.upper() == one.code), None)
            if found is None:
                raise UsageError(f"there is no question `{name}`", hint="`billhook approvals` lists them")
            changed.append(change(found))
            return [changed[0] if one.id == found.id else one for one in known]

        self._update(with_change)
        return changed[0]

    def _update(self, change: Callable[[list[QueuedQuestion]], list[QueuedQuestion]]) -> None:
        with _turn:
            self._state.update(KIND, KEY, lambda record: {KEY: msgspec.to_builtins(_fitted(change(_known(record))))})


def new_id() -> str:
    """An id that can't be guessed."""
    return secrets.token_urlsafe(16)


def _known(record: Value | None) -> list[QueuedQuestion]:
    oldest = time.time() - _REMEMBERED
    return [one for one in listed(record, KEY, QueuedQuestion) if one.until > oldest]


def _fitted(known: list[QueuedQuestion]) -> list[QueuedQuestion]:
    """Without the oldest. One that a process waits for is never dropped for another: then the new one is refused."""
    while len(known) > _MOST:
        over = next((one for one in known if one.state != "waiting"), None)
        if over is None:
            raise StoreError(f"{_MOST} questions wait for an answer already")
        known = [one for one in known if one is not over]
    return known


def _joins(one: QueuedQuestion) -> bool:
    return one.state in ("waiting", "late") or one.usable


# Wait until a person answers a question, in any process, or until its time is over.

_INTERVAL: Final = 0.05
_seen: Final[dict[Path, tuple[tuple[int, ...], dict[str, QueuedQuestion]]]] = {}
"""By root: the questions as they were last read, with their stamp. All that wait in this process share them."""


async def wait(questions: Questions, question: QueuedQuestion, seconds: float) -> QueuedQuestion:
    """The question when it is answered; without an answer when the time is over. Raises StoreError."""
    ends = time.monotonic() + seconds
    while True:
        question = _last_read(questions).get(question.id, question)
        left = ends - time.monotonic()
        if question.answer or left <= 0:
            return question
        await asyncio.sleep(min(_INTERVAL, left))


def _last_read(questions: Questions) -> dict[str, QueuedQuestion]:
    stamp = questions.stamp()
    before, known = _seen.get(questions.root, ((), {}))
    if stamp != before:
        known = {one.id: one for one in questions.all()}
        _seen[questions.root] = stamp, known
    return known


# Whether a person sees questions as they come: on an open page, or in a terminal with `billhook approvals --watch`.
#
# Each of them holds a shared lock on one file. So one that ended, in whatever way, does not count.

_SECONDS: Final = 0.02  # others that check hold the lock for an instant, those that watch hold it as long as they do


def watcher(root: Path) -> LockFile:
    """What a process holds while its user sees new questions."""
    return LockFile(_path(root), root, shared=True)


def is_watched(root: Path) -> bool:
    """Whether some process shows new questions to a person."""
    path = _path(root)
    if not os.path.lexists(path):
        return False
    try:
        with locked(path, root=root, seconds=_SECONDS):
            return False
    except StoreError as error:
        return isinstance(error, LockedError)


def _path(root: Path) -> Path:
    return FileState(root).path(KIND, KEY).with_name("watched")

"""`billhook replay`: many past events, judged by the rules as they are now, and which decisions differ."""

import os
from collections import Counter
from collections.abc import Iterable
from functools import cache
from typing import ClassVar, Final

import msgspec

from billhook.agents.base import Agent
from billhook.agents.transcripts import PastCall
from billhook.config import loader, shapes, sources
from billhook.config.trust import TRUST
from billhook.core.errors import UsageError
from billhook.effects import gitstate
from billhook.effects.gitstate import UnreadableError
from billhook.store.log import Record
from billhook.testing.judge import Judgement, Judges, judged_then


class Difference(msgspec.Struct, frozen=True):
    """An event that would be decided differently."""

    record: Record
    then: Judgement
    now: Judgement

    @property
    def hook(self) -> str:
        """The hook that makes the difference: the one that objects now, or else the one that objected then."""
        chosen = self.now.by if self.now.word in _KINDS or not self.then.by else self.then.by
        return ", ".join(chosen) or "no hook"


_KINDS: Final = {"deny": "denied", "stop": "denied", "ask": "asked", "defer": "asked", "keep_going": "kept going"}
"""What a decision means for a call; others allow it."""


def _kind(then: str, now: str) -> str:
    """The kind of a difference. A user who was asked could refuse: an ask that becomes a deny is no new deny."""
    kind = _KINDS.get(now, "allowed")
    instead = {kind, _KINDS.get(then)} == {"denied", "asked"}
    return f"{kind} instead" if instead else kind


class Examples(msgspec.Struct):
    """Events of one group: how many, and the first of them."""

    MOST: ClassVar[int] = 3
    changes: Counter[tuple[str, str]] = msgspec.field(default_factory=Counter)  # decision then, decision now
    first: list[Difference] = []

    def add(self, one: Difference) -> None:
        self.changes[one.then.word, one.now.word] += 1
        given = one.record.input
        if len(self.first) < self.MOST and all(each.record.input != given for each in self.first):
            self.first.append(one)

    @property
    def count(self) -> int:
        return self.changes.total()


class ReplayResult(msgspec.Struct):
    """The result of a replay."""

    events: int = 0
    unknown: int = 0
    stopped: int = 0  # would be denied or asked about now, different or not
    kinds: Counter[str] = msgspec.field(default_factory=Counter)  # differences by kind
    hooks: dict[str, Examples] = {}  # differences by hook
    unknowns: dict[str, Examples] = {}  # by reason

    @property
    def different(self) -> int:
        return self.kinds.total()

    def add(self, record: Record, now: Judgement) -> None:
        self.events += 1
        then = judged_then(record)
        if now.word == "unknown":
            self.unknown += 1
            self.unknowns.setdefault(now.doubts[0].why, Examples()).add(Difference(record, then, now))
            return
        self.stopped += now.word in _KINDS
        if then.word != now.word:
            found = Difference(record, then, now)
            self.kinds[_kind(then.word, now.word)] += 1
            self.hooks.setdefault(found.hook, Examples()).add(found)


def replay(records: Iterable[Record], judges: Judges, since: str = "") -> ReplayResult:
    """Judge records, oldest first. Those before `since` are only remembered."""
    found = ReplayResult()
    for record in records:
        if record.event == TRUST or not record.judged:
            continue
        now = judges.of(record.cwd, record.host).judge(record)
        if record.time >= since:
            found.add(record, now)
    return found


def record_of(one: PastCall, agent: Agent, project: str) -> Record:
    """A call of a transcript as the record of the event before it."""
    call, (tool, given) = one.call, one.as_hooks_get_it(agent)
    return Record(
        v=1,
        seq=0,
        prev="",
        id=call.id,
        time=call.time,
        mono=0.0,
        event="PreToolUse",
        session_id=call.session,
        agent_id=call.agent or None,
        tool=tool,
        tool_use_id=call.id,
        cwd=call.cwd or project,
        project=project,
        host=agent.name,
        input=given,
        hash="",
    )


# -- other rules


def rules_from(text: str, project: str) -> dict[str, bytes | None]:
    """The project's files with other contents: those of a file that replaces its hooks.yaml, or those of a git
    revision. Raises UsageError."""
    if os.path.isfile(text):
        path = os.path.realpath(text)
        native = [os.path.join(project, name) for name in sources.PROJECT_FILES if name.endswith((".yaml", ".yml"))]
        found: dict[str, bytes | None] = dict.fromkeys(native) | {path: _content(path)}
    else:
        found = _rules_at(text, project)
    return found


def _content(path: str) -> bytes:
    try:
        text = sources.read_bytes(path)
    except OSError as error:
        raise UsageError(f"--rules `{path}` can't be read: {error.strerror}", hint="name another file") from None
    read = shapes.read_file(path, "project", os.path.dirname(path), text)
    if not read.readable:
        raise UsageError(read.findings[0].message, place=read.findings[0].place, hint=read.findings[0].hint)
    return text


def _rules_at(revision: str, project: str) -> dict[str, bytes | None]:
    """The project's files at a revision, read without filters of git."""
    try:
        if revision.startswith("-"):
            raise UnreadableError
        gitstate.run_git(project, "rev-parse", "--verify", "-q", f"{revision}^{{commit}}")
        listed = gitstate.run_git(project, "ls-tree", "--name-only", "-z", revision, "--", *sources.PROJECT_FILES)
        found: dict[str, bytes | None] = {os.path.join(project, name): None for name in sources.PROJECT_FILES}
        for name in listed.split("\0")[:-1]:
            blob = gitstate.run_git(project, "cat-file", "blob", f"{revision}:./{name}")
            found[os.path.join(project, name)] = os.fsencode(blob)
    except UnreadableError:
        message = f"--rules `{revision}` is neither a file nor a git revision of this project"
        raise UsageError(message, hint="as in --rules new.yaml or --rules HEAD~1") from None
    return found


@cache
def project_of(folder: str) -> str:
    """The project to which a folder belongs, also if the folder was removed."""
    return sources.find(loader.existing_folder(folder), layers=("project", "local")).project

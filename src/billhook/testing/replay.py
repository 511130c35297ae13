"""Past events: many of them, judged by the rules as they are now, and which decisions differ (`billhook replay`); or
one, and every hook of it (`billhook explain ID`)."""

import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from typing import Any, ClassVar, Final, Literal

import msgspec
from msgspec.structs import replace

from billhook.agents.base import Agent
from billhook.agents.transcripts import PastCall
from billhook.config import loader, shapes, sources
from billhook.config.declaration import conditions_in_words
from billhook.config.history import rows_of
from billhook.config.trust import TRUST
from billhook.core import tools
from billhook.core.answers import SkipReason
from billhook.core.errors import UsageError
from billhook.core.events import Event
from billhook.effects import gitstate
from billhook.effects.gitstate import UnreadableError
from billhook.store.log import OutcomeRecord, Record
from billhook.testing.judge import Judgement, Judges, decided_by, event_of, in_no_file, judged_then


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


# -- one recorded event, and every hook of it: `billhook explain ID`
Row = Mapping[str, Any]  # a hook as `billhook list --json` prints it, and as a kept configuration has it
ReplayState = Literal["asked", "background", "skipped", "not asked"]  # the words of `billhook explain ID --json`

_STANDINGS: Final[dict[str, ReplayState]] = {"skipped": "skipped", "background": "background"}
_LONGEST: Final = 200  # characters of a command or path in a reason


class PastHook(msgspec.Struct, frozen=True, kw_only=True):
    """One hook of that event."""

    name: str
    standing: ReplayState
    why: str = ""  # why it was skipped
    word: str = ""  # the same in the word of the event log: `SkipReason`
    said: OutcomeRecord | None = None  # what happened when it ran
    decided: bool = False  # its answer became the decision, or a part of it
    own: bool = False  # it was a hook of the calling program, which is in no file
    then: Row | None = None  # how it was configured; None: not known


class PastEvent(msgspec.Struct, frozen=True, kw_only=True):
    """One record, and every hook of its event."""

    record: Record
    hooks: tuple[PastHook, ...]  # those in the record, in their order; then those that were skipped
    by: tuple[str, ...]  # the hooks whose answers became the decision
    unknown: str = ""  # why the configuration of that time is not known; empty if it is


def look_back(record: Record, kept: Mapping[str, Any] | None) -> PastEvent:
    """What happened, from a record and the configuration that was kept for it, if there is one."""
    event, then_rows = event_of(record), rows_of(kept)
    by = decided_by(record)
    hooks = [
        replace(
            one,
            decided=one.name in by and one.standing == "asked",
            own=_is_own(one.name, record, None if kept is None else then_rows),
            then=then_rows.get(one.name),
        )
        for one in _considered(record, then_rows, event)
    ]
    gone = f"{record.config[:12]} was not kept" if record.config else "the record does not name it"
    return PastEvent(record=record, hooks=tuple(hooks), by=by, unknown="" if kept is not None else gone)


def _is_own(name: str, record: Record, rows: Mapping[str, Row] | None) -> bool:
    """Whether it was a hook of the calling program: its outcome names no layer. Without an outcome: whether the
    configuration of that time is known and has no such hook."""
    for one in record.outcomes:
        if one.hook == name:
            return in_no_file(one)
    return rows is not None and name not in rows


def _considered(record: Record, rows: Mapping[str, Row], event: Event | None) -> Iterator[PastHook]:
    met = {said.hook for said in record.outcomes}
    for said in record.outcomes:
        standing = _STANDINGS.get(said.status, "asked")
        if standing != "skipped":
            yield PastHook(name=said.hook, standing=standing, said=said)
            continue
        word = record.not_asked.get(said.hook) or said.error or ""
        why = said.error if word == SkipReason.CONDITION_RAISED else _why_not(word, rows.get(said.hook), record, event)
        not_approved = word == SkipReason.NOT_TRUSTED  # the record has the hook that took its place
        standing = "not asked" if not_approved else "skipped"
        yield PastHook(name=said.hook, standing=standing, word=word, why=why or word)
    for name, word in record.not_asked.items():
        if name not in met:
            why = _why_not(word, rows.get(name), record, event)
            yield PastHook(name=name, standing="not asked", word=word, why=why)
    for name, row in rows.items() if record.judged else ():
        if name not in met and name not in record.not_asked and handles(row, record.event):
            why = row.get("why") or "the record has no reason"
            yield PastHook(name=name, standing="not asked", why=str(why))


def _why_not(word: str, row: Row | None, record: Record, event: Event | None) -> str:
    """The reason in the event log; in place of `did not match` and `condition false`, what did not match."""
    if row is None:
        return word
    state = str(row.get("why") or "") if row.get("state") != "runs" else ""
    detail = _mismatch(word, row, record, event)
    texts = filter(None, (detail, state))
    if word == SkipReason.NOT_TRUSTED and state:
        return state  # it has that word, and what to do
    return "; ".join(texts) if detail else f"{word}: {state}".removesuffix(": ")


def _mismatch(word: str, row: Row, record: Record, event: Event | None) -> str:
    if word == SkipReason.NOT_MATCHED and row.get("match"):
        target = (event.target if event is not None else None) or record.tool
        return f"`match: {row['match']}` does not match {f'`{target}`' if target else 'this event'}"
    if word == SkipReason.CONDITION_FALSE:
        wanted = " and ".join(f"`{label}: {text}`" for label, text in conditions_in_words(row))
        return f"{wanted} does not match {_about(record, event)}" if wanted else ""
    return ""


def _about(record: Record, event: Event | None) -> str:
    target = event.target if event is not None else ""
    text = tools.subject_of(record.tool, record.input) if record.tool else target or ""
    return f"`{text[:_LONGEST]}{'...' if len(text) > _LONGEST else ''}`" if text else "this"


def handles(row: Row, event: str) -> bool:
    """Whether a hook listens for that event."""
    events = row.get("events")
    return not events or (isinstance(events, list) and event in events)

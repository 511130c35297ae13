"""Past decisions, from the event log: what each hook did and why others were skipped, who decided, and which recorded
answers still count when the rules of today judge the same event."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final, Literal

import msgspec
from msgspec.structs import replace

from billhook.builtins import guard
from billhook.config.config import Config, as_data, content, kept, rows
from billhook.config.declaration import CONDITION_KEYS, LAYERS, conditions_in_words
from billhook.config.history import rows_of
from billhook.core import tools
from billhook.core.answers import Decision, SkipReason
from billhook.core.errors import BillhookError
from billhook.core.events import Event, parse
from billhook.engine.step import SHADOW
from billhook.store.log import OutcomeRecord, Record

RANK: Final = {str(decision): place for place, decision in enumerate(Decision)}
STRONGEST: Final = RANK[Decision.DENY]
_CODE: Final = frozenset({"run", "exec", "python", "url"})
_SAME: Final = ("events", "match", *CONDITION_KEYS, "dialect", "on_failure", "what", "kind")

Row = Mapping[str, Any]  # a hook as `billhook list --json` prints it, and as a kept configuration has it
Standing = Literal["asked", "background", "skipped", "not asked"]  # the words of `billhook explain ID --json`

_STANDINGS: Final[dict[str, Standing]] = {"skipped": "skipped", "background": "background"}
_LONGEST: Final = 200  # characters of a command or path in a reason


class Considered(msgspec.Struct, frozen=True, kw_only=True):
    """One hook of that event."""

    name: str
    standing: Standing
    why: str = ""  # why it was skipped
    word: str = ""  # the same in the word of the event log: `SkipReason`
    said: OutcomeRecord | None = None  # what happened when it ran
    decided: bool = False  # its answer became the decision, or a part of it
    own: bool = False  # it was a hook of the calling program, which is in no file
    then: Row | None = None  # how it was configured; None: not known


class Past(msgspec.Struct, frozen=True, kw_only=True):
    """One record, and every hook of its event."""

    record: Record
    hooks: tuple[Considered, ...]  # those in the record, in their order; then those that were skipped
    by: tuple[str, ...]  # the hooks whose answers became the decision
    unknown: str = ""  # why the configuration of that time is not known; empty if it is


def look_back(record: Record, kept: Mapping[str, Any] | None) -> Past:
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
    return Past(record=record, hooks=tuple(hooks), by=by, unknown="" if kept is not None else gone)


def decided_by(record: Record) -> tuple[str, ...]:
    """The hooks whose answers became the decision, stopped the agent or kept it going. Where no outcome has the
    decision, the hooks that gave the reason."""
    strong = [one for one in record.outcomes if one.decision == record.decision != "none"]
    if record.stop or record.keep_going:
        strong += [one for one in record.outcomes if (one.stop if record.stop else one.keep_going)]
    if not strong and record.reason and (record.decision != "none" or record.stop or record.keep_going):
        strong = [one for one in record.outcomes if one.reason and one.reason in record.reason]
    return tuple(dict.fromkeys(one.hook for one in strong))


def _is_own(name: str, record: Record, rows: Mapping[str, Row] | None) -> bool:
    """Whether it was a hook of the calling program: its outcome names no layer. Without an outcome: whether the
    configuration of that time is known and has no such hook."""
    for one in record.outcomes:
        if one.hook == name:
            return _in_no_file(one)
    return rows is not None and name not in rows


def _in_no_file(one: OutcomeRecord) -> bool:
    return (one.source or "").partition(" ")[0] not in (*LAYERS, "built-in")


def _considered(record: Record, rows: Mapping[str, Row], event: Event | None) -> Iterator[Considered]:
    met = {said.hook for said in record.outcomes}
    for said in record.outcomes:
        standing = _STANDINGS.get(said.status, "asked")
        if standing != "skipped":
            yield Considered(name=said.hook, standing=standing, said=said)
            continue
        word = record.not_asked.get(said.hook) or said.error or ""
        why = said.error if word == SkipReason.CONDITION_RAISED else _why_not(word, rows.get(said.hook), record, event)
        not_approved = word == SkipReason.NOT_TRUSTED  # the record has the hook that took its place
        standing = "not asked" if not_approved else "skipped"
        yield Considered(name=said.hook, standing=standing, word=word, why=why or word)
    for name, word in record.not_asked.items():
        if name not in met:
            why = _why_not(word, rows.get(name), record, event)
            yield Considered(name=name, standing="not asked", word=word, why=why)
    for name, row in rows.items() if record.judged else ():
        if name not in met and name not in record.not_asked and wants(row, record.event):
            why = row.get("why") or "the record has no reason"
            yield Considered(name=name, standing="not asked", why=str(why))


def _why_not(word: str, row: Row | None, record: Record, event: Event | None) -> str:
    """The reason in the event log; in place of `did not match` and `condition false`, what did not match."""
    if row is None:
        return word
    state = str(row.get("why") or "") if row.get("state") != "runs" else ""
    detail = _mismatch(word, row, record, event)
    texts = filter(None, (detail, state))
    return "; ".join(texts) if detail else f"{word}: {state}".removesuffix(": ")


def _mismatch(word: str, row: Row, record: Record, event: Event | None) -> str:
    if word == SkipReason.NOT_MATCHED and row.get("match"):
        target = (event.target if event is not None else None) or record.tool
        return f"`match: {row['match']}` does not match {f'`{target}`' if target else 'this event'}"
    if word == SkipReason.CONDITION_FALSE:
        wanted = " and ".join(f"`{label}: {text}`" for label, text in conditions_in_words(row))
        return f"{wanted} is not true of {_about(record, event)}" if wanted else ""
    return ""


def _about(record: Record, event: Event | None) -> str:
    target = event.target if event is not None else ""
    text = tools.subject_of(record.tool, record.input) if record.tool else target or ""
    return f"`{text[:_LONGEST]}{'...' if len(text) > _LONGEST else ''}`" if text else "this"


def wants(row: Row, event: str) -> bool:
    """Whether a hook listens for that event."""
    events = row.get("events")
    return not events or (isinstance(events, list) and event in events)


def event_of(record: Record) -> Event | None:
    """The event of a record, as far as the log has it; None: the log does not have enough of it."""
    if record.tool is not None and not isinstance(record.input, Mapping):
        return None
    try:
        return parse(record.payload)
    except BillhookError:
        return None


# -- judgements


class Doubt(msgspec.Struct, frozen=True):
    """Something that could make the decision another one."""

    hook: str  # empty: no record can help
    why: str
    rank: int = STRONGEST  # of the strictest decision that it could lead to
    allows: bool = False  # it could allow what the guard stops
    total: bool = False  # nothing about the decision is certain


class Judgement(msgspec.Struct, frozen=True):
    """The decision about one event."""

    word: str  # allow, deny, ask, defer, none, stop, keep_going or rewrite; `unknown`
    by: tuple[str, ...] = ()
    reason: str = ""
    doubts: tuple[Doubt, ...] = ()
    by_guard: bool = False  # only the guard objects, and the user's own hooks can overrule it

    @classmethod
    def recorded(cls, one: OutcomeRecord) -> "Judgement":
        """The answer of one hook, as it was logged."""
        return cls(_word(one), (one.hook,), one.reason or "")

    @property
    def rank(self) -> int:
        return STRONGEST if self.word in ("stop", "keep_going") else RANK.get(self.word, 0)

    @property
    def open(self) -> tuple[Doubt, ...]:
        """The doubts that could change the decision."""
        matter = (one.total or one.rank > self.rank or (one.allows and self.by_guard) for one in self.doubts)
        return tuple(one for one, matters in zip(self.doubts, matter, strict=True) if matters)


NO_OBJECTION: Final = Judgement("none")


def _word(one: Record | OutcomeRecord) -> str:
    return "keep_going" if one.keep_going else "stop" if one.stop else one.decision


def judged_then(record: Record) -> Judgement:
    """The decision of the rules in a record, also where the user allowed the call once or paused the hook."""
    word = "ask" if any(map(_is_approval, record.outcomes)) else _word(record)  # rules asked, a person answered
    if word in ("none", "allow") and any(one.rewrote_input for one in record.outcomes):
        word = "rewrite"
    then = Judgement(word, decided_by(record) if word != "none" else (), record.reason or "")
    waived = [(one, one.waived) for one in record.outcomes if one.waived is not None and one.waived.by != SHADOW]
    would = [Judgement(by.would.replace(" ", "_"), (one.hook,)) for one, by in waived]
    return max((then, *would), key=lambda one: one.rank)


def _is_approval(one: OutcomeRecord) -> bool:
    return one.hook == "approvals" and one.source == "built-in" and one.decision != "none"


def own_answers(record: Record) -> list[Judgement]:
    """The answers of the calling program's own hooks, which are in no file: they would be the same."""
    own = (Judgement.recorded(one) for one in record.outcomes if _in_no_file(one))
    return [one for one in own if one.word != "none"]


class Unchanged:
    """Which hooks were the same under an earlier configuration: then the record has their answers."""

    def __init__(self, config: Config, approved: Config) -> None:
        self._root = Path(config.root)
        self._now = {row.name: as_data(row) for row in rows(config)}
        self.approved = {row.name: as_data(row) for row in rows(approved)}
        self._guard = _guard_of(content(config))
        self._known: dict[str, frozenset[str]] = {}

    def resolved(self, found: Judgement, record: Record) -> Judgement:
        """The judgement with the recorded answers of doubtful hooks; `unknown` if one is missing."""
        same = self._of(record.config)
        best, left = found, list[Doubt]()
        for doubt in found.open:
            answer = None if doubt.total or doubt.hook not in same else _recorded(doubt, record)
            if answer is None:
                left.append(doubt)
            elif answer.rank > best.rank:
                best = answer
        return replace(found, word="unknown", doubts=tuple(left)) if left else replace(best, doubts=())

    def _of(self, hash_: str) -> frozenset[str]:
        if hash_ not in self._known:
            snapshot = kept(self._root, hash_) if hash_ else None
            self._known[hash_] = frozenset(self._same(snapshot)) if snapshot is not None else frozenset()
        return self._known[hash_]

    def _same(self, snapshot: Mapping[str, Any]) -> Iterator[str]:
        for name, then in rows_of(snapshot).items():
            now, approved = self._now.get(name), self.approved.get(name)
            if now is None or any(then.get(field) != now.get(field) for field in _SAME):
                continue
            if then.get("layer") == "built-in":
                if _guard_of(snapshot) == self._guard:
                    yield name
            elif then.get("kind") not in _CODE:
                yield name
            elif approved is not None and then.get("hash") and approved.get("hash") == then["hash"]:
                yield name  # its files are the same, too


def _guard_of(snapshot: Mapping[str, Any]) -> Any:
    """Everything that the guard's decisions depend on, apart from the call."""
    return snapshot.get("version"), snapshot.get("builtins", {}).get(guard.NAME), snapshot.get("allowed", "unknown")


def _recorded(doubt: Doubt, record: Record) -> Judgement | None:
    """The recorded answer of the hook; None if the record has none, or not all of it."""
    for one in record.outcomes:
        if one.hook == doubt.hook and one.status != "skipped":
            allowed = one.source == "built-in" and any(each.decision == "allow" for each in record.outcomes)
            if one.rewrote_input or allowed:
                return None
            return Judgement.recorded(one)
    skipped = record.not_asked.get(doubt.hook, "")
    return NO_OBJECTION if skipped in ("condition false", "did not match") else None

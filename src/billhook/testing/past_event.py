"""One recorded event, and every hook of it: `billhook explain ID`."""

from collections.abc import Iterator, Mapping
from typing import Any, Final, Literal

import msgspec
from msgspec.structs import replace

from billhook.config.declaration import LAYERS, conditions_in_words
from billhook.config.history import rows_of
from billhook.core import tools
from billhook.core.answers import SkipReason
from billhook.core.errors import BillhookError
from billhook.core.events import Event, parse
from billhook.store.log import OutcomeRecord, Record

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
            return in_no_file(one)
    return rows is not None and name not in rows


def in_no_file(one: OutcomeRecord) -> bool:
    return (one.source or "").partition(" ")[0] not in (*LAYERS, "built-in")


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


def event_of(record: Record) -> Event | None:
    """The event of a record, as far as the log has it; None: the log does not have enough of it."""
    if record.tool is not None and not isinstance(record.input, Mapping):
        return None
    try:
        return parse(record.payload)
    except BillhookError:
        return None

"""A past decision: what each hook did about an event then, why the others were not asked, and what differs today.

Everything is told from the record, the configuration that was kept with it, and the configuration of today. Nothing is
run, and what is not known any more is said to be so.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final, Literal

import msgspec

from billhook.config.config import Config
from billhook.config.declaration import LAYERS
from billhook.config.explain import Explained, Explanation, explain
from billhook.config.history import rows_of
from billhook.core import tools
from billhook.core.answers import SkipReason
from billhook.core.errors import BillhookError
from billhook.core.events import Event, parse
from billhook.store.log.record import OutcomeRecord, Record

Row = Mapping[str, Any]  # a hook as `billhook list --json` prints it, and as a kept configuration has it
Standing = Literal["asked", "background", "skipped", "not asked"]

_STANDINGS: Final[dict[str, Standing]] = {"skipped": "skipped", "background": "background"}
_COMPARED: Final = ("events", "match", "if", "what", "kind", "dialect", "on_failure", "priority", "after", "timeout",
                    "background", "always", "trust", "state", "file")  # fmt: skip
"""What makes a hook another one, or lets it run or not; a line that moved does not."""
_LONGEST: Final = 200  # characters of a command or path in a reason


class FieldChange(msgspec.Struct, frozen=True):
    """One field that is not what it was."""

    field: str
    then: Any
    now: Any


class Considered(msgspec.Struct, frozen=True, kw_only=True):
    """One hook of that event."""

    name: str
    standing: Standing
    why: str = ""  # why it was skipped or not asked
    said: OutcomeRecord | None = None  # what happened when it was asked
    decided: bool = False  # it is one of those whose answer became the decision
    own: bool = False  # it was a hook of the program that asked, which no file has
    then: Row | None = None  # how it was configured; None: not known
    now: Row | None = None  # how it is configured today; None: it is not
    changes: tuple[FieldChange, ...] = ()  # what differs between the two, where both are known
    today: Explained | None = None  # what would become of it today, about the same event


class Past(msgspec.Struct, frozen=True, kw_only=True):
    """One record, and every hook that had to do with it."""

    record: Record
    hooks: tuple[Considered, ...]  # those that were come to, in that order; then those that were not asked
    by: tuple[str, ...]  # whose answers became the decision
    known: bool  # the configuration of that moment is known
    added: tuple[Row, ...]  # hooks for this event that are configured today, and were not then
    settings: tuple[FieldChange, ...]  # what differs beside the hooks
    today: Explanation | None = None  # the same event under the configuration of today; None where it can't be told
    untold: tuple[str, ...] = ()  # what is not known, and why

    @property
    def removed(self) -> tuple[str, ...]:
        """Hooks that are not configured any more."""
        return tuple(one.name for one in self.hooks if one.now is None and not one.own)

    @property
    def differs(self) -> bool:
        """Whether anything is known to differ today."""
        return bool(self.added or self.removed or self.settings or any(one.changes for one in self.hooks))


def look_back(record: Record, kept: Mapping[str, Any] | None, config: Config, now: Mapping[str, Any]) -> Past:
    """A record, the configuration that was kept for it if it is still there, and that of today: loaded, and in the form
    in which configurations are kept."""
    event = event_of(record)
    then_rows, now_rows = rows_of(kept), rows_of(now)
    today, untold = _today(record, event, config)
    outlooks = {one.row.name: one for one in today.hooks} if today is not None else {}
    by = decided_by(record)
    hooks = [
        msgspec.structs.replace(
            one,
            decided=one.name in by and one.standing == "asked",
            own=_is_own(one.name, record, None if kept is None else then_rows),
            then=then_rows.get(one.name),
            now=now_rows.get(one.name),
            changes=tuple(changes(then_rows.get(one.name), now_rows.get(one.name))),
            today=outlooks.get(one.name),
        )
        for one in _considered(record, then_rows, event)
    ]
    untold += [f"what `{one.name}` is today: it was a hook of the program that asked" for one in hooks if one.own]
    if kept is None and record.config:
        untold.insert(0, f"the configuration of that moment: {record.config[:12]} was not kept")
    elif kept is None:
        untold.insert(0, "which configuration it was decided under: the record does not say")
    return Past(
        record=record,
        hooks=tuple(hooks),
        by=by,
        known=kept is not None,
        added=tuple(_added(record, then_rows if kept is not None else None, now_rows)),
        settings=tuple(_settings(kept, now)) if kept is not None else (),
        today=today,
        untold=tuple(untold),
    )


# -- what happened


def decided_by(record: Record) -> tuple[str, ...]:
    """The hooks whose answers became the decision, stopped the agent or kept it going; where a record does not say who
    did, those that gave the reason."""
    strong = [said for said in record.outcomes if said.decision == record.decision != "none"]
    if record.stop or record.keep_going:
        strong += [said for said in record.outcomes if (said.stop if record.stop else said.keep_going)]
    if not strong and record.reason and (record.decision != "none" or record.stop or record.keep_going):
        strong = [said for said in record.outcomes if said.reason and said.reason in record.reason]
    return tuple(dict.fromkeys(said.hook for said in strong))


def _is_own(name: str, record: Record, rows: Mapping[str, Row] | None) -> bool:
    """Whether a hook was the program's own: its outcome names no layer. Of one without an outcome, when it is known
    that the configuration of its time had none of that name."""
    for said in record.outcomes:
        if said.hook == name:
            return (said.source or "").partition(" ")[0] not in (*LAYERS, "built-in")
    return rows is not None and name not in rows


def _considered(record: Record, rows: Mapping[str, Row], event: Event | None) -> Iterator[Considered]:
    met = {said.hook for said in record.outcomes}
    for said in record.outcomes:
        standing = _STANDINGS.get(said.status, "asked")
        if standing != "skipped":
            yield Considered(name=said.hook, standing=standing, said=said)
            continue
        word = record.not_asked.get(said.hook) or said.error or ""
        why = said.error if word == SkipReason.CONDITION_RAISED else _why_not(word, rows.get(said.hook), record, event)
        not_approved = word == SkipReason.NOT_TRUSTED  # what stands in for it was skipped
        yield Considered(name=said.hook, standing="not asked" if not_approved else "skipped", why=why or word)
    for name, word in record.not_asked.items():
        if name not in met:
            yield Considered(name=name, standing="not asked", why=_why_not(word, rows.get(name), record, event))
    for name, row in rows.items() if record.judged else ():
        if name not in met and name not in record.not_asked and wants(row, record.event):
            why = row.get("why") or "the record says nothing about it"
            yield Considered(name=name, standing="not asked", why=str(why))


def _why_not(word: str, row: Row | None, record: Record, event: Event | None) -> str:
    if row is None:
        return word
    detail = ""
    if word == SkipReason.NOT_MATCHED and row.get("match"):
        target = (event.target if event is not None else None) or record.tool
        detail = f"match `{row['match']}` is not for `{target}`" if target else f"match `{row['match']}`"
    elif word == SkipReason.CONDITION_FALSE and row.get("if"):
        detail = f"if `{row['if']}` is not true of {_about(record, event)}"
    standing = str(row.get("why") or "") if row.get("state") != "runs" else ""
    return f"{word}: {'; '.join(filter(None, (detail, standing)))}".removesuffix(": ")


def _about(record: Record, event: Event | None) -> str:
    if record.tool:
        found = tools.command_of(record.tool, record.input) or tools.path_of(record.tool, record.input)
    else:
        found = event.target if event is not None else None
    text = found or ""
    return f"`{text[:_LONGEST]}{'...' if len(text) > _LONGEST else ''}`" if text else "this"


# -- what differs


def changes(then: Row | None, now: Row | None) -> Iterator[FieldChange]:
    """The fields of a hook that are not what they were."""
    if then is None or now is None:
        return
    pairs = [(field, then.get(field) or None, now.get(field) or None) for field in _COMPARED]
    found = [FieldChange(field, before, after) for field, before, after in pairs if before != after]
    yield from found or _differing("", then, now, ["hash"])


def wants(row: Row, event: str) -> bool:
    """Whether a hook is for that event."""
    events = row.get("events")
    return not events or (isinstance(events, list) and event in events)


def _added(record: Record, then: Mapping[str, Row] | None, now: Mapping[str, Row]) -> Iterator[Row]:
    named = {*(said.hook for said in record.outcomes), *record.not_asked}
    for name, row in now.items():
        if name in named or not wants(row, record.event):
            continue
        if name not in then if then is not None else row.get("layer") != "built-in":
            yield row


def _settings(then: Mapping[str, Any], now: Mapping[str, Any]) -> Iterator[FieldChange]:
    yield from _differing("", then, now, ["parallel"])
    before, after = then.get("builtins") or {}, now.get("builtins") or {}
    for name in sorted({*before, *after}):
        old, new = before.get(name) or {}, after.get(name) or {}
        yield from _differing(f"{name}.", old, new, ["enabled"])
        old, new = old.get("options") or {}, new.get("options") or {}
        yield from _differing(f"{name}.", old, new, sorted({*old, *new}))


def _differing(prefix: str, then: Mapping[str, Any], now: Mapping[str, Any], keys: list[str]) -> Iterator[FieldChange]:
    for key in keys:
        if then.get(key) != now.get(key):
            yield FieldChange(f"{prefix}{key}", then.get(key), now.get(key))


# -- the same event today


def event_of(record: Record) -> Event | None:
    """The event that a record is about, as far as the log has it; None: not enough of it to tell."""
    if record.tool is not None and not isinstance(record.input, Mapping):
        return None
    try:
        return parse(record.payload)
    except BillhookError:
        return None


def _today(record: Record, event: Event | None, config: Config) -> tuple[Explanation | None, list[str]]:
    if event is None:
        why = "the log has not enough of its input" if record.input is None else "its input is no event of today"
        return None, [f"what would become of it today: {why}"]
    untold = []
    if record.redacted:
        texts = "1 text was" if record.redacted == 1 else f"{record.redacted} texts were"
        untold.append(f"what rules would say to the whole input: {texts} redacted")
    try:
        return explain(config, event), untold
    except Exception as error:  # what a log has may be no input that any hook ever saw
        return None, [f"what would become of it today: {type(error).__name__}: {error}"]

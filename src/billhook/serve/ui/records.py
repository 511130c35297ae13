"""What the views show of the event logs: sessions, pages of events, one event in full."""

import time
from collections.abc import Mapping
from contextlib import suppress
from typing import Annotated, Any, Final

import msgspec

from billhook.approvals.queue import OPEN, Questions
from billhook.config.log_summary import call_text
from billhook.config.trust import TRUST
from billhook.core.errors import BillhookError, UsageError
from billhook.core.events import parse
from billhook.effects.effect import Effect
from billhook.store.files import StoreError
from billhook.store.log import ALL, Record, RecordFilter, is_whole
from billhook.store.log.folders import MachineLogs
from billhook.store.log.pages import page
from billhook.store.log.reader import hooks_of

_MOST_LOGS: Final = 30
_TAIL: Final = 512 << 10  # bytes of each log in which sessions are searched
_RECENT: Final = 24 * 3600.0  # seconds: older sessions are not in the list
_ANSWERS: Final = 3
_FAILED: Final = frozenset({"failed", "timed_out", "could_not_start"})


class PageFilter(msgspec.Struct, frozen=True):
    """Which events of a project are listed. Empty: all."""

    project: str
    session: str = ""
    event: str = ""
    tool: str = ""
    decision: str = ""
    hook: str = ""
    text: str = ""
    failed: bool = False
    before: int = 0
    after: int = 0
    limit: Annotated[int, msgspec.Meta(ge=1, le=500)] = 100

    def of_records(self, project: str) -> RecordFilter:
        chosen = {"sessions": self.session, "events": self.event, "tools": self.tool, "decisions": self.decision}
        sets: dict[str, Any] = {name: frozenset((value,)) for name, value in chosen.items() if value}
        return RecordFilter(project=project, hook=self.hook or None, text=self.text or None, **sets)


def questions(queue: Questions) -> list[dict[str, object]]:
    """The questions that can still be answered, and the last answers."""
    known = queue.all()
    answered = sorted((one for one in known if one.answer), key=lambda one: one.answered)
    return [one.shown for one in (*(one for one in known if one.state in OPEN), *answered[-_ANSWERS:])]


def now(logs: MachineLogs, queue: Questions) -> dict[str, Any]:
    """The recent sessions, the projects with events, the most recent first, and the questions."""
    newest = ((log, page(log, ALL, limit=1, at_most=_TAIL).entries) for log in logs.all()[:_MOST_LOGS])
    projects = dict.fromkeys(logs.named(log, found[0].record.project) for log, found in newest if found)
    return {"sessions": sessions(logs), "projects": list(projects), "questions": questions(queue)}


def listed(logs: MachineLogs, query: Mapping[str, str]) -> dict[str, Any]:
    """A page of events, newest first. It may be short, or empty, although there are older ones: then `before` is the
    place at which the next page begins, because one page reads only some of a log. Raises UsageError."""
    try:
        given = msgspec.convert(dict(query), PageFilter, strict=False)
    except msgspec.ValidationError as error:
        raise UsageError(f"invalid filter: {error}") from None
    log, project = logs.find(given.project)
    keep = _has_failed if given.failed else None
    found = page(log, given.of_records(project), before=given.before, after=given.after, limit=given.limit, keep=keep)
    rows = [row(log.whole(one.record), given.project) for one in found.entries]
    return {"rows": rows, "before": found.before, "read": found.read}


def _has_failed(record: Record) -> bool:
    return record.failed_open > 0 or any(one.status in _FAILED for one in record.outcomes)


def row(record: Record, project: str) -> dict[str, Any]:
    """An event in a list."""
    turn, decision = record.turn_id.rpartition(":")[2], record.decision
    by = [one.hook for one in record.outcomes if one.decision == decision != "none"]
    return {name: getattr(record, name) for name in ("seq", "id", "time", "event", "host")} | {
        "project": project,
        "tool": record.tool or "",
        "session": record.session_id,
        "name": record.session_name,
        "turn": turn if turn.isdigit() else "",
        "decision": "stop" if record.stop else decision,
        "by": by,
        "ms": record.duration_ms,
        "failed": _has_failed(record),
        "text": call_text(record),
        "hooks": hooks_of(record),
    }


def whole(logs: MachineLogs, query: Mapping[str, str]) -> dict[str, Any]:
    """One record with everything that it has. Raises UsageError."""
    name, id_ = query.get("project", ""), query.get("id", "")
    log, project = logs.find(name)
    entry = log.find(id_) if len(id_) >= 8 else None
    if entry is None or entry.record.project != project:
        raise UsageError("this event is not in the log")
    record, problem = entry.record, "" if is_whole(entry.line) else "hash mismatch: the record was changed"
    try:
        record = log.whole(record)
    except StoreError as error:
        problem = error.message
    effects: list[Effect] = []
    with suppress(BillhookError):  # the record has no whole input
        effects = list(getattr(parse(record.payload), "effects", ()))
    return {"row": row(record, name), "record": record, "effects": effects, "problem": problem}


def sessions(logs: MachineLogs) -> list[dict[str, Any]]:
    """The recent sessions of all projects, the newest first."""
    since = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(time.time() - _RECENT))
    found: dict[tuple[str, str], dict[str, Any]] = {}
    for log in (one for one in logs.all()[:_MOST_LOGS] if one.stamp[0] > (time.time() - _RECENT) * 1e9):
        newest = page(log, RecordFilter(since=since), limit=5000, at_most=_TAIL).entries
        rows = (row(one.record, logs.named(log, one.record.project)) for one in newest if one.record.event != TRUST)
        for last in rows:
            same = {name: last[name] for name in ("session", "name", "turn", "project", "host")}
            none = {**same, "last": last, "events": 0, "denied": 0, "asked": 0, "failed": 0}
            one = found.setdefault((last["project"], last["session"]), none)
            one["turn"] = one["turn"] or last["turn"]
            one["events"] += 1
            one["denied"] += last["decision"] == "deny"
            one["asked"] += last["decision"] == "ask"
            one["failed"] += last["failed"]
    return sorted(found.values(), key=lambda one: one["last"]["time"], reverse=True)

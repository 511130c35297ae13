"""What the views show of the event logs: sessions, pages of events, one event in full."""

import os
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import msgspec

from billhook.config.log_summary import call_text
from billhook.config.trust import TRUST
from billhook.core.errors import BillhookError, UsageError
from billhook.core.events import parse
from billhook.effects.effect import Effect
from billhook.store.files import StoreError, log_folder, opened
from billhook.store.log import ALL, Record, RecordFilter, is_whole
from billhook.store.log.pages import page
from billhook.store.log.reader import LogReader, hooks_of

_MOST_LOGS: Final = 30
_TAIL: Final = 512 << 10  # bytes of each log in which sessions are searched
_RECENT: Final = 24 * 3600.0  # seconds: older sessions are not in the list
_LONGEST: Final = 300  # characters of one value in a list
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
    limit: int = 100

    @classmethod
    def of(cls, query: Mapping[str, str]) -> "PageFilter":
        """The filter of a query. Raises UsageError."""
        try:
            found = msgspec.convert(dict(query), cls, strict=False)
        except msgspec.ValidationError as error:
            raise UsageError(f"invalid filter: {error}") from None
        if not 0 < found.limit <= 500:
            raise UsageError("`limit` must be between 1 and 500")
        return found

    @property
    def wanted(self) -> RecordFilter:
        def one(value: str) -> frozenset[str] | None:
            return frozenset((value,)) if value else None

        return RecordFilter(
            project=self.project,
            sessions=one(self.session),
            events=one(self.event),
            tools=one(self.tool),
            decisions=one(self.decision),
            hook=self.hook or None,
            text=self.text or None,
        )


def log_of(root: Path, project: str) -> LogReader:
    """The log of a project. Raises UsageError if there is none."""
    folder = log_folder(root, project) if project else root
    if not project or not os.path.isdir(folder):
        raise UsageError("this project has no event log", hint="`billhook doctor` shows whether agents call billhook")
    return LogReader(folder, root)


def logs(root: Path) -> list[LogReader]:
    """The logs of all projects, the most recently changed first."""
    path = root / "hooks"
    with opened(path, root) as folder:
        found = [] if folder is None else [one for one in os.scandir(folder) if one.is_dir(follow_symlinks=False)]
        found.sort(key=lambda one: -one.stat(follow_symlinks=False).st_mtime)
    return [LogReader(path / one.name, root) for one in found[:_MOST_LOGS]]


def projects(root: Path) -> list[str]:
    """The projects with events, the most recent first."""
    newest = (page(log, ALL, limit=1, at_most=_TAIL).entries for log in logs(root))
    return list(dict.fromkeys(entries[0].record.project for entries in newest if entries))


def listed(root: Path, wanted: PageFilter) -> dict[str, Any]:
    """A page of events, newest first. It may be short, or empty, although there are older ones: then `before` is the
    place at which the next page begins, because one page reads only some of a log."""
    log, keep = log_of(root, wanted.project), _has_failed if wanted.failed else None
    found = page(log, wanted.wanted, before=wanted.before, after=wanted.after, limit=wanted.limit, keep=keep)
    return {"rows": [row(log.whole(one.record)) for one in found.entries], "before": found.before, "read": found.read}


def _has_failed(record: Record) -> bool:
    return record.failed_open > 0 or any(one.status in _FAILED for one in record.outcomes)


def row(record: Record) -> dict[str, Any]:
    """An event in a list."""
    turn = record.turn_id.rpartition(":")[2]
    return {
        "seq": record.seq,
        "id": record.id,
        "time": record.time,
        "event": record.event,
        "tool": record.tool or "",
        "session": record.session_id,
        "name": record.session_name,
        "turn": turn if turn.isdigit() else "",
        "project": record.project,
        "host": record.host,
        "decision": "stop" if record.stop else record.decision,
        "reason": (record.reason or "")[:_LONGEST],
        "by": _deciding(record),
        "ms": record.duration_ms,
        "failed": _has_failed(record),
        "text": call_text(record),
        "hooks": hooks_of(record),
    }


def _deciding(record: Record) -> list[str]:
    if record.decision == "none":
        return []
    return [one.hook for one in record.outcomes if one.decision == record.decision]


def whole(root: Path, project: str, id_: str) -> dict[str, Any]:
    """One record with everything that it has. Raises UsageError and StoreError."""
    log = log_of(root, project)
    entry = log.find(id_) if len(id_) >= 8 else None
    if entry is None or entry.record.project != project:
        raise UsageError("this event is not in the log")
    record, problem = entry.record, ""
    try:
        record = log.whole(record)
    except StoreError as error:
        problem = error.message
    state = problem or ("" if is_whole(entry.line) else "hash mismatch: the record was changed")
    return {"row": row(record), "record": record, "effects": _effects(record), "problem": state}


def _effects(record: Record) -> list[Effect]:
    """What the call would do, as far as the record has its input."""
    try:
        return list(getattr(parse(record.payload), "effects", ()))
    except BillhookError:
        return []


def sessions(root: Path) -> list[dict[str, Any]]:
    """The recent sessions of all projects, the newest first."""
    since = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(time.time() - _RECENT))
    found: dict[tuple[str, str], dict[str, Any]] = {}
    for log in logs(root):
        for record in _newest(log, since):
            last = row(record)
            one = found.setdefault(
                (record.project, record.session_id),
                {**{name: last[name] for name in ("session", "name", "project", "host")}, "last": last}
                | {"turn": "", "events": 0, "denied": 0, "asked": 0, "failed": 0, "first": ""},
            )
            one["turn"] = one["turn"] or last["turn"]
            one["events"] += 1
            one["denied"] += record.decision == "deny"
            one["asked"] += record.decision == "ask"
            one["failed"] += last["failed"]
            one["first"] = record.time
    return sorted(found.values(), key=lambda one: one["last"]["time"], reverse=True)


def _newest(log: LogReader, since: str) -> Iterator[Record]:
    for entry in page(log, RecordFilter(since=since), limit=5000, at_most=_TAIL).entries:
        if entry.record.event != TRUST:
            yield entry.record

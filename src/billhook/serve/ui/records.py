"""What the views show of the event logs: sessions, pages of events, one event in full."""

import os
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any, Final

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

    @property
    def of_records(self) -> RecordFilter:
        chosen = {"sessions": self.session, "events": self.event, "tools": self.tool, "decisions": self.decision}
        sets: dict[str, Any] = {name: frozenset((value,)) for name, value in chosen.items() if value}
        return RecordFilter(project=self.project, hook=self.hook or None, text=self.text or None, **sets)


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


def listed(root: Path, query: Mapping[str, str]) -> dict[str, Any]:
    """A page of events, newest first. It may be short, or empty, although there are older ones: then `before` is the
    place at which the next page begins, because one page reads only some of a log. Raises UsageError."""
    try:
        filter_ = msgspec.convert(dict(query), PageFilter, strict=False)
    except msgspec.ValidationError as error:
        raise UsageError(f"invalid filter: {error}") from None
    log, keep = log_of(root, filter_.project), _has_failed if filter_.failed else None
    found = page(log, filter_.of_records, before=filter_.before, after=filter_.after, limit=filter_.limit, keep=keep)
    return {"rows": [row(log.whole(one.record)) for one in found.entries], "before": found.before, "read": found.read}


def _has_failed(record: Record) -> bool:
    return record.failed_open > 0 or any(one.status in _FAILED for one in record.outcomes)


def row(record: Record) -> dict[str, Any]:
    """An event in a list."""
    turn, decision = record.turn_id.rpartition(":")[2], record.decision
    by = [one.hook for one in record.outcomes if one.decision == decision != "none"]
    return {name: getattr(record, name) for name in ("seq", "id", "time", "event", "project", "host")} | {
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


def whole(root: Path, project: str, id_: str) -> dict[str, Any]:
    """One record with everything that it has. Raises UsageError."""
    log = log_of(root, project)
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
    return {"row": row(record), "record": record, "effects": effects, "problem": problem}


def sessions(root: Path) -> list[dict[str, Any]]:
    """The recent sessions of all projects, the newest first."""
    since = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(time.time() - _RECENT))
    found: dict[tuple[str, str], dict[str, Any]] = {}
    for log in logs(root):
        newest = page(log, RecordFilter(since=since), limit=5000, at_most=_TAIL).entries
        for last in (row(one.record) for one in newest if one.record.event != TRUST):
            same = {name: last[name] for name in ("session", "name", "turn", "project", "host")}
            none = {**same, "last": last, "events": 0, "denied": 0, "asked": 0, "failed": 0}
            one = found.setdefault((last["project"], last["session"]), none)
            one["turn"] = one["turn"] or last["turn"]
            one["events"] += 1
            one["denied"] += last["decision"] == "deny"
            one["asked"] += last["decision"] == "ask"
            one["failed"] += last["failed"]
    return sorted(found.values(), key=lambda one: one["last"]["time"], reverse=True)

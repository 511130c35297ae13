"""What the page shows: sessions, pages of events, one event in full, the output of billhook's commands, and news."""

import asyncio
import logging
import os
import shutil
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any, Final

import msgspec
from starlette.responses import Response

from billhook.approvals.queue import Questions, watcher
from billhook.config.log_summary import call_text
from billhook.config.trust import TRUST
from billhook.core import strictjson
from billhook.core.errors import BillhookError, StrictJSONError, UsageError
from billhook.core.events import parse
from billhook.core.functions import in_thread
from billhook.effects.effect import Effect
from billhook.runners import process
from billhook.serve.http import EventResponse, EventStream, StreamReader
from billhook.serve.http.access import problem
from billhook.store.files import StoreError, stamp
from billhook.store.log import ALL, Record, RecordFilter, is_whole
from billhook.store.log.eventlog import CURRENT
from billhook.store.log.pages import MachineLogs, page
from billhook.store.log.reader import LogReader, hooks_of

MOST_LOGS: Final = 30
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

    def of_records(self, project: str) -> RecordFilter:
        chosen = {"sessions": self.session, "events": self.event, "tools": self.tool, "decisions": self.decision}
        sets: dict[str, Any] = {name: frozenset((value,)) for name, value in chosen.items() if value}
        return RecordFilter(project=project, hook=self.hook or None, text=self.text or None, **sets)


def projects(logs: MachineLogs) -> list[str]:
    """The projects with events, the most recent first."""
    newest = ((log, page(log, ALL, limit=1, at_most=_TAIL).entries) for log in logs.all()[:MOST_LOGS])
    return list(dict.fromkeys(logs.named(log, found[0].record.project) for log, found in newest if found))


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


def whole(logs: MachineLogs, name: str, id_: str) -> dict[str, Any]:
    """One record with everything that it has. Raises UsageError."""
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
    for log in logs.all()[:MOST_LOGS]:
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


# Views that need much work: the output of billhook's own commands, from a process of low priority.
#
# They run beside the daemon, so that no verdict waits for them. Equal requests share one process, and its result is
# kept for some seconds.

_KEPT: Final = 5.0
_TIMEOUT: Final = 60.0
_AT_ONCE: Final = 2
_MOST: Final = 32
_COMMANDS: Final = {name: ("billhook", name, "--json") for name in ("list", "check", "doctor", "explain")} | {
    "summary": ("billhook.config.log_summary", "{project}")
}
_PROGRAM: Final = (sys.executable, "-P", "-X", "utf8", "-m")


class Commands:
    """The results of commands. Lives as long as the HTTP server."""

    def __init__(self, logs: MachineLogs) -> None:
        self._logs = logs
        self._results: dict[tuple[str, ...], tuple[float, asyncio.Task[list[Any]]]] = {}
        self._room = asyncio.Semaphore(_AT_ONCE)

    async def get(self, name: str, project: str, id_: str = "") -> list[Any]:
        """The values that a command prints. Raises UsageError."""
        if name not in _COMMANDS or (id_ and not (id_.isalnum() and id_.isascii())):
            raise UsageError("unknown command")
        if name != "summary":
            self._logs.folder(project)
        key, now = (name, project, id_), time.monotonic()
        made, task = self._results.get(key, (0.0, None))
        if task is None or (task.done() and now - made > _KEPT):
            while len(self._results) >= _MOST:
                del self._results[next(iter(self._results))]
            task = asyncio.ensure_future(self._run(name, project, id_))
            self._results[key] = now, task
        return await asyncio.shield(task)

    async def _run(self, name: str, project: str, id_: str) -> list[Any]:
        log, path = self._logs.find(project)
        nice = [program, "-n", "10"] if (program := shutil.which("nice")) else []
        argv = [*nice, *_PROGRAM, *(word.replace("{project}", path) for word in (*_COMMANDS[name], id_) if word)]
        kept = bytearray()
        async with self._room:
            env = {**os.environ, "BILLHOOK_HOME": str(log.root)}
            cwd = str(log.folder) if name == "summary" else path
            ended = await process.start(argv, stdin=b"", env=env, cwd=cwd, keep=kept).wait(_TIMEOUT)
        with suppress(StrictJSONError):
            lines = [line for line in bytes(kept).splitlines() if line.strip()]
            if lines or (ended is not None and ended.code in (0, 1)):
                return [strictjson.loads_leniently(line, max_depth=500) for line in lines]
        told = "" if ended is None else ended.stderr.decode("utf-8", "replace").strip().partition("\n")[0]
        why = "it took too long" if ended is not None and ended.timed_out else told or "no output"
        raise UsageError(f"`billhook {name}` failed: {why}", hint="run it in a terminal")


# News for open pages: new events and questions, as server-sent events.
#
# Nothing is added to the path of a verdict. While a page is open, the logs are checked a few times per second; what is
# new is read, encoded once, and sent to every page. So events count that another process recorded, too.

INTERVAL: Final = 0.3
_MOST_NEWS: Final = 200  # events in one message; a page that missed some reads them again
_log = logging.getLogger("billhook.serve")


class Live:
    """The stream for open pages. Lives as long as the HTTP server; works only while a page is open."""

    def __init__(self, logs: MachineLogs, questions: Questions) -> None:
        self.stream = EventStream()
        self._logs, self._questions = logs, questions
        self._task: asyncio.Task[None] | None = None
        self._seen: dict[Path, tuple[tuple[int, ...], int]] = {}  # by log: the file's state, the newest number
        self._watcher = watcher(logs.root)
        self._asked: tuple[int, ...] = ()
        self._began = False  # a log that is new from now on has only new events

    def response(self) -> Response:
        """A stream for one page."""
        reader = StreamReader(frozenset(), frozenset())
        if not self.stream.join(reader):
            return problem(503, "too many pages are open", hint="close another page")
        if self._task is None or self._task.done():
            self._task = asyncio.ensure_future(self._run())
        return EventResponse(self.stream, reader)

    @property
    def busy(self) -> bool:
        return bool(self.stream.readers)

    async def _run(self) -> None:
        self._seen, self._began = {}, False
        await in_thread(self._news)  # what is already there
        self._began = True
        while self.stream.readers:
            await asyncio.sleep(INTERVAL)
            try:
                if not self._watcher.held:
                    await in_thread(lambda: self._watcher.acquire(INTERVAL))
                news = await in_thread(self._news)
            except (BillhookError, OSError) as error:
                _log.warning("the page can't read the logs: %s", error)
                continue
            if news:
                message = b"event: news\ndata: " + msgspec.json.encode(news) + b"\n\n"
                for reader in self.stream.readers:
                    reader.put(message)
        self._watcher.close()

    def _news(self) -> dict[str, Any]:
        found = [one for log in self._logs.all()[:MOST_LOGS] for one in self._new_in(log)]
        news: dict[str, Any] = {"rows": found} if len(found) < _MOST_NEWS else {"missed": True}
        news = news if found else {}
        asked = self._questions.stamp()
        if asked != self._asked:
            self._asked = asked
            news["questions"] = [one.shown for one in self._questions.all()]
        return news

    def _new_in(self, log: LogReader) -> list[dict[str, Any]]:
        """The new events of a log, newest first; at most so many as one message has."""
        state = stamp(log.folder / CURRENT)
        before, last = self._seen.get(log.folder, ((), 0))
        if state == before:
            return []
        is_news = self._began or log.folder in self._seen
        found = page(log, ALL, after=last, limit=_MOST_NEWS if is_news else 1)
        self._seen[log.folder] = state, found.entries[0].record.seq if found.entries else last
        new = (one.record for one in found.entries if is_news)
        return [row(record, self._logs.named(log, record.project)) for record in new]

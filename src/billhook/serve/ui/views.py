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
from starlette.requests import Request
from starlette.responses import Response

from billhook.approvals.queue import OPEN, Questions, watcher
from billhook.config.history import about
from billhook.config.trust import TRUST
from billhook.core import strictjson
from billhook.core.errors import BillhookError, StrictJSONError, UsageError
from billhook.core.events import parse
from billhook.core.functions import in_thread
from billhook.core.text import one_line
from billhook.effects.effect import Effect
from billhook.runners import process
from billhook.serve.http import EventResponse, EventStream, StreamReader
from billhook.serve.http.access import problem
from billhook.store.files import StoreError
from billhook.store.log import ALL, Record, RecordFilter, is_whole
from billhook.store.log.pages import MachineLogs, page
from billhook.store.log.reader import LogReader, hooks_of

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
        "text": one_line(about(record), 300),
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


# Views that need much work: the output of billhook's own commands, from a process of low priority.
#
# They run beside the daemon, so that no verdict waits for them.

_TIMEOUT: Final = 60.0
_COMMANDS: Final = {name: ("billhook", name, "--json") for name in ("list", "check", "doctor", "explain")} | {
    "summary": ("billhook.config.history", "{project}")
}
_PROGRAM: Final = (sys.executable, "-P", "-X", "utf8", "-m")


async def output(logs: MachineLogs, query: Mapping[str, str]) -> list[Any]:
    """The values that a command prints. Raises UsageError."""
    name, project, id_ = (query.get(field, "") for field in ("name", "project", "id"))
    if name not in _COMMANDS or (id_ and not (id_.isalnum() and id_.isascii())):
        raise UsageError("unknown command")
    log, path = logs.find(project)
    nice = [program, "-n", "10"] if (program := shutil.which("nice")) else []
    argv = [*nice, *_PROGRAM, *(word.replace("{project}", path) for word in (*_COMMANDS[name], id_) if word)]
    kept, env = bytearray(), {**os.environ, "BILLHOOK_HOME": str(log.root)}
    cwd = str(log.folder) if name == "summary" else logs.folder(project)
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
_MOST: Final = 200  # events in one message; a page that missed some reads them again
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
        self._ready = asyncio.Event()  # it is known what was there before the first page was opened

    async def response(self, request: Request) -> Response:
        """A stream for one page, which gets every event from now on."""
        reader = StreamReader(frozenset(), frozenset())
        if not self.stream.join(reader):
            return problem(503, "too many pages are open", hint="close another page")
        if self._task is None or self._task.done():
            self._ready.clear()
            self._task = asyncio.ensure_future(self._run())
        await self._ready.wait()
        return EventResponse(self.stream, reader)

    async def _run(self) -> None:
        self._seen = {}
        try:
            await in_thread(lambda: [self._new_in(log, 1) for log in self._logs.all()])  # what is there already
        finally:
            self._ready.set()
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
        found = [one for log in self._logs.all() for one in self._new_in(log)]
        news: dict[str, Any] = {} if not found else {"rows": found} if len(found) < _MOST else {"missed": True}
        asked = self._questions.stamp()
        if asked != self._asked:
            self._asked = asked
            news["questions"] = questions(self._questions)
        return news

    def _new_in(self, log: LogReader, at_most: int = _MOST) -> list[dict[str, Any]]:
        """The new events of a log, newest first."""
        before, last = self._seen.get(log.folder, (None, 0))
        stamp = log.stamp
        if stamp == before:
            return []
        found = page(log, ALL, after=last, limit=at_most)
        self._seen[log.folder] = stamp, found.entries[0].record.seq if found.entries else last
        return [row(one.record, self._logs.named(log, one.record.project)) for one in found.entries]

"""News for open pages: new events and questions, as server-sent events.

Nothing is added to the path of a verdict. While a page is open, the logs are checked a few times per second; what is
new is read, encoded once, and sent to every page. So events count that another process recorded, too.
"""

import asyncio
import logging
from pathlib import Path
from typing import Any, Final

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from billhook.approvals.queue import Questions
from billhook.approvals.watching import watcher
from billhook.core.errors import BillhookError
from billhook.core.functions import in_thread
from billhook.serve.http import EventResponse, EventStream, StreamReader
from billhook.serve.http.access import problem
from billhook.serve.ui import records
from billhook.store.log import ALL
from billhook.store.log.folders import MachineLogs
from billhook.store.log.pages import page
from billhook.store.log.reader import LogReader

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

    async def response(self, request: Request) -> Response:
        """A stream for one page."""
        reader = StreamReader(frozenset(), frozenset())
        if not self.stream.join(reader):
            return problem(503, "too many pages are open", hint="close another page")
        if self._task is None or self._task.done():
            self._task = asyncio.ensure_future(self._run())
        return EventResponse(self.stream, reader)

    async def _run(self) -> None:
        self._seen = {}
        await in_thread(lambda: [self._new_in(log, 1) for log in self._logs.all()])  # what is there already
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
            news["questions"] = records.questions(self._questions)
        return news

    def _new_in(self, log: LogReader, at_most: int = _MOST) -> list[dict[str, Any]]:
        """The new events of a log, newest first."""
        before, last = self._seen.get(log.folder, (None, 0))
        stamp = log.stamp
        if stamp == before:
            return []
        found = page(log, ALL, after=last, limit=at_most)
        self._seen[log.folder] = stamp, found.entries[0].record.seq if found.entries else last
        return [records.row(one.record, self._logs.named(log, one.record.project)) for one in found.entries]

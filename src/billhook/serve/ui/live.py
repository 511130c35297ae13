"""News for open pages: new events and questions, as server-sent events.

Nothing is added to the path of a verdict. While a page is open, the logs are checked a few times per second; what is
new is read, encoded once, and sent to every page. So events count that another process recorded, too.
"""

import asyncio
import logging
from pathlib import Path
from typing import Any, Final

import msgspec
from starlette.responses import Response

from billhook.approvals.queue import Questions, watcher
from billhook.core.errors import BillhookError
from billhook.core.functions import in_thread
from billhook.serve.http import EventResponse, EventStream, StreamReader
from billhook.serve.http.access import problem
from billhook.serve.ui import views
from billhook.store.files import stamp
from billhook.store.log import ALL
from billhook.store.log.eventlog import CURRENT
from billhook.store.log.pages import MachineLogs, page
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
        found = [one for log in self._logs.all()[: views.MOST_LOGS] for one in self._new_in(log)]
        news: dict[str, Any] = {"rows": found} if len(found) < _MOST else {"missed": True}
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
        found = page(log, ALL, after=last, limit=_MOST if is_news else 1)
        self._seen[log.folder] = state, found.entries[0].record.seq if found.entries else last
        new = (one.record for one in found.entries if is_news)
        return [views.row(record, self._logs.named(log, record.project)) for record in new]

"""The stream of verdicts, as server-sent events.

Verdicts never wait for readers. Each reader has a queue with a limit for number and bytes; a reader that is too slow
is told how many verdicts it missed.
"""

import asyncio
import logging
import time
from collections import deque
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from billhook.core import strictjson, tools
from billhook.core.answers import Verdict
from billhook.core.errors import UsageError
from billhook.core.events import Event
from billhook.serve.http.access import PLAIN, problem

if TYPE_CHECKING:
    from billhook.config.config import Config
    from billhook.store.redaction import Redactor

HEARTBEAT: Final = 15.0  # seconds without a verdict after which a reader gets a comment
STALLED: Final = 60.0  # seconds after which a reader that reads nothing is disconnected
_MOST_READERS: Final = 64
_MOST_WAITING: Final = 256
_MOST_BYTES: Final = 1024 * 1024
_LARGEST: Final = 128 * 1024  # bytes of one verdict; a larger one is sent as a summary
_GIST: Final = ("id", "time", "event", "session_id", "tool", "cwd", "host", "decision", "stop", "keep_going")
_FILTERS: Final = ("session", "event")
_log = logging.getLogger("billhook.serve")


class StreamReader:
    """One reader of the stream. Lives as long as its connection."""

    def __init__(self, sessions: frozenset[str], events: frozenset[str]) -> None:
        self._sessions, self._events = sessions, events
        self._waiting: deque[bytes] = deque()
        self._bytes = 0
        self._dropped = 0
        self._news = asyncio.Event()
        self._over = False

    def wants(self, event: Event) -> bool:
        return (not self._sessions or event.session_id in self._sessions) and (
            not self._events or event.hook_event_name in self._events
        )

    def put(self, told: bytes) -> None:
        if len(self._waiting) >= _MOST_WAITING or self._bytes + len(told) > _MOST_BYTES:
            self._dropped += 1
        else:
            self._waiting.append(told)
            self._bytes += len(told)
        self._news.set()

    def end(self) -> None:
        self._over = True
        self._news.set()

    async def next(self) -> bytes:
        """The next bytes, at the latest after a heartbeat; empty: the stream is over."""
        if not self._waiting and not self._dropped and not self._over:
            self._news.clear()
            try:
                async with asyncio.timeout(HEARTBEAT):
                    await self._news.wait()
            except TimeoutError:
                return b": still here\n\n"
        if self._waiting:
            told = self._waiting.popleft()
            self._bytes -= len(told)
            return told
        if self._dropped:
            missed, self._dropped = self._dropped, 0
            return _told("dropped", {"dropped": missed})
        return b""


class EventStream:
    """All readers of the stream. Lives as long as the server."""

    def __init__(self) -> None:
        self.readers: set[StreamReader] = set()
        self._over = False

    def tell(self, verdict: Verdict, config: "Config", host: str) -> None:
        """Send a verdict to its readers. Never raises: a verdict does not depend on its readers."""
        try:
            wanting = [reader for reader in self.readers if reader.wants(verdict.about)]
            if wanting:
                told = self._worded(verdict, config, host)
                for reader in wanting:
                    reader.put(told)
        except Exception:
            _log.exception("verdict %s could not be streamed", verdict.id)

    def join(self, reader: StreamReader) -> bool:
        """Add a reader: whether there was room."""
        if self._over or len(self.readers) >= _MOST_READERS:
            return False
        self.readers.add(reader)
        return True

    def end(self) -> None:
        """End the stream for all readers, and accept no more."""
        self._over = True
        for reader in self.readers:
            reader.end()

    def _worded(self, verdict: Verdict, config: "Config", host: str) -> bytes:
        about = verdict.about
        tool = about.payload.get("tool_name")
        names = {
            "id": verdict.id,
            "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            "event": verdict.event,
            "session_id": about.session_id,
            "tool": tools.canonical(tool) if isinstance(tool, str) else None,
            "cwd": about.cwd,
            "host": host,
        }
        rest = {key: value for key, value in verdict.to_dict().items() if key not in names}
        whole = {**names, **self._redactor(config).value(rest), "cut": False}
        told = _told("verdict", whole, verdict.id)
        if len(told) > _LARGEST:
            gist = {key: whole[key] for key in _GIST if len(str(whole[key])) < 4096}
            told = _told("verdict", {**gist, "cut": True}, verdict.id)
        return told

    def _redactor(self, config: "Config") -> "Redactor":
        """The redactor of the log, or a new one if nothing is logged, or if secrets are logged."""
        options = {} if config.recording is None else config.recording.options
        return _redactor(config.root, tuple(options.get("redact_keys", ())))


@lru_cache(maxsize=16)
def _redactor(root: str, more_keys: tuple[str, ...]) -> "Redactor":
    from billhook.store.redaction import redactor

    return redactor(Path(root), more_keys=more_keys)


class EventResponse(Response):
    """A response that lasts until one side ends it."""

    media_type = "text/event-stream"

    def __init__(self, stream: EventStream, reader: StreamReader) -> None:
        super().__init__(headers=PLAIN)
        del self.headers["content-length"]
        self._stream, self._reader = stream, reader

    @classmethod
    def wanted(cls, stream: EventStream, query: Sequence[tuple[str, str]]) -> Response:
        """The stream for a query, or an error response."""
        for name, _ in query:
            if name not in _FILTERS:
                hint = f"the parameters are {' and '.join(_FILTERS)}"
                return problem(400, UsageError(f"unknown parameter `{name[:100]}`", place="query", hint=hint))
        reader = StreamReader(*(frozenset(value for key, value in query if key == name) for name in _FILTERS))
        if not stream.join(reader):
            return problem(503, "too many streams are open", hint="close another stream")
        return cls(stream, reader)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        listening = asyncio.ensure_future(hung_up(receive))
        telling = asyncio.ensure_future(self._tell(scope, send))
        try:
            await asyncio.wait({listening, telling}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._stream.readers.discard(self._reader)
            listening.cancel()
            telling.cancel()
        if telling.done():
            telling.result()

    async def _tell(self, scope: Scope, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
        told = b": watching\n\n" if scope["method"] != "HEAD" else b""
        while told:
            async with asyncio.timeout(STALLED):
                await send({"type": "http.response.body", "body": told, "more_body": True})
            told = await self._reader.next()
        await send({"type": "http.response.body", "body": b""})


async def hung_up(receive: Receive) -> None:
    """Return when the client has closed the connection."""
    while (await receive())["type"] != "http.disconnect":
        pass


def _told(kind: str, value: dict[str, Any], name: str = "") -> bytes:
    """One event of a stream; the JSON has no line breaks."""
    number = f"id: {name}\n" if name else ""
    return f"{number}event: {kind}\n".encode() + b"data: " + strictjson.encode(value) + b"\n\n"

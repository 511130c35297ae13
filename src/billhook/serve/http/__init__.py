"""The daemon over HTTP: its routes, their description (`openapi.json`), the server, and the stream of verdicts."""

import asyncio
import ipaddress
import json
import logging
import os
import re
import socket
import time
from collections import deque
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send
from uvicorn.config import Config as ServerConfig
from uvicorn.server import ServerState

from billhook import __version__
from billhook.core import client_env, strictjson, tools
from billhook.core.answers import Verdict
from billhook.core.client_env import Caller
from billhook.core.errors import BillhookError, UsageError
from billhook.core.events import Event
from billhook.runners.process_tree import MARKER
from billhook.serve.hook_server import DIALECTS, HookResponse
from billhook.serve.http.access import (
    LARGEST_HEAD,
    PLAIN,
    AccessCheck,
    LimitedConnection,
    drain,
    json_response,
    problem,
    token_in,
)
from billhook.serve.http.answer import GLIMPSE, HttpRequest, OverHttp, leave_behind, refusal, refusal_output

if TYPE_CHECKING:
    from billhook.config.config import Config
    from billhook.serve.engine_pool import EnginePool
    from billhook.serve.ui import Page
    from billhook.store.redaction import Redactor


def described(url: str) -> dict[str, Any]:
    """The whole description; `url` is the server's address."""
    description: dict[str, Any] = json.loads(Path(__file__).with_name("openapi.json").read_text(encoding="utf-8"))
    description["info"]["version"] = __version__
    description["servers"] = [{"url": url}]
    description["paths"]["/hook/{dialect}"]["post"]["parameters"][0]["schema"]["enum"] = list(DIALECTS)
    return description


# The routes:

LARGEST: Final = 8 * 1024 * 1024  # bytes of a body
_TOO_LARGE: Final = f"the body is larger than {LARGEST // 1024 // 1024} MiB"
SLOWEST: Final = 30.0  # seconds for a body to arrive
PROJECT: Final = "x-billhook-project"
NOTE: Final = "X-Billhook-Note"
INHERITED: Final = ("HOME", "PATH", "USER", "LANG", "BILLHOOK_HOME", MARKER)
"""The daemon's variables that hooks get, because HTTP clients send none. The last is the marker of all processes that
this daemon starts."""
_MOST_NOTES: Final = 8
_LONGEST_NOTE: Final = 400
_UNPRINTABLE: Final = re.compile(r"[^\x20-\x7e]+")
_log = logging.getLogger("billhook.serve")


class PageApp:
    """The page alone, for a process that judges no events. Lives as long as the server."""

    def __init__(self, page: "Page", routes: Sequence[Route] = ()) -> None:
        self.page = page
        self.busy = self.taken = 0  # events that are being answered, and all events so far
        self.touched = asyncio.get_running_loop().time()  # the last request with a valid token
        self.stream = EventStream()
        handlers: Any = {HTTPException: _refused, Exception: _crashed}
        self.starlette = Starlette(routes=[*routes, *page.routes], exception_handlers=handlers)
        self.starlette.router.redirect_slashes = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["path"] != "/healthz":
            self.touched = asyncio.get_running_loop().time()
        try:
            await self.starlette(scope, receive, send)
        except ClientDisconnect:
            pass
        except Exception:  # the error response was already sent
            _log.exception("internal error, over HTTP")


class App(PageApp):
    """The HTTP application. Lives as long as the server."""

    def __init__(self, served: "EnginePool") -> None:
        from billhook.serve.ui import Page  # it uses this module

        self._environment = lru_cache(maxsize=64)(_environment)
        """The same object for the same project, because caches use its identity."""
        self._served = served
        routes = [
            Route("/healthz", self._health),
            Route("/openapi.json", self._openapi),
            Route("/events", self._events),
            Route("/fire", self._fire, methods=["POST"]),
            Route("/hook/{dialect}", self._hook, methods=["POST"]),
        ]
        super().__init__(Page(), routes)
        served.observers.append(self.stream.publish)

    # -- about itself

    async def _health(self, request: Request) -> Response:
        return json_response({"status": "ok", "version": __version__})

    async def _openapi(self, request: Request) -> Response:
        return json_response(described(str(request.base_url).rstrip("/")))

    async def _events(self, request: Request) -> Response:
        return EventResponse.for_query(self.stream, request.query_params.multi_items())

    # -- events of agents

    async def _hook(self, request: Request) -> Response:
        dialect = request.path_params["dialect"]
        if dialect not in DIALECTS:
            await drain(request.scope, request.receive)
            hint = f"use one of {', '.join(DIALECTS)}"
            error = BillhookError(f"unknown dialect `{dialect[:100]}`", place="path", hint=hint)
            return problem(404, error, headers={"connection": "close"})
        try:
            answering, hook_response = await self._answered(request, dialect, f"http:{dialect}")
            return self._worded(answering, hook_response)
        except (ClientDisconnect, HTTPException):
            raise
        except Exception as error:  # with an error status the event would continue
            _log.exception("internal error, over HTTP")
            if request.query_params.get("on_failure") == "allow":
                raise
            return json_response(refusal_output(f"internal error: {type(error).__name__}", dialect))

    def _worded(self, answering: OverHttp, hook_response: HookResponse) -> Response:
        body = hook_response.stdout
        if not body and hook_response.code:
            body = strictjson.encode(refusal_output(answering.why, answering.dialect_name))
        if not body and answering.arguments.on_failure != "allow":
            return self._unjudged(answering)
        response = Response(
            (body or b"{}") + b"\n", media_type="application/json", headers={**PLAIN, **_parting(answering)}
        )
        for line in hook_response.lines[:_MOST_NOTES]:  # a command hook prints them on stderr
            response.headers.append(NOTE, _UNPRINTABLE.sub(" ", line)[:_LONGEST_NOTE].strip())
        return response

    async def _fire(self, request: Request) -> Response:
        answering, hook_response = await self._answered(request, "claude", "http")
        if answering.verdict is not None and not answering.why:
            return json_response(answering.verdict.to_dict())
        if answering.fault is None and (hook_response.stdout or hook_response.code):
            return json_response(refusal(answering).to_dict())
        return self._unjudged(answering)

    def _unjudged(self, answering: OverHttp) -> Response:
        fault = answering.fault
        error = fault if fault is not None else BillhookError(answering.why)
        return problem(answering.status, error, headers=_parting(answering))

    async def _answered(self, request: Request, dialect: str, host: str) -> tuple[OverHttp, HookResponse]:
        """The answer to the event of a request. If the client disconnects, its hooks are ended."""
        self.busy += 1
        self.taken += 1
        try:
            sent = await _sent(request)
            query = request.query_params.multi_items()
            answering = OverHttp(self._served, sent, query, dialect=dialect, host=host)
            with client_env.Serving(Caller(self._environment(sent.project), sent.project)):
                task = asyncio.ensure_future(answering.answer([]))
            gone = asyncio.ensure_future(asyncio.sleep(SLOWEST) if sent.unread else hung_up(request.receive))
            try:
                await asyncio.wait({task, gone}, return_when=asyncio.FIRST_COMPLETED)
            finally:
                gone.cancel()
                if not task.done():
                    leave_behind(task)
            if not task.done():
                raise ClientDisconnect
            return answering, task.result()
        finally:
            self.busy -= 1


def _environment(project: str) -> dict[str, str]:
    inherited = {name: os.environ[name] for name in INHERITED if name in os.environ}
    return {**inherited, "CLAUDE_PROJECT_DIR": project} if project else inherited


async def _sent(request: Request) -> HttpRequest:
    """The body, up to the size and time limits."""
    project = request.headers.get(PROJECT, "").encode("latin-1").decode("utf-8", "surrogateescape")
    project = "" if project.startswith("$") else project  # an agent that does not set this variable
    if request.headers.get("content-encoding", "identity").strip().lower() != "identity":
        raise HTTPException(415, "the body is compressed; send it uncompressed")
    announced = request.headers.get("content-length", "")
    if announced and (len(announced) > 15 or int(announced) > LARGEST) and "expect" in request.headers:
        return HttpRequest(b"", unread=_TOO_LARGE, project=project)
    parts = bytearray()
    try:
        async with asyncio.timeout(SLOWEST):
            unread = await _read_body(request, parts)
    except TimeoutError:
        unread = f"the body did not arrive within {SLOWEST:g} s"
    return HttpRequest(bytes(parts[:GLIMPSE] if unread else parts), unread=unread, project=project)


async def _read_body(request: Request, parts: bytearray) -> str:
    """Read the body: why it was not read completely, or an empty string."""
    more = True
    while more:
        message = await request.receive()
        if message["type"] == "http.disconnect":
            raise ClientDisconnect
        parts += message.get("body", b"")
        more = message.get("more_body", False)
        if len(parts) > LARGEST:
            if more:  # otherwise this would wait for data that never arrives
                await drain(request.scope, request.receive)
            return _TOO_LARGE
    return ""


def _parting(answering: OverHttp) -> dict[str, str]:
    """Headers that close the connection if the body was not read completely."""
    return {"connection": "close"} if answering.sent.unread else {}


async def _refused(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    headers = {**(error.headers or {}), "connection": "close"}
    await drain(request.scope, request.receive)
    path = request.url.path[:200]
    if error.status_code == 404:
        return problem(404, f"not found: `{path}`", hint="GET /openapi.json lists the paths", headers=headers)
    if error.status_code == 405:
        hint = f"use {headers.get('Allow', '')}"
        return problem(405, f"{request.method} is not allowed for `{path}`", hint=hint, headers=headers)
    return problem(error.status_code, error.detail, headers=headers)


async def _crashed(request: Request, error: Exception) -> Response:
    return problem(500, f"internal error: {type(error).__name__}", hint="see the daemon's log")


# The daemon over HTTP:

TIMEOUT: Final = 30.0  # seconds for pending requests when the server is closed
_BACKLOG: Final = 512
_IDLE: Final = 15  # seconds that a connection may be idle between two requests


class Http:
    """A server that listens. Lives until it is closed."""

    def __init__(self, url: str, token: Path, app: PageApp, listener: asyncio.AbstractServer, state: Any) -> None:
        self.url = url  # where it listens, for example `http://127.0.0.1:8123`
        self.token = token  # the file with the token
        self.app = app
        self._listener, self._state = listener, state

    async def close(self, seconds: float = TIMEOUT) -> None:
        """Accept no more requests, end the streams, and let pending requests finish."""
        self._listener.close()
        self.app.stream.end()
        self.app.page.live.stream.end()
        for connection in list(self._state.connections):
            connection.shutdown()
        if self._state.tasks:
            _, late = await asyncio.wait(list(self._state.tasks), timeout=seconds)
            for task in late:
                task.cancel()
        for connection in list(self._state.connections):
            if not connection.transport.is_closing():
                connection.transport.abort()
        await asyncio.sleep(0)


async def serve(served: "EnginePool", host: str, port: int, folder: Path, *, exposed: bool = False) -> Http:
    """Listen, in the running loop, and answer with the engines of `served`; `folder` is the daemon's, for the token.

    Raises UsageError if the port is in use, or if the address is not on the loopback and `exposed` is false; StoreError
    if the token's file can't be created or is not valid.
    """
    return await _listen(App(served), host, port, folder, exposed=exposed)


async def serve_page(page: "Page", folder: Path) -> Http:
    """Listen on a free port of the loopback, with nothing but a page. Raises StoreError."""
    return await _listen(PageApp(page), "127.0.0.1", 0, folder, exposed=False)


async def _listen(app: PageApp, host: str, port: int, folder: Path, *, exposed: bool) -> Http:
    token, file = token_in(folder)
    sock = await _bound(host, port, exposed=exposed)
    bound = sock.getsockname()[1]
    config = ServerConfig(
        AccessCheck(app, token, host=host, port=bound, exposed=exposed),
        http=LimitedConnection,
        ws="none",
        lifespan="off",
        interface="asgi3",
        log_config=None,
        log_level="error",
        access_log=False,
        proxy_headers=False,  # there is no proxy in front of this server
        server_header=False,
        date_header=False,
        timeout_keep_alive=_IDLE,
        h11_max_incomplete_event_size=LARGEST_HEAD,
    )
    config.load()
    state = ServerState()
    loop = asyncio.get_running_loop()
    listener = await loop.create_server(lambda: LimitedConnection(config, state, {}), sock=sock, backlog=_BACKLOG)
    return Http(f"http://{_shown(host)}:{bound}", file, app, listener, state)


async def _bound(host: str, port: int, *, exposed: bool) -> socket.socket:
    """A socket at the address, if the address is allowed."""
    loop = asyncio.get_running_loop()
    try:
        found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except (OSError, UnicodeError) as error:
        raise UsageError(f"unknown address `{host}`: {error}", hint="use 127.0.0.1") from None
    for *_, place in found:
        if not exposed and not ipaddress.ip_address(str(place[0]).partition("%")[0]).is_loopback:
            raise UsageError(
                f"`{host}` can be reached from other machines",
                hint="use 127.0.0.1; or add --exposed, if other machines should connect: the token is sent over the "
                "network unencrypted, and everyone who has it can run your hooks",
            )
    family, kind, protocol, _, place = found[0]
    sock = socket.socket(family, kind, protocol)
    try:
        sock.setblocking(False)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        sock.bind(place)
    except OSError as error:
        sock.close()
        raise UsageError(
            f"can't listen on {_shown(host)}:{port}: {error.strerror}", hint="choose another port"
        ) from None
    return sock


def _shown(host: str) -> str:
    return f"[{host}]" if ":" in host else host


# The stream of verdicts, as server-sent events. Verdicts never wait for readers: each reader has a queue with a limit
# for number and bytes, and a reader that is too slow is told how many verdicts it missed.

HEARTBEAT: Final = 15.0  # seconds without a verdict after which a reader gets a comment
STALLED: Final = 60.0  # seconds after which a reader that reads nothing is disconnected
_MOST_READERS: Final = 64
_MOST_WAITING: Final = 256
_MOST_BYTES: Final = 1024 * 1024
_LARGEST_VERDICT: Final = 128 * 1024  # bytes of one verdict; a larger one is sent as a summary
_GIST: Final = ("id", "time", "event", "session_id", "tool", "cwd", "host", "decision", "stop", "keep_going")
_FILTERS: Final = ("session", "event")


class StreamReader:
    """One reader of the stream. Lives as long as its connection."""

    def __init__(self, sessions: frozenset[str], events: frozenset[str]) -> None:
        self._sessions, self._events = sessions, events
        self._waiting: deque[bytes] = deque()
        self._bytes = 0
        self._dropped = 0
        self._news = asyncio.Event()
        self._over = False

    def handles(self, event: Event) -> bool:
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
            return _sse_event("dropped", {"dropped": missed})
        return b""


class EventStream:
    """All readers of the stream. Lives as long as the server."""

    def __init__(self) -> None:
        self.readers: set[StreamReader] = set()
        self._over = False

    def publish(self, verdict: Verdict, config: "Config", host: str) -> None:
        """Send a verdict to its readers. Never raises: a verdict does not depend on its readers."""
        try:
            wanting = [reader for reader in self.readers if reader.handles(verdict.about)]
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
        told = _sse_event("verdict", whole, verdict.id)
        if len(told) > _LARGEST_VERDICT:
            gist = {key: whole[key] for key in _GIST if len(str(whole[key])) < 4096}
            told = _sse_event("verdict", {**gist, "cut": True}, verdict.id)
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
    def for_query(cls, stream: EventStream, query: Sequence[tuple[str, str]]) -> Response:
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
        telling = asyncio.ensure_future(self._stream_body(scope, send))
        try:
            await asyncio.wait({listening, telling}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._stream.readers.discard(self._reader)
            listening.cancel()
            telling.cancel()
        if telling.done():
            telling.result()

    async def _stream_body(self, scope: Scope, send: Send) -> None:
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


def _sse_event(kind: str, value: dict[str, Any], name: str = "") -> bytes:
    """One event of a stream; the JSON has no line breaks."""
    number = f"id: {name}\n" if name else ""
    return f"{number}event: {kind}\n".encode() + b"data: " + strictjson.encode(value) + b"\n\n"

"""The page of `billhook ui`: static files, JSON about logs and hooks, a live stream, and answers to questions.

The only thing that it changes is the answer to a question.
"""

import asyncio
import getpass
import hashlib
import secrets
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import msgspec
from starlette.datastructures import QueryParams
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from billhook import __version__
from billhook.approvals.channels import PATH
from billhook.approvals.queue import AnsweredError, Questions
from billhook.core.errors import BillhookError, UsageError
from billhook.core.functions import in_thread
from billhook.serve import answer_links, control
from billhook.serve.http.access import STRICT, json_response, problem
from billhook.serve.ui import views
from billhook.serve.ui.views import Live
from billhook.store.files import StoreError, remove, state_root
from billhook.store.log.pages import MachineLogs

CODE_SECONDS: Final = 120.0
_COOKIE_SECONDS: Final = 12 * 3600.0
_MOST: Final = 64


class Login:
    """The valid codes and cookies, as digests. Lives as long as the HTTP server."""

    def __init__(self) -> None:
        self._codes: dict[bytes, float] = {}
        self._cookies: dict[bytes, float] = {}

    def code(self) -> str:
        """A new code, valid once and for two minutes."""
        return _new(self._codes, CODE_SECONDS)

    def enter(self, code: str) -> str:
        """The secret of a new cookie, in exchange for a code; empty if the code is not valid."""
        until = self._codes.pop(_digest(code), 0.0)
        return _new(self._cookies, _COOKIE_SECONDS) if until > time.monotonic() else ""

    def is_logged_in(self, request: Request) -> bool:
        """Whether the request has a valid cookie."""
        return self._cookies.get(_digest(request.cookies.get(self.cookie(request), "")), 0.0) > time.monotonic()

    def cookie(self, request: Request) -> str:
        """The name of the cookie. Browsers send cookies to every port of a host, so it has the port."""
        return f"billhook_{request.url.port}"


def is_from_page(request: Request) -> bool:
    """Whether the page itself sent the request: browsers add the origin to every POST."""
    return request.headers.get("origin", "").lower() == f"http://{request.headers.get('host', '').lower()}"


def _new(known: dict[bytes, float], seconds: float) -> str:
    now, secret = time.monotonic(), secrets.token_urlsafe(32)
    for old in [digest for digest, until in known.items() if until < now]:
        del known[old]
    while len(known) >= _MOST:
        del known[next(iter(known))]
    known[_digest(secret)] = now + seconds
    return secret


def _digest(secret: str) -> bytes:
    return hashlib.sha256(secret.encode("utf-8", "replace")).digest()


# The page:

_STATIC: Final = Path(__file__).parent / "static"
_TYPES: Final = {".html": "text/html", ".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml",
                 ".txt": "text/plain"}  # fmt: skip
_LARGEST: Final = 16 << 10  # bytes of a request's body
_AT_ONCE: Final = 2
_Handler = Callable[[Request], Awaitable[Response]]


class Page:
    """The routes of the page. Lives as long as the HTTP server."""

    def __init__(self, logs: MachineLogs | None = None, questions: Questions | None = None) -> None:
        self.logs = logs or MachineLogs(state_root())
        self.root = self.logs.root
        self.login = Login()
        self.questions = questions or Questions(self.root)
        self.live = Live(self.logs, self.questions)
        shown: dict[str, Callable[[QueryParams], Awaitable[Any]]] = {
            "now": lambda query: in_thread(lambda: views.now(self.logs, self.questions)),
            "events": lambda query: in_thread(lambda: views.listed(self.logs, query)),
            "event": lambda query: in_thread(lambda: views.whole(self.logs, query)),
            "command": lambda query: views.output(self.logs, query),
        }
        self.routes = [
            Route("/ui/login", self._enter, methods=["POST"]),
            Route("/ui/api/live", self._inside(self.live.response)),
            Route("/ui/api/answer", self._inside(self._answer), methods=["POST"]),
            *(Route(f"/ui/api/{name}", self._inside(_view(work))) for name, work in shown.items()),
            Route("/ui/{name:path}", self._file),
            Route(f"{PATH}app.css", self._file),
            answer_links.route(self.root),
        ]

    def _inside(self, handler: _Handler) -> _Handler:
        """The handler, for requests with the cookie. Those that change something also need the page's Origin."""

        async def checked(request: Request) -> Response:
            if not self.login.is_logged_in(request):
                return problem(401, UsageError("this browser is not logged in", hint="run `billhook ui`"))
            if request.method == "POST" and not is_from_page(request):
                return problem(403, "the request is not from the page", headers=STRICT)
            try:
                return await handler(request)
            except BillhookError as error:
                return problem(400, error, headers=STRICT)

        return checked

    async def _file(self, request: Request) -> Response:
        name = request.path_params.get("name", "app.css") or "index.html"
        known = {path.name: path for path in _STATIC.iterdir()}
        if name not in known:
            raise HTTPException(404)
        kind = _TYPES[known[name].suffix]
        return Response(known[name].read_bytes(), headers={**STRICT, "content-type": f"{kind}; charset=utf-8"})

    async def _enter(self, request: Request) -> Response:
        if not is_from_page(request):
            return problem(403, "the request is not from the page", headers=STRICT)
        secret = self.login.enter(str((await _body(request)).get("code", "")))
        if not secret:
            error = UsageError("this link has expired or was used already", hint="run `billhook ui`")
            return problem(401, error, headers=STRICT)
        with suppress(StoreError):  # `billhook ui` opened the link with this file
            remove(control.folder_of(self.root) / control.PAGE_FILE, root=self.root)
        response = json_response({"version": __version__}, headers=STRICT)
        response.set_cookie(self.login.cookie(request), secret, path="/ui", httponly=True, samesite="strict")
        return response

    async def _answer(self, request: Request) -> Response:
        body = await _body(request)
        if not isinstance(body.get("allow"), bool):
            raise UsageError("`allow` must be a boolean")
        id_, why = str(body.get("id", "")), str(body.get("why", ""))[:1000]
        await answer_links.refuse_agents(request)
        try:
            await in_thread(lambda: self.questions.answer(id_, body["allow"], getpass.getuser(), "page", why))
        except AnsweredError as error:
            return problem(409, error, headers=STRICT)
        return _json({"answered": True})


def _view(work: Callable[[QueryParams], Awaitable[Any]]) -> _Handler:
    """What a view shows. Requests take turns, and equal ones that wait share the result, because all open pages ask at
    the same time."""
    turn, waiting = asyncio.Semaphore(_AT_ONCE), dict[str, asyncio.Task[Any]]()

    async def run(query: QueryParams, key: str) -> Any:
        async with turn:
            del waiting[key]  # a later request gets what is new by then
            return await work(query)

    async def shown(request: Request) -> Response:
        query, key = request.query_params, request.url.query
        if key not in waiting:
            waiting[key] = asyncio.ensure_future(run(query, key))
        return _json(await asyncio.shield(waiting[key]))

    return shown


def _json(value: object) -> Response:
    return Response(msgspec.json.encode(value), headers={**STRICT, "content-type": "application/json"})


async def _body(request: Request) -> dict[str, Any]:
    """A small JSON object. Forms of other pages can't send this type."""
    data = bytearray()
    async for part in request.stream():
        data += part
        if len(data) > _LARGEST:
            raise HTTPException(413, "the body is too large")
    try:
        if request.headers.get("content-type") != "application/json":
            raise HTTPException(415, "the body must be JSON")
        return msgspec.json.decode(bytes(data), type=dict[str, Any])
    except msgspec.MsgspecError:
        raise HTTPException(400, "the body is not a JSON object") from None

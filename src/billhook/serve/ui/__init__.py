"""The page of `billhook ui`: static files, JSON about logs and hooks, a live stream, and answers to questions.

The only thing that it changes is the answer to a question.
"""

import getpass
import html
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlencode

import msgspec
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from billhook import __version__
from billhook.agents.around import agent_at_port
from billhook.approvals import links
from billhook.approvals.queue import AnsweredError, Questions
from billhook.core.errors import BillhookError, UsageError
from billhook.core.functions import in_thread
from billhook.serve import control
from billhook.serve.http.access import PLAIN, json_response, problem
from billhook.serve.ui import records
from billhook.serve.ui.commands import Commands
from billhook.serve.ui.live import Live
from billhook.serve.ui.login import Login, is_from_page
from billhook.store.files import StoreError, remove, state_root

_STATIC: Final = Path(__file__).parent / "static"
_TYPES: Final = {".html": "text/html", ".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; "
    "form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
)
HEADERS: Final = {
    **PLAIN,
    "content-security-policy": _POLICY,
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}
_LARGEST: Final = 16 << 10  # bytes of a request's body
_Handler = Callable[[Request], Awaitable[Response]]


class Page:
    """The routes of the page. Lives as long as the HTTP server."""

    def __init__(self) -> None:
        self.root = state_root()
        self.login = Login()
        self.questions = Questions(self.root)
        self.live = Live(self.root, self.questions)
        self.commands = Commands()
        api = {"now": self._now, "events": self._events, "event": self._event, "command": self._command}
        self.routes = [
            Route("/ui/login", self._enter, methods=["POST"]),
            Route("/ui/api/live", self._inside(self._live)),
            Route("/ui/api/answer", self._inside(self._answer), methods=["POST"]),
            *(Route(f"/ui/api/{name}", self._inside(handler)) for name, handler in api.items()),
            Route("/ui/{name:path}", self._file),
            Route("/approve/{id}", self._link, methods=["GET", "POST"]),
        ]

    def _inside(self, handler: _Handler) -> _Handler:
        """The handler, for requests with the cookie. Those that change something also need the page's Origin."""

        async def checked(request: Request) -> Response:
            if not self.login.knows(request):
                return problem(401, UsageError("this browser is not logged in", hint="run `billhook ui`"))
            if request.method == "POST" and not is_from_page(request):
                return problem(403, "the request is not from the page", headers=HEADERS)
            try:
                return await handler(request)
            except BillhookError as error:
                return problem(400, error, headers=HEADERS)

        return checked

    async def _file(self, request: Request) -> Response:
        name = request.path_params["name"] or "index.html"
        known = {path.name: path for path in _STATIC.iterdir()}
        if name not in known:
            raise HTTPException(404)
        kind = _TYPES[known[name].suffix]
        return Response(known[name].read_bytes(), headers={**HEADERS, "content-type": f"{kind}; charset=utf-8"})

    async def _enter(self, request: Request) -> Response:
        if not is_from_page(request):
            return problem(403, "the request is not from the page", headers=HEADERS)
        secret = self.login.enter(str((await _body(request)).get("code", "")))
        if not secret:
            error = UsageError("this link has expired or was used already", hint="run `billhook ui`")
            return problem(401, error, headers=HEADERS)
        with suppress(StoreError):  # `billhook ui` opened the link with this file
            remove(control.folder_of(self.root) / control.PAGE_FILE, root=self.root)
        response = json_response({"version": __version__}, headers=HEADERS)
        response.set_cookie(self.login.cookie(request), secret, path="/ui", httponly=True, samesite="strict")
        return response

    # -- what the views show

    async def _now(self, request: Request) -> Response:
        found = await in_thread(lambda: records.sessions(self.root))
        projects = await in_thread(lambda: records.projects(self.root))
        questions = await in_thread(self.live.open_questions)
        return _json({"sessions": found, "projects": projects, "questions": questions})

    async def _events(self, request: Request) -> Response:
        wanted = records.PageFilter.of(request.query_params)
        return _json(await in_thread(lambda: records.listed(self.root, wanted)))

    async def _event(self, request: Request) -> Response:
        project, id_ = request.query_params.get("project", ""), request.query_params.get("id", "")
        return _json(await in_thread(lambda: records.whole(self.root, project, id_)))

    async def _command(self, request: Request) -> Response:
        query = request.query_params
        return _json(await self.commands.get(query.get("name", ""), query.get("project", ""), query.get("id", "")))

    async def _live(self, request: Request) -> Response:
        return self.live.response()

    # -- answers

    async def _answer(self, request: Request) -> Response:
        body = await _body(request)
        if not isinstance(body.get("allow"), bool):
            raise UsageError("`allow` must be a boolean")
        id_, why = str(body.get("id", "")), str(body.get("why", ""))[:1000]
        await _refuse_agents(request)
        try:
            await in_thread(lambda: self.questions.answer(id_, body["allow"], getpass.getuser(), "page", why))
        except AnsweredError as error:
            return problem(409, error, headers=HEADERS)
        return _json({"answered": True})

    async def _link(self, request: Request) -> Response:
        """A signed link: GET shows the question, POST answers it. The signature is all that counts."""
        fields, id_ = dict(request.query_params), request.path_params["id"]
        answer = fields.pop("answer", "")
        try:
            if request.method == "POST":
                owner = links.check(self.root, id_, answer, fields)
                await _refuse_agents(request)
                allow = answer == "allow"
                await in_thread(lambda: self.questions.answer(id_, allow, owner.by, owner.via))
                return _sheet(200, "Allowed" if allow else "Denied", "You can close this page.")
            links.check(self.root, id_, "allow", fields)
            return self._asked(id_, fields)
        except AnsweredError as error:
            return _sheet(409, "Already answered", error.message)
        except BillhookError as error:
            return _sheet(403, "This link does not work", error.message)

    def _asked(self, id_: str, fields: Mapping[str, str]) -> Response:
        one = self.questions.find(id_)
        if one is None:
            return _sheet(404, "This question is over", "The agent can repeat the call.")
        if one.answer:
            raise AnsweredError(one)
        if one.state == "expired":
            return _sheet(410, "This question has expired", "The agent can repeat the call.")
        buttons = "".join(
            f'<button class="{word}" formaction="?{html.escape(urlencode({**fields, "answer": word}))}">'
            f"{word.title()}</button>"
            for word in links.ANSWERS
        )
        late = "The call was denied meanwhile; if you allow it, the agent can repeat it." if one.state == "late" else ""
        about = [f"{one.agent} in {one.project}", one.reason, late]
        lines = "".join(f"<p>{html.escape(line)}</p>" for line in about if line)
        return _sheet(200, "Allow this call?", "", f'<pre tabindex="0">{html.escape(one.call)}</pre>{lines}', buttons)


async def _refuse_agents(request: Request) -> None:
    """Raises UsageError if an agent runs the program that sends an answer, as far as this machine shows that."""
    client, port = request.client, request.scope["server"][1]
    if client and (agent := await in_thread(lambda: agent_at_port(client.port, port))):
        message = f"only a person can answer, and this program was started by {agent}"
        raise UsageError(message, hint="answer in a browser that you have started yourself, or in a terminal")


def _sheet(status: int, title: str, text: str, content: str = "", buttons: str = "") -> Response:
    """A small page without scripts; `content` and `buttons` are HTML."""
    form = f'<form method="post">{buttons}</form>' if buttons else ""
    body = (
        '<!doctype html><html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">'
        f'<title>{title} - billhook</title><link rel="stylesheet" href="/ui/app.css"><body class="sheet"><main>'
        f"<h1>{title}</h1>{content}<p>{html.escape(text)}</p>{form}</main></body></html>"
    )
    return Response(body, status, headers={**HEADERS, "content-type": "text/html; charset=utf-8"})


def _json(value: object) -> Response:
    return Response(msgspec.json.encode(value), headers={**HEADERS, "content-type": "application/json"})


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

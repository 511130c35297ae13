"""Access control of the HTTP interface, and errors as HTTP responses."""

import asyncio
import hmac
import ipaddress
import os
import secrets
import socket
import stat
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

import h11
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from billhook.core import strictjson
from billhook.core.errors import BillhookError
from billhook.store.files import StoreError, create_once, read_bytes, state_root

PLAIN = {"cache-control": "no-store", "x-content-type-options": "nosniff"}  # headers of every response
_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; "
    "form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
)
STRICT: Final = {
    **PLAIN,
    "content-security-policy": _POLICY,
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}
"""Headers of pages for people: scripts and styles come from files of the page only, and no other page may embed it."""


def json_response(value: object, status: int = 200, headers: Mapping[str, str] = {}) -> Response:
    """A JSON response."""
    content = strictjson.encode(value) + b"\n"
    return Response(content, status, media_type="application/json", headers={**PLAIN, **headers})


def problem(status: int, error: BillhookError | str, *, hint: str = "", headers: Mapping[str, str] = {}) -> Response:
    """An error in JSON."""
    if isinstance(error, str):
        error = BillhookError(error, hint=hint)
    shown = {"message": error.message, "place": error.place or None, "hint": error.hint or hint or None}
    return json_response({"error": shown}, status, headers)


# uvicorn's connections, with the limits that it leaves to a proxy:


SLOWEST: Final = 10.0  # seconds for the head of a request, from its first byte or from the start of the connection
_MOST: Final = 1024  # connections at once


class LimitedConnection(H11Protocol):
    """One connection, with limits for number and slowness. Errors are JSON, even if the request is not HTTP."""

    _slow: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if len(self.connections) > _MOST:
            transport.abort()
            return
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        self._unwatch()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._between and self._slow is None:
            self._watch()
        super().data_received(data)
        if not self._between:
            self._unwatch()

    def shutdown(self) -> None:
        try:
            super().shutdown()
        except h11.LocalProtocolError:
            self.transport.abort()  # it is already broken

    def timeout_keep_alive_handler(self) -> None:
        try:
            super().timeout_keep_alive_handler()
        except h11.LocalProtocolError:
            self.transport.abort()

    def send_400_response(self, msg: str) -> None:
        shown = {"message": "this is not an HTTP request, or its head is too large", "place": None, "hint": None}
        body = strictjson.encode({"error": shown}) + b"\n"
        headers = [("content-type", "application/json"), ("content-length", str(len(body))), ("connection", "close")]
        try:
            parts: list[Any] = [h11.Response(status_code=400, headers=headers), h11.Data(data=body), h11.EndOfMessage()]
            for part in parts:
                self.transport.write(self.conn.send(part) or b"")
        except h11.LocalProtocolError:
            self.transport.abort()  # in the middle of another response
            return
        self.transport.close()

    @property
    def _between(self) -> bool:
        """No request is being answered."""
        return self.cycle is None or self.cycle.response_complete

    def _watch(self) -> None:
        self._slow = self.loop.call_later(SLOWEST, self._cut_off)

    def _unwatch(self) -> None:
        if self._slow is not None:
            self._slow.cancel()
            self._slow = None

    def _cut_off(self) -> None:
        self._slow = None
        if self._between:
            self.transport.abort()


# Access:

TOKEN: Final = "token"
_SHORTEST: Final = 32
LARGEST_HEAD: Final = 32 * 1024  # bytes of a request's head
_OPEN: Final = frozenset({"/healthz"})  # paths that need no token
_PAGE: Final = "/ui/"  # the page of `billhook ui` has a cookie of its own
_SIGNED: Final = "/approve/"  # signed links, also through a proxy of the user: only their signature counts
_DRAINED: Final = 16 * 1024 * 1024
_DRAINING: Final = 5.0
"""Bytes and seconds that a rejected client may still send: a client reads the response only after its request."""


def token_in(folder: Path) -> tuple[bytes, Path]:
    """The token of a daemon's folder, and its file, mode 0600, created if it is missing. Raises StoreError."""
    path = folder / TOKEN
    if not os.path.lexists(path):  # agents have it in their settings, so the next daemon keeps it
        create_once(path, secrets.token_urlsafe(32).encode() + b"\n", root=folder)
    text = (read_bytes(path, 4096, root=folder) or b"").strip()
    hint = "delete the file; a new token is created"
    if os.lstat(path).st_mode & 0o077:
        raise StoreError("other users can read or write the token", place=str(path), hint=hint)
    if len(text) < _SHORTEST or not text.isascii() or b"\n" in text or b" " in text:
        raise StoreError("this is not a token", place=str(path), hint=hint)
    return text, path


class AccessCheck:
    """Checks requests before the application. Lives as long as the application."""

    def __init__(self, app: ASGIApp, token: bytes, *, host: str, port: int, exposed: bool) -> None:
        self._app, self._token, self._port, self._exposed = app, token, port, exposed
        shown = f"[{host}]" if ":" in host else host
        self._names = {"localhost", "127.0.0.1", "[::1]", shown.lower()}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        refused = self._refused(scope)
        if (refused is None or refused[0] == 401) and _asks_itself(scope):
            await drain(scope, receive)
            await json_response({})(scope, receive, send)
            return
        if refused is None:
            await self._app(scope, receive, send)
            return
        status, error = refused
        headers = {"connection": "close"}
        if status == 401:
            headers["www-authenticate"] = "Bearer"
        await drain(scope, receive)
        await problem(status, error, headers=headers)(scope, receive, send)

    def _refused(self, scope: Scope) -> tuple[int, BillhookError] | None:
        headers = scope["headers"]
        if _size_of_head(scope) > LARGEST_HEAD:
            return 400, BillhookError(f"the head of the request is larger than {LARGEST_HEAD // 1024} KiB")
        host, path = _only(headers, b"host"), scope["path"]
        if path.startswith(_SIGNED):
            return None
        if not self._is_ours(host):
            message = "the request is for another host" if host else "the request has no valid Host header"
            return 403, BillhookError(message, place="Host", hint=f"use http://127.0.0.1:{self._port}")
        if _from_a_page(headers, host) and not (path == _PAGE and _is_opened(scope)):
            return 403, BillhookError("requests from web pages are rejected", place="Origin")
        is_open = path in _OPEN or path.startswith(_PAGE)
        if not is_open and not self._is_valid_token(given := _only(headers, b"authorization")):
            return 401, _no_token(given)
        return None

    def _is_ours(self, host: str) -> bool:
        name, port = _split(host.lower())
        if (port or "80") != str(self._port):
            return False
        # For an exposed server any address is valid: unlike a name, an address can't be rebound.
        return name in self._names or (self._exposed and _is_address(name))

    def _is_valid_token(self, authorization: str) -> bool:
        scheme, _, given = authorization.partition(" ")
        matches = hmac.compare_digest(given.strip().encode("latin-1", "replace"), self._token)
        return matches and scheme.lower() == "bearer"


def _no_token(given: str) -> BillhookError:
    """The error with a hint. Without the variable an agent sends nothing after `Bearer`, or the variable's name."""
    sent = given.partition(" ")[2].strip()
    unset = not sent or sent.startswith("$")
    message = "the request has no token: is BILLHOOK_TOKEN set for the agent?" if unset else "wrong token"
    usual = state_root() == state_root("~/.claude")  # a daemon in the background has BILLHOOK_HOME set in any case
    folder = "~/.claude" if usual else "$BILLHOOK_HOME"
    hint = (
        f'export BILLHOOK_TOKEN="$(cat {folder}/billhook/daemon/{TOKEN})" and restart the agent;'
        " the agent sends `Authorization: Bearer $BILLHOOK_TOKEN`"
    )
    return BillhookError(message, place="Authorization", hint=hint)


def _size_of_head(scope: Scope) -> int:
    """Bytes of the request line and headers. A head that arrives at once is parsed before it can be limited."""
    line = len(scope["method"]) + len(scope.get("raw_path") or b"") + len(scope.get("query_string", b""))
    return line + sum(len(key) + len(value) + 4 for key, value in scope["headers"])


def _only(headers: Iterable[tuple[bytes, bytes]], name: bytes) -> str:
    """The value of a header that occurs exactly once; otherwise empty."""
    found = [value for key, value in headers if key == name]
    return found[0].decode("latin-1").strip() if len(found) == 1 else ""


def _split(host: str) -> tuple[str, str]:
    if host.startswith("["):
        name, bracket, rest = host.partition("]")
        return name + bracket, rest.removeprefix(":")
    name, _, port = host.partition(":")
    return name, port


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name.strip("[]"))
    except ValueError:
        return False
    return True


def _from_a_page(headers: Iterable[tuple[bytes, bytes]], host: str) -> bool:
    """Whether a browser sent it for a page of another origin."""
    for key, value in headers:
        if key == b"origin" and value.decode("latin-1").strip().lower() != f"http://{host.lower()}":
            return True
        if key == b"sec-fetch-site" and value.strip() not in (b"none", b"same-origin"):
            return True
    return False


def _is_opened(scope: Scope) -> bool:
    """Whether a browser opens a page by a link, which may be in any other page or file."""
    headers = scope["headers"]
    navigates = (b"sec-fetch-mode", b"navigate") in headers and (b"sec-fetch-dest", b"document") in headers
    return scope["method"] == "GET" and navigates and not _only(headers, b"origin")


def _asks_itself(scope: Scope) -> bool:
    """Whether the client is a hook that billhook itself runs: an agent's settings name this server, and billhook reads
    them, too. The event is already being checked; a second check would loop."""
    if scope["method"] != "POST" or (b"user-agent", b"billhook") not in scope["headers"] or not scope["client"]:
        return False
    peer = tuple(scope["client"])
    return any(_name_of(int(number)) == peer for number in os.listdir("/dev/fd") if number.isdecimal())


def _name_of(descriptor: int) -> tuple[str, int] | None:
    """The address of one end of a connection of this process; None if it is not a connection."""
    try:
        if not stat.S_ISSOCK(os.fstat(descriptor).st_mode):
            return None
        with socket.socket(fileno=os.dup(descriptor)) as found:
            return found.getsockname()[:2] if found.family in (socket.AF_INET, socket.AF_INET6) else None
    except OSError:  # closed in the meantime
        return None


async def drain(scope: Scope, receive: Receive) -> None:
    """Read the remaining request, within limits."""
    if any(key == b"expect" for key, _ in scope["headers"]):
        return  # the client waits for a response before it sends the body
    size = 0
    try:
        async with asyncio.timeout(_DRAINING):
            while size < _DRAINED:
                message = await receive()
                size += len(message.get("body", b""))
                if not message.get("more_body", False):
                    return
    except TimeoutError:
        pass  # long enough

"""Who may see the page: a code that works once is exchanged for a cookie."""

import hashlib
import secrets
import time
from typing import Final

from starlette.requests import Request

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

    def knows(self, request: Request) -> bool:
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

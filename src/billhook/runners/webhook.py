"""`run` for an HTTP endpoint: POST the event, read the answer like the output of a command.

httpx is imported with the first request. The request uses httpx's transport, not its client: a client would log the
whole address, follow redirects, and take proxies and passwords from the environment.
"""

import asyncio
import contextlib
import functools
import os
import re
import ssl
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar
from urllib.parse import parse_qsl, unquote, urlsplit

import msgspec

from billhook.agents import dialect
from billhook.agents.reference import CLAUDE, JsonDialect
from billhook.core import client_env
from billhook.core.answers import FAILURES, Exit, Reply, Status
from billhook.core.events import Event
from billhook.core.functions import in_thread
from billhook.core.hook import Context
from billhook.core.strictjson import MAX_BYTES, preview

if TYPE_CHECKING:
    import httpx


class Webhook(msgspec.Struct, frozen=True):
    """POST the event to an address and read the answer by the rules of the dialect. It keeps `ctx.deadline` itself,
    from the look-up of the name to the last byte of the body.

    A status code alone never blocks; a complete deny in the body does, whatever else went wrong. If nothing was sent,
    the status is `could_not_start`. No error shows a header's value or the address's query.
    """

    url: str
    headers: tuple[tuple[str, str], ...] = ()
    allowed_env: tuple[str, ...] = ()  # the variables that header values may name; all others are empty
    allowed_urls: tuple[str, ...] | None = None  # patterns with `*`; None: any address; empty: no address
    dialect: str = "claude"
    keeps_time: ClassVar[bool] = True

    def __repr__(self) -> str:
        """Without possible secrets: headers, path and query."""
        return f"Webhook({_origin(self.url)!r}, dialect={self.dialect!r})"

    async def __call__(self, ctx: Context) -> Reply:
        spoken = dialect(self.dialect)
        reader = spoken if isinstance(spoken, JsonDialect) else CLAUDE
        try:
            request = self._request(ctx, spoken.write_call(ctx).stdin)
        except _RefusedError as refused:
            return _strict(reader, ctx.event, Reply(status=Status.COULD_NOT_START, error=str(refused)))
        partial = _PartialResponse(_secrets(request))
        trouble = await _exchange(request, partial, ctx.seconds_left)
        reply = _strict(reader, ctx.event, _read(reader, ctx.event, partial, trouble))
        missing = self._missing(ctx) if reply.error and partial.status in (401, 403) else ""
        return msgspec.structs.replace(reply, error=f"{reply.error}{missing}", output_bytes=len(partial.body))

    def _request(self, ctx: Context, body: bytes) -> "httpx.Request":
        problem = _unusable(self.url)
        if problem:
            raise _RefusedError(f"the address can't be used: {problem}")
        if self.allowed_urls is not None and not address_allowed(self.url, self.allowed_urls):
            raise _RefusedError(f"{_origin(self.url)} with this path is not an allowed address")
        headers = self._headers(ctx)
        try:
            import httpx
        except ImportError:
            from billhook.core.text import install_command

            raise _RefusedError(f"an HTTP hook needs httpx; {install_command('http')}") from None
        try:
            url = httpx.URL(self.url).copy_with(fragment=None)
            return httpx.Request("POST", url, headers=headers, content=body)
        except (httpx.InvalidURL, ValueError):  # their messages quote the address
            raise _RefusedError("the address can't be used: it is not a URL") from None

    def _headers(self, ctx: Context) -> list[tuple[bytes, bytes]]:
        """The headers: ours, unless the hook sets one with the same name."""

        def variable(found: re.Match[str]) -> str:
            return self._variable(found[1] or found[2], ctx)

        own = [_header(name, _VARIABLE.sub(variable, value)) for name, value in self.headers]
        named = {name.lower() for name, _ in own}
        return [*own, *(header for header in _OURS if header[0].lower() not in named), (b"Connection", b"close")]

    def _variable(self, name: str, ctx: Context) -> str:
        return ctx.env.get(name, client_env.environ().get(name, "")) if name in self.allowed_env else ""

    def _missing(self, ctx: Context) -> str:
        """Why the endpoint may not recognize the caller: an empty variable in a header."""
        names = [found[1] or found[2] for _, value in self.headers for found in _VARIABLE.finditer(value)]
        for name in names:
            if name not in self.allowed_env:
                return f"; `${name}` in a header is empty: `allowed_env_vars` does not list it"
            if not self._variable(name, ctx):
                return f"; `${name}` in a header is empty: the variable is not set"
        return ""


def webhook(
    url: str,
    *,
    headers: Sequence[tuple[str, str]] | Mapping[str, str] = (),
    allowed_env: Sequence[str] = (),
    allowed_urls: Sequence[str] | None = None,
    dialect: str = "claude",
) -> Webhook:
    """An HTTP endpoint. `$VAR` and `${VAR}` in header values are filled from the environment if `allowed_env` names
    them."""
    pairs = headers.items() if isinstance(headers, Mapping) else headers
    return Webhook(
        url,
        tuple((name, value) for name, value in pairs),
        tuple(allowed_env),
        None if allowed_urls is None else tuple(allowed_urls),
        dialect,
    )


class _RefusedError(Exception):
    """Why nothing was sent."""


# -- addresses -----------------------------------------------------------------------------------------------------


def address_problem(url: str) -> str:
    """Why an address can't be used for a hook; empty: it can. Shows nothing of the address."""
    problem = _unusable(url)
    if problem:
        return problem
    parts = urlsplit(url)
    if parts.scheme == "http" and not loopback(parts.hostname or ""):
        return "it sends events to another machine without encryption; use https"
    return ""


_NEVER_IN_A_URL = re.compile(r"[\x00-\x20\x7f\\\ud800-\udfff]")


_HOST = re.compile(r"[a-z0-9._-]+|[0-9a-f:.]+(?:%[a-z0-9._-]+)?")


def _unusable(url: str) -> str:
    # URL parsers disagree about these characters, and then about the host.
    if _NEVER_IN_A_URL.search(url):
        return "it contains a space, a control character or a backslash"
    try:
        parts = urlsplit(url)
        host = parts.hostname
        parts.port  # noqa: B018 - raises for an invalid port
    except ValueError:
        return "it is not a URL"
    if parts.scheme not in ("http", "https"):
        return "it does not begin with http:// or https://"
    if "@" in parts.netloc:
        return "it contains a user name or a password; put them into a header, as variables that the hook may use"
    if not host:
        return "it has no host"
    return "" if _HOST.fullmatch(host) else "its host is neither a name in ASCII (`xn--...`) nor an IP address"


def loopback(host: str) -> bool:
    """Whether a host is this machine, by its name or address."""
    import ipaddress

    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _origin(url: str) -> str:
    """The part of an address that is never secret."""
    if _unusable(url):
        return "an unusable address"
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}"


def address_allowed(url: str, patterns: Sequence[str]) -> bool:
    """Whether one of the patterns covers an address; never an unusable one, or one with `..`."""
    if _unusable(url):
        return False
    parts = urlsplit(url)
    if any(segment in (".", "..") for segment in re.split(r"[/\\]", unquote(unquote(parts.path)))):
        return False  # the server may resolve `..`, the pattern does not
    asked = parts._replace(netloc=parts.netloc.lower(), fragment="").geturl()
    return any(pattern == "*" or _pattern(pattern).fullmatch(asked) for pattern in patterns)


@functools.lru_cache(256)
def _pattern(pattern: str) -> re.Pattern[str]:
    """`*` in the host stays in the host: `https://*.example.com/*` is not `https://evil.org/.example.com/`."""
    found = _HEAD.match(pattern)
    if found is None:
        return _NEVER
    head, rest = found[0].lower(), pattern[found.end() :]
    anywhere = r"(?:[/?].*)?" if head.endswith("*") else "/?"
    return re.compile(_wild(head, r"[^/?@]*") + (_wild(rest, ".*") if rest else anywhere), re.DOTALL)


_HEAD = re.compile(r"[a-zA-Z*]+://[^/?#]+")
_NEVER = re.compile(r"(?!)")


def _wild(text: str, star: str) -> str:
    return star.join(map(re.escape, re.sub(r"\*+", "*", text).split("*")))


# -- headers -------------------------------------------------------------------------------------------------------

_VARIABLE = re.compile(r"\$(?:\{([A-Za-z_][A-Za-z0-9_]*)\}|([A-Za-z_][A-Za-z0-9_]*))")
_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
_CONTROL = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")
_RESERVED_HEADERS = frozenset(
    ["connection", "content-length", "expect", "host", "te", "trailer", "transfer-encoding", "upgrade"]
)
"""They define where a request ends and which host it is for."""
_OURS = (
    (b"Content-Type", b"application/json"),
    (b"Accept", b"application/json"),
    (b"Accept-Encoding", b"identity"),  # so that a small answer can't expand to a large one
    (b"User-Agent", b"billhook"),
)


def _header(name: str, value: str) -> tuple[bytes, bytes]:
    """A header as bytes. Characters that could start another header are refused; the error never shows a value."""
    if not _NAME.fullmatch(name):
        raise _RefusedError(f"{preview(name)!r} is not a valid name of a header")
    if name.lower() in _RESERVED_HEADERS:
        raise _RefusedError(f"the header {name} can't be set by a hook")
    if _CONTROL.search(value):
        raise _RefusedError(f"the value of the header {name} contains a line break or another control character")
    try:
        return name.encode("ascii"), value.strip(" \t").encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        raise _RefusedError(f"the value of the header {name} is not text") from None


# -- the exchange --------------------------------------------------------------------------------------------------


class _PartialResponse:
    """The response so far: it counts even if the remaining part never comes."""

    def __init__(self, secrets: set[bytes]) -> None:
        self.secrets = secrets  # our notes must not repeat these
        self.status = 0
        self.location = ""
        self.body = bytearray()


async def _exchange(request: "httpx.Request", partial: _PartialResponse, seconds: float) -> Reply | None:
    """Send the request and read the response. A failure is returned; the connection is closed in any case."""
    import httpx

    try:
        async with asyncio.timeout(None if seconds == float("inf") else seconds) as clock:
            await _resolved(request.url.host, request.url.port)
            async with (
                _closing(request),
                httpx.AsyncHTTPTransport(verify=_tls(request.url.scheme), trust_env=False) as transport,
            ):
                return await _listen(await transport.handle_async_request(request), partial, request)
    except TimeoutError as error:
        if clock.expired():
            return Reply(status=Status.TIMED_OUT, error="no complete answer in time; the connection was closed")
        return _no_connection(request, error)
    except (OSError, UnicodeError, httpx.ConnectError, httpx.ConnectTimeout) as error:
        return _no_connection(request, error)
    except httpx.HTTPError:  # its message may quote the request
        began = "the answer broke off" if partial.status else "the connection ended without an answer in HTTP"
        return Reply(status=Status.FAILED, error=began)
    except Exception as error:
        return Reply(status=Status.FAILED, error=f"the request failed: {type(error).__name__}")


@contextlib.asynccontextmanager
async def _closing(request: "httpx.Request") -> AsyncIterator[None]:
    """Closes the connection of a request at the end; the library leaks one whose TLS handshake is cancelled."""
    opened: list[Any] = []

    async def trace(step: str, details: Mapping[str, Any]) -> None:
        if step == "connection.connect_tcp.complete":
            opened.append(details["return_value"])

    request.extensions["trace"] = trace
    try:
        yield
    finally:
        for stream in opened:
            await stream.aclose()


async def _listen(response: "httpx.Response", partial: _PartialResponse, request: "httpx.Request") -> Reply | None:
    try:
        partial.status = response.status_code
        partial.location = _target(request.url, response.headers.get("location", ""), partial.secrets)
        if response.headers.get("content-encoding", "identity").strip().lower() not in ("", "identity"):
            return Reply(status=Status.FAILED, error="the body is compressed, although the request does not allow it")
        async for part in response.aiter_raw():
            partial.body += part[: MAX_BYTES + 1 - len(partial.body)]
            if len(partial.body) > MAX_BYTES:
                del partial.body[MAX_BYTES:]
                return Reply(status=Status.FAILED, error="the body is longer than 1 MiB")
    finally:
        await response.aclose()
    return None


def _target(url: "httpx.URL", location: str, secrets: set[bytes]) -> str:
    """The target of a redirect, without possible secrets."""
    if not location:
        return ""
    try:
        target = str(url.join(location).copy_with(userinfo=b"", query=None, fragment=None))
    except Exception:  # a server may write anything there
        return "an address that can't be read"
    return (
        "an address that is not shown" if any(word.decode("latin-1") in target for word in secrets) else preview(target)
    )


async def _resolved(host: str, port: int | None) -> None:
    """Look the name up in a thread that is left behind. A program that ends waits for asyncio's own threads, and a name
    server that hangs would block it beyond the deadline."""
    if loopback(host) or ":" in host or host.replace(".", "").isdigit():
        return
    import socket

    await in_thread(lambda: socket.getaddrinfo(host, port, type=socket.SOCK_STREAM))


def _tls(scheme: str) -> ssl.SSLContext:
    """For plain http, a context without authorities: loading them takes longer than the request."""
    if scheme != "https":
        return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    return _authorities(client_env.environ().get("SSL_CERT_FILE", ""), client_env.environ().get("SSL_CERT_DIR", ""))


@functools.lru_cache(4)
def _authorities(file: str, folder: str) -> ssl.SSLContext:
    """The authorities of certifi, or of SSL_CERT_FILE or SSL_CERT_DIR."""
    import httpx

    return httpx.create_ssl_context()


def _no_connection(request: "httpx.Request", error: BaseException) -> Reply:
    where = f"{request.url.scheme}://{request.url.netloc.decode('ascii', 'replace')}"
    return Reply(status=Status.COULD_NOT_START, error=f"no connection to {where}: {_why(error)}")


def _why(error: BaseException) -> str:
    """The cause in plain words, from the inner errors: the outer messages quote too much or are too vague."""
    import socket

    for cause in _causes(error):
        if isinstance(cause, ssl.SSLCertVerificationError):
            return f"its certificate is not trusted ({cause.verify_message})"
        if isinstance(cause, ssl.SSLError):
            return f"TLS failed ({cause.reason or 'no reason given'})"
        if isinstance(cause, socket.gaierror | UnicodeError):
            return "its name can't be resolved"
        if isinstance(cause, OSError) and cause.errno:
            return os.strerror(cause.errno).lower()
    return "it ended before it was established"


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        if isinstance(error, BaseExceptionGroup):
            for inner in error.exceptions:
                yield from _causes(inner)
        yield error
        error = error.__cause__ or error.__context__


# -- reading -------------------------------------------------------------------------------------------------------


def _read(reader: JsonDialect, event: Event, partial: _PartialResponse, trouble: Reply | None) -> Reply:
    """The answer. A complete deny counts, even if the remaining body never came."""
    reply = reader.read_response(event, partial.status, bytes(partial.body)) if partial.status else Reply()
    if 200 <= partial.status < 300 or reply.status is Status.OK:
        reply = _without_secrets(reply, partial)
    if reply.status is Status.OK and reply.answer.objects:
        return msgspec.structs.replace(reply, error=f"it answered, but {trouble.error}") if trouble else reply
    if trouble is not None:
        return trouble
    if reply.status is not Status.OK and 300 <= partial.status < 400 and partial.location:
        error = f"HTTP status {partial.status}: a redirect to {partial.location}, which is not followed"
        return msgspec.structs.replace(reply, error=error)
    return reply


def _strict(reader: JsonDialect, event: Event, reply: Reply) -> Reply:
    """Some failures never allow the event; the dialect decides which, for a command and for us."""
    if reply.status not in FAILURES:
        return reply
    ended = {Status.TIMED_OUT: Exit(timed_out=True), Status.COULD_NOT_START: Exit(start_error="-")}
    rule = reader.read_exit(event, ended.get(reply.status, Exit(code=1))).on_failure
    return msgspec.structs.replace(reply, on_failure=rule)


def _without_secrets(reply: Reply, partial: _PartialResponse) -> Reply:
    """Our notes quote the body, but not if it repeats secrets of the request."""
    told = "\n".join((reply.error, *reply.lost)).encode("utf-8", "replace")
    if not any(secret in partial.body or secret in told for secret in partial.secrets):
        return reply
    hidden = "it is not shown, because it repeats a header or the query"
    failed = reply.status is not Status.OK
    return msgspec.structs.replace(
        reply,
        error=f"the body is not an answer; {hidden}" if failed else reply.error,
        lost=(f"parts of the body had no effect; {hidden}",) if reply.lost else (),
    )


def _secrets(request: "httpx.Request") -> set[bytes]:
    """Every word of the headers that the hook set, and of the query."""
    ours = {name.lower() for name, _ in _OURS} | {b"host", b"connection", b"content-length"}
    words = [word for name, value in request.headers.raw if name.lower() not in ours for word in value.split()]
    query = request.url.query
    words += [query, *(value.encode() for _, value in parse_qsl(query.decode("ascii", "replace")))]
    return {word for word in words if len(word) > 3}

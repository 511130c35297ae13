"""HTTP hooks against real servers on the loopback: what is sent, what each answer means, and what never leaks."""

import asyncio
import contextlib
import gc
import json
import logging
import os
import re
import shlex
import shutil
import socket
import ssl
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml

from billhook import Context, Decision, Engine, Hook, PreToolUse, Status, Verdict, command
from billhook.agents import dialect
from billhook.core.text import install_command
from billhook.runners.webhook import Webhook, address_allowed, address_problem, webhook
from descriptors import open_descriptors
from strategies import sample

BASH = PreToolUse(tool_name="Bash", tool_input={"command": "ls"}, session_id="s1")
DENY = '{"decision": "block", "reason": "not here"}'


class Request(NamedTuple):
    """One request as it arrived."""

    line: str
    headers: list[tuple[str, str]]
    body: bytes

    def header(self, name: str) -> str | None:
        return next((value for key, value in self.headers if key.lower() == name.lower()), None)


Responder = Callable[[socket.socket, Request], None]


class Server:
    """A plain socket server: it sends exactly what the test defines."""

    def __init__(self, respond: Responder, tls: ssl.SSLContext | None = None) -> None:
        self.respond, self.tls = respond, tls
        self.requests: list[Request] = []
        self.connections = 0
        self.closed_by_client = threading.Event()
        self.over = threading.Event()
        self.listening = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.port: int = self.listening.getsockname()[1]
        scheme = "https" if tls else "http"
        self.url = f"{scheme}://127.0.0.1:{self.port}/hook"
        self.threads = [threading.Thread(target=self._accept, daemon=True)]
        self.threads[0].start()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self.listening.accept()
            except OSError:
                return
            if self.over.is_set():
                connection.close()
                return
            self.connections += 1
            self.threads.append(threading.Thread(target=self._serve, args=(connection,), daemon=True))
            self.threads[-1].start()

    def _serve(self, connection: socket.socket) -> None:
        with connection:
            try:
                connection.settimeout(20)
                if self.tls is not None:
                    connection = self.tls.wrap_socket(connection, server_side=True)
                request = read_request(connection)
                if request is not None:
                    self.requests.append(request)
                    self.respond(connection, request)
            except OSError:
                self.closed_by_client.set()
            finally:
                connection.close()

    def close(self) -> None:
        self.over.set()
        with contextlib.suppress(OSError):
            socket.create_connection(("127.0.0.1", self.port), 1).close()  # wakes accept
        for thread in self.threads:
            thread.join(10)
        self.listening.close()


def read_request(connection: socket.socket) -> Request | None:
    data = b""
    while b"\r\n\r\n" not in data:
        part = connection.recv(65536)
        if not part:
            return None
        data += part
        if not data.startswith(b"POST"):
            connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")
            return None
    head, _, body = data.partition(b"\r\n\r\n")
    line, *fields = head.decode("utf-8", "surrogateescape").split("\r\n")
    headers = [(name, value.strip()) for name, _, value in (field.partition(":") for field in fields)]
    parts, length = [body], len(body)
    wanted = int(next((value for name, value in headers if name.lower() == "content-length"), "0"))
    while length < wanted:
        part = connection.recv(1 << 20)
        if not part:
            break
        parts.append(part)
        length += len(part)
    return Request(line, headers, b"".join(parts))


@contextlib.contextmanager
def serving(respond: Responder, **options: Any) -> Iterator[Server]:
    server = Server(respond, **options)
    try:
        yield server
    finally:
        server.close()


def saying(status: str = "200 OK", body: str | bytes = "", *headers: str) -> Responder:
    """A whole, correct answer."""
    data = body.encode() if isinstance(body, str) else body
    head = "\r\n".join([f"HTTP/1.1 {status}", f"Content-Length: {len(data)}", *headers])
    return sending(head.encode() + b"\r\n\r\n" + data)


def sending(*parts: bytes) -> Responder:
    """Exactly these bytes, then the connection is closed."""

    def respond(connection: socket.socket, _: Request) -> None:
        for part in parts:
            connection.sendall(part)

    return respond


def until_closed(connection: socket.socket) -> None:
    """Wait for the client to hang up."""
    while connection.recv(4096):
        pass
    raise OSError("closed by the client")


def fire(run: Webhook, event: Any = BASH, *, env: Mapping[str, str] | None = None, **options: Any) -> Verdict:
    options = {"events": (), "dialect": "claude", **options}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        verdict = Engine([Hook(name="h", run=run, **options)], env=env).fire_sync(event)
        gc.collect()
    assert [str(warning.message) for warning in caught if warning.category is ResourceWarning] == []
    return verdict


def error_of(verdict: Verdict) -> str:
    (outcome,) = verdict.outcomes
    return outcome.error


# -- answers -------------------------------------------------------------------------------------------------------

ANSWERS = [
    pytest.param("200 OK", "", "ok", "none", "", id="2.7: 2xx empty"),
    pytest.param("204 No Content", "", "ok", "none", "", id="2.7: 204"),
    pytest.param("200 OK", " \r\n", "ok", "none", "", id="2xx with white space only"),
    pytest.param("200 OK", "{}", "ok", "none", "", id="2.7: 2xx empty object"),
    pytest.param("200 OK", DENY, "ok", "deny", "", id="2.7: 2xx JSON that blocks"),
    pytest.param("201 Created", DENY, "ok", "deny", "", id="2.7: any 2xx"),
    pytest.param(
        "200 OK",
        '{"hookSpecificOutput": {"hookEventName": "PreToolUse", "permissionDecision": "ask"}}',
        "ok",
        "ask",
        "",
        id="2.7: 2xx JSON that asks",
    ),
    pytest.param(
        "200 OK",
        '{"continue": "no"}',
        "failed",
        "none",
        '`continue` must be true or false, not "no"',
        id="2.7: JSON that fails its schema",
    ),
    pytest.param("200 OK", "fine by me", "failed", "none", "the body is not JSON: fine by me", id="2.7: other body"),
    pytest.param("200 OK", "[1]", "failed", "none", "the body is not JSON: [1]", id="2.7: an array"),
    pytest.param("200 OK", f"<p>{DENY}</p>", "ok", "deny", "the deny was inside other output", id="a deny in HTML"),
    pytest.param("400 Bad Request", "", "failed", "none", "HTTP status 400", id="2.7: 400"),
    pytest.param("403 Forbidden", "", "failed", "none", "HTTP status 403", id="2.7: a status alone never blocks"),
    pytest.param("500 Oh", "trouble", "failed", "none", "HTTP status 500", id="2.7: 500"),
    pytest.param("500 Oh", '{"systemMessage": "m"}', "failed", "none", "HTTP status 500", id="2.7: 500 with JSON"),
    pytest.param("403 Forbidden", DENY, "ok", "deny", "", id="a whole deny denies with any status"),
    pytest.param("304 Not Modified", "", "failed", "none", "HTTP status 304", id="304"),
]


@pytest.mark.parametrize(("status", "body", "outcome", "decision", "error"), ANSWERS)
def test_what_an_answer_means(status: str, body: str, outcome: str, decision: str, error: str) -> None:
    """The table of answers, with a hook that fails open."""
    with serving(saying(status, body)) as server:
        verdict = fire(webhook(server.url))

    assert (verdict.outcomes[0].status.value, verdict.decision.value, error_of(verdict)) == (outcome, decision, error)
    assert verdict.failed_open == (outcome == "failed")
    assert verdict.reason == ("not here" if decision == "deny" else "")


@pytest.mark.parametrize(("status", "body", "outcome", "decision", "error"), ANSWERS)
def test_what_an_answer_means_to_a_gate(status: str, body: str, outcome: str, decision: str, error: str) -> None:
    """The same answers for a hook that blocks on failure: every failure is a deny with the reason."""
    with serving(saying(status, body)) as server:
        verdict = fire(webhook(server.url), on_failure="deny")

    expected = "deny" if outcome == "failed" else decision
    assert (verdict.decision.value, verdict.failed_open) == (expected, 0)
    if outcome == "failed":
        assert verdict.reason == f"hook `h` failed: {error}"


CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"


def chunk(data: bytes) -> bytes:
    return f"{len(data):x}\r\n".encode() + data + b"\r\n"


HALF = len(DENY) // 2
WIRE = [
    pytest.param(
        [CHUNKED, chunk(DENY.encode()[:HALF]), chunk(DENY.encode()[HALF:]), b"0\r\n\r\n"],
        "ok",
        "deny",
        "",
        id="chunked",
    ),
    pytest.param([b"HTTP/1.0 200 OK\r\n\r\n", DENY.encode()], "ok", "deny", "", id="until the connection ends"),
    pytest.param(
        [b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"], "ok", "none", "", id="1xx"
    ),
    pytest.param([], "failed", "none", "the connection ended without an answer in HTTP", id="nothing at all"),
    pytest.param([b"SSH-2.0-x\r\n"], "failed", "none", "the connection ended without an answer in HTTP", id="not HTTP"),
    pytest.param(
        [b"HTTP/1.1 200 OK\r\nA: b"],
        "failed",
        "none",
        "the connection ended without an answer in HTTP",
        id="half a head",
    ),
    pytest.param(
        [b"HTTP/1.1 200 OK\r\n" + b"A: " + b"b" * 300_000 + b"\r\n\r\n"],
        "failed",
        "none",
        "the connection ended without an answer in HTTP",
        id="a head without end",
    ),
    pytest.param(
        [b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{}"],
        "failed",
        "none",
        "the answer broke off",
        id="closes mid-body",
    ),
    pytest.param([CHUNKED, chunk(b"{}")], "failed", "none", "the answer broke off", id="chunks without an end"),
    pytest.param([CHUNKED, b"zz\r\n{}"], "failed", "none", "the answer broke off", id="no chunk"),
    pytest.param(
        [b"HTTP/1.1 200 OK\r\nContent-Length: 900\r\n\r\n", DENY.encode()],
        "ok",
        "deny",
        "it answered, but the answer broke off",
        id="a whole deny, then closed",
    ),
    pytest.param(
        [b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n" + DENY.encode()],
        "failed",
        "none",
        None,
        id="content-length too small",
    ),
    pytest.param(
        [b"HTTP/1.1 200 OK\r\nContent-Length: -5\r\n\r\n{}"],
        "failed",
        "none",
        "the connection ended without an answer in HTTP",
        id="a bad content-length",
    ),
    pytest.param(
        [b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 2\r\n\r\n{}"],
        "failed",
        "none",
        "the body is compressed, although the request does not allow it",
        id="compressed",
    ),
]


@pytest.mark.parametrize(("parts", "outcome", "decision", "error"), WIRE)
def test_what_the_wire_may_do(parts: list[bytes], outcome: str, decision: str, error: str | None) -> None:
    """Odd and broken HTTP: a failure, except where a whole deny came through."""
    with serving(sending(*parts)) as server:
        verdict = fire(webhook(server.url), timeout=10)

    assert (verdict.outcomes[0].status.value, verdict.decision.value) == (outcome, decision)
    assert error is None or error_of(verdict) == error


@pytest.mark.parametrize(
    ("prefix", "decision"),
    [pytest.param(b"x" * 65536, "none", id="garbage"), pytest.param(DENY.encode(), "deny", id="begins with a deny")],
)
def test_a_body_without_end_is_cut(prefix: bytes, decision: str) -> None:
    """100 MB are not read: past 1 MiB the answer is a failure, unless a deny was among the first."""
    sent = 0

    def respond(connection: socket.socket, _: Request) -> None:
        nonlocal sent
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 100000000\r\n\r\n" + prefix)
        for _n in range(1600):
            connection.sendall(b"x" * 65536)
            sent += 65536

    with serving(respond) as server:
        verdict = fire(webhook(server.url), timeout=30)

    assert verdict.decision == decision
    assert "the body is longer than 1 MiB" in error_of(verdict)
    assert sent < 50_000_000
    assert server.closed_by_client.is_set()


def test_a_body_of_exactly_the_limit_is_read() -> None:
    """1 MiB is fine; one more byte is an error."""
    body = DENY + " " * ((1 << 20) - len(DENY))
    with serving(saying("200 OK", body)) as server:
        assert fire(webhook(server.url)).reason == "not here"
    with serving(saying("200 OK", "{}" + body)) as server:
        assert "longer than 1 MiB" in error_of(fire(webhook(server.url)))


# -- redirects -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("status", "allowed", "value", "why"),
    [
        pytest.param("401 No", ["T"], None, "; `$T` in a header is empty: the variable is not set", id="not set"),
        pytest.param("401 No", ["T"], "", "; `$T` in a header is empty: the variable is not set", id="empty"),
        pytest.param(
            "403 No", [], "x", "; `$T` in a header is empty: `allowed_env_vars` does not list it", id="not listed"
        ),
        pytest.param("401 No", ["T"], "wrong", "", id="another value"),
        pytest.param("500 Oh", ["T"], None, "", id="another status"),
    ],
)
def test_a_variable_that_is_missing(status: str, allowed: list[str], value: str | None, why: str) -> None:
    """An endpoint that refuses a caller without a token: the error names the variable, and never its value."""
    with serving(saying(status, "")) as server:
        hook = Hook(
            name="h",
            run=webhook(server.url, headers={"Authorization": "Bearer ${T}"}, allowed_env=allowed),
            events=("PreToolUse",),
        )
        verdict = Engine([hook], env={} if value is None else {"T": value}).fire_sync(BASH)

    assert error_of(verdict) == f"HTTP status {status[:3]}{why}"


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_redirects_are_not_followed(status: int) -> None:
    """A redirect is a failure that names its target, without user, query and fragment."""
    with serving(saying("200 OK", DENY)) as target:
        place = f"http://user:pw@127.0.0.1:{target.port}/next?token=abc#frag"
        with serving(saying(f"{status} Moved", "", f"Location: {place}")) as server:
            verdict = fire(webhook(server.url))

    shown = f"http://127.0.0.1:{target.port}/next"
    assert error_of(verdict) == f"HTTP status {status}: a redirect to {shown}, which is not followed"
    assert (target.connections, verdict.outcomes[0].status) == (0, Status.FAILED)


@pytest.mark.parametrize(
    ("location", "shown"),
    [
        pytest.param("/other?x=1", "/other,", id="relative"),
        pytest.param("http://[::1", "an address that can't be read", id="unreadable"),
        pytest.param("https://elsewhere.example/s3cret-token/", "an address that is not shown", id="repeats a header"),
    ],
)
def test_where_a_redirect_points_to(location: str, shown: str) -> None:
    """Whatever a server writes into Location, the error can be read and tells no secret."""
    with serving(saying("302 Found", "", f"Location: {location}")) as server:
        error = error_of(fire(webhook(server.url, headers={"X-Key": "s3cret-token"})))

    assert shown in error
    assert "s3cret" not in error


# -- time ----------------------------------------------------------------------------------------------------------


def drip(connection: socket.socket, head: bytes, byte: bytes) -> None:
    connection.sendall(head)
    for _ in range(400):
        connection.sendall(byte)
        time.sleep(0.05)


SLOW: list[Any] = [
    pytest.param(lambda connection, _: until_closed(connection), id="never answers"),
    pytest.param(lambda c, _: drip(c, b"HTTP/1.1 200 OK\r\nContent-Length: 400\r\n\r\n", b" "), id="drips its body"),
    pytest.param(lambda c, _: drip(c, b"HTTP/1.1 200 OK\r\nX: ", b"y"), id="drips its head"),
    pytest.param(lambda c, _: drip(c, CHUNKED, b"1\r\n \r\n"), id="drips chunks"),
    pytest.param(lambda c, _: drip(c, b"", b"HTTP/1.1 102 Processing\r\n\r\n"), id="is processing for ever"),
]


@pytest.mark.parametrize("respond", SLOW)
def test_the_deadline_is_for_the_whole_exchange(respond: Responder) -> None:
    """A server that is slow in any way ends at the deadline, and its connection is closed."""
    with serving(respond) as server:
        began = time.monotonic()
        verdict = fire(webhook(server.url), timeout=0.4, on_failure="deny")
        took = time.monotonic() - began
        assert server.closed_by_client.wait(10)

    assert verdict.outcomes[0].status is Status.TIMED_OUT
    assert verdict.reason == "hook `h` timed out: no complete answer in time; the connection was closed"
    assert 0.3 < took < 5


def test_a_server_that_does_not_take_the_event_ends_at_the_deadline() -> None:
    """Sending counts, too: a full socket does not extend the deadline."""
    with socket.create_server(("127.0.0.1", 0)) as deaf:
        event = PreToolUse(tool_name="Bash", tool_input={"command": "x" * 20_000_000})
        verdict = fire(webhook(f"http://127.0.0.1:{deaf.getsockname()[1]}/"), event, timeout=0.5)

    assert verdict.outcomes[0].status is Status.TIMED_OUT


def test_a_deny_before_the_deadline_counts() -> None:
    """A whole deny in an answer that never ends is a deny."""

    def respond(connection: socket.socket, _: Request) -> None:
        drip(connection, b"HTTP/1.1 200 OK\r\nContent-Length: 900\r\n\r\n" + DENY.encode(), b" ")

    with serving(respond) as server:
        verdict = fire(webhook(server.url), timeout=0.4)

    assert (verdict.decision, verdict.reason) == (Decision.DENY, "not here")
    assert error_of(verdict).startswith("it answered, but no complete answer in time")


@pytest.mark.parametrize(
    ("event", "status", "decision"),
    [
        pytest.param("PreModelSwitch", "", "deny", id="PreModelSwitch, late"),
        pytest.param("PreModelSwitch", "500 Oh", "none", id="PreModelSwitch, failed"),
        pytest.param("WorktreeCreate", "", "deny", id="WorktreeCreate, late"),
        pytest.param("WorktreeCreate", "500 Oh", "deny", id="WorktreeCreate, failed"),
        pytest.param("PreToolUse", "500 Oh", "none", id="PreToolUse, failed"),
    ],
)
def test_failures_that_never_pass(event: str, status: str, decision: str) -> None:
    """Where the reference does not fail open for a command, it does not for an endpoint."""
    with serving(saying(status) if status else lambda connection, _: until_closed(connection)) as server:
        verdict = fire(webhook(server.url), sample(event), timeout=10 if status else 0.3)

    assert verdict.decision == decision


@pytest.mark.parametrize("seconds", [60, 0.6], ids=["for ever", "until the loop is closed"])
def test_a_name_server_that_hangs_does_not_hold_a_program_up(seconds: float) -> None:
    """Neither the answer nor the end of the program waits for a look-up beyond the deadline."""
    program = (
        f"import socket, time; socket.getaddrinfo = lambda *a, **k: time.sleep({seconds})\n"
        "import asyncio; from billhook import Engine, Hook, PreToolUse; from billhook.runners.webhook import webhook\n"
        "hook = Hook(name='h', run=webhook('http://slow.example/'), timeout=0.3, dialect='claude')\n"
        "verdict = asyncio.run(Engine([hook]).fire(PreToolUse(tool_name='Bash', tool_input={})))\n"
        "print(verdict.outcomes[0].status.value)\n"
        "time.sleep(0.6)"
    )
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=30, check=False)

    assert (ended.stdout.strip(), ended.stderr) == ("timed_out", "")


def test_cancelling_closes_the_connection() -> None:
    """A cancelled firing leaves nothing open."""
    arrived = threading.Event()

    def respond(connection: socket.socket, _: Request) -> None:
        arrived.set()
        until_closed(connection)

    async def cancelled(server: Server) -> None:
        task = asyncio.create_task(Engine([Hook(name="h", run=webhook(server.url), dialect="claude")]).fire(BASH))
        assert await asyncio.to_thread(arrived.wait, 10)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    with serving(respond) as server:
        asyncio.run(cancelled(server))
        assert server.closed_by_client.wait(10)
    gc.collect()


def test_32_at_once() -> None:
    """Many firings in one loop don't mix: each gets the answer to its own event."""

    def respond(connection: socket.socket, request: Request) -> None:
        asked = json.loads(request.body)["tool_input"]["command"]
        time.sleep(0.05)
        saying("200 OK", json.dumps({"decision": "block", "reason": f"no {asked}"}))(connection, request)

    async def all_of_them(url: str) -> list[Verdict]:
        engine = Engine([Hook(name="h", run=webhook(url), dialect="claude", timeout=20)])
        events = [PreToolUse(tool_name="Bash", tool_input={"command": f"c{i}"}) for i in range(32)]
        return await asyncio.gather(*map(engine.fire, events))

    with serving(respond) as server:
        verdicts = asyncio.run(all_of_them(server.url))

    assert [verdict.reason for verdict in verdicts] == [f"no c{i}" for i in range(32)]


# -- connections ---------------------------------------------------------------------------------------------------


def test_no_server() -> None:
    """A refused connection could not start, and the error shows its address without path and query."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    verdict = fire(webhook(f"http://127.0.0.1:{port}/hook?token=abcdef"), on_failure="deny")

    assert verdict.outcomes[0].status is Status.COULD_NOT_START
    assert verdict.reason == f"hook `h` could not start: no connection to http://127.0.0.1:{port}: connection refused"


@pytest.mark.parametrize("host", ["no-such-host.invalid", "a" * 70 + ".example", "xn--.invalid"])
def test_no_such_name(host: str) -> None:
    """A name that can't be resolved, or is invalid."""
    verdict = fire(webhook(f"http://{host}/?token=abcdef"), timeout=20)

    assert verdict.outcomes[0].status is Status.COULD_NOT_START
    assert "abcdef" not in error_of(verdict)


def test_localhost_is_found_on_either_address() -> None:
    """`localhost` may mean ::1 first; a server on 127.0.0.1 is still reached."""
    with serving(saying("200 OK", DENY)) as server:
        assert fire(webhook(f"http://localhost:{server.port}/")).denied


def test_a_self_signed_certificate_is_refused(tmp_path: Path) -> None:
    """TLS is checked: no request goes to a server that can't prove its identity."""
    with serving(saying("200 OK", "{}"), tls=self_signed(tmp_path)) as server:
        verdict = fire(webhook(server.url + "?token=abcdef", headers={"X-Key": "s3cret"}), timeout=20)

    assert verdict.outcomes[0].status is Status.COULD_NOT_START
    assert "its certificate is not trusted (self-signed certificate)" in error_of(verdict).replace(
        "self signed", "self-signed"
    )
    assert server.requests == []


def test_a_certificate_authority_of_ones_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """SSL_CERT_FILE names the authorities to trust."""
    tls = self_signed(tmp_path)
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "cert.pem"))
    with serving(saying("200 OK", DENY), tls=tls) as server:
        assert fire(webhook(server.url), timeout=20).reason == "not here"


def test_tls_to_a_server_without_it() -> None:
    """https to a plain port fails before anything is sent."""
    with serving(saying()) as server:
        verdict = fire(webhook(server.url.replace("http:", "https:")), timeout=20)

    assert verdict.outcomes[0].status is Status.COULD_NOT_START
    assert "TLS failed" in error_of(verdict)
    assert server.requests == []


@pytest.mark.parametrize("cancel", [False, True], ids=["the deadline", "a cancellation"])
def test_a_handshake_without_end_leaves_nothing_open(cancel: bool) -> None:
    """A connection whose TLS handshake is cut off is closed, too."""
    with socket.create_server(("127.0.0.1", 0)) as mute:
        run = webhook(f"https://127.0.0.1:{mute.getsockname()[1]}/")
        if cancel:
            hook = Hook(name="h", run=run, dialect="claude")
            with pytest.raises(TimeoutError):
                asyncio.run(asyncio.wait_for(Engine([hook]).fire(BASH), 0.3))
        else:
            assert fire(run, timeout=0.3).outcomes[0].status is Status.TIMED_OUT
        mute.settimeout(10)
        connection, _ = mute.accept()
        with connection:
            connection.settimeout(10)
            while connection.recv(65536):
                pass
    gc.collect()


@pytest.mark.skipif(sys.platform != "linux", reason="a full backlog makes others wait only on Linux")
def test_a_server_that_does_not_accept_ends_at_the_deadline() -> None:
    """Connecting counts, too."""
    with socket.create_server(("127.0.0.1", 0), backlog=0) as full, contextlib.ExitStack() as waiting:
        for _ in range(4):
            other = waiting.enter_context(socket.socket())
            other.setblocking(False)
            other.connect_ex(full.getsockname())
        verdict = fire(webhook(f"http://127.0.0.1:{full.getsockname()[1]}/"), timeout=0.3)

    assert verdict.outcomes[0].status is Status.TIMED_OUT


SAN = "subjectAltName=IP:127.0.0.1"


def self_signed(folder: Path) -> ssl.SSLContext:
    openssl = shutil.which("openssl")
    if openssl is None:
        pytest.skip("needs openssl")
    key, cert = str(folder / "key.pem"), str(folder / "cert.pem")
    words = f"req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=127.0.0.1 -addext {SAN} -keyout {key} -out {cert}"
    subprocess.run([openssl, *shlex.split(words)], check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(cert, key)
    return context


@pytest.mark.parametrize("name", ["HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"])
def test_proxies_of_the_environment_are_not_used(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """An event goes to the address that the hook names, and to no other."""
    with serving(saying("200 OK", "{}")) as proxy, serving(saying("200 OK", DENY)) as server:
        monkeypatch.setenv(name, f"http://127.0.0.1:{proxy.port}")
        monkeypatch.delenv("NO_PROXY", raising=False)
        assert fire(webhook(server.url)).denied
        assert proxy.requests == []


# -- what is sent --------------------------------------------------------------------------------------------------

EVENTS = [
    pytest.param({"command": "ls"}, id="small"),
    pytest.param({"command": "x" * 5_000_000}, id="5 MB"),
    pytest.param({"command": "ü€😀" * 500_000}, id="5 MB of other letters"),
    pytest.param({"command": "a\ud800b\udfff"}, id="lone surrogates"),
    pytest.param({"command": "a\0b\r\n\r\n"}, id="NUL and line breaks"),
    pytest.param({"deep": [[[[{"a": None}]]]], "n": 10**30, "f": 1e300}, id="numbers"),
]


@pytest.mark.parametrize("tool_input", EVENTS)
def test_the_event_arrives_whole(tool_input: dict[str, Any]) -> None:
    """The body is what a command gets on stdin, byte for byte, with its content type."""
    event = PreToolUse(tool_name="Bash", tool_input=tool_input, session_id="s1")
    with serving(saying()) as server:
        verdict = fire(webhook(server.url), event, timeout=30)

    (request,) = server.requests
    assert verdict.outcomes[0].status is Status.OK
    assert request.body == dialect("claude").write_call(Context(event, [])).stdin
    assert json.loads(request.body)["tool_input"] == tool_input
    assert (request.line, request.header("content-type")) == ("POST /hook HTTP/1.1", "application/json")
    assert request.header("content-length") == str(len(request.body))


@pytest.mark.skipif(sys.platform == "win32", reason="needs a POSIX shell")
def test_a_command_gets_the_same_bytes(tmp_path: Path) -> None:
    """An endpoint and a command in one list get the same event."""
    got = tmp_path / "stdin"
    with serving(saying()) as server:
        fire(webhook(server.url))
        Engine([Hook(name="c", run=command(f"cat > {got}"), dialect="claude")]).fire_sync(BASH)

    assert server.requests[0].body == got.read_bytes()


@pytest.mark.parametrize("name", ["spec", "claw", "claw-text", "lesson"])
def test_other_dialects(name: str) -> None:
    """The event is written in the dialect's format; the answer is read as JSON in all of them."""
    with serving(saying("200 OK", DENY)) as server:
        verdict = fire(webhook(server.url, dialect=name), dialect=name)

    assert verdict.reason == "not here"
    assert server.requests[0].body == dialect(name).write_call(Context(BASH, [])).stdin


@pytest.mark.parametrize(
    ("value", "sent"),
    [
        pytest.param("plain", "plain", id="plain"),
        pytest.param("Bearer $BH_TOKEN", "Bearer t0k", id="$VAR"),
        pytest.param("Bearer ${BH_TOKEN}", "Bearer t0k", id="${VAR}"),
        pytest.param("${BH_TOKEN}$BH_TOKEN-x", "t0kt0k-x", id="twice"),
        pytest.param("a${BH_OTHER}b$BH_OTHER", "ab", id="not allowed"),
        pytest.param("a${BH_UNSET}b", "ab", id="allowed, not set"),
        pytest.param("$BH_TOKENS", "", id="a longer name is another name"),
        pytest.param("$bh_token", "", id="case counts"),
        pytest.param("$BH_NESTED", "$BH_TOKEN ${BH_OTHER}", id="values are not filled again"),
        pytest.param("$BH_FIRED", "of the firing", id="only in the firing's environment"),
        pytest.param("$BH_BOTH", "of the firing", id="the firing's environment wins"),
        pytest.param("cost: 5$ $1 ${} ${a b} $$", "cost: 5$ $1 ${} ${a b} $$", id="no variables"),
        pytest.param("${BH_TOKEN:-x}", "${BH_TOKEN:-x}", id="no defaults"),
        pytest.param("  a\tb  ", "a\tb", id="white space around it"),
        pytest.param("ü", "ü", id="UTF-8"),
    ],
)
def test_what_a_header_becomes(value: str, sent: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only allowed variables are filled in, once; all others are empty."""
    here = {"BH_TOKEN": "t0k", "BH_OTHER": "other", "BH_NESTED": "$BH_TOKEN ${BH_OTHER}", "BH_BOTH": "of the process"}
    for name, text in here.items():
        monkeypatch.setenv(name, text)
    allowed = ["BH_TOKEN", "BH_NESTED", "BH_UNSET", "BH_FIRED", "BH_BOTH"]
    with serving(saying()) as server:
        run = webhook(server.url, headers=[("X-Test", value)], allowed_env=allowed)
        verdict = fire(run, env={"BH_FIRED": "of the firing", "BH_BOTH": "of the firing"})

    assert verdict.outcomes[0].status is Status.OK
    assert server.requests[0].header("X-Test") == sent


@pytest.mark.parametrize(
    ("name", "value"),
    [
        pytest.param("X-Test", "a\r\nX-Other: s3cret", id="CR LF in a value"),
        pytest.param("X-Test", "s3cret\n", id="LF at the end"),
        pytest.param("X-Test", "s3cret\r", id="CR"),
        pytest.param("X-Test", "s3cret\x0b", id="another control character"),
        pytest.param("X-Test", "s3cret\ud800", id="a lone surrogate"),
        pytest.param("X-Test", "$BH_EVIL", id="LF in a variable"),
        pytest.param("X-Test", "s3cret\0", id="NUL"),
        pytest.param("X-A: b\r\nX-Test", "s3cret", id="CR LF in a name"),
        pytest.param("X Test", "s3cret", id="a space in a name"),
        pytest.param("X\0", "s3cret", id="NUL in a name"),
        pytest.param("", "s3cret", id="no name"),
        pytest.param("Content-Length", "3", id="Content-Length"),
        pytest.param("Host", "other.example", id="Host"),
        pytest.param("transfer-encoding", "chunked", id="Transfer-Encoding"),
    ],
)
def test_headers_that_are_refused(name: str, value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A header that could become two is a failure; nothing is sent, and the error does not show the value."""
    monkeypatch.setenv("BH_EVIL", "s3cret\nX-Other: y")
    with serving(saying()) as server:
        verdict = fire(webhook(server.url, headers=[(name, value)], allowed_env=["BH_EVIL"]), on_failure="deny")
        assert server.connections == 0

    assert (verdict.outcomes[0].status, verdict.decision) == (Status.COULD_NOT_START, Decision.DENY)
    assert "header" in verdict.reason
    assert "s3cret" not in verdict.reason


def test_a_header_may_replace_ours_and_come_twice() -> None:
    """The hook's own headers win, and a pair that is given twice is sent twice."""
    headers = [("content-type", "application/json; charset=utf-8"), ("X-A", "1"), ("X-A", "2")]
    with serving(saying()) as server:
        fire(webhook(server.url, headers=headers))

    sent = [(name.lower(), value) for name, value in server.requests[0].headers]
    assert [value for name, value in sent if name == "content-type"] == ["application/json; charset=utf-8"]
    assert [value for name, value in sent if name == "x-a"] == ["1", "2"]


# -- addresses -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("patterns", "path", "asked"),
    [
        pytest.param(None, "/hook", True, id="no list"),
        pytest.param([], "/hook", False, id="an empty list"),
        pytest.param(["*"], "/hook", True, id="any"),
        pytest.param(["{origin}/hook"], "/hook", True, id="exact"),
        pytest.param(["{origin}/hook"], "/hook2", False, id="exact, longer"),
        pytest.param(["{origin}/hook"], "/hook?x=1", False, id="exact, with a query"),
        pytest.param(["{origin}/*"], "/a/b?x=1", True, id="any path"),
        pytest.param(["{origin}"], "/", True, id="no path"),
        pytest.param(["{origin}"], "/hook", False, id="no path means no path"),
        pytest.param(["http://127.0.0.1:*"], "/hook", True, id="any port, any path"),
        pytest.param(["http://*:*/hook"], "/hook", True, id="any host"),
        pytest.param(["HTTP://127.0.0.1:*/hook"], "/hook", True, id="case of the scheme"),
        pytest.param(["{origin}/hook"], "/HOOK", False, id="case of the path"),
        pytest.param(["https://127.0.0.1:*/hook"], "/hook", False, id="another scheme"),
        pytest.param(["http://*.example.com/*"], "/.example.com/x", False, id="a star stays in the host"),
        pytest.param(["http://*/.example.com/*"], "/a/.example.com/x", False, id="a star in the host, slash"),
        pytest.param(["{origin}/ok/*"], "/ok/../evil", False, id="dots"),
        pytest.param(["{origin}/ok/*"], "/ok/%2e%2e/evil", False, id="dots in disguise"),
        pytest.param(["{origin}/ok/*"], "/ok/x%2f..%2f..%5cevil", False, id="dots between other slashes"),
        pytest.param(["{origin}/ok/*"], "/ok/a..b/...?x=../..", True, id="dots that lead nowhere"),
        pytest.param(["https://a.example/*", "{origin}/ho*k"], "/hook", True, id="one of several"),
        pytest.param(["127.0.0.1*"], "/hook", False, id="no scheme"),
    ],
)
def test_allowed_addresses(patterns: list[str] | None, path: str, asked: bool) -> None:
    """With a list, only addresses that match a pattern are called; all others fail and nothing is sent."""
    with serving(saying()) as server:
        origin = f"http://127.0.0.1:{server.port}"
        filled = None if patterns is None else [pattern.replace("{origin}", origin) for pattern in patterns]
        verdict = fire(webhook(origin + path, allowed_urls=filled))
        assert server.connections == asked
        assert filled is None or address_allowed(origin + path, filled) == asked

    assert verdict.outcomes[0].status is (Status.OK if asked else Status.COULD_NOT_START)
    assert asked or "not an allowed address" in error_of(verdict)


@pytest.mark.parametrize(
    ("pattern", "url", "allowed"),
    [
        pytest.param("https://*.example.com/*", "https://a.example.com/x", True, id="a subdomain"),
        pytest.param("https://*.example.com/*", "https://A.Example.COM/x", True, id="case of the host"),
        pytest.param("https://*.example.com/*", "https://evil.org/.example.com/x", False, id="the host in the path"),
        pytest.param("https://*.example.com/*", "https://evil.org?.example.com/x", False, id="in the query"),
        pytest.param("https://*.example.com/*", "https://evil.org#.example.com/x", False, id="in the fragment"),
        pytest.param("https://*.example.com/*", "https://evil.org\\.example.com/x", False, id="behind a backslash"),
        pytest.param("https://example.com/*", "https://example.com@evil.org/x", False, id="as a user"),
        pytest.param("https://example.com/*", "https://example.com.evil.org/x", False, id="as a subdomain"),
        pytest.param("https://*", "https://evil.org/x", True, id="any host, any path"),
        pytest.param("*", "file:///etc/passwd", False, id="never a file"),
        pytest.param("http*://h/x", "https://h/x#f", True, id="either scheme, no fragment"),
    ],
)
def test_patterns_of_addresses(pattern: str, url: str, allowed: bool) -> None:
    """A pattern's host is the host that is called."""
    assert address_allowed(url, [pattern]) == allowed


@pytest.mark.parametrize(
    ("url", "problem"),
    [
        pytest.param("https://hooks.example.com/x?y=z", "", id="https"),
        pytest.param("http://localhost:8080/x", "", id="localhost"),
        pytest.param("http://LOCALHOST/", "", id="LOCALHOST"),
        pytest.param("http://127.0.0.1/", "", id="127.0.0.1"),
        pytest.param("http://127.9.8.7:1/", "", id="127.0.0.0/8"),
        pytest.param("http://[::1]:8080/", "", id="::1"),
        pytest.param("http://hooks.example.com/", "without encryption", id="plain http"),
        pytest.param("http://localhost.example.com/", "without encryption", id="not localhost"),
        pytest.param("http://10.0.0.1/", "without encryption", id="a private address"),
        pytest.param("http://0.0.0.0/", "without encryption", id="0.0.0.0"),
        pytest.param("http://[::2]/", "without encryption", id="::2"),
        pytest.param("ftp://example.com/", "does not begin with http", id="ftp"),
        pytest.param("file:///etc/passwd", "does not begin with http", id="file"),
        pytest.param("hooks.example.com/x", "does not begin with http", id="no scheme"),
        pytest.param("", "does not begin with http", id="empty"),
        pytest.param("https://", "has no host", id="no host"),
        pytest.param("https:///x", "has no host", id="only a path"),
        pytest.param("https://:443/x", "has no host", id="only a port"),
        pytest.param("https://u:s3cret@example.com/", "user name or a password", id="credentials"),
        pytest.param("https://s3cret@example.com/", "user name or a password", id="a user"),
        pytest.param("https://example.com:s3cret/", "not a URL", id="no port"),
        pytest.param("https://[::1/", "not a URL", id="half a bracket"),
        pytest.param("https://example.com\\@evil.example/", "backslash", id="backslash"),
        pytest.param("https://exa mple.com/", "space", id="space"),
        pytest.param("https://ex%61mple.com/", "its host is neither", id="escapes in the host"),
        pytest.param("https://ex\u0430mple.com/", "its host is neither", id="a letter that looks like another"),
        pytest.param("https://evil.example\u3002com/", "its host is neither", id="a look-alike dot"),
        pytest.param("https://[fe80::1%eth0]/", "", id="an address with a zone"),
        pytest.param("https://example.com/\r\nX: y", "control character", id="line break"),
    ],
)
def test_problems_of_addresses(url: str, problem: str) -> None:
    """The reason why an address can't be used, without the address in it."""
    said = address_problem(url)

    assert problem in said
    assert bool(said) == bool(problem)
    assert "s3cret" not in said


@pytest.mark.parametrize(
    "url", ["ftp://s3cret/", "https://", "http://s3cret:x@127.0.0.1/", "http://a b/", "http://[v1.a]/"]
)
def test_addresses_that_are_never_called(url: str) -> None:
    """An address that can't be used is a failure, not an exception."""
    verdict = fire(webhook(url), on_failure="deny", timeout=10)

    assert verdict.outcomes[0].status is Status.COULD_NOT_START
    assert verdict.reason.startswith("hook `h` could not start: the address can't be used: ")
    assert "s3cret" not in verdict.reason


# -- secrets -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "shape",
    [
        "key {}",
        '{{"continue": "\\u0020{}"}}',
        '{{"continue": "{}"}}',
        '{{"systemMessage": "m", "x": {{"{}": 1}}}}',
        "<{}",
    ],
)
@pytest.mark.parametrize("secret", ["s3cret-token", "s3cret-query", "s3cret literal"])
def test_a_body_that_repeats_a_secret_is_not_quoted(secret: str, shape: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """An endpoint that echoes its request does not get the token into a log."""
    monkeypatch.setenv("BH_TOKEN", "s3cret-token")
    headers = {"Authorization": "Bearer $BH_TOKEN", "X-Key": "s3cret literal"}
    with serving(
        saying("200 OK", shape.format(secret).replace("s3", "s\\u0033" if "u0020" in shape else "s3"))
    ) as server:
        run = webhook(server.url + "?key=s3cret-query", headers=headers, allowed_env=["BH_TOKEN"])
        verdict = fire(run, on_failure="deny")

    assert "s3cret" not in verdict.to_json()
    assert "s3cret" not in "".join(verdict.warnings)
    assert "?key=s3cret-query" in server.requests[0].line


def test_nothing_secret_is_logged_or_shown(caplog: pytest.LogCaptureFixture) -> None:
    """Neither the logs of the HTTP library nor the hook's own repr show headers or query."""
    with caplog.at_level(logging.DEBUG), serving(saying()) as server:
        run = webhook(server.url + "?key=s3cret", headers={"X-Key": "s3cret"})
        fire(run)

    assert "s3cret" not in caplog.text
    assert repr(run) == f"Webhook('http://127.0.0.1:{server.port}', dialect='claude')"
    assert "s3cret" not in repr(webhook("http://u:s3cret@h/"))


# -- the module ----------------------------------------------------------------------------------------------------


def test_hooks_that_do_the_same_are_equal() -> None:
    """A handler is a record: mappings and pairs of headers make the same one."""
    assert webhook("https://h/", headers={"A": "b"}) == webhook("https://h/", headers=[("A", "b")])
    assert webhook("https://h/") != webhook("https://h/", allowed_urls=[])
    assert len({webhook("https://h/"), webhook("https://h/")}) == 1


@pytest.mark.parametrize("module", ["billhook", "billhook.runners.webhook"])
def test_httpx_is_not_imported_early(module: str) -> None:
    """Without an HTTP hook, there is no cost for it."""
    program = f"import {module}, sys; print([name for name in ('httpx', 'httpcore', 'anyio') if name in sys.modules])"
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)

    assert ended.stdout.strip() == "[]"


def test_without_httpx() -> None:
    """A hook whose library is missing could not start, and the error names what to install."""
    program = (
        "import sys; sys.modules['httpx'] = None\n"
        "from billhook import Engine, Hook, PreToolUse; from billhook.runners.webhook import webhook\n"
        "hook = Hook(name='h', run=webhook('http://127.0.0.1:1/'), dialect='claude', on_failure='deny')\n"
        "print(Engine([hook]).fire_sync(PreToolUse(tool_name='Bash', tool_input={})).reason)"
    )
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)

    expected = f"hook `h` could not start: an HTTP hook needs httpx; {install_command('http')}"
    assert ended.stdout.strip() == expected


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="needs /proc")
def test_no_descriptor_is_left() -> None:
    """After answers, failures and timeouts as many files are open as before."""
    with serving(saying("200 OK", "{}")) as fine, serving(lambda c, _: until_closed(c)) as mute:
        fire(webhook(fine.url))
        time.sleep(0.1)
        before = open_descriptors()
        for _ in range(5):
            fire(webhook(fine.url))
            fire(webhook(mute.url), timeout=0.1)
            fire(webhook("http://127.0.0.1:1/"))
        for thread in [*fine.threads[1:], *mute.threads[1:]]:
            thread.join(10)
        assert open_descriptors() <= before


def test_the_guide_is_right(tmp_path: Path) -> None:
    """The endpoint of the guide runs, the Python of the guide calls it, and its configuration can be read."""
    guide = (Path(__file__).parent.parent / "docs" / "guides" / "http-hooks.md").read_text()
    blocks = {name: re.findall(rf"```{name}\n(.*?)```", guide, re.DOTALL) for name in ("python", "json", "yaml")}
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = str(free.getsockname()[1])
    endpoint, asking = (block.replace("8787", port) for block in blocks["python"])
    (tmp_path / "guard.py").write_text(endpoint)
    with subprocess.Popen([sys.executable, str(tmp_path / "guard.py")], stderr=subprocess.DEVNULL) as guard:
        try:
            _wait_for(int(port))
            exec(compile(asking, "http-hooks.md", "exec"), {})
        finally:
            guard.kill()

    (settings,), (hooks,) = map(json.loads, blocks["json"]), map(yaml.safe_load, blocks["yaml"])
    handler = settings["hooks"]["PreToolUse"][0]["hooks"][0]
    native = hooks["hooks"]["push-guard"]
    assert (handler["url"], handler["headers"]) == (native["url"], native["headers"])


def _wait_for(port: int) -> None:
    for _ in range(200):
        with contextlib.suppress(OSError):
            socket.create_connection(("127.0.0.1", port), 1).close()
            return
        time.sleep(0.05)

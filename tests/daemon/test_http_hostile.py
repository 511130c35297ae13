"""HTTP and those who mean no good: strangers, web pages, floods, garbage, and people who speak very slowly."""

import asyncio
import json
import os
import random
import re
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from billhook.serve.http.access import AccessCheck
from daemon.http_serving import Serving, heard, serving

pytestmark = pytest.mark.slow

MiB = 1024 * 1024
HOOKS = """\
hooks:
  denies: {events: PreToolUse, match: Denies, deny: not here}
  long: {events: UserPromptSubmit, run: "head -c 90000 /dev/zero | tr '\\\\0' x"}
"""
QUICK = ("http_protocol:SLOWEST:0.6", "http_routes:SLOWEST:0.6", "http_door:_DRAINING:0.6", "http:_IDLE:0.6")


def _made(base: Path) -> Path:
    configuration = base / "home" / ".config" / "billhook" / "hooks.yaml"
    configuration.parent.mkdir(parents=True)
    configuration.write_text(HOOKS)
    (base / "work").mkdir()
    return base


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    with serving(
        _made(tmp_path_factory.mktemp("hostile")), "http_stream:HEARTBEAT:0.3", "http_stream:_MOST_BYTES:300000"
    ) as running:
        yield running


@pytest.fixture(scope="module")
def quick(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    """A server with short timeouts, in a loop of the standard library."""
    with serving(_made(tmp_path_factory.mktemp("quick")), *QUICK, env={"PLAIN_LOOP": "1"}) as running:
        yield running


def denied(served: Serving, **fields: Any) -> dict[str, Any]:
    """An event that is refused."""
    cwd = str(served.base / "work")
    return {"hook_event_name": "PreToolUse", "cwd": cwd, "tool_name": "Denies", "tool_input": {}, **fields}


def well(served: Serving) -> None:
    """It still does what it is there for."""
    with served.client() as client:
        assert (
            client.post("/hook/claude", json=denied(served)).json()["hookSpecificOutput"]["permissionDecision"]
            == "deny"
        )


def status(answer: bytes) -> int:
    """The status of the last answer among what came back; 0: there was none."""
    found = re.findall(rb"HTTP/1\.1 (\d{3}) ", answer)
    return int(found[-1]) if found else 0


# -- strangers


@pytest.mark.parametrize(
    "authorization",
    [
        None,
        "",
        "Bearer",
        "Bearer x",
        "Basic {token}",
        "{token}",
        "Bearer {token}x",
        "Bearer {short}",
        "Bearer é",
        "Bearer {upper}",
    ],
)
def test_without_the_token_nothing_is_told(served: Serving, authorization: str | None) -> None:
    """401 on every route but one, whatever is wrong with it; the answer has no hint of the token."""
    token = served.token
    headers: list[tuple[bytes, bytes]] = []
    if authorization is not None:
        given = authorization.format(token=token, short=token[:-1], upper=token.swapcase())
        headers = [(b"Authorization", given.encode())]
    with httpx.Client(base_url=served.url, trust_env=False, verify=False) as client:
        for method, path in (("POST", "/fire"), ("POST", "/hook/claude"), ("GET", "/events"), ("GET", "/openapi.json")):
            found = client.request(method, path, headers=headers, json=denied(served) if method == "POST" else None)
            assert found.status_code == 401, path
            assert found.headers["www-authenticate"] == "Bearer"
            assert token not in found.text
        assert client.get("/nothing", headers=headers).status_code == 401
        assert client.get("/healthz", headers=headers).status_code == 200


def test_two_tokens_are_none(served: Serving) -> None:
    """Duplicate headers are not ambiguous."""
    body = json.dumps(denied(served)).encode()

    assert status(served.raw(served.request(body, more=b"Authorization: Bearer x\r\n"))) == 401


def test_the_token_is_in_no_log(served: Serving) -> None:
    """Neither in the event log nor anywhere else below the state root but in its own file."""
    well(served)
    found = [
        path
        for path in served.base.rglob("*")
        if path.is_file() and served.token.encode() in path.read_bytes() and path.name != "token"
    ]

    assert found == []


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("127.0.0.1:{port}", 200),
        ("localhost:{port}", 200),
        ("LocalHost:{port}", 200),
        ("[::1]:{port}", 200),
        ("127.0.0.1", 403),
        ("127.0.0.1:1", 403),
        ("localhost", 403),
        ("evil.example", 403),
        ("evil.example:{port}", 403),
        ("localhost.evil.example:{port}", 403),
        ("127.0.0.1.evil.example:{port}", 403),
        ("evil@127.0.0.1:{port}", 403),
        ("127.0.0.1:{port}:{port}", 403),
        ("127.0.0.1:{port}.evil.example", 403),
        ("192.0.2.1:{port}", 403),
        ("0.0.0.0:{port}", 403),
        ("[::1]evil:{port}", 403),
        ("", 403),
    ],
)
def test_only_this_host_is_served(served: Serving, host: str, expected: int) -> None:
    """Another name that resolves to the loopback is rejected (DNS rebinding), even for /healthz."""
    given = host.format(port=served.port)
    answer = served.raw(f"GET /healthz HTTP/1.1\r\nHost: {given}\r\nConnection: close\r\n\r\n".encode())

    assert status(answer) == expected


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("192.0.2.1:8123", 200),
        ("[2001:db8::1]:8123", 200),
        ("127.0.0.1:8123", 200),
        ("192.0.2.1", 403),
        ("evil.example:8123", 403),
        ("192.0.2.1.evil.example:8123", 403),
    ],
)
def test_an_exposed_server_is_asked_by_its_address(host: str, expected: int) -> None:
    """An address can't be rebound, a name can."""
    sent: list[Any] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        sent.append({"status": 200})

    async def receive() -> Any:
        return {"type": "http.request"}

    async def send(message: Any) -> None:
        sent.append(message)

    headers = [(b"host", host.encode()), (b"authorization", b"Bearer secret")]
    scope = {"type": "http", "method": "GET", "path": "/fire", "headers": headers, "client": None}
    asyncio.run(AccessCheck(app, b"secret", host="0.0.0.0", port=8123, exposed=True)(scope, receive, send))

    assert sent[0]["status"] == expected


def test_a_request_without_a_host_is_refused(served: Serving) -> None:
    """As old clients send it, and as a second one would make it unclear."""
    assert status(served.raw(b"GET /healthz HTTP/1.0\r\n\r\n")) == 403
    twice = f"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1:{served.port}\r\nHost: evil.example\r\n\r\n"
    assert status(served.raw(twice.encode())) in (400, 403)


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ({"Origin": "http://127.0.0.1:{port}"}, 200),
        ({"Origin": "https://evil.example"}, 403),
        ({"Origin": "null"}, 403),
        ({"Origin": ""}, 403),
        ({"Origin": "http://127.0.0.1:1"}, 403),
        ({"Origin": "https://127.0.0.1:{port}"}, 403),
        ({"Origin": "http://localhost:{port}"}, 403),
        ({"Sec-Fetch-Site": "cross-site"}, 403),
        ({"Sec-Fetch-Site": "same-site"}, 403),
        ({"Sec-Fetch-Site": "none"}, 200),
    ],
)
def test_web_pages_are_refused(served: Serving, headers: dict[str, str], expected: int) -> None:
    """Even with the token: no page of another origin has any business here."""
    given = {name: value.format(port=served.port) for name, value in headers.items()}
    with served.client() as client:
        for found in (client.post("/fire", json=denied(served), headers=given), client.get("/healthz", headers=given)):
            assert found.status_code == expected
            assert not any(name.startswith("access-control") for name in found.headers)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_another_user_can_not_read_the_token(served: Serving) -> None:
    """The folder and the file are closed to them."""
    stranger = subprocess.run(
        ["cat", served.folder / "token"], user=65534, group=65534, extra_groups=[], capture_output=True, check=False
    )

    assert stranger.returncode != 0 and stranger.stdout == b""
    assert served.folder.stat().st_mode & 0o777 == 0o700


# -- too much


def test_a_body_over_the_limit(served: Serving) -> None:
    """413, also when the length is not announced; just below the limit it is taken."""
    work = str(served.base / "work")
    with served.client() as client:
        for content in (b"x" * (8 * MiB + 1), (b"x" * MiB for _ in range(9))):  # the second has no length
            found = client.post("/fire", content=content)
            assert found.status_code == 413
            assert "8 MiB" in found.json()["error"]["message"]
        fits = {
            "hook_event_name": "PreToolUse",
            "cwd": work,
            "tool_name": "Other",
            "tool_input": {"x": "y" * (8 * MiB - 1000)},
        }
        assert client.post("/fire", json=fits).status_code == 200
    well(served)


def test_a_guard_is_not_passed_by_writing_much(served: Serving) -> None:
    """An agent continues if its hook returns 413; so with a gate the answer is a refusal."""
    much = denied(served, tool_name="Other", tool_input={"content": "y" * (9 * MiB)})
    with served.client() as client:
        found = client.post("/hook/claude", json=much)
        let = client.post("/hook/claude?on_failure=allow", json=much)

    assert found.status_code == 200
    assert found.json()["hookSpecificOutput"]["permissionDecision"] == "deny"
    assert (let.status_code, let.json()) == (200, {})


def test_a_length_that_promises_more_than_the_limit_and_waits(served: Serving) -> None:
    """Who asks first whether to send it is told at once."""
    more = b"Expect: 100-continue\r\n"

    answer = served.raw(served.request(b"", more=more, length=10**12))

    assert status(answer) == 413 and b"100 Continue" not in answer


def test_compressed_bodies_are_refused(served: Serving) -> None:
    """A compression bomb is not unpacked."""
    with served.client() as client:
        assert client.post("/fire", content=b"\x1f\x8b", headers={"Content-Encoding": "gzip"}).status_code == 415


def test_large_heads_are_refused(served: Serving) -> None:
    """Long lines and many of them."""
    line = f"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1:{served.port}\r\n".encode()
    for head in (b"GET /" + b"x" * 200_000, line + b"X: " + b"y" * 200_000, line + b"X: y\r\n" * 50_000):
        answer = served.raw(head)
        assert status(answer) in (0, 400)
    well(served)


def test_connections_are_bounded(served: Serving) -> None:
    """Hundreds of silent connections don't block others."""
    idle = [socket.create_connection(("127.0.0.1", served.port), 10) for _ in range(300)]
    try:
        well(served)
    finally:
        for connection in idle:
            connection.close()


# -- garbage

GARBAGE: dict[str, bytes] = {
    "nothing known": b"hello\r\n\r\n",
    "the socket's protocol": b"bh\0\1" + b"\0" * 64,
    "TLS": bytes.fromhex("16030100c8010000c40303") + b"\0" * 200,
    "HTTP/2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "no version": b"GET /\r\n\r\n",
    "control characters": b"GET /\x01 HTTP/1.1\r\nHost: x\r\n\r\n",
    "two lengths": b"POST /fire HTTP/1.1\r\nHost: HOST\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nxx",
    "negative length": b"POST /fire HTTP/1.1\r\nHost: HOST\r\nContent-Length: -1\r\n\r\n",
    "invalid length": b"POST /fire HTTP/1.1\r\nHost: HOST\r\nContent-Length: many\r\n\r\n",
    "odd coding": b"POST /fire HTTP/1.1\r\nHost: HOST\r\nTransfer-Encoding: gzip\r\n\r\n",
    "bad chunk": b"POST /fire HTTP/1.1\r\nHost: HOST\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
    "folded header": b"GET /healthz HTTP/1.1\r\nHost: HOST\r\n folded\r\n\r\n",
    "space before colon": b"GET /healthz HTTP/1.1\r\nHost : HOST\r\n\r\n",
}


@pytest.mark.parametrize("case", GARBAGE)
def test_what_is_no_request(quick: Serving, case: str) -> None:
    """It is told so, or cut off; the server goes on."""
    answer = quick.raw(GARBAGE[case].replace(b"HOST", f"127.0.0.1:{quick.port}".encode()))

    assert status(answer) in (0, 400, 401, 403, 501)
    if status(answer) == 400:
        assert b'{"error":' in answer
    well(quick)


def test_a_bad_chunk_after_good_ones(quick: Serving) -> None:
    """Nothing of such a body is judged."""
    head = quick.request(b"", "/fire").replace(b"Content-Length: 0", b"Transfer-Encoding: chunked")

    answer = quick.raw(head + b'5\r\n{"a":\r\nnonsense\r\n')

    assert status(answer) in (0, 400)
    well(quick)


def test_websockets_are_not_spoken(quick: Serving) -> None:
    """An upgrade is ignored."""
    more = b"Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
    answer = quick.raw(quick.request(b"{}", more=more))

    assert status(answer) == 400 and b"switching" not in answer.lower()


def test_requests_in_a_row_are_answered_in_order(quick: Serving) -> None:
    """Also when they are all sent before the first answer has come."""
    body = json.dumps(denied(quick)).encode()
    answer = quick.raw(quick.request(body, "/hook/claude") + quick.request(b"[]") + quick.request(body, "/hook/lesson"))

    assert [int(found) for found in re.findall(rb"HTTP/1\.1 (\d{3})", answer)] == [200, 400, 200]


def _mutated(request: bytes, chance: random.Random) -> bytes:
    """A request with something wrong somewhere."""
    data = bytearray(request)
    for _ in range(chance.randint(1, 8)):
        at = chance.randrange(len(data))
        match chance.randrange(4):
            case 0:
                data[at] = chance.randrange(256)
            case 1:
                del data[at : at + chance.randint(1, 20)]
            case 2:
                data[at:at] = bytes(chance.randrange(256) for _ in range(chance.randint(1, 20)))
            case _:
                del data[at + 1 :]
        if not data:
            return b"\0"
    return bytes(data)


def _flood(served: Serving, count: int, seed: int) -> None:
    chance = random.Random(seed)
    whole = served.request(json.dumps(denied(served)).encode(), "/hook/claude", more=b"Connection: close\r\n")
    for _ in range(count):
        with socket.create_connection(("127.0.0.1", served.port), 20) as connection:
            try:
                connection.sendall(_mutated(whole, chance))
                connection.shutdown(socket.SHUT_WR)
                answer = heard(connection)
            except (BrokenPipeError, ConnectionResetError, OSError):
                continue
            assert status(answer) in (0, 200, 400, 401, 403, 404, 405, 413, 415), answer[:200]


def test_broken_requests(quick: Serving) -> None:
    """Hundreds of them, each broken in another way: the server answers what it can and goes on."""
    _flood(quick, 300, 1)
    well(quick)


@pytest.mark.slow
def test_ten_thousand_broken_requests_cost_no_memory(quick: Serving) -> None:
    """No crash and no leak."""
    _flood(quick, 1_000, 2)
    before = _resident(quick)
    _flood(quick, 9_000, 3)

    assert _resident(quick) - before < 16 * MiB
    well(quick)


def _resident(served: Serving) -> int:
    found = Path(f"/proc/{served.running.pid}/statm").read_text().split()[1]
    return int(found) * os.sysconf("SC_PAGE_SIZE")


# -- slowness


def _cut_off(served: Serving, data: bytes, drip: bytes = b"", every: float = 0.1) -> tuple[float, bytes]:
    """The time until a client that sends this, and then single bytes, is disconnected; and the response."""
    with socket.create_connection(("127.0.0.1", served.port), 20) as connection:
        connection.sendall(data)
        began = time.monotonic()
        connection.settimeout(every)
        parts = b""
        while time.monotonic() - began < 20:
            try:
                part = connection.recv(65536)
                if not part:
                    break
                parts += part
            except TimeoutError:
                try:
                    connection.sendall(drip)
                except OSError:
                    break
            except ConnectionResetError:
                break
        return time.monotonic() - began, parts


SLOW: dict[str, tuple[Callable[[Serving], bytes], bytes]] = {
    "sends nothing": (lambda served: b"", b""),
    "half a line": (lambda served: b"GET /hea", b""),
    "a header at a time": (lambda served: b"GET /healthz HTTP/1.1\r\n", b"X: y\r\n"),
    "a body that does not come": (lambda served: served.request(b"{", length=100), b""),
    "a byte of the body at a time": (lambda served: served.request(b"{", length=1000), b" "),
    "a stranger's body": (lambda served: served.request(b"{", length=1000).replace(b"Bearer", b"Basic"), b" "),
    "a body for an unknown path": (lambda served: served.request(b"{", "/nothing", length=1000), b" "),
    "idle after an answer": (lambda served: served.request(b"[]"), b""),
    "slow after an answer": (lambda served: served.request(b"[]") + b"GET /he", b"a"),
}


@pytest.mark.parametrize("case", SLOW)
def test_slow_senders_are_cut_off(quick: Serving, case: str) -> None:
    """A slow head, a slow body or an idle client does not keep a connection for long."""
    made, drip = SLOW[case]

    took, answer = _cut_off(quick, made(quick), drip)

    assert took < 10
    assert status(answer) in (0, 400, 401, 404, 408)


def test_a_guard_is_not_passed_by_writing_slowly(quick: Serving) -> None:
    """What did not come in time is refused where something guards."""
    body = json.dumps(denied(quick, tool_name="Other")).encode()

    _, answer = _cut_off(quick, quick.request(body, "/hook/claude", length=len(body) + 10))

    assert status(answer) == 200 and b'"permissionDecision":"deny"' in answer


def test_many_slow_clients_delay_no_other(quick: Serving) -> None:
    """Two hundred half requests beside a whole one."""
    half = [socket.create_connection(("127.0.0.1", quick.port), 10) for _ in range(200)]
    try:
        for connection in half:
            connection.sendall(b"POST /fire HTTP/1.1\r\nHost:")
        well(quick)
    finally:
        for connection in half:
            connection.close()


# -- those who watch


def _watching(served: Serving, *, buffer: int = 0) -> socket.socket:
    connection = socket.socket()
    if buffer:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer)
    connection.settimeout(20)
    connection.connect(("127.0.0.1", served.port))
    request = f"GET /events HTTP/1.1\r\nHost: 127.0.0.1:{served.port}\r\nAuthorization: Bearer {served.token}\r\n\r\n"
    connection.sendall(request.encode())
    reported = b""
    while b": watching" not in reported and b"HTTP/1.1 503" not in reported:
        reported += connection.recv(1)
    return connection


def test_a_quiet_stream_shows_signs_of_life(served: Serving) -> None:
    """So that neither side takes the other for dead."""
    with _watching(served) as connection:
        reported = b""
        while reported.count(b": still here\n\n") < 2:
            reported += connection.recv(4096)


def test_a_slow_reader_is_told_what_it_missed(served: Serving) -> None:
    """Verdicts don't wait for it, and received and missed ones add up."""
    count = 50
    cwd = str(served.base / "work")
    prompt = {"hook_event_name": "UserPromptSubmit", "cwd": cwd, "session_id": "slow", "prompt": "hello"}
    with _watching(served, buffer=32768) as connection:
        with served.client() as client:
            for _ in range(count):
                assert client.post("/fire", json=prompt).status_code == 200
        reported, end = b"", time.monotonic() + 30
        got = missed = 0
        while got + missed < count and time.monotonic() < end:
            reported += connection.recv(1 << 20)
            got = reported.count(b"event: verdict")
            missed = sum(map(int, re.findall(rb'"dropped":(\d+)\}', reported)))

    assert got + missed == count
    assert missed > 0 and got > 0


def test_readers_that_go_away_leave_nothing_behind(served: Serving) -> None:
    """Far more than may watch at once come and go, politely and not."""
    for number in range(150):
        connection = _watching(served)
        if number % 2:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")  # a reset
        connection.close()
    well(served)
    with _watching(served) as connection:
        well(served)
        reported = b""
        while b'"decision":"deny"' not in reported:
            reported += connection.recv(4096)


def test_those_who_watch_are_bounded(served: Serving) -> None:
    """One more than there is room for is told so."""
    time.sleep(0.5)  # those of other tests are gone by then
    watching = [_watching(served) for _ in range(64)]
    try:
        with served.client() as client:
            found = client.get("/events")
        assert found.status_code == 503 and "too many" in found.json()["error"]["message"]
    finally:
        for connection in watching:
            connection.close()
    well(served)


def test_the_end_waits_for_answers_and_ends_streams(tmp_path: Path) -> None:
    """Readers are told that the stream is over, and a closed server has no connections left."""
    with serving(_made(tmp_path)) as running:
        connection = _watching(running)
        idle = socket.create_connection(("127.0.0.1", running.port), 20)
        with running.client() as client:
            client.get("/healthz")
    with connection, idle:
        assert heard(connection).endswith(b"0\r\n\r\n")
        assert heard(idle) == b""

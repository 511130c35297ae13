"""A model that follows a script, on a port of 127.0.0.1, for offline runs of agents.

It has no state: the request alone determines the next step, so an agent may repeat a request. A request without tools
(for a title or a summary) gets plain text. All requests are kept: they show what a model would have seen.
"""

import gzip
import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import msgspec

from clients.script import Script, Step
from clients.wires import WIRES, Reply, Wire


class Request(msgspec.Struct, frozen=True):
    """A request and the step of its answer; `main` if it offers tools. Times in seconds."""

    path: str
    body: dict[str, Any]
    step: Step
    main: bool
    came: float
    answered: float


class ScriptedModel(ThreadingHTTPServer):
    """`asked` grows with each request."""

    daemon_threads = True

    def __init__(self, script: Script) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.script = script
        self.asked: list[Request] = []
        self.unknown: list[str] = []
        self.keeping = threading.Lock()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def answer(self, wire: Wire, path: str, body: dict[str, Any]) -> Reply:
        came = time.monotonic()
        tools = bool(body.get("tools"))
        step = self.script.at(wire.turns(body), wire.opening(body)) if tools else Step("words beside the script")
        reply = wire.answer(step, body, path)
        with self.keeping:
            self.asked.append(Request(path, body, step, tools, came, time.monotonic()))
        return reply

    def handle_error(self, request: object, client_address: object) -> None:
        """A killed agent breaks its connection, which is not an error."""


@contextmanager
def serving(script: Script) -> Iterator[ScriptedModel]:
    """The model; it answers until the end of the block."""
    with ScriptedModel(script) as model:
        thread = threading.Thread(target=model.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
        thread.start()
        try:
            yield model
        finally:
            model.shutdown()
            thread.join()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: ScriptedModel

    def do_HEAD(self) -> None:
        self._send("application/json", b"")

    def do_GET(self) -> None:
        listed = {"id": "scripted", "object": "model", "type": "model", "display_name": "scripted"}
        listing = {"object": "list", "data": [listed | {"created_at": "2026-01-01T00:00:00Z"}], "has_more": False}
        self._send("application/json", json.dumps(listing if "/models" in self.path else {}).encode())

    def do_POST(self) -> None:
        path = self.path.partition("?")[0]
        body = self._body()
        wire = next((wire for wire in WIRES if wire.address.search(path)), None)
        if wire is not None:
            self._reply(self.server.answer(wire, path, body))
            return
        if not path.endswith(("/count_tokens", ":countTokens")):
            self.server.unknown.append(path)
        self._send("application/json", json.dumps({"input_tokens": 10, "totalTokens": 10}).encode())

    def _body(self) -> dict[str, Any]:
        raw = self.rfile.read(int(self.headers.get("content-length") or 0))
        if self.headers.get("content-encoding") == "gzip":
            raw = gzip.decompress(raw)
        try:
            body = json.loads(raw or b"{}")
        except ValueError:
            return {}
        return body if isinstance(body, dict) else {}

    def _reply(self, reply: Reply) -> None:
        if not reply.events:
            self._send("application/json", json.dumps(reply.body).encode())
            return
        lines = []
        for name, data in reply.events:
            lines += [f"event: {name}\n"] if name else []
            lines.append(f"data: {json.dumps(data)}\n\n")
        lines += ["data: [DONE]\n\n"] if reply.ends_with_done else []
        self._send("text/event-stream", "".join(lines).encode())

    def _send(self, kind: str, data: bytes) -> None:
        self.send_response(200)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its name in the library
        """Not needed."""

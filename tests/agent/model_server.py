"""A model's service on the loopback, for tests: Anthropic's Messages and OpenAI's Chat Completions, both streamed.

It answers each request with the next step, and keeps the requests. After the last step it answers that it is done.
"""

import json
import threading
from collections.abc import Iterator, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Literal

import msgspec

Event = tuple[str, dict[str, Any]]


class Use(msgspec.Struct, frozen=True):
    """A use of a tool. `arguments` is sent unchanged, JSON or not, in so many `pieces`."""

    name: str
    arguments: str = "{}"
    id: str = "use_1"
    pieces: int = 3


def use(name: str, given: dict[str, Any] | None = None, id: str = "use_1") -> Use:  # noqa: A002
    return Use(name, json.dumps(given or {}), id)


class Say(msgspec.Struct, frozen=True):
    """An answer. `stop` is the service's own word for why it ended; without one the word that fits. `fault` is what
    goes wrong on the way: the connection ends or nothing more comes before the end, or an error is sent in its place.
    `events` are sent instead of all that.
    """

    texts: tuple[str, ...] = ()
    uses: tuple[Use, ...] = ()
    stop: str = ""
    usage: tuple[int, int] = (10, 5)
    fault: Literal["", "cut", "quiet end", "stall", "error", "garbage"] = ""
    events: tuple[dict[str, Any], ...] = ()


class Refuse(msgspec.Struct, frozen=True):
    """An error. `body` is sent unchanged; without it, the service's format with `type`, `code` and `message`."""

    status: int
    type: str = ""
    message: str = "no"
    code: str = ""
    headers: dict[str, str] = {}
    body: str = ""


Step = Say | Refuse


class Received(msgspec.Struct, frozen=True):
    """One request."""

    path: str
    headers: dict[str, str]
    body: dict[str, Any]


class ModelServer:
    """Listens as long as its `with`. `closed` is set when a client leaves an answer that stalls."""

    def __init__(self, *steps: Step) -> None:
        self.steps = list(steps)
        self.received: list[Received] = []
        self.closed = threading.Event()
        self.stalled = threading.Event()
        self.over = threading.Event()
        self.lock = threading.Lock()

    def __enter__(self) -> "ModelServer":
        ours = self

        class Handler(_Handler):
            owner = ours

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.thread = threading.Thread(target=self.http.serve_forever, kwargs={"poll_interval": 0.02})
        self.thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self.over.set()
        self.http.shutdown()
        self.thread.join()
        self.http.server_close()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.http.server_address[1]}"

    @property
    def bodies(self) -> list[dict[str, Any]]:
        return [one.body for one in self.received]

    def next_step(self, received: Received) -> Step:
        with self.lock:
            self.received.append(received)
            return self.steps.pop(0) if self.steps else Say(("done",))


class _Handler(BaseHTTPRequestHandler):
    owner: ModelServer
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Tests have their own output."""

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        headers = {name.lower(): value for name, value in self.headers.items()}
        step = self.owner.next_step(Received(self.path, headers, body))
        service = "anthropic" if self.path.endswith("/v1/messages") else "openai"
        try:
            if isinstance(step, Refuse):
                self.refuse(step, service)
            else:
                self.say(step, service, body["model"])
        except OSError:
            self.close_connection = True  # the client has left

    def refuse(self, step: Refuse, service: str) -> None:
        text = (step.body or json.dumps(_error(step, service))).encode()
        self.send_response(step.status)
        for name, value in {"content-type": "application/json", **step.headers}.items():
            self.send_header(name, value)
        self.send_header("content-length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def say(self, step: Say, service: str, model: str) -> None:
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()
        events = [(one.get("type", ""), one) for one in step.events]
        events = events or list((_messages_events if service == "anthropic" else _chat_events)(step, model))
        if step.fault:
            # The end of the answer is in the last two events, or in the last three.
            events = events[: -2 if service == "anthropic" else -3]
        for name, data in events:
            self.send(name, data)
        self.go_wrong(step.fault, service)
        if step.fault in ("cut", "stall"):
            self.close_connection = True
            return
        if service == "openai":
            self.chunk(b"data: [DONE]\n\n")
        self.wfile.write(b"0\r\n\r\n")

    def go_wrong(self, fault: str, service: str) -> None:
        if fault == "stall":
            self.wait_for_leaving()
        elif fault == "error":
            self.send("error", _error(Refuse(200, "overloaded_error", "too much to do"), service))
        elif fault == "garbage":
            self.chunk(b"event: content_block_delta\ndata: {nonsense\n\n")

    def wait_for_leaving(self) -> None:
        """Until the client closes the connection, or the test is over."""
        self.owner.stalled.set()
        self.connection.settimeout(0.02)
        while not self.owner.over.is_set():
            try:
                if not self.connection.recv(1):
                    break
            except TimeoutError:
                continue
            except OSError:
                break
        else:
            return
        self.owner.closed.set()

    def send(self, name: str, data: dict[str, Any]) -> None:
        event = f"event: {name}\n" if name else ""
        self.chunk(f"{event}data: {json.dumps(data)}\n\n".encode())

    def chunk(self, data: bytes) -> None:
        if data:
            self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
            self.wfile.flush()


def _error(step: Refuse, service: str) -> dict[str, Any]:
    error: dict[str, Any] = {"type": step.type, "message": step.message}
    if service == "anthropic":
        return {"type": "error", "error": error, "request_id": "req_1"}
    return {"error": {**error, "param": None, "code": step.code or None}}


def _pieces(one: Use) -> Iterator[str]:
    size = max(1, -(-len(one.arguments) // one.pieces))
    for start in range(0, len(one.arguments), size):
        yield one.arguments[start : start + size]


def _messages_events(step: Say, model: str) -> Iterator[Event]:
    """An answer of Anthropic's: blocks with a beginning, pieces and an end."""
    usage = {"input_tokens": step.usage[0], "output_tokens": 1}
    start = {"id": "msg_1", "type": "message", "role": "assistant", "model": model, "content": [], "usage": usage}
    yield "message_start", {"type": "message_start", "message": {**start, "stop_reason": None, "stop_sequence": None}}
    yield "ping", {"type": "ping"}
    if step.texts:
        deltas = [{"type": "text_delta", "text": text} for text in step.texts]
        yield from _block_events(0, {"type": "text", "text": ""}, deltas)
    for number, one in enumerate(step.uses, 1 if step.texts else 0):
        deltas = [{"type": "input_json_delta", "partial_json": piece} for piece in _pieces(one)]
        yield from _block_events(number, {"type": "tool_use", "id": one.id, "name": one.name, "input": {}}, deltas)
    stop = step.stop or ("tool_use" if step.uses else "end_turn")
    delta = {"stop_reason": stop, "stop_sequence": None}
    yield "message_delta", {"type": "message_delta", "delta": delta, "usage": {"output_tokens": step.usage[1]}}
    yield "message_stop", {"type": "message_stop"}


def _block_events(index: int, block: dict[str, Any], deltas: Sequence[dict[str, Any]]) -> Iterator[Event]:
    yield "content_block_start", {"type": "content_block_start", "index": index, "content_block": block}
    for delta in deltas:
        yield "content_block_delta", {"type": "content_block_delta", "index": index, "delta": delta}
    yield "content_block_stop", {"type": "content_block_stop", "index": index}


def _chat_events(step: Say, model: str) -> Iterator[Event]:
    """An answer of OpenAI's: chunks, the last of which counts the tokens."""
    base = {"id": "chatcmpl_1", "object": "chat.completion.chunk", "created": 1, "model": model}

    def chunk(delta: dict[str, Any], stop: str | None = None) -> Event:
        return "", {**base, "choices": [{"index": 0, "delta": delta, "finish_reason": stop}], "usage": None}

    yield chunk({"role": "assistant", "content": ""})
    for text in step.texts:
        yield chunk({"content": text})
    for number, one in enumerate(step.uses):
        function = {"name": one.name, "arguments": ""}
        yield chunk({"tool_calls": [{"index": number, "id": one.id, "type": "function", "function": function}]})
        for piece in _pieces(one):
            yield chunk({"tool_calls": [{"index": number, "function": {"arguments": piece}}]})
    yield chunk({})
    yield chunk({}, step.stop or ("tool_calls" if step.uses else "stop"))
    sent, reported = step.usage
    counted = {"prompt_tokens": sent, "completion_tokens": reported, "total_tokens": sent + reported}
    yield "", {**base, "choices": [], "usage": counted}

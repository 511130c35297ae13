"""A server of our own for the tests of HTTP: a real process, with the daemon's engines, its socket and its HTTP."""

import json
import os
import signal
import socket
import struct
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx

from billhook import __version__
from billhook.serve import control

MAIN = """\
import asyncio, os, signal, sys
from pathlib import Path
from billhook.runners import process
from billhook.serve import http, control, protocol
from billhook.serve.http import access as http_access
http_door, http_protocol, http_routes, http_stream, wire = http_access, http_access, http, http, protocol
from billhook.serve.engine_pool import EnginePool

for setting in sys.argv[2:]:
    module, name, value = setting.split(":")
    setattr(globals()[module], name, float(value))

async def main():
    folder, served, ended = control.ensure_folder(Path(sys.argv[1])), EnginePool(), asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, ended.set)

    async def ask(reader, writer):
        size = wire.length(await reader.readexactly(wire.HEAD))
        heard = await served.answer(wire.read(await reader.readexactly(size)))
        writer.write(wire.STARTED + wire.answer(heard.code, heard.stdout, heard.stderr))
        writer.close()

    listener = await asyncio.start_unix_server(ask, str(folder / control.SOCKET))
    running = await http.serve(served, "127.0.0.1", 0, folder)
    print(running.url, flush=True)
    await ended.wait()
    listener.close()
    await running.close(5)
    print("closed", running.app.busy, len(running.app.stream.readers), flush=True)

process.adopt_orphans()
factory = None
if "PLAIN_LOOP" not in os.environ:
    import uvloop

    factory = uvloop.new_event_loop
with asyncio.Runner(loop_factory=factory) as runner:
    runner.run(main())
process.settle()
"""


class Serving:
    """A server that runs. Lives as long as its test module."""

    def __init__(self, base: Path, running: "subprocess.Popen[str]", url: str) -> None:
        self.base, self.running, self.url = base, running, url
        self.port = int(url.rpartition(":")[2])
        self.folder = control.folder_of(base / "state")
        self.token = (self.folder / "token").read_text().strip()
        self.headers = {"Authorization": f"Bearer {self.token}"}

    def client(self, **more: Any) -> httpx.Client:
        return httpx.Client(base_url=self.url, headers=self.headers, timeout=20, trust_env=False, verify=False, **more)

    def raw(self, data: bytes, *, seconds: float = 20) -> bytes:
        """Everything that comes back for these bytes, until the other side closes."""
        with socket.create_connection(("127.0.0.1", self.port), seconds) as connection:
            try:
                connection.sendall(data)
            except (BrokenPipeError, ConnectionResetError):
                pass  # it has stopped reading; its response is read now
            return heard(connection)

    def request(self, body: bytes, path: str = "/fire", *, more: bytes = b"", length: int | None = None) -> bytes:
        """A request as bytes."""
        size = len(body) if length is None else length
        head = f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1:{self.port}\r\nAuthorization: Bearer {self.token}\r\n"
        return head.encode() + f"Content-Length: {size}\r\n".encode() + more + b"\r\n" + body

    def over_the_socket(self, event: dict[str, Any], *argv: str) -> tuple[int, bytes, bytes]:
        """What the daemon's own client would get."""
        env = [f"HOME={self.base / 'home'}", f"BILLHOOK_HOME={self.base / 'state'}", f"PATH={os.environ['PATH']}"]
        texts = [b"".join(map(_text, map(str.encode, words))) for words in (argv, env)]
        body = _text(__version__.encode()) + struct.pack(">I", len(argv)) + texts[0] + _text(event["cwd"].encode())
        body += struct.pack(">I", len(env)) + texts[1] + _text(json.dumps(event).encode())
        with control.connect(self.folder, 20) as connection:
            connection.sendall(b"bh\0\1" + struct.pack(">I", len(body)) + body)
            reported = heard(connection)
        assert reported[:6] == b"S\0\0\0\0A", reported
        code = reported[10]
        size = struct.unpack(">I", reported[11:15])[0]
        return code, reported[15 : 15 + size], reported[19 + size :]

    def log(self) -> list[dict[str, Any]]:
        """Everything that the log has."""
        files = sorted((self.base / "state").rglob("*.jsonl"))
        return [json.loads(line) for file in files for line in file.read_text().splitlines() if line.startswith("{")]


def _text(data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + data


def heard(connection: socket.socket) -> bytes:
    """Everything until the end."""
    parts = []
    try:
        while part := connection.recv(65536):
            parts.append(part)
    except ConnectionResetError:
        pass
    return b"".join(parts)


@contextmanager
def serving(base: Path, *settings: str, env: dict[str, str] | None = None) -> Iterator[Serving]:
    """A server with a home below `base`."""
    (base / "home").mkdir(parents=True, exist_ok=True)
    given = {
        "PATH": os.environ["PATH"],
        "HOME": str(base / "home"),
        "BILLHOOK_HOME": str(base / "state"),
        "USER": "tester",
        "LANG": "C.UTF-8",
        "SECRET_OF_THE_DAEMON": "hidden",
        **(env or {}),
    }
    command = [sys.executable, "-W", "error", "-c", MAIN, str(base / "state"), *settings]
    with subprocess.Popen(
        command, env=given, cwd="/", stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as running:
        assert running.stdout is not None and running.stderr is not None
        try:
            url = running.stdout.readline().strip()
            if not url:
                raise AssertionError(running.stderr.read())
            yield Serving(base, running, url)
        finally:
            running.send_signal(signal.SIGTERM)
            out, err = running.communicate(timeout=30)
            assert err == "", err
            assert out == "closed 0 0\n", out

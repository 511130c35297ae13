"""A small real server on a real Unix socket: uses the daemon's protocol, and misbehaves on request.

Its behaviour on a connection is a list of steps: bytes are sent, a number is a pause in seconds, and the words below
have their usual meaning. At the end of the list it disconnects.
"""

import os
import socket
import struct
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple, Self

HANG = "wait until the client is gone"
WITHOUT_READING = "do the rest before the request was read"
Step = bytes | float | str

STARTED = b"S\0\0\0\0"


def frame(kind: bytes, body: bytes = b"") -> bytes:
    return kind + struct.pack(">I", len(body)) + body


def text(value: bytes) -> bytes:
    return struct.pack(">I", len(value)) + value


def answer(code: int = 0, stdout: bytes = b"", stderr: bytes = b"") -> bytes:
    """The last frame of a call that went well."""
    return frame(b"A", bytes([code]) + text(stdout) + text(stderr))


class Request(NamedTuple):
    """What a client sent."""

    version: bytes
    arguments: list[bytes]
    cwd: bytes
    environment: list[bytes]
    stdin: bytes


class FakeDaemon:
    """Serves in a thread from `with` to its end; keeps every whole request."""

    def __init__(self, root: Path, steps: Sequence[Step] = (), *, mode: int = 0o700, backlog: int = 16) -> None:
        self.steps: Sequence[Step] = steps or [STARTED, answer()]
        self.requests: list[Request] = []
        self.broken: list[str] = []
        """What clients sent that is no request."""
        folder = root / "billhook" / "daemon"
        folder.mkdir(parents=True, mode=0o700, exist_ok=True)
        folder.chmod(mode)
        self.listener = socket.socket(socket.AF_UNIX)
        self._bind(folder)
        self.listener.listen(backlog)
        self.thread = threading.Thread(target=self._serve, daemon=True)

    def _bind(self, folder: Path) -> None:
        """Also where the path is longer than an address may be."""
        fd = os.open(folder, os.O_RDONLY)
        try:
            self.listener.bind(f"/proc/self/fd/{fd}/s")
        finally:
            os.close(fd)
        (folder / "s").chmod(0o600)

    def __enter__(self) -> Self:
        self.thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.listener.shutdown(socket.SHUT_RDWR)
        self.thread.join(timeout=10)
        self.listener.close()

    @property
    def request(self) -> Request:
        """The only one."""
        (one,) = self.requests
        return one

    def _serve(self) -> None:
        while True:
            try:
                line, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self._one, args=(line,), daemon=True).start()

    def _one(self, line: socket.socket) -> None:
        with line:
            try:
                steps = list(self.steps)
                if WITHOUT_READING in steps:
                    steps.remove(WITHOUT_READING)
                else:
                    self.requests.append(read_request(line))
                self._act(line, steps)
            except ValueError as error:
                self.broken.append(str(error))
            except OSError:
                pass  # the client went first

    def _act(self, line: socket.socket, steps: list[Step]) -> None:
        for step in steps:
            if isinstance(step, bytes):
                line.sendall(step)
            elif isinstance(step, float):
                time.sleep(step)
            else:
                while line.recv(1 << 16):
                    pass


def read_request(line: socket.socket) -> Request:
    """Raises ValueError when it is none, to the last byte."""
    head = _exactly(line, 8)
    if head[:4] != b"bh\0\1":
        raise ValueError(f"not the protocol: {head!r}")
    body = _exactly(line, struct.unpack(">I", head[4:])[0])
    version, at = _text(body, 0)
    arguments, at = _texts(body, at)
    cwd, at = _text(body, at)
    environment, at = _texts(body, at)
    stdin, at = _text(body, at)
    if at != len(body):
        raise ValueError(f"{len(body) - at} bytes too many")
    return Request(version, arguments, cwd, environment, stdin)


def _exactly(line: socket.socket, size: int) -> bytes:
    data = bytearray()
    while len(data) < size:
        part = line.recv(min(size - len(data), 1 << 20))
        if not part:
            raise ValueError(f"hung up after {len(data)} of {size} bytes")
        data += part
    return bytes(data)


def _text(body: bytes, at: int) -> tuple[bytes, int]:
    (size,) = struct.unpack_from(">I", body, at)
    if at + 4 + size > len(body):
        raise ValueError(f"a string of {size} bytes at {at} of {len(body)}")
    return body[at + 4 : at + 4 + size], at + 4 + size


def _texts(body: bytes, at: int) -> tuple[list[bytes], int]:
    (count,) = struct.unpack_from(">I", body, at)
    at += 4
    found = []
    for _ in range(count):
        one, at = _text(body, at)
        found.append(one)
    return found, at


def main() -> None:
    """`fake_daemon.py ROOT UID`: serve as another user in a folder that is made for it, until stdin ends."""
    root, uid = Path(sys.argv[1]), int(sys.argv[2])
    daemon = FakeDaemon(root, [STARTED, answer(0, b"from another user\n")])
    os.setresgid(uid, uid, uid)
    os.setresuid(uid, uid, uid)
    daemon.listener.listen(16)  # a peer is who it was when it listened
    with daemon:
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        sys.stdin.read()


if __name__ == "__main__":
    main()

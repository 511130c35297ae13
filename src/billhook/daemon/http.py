"""The daemon over HTTP: for agents whose hooks are HTTP requests, and for anything else on this machine.

Needs the extra `serve`. Listens on the loopback; everything but `/healthz` needs the token, which is in a file that
only its user can read.
"""

import asyncio
import ipaddress
import socket
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from billhook.errors import UsageError

if TYPE_CHECKING:
    from billhook.daemon.serving import Served

PATIENCE: Final = 30.0
"""Seconds that those who still wait for an answer have, when the server is closed."""


class Http:
    """A server that listens. Lives until it is closed."""

    def __init__(self, url: str, token: Path) -> None:
        self.url = url
        """Where it listens, `http://127.0.0.1:8123`."""
        self.token = token
        """The file with the token."""

    @property
    def busy(self) -> int:
        """How many events are being judged."""
        raise NotImplementedError

    @property
    def touched(self) -> float:
        """When somebody with the token last asked, by the loop's clock."""
        raise NotImplementedError

    async def close(self, seconds: float = PATIENCE) -> None:
        """Take no more requests, end the streams, and let those who wait have their answers."""
        raise NotImplementedError


def address(text: str) -> tuple[str, int]:
    """Host and port of `127.0.0.1:8123`, `localhost:8123` or `[::1]:8123`; port 0 takes a free one. Raises
    UsageError."""
    raise NotImplementedError


async def serve(served: "Served", host: str, port: int, folder: Path, *, exposed: bool = False) -> Http:
    """Listen, in the running loop, and answer with the engines of `served`; `folder` is the daemon's, for the token.

    Raises UsageError when the extra is not installed, when the port is taken, and when the address is not on the
    loopback and `exposed` does not say that this is meant.
    """
    raise NotImplementedError

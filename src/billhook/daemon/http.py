"""The daemon over HTTP: for agents whose hooks are HTTP requests, and for anything else on this machine.

Needs the extra `serve`. Listens on the loopback; everything but `/healthz` needs the token, which is in a file that
only its user can read. `http_door` lets requests in, `http_routes` takes them, `http_answers` words what they get,
`http_stream` tells those who watch, `http_protocol` guards the connections.
"""

import asyncio
import ipaddress
import socket
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from billhook.errors import UsageError

if TYPE_CHECKING:
    from billhook.daemon.http_routes import App
    from billhook.daemon.serving import Served

PATIENCE: Final = 30.0  # seconds that those who still wait for an answer have, when the server is closed
_BACKLOG: Final = 512
_IDLE: Final = 15  # seconds that a connection may be idle between two requests


class Http:
    """A server that listens. Lives until it is closed."""

    def __init__(self, url: str, token: Path, app: "App", listener: asyncio.AbstractServer, state: Any) -> None:
        self.url = url  # Where it listens, `http://127.0.0.1:8123`
        self.token = token  # the file with the token
        self._app, self._listener, self._state = app, listener, state

    @property
    def busy(self) -> int:
        """How many events are being judged."""
        return self._app.busy

    @property
    def taken(self) -> int:
        """How many events have come."""
        return self._app.taken

    @property
    def touched(self) -> float:
        """When somebody with the token last asked, by the loop's clock."""
        return self._app.touched

    async def close(self, seconds: float = PATIENCE) -> None:
        """Take no more requests, end the streams, and let those who wait have their answers."""
        self._listener.close()
        self._app.stream.end()
        for connection in list(self._state.connections):
            connection.shutdown()
        if self._state.tasks:
            _, late = await asyncio.wait(list(self._state.tasks), timeout=seconds)
            for task in late:
                task.cancel()
        for connection in list(self._state.connections):
            if not connection.transport.is_closing():
                connection.transport.abort()
        await asyncio.sleep(0)


def address(text: str) -> tuple[str, int]:
    """Host and port of `127.0.0.1:8123`, `localhost:8123` or `[::1]:8123`; port 0 takes a free one. Raises
    UsageError."""
    host, colon, port = text.rpartition(":")
    bare = host[1:-1] if host.startswith("[") and host.endswith("]") else host
    sound = colon and bare and (":" not in bare or bare != host) and port.isascii() and port.isdecimal()
    if not sound or int(port) > 65535:
        raise UsageError(f"`{text}` is no address", hint="HOST:PORT, as in 127.0.0.1:8123 or [::1]:8123")
    return bare, int(port)


async def serve(served: "Served", host: str, port: int, folder: Path, *, exposed: bool = False) -> Http:
    """Listen, in the running loop, and answer with the engines of `served`; `folder` is the daemon's, for the token.

    Raises UsageError when the extra is not installed, when the port is taken, and when the address is not on the
    loopback and `exposed` does not say that this is meant; StoreError when the token's file can't be made or believed.
    """
    try:
        import uvicorn
        from uvicorn.server import ServerState

        from billhook.daemon.http_protocol import Careful
        from billhook.daemon.http_routes import App
    except ImportError as error:
        from billhook.extras import install_command

        raise UsageError(f"HTTP needs the extra `serve`: {error}", hint=install_command("serve")) from None
    from billhook.daemon.http_door import LARGEST_HEAD, Door, token_in

    token, file = token_in(folder)
    sock = await _bound(host, port, exposed=exposed)
    app = App(served)
    bound = sock.getsockname()[1]
    config = uvicorn.Config(
        Door(app, token, host=host, port=bound, exposed=exposed),
        http=Careful,
        ws="none",
        lifespan="off",
        interface="asgi3",
        log_config=None,
        log_level="error",
        access_log=False,
        proxy_headers=False,  # nobody stands between us and who asks
        server_header=False,
        date_header=False,
        timeout_keep_alive=_IDLE,
        h11_max_incomplete_event_size=LARGEST_HEAD,
    )
    config.load()
    state = ServerState()
    loop = asyncio.get_running_loop()
    listener = await loop.create_server(lambda: Careful(config, state, {}), sock=sock, backlog=_BACKLOG)
    return Http(f"http://{_shown(host)}:{bound}", file, app, listener, state)


async def _bound(host: str, port: int, *, exposed: bool) -> socket.socket:
    """A socket at the address, once it is clear who can reach it there."""
    loop = asyncio.get_running_loop()
    try:
        found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except (OSError, UnicodeError) as error:
        raise UsageError(f"there is no address `{host}`: {error}", hint="use 127.0.0.1") from None
    for *_, place in found:
        if not exposed and not ipaddress.ip_address(str(place[0]).partition("%")[0]).is_loopback:
            raise UsageError(
                f"`{host}` can be reached from other machines; HTTP is for this one",
                hint="use 127.0.0.1; or --exposed, if this is meant: the token would cross the network unencrypted, "
                "and whoever has it can have your hooks run",
            )
    family, kind, protocol, _, place = found[0]
    sock = socket.socket(family, kind, protocol)
    try:
        sock.setblocking(False)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        sock.bind(place)
    except OSError as error:
        sock.close()
        raise UsageError(
            f"can't listen at {_shown(host)}:{port}: {error.strerror}", hint="choose another port"
        ) from None
    return sock


def _shown(host: str) -> str:
    return f"[{host}]" if ":" in host else host

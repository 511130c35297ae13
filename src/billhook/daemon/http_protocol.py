"""uvicorn's connections, with what it leaves to a proxy in front of it: here there is none."""

import asyncio
from typing import Any, Final

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from billhook import strictjson

SLOWEST: Final = 10.0  # seconds for the head of a request, from its first byte, or from the beginning of a connection
_MOST: Final = 1024  # connections at once


class Careful(H11Protocol):
    """One connection: bounded in number and in how slowly it may speak, and answered in JSON even when it speaks no
    HTTP."""

    _slow: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if len(self.connections) > _MOST:
            transport.abort()
            return
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        self._unwatch()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._between and self._slow is None:
            self._watch()
        super().data_received(data)
        if not self._between:
            self._unwatch()

    def shutdown(self) -> None:
        try:
            super().shutdown()
        except h11.LocalProtocolError:
            self.transport.abort()  # it was broken already

    def timeout_keep_alive_handler(self) -> None:
        try:
            super().timeout_keep_alive_handler()
        except h11.LocalProtocolError:
            self.transport.abort()

    def send_400_response(self, msg: str) -> None:
        shown = {"message": "this is no HTTP request, or its head is too large", "place": None, "hint": None}
        body = strictjson.encode({"error": shown}) + b"\n"
        headers = [("content-type", "application/json"), ("content-length", str(len(body))), ("connection", "close")]
        try:
            parts: list[Any] = [h11.Response(status_code=400, headers=headers), h11.Data(data=body), h11.EndOfMessage()]
            for part in parts:
                self.transport.write(self.conn.send(part) or b"")
        except h11.LocalProtocolError:
            self.transport.abort()  # in the middle of another answer
            return
        self.transport.close()

    @property
    def _between(self) -> bool:
        """No request is being answered."""
        return self.cycle is None or self.cycle.response_complete

    def _watch(self) -> None:
        self._slow = self.loop.call_later(SLOWEST, self._cut_off)

    def _unwatch(self) -> None:
        if self._slow is not None:
            self._slow.cancel()
            self._slow = None

    def _cut_off(self) -> None:
        self._slow = None
        if self._between:
            self.transport.abort()

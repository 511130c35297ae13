"""Whether the daemon answers, and whether it is the one that entries ask."""

import time
from collections.abc import Iterable, Iterator
from pathlib import Path

from billhook import __version__, caller
from billhook.daemon import starting
from billhook.daemon.status import Status
from billhook.errors import BillhookError
from billhook.hosts.doctor_finding import Finding
from billhook.hosts.entries import TOKEN_VARIABLE


class Daemon:
    """The daemon of a state root, asked once."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self.status: Status | None = None
        self.error: BillhookError | None = None
        began = time.monotonic()
        try:
            self.status = starting.ask(root)
        except BillhookError as error:
            self.error = error
        self.seconds = time.monotonic() - began

    def findings(self) -> Iterator[Finding]:
        if self.error is not None:
            place = f" ({self.error.place})" if self.error.place else ""
            yield Finding("fail", "daemon", f"{self.error.message}{place}", "billhook daemon stop --force")
            return
        if self.status is None:
            yield Finding("ok", "daemon", "none runs; the next event starts one")
            return
        found = self.status
        text = f"process {found.pid} answers ({self.seconds * 1000:.0f} ms), billhook {found.version}"
        if found.version != __version__:
            yield Finding("warn", "daemon", f"{text}; this is {__version__}", "billhook daemon stop")
        elif found.leaving:
            yield Finding("ok", "daemon", f"{text}; it ends ({found.leaving}), and the next event starts another")
        else:
            yield Finding("ok", "daemon", text)

    def listens(self, addresses: Iterable[str]) -> Iterator[Finding]:
        """Whether it is where entries ask over HTTP; nothing when none does."""
        own = self.status.http.rstrip("/") if self.status is not None else ""
        asked = list(dict.fromkeys(addresses))
        if asked and not caller.environ().get(TOKEN_VARIABLE):
            text = f"{TOKEN_VARIABLE} is not set here; an agent that is started without it is refused"
            remedy = f'export {TOKEN_VARIABLE}="$(cat {self._root / "billhook" / "daemon" / "token"})"'
            yield Finding("unknown", "daemon", text, remedy)
        for address in asked:
            if address != own:
                text = f"entries ask {address}, and no daemon listens there"
                remedy = f"billhook daemon start --http {address.partition('://')[2]}"
                yield Finding("fail", "daemon", text, remedy)

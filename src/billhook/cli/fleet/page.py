"""`billhook ui --fleet`: the page over all hosts, from a copy of the stream that is kept up to date."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from billhook.cli.fleet.events import copy_of, update
from billhook.cli.fleet.folder import as_member
from billhook.cli.screen import note
from billhook.core.errors import BillhookError, UsageError
from billhook.fleet import server
from billhook.fleet.questions import ApproverDesk, FleetQueue
from billhook.fleet.reader import StreamCopy
from billhook.serve import control
from billhook.store.files import project_name
from billhook.store.log.folders import MachineLogs, last_changed_first
from billhook.store.log.reader import LogReader

if TYPE_CHECKING:
    from nats.aio.client import Client

_EVERY = 0.5  # seconds between two looks at the stream


class FleetLogs(MachineLogs):
    """The logs of all hosts. The name of a project begins with its host: `web-1:/srv/shop`."""

    def __init__(self, copy: StreamCopy) -> None:
        super().__init__(copy.folder)
        self._copy = copy

    def all(self) -> list[LogReader]:
        return last_changed_first(log for _, log in self._copy.logs())

    def find(self, name: str) -> tuple[LogReader, str]:
        host, _, project = name.partition(":")
        for _, log in self._copy.logs([host]):
            if log.folder.name == project_name(project):
                return log, project
        raise UsageError("this project has no event log in the stream")

    def named(self, log: LogReader, project: str) -> str:
        return f"{log.root.name}:{project}"

    def folder(self, name: str) -> str:
        host = name.partition(":")[0]
        why = f"only the event logs of {host} are here: its hooks' files and its health can't be shown"
        hint = f"run `billhook list`, `billhook check` and `billhook doctor` on {host}, or open its own page"
        raise UsageError(why, hint=hint)


def serve(path: Path, member: str, show: Callable[[Path, str], None]) -> int:
    """Serve the page until Ctrl-C. `show` gets its root and its link."""
    fleet = server.read_folder(path)
    copy = copy_of(fleet)

    async def work(client: "Client") -> None:
        from billhook.serve.http import serve_page
        from billhook.serve.ui import Page

        await update(client, fleet, copy)
        desk = ApproverDesk(client, server.staff(path, member))
        page = Page(FleetLogs(copy), FleetQueue(copy.folder, desk))
        http = await serve_page(page, control.made(copy.folder))
        show(copy.folder, f"{http.url}/ui/#code={page.login.code()}")
        note("serving the page (stop it with Ctrl-C)")
        try:
            async with desk.listening(), asyncio.TaskGroup() as tasks:
                tasks.create_task(_keep_up(lambda: update(client, fleet, copy)))
                if desk.person.role in ("admin", "approver"):
                    tasks.create_task(desk.mirror(copy.folder))
        finally:
            await http.close(1.0)

    with suppress(KeyboardInterrupt):
        as_member(path, fleet, work, member)
    return 0


async def _keep_up(work: Callable[[], Awaitable[object]]) -> None:
    """Copy what is new, without end. A server that does not answer is asked again."""
    while True:
        try:
            await work()
        except BillhookError as error:
            note(error.message)
        await asyncio.sleep(_EVERY)

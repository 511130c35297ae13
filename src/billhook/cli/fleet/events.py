"""`billhook fleet events` and `verify`, and `billhook ui --fleet`: the audit stream."""

import asyncio
import sys
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import msgspec

from billhook.cli import screen, times
from billhook.cli.events import IN_THE_TABLE, Printer, Table, format_options, query
from billhook.cli.fleet import as_member, connected, fleet_option, reader_option
from billhook.cli.options import flag, option, usage, words
from billhook.cli.screen import note
from billhook.core import strictjson
from billhook.core.errors import BillhookError, UsageError
from billhook.core.text import counted, suggestion
from billhook.fleet import members, server
from billhook.fleet.connection import member_connection
from billhook.fleet.members import AUDIT
from billhook.fleet.questions import ApproverDesk, FleetQueue
from billhook.fleet.reader import AuditMessage, ChainCheck, ChainWalk, StreamCopy, messages, own_messages
from billhook.fleet.server import FleetFolder
from billhook.serve import control
from billhook.store.files import project_name, sha256, state_root
from billhook.store.log import Record
from billhook.store.log.pages import MachineLogs, last_changed_first
from billhook.store.log.reader import LogEntry, LogReader, decoded

if TYPE_CHECKING:
    from nats.aio.client import Client


_EVERY = 0.5  # seconds between two looks at the stream
_MANY = 2000  # messages after which the number is shown


@usage("""\b
Examples:
  billhook fleet events --decision deny --since 1d
  billhook fleet events --host web-1,web-2 --hook guard
  billhook fleet events --json | jq -r .machine | sort | uniq -c
  billhook fleet events --follow

Exit code: 0 success, also if nothing matches; 2 usage, or a stream
that can't be read.""")
@option("--host", "-H", "hosts", "HOST,..", "Only these hosts.", multiple=True)
@option("--session", "-s", "sessions", "S,..", "Only these sessions, by name or (start of) id.", multiple=True)
@option("--text", "TEXT", "Only events that contain this; case matters.")
@query.filter_options
@query.slice_options("100 in the table")
@format_options
@flag("--follow", "-f", "--tail", "follow", "Show the newest, and then new ones until Ctrl-C.")
@reader_option
@fleet_option
def events_verb(
    hosts: tuple[str, ...],
    filters: query.Filters,
    part: query.Slice,
    in_json: bool,
    minimal: bool,
    follow: bool,
    path: str,
    member: str,
) -> int:
    """Show the events of all hosts, with the decisions of hooks.

    The same filters and output as `billhook events`; in JSON, `machine` is the host. The oldest event comes first. The
    stream is copied into the state folder, and only what is new is fetched.
    """
    folder, only = Path(path), words(hosts)
    fleet = server.read_folder(folder)
    copy = copy_of(fleet)
    as_member(folder, fleet, lambda client: update(client, fleet, copy, only), member)
    names = FleetNames(query.LogScope("", copy.folder), copy)
    readers = [reader for _, reader in copy.logs(only)]
    logs = query.of_all(filters, readers, names.here)
    if only and not readers:
        known = sorted({host for host, _ in copy.logs()})
        raise UsageError(f"the stream has no records of `{only[0]}`", hint=suggestion(only[0], known))
    if not in_json and not part.given:
        part = msgspec.structs.replace(part, limit=IN_THE_TABLE)
    printer = FleetPrinter(names, in_json=in_json, minimal=minimal, hook=query.plain_hook(filters.hook))
    shown = printer.show(logs, names.noted(logs.chosen(part)))
    if follow:
        with suppress(KeyboardInterrupt):
            work = lambda client: _follow(client, fleet, copy, only, filters, printer)
            as_member(folder, fleet, work, member)
    elif not in_json or not shown:
        there = logs.count()
        screen.write(f"{chr(10) if shown else ''}{shown:,} of {counted(there, 'record')} in the stream", err=True)
    return 0


def copy_of(fleet: FleetFolder) -> StreamCopy:
    """The copy of an organisation's stream. Each `fleet dev` has another stream, of the same name."""
    root, key = state_root(), sha256(fleet.policy_key.encode()).hexdigest()[:8]
    return StreamCopy(root / "billhook" / "fleet-copy" / f"{fleet.org}-{key}", root)


async def update(
    client: "Client", fleet: FleetFolder, copy: StreamCopy, hosts: Sequence[str] = ()
) -> list[AuditMessage]:
    """Copy what is new; returns it if it is not much."""
    new: list[AuditMessage] = []
    number = 0
    async for some in copy.update(client, AUDIT, fleet.subjects.audits, hosts):
        number += len(some)
        new = [*new, *some] if number <= _MANY else []
        if number > _MANY and sys.stderr.isatty():
            screen.note(f"copied {number:,} messages of the stream")
    return new


class FleetNames(query.SessionNames):
    """Names of sessions with their hosts before them: `web-1:jolly-squid`."""

    def __init__(self, here: query.LogScope, copy: StreamCopy) -> None:
        super().__init__(here)
        self.here, self._copy = here, copy
        self._hosts: dict[str, str] = {}

    def noted(self, entries: Iterable[LogEntry]) -> Iterator[LogEntry]:
        """The same entries; their hosts are known afterwards."""
        for entry in entries:
            self._hosts[entry.record.id] = self._copy.host_of(entry.file)
            yield entry

    def host(self, record: Record) -> str:
        return self._hosts.get(record.id, "")

    def name(self, record: Record) -> str:
        return f"{self.host(record)}:{record.session_name or record.session_id[:8]}".removesuffix(":")


class FleetPrinter(Printer):
    """Prints records of many hosts."""

    def __init__(self, names: FleetNames, **settings: Any) -> None:
        super().__init__(names.here, **settings)
        self.names: FleetNames = names

    def one(self, logs: query.Logs, entry: LogEntry, table: Table | None = None) -> None:
        if not self.in_json or self.minimal:
            super().one(logs, entry, table)
            return
        line = query.line_of(entry, logs.whole(entry))
        click.echo(b'%b,"machine":%b}' % (line[:-1], strictjson.encode(self.names.host(entry.record))))


async def _follow(
    client: "Client",
    fleet: FleetFolder,
    copy: StreamCopy,
    hosts: Sequence[str],
    filters: query.Filters,
    printer: FleetPrinter,
) -> None:
    table = Table([], printer.names, hook=printer.hook)
    while True:
        new = await update(client, fleet, copy, hosts)
        logs = query.of_all(filters, [reader for _, reader in copy.logs(hosts)], printer.names.here)
        for entry in printer.names.noted(logs.matching(entries_of(copy, new))):
            printer.one(logs, entry, table)
        await asyncio.sleep(_EVERY)


def entries_of(copy: StreamCopy, new: Iterable[AuditMessage]) -> Iterator[LogEntry]:
    """The records of messages, as if they were read from the copy."""
    for message in new:
        for line in message.lines:
            record = decoded(line)
            if record is not None:
                yield LogEntry(record, line, copy.file_of(message.host, message.log), 0)


# `billhook fleet verify`:


@usage("""\b
Examples:
  billhook fleet verify web-1                on the host itself: compare with its own log
  billhook fleet verify web-1 --fleet acme   anywhere: check the chain in the stream
  billhook fleet verify web-1 --since 1d

Exit code: 0 no difference, 1 a difference, 2 usage, or a stream that
can't be read.""")
@click.argument("host", metavar="HOST")
@times.option("--since", "since", end=False, help="Only messages that arrived since: 1h, 2d, yesterday, a date.")
@flag("--json", "as_json", "Print one line of JSON for each log.")
@reader_option
@fleet_option
@click.pass_context
def verify_verb(ctx: click.Context, host: str, since: str | None, as_json: bool, path: str, member: str) -> int:
    """Check that a host's records in the stream are complete and unchanged.

    On the host itself, every record of the stream is compared with the host's log. Elsewhere, and with --fleet, the
    chain in the stream is checked alone: each record contains the hash of the one before. The first difference is
    printed.
    """
    own = members.enrolment(state_root())
    if own is not None and own.name == host and ctx.get_parameter_source("path") is click.core.ParameterSource.DEFAULT:
        checks = connected(member_connection(own), lambda client: _own_chain(client, own, since or ""))
    else:
        fleet = server.read_folder(Path(path))
        checks = as_member(Path(path), fleet, lambda client: _chain(client, fleet, host, since or ""), member)
    lines = list(_screen(host, checks))
    screen.report(as_json, lines, *checks)
    return int(any(check.findings for check in checks))


async def _own_chain(client: "Client", own: members.Enrolment, since: str) -> list[ChainCheck]:
    walk = ChainWalk(state_root())
    async for message in own_messages(client, AUDIT, f"{own.subjects.audit(own.name)}.>", own.name, since):
        walk.add(message)
    return walk.finish()


async def _chain(client: "Client", fleet: FleetFolder, host: str, since: str) -> list[ChainCheck]:
    walk = ChainWalk()
    async for message in messages(client, AUDIT, f"{fleet.subjects.audit(host)}.>", since=since):
        walk.add(message)
    if not walk.checks:
        raise UsageError(f"the stream has no records of `{host}`", hint="`billhook fleet status` lists the hosts")
    return walk.finish()


def _screen(host: str, checks: Sequence[ChainCheck]) -> Iterator[str]:
    for check in checks:
        size = f"{counted(check.records, 'record')}, {check.first} to {check.last}" if check.records else "no records"
        same = click.style("unchanged", fg="green") if not check.findings else click.style("different", fg="red")
        how = " as in the host's log" if check.compared and not check.findings else ""
        late = f"; {counted(check.waiting, 'record')} not shipped yet" if check.waiting else ""
        yield f"{host} {check.log}: {size}: {same}{how}{late}"
        yield from (f"  {what}" for what in islice(check.findings, 10))


# `billhook ui --fleet`: the page over all hosts, from a copy of the stream that is kept up to date.


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
        http = await serve_page(page, control.ensure_folder(copy.folder))
        show(copy.folder, f"{http.url}/ui/#code={page.login.code()}")
        note("serving the page (stop it with Ctrl-C)")
        try:
            async with desk.listening(), asyncio.TaskGroup() as tasks:
                tasks.create_task(_copy_forever(lambda: update(client, fleet, copy)))
                if desk.person.role in ("admin", "approver"):
                    tasks.create_task(desk.mirror(copy.folder))
        finally:
            await http.close(1.0)

    with suppress(KeyboardInterrupt):
        as_member(path, fleet, work, member)
    return 0


async def _copy_forever(work: Callable[[], Awaitable[object]]) -> None:
    """Copy what is new, without end. A server that does not answer is asked again."""
    while True:
        try:
            await work()
        except BillhookError as error:
            note(error.message)
        await asyncio.sleep(_EVERY)

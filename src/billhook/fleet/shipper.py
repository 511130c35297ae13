"""Audit records from a host's logs into the fleet's stream, each exactly once.

Each log has a subject of its own: `{audit subject of the host}.{folder of the log}`. A message holds some lines of the
log, byte for byte. It names the message before it on its subject, so that the server refuses a repeated or a missing
one, also after any time; its id is the hash of its last record. The cursor moves after the acknowledgement. If it is
older than the stream, for example after a crash, the last message on the subject shows where to continue.

A verdict never waits for this: it only reads the files that the verdicts' records are in already.
"""

import asyncio
import os
import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec

from billhook.config.fleet_policy import folder
from billhook.fleet.connection import EXPECTED_LAST, WRONG_LAST, FleetError, last_message, publish
from billhook.fleet.members import AUDIT
from billhook.store import files
from billhook.store.files import StoreError
from billhook.store.log import LineEnds, read_line
from billhook.store.log.eventlog import CURRENT
from billhook.store.log.reader import NOWHERE, LogPlace, blocks_after
from billhook.store.log.verify import current

if TYPE_CHECKING:
    from nats.aio.client import Client

    from billhook.fleet.link import FleetLink

MOST_BYTES: Final = 256 << 10  # of one message, without the last line
_MOST_LINES: Final = 1000
_BATCHES: Final = 16  # of one log, before other logs get their turn
_PAUSE: Final = 0.5
_LONGEST_PAUSE: Final = 5.0
_ID: Final = "Nats-Msg-Id"
LOG_NAME: Final = re.compile(r"[A-Za-z0-9-]+")
_LARGEST_FILE: Final = 64 << 20


class Shipped(msgspec.Struct, frozen=True):
    """How much of one log is in the stream."""

    seq: int = 0  # the last record
    hash: str = ""
    message: int = 0  # the last message of the log's subject, by its number in the stream; 0: none is known
    lost: int = 0  # records that were removed from the log before they were shipped


class LogBatch(NamedTuple):
    """Some lines of a log that follow each other without a gap."""

    data: bytes
    first: LineEnds
    last: LineEnds
    records: int
    place: LogPlace  # the end of its last line


class _LogCursor:
    """One log of the host, and how much of it was shipped."""

    def __init__(self, folder: Path, root: Path, shipped: Shipped) -> None:
        self.folder, self.root, self.shipped = folder, root, shipped
        self._place, self._seen = LogPlace(), ()  # type: tuple[LogPlace, tuple[int, ...]]
        self.pending: LogBatch | None = None  # sent, and not acknowledged

    def has_changed(self) -> bool:
        """Whether there may be something new. Costs one stat."""
        return files.stamp(self.folder / CURRENT) != self._seen or self.pending is not None

    def batch(self) -> LogBatch | None:
        """The next lines to ship. What was sent without an acknowledgement is sent again unchanged."""
        if self.pending is None:
            stamp = files.stamp(self.folder / CURRENT)  # before reading: what is added meanwhile is found the next time
            self.pending = self._read(self.shipped.seq) or self._read_new_log()
            if self.pending is None:
                self._seen = stamp
            elif self._is_new_log(self.pending.first):
                self.pending = self._read(0)
        return self.pending

    def acknowledged(self, batch: LogBatch, message: int) -> None:
        before = self.shipped
        gap = max(0, batch.first.seq - before.seq - 1) if batch.first.seq > before.seq else batch.first.seq - 1
        self.shipped = Shipped(batch.last.seq, batch.last.hash, message, before.lost + gap)
        self._place, self.pending = batch.place, None

    def moved(self, shipped: Shipped) -> None:
        """The stream has more, or less, than the cursor shows."""
        if shipped != self.shipped:
            self.shipped, self._place, self.pending = shipped, LogPlace(), None

    def waiting(self) -> int:
        """The number of records that were not shipped."""
        if not self.has_changed():
            return 0
        head = current(self.folder, self.root)
        return 0 if head is None else max(0, head.seq - self.shipped.seq)

    def _is_new_log(self, first: LineEnds) -> bool:
        """Whether the log was removed and begun again: its records don't follow the last one that was shipped."""
        return 1 < first.seq == self.shipped.seq + 1 and first.prev != self.shipped.hash

    def _read_new_log(self) -> LogBatch | None:
        """The beginning of a log that ends before the last record that was shipped, so it is another one."""
        head = current(self.folder, self.root)
        before = self.shipped
        if head is None or head.seq > before.seq or (head.seq == before.seq and head.hash == before.hash):
            return None
        return self._read(0)

    def _read(self, number: int) -> LogBatch | None:
        lines: list[bytes] = []
        size, first, last, place = 0, None, None, LogPlace()
        for ends, line, end in lines_after(self.folder, self.root, number, self._place):
            if last is not None and (ends.seq != last.seq + 1 or size + len(line) > MOST_BYTES):
                break
            lines.append(line)
            size, first, last, place = size + len(line), first or ends, ends, end
            if len(lines) == _MOST_LINES:
                break
        if first is None or last is None:
            return None
        return LogBatch(b"\n".join(lines), first, last, len(lines), place)


def lines_after(
    folder: Path, root: Path, number: int, known: LogPlace = NOWHERE
) -> Iterator[tuple[LineEnds, bytes, LogPlace]]:
    """The records of a log with higher numbers, oldest first, also those about the log itself."""
    for file, block in blocks_after(folder, root, number, known):
        inode = os.fstat(file.descriptor).st_ino
        for offset, line in block.lines():
            ends = read_line(line or b"")
            if ends is not None and line is not None and ends.seq > number:
                yield ends, line, LogPlace(inode, offset + len(line) + 1)


class ShippingStatus(msgspec.Struct, frozen=True):
    """For `billhook fleet status`."""

    shipped: int  # records since the process began
    waiting: int  # records that are in the logs, and not in the stream
    lost: int  # records that were removed from the logs before they were shipped
    problem: str = ""


class Shipper:
    """Ships the logs of one host. `subject` is the host's audit subject; `cursor` the file that keeps the position."""

    def __init__(self, root: Path, client: "Client", subject: str, cursor: Path) -> None:
        self._root, self._client, self._subject, self._file = root, client, subject, cursor
        self._logs: dict[str, _LogCursor] = {}
        self._known = _read_cursor(cursor, root)
        self._shipped = 0
        self.problem = ""

    async def ship(self) -> int:
        """Ship what is new, at most some batches of each log; returns the number of records. Never raises because of
        the network or a file: `problem` has the reason."""
        before, self.problem = self._shipped, ""
        for log in self._all_logs():
            try:
                await self._ship_log(log)
            except (FleetError, OSError) as error:
                self.problem = f"records can't be sent: {getattr(error, 'message', '') or type(error).__name__}"
                break  # the other logs would fail, too
            except StoreError as error:
                self.problem = str(error)
        if self._shipped > before:
            self._save()
        return self._shipped - before

    @property
    def status(self) -> ShippingStatus:
        waiting, logs = 0, list(self._all_logs())
        for log in logs:
            with suppress(StoreError, OSError):
                waiting += log.waiting()
        return ShippingStatus(self._shipped, waiting, sum(log.shipped.lost for log in logs), self.problem)

    def _all_logs(self) -> Iterator[_LogCursor]:
        folder = self._root / "hooks"
        try:
            names = sorted(one.name for one in os.scandir(folder) if one.is_dir(follow_symlinks=False))
        except OSError:
            return
        for name in names:
            if LOG_NAME.fullmatch(name):
                if name not in self._logs:
                    self._logs[name] = _LogCursor(folder / name, self._root, self._known.get(name, Shipped()))
                yield self._logs[name]

    async def _ship_log(self, log: _LogCursor) -> None:
        for _ in range(_BATCHES if log.has_changed() else 0):
            batch = log.batch()
            if batch is None:
                return
            try:
                message = await self._send(log, batch)
            except FleetError as error:
                if WRONG_LAST not in error.message:
                    raise
                await self._sync_with_stream(log)
                continue
            log.acknowledged(batch, message)
            self._shipped += batch.records

    async def _send(self, log: _LogCursor, batch: LogBatch) -> int:
        expected = {
            _ID: batch.last.hash,
            EXPECTED_LAST: str(log.shipped.message),
        }
        subject = f"{self._subject}.{log.folder.name}"
        return int((await publish(self._client, subject, batch.data, expected))["seq"])

    async def _sync_with_stream(self, log: _LogCursor) -> None:
        """Continue after the last record that the stream has. If it has none, because old messages were removed there,
        the cursor is right."""
        before = log.shipped
        subject = f"{self._subject}.{log.folder.name}"
        found = await last_message(self._client, AUDIT, subject)
        if found is None:
            log.moved(msgspec.structs.replace(before, message=0))
            return
        ends = read_line(found.data.rpartition(b"\n")[2])
        if ends is None:
            raise StoreError("the last message of this host in the stream is not from billhook", place=subject)
        log.moved(Shipped(ends.seq, ends.hash, int((found.headers or {})["Nats-Sequence"]), before.lost))

    def _save(self) -> None:
        self._known |= {name: log.shipped for name, log in self._logs.items()}
        data = msgspec.json.encode(self._known)
        with suppress(StoreError):  # the stream knows it, too
            files.write_atomically(self._file, data, root=self._root, durable=False)


def _read_cursor(path: Path, root: Path) -> dict[str, Shipped]:
    """The saved position; empty if there is none, or it can't be read: then the stream is asked."""
    try:
        return msgspec.json.decode(files.read_bytes(path, _LARGEST_FILE, root=root) or b"{}", type=dict[str, Shipped])
    except (StoreError, msgspec.MsgspecError, UnicodeDecodeError):
        return {}


async def follow(link: "FleetLink") -> None:
    """Ship without end. After a failure the pauses grow."""
    cursor = folder(link.root) / "shipped.json"
    shipper = Shipper(link.root, link.client, link.subjects.audit(link.member.name), cursor)
    pause = _PAUSE
    while True:
        sent = await shipper.ship() if link.client.is_connected else 0
        now = shipper.status
        link.status |= {"shipped": now.shipped, "lag": now.waiting, "lost": now.lost, "shipping_problem": now.problem}
        pause = min(2 * pause, _LONGEST_PAUSE) if now.problem else _PAUSE
        await asyncio.sleep(0 if sent and now.waiting else pause)

"""The audit stream for those who may read it: its messages, a copy on disk that logs' readers understand, and the check
of a host's chains.

The copy has one state root per host, with the host's logs, byte for byte: `{folder}/{host}/hooks/{log}/hooks.jsonl`.
"""

import json
import os
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from contextlib import aclosing
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec

from billhook.core.errors import BillhookError
from billhook.fleet.shipper import LOG_NAME, lines_after
from billhook.store import files
from billhook.store.files import StoreError
from billhook.store.log import LineEnds, is_whole, read_line
from billhook.store.log.eventlog import CURRENT, open_to_append
from billhook.store.log.reader import LogReader
from billhook.store.log.verify import current

if TYPE_CHECKING:
    from nats.aio.client import Client

_AT_ONCE: Final = 256  # messages
_MOST_BYTES: Final = 8 << 20
_TIMEOUT: Final = 5.0
_STATE: Final = "copy.json"
_LOCK: Final = "copy.lock"
_LARGEST: Final = 256 << 20


class StreamError(BillhookError):
    """The stream can't be read."""


class AuditMessage(NamedTuple):
    """Some lines of one log of a host."""

    seq: int  # its number in the stream
    host: str
    log: str  # the name of the log's folder
    data: bytes

    @property
    def lines(self) -> list[bytes]:
        return self.data.split(b"\n")


async def messages(
    client: "Client", stream: str, subject: str, after: int = 0, since: str = ""
) -> AsyncIterator[AuditMessage]:
    """The messages with higher numbers on subjects such as `billhook.acme.audit.>`, up to now. `since` is a time
    in UTC. Raises StreamError."""
    inbox = client.new_inbox()
    replies = await client.subscribe(inbox)
    wanted: dict[str, Any] = {"batch": _AT_ONCE, "max_bytes": _MOST_BYTES, "next_by_subj": subject}
    start: dict[str, Any] = {"start_time": since} if since and not after else {"seq": after + 1}
    try:
        while True:
            request = json.dumps({**wanted, **start}).encode()
            await client.publish(f"$JS.API.DIRECT.GET.{stream}", request, reply=inbox)
            while not (status := (reply := await _next(replies)).headers.get("Status", "")):
                after = int(reply.headers["Nats-Sequence"])
                *_, host, log = reply.headers["Nats-Subject"].split(".")
                yield AuditMessage(after, host, log, reply.data)
            if status != "204" or reply.headers.get("Nats-Num-Pending") == "0":
                break
            start = {"seq": after + 1}
    finally:
        await replies.unsubscribe()
    if status not in ("204", "404"):
        why = "no server answers" if status == "503" else f"{status} {reply.headers.get('Description', '')}"
        raise StreamError(f"the audit stream can't be read: {why}")


async def _next(replies: Any) -> Any:
    try:
        return await replies.next_msg(timeout=_TIMEOUT)
    except TimeoutError:
        hint = "these credentials may not read it, or the cluster has no majority"
        raise StreamError("the audit stream can't be read: no answer", hint=hint) from None


async def own_messages(
    client: "Client", stream: str, subject: str, host: str, since: str = ""
) -> AsyncIterator[AuditMessage]:
    """The messages of one host, for the host itself: its credentials may create one consumer, with its name, for its
    own subjects only. Raises StreamError."""
    from nats.errors import Error as NatsError
    from nats.js.api import AckPolicy, ConsumerConfig, DeliverPolicy

    js = client.jetstream(timeout=_TIMEOUT)
    start: dict[str, Any] = {"deliver_policy": DeliverPolicy.BY_START_TIME, "opt_start_time": since} if since else {}
    settings = ConsumerConfig(
        name=host, filter_subject=subject, ack_policy=AckPolicy.NONE, mem_storage=True, inactive_threshold=30.0, **start
    )
    try:
        made = await js.add_consumer(stream, settings)
        pending = made.num_pending or 0
        pulled = await js.pull_subscribe_bind(made.name, stream)
        while pending:
            for reply in await pulled.fetch(min(pending, _AT_ONCE), timeout=_TIMEOUT):
                pending = reply.metadata.num_pending
                *_, name, log = reply.subject.split(".")
                yield AuditMessage(reply.metadata.sequence.stream, name, log, reply.data)
        await js.delete_consumer(stream, made.name)
    except (NatsError, TimeoutError) as error:
        raise StreamError(f"the audit stream can't be read: {str(error) or type(error).__name__}") from None


# The copy on disk:


class CopiedLog(msgspec.Struct, frozen=True):
    size: int = 0  # bytes
    message: int = 0  # the last message that is in it


class CopyState(msgspec.Struct):
    """How much of the stream is in the copy."""

    all_hosts: int = 0  # all messages up to this one
    hosts: dict[str, int] = {}  # the same for hosts that were copied alone
    logs: dict[str, CopiedLog] = {}  # by `host/log`


class StreamCopy:
    """A copy of the stream, or of some hosts, in a folder below the state root. Processes may share it."""

    def __init__(self, folder: Path, root: Path) -> None:
        self.folder, self.root = folder, root

    async def update(
        self, client: "Client", stream: str, audit: str, hosts: Sequence[str] = ()
    ) -> AsyncIterator[Sequence[AuditMessage]]:
        """Copy what is new, and yield it in parts. `audit` is the subject of all hosts, without its last token. Raises
        StreamError and StoreError."""
        for host in hosts or [""]:
            state = self._state()
            after = max(state.all_hosts, state.hosts.get(host, 0))
            wanted = f"{audit}.{host}.>" if host else f"{audit}.>"
            part: list[AuditMessage] = []
            async with aclosing(messages(client, stream, wanted, after)) as found:  # type: ignore[type-var]
                async for message in found:
                    part.append(message)
                    if len(part) == _AT_ONCE:
                        yield self._add(part, host)
                        part = []
            if part:
                yield self._add(part, host)

    def logs(self, hosts: Sequence[str] = ()) -> list[tuple[str, LogReader]]:
        """The copied logs, each with its host."""
        names = sorted(self._state().logs)
        pairs = [name.split("/") for name in names]
        return [(host, self._reader(host, log)) for host, log in pairs if not hosts or host in hosts]

    def file_of(self, host: str, log: str) -> Path:
        """The file of a copied log."""
        return self._reader(host, log).folder / CURRENT

    def host_of(self, file: Path) -> str:
        """The host of a file of the copy."""
        return file.relative_to(self.folder).parts[0]

    def _reader(self, host: str, log: str) -> LogReader:
        return LogReader(self.folder / host / "hooks" / log, self.folder / host)

    def _state(self) -> CopyState:
        try:
            data = files.read_bytes(self.folder / _STATE, _LARGEST, root=self.root)
            return msgspec.json.decode(data or b"{}", type=CopyState)
        except msgspec.MsgspecError as error:
            hint = f"remove {self.folder}: it is only a copy"
            raise StoreError(f"the copy of the stream is damaged: {error}", hint=hint) from None

    def _add(self, part: Sequence[AuditMessage], host: str) -> Sequence[AuditMessage]:
        """Add messages; returns those that were not in the copy."""
        files.private_folder(self.folder, root=self.root)
        new = list[AuditMessage]()
        with files.locked(self.folder / _LOCK, root=self.root):
            state = self._state()
            for name, of_log in groupby(sorted(part, key=_log_of), _log_of):
                before = state.logs.get(name, CopiedLog())
                fresh = [one for one in of_log if one.seq > before.message and LOG_NAME.fullmatch(one.host + one.log)]
                if fresh:
                    state.logs[name] = self._append(before.size, fresh)
                    new += fresh
            last = part[-1].seq
            if host:
                state.hosts[host] = max(last, state.hosts.get(host, 0))
            else:
                state.all_hosts = max(last, state.all_hosts)
            files.write_atomically(self.folder / _STATE, msgspec.json.encode(state), root=self.root, durable=False)
        return sorted(new)

    def _append(self, size: int, fresh: Sequence[AuditMessage]) -> CopiedLog:
        """Add the records of messages to the copy of their log. What a process that died added is overwritten."""
        reader = self._reader(fresh[0].host, fresh[0].log)
        data = b"".join(line + b"\n" for one in fresh for line in one.lines if read_line(line))
        with files.opened(reader.folder, self.root, create=True) as folder:
            assert folder is not None
            file = open_to_append(folder, reader.folder / CURRENT)
            with open(file, "ab") as stream:
                os.ftruncate(file, size)
                stream.write(data)
        return CopiedLog(size + len(data), fresh[-1].seq)


def _log_of(message: AuditMessage) -> str:
    return f"{message.host}/{message.log}"


# The check of a host's chains:


class ChainCheck(msgspec.Struct):
    """What `billhook fleet verify` found for one log."""

    log: str
    records: int = 0
    first: int = 0
    last: int = 0
    hash: str = ""
    compared: int = 0  # records that are the same in the host's own log
    waiting: int | None = None  # records of the host that are not in the stream yet; None: its log was not compared
    findings: list[str] = []  # the first difference is the first


_MOST_FINDINGS: Final = 20


class ChainWalk:
    """Follows the chains of one host in the stream. With `root` each line is compared with the host's own log."""

    def __init__(self, root: Path | None = None) -> None:
        self._root = root
        self.checks: dict[str, ChainCheck] = {}
        self._local: dict[str, Iterator[tuple[LineEnds, bytes]]] = {}
        self._own: dict[str, tuple[LineEnds, bytes]] = {}  # the next record of a log, if it is not due yet

    def add(self, message: AuditMessage) -> None:
        check = self.checks.setdefault(message.log, ChainCheck(message.log))
        for line in message.lines:
            ends = read_line(line)
            if ends is None:
                _found(check, f"message {message.seq} has a line that is not a record")
                continue
            self._follows(check, ends)
            if not is_whole(line):
                _found(check, f"record {ends.seq}: hash mismatch: the record was changed")
            self._compare(check, ends, line)
            check.records, check.last, check.hash = check.records + 1, ends.seq, ends.hash

    def finish(self) -> list[ChainCheck]:
        """The result for every log, also for those of this host that are not in the stream at all."""
        for name in [] if self._root is None else _log_names(self._root):
            assert self._root is not None
            check = self.checks.setdefault(name, ChainCheck(name))
            head = current(self._log(name), self._root)
            check.waiting = 0 if head is None else max(0, head.seq - check.last)
        return [self.checks[name] for name in sorted(self.checks)]

    def _follows(self, check: ChainCheck, ends: LineEnds) -> None:
        if not check.records:
            check.first = ends.seq
        elif ends.seq != check.last + 1:
            how = "is missing" if ends.seq == check.last + 2 else "are missing"
            gap = f"records {check.last + 1} to {ends.seq - 1}" if how == "are missing" else f"record {check.last + 1}"
            again = f"record {ends.seq} follows record {check.last}: the log was begun again, or rewritten"
            _found(check, f"{gap} {how}" if ends.seq > check.last else again)
        elif ends.prev != check.hash:
            _found(check, f"record {ends.seq}: its `prev` does not match record {check.last}")

    def _compare(self, check: ChainCheck, ends: LineEnds, line: bytes) -> None:
        if self._root is None:
            return
        if check.log not in self._local:
            self._local[check.log] = self._records(check.log, ends.seq - 1)
        own = self._own.pop(check.log, None) or next(self._local[check.log], None)
        if own is not None and own[0].seq > ends.seq and not check.compared:
            self._own[check.log] = own  # the host has removed old records; the stream keeps them
        elif own is None or own[1] != line:
            what = "is not in the host's log" if own is None else "differs from the host's log"
            _found(check, f"record {ends.seq} {what}")
            self._local[check.log] = self._records(check.log, ends.seq)
        else:
            check.compared += 1

    def _records(self, log: str, after: int) -> Iterator[tuple[LineEnds, bytes]]:
        assert self._root is not None
        return ((ends, line) for ends, line, _ in lines_after(self._log(log), self._root, after))

    def _log(self, name: str) -> Path:
        assert self._root is not None
        return self._root / "hooks" / name


def _log_names(root: Path) -> Iterable[str]:
    try:
        return sorted(one.name for one in os.scandir(root / "hooks") if one.is_dir() and LOG_NAME.fullmatch(one.name))
    except FileNotFoundError:
        return []


def _found(check: ChainCheck, what: str) -> None:
    if len(check.findings) < _MOST_FINDINGS:
        check.findings.append(what)

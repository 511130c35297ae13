"""Proof that an agent calls billhook: start it without a model, or compare its transcripts with the event log."""

import os
import signal
import socket
import subprocess
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any, Final, Literal, NamedTuple

import click
import msgspec

from billhook.agents.base import Agent, Start
from billhook.agents.transcripts import PastCall, TranscriptCall, TranscriptScan
from billhook.cli.doctor.checks import DoctorFinding, Level, path_of, settings_of
from billhook.cli.replay import shown_call
from billhook.cli.screen import beside, filled, picked, width, with_shown_paths
from billhook.cli.times import local, shown_time
from billhook.core import client_env, strictjson
from billhook.core.text import counted, one_line
from billhook.runners.process_tree import processes
from billhook.store.files import log_folder
from billhook.store.log import Record, RecordFilter
from billhook.store.log.reader import LogReader
from billhook.testing import replay
from billhook.testing.judge import Judges


# `billhook doctor --canary`: start an agent with its own settings and no model. The addresses of the model and of all
# proxies are a loopback port on which nothing listens: nothing leaves the machine, nothing costs money, and an agent
# without a model runs no tool.
def environment(start: Start, url: str, around: Mapping[str, str]) -> dict[str, str]:
    """The agent's environment: ours, with proxies that lead nowhere, and the variables that it needs."""
    proxies = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY")
    nowhere = {name: url for upper in proxies for name in (upper, upper.lower())}
    local = dict.fromkeys(("NO_PROXY", "no_proxy"), "127.0.0.1,localhost")
    given = {**around, **nowhere, **local, "NO_COLOR": "1", "CI": "1", **start.environ}
    return {name: value for name, value in given.items() if value}


SECONDS: Final = 60.0  # how long an agent may take to call billhook
_LATE: Final = 2.0  # seconds after the agent's exit in which a record may still be written
_OFFLINE: Final = "waiting for network"
"""One agent prints this for ever once it calls its model: the events before that have been fired then."""
_TAIL: Final = 4096
_ENDS: Final = 3.0  # seconds between TERM and KILL
_EARLY: Final = frozenset({"SessionStart", "UserPromptSubmit"})  # events that are fired before the model is called


class CanaryRun(msgspec.Struct, frozen=True):
    record: Record | None
    seconds: float
    exit: int | None  # the agent's exit code; None: it was ended by us
    output: str  # the last line that it printed


def canary_finding(
    host: Agent, project: str, root: Path, findings: Sequence[DoctorFinding], seconds: float = SECONDS
) -> DoctorFinding:
    """Start the agent, and report the result. `findings`: what the doctor found about it."""
    try:
        ran = run(host, path_of(host), project, root, seconds)
    except OSError as error:
        text = f"{path_of(host)} can't be started: {error.strerror or error}"
        return DoctorFinding("fail", "canary", text, f"start `{host.program}` here, and read what it prints")
    if (record := ran.record) is not None:
        text = f"the hook fired after {ran.seconds:.1f} s ({record.event}, session {record.session_id[:8]})"
        if record.decision in ("deny", "ask") or record.stop:
            word = record.decision if record.decision != "none" else "stop"
            text += f"; its answer was {word}: {record.reason or ''}".rstrip(": ")
        return DoctorFinding("ok", "canary", text)
    why = next((one for one in findings if not one.well and one.about in ("trust", "installed", "daemon")), None)
    exited = f"exited after {ran.seconds:.1f} s with code {ran.exit}"
    ended = f"ran for {ran.seconds:.0f} s" if ran.exit is None else exited
    text = f"no hook fired: {host.title} {ended} and did not call billhook"
    if why is not None:
        return DoctorFinding("fail", "canary", f"{text}; likely because {why.text}", why.remedy)
    printed = f"; it printed: {ran.output}" if ran.output else ""
    level: Level = "warn" if ran.exit else "fail"  # it may have failed for another reason, such as a missing account
    return DoctorFinding(level, "canary", f"{text}{printed}", f"start `{host.program}` here, and read what it prints")


def not_possible(host: Agent, events: Sequence[str], *, logged: bool) -> DoctorFinding | None:
    """Why the agent can't be started, or why its start would prove nothing; None: it can."""
    if host.start is None:
        text = f"can't be tested: {host.title} needs an account and a window"
        return DoctorFinding("unknown", "canary", text)
    if not events:
        return DoctorFinding("fail", "canary", "no hook can fire: not installed", f"billhook install {host.name}")
    if not path_of(host):
        return DoctorFinding("unknown", "canary", f"can't be tested: no `{host.program}` on PATH")
    if not logged:
        return DoctorFinding("unknown", "canary", "can't be tested: the event log is disabled")
    if not _EARLY & set(events):
        text = "can't be tested: none of the installed events is fired before the model is called"
        return DoctorFinding("unknown", "canary", text, f"billhook install {host.name}")
    return None


def run(host: Agent, program: str, project: str, root: Path, seconds: float) -> CanaryRun:
    """Start the agent, wait until it calls billhook or exits, and end it with all its processes."""
    nonce = os.urandom(8).hex()
    prompt = f"This is a canary of `billhook doctor`, {nonce}. Do nothing."
    with socket.socket() as taken, tempfile.TemporaryFile() as output:
        taken.bind(("127.0.0.1", 0))  # reserved, so that no process listens there meanwhile
        url = f"http://127.0.0.1:{taken.getsockname()[1]}"
        assert host.start is not None
        start = host.start(host, url, prompt, settings_of)
        began, since = time.monotonic(), datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        process = subprocess.Popen(
            [program, *start.words],
            cwd=client_env.getcwd(),
            env=environment(start, url, client_env.environ()),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            record = _awaited(process, _Watch(root, project, host.name, nonce, since), output, began + seconds)
            took = time.monotonic() - began
            exited = process.poll() if record is None else None
            if record is not None:
                time.sleep(0.5)  # let the hook return its answer
        finally:
            end_all(process)
        return CanaryRun(record, took, exited, _last_line(output))


class _Watch:
    def __init__(self, root: Path, project: str, host: str, nonce: str, since: str) -> None:
        self._log = LogReader(log_folder(root, project), root)
        self._host, self._nonce = host, nonce
        self._wanted = RecordFilter(since=since, events=_EARLY)

    def found(self) -> Record | None:
        """The record with the nonce; where prompts are not logged, any prompt since the start."""
        blind: Record | None = None
        for entry in self._log.backward(self._wanted):
            record = entry.record
            if record.host != self._host:
                continue
            if self._nonce in strictjson.dumps(msgspec.to_builtins(self._log.whole(record).input)):
                return record
            if record.event == "UserPromptSubmit" and record.input is None:
                blind = record
        return blind


def _awaited(process: "subprocess.Popen[bytes]", watch: _Watch, output: IO[bytes], end: float) -> Record | None:
    over = False
    while time.monotonic() < end:
        if not over and (process.poll() is not None or _OFFLINE in _last_line(output)):
            over, end = True, min(end, time.monotonic() + _LATE)
        if (record := watch.found()) is not None:
            return record
        time.sleep(0.1)
    return watch.found()


def end_all(process: "subprocess.Popen[bytes]") -> None:
    """End all processes in the agent's session. A daemon that a hook started is in another one."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        members = [one for one in processes() if one.session == process.pid and one.alive]
        if not members and process.poll() is not None:
            return
        for one in members:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(one.pid, number)
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, number)
        with suppress(subprocess.TimeoutExpired):
            process.wait(_ENDS)
    process.wait()


def _last_line(output: IO[bytes]) -> str:
    size = os.fstat(output.fileno()).st_size
    tail = os.pread(output.fileno(), _TAIL, max(0, size - _TAIL))  # does not move the agent's write position
    lines = tail.decode("utf-8", "replace").strip().splitlines()
    return lines[-1].strip()[:300] if lines else ""


# `billhook doctor --coverage`: compare the tool calls in an agent's transcripts with the event log.
_BEFORE: Final = frozenset({"PreToolUse"})
_AROUND: Final = frozenset({"PreToolUse", "PostToolUse", "PostToolUseFailure", "PermissionRequest", "PermissionDenied"})
_ALSO: Final = {"claude": ("claude-agent-sdk",)}
"""Other names of an agent in the log: it writes the same transcripts when a Python program runs it."""
_CLOCKS: Final = 60.0  # seconds that a record may be older than its call

Kind = Literal["judged", "unjudged", "afterwards"]
"""Hooks judged the call before it ran; it reached billhook, but no hook could run; it was only logged after it ran."""


class _Arrival(NamedTuple):
    kind: Kind
    session: str
    when: float
    keys: tuple[str, ...]  # all keys under which it is kept


class LoggedCalls:
    """The calls in the logs of some projects, read once. Only ids are kept, to save memory; of agents whose events have
    no ids, the tools and hashes of the inputs."""

    def __init__(self, root: Path, host: Agent) -> None:
        self._root, self._host = root, host
        self._as = {host.name, f"http:{host.name}", *_ALSO.get(host.name, ())}  # the agent's names in the log
        self.projects: set[str] = set()  # projects whose logs were read
        self._came: dict[str, list[_Arrival]] = {}
        """Logged calls by key. Local models use the same ids again and again."""
        self.sessions: set[str] = set()
        self.asking: set[str] = set()  # sessions and subagents with a PreToolUse
        self.first = ""  # the oldest record of this agent

    def read(self, project: str) -> None:
        """Read the log of one more project. Raises StoreError."""
        if project in self.projects:
            return
        self.projects.add(project)
        for entry in LogReader(log_folder(self._root, project), self._root).forward(RecordFilter(project=project)):
            if entry.record.host in self._as:
                self._add(entry.record)

    def _add(self, record: Record) -> None:
        self.first = min(self.first or record.time, record.time)
        self.sessions.add(record.session_id)
        if record.event in _BEFORE:
            self.asking.update(filter(None, (record.session_id, record.agent_id)))
        if record.event in _AROUND:
            self._add_call(record)

    def _add_call(self, record: Record) -> None:
        kind: Kind = "judged" if record.judged else "unjudged"
        if record.event not in _BEFORE:
            kind = "afterwards"
        keys = self._keys_of(record)
        for key in keys:
            came = self._came.setdefault(key, [])
            if record.event in _BEFORE or not any(one.session == record.session_id for one in came):
                came.append(_Arrival(kind, record.session_id, moment(record.time), keys))

    def _keys_of(self, record: Record) -> tuple[str, ...]:
        if self._host.names_calls:
            return (record.tool_use_id,) if record.tool_use_id else ()
        if record.input is None or record.redacted:  # the transcript has another input
            return (f"{record.tool} {'redacted' if record.redacted else 'unrecorded'}",)
        given = [one for one in (record.input, record.rewritten_input) if one is not None]
        return tuple(dict.fromkeys(_key(record.tool or "", one) for one in given))

    def taken(self, past: PastCall) -> Kind | None:
        """How a call is logged; None: it is not. Each record counts for one call."""
        for key in self._keys_in_transcript(past):
            for one in self._came.get(key, []):
                if self._is_of(one, past.call):
                    self._take(one)
                    return one.kind
        return None

    def _keys_in_transcript(self, past: PastCall) -> tuple[str, ...]:
        if self._host.names_calls:
            return (past.call.id,)
        tool, given = past.as_hooks_get_it(self._host)
        secret = (f"{tool} redacted",) if f"{tool} redacted" in self._came and _has_secret(given) else ()
        return (_key(tool, given), *secret, f"{tool} unrecorded")

    def _is_of(self, one: _Arrival, call: TranscriptCall) -> bool:
        if self._host.names_calls:
            return one.session == call.session and one.when >= moment(call.time) - _CLOCKS
        return one.session in (call.session, call.agent)  # the transcript has the time after the call

    def _take(self, one: _Arrival) -> None:
        for key in one.keys:
            if one in self._came[key]:
                self._came[key].remove(one)


def _key(tool: str, given: Any) -> str:
    """The key of a call without an id."""
    return f"{tool} {hash(msgspec.json.encode(given, order='deterministic'))}"


def _has_secret(given: Any) -> bool:
    from billhook.store.redaction import Redactor

    return Redactor().redacted(given).texts > 0


def moment(text: str) -> float:
    """A time in seconds; 0 if it is invalid."""
    when = local(text)
    return when.timestamp() if when is not None else 0.0


# Why no hook saw a call:
class Reasons:
    def __init__(
        self, host: Agent, seen: LoggedCalls, findings: Iterable[DoctorFinding], events: Iterable[str], *, logged: bool
    ) -> None:
        """`findings` and `events`: what the doctor found now. `logged`: the event log is enabled."""
        self._host, self._seen, self._logged = host, seen, logged
        self._events = set(events)
        keeping = [one.text for one in findings if not one.well and one.about in ("installed", "trust", "daemon")]
        self._now = f"; now: {keeping[0]}" if keeping else ""

    def why(self, call: TranscriptCall) -> str:
        host, seen = self._host, self._seen
        if call.elsewhere:
            return "it runs on the model provider's servers, where no hook runs"
        if call.tool in host.unhooked:
            return f"{host.title} runs no hooks for {call.tool}"
        if not self._logged:
            return "the event log is disabled, so it is unknown which calls were judged"
        if not seen.first:
            return f"no event of {host.title} was ever logged here{self._now}"
        if call.time < seen.first:
            return f"before {host.title} first called billhook here"
        if call.agent and call.agent not in seen.asking and call.session in seen.asking:
            return "in a subagent that never called billhook"
        if call.session in seen.asking:
            return "other calls of that session were judged; this one was stopped, or its hook failed to run"
        if call.session in seen.sessions:
            missing = self._events and "PreToolUse" not in self._events
            because = f": {host.spellings['PreToolUse']} is not among the installed events" if missing else ""
            return f"that session called billhook for other events, but not before tool calls{because}"
        return f"that session never called billhook{self._now or _COMMON}"


_COMMON: Final = (
    ": it began before billhook was installed, with hooks disabled, in a folder that was not trusted yet, "
    "or with another home folder"
)


# The comparison:
MOST_SHOWN: Final = 1000  # unseen calls that are listed; the others are only counted
_MOST_LOGS: Final = 50  # logs of other projects that are read, for sessions that changed the project


class Coverage(msgspec.Struct, kw_only=True):
    """The comparison of transcripts and log."""

    host: Agent
    transcripts: int = 0
    sessions: int = 0
    calls: int = 0
    judged: int = 0
    unjudged: int = 0  # they reached billhook, but no hook could run
    afterwards: int = 0  # only logged after they ran
    not_run: int = 0  # the agent refused these itself (unknown tool, invalid input): it runs no hook
    open: int = 0  # in progress
    unseen: int = 0
    stopped: int = 0  # of those unseen, how many today's rules would have stopped
    shown: list[tuple[Record, str]] = []  # the first unseen calls, each with the likely reason
    reasons: Counter[str] = msgspec.field(default_factory=Counter)
    unread: int = 0  # lines that could not be read
    bytes: int = 0
    first: str = ""  # the time of the agent's oldest record in the log; empty: there is none

    @property
    def well(self) -> bool:
        return not (self.unseen or self.unjudged or self.afterwards)


def compared(
    host: Agent, project: str, root: Path, why: Callable[[LoggedCalls], Reasons], since: str = ""
) -> Coverage:  # fmt: skip
    """Compare transcripts and log. `since`: a time in the format of records. Raises StoreError."""
    comparison = _Comparison(host, project, root)
    scan = TranscriptScan(host, project, lambda folder: replay.project_of(folder) == project, since)
    for one in scan:
        comparison.take(one)
    return msgspec.structs.replace(comparison.finish(why), **picked(scan, "transcripts unread bytes"))


class _Comparison:
    def __init__(self, host: Agent, project: str, root: Path) -> None:
        self.seen = LoggedCalls(root, host)
        self.seen.read(project)
        self.result = Coverage(host=host)
        self._project = project
        self._known: set[tuple[str, str]] = set()
        self._sessions: set[str] = set()
        self._unseen: dict[tuple[str, str], PastCall] = {}

    def take(self, one: PastCall) -> None:
        """Copies of a call count as one, judged if any copy is."""
        call, again = one.call, one.key in self._known
        if again and one.key not in self._unseen:
            return
        self._known.add(one.key)
        self._sessions.add(call.session)
        elsewhere = replay.project_of(call.cwd) if call.cwd else self._project
        if elsewhere != self._project and len(self.seen.projects) < _MOST_LOGS:
            self.seen.read(elsewhere)  # a session that changed the project is logged there, too
        self.result.calls += not again
        came: str = self.seen.taken(one) or {"refused": "not_run", "open": "open"}.get(one.came, "")
        if came and not (again and came in ("not_run", "open")):
            setattr(self.result, came, getattr(self.result, came) + 1)
            self._unseen.pop(one.key, None)
        elif not again:
            self._unseen[one.key] = one

    def finish(self, why: Callable[[LoggedCalls], Reasons]) -> Coverage:
        result, reasons = self.result, why(self.seen)
        records = []
        for one in self._unseen.values():
            text = reasons.why(one.call)
            result.reasons[text] += 1
            records.append(replay.record_of(one, result.host, self._project))
            if len(result.shown) < MOST_SHOWN:
                result.shown.append((records[-1], text))
        result.stopped = replay.replay(records, Judges()).stopped
        result.unseen, result.sessions, result.first = len(records), len(self._sessions), self.seen.first
        return result


# The screen:
_ALWAYS: Final = ("tool calls", "judged before they ran", "not seen by any hook")  # others only if not 0
_SHOWN: Final = 20  # calls on the screen; --json has more


def coverage_lines(found: Coverage) -> Iterator[str]:
    yield click.style(f"{found.host.title}: transcripts compared with the event log", bold=True)
    if not found.transcripts:
        yield "  no transcript of this project was found"
        return
    head = f"{counted(found.transcripts, 'transcript')}, {counted(found.sessions, 'session')} with tool calls"
    yield from (f"  {head}, {found.bytes / 1e6:.1f} MB", "")
    rows = {
        "tool calls": found.calls,
        "judged before they ran": found.judged,
        "reached billhook, but no hook could run (`billhook events` shows why)": found.unjudged,
        "seen only after they ran": found.afterwards,
        "never ran: the agent refused them (unknown tool or invalid input)": found.not_run,
        "in progress": found.open,
        "not seen by any hook": found.unseen,
    }
    for what, number in rows.items():
        yield from beside(f"  {number:>7,}  ", what) if number or what in _ALWAYS else ()
    if found.unread:
        yield f"  {counted(found.unread, 'line')} could not be read"
    yield from _unseen(found)


def _unseen(found: Coverage) -> Iterator[str]:
    if not found.unseen:
        return
    yield from ("", click.style("Likely reasons", bold=True))
    for why, number in found.reasons.most_common():
        yield from beside(f"  {number:>7,}  ", why)
    yield from ("", click.style("Not seen", bold=True))
    for record, _ in found.shown[:_SHOWN]:
        who = f"{record.session_id[:8]}{'/' + record.agent_id[:8] if record.agent_id else ''}"
        head = f"  {shown_time(record.time)}  {one_line(who, 17):<8}  {one_line(record.tool or '', 24)}  "
        most = 2 * width() // 3
        room = width() - (6 if len(head) > most else len(head))
        yield from beside(head, one_line(with_shown_paths(shown_call(record)), room), below=6, most=most)
    if found.unseen > _SHOWN:
        yield f"  and {found.unseen - _SHOWN:,} more; --json has the first thousand"
    if found.stopped:
        shows = f"`billhook replay --transcripts {found.host.name}` shows them"
        text = f"{found.stopped:,} of these would have been stopped by the rules as they are now; {shows}"
        yield from ("", *filled(text, 0))


def coverage_data(found: Coverage) -> dict[str, Any]:
    return {
        "agent": found.host.name,
        "ok": found.well,
        **picked(found, "transcripts sessions calls judged unjudged afterwards not_run open unseen stopped"),
        "unread_lines": found.unread,
        "first_asked": found.first or None,
        "reasons": [{"why": why, "calls": number} for why, number in found.reasons.most_common()],
        "unseen_calls": [
            {
                **picked(record, "time session_id agent_id tool tool_use_id"),
                "input": shown_call(record),
                "why": why,
            }
            for record, why in found.shown
        ],
    }

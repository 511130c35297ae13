"""Proof that an agent calls billhook: start it without a model, or compare its transcripts with the event log."""

import os
import signal
import socket
import subprocess
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any, Final

import click
import msgspec

from billhook.agents.base import Agent, Start
from billhook.agents.transcripts import PastCall, TranscriptCall, TranscriptScan
from billhook.cli.doctor.checks import DoctorFinding, Level, path_of, settings_of
from billhook.cli.replay import grouped_lines, shown_call
from billhook.cli.screen import beside, filled, picked
from billhook.cli.times import local
from billhook.core import client_env, strictjson
from billhook.core.text import counted
from billhook.runners.process_tree import processes
from billhook.store.files import log_folder
from billhook.store.log import Record, RecordFilter
from billhook.store.log.reader import LogReader
from billhook.testing import replay
from billhook.testing.judge import NO_OBJECTION, Judges


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
_AFTERWARDS: Final = frozenset({"PostToolUse", "PostToolUseFailure", "PermissionRequest", "PermissionDenied"})
_ALSO: Final = {"claude": ("claude-agent-sdk",)}
"""Other names of an agent in the log: it writes the same transcripts when a Python program runs it."""
_CLOCKS: Final = 60.0  # seconds that a record may be older than its call
_MOST_LOGS: Final = 50  # logs of other projects that are read, for sessions that changed the project
MOST_SHOWN: Final = 1000  # unseen calls that --json lists; the others are only counted
_ROWS: Final = {
    "calls": "tool calls",
    "judged": "judged before they ran",
    "unjudged": "reached billhook, but no hook could run (`billhook events` shows why)",
    "afterwards": "seen only after they ran",
    "not_run": "never ran: the agent refused them (unknown tool or invalid input)",
    "open": "in progress",
    "unseen": "not seen by any hook",
}
"""What is counted. Those in `_ALWAYS` are also shown if they are 0."""
_ALWAYS: Final = ("calls", "judged", "unseen")


class _Arrival(msgspec.Struct):
    """A call in the log: `judged`, `unjudged` or `afterwards`; empty once a call of a transcript has taken it."""

    kind: str
    when: float


class LoggedCalls:
    """The calls in the logs of some projects, read once. Only ids are kept, to save memory; of agents whose events have
    no ids, the tools and hashes of the inputs."""

    def __init__(self, root: Path, host: Agent) -> None:
        self._root, self._host = root, host
        self._as = {host.name, f"http:{host.name}", *_ALSO.get(host.name, ())}  # the agent's names in the log
        self.projects: set[str] = set()  # projects whose logs were read
        self._came: dict[tuple[str, str], list[_Arrival]] = {}
        """Logged calls by session and key. Local models use the same ids again and again."""
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
        before = record.event == "PreToolUse"
        if before:
            self.asking.update(filter(None, (record.session_id, record.agent_id)))
        elif record.event not in _AFTERWARDS:
            return
        kind = "afterwards" if not before else "judged" if record.judged else "unjudged"
        arrival = _Arrival(kind, moment(record.time))
        for key in self._keys_of(record):
            came = self._came.setdefault((record.session_id, key), [])
            if before or not came:
                came.append(arrival)

    def _keys_of(self, record: Record) -> tuple[str, ...]:
        if self._host.names_calls:
            return (record.tool_use_id,) if record.tool_use_id else ()
        if record.input is None or record.redacted:  # the transcript has another input
            return (f"{record.tool} {'redacted' if record.redacted else 'unrecorded'}",)
        given = [one for one in (record.input, record.rewritten_input) if one is not None]
        return tuple(dict.fromkeys(_key(record.tool or "", one) for one in given))

    def logged_kind(self, past: PastCall) -> str:
        """How a call is logged; empty: it is not. Each record counts for one call."""
        call, since = past.call, 0.0
        if self._host.names_calls:  # other transcripts have the time after the call
            since = moment(call.time) - _CLOCKS
        for key in self._keys_in_transcript(past):
            for session in (call.session, call.agent):
                for one in self._came.get((session, key), ()):
                    if one.kind and one.when >= since:
                        kind, one.kind = one.kind, ""
                        return kind
        return ""

    def _keys_in_transcript(self, past: PastCall) -> tuple[str, ...]:
        if self._host.names_calls:
            return (past.call.id,)
        tool, given = past.as_hooks_get_it(self._host)
        redacted = (past.call.session, f"{tool} redacted") in self._came and _has_secret(given)
        return (_key(tool, given), *([f"{tool} redacted"] if redacted else ()), f"{tool} unrecorded")


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


class Reasons(msgspec.Struct, frozen=True, kw_only=True):
    """Why no hook saw a call, as far as the log and the doctor's present findings tell."""

    host: Agent
    seen: LoggedCalls
    findings: Sequence[DoctorFinding]
    events: Sequence[str]  # for which the agent calls billhook now
    logged: bool  # the event log is enabled

    def why(self, call: TranscriptCall) -> str:
        host, seen = self.host, self.seen
        if call.elsewhere:
            return "it runs on the model provider's servers, where no hook runs"
        if call.tool in host.unhooked:
            return f"{host.title} runs no hooks for {call.tool}"
        if not self.logged:
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
            missing = self.events and "PreToolUse" not in self.events
            because = f": {host.spellings['PreToolUse']} is not among the installed events" if missing else ""
            return f"that session called billhook for other events, but not before tool calls{because}"
        return f"that session never called billhook{self._now or _COMMON}"

    @property
    def _now(self) -> str:
        keeping = (one.text for one in self.findings if not one.well and one.about in ("installed", "trust", "daemon"))
        text = next(keeping, "")
        return f"; now: {text}" if text else ""


_COMMON: Final = (
    ": it began before billhook was installed, with hooks disabled, in a folder that was not trusted yet, "
    "or with another home folder"
)


class Coverage(msgspec.Struct, kw_only=True):
    """The comparison of transcripts and log."""

    host: Agent
    counts: Counter[str]  # of each row, and of `transcripts`, `sessions`, `bytes`, `unread`: lines that can't be read
    stopped: int  # of those unseen, how many today's rules would have stopped
    reasons: dict[str, replay.Examples]  # the unseen calls by their likely reason
    unseen: list[tuple[Record, str]]  # the first of them, each with the reason
    first: str  # the time of the agent's oldest record in the log; empty: there is none

    @property
    def well(self) -> bool:
        return not any(self.counts[name] for name in ("unseen", "unjudged", "afterwards"))


def compared(project: str, reasons: Reasons, since: str = "") -> Coverage:
    """Compare transcripts and log. `since`: a time in the format of records. Raises StoreError."""
    host, counts = reasons.host, Counter[str]()
    reasons.seen.read(project)
    scan = TranscriptScan(host, project, lambda folder: replay.project_of(folder) == project, since)
    unseen = list(_unseen(scan, project, reasons.seen, counts))
    records = [replay.record_of(one, host, project) for one in unseen]
    why = [reasons.why(one.call) for one in unseen]
    counts.update(unseen=len(unseen), **picked(scan, "transcripts unread bytes"))
    groups: dict[str, replay.Examples] = {}
    for record, text in zip(records, why, strict=True):
        groups.setdefault(text, replay.Examples()).add(replay.Difference(record, NO_OBJECTION, NO_OBJECTION))
    return Coverage(
        host=host,
        counts=counts,
        stopped=replay.replay(records, Judges()).stopped,
        reasons=groups,
        unseen=list(zip(records, why, strict=True))[:MOST_SHOWN],
        first=reasons.seen.first,
    )


def _unseen(calls: Iterable[PastCall], project: str, seen: LoggedCalls, counts: Counter[str]) -> Iterable[PastCall]:
    """The calls that no hook saw; the others are counted. Copies of a call count as one, judged if any copy is."""
    known: set[tuple[str, str]] = set()
    sessions: set[str] = set()
    unseen: dict[tuple[str, str], PastCall] = {}
    for one in calls:
        call, again = one.call, one.key in known
        if again and one.key not in unseen:
            continue
        known.add(one.key)
        sessions.add(call.session)
        elsewhere = replay.project_of(call.cwd) if call.cwd else project
        if elsewhere != project and len(seen.projects) < _MOST_LOGS:
            seen.read(elsewhere)  # a session that changed the project is logged there, too
        counts["calls"] += not again
        came = seen.logged_kind(one) or ("" if again else {"refused": "not_run", "open": "open"}.get(one.came, ""))
        if came:
            counts[came] += 1
            unseen.pop(one.key, None)
        else:
            unseen.setdefault(one.key, one)
    counts["sessions"] = len(sessions)
    return unseen.values()


def coverage_lines(found: Coverage) -> Iterator[str]:
    yield click.style(f"{found.host.title}: transcripts compared with the event log", bold=True)
    counts = found.counts
    if not counts["transcripts"]:
        yield "  no transcript of this project was found"
        return
    head = f"{counted(counts['transcripts'], 'transcript')}, {counted(counts['sessions'], 'session')} with tool calls"
    yield from (f"  {head}, {counts['bytes'] / 1e6:.1f} MB", "")
    for name, what in _ROWS.items():
        yield from beside(f"  {counts[name]:>7,}  ", what) if counts[name] or name in _ALWAYS else ()
    if counts["unread"]:
        yield f"  {counted(counts['unread'], 'line')} could not be read"
    if found.reasons:
        yield from ("", click.style("Not seen, by the likely reason", bold=True), *grouped_lines(found.reasons))
    if found.stopped:
        shows = f"`billhook replay --transcripts {found.host.name}` shows them"
        text = f"{found.stopped:,} of these would have been stopped by the rules as they are now; {shows}"
        yield from ("", *filled(text, 0))


def coverage_data(found: Coverage) -> dict[str, Any]:
    ordered = sorted(found.reasons.items(), key=lambda one: -one[1].count)
    return {
        "agent": found.host.name,
        "ok": found.well,
        **{name: found.counts[name] for name in ("transcripts", "sessions", *_ROWS)},
        "stopped": found.stopped,
        "unread_lines": found.counts["unread"],
        "first_asked": found.first or None,
        "reasons": [{"why": why, "calls": group.count} for why, group in ordered],
        "unseen_calls": [
            {**picked(one, "time session_id agent_id tool tool_use_id"), "input": shown_call(one), "why": why}
            for one, why in found.unseen
        ],
    }

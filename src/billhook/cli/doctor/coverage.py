"""`billhook doctor --coverage`: the tool calls in an agent's transcripts, compared with the event log."""

import os
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from datetime import datetime
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple

import click
import msgspec

from billhook.agents.base import Agent
from billhook.agents.transcripts import CallResult, TranscriptCall, TranscriptFile, TranscriptLines
from billhook.cli.doctor.entries import DoctorFinding
from billhook.cli.screen import filled, picked, width, with_shown_paths
from billhook.cli.times import local, shown_time
from billhook.config import sources
from billhook.config.loader import standing
from billhook.core.text import counted, one_line
from billhook.store.files import log_folder
from billhook.store.log.reader import LogReader
from billhook.store.log.record import Record, Wanted

_BEFORE: Final = frozenset({"PreToolUse"})
_AROUND: Final = frozenset({"PreToolUse", "PostToolUse", "PostToolUseFailure", "PermissionRequest", "PermissionDenied"})
_ALSO: Final = {"claude": ("claude-agent-sdk",)}
"""Other names of an agent in the log: it writes the same transcripts when a Python program runs it."""
_CLOCKS: Final = 60.0  # seconds that a record may be older than its call

Kind = Literal["judged", "unjudged", "afterwards"]
"""Hooks judged the call before it ran; it reached billhook, but no hook could run; it was only logged after it ran."""


class _Came(NamedTuple):
    kind: Kind
    session: str
    when: float


class LoggedCalls:
    """The calls in the logs of some projects, read once. Only ids are kept, to save memory."""

    def __init__(self, root: Path, host: str) -> None:
        self._root = root
        self._as = {host, f"http:{host}", *_ALSO.get(host, ())}  # the agent's names in the log
        self.projects: set[str] = set()  # projects whose logs were read
        self._came: dict[str, list[_Came]] = {}
        """Logged calls by id. Local models use the same ids again and again."""
        self.sessions: set[str] = set()
        self.asking: set[str] = set()  # sessions with a PreToolUse
        self.agents: set[str] = set()  # subagents with a PreToolUse
        self.first = ""  # the oldest record of this agent

        self.ends: dict[str, tuple[str, str]] = {}  # the first and last record of each session

    def read(self, project: str) -> None:
        """Read the log of one more project. Raises StoreError."""
        if project in self.projects:
            return
        self.projects.add(project)
        for entry in LogReader(log_folder(self._root, project), self._root).forward(Wanted(project=project)):
            self._add(entry.record)

    def _add(self, record: Record) -> None:

        if record.host not in self._as:
            return
        self.first = min(self.first or record.time, record.time)
        self.sessions.add(record.session_id)
        began, _ = self.ends.get(record.session_id, (record.time, ""))
        self.ends[record.session_id] = began, record.time
        if record.event in _BEFORE:
            self.asking.add(record.session_id)
            if record.agent_id:
                self.agents.add(record.agent_id)
        if record.event in _AROUND and record.tool_use_id:
            came = self._came.setdefault(record.tool_use_id, [])
            kind: Kind = "judged" if record.judged else "unjudged"
            if record.event not in _BEFORE:
                kind = "afterwards"
            if record.event in _BEFORE or not any(one.session == record.session_id for one in came):
                came.append(_Came(kind, record.session_id, moment(record.time)))

    def taken(self, call: TranscriptCall) -> Kind | None:
        """How a call is logged; None: it is not. Each record counts for one call."""
        came, when = self._came.get(call.id, []), moment(call.time)
        for one in came:
            if one.session == call.session and one.when >= when - _CLOCKS:
                came.remove(one)
                return one.kind
        return None


def moment(text: str) -> float:
    """A time in seconds; 0 if it is invalid."""
    when = local(text)
    return when.timestamp() if when is not None else 0.0


# Why no hook saw a call:
class Reasons:
    """Explains why calls were not seen."""

    def __init__(
        self, host: Agent, seen: LoggedCalls, findings: Iterable[DoctorFinding], events: Iterable[str], *, logged: bool
    ) -> None:
        """`findings` and `events`: what the doctor found now. `logged`: the event log is enabled."""
        self._host, self._seen, self._logged = host, seen, logged
        self._events = set(events)
        keeping = [one.text for one in findings if not one.well and one.about in ("installed", "trust", "daemon")]
        self._now = f"; now: {keeping[0]}" if keeping else ""

    def why(self, call: TranscriptCall, *, ended: bool) -> str:
        """The likeliest reason. `ended`: the transcript has the tool's result."""
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
        if call.session in seen.asking:
            return self._in_a_logged_session(call, ended)
        if call.session in seen.sessions:
            missing = self._events and "PreToolUse" not in self._events
            because = f": {host.spellings['PreToolUse']} is not among the installed events" if missing else ""
            return f"that session called billhook for other events, but not before tool calls{because}"
        return f"that session never called billhook{self._now or _COMMON}"

    def _in_a_logged_session(self, call: TranscriptCall, ended: bool) -> str:
        began, last = self._seen.ends[call.session]
        if call.agent and call.agent not in self._seen.agents:
            return "in a subagent that never called billhook"
        if call.time < began:
            return "before that session read the entries"
        if call.time > last:
            return "after the last logged event of that session: entries were removed or disabled, or it ended"
        if not ended:
            return "it was stopped before or while it ran"
        return "other calls of that session were judged; the hook could not start, or timed out"


_COMMON: Final = (
    ": it began before billhook was installed, with hooks disabled, in a folder that was not trusted yet, "
    "or with another home folder"
)


# `billhook doctor --coverage`:
MOST_SHOWN: Final = 1000  # unseen calls that are listed; the others are only counted
_STILL_OPEN: Final = 600.0  # seconds after the last write to a transcript in which a call may still get its result
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
    shown: list[tuple[TranscriptCall, str]] = []  # the first unseen calls, each with the likely reason
    reasons: Counter[str] = msgspec.field(default_factory=Counter)
    unread: int = 0  # lines that could not be read
    bytes: int = 0
    first: str = ""  # the time of the agent's oldest record in the log; empty: there is none

    @property
    def well(self) -> bool:
        return not (self.unseen or self.unjudged or self.afterwards)


def compared(
    host: Agent,
    project: str,
    root: Path,
    why: Callable[[LoggedCalls], Reasons],
    since: str = "",
    now: float | None = None,
) -> Coverage:
    """Compare transcripts and log. `since`: a time in the format of records. Raises StoreError."""
    comparison = _Comparison(host, project, root, since)
    newest = datetime.fromisoformat(since).timestamp() if since else 0.0
    transcripts = import_module(host.transcripts).transcripts
    for one in transcripts(project, lambda folder: project_of(folder) == project, newest):
        comparison.take(one, now if now is not None else time.time())
    return comparison.finish(why)


@cache
def project_of(folder: str) -> str:
    """The project to which a folder belongs, also if the folder was removed."""
    return sources.find(standing(folder), layers=("project", "local")).project


class _Comparison:
    """The comparison of all transcripts of a project with the log."""

    def __init__(self, host: Agent, project: str, root: Path, since: str) -> None:
        self.seen = LoggedCalls(root, host.name)
        self.seen.read(project)
        self.result = Coverage(host=host)
        self._since, self._project = since, project
        self._known: set[tuple[str, str]] = set()
        self._sessions: set[str] = set()
        self._open: dict[tuple[str, str], tuple[TranscriptCall, bool]] = {}
        """Calls that are not in the log so far, and whether they ended."""

    def take(self, transcript: TranscriptFile, now: float) -> None:
        """Read one file. Only the ids of judged calls are kept."""
        lines = TranscriptLines(transcript.path)
        waiting: dict[str, TranscriptCall] = {}
        for found in transcript.read(lines):
            if isinstance(found, CallResult):
                call = waiting.pop(found.id, None)
                self.result.not_run += call is not None and found.came == "refused"
                if call is not None and found.came != "refused":
                    self._open[call.id, call.time] = call, found.came == "ran"
            elif found.time >= self._since[: len(found.time)]:
                self._call(found, waiting)
        result = self.result
        result.transcripts += 1
        result.unread += lines.unread
        result.bytes += lines.bytes
        written = 0.0
        with suppress(OSError):
            written = os.stat(transcript.path).st_mtime
        if now - written < _STILL_OPEN:
            result.open += len(waiting)
        else:
            self._open |= {(call.id, call.time): (call, False) for call in waiting.values()}

    def _call(self, call: TranscriptCall, waiting: dict[str, TranscriptCall]) -> None:
        """A forked session repeats earlier calls under its own id. Copies count as one call, judged if any copy is."""
        key = (call.id, call.time)
        again = key in self._known
        if again and key not in self._open:
            return
        self._known.add(key)
        self._sessions.add(call.session)
        elsewhere = project_of(call.cwd) if call.cwd else self._project
        if elsewhere != self._project and len(self.seen.projects) < _MOST_LOGS:
            self.seen.read(elsewhere)  # a session that changed the project is logged there, too
        self.result.calls += not again
        came = self.seen.taken(call)
        if came is not None:
            setattr(self.result, came, getattr(self.result, came) + 1)
            self._open.pop(key, None)
        elif call.elsewhere:
            self._open[key] = call, True  # its result has another form, and is not needed
        elif not again:
            waiting[call.id] = call

    def finish(self, why: Callable[[LoggedCalls], Reasons]) -> Coverage:
        result, reasons = self.result, why(self.seen)
        for call, ended in self._open.values():
            text = reasons.why(call, ended=ended)
            result.unseen += 1
            result.reasons[text] += 1
            if len(result.shown) < MOST_SHOWN:
                result.shown.append((call, text))
        result.sessions, result.first = len(self._sessions), self.seen.first
        return result


def shortly(call: TranscriptCall) -> str:
    """The call in one line, without secrets."""
    from billhook.store.redaction import Redactor

    given = call.input
    value = next((given[key] for key in _TELLING if given.get(key)), None)
    if value is None:
        value = ", ".join(f"{key}={given[key]!r:.60}" for key in list(given)[:4])
    words = value if isinstance(value, Sequence) and not isinstance(value, str) else [value]
    return Redactor().text(" ".join(map(str, words)))[:_LONGEST]


_TELLING: Final = ("command", "cmd", "file_path", "path", "notebook_path", "url", "query", "pattern", "input")
_LONGEST: Final = 300


# The screen:
_ALWAYS: Final = ("tool calls", "judged before they ran", "not seen by any hook")  # others only if not 0
_SHOWN: Final = 20  # calls on the screen; --json has more
_COUNTS: Final = "transcripts sessions calls judged unjudged afterwards not_run open unseen"


def coverage_lines(found: Coverage) -> Iterator[str]:
    """The result for one agent."""
    yield click.style(f"{found.host.title}: transcripts compared with the event log", bold=True)
    if not found.transcripts:
        yield "  no transcript of this project was found"
        return
    head = f"{counted(found.transcripts, 'transcript')}, {counted(found.sessions, 'session')} with tool calls"
    yield f"  {head}, {found.bytes / 1e6:.1f} MB"
    yield ""
    rows = {
        "tool calls": found.calls,
        "judged before they ran": found.judged,
        "reached billhook, but no hook could run (`billhook events` shows why)": found.unjudged,
        "seen only after they ran": found.afterwards,
        "never ran: the agent refused them (unknown tool or invalid input)": found.not_run,
        "in progress": found.open,
        "not seen by any hook": found.unseen,
    }
    yield from (f"  {number:>7,}  {what}" for what, number in rows.items() if number or what in _ALWAYS)
    if found.unread:
        yield f"  {counted(found.unread, 'line')} could not be read"
    yield from _unseen(found)


def _unseen(found: Coverage) -> Iterator[str]:
    if not found.unseen:
        return
    yield ""
    yield click.style("Likely reasons", bold=True)
    for why, number in found.reasons.most_common():
        first, *rest = filled(why, 11)
        yield f"  {number:>7,}  {first.strip()}"
        yield from rest
    yield ""
    yield click.style("Not seen", bold=True)
    for call, _ in found.shown[:_SHOWN]:
        who = f"{call.session[:8]}{'/' + call.agent[:8] if call.agent else ''}"
        head = f"  {shown_time(call.time)}  {one_line(who, 17):<8}  {one_line(call.tool, 24)}  "
        yield head + one_line(with_shown_paths(shortly(call)), max(20, width() - len(head)))
    if found.unseen > _SHOWN:
        yield f"  and {found.unseen - _SHOWN:,} more; --json has the first thousand"


def coverage_data(found: Coverage) -> dict[str, Any]:
    """The result as JSON."""
    return {
        "agent": found.host.name,
        "ok": found.well,
        **picked(found, _COUNTS),
        "unread_lines": found.unread,
        "first_asked": found.first or None,
        "reasons": [{"why": why, "calls": number} for why, number in found.reasons.most_common()],
        "unseen_calls": [
            {
                "time": call.time,
                "session_id": call.session,
                "agent_id": call.agent or None,
                "tool": call.tool,
                "tool_use_id": call.id,
                "input": shortly(call),
                "why": why,
            }
            for call, why in found.shown
        ],
    }

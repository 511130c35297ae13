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
"""Other names for an agent in the log: its transcripts are the same when a program of Python runs it."""
_CLOCKS: Final = 60.0  # seconds that a record may be older than its call

Kind = Literal["judged", "unjudged", "afterwards"]
"""Hooks were asked before it ran; it came to us, and no hook could be asked; it came only when it had run."""


class _Came(NamedTuple):
    kind: Kind
    session: str
    when: float


class LoggedCalls:
    """The logs of some projects, read once: ids and no more, so that memory grows with the calls alone."""

    def __init__(self, root: Path, host: str) -> None:
        self._root = root
        self._as = {host, f"http:{host}", *_ALSO.get(host, ())}  # what the agent is called in the log
        self.projects: set[str] = set()  # those whose logs were read
        self._came: dict[str, list[_Came]] = {}
        """What came of a call, by its id. Models that run at home give the same ids again and again."""
        self.sessions: set[str] = set()
        self.asking: set[str] = set()  # sessions that brought a PreToolUse
        self.agents: set[str] = set()  # subagents that brought a PreToolUse
        self.first = ""  # the oldest record of this agent

        self.ends: dict[str, tuple[str, str]] = {}  # of each session, its first and last record

    def read(self, project: str) -> None:
        """Take in the log of one more project. Raises StoreError."""
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
        """What came of a call; None: it never came. Each record answers for one call."""
        came, when = self._came.get(call.id, []), moment(call.time)
        for one in came:
            if one.session == call.session and one.when >= when - _CLOCKS:
                came.remove(one)
                return one.kind
        return None


def moment(text: str) -> float:
    """A time in seconds; 0 where it is none."""
    when = local(text)
    return when.timestamp() if when is not None else 0.0


# Why no hook saw a call:
class Reasons:
    """Says of one call after another why it was not seen."""

    def __init__(
        self, host: Agent, seen: LoggedCalls, findings: Iterable[DoctorFinding], events: Iterable[str], *, logged: bool
    ) -> None:
        """`findings` and `events` are what the doctor found now; `logged`: the event log is switched on."""
        self._host, self._seen, self._logged = host, seen, logged
        self._events = set(events)
        keeping = [one.text for one in findings if not one.well and one.about in ("installed", "trust", "daemon")]
        self._now = f"; now: {keeping[0]}" if keeping else ""

    def why(self, call: TranscriptCall, *, ended: bool) -> str:
        """The likeliest reason. `ended`: the transcript has what the tool said."""
        host, seen = self._host, self._seen
        if call.elsewhere:
            return "it runs at the model's own service, where no hook is asked"
        if call.tool in host.unhooked:
            return f"{host.title} asks no hook about {call.tool}"
        if not self._logged:
            return "the event log is switched off, so what was judged is not known"
        if not seen.first:
            return f"nothing that {host.title} did was ever logged here{self._now}"
        if call.time < seen.first:
            return f"before {host.title} first asked billhook here"
        if call.session in seen.asking:
            return self._in_a_session_that_asked(call, ended)
        if call.session in seen.sessions:
            missing = self._events and "PreToolUse" not in self._events
            because = f": {host.spellings['PreToolUse']} is not among the installed events" if missing else ""
            return f"that session asked about other events, and not before tool calls{because}"
        return f"that session asked nobody{self._now or _COMMON}"

    def _in_a_session_that_asked(self, call: TranscriptCall, ended: bool) -> str:
        began, last = self._seen.ends[call.session]
        if call.agent and call.agent not in self._seen.agents:
            return "in a subagent that asked nobody"
        if call.time < began:
            return "before the entries were read in that session"
        if call.time > last:
            return "after the last event that came from that session: entries were removed or switched off, or it ended"
        if not ended:
            return "it was stopped, before it began or while it ran"
        return "other calls of that session were judged; the hook could not start, or was too late"


_COMMON: Final = (
    ": it began before the entries were written, with hooks switched off, in a folder not yet trusted, "
    "or with another home"
)


# `billhook doctor --coverage`:
MOST_SHOWN: Final = 1000  # unseen calls that are kept one by one; beyond that they are counted
_STILL_OPEN: Final = 600.0  # seconds since a transcript was written in which a call without a result may yet get one
_MOST_LOGS: Final = 50  # projects that a session may have gone to, whose logs are read as well


class Coverage(msgspec.Struct, kw_only=True):
    """Transcripts and log, compared."""

    host: Agent
    transcripts: int = 0
    sessions: int = 0
    calls: int = 0
    judged: int = 0
    unjudged: int = 0  # they came to billhook, and no hook could be asked
    afterwards: int = 0  # only seen when they had run
    not_run: int = 0  # the agent refused these itself, a tool that it has not or called wrongly: no hook is asked
    open: int = 0  # just being made
    unseen: int = 0
    shown: list[tuple[TranscriptCall, str]] = []  # the first of these, each with the likely reason
    reasons: Counter[str] = msgspec.field(default_factory=Counter)
    unread: int = 0  # lines that could not be read
    bytes: int = 0
    first: str = ""  # the oldest record of this agent in the log; empty: there is none

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
    """Read both. `since`: a time as records have it. Raises StoreError when the log can't be read."""
    comparison = _Comparison(host, project, root, since)
    newest = datetime.fromisoformat(since).timestamp() if since else 0.0
    transcripts = import_module(host.transcripts).transcripts
    for one in transcripts(project, lambda folder: project_of(folder) == project, newest):
        comparison.take(one, now if now is not None else time.time())
    return comparison.finish(why)


@cache
def project_of(folder: str) -> str:
    """The project that a folder belongs to, or did when it was there."""
    return sources.find(standing(folder), layers=("project", "local")).project


class _Comparison:
    """One look at all transcripts of a project."""

    def __init__(self, host: Agent, project: str, root: Path, since: str) -> None:
        self.seen = LoggedCalls(root, host.name)
        self.seen.read(project)
        self.result = Coverage(host=host)
        self._since, self._project = since, project
        self._known: set[tuple[str, str]] = set()
        self._sessions: set[str] = set()
        self._open: dict[tuple[str, str], tuple[TranscriptCall, bool]] = {}
        """Calls that were not found in the log so far, and whether they ended."""

    def take(self, transcript: TranscriptFile, now: float) -> None:
        """Go through one file. Of calls that were judged no more is kept than their ids."""
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
        """A session that was forked repeats, under its own id, what was; such a call is one, and judged if any is."""
        key = (call.id, call.time)
        again = key in self._known
        if again and key not in self._open:
            return
        self._known.add(key)
        self._sessions.add(call.session)
        elsewhere = project_of(call.cwd) if call.cwd else self._project
        if elsewhere != self._project and len(self.seen.projects) < _MOST_LOGS:
            self.seen.read(elsewhere)  # a session that went to another project asked there, too
        self.result.calls += not again
        came = self.seen.taken(call)
        if came is not None:
            setattr(self.result, came, getattr(self.result, came) + 1)
            self._open.pop(key, None)
        elif call.elsewhere:
            self._open[key] = call, True  # its result has another form, and nothing depends on it
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
    """What a call was about, in one line and without secrets."""
    from billhook.store.redaction import Redactor

    said = call.input
    value = next((said[key] for key in _TELLING if said.get(key)), None)
    if value is None:
        value = ", ".join(f"{key}={said[key]!r:.60}" for key in list(said)[:4])
    words = value if isinstance(value, Sequence) and not isinstance(value, str) else [value]
    return Redactor().text(" ".join(map(str, words)))[:_LONGEST]


_TELLING: Final = ("command", "cmd", "file_path", "path", "notebook_path", "url", "query", "pattern", "input")
_LONGEST: Final = 300


# What is shown of it:
_ALWAYS: Final = ("tool calls", "judged before they ran", "no hook ever saw")  # the others only where there are some
_SHOWN: Final = 20  # calls on the screen; --json has more
_COUNTS: Final = "transcripts sessions calls judged unjudged afterwards not_run open unseen"


def coverage_lines(found: Coverage) -> Iterator[str]:
    """What came of one agent."""
    yield click.style(f"{found.host.title}: transcripts against the log", bold=True)
    if not found.transcripts:
        yield "  no transcript of this project was found"
        return
    head = f"{counted(found.transcripts, 'transcript')}, {counted(found.sessions, 'session')} with tool calls"
    yield f"  {head}, {found.bytes / 1e6:.1f} MB"
    yield ""
    rows = {
        "tool calls": found.calls,
        "judged before they ran": found.judged,
        "came to billhook, and no hook could be asked (`billhook events` shows why)": found.unjudged,
        "were seen only after they had run": found.afterwards,
        "never ran: the agent itself refused them, called wrongly or not there": found.not_run,
        "are being made right now": found.open,
        "no hook ever saw": found.unseen,
    }
    yield from (f"  {number:>7,}  {what}" for what, number in rows.items() if number or what in _ALWAYS)
    if found.unread:
        yield f"  {counted(found.unread, 'line')} could not be read"
    yield from _unseen(found)


def _unseen(found: Coverage) -> Iterator[str]:
    if not found.unseen:
        return
    yield ""
    yield click.style("Likely why", bold=True)
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
    """The same for programs."""
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

"""`billhook doctor --coverage`: the agent's own transcripts held against the event log.

How many tool calls there were, how many were judged, which ones no hook ever saw, and likely why.
"""

import os
import time
from collections import Counter
from collections.abc import Callable, Sequence
from datetime import datetime
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Final

import msgspec

from billhook.agents.base import Agent
from billhook.agents.transcripts import Call, Lines, Result, Transcript
from billhook.config import sources
from billhook.config.configured import standing
from billhook.hosts.coverage_log import Seen
from billhook.hosts.coverage_why import Reasons

MOST_SHOWN: Final = 1000  # unseen calls that are kept one by one; beyond that they are counted
_STILL_OPEN: Final = 600.0  # seconds since a transcript was written in which a call without a result may yet get one
_MOST_LOGS: Final = 50  # projects that a session may have gone to, whose logs are read as well


class Unseen(msgspec.Struct, frozen=True):
    """A call that no hook ever saw."""

    call: Call
    why: str


class Coverage(msgspec.Struct, kw_only=True):
    """Transcripts and log, compared."""

    host: Agent
    transcripts: int = 0
    sessions: int = 0
    calls: int = 0
    judged: int = 0
    unjudged: int = 0  # they came to billhook, and no hook could be asked
    afterwards: int = 0  # only seen when they had run
    not_run: int = 0
    """The agent refused these itself: a tool that it has not, or called wrongly. No hook is asked about such."""
    open: int = 0  # just being made
    unseen: int = 0
    shown: list[Unseen] = []  # the first of these
    reasons: Counter[str] = msgspec.field(default_factory=Counter)
    unread: int = 0  # lines that could not be read
    bytes: int = 0
    first: str = ""  # the oldest record of this agent in the log; empty: there is none

    @property
    def well(self) -> bool:
        return not (self.unseen or self.unjudged or self.afterwards)


def compared(
    host: Agent, project: str, root: Path, why: Callable[[Seen], Reasons], since: str = "", now: float | None = None
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
        self.seen = Seen(root, host.name)
        self.seen.read(project)
        self.result = Coverage(host=host)
        self._since, self._project = since, project
        self._known: set[tuple[str, str]] = set()
        self._sessions: set[str] = set()
        self._open: dict[tuple[str, str], tuple[Call, bool]] = {}
        """Calls that were not found in the log so far, and whether they ended."""

    def take(self, transcript: Transcript, now: float) -> None:
        """Go through one file. Of calls that were judged no more is kept than their ids."""
        lines = Lines(transcript.path)
        waiting: dict[str, Call] = {}
        for found in transcript.read(lines):
            if isinstance(found, Result):
                self._result(waiting, found)
            elif found.time >= self._since[: len(found.time)]:
                self._call(found, waiting)
        result = self.result
        result.transcripts += 1
        result.unread += lines.unread
        result.bytes += lines.bytes
        self._without_result(waiting, fresh=now - _written(transcript.path) < _STILL_OPEN)

    def _call(self, call: Call, waiting: dict[str, Call]) -> None:
        """A session that was forked repeats, under its own id, what was; such a call is one, and judged if any is."""
        key = (call.id, call.time)
        again = key in self._known
        if again and key not in self._open:
            return
        self._known.add(key)
        self._sessions.add(call.session)
        self._follow(call.cwd)
        self.result.calls += not again
        came = self.seen.taken(call)
        if came is not None:
            setattr(self.result, came, getattr(self.result, came) + 1)
            self._open.pop(key, None)
        elif call.elsewhere:
            self._open[key] = call, True  # its result has another form, and nothing depends on it
        elif not again:
            waiting[call.id] = call

    def _follow(self, folder: str) -> None:
        """A session that went to another project asked there, too."""
        if folder and (project := project_of(folder)) != self._project and self.seen.logs < _MOST_LOGS:
            self.seen.read(project)

    def _result(self, waiting: dict[str, Call], result: Result) -> None:
        call = waiting.pop(result.id, None)
        if call is not None and result.came == "refused":
            self.result.not_run += 1
        elif call is not None:
            self._open[call.id, call.time] = call, result.came == "ran"

    def _without_result(self, waiting: dict[str, Call], *, fresh: bool) -> None:
        if fresh:
            self.result.open += len(waiting)
        else:
            self._open |= {(call.id, call.time): (call, False) for call in waiting.values()}

    def finish(self, why: Callable[[Seen], Reasons]) -> Coverage:
        result, reasons = self.result, why(self.seen)
        for call, ended in self._open.values():
            text = reasons.why(call, ended=ended)
            result.unseen += 1
            result.reasons[text] += 1
            if len(result.shown) < MOST_SHOWN:
                result.shown.append(Unseen(call, text))
        result.sessions, result.first = len(self._sessions), self.seen.first
        return result


def _written(path: str) -> float:
    try:
        return os.stat(path).st_mtime
    except OSError:
        return 0.0


def shortly(call: Call) -> str:
    """What a call was about, in one line and without secrets."""
    from billhook.store.redaction import Redactor

    said = call.input
    value = next((said[key] for key in _TELLING if said.get(key)), None)
    if value is None:
        value = ", ".join(f"{key}={said[key]!r:.60}" for key in list(said)[:4])
    words = (
        [str(word) for word in value] if isinstance(value, Sequence) and not isinstance(value, str) else [str(value)]
    )
    return Redactor().text(" ".join(words))[:_LONGEST]


_TELLING: Final = ("command", "cmd", "file_path", "path", "notebook_path", "url", "query", "pattern", "input")
_LONGEST: Final = 300

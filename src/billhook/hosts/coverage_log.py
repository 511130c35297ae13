"""What the event log knows of tool calls: which were judged, and which sessions ever asked."""

from datetime import datetime
from pathlib import Path
from typing import Final, Literal, NamedTuple

from billhook.agents.transcripts import Call
from billhook.store.places import log_folder
from billhook.store.reading import LogReader
from billhook.store.record import Record, Wanted

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


class Seen:
    """The logs of some projects, read once: ids and no more, so that memory grows with the calls alone."""

    def __init__(self, root: Path, host: str) -> None:
        self._root = root
        self._as = {host, f"http:{host}", *_ALSO.get(host, ())}
        """What the agent is called in the log; it may ask over HTTP as well."""
        self._projects: set[str] = set()
        self._came: dict[str, list[_Came]] = {}
        """What came of a call, by its id. Models that run at home give the same ids again and again."""
        self.sessions: set[str] = set()
        self.asking: set[str] = set()  # sessions that brought a PreToolUse
        self.agents: set[str] = set()  # subagents that brought a PreToolUse
        self.first = ""  # the oldest record of this agent
        self.oldest = ""  # the oldest record at all
        self.ends: dict[str, tuple[str, str]] = {}  # of each session, its first and last record

    @property
    def logs(self) -> int:
        """How many were read."""
        return len(self._projects)

    def read(self, project: str) -> None:
        """Take in the log of one more project. Raises StoreError."""
        if project in self._projects:
            return
        self._projects.add(project)
        for entry in LogReader(log_folder(self._root, project), self._root).forward(Wanted(project=project)):
            self._add(entry.record)

    def _add(self, record: Record) -> None:
        self.oldest = min(self.oldest or record.time, record.time)
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
            self._keep(record.tool_use_id, record)

    def _keep(self, id_: str, record: Record) -> None:
        came = self._came.setdefault(id_, [])
        if record.event in _BEFORE:
            came.append(_Came("judged" if record.judged else "unjudged", record.session_id, moment(record.time)))
        elif not any(one.session == record.session_id for one in came):
            came.append(_Came("afterwards", record.session_id, moment(record.time)))

    def taken(self, call: Call) -> Kind | None:
        """What came of a call; None: it never came. Each record answers for one call."""
        came, when = self._came.get(call.id, []), moment(call.time)
        for one in came:
            if one.session == call.session and one.when >= when - _CLOCKS:
                came.remove(one)
                return one.kind
        return None


def moment(text: str) -> float:
    """A time in seconds; 0 where it is none."""
    try:
        return datetime.fromisoformat(text).timestamp()
    except (ValueError, OverflowError, OSError):
        return 0.0

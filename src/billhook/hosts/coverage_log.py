"""What the event log knows of tool calls: which were judged, and which sessions ever asked."""

from pathlib import Path
from typing import Final

from billhook.store.places import log_folder
from billhook.store.reading import LogReader
from billhook.store.record import Record, Wanted

_BEFORE: Final = frozenset({"PreToolUse"})
_AROUND: Final = frozenset({"PreToolUse", "PostToolUse", "PostToolUseFailure", "PermissionRequest", "PermissionDenied"})


class Seen:
    """The logs of some projects, read once: ids and no more, so that memory grows with the calls alone."""

    def __init__(self, root: Path, host: str) -> None:
        self._root, self._host = root, host
        self._projects: set[str] = set()
        self.judged: set[str] = set()
        """Calls that hooks were asked about before they ran."""
        self.unjudged: set[str] = set()
        """Calls that came to us, and no hook could be asked: a configuration or a payload that could not be read."""
        self.afterwards: set[str] = set()
        """Calls that came to us only when they had run."""
        self.sessions: set[str] = set()
        self.asking: set[str] = set()
        """Sessions that brought a PreToolUse."""
        self.agents: set[str] = set()
        """Subagents that brought a PreToolUse."""
        self.first = ""
        """The oldest record of this agent."""
        self.oldest = ""
        """The oldest record at all."""
        self.ends: dict[str, tuple[str, str]] = {}
        """Of each session, its first and last record."""

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
        if record.host != self._host:
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
            kind = self.afterwards if record.event not in _BEFORE else self.judged if record.judged else self.unjudged
            kind.add(record.tool_use_id)

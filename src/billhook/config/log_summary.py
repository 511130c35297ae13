"""Numbers about a project's events, from the end of its log: `python -m billhook.config.log_summary PROJECT`."""

import sys
from collections import Counter
from typing import Any, Final

import msgspec

from billhook.builtins.metrics import Durations, Tally
from billhook.config.history import LARGEST, LogTailScan
from billhook.config.trust import TRUST
from billhook.store.files import log_folder, state_root
from billhook.store.log import Record
from billhook.store.log.reader import LogReader

_DAYS: Final = 30
_COMMANDS: Final = 10
_TOOL_EVENTS: Final = frozenset({"PreToolUse", "PostToolUse", "PostToolUseFailure"})
_LONGEST: Final = 300  # characters of a call
_TELLING: Final = ("command", "file_path", "path", "url", "pattern", "query", "prompt", "description", "message")
"""Fields of an input that describe it best, the first that it has."""


class LogSummary:
    """Counts over records, added newest first."""

    def __init__(self) -> None:
        self.days: dict[str, Counter[str]] = {}
        self.denied: Counter[tuple[str, str]] = Counter()
        self.tally = Tally()
        self.tools: dict[str, Durations] = {}

    def add(self, record: Record) -> None:
        self.days.setdefault(record.time[:10], Counter())[record.decision] += 1
        if record.decision == "deny" and record.tool:
            self.denied[record.tool, call_text(record)] += 1
        if record.event in _TOOL_EVENTS and record.tool:
            self.tools.setdefault(record.tool, Durations()).add(record.duration_ms)
        for outcome in record.outcomes:
            self.tally.add(outcome)

    def as_data(self) -> dict[str, Any]:
        tools = [
            {"tool": name, "calls": one.count, "p50": one.percentile(0.5), "p95": one.percentile(0.95)}
            for name, one in self.tools.items()
        ]
        denied = self.denied.most_common(_COMMANDS)
        return {
            "days": [{"day": day, **self.days[day]} for day in sorted(self.days)[-_DAYS:]],
            "denied": [{"tool": tool, "text": text, "count": n} for (tool, text), n in denied],
            "tools": sorted(tools, key=lambda one: -float(str(one["calls"])))[:_COMMANDS],
            "hooks": self.tally.stats(),
        }


def summarized(project: str) -> dict[str, Any]:
    """The numbers for a project. Raises StoreError."""
    found = LogSummary()
    root = state_root()
    look = LogTailScan(LogReader(log_folder(root, project), root), project, LARGEST)
    for record in look:
        if record.event != TRUST:
            found.add(record)
    return {**found.as_data(), "events": look.events, "complete": look.complete}


def call_text(record: Record) -> str:
    """The input in one line."""
    given = record.input
    if isinstance(given, dict):
        texts = [given[name] for name in _TELLING if isinstance(given.get(name), str)]
        texts += [value for value in given.values() if isinstance(value, str)]
        given = next(iter(texts), "")
    return " ".join(given[: 4 * _LONGEST].split())[:_LONGEST] if isinstance(given, str) else ""


if __name__ == "__main__":
    sys.stdout.buffer.write(msgspec.json.encode(summarized(sys.argv[1])) + b"\n")

"""Numbers about a project's events, computed from the end of its log: `python -m billhook.serve.ui.summary PROJECT`."""

import sys
from collections import Counter
from typing import Any, Final

import msgspec

from billhook.builtins.metrics import Durations, Tally
from billhook.config.history import LARGEST, LogTailScan
from billhook.config.trust import TRUST
from billhook.serve.ui.records import log_of, summary
from billhook.store.files import state_root
from billhook.store.log import Record

_DAYS: Final = 30
_COMMANDS: Final = 10
_TOOL_EVENTS: Final = frozenset({"PreToolUse", "PostToolUse", "PostToolUseFailure"})


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
            self.denied[record.tool, summary(record)] += 1
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
    """The numbers for a project. Raises UsageError and StoreError."""
    found = LogSummary()
    look = LogTailScan(log_of(state_root(), project), project, LARGEST)
    for record in look:
        if record.event != TRUST:
            found.add(record)
    return {**found.as_data(), "events": look.events, "complete": look.complete}


if __name__ == "__main__":
    sys.stdout.buffer.write(msgspec.json.encode(summarized(sys.argv[1])) + b"\n")

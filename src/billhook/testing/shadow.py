"""What hooks in shadow mode would have decided, from the event log."""

from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Final

import msgspec

from billhook.config.config import Config, HookRow, rows
from billhook.config.history import LogTailScan, log_of
from billhook.core import tools
from billhook.store.log import OutcomeRecord, Record

BY: Final = "shadow"
_MOST_EXAMPLES: Final = 3


class Example(msgspec.Struct, frozen=True):
    """One event for which a hook would have decided."""

    id: str
    time: str
    call: str  # the command, path or event, as it was logged
    would: str
    reason: str = ""


class ShadowReport(msgspec.Struct):
    """One hook in shadow mode."""

    name: str
    what: str
    file: str = ""
    runs: int = 0
    would: Counter[str] = msgspec.field(default_factory=Counter)  # by answer: `deny`, `ask`, `context`
    since: str = ""  # its first run in that time
    examples: list[Example] = []  # the newest first, each call once

    @property
    def decisions(self) -> int:
        return sum(self.would.values())

    @property
    def per_day(self) -> float:
        """Would-have-been decisions per day since its first run; a part of a day counts as a day."""
        if not self.since:
            return 0.0
        days = (datetime.now(UTC) - datetime.fromisoformat(self.since)).total_seconds() / 86400
        return round(self.decisions / max(1.0, days), 2)


def shadow_rows(config: Config) -> list[HookRow]:
    """The hooks that are in shadow mode now, cells of the guard included."""
    return [row for row in rows(config) if row.shadow]


def shadow_report(config: Config, since: str, found: Sequence[HookRow]) -> tuple[list[ShadowReport], bool]:
    """What these hooks would have decided since a time, and whether the log was read back to it. Raises StoreError."""
    reports = {row.name: ShadowReport(row.name, row.what, row.file) for row in found}
    log = log_of(config)
    look = LogTailScan(log, config.project, since=since)
    for record in look:
        for outcome in record.outcomes:
            if log is not None and outcome.hook in reports and outcome.waived is not None and outcome.waived.by == BY:
                _count(reports[outcome.hook], record if record.side is None else log.whole(record), outcome)
    return list(reports.values()), look.complete


def _count(report: ShadowReport, record: Record, outcome: OutcomeRecord) -> None:
    waived = outcome.waived
    assert waived is not None
    report.runs, report.since = report.runs + 1, record.time
    if waived.would == "none":
        return
    report.would[waived.would] += 1
    call = call_of(record)
    if len(report.examples) < _MOST_EXAMPLES and call not in [one.call for one in report.examples]:
        report.examples.append(Example(record.id, record.time, call, waived.would, waived.reason))


def call_of(record: Record) -> str:
    """What a record is about: `Bash: git push`, `Write: src/a.py`, `UserPromptSubmit`."""
    about = tools.subject_of(record.tool or "", record.input)
    return f"{record.tool or record.event}{f': {about}' if about else ''}"

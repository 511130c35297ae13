"""The guard for screens: its preset, the cells that were changed, and its recent decisions."""

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Final

import msgspec

from billhook.builtins.guard import NAME, Guard, GuardSettings
from billhook.config import sources
from billhook.config.config import Config
from billhook.config.history import LARGEST, LogTailScan, log_of
from billhook.core.text import counted

DAYS: Final = 7
_BUILT_IN: Final = "built-in"


class GuardReport(msgspec.Struct, frozen=True):
    """The settings of the guard, and its decisions in the last days."""

    preset: str
    cells: Mapping[str, str]  # the cells that the user set or a project tightened
    asks: int = 0
    denies: int = 0
    complete: bool = True  # all of these days were read; if False, the numbers are lower limits

    @property
    def on(self) -> bool:
        return self.preset != "off"

    @property
    def setting(self) -> str:
        """`standard, discard: allow`; `off` still guards billhook's own files."""
        own = "" if self.on else ", except for billhook's own files"
        return ", ".join([self.preset + own, *(f"{cell}: {decision}" for cell, decision in self.cells.items())])

    @property
    def lately(self) -> str:
        """`3 asks and 1 deny in the last 7 days`."""
        least = "" if self.complete else "at least "
        denies = f"{self.denies} {'deny' if self.denies == 1 else 'denies'}"
        return f"{least}{counted(self.asks, 'ask')} and {denies} in the last {DAYS} days"


def guard_settings(config: Config) -> GuardSettings | None:
    """The guard's settings in a configuration; None without built-ins."""
    guards = (hook.run for hook in config.hooks if isinstance(hook.run, Guard))
    return next((one.settings for one in guards), None)


def guard_report(config: Config) -> GuardReport | None:
    """The report, from the configuration and the end of the event log; None without built-ins. Raises StoreError."""
    settings = guard_settings(config)
    if settings is None:
        return None
    cells = {**settings.cells, **settings.tightened}
    cells |= {cell: f"shadow {decision}" for cell, decision in settings.shadow.items()}
    return GuardReport(settings.preset, cells, *_lately(config))


def _lately(config: Config) -> tuple[int, int, bool]:
    since = (datetime.now(UTC) - timedelta(days=DAYS)).strftime("%Y-%m-%dT%H:%M:%S")
    asks = denies = 0
    look = LogTailScan(log_of(config), config.project, LARGEST // 8, since)
    for record in look:
        decisions = [one.decision for one in record.outcomes if _is_guard(one.hook, one.source)]
        asks, denies = asks + ("ask" in decisions), denies + ("deny" in decisions)
    return asks, denies, look.complete


def _is_guard(hook: str, source: str | None) -> bool:
    """Whether an outcome is from the guard; a hook of the user may have the same name."""
    return source == _BUILT_IN and hook in (NAME, f"{_BUILT_IN}/{NAME}")


def findings(config: Config) -> Iterator[tuple[str, str, str]]:
    """The state of the guard for `billhook doctor`: level, text and remedy. Raises StoreError."""
    report = guard_report(config)
    if report is None:
        return
    text = f"{report.setting}; {report.lately}"
    remedy = f"remove `guard: off` from {sources.own_file()}, or write `guard: standard`"
    yield ("ok", f"on: {text}", "") if report.on else ("note", text, remedy)

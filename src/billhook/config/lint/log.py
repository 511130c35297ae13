"""What the event log says against hooks that nothing is wrong with on paper: BH601 and BH602. These are notes: they
depend on what happened on this machine, and so don't fail a check."""

from collections.abc import Iterator

from billhook.builtins.metrics import HookStats
from billhook.config.declared import Declared
from billhook.config.findings import Finding
from billhook.config.history import Facts, Quiet, Slow
from billhook.config.lint.found import edit, finding


def lint_log(facts: Facts, warn_ms: float | None) -> Iterator[Finding]:
    """A note for each hook that never fired, and for each that is slow."""
    for quiet in facts.quiet:
        assert quiet.row.declared is not None
        yield _never_fired(quiet, quiet.row.declared)
    for slow in facts.slow:
        assert slow.row.declared is not None
        yield _slow(slow, slow.row.declared, warn_ms or 0.0)


def _never_fired(quiet: Quiet, hook: Declared) -> Finding:
    occurred = ", ".join(f"`{event}` occurred {_times(count)}" for event, count in quiet.events.items())
    field = "match" if hook.match and ("did not match" in quiet.reasons or not hook.when) else "when"
    value = hook.match if field == "match" else hook.when
    what = f"`{edit(hook, field, value)}`" if value else "its condition"
    message = f"it has never fired: {occurred}, and {what} did not fit"
    last = " the last time" if sum(quiet.events.values()) > 1 else ""
    hint = f"`billhook explain {quiet.last}` shows why it was not asked{last}; a guard for rare cases may be right"
    return finding(hook, "BH601", field, message, hint)


def _times(count: int) -> str:
    return "once" if count == 1 else "twice" if count == 2 else f"{count:,} times"


def _slow(slow: Slow, hook: Declared, warn_ms: float) -> Finding:
    message = f"it is slow: {_spoken(slow.stats)}, and the latency budget is {warn_ms:,.0f} ms"
    later = "" if hook.gate else ", run it in the background"
    hint = f"make it quicker{later}, or raise `warn_ms` of the built-in `metrics`"
    return finding(hook, "BH602", "action", message, hint)


def _spoken(stats: HookStats) -> str:
    took = f"{stats.p95 or 0.0:,.0f} ms"
    if stats.runs >= _TWENTY:
        return f"one run in twenty takes {took} or more"
    return f"the slowest of {stats.runs} runs took {took}" if stats.runs > 1 else f"its one run took {took}"


_TWENTY = 20
"""With fewer runs the 95th percentile is the longest."""

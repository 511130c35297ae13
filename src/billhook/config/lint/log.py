"""What the event log says against hooks that nothing is wrong with on paper: BH601 and BH602. These are notes: they
depend on what happened on this machine, and so don't fail a check."""

from collections.abc import Iterator

from billhook.answers import SkipReason
from billhook.config.declared import Declared
from billhook.config.findings import Finding
from billhook.config.history import NOT_WANTED, Facts, Quiet, Slow
from billhook.config.lint.found import edit, finding


def lint_log(facts: Facts, warn_ms: float | None) -> Iterator[Finding]:
    """A note for each hook that never fired, and for each that is slow."""
    yield from (_never_fired(one, one.row.declared) for one in facts.quiet if one.row.declared is not None)
    yield from (_slow(one, one.row.declared, warn_ms or 0.0) for one in facts.slow if one.row.declared is not None)


def _never_fired(quiet: Quiet, hook: Declared) -> Finding:
    occurred = ", ".join(f"`{event}` occurred {_times(count)}" for event, count in quiet.events.items())
    unfit = sum(count for why, count in quiet.reasons.items() if why in NOT_WANTED)
    behind = sum(quiet.reasons.values()) - unfit
    field, what = _condition(quiet, hook) if unfit else ("priority", "")
    if not behind:
        why = f", and {what} did not fit"
    elif not unfit:
        why = f", and {'each time ' * (behind > 1)}{_ended_by(quiet)} before it was its turn"
    else:
        why = f"; {what} did not fit {_times(unfit)}, and {_times(behind)} {_ended_by(quiet)} before it was its turn"
    last = " the last time" if sum(quiet.events.values()) > 1 else ""
    right = "a guard for rare cases may be right" if unfit else "to see what others deny, it needs a smaller `priority`"
    hint = f"`billhook explain {quiet.last}` shows why it was not asked{last}; {right}"
    return finding(hook, "BH601", field, f"it has never fired: {occurred}{why}", hint)


def _condition(quiet: Quiet, hook: Declared) -> tuple[str, str]:
    field = "match" if hook.match and SkipReason.CONDITION_FALSE not in quiet.reasons else "when"
    value = hook.match if field == "match" else hook.when
    return field, f"`{edit(hook, field, value)}`" if value else "its condition"


def _ended_by(quiet: Quiet) -> str:
    ended = [why for why in quiet.reasons if why not in NOT_WANTED]
    return " or ".join([*ended[:3], *(["others"] if len(ended) > 3 else [])])


def _times(count: int) -> str:
    return "once" if count == 1 else "twice" if count == 2 else f"{count:,} times"


def _slow(slow: Slow, hook: Declared, warn_ms: float) -> Finding:
    runs, took = slow.stats.runs, f"{slow.stats.p95 or 0.0:,.0f} ms"
    spoken = f"the slowest of {runs} runs took {took}" if runs > 1 else f"its one run took {took}"
    if runs >= 20:  # with fewer runs the 95th percentile is the longest
        spoken = f"one run in twenty takes {took} or more"
    message = f"it is slow: {spoken}, and the latency budget is {warn_ms:,.0f} ms"
    later = "" if hook.gate else ", run it in the background"
    hint = f"make it quicker{later}, or raise `warn_ms` of the built-in `metrics`"
    return finding(hook, "BH602", "action", message, hint)

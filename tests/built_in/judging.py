"""What the guard, and its row `disarm` alone, decide about a call."""

from collections.abc import Mapping

from billhook import Engine
from billhook.builtins.disarm import disarm_effect
from billhook.builtins.guard import GuardSettings, decision_of, guard
from billhook.core import tools
from billhook.core.events import PreToolUse
from billhook.effects.analysis import analysis_of
from billhook.effects.effect import ProtectedPaths


def disarms(event: PreToolUse, protected: ProtectedPaths) -> tuple[str, str]:
    """The decision of the row `disarm` and its reason; an input that contradicts itself is denied before that."""
    given = event.tool_input
    if isinstance(given, Mapping) and (why := tools.contradiction(tools.canonical(event.tool_name), given, event.cwd)):
        return "deny", why
    found = disarm_effect(analysis_of(event), protected)
    return (decision_of(found, GuardSettings()), found.why) if found else ("none", "")


def guards(event: PreToolUse, protected: ProtectedPaths) -> tuple[str, str]:
    """The decision of the whole guard, as an engine gets it, and its reason."""
    verdict = Engine([guard(protected)]).fire_sync(event)
    assert not verdict.outcomes or verdict.outcomes[0].status == "ok", verdict.outcomes
    return str(verdict.decision), verdict.reason

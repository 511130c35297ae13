"""The built-ins that an engine gets, as the files have them."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

from billhook.builtins import trackers as turn_tracker
from billhook.config.builtin_options import filled
from billhook.config.recorder import Knowing
from billhook.config.shapes import Builtin
from billhook.core.answers import Reply, Status
from billhook.core.hook import Context, Hook, Source
from billhook.store.state import FileState

EVENTS: Final[Mapping[str, tuple[str, ...]]] = {
    "metrics": (),
    "turn-tracker": turn_tracker.EVENTS,
    "session-naming": ("SessionStart",),
    "rate-limit": ("PreToolUse",),
}
"""The built-ins that can be switched off, and the events that they are for; none: every event."""


class Builtins:
    """The built-ins of one configuration; self-protection stands apart, because it looks at the whole of it."""

    def __init__(self, root: Path, project: str, settings: Mapping[str, Builtin]) -> None:
        self.settings = settings
        self.state = FileState(root)
        self.project = project
        self.knowing = Knowing(self.state, project, self._on("session-naming"), self._on("turn-tracker"))

    def _on(self, name: str) -> bool:
        if name == "rate-limit":
            asked_for = self.settings[name].options.get("limits") or self.settings[name].broken
            return bool(asked_for) and self.settings[name].enabled is not False
        return self.settings[name].enabled is not False

    def _options(self, name: str) -> dict[str, Any]:
        return filled(name, self.settings[name].options)

    @property
    def names(self) -> frozenset[str]:
        """The names of all that an engine will have."""
        return frozenset({"self-protection", *(name for name in self.settings if self._on(name))})

    @property
    def trackers(self) -> tuple[str, ...]:
        """Those that others rely on."""
        return tuple(name for name in ("turn-tracker", "session-naming", "event-logger") if self._on(name))

    def hooks(self) -> list[Hook]:
        """Ordinary hooks, in the order of their priorities."""
        names = ("metrics", "turn-tracker", "session-naming", "rate-limit", "event-logger")
        return [self._made(name, self._options(name)) for name in names if self._on(name)]

    def _made(self, name: str, options: dict[str, Any]) -> Hook:
        """Each is imported only when it is needed."""
        if name == "metrics":
            from billhook.builtins.metrics import metrics

            return metrics(**options)
        if name == "turn-tracker":
            return turn_tracker.turn_tracker(self.state, **options)
        if name == "session-naming":
            from billhook.builtins.trackers import session_naming
            from billhook.store.sessions import Sessions

            return session_naming(Sessions(self.state), self.project)
        if name == "event-logger":
            from billhook.builtins.trackers import event_logger

            return event_logger()
        from billhook.builtins.rate_limit import Limit, rate_limit

        broken = self.settings[name].broken
        if broken:
            return _unusable(name, f"its options can't be used: {broken}", 15)
        return rate_limit(self.state, [Limit(**limit) for limit in options["limits"]], self.project)


def speaking_last(hooks: Sequence[Hook]) -> list[Hook]:
    """The same hooks for an engine that runs them at once: self-protection waits for all that come before it in turn.
    For what comes after it, by priority or by `after`, it can't wait."""
    from billhook.engine.plan import Plan

    in_turn = [hook.name for hook in Plan(hooks).hooks]
    at = in_turn.index("self-protection")
    earlier = tuple(dict.fromkeys(name for name in in_turn[:at] if name not in in_turn[at:]))
    return [msgspec.structs.replace(hook, after=earlier) if hook.name == "self-protection" else hook for hook in hooks]


def _unusable(name: str, why: str, priority: int) -> Hook:
    """What stands in for a guard that nobody can ask: a slip in its options must not open it."""

    def refuse(ctx: Context) -> Reply:
        return Reply(status=Status.COULD_NOT_START, error=why)

    return Hook(
        name=name,
        title="stands in for limits that can't be used",
        run=refuse,
        events=("PreToolUse",),
        priority=priority,
        on_failure="deny",
        source=Source(layer="built-in"),
    )

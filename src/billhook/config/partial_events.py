"""Hooks for a part of an event: an agent's own, narrower events, such as Cursor's `beforeShellExecution`."""

from typing import Any, Final

import msgspec

from billhook.core.events import Event
from billhook.core.hook import Context
from billhook.core.match import expression, printable
from billhook.effects.rules import When

_SUBJECTS: Final = {"Read": "Read", "Edit|MultiEdit|Write": "Write"}
"""What a matcher of the agent is compared with, by tools; `Tab...` where it is not the model that reads or edits."""


def tools_of(part: str) -> str:
    """The matcher for the tools that a part is about."""
    from billhook.agents.names import tools_of

    return tools_of().get(part, "")


class Part(msgspec.Struct, frozen=True):
    """The condition of such a hook. Equal when the parts are."""

    name: str
    pattern: str = ""
    rule: When | None = None

    def __call__(self, ctx: Context) -> bool:
        if not self._is_about(ctx.event):
            return False
        if self.pattern not in ("", "*", ".*") and not self._matches(ctx.event):
            return False
        return self.rule is None or self.rule(ctx)

    def _is_about(self, event: Event) -> bool:
        sent = event.payload.get("original_event_name")
        # An agent that has the part also sends it; completions in the editor are in no other event.
        alone = isinstance(sent, str) and bool(tools_of(sent))
        return sent == self.name or not (alone or "conversation_id" in event.payload or "Tab" in self.name)

    def _subject(self, event: Event) -> str:
        given: Any = getattr(event, "tool_input", None)
        if tools_of(self.name) == "Bash":
            return str(given.get("command", "")) if isinstance(given, dict) else ""
        called = event.payload.get("original_tool_name") or getattr(event, "tool_name", "")
        kind = _SUBJECTS.get(tools_of(self.name), str(called))
        return f"Tab{kind}" if "Tab" in self.name else kind

    def _matches(self, event: Event) -> bool:
        try:
            return bool(expression(self.pattern).search(printable(self._subject(event))))
        except Exception:  # what can't be read matches everything, as in `match`
            return True

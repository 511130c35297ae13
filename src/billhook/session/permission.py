"""Who may let a call run beside the hooks: rules, and the person who can be asked."""

from collections.abc import Awaitable, Callable
from typing import Any, Final, Protocol

import msgspec

from billhook.answers import Decision

MODES: Final = ("default", "acceptEdits", "plan", "dontAsk", "bypassPermissions", "auto")


class Ruling(msgspec.Struct, frozen=True):
    """What the permissions say of a call: ALLOW, ASK or DENY."""

    decision: Decision
    reason: str = ""
    by: str = ""  # what decided: a rule, a mode
    firm: bool = False  # it asks, and only the person may say yes: no hook answers in their place
    rememberable: bool = True  # a yes may count for the rest of the session


class Permissions(Protocol):
    """The rules beside the hooks."""

    def judge(self, tool_name: str, tool_input: dict[str, Any], *, cwd: str, mode: str, hook: Decision) -> Ruling:
        """Judge a call, its input as hooks have left it; `hook` is what they said: NONE, ALLOW or ASK."""
        ...

    def remember(self, tool_name: str, tool_input: dict[str, Any], *, cwd: str) -> None:
        """The person said yes for the rest of the session."""
        ...


class Question(msgspec.Struct, frozen=True):
    """What the person is asked."""

    tool_name: str
    tool_input: dict[str, Any]
    reason: str = ""
    by: str = ""
    rememberable: bool = True


Reply = bool | str
Ask = Callable[[Question], Reply | Awaitable[Reply]]
"""Gets the person's answer: True or "once", "session" (and don't ask again), False or "no"."""


class HookPermissions:
    """The rules of a loop that has none of its own: what hooks say is all there is, and silence lets a call run."""

    def judge(self, tool_name: str, tool_input: dict[str, Any], *, cwd: str, mode: str, hook: Decision) -> Ruling:
        if hook is Decision.ASK:
            return Ruling(Decision.ASK, firm=True, rememberable=False)
        return Ruling(Decision.ALLOW)

    def remember(self, tool_name: str, tool_input: dict[str, Any], *, cwd: str) -> None:
        pass

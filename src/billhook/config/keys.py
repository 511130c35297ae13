"""The keys that each shape knows, in every spelling, and what they are called here."""

from typing import Final

from billhook.answers import OnFailure
from billhook.config.findings import folded

SPELLINGS: Final[dict[str, tuple[str, ...]]] = {
    # our field: its spellings; case, `_` and `-` make no difference
    "events": ("events", "event"),
    "match": ("match", "matcher"),
    "when": ("if",),
    "run": ("run", "command"),
    "exec": ("exec",),
    "python": ("python",),
    "url": ("url",),
    "deny": ("deny",),
    "ask": ("ask",),
    "allow": ("allow",),
    "inject": ("inject",),
    "priority": ("priority",),
    "after": ("after", "dependsOn"),
    "timeout": ("timeout",),
    "gate": ("gate",),
    "on_failure": ("on_failure",),
    "background": ("background", "async"),
    "rewake": ("asyncRewake",),
    "dialect": ("dialect",),
    "enabled": ("enabled",),
    "title": ("title", "description", "statusMessage"),
    "headers": ("headers",),
    "allowed_env": ("allowedEnvVars",),
    "interpreter": ("interpreter",),
    "login": ("login",),
    "shell": ("shell",),
    "args": ("args",),
    "once": ("once",),
    "type": ("type",),
    "name": ("name", "id"),
}
_FIELDS: Final = {folded(spelling): field for field, all_ in SPELLINGS.items() for spelling in all_}

ACTIONS: Final = ("run", "exec", "python", "url", "deny", "ask", "allow", "inject")
NATIVE: Final = frozenset(SPELLINGS)
HANDLER: Final = NATIVE - {"events", "match", "interpreter", "deny", "ask", "allow", "inject", "python", "exec"}
"""One handler of a nested group."""
ENTRY: Final = HANDLER | {"match"}
"""One entry of a flat list."""
OF_OTHERS: Final = frozenset({"server", "tool", "input", "prompt", "model", "continueOnBlock"})
"""Keys of handlers that are not run yet."""

TYPES: Final = ("command", "http", "mcp_tool", "prompt", "agent")
"""The kinds of handlers in a nested group."""
FAILURE_RULES: Final[dict[str, OnFailure]] = {
    "allow": "allow",
    "continue": "allow",
    "ask": "ask",
    "deny": "deny",
    "block": "deny",
}
BUILTINS: Final = ("self-protection", "turn-tracker", "session-naming", "event-logger", "metrics", "rate-limit")
"""Names that no file can give away."""


def field_of(key: str) -> str:
    """What a key is called here; nothing when we don't know it."""
    return _FIELDS.get(folded(key), "")


def spelling(field: str, *, json: bool) -> str:
    """How a field is written in a file of that kind, for hints."""
    if json and field in ("match", "run"):
        return SPELLINGS[field][1]
    first = SPELLINGS[field][0]
    if not json:
        return first
    head, *rest = first.split("_")
    return head + "".join(word.capitalize() for word in rest)

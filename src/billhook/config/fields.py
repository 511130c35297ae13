"""The keys that each shape knows, in every spelling, and what they are called here."""

from typing import Final

from billhook.core.answers import OnFailure
from billhook.core.text import folded

_ORDER: Final = """
    events match when run exec python url deny ask allow inject priority after timeout gate on_failure background
    rewake always dialect enabled title headers allowed_env interpreter login shell args once type name
"""
_OTHER_SPELLINGS: Final[dict[str, tuple[str, ...]]] = {
    "events": ("events", "event"),
    "match": ("match", "matcher"),
    "when": ("if",),
    "run": ("run", "command"),
    "after": ("after", "dependsOn"),
    "background": ("background", "async"),
    "rewake": ("asyncRewake",),
    "title": ("title", "description", "statusMessage"),
    "allowed_env": ("allowedEnvVars",),
    "name": ("name", "id"),
}
SPELLINGS: Final = {field: _OTHER_SPELLINGS.get(field, (field,)) for field in _ORDER.split()}
"""Our fields, each with its keys in files; case, `_` and `-` make no difference."""
_FIELDS: Final = {folded(spelling): field for field, all_ in SPELLINGS.items() for spelling in all_}

ACTIONS: Final = ("run", "exec", "python", "url", "deny", "ask", "allow", "inject")
NATIVE: Final = frozenset(SPELLINGS)
HANDLER: Final = NATIVE - {"events", "match", "interpreter", "deny", "ask", "allow", "inject", "python", "exec"}
"""One handler of a nested group."""
ENTRY: Final = HANDLER | {"match"}  # one entry of a flat list
OF_OTHERS: Final = frozenset({"server", "tool", "input", "prompt", "model", "continueOnBlock"})
"""Keys of handlers that are not run yet."""
_NOT_BLOCKING: Final = 'no agent reads it: exit code 2 blocks, and `"onFailure": "block"` makes a failure block, too'
_STILL_RUNS: Final = "no agent reads it, and the hook runs: remove the entry to switch it off"
_IN_COMMAND: Final = "no agent reads it: put it into the command"
_MISTAKEN: Final = {
    "did you mean `command`?": "hook hookPath script cmd shellCommand",
    "did you mean `matcher`?": "tools toolName toolNames toolMatcher toolFilter",
    "did you mean `if`?": "pattern filePattern condition conditions when onlyIf only ifNot unless except exclude"
    " excludes include includes ignore where filter paths globs",
    "did you mean `timeout`? It is in seconds": "timeoutMs timeoutSec timeoutSeconds timeout_millis",
    _NOT_BLOCKING: "blocking block failClosed blockOnFailure continueOnError exitOnFailure",
    _STILL_RUNS: "enabled disabled disable active",
    _IN_COMMAND: "env environment cwd workingDirectory workdir",
}
MISTAKEN: Final = {folded(word): hint for hint, words in _MISTAKEN.items() for word in words.split()}
"""Keys that people rely on and no agent reads, with what to do. Any other unknown key in an agent's file is taken for a
remark: agents pass over it, too."""

CONDITIONS: Final = frozenset({"condition", "conditions", "when", "onlyif", "ifnot", "unless", "where"})
"""Other words for `if`: a hook that has one is meant for some calls only."""
NARROWING: Final = (
    CONDITIONS | {word for word, hint in MISTAKEN.items() if hint.endswith(("`if`?", "`matcher`?"))} | {"tool"}
)
"""Words that narrow a hook down elsewhere. In our own files one of them breaks its hook, which would always run."""
GATE_LIKE: Final = frozenset(map(folded, _MISTAKEN[_NOT_BLOCKING].split())) | {
    "denies",
    "denied",
    "forbid",
    "refuse",
    "reject",
}
"""Words of people who want a call to be stopped."""
DECISIVE: Final = frozenset({"when", "match", "gate", "on_failure"})
"""Fields without which a hook is not the one that its author wrote, in every file; and in our own files as well:"""
DECISIVE_IN_OURS: Final = DECISIVE | {*ACTIONS, "events", "dialect", "args", "interpreter", "shell"}

TYPES: Final = ("command", "http", "mcp_tool", "prompt", "agent")  # the kinds of handlers in a nested group
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

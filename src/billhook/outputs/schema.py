"""The fields of a JSON answer: what may stand at its top, what inside `hookSpecificOutput`, and who hears it."""

from collections.abc import Callable
from typing import Any

from billhook.answers import Decision
from billhook.events import EVENTS, Block, Event
from billhook.meanings import Meanings

STRING, BOOL, OBJECT, LIST, NUMBER = "a string", "true or false", "an object", "a list", "a number from 0 to 10^12"
CHECKS: dict[str, Callable[[Any], bool]] = {
    STRING: lambda v: isinstance(v, str),
    BOOL: lambda v: isinstance(v, bool),
    OBJECT: lambda v: isinstance(v, dict),
    LIST: lambda v: isinstance(v, list),
    NUMBER: lambda v: isinstance(v, int | float) and not isinstance(v, bool) and 0 <= v <= 10**12,
    "a list of strings": lambda v: isinstance(v, list) and all(isinstance(one, str) for one in v),
    "any value": lambda v: True,
}

UNIVERSAL = {
    "continue": BOOL,
    "stopReason": STRING,
    "suppressOutput": BOOL,
    "systemMessage": STRING,
    "terminalSequence": STRING,
    "decision": STRING,
    "reason": STRING,
    "hookSpecificOutput": OBJECT,
    "async": BOOL,
    "asyncTimeout": NUMBER,
}
"""What may stand at the top of an answer, for every event."""

_CONTEXT = {"additionalContext": STRING}
_PERMISSION = {"permissionDecision": STRING, "permissionDecisionReason": STRING}
_ELICITATION = {"action": STRING, "content": OBJECT}
_OUTPUT = {"updatedMCPToolOutput": "any value", "updatedToolOutput": "any value"}
_WATCH = {"watchPaths": "a list of strings"}

SPECIFIC: dict[str, dict[str, str]] = {
    "PreToolUse": {**_PERMISSION, "updatedInput": OBJECT, **_CONTEXT},
    "PostToolUse": {**_CONTEXT, **_OUTPUT, "classifierContext": STRING},
    "PermissionRequest": {"decision": OBJECT},
    "PermissionDenied": {"retry": BOOL},
    "UserPromptSubmit": {**_CONTEXT, "sessionTitle": STRING, "suppressOriginalPrompt": BOOL},
    "UserPromptExpansion": {**_CONTEXT, "suppressOriginalPrompt": BOOL},
    "MessageDisplay": {"displayContent": STRING},
    "SessionStart": {**_CONTEXT, "initialUserMessage": STRING, "sessionTitle": STRING, **_WATCH, "reloadSkills": BOOL},
    "PreModelSwitch": _PERMISSION,
    "Elicitation": _ELICITATION,
    "ElicitationResult": _ELICITATION,
    "CwdChanged": _WATCH,
    "FileChanged": _WATCH,
    "WorktreeCreate": {"worktreePath": STRING},
}
"""What may stand in `hookSpecificOutput`, by event; the other events take `additionalContext` or nothing."""

HEARD: dict[str, frozenset[str]] = {
    "SessionEnd": frozenset(),
    "PostCompact": frozenset(),
    "InstructionsLoaded": frozenset(),
    "WorktreeRemove": frozenset(),
    "StopFailure": frozenset({"terminalSequence"}),
    "PreCompact": frozenset({"decision", "reason"}),
    "ConfigChange": frozenset({"decision", "reason"}),
    "DirectoryAdded": frozenset({"systemMessage"}),
    "CwdChanged": frozenset({"systemMessage", "hookSpecificOutput"}),
    "FileChanged": frozenset({"systemMessage", "hookSpecificOutput"}),
    "TaskCreated": frozenset(UNIVERSAL) - {"continue", "stopReason"},
}
"""Events that hear only some of the top-level fields; what they don't hear is reported as lost."""

PERMISSION_WORDS = {"allow": Decision.ALLOW, "deny": Decision.DENY, "ask": Decision.ASK, "defer": Decision.DEFER}
ACTIONS = {"accept": Decision.ALLOW, "decline": Decision.DENY, "cancel": Decision.DENY}
PERMISSION_FIELDS = {
    "behavior": STRING,
    "updatedInput": OBJECT,
    "updatedPermissions": LIST,
    "message": STRING,
    "interrupt": BOOL,
}
"""What may stand in the `decision` of PermissionRequest."""
ALL_SPECIFIC = {field for fields in SPECIFIC.values() for field in fields} | {"additionalContext", "hookEventName"}

_OF_SEVERAL = {"hookEventName", "additionalContext", "updatedInput", "action", "decision", *_PERMISSION, *_OUTPUT}
EXTRAS = ALL_SPECIFIC - _OF_SEVERAL
"""What only one event knows: it travels in the `extras` of an answer."""


def block_on(event: Event, meanings: Meanings) -> Block:
    """What a block does to this event in this dialect."""
    if event.block is Block.MODEL and meanings.can_undo:
        return Block.DENY
    if event.block is Block.NOT_HONOURED and meanings.bare_block_denies:
        return Block.DENY
    return event.block


def specific_fields(event: Event) -> dict[str, str]:
    name = event.hook_event_name
    if name not in EVENTS:
        return {**_PERMISSION, **_CONTEXT, "updatedInput": OBJECT, **_OUTPUT}
    return SPECIFIC.get(name, _CONTEXT if event.takes_context else {})

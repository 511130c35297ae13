"""The fields of a JSON answer: what may stand at its top, what inside `hookSpecificOutput`, and who hears it."""

from collections.abc import Callable
from typing import Any

from billhook.answers import Decision
from billhook.events import EVENTS, Event

STRING, BOOL, OBJECT, NUMBER = "a string", "true or false", "an object", "a number"
CHECKS: dict[str, Callable[[Any], bool]] = {
    STRING: lambda v: isinstance(v, str),
    BOOL: lambda v: isinstance(v, bool),
    OBJECT: lambda v: isinstance(v, dict),
    NUMBER: lambda v: isinstance(v, int | float) and not isinstance(v, bool),
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
_WATCH = {"watchPaths": "a list of strings"}

SPECIFIC: dict[str, dict[str, str]] = {
    "PreToolUse": {**_PERMISSION, "updatedInput": OBJECT, **_CONTEXT},
    "PostToolUse": {
        **_CONTEXT,
        "updatedToolOutput": "any value",
        "updatedMCPToolOutput": "any value",
        "classifierContext": STRING,
    },
    "PermissionRequest": {"decision": OBJECT},
    "PermissionDenied": {"retry": BOOL},
    "UserPromptSubmit": {**_CONTEXT, "sessionTitle": STRING, "suppressOriginalPrompt": BOOL},
    "UserPromptExpansion": {**_CONTEXT, "suppressOriginalPrompt": BOOL},
    "MessageDisplay": {"displayContent": STRING},
    "SessionStart": {
        **_CONTEXT,
        "initialUserMessage": STRING,
        "sessionTitle": STRING,
        **_WATCH,
        "reloadSkills": BOOL,
    },
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
ALL_SPECIFIC = {field for fields in SPECIFIC.values() for field in fields} | {"additionalContext", "hookEventName"}


def specific_fields(event: Event) -> dict[str, str]:
    name = event.hook_event_name
    if name not in EVENTS:
        return {**_PERMISSION, **_CONTEXT, "updatedInput": OBJECT, "updatedToolOutput": "any value"}
    return SPECIFIC.get(name, _CONTEXT if event.takes_context else {})

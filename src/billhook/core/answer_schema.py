"""The fields of a JSON answer: at the top level, inside `hookSpecificOutput`, and the events that use them."""

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from msgspec.structs import replace

from billhook.core.answers import Answer, Decision, Reply
from billhook.core.dialect_traits import Meanings
from billhook.core.events import EVENTS, Block, Event
from billhook.core.lazy import lazy_module
from billhook.core.tools import folded

if TYPE_CHECKING:
    from billhook.core import answer_json
else:
    answer_json = lazy_module("billhook.core.answer_json")


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
"""The fields at the top level of an answer, for every event."""

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
"""The fields in `hookSpecificOutput`, by event; the other events take `additionalContext` or nothing."""

SUPPORTED_FIELDS: dict[str, frozenset[str]] = {
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
"""Events that use only some of the top-level fields; the other fields are reported as lost."""

PERMISSION_WORDS = {"allow": Decision.ALLOW, "deny": Decision.DENY, "ask": Decision.ASK, "defer": Decision.DEFER}
ACTIONS = {"accept": Decision.ALLOW, "decline": Decision.DENY, "cancel": Decision.DENY}
PERMISSION_FIELDS = {
    "behavior": STRING,
    "updatedInput": OBJECT,
    "updatedPermissions": LIST,
    "message": STRING,
    "interrupt": BOOL,
}
"""The fields in the `decision` of PermissionRequest."""
ALL_SPECIFIC = {field for fields in SPECIFIC.values() for field in fields} | {"additionalContext", "hookEventName"}

_OF_SEVERAL = {"hookEventName", "additionalContext", "updatedInput", "action", "decision", *_PERMISSION, *_OUTPUT}
EXTRAS = ALL_SPECIFIC - _OF_SEVERAL  # fields of one event only: they are in the `extras` of an answer


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


# Checking the fields of a JSON answer:


PIPELINE = {"success", "data", "error", "durationms", "block", "blockreason", "contexttoinject"}
"""The fields of seed 002's handler result, folded."""

_MAX_NOTES = 20  # unknown fields that get a detailed check; hostile output may have a hundred thousand
_MAX_NAME = 60


class MisreadError(Exception):
    """The answer breaks its schema; the message is exact."""


class KnownFields(NamedTuple):
    """The known fields of one object, and notes about the others."""

    known: dict[str, Any]
    lost: list[str]
    misses: list[str]  # near misses: a failure, unless the understood fields already deny


def checked(
    given: Mapping[str, Any], kinds: Mapping[str, str], path: str, event: Event, meanings: Meanings
) -> KnownFields:
    """Check the types of the known fields, and the names of the unknown ones."""
    fields = KnownFields({}, [], [])
    names = by_fold([*kinds, *(() if path else ALL_SPECIFIC)])
    for key, value in given.items():
        if not isinstance(key, str):
            raise MisreadError(f"the key {shown(key)} is not a string")
        if key == "hookEventName" and path:
            continue
        if key == "decision" and not path and isinstance(value, dict) and "decision" in specific_fields(event):
            raise MisreadError(_inside("decision", event))
        if key in kinds:
            check_kind(value, kinds[key], path, key)
            if value is not None:
                fields.known[key] = value
        elif miss := _misplaced(key, path, event, meanings):
            fields.misses.append(miss)
        elif near := nearest(key, names, closely=len(fields.lost) < _MAX_NOTES):
            fields.misses.append(f"`{path}{key[:_MAX_NAME]}` is unknown{near}")
        else:
            fields.lost.append(_ignored(key, path, event))
    for notes in (fields.lost, fields.misses):
        if len(notes) > _MAX_NOTES:
            notes[_MAX_NOTES:] = [f"and {len(notes) - _MAX_NOTES} more unknown fields"]
    return fields


def check_kind(value: object, kind: str, path: str, key: str) -> None:
    """Raises MisreadError for a value of the wrong kind; null counts as missing."""
    if value is not None and not CHECKS[kind](value):
        raise MisreadError(f"`{path}{key}` must be {kind}, not {shown(value)}")


def _misplaced(key: str, path: str, event: Event, meanings: Meanings) -> str:
    name = event.hook_event_name
    if not path and key in ALL_SPECIFIC and not meanings.flat_fields:
        known = key == "hookEventName" or key in specific_fields(event)
        return _inside(key, event) if known else f"`{key}` is not for {name}{_instead(event)}"
    if not path and folded(key) in ("block", "blockreason", "contexttoinject"):
        return f'`{key}` is a field of a handler\'s result; in an answer write "decision": "block"'
    if path and key in UNIVERSAL:
        return f"`{path}{key}` belongs at the top level, beside `hookSpecificOutput`"
    if path and key in _SETTLING and event.can_block:
        return f"`{path}{key}` is not for {name}{_instead(event)}"
    return ""


def _inside(key: str, event: Event) -> str:
    inside = f'"hookSpecificOutput": {{"hookEventName": "{event.hook_event_name}", "{key}": ...}}'
    return f"`{key}` belongs inside `hookSpecificOutput`: {inside}"


def _instead(event: Event) -> str:
    """How to decide on this event, if that is possible."""
    fields = specific_fields(event)
    if "permissionDecision" in fields:
        return '; write "permissionDecision" inside `hookSpecificOutput`'
    if "decision" in fields:
        return '; write "decision": {"behavior": "deny", "message": ...} inside `hookSpecificOutput`'
    if "action" in fields:
        return '; write "action" inside `hookSpecificOutput`'
    return '; write "decision": "block" at the top level' if event.can_block else ""


_SETTLING = {"permissionDecision", "action", "decision", "behavior"}


def _ignored(key: str, path: str, event: Event) -> str:
    if key in ALL_SPECIFIC:
        return f"`{path}{key}` has no effect on {event.hook_event_name}" if path else f"`{key}` is at the top level"
    return f"unknown field `{path}{key[:_MAX_NAME]}` was ignored"


def by_fold(names: Iterable[str]) -> dict[str, str]:
    return {folded(name): name for name in names}


def nearest(word: str, names: Mapping[str, str], *, closely: bool = True) -> str:
    """A hint with the nearest name, if there is one; empty for the name itself."""
    spelt = folded(word)
    found = names.get(spelt)
    if found is None and closely and len(word) <= _MAX_NAME:
        from difflib import get_close_matches

        near = get_close_matches(spelt, names, 1, 0.85)
        # Where a decision would be lost, allow more distance.
        near = near or get_close_matches(spelt, [name for name in names if names[name] in _DECIDING], 1, 0.75)
        found = names[near[0]] if near else None
    return f"; did you mean `{found}`?" if found not in (None, word) else ""


_DECIDING = {"decision", "permissionDecision", "hookSpecificOutput", "continue", "behavior"}


def wrong_decision(word: str) -> str:
    """The message about a top-level `decision` that is neither block nor approve."""
    folded_word = word.strip().lower()
    meant = {"deny": "block", "allow": "approve"}.get(folded_word, folded_word)
    if meant in ("block", "approve"):
        return f'"decision": {shown(word)} is not understood; write "decision": "{meant}"'
    if meant in PERMISSION_WORDS:
        return (
            f'"decision": {shown(word)} is not understood; write "hookSpecificOutput": '
            f'{{"hookEventName": ..., "permissionDecision": "{meant}"}}'
        )
    return f'"decision": {shown(word)} is not understood; use "block" or "approve"'


def decision_of(path: str, word: object, words: Mapping[str, Decision]) -> Decision:
    """The decision for a word. Raises MisreadError for a word that is not valid there."""
    if isinstance(word, str) and word in words:
        return words[word]
    one_of = ", ".join(f'"{one}"' for one in words)
    folded_word = str(word).strip().lower()
    meant = {"block": "deny", "approve": "allow", "reject": "deny"}.get(folded_word, folded_word)
    near = f'; did you mean "{meant}"?' if meant in words else ""
    raise MisreadError(f"`{path}` is {shown(word)}; use one of {one_of}{near}")


def shown(value: object) -> str:
    """A wrong value for a message, as JSON spells it."""
    match value:
        case str():
            return f'"{value[:_MAX_NAME]}"'
        case None:
            return "null"
        case bool():
            return str(value).lower()
        case Mapping():
            return "an object"
        case list() | tuple():
            return "a list"
        case _:
            return str(value)[:_MAX_NAME]


# What a Python callback returned.


def read_returned(event: Event, value: object, meanings: Meanings) -> Reply:
    """Read what a Python callback returned: an Answer, a Reply, a dict of seed 001 or seed 002, or nothing."""
    if value is None:
        return Reply()
    if type(value) is Answer:  # faster than isinstance, which calls the metaclass
        if value.decision is Decision.DENY and event.block is Block.KEEP_GOING:
            return Reply(answer=replace(value, decision=Decision.NONE, keep_going=True))  # a block of Stop
        return Reply(answer=value)
    return value if type(value) is Reply else answer_json.read_mapping(event, value, meanings)

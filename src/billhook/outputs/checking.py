"""Checking the fields of a JSON answer: right types, right places, and an exact message for every near miss."""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from billhook.events import Event
from billhook.meanings import Meanings
from billhook.outputs.schema import ALL_SPECIFIC, CHECKS, PERMISSION_WORDS, UNIVERSAL, specific_fields

PIPELINE = {"success", "data", "error", "durationms", "block", "blockreason", "contexttoinject"}
"""The fields of seed 002's handler result, folded."""

_MAX_NOTES = 20  # unknown fields that are looked at closely; hostile output may have a hundred thousand
_MAX_NAME = 60


class MisreadError(Exception):
    """The answer breaks its schema; the message says exactly how."""


class Fields(NamedTuple):
    """The known fields of one object, and what there is to say about the others."""

    known: dict[str, Any]
    lost: list[str]
    misses: list[str]  # near misses: a failure, unless what was understood already denies


def checked(given: Mapping[str, Any], kinds: Mapping[str, str], path: str, event: Event, meanings: Meanings) -> Fields:
    """Check the types of the known fields and look closely at the unknown ones."""
    fields = Fields({}, [], [])
    names = by_fold([*kinds, *(() if path else ALL_SPECIFIC)])
    for key, value in given.items():
        if not isinstance(key, str):
            raise MisreadError(f"the key {shown(key)} is not a string")
        if key == "hookEventName" and path:
            continue
        if key == "decision" and not path and isinstance(value, dict) and "decision" in specific_fields(event):
            raise MisreadError(_inside("decision", event))
        if key in kinds:
            if value is not None and not CHECKS[kinds[key]](value):
                raise MisreadError(f"`{path}{key}` must be {kinds[key]}, not {shown(value)}")
            if value is not None:
                fields.known[key] = value
        elif miss := _misplaced(key, path, event, meanings):
            fields.misses.append(miss)
        elif near := nearest(key, names, closely=len(fields.lost) < _MAX_NOTES):
            fields.misses.append(f"`{path}{key[:_MAX_NAME]}` is not known{near}")
        else:
            fields.lost.append(_ignored(key, path, event))
    for notes in (fields.lost, fields.misses):
        if len(notes) > _MAX_NOTES:
            notes[_MAX_NOTES:] = [f"and {len(notes) - _MAX_NOTES} more unknown fields"]
    return fields


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
    """How to decide on this event, if one can."""
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
        return f"`{path}{key}` has no effect on {event.hook_event_name}" if path else f"`{key}` stands at the top level"
    return f"unknown field `{path}{key[:_MAX_NAME]}` was ignored"


def by_fold(names: Iterable[str]) -> dict[str, str]:
    return {folded(name): name for name in names}


def nearest(word: str, names: Mapping[str, str], *, closely: bool = True) -> str:
    """A hint at the name that was meant, if one is near; none for the name itself."""
    spelt = folded(word)
    found = names.get(spelt)
    if found is None and closely and len(word) <= _MAX_NAME:
        from difflib import get_close_matches

        near = get_close_matches(spelt, names, 1, 0.85)
        # Where a decision would be lost, a wider net.
        near = near or get_close_matches(spelt, [name for name in names if names[name] in _DECIDING], 1, 0.75)
        found = names[near[0]] if near else None
    return f"; did you mean `{found}`?" if found not in (None, word) else ""


_DECIDING = {"decision", "permissionDecision", "hookSpecificOutput", "continue", "behavior"}


def wrong_decision(word: str) -> str:
    """What to say about a top-level `decision` that is neither block nor approve."""
    folded_word = word.strip().lower()
    meant = {"deny": "block", "allow": "approve"}.get(folded_word, folded_word)
    if meant in ("block", "approve"):
        return f'"decision": {shown(word)} is not understood; write "decision": "{meant}"'
    if meant in PERMISSION_WORDS:
        return (
            f'"decision": {shown(word)} is not understood; write "hookSpecificOutput": '
            f'{{"hookEventName": ..., "permissionDecision": "{meant}"}}'
        )
    return f'"decision": {shown(word)} is not understood; it is "block" or "approve"'


def wrong_word(path: str, word: object, words: Iterable[str]) -> str:
    """What to say about a word that is none of those which may stand there."""
    one_of = ", ".join(f'"{one}"' for one in words)
    folded_word = str(word).strip().lower()
    meant = {"block": "deny", "approve": "allow", "reject": "deny"}.get(folded_word, folded_word)
    near = f'; did you mean "{meant}"?' if meant in words else ""
    return f"`{path}` is {shown(word)}; it is one of {one_of}{near}"


def shown(value: object) -> str:
    """A wrong value for a message, in JSON's words."""
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


def folded(key: object) -> str:
    """A name without its case and its separators: how near misses are recognised."""
    return str(key).replace("_", "").replace("-", "").lower()

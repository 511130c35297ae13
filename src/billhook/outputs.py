"""The JSON that hooks answer with, read into an Answer and written back from one.

One format serves every dialect; what some of its words mean differs and comes from the dialect's `Meanings`. Reading
is strict: an answer that is nearly right is a failure with an exact message, because an answer that is silently
ignored is a guard that is silently off.
"""

import difflib
from collections.abc import Callable, Mapping
from typing import Any

from msgspec import UNSET
from msgspec.structs import replace

from billhook.answers import Answer, Decision, Reply, Status
from billhook.events import EVENTS, Block, Event
from billhook.meanings import Meanings

_STRING, _BOOL, _OBJECT, _NUMBER = "a string", "true or false", "an object", "a number"
_CHECKS: dict[str, Callable[[Any], bool]] = {
    _STRING: lambda v: isinstance(v, str),
    _BOOL: lambda v: isinstance(v, bool),
    _OBJECT: lambda v: isinstance(v, dict),
    _NUMBER: lambda v: isinstance(v, int | float) and not isinstance(v, bool),
    "a list of strings": lambda v: isinstance(v, list) and all(isinstance(one, str) for one in v),
    "any value": lambda v: True,
}

UNIVERSAL = {
    "continue": _BOOL,
    "stopReason": _STRING,
    "suppressOutput": _BOOL,
    "systemMessage": _STRING,
    "terminalSequence": _STRING,
    "decision": _STRING,
    "reason": _STRING,
    "hookSpecificOutput": _OBJECT,
    "async": _BOOL,
    "asyncTimeout": _NUMBER,
}
"""What may stand at the top of an answer, for every event."""

_CONTEXT = {"additionalContext": _STRING}
_PERMISSION = {"permissionDecision": _STRING, "permissionDecisionReason": _STRING}
_ELICITATION = {"action": _STRING, "content": _OBJECT}
_WATCH = {"watchPaths": "a list of strings"}

SPECIFIC: dict[str, dict[str, str]] = {
    "PreToolUse": {**_PERMISSION, "updatedInput": _OBJECT, **_CONTEXT},
    "PostToolUse": {
        **_CONTEXT,
        "updatedToolOutput": "any value",
        "updatedMCPToolOutput": "any value",
        "classifierContext": _STRING,
    },
    "PermissionRequest": {"decision": _OBJECT},
    "PermissionDenied": {"retry": _BOOL},
    "UserPromptSubmit": {**_CONTEXT, "sessionTitle": _STRING, "suppressOriginalPrompt": _BOOL},
    "UserPromptExpansion": {**_CONTEXT, "suppressOriginalPrompt": _BOOL},
    "MessageDisplay": {"displayContent": _STRING},
    "SessionStart": {
        **_CONTEXT,
        "initialUserMessage": _STRING,
        "sessionTitle": _STRING,
        **_WATCH,
        "reloadSkills": _BOOL,
    },
    "PreModelSwitch": _PERMISSION,
    "Elicitation": _ELICITATION,
    "ElicitationResult": _ELICITATION,
    "CwdChanged": _WATCH,
    "FileChanged": _WATCH,
    "WorktreeCreate": {"worktreePath": _STRING},
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

_PERMISSION_WORDS = {"allow": Decision.ALLOW, "deny": Decision.DENY, "ask": Decision.ASK, "defer": Decision.DEFER}
_ACTIONS = {"accept": Decision.ALLOW, "decline": Decision.DENY, "cancel": Decision.DENY}
_ALL_SPECIFIC = {field for fields in SPECIFIC.values() for field in fields} | {"additionalContext", "hookEventName"}
_NEVER_SPECIFIC = set(UNIVERSAL) - {"decision", "reason"}
_PIPELINE = {"success", "data", "error", "durationms", "block", "blockreason", "contexttoinject"}


class Misread(Exception):
    """The answer breaks its schema; the message says exactly how."""


def specific_fields(event: Event) -> dict[str, str]:
    name = event.hook_event_name
    if name not in EVENTS:
        return {**_PERMISSION, **_CONTEXT, "updatedInput": _OBJECT, "updatedToolOutput": "any value"}
    return SPECIFIC.get(name, _CONTEXT if event.takes_context else {})


def blocked(event: Event, text: str, meanings: Meanings) -> Reply:
    """What a block means on this event: one column of the reference's table."""
    reason = text or f"blocked by a {event.hook_event_name} hook"
    match Block.DENY if meanings.can_undo and event.block is Block.MODEL else event.block:
        case Block.DENY:
            return Reply(answer=Answer(decision=Decision.DENY, reason=reason))
        case Block.KEEP_GOING:
            return Reply(answer=Answer(keep_going=True, reason=reason))
        case Block.STOP:
            return Reply(answer=Answer(stop=True, stop_reason=reason))
        case Block.MODEL:
            return Reply(answer=Answer(context=text))
        case Block.USER:
            return Reply(answer=Answer(message=text))
        case Block.NOT_HONOURED:
            hint = 'answer with hookSpecificOutput: {"decision": {"behavior": "deny", "message": "..."}}'
            error = f"a bare block is not honoured on {event.hook_event_name}; {hint}"
            return Reply(status=Status.FAILED, error=error)
        case _:
            return Reply(lost=(f"a block has no effect on {event.hook_event_name}",))


# -- reading -------------------------------------------------------------------------------------------------------


def read_output(event: Event, output: Mapping[str, Any], meanings: Meanings) -> Reply:
    """Read an answer in the format of seed 001 section 4 and of the reference. A broken one is a failed Reply."""
    try:
        return _read(event, output, meanings)
    except Misread as error:
        return Reply(status=Status.FAILED, error=str(error))


def read_returned(event: Event, value: object, meanings: Meanings) -> Reply:
    """Read what a Python callback returned: an Answer, a Reply, a dict of seed 001 or seed 002, or nothing."""
    if value is None:
        return Reply()
    if isinstance(value, Answer):
        return Reply(answer=value)
    if isinstance(value, Reply):
        return value
    if not isinstance(value, Mapping):
        error = f"returned {type(value).__name__}; return an Answer, a dict or nothing"
        return Reply(status=Status.FAILED, error=error)
    if value and {_folded(key) for key in value} <= _PIPELINE:
        return _read_pipeline(event, value, meanings)
    # Python can't spell `continue` and `async` as keyword arguments, so the Agent SDK adds an underscore.
    spelt = {{"continue_": "continue", "async_": "async"}.get(key, key): one for key, one in value.items()}
    return read_output(event, spelt, meanings)


def _read_pipeline(event: Event, result: Mapping[str, Any], meanings: Meanings) -> Reply:
    """Seed 002's handler result: success, data, block, blockReason, contextToInject, in either case."""
    fields = {_folded(key): value for key, value in result.items()}
    for name, kind in (("success", _BOOL), ("block", _BOOL), ("blockreason", _STRING), ("contexttoinject", _STRING)):
        if fields.get(name) is not None and not _CHECKS[kind](fields[name]):
            spelt = next(key for key in result if _folded(key) == name)
            return Reply(status=Status.FAILED, error=f"`{spelt}` must be {kind}, not {_shown(fields[name])}")
    reply = blocked(event, fields.get("blockreason") or "", meanings) if fields.get("block") else Reply()
    context = fields.get("contexttoinject") or ""
    answer = reply.answer
    if context or fields.get("data") is not None:
        answer = replace(answer, context=context or answer.context, data=fields.get("data"))
    if fields.get("success") is False:
        error = str(fields.get("error") or "the handler reported success: false")
        # A handler that blocks and fails still blocks.
        status = Status.OK if answer.objects else Status.FAILED
        return replace(reply, answer=answer, status=status, error=error)
    return replace(reply, answer=answer)


def _read(event: Event, output: Mapping[str, Any], meanings: Meanings) -> Reply:
    fields, lost = _checked(output, UNIVERSAL, "", event, meanings)
    if fields.get("async"):
        wait = fields.get("asyncTimeout")
        return Reply(answer=Answer(background=True if wait is None else wait * meanings.async_unit), lost=tuple(lost))
    heard = HEARD.get(event.hook_event_name)
    if heard is not None:
        lost += [f"`{name}` has no effect on {event.hook_event_name}" for name in fields if name not in heard]
        fields = {name: value for name, value in fields.items() if name in heard}

    reply = _read_decision(event, fields, meanings)
    answer, status, error = reply.answer, reply.status, reply.error
    lost += reply.lost
    if "hookSpecificOutput" in fields:
        answer, more = _read_specific(event, fields["hookSpecificOutput"], answer, meanings)
        lost += more
    elif meanings.name == "lesson":
        # The lesson's own code reads these three from the top level.
        flat = {key: output[key] for key in ("permissionDecision", "updatedInput", "additionalContext") if key in output}
        if flat:
            answer, more = _read_specific(event, {"hookEventName": event.hook_event_name, **flat}, answer, meanings)
            lost += more
    answer = _read_universal(event, fields, answer, meanings)
    return Reply(answer=answer, status=status, error=error, lost=tuple(lost))


def _read_decision(event: Event, fields: dict[str, Any], meanings: Meanings) -> Reply:
    decision, reason = fields.get("decision"), fields.get("reason") or ""
    if decision == "block":
        return blocked(event, reason, meanings)
    if decision == "approve":
        if event.hook_event_name == "PreToolUse":
            return Reply(answer=Answer(decision=Decision.ALLOW, reason=reason))
        return Reply(lost=(f'"decision": "approve" has no effect on {event.hook_event_name}',))
    if decision is not None:
        raise Misread(_wrong_decision(decision))
    if reason and meanings.system_message == "model" and meanings.continue_false == "deny":
        return Reply(answer=Answer(context=reason))  # claw: a reason without a decision is feedback
    return Reply(lost=("`reason` without `decision` has no effect",)) if reason else Reply()


def _wrong_decision(word: str) -> str:
    meant = {"deny": "block", "allow": "approve"}.get(word.lower(), word.lower())
    if meant in ("block", "approve"):
        return f'"decision": "{word}" is not understood; write "decision": "{meant}"'
    if meant in _PERMISSION_WORDS:
        return (
            f'"decision": "{word}" is not understood; write "hookSpecificOutput": '
            f'{{"hookEventName": ..., "permissionDecision": "{meant}"}}'
        )
    return f'"decision": "{word}" is not understood; it is "block" or "approve"'


def _read_universal(event: Event, fields: dict[str, Any], answer: Answer, meanings: Meanings) -> Answer:
    changes: dict[str, Any] = {}
    if fields.get("continue") is False:
        said = fields.get("stopReason") or ""
        if meanings.continue_false == "stop":
            changes |= {"stop": True, "stop_reason": said}
        else:
            stopped = said or fields.get("reason") or "a hook answered continue: false"
            changes |= {"decision": Decision.DENY, "reason": answer.reason or stopped}
    elif (
        fields.get("continue") is True and meanings.continue_true_keeps_going and event.block is Block.KEEP_GOING
    ):
        changes |= {"keep_going": True, "reason": answer.reason or fields.get("reason") or ""}
    if system := fields.get("systemMessage"):
        if meanings.system_message == "model":
            changes["context"] = meanings.join.join(text for text in (system, answer.context) if text)
        else:
            changes["message"] = "\n".join(text for text in (answer.message, system) if text)
    if fields.get("suppressOutput"):
        changes["quiet"] = True
    if fields.get("terminalSequence"):
        changes["extras"] = {**answer.extras, "terminalSequence": fields["terminalSequence"]}
    return replace(answer, **changes) if changes else answer


def _read_specific(
    event: Event, specific: dict[str, Any], answer: Answer, meanings: Meanings
) -> tuple[Answer, list[str]]:
    name = event.hook_event_name
    said = specific.get("hookEventName")
    if said is None:
        raise Misread(f'`hookSpecificOutput.hookEventName` is missing; add "hookEventName": "{name}"')
    if said != name:
        raise Misread(f'`hookSpecificOutput.hookEventName` is {_shown(said)} but the event is "{name}"')
    fields, lost = _checked(specific, specific_fields(event), "hookSpecificOutput.", event, meanings)
    changes: dict[str, Any] = {}
    extras: dict[str, Any] = {}
    for field, value in fields.items():
        match field:
            case "hookEventName" | "permissionDecisionReason":
                pass
            case "permissionDecision":
                decision = _permission_word(event, value)
                if answer.objects and decision is not Decision.DENY:
                    continue  # a block at the top level is stricter
                reason = fields.get("permissionDecisionReason") or answer.reason
                if decision is Decision.DENY:
                    reason = reason or f"denied by a {name} hook"
                changes |= {"decision": decision, "reason": reason}
            case "updatedInput":
                changes["updated_input"] = value
            case "updatedToolOutput" | "updatedMCPToolOutput":
                changes["updated_output"] = value
            case "additionalContext":
                changes["context"] = meanings.join.join(text for text in (answer.context, value) if text)
                if event.block is Block.KEEP_GOING and meanings.name == "claude" and value:
                    changes["keep_going"] = True
            case "decision":
                changes |= _read_permission(value, extras)
            case "action":
                if value not in _ACTIONS:
                    raise Misread(_wrong_word("hookSpecificOutput.action", value, _ACTIONS))
                changes["decision"] = _ACTIONS[value]
                extras["action"] = value
            case _:
                extras[field] = value
    if changes.get("decision") is Decision.DEFER and "updated_input" in changes:
        del changes["updated_input"]
        lost.append("`updatedInput` is ignored with permissionDecision defer")
    if extras:
        changes["extras"] = {**answer.extras, **extras}
    return replace(answer, **changes), lost


def _permission_word(event: Event, word: str) -> Decision:
    words = dict(_PERMISSION_WORDS)
    if event.hook_event_name == "PreModelSwitch":
        del words["defer"]
    if word not in words:
        raise Misread(_wrong_word("hookSpecificOutput.permissionDecision", word, words))
    return words[word]


def _read_permission(decision: dict[str, Any], extras: dict[str, Any]) -> dict[str, Any]:
    """PermissionRequest: {behavior: allow, updatedInput?, updatedPermissions?} or {behavior: deny, message?, interrupt?}."""
    path = "hookSpecificOutput.decision."
    kinds = {
        "behavior": _STRING,
        "updatedInput": _OBJECT,
        "updatedPermissions": "any value",
        "message": _STRING,
        "interrupt": _BOOL,
    }
    for key, value in decision.items():
        if key not in kinds:
            raise Misread(f"`{path}{key}` is not known{_nearest(key, kinds)}")
        if value is not None and not _CHECKS[kinds[key]](value):
            raise Misread(f"`{path}{key}` must be {kinds[key]}, not {_shown(value)}")
    behavior = decision.get("behavior")
    if behavior not in ("allow", "deny"):
        words = {"allow": 1, "deny": 1}
        raise Misread(
            f'`{path}behavior` is missing; it is "allow" or "deny"'
            if behavior is None
            else _wrong_word(f"{path}behavior", behavior, words)
        )
    if behavior == "deny":
        reason = decision.get("message") or "denied by a PermissionRequest hook"
        return {"decision": Decision.DENY, "reason": reason, "stop": bool(decision.get("interrupt"))}
    if decision.get("updatedPermissions") is not None:
        extras["updatedPermissions"] = decision["updatedPermissions"]
    return {"decision": Decision.ALLOW, "updated_input": decision.get("updatedInput")}


def _checked(
    given: Mapping[str, Any], kinds: Mapping[str, str], path: str, event: Event, meanings: Meanings
) -> tuple[dict[str, Any], list[str]]:
    """The known fields with their types checked, and a note for each unknown one; near misses raise."""
    fields: dict[str, Any] = {}
    lost: list[str] = []
    for key, value in given.items():
        if not isinstance(key, str):
            raise Misread(f"the key {_shown(key)} is not a string")
        if key == "hookEventName" and path:
            continue
        if key not in kinds:
            lost.append(_unknown(key, kinds, path, event, meanings))
        elif value is not None:
            if not _CHECKS[kinds[key]](value):
                raise Misread(f"`{path}{key}` must be {kinds[key]}, not {_shown(value)}")
            fields[key] = value
    return fields, lost


def _unknown(key: str, kinds: Mapping[str, str], path: str, event: Event, meanings: Meanings) -> str:
    if not path and key in _ALL_SPECIFIC:
        if meanings.name == "lesson":
            return f"`{key}` was read from the top level"
        inside = f'"hookSpecificOutput": {{"hookEventName": "{event.hook_event_name}", "{key}": ...}}'
        raise Misread(f"`{key}` belongs inside `hookSpecificOutput`: {inside}")
    if path and key in UNIVERSAL and key not in kinds:
        raise Misread(f"`{path}{key}` belongs at the top level, beside `hookSpecificOutput`")
    if path and key in _ALL_SPECIFIC:
        return f"`{path}{key}` has no effect on {event.hook_event_name}"
    candidates = [*kinds, *(() if path else _ALL_SPECIFIC)]
    if near := _nearest(key, candidates):
        raise Misread(f"`{path}{key}` is not known{near}")
    return f"unknown field `{path}{key}` was ignored"


def _nearest(word: str, known: Any) -> str:
    by_fold = {_folded(one): one for one in known}
    found = by_fold.get(_folded(word)) or next(
        (by_fold[one] for one in difflib.get_close_matches(_folded(word), by_fold, 1, 0.85)), None
    )
    return f"; did you mean `{found}`?" if found else ""


def _wrong_word(path: str, word: object, words: Mapping[str, object]) -> str:
    one_of = ", ".join(f'"{one}"' for one in words)
    folded = str(word).strip().lower()
    meant = {"block": "deny", "approve": "allow", "reject": "deny", "accept": "allow"}.get(folded, folded)
    near = f'; did you mean "{meant}"?' if meant in words else ""
    return f"`{path}` is {_shown(word)}; it is one of {one_of}{near}"


def _shown(value: object) -> str:
    if isinstance(value, str):
        return f'"{value[:60]}"'
    return {dict: "an object", list: "a list", type(None): "null", bool: str(value).lower()}.get(type(value), str(value)[:60])


def _folded(key: object) -> str:
    return str(key).replace("_", "").replace("-", "").lower()


# -- writing -------------------------------------------------------------------------------------------------------


def write_output(event: Event, answer: Answer, meanings: Meanings) -> tuple[dict[str, Any], list[str]]:
    """Write an answer as JSON, and name what could not be said. Rounds toward deny, never toward silence."""
    output: dict[str, Any] = {}
    lost: list[str] = []
    if answer.background:
        output["async"] = True
        if answer.background is not True:
            output["asyncTimeout"] = round(answer.background / meanings.async_unit)
        if answer != Answer(background=answer.background):
            lost.append("an answer that comes later can't also decide now")
        return output, lost
    specific = specific_fields(event)
    inside: dict[str, Any] = {}
    _write_decision(event, answer, specific, output, inside, lost, meanings)
    _write_texts(event, answer, specific, output, inside, lost, meanings)
    if answer.updated_input is not None and event.hook_event_name != "PermissionRequest":
        if "updatedInput" in specific and answer.decision is not Decision.DEFER:
            inside["updatedInput"] = answer.updated_input
        else:
            # Running the old input is not what the hooks agreed to.
            lost.append(f"the rewritten input can't be said on {event.hook_event_name}")
    if answer.updated_output is not UNSET:
        field = "updatedToolOutput" if meanings.name == "claude" else "updatedMCPToolOutput"
        if field in specific and answer.updated_output is not None:
            inside[field] = answer.updated_output
        else:
            lost.append(f"the rewritten output can't be said on {event.hook_event_name}")
    if answer.quiet:
        output["suppressOutput"] = True
    for key, value in answer.extras.items():
        if key == "terminalSequence":
            output[key] = value
        elif key in specific and key not in inside:
            inside[key] = value
        elif key not in inside and key != "updatedPermissions":
            lost.append(f"`{key}` can't be said on {event.hook_event_name}")
    if answer.data is not None:
        lost.append("`data` is for hooks of the same firing")
    if inside:
        output["hookSpecificOutput"] = {"hookEventName": event.hook_event_name, **inside}
    heard = HEARD.get(event.hook_event_name)
    if heard is not None:
        lost += [f"`{name}` has no effect on {event.hook_event_name}" for name in output if name not in heard]
        output = {name: value for name, value in output.items() if name in heard}
    return output, lost


def _write_decision(
    event: Event,
    answer: Answer,
    specific: Mapping[str, str],
    output: dict[str, Any],
    inside: dict[str, Any],
    lost: list[str],
    meanings: Meanings,
) -> None:
    name, decision, reason = event.hook_event_name, answer.decision, answer.reason
    if answer.keep_going:
        if event.block is not Block.KEEP_GOING or decision is not Decision.NONE:
            lost.append(f"keep_going can't be said on {name}")
        elif reason or not (answer.context and meanings.name == "claude"):
            output |= {"decision": "block", "reason": reason}
            if not reason:
                lost.append("keep_going without a reason")
        return
    if decision is Decision.NONE:
        if reason:
            lost.append("a reason without a decision")
    elif name == "PermissionRequest":
        _write_permission(answer, inside, lost)
    elif "action" in specific:
        inside["action"] = answer.extras.get("action") or ("accept" if decision is Decision.ALLOW else "decline")
        if reason or _ACTIONS.get(inside["action"]) is not decision or "action" not in answer.extras:
            lost.append(f"{decision} became {inside['action']}")
    elif "permissionDecision" in specific and not (decision is Decision.DEFER and name == "PreModelSwitch"):
        inside["permissionDecision"] = decision.value
        if reason:
            inside["permissionDecisionReason"] = reason
        elif decision is Decision.DENY:
            lost.append("a deny without a reason")
    elif decision is Decision.ALLOW:
        lost.append(f"allow can't be said on {name}")
    else:
        output |= {"decision": "block", "reason": reason}
        denies = event.block is Block.DENY or (meanings.can_undo and event.block is Block.MODEL)
        if decision is not Decision.DENY or not denies or not reason:
            lost.append(f"{decision} on {name} became a block")


def _write_permission(answer: Answer, inside: dict[str, Any], lost: list[str]) -> None:
    if answer.decision is Decision.ALLOW:
        said: dict[str, Any] = {"behavior": "allow"}
        if answer.updated_input is not None:
            said["updatedInput"] = answer.updated_input
        if "updatedPermissions" in answer.extras:
            said["updatedPermissions"] = answer.extras["updatedPermissions"]
        if answer.reason:
            lost.append("the reason of an allow")
    else:
        said = {"behavior": "deny", "message": answer.reason}
        if answer.stop:
            said["interrupt"] = True
        if answer.decision is not Decision.DENY or not answer.reason:
            lost.append(f"{answer.decision} became a deny")
        if answer.updated_input is not None:
            lost.append("the rewritten input of a call that is denied")
    inside["decision"] = said


def _write_texts(
    event: Event,
    answer: Answer,
    specific: Mapping[str, str],
    output: dict[str, Any],
    inside: dict[str, Any],
    lost: list[str],
    meanings: Meanings,
) -> None:
    if answer.stop:
        if meanings.continue_false == "stop":
            output |= {"continue": False, "stopReason": answer.stop_reason}
        else:
            output |= {"decision": "block", "reason": answer.reason or answer.stop_reason or "a hook stopped the run"}
            lost.append("stop became a deny")
    elif answer.stop_reason:
        lost.append("a stop reason without a stop")
    if answer.context:
        stays = event.block is Block.KEEP_GOING and meanings.name == "claude" and not answer.keep_going
        if "additionalContext" in specific and not stays:
            inside["additionalContext"] = answer.context
        elif meanings.system_message == "model":
            output["systemMessage"] = answer.context
        else:
            lost.append(f"context can't be said on {event.hook_event_name}")
    if answer.message:
        if meanings.system_message == "user":
            output["systemMessage"] = answer.message
        else:
            lost.append("a message for the user only")


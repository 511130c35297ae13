"""Reading a JSON answer, strictly: nearly right is a failure with an exact message.

An answer that is silently ignored is a guard that is silently off.
"""

import difflib
from collections.abc import Iterable, Mapping
from typing import Any

from msgspec.structs import replace

from billhook.answers import Answer, Decision, Reply, Status
from billhook.events import Block, Event
from billhook.meanings import Meanings
from billhook.outputs.schema import (
    ACTIONS,
    ALL_SPECIFIC,
    BOOL,
    CHECKS,
    HEARD,
    OBJECT,
    PERMISSION_WORDS,
    STRING,
    UNIVERSAL,
    specific_fields,
)

_SPELT = {"continue_": "continue", "async_": "async"}
_PIPELINE = {"success", "data", "error", "durationms", "block", "blockreason", "contexttoinject"}


class MisreadError(Exception):
    """The answer breaks its schema; the message says exactly how."""


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


def read_output(event: Event, output: Mapping[str, Any], meanings: Meanings) -> Reply:
    """Read an answer in the format of seed 001 section 4 and of the reference. A broken one is a failed Reply."""
    try:
        return _read(event, output, meanings)
    except MisreadError as error:
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
    spelt: dict[Any, Any] = {_SPELT.get(key, key): one for key, one in value.items()}
    return read_output(event, spelt, meanings)


def _read_pipeline(event: Event, result: Mapping[str, Any], meanings: Meanings) -> Reply:
    """Seed 002's handler result: success, data, block, blockReason, contextToInject, in either case."""
    fields = {_folded(key): value for key, value in result.items()}
    for name, kind in (("success", BOOL), ("block", BOOL), ("blockreason", STRING), ("contexttoinject", STRING)):
        if fields.get(name) is not None and not CHECKS[kind](fields[name]):
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
        flat = {
            key: output[key] for key in ("permissionDecision", "updatedInput", "additionalContext") if key in output
        }
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
        raise MisreadError(_wrong_decision(decision))
    if reason and meanings.system_message == "model" and meanings.continue_false == "deny":
        return Reply(answer=Answer(context=reason))  # claw: a reason without a decision is feedback
    return Reply(lost=("`reason` without `decision` has no effect",)) if reason else Reply()


def _wrong_decision(word: str) -> str:
    meant = {"deny": "block", "allow": "approve"}.get(word.lower(), word.lower())
    if meant in ("block", "approve"):
        return f'"decision": "{word}" is not understood; write "decision": "{meant}"'
    if meant in PERMISSION_WORDS:
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
    elif fields.get("continue") is True and meanings.continue_true_keeps_going and event.block is Block.KEEP_GOING:
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
        raise MisreadError(f'`hookSpecificOutput.hookEventName` is missing; add "hookEventName": "{name}"')
    if said != name:
        raise MisreadError(f'`hookSpecificOutput.hookEventName` is {_shown(said)} but the event is "{name}"')
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
                if value not in ACTIONS:
                    raise MisreadError(_wrong_word("hookSpecificOutput.action", value, ACTIONS))
                changes["decision"] = ACTIONS[value]
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
    words = dict(PERMISSION_WORDS)
    if event.hook_event_name == "PreModelSwitch":
        del words["defer"]
    if word not in words:
        raise MisreadError(_wrong_word("hookSpecificOutput.permissionDecision", word, words))
    return words[word]


def _read_permission(decision: dict[str, Any], extras: dict[str, Any]) -> dict[str, Any]:
    """PermissionRequest: `behavior` allow (updatedInput, updatedPermissions) or deny (message, interrupt)."""
    path = "hookSpecificOutput.decision."
    kinds = {
        "behavior": STRING,
        "updatedInput": OBJECT,
        "updatedPermissions": "any value",
        "message": STRING,
        "interrupt": BOOL,
    }
    for key, value in decision.items():
        if key not in kinds:
            raise MisreadError(f"`{path}{key}` is not known{_nearest(key, kinds)}")
        if value is not None and not CHECKS[kinds[key]](value):
            raise MisreadError(f"`{path}{key}` must be {kinds[key]}, not {_shown(value)}")
    behavior = decision.get("behavior")
    if behavior not in ("allow", "deny"):
        words = {"allow": 1, "deny": 1}
        raise MisreadError(
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
            raise MisreadError(f"the key {_shown(key)} is not a string")
        if key == "hookEventName" and path:
            continue
        if key not in kinds:
            lost.append(_unknown(key, kinds, path, event, meanings))
        elif value is not None:
            if not CHECKS[kinds[key]](value):
                raise MisreadError(f"`{path}{key}` must be {kinds[key]}, not {_shown(value)}")
            fields[key] = value
    return fields, lost


def _unknown(key: str, kinds: Mapping[str, str], path: str, event: Event, meanings: Meanings) -> str:
    if not path and key in ALL_SPECIFIC:
        if meanings.name == "lesson":
            return f"`{key}` was read from the top level"
        inside = f'"hookSpecificOutput": {{"hookEventName": "{event.hook_event_name}", "{key}": ...}}'
        raise MisreadError(f"`{key}` belongs inside `hookSpecificOutput`: {inside}")
    if path and key in UNIVERSAL and key not in kinds:
        raise MisreadError(f"`{path}{key}` belongs at the top level, beside `hookSpecificOutput`")
    if path and key in ALL_SPECIFIC:
        return f"`{path}{key}` has no effect on {event.hook_event_name}"
    candidates = [*kinds, *(() if path else ALL_SPECIFIC)]
    if near := _nearest(key, candidates):
        raise MisreadError(f"`{path}{key}` is not known{near}")
    return f"unknown field `{path}{key}` was ignored"


def _nearest(word: str, known: Iterable[str]) -> str:
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
    return {dict: "an object", list: "a list", type(None): "null", bool: str(value).lower()}.get(
        type(value), str(value)[:60]
    )


def _folded(key: object) -> str:
    return str(key).replace("_", "").replace("-", "").lower()

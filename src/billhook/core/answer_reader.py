"""Read a JSON answer strictly: an answer that is almost right is a failure with an exact message.

If an answer were silently ignored, a guard would be silently off.
"""

from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import UNSET
from msgspec.structs import replace

from billhook.core import answer_schema as schema
from billhook.core.answers import Answer, Decision, Reply, Status
from billhook.core.dialect_traits import Meanings
from billhook.core.events import Block, Event
from billhook.core.tools import folded

_SPELT = {"continue_": "continue", "async_": "async"}
_RESULT = {"success": schema.BOOL, "block": schema.BOOL, "blockreason": schema.STRING, "contexttoinject": schema.STRING}
_BEHAVIORS = {"allow": Decision.ALLOW, "deny": Decision.DENY}
LONGEST_TEXT = 1 << 16  # characters in the reason of a block; a hook may print a megabyte, and the model has to read it
_FLAT = ("permissionDecision", "permissionDecisionReason", "updatedInput", "additionalContext")


def blocked(event: Event, text: str, meanings: Meanings) -> Reply:
    """What a block means on this event: one column of the reference's table."""
    if len(text) > LONGEST_TEXT:
        text = text[:LONGEST_TEXT] + " ... (cut)"
    reason = text or f"blocked by a {event.hook_event_name} hook"
    match schema.block_on(event, meanings):
        case Block.DENY:
            return Reply(answer=Answer(decision=Decision.DENY, reason=reason))
        case Block.KEEP_GOING:
            return Reply(answer=Answer(keep_going=True, reason=reason))
        case Block.STOP:
            return Reply(answer=Answer(stop=True, stop_reason=reason))
        case Block.MODEL:
            return Reply(answer=Answer(context=reason, objection=reason))
        case Block.USER:
            return Reply(answer=Answer(message=text))
        case Block.NOT_HONOURED:
            hint = 'answer with hookSpecificOutput: {"decision": {"behavior": "deny", "message": "..."}}'
            error = f"a bare block is not honoured on {event.hook_event_name}; {hint}"
            return Reply(status=Status.FAILED, error=error)
        case _:
            return Reply(lost=(f"a block has no effect on {event.hook_event_name}",))


def read_output(event: Event, output: Mapping[str, Any], meanings: Meanings) -> Reply:
    """Read an answer in the format of seed 001 section 4 and the reference, or the result of a seed 002 handler. A
    broken one is a failed Reply."""
    try:
        if _has_result(output) and not _has_fields(output):  # a handler's result: the two formats don't mix
            return _read_pipeline(event, output, meanings)
        return _read(event, output, meanings)
    except schema.MisreadError as error:
        return Reply(status=Status.FAILED, error=str(error))


def is_answer(output: Mapping[str, Any]) -> bool:
    """Whether an object has any field of an answer; claw treats one without as plain feedback."""
    return _has_fields(output) or _has_result(output)


def _has_fields(output: Mapping[str, Any]) -> bool:
    return any(key in schema.UNIVERSAL or key in schema.ALL_SPECIFIC for key in output)


def _has_result(output: Mapping[str, Any]) -> bool:
    return any(folded(str(key)) in schema.PIPELINE for key in output)


def read_mapping(event: Event, value: object, meanings: Meanings) -> Reply:
    """Read what a Python callback returned, if it is not one of our records: a dict of seed 001 or seed 002."""
    if not isinstance(value, Mapping):
        error = f"returned {type(value).__name__}; return an Answer, a dict or nothing"
        return Reply(status=Status.FAILED, error=error)
    if "hook_event_name" in value:  # the event printed back: its fields depend on the event
        return _read_spelt(event, value, meanings)
    try:
        heard: _Heard = (event.hook_event_name, meanings.name, _ENCODER.encode(value))
    except (TypeError, ValueError, OverflowError):
        return _read_spelt(event, value, meanings)
    known = _known.get(heard)
    if known is None:
        known = _read_spelt(event, value, meanings)
        _remember(heard, known)
    return known


_Heard = tuple[str, str, bytes]
_known: dict[_Heard, Reply] = {}
"""Earlier answers of callbacks, by their bytes: most callbacks return the same few answers again and again."""
_ENCODER = msgspec.json.Encoder()


def _remember(heard: _Heard, reply: Reply) -> None:
    answer = reply.answer
    if answer.rewrites or answer.extras or answer.data is not None or len(heard[2]) > 1024:
        return  # it contains objects that may change, or it is too large to keep
    if len(_known) >= 512:
        _known.clear()
    _known[heard] = reply


def _read_spelt(event: Event, value: Mapping[str, Any], meanings: Meanings) -> Reply:
    """Python can't spell `continue` and `async` as keyword arguments, so the Agent SDK adds an underscore."""
    spelt: dict[Any, Any] = {_SPELT.get(key, key): one for key, one in value.items()}
    return read_output(event, spelt, meanings)


def _read_pipeline(event: Event, result: Mapping[str, Any], meanings: Meanings) -> Reply:
    """Seed 002's handler result: success, data, block, blockReason, contextToInject, in either case."""
    fields = {folded(str(key)): value for key, value in result.items()}
    for key in result:
        if (name := folded(str(key))) in _RESULT:
            schema.check_kind(fields[name], _RESULT[name], "", key)
    reply = blocked(event, fields.get("blockreason") or "", meanings) if fields.get("block") else Reply()
    unknown = sum(name not in schema.PIPELINE for name in fields)
    if unknown:
        reply = replace(reply, lost=(*reply.lost, f"{unknown} unknown fields were ignored"))
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
    if "hook_event_name" in output:  # a logger such as `tee` prints the event back: that is not an answer
        given = event.payload
        output = {
            key: value for key, value in output.items() if key in schema.UNIVERSAL and given.get(key, UNSET) != value
        }
    fields, lost, misses = schema.checked(output, schema.UNIVERSAL, "", event, meanings)
    promise, wait = None, fields.pop("asyncTimeout", None)
    if fields.pop("async", False):
        promise = Answer(background=wait / meanings.async_per_second if wait else True)
    elif wait is not None:
        lost.append("`asyncTimeout` without `async` has no effect")
    heard = None if meanings.hears_all else schema.HEARD.get(event.hook_event_name)
    if heard is not None:
        lost += [f"`{name}` has no effect on {event.hook_event_name}" for name in fields if name not in heard]
        fields = {name: value for name, value in fields.items() if name in heard}

    reply = _read_decision(event, fields, meanings)
    answer, status, error = reply.answer, reply.status, reply.error
    lost += reply.lost
    flat = {key: output[key] for key in _FLAT if key in output} if meanings.flat_fields else {}
    specifics = [{"hookEventName": event.hook_event_name, **flat}] if flat else []  # seed 004's code: at the top, too
    if "hookSpecificOutput" in fields:
        specifics.append(fields["hookSpecificOutput"])
    for specific in specifics:
        answer, more, missed = _read_specific(event, specific, answer, meanings)
        lost += more
        misses += missed
    answer = _read_universal(event, fields, answer, meanings)
    if fields.get("stopReason") and fields.get("continue") is not False:
        lost.append("`stopReason` without `continue: false` has no effect")
    if answer.objects:
        return Reply(answer=answer, lost=(*lost, *misses, *([error] if error else [])))
    if misses:
        raise schema.MisreadError(misses[0])
    # A promise decides nothing now, but a promise with a deny is a deny.
    return Reply(answer=promise or answer, status=status, error=error, lost=tuple(lost))


def _read_decision(event: Event, fields: dict[str, Any], meanings: Meanings) -> Reply:
    decision, reason = fields.get("decision"), fields.get("reason") or ""
    if decision == "block":
        return blocked(event, reason, meanings)
    if decision == "approve":
        if event.hook_event_name == "PreToolUse":
            return Reply(answer=Answer(decision=Decision.ALLOW, reason=reason))
        return Reply(lost=(f'"decision": "approve" has no effect on {event.hook_event_name}',))
    if decision is not None:
        raise schema.MisreadError(schema.wrong_decision(decision))
    if not reason or _goes_on(event, fields, meanings):
        return Reply()
    if meanings.bare_reason_is_feedback:
        return Reply(answer=Answer(context=reason))
    return Reply(lost=("`reason` without `decision` has no effect",))


def _goes_on(event: Event, fields: dict[str, Any], meanings: Meanings) -> bool:
    """Seed 001: on Stop, `continue: true` restarts the loop."""
    going = event.block is Block.KEEP_GOING and meanings.continue_true_keeps_going
    return going and fields.get("continue") is True


def _read_universal(event: Event, fields: dict[str, Any], answer: Answer, meanings: Meanings) -> Answer:
    changes: dict[str, Any] = {}
    if fields.get("continue") is False:
        given = fields.get("stopReason") or ""
        if meanings.continue_false == "deny" and schema.block_on(event, meanings) is Block.DENY:
            stopped = given or fields.get("reason") or "a hook answered continue: false"
            changes |= {"decision": Decision.DENY, "reason": answer.reason or stopped}
        else:
            changes |= {"stop": True, "stop_reason": given}
    elif _goes_on(event, fields, meanings):
        changes |= {"keep_going": True, "reason": answer.reason or fields.get("reason") or ""}
    if system := fields.get("systemMessage"):
        if meanings.system_message == "model":
            changes["context"] = meanings.join.join(text for text in (system, answer.context) if text)
        else:
            changes["message"] = "\n".join(text for text in (answer.message, system) if text)
    if fields.get("suppressOutput"):
        changes["quiet"] = True
    if "terminalSequence" in fields:
        changes["extras"] = {**answer.extras, "terminalSequence": fields["terminalSequence"]}
    return replace(answer, **changes) if changes else answer


def _read_specific(
    event: Event, specific: dict[str, Any], answer: Answer, meanings: Meanings
) -> tuple[Answer, list[str], list[str]]:
    name = event.hook_event_name
    given = specific.get("hookEventName")
    if given is None:
        raise schema.MisreadError(f'`hookSpecificOutput.hookEventName` is missing; add "hookEventName": "{name}"')
    if given != name:
        raise schema.MisreadError(
            f'`hookSpecificOutput.hookEventName` is {schema.shown(given)} but the event is "{name}"'
        )
    fields, lost, misses = schema.checked(
        specific, schema.specific_fields(event), "hookSpecificOutput.", event, meanings
    )
    changes: dict[str, Any] = {}
    extras: dict[str, Any] = {}
    for field, value in fields.items():
        match field:
            case "hookEventName" | "permissionDecisionReason":
                pass
            case "permissionDecision":
                decision = _permission_word(event, value)
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
                if event.block is Block.KEEP_GOING and meanings.context_keeps_going and value:
                    changes["keep_going"] = True
            case "decision":
                changes |= _read_permission(value, extras)
            case "action":
                changes["decision"] = schema.decision_of("hookSpecificOutput.action", value, schema.ACTIONS)
                extras["action"] = value
            case _:
                extras[field] = value
    if answer.objects and changes.get("decision", Decision.DENY) is not Decision.DENY:
        # A block at the top level is stricter.
        changes |= {"decision": answer.decision, "reason": answer.reason}
        extras.pop("action", None)
    if changes.get("decision") is Decision.DEFER and "updated_input" in changes:
        del changes["updated_input"]
        lost.append("`updatedInput` is ignored with permissionDecision defer")
    if extras:
        changes["extras"] = {**answer.extras, **extras}
    return replace(answer, **changes), lost, misses


def _permission_word(event: Event, word: str) -> Decision:
    words = dict(schema.PERMISSION_WORDS)
    if event.hook_event_name == "PreModelSwitch":
        del words["defer"]
    return schema.decision_of("hookSpecificOutput.permissionDecision", word, words)


def _read_permission(decision: dict[str, Any], extras: dict[str, Any]) -> dict[str, Any]:
    """PermissionRequest: `behavior` allow (updatedInput, updatedPermissions) or deny (message, interrupt)."""
    path = "hookSpecificOutput.decision."
    known = schema.by_fold(schema.PERMISSION_FIELDS)
    for key, value in decision.items():
        if key not in schema.PERMISSION_FIELDS:
            raise schema.MisreadError(f"`{path}{key[:60]}` is unknown{schema.nearest(key, known)}")
        schema.check_kind(value, schema.PERMISSION_FIELDS[key], path, key)
    behavior = decision.get("behavior")
    if behavior is None:
        raise schema.MisreadError(f'`{path}behavior` is missing; it is "allow" or "deny"')
    if schema.decision_of(f"{path}behavior", behavior, _BEHAVIORS) is Decision.DENY:
        reason = decision.get("message") or "denied by a PermissionRequest hook"
        return {"decision": Decision.DENY, "reason": reason, "stop": bool(decision.get("interrupt"))}
    if decision.get("updatedPermissions") is not None:
        extras["updatedPermissions"] = decision["updatedPermissions"]
    return {"decision": Decision.ALLOW, "updated_input": decision.get("updatedInput")}

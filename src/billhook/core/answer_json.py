"""Answers as JSON. Reading is strict: an answer that is almost right is a failure with an exact message, because if it
were ignored, a guard would be silently off. Writing lists what JSON can't express, and rounds toward deny, never toward
no answer.
"""

import math
from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import UNSET
from msgspec.structs import replace

from billhook.core import answer_schema as schema
from billhook.core.answer_schema import ACTIONS, CHECKS, EXTRAS, SUPPORTED_FIELDS, UNIVERSAL, block_on, specific_fields
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
    match block_on(event, meanings):
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
    return any(key in UNIVERSAL or key in schema.ALL_SPECIFIC for key in output)


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
        output = {key: value for key, value in output.items() if key in UNIVERSAL and given.get(key, UNSET) != value}
    fields, lost, misses = schema.checked(output, UNIVERSAL, "", event, meanings)
    promise, wait = None, fields.pop("asyncTimeout", None)
    if fields.pop("async", False):
        promise = Answer(background=wait / meanings.async_per_second if wait else True)
    elif wait is not None:
        lost.append("`asyncTimeout` without `async` has no effect")
    heard = None if meanings.hears_all else SUPPORTED_FIELDS.get(event.hook_event_name)
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
        if meanings.continue_false == "deny" and block_on(event, meanings) is Block.DENY:
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
    fields, lost, misses = schema.checked(specific, specific_fields(event), "hookSpecificOutput.", event, meanings)
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
                changes["decision"] = schema.decision_of("hookSpecificOutput.action", value, ACTIONS)
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


# Writing:


def write_output(event: Event, answer: Answer, meanings: Meanings) -> tuple[dict[str, Any], list[str]]:
    """The answer as a JSON object, and what is lost. If nothing is lost, reading it returns the same answer."""
    writer = _Writer(event, answer, meanings)
    if answer.background and not answer.objects and answer.decision in (Decision.NONE, Decision.ALLOW):
        writer.promise()
    else:
        writer.decision()
        writer.texts()
        writer.rewrites()
        writer.others()
    return writer.finished()


class _Writer:
    """Lives for one call."""

    def __init__(self, event: Event, answer: Answer, meanings: Meanings) -> None:
        self.event = event
        self.name = event.hook_event_name
        self.answer = answer
        self.meanings = meanings
        self.fields = specific_fields(event)  # the fields allowed in hookSpecificOutput
        self.output: dict[str, Any] = {}
        self.inside: dict[str, Any] = {}  # the fields written there
        self.lost: list[str] = []

    def promise(self) -> None:
        """The answer comes later."""
        wait = self.answer.background
        self.output["async"] = True
        if wait is not True and not math.isfinite(wait):
            self.lost.append(f"a wait of {wait:g} s")
        elif wait is not True:
            units = wait * self.meanings.async_per_second
            self.output["asyncTimeout"] = max(1, round(units))
            if not math.isclose(units, self.output["asyncTimeout"]):
                self.lost.append(f"a wait of {wait:g} s was rounded")
        if self.answer != Answer(background=wait):
            self.lost.append("an answer that comes later can't also decide now")

    def decision(self) -> None:
        answer, decision, reason = self.answer, self.answer.decision, self.answer.reason
        if answer.keep_going and (decision is not Decision.NONE or self.event.block is not Block.KEEP_GOING):
            self.lost.append(f"keep_going can't be expressed with {decision} on {self.name}")
        if decision is Decision.NONE:
            if answer.keep_going and self.event.block is Block.KEEP_GOING:
                self._keep_going()
            elif answer.objection and block_on(self.event, self.meanings) is Block.MODEL:
                self._block(answer.objection)
            elif reason:
                self.lost.append("a reason without a decision")
        elif self.name == "PermissionRequest":
            self._permission()
        elif "action" in self.fields:
            self._action()
        elif "permissionDecision" in self.fields and not (decision is Decision.DEFER and self.name == "PreModelSwitch"):
            self.inside["permissionDecision"] = decision.value
            if reason:
                self.inside["permissionDecisionReason"] = reason
            elif decision is Decision.DENY:
                self.lost.append("a deny without a reason")
        elif decision is Decision.ALLOW:
            self.lost.append(f"allow can't be expressed on {self.name}")
        else:
            self._block(reason)
            if decision is not Decision.DENY or not self.denies or not reason:
                self.lost.append(f"{decision} on {self.name} became a block")

    @property
    def denies(self) -> bool:
        """A block here is a deny."""
        return block_on(self.event, self.meanings) is Block.DENY

    def _block(self, reason: str) -> None:
        self.output["decision"] = "block"
        if reason:
            self.output["reason"] = reason

    def _keep_going(self) -> None:
        if self.answer.reason:
            self._block(self.answer.reason)
        elif self.answer.context and self._context_keeps_going:
            pass  # `texts` writes it
        elif self.meanings.continue_true_keeps_going and not self.answer.stop:
            self.output["continue"] = True
        else:
            self._block("")
            self.lost.append("keep_going without a reason")

    @property
    def _context_keeps_going(self) -> bool:
        return (
            self.event.block is Block.KEEP_GOING
            and self.meanings.context_keeps_going
            and "additionalContext" in self.fields
        )

    def _action(self) -> None:
        """The answer to an elicitation is an action; the chosen one is kept if it means the same decision."""
        decision, chosen = self.answer.decision, self.answer.extras.get("action")
        agrees = isinstance(chosen, str) and ACTIONS.get(chosen) is decision
        action = chosen if agrees else "accept" if decision is Decision.ALLOW else "decline"
        self.inside["action"] = action
        if self.answer.reason or not agrees:
            self.lost.append(f"{decision} became {action}")

    def _permission(self) -> None:
        answer = self.answer
        if answer.decision is Decision.ALLOW:
            decision: dict[str, Any] = {"behavior": "allow"}
            if answer.updated_input is not None:
                decision["updatedInput"] = answer.updated_input
            if isinstance(answer.extras.get("updatedPermissions"), list):
                decision["updatedPermissions"] = answer.extras["updatedPermissions"]
            elif "updatedPermissions" in answer.extras:
                self.lost.append("`updatedPermissions` is not a list")
            if answer.reason:
                self.lost.append("the reason of an allow")
        else:
            decision = {"behavior": "deny", "message": answer.reason}
            if answer.stop:
                decision["interrupt"] = True
            if answer.decision is not Decision.DENY or not answer.reason:
                self.lost.append(f"{answer.decision} became a deny")
            if answer.updated_input is not None:
                self.lost.append("the rewritten input of a call that is denied")
            if "updatedPermissions" in answer.extras:
                self.lost.append("the permissions of a call that is denied")
        self.inside["decision"] = decision

    def texts(self) -> None:
        answer, to_user = self.answer, self.meanings.system_message == "user"
        if answer.stop:
            self._stop()
        elif answer.stop_reason:
            self.lost.append("a stop reason without a stop")
        blocks = answer.objection and self.output.get("reason") == answer.objection
        context = answer.beside_objection(self.meanings.join) if blocks else answer.context
        if context:
            if "additionalContext" in self.fields and (answer.keep_going or not self._context_keeps_going):
                self.inside["additionalContext"] = context
            elif not to_user:
                self.output["systemMessage"] = context
            else:
                self.lost.append(f"context can't be expressed on {self.name}")
        if answer.message:
            if to_user:
                self.output["systemMessage"] = answer.message
            else:
                self.lost.append("a message for the user only")

    def _stop(self) -> None:
        if self.meanings.continue_false == "deny" and self.denies:
            if self.answer.decision is not Decision.DENY:
                self._block(self.answer.stop_reason or "a hook stopped the run")
            self.lost.append("stop became a deny")
            return
        self.output["continue"] = False
        if self.answer.stop_reason:
            self.output["stopReason"] = self.answer.stop_reason

    def rewrites(self) -> None:
        answer = self.answer
        if answer.updated_input is not None and self.name != "PermissionRequest":
            if "updatedInput" in self.fields and answer.decision is not Decision.DEFER:
                self.inside["updatedInput"] = answer.updated_input
            else:
                self.lost.append(f"the rewritten input can't be expressed on {self.name}")
        elif answer.updated_input is not None and answer.decision is Decision.NONE:
            self.lost.append("a rewritten input without a decision")
        if answer.updated_output is not UNSET:
            if self.meanings.rewritten_output in self.fields and answer.updated_output is not None:
                self.inside[self.meanings.rewritten_output] = answer.updated_output
            else:
                self.lost.append(f"the rewritten output can't be expressed on {self.name}")

    def others(self) -> None:
        if self.answer.quiet:
            self.output["suppressOutput"] = True
        for key, value in self.answer.extras.items():
            if (key == "action" and key in self.inside) or (key == "updatedPermissions" and "decision" in self.inside):
                continue  # already written, or reported
            kind = UNIVERSAL[key] if key == "terminalSequence" else self.fields.get(key) if key in EXTRAS else None
            if kind is None or not CHECKS[kind](value):
                self.lost.append(f"`{key}` can't be expressed on {self.name}")
            else:
                (self.output if key == "terminalSequence" else self.inside)[key] = value
        if self.answer.data is not None:
            self.lost.append("`data` is for hooks of the same firing")
        if self.answer.background:
            self.lost.append("an answer that decides now can't also come later")

    def finished(self) -> tuple[dict[str, Any], list[str]]:
        if self.inside:
            self.output["hookSpecificOutput"] = {"hookEventName": self.name, **self.inside}
        heard = None if self.meanings.hears_all else SUPPORTED_FIELDS.get(self.name)
        if heard is not None:
            self.lost += [f"`{name}` has no effect on {self.name}" for name in self.output if name not in heard]
            self.output = {name: value for name, value in self.output.items() if name in heard}
        return self.output, self.lost

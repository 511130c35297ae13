"""Codex: the reference's form, read strictly.

A field that it does not know, `ask`, a deny without a reason, an `allow` that rewrites nothing, and before a tool also
`continue`, `stopReason` and `suppressOutput` make it drop the whole answer and run the tool. So nothing is written but
what is listed here.
"""

from typing import Final

from msgspec import UNSET
from msgspec.structs import replace

from billhook import meanings as rows
from billhook.agents.codec import (
    AgentDialect,
    MisheardError,
    Payload,
    Plain,
    Said,
    known,
    one_of,
    own_input,
    refusal,
    spoken,
)
from billhook.agents.names import own_name
from billhook.answers import NOTHING, Answer, Decision, Reply
from billhook.events import Block, Event

_TOP: Final = {"continue": bool, "stopReason": str, "suppressOutput": bool, "systemMessage": str}
_BLOCK: Final = {"decision": str, "reason": str}
_INSIDE: Final = {"hookSpecificOutput": dict}
_TAKES: Final[dict[str, dict[str, type]]] = {
    "PreToolUse": {**_TOP, **_BLOCK, **_INSIDE},
    "PostToolUse": {**_TOP, **_BLOCK, **_INSIDE},
    "UserPromptSubmit": {**_TOP, **_BLOCK, **_INSIDE},
    "PermissionRequest": {**_TOP, **_INSIDE},
    "SessionStart": {**_TOP, **_INSIDE},
    "SubagentStart": {**_TOP, **_INSIDE},
    "Stop": {**_TOP, **_BLOCK},
    "SubagentStop": {**_TOP, **_BLOCK},
}
"""By event: the fields at the top; the other events take the first four."""
_CONTEXT: Final[dict[str, type]] = {"hookEventName": str, "additionalContext": str}
_SPECIFIC: Final[dict[str, dict[str, type]]] = {
    "PreToolUse": {**_CONTEXT, "permissionDecision": str, "permissionDecisionReason": str, "updatedInput": dict},
    "PermissionRequest": {"hookEventName": str, "decision": dict},
}
"""By event: the fields inside `hookSpecificOutput`."""
_NOT_BEFORE: Final = ("continue", "stopReason", "suppressOutput")
_WORDS: Final = {"allow": Decision.ALLOW, "deny": Decision.DENY, "ask": Decision.ASK}


_ONLY_A_COMMAND: Final = ("Bash", "apply_patch")
"""Tools of whose rewritten input Codex takes over `command`, and passes over everything else in silence."""
_WORDS_ONLY: Final = ("description",)
"""Fields that say what the model is about, and change nothing of what the tool does."""


class _Codex(Plain):
    """How Codex speaks."""

    def refused(self, event: Event, wanted: Payload) -> str:
        if getattr(event, "tool_name", "") not in _ONLY_A_COMMAND:
            return ""
        odd = [key for key in _not_taken(event, wanted) if key not in _WORDS_ONLY]
        if odd:
            return f"Codex takes over nothing but `command`, and so not `{str(odd[0])[:60]}`"
        return "" if isinstance(wanted.get("command"), str) else "Codex needs its `command`, which is left out"

    def suit(self, event: Event, answer: Answer, lost: list[str]) -> Answer:
        if answer.updated_input is None or getattr(event, "tool_name", "") not in _ONLY_A_COMMAND:
            return answer
        odd = _not_taken(event, answer.updated_input)
        lost += [f"`{key}` of the input can't be said" for key in odd]
        said = {key: value for key, value in answer.updated_input.items() if key not in odd}
        return replace(answer, updated_input=said) if odd else answer

    def say(self, event: Event, answer: Answer) -> Said:
        name = event.hook_event_name
        if not own_name("codex", name):
            return refusal(answer)
        output, inside = self._decision(event, answer)
        if answer.stop:
            output |= {"continue": False} | ({"stopReason": answer.stop_reason} if answer.stop_reason else {})
        if answer.message:
            output["systemMessage"] = answer.message
        if answer.context:
            inside["additionalContext"] = answer.context
        if inside:
            output["hookSpecificOutput"] = {"hookEventName": name, **inside}
        return Said(output)

    def _decision(self, event: Event, answer: Answer) -> tuple[Payload, Payload]:
        name, denies = event.hook_event_name, answer.decision is Decision.DENY
        if name == "PreToolUse" and denies:
            return {}, {"permissionDecision": "deny", "permissionDecisionReason": answer.reason}
        if name == "PreToolUse" and answer.updated_input is not None:
            wanted = own_input(event, answer.updated_input, "codex")
            return {}, {"permissionDecision": "allow", "updatedInput": wanted}
        if name == "PermissionRequest" and answer.decision is not Decision.NONE:
            said = {"behavior": "deny", "message": answer.reason} if denies else {"behavior": "allow"}
            return {}, {"decision": said}
        if denies or answer.keep_going:
            return {"decision": "block", "reason": answer.reason}, {}
        if answer.updated_output is not UNSET:
            return {"decision": "block", "reason": answer.updated_output}, {}
        return {}, {}

    def hear(self, event: Event, output: Payload) -> Answer:
        name = event.hook_event_name
        fields = _strictly(output, _TAKES.get(name, _TOP), "")
        inside = _strictly(fields.get("hookSpecificOutput", {}), _SPECIFIC.get(name, _CONTEXT), "hookSpecificOutput.")
        said: Payload = {"message": fields.get("systemMessage", ""), "context": inside.get("additionalContext", "")}
        said |= self._heard_decision(event, fields, inside)
        if fields.get("continue") is False:
            said |= {"stop": True, "stop_reason": fields.get("stopReason", "")}
        if said.get("decision") is not Decision.DENY:
            _as_codex_does(name, output, inside)
        return Answer(**said)

    def _heard_decision(self, event: Event, fields: Payload, inside: Payload) -> Payload:
        if "permissionDecision" in inside:
            decision = one_of("hookSpecificOutput.permissionDecision", inside["permissionDecision"], _WORDS)
            if decision is Decision.ALLOW:  # all that it says is that the input may be another one
                return {"updated_input": _canonical(event, inside.get("updatedInput"))}
            return spoken(decision, inside.get("permissionDecisionReason", ""), event)
        if isinstance(inside.get("decision"), dict):
            wanted = known(inside["decision"], {"behavior": str, "message": str}, "hookSpecificOutput.decision.")
            decision = one_of("behavior", wanted.get("behavior", ""), _WORDS)
            return spoken(decision, wanted.get("message", "") if decision is Decision.DENY else "", event)
        if fields.get("decision") == "block":
            return _blocked(event, fields.get("reason", ""))
        if "decision" in fields:
            raise MisheardError(f'"decision": "{fields["decision"][:60]}" is not understood; write "decision": "block"')
        return {}

    def text(self, event: Event, text: str) -> Answer:
        return Answer(context=text) if event.text_is_context else NOTHING

    def block(self, event: Event, text: str) -> Reply:
        if event.hook_event_name == "PostToolUse" and text:
            return Reply(answer=Answer(updated_output=text))
        return super().block(event, text)


def _not_taken(event: Event, wanted: Payload) -> list[str]:
    """What of a rewritten input is new or another, and no command."""
    given = getattr(event, "tool_input", None)
    given = given if isinstance(given, dict) else {}
    return [key for key in wanted if key != "command" and (key not in given or wanted[key] != given[key])]


def _strictly(output: Payload, kinds: dict[str, type], path: str) -> Payload:
    fields = known(output, kinds, path)
    strange = [key for key in output if key not in kinds]
    if strange and not _denies(fields):
        raise MisheardError(f"Codex drops an answer with `{path}{str(strange[0])[:60]}`, which it does not know")
    return fields


def _denies(fields: Payload) -> bool:
    """Even a deny that Codex would drop is meant as one."""
    return fields.get("decision") == "block" or fields.get("permissionDecision") == "deny"


def _as_codex_does(name: str, output: Payload, inside: Payload) -> None:
    """Raises MisheardError for what Codex drops."""
    if name in ("PreToolUse", "PermissionRequest"):
        for key in _NOT_BEFORE:
            if output.get(key) not in (None, key == "continue", False if key == "suppressOutput" else None):
                raise MisheardError(f"Codex drops an answer with `{key}` on {name}")
    if "updatedInput" in inside and inside.get("permissionDecision") != "allow":
        raise MisheardError('Codex drops `updatedInput` without "permissionDecision": "allow"')
    if inside.get("permissionDecision") == "allow" and "updatedInput" not in inside:
        raise MisheardError('Codex drops "permissionDecision": "allow" without `updatedInput`')


def _blocked(event: Event, reason: str) -> Payload:
    if event.hook_event_name == "PostToolUse":
        return {"updated_output": reason} if reason else {}
    reason = reason or f"blocked by a {event.hook_event_name} hook"
    if event.block is Block.KEEP_GOING:
        return {"keep_going": True, "reason": reason}
    return {"decision": Decision.DENY, "reason": reason}


def _canonical(event: Event, given: Payload | None) -> Payload | None:
    from billhook.tools import canonical_input

    if given is None:
        return None
    found: Payload = canonical_input(str(getattr(event, "tool_name", "")), given, "codex")[0]
    return found


DIALECTS = {"codex": AgentDialect(meanings=rows.CODEX, voice=_Codex())}

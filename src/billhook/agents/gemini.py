"""Gemini CLI: its own names for events, `decision` and `reason` at the top, and `hookSpecificOutput.tool_input`.

It ignores `hookSpecificOutput.permissionDecision`: a deny hook of the reference, copied to it, allows. Context before
a tool is ignored, too, and waits here for AfterTool. A rewritten input is put over the old one.
"""

from collections.abc import Mapping
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
from billhook.answers import Answer, Decision, Reply
from billhook.events import Block, Event
from billhook.tools import canonical_input

_TOP: Final = {
    "continue": bool,
    "stopReason": str,
    "suppressOutput": bool,
    "systemMessage": str,
    "decision": str,
    "reason": str,
    "hookSpecificOutput": dict,
}
_SPECIFIC: Final = {"hookEventName": str, "additionalContext": str, "tool_input": dict}
_WORDS_ONLY: Final = ("description", "instruction")
"""Fields of an input that say what the model is about, and change nothing of what the tool does."""
_WORDS: Final = {
    "deny": Decision.DENY,
    "block": Decision.DENY,
    "ask": Decision.ASK,
    "allow": Decision.NONE,
    "approve": Decision.NONE,
}
"""An allow only says that this hook has no objection: the agent's own policy goes on."""


class _Gemini(Plain):
    """How Gemini CLI speaks."""

    def read(self, payload: Payload, env: Mapping[str, str]) -> Payload:
        if payload.get("hook_event_name") == "AfterAgent" and "prompt_response" in payload:
            payload.setdefault("last_assistant_message", payload["prompt_response"])
        return payload

    def kind(self, name: str, payload: Payload) -> str:
        """A tool that failed is an event of its own with us."""
        response = payload.get("tool_response")
        error = response.get("error") if isinstance(response, dict) else None
        if name != "PostToolUse" or not error:
            return name
        message = error.get("message") if isinstance(error, dict) else error
        payload.setdefault("error", message if isinstance(message, str) else "the tool failed")
        return "PostToolUseFailure"

    def refused(self, event: Event, wanted: Payload) -> str:
        gone = [key for key in _left_out(event, wanted) if key not in _WORDS_ONLY]
        return f"Gemini CLI would keep `{gone[0]}`, which it leaves out" if gone else ""

    def suit(self, event: Event, answer: Answer, lost: list[str]) -> Answer:
        """Where the output is replaced, nothing is appended to it; of an input, what does nothing stays."""
        if answer.updated_input is not None:
            kept = _left_out(event, answer.updated_input)
            lost += [f"`{key}` of the input stays as it was" for key in kept]
            answer = replace(answer, updated_input={**kept, **answer.updated_input})
        if answer.updated_output is UNSET or not answer.context:
            return answer
        lost.append("context is said as part of the rewritten output")
        return replace(answer, context="", updated_output=f"{answer.updated_output}\n\n{answer.context}")

    def say(self, event: Event, answer: Answer) -> Said:
        name = event.hook_event_name
        if not own_name("gemini", name):
            return refusal(answer, _decided("deny", answer.reason) | _stopped(answer))
        output: Payload = {}
        if answer.decision is Decision.DENY:
            output = _decided("deny", answer.reason)
        elif answer.keep_going:
            output = _decided("block", answer.reason)
        elif answer.updated_output is not UNSET:
            output = _decided("deny", answer.updated_output)
        output |= _stopped(answer)
        if answer.message:
            output["systemMessage"] = answer.message
        if answer.quiet:
            output["suppressOutput"] = True
        inside: Payload = {"additionalContext": answer.context} if answer.context else {}
        if answer.updated_input is not None:
            inside["tool_input"] = own_input(event, answer.updated_input, "gemini")
        if inside:
            output["hookSpecificOutput"] = {"hookEventName": own_name("gemini", name), **inside}
        return Said(output)

    def hear(self, event: Event, output: Payload) -> Answer:
        fields = known(output, _TOP)
        inside = known(fields.get("hookSpecificOutput", {}), _SPECIFIC, "hookSpecificOutput.")
        if "permissionDecision" in fields.get("hookSpecificOutput", {}) and "decision" not in fields:
            raise MisheardError('Gemini CLI ignores `permissionDecision`; write "decision": "deny" at the top level')
        said: Payload = {"message": fields.get("systemMessage", ""), "context": inside.get("additionalContext", "")}
        if "decision" in fields:
            said |= self._heard_decision(event, one_of("decision", fields["decision"], _WORDS), fields)
        if fields.get("continue") is False:
            said |= {"stop": True, "stop_reason": fields.get("stopReason", "")}
        if "tool_input" in inside:
            said["updated_input"] = _merged(event, inside["tool_input"])
        return Answer(**said, quiet=fields.get("suppressOutput", False))

    def _heard_decision(self, event: Event, decision: Decision, fields: Payload) -> Payload:
        reason = fields.get("reason", "")
        if decision is not Decision.DENY:
            return spoken(decision, reason, event) if decision is Decision.ASK else {}
        if event.hook_event_name == "PostToolUse":
            return {"updated_output": reason or "No reason provided"}
        if event.block is Block.KEEP_GOING:
            return {"keep_going": True, "reason": reason or "No reason provided"}
        return spoken(decision, reason, event)

    def text(self, event: Event, text: str) -> Answer:
        return Answer(message=text)

    def block(self, event: Event, text: str) -> Reply:
        if event.hook_event_name == "PostToolUse" and text:
            return Reply(answer=Answer(updated_output=text))
        return super().block(event, text)


def _left_out(event: Event, wanted: Payload) -> Payload:
    """What a rewritten input does not have any more."""
    given = getattr(event, "tool_input", None)
    return {key: value for key, value in given.items() if key not in wanted} if isinstance(given, dict) else {}


def _decided(word: str, reason: str) -> Payload:
    return {"decision": word, "reason": reason}


def _stopped(answer: Answer) -> Payload:
    if not answer.stop:
        return {}
    return {"continue": False} | ({"stopReason": answer.stop_reason} if answer.stop_reason else {})


def _merged(event: Event, wanted: Payload) -> Payload:
    """The input that the tool is run with."""
    said: Payload = canonical_input(str(getattr(event, "tool_name", "")), wanted, "gemini")[0]
    given = getattr(event, "tool_input", None)
    return {**given, **said} if isinstance(given, dict) else said


def _from_two(code: int) -> bool:
    return code >= 2


DIALECTS = {"gemini": AgentDialect(meanings=rows.GEMINI, voice=_Gemini(), blocking=_from_two)}

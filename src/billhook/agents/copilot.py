"""Copilot CLI, and VS Code's agent, which runs on it: both spellings of its events.

Entries under `preToolUse` get `toolName` and answer with fields at the top; entries under `PreToolUse`, also those of
`.claude/settings.json`, get the reference's names and answer in its words. An exit code of 2 blocks and loses the
reason, so a deny is JSON at exit code 0.
"""

from collections.abc import Mapping
from typing import Final

from msgspec import UNSET

from billhook import meanings as rows
from billhook import strictjson
from billhook.agents.codec import AgentDialect, Payload, Plain, Said, known, one_of, own_input, refusal, spoken
from billhook.agents.names import canonical_event, own_name
from billhook.answers import Answer, Decision
from billhook.errors import StrictJSONError
from billhook.events import Block, Event
from billhook.tools import NAMINGS, canonical_input

_RENAMED: Final = {
    "hookName": "hook_event_name",
    "sessionId": "session_id",
    "transcriptPath": "transcript_path",
    "workingDirectory": "cwd",
    "toolName": "tool_name",
    "toolArgs": "tool_input",
    "toolInput": "tool_input",
    "toolResult": "tool_response",
    "tool_result": "tool_response",
    "permissionSuggestions": "permission_suggestions",
    "agentId": "agent_id",
    "agentType": "agent_type",
    "agentName": "agent_name",
    "parentAgentId": "parent_agent_id",
    "response": "last_assistant_message",
    "stopReason": "stop_reason",
    "stopHookActive": "stop_hook_active",
    "initialPrompt": "initial_prompt",
    "customInstructions": "custom_instructions",
    "notificationType": "notification_type",
}
"""Its names of fields, and ours; of two for the same the first is used."""
_CAMEL: Final = ("sessionId", "toolName", "hookName")
_TOP: Final = {
    "permissionDecision": str,
    "permissionDecisionReason": str,
    "modifiedArgs": dict,
    "modifiedResult": dict,
    "additionalContext": str,
    "decision": str,
    "reason": str,
    "behavior": str,
    "message": str,
    "hookSpecificOutput": dict,
}
_SPECIFIC: Final = {
    "permissionDecision": str,
    "permissionDecisionReason": str,
    "updatedInput": dict,
    "additionalContext": str,
    "decision": dict,
}
_WORDS: Final = {"allow": Decision.ALLOW, "ask": Decision.ASK, "deny": Decision.DENY}
_MIXED: Final = ("PermissionRequest", "SubagentStart")
"""Events that come in the first spelling, whichever the entry has."""


class _Copilot(Plain):
    """How Copilot speaks."""

    def read(self, payload: Payload, env: Mapping[str, str]) -> Payload:
        camel = any(key in payload for key in _CAMEL)
        for own, name in _RENAMED.items():
            if own in payload and name not in payload:
                payload[name] = payload.pop(own)
        named = payload.get("hook_event_name")
        known_as = canonical_event(named) if isinstance(named, str) else ""
        if camel and known_as and named == known_as:  # the name came from the command line
            payload["original_event_name"] = own_name("copilot", known_as)
        if isinstance(payload.get("tool_input"), str):
            payload["tool_input"] = _object(payload["tool_input"])
        if isinstance(payload.get("agent_name"), str):
            payload.setdefault("agent_type", payload["agent_name"])
        return _with_mcp_name(payload)

    def write(self, payload: Payload, event: Event) -> Payload:
        back = {name: own for own, name in reversed(list(_RENAMED.items()))} | {"tool_input": "toolArgs"}
        del back["hook_event_name"]
        return {back.get(key, key): value for key, value in payload.items()}

    # -- saying

    def say(self, event: Event, answer: Answer) -> Said:
        name = event.hook_event_name
        if not own_name("copilot", name):
            return refusal(answer, {"decision": "block", "reason": answer.reason})
        output = self._top(event, answer)
        if answer.context:
            output["additionalContext"] = answer.context
        if output and (name in _MIXED or not _is_camel(event)):
            inside = self._inside(event, answer)
            if inside:
                output["hookSpecificOutput"] = {"hookEventName": name, **inside}
        return Said(output)

    def _top(self, event: Event, answer: Answer) -> Payload:
        name, denies = event.hook_event_name, answer.decision is Decision.DENY
        output: Payload = {}
        if name == "PreToolUse":
            output = _permission(answer)
            if answer.updated_input is not None:
                output["modifiedArgs"] = own_input(event, answer.updated_input, "copilot")
        elif name == "PermissionRequest" and answer.decision is not Decision.NONE:
            output = {"behavior": answer.decision.value} | ({"message": answer.reason} if denies else {})
        elif denies or answer.keep_going:
            output = {"decision": "block", "reason": answer.reason}
        if answer.updated_output is not UNSET:
            output["modifiedResult"] = {"resultType": _kind(event), "textResultForLlm": answer.updated_output}
        return output

    def _inside(self, event: Event, answer: Answer) -> Payload:
        """The same in the words of the reference."""
        inside: Payload = {}
        if event.hook_event_name == "PreToolUse":
            inside = _permission(answer)
            if answer.updated_input is not None:
                inside["updatedInput"] = own_input(event, answer.updated_input, "copilot")
        elif event.hook_event_name == "PermissionRequest" and answer.decision is not Decision.NONE:
            denies = answer.decision is Decision.DENY
            inside["decision"] = {"behavior": answer.decision.value} | ({"message": answer.reason} if denies else {})
        if answer.context:
            inside["additionalContext"] = answer.context
        return inside

    # -- hearing

    def hear(self, event: Event, output: Payload) -> Answer:
        top = known(output, _TOP)
        inside = known(top.get("hookSpecificOutput", {}), _SPECIFIC, "hookSpecificOutput.")
        said: Payload = {"context": top.get("additionalContext") or inside.get("additionalContext", "")}
        decisions = [_decided(event, fields) for fields in (top, inside)]
        order = list(Decision)
        decision, reason = max(decisions, key=lambda one: order.index(one[0]))
        if decision is not Decision.NONE:
            said |= spoken(decision, reason, event)
        elif top.get("decision") == "block":
            said |= _blocked(event, top.get("reason", ""), said["context"])
        given = top.get("modifiedArgs", inside.get("updatedInput"))
        if given is not None:
            said["updated_input"] = canonical_input(str(getattr(event, "tool_name", "")), given, "copilot")[0]
        result = top.get("modifiedResult", {})
        text = result.get("textResultForLlm", result.get("text_result_for_llm"))
        if isinstance(text, str):
            said["updated_output"] = text
        return Answer(**said)


def _is_camel(event: Event) -> bool:
    return event.payload.get("original_event_name") == own_name("copilot", event.hook_event_name)


def _permission(answer: Answer) -> Payload:
    if answer.decision is Decision.NONE:
        return {}
    reason = {"permissionDecisionReason": answer.reason} if answer.reason else {}
    return {"permissionDecision": answer.decision.value} | reason


def _decided(event: Event, fields: Payload) -> tuple[Decision, str]:
    """The decision that some fields hold, and its reason."""
    if "permissionDecision" in fields:
        decision = one_of("permissionDecision", fields["permissionDecision"], _WORDS)
        return decision, fields.get("permissionDecisionReason", "")
    wanted = fields.get("decision")
    behaviour = wanted.get("behavior") if isinstance(wanted, dict) else fields.get("behavior")
    if event.hook_event_name == "PermissionRequest" and isinstance(behaviour, str):
        told = wanted.get("message", "") if isinstance(wanted, dict) else fields.get("message", "")
        return one_of("behavior", behaviour, _WORDS), told if behaviour == "deny" and isinstance(told, str) else ""
    return Decision.NONE, ""


def _blocked(event: Event, reason: str, context: str) -> Payload:
    if event.block is Block.KEEP_GOING:
        return {"keep_going": True, "reason": reason or f"blocked by a {event.hook_event_name} hook"}
    if event.block is Block.MODEL:
        return {"context": "\n\n".join(text for text in (context, reason) if text)}
    return spoken(Decision.DENY, reason, event)


def _kind(event: Event) -> str:
    response = getattr(event, "tool_response", None)
    given = response if isinstance(response, dict) else {}
    kind = given.get("resultType", given.get("result_type"))
    return kind if isinstance(kind, str) else "success"


def _object(text: str) -> object:
    """Arguments that came as JSON in a string; other text, such as a patch, stays what it is."""
    try:
        found = strictjson.loads_leniently(text.encode("utf-8", "surrogatepass"), max_depth=400)
    except (StrictJSONError, UnicodeError):
        return text
    return found if isinstance(found, dict) else text


def _with_mcp_name(payload: Payload) -> Payload:
    """Tools of MCP servers are called `server-tool`, in a permission request `server/tool`; its own have no hyphen.

    Where there are several hyphens nobody can tell server and tool apart: the last one is taken.
    """
    called = payload.get("tool_name")
    if not isinstance(called, str) or called in NAMINGS["copilot"] or called.startswith("mcp__"):
        return payload
    server, slash, tool = called.partition("/")
    if not slash:
        server, slash, tool = called.rpartition("-")
    if slash and server and tool:
        payload |= {"tool_name": f"mcp__{server}__{tool}", "original_tool_name": called}
    return payload


DIALECTS = {"copilot": AgentDialect(meanings=rows.COPILOT, voice=_Copilot(), closed="code")}

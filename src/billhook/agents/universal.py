"""For an unknown caller: the one answer that denies in every agent that was tested.

That is an exit code of 2, the reason on stderr, and all dialects at once on stdout. No other answer works in all of
them: objections become a deny, and other answers are lost.
"""

from collections.abc import Mapping
from typing import Final

import msgspec

from billhook.agents import AGENTS, dialect
from billhook.agents.base import REFUSE, REFUSE_PERMISSION, REFUSE_TOOL, Agent, Capabilities, Refusal
from billhook.agents.child import exits
from billhook.agents.codec import AgentDialect, Payload, block, checked_fields, decision_fields, kinds
from billhook.core import dialect_traits as rows
from billhook.core import strictjson
from billhook.core.answers import Answer, Decision, Exit
from billhook.core.events import EVENTS, Block, Event, read_object

_TOP: Final = kinds("decision reason permissionDecision permission", objects="hookSpecificOutput")


class UniversalDialect(AgentDialect):
    """Reads any agent's payload, and denies in a way that all of them obey."""

    def read_call(self, stdin: bytes, env: Mapping[str, str]) -> Event:
        return dialect(speaker(read_object(stdin))).read_call(stdin, env)

    def row(self, event: Event) -> Capabilities:
        """Only a block: it denies, or keeps an agent running."""
        keeps_going = event.block is Block.KEEP_GOING
        return msgspec.structs.replace(super().row(event), keep_going=keeps_going)

    def encode(self, event: Event, answer: Answer) -> Exit:
        name, reason = event.hook_event_name, answer.reason
        if answer.keep_going:  # Copilot ignores the exit code here
            return exits(0, strictjson.dumps(block(reason)) + "\n")
        if answer.decision is not Decision.DENY:
            return exits(0)
        refusal = AGENT.refusal("client", name)
        output = refusal.output(reason)
        if "hookSpecificOutput" in output:
            output["hookSpecificOutput"]["hookEventName"] = name
        return exits(refusal.code, strictjson.dumps(output) + "\n", reason if refusal.code else "")

    def decode_answer(self, event: Event, output: Payload) -> Answer:
        fields = checked_fields(output, _TOP)
        inside = fields.get("hookSpecificOutput", {})
        permission = inside.get("decision")
        words = [fields.get("permissionDecision"), fields.get("permission"), inside.get("permissionDecision")]
        if isinstance(permission, dict):
            words.append(permission.get("behavior"))
        if "deny" in words or fields.get("decision") in ("block", "deny"):
            if event.block is Block.KEEP_GOING:
                return Answer(keep_going=True, reason=fields.get("reason", "") or "blocked by a hook")
            told = permission.get("message") if isinstance(permission, dict) else None
            reason = fields.get("reason") or told or inside.get("permissionDecisionReason")
            return Answer(**decision_fields(Decision.DENY, reason if isinstance(reason, str) else "", event))
        return Answer()


def speaker(payload: Mapping[str, object]) -> str:
    """The dialect of an event, by its fields alone: an agent's dialect, `codex` for the reference's format."""
    likely = max(AGENTS.values(), key=lambda agent: agent.sends(payload, {}))
    if likely.sends(payload, {}) > 1:
        return likely.name
    tool = payload.get("tool_name", payload.get("toolName"))
    owners = [name for name, one in AGENTS.items() if isinstance(tool, str) and tool in one.tools]
    if len(owners) == 1:
        return owners[0]
    if "toolName" in payload or "sessionId" in payload or "tool_result" in payload:
        return "copilot"
    if "conversation_id" in payload or "cursor_version" in payload:
        return "cursor"
    named = payload.get("hook_event_name")
    if isinstance(named, str) and named not in EVENTS:
        owners = [name for name, one in AGENTS.items() if named in (*one.event_names.values(), *one.narrower)]
        if len(owners) == 1:
            return owners[0]
    if "timestamp" in payload:  # neither the reference nor Codex sends it
        return "qwen" if "transcript_path" in payload else "copilot"
    return "codex"


_REFUSAL: Final = {
    **REFUSE,
    **REFUSE_TOOL,
    "permission": "deny",
    "user_message": "@",
    "agent_message": "@",
    "hookSpecificOutput": {"hookEventName": "PreToolUse", **REFUSE_TOOL},
}
AGENT: Final = Agent(
    name="universal",
    title="an unknown agent",
    meanings=rows.UNIVERSAL,
    refusals=(
        # with an exit code Copilot would allow the prompt, with a further field Codex would
        Refusal("prompt", 0, {**REFUSE, "continue": False, "stopReason": "@"}),
        Refusal("permission", 0, REFUSE_PERMISSION),  # Claude Code ignores the exit code here
        Refusal("", 2, _REFUSAL),
    ),
)
DIALECTS = {"universal": UniversalDialect(AGENT)}

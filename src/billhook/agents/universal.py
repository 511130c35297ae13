"""For a caller that nobody knows: the one answer that denies in every agent that was tried.

That is an exit code of 2, the reason on stderr, and all dialects at once on stdout. Nothing else can be said so that
all of them obey: what is no deny is lost, and what holds a call up becomes one.
"""

from collections.abc import Mapping
from typing import Final

import msgspec

from billhook.agents import AGENTS
from billhook.agents.base import FAILURE_BLOCK, FAILURE_PERMISSION, FAILURE_TOOL, Agent, Capabilities, Failure
from billhook.agents.codec import AgentDialect, EncodedAnswer, Payload, Plain, known, spoken
from billhook.agents.inbound import received_object
from billhook.core import dialect_traits as rows
from billhook.core.answers import Answer, Decision
from billhook.core.events import Block, Event

_TOP = {"decision": str, "reason": str, "permissionDecision": str, "permission": str, "hookSpecificOutput": dict}


class _Universal(Plain):
    """How one speaks to everybody."""

    def row(self, event: Event, row: Capabilities) -> Capabilities:
        """Nothing but a block: that denies, or makes an agent go on."""
        keeps_going = event.block is Block.KEEP_GOING
        return msgspec.structs.replace(row, keep_going=keeps_going)

    def say(self, event: Event, answer: Answer) -> EncodedAnswer:
        name, reason = event.hook_event_name, answer.reason
        block = {"decision": "block", "reason": reason}
        if answer.keep_going:
            return EncodedAnswer(block)  # Copilot does not hear an exit code here
        if answer.decision is not Decision.DENY:
            return EncodedAnswer({})
        if name == "UserPromptSubmit":  # an exit code would let the prompt pass in Copilot, a further field in Codex
            return EncodedAnswer({**block, "continue": False, "stopReason": reason})
        if name == "PermissionRequest":  # Claude Code does not hear an exit code here
            inside = {"hookEventName": name, "decision": {"behavior": "deny", "message": reason}}
            return EncodedAnswer({"hookSpecificOutput": inside})
        return EncodedAnswer(_in_all_words(name, reason), 2, reason)

    def hear(self, event: Event, output: Payload) -> Answer:
        fields = known(output, _TOP)
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
            return Answer(**spoken(Decision.DENY, reason if isinstance(reason, str) else "", event))
        return Answer()


def _in_all_words(name: str, reason: str) -> Payload:
    return {
        "decision": "block",
        "reason": reason,
        "permissionDecision": "deny",
        "permissionDecisionReason": reason,
        "permission": "deny",
        "agent_message": reason,
        "user_message": reason,
        "hookSpecificOutput": {
            "hookEventName": name,
            "permissionDecision": "deny",
            "permissionDecisionReason": reason,
        },
    }


def speaker(payload: Mapping[str, object]) -> str:
    """Whose words an event is in, by its fields alone: an agent's dialect, `codex` for the reference's form."""
    if "toolName" in payload or "sessionId" in payload or "tool_result" in payload:
        return "copilot"
    if "conversation_id" in payload or "cursor_version" in payload:
        return "cursor"
    named = payload.get("hook_event_name")
    if isinstance(named, str):
        if named in ("BeforeTool", "AfterTool", "BeforeAgent", "AfterAgent", "PreCompress"):
            return "gemini"
        if named in AGENTS["cursor"].narrower:
            return "cursor"
        if named == AGENTS["copilot"].event_names["UserPromptSubmit"]:
            return "copilot"
    if "timestamp" in payload:  # which neither the reference nor Codex sends
        return "qwen" if "transcript_path" in payload else "copilot"
    return "codex"


class UniversalDialect(AgentDialect, frozen=True, kw_only=True):
    """Reads what any agent sends, and denies so that all of them obey."""

    def read_call(self, stdin: bytes, env: Mapping[str, str]) -> Event:
        from billhook.agents import dialect

        return dialect(speaker(received_object(stdin))).read_call(stdin, env)


_FAILURE: Final = {
    **FAILURE_BLOCK,
    **FAILURE_TOOL,
    "permission": "deny",
    "user_message": "@",
    "agent_message": "@",
    "hookSpecificOutput": {"hookEventName": "PreToolUse", **FAILURE_TOOL},
}
AGENT: Final = Agent(
    name="universal",
    title="an agent that billhook does not know",
    meanings=rows.UNIVERSAL,
    failures=(
        Failure("prompt", 0, {**FAILURE_BLOCK, "continue": False, "stopReason": "@"}),
        Failure("permission", 0, FAILURE_PERMISSION),
        Failure("", 2, _FAILURE),
    ),
)
DIALECTS = {"universal": UniversalDialect(agent=AGENT, voice=_Universal())}

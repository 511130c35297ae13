"""Who really calls a hook that was installed for Claude Code.

Other agents read Claude Code's settings, or import them once, and run the hooks in them: with a payload and an
environment of their own, and with their own response format. The payload decides: an agent that was started by another
one has the variables of both. An unknown caller is Claude Code.

This runs at every tool call, so the records of the other agents are only imported for payloads that Claude Code never
sends.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from billhook.agents import EVERY_AGENT, TABLE
from billhook.core.events import EVENTS

if TYPE_CHECKING:
    from billhook.core.answers import Answer

OTHERS: Final = frozenset(TABLE) - {"claude"}
"""The agents that may bring the same call twice, and that can't be told everything at every event."""
_FOREIGN: Final = frozenset(
    ("timestamp", "turn_id", "conversation_id", "cursor_version", "hookEventName", "sessionId", "original_event_name")
)
"""Fields that Claude Code does not send."""


def who_calls(said: str, payload: Mapping[str, Any], environ: Mapping[str, str]) -> str:
    """The agent that this payload is from, where `--as` said `claude`; else the one that was said."""
    if said != "claude" or not _may_be_foreign(payload):
        return said
    found = max(EVERY_AGENT.values(), key=lambda agent: agent.sends(payload, environ))
    return found.name if found.sends(payload, environ) else said


def _may_be_foreign(payload: Mapping[str, Any]) -> bool:
    if not _FOREIGN.isdisjoint(payload) or payload.get("hook_event_name") not in EVENTS:
        return True
    return "model" in payload and "/.claude/" not in str(payload.get("transcript_path"))


def with_sent_names(agent: str, stdin: bytes, answer: "Answer") -> "Answer":
    """The answer with its rewritten input in the names that an agent sent, where these are not those of its dialect."""
    input_for = EVERY_AGENT[agent].input_for
    if input_for is None:
        return answer
    from msgspec.structs import replace

    from billhook.core import strictjson

    sent = strictjson.loads_leniently(stdin, max_depth=400).get("tool_input")
    return replace(answer, updated_input=input_for(answer.updated_input or {}, sent if isinstance(sent, dict) else {}))

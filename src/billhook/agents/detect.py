"""Who really calls a hook that was installed for Claude Code.

Other agents read Claude Code's settings, or import them once, and run what stands there: with a payload and an
environment of their own, and they obey words of their own. The payload decides: an agent that was started by another
one has the variables of both. Whom nobody can tell is Claude Code.

This runs at every tool call: a few looks at what was read anyhow.
"""

from collections.abc import Mapping
from typing import Any, Final

_COPILOTS: Final = ("COPILOT_PROJECT_DIR", "COPILOT_CLI", "COPILOT_HOOK_DIR")
_QWENS: Final = ("QWEN_PROJECT_DIR", "QWEN_CODE")
_GEMINIS: Final = frozenset(
    (
        "BeforeTool",
        "AfterTool",
        "BeforeAgent",
        "AfterAgent",
        "BeforeModel",
        "AfterModel",
        "BeforeToolSelection",
        "PreCompress",
    )
)
"""Events that nobody else calls so."""
OTHERS: Final = frozenset({"copilot", "cursor", "vscode", "codex", "gemini", "qwen"})
"""The agents that may bring the same call twice, and that can't be told everything at every event."""
_SPOKEN: Final = {"vscode": "claude"}  # agents that speak another one's dialect


def who_calls(said: str, payload: Mapping[str, Any], environ: Mapping[str, str]) -> str:
    """The agent that this payload is from, where `--as` said `claude`; else the one that was said.

    One of `claude`, `copilot`, `vscode`, `cursor`, `codex`, `gemini`, `qwen`.
    """
    if said != "claude":
        return said
    if "cursor_version" in payload or ("conversation_id" in payload and "generation_id" in payload):
        return "cursor"
    if "model" in payload and ("turn_id" in payload or "/.codex/" in str(payload.get("transcript_path"))):
        return "codex"
    if payload.get("original_event_name", payload.get("hook_event_name")) in _GEMINIS:
        return "gemini"
    if "hook_event_name" not in payload:
        return _without_a_name(payload)
    # of those that are left only Claude Code says no time
    return _with_a_time(payload, environ) if "timestamp" in payload else "claude"


def _without_a_name(payload: Mapping[str, Any]) -> str:
    """VS Code spells the event's name in its own way, and Copilot does not always say it."""
    if "hookEventName" in payload:
        return "vscode"
    return "copilot" if "sessionId" in payload and "timestamp" in payload else "claude"


def _with_a_time(payload: Mapping[str, Any], environ: Mapping[str, str]) -> str:
    if environ.get("GEMINI_SESSION_ID") and environ.get("GEMINI_SESSION_ID") == payload.get("session_id"):
        return "gemini"
    if _any_of(_QWENS, environ) and "transcript_path" in payload:
        return "qwen"
    return "copilot" if _any_of(_COPILOTS, environ) and "permission_mode" not in payload else "claude"


def event_of(agent: str, payload: Mapping[str, Any]) -> str:
    """The event that an agent means which does not say so: Copilot leaves the name out at the start of a subagent,
    however the entry spells it."""
    told = ("hook_event_name", "hookName", "toolName", "stopReason")
    unsaid = agent == "copilot" and "agentName" in payload and not any(name in payload for name in told)
    return "SubagentStart" if unsaid else ""


def _any_of(names: tuple[str, ...], environ: Mapping[str, str]) -> bool:
    return any(environ.get(name) for name in names)


def dialect_of(agent: str) -> str:
    """The name of the dialect that an agent speaks."""
    return _SPOKEN.get(agent, agent)

"""Who really calls a hook that was installed for Claude Code.

Other agents read Claude Code's settings, or import them once, and run what stands there: with a payload and an
environment of their own, and they obey words of their own. The payload decides: an agent that was started by another
one has the variables of both. Whom nobody can tell is Claude Code.

This runs at every tool call: a few looks at what was read anyhow.
"""

from collections.abc import Mapping
from typing import Any, Final

_GEMINIS: Final = frozenset({"BeforeTool", "AfterTool", "BeforeAgent", "AfterAgent", "PreCompress"})
_COPILOTS: Final = ("COPILOT_PROJECT_DIR", "COPILOT_CLI", "COPILOT_HOOK_DIR")
_QWENS: Final = ("QWEN_PROJECT_DIR", "QWEN_CODE", "QWEN_SESSION_ID")
OTHERS: Final = frozenset({"copilot", "cursor", "vscode", "codex", "gemini", "qwen"})
"""The agents that may bring the same call twice, and that can't be told everything at every event."""
_SPOKEN: Final = {"vscode": "claude"}
"""Agents that speak another one's dialect."""


def who_calls(said: str, payload: Mapping[str, Any], environ: Mapping[str, str]) -> str:
    """The agent that this payload is from, where `--as` said `claude`; else the one that was said.

    One of `claude`, `copilot`, `vscode`, `cursor`, `codex`, `gemini`, `qwen`.
    """
    if said != "claude":
        return said
    if "cursor_version" in payload or ("conversation_id" in payload and "generation_id" in payload):
        return "cursor"
    if "turn_id" in payload and "model" in payload:
        return "codex"
    if "hook_event_name" not in payload:
        return _without_a_name(payload)
    if payload["hook_event_name"] in _GEMINIS:
        return "gemini"
    if "timestamp" not in payload:  # of those that are left only Claude Code says no time
        return "claude"
    if "permission_mode" in payload:
        return "qwen" if _any_of(_QWENS, environ) else "claude"
    return "copilot" if _any_of(_COPILOTS, environ) else "claude"


def _without_a_name(payload: Mapping[str, Any]) -> str:
    """VS Code spells the event's name in its own way, and Copilot does not say it."""
    if "hookEventName" in payload:
        return "vscode"
    return "copilot" if "sessionId" in payload and "timestamp" in payload else "claude"


def _any_of(names: tuple[str, ...], environ: Mapping[str, str]) -> bool:
    return any(environ.get(name) for name in names)


def dialect_of(agent: str) -> str:
    """The name of the dialect that an agent speaks."""
    return _SPOKEN.get(agent, agent)

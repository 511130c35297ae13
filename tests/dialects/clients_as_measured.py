"""What each agent did with a hook's answer when it was tried: the rules of the measured grid, as code.

Only what was seen on the real agents, or read in what they ship (Cursor), is here; so a codec is held against the agent
and not against itself.
"""

import json
from collections.abc import Callable
from typing import Any, NamedTuple

from billhook.core.answers import Exit


class Effect(NamedTuple):
    """What became of a shell call that was about to run."""

    runs: bool = True
    reason: str = ""
    """What the model read about a call that did not run."""
    rewritten: dict[str, Any] | None = None
    context: str = ""
    ends: bool = False
    """The run of the agent ended."""


def _json(ended: Exit) -> dict[str, Any] | None:
    try:
        found = json.loads(ended.stdout_text)
    except ValueError:
        return None
    return found if isinstance(found, dict) else None


def claude(ended: Exit) -> Effect:
    """Claude Code 2.1.325."""
    if ended.code == 2:
        return Effect(runs=False, reason=ended.stderr_text)
    reported = _json(ended) or {}
    inside = reported.get("hookSpecificOutput", {})
    ends = reported.get("continue") is False
    if reported.get("decision") == "block":
        return Effect(runs=False, reason=reported.get("reason", ""), ends=ends)
    if inside.get("permissionDecision") in ("deny", "ask"):  # no user can be asked
        return Effect(runs=False, reason=inside.get("permissionDecisionReason", ""), ends=ends)
    # `continue: false` ends the loop after the call
    return Effect(rewritten=inside.get("updatedInput"), context=inside.get("additionalContext", ""), ends=ends)


_CODEX_TOP = {"continue", "stopReason", "suppressOutput", "systemMessage", "decision", "reason", "hookSpecificOutput"}
_CODEX_INSIDE = {
    *("hookEventName", "permissionDecision", "permissionDecisionReason", "updatedInput", "additionalContext")
}


def codex(ended: Exit) -> Effect:
    """Codex 0.166."""
    if ended.code == 2:
        reason = ended.stderr_text.strip()
        return Effect(runs=not reason, reason=reason)
    reported = _json(ended) if ended.code == 0 else None
    if reported is None or not set(reported) <= _CODEX_TOP:
        return Effect()
    inside = reported.get("hookSpecificOutput", {})
    dropped = reported.get("continue") is False or "stopReason" in reported or reported.get("suppressOutput") is True
    if dropped or not set(inside) <= _CODEX_INSIDE:
        return Effect()
    decision, reason = inside.get("permissionDecision"), inside.get("permissionDecisionReason", "").strip()
    if decision == "deny" and reason:
        return Effect(runs=False, reason=reason, context=inside.get("additionalContext", ""))
    if reported.get("decision") == "block" and reported.get("reason", "").strip():
        return Effect(runs=False, reason=reported["reason"])
    if decision == "allow" and "updatedInput" in inside:
        return Effect(rewritten=inside["updatedInput"], context=inside.get("additionalContext", ""))
    if decision is not None or "updatedInput" in inside or "decision" in reported:
        return Effect()
    return Effect(context=inside.get("additionalContext", ""))


def gemini(ended: Exit) -> Effect:
    """Gemini CLI 0.61."""
    if ended.code is not None and ended.code >= 2:
        reason = ended.stderr_text.strip() or ended.stdout_text.strip()
        return Effect(runs=not reason, reason=reason)
    reported = (_json(ended) if ended.code == 0 else None) or {}
    reason = reported.get("stopReason") or reported.get("reason") or ""
    if reported.get("continue") is False:
        return Effect(runs=False, reason=reason, ends=True)
    if reported.get("decision") in ("deny", "block"):
        return Effect(runs=False, reason=reason)
    return Effect(rewritten=reported.get("hookSpecificOutput", {}).get("tool_input"))


def qwen(ended: Exit) -> Effect:
    """Qwen Code 0.15.10."""
    if ended.code == 2:
        return Effect(runs=False, reason=ended.stderr_text)
    reported = (_json(ended) if ended.code == 0 else None) or {}
    inside = reported.get("hookSpecificOutput", {})
    if inside.get("permissionDecision") in ("deny", "ask"):
        return Effect(runs=False, reason=inside.get("permissionDecisionReason", ""))
    if reported.get("decision") in ("deny", "block", "ask") or reported.get("continue") is False:
        return Effect(runs=False, reason=reported.get("stopReason") or reported.get("reason", ""))
    return Effect()


def copilot(ended: Exit) -> Effect:
    """Copilot CLI 1.0.102, entries under `preToolUse`."""
    if ended.code != 0:
        told = _json(ended) or {}  # of an exit code only the answer that holds all words gave its reason away
        return Effect(runs=False, reason=told.get("permissionDecisionReason", ""))
    reported = _json(ended) or {}
    if reported.get("permissionDecision") == "deny":
        return Effect(runs=False, reason=reported.get("permissionDecisionReason", ""))
    return Effect(rewritten=reported.get("modifiedArgs"), context=reported.get("additionalContext", ""))


def copilot_pascal(ended: Exit) -> Effect:
    """The same, entries under `PreToolUse`: the reference's words count."""
    inside = (_json(ended) or {}).get("hookSpecificOutput", {})
    if ended.code == 0 and inside.get("permissionDecision") == "deny":
        return Effect(runs=False, reason=inside.get("permissionDecisionReason", ""))
    return copilot(ended)


def cursor(ended: Exit) -> Effect:
    """Cursor, `preToolUse`, as its SDK has it: of a shell call `command`, `cwd` and `timeout` are taken over."""
    if ended.code == 2:
        return Effect(runs=False, reason=ended.stdout_text.strip() or ended.stderr_text.strip())
    reported = _json(ended) or {}
    permission = reported.get("permission")
    if permission == "deny" or permission not in (None, "allow", "ask"):
        return Effect(runs=False, reason=reported.get("user_message", ""))
    return Effect(rewritten=reported.get("updated_input"), context=reported.get("additional_context", ""))


CLIENTS: dict[str, tuple[str, Callable[[Exit], Effect]]] = {
    "claude": ("claude", claude),
    "codex": ("codex", codex),
    "gemini": ("gemini", gemini),
    "qwen": ("qwen", qwen),
    "copilot": ("copilot", copilot),
    "copilot, Pascal": ("copilot", copilot_pascal),
    "cursor": ("cursor", cursor),
}
"""By name: the dialect, and how the agent treats an answer in it."""

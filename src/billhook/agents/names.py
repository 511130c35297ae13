"""What each agent calls the events, and which of ours is meant by a name that any of them uses.

Only names, so that who merely has to know which event is meant needs no codec.
"""

from collections.abc import Mapping
from typing import Final

from billhook.events import EVENTS

_LIKE_CLAUDE: Final = (
    "PreToolUse PostToolUse UserPromptSubmit SessionStart SessionEnd Stop SubagentStart SubagentStop PreCompact "
    "PermissionRequest"
)

EVENT_NAMES: Final[Mapping[str, Mapping[str, str]]] = {
    "claude": {name: name for name in EVENTS},
    "codex": {name: name for name in f"{_LIKE_CLAUDE} PostCompact".split()},
    "gemini": {
        "PreToolUse": "BeforeTool",
        "PostToolUse": "AfterTool",
        "PostToolUseFailure": "AfterTool",
        "UserPromptSubmit": "BeforeAgent",
        "SessionStart": "SessionStart",
        "SessionEnd": "SessionEnd",
        "Stop": "AfterAgent",
        "PreCompact": "PreCompress",
        "Notification": "Notification",
    },
    "qwen": {name: name for name in f"{_LIKE_CLAUDE} PostCompact PostToolUseFailure Notification".split()},
    "copilot": {
        "PreToolUse": "preToolUse",
        "PostToolUse": "postToolUse",
        "PostToolUseFailure": "postToolUseFailure",
        "UserPromptSubmit": "userPromptSubmitted",
        "SessionStart": "sessionStart",
        "SessionEnd": "sessionEnd",
        "Stop": "agentStop",
        "SubagentStart": "subagentStart",
        "SubagentStop": "subagentStop",
        "PreCompact": "preCompact",
        "PermissionRequest": "permissionRequest",
        "Notification": "notification",
    },
    "cursor": {
        "PreToolUse": "preToolUse",
        "PostToolUse": "postToolUse",
        "PostToolUseFailure": "postToolUseFailure",
        "UserPromptSubmit": "beforeSubmitPrompt",
        "SessionStart": "sessionStart",
        "SessionEnd": "sessionEnd",
        "Stop": "stop",
        "SubagentStart": "subagentStart",
        "SubagentStop": "subagentStop",
        "PreCompact": "preCompact",
    },
}
"""By agent: our name of an event, and its own, as it stands in that agent's settings."""

NARROWER: Final[Mapping[str, Mapping[str, str]]] = {
    "cursor": {
        "beforeShellExecution": "PreToolUse",
        "beforeMCPExecution": "PreToolUse",
        "beforeReadFile": "PreToolUse",
        "beforeTabFileRead": "PreToolUse",
        "afterShellExecution": "PostToolUse",
        "afterMCPExecution": "PostToolUse",
        "afterFileEdit": "PostToolUse",
        "afterTabFileEdit": "PostToolUse",
    },
}
"""By agent: further names of its own, each for some of what one event of ours is about."""

TOOLS_OF: Final[Mapping[str, str]] = {
    "beforeShellExecution": "Bash",
    "afterShellExecution": "Bash",
    "beforeMCPExecution": "mcp__.*",
    "afterMCPExecution": "mcp__.*",
    "beforeReadFile": "Read",
    "beforeTabFileRead": "Read",
    "afterFileEdit": "Edit|MultiEdit|Write",
    "afterTabFileEdit": "Edit|MultiEdit|Write",
}
"""By such a name: the tools that it is about."""

OTHERS: Final = frozenset(
    [
        "BeforeModel",
        "AfterModel",
        "BeforeToolSelection",
        "errorOccurred",
        "userPromptTransformed",
        "afterAgentResponse",
        "afterAgentThought",
        "workspaceOpen",
        "TodoCreated",
        "TodoCompleted",
        "SessionDelete",
    ]
)
"""Events that only one agent has, and we no type for: by its own names."""

TITLES: Final[Mapping[str, str]] = {
    "claude": "Claude Code",
    "codex": "Codex",
    "gemini": "Gemini CLI",
    "qwen": "Qwen Code",
    "copilot": "Copilot",
    "cursor": "Cursor",
    "universal": "an agent that billhook does not know",
}
"""What people call them."""


def _fold(name: str) -> str:
    return name.replace("_", "").replace("-", "").lower()


_MEANT: Final = {
    _fold(own): name
    for rows in (*({own: name for name, own in row.items()} for row in EVENT_NAMES.values()), *NARROWER.values())
    for own, name in rows.items()
} | {_fold(name): name for name in EVENTS}
_MEANT["aftertool"] = "PostToolUse"


def canonical_event(name: str) -> str:
    """The event that any agent means by a name, in whatever case and with or without `_` and `-`; "" when none does.

    An agent that has one name for two events (Gemini's `AfterTool`) gives the wider one.
    """
    return name if name in EVENTS else _MEANT.get(_fold(name[:100]), "")


def own_events(agent: str, name: str) -> str:
    """What a name in an agent's own file means: our name of the event, or the name itself where it is about a part of
    one or about something that only this agent has; "" when the agent has no such event."""
    ours = {own: event for event, own in reversed(list(EVENT_NAMES.get(agent, {}).items()))}.get(name, "")
    return ours or (name if name in NARROWER.get(agent, {}) or (agent != "claude" and name in OTHERS) else "")


def whole(name: str) -> str:
    """The event of ours that a narrower name is about a part of; any other name as it is."""
    return next((rows[name] for rows in NARROWER.values() if name in rows), name)


def is_own_name(name: str) -> bool:
    """Whether some agent has an event of exactly that name."""
    return name in OTHERS or any(own_events(agent, name) for agent in EVENT_NAMES)


def own_name(dialect: str, event: str) -> str:
    """What an agent calls an event of ours; "" when it has no such event."""
    return EVENT_NAMES.get(dialect, {}).get(event, "")

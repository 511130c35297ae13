"""What each agent can be told, event by event: one row of data each, and what becomes of the rest.

A codec says what its row says it can; the rest is rounded toward deny, or held for a later event, and reported.
A test holds every codec against its row in both directions.
"""

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Final

import msgspec

from billhook.agents.names import NARROWER

FIELDS: Final = (
    "allow",
    "deny",
    "ask",
    "rewrite_input",
    "replace_output",
    "context",
    "stop",
    "keep_going",
    "message",
)
"""What a hook can want, in the order of the tables."""


class Can(msgspec.Struct, frozen=True, kw_only=True):
    """What an agent does when it is told so on one event."""

    allow: bool = False  # runs it without asking the person
    deny: bool = False  # does not do it, and tells why
    ask: bool = False  # asks the person
    rewrite_input: bool = False  # runs the tool with another input
    replace_output: bool = False  # shows the model another output
    context: bool = False  # tells the model something
    stop: bool = False  # ends its run
    keep_going: bool = False  # goes on when it wanted to stop
    message: bool = False  # tells the person something
    quiet: bool = False  # knows `suppressOutput`: the answer is hidden from the person
    instead: Mapping[str, str] = MappingProxyType({})  # for a field that is false: in one clause, what becomes of it

    def wants(self) -> tuple[str, ...]:
        """The fields that are true."""
        return tuple(field for field in FIELDS if getattr(self, field))

    def becomes(self, field: str) -> str:
        """What becomes of something that can't be said; "" when it can."""
        return "" if getattr(self, field) else self.instead.get(field, "is lost")


def _row(can: str = "", **instead: str) -> Can:
    flags = dict.fromkeys(can.split(), True)
    return Can(**flags, instead=MappingProxyType(instead))


_ASK: Final = "becomes deny"
_REWRITE: Final = "becomes deny, with the input that was wanted"
_STOP: Final = "becomes deny"
_ALLOW: Final = "is left to the agent's own permissions"
_LATE: Final = "is told to the model as context"
_BLOCK: Final = "becomes a block, whose reason the model reads beside the result"
_SHOWN: Final = "is shown to the person only"
_HELD: Final = "held until PostToolUse"
_NEXT: Final = "held until PreToolUse or PostToolUse"
_NOTHING: Final = {"deny": "is lost: this can't be prevented"}
_OUTPUT: Final = "replaces the output"
_ON: Final = "makes it go on"
_ENDS: Final = "is what happens anyway"

_CLAUDE: Final[Mapping[str, Can]] = {
    "PreToolUse": _row("allow deny ask rewrite_input context stop message"),
    "PostToolUse": _row("replace_output context stop message", deny=_BLOCK),
    "PostToolUseFailure": _row("context stop message", deny=_BLOCK),
    "PostToolBatch": _row("context stop message", deny="ends the run"),
    "PermissionRequest": _row("allow deny rewrite_input stop message", ask=_ASK),
    "PermissionDenied": _row("stop message"),
    "UserPromptSubmit": _row("deny context stop message", ask=_ASK),
    "UserPromptExpansion": _row("deny context stop message", ask=_ASK),
    "Notification": _row("context stop message"),
    "MessageDisplay": _row("stop message"),
    "SessionStart": _row("context stop message", deny=_SHOWN),
    "SessionEnd": _row(**_NOTHING),
    "Setup": _row("context stop message", deny=_SHOWN),
    "Stop": _row("context stop keep_going message", deny="makes it go on"),
    "StopFailure": _row(),
    "SubagentStart": _row("context stop message", deny=_SHOWN),
    "SubagentStop": _row("context stop keep_going message", deny="makes it go on"),
    "TeammateIdle": _row("stop keep_going message", deny="makes it go on"),
    "TaskCreated": _row("deny message", ask=_ASK, stop="is ignored"),
    "TaskCompleted": _row("deny stop message", ask=_ASK),
    "PreCompact": _row("deny", ask=_ASK, stop="is ignored"),
    "PostCompact": _row(),
    "PreModelSwitch": _row("allow deny ask stop message"),
    "PostModelSwitch": _row("context stop message", deny=_SHOWN),
    "Elicitation": _row("allow deny stop message", ask=_ASK),
    "ElicitationResult": _row("allow deny stop message", ask=_ASK),
    "ConfigChange": _row("deny", ask=_ASK, stop="is ignored"),
    "InstructionsLoaded": _row(),
    "CwdChanged": _row("message", deny=_SHOWN),
    "FileChanged": _row("message", deny=_SHOWN),
    "DirectoryAdded": _row("message", deny=_SHOWN),
    "WorktreeCreate": _row("deny stop message", ask=_ASK),
    "WorktreeRemove": _row(),
}

_CODEX: Final[Mapping[str, Can]] = {
    "PreToolUse": _row("deny rewrite_input context message", allow=_ALLOW, ask=_ASK, stop=_STOP),
    "PostToolUse": _row("replace_output context message", deny=_OUTPUT, stop=_LATE),
    "PermissionRequest": _row("allow deny message", ask=_ASK, rewrite_input=_REWRITE, stop=_STOP, context=_NEXT),
    "UserPromptSubmit": _row("deny context stop message", ask=_ASK),
    "SessionStart": _row("context stop message", deny=_LATE),
    "SessionEnd": _row(**_NOTHING),
    "Stop": _row("stop keep_going message", deny=_ON, context=_NEXT),
    "SubagentStart": _row("context stop message", deny=_LATE),
    "SubagentStop": _row("stop keep_going message", deny=_ON, context=_NEXT),
    "PreCompact": _row("stop message", deny="ends the run", context=_NEXT),
    "PostCompact": _row("stop message", deny="ends the run", context=_NEXT),
}

_GEMINI: Final[Mapping[str, Can]] = {
    "PreToolUse": _row("deny rewrite_input stop message", allow=_ALLOW, ask=_ASK, context=_HELD),
    "PostToolUse": _row("replace_output context stop message", deny=_OUTPUT),
    "PostToolUseFailure": _row("context stop message", deny=_LATE),
    "UserPromptSubmit": _row("deny context stop message", ask=_ASK),
    "SessionStart": _row("context message", deny=_LATE, stop=_LATE),
    "SessionEnd": _row(**_NOTHING),
    "Stop": _row("stop keep_going message", deny=_ON, context="held until UserPromptSubmit or PostToolUse"),
    "PreCompact": _row("message", deny=_SHOWN, context=_HELD),
    "Notification": _row("message", deny=_SHOWN, context=_HELD),
}

_QWEN: Final[Mapping[str, Can]] = {
    "PreToolUse": _row("deny", allow=_ALLOW, ask=_ASK, rewrite_input=_REWRITE, stop=_STOP, context=_HELD),
    "PostToolUse": _row("replace_output context", deny=_OUTPUT, stop=_LATE),
    "PostToolUseFailure": _row("context", deny=_LATE, stop=_LATE),
    "PermissionRequest": _row("allow deny rewrite_input", ask=_ASK, stop=_STOP, context=_HELD),
    "UserPromptSubmit": _row("deny context", ask=_ASK, stop=_STOP),
    "SessionStart": _row(**_NOTHING, context="held until UserPromptSubmit"),
    "SessionEnd": _row(**_NOTHING),
    "Stop": _row("keep_going message", deny=_ON, stop=_ENDS, context="held until UserPromptSubmit or PostToolUse"),
    "SubagentStart": _row("context", deny=_LATE, stop=_LATE),
    "SubagentStop": _row("keep_going", deny=_ON, stop=_ENDS, context=_HELD),
    "PreCompact": _row(**_NOTHING, context=_HELD),
    "PostCompact": _row(**_NOTHING, context=_HELD),
    "Notification": _row(**_NOTHING, context=_HELD),
}

_COPILOT: Final[Mapping[str, Can]] = {
    "PreToolUse": _row("allow deny rewrite_input context", ask=_ASK, stop=_STOP),
    "PostToolUse": _row("replace_output context", deny=_OUTPUT, stop=_LATE),
    "PostToolUseFailure": _row("context", deny=_LATE, stop=_LATE),
    "PermissionRequest": _row("allow deny", ask=_ASK, rewrite_input=_REWRITE, stop=_STOP, context=_NEXT),
    "UserPromptSubmit": _row("deny", ask=_ASK, stop=_STOP, context=_NEXT),
    "SessionStart": _row("context", deny=_LATE, stop=_LATE),
    "SessionEnd": _row(**_NOTHING),
    "Stop": _row("keep_going", deny=_ON, stop=_ENDS, context=_NEXT),
    "SubagentStart": _row("context", deny=_LATE, stop=_LATE),
    "SubagentStop": _row("keep_going", deny=_ON, stop=_ENDS, context=_NEXT),
    "PreCompact": _row(**_NOTHING, context=_NEXT),
    "Notification": _row(**_NOTHING, context=_NEXT),
}

_CURSOR: Final[Mapping[str, Can]] = {
    "PreToolUse": _row("deny rewrite_input context", allow=_ALLOW, ask=_ASK, stop=_STOP),
    "PostToolUse": _row(
        "context",
        deny=_LATE,
        stop=_LATE,
        replace_output="is told to the model as context, but for tools of MCP servers, whose output it replaces",
    ),
    "PostToolUseFailure": _row("context", deny=_LATE, stop=_LATE),
    "UserPromptSubmit": _row("deny context", ask=_ASK, stop=_STOP),
    "SessionStart": _row("context", deny=_LATE, stop=_LATE),
    "SessionEnd": _row(**_NOTHING),
    "Stop": _row("keep_going", deny=_ON, stop=_ENDS, context=_NEXT),
    "SubagentStart": _row("deny", allow=_ALLOW, ask=_ASK, stop=_STOP, context=_NEXT),
    "SubagentStop": _row("keep_going", deny=_ON, stop=_ENDS, context=_NEXT),
    "PreCompact": _row("message", deny=_SHOWN, context=_NEXT),
}

_ASKED: Final = _row("deny ask", allow=_ALLOW, rewrite_input=_REWRITE, stop=_STOP, context=_NEXT)
_READ: Final = _row("deny", allow=_ALLOW, ask=_ASK, rewrite_input=_REWRITE, stop=_STOP, context=_NEXT)
_SEEN: Final = _row(**_NOTHING, stop="is ignored", context=_NEXT, replace_output="is lost")
NARROWER_CAPABILITIES: Final[Mapping[str, Mapping[str, Can]]] = {
    "cursor": {
        "beforeShellExecution": _ASKED,
        "beforeMCPExecution": _ASKED,
        "beforeReadFile": _READ,
        "beforeTabFileRead": _READ,
        "afterShellExecution": _SEEN,
        "afterMCPExecution": _SEEN,
        "afterFileEdit": _SEEN,
        "afterTabFileEdit": _SEEN,
    }
}
"""The same for the further events that an agent has for some of what one of ours is about, by its own names."""


def _quiet(rows: Mapping[str, Can]) -> Mapping[str, Can]:
    """The rows of an agent that knows `suppressOutput` on every event."""
    return {event: msgspec.structs.replace(row, quiet=True) for event, row in rows.items()}


CAPABILITIES: Final[Mapping[str, Mapping[str, Can]]] = MappingProxyType(
    {
        "claude": _quiet(_CLAUDE),
        "codex": _CODEX,
        "gemini": _quiet(_GEMINI),
        "qwen": _quiet(_QWEN),
        "copilot": _COPILOT,
        "cursor": _CURSOR,
    }
)
"""By agent and by our name of an event. An event that an agent does not have is absent."""


TAKEN_OVER: Final[Mapping[str, str]] = {
    "codex": "`command`",
    "cursor": "a command or a path",
}
"""All that these agents take over when the input of a tool that writes files or runs lines is rewritten; a rewrite of
anything else becomes a deny."""


def can(dialect: str, event: str) -> Can:
    """What an agent can be told on an event, by our name of it or by the agent's own; on one that it does not have,
    nothing."""
    rows = CAPABILITIES.get(dialect, {})
    own = NARROWER_CAPABILITIES.get(dialect, {}).get(event)
    return own or rows.get(event) or rows.get(NARROWER.get(dialect, {}).get(event, "")) or Can()


def agents_with(event: str) -> Iterable[str]:
    """The agents that have an event."""
    return (name for name, rows in CAPABILITIES.items() if event in rows)

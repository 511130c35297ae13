"""billhook: the hook system for AI agents. One event in, one verdict out.

    from billhook import Engine, PreToolUse, deny, on

    @on(PreToolUse, match="Bash")
    def no_force_push(event):
        if "push --force" in event.tool_input["command"]:
            return deny("no force pushes")

    event = PreToolUse(tool_name="Bash", tool_input={"command": "git push --force"})
    verdict = Engine([no_force_push]).fire_sync(event)
    verdict.decision, verdict.reason     # deny, "no force pushes"

The map, lowest layer first:

- what is said: `events`, `answers`, `outputs` (the JSON of answers), `meanings` (what words mean per dialect), `hook`,
  `match`, `rules` and `shell`, `tools`, `strictjson`, `errors`
- how it is said on a wire: `agents`
- how it is done: `process`, `login`, `callbacks`, `handlers`, `webhooks` and `worker` (they make a hook's `run`),
  `plan` (order, matching), `stepping`, `background`, and `engine`, the loop that everybody reads first
- what is made from it: `store` (what is kept on disk: approvals, state, the event log), `builtins` (hooks that ship),
  `config` (hooks from files, and what is recorded of them), `session` (what an agent loop calls)
- where people meet it: `agent` (the loop that ships: models, tools, permissions), `cli`
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from billhook.answers import (
        Answer,
        Decision,
        Outcome,
        Reply,
        Status,
        Verdict,
        allow,
        ask,
        defer,
        deny,
        fold,
        inject,
        keep_going,
        notify,
        rewrite,
        stop,
    )
    from billhook.builtins.metrics import Metrics
    from billhook.callbacks import callback, on
    from billhook.config.approving import approve
    from billhook.config.loaded import Config
    from billhook.config.loading import load, load_config
    from billhook.engine import Engine
    from billhook.errors import (
        BillhookError,
        EventError,
        PlanError,
        RuleError,
        StrictJSONError,
        UnrecordedError,
        UsageError,
    )
    from billhook.events import (
        EVENTS,
        ConfigChange,
        CwdChanged,
        DirectoryAdded,
        Elicitation,
        ElicitationResult,
        Event,
        FileChanged,
        InstructionsLoaded,
        MessageDisplay,
        Notification,
        OtherEvent,
        PermissionDenied,
        PermissionRequest,
        PostCompact,
        PostModelSwitch,
        PostToolBatch,
        PostToolUse,
        PostToolUseFailure,
        PreCompact,
        PreModelSwitch,
        PreToolUse,
        SessionEnd,
        SessionStart,
        Setup,
        Stop,
        StopFailure,
        SubagentStart,
        SubagentStop,
        TaskCompleted,
        TaskCreated,
        TeammateIdle,
        UserPromptExpansion,
        UserPromptSubmit,
        WorktreeCreate,
        WorktreeRemove,
    )
    from billhook.handlers import command, execute, literal
    from billhook.hook import Context, Hook, Known, Source
    from billhook.session import Question, Ruling, Session, SyncSession, ToolResult
    from billhook.webhooks import webhook
    from billhook.worker import python

__version__ = "0.1.0"

_LATER = {
    "Answer": "answers",
    "BillhookError": "errors",
    "Config": "config.loaded",
    "ConfigChange": "events",
    "Context": "hook",
    "CwdChanged": "events",
    "Decision": "answers",
    "DirectoryAdded": "events",
    "EVENTS": "events",
    "Elicitation": "events",
    "ElicitationResult": "events",
    "Engine": "engine",
    "Event": "events",
    "EventError": "errors",
    "FileChanged": "events",
    "Hook": "hook",
    "InstructionsLoaded": "events",
    "Known": "hook",
    "MessageDisplay": "events",
    "Metrics": "builtins.metrics",
    "Notification": "events",
    "OtherEvent": "events",
    "Outcome": "answers",
    "PermissionDenied": "events",
    "PermissionRequest": "events",
    "PlanError": "errors",
    "PostCompact": "events",
    "PostModelSwitch": "events",
    "PostToolBatch": "events",
    "PostToolUse": "events",
    "PostToolUseFailure": "events",
    "PreCompact": "events",
    "PreModelSwitch": "events",
    "PreToolUse": "events",
    "Question": "session",
    "Reply": "answers",
    "RuleError": "errors",
    "Ruling": "session",
    "Session": "session",
    "SessionEnd": "events",
    "SessionStart": "events",
    "Setup": "events",
    "Source": "hook",
    "Status": "answers",
    "Stop": "events",
    "StopFailure": "events",
    "StrictJSONError": "errors",
    "SubagentStart": "events",
    "SubagentStop": "events",
    "SyncSession": "session",
    "TaskCompleted": "events",
    "TaskCreated": "events",
    "TeammateIdle": "events",
    "ToolResult": "session",
    "UnrecordedError": "errors",
    "UsageError": "errors",
    "UserPromptExpansion": "events",
    "UserPromptSubmit": "events",
    "Verdict": "answers",
    "WorktreeCreate": "events",
    "WorktreeRemove": "events",
    "allow": "answers",
    "approve": "config.approving",
    "ask": "answers",
    "callback": "callbacks",
    "command": "handlers",
    "defer": "answers",
    "deny": "answers",
    "execute": "handlers",
    "fold": "answers",
    "inject": "answers",
    "keep_going": "answers",
    "literal": "handlers",
    "load": "config.loading",
    "load_config": "config.loading",
    "notify": "answers",
    "on": "callbacks",
    "python": "worker",
    "rewrite": "answers",
    "stop": "answers",
    "webhook": "webhooks",
}


def __getattr__(name: str) -> Any:
    """Every name is imported when it is first used: a process that answers one event needs few of them."""
    if name not in _LATER:
        raise AttributeError(f"module 'billhook' has no attribute {name!r}")
    import importlib

    found = getattr(importlib.import_module(f"billhook.{_LATER[name]}"), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


__all__ = [
    "EVENTS",
    "Answer",
    "BillhookError",
    "Config",
    "ConfigChange",
    "Context",
    "CwdChanged",
    "Decision",
    "DirectoryAdded",
    "Elicitation",
    "ElicitationResult",
    "Engine",
    "Event",
    "EventError",
    "FileChanged",
    "Hook",
    "InstructionsLoaded",
    "Known",
    "MessageDisplay",
    "Metrics",
    "Notification",
    "OtherEvent",
    "Outcome",
    "PermissionDenied",
    "PermissionRequest",
    "PlanError",
    "PostCompact",
    "PostModelSwitch",
    "PostToolBatch",
    "PostToolUse",
    "PostToolUseFailure",
    "PreCompact",
    "PreModelSwitch",
    "PreToolUse",
    "Question",
    "Reply",
    "RuleError",
    "Ruling",
    "Session",
    "SessionEnd",
    "SessionStart",
    "Setup",
    "Source",
    "Status",
    "Stop",
    "StopFailure",
    "StrictJSONError",
    "SubagentStart",
    "SubagentStop",
    "SyncSession",
    "TaskCompleted",
    "TaskCreated",
    "TeammateIdle",
    "ToolResult",
    "UnrecordedError",
    "UsageError",
    "UserPromptExpansion",
    "UserPromptSubmit",
    "Verdict",
    "WorktreeCreate",
    "WorktreeRemove",
    "allow",
    "approve",
    "ask",
    "callback",
    "command",
    "defer",
    "deny",
    "execute",
    "fold",
    "inject",
    "keep_going",
    "literal",
    "load",
    "load_config",
    "notify",
    "on",
    "python",
    "rewrite",
    "stop",
    "webhook",
]

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

if TYPE_CHECKING:  # at run time: `_MODULES`
    from billhook.answers import *  # noqa: F403
    from billhook.builtins.metrics import Metrics as Metrics
    from billhook.callbacks import callback as callback
    from billhook.callbacks import on as on
    from billhook.config.approving import approve as approve
    from billhook.config.loaded import Config as Config
    from billhook.config.loading import load as load
    from billhook.config.loading import load_config as load_config
    from billhook.engine import Engine as Engine
    from billhook.errors import *  # noqa: F403
    from billhook.events import *  # noqa: F403
    from billhook.handlers import command as command
    from billhook.handlers import execute as execute
    from billhook.handlers import literal as literal
    from billhook.hook import Context as Context
    from billhook.hook import Hook as Hook
    from billhook.hook import Known as Known
    from billhook.hook import Source as Source
    from billhook.session import *  # noqa: F403
    from billhook.webhooks import webhook as webhook
    from billhook.worker import python as python

__version__ = "0.1.0"

_MODULES = {
    "billhook.answers": """
        Answer Decision Outcome Reply Status Verdict
        allow ask defer deny fold inject keep_going notify rewrite stop
    """,
    "billhook.builtins.metrics": "Metrics",
    "billhook.callbacks": "callback on",
    "billhook.config.approving": "approve",
    "billhook.config.loaded": "Config",
    "billhook.config.loading": "load load_config",
    "billhook.engine": "Engine",
    "billhook.errors": "BillhookError EventError PlanError RuleError StrictJSONError UnrecordedError UsageError",
    "billhook.events": """
        EVENTS Event OtherEvent
        PreToolUse PostToolUse PostToolUseFailure PostToolBatch PermissionRequest PermissionDenied
        UserPromptSubmit UserPromptExpansion Notification MessageDisplay SessionStart SessionEnd Setup Stop StopFailure
        SubagentStart SubagentStop TeammateIdle TaskCreated TaskCompleted PreCompact PostCompact
        PreModelSwitch PostModelSwitch Elicitation ElicitationResult ConfigChange InstructionsLoaded
        CwdChanged FileChanged DirectoryAdded WorktreeCreate WorktreeRemove
    """,
    "billhook.handlers": "command execute literal",
    "billhook.hook": "Context Hook Known Source",
    "billhook.session": "Question Ruling Session SyncSession ToolResult",
    "billhook.webhooks": "webhook",
    "billhook.worker": "python",
}
_MODULE_OF = {name: module for module, names in _MODULES.items() for name in names.split()}

__all__ = sorted(_MODULE_OF)  # noqa: PLE0605


def __getattr__(name: str) -> Any:
    """Every name is imported when it is first used: a process that answers one event needs few of them."""
    if name not in _MODULE_OF:
        raise AttributeError(f"module 'billhook' has no attribute {name!r}")
    import importlib

    found = globals()[name] = getattr(importlib.import_module(_MODULE_OF[name]), name)
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})

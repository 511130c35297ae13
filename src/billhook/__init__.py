"""billhook: the hook system for AI agents. One event in, one verdict out.

    from billhook import Engine, PreToolUse, deny, on

    @on(PreToolUse, match="Bash")
    def no_force_push(event):
        if "push --force" in event.tool_input["command"]:
            return deny("no force pushes")

    event = PreToolUse(tool_name="Bash", tool_input={"command": "git push --force"})
    verdict = Engine([no_force_push]).fire_sync(event)
    verdict.decision, verdict.reason     # deny, "no force pushes"

Each folder is one idea; its docstring lists what it may import. `docs/architecture.md` shows how they fit together.
"""

import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # at run time: `_MODULES`
    from billhook.builtins.metrics import Metrics as Metrics
    from billhook.config.builtin_hooks import guard as guard
    from billhook.config.config import Config as Config
    from billhook.config.loader import load as load
    from billhook.config.loader import load_config as load_config
    from billhook.config.trust import approve as approve
    from billhook.core.answers import *  # noqa: F403
    from billhook.core.errors import *  # noqa: F403
    from billhook.core.events import *  # noqa: F403
    from billhook.core.functions import callback as callback
    from billhook.core.functions import on as on
    from billhook.core.hook import Context as Context
    from billhook.core.hook import Hook as Hook
    from billhook.core.hook import Known as Known
    from billhook.core.hook import Source as Source
    from billhook.effects.analysis import effects_of as effects_of
    from billhook.effects.effect import Effect as Effect
    from billhook.engine.engine import Engine as Engine
    from billhook.runners.command import command as command
    from billhook.runners.command import execute as execute
    from billhook.runners.command import literal as literal
    from billhook.runners.webhook import webhook as webhook
    from billhook.runners.worker import python as python
    from billhook.session import *  # noqa: F403
    from billhook.testing.expectations import assert_allows as assert_allows
    from billhook.testing.expectations import assert_asks as assert_asks
    from billhook.testing.expectations import assert_denies as assert_denies
    from billhook.testing.expectations import assert_runs as assert_runs

__version__ = "0.1.0"

_MODULES = {
    "billhook.core.answers": """
        Answer Decision Outcome Reply Status Verdict
        allow ask defer deny fold inject keep_going notify rewrite stop
    """,
    "billhook.builtins.metrics": "Metrics",
    "billhook.core.functions": "callback on",
    "billhook.testing.expectations": "assert_allows assert_asks assert_denies assert_runs",
    "billhook.config.trust": "approve",
    "billhook.config.builtin_hooks": "guard",
    "billhook.config.config": "Config",
    "billhook.config.loader": "load load_config",
    "billhook.engine.engine": "Engine",
    "billhook.effects.analysis": "effects_of",
    "billhook.effects.effect": "Effect",
    "billhook.core.errors": "BillhookError EventError PlanError RuleError StrictJSONError UnrecordedError UsageError",
    "billhook.core.events": """
        EVENTS Event OtherEvent
        PreToolUse PostToolUse PostToolUseFailure PostToolBatch PermissionRequest PermissionDenied
        UserPromptSubmit UserPromptExpansion Notification MessageDisplay SessionStart SessionEnd Setup Stop StopFailure
        SubagentStart SubagentStop TeammateIdle TaskCreated TaskCompleted PreCompact PostCompact
        PreModelSwitch PostModelSwitch Elicitation ElicitationResult ConfigChange InstructionsLoaded
        CwdChanged FileChanged DirectoryAdded WorktreeCreate WorktreeRemove
    """,
    "billhook.runners.command": "command execute literal",
    "billhook.core.hook": "Context Hook Known Source",
    "billhook.session": "Question Ruling Session SyncSession ToolResult",
    "billhook.runners.webhook": "webhook",
    "billhook.runners.worker": "python",
}
_MODULE_OF = {name: module for module, names in _MODULES.items() for name in names.split()}

__all__ = sorted(_MODULE_OF)  # noqa: PLE0605


class _Renamed(ModuleType):
    """A module under its old name, for programs that still import it."""

    def __getattr__(self, name: str) -> Any:
        import importlib

        return getattr(importlib.import_module(_RENAMED[self.__name__]), name)


_RENAMED = {
    "billhook.pytest": "billhook.testing.expectations",
    "billhook.rules": "billhook.effects.rules",
    "billhook.webhooks": "billhook.runners.webhook",
}
sys.modules |= {name: _Renamed(name) for name in _RENAMED}


def __getattr__(name: str) -> Any:
    """Imports a name when it is first used: a process that answers one event needs few of them."""
    if name not in _MODULE_OF:
        raise AttributeError(f"module 'billhook' has no attribute {name!r}")
    import importlib

    found = globals()[name] = getattr(importlib.import_module(_MODULE_OF[name]), name)
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})

"""Amp, by a plugin, which must allow each call that it does not reject.

From its documentation, not measured: it needs an account.
"""

from typing import Final

from billhook.agents.base import PATH, pairs, rounded, sends_own_names
from billhook.agents.plugin import PluginDialect, agent

_EVENTS: Final = pairs("PreToolUse=tool.call PostToolUse=tool.result SessionStart=session.start")

AGENT: Final = agent(
    "amp",
    "Amp",
    event_names=_EVENTS,
    tools=pairs("shell_command=Bash create_file=Write edit_file=Edit"),
    inputs={
        "Write": PATH,
        "Edit": {**PATH, "old_str": "old_string", "new_str": "new_string"},
        "apply_patch": {"patchText": "command"},
    },
    capabilities=rounded("", PreToolUse="deny ask", PostToolUse="", SessionStart=""),
    sends=lambda payload, _environ: 2 * sends_own_names(_EVENTS.values(), payload),
    packages=(("@ampcode", "cli"), ("@sourcegraph", "amp")),
    program="amp",
    project_file=".amp/plugins/billhook.ts",
    user_file=".config/amp/plugins/billhook.ts",
    traces=("amp",),
    next_steps=(("any", "restart Amp: it loads plugins when it starts; `PLUGINS=off` disables them"),),
)
AGENTS = {"amp": AGENT}
DIALECTS = {"amp": PluginDialect(AGENT)}

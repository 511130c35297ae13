"""OpenCode, by a plugin: an error that it throws before a tool refuses the call, and the model gets its text."""

from typing import Final

from billhook.agents.base import pairs, rounded, rounded_row, sends_own_names
from billhook.agents.plugin import PluginDialect, agent

_EVENTS: Final = pairs(
    "PreToolUse=tool.execute.before PostToolUse=tool.execute.after UserPromptSubmit=chat.message "
    "SessionStart=session.created Stop=session.idle"
)
_FILE: Final = {"filePath": "file_path"}

AGENT: Final = agent(
    "opencode",
    "OpenCode",
    event_names=_EVENTS,
    tools=pairs(
        "bash=Bash read=Read write=Write edit=Edit glob=Glob grep=Grep list=LS webfetch=WebFetch "
        "todowrite=TodoWrite task=Agent skill=Skill"
    ),
    inputs={
        "Read": _FILE,
        "Write": _FILE,
        "Edit": {**_FILE, "oldString": "old_string", "newString": "new_string", "replaceAll": "replace_all"},
        "apply_patch": {"patchText": "command"},
    },
    capabilities=rounded(
        "UserPromptSubmit or PostToolUse",
        PreToolUse="deny rewrite_input",
        PostToolUse="replace_output context",
        UserPromptSubmit="deny context",
        SessionStart="",
        Stop="",
    )
    | {"PreToolUse": rounded_row("deny rewrite_input", "PostToolUse")},
    sends=lambda payload, _environ: 2 * sends_own_names(_EVENTS.values(), payload),
    marks={"OPENCODE": ""},
    packages=(("node_modules", "opencode-ai"),),
    program="opencode",
    project_file=".opencode/plugins/billhook.js",
    user_file=".config/opencode/plugins/billhook.js",
    home_variable="XDG_CONFIG_HOME",
    traces=("opencode",),
    next_steps=(("any", "restart OpenCode: it loads plugins when it starts"),),
)
AGENTS = {"opencode": AGENT}
DIALECTS = {"opencode": PluginDialect(AGENT)}

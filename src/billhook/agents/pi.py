"""pi, by an extension. A call that its extension blocks is an error for the model, which gets the reason.

Versions before 0.87 have no event at the end of a run that can continue it: there Stop hooks don't run.
"""

from typing import Final

from billhook.agents.base import PATH, TRUST_FIRST, pairs, rounded, rounded_row, sends_own_names
from billhook.agents.plugin import PluginDialect, agent

_EVENTS: Final = pairs(
    "PreToolUse=tool_call PostToolUse=tool_result UserPromptSubmit=input SessionStart=session_start "
    "SessionEnd=session_shutdown Stop=agent_before_settle"
)
_BLOCKABLE: Final = "UserPromptSubmit or PostToolUse"

AGENT: Final = agent(
    "pi",
    "pi",
    event_names=_EVENTS,
    tools=pairs("bash=Bash read=Read write=Write edit=Edit grep=Grep find=Glob ls=LS"),
    inputs={"Read": PATH, "Write": PATH, "Edit": PATH},
    capabilities=rounded(
        _BLOCKABLE,
        PreToolUse="deny ask rewrite_input",
        PostToolUse="replace_output context",
        UserPromptSubmit="deny context",
        SessionStart="",
        SessionEnd="",
        Stop="keep_going",
    )
    | {"PreToolUse": rounded_row("deny ask rewrite_input", "PostToolUse")},
    sends=lambda payload, _environ: 2 * sends_own_names(_EVENTS.values(), payload),
    marks={"PI_CODING_AGENT": ""},
    packages=(("@earendil-works", "pi-coding-agent"), ("@mariozechner", "pi-coding-agent")),
    program="pi",
    project_file=".pi/extensions/billhook.js",
    user_file=".pi/agent/extensions/billhook.js",
    folder=".pi/agent",
    home_variable="PI_CODING_AGENT_DIR",
    next_steps=(
        ("any", "restart pi, or enter /reload: it loads extensions when it starts"),
        ("project", TRUST_FIRST.format("pi")),
    ),
    transcripts=True,
    unattended=lambda payload, _environ: payload.get("has_ui") is False,
)
AGENTS = {"pi": AGENT}
DIALECTS = {"pi": PluginDialect(AGENT)}

"""OpenCode: it runs no commands as hooks, so `install` writes a plugin that does, and that refuses when they fail."""

from typing import Final

from msgspec import UNSET

from billhook.agents.base import Agent, Embedded, pairs, rounded, rounded_row, sends_own_names
from billhook.agents.codec import AgentDialect, Payload, kinds
from billhook.core.answers import Answer
from billhook.core.dialect_traits import Meanings
from billhook.core.events import Event


class _OpenCode(AgentDialect):
    specific = kinds(
        "hookEventName permissionDecision permissionDecisionReason additionalContext updatedToolOutput",
        objects="updatedInput",
    )
    context_in_output = True

    def decide(self, event: Event, answer: Answer) -> tuple[Payload, Payload]:
        if answer.updated_input is not None:
            return {}, {"updatedInput": self.sent_input(event, answer.updated_input)}
        if answer.updated_output is not UNSET:
            return {}, {"updatedToolOutput": answer.updated_output}
        return super().decide(event, answer)

    def read_decision(self, event: Event, fields: Payload, inside: Payload) -> Payload:
        said = super().read_decision(event, fields, inside)
        if "updatedInput" in inside:
            said["updated_input"] = self.canonical(event, inside["updatedInput"])
        return said | ({"updated_output": inside["updatedToolOutput"]} if "updatedToolOutput" in inside else {})


_EVENTS: Final = pairs(
    "PreToolUse=tool.execute.before PostToolUse=tool.execute.after UserPromptSubmit=chat.message "
    "SessionStart=session.created Stop=session.idle"
)
_FILE: Final = {"filePath": "file_path"}

AGENT: Final = Agent(
    name="opencode",
    title="OpenCode",
    meanings=Meanings(name="opencode", naming="opencode", join="\n\n", timeout=60.0),
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
    own_file=True,
    format=Embedded("opencode.js", "const settings = ", "\n// end of settings\n"),
    next_steps=(("any", "restart OpenCode: it loads plugins when it starts"),),
    shape="flat",
    typed=False,
    fail_closed=("failClosed", True),
)
AGENTS = {"opencode": AGENT}
DIALECTS = {"opencode": _OpenCode(AGENT)}

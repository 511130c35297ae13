"""Goose: hooks of a plugin folder, with the event's name in `event`. Only a tool call can be refused, by exit code 2.

From its source, not measured. Of two plugins with one name it loads only that of the project.
"""

import os
from collections.abc import Iterator, Mapping
from typing import Final

from billhook.agents import base
from billhook.agents.codec import ExitForm, Payload
from billhook.core.dialect_traits import Meanings


class _Goose(ExitForm):
    names = base.pairs(
        "event=hook_event_name working_dir=cwd tool_output=tool_response tool_call_id=tool_use_id message=prompt"
    )

    def read(self, payload: Payload, env: Mapping[str, str]) -> Payload:
        """Every tool is `extension__tool`: those that are not its own are of MCP servers."""
        called = payload.get("tool_name")
        if isinstance(called, str) and "__" in called and not called.startswith(("developer__", "mcp__")):
            payload |= {"tool_name": f"mcp__{called}", "original_tool_name": called}
        return super().read(payload, env)


def _trust(check: base.TrustCheck) -> Iterator[base.Trust]:
    folder, user = os.path.dirname(os.path.dirname(_FILE)), os.path.dirname(check.agent.home())
    for root, name in ((user, ""), (check.project, ""), (check.project, ".local")):
        path = os.path.join(root, f".config/goose/settings{name}.json")
        if "billhook" in base.items(check.settings(path).get("disabledPlugins")):
            yield base.Trust("fail", f"{path} disables billhook's plugin (`disabledPlugins`)", "change that setting")
    if {one.scope for one in check.installed} == {"user"} and os.path.isdir(os.path.join(check.project, folder)):
        text = f"Goose loads {folder} of the project instead of your plugin of that name, and it does not call billhook"
        yield base.Trust("fail", text, "remove that folder, or: billhook install goose --project")


_EVENTS: Final = "PreToolUse PostToolUse PostToolUseFailure UserPromptSubmit SessionStart SessionEnd Stop"
_FILE: Final = ".agents/plugins/billhook/hooks/hooks.json"

AGENT: Final = base.Agent(
    name="goose",
    title="Goose",
    meanings=Meanings(name="goose", naming="goose", join="\n\n", timeout=30.0),
    event_names={name: name for name in _EVENTS.split()},
    only_its=("PreToolUseResult",),
    tools=base.pairs("developer__shell=Bash developer__write=Write developer__edit=Edit"),
    inputs={
        "Write": base.PATH,
        "Edit": {**base.PATH, "before": "old_string", "after": "new_string"},
    },
    capabilities=base.rounded("", PreToolUse="deny", **dict.fromkeys(_EVENTS.split()[1:], "")),
    refusals=(base.Refusal("prompt subagent compact", 0, None, "client"), base.Refusal("")),
    sends=lambda payload, _environ: 3 * ("event" in payload and not {"hook_event_name", "cwd"} & set(payload)),
    program="goose",
    shares_program=True,  # a tool for database migrations
    project_file=_FILE,
    user_file=_FILE,
    traces=("../.config/goose",),
    own_file=True,
    trust=_trust,
    next_steps=(("any", "restart Goose; versions before 1.48 allow a call if the hook fails"),),
    fail_closed=("on_failure", "block"),
    event_argument=True,
)
AGENTS = {"goose": AGENT}
DIALECTS = {"goose": _Goose(AGENT)}

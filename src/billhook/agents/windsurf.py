"""Windsurf's Cascade: one event before and one after each kind of call, and exit code 2 to refuse.

From its documentation, not measured. Entries have no timeout, and it is not documented how long it waits.
"""

from collections.abc import Mapping
from typing import Any, Final

from billhook.agents import base
from billhook.agents.codec import ExitForm, Payload, input_of
from billhook.core.dialect_traits import Meanings
from billhook.core.events import Event

_EVENTS: Final = base.pairs(
    "PreToolUse=pre_run_command PostToolUse=post_run_command UserPromptSubmit=pre_user_prompt "
    "Stop=post_cascade_response"
)
_KINDS: Final = {"run_command": "Bash", "write_code": "Edit", "read_code": "Read", "mcp_tool_use": "mcp__.*"}
_PARTS: Final = {
    f"{when}_{kind}": event
    for when, event in (("pre", "PreToolUse"), ("post", "PostToolUse"))
    for kind in list(_KINDS)[1:]
}


class _Windsurf(ExitForm):
    names = base.pairs("agent_action_name=hook_event_name trajectory_id=session_id")

    def read(self, payload: Payload, env: Mapping[str, str]) -> Payload:
        payload = super().read(payload, env)
        given = {**base.mapping(payload.pop("tool_info", None))}
        kind = str(payload.get("hook_event_name", "")).partition("_")[2]
        if kind in _KINDS:
            payload |= _call(kind, given)
        base.set_folder(payload, [given.get("cwd")])
        payload |= {ours: given[own] for own, ours in _TEXTS.items() if own in given}
        return payload

    def write(self, payload: Payload, event: Event) -> Payload:
        told = super().write(payload, event)
        given = {"cwd": event.cwd, **input_of(event)}
        kind = _kind_of(str(told.pop("tool_name", "")))
        told.pop("tool_input", None)
        if kind:
            when = "pre" if event.hook_event_name == "PreToolUse" else "post"
            told |= {"agent_action_name": f"{when}_{kind}", "tool_info": _info(kind, given, event)}
        else:
            told["tool_info"] = {own: told.pop(ours) for own, ours in _TEXTS.items() if ours in told}
        return told


_TEXTS: Final = {"user_prompt": "prompt", "response": "last_assistant_message"}


def _call(kind: str, given: Mapping[str, Any]) -> Payload:
    """The call of a tool, from the fields of its kind."""
    if kind == "mcp_tool_use":
        name = f"mcp__{given.get('mcp_server_name', '')}__{given.get('mcp_tool_name', '')}"
        return {"tool_name": name, "original_tool_name": kind, "tool_input": given.get("mcp_tool_arguments", {})}
    made: Payload = {"tool_name": kind, "tool_input": {**given}}
    if kind == "write_code" and (edit := base.only(given.get("edits"))):
        made["tool_input"] |= {key: edit[key] for key in ("old_string", "new_string") if key in edit}
        if not edit.get("old_string"):  # the whole file
            made["tool_name"] = "write_file"
            made["tool_input"]["content"] = edit.get("new_string", "")
    return made


def _kind_of(tool: str) -> str:
    return "mcp_tool_use" if tool.startswith("mcp__") else "write_code" if tool == "write_file" else tool


def _info(kind: str, given: Payload, event: Event) -> Payload:
    if kind == "run_command":
        return {"command_line": given.get("command", ""), "cwd": given.get("cwd", "")}
    if kind == "mcp_tool_use":
        _, server, tool = str(getattr(event, "tool_name", "")).split("__", 2)
        return {"mcp_server_name": server, "mcp_tool_name": tool, "mcp_tool_arguments": input_of(event)}
    edit = {"old_string": given.get("old_string", ""), "new_string": given.get("new_string", given.get("content", ""))}
    edits = {"edits": given.get("edits", [edit])} if kind == "write_code" else {}
    return {"file_path": given.get("file_path", ""), **edits}


AGENT: Final = base.Agent(
    name="windsurf",
    title="Windsurf",
    meanings=Meanings(name="windsurf", naming="windsurf", join="\n\n", timeout=30.0),
    event_names=_EVENTS,
    narrower=_PARTS,
    tools_of={name: _KINDS[name.partition("_")[2]] for name in _PARTS},
    only_its=("post_setup_worktree",),
    tools=base.pairs("run_command=Bash write_code=Edit write_file=Write read_code=Read"),
    inputs={"Bash": {"command_line": "command"}},
    capabilities=base.rounded("", PreToolUse="deny", PostToolUse="", UserPromptSubmit="deny", Stop=""),
    sends=lambda payload, _environ: 3 * ("agent_action_name" in payload),
    program="windsurf",
    without_program=True,
    is_editor=True,
    project_file=".windsurf/hooks.json",
    user_file=".codeium/windsurf/hooks.json",
    traces=("windsurf",),
    next_steps=(("any", "restart Windsurf"),),
    shape="flat",
    typed=False,
    timeout_key="",
    longest=dict.fromkeys((*_EVENTS, *_PARTS), 30),
    event_argument=True,
)
AGENTS = {"windsurf": AGENT}
DIALECTS = {"windsurf": _Windsurf(AGENT)}

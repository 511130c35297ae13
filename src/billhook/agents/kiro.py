"""Kiro: IDE 1 and CLI 3. It obeys exit code 2 before a tool; text on stdout is context at a prompt and at the start.

From its documentation, not measured. CLI 2 reads hooks from the files of its agents only, and IDE 0 sends no data.
"""

import json
from collections.abc import Mapping
from typing import Any, Final

from billhook.agents import base
from billhook.agents.codec import ExitForm, Payload
from billhook.core.dialect_traits import Meanings


class _Kiro(ExitForm):
    def read(self, payload: Payload, env: Mapping[str, str]) -> Payload:
        called = payload.get("tool_name")
        server, slash, tool = called.partition("/") if isinstance(called, str) else ("", "", "")
        if slash and server.startswith("@"):
            payload |= {"tool_name": f"mcp__{server[1:]}__{tool}", "original_tool_name": called}
        return super().read(payload, env)


class _OneList(base.SettingsFormat):
    """A file with one list of hooks, each with its `trigger` and a name that is unique."""

    def read(self, text: str) -> str:
        try:
            said = json.loads(text.removeprefix("\ufeff") or "{}")
        except ValueError:
            return text
        if not isinstance(said, dict) or not isinstance(listed := said.get("hooks"), list):
            return text
        hooks: dict[str, list[Any]] = {}
        for one in listed:
            if isinstance(one, dict) and isinstance(one.get("action"), dict) and isinstance(one.get("trigger"), str):
                hooks.setdefault(one["trigger"], []).append(_entry(one))
        return json.dumps({**said, "hooks": hooks}, indent=2, ensure_ascii=False) + "\n"

    def write(self, settings: str, text: str) -> str:
        said = json.loads(settings.strip() or "{}")
        hooks = [_hook(one, trigger) for trigger, some in said.get("hooks", {}).items() for one in some]
        return json.dumps({**said, "hooks": hooks}, indent=2, ensure_ascii=False) + "\n"


_OURS: Final = "billhook"  # the name of an entry of billhook, which gets its trigger in the file
_ACTION: Final = ("type", "command", "prompt")


def _entry(hook: dict[str, Any]) -> dict[str, Any]:
    rest = {key: value for key, value in hook.items() if key not in ("action", "trigger")}
    action = hook["action"]
    more = {key: value for key, value in action.items() if key not in _ACTION}
    made = {**rest, **{key: action[key] for key in _ACTION if key in action}, **({"action": more} if more else {})}
    return {**made, "name": _OURS} if rest.get("name") == f"{_OURS}-{hook['trigger']}" else made


def _hook(entry: dict[str, Any], trigger: str) -> dict[str, Any]:
    action = {key: entry[key] for key in _ACTION if key in entry} | entry.get("action", {})
    rest = {key: value for key, value in entry.items() if key not in (*_ACTION, "action", "name")}
    name = f"{_OURS}-{trigger}" if entry.get("name") == _OURS else entry.get("name")
    return {**({"name": name} if name else {}), "trigger": trigger, "action": action, **rest}


AGENT: Final = base.Agent(
    name="kiro",
    title="Kiro",
    meanings=Meanings(name="kiro", naming="kiro", join="\n\n", timeout=60.0),
    event_names={name: name for name in ["PreToolUse", "PostToolUse", "UserPromptSubmit", "SessionStart", "Stop"]},
    only_its=("PreTaskExec", "PostTaskExec", "PostFileCreate", "PostFileSave", "PostFileDelete"),
    tools=base.pairs(
        "execute_bash=Bash shell=Bash fs_read=Read read_file=Read fs_write=Write str_replace=Edit web_fetch=WebFetch"
    ),
    inputs={
        "Read": base.PATH,
        "Write": {**base.PATH, "file_text": "content"},
        "Edit": {**base.PATH, **base.OLD_AND_NEW},
    },
    capabilities=base.rounded(
        "UserPromptSubmit or SessionStart",
        PreToolUse="deny",
        PostToolUse="",
        UserPromptSubmit="context",
        SessionStart="context",
        Stop="",
    ),
    refusals=(base.Refusal("prompt subagent compact", 0, None, "client"), base.Refusal("")),
    program="kiro-cli",
    without_program=True,  # the editor
    project_file=".kiro/hooks/billhook.json",
    user_file=".kiro/hooks/billhook.json",
    home_variable="KIRO_HOME",
    own_file=True,
    format=_OneList(),
    escapes="Kiro CLI 2 runs no hooks from this file, and none in its subagents: use CLI 3 (`--v3`) or IDE 1",
    shape="flat",
    head={"version": "v1"},
    named=True,
)
AGENTS = {"kiro": AGENT}
DIALECTS = {"kiro": _Kiro(AGENT)}

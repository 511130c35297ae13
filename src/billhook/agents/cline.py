"""Cline, in the terminal and in editors: a script in a folder of hooks, which must print JSON.

It ignores exit codes, runs the tool if the script fails, and stops the whole run on a refusal. So `install` writes a
script that refuses when billhook fails. At other events it takes no answer from a script, or it is an editor's alone.
"""

import json
import shlex
from collections.abc import Mapping
from typing import Any, Final

from msgspec.structs import replace

from billhook.agents import base
from billhook.agents.codec import AgentDialect, Payload, kinds, known, spoken
from billhook.core import strictjson
from billhook.core.answers import Answer, Decision
from billhook.core.dialect_traits import Meanings
from billhook.core.errors import BillhookError
from billhook.core.events import Event
from billhook.core.tools import ALSO_EDITS

_TOP: Final = kinds("errorMessage context contextModification", booleans="cancel review", objects="overrideInput")
_ENDS: Final = "also ends Cline's run: the model can't try another way. A rewrite or context does not"
_IN_EDITORS: Final = "PreToolUse"  # the value of `hookName` there; in the terminal it is `tool_call`


class _Cline(AgentDialect):
    names = base.pairs("agent_id=cline_agent_id")  # the main agent has one, too

    def read(self, payload: Payload, env: Mapping[str, str]) -> Payload:
        called, before = (_object(payload.get(name)) for name in ("tool_call", "preToolUse"))
        payload, roots = super().read(payload, env), payload.get("workspaceRoots")
        if not (called or before):
            return payload  # written by hand, with Claude Code's names
        payload |= {"agent_id": payload["cline_agent_id"]} if payload.get("parent_agent_id") else {}
        given = called.get("input")
        if not isinstance(given, dict):
            given = {key: _decoded(value) for key, value in _object(before.get("parameters")).items()}
        tool = called.get("name") or before.get("toolName")
        payload |= {"hook_event_name": "PreToolUse", "session_id": payload.get("taskId")}
        payload |= {"cwd": roots[0]} if isinstance(roots, list) and roots else {}
        payload |= {"tool_name": tool, "tool_input": _without_list(given)}
        payload |= {ALSO_EDITS: True} if tool == "editor" else {}  # one tool for both
        return payload | ({"tool_use_id": called["id"]} if called.get("id") else {})

    def write(self, payload: Payload, event: Event) -> Payload:
        tool, given = payload.get("tool_name"), payload.get("tool_input") or {}
        texts = {key: value if isinstance(value, str) else strictjson.dumps(value) for key, value in given.items()}
        call = {"id": payload.get("tool_use_id"), "name": tool, "input": given}
        about = {"taskId": event.session_id, "workspaceRoots": [event.cwd] if event.cwd else []}
        before = {"toolName": tool, "parameters": texts}
        return {**about, "hookName": "tool_call", "tool_call": call, "preToolUse": before}

    def row(self, event: Event) -> base.Capabilities:
        """Cline in an editor ignores a rewritten input."""
        row = super().row(event)
        return replace(row, rewrite_input=False) if event.payload.get("hookName") == _IN_EDITORS else row

    def say(self, event: Event, answer: Answer) -> Payload:
        if answer.decision is Decision.DENY:
            return {"cancel": True, "errorMessage": answer.reason}
        output: Payload = {"contextModification": answer.context} if answer.context else {}
        if answer.updated_input is not None:
            output["overrideInput"] = self.sent_input(event, answer.updated_input)
        return output

    def hear(self, event: Event, output: Payload) -> Answer:
        fields = known(output, _TOP)
        context = fields.get("context") or fields.get("contextModification", "")
        if fields.get("cancel"):
            return Answer(**spoken(Decision.DENY, fields.get("errorMessage") or context, event))
        wanted = fields.get("overrideInput")
        return Answer(context=context, updated_input=None if wanted is None else self.canonical(event, wanted))

    def sent_input(self, event: Event, given: object) -> object:
        sent = super().sent_input(event, given)
        if not isinstance(sent, dict):
            return sent
        tool, rest = event.payload.get("original_tool_name"), dict(sent)
        if tool == "run_commands" and "command" in rest:
            return {"commands": [rest.pop("command")], **rest}
        return {"files": [rest]} if tool == "read_files" and "files" not in rest else sent

    def canonical(self, event: Event, given: Payload) -> Payload:
        return super().canonical(event, _without_list(given))


def _object(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _decoded(value: object) -> object:
    """In editors all values are strings, and lists and objects are JSON in a string."""
    try:
        return json.loads(value) if isinstance(value, str) and value[:1] in ("[", "{") else value
    except ValueError:
        return value


def _without_list(given: Payload) -> Payload:
    """The tool for commands takes a list of them, which start in the same folder: here they are one command line. The
    one for reading takes a list of files: a single one is replaced by its fields."""
    listed, files = given.get("commands"), given.get("files")
    if isinstance(files, list) and len(files) == 1 and isinstance(files[0], dict):
        return {**files[0], **{key: value for key, value in given.items() if key != "files"}}
    if not isinstance(listed, list) or not listed:
        return given
    lines = [_line(one) for one in listed]
    rest = {key: value for key, value in given.items() if key != "commands"}
    return {"command": lines[0] if len(lines) == 1 else "\n".join(f"({line}\n)" for line in lines), **rest}


def _line(one: object) -> str:
    if not isinstance(one, dict):
        return str(one)
    words = one.get("args")
    return " ".join([str(one.get("command", "")), *(shlex.quote(str(word)) for word in _list(words))])


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


_BEGIN, _END = ": <<'end of settings'\n", "\nend of settings\n"
_SCRIPT: Final = """\
#!/bin/sh
# Runs billhook before each tool call of Cline. Written by `billhook install cline`, which overwrites changes.
{begin}{settings}{end}answer=$({command}) ||
    answer='{{"cancel": true, "errorMessage": "billhook failed, so this call was not checked and is refused"}}'
printf '%s\\n' "$answer"
"""


class _Script(base.SettingsFormat):
    """The entry inside a shell script, which runs its command and refuses when that fails."""

    def read(self, text: str) -> str:
        if text.strip() and not (_BEGIN in text and _END in text):
            hint = "Cline runs one file of this name: move the script elsewhere, and name it in hooks.yaml"
            raise BillhookError("this script was not written by billhook", hint=hint)
        return text.partition(_BEGIN)[2].partition(_END)[0]

    def write(self, settings: str, text: str) -> str:
        entries = json.loads(settings)["hooks"]["PreToolUse"] if settings.strip() else [{"command": "cat >/dev/null"}]
        parts = {"settings": settings.strip(), "command": entries[0]["command"], "begin": _BEGIN, "end": _END}
        return _SCRIPT.format(**parts)


_FILE: Final = {"path": "file_path"}
_ROW: Final = base.rounded_row("deny rewrite_input context", "")

AGENT: Final = base.Agent(
    name="cline",
    title="Cline",
    meanings=Meanings(name="cline", naming="cline", join="\n", timeout=30.0),
    event_names={"PreToolUse": "PreToolUse"},
    tools=base.pairs(
        "run_commands=Bash execute_command=Bash read_files=Read read_file=Read editor=Write write_to_file=Write "
        "replace_in_file=Edit search_codebase=Grep search_files=Grep list_files=LS fetch_web_content=WebFetch"
    ),
    inputs={
        "Read": _FILE,
        "Write": {**_FILE, "content": "content", "new_text": "content", "old_text": "old_string"},
        "Edit": _FILE,
        "apply_patch": {"input": "command"},
    },
    capabilities={"PreToolUse": replace(_ROW, instead={**_ROW.instead, "deny": _ENDS})},
    refusals=(base.Refusal("", 0, {"cancel": True, "errorMessage": "@"}),),
    sends=lambda payload, _environ: 3 * ("clineVersion" in payload),
    packages=(("node_modules", "cline"),),
    program="cline",
    project_file=".clinerules/hooks/PreToolUse",
    user_file="Documents/Cline/Hooks/PreToolUse",
    folder="Documents/Cline/Hooks",
    traces=("", "../../../.cline"),
    own_file=True,
    format=_Script(),
    shape="flat",
    typed=False,
    longest={"PreToolUse": 30},
    why_no_http="it has no HTTP hooks",
)
AGENTS = {"cline": AGENT}
DIALECTS = {"cline": _Cline(AGENT)}

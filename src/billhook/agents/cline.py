"""Cline, in the terminal and in editors: a script in a folder of hooks, which must print JSON.

It ignores exit codes, runs the tool if the script fails, and stops the whole run on a refusal. So `install` writes a
script that refuses when billhook fails. At other events it takes no answer from a script, or it is an editor's alone.
"""

import json
import shlex
from collections.abc import Mapping
from typing import Final

from msgspec.structs import replace

from billhook.agents import base
from billhook.agents.codec import AgentDialect, Payload, checked_fields, decision_fields, kinds
from billhook.agents.formats import InProgram
from billhook.core import strictjson
from billhook.core.answers import Answer, Decision
from billhook.core.dialect_traits import Meanings
from billhook.core.events import Event
from billhook.core.tools import ALSO_EDITS

_TOP: Final = kinds("errorMessage context contextModification", booleans="cancel", objects="overrideInput")
_ENDS: Final = "also ends Cline's run: the model can't try another way. A rewrite or context does not"


class _Cline(AgentDialect):
    names = base.pairs("agent_id=cline_agent_id")  # the main agent has one, too

    def read(self, payload: Payload, env: Mapping[str, str]) -> Payload:
        called, before = (base.mapping(payload.get(name)) for name in ("tool_call", "preToolUse"))
        payload = super().read(payload, env)
        if not (called or before):
            return payload  # written by hand, with Claude Code's names
        texts = {key: _decoded(value) for key, value in base.mapping(before.get("parameters")).items()}
        given = called["input"] if isinstance(called.get("input"), dict) else texts
        tool = called.get("name") or before.get("toolName")
        payload |= {"hook_event_name": "PreToolUse", "session_id": payload.get("taskId"), "tool_name": tool}
        payload |= {"tool_input": _without_list(given)}
        base.set_folder(payload, payload.get("workspaceRoots"))
        payload |= {"agent_id": payload["cline_agent_id"]} if payload.get("parent_agent_id") else {}
        payload |= {ALSO_EDITS: True} if tool == "editor" else {}  # one tool for both
        return payload | ({"tool_use_id": called["id"]} if called.get("id") else {})

    def write(self, payload: Payload, event: Event) -> Payload:
        tool, given = payload.get("tool_name"), payload.get("tool_input") or {}
        texts = {key: value if isinstance(value, str) else strictjson.dumps(value) for key, value in given.items()}
        call = {"id": payload.get("tool_use_id"), "name": tool, "input": given}
        about: Payload = {"taskId": event.session_id, "workspaceRoots": [event.cwd] if event.cwd else []}
        about["preToolUse"] = {"toolName": tool, "parameters": texts}
        return {**about, "hookName": "tool_call", "tool_call": call}

    def row(self, event: Event) -> base.Capabilities:
        """Cline in an editor ignores a rewritten input; `hookName` is `tool_call` in the terminal only."""
        row = super().row(event)
        return replace(row, rewrite_input=False) if event.payload.get("hookName") == "PreToolUse" else row

    def encode_answer(self, event: Event, answer: Answer) -> Payload:
        if answer.decision is Decision.DENY:
            return {"cancel": True, "errorMessage": answer.reason}
        output: Payload = {"contextModification": answer.context} if answer.context else {}
        if answer.updated_input is not None:
            output["overrideInput"] = self.sent_input(event, answer.updated_input)
        return output

    def decode_answer(self, event: Event, output: Payload) -> Answer:
        fields = checked_fields(output, _TOP)
        context = fields.get("context") or fields.get("contextModification", "")
        if fields.get("cancel"):
            return Answer(**decision_fields(Decision.DENY, fields.get("errorMessage") or context, event))
        wanted = self.canonical(event, _without_list(fields["overrideInput"])) if "overrideInput" in fields else None
        return Answer(context=context, updated_input=wanted)

    def sent_input(self, event: Event, given: object) -> object:
        sent, tool = super().sent_input(event, given), event.payload.get("original_tool_name")
        fields = base.mapping(sent)
        if tool == "run_commands" and "command" in fields:
            return {"commands": [fields["command"]], **base.without(fields, "command")}
        return {"files": [sent]} if tool == "read_files" and fields and "files" not in fields else sent


def _decoded(value: object) -> object:
    """In editors all values are strings, and lists and objects are JSON in a string."""
    try:
        return json.loads(value) if isinstance(value, str) and value[:1] in ("[", "{") else value
    except ValueError:
        return value


def _without_list(given: Payload) -> Payload:
    """The tool for commands takes a list of them, which start in the same folder: here they are one command line. The
    one for reading takes a list of files: a single one is replaced by its fields."""
    lines = [_line(one) for one in base.items(given.get("commands"))]
    if file := base.only(given.get("files")):
        return {**file, **base.without(given, "files")}
    command = "\n".join(f"({line}\n)" for line in lines) if lines[1:] else "".join(lines)
    return {"command": command, **base.without(given, "commands")} if lines else given


def _line(one: object) -> str:
    if not isinstance(one, dict):
        return str(one)
    return " ".join([str(one.get("command", "")), *(shlex.quote(str(word)) for word in base.items(one.get("args")))])


class _Script(InProgram):
    """The entry inside a shell script, which runs its command and refuses when that fails."""

    begin, end = ": <<'end of settings'\n", "\nend of settings\n"
    hint = "Cline runs one file of this name: move the script elsewhere, and name it in hooks.yaml"

    def write(self, settings: str, text: str) -> str:
        entries = json.loads(settings)["hooks"]["PreToolUse"] if settings.strip() else [{"command": "cat >/dev/null"}]
        before, _, after = self.filled("cline.sh", settings.strip()).rpartition("COMMAND")
        return before + str(entries[0]["command"]) + after


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
        "Read": base.PATH,
        "Write": {**base.PATH, "content": "content", "new_text": "content", "old_text": "old_string"},
        "Edit": base.PATH,
        "apply_patch": {"input": "command"},
    },
    capabilities={"PreToolUse": base.rounded_row("deny rewrite_input context", "", deny=_ENDS)},
    refusals=(base.Refusal("", 0, {"cancel": True, "errorMessage": "@"}),),
    sends=lambda payload, _environ: 3 * ("clineVersion" in payload),
    packages=(("node_modules", "cline"),),
    program="cline",
    without_program=True,  # an editor
    project_file=".clinerules/hooks/PreToolUse",
    user_file="Documents/Cline/Hooks/PreToolUse",
    folder="Documents/Cline/Hooks",
    traces=("", "../../../.cline"),
    own_file=True,
    format=_Script(),
    shape="flat",
    typed=False,
    longest={"PreToolUse": 30},
)
AGENTS = {"cline": AGENT}
DIALECTS = {"cline": _Cline(AGENT)}

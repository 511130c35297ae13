"""Copilot CLI, and VS Code's agent, which runs on it: both spellings of its events.

Entries under `preToolUse` get `toolName` and answer with fields at the top; entries under `PreToolUse`, also those of
`.claude/settings.json`, get the reference's names and answer in its words. An exit code of 2 blocks and loses the
reason, so a deny is JSON at exit code 0.
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from msgspec import UNSET

from billhook.agents.base import (
    ASK,
    CANARY_KEY,
    ENDS,
    LATE,
    NEXT,
    ON,
    OUTPUT,
    REFUSE,
    REFUSE_PERMISSION,
    REFUSE_TOOL,
    REWRITE,
    STOP,
    TRUST_FIRST,
    UNPREVENTED,
    Agent,
    Installed,
    Refusal,
    Settings,
    Start,
    Trust,
    folder_trust,
    row,
    way_up,
)
from billhook.agents.codec import AgentDialect, Payload, block, known, one_of, spoken
from billhook.agents.inbound import canonical_event
from billhook.core import strictjson
from billhook.core.answers import Answer, Decision
from billhook.core.dialect_traits import Meanings
from billhook.core.errors import StrictJSONError
from billhook.core.events import Block, Event

_RENAMED: Final = {
    "hookName": "hook_event_name",
    "sessionId": "session_id",
    "transcriptPath": "transcript_path",
    "workingDirectory": "cwd",
    "toolName": "tool_name",
    "toolArgs": "tool_input",
    "toolInput": "tool_input",
    "toolResult": "tool_response",
    "tool_result": "tool_response",
    "permissionSuggestions": "permission_suggestions",
    "agentId": "agent_id",
    "agentType": "agent_type",
    "agentName": "agent_name",
    "parentAgentId": "parent_agent_id",
    "response": "last_assistant_message",
    "stopReason": "stop_reason",
    "stopHookActive": "stop_hook_active",
    "initialPrompt": "initial_prompt",
    "customInstructions": "custom_instructions",
    "notificationType": "notification_type",
}
"""Its names of fields, and ours; of two for the same the first is used."""
_CAMEL: Final = ("sessionId", "toolName", "hookName")
_TOP: Final = {
    "permissionDecision": str,
    "permissionDecisionReason": str,
    "modifiedArgs": dict,
    "modifiedResult": dict,
    "additionalContext": str,
    "decision": str,
    "reason": str,
    "behavior": str,
    "message": str,
    "hookSpecificOutput": dict,
}
_SPECIFIC: Final = {
    "permissionDecision": str,
    "permissionDecisionReason": str,
    "updatedInput": dict,
    "additionalContext": str,
    "decision": dict,
}
_WORDS: Final = {"allow": Decision.ALLOW, "ask": Decision.ASK, "deny": Decision.DENY}
_MIXED: Final = ("PermissionRequest", "SubagentStart")
"""Events that come in the first spelling, whichever the entry has."""


class _Copilot(AgentDialect):
    closed = "code"

    def read(self, payload: Payload, env: Mapping[str, str]) -> Payload:
        camel = any(key in payload for key in _CAMEL)
        for own, name in _RENAMED.items():
            if own in payload and name not in payload:
                payload[name] = payload.pop(own)
        named = payload.get("hook_event_name")
        known_as = canonical_event(named, "copilot") if isinstance(named, str) else ""
        if camel and known_as and named == known_as:  # the name came from the command line
            payload["original_event_name"] = AGENT.event_names.get(known_as, "")
        if isinstance(payload.get("tool_input"), str):
            payload["tool_input"] = _object(payload["tool_input"])
        if isinstance(payload.get("agent_name"), str):
            payload.setdefault("agent_type", payload["agent_name"])
        return _with_mcp_name(payload)

    def write(self, payload: Payload, event: Event) -> Payload:
        back = {name: own for own, name in reversed(list(_RENAMED.items()))} | {"tool_input": "toolArgs"}
        del back["hook_event_name"]
        return {back.get(key, key): value for key, value in payload.items()}

    # -- saying

    def say(self, event: Event, answer: Answer) -> Payload:
        name = event.hook_event_name
        output = self._top(event, answer)
        if answer.context:
            output["additionalContext"] = answer.context
        if output and (name in _MIXED or not _is_camel(event)):
            inside = self._inside(event, answer)
            if inside:
                output["hookSpecificOutput"] = {"hookEventName": name, **inside}
        return output

    def deny_unknown(self, answer: Answer) -> Payload:
        return block(answer.reason)

    def _top(self, event: Event, answer: Answer) -> Payload:
        name, denies = event.hook_event_name, answer.decision is Decision.DENY
        output: Payload = {}
        if name == "PreToolUse":
            output = _permission(answer)
            if answer.updated_input is not None:
                output["modifiedArgs"] = self.sent_input(event, answer.updated_input)
        elif name == "PermissionRequest" and answer.decision is not Decision.NONE:
            output = {"behavior": answer.decision.value} | ({"message": answer.reason} if denies else {})
        elif denies or answer.keep_going:
            output = block(answer.reason)
        if answer.updated_output is not UNSET:
            output["modifiedResult"] = {"resultType": _kind(event), "textResultForLlm": answer.updated_output}
        return output

    def _inside(self, event: Event, answer: Answer) -> Payload:
        """The same in the words of the reference."""
        inside: Payload = {}
        if event.hook_event_name == "PreToolUse":
            inside = _permission(answer)
            if answer.updated_input is not None:
                inside["updatedInput"] = self.sent_input(event, answer.updated_input)
        elif event.hook_event_name == "PermissionRequest" and answer.decision is not Decision.NONE:
            denies = answer.decision is Decision.DENY
            inside["decision"] = {"behavior": answer.decision.value} | ({"message": answer.reason} if denies else {})
        if answer.context:
            inside["additionalContext"] = answer.context
        return inside

    # -- hearing

    def hear(self, event: Event, output: Payload) -> Answer:
        top = known(output, _TOP)
        inside = known(top.get("hookSpecificOutput", {}), _SPECIFIC, "hookSpecificOutput.")
        said: Payload = {"context": top.get("additionalContext") or inside.get("additionalContext", "")}
        decisions = [_decided(event, fields) for fields in (top, inside)]
        order = list(Decision)
        decision, reason = max(decisions, key=lambda one: order.index(one[0]))
        if decision is not Decision.NONE:
            said |= spoken(decision, reason, event)
        elif top.get("decision") == "block":
            said |= _blocked(event, top.get("reason", ""), said["context"])
        given = top.get("modifiedArgs", inside.get("updatedInput"))
        if given is not None:
            said["updated_input"] = self.canonical(event, given)
        result = top.get("modifiedResult", {})
        text = result.get("textResultForLlm", result.get("text_result_for_llm"))
        if isinstance(text, str):
            said["updated_output"] = text
        return Answer(**said)


def _is_camel(event: Event) -> bool:
    return event.payload.get("original_event_name") == AGENT.event_names.get(event.hook_event_name, "")


def _permission(answer: Answer) -> Payload:
    if answer.decision is Decision.NONE:
        return {}
    reason = {"permissionDecisionReason": answer.reason} if answer.reason else {}
    return {"permissionDecision": answer.decision.value} | reason


def _decided(event: Event, fields: Payload) -> tuple[Decision, str]:
    """The decision that some fields hold, and its reason."""
    if "permissionDecision" in fields:
        decision = one_of("permissionDecision", fields["permissionDecision"], _WORDS)
        return decision, fields.get("permissionDecisionReason", "")
    wanted = fields.get("decision")
    behaviour = wanted.get("behavior") if isinstance(wanted, dict) else fields.get("behavior")
    if event.hook_event_name == "PermissionRequest" and isinstance(behaviour, str):
        told = wanted.get("message", "") if isinstance(wanted, dict) else fields.get("message", "")
        return one_of("behavior", behaviour, _WORDS), told if behaviour == "deny" and isinstance(told, str) else ""
    return Decision.NONE, ""


def _blocked(event: Event, reason: str, context: str) -> Payload:
    if event.block is Block.KEEP_GOING:
        return {"keep_going": True, "reason": reason or f"blocked by a {event.hook_event_name} hook"}
    if event.block is Block.MODEL:
        return {"context": "\n\n".join(text for text in (context, reason) if text)}
    return spoken(Decision.DENY, reason, event)


def _kind(event: Event) -> str:
    response = getattr(event, "tool_response", None)
    given = response if isinstance(response, dict) else {}
    kind = given.get("resultType", given.get("result_type"))
    return kind if isinstance(kind, str) else "success"


def _object(text: str) -> object:
    """Arguments that came as JSON in a string; other text, such as a patch, stays what it is."""
    try:
        found = strictjson.loads_leniently(text.encode("utf-8", "surrogatepass"), max_depth=400)
    except (StrictJSONError, UnicodeError):
        return text
    return found if isinstance(found, dict) else text


def _with_mcp_name(payload: Payload) -> Payload:
    """Tools of MCP servers are called `server-tool`, in a permission request `server/tool`; its own have no hyphen.

    Where there are several hyphens nobody can tell server and tool apart: the last one is taken.
    """
    called = payload.get("tool_name")
    if not isinstance(called, str) or called in AGENT.tools or called.startswith("mcp__"):
        return payload
    server, slash, tool = called.partition("/")
    if not slash:
        server, slash, tool = called.rpartition("-")
    if slash and server and tool:
        payload |= {"tool_name": f"mcp__{server}__{tool}", "original_tool_name": called}
    return payload


# -- its files


def _trust(agent: Agent, project: str, installed: Sequence[Installed], settings: Settings) -> Iterator[Trust]:
    folders: list[str] = []
    for name in ("config.json", "settings.json"):
        said = settings(os.path.join(agent.home(), name))
        if said.get("disableAllHooks") is True:
            text = f"{os.path.join(agent.home(), name)} switches all hooks off (`disableAllHooks`)"
            yield Trust("fail", text, "change that setting")
        for key in ("trusted_folders", "trustedFolders"):
            value = said.get(key)
            folders += [one for one in value if isinstance(one, str)] if isinstance(value, list) else []
    real = [os.path.realpath(one) for one in folders]
    yield folder_trust(agent, installed, any(folder in real for folder in way_up(project)), "")


def _start(_agent: Agent, url: str, prompt: str, _settings: Settings) -> Start:
    environ = {
        "COPILOT_AUTO_UPDATE": "false",
        "COPILOT_OFFLINE": "true",
        "COPILOT_PROVIDER_BASE_URL": f"{url}/v1",
        "COPILOT_PROVIDER_TYPE": "openai",
        "COPILOT_PROVIDER_API_KEY": CANARY_KEY,
        "COPILOT_MODEL": "gpt-4.1",
    }
    return Start(("-p", prompt, "--no-color", "--no-auto-update", "--disable-builtin-mcps"), environ)


_VARIABLES: Final = ("COPILOT_PROJECT_DIR", "COPILOT_CLI", "COPILOT_HOOK_DIR")


def _sends(payload: Mapping[str, Any], environ: Mapping[str, str]) -> int:
    """It does not always name the event."""
    if "timestamp" not in payload:
        return 0
    if "hook_event_name" not in payload:
        return 2 if "sessionId" in payload and "hookEventName" not in payload else 0
    return 1 if any(environ.get(name) for name in _VARIABLES) and "permission_mode" not in payload else 0


def _unnamed_event(payload: Mapping[str, Any]) -> str:
    """The start of a subagent has no name, however the entry spells it."""
    told = ("hook_event_name", "hookName", "toolName", "stopReason")
    return "SubagentStart" if "agentName" in payload and not any(name in payload for name in told) else ""


_REFUSE_TOOL: Final = {**REFUSE_TOOL, "hookSpecificOutput": {"hookEventName": "PreToolUse", **REFUSE_TOOL}}
"""Once for each spelling of its events."""

AGENT: Final = Agent(
    name="copilot",
    title="Copilot",
    meanings=Meanings(name="copilot", naming="copilot", join="\n\n", timeout=30.0),
    event_names={
        "PreToolUse": "preToolUse",
        "PostToolUse": "postToolUse",
        "PostToolUseFailure": "postToolUseFailure",
        "UserPromptSubmit": "userPromptSubmitted",
        "SessionStart": "sessionStart",
        "SessionEnd": "sessionEnd",
        "Stop": "agentStop",
        "SubagentStart": "subagentStart",
        "SubagentStop": "subagentStop",
        "PreCompact": "preCompact",
        "PermissionRequest": "permissionRequest",
        "Notification": "notification",
    },
    only_its=("errorOccurred", "userPromptTransformed"),
    tools={
        "bash": "Bash",
        "view": "Read",
        "create": "Write",
        "edit": "Edit",
        "glob": "Glob",
        "grep": "Grep",
        "rg": "Grep",
        "web_fetch": "WebFetch",
        "web_search": "WebSearch",
        "task": "Agent",
        "skill": "Skill",
        # the same agent inside VS Code
        "run_in_terminal": "Bash",
        "runTerminalCommand": "Bash",
        "read_file": "Read",
        "create_file": "Write",
        "replace_string_in_file": "Edit",
    },
    inputs={
        "Write": {"path": "file_path", "filePath": "file_path", "file_text": "content"},
        "Edit": {
            "path": "file_path",
            "filePath": "file_path",
            "old_str": "old_string",
            "oldString": "old_string",
            "new_str": "new_string",
            "newString": "new_string",
        },
        "Read": {"path": "file_path", "filePath": "file_path"},
        "Agent": {"agent_type": "subagent_type"},
    },
    capabilities={
        "PreToolUse": row("allow deny rewrite_input context", ask=ASK, stop=STOP),
        "PostToolUse": row("replace_output context", deny=OUTPUT, stop=LATE),
        "PostToolUseFailure": row("context", deny=LATE, stop=LATE),
        "PermissionRequest": row("allow deny", ask=ASK, rewrite_input=REWRITE, stop=STOP, context=NEXT),
        "UserPromptSubmit": row("deny", ask=ASK, stop=STOP, context=NEXT),
        "SessionStart": row("context", deny=LATE, stop=LATE),
        "SessionEnd": row(**UNPREVENTED),
        "Stop": row("keep_going", deny=ON, stop=ENDS, context=NEXT),
        "SubagentStart": row("context", deny=LATE, stop=LATE),
        "SubagentStop": row("keep_going", deny=ON, stop=ENDS, context=NEXT),
        "PreCompact": row(**UNPREVENTED, context=NEXT),
        "Notification": row(**UNPREVENTED, context=NEXT),
    },
    refusals=(
        Refusal("compact", 0, None),
        Refusal("tool", 0, REFUSE_TOOL, "user project"),
        Refusal("tool", 0, _REFUSE_TOOL, "client"),
        Refusal("", 0, _REFUSE_TOOL, "http"),  # a block would keep it going
        Refusal("prompt", 0, REFUSE),
        Refusal("permission", 0, {"behavior": "deny", "message": "@", **REFUSE_PERMISSION}),
        Refusal("", 2, REFUSE_TOOL),
    ),
    sends=_sends,
    unnamed_event=_unnamed_event,
    reads_claude=("project",),
    marks={"COPILOT_CLI": "Copilot CLI", "COPILOT_AGENT_SESSION_ID": ""},
    packages=(("@github", "copilot"),),
    program_title="Copilot CLI",
    program="copilot",
    project_file=".github/hooks/billhook.json",
    user_file=".copilot/hooks/billhook.json",
    home_variable="COPILOT_HOME",
    own_file=True,
    own_keys={"bash": "run", "timeoutSec": "timeout"},
    read_keys=frozenset({"env", "cwd"}),
    trust=_trust,
    next_steps=(("project", TRUST_FIRST.format("Copilot")),),
    start=_start,
    shape="flat",
    head={"version": 1},
    command_key="bash",
    timeout_key="timeoutSec",
    why_no_http="it takes https addresses only, and lets a call pass when they fail",
    event_argument=True,
    parallel=False,
)

# -- VS Code's agent: it reads Claude Code's settings and obeys its words, but has names of its own in what it sends
#
# Taken from its documentation, not measured. What we know by another name is added beside what it sent, so that a guard
# which was written for `Bash` and `file_path` runs; what it sent stays as it is.

_VSCODE_TOOLS: Final = {
    "run_in_terminal": "Bash",
    "runInTerminal": "Bash",
    "runTerminalCommand": "Bash",
    "create_file": "Write",
    "createFile": "Write",
    "replace_string_in_file": "Edit",
    "multi_replace_string_in_file": "Edit",
    "insert_edit_into_file": "Edit",
    "editFiles": "Edit",
    "read_file": "Read",
    "readFile": "Read",
}
_VSCODE_FIELDS: Final = {
    "file_path": "filePath",
    "content": "content",
    "old_string": "oldString",
    "new_string": "newString",
    "command": "command",
}
"""Our names of what a tool gets, and VS Code's."""


def _vscode_payload(sent: Mapping[str, Any]) -> dict[str, Any]:
    """What was sent, with the names of Claude Code beside it."""
    known: dict[str, Any] = {"hook_event_name": sent.get("hookEventName"), "session_id": sent.get("sessionId", "")}
    tool, given = sent.get("tool_name"), sent.get("tool_input")
    if isinstance(tool, str) and tool in _VSCODE_TOOLS:
        known |= {"tool_name": _VSCODE_TOOLS[tool], "original_tool_name": tool}
    if isinstance(given, Mapping):
        known["tool_input"] = _vscode_input(given)
    return {**sent, **known}


def _vscode_input(given: Mapping[str, Any]) -> dict[str, Any]:
    """A tool's input, with our names for what has others."""
    added = {ours: given[theirs] for ours, theirs in _VSCODE_FIELDS.items() if theirs in given and ours not in given}
    files = given.get("files")
    if "file_path" not in added and isinstance(files, list) and len(files) == 1 and isinstance(files[0], str):
        added["file_path"] = files[0]
    return {**given, **added}


def _vscode_own_input(rewritten: Mapping[str, Any], sent: Mapping[str, Any]) -> dict[str, Any]:
    """A rewritten input in VS Code's names: what a hook changed under our name is changed under the one that was
    sent."""
    own = dict(rewritten)
    for ours, theirs in _VSCODE_FIELDS.items():
        if ours in sent or ours not in own:
            continue
        value = own.pop(ours)
        if theirs in sent and value != sent[theirs]:
            own[theirs] = value
        elif theirs not in sent and value not in sent.get("files", ()):
            own["files"] = [value]
    return own


def _vscode_sends(payload: Mapping[str, Any], _environ: Mapping[str, str]) -> int:
    return 2 if "hookEventName" in payload and "hook_event_name" not in payload else 0


VSCODE: Final = Agent(
    name="vscode",
    title="VS Code",
    aliases=("vscode", "vs-code", "VSCode", "code"),
    sends=_vscode_sends,
    payload_of=_vscode_payload,
    input_for=_vscode_own_input,
    reads_claude=("user", "project"),
)
AGENTS = {"copilot": AGENT, "vscode": VSCODE}
DIALECTS = {"copilot": _Copilot(AGENT)}

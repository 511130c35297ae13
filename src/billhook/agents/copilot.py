"""Copilot CLI: both spellings of its events.

Entries under `preToolUse` get `toolName` and answer with fields at the top; entries under `PreToolUse`, also those of
`.claude/settings.json`, get the reference's names and answer in its format. An exit code of 2 blocks but loses the
reason, so a deny is JSON at exit code 0.
"""

import os
from collections.abc import Iterator, Mapping
from typing import Any, Final

from msgspec import UNSET

from billhook.agents import base, canonical_event, parsed
from billhook.agents.codec import AgentDialect, Payload, block, checked_fields, decision_fields, kinds
from billhook.core.answer_schema import decision_of
from billhook.core.answers import Answer, Decision
from billhook.core.dialect_traits import Meanings
from billhook.core.events import Block, Event

_RENAMED: Final = base.pairs(
    "hookName=hook_event_name sessionId=session_id transcriptPath=transcript_path workingDirectory=cwd "
    "toolName=tool_name toolArgs=tool_input toolInput=tool_input toolResult=tool_response tool_result=tool_response "
    "permissionSuggestions=permission_suggestions agentId=agent_id agentType=agent_type agentName=agent_name "
    "parentAgentId=parent_agent_id response=last_assistant_message stopReason=stop_reason "
    "stopHookActive=stop_hook_active initialPrompt=initial_prompt customInstructions=custom_instructions "
    "notificationType=notification_type"
)
_TOP: Final = kinds(
    "permissionDecision permissionDecisionReason additionalContext decision reason behavior message",
    objects="modifiedArgs modifiedResult hookSpecificOutput",
)
_SPECIFIC: Final = kinds(
    "permissionDecision permissionDecisionReason additionalContext", objects="updatedInput decision"
)
_WORDS: Final = {"allow": Decision.ALLOW, "ask": Decision.ASK, "deny": Decision.DENY}
_MIXED: Final = ("PermissionRequest", "SubagentStart")
"""Events that arrive in the first spelling, with either spelling in the entry."""


class _Copilot(AgentDialect):
    closed = "code"
    names = _RENAMED

    def read(self, payload: Payload, env: Mapping[str, str]) -> Payload:
        camel = any(key in payload for key in ("sessionId", "toolName", "hookName"))
        payload = super().read(payload, env)
        named = payload.get("hook_event_name")
        known_as = canonical_event(named, "copilot") if isinstance(named, str) else ""
        if camel and known_as and named == known_as:  # the name came from the command line
            payload["original_event_name"] = AGENT.event_names.get(known_as, "")
        if "tool_input" in payload:
            payload["tool_input"] = parsed(payload["tool_input"])
        if isinstance(payload.get("agent_name"), str):
            payload.setdefault("agent_type", payload["agent_name"])
        return _with_mcp_name(payload)

    def write(self, payload: Payload, event: Event) -> Payload:
        back = {name: own for own, name in reversed(list(_RENAMED.items()))} | {"tool_input": "toolArgs"}
        del back["hook_event_name"]
        return {back.get(key, key): value for key, value in payload.items()}

    # -- writing

    def encode_answer(self, event: Event, answer: Answer) -> Payload:
        name = event.hook_event_name
        decided = self._decided(event, answer, "modifiedArgs")
        output = dict(decided)
        if name not in base.WAITING and (answer.keep_going or answer.decision is Decision.DENY):
            output = block(answer.reason)
        if answer.updated_output is not UNSET:
            output["modifiedResult"] = {"resultType": _kind(event), "textResultForLlm": answer.updated_output}
        if answer.context:
            output["additionalContext"] = answer.context
        is_camel = event.payload.get("original_event_name") == AGENT.event_names.get(name, "")
        if output and (name in _MIXED or not is_camel):  # the same in the reference's format
            inside = {} if "behavior" in decided else self._decided(event, answer, "updatedInput")
            inside |= {"decision": decided} if "behavior" in decided else {}
            inside |= {"additionalContext": answer.context} if answer.context else {}
            if inside:
                output["hookSpecificOutput"] = {"hookEventName": name, **inside}
        return output

    def deny_unknown(self, answer: Answer) -> Payload:
        return block(answer.reason)

    def _decided(self, event: Event, answer: Answer, rewritten: str) -> Payload:
        name, said = event.hook_event_name, answer.decision.value
        output: Payload = {}
        if name == "PermissionRequest" and answer.decision is not Decision.NONE:
            return {"behavior": said} | ({"message": answer.reason} if answer.decision is Decision.DENY else {})
        if name == "PreToolUse" and answer.decision is not Decision.NONE:
            reason = {"permissionDecisionReason": answer.reason} if answer.reason else {}
            output = {"permissionDecision": said} | reason
        if name == "PreToolUse" and answer.updated_input is not None:
            output[rewritten] = self.sent_input(event, answer.updated_input)
        return output

    # -- reading

    def decode_answer(self, event: Event, output: Payload) -> Answer:
        top = checked_fields(output, _TOP)
        inside = checked_fields(top.get("hookSpecificOutput", {}), _SPECIFIC, "hookSpecificOutput.")
        said: Payload = {"context": top.get("additionalContext") or inside.get("additionalContext", "")}
        decisions = [_decided(event, fields) for fields in (top, inside)]
        order = list(Decision)
        decision, reason = max(decisions, key=lambda one: order.index(one[0]))
        if decision is not Decision.NONE:
            said |= decision_fields(decision, reason, event)
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


def _decided(event: Event, fields: Payload) -> tuple[Decision, str]:
    if "permissionDecision" in fields:
        decision = decision_of("permissionDecision", fields["permissionDecision"], _WORDS)
        return decision, fields.get("permissionDecisionReason", "")
    wanted = fields.get("decision")
    behaviour = wanted.get("behavior") if isinstance(wanted, dict) else fields.get("behavior")
    if event.hook_event_name == "PermissionRequest" and isinstance(behaviour, str):
        told = wanted.get("message", "") if isinstance(wanted, dict) else fields.get("message", "")
        return decision_of("behavior", behaviour, _WORDS), told if behaviour == "deny" and isinstance(told, str) else ""
    return Decision.NONE, ""


def _blocked(event: Event, reason: str, context: str) -> Payload:
    if event.block is Block.KEEP_GOING:
        return {"keep_going": True, "reason": reason or f"blocked by a {event.hook_event_name} hook"}
    if event.block is Block.MODEL:
        return {"context": "\n\n".join(text for text in (context, reason) if text)}
    return decision_fields(Decision.DENY, reason, event)


def _kind(event: Event) -> str:
    given = base.mapping(getattr(event, "tool_response", None))
    kind = given.get("resultType", given.get("result_type"))
    return kind if isinstance(kind, str) else "success"


def _with_mcp_name(payload: Payload) -> Payload:
    """Tools of MCP servers have names like `server-tool`, in a permission request `server/tool`; others have no hyphen.
    A name with several hyphens is ambiguous: it is split at the last one."""
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


def _trust(check: base.TrustCheck) -> Iterator[base.Trust]:
    folders: list[str] = []
    for name in ("config.json", "settings.json"):
        yield from check.switched_off(os.path.join(check.agent.home(), name))
        for key in ("trusted_folders", "trustedFolders"):
            folders += [one for one in base.items(check.read(name).get(key)) if isinstance(one, str)]
    real = [os.path.realpath(one) for one in folders]
    yield check.folder(any(folder in real for folder in base.way_up(check.project)))


def _start(_agent: base.Agent, url: str, prompt: str, _settings: base.Settings) -> base.Start:
    environ = {
        "COPILOT_AUTO_UPDATE": "false",
        "COPILOT_OFFLINE": "true",
        "COPILOT_PROVIDER_BASE_URL": f"{url}/v1",
        "COPILOT_PROVIDER_TYPE": "openai",
        "COPILOT_PROVIDER_API_KEY": base.CANARY_KEY,
        "COPILOT_MODEL": "gpt-4.1",
    }
    return base.Start(("-p", prompt, "--no-color", "--no-auto-update", "--disable-builtin-mcps"), environ)


_VARIABLES: Final = ("COPILOT_PROJECT_DIR", "COPILOT_CLI", "COPILOT_HOOK_DIR")


def _sends(payload: Mapping[str, Any], environ: Mapping[str, str]) -> int:
    if "timestamp" not in payload:
        return 0
    if "hook_event_name" not in payload:
        return 2 if "sessionId" in payload and "hookEventName" not in payload else 0
    return 1 if any(environ.get(name) for name in _VARIABLES) and "permission_mode" not in payload else 0


def _unnamed_event(payload: Mapping[str, Any]) -> str:
    """The start of a subagent has no event name, with either spelling in the entry."""
    told = ("hook_event_name", "hookName", "toolName", "stopReason")
    return "SubagentStart" if "agentName" in payload and not any(name in payload for name in told) else ""


_REFUSE_TOOL: Final = {**base.REFUSE_TOOL, "hookSpecificOutput": {"hookEventName": "PreToolUse", **base.REFUSE_TOOL}}
"""Once for each spelling of its events."""

AGENT: Final = base.Agent(
    name="copilot",
    title="Copilot",
    meanings=Meanings(name="copilot", naming="copilot", join="\n\n", timeout=30.0),
    event_names={
        **base.LIKE_CLAUDE_IN_CAMEL_CASE,
        "PermissionRequest": "permissionRequest",
        "Notification": "notification",
        "UserPromptSubmit": "userPromptSubmitted",
        "Stop": "agentStop",
    },
    only_its=("errorOccurred", "userPromptTransformed"),
    tools=base.pairs(
        "bash=Bash view=Read create=Write edit=Edit glob=Glob grep=Grep rg=Grep web_fetch=WebFetch "
        "web_search=WebSearch task=Agent skill=Skill "
        # the same agent inside VS Code
        "run_in_terminal=Bash runTerminalCommand=Bash read_file=Read create_file=Write replace_string_in_file=Edit"
    ),
    inputs={
        "Write": {"path": "file_path", "filePath": "file_path", "file_text": "content"},
        "Edit": base.pairs(
            "path=file_path filePath=file_path old_str=old_string oldString=old_string new_str=new_string "
            "newString=new_string"
        ),
        "Read": {"path": "file_path", "filePath": "file_path"},
        "Agent": {"agent_type": "subagent_type"},
    },
    capabilities=base.rounded(
        "PreToolUse or PostToolUse",
        PreToolUse="allow deny rewrite_input context",
        PostToolUse="replace_output context",
        PostToolUseFailure="context",
        PermissionRequest="allow deny",
        UserPromptSubmit="deny",
        SessionStart="context",
        SessionEnd="",
        Stop="keep_going",
        SubagentStart="context",
        SubagentStop="keep_going",
        PreCompact="",
        Notification="",
    ),
    refusals=(
        base.Refusal("compact", 0, None),
        base.Refusal("tool", 0, _REFUSE_TOOL),  # VS Code also reads these files
        base.Refusal("", 0, _REFUSE_TOOL, "http"),  # a block would keep the agent running
        base.Refusal("prompt", 0, base.REFUSE),
        base.Refusal("permission", 0, {"behavior": "deny", "message": "@", **base.REFUSE_PERMISSION}),
        base.Refusal("", 2, base.REFUSE_TOOL),
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
    next_steps=(("project", base.TRUST_FIRST.format("Copilot")),),
    start=_start,
    shape="flat",
    head={"version": 1},
    command_key="bash",
    timeout_key="timeoutSec",
    why_no_http="it supports https addresses only, and allows a call if they fail",
    event_argument=True,
)
AGENTS = {"copilot": AGENT}
DIALECTS = {"copilot": _Copilot(AGENT)}

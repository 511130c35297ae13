"""Qwen Code: the reference's names for events, the other Gemini's tools, and words of both.

After a tool `continue: false` replaces the output by `stopReason` and the run goes on; on Stop it makes it go on, too.
So it is only said where that is meant. What SessionStart and PreToolUse answer beside a deny is dropped.
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from msgspec import UNSET
from msgspec.structs import replace

from billhook.agents.base import (
    ALLOW,
    ASK,
    CANARY_KEY,
    ENDS,
    FAILURE_PERMISSION,
    HELD,
    LATE,
    LIKE_CLAUDE,
    ON,
    OUTPUT,
    REWRITE,
    STOP,
    TRUST_FIRST,
    UNPREVENTED,
    Agent,
    Failure,
    Installed,
    Settings,
    Start,
    Trust,
    quiet,
    row,
)
from billhook.agents.codec import (
    AgentDialect,
    EncodedAnswer,
    Payload,
    Plain,
    known,
    one_of,
    own_input,
    refusal,
    spoken,
)
from billhook.core.answers import Answer, Decision
from billhook.core.dialect_traits import Meanings
from billhook.core.events import Block, Event
from billhook.core.tools import canonical_input

_TOP: Final = {
    "continue": bool,
    "stopReason": str,
    "suppressOutput": bool,
    "systemMessage": str,
    "decision": str,
    "reason": str,
    "hookSpecificOutput": dict,
}
_SPECIFIC: Final = {
    "hookEventName": str,
    "additionalContext": str,
    "permissionDecision": str,
    "permissionDecisionReason": str,
}
_PERMISSION: Final = {"behavior": str, "message": str, "updatedInput": dict, "interrupt": bool}
_WORDS: Final = {
    "deny": Decision.DENY,
    "block": Decision.DENY,
    "ask": Decision.ASK,
    "allow": Decision.NONE,
    "approve": Decision.NONE,
}
_BEHAVIOURS: Final = {"allow": Decision.ALLOW, "deny": Decision.DENY}


class _Qwen(Plain):
    """How Qwen Code speaks."""

    def suit(self, event: Event, answer: Answer, lost: list[str]) -> Answer:
        """Where the output is replaced, nothing is appended to it."""
        if answer.updated_output is UNSET or not answer.context:
            return answer
        lost.append("context is said as part of the rewritten output")
        return replace(answer, context="", updated_output=f"{answer.updated_output}\n\n{answer.context}")

    def say(self, event: Event, answer: Answer) -> EncodedAnswer:
        name = event.hook_event_name
        if not AGENT.event_names.get(name, ""):
            return refusal(answer)
        output, inside = self._decision(event, answer)
        if answer.context:
            inside["additionalContext"] = answer.context
        if answer.message:
            output["systemMessage"] = answer.message
        if answer.quiet:
            output["suppressOutput"] = True
        if inside:
            output["hookSpecificOutput"] = {"hookEventName": name, **inside}
        return EncodedAnswer(output)

    def _decision(self, event: Event, answer: Answer) -> tuple[Payload, Payload]:
        name, denies = event.hook_event_name, answer.decision is Decision.DENY
        if name == "PreToolUse" and denies:
            return {}, {"permissionDecision": "deny", "permissionDecisionReason": answer.reason}
        if name == "PermissionRequest" and answer.decision is not Decision.NONE:
            said: Payload = {"behavior": "deny", "message": answer.reason} if denies else {"behavior": "allow"}
            if answer.updated_input is not None:
                said["updatedInput"] = own_input(event, answer.updated_input, "qwen")
            return {}, {"decision": said}
        if denies or answer.keep_going:
            return {"decision": "block", "reason": answer.reason}, {}
        if answer.updated_output is not UNSET:
            return {"continue": False, "stopReason": answer.updated_output}, {}
        return {}, {}

    def hear(self, event: Event, output: Payload) -> Answer:
        fields = known(output, _TOP)
        inside = known(fields.get("hookSpecificOutput", {}), _SPECIFIC, "hookSpecificOutput.")
        said: Payload = {"message": fields.get("systemMessage", ""), "context": inside.get("additionalContext", "")}
        permission = fields.get("hookSpecificOutput", {}).get("decision")
        if event.hook_event_name == "PermissionRequest" and isinstance(permission, dict):
            said |= self._permission(event, permission)
        elif "permissionDecision" in inside:
            decision = one_of("hookSpecificOutput.permissionDecision", inside["permissionDecision"], _WORDS)
            if decision is not Decision.NONE:
                said |= spoken(decision, inside.get("permissionDecisionReason", ""), event)
        elif "decision" in fields:
            said |= self._heard(event, one_of("decision", fields["decision"], _WORDS), fields.get("reason", ""))
        if fields.get("continue") is False:
            said |= self._heard_stop(event, fields.get("stopReason", ""), said)
        return Answer(**said, quiet=fields.get("suppressOutput", False))

    def _permission(self, event: Event, permission: Payload) -> Payload:
        wanted = known(permission, _PERMISSION, "hookSpecificOutput.decision.")
        decision = one_of("hookSpecificOutput.decision.behavior", wanted.get("behavior", ""), _BEHAVIOURS)
        if decision is Decision.DENY:
            return spoken(decision, wanted.get("message", ""), event)
        given = wanted.get("updatedInput")
        tool = str(getattr(event, "tool_name", ""))
        return {
            "decision": decision,
            "updated_input": None if given is None else canonical_input(tool, given, "qwen")[0],
        }

    def _heard(self, event: Event, decision: Decision, reason: str) -> Payload:
        if decision is Decision.NONE:
            return {}
        if event.block is Block.KEEP_GOING:
            return {"keep_going": True, "reason": reason or f"blocked by a {event.hook_event_name} hook"}
        if event.block is Block.MODEL:  # it is dropped after the tool; that it was meant for the model is sure
            return {"context": reason}
        return spoken(decision, reason, event)

    def _heard_stop(self, event: Event, reason: str, said: Payload) -> Payload:
        if event.hook_event_name == "PostToolUse":
            return {"updated_output": reason or "Execution stopped by hook"}
        if event.block is Block.KEEP_GOING:
            return {"keep_going": True, "reason": said.get("reason") or reason or "No reason provided"}
        return {"stop": True, "stop_reason": reason}

    def text(self, event: Event, text: str) -> Answer:
        return Answer(message=text)


# -- its files


def _trust(agent: Agent, project: str, installed: Sequence[Installed], settings: Settings) -> Iterator[Trust]:
    from billhook.agents.gemini import trusted_folders

    file = os.path.join(agent.home(), "trustedFolders.json")
    yield trusted_folders(agent, project, installed, settings, file, by_default=False)


def _start(_agent: Agent, url: str, prompt: str, _settings: Settings) -> Start:
    environ = {"OPENAI_API_KEY": CANARY_KEY, "OPENAI_BASE_URL": f"{url}/v1", "OPENAI_MODEL": "canary"}
    return Start(("-p", prompt, "--auth-type", "openai"), environ)


_MARKS: Final = ("QWEN_CODE", "QWEN_PROJECT_DIR")


def _sends(payload: Mapping[str, Any], environ: Mapping[str, str]) -> int:
    told = all(name in payload for name in ("hook_event_name", "timestamp", "transcript_path"))
    return 1 if told and any(environ.get(name) for name in _MARKS) else 0


AGENT: Final = Agent(
    name="qwen",
    title="Qwen Code",
    meanings=Meanings(name="qwen", naming="qwen", join="\n\n", timeout=60.0, time_per_second=1000),
    event_names={name: name for name in f"{LIKE_CLAUDE} PostCompact PostToolUseFailure Notification".split()},
    only_its=("TodoCreated", "TodoCompleted", "SessionDelete"),
    tools={
        "run_shell_command": "Bash",
        "read_file": "Read",
        "write_file": "Write",
        "edit": "Edit",
        "replace": "Edit",
        "glob": "Glob",
        "grep_search": "Grep",
        "search_file_content": "Grep",
        "list_directory": "LS",
        "web_fetch": "WebFetch",
        "web_search": "WebSearch",
        "todo_write": "TodoWrite",
        "agent": "Agent",
        "task": "Agent",
        "skill": "Skill",
        "exit_plan_mode": "ExitPlanMode",
        "ask_user_question": "AskUserQuestion",
    },
    inputs={
        "Bash": {"is_background": "run_in_background"},
        "Read": {"file_path": "file_path", "absolute_path": "file_path"},
    },
    capabilities=quiet(
        {
            "PreToolUse": row("deny", allow=ALLOW, ask=ASK, rewrite_input=REWRITE, stop=STOP, context=HELD),
            "PostToolUse": row("replace_output context", deny=OUTPUT, stop=LATE),
            "PostToolUseFailure": row("context", deny=LATE, stop=LATE),
            "PermissionRequest": row("allow deny rewrite_input", ask=ASK, stop=STOP, context=HELD),
            "UserPromptSubmit": row("deny context", ask=ASK, stop=STOP),
            "SessionStart": row(**UNPREVENTED, context="held until UserPromptSubmit"),
            "SessionEnd": row(**UNPREVENTED),
            "Stop": row("keep_going message", deny=ON, stop=ENDS, context="held until UserPromptSubmit or PostToolUse"),
            "SubagentStart": row("context", deny=LATE, stop=LATE),
            "SubagentStop": row("keep_going", deny=ON, stop=ENDS, context=HELD),
            "PreCompact": row(**UNPREVENTED, context=HELD),
            "PostCompact": row(**UNPREVENTED, context=HELD),
            "Notification": row(**UNPREVENTED, context=HELD),
        }
    ),
    failures=(Failure("compact", 0, None), Failure("permission", 0, FAILURE_PERMISSION), Failure("")),
    sends=_sends,
    marks=dict.fromkeys(_MARKS, ""),
    packages=(("@qwen-code", "qwen-code"),),
    program="qwen",
    project_file=".qwen/settings.json",
    user_file=".qwen/settings.json",
    trust=_trust,
    next_steps=(("project", TRUST_FIRST.format("Qwen Code")),),
    start=_start,
    named=True,
    group={"sequential": True},  # in turn, and we are the last: other hooks may rewrite what we judge
    why_no_http="it lets a call pass when an HTTP hook fails, and has no switch against that",
    system_message=True,
)
AGENTS = {"qwen": AGENT}
DIALECTS = {"qwen": AgentDialect(agent=AGENT, voice=_Qwen())}

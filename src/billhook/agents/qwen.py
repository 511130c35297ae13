"""Qwen Code: the reference's names for events, the other Gemini's tools, and words of both.

After a tool `continue: false` replaces the output by `stopReason` and the run goes on; on Stop it makes it go on, too.
So it is only said where that is meant. What SessionStart and PreToolUse answer beside a deny is dropped.
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from msgspec import UNSET

from billhook.agents.base import (
    ALLOW,
    ASK,
    CANARY_KEY,
    ENDS,
    HELD,
    LATE,
    LIKE_CLAUDE,
    ON,
    OUTPUT,
    REFUSE_PERMISSION,
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
    quiet,
    row,
)
from billhook.agents.codec import AgentDialect, Payload
from billhook.core.answers import Answer, Decision
from billhook.core.dialect_traits import Meanings
from billhook.core.events import Block, Event

_SPECIFIC: Final = dict.fromkeys(
    ("hookEventName", "additionalContext", "permissionDecision", "permissionDecisionReason"), str
)
_PERMISSION: Final[Mapping[str, type]] = {"behavior": str, "message": str, "updatedInput": dict, "interrupt": bool}


class _Qwen(AgentDialect):
    specific = _SPECIFIC
    permission = _PERMISSION
    context_in_output = True

    def decide(self, event: Event, answer: Answer) -> tuple[Payload, Payload]:
        if answer.updated_output is not UNSET:
            return {"continue": False, "stopReason": answer.updated_output}, {}
        output, inside = super().decide(event, answer)
        if answer.updated_input is not None:
            inside["decision"]["updatedInput"] = self.sent_input(event, answer.updated_input)
        return output, inside

    def heard_block(self, event: Event, decision: Decision, reason: str) -> Payload:
        if event.block is Block.MODEL:  # it is dropped after the tool; that it was meant for the model is sure
            return {"context": reason}
        return super().heard_block(event, decision, reason)

    def heard_stop(self, event: Event, reason: str, said: Payload) -> Payload:
        if event.hook_event_name == "PostToolUse":
            return {"updated_output": reason or "Execution stopped by hook"}
        if event.block is Block.KEEP_GOING:
            return {"keep_going": True, "reason": said.get("reason") or reason or "No reason provided"}
        return super().heard_stop(event, reason, said)

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
    refusals=(Refusal("compact", 0, None), Refusal("permission", 0, REFUSE_PERMISSION), Refusal("")),
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
DIALECTS = {"qwen": _Qwen(AGENT)}

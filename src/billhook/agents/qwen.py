"""Qwen Code: the reference's names for events, Gemini's tools, and answers of both.

After a tool `continue: false` replaces the output with `stopReason` and the run continues; on Stop it also continues.
So it is written only if that is meant. Answers of SessionStart and PreToolUse other than a deny are dropped.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from msgspec import UNSET

from billhook.agents import base
from billhook.agents.codec import AgentDialect, Payload, kinds
from billhook.core.answers import Answer, Decision
from billhook.core.dialect_traits import Meanings
from billhook.core.events import Block, Event


class _Qwen(AgentDialect):
    specific = kinds("hookEventName additionalContext permissionDecision permissionDecisionReason")
    permission = kinds("behavior message", booleans="interrupt", objects="updatedInput")
    context_in_output = True

    def decide(self, event: Event, answer: Answer) -> tuple[Payload, Payload]:
        if answer.updated_output is not UNSET:
            return {"continue": False, "stopReason": answer.updated_output}, {}
        output, inside = super().decide(event, answer)
        if answer.updated_input is not None:
            inside["decision"]["updatedInput"] = self.sent_input(event, answer.updated_input)
        return output, inside

    def read_block(self, event: Event, decision: Decision, reason: str) -> Payload:
        if event.block is Block.MODEL:  # dropped after the tool, but it was meant for the model
            return {"context": reason}
        return super().read_block(event, decision, reason)

    def read_stop(self, event: Event, reason: str, said: Payload) -> Payload:
        if event.hook_event_name == "PostToolUse":
            return {"updated_output": reason or "Execution stopped by hook"}
        if event.block is Block.KEEP_GOING:
            return {"keep_going": True, "reason": said.get("reason") or reason or "No reason provided"}
        return super().read_stop(event, reason, said)

    def text(self, event: Event, text: str) -> Answer:
        return Answer(message=text)


# -- its files


def _trust(check: base.TrustCheck) -> Iterator[base.Trust]:
    from billhook.agents.gemini import trusted_folders

    yield trusted_folders(check, by_default=False)


def _start(_agent: base.Agent, url: str, prompt: str, _settings: base.Settings) -> base.Start:
    environ = {"OPENAI_API_KEY": base.CANARY_KEY, "OPENAI_BASE_URL": f"{url}/v1", "OPENAI_MODEL": "canary"}
    return base.Start(("-p", prompt, "--auth-type", "openai"), environ)


_MARKS: Final = ("QWEN_CODE", "QWEN_PROJECT_DIR")


def _sends(payload: Mapping[str, Any], environ: Mapping[str, str]) -> int:
    told = all(name in payload for name in ("hook_event_name", "timestamp", "transcript_path"))
    return 1 if told and any(environ.get(name) for name in _MARKS) else 0


AGENT: Final = base.Agent(
    name="qwen",
    title="Qwen Code",
    meanings=Meanings(
        name="qwen", naming="qwen", join="\n\n", timeout=60.0, time_per_second=1000, milliseconds_from=1000
    ),
    event_names={
        name: name
        for name in f"{base.LIKE_CLAUDE} PermissionRequest PostCompact PostToolUseFailure Notification".split()
    },
    only_its=("TodoCreated", "TodoCompleted", "SessionDelete"),
    tools=base.pairs(
        "run_shell_command=Bash read_file=Read write_file=Write edit=Edit replace=Edit glob=Glob grep_search=Grep "
        "search_file_content=Grep list_directory=LS web_fetch=WebFetch web_search=WebSearch todo_write=TodoWrite "
        "agent=Agent task=Agent skill=Skill exit_plan_mode=ExitPlanMode ask_user_question=AskUserQuestion"
    ),
    inputs={
        "Bash": {"is_background": "run_in_background"},
        "Read": {"file_path": "file_path", "absolute_path": "file_path"},
    },
    capabilities=base.quiet(
        base.rounded(
            "PostToolUse",
            PreToolUse="deny",
            PostToolUse="replace_output context",
            PostToolUseFailure="context",
            PermissionRequest="allow deny rewrite_input",
            UserPromptSubmit="deny context",
            SessionStart="",
            SessionEnd="",
            Stop="keep_going message",
            SubagentStart="context",
            SubagentStop="keep_going",
            PreCompact="",
            PostCompact="",
            Notification="",
        )
        | {
            "SessionStart": base.rounded_row("", "UserPromptSubmit"),
            "Stop": base.rounded_row("keep_going message", "UserPromptSubmit or PostToolUse"),
        }
    ),
    refusals=base.REFUSALS_WITH_PERMISSION,
    sends=_sends,
    marks=dict.fromkeys(_MARKS, ""),
    packages=(("@qwen-code", "qwen-code"),),
    variable_files=(".qwen/.env",),
    program="qwen",
    project_file=".qwen/settings.json",
    user_file=".qwen/settings.json",
    trust=_trust,
    next_steps=(("project", base.TRUST_FIRST.format("Qwen Code")),),
    start=_start,
    named=True,
    group={"sequential": True},  # one after another, billhook last: other hooks may rewrite the input
    why_no_http="it allows a call if an HTTP hook fails, and has no setting against that",
    system_message=True,
    parallel=True,
)
AGENTS = {"qwen": AGENT}
DIALECTS = {"qwen": _Qwen(AGENT)}

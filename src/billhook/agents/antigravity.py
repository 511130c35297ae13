"""Antigravity: its own payloads and answers, which it reads strictly.

From reports of users, not measured. Before a tool an empty answer denies, so "no opinion" is `ask`, which asks unless
the user always allows such calls. Any key that an event does not know aborts the turn. The payload has no event name.
"""

from collections.abc import Mapping
from typing import Final

from billhook.agents import base
from billhook.agents.codec import AgentDialect, Payload, checked_fields, decision_fields, kinds
from billhook.core.answer_schema import decision_of
from billhook.core.answers import Answer, Decision
from billhook.core.dialect_traits import Meanings
from billhook.core.events import Event

_WORDS: Final = {
    "deny": Decision.DENY,
    "force_ask": Decision.ASK,
    "ask": Decision.NONE,
    "allow": Decision.ALLOW,
    "continue": Decision.NONE,
}
_DECISION_WORDS: Final = {decision: word for word, decision in _WORDS.items() if decision is not Decision.NONE}


class _Antigravity(AgentDialect):
    names = base.pairs("conversationId=session_id transcriptPath=transcript_path toolResult=tool_response")

    def read(self, payload: Payload, env: Mapping[str, str]) -> Payload:
        if call := base.mapping(payload.pop("toolCall", None)):
            payload |= {"tool_name": call.get("name"), "tool_input": call.get("args")}
        base.set_folder(payload, payload.get("workspacePaths"))
        if payload.get("hook_event_name") == "UserPromptSubmit":
            payload.setdefault("prompt", "")  # it is sent before each call of the model
        return super().read(payload, env)

    def write(self, payload: Payload, event: Event) -> Payload:
        told = super().write(payload, event)
        call = {"name": told.pop("tool_name", ""), "args": told.pop("tool_input", {})}
        roots = {"workspacePaths": [event.cwd] if event.cwd else []}
        told = base.without(told, "hook_event_name", "cwd", "tool_use_id")
        return {**roots, **told} | ({"toolCall": call} if call["name"] else {})

    def encode_answer(self, event: Event, answer: Answer) -> Payload:
        if answer.context:
            return {"injectSteps": [{"ephemeralMessage": answer.context}]}
        if answer.keep_going:
            return {"decision": "continue", "reason": answer.reason}
        if answer.decision is Decision.NONE:
            return {}
        return {"decision": _DECISION_WORDS[answer.decision]} | ({"reason": answer.reason} if answer.reason else {})

    def decode_answer(self, event: Event, output: Payload) -> Answer:
        fields = checked_fields(output, kinds("decision reason"))
        texts = [base.mapping(one).get("ephemeralMessage") for one in base.items(output.get("injectSteps"))]
        said: Payload = {"context": "\n\n".join(text for text in texts if isinstance(text, str))}
        if fields.get("decision") == "continue" and event.hook_event_name == "Stop":
            said |= {"keep_going": True, "reason": fields.get("reason", "")}
        elif "decision" in fields:
            decision = decision_of("decision", fields["decision"], _WORDS)
            said |= decision_fields(decision, fields.get("reason", ""), event) if decision is not Decision.NONE else {}
        return Answer(**said)


_EVENTS: Final = base.pairs(
    "PreToolUse=PreToolUse PostToolUse=PostToolUse UserPromptSubmit=PreInvocation SessionStart=SessionStart Stop=Stop"
)
_TARGET: Final = {"TargetFile": "file_path"}

AGENT: Final = base.Agent(
    name="antigravity",
    title="Antigravity",
    aliases=("agy",),
    meanings=Meanings(name="antigravity", naming="antigravity", join="\n\n", timeout=10.0),
    event_names=_EVENTS,
    only_its=("PostInvocation",),
    tools=base.pairs(
        "run_command=Bash view_file=Read write_to_file=Write replace_file_content=Edit "
        "multi_replace_file_content=Edit grep_search=Grep"
    ),
    inputs={
        "Bash": {"CommandLine": "command", "Cwd": "cwd"},
        "Read": {"AbsolutePath": "file_path"},
        "Write": {**_TARGET, "CodeContent": "content"},
        "Edit": {
            **_TARGET,
            "TargetContent": "old_string",
            "ReplacementContent": "new_string",
            "ReplacementChunks": "edits",
        },
        "Grep": {"SearchPath": "path", "Query": "pattern"},
    },
    capabilities=base.rounded(
        "UserPromptSubmit",
        PreToolUse="allow deny ask",
        PostToolUse="",
        UserPromptSubmit="context",
        SessionStart="",
        Stop="keep_going",
    )
    | {"UserPromptSubmit": base.row("context", deny=base.UNPREVENTED)},
    refusals=(
        base.Refusal("prompt compact subagent", 0, None),
        base.Refusal("", 0, {"decision": "deny", "reason": "@"}),
    ),
    sends=lambda payload, _environ: 3 * ("conversationId" in payload and "workspacePaths" in payload),
    program="agy",
    headless=frozenset({"-p", "--print", "--prompt"}),
    without_program=True,  # the editor
    project_file=".agents/hooks.json",
    user_file=".gemini/config/hooks.json",
    traces=("config", "antigravity"),
    next_steps=(("any", "check with `agy -p /hooks`: some versions have dropped PreToolUse hooks"),),
    ungrouped=frozenset(_EVENTS.values()) - {"PreToolUse", "PostToolUse"} | {"PostInvocation"},
    hooks_key="billhook",
    named_groups=True,
    silence={"PreToolUse": {"decision": "ask"}, "": {}},
    event_argument=True,
)
AGENTS = {"antigravity": AGENT}
DIALECTS = {"antigravity": _Antigravity(AGENT)}

"""Hermes: its own answer format, entries in the user's YAML file, and commands that run without a shell.

Measured: 0.19.0, the newest on PyPI. It reads JSON only, and ignores exit codes and `fail_closed`; it makes the call
if a hook asks or rewrites, and silently skips a hook that was not approved. Later versions, by their documentation,
ask and rewrite. A refusal has to work in both.
"""

from collections.abc import Iterator, Mapping
from typing import Final

from billhook.agents import base
from billhook.agents.codec import AgentDialect, Payload, checked_fields, decision_fields, kinds
from billhook.agents.formats import InYaml, with_shell
from billhook.core.answers import Answer, Decision
from billhook.core.dialect_traits import Meanings
from billhook.core.events import Event

_TOP: Final = kinds("action decision message reason context", objects="args")


class _Hermes(AgentDialect):
    def read(self, payload: Payload, env: Mapping[str, str]) -> Payload:
        extra = base.mapping(payload.get("extra"))
        if isinstance(extra.get("tool_call_id"), str):
            payload.setdefault("tool_use_id", extra["tool_call_id"])
        if payload.get("hook_event_name") == _EVENTS["UserPromptSubmit"]:
            payload.setdefault("prompt", str(extra.get("user_message", "")))
        return payload

    def encode_answer(self, event: Event, answer: Answer) -> Payload:
        if answer.keep_going:
            return {"action": "continue", "message": answer.reason}
        if answer.decision is Decision.NONE:
            return {"context": answer.context} if answer.context else {}
        return {"action": "block", "message": answer.reason}

    def decode_answer(self, event: Event, output: Payload) -> Answer:
        fields = checked_fields(output, _TOP)
        reason = fields.get("message") or fields.get("reason", "")
        said: Payload = {"context": fields.get("context", "")}
        match fields.get("action"):
            case "continue":
                said |= {"keep_going": True, "reason": reason}
            case "modify" if "args" in fields:
                said["updated_input"] = self.canonical(event, fields["args"])
            case "approve":
                said |= decision_fields(Decision.ASK, reason, event)
            case "block":
                said |= decision_fields(Decision.DENY, reason, event)
        return Answer(
            **said | (decision_fields(Decision.DENY, reason, event) if fields.get("decision") == "block" else {})
        )


def _trust(check: base.TrustCheck) -> Iterator[base.Trust]:
    approvals = map(base.mapping, base.items(check.read("shell-hooks-allowlist.json").get("approvals")))
    approved = [(one.get("event"), one.get("command")) for one in approvals]
    entries = [entry for one in check.installed for entry in one.entries]
    missing = [one for one in entries if (one.event, with_shell(one.data["command"])) not in approved]
    if missing:
        text = f"Hermes silently skips {len(missing)} of {len(entries)} entries: they are not approved"
        yield base.Trust("fail", text, "start `hermes` in a terminal, and approve billhook's hooks")
    elif entries:
        yield base.Trust("ok", f"Hermes has approved all {len(entries)} entries")


_EVENTS: Final = base.pairs(
    "PreToolUse=pre_tool_call PostToolUse=post_tool_call UserPromptSubmit=pre_llm_call SessionStart=on_session_start "
    "SessionEnd=on_session_end Stop=pre_verify SubagentStart=subagent_start SubagentStop=subagent_stop"
)


AGENT: Final = base.Agent(
    name="hermes",
    title="Hermes",
    meanings=Meanings(name="hermes", naming="hermes", join="\n\n", timeout=60.0),
    event_names=_EVENTS,
    tools=base.pairs("terminal=Bash read_file=Read write_file=Write patch=Edit search_files=Grep web_extract=WebFetch"),
    inputs={"Read": base.PATH, "Write": base.PATH, "Edit": base.PATH},
    capabilities=base.rounded(
        "UserPromptSubmit",
        PreToolUse="deny",
        PostToolUse="",
        UserPromptSubmit="context",
        SessionStart="",
        SessionEnd="",
        Stop="keep_going",
        SubagentStart="",
        SubagentStop="",
    )
    | {"UserPromptSubmit": base.row("context", deny=base.UNPREVENTED)},
    refusals=(  # only tool calls can be refused; later versions also read the exit code
        base.Refusal("tool", 2, {"action": "block", "message": "@"}),
        base.Refusal("prompt subagent compact", 0, None, "client"),
        base.Refusal(""),
    ),
    silence={"PreToolUse": {}},  # later versions with `fail_closed` refuse a call if nothing is printed
    sends=lambda payload, _environ: 2 * base.sends_own_names(_EVENTS.values(), payload),
    program="hermes",
    user_file=".hermes/config.yaml",
    home_variable="HERMES_HOME",
    format=InYaml(),
    trust=_trust,
    next_steps=(("any", "start `hermes` in a terminal, and approve billhook's hooks: it silently skips other hooks"),),
    shape="flat",
    typed=False,
    longest=dict.fromkeys(_EVENTS, 300),
    fail_closed=("fail_closed", True),
)
AGENTS = {"hermes": AGENT}
DIALECTS = {"hermes": _Hermes(AGENT)}

"""Crush: one event, a flat list of commands, and its own answers. Its sub-agents run no hooks.

Read in its source, not measured: its npm package fetches the program from GitHub when it is installed.
"""

from typing import Final

from billhook.agents import base
from billhook.agents.codec import WORDS, AgentDialect, Payload, checked_fields, decision_fields, input_of, kinds
from billhook.core.answer_schema import decision_of
from billhook.core.answers import Answer, Decision
from billhook.core.dialect_traits import Meanings
from billhook.core.events import Event

_TOP: Final = kinds("decision reason context", booleans="halt", objects="updated_input")
_WORDS: Final = {**WORDS, "allow": Decision.ALLOW}


class _Crush(AgentDialect):
    names = base.pairs("event=hook_event_name")
    blocking = (2, 49)  # 49 also ends the turn

    def refused(self, event: Event, wanted: Payload) -> str:
        """It merges a rewritten input into the original."""
        kept = [key for key in input_of(event) if key not in wanted and key != "description"]
        return f"Crush would keep `{kept[0]}` of the original" if kept else ""

    def encode_answer(self, event: Event, answer: Answer) -> Payload:
        output: Payload = {} if answer.decision is Decision.NONE else {"decision": answer.decision.value}
        output |= {"halt": True} if answer.stop else {}
        reason = answer.reason or answer.stop_reason
        told = {"reason": reason, "context": answer.context}
        if answer.updated_input is not None:
            output["updated_input"] = self.sent_input(event, answer.updated_input)
        return output | {name: text for name, text in told.items() if text}

    def decode_answer(self, event: Event, output: Payload) -> Answer:
        if "hookSpecificOutput" in output:  # then it ignores the fields beside it
            return super().decode_answer(event, {"hookSpecificOutput": output["hookSpecificOutput"]})
        fields = checked_fields(output, _TOP)
        reason = fields.get("reason", "")
        said: Payload = {"context": fields.get("context", "")}
        decision = decision_of("decision", fields["decision"], _WORDS) if "decision" in fields else Decision.NONE
        said |= decision_fields(decision, reason, event) if decision is not Decision.NONE else {}
        said |= {"stop": True, "stop_reason": reason} if fields.get("halt") else {}
        if "updated_input" in fields:
            said["updated_input"] = self.merged(event, fields["updated_input"])
        return Answer(**said)


AGENT: Final = base.Agent(
    name="crush",
    title="Crush",
    meanings=Meanings(name="crush", naming="crush", join="\n", timeout=30.0),
    event_names={"PreToolUse": "PreToolUse"},
    tools=base.pairs(
        "bash=Bash view=Read write=Write edit=Edit multiedit=MultiEdit grep=Grep glob=Glob ls=LS fetch=WebFetch "
        "agent=Agent"
    ),
    capabilities=base.rounded("", PreToolUse="allow deny rewrite_input context stop"),
    sends=lambda payload, _environ: 2 * ({"event", "cwd"} <= {*payload} and "hook_event_name" not in payload),
    marks={"CRUSH": ""},
    packages=(("@charmland", "crush"),),
    program="crush",
    project_file="crush.json",
    user_file=".config/crush/crush.json",
    home_variable="XDG_CONFIG_HOME",
    traces=("crush",),
    escapes="calls of Crush's sub-agents are not checked; a rule that denies the tool `agent` prevents them",
    next_steps=(("any", "restart Crush: it reads its settings when it starts"),),
    shape="flat",
    typed=False,
    parallel=True,
)
AGENTS = {"crush": AGENT}
DIALECTS = {"crush": _Crush(AGENT)}

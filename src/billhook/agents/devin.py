"""Devin CLI: the reference's events, and `approve` or `block` at the top level.

From its documentation and a recorded payload, not measured. Its payloads have no `cwd`. It also runs the hooks in
Claude Code's settings; other answers of the reference are not documented, so they are not written.
"""

from collections.abc import Mapping
from typing import Final

from billhook.agents import base
from billhook.agents.codec import WORDS, AgentDialect, Payload, block, kinds
from billhook.core.answers import Answer, Decision
from billhook.core.dialect_traits import Meanings
from billhook.core.events import Event


class _Devin(AgentDialect):
    top = kinds("decision reason", objects="hookSpecificOutput")
    words: Mapping[str, Decision] = {**WORDS, "approve": Decision.ALLOW}

    def read(self, payload: Payload, env: Mapping[str, str]) -> Payload:
        base.set_folder(payload, [env.get("DEVIN_PROJECT_DIR")])
        return super().read(payload, env)

    def decide(self, event: Event, answer: Answer) -> tuple[Payload, Payload]:
        if answer.decision is Decision.ALLOW:
            return {"decision": "approve"} | ({"reason": answer.reason} if answer.reason else {}), {}
        return block(answer.reason) if answer.decision is Decision.DENY or answer.keep_going else {}, {}


def _sends(payload: Mapping[str, object], environ: Mapping[str, str]) -> int:
    own = "hook_event_name" in payload and "cwd" not in payload and "transcript_path" not in payload
    return 2 if own and "prompt_id" in payload else int(own and bool(environ.get("DEVIN_PROJECT_DIR")))


_EVENTS: Final = "PreToolUse PostToolUse PermissionRequest UserPromptSubmit SessionStart SessionEnd Stop"

AGENT: Final = base.Agent(
    name="devin",
    title="Devin",
    meanings=Meanings(name="devin", naming="devin", join="\n\n", timeout=60.0),
    event_names={**{name: name for name in _EVENTS.split()}, "PostCompact": "PostCompaction"},
    tools=base.pairs("exec=Bash read=Read write=Write edit=Edit grep=Grep"),
    inputs={"Grep": {"query": "pattern"}},
    capabilities=base.rounded(
        "",
        PreToolUse="deny",
        PostToolUse="",
        PermissionRequest="allow deny",
        UserPromptSubmit="deny",
        SessionStart="",
        SessionEnd="",
        Stop="keep_going",
        PostCompact="",
    ),
    refusals=(base.Refusal("permission", 0, base.REFUSE), *base.REFUSALS),
    sends=_sends,
    reads_claude=("user", "project"),
    marks={"DEVIN_PROJECT_DIR": ""},
    program="devin",
    project_file=".devin/config.json",
    user_file=".config/devin/config.json",
    home_variable="XDG_CONFIG_HOME",
    traces=("devin",),
    head={"version": 1},
    next_steps=(("any", "restart Devin"),),
)
AGENTS = {"devin": AGENT}
DIALECTS = {"devin": _Devin(AGENT)}

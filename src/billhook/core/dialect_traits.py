"""What the same words mean in each dialect: one row each, only data.

The rows are vocabulary: matching, reading a callback's dict and folding use them without the wire format of a dialect,
which is in `billhook.agents`.
"""

from collections.abc import Mapping
from typing import Literal

import msgspec

from billhook.core.errors import UsageError
from billhook.core.lazy import AGENTS, LazyTable

Matching = Literal["claude", "glob", "wildcard", "exact"]


class Meanings(msgspec.Struct, frozen=True, kw_only=True):
    """One dialect's reading of the words that several dialects share."""

    name: str
    naming: str = "canonical"  # what tools are called: `seed`, or the name of an agent
    matching: Matching = "claude"  # how a matcher is read
    login: bool = False  # commands run with the environment of a login shell
    system_message: Literal["user", "model"] = "user"  # who reads `systemMessage`
    can_undo: bool = False
    """A block after the tool has run turns its result into an error; else the text only goes to the model."""
    continue_false: Literal["stop", "deny"] = "stop"
    continue_true_keeps_going: bool = False  # on Stop, `continue: true` makes the agent continue
    context_keeps_going: bool = False  # on Stop, `additionalContext` makes the agent continue
    bare_block_denies: bool = False
    """A block also denies a PermissionRequest, which needs its decision in JSON in the reference."""
    bare_reason_is_feedback: bool = False  # a `reason` without a decision is context for the model
    hears_all: bool = False  # no event ignores a field; in the reference some do
    flat_fields: bool = False  # fields of `hookSpecificOutput` may be at the top level, too
    rewritten_output: str = "updatedMCPToolOutput"  # the field in which a tool's output is rewritten
    async_per_second: int = 1  # units per second of `asyncTimeout`
    join: str = "\n"  # the separator of several contexts
    feedback: str | None = None
    """The label under which context is merged into the tool's result; None: it reaches the model separately."""
    denied: str = "{reason}"  # the result of a call that was denied
    timeout: float = 60.0
    timeouts: Mapping[str, float] = {}  # seconds, where an event has its own default
    shared_timeout: bool = False  # the hooks of one matcher share one budget
    session_sources: frozenset[str] | None = None  # the sources for which SessionStart fires; None: all
    spaced_json: bool = False  # JSON is written as the seeds print it, with spaces; the coding agents write none
    hook_variables: bool = False
    """HOOK_EVENT, HOOK_TOOL_NAME ... are set. Elsewhere they are the hook's own: a guard may have such variables."""
    error_flag: tuple[str, str] = ("0", "1")  # the values of HOOK_TOOL_IS_ERROR for no and yes
    error_flag_before: bool = True  # HOOK_TOOL_IS_ERROR is set before the tool has run, too

    time_per_second: int = 1  # units per second of a hook's `timeout` in this agent's settings
    milliseconds_from: int = 0  # smaller timeouts are in seconds, whatever the unit; 0: none

    def in_seconds(self, timeout: float) -> float:
        """A hook's `timeout` in this agent's settings, in seconds."""
        return timeout if timeout < self.milliseconds_from else timeout / self.time_per_second

    def timeout_for(self, event_name: str) -> float:
        return self.timeouts.get(event_name, self.timeout)


CLAUDE = Meanings(
    name="claude",
    context_keeps_going=True,
    rewritten_output="updatedToolOutput",
    async_per_second=1000,
    join="\n\n",
    timeout=600.0,
    timeouts={
        "UserPromptSubmit": 30.0,
        "PreModelSwitch": 30.0,
        "PostModelSwitch": 30.0,
        "MessageDisplay": 10.0,
        "SessionEnd": 1.5,
    },
)
SPEC = Meanings(
    name="spec",
    hears_all=True,
    matching="glob",
    system_message="model",
    continue_true_keeps_going=True,
    context_keeps_going=True,
    shared_timeout=True,
    spaced_json=True,
)
CLAW = Meanings(
    name="claw",
    naming="seed",
    matching="wildcard",
    login=True,
    system_message="model",
    can_undo=True,
    continue_false="deny",
    bare_block_denies=True,
    bare_reason_is_feedback=True,
    spaced_json=True,
    hook_variables=True,
    feedback="Hook feedback",
)
CLAW_TEXT = msgspec.structs.replace(
    CLAW,
    name="claw-text",
    can_undo=False,
    denied="Hook denied: {reason}",
    error_flag=("false", "true"),
    error_flag_before=False,
)
LESSON = Meanings(
    name="lesson",
    naming="seed",
    matching="exact",
    bare_block_denies=True,
    flat_fields=True,
    spaced_json=True,
    hook_variables=True,
    feedback="",
    denied="Blocked by hook: {reason}",
    timeout=30.0,
    session_sources=frozenset({"startup", "resume"}),
)

UNIVERSAL = Meanings(name="universal", join="\n\n", timeout=30.0)

_OURS = {row.name: row for row in (CLAUDE, SPEC, CLAW, CLAW_TEXT, LESSON, UNIVERSAL)}
MEANINGS: Mapping[str, Meanings] = LazyTable(
    lambda: ("claude", "spec", "claw", "claw-text", "lesson", *AGENTS, "universal"),
    lambda dialect: _OURS.get(dialect) or AGENTS[dialect].meanings,
)
"""By dialect. The rows of coding agents are in their records."""


def meanings(dialect: str) -> Meanings:
    """The row of a dialect, by name; UsageError lists the known names."""
    try:
        return MEANINGS[dialect]
    except KeyError:
        raise UsageError(f"no dialect `{dialect}`", hint=f"one of {', '.join(MEANINGS)}") from None

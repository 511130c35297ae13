"""Claude Agent SDK: `ClaudeAgentOptions(hooks=hooks())`.

The SDK starts Claude Code, which runs these hooks at each of its events. The sessions are Claude Code's.
"""

import os
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, get_args

from billhook.adapters import Hooks, Tell, engine_for, not_installed, report
from billhook.agents.downgrade import shape_output
from billhook.core import dialect_traits
from billhook.core.answer_json import write_output
from billhook.core.errors import UsageError
from billhook.core.events import EVENTS, parse
from billhook.engine.engine import Engine

try:
    from claude_agent_sdk import HookMatcher
    from claude_agent_sdk.types import HookEvent
except ImportError as missing:
    raise not_installed("claude-agent-sdk", missing) from missing

SECONDS: Final = 60.0  # how long Claude Code waits for an answer by default
_MARGIN: Final = 0.9  # The part of it for hooks: if a hook hangs, its `on_failure` decides, not Claude Code.

_NAMES: Final[tuple[HookEvent, ...]] = tuple(get_args(one)[0] for one in get_args(HookEvent))

Answers = Callable[[Any, str | None, Any], Awaitable[Any]]


def hooks(
    hooks: Hooks = None, *, timeout: float = SECONDS, cwd: str | os.PathLike[str] = "", tell: Tell | None = None
) -> dict[HookEvent, list[HookMatcher]]:
    """A value for `ClaudeAgentOptions(hooks=...)`: the configuration for `cwd`, an engine, or a list of hooks. An
    action that waits for an answer is blocked if none comes. `tell` gets a line for each hook that failed; without it,
    the line is logged."""
    if not timeout > 0:
        raise UsageError(f"invalid timeout {timeout}", hint="use a number of seconds that is greater than 0")
    engine = engine_for(hooks, cwd, host="claude-agent-sdk", tell=tell)
    engine.background.finish_at_exit = True  # there is no event for the end of a session
    return {name: [_matcher(engine, name, timeout, tell)] for name in _NAMES}


def _matcher(engine: Engine, name: HookEvent, timeout: float, tell: Tell | None) -> HookMatcher:
    blocks = EVENTS[name].gates or name in ("PostToolUse", "PostToolUseFailure")
    answers = _answers(engine, timeout * _MARGIN, tell)
    return HookMatcher(hooks=[answers], timeout=timeout, on_failure="block" if blocks else "continue")


def _answers(engine: Engine, deadline: float, tell: Tell | None) -> Answers:
    async def answer(payload: Mapping[str, Any], tool_use_id: str | None, context: Any) -> dict[str, Any]:
        try:
            event = parse(payload)
            verdict = await engine.fire(event, deadline=deadline)
            rows = dialect_traits.CLAUDE
            answer = shape_output(event, verdict.as_answer(rows.join)).answer
            output, lost = write_output(event, answer, rows)
        except Exception as error:  # Claude Code gets the failure and blocks, but does not show it to the user
            report([f"{payload.get('hook_event_name')} was not checked: {type(error).__name__}: {error}"], tell)
            raise
        ended = [f"the run ends: {answer.stop_reason or 'a hook stopped it'}"] if answer.stop else []
        report([*verdict.warnings, *ended, *(f"Claude Code can't express: {one}" for one in lost)], tell)
        return output

    return answer

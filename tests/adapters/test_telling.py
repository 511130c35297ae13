"""What an adapter reports to the user: nothing is dropped silently."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from adapters.driving import DRIVES
from billhook import keep_going, on
from billhook.adapters import claude_agent_sdk, langchain, openai_agents, pydantic_ai
from billhook.core.errors import UsageError

MADE: dict[str, Callable[..., Any]] = {
    "claude_agent_sdk": claude_agent_sdk.hooks,
    "langchain": langchain.HookMiddleware,
    "openai_agents": openai_agents.Hooked,
    "pydantic_ai": pydantic_ai.HookCapability,
}
GUARD = "hooks:\n  guard:\n    events: PreToolUse\n    run: exit 2\n"


@pytest.mark.parametrize("adapter", MADE)
@pytest.mark.parametrize(
    ("text", "told"),
    [
        pytest.param(GUARD, "1 hook in .billhook/hooks.yaml is not approved and did not run: guard", id="not approved"),
        pytest.param("hooks: [", "1 problem in the configuration", id="broken"),
    ],
)
def test_what_is_configured_and_does_not_run(adapter: str, text: str, told: str, tmp_path: Path) -> None:
    """A guard that is not there is told when the adapter is made."""
    (tmp_path / ".billhook").mkdir()
    (tmp_path / ".billhook" / "hooks.yaml").write_text(text)
    lines: list[str] = []

    MADE[adapter](cwd=tmp_path, tell=lines.append)

    assert len(lines) == 1 and told in lines[0]


@pytest.mark.parametrize("adapter", MADE)
@pytest.mark.parametrize("given", [lambda event: None, 3, [print]], ids=["a function", "a number", "functions"])
def test_invalid_hooks(adapter: str, given: Any) -> None:
    """It is named, with what to give instead."""
    with pytest.raises(UsageError, match="is not a hook"):
        MADE[adapter](given)


@pytest.mark.parametrize("how", ["langchain", "langchain async", "openai_agents", "pydantic_ai"])
def test_a_hook_that_keeps_an_agent_going_for_ever(how: str) -> None:
    """After eight times it stops, and the user gets the name of the hook."""

    @on("Stop", name="never-enough")
    def never_enough(event: Any) -> Any:
        return keep_going("more")

    seen = DRIVES[how]([never_enough], [f"answer {number}" for number in range(12)])

    assert seen.reported == "answer 8"
    assert seen.lines == ["`never-enough` kept the agent going 8 times in a row; it stops now"]


@pytest.mark.parametrize("adapter", [name for name in MADE if name != "claude_agent_sdk"])
def test_an_option_that_no_session_has(adapter: str) -> None:
    """A misspelt one is noticed when the adapter is made, not in the midst of a run."""
    with pytest.raises(UsageError, match="permision_mode"):
        MADE[adapter]([], permision_mode="plan")


@pytest.mark.parametrize("timeout", [0, -1, float("nan")])
def test_an_impossible_timeout(timeout: float) -> None:
    """Everything would be denied, or nothing judged."""
    with pytest.raises(UsageError, match="timeout"):
        claude_agent_sdk.hooks([], timeout=timeout)

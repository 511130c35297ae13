"""Adapters cost nothing until they are used, and report a missing package."""

import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

from billhook import Engine, on
from billhook.adapters import engine_for
from billhook.core.errors import UsageError

ROOT = Path(__file__).parent.parent.parent
ADAPTERS = {
    "claude_agent_sdk": ("claude-agent-sdk", "claude_agent_sdk"),
    "langchain": ("langchain", "langchain"),
    "openai_agents": ("openai-agents", "agents"),
    "pydantic_ai": ("pydantic-ai", "pydantic_ai"),
}
"""Each with its extra and what it imports."""


def run(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=60)


def test_the_package_brings_no_framework() -> None:
    """A framework is imported with its own adapter."""
    done = run("import sys, billhook.adapters; print(*sys.modules)")

    assert not {module for _, module in ADAPTERS.values()} & set(done.stdout.split())


@pytest.mark.parametrize("adapter", ADAPTERS)
def test_a_framework_that_is_not_there(adapter: str) -> None:
    """The error is an ImportError that names the extra, and the extra exists."""
    extra, module = ADAPTERS[adapter]
    done = run(f"import sys; sys.modules[{module!r}] = None; import billhook.adapters.{adapter}")

    assert "ImportError" in done.stderr and f"-m pip install 'billhook[{extra}]'" in done.stderr
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert extra in extras


def test_what_is_no_hook_is_refused() -> None:
    """A function without `@on`, or the SDK's own map, is a mistake that must not pass for no hooks."""
    wrong: list[Any] = [[print], {"PreToolUse": []}]
    for given in wrong:
        with pytest.raises(UsageError, match="is not a hook"):
            engine_for(given)


def test_what_is_given() -> None:
    """An engine is used as it is; one hook alone is a list of one, and gets the guard."""

    @on("Stop")
    def watch(event: object) -> None: ...

    engine = Engine([])
    assert engine_for(engine) is engine
    assert [hook.name for hook in engine_for(watch).hooks] == ["watch", "guard"]

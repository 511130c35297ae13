"""docs/guard.md and docs/effects.md have the guard's table, every kind and every scope."""

from pathlib import Path
from typing import Any

import pytest

from billhook import Engine, PreToolUse
from billhook.builtins.guard import STANDARD
from billhook.effects.effect import KINDS, SCOPES

DOCS = Path(__file__).resolve().parent.parent / "docs"


def test_the_table_is_the_one_that_decides() -> None:
    assert f"```\n{STANDARD.strip()}\n```\n" in (DOCS / "guard.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", [*KINDS, *SCOPES])
def test_every_kind_and_scope_is_explained(name: str) -> None:
    assert f"\n| `{name}` | " in (DOCS / "effects.md").read_text(encoding="utf-8")


def test_the_example_in_python_runs() -> None:
    text = (DOCS / "effects.md").read_text(encoding="utf-8")
    program = text.partition("```python\n")[2].partition("```")[0]
    names: dict[str, Any] = {}
    exec(compile(program, "docs/effects.md", "exec"), names)
    engine = Engine([names["keep_migrations"]])
    for command, decision in (
        ("rm -rf db/migrations", "deny"),
        ("rm db/migrations/1.sql", "deny"),
        ("rm -rf db", "none"),
    ):
        event = PreToolUse(tool_name="Bash", tool_input={"command": command}, cwd="/")
        assert engine.fire_sync(event).decision == decision

"""The permission rules that the guard offers, and whether they allow the call."""

from pathlib import Path
from typing import Any

import pytest

from billhook import Engine
from billhook.builtins.guard import GuardSettings, guard
from billhook.core.answers import Verdict
from billhook.core.events import PreToolUse
from billhook.effects.effect import ProtectedPaths
from billhook.effects.rules import Rule

NO_RULE = "No permission rule can allow exactly this call"
POD = "mcp__kubernetes__delete_pod"


def fired(folder: Path, tool: str, given: dict[str, Any], *rules: str) -> Verdict:
    settings = GuardSettings(allowed=tuple(map(Rule.parse, rules)))
    return Engine([guard(ProtectedPaths(), settings)]).fire_sync(
        PreToolUse(session_id="s", cwd=str(folder), tool_name=tool, tool_input=given)
    )


@pytest.mark.parametrize(
    ("tool", "given"),
    [
        (POD, {"name": "web"}),
        ("mcp__redis__flushall", {}),
        ("Bash", {"command": "git push --force origin feature"}),
        ("Bash", {"command": "cd docs && git stash drop"}),
        ("Read", {"file_path": ".env"}),
    ],
)
def test_the_rule_that_is_offered_allows_the_call(tmp_path: Path, tool: str, given: dict[str, Any]) -> None:
    stopped = fired(tmp_path, tool, given)
    assert stopped.decision == "ask"
    rules = stopped.outcomes[0].answer.data["allow"]
    assert rules
    assert all(rule in stopped.how_to_allow for rule in rules)
    assert fired(tmp_path, tool, given, *rules).decision == "none"


@pytest.mark.parametrize(
    ("tool", "given"),
    [
        ("Bash", {"command": 'rm -rf "$D"'}),
        ("Bash", {"command": "echo x >> ~/.bashrc"}),
        ("Bash", {"command": 'eval "$X"'}),
        ("mcp__shell__run", {"command": "git push --force origin feature"}),
        ("mcp__postgres__execute", {"sql": "DROP TABLE users"}),
    ],
)
def test_no_rule_can_name_it(tmp_path: Path, tool: str, given: dict[str, Any]) -> None:
    """The sentence tells the user; a rule for every call of a tool that may do anything names no single call."""
    stopped = fired(tmp_path, tool, given)
    assert (stopped.decision, stopped.outcomes[0].answer.data["allow"]) == ("ask", ())
    assert NO_RULE in stopped.how_to_allow
    assert fired(tmp_path, tool, given, *([tool] if tool.startswith("mcp__") else [])).decision == "ask"


@pytest.mark.parametrize(
    ("rule", "is_naming"),
    [(POD, True), ("mcp__kubernetes", False), ("mcp__kubernetes__*", False), ("Bash", False), ("Bash(ls)", True)],
)
def test_rules_that_name_what_they_allow(rule: str, is_naming: bool) -> None:
    assert Rule.parse(rule).is_naming is is_naming

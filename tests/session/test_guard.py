"""The guard in a custom engine, and its asks in a session without a user."""

from pathlib import Path

import pytest

from billhook import Answer, Engine, Hook, PreToolUse, RuleError, Session, ToolResult, UsageError, Verdict, ask, guard
from session.around import run, says

FORCE = "git push --force origin feature"


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("BILLHOOK_HOME", str(tmp_path / "state"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def fired(command: str, *hooks: Hook) -> Verdict:
    return Engine(hooks).fire_sync(PreToolUse(tool_name="Bash", tool_input={"command": command}, cwd="/tmp"))


async def called(*hooks: Hook) -> ToolResult:
    async with Session(Engine(hooks)) as session:
        return await session.call_tool("Bash", {"command": FORCE}, lambda given: "ran")


def test_an_engine_of_ones_own() -> None:
    """It has the hooks that it is given."""
    before = says("PreToolUse", Answer(), name="before", priority=5000)
    assert fired("rm -rf ~", before).decision == "none"
    verdict = fired("rm -rf ~", guard(), before)
    assert (verdict.decision, [one.hook for one in verdict.outcomes]) == ("deny", ["before", "guard"])
    assert fired("ls", guard(), before).decision == "none"


def test_its_settings() -> None:
    assert fired(FORCE, guard()).decision == "ask"
    assert fired(FORCE, guard("strict")).decision == "deny"
    assert fired(FORCE, guard("off")).decision == "none"
    assert fired(FORCE, guard(cells={"force-push:remote": "allow"})).decision == "none"
    assert fired(FORCE, guard(allow=[f"Bash({FORCE})"])).decision == "none"
    assert fired(FORCE, guard(allow=["Bash", "Bash(*)"])).decision == "ask"


def test_billhook_itself(home: Path) -> None:
    """The row `disarm` has its files, as everywhere."""
    own = home / ".config" / "billhook" / "hooks.yaml"
    assert fired(f"echo > {own}", guard("off")).decision == "ask"
    assert fired("billhook trust --all", guard("off")).decision == "deny"


def test_invalid_settings() -> None:
    for wrong in ({"preset": "lax"}, {"cells": {"delete:hmoe": "deny"}}, {"cells": {"delete": "forbid"}}):
        with pytest.raises(UsageError):
            guard(**wrong)
    with pytest.raises(UsageError, match="disarm"):
        guard(cells={"disarm": "allow"})
    with pytest.raises(RuleError):
        guard(allow=["Bash("])


def test_no_user_can_be_asked() -> None:
    """The deny names the rule that allows the call, and where it belongs."""
    result = run(called(guard()))
    assert result.is_error
    assert result.content.endswith(
        f"(no user can be asked) To allow it, the user can add `Bash({FORCE})` to `guard(allow=[...])`."
    )
    assert run(called(guard(allow=[f"Bash({FORCE})"]))).content == "ran"


def test_no_user_can_be_asked_for_another_hook() -> None:
    """No rule is named where it would not be enough."""
    content = run(called(guard(), says("PreToolUse", ask("sure?"), name="other"))).content
    assert content.endswith("(no user can be asked)")

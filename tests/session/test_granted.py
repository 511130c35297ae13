"""PermissionRequest hooks may answer for the rest of the session: `permission_suggestions`, `updatedPermissions`."""

from typing import Any

import pytest

from billhook import Decision, Hook
from billhook.session import Ruling, Session
from session.around import Noted, Rules, run, says

ASK = Ruling(Decision.ASK, "no rule allows it")
FIRM = Ruling(Decision.ASK, "an ask rule", firm=True)


def allows(updates: Any) -> Hook:
    decision = {"behavior": "allow", "updatedPermissions": updates}
    return says(
        "PermissionRequest", {"hookSpecificOutput": {"hookEventName": "PermissionRequest", "decision": decision}}
    )


def add(tool: str, content: str | None = None, behavior: str = "allow", kind: str = "addRules") -> dict[str, Any]:
    rule = {"toolName": tool, **({"ruleContent": content} if content else {})}
    return {"type": kind, "rules": [rule], "behavior": behavior, "destination": "localSettings"}


def calls(noted: Noted, rules: Rules, *commands: str) -> list[bool]:
    """Which of these commands ran."""

    async def go() -> list[bool]:
        async with noted.session(permissions=rules) as session:
            return [await _ran(session, command) for command in commands]

    return run(go())


async def _ran(session: Session, command: str) -> bool:
    result = await session.call_tool("Bash", {"command": command}, lambda given: "ran")
    return result.content == "ran"


@pytest.mark.parametrize(
    ("updates", "asked"),
    [
        ([add("Bash", "npm test")], 2),
        ([add("Bash", "npm *")], 1),
        ([add("Bash")], 1),
        ([add("Write")], 3),
        ([], 3),
        ([add("Bash", "npm *"), add("Bash", "npm *", kind="removeRules")], 3),
        ([{"type": "setMode", "mode": "acceptEdits", "destination": "session"}], 3),
    ],
)
def test_rules_of_a_hook_answer_later_calls(updates: Any, asked: int) -> None:
    noted = Noted(allows(updates))
    assert calls(noted, Rules(ASK), "npm test", "npm test", "npm run lint") == [True, True, True]
    assert noted.names.count("PermissionRequest") == asked


def test_a_deny_rule_of_a_hook() -> None:
    noted = Noted(allows([add("Bash", "rm *", "deny")]))
    assert calls(noted, Rules(ASK), "ls", "rm -r x") == [True, False]


@pytest.mark.parametrize("ruling", [FIRM, Ruling(Decision.DENY, "no")])
def test_they_beat_no_rule(ruling: Ruling) -> None:
    """Ask and deny rules of the user or of a file stay in effect."""
    noted = Noted(allows([add("Bash")]))
    assert calls(noted, Rules(ASK, ruling), "ls", "ls") == [True, False]


@pytest.mark.parametrize(
    "updates",
    [
        [{"type": "addDirectories", "directories": ["/"]}],
        [add("Bash", behavior="permit")],
        [{"type": "setMode", "mode": "anything"}],
        ["Bash"],
        [add("Bash(")],
    ],
)
def test_what_can_not_be_acted_on_denies(updates: Any) -> None:
    noted = Noted(allows(updates))
    assert calls(noted, Rules(ASK), "ls") == [False]


@pytest.mark.parametrize(
    ("command", "content"), [("npm test", "npm test"), ("rm *", None), ("a (b)", None), ("x\ny", None)]
)
def test_suggestions(command: str, content: str | None) -> None:
    """They are about the call alone; answered back, they cover exactly that."""
    noted = Noted()
    calls(noted, Rules(ASK), command)
    offered = noted.of("PermissionRequest").get("permission_suggestions") or []
    if content is None:
        assert not offered
        return
    (one,) = offered
    assert one["rules"] == [{"toolName": "Bash", "ruleContent": content}]
    again = Noted(allows(offered))
    assert calls(again, Rules(ASK), command, command, command + " --all") == [True, True, True]
    assert again.names.count("PermissionRequest") == 2


def test_a_file_suggestion_covers_that_file(tmp_path: Any) -> None:
    seen = []

    def answer(ctx: Any) -> Any:
        seen.append(ctx.payload["tool_input"]["file_path"])
        decision = {"behavior": "allow", "updatedPermissions": ctx.payload["permission_suggestions"]}
        return {"hookSpecificOutput": {"hookEventName": "PermissionRequest", "decision": decision}}

    noted = Noted(Hook(name="h", run=answer, events=("PermissionRequest",)))

    async def go() -> None:
        async with noted.session(permissions=Rules(ASK), cwd=tmp_path) as session:
            for name in ("a", "a", "b"):
                await session.call_tool("Write", {"file_path": name, "content": ""}, lambda given: "")

    run(go())
    assert seen == ["a", "b"]

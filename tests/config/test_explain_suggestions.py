"""What `billhook explain` proposes under "to change that" is applied to the file and tried with a real engine.

A proposal makes the hook run for the explained event. It still runs for everything that it ran for, and its answer
does not become weaker. A rule that is not meant for a command gets no proposal at all.
"""

import re
from typing import Any

import pytest
import yaml

from billhook.config.explain import ExplainedHook, explain
from billhook.core.events import parse
from config.project import Project

OWN = "~/.config/billhook/hooks.yaml"

COMMANDS = (
    "git push", "git push -f", "git push --force", "git push origin main --force", "git push --force-with-lease",
    "git status", "git commit -m x", "git commit -n -m x", "git commit --no-verify -m x", "git reset --hard",
    "git -C sub push -f", "ls", "ls && git push -f", "rm -rf build", "rm -r -f build", "rm -fr /", "rm x",
    "pip install x", "npm publish", "npm install -g x", "cat .env", "echo 'git push --force'", "terraform destroy",
    "sudo rm -rf x",
)  # fmt: skip
CALLS: tuple[dict[str, Any], ...] = (
    *({"tool_name": "Bash", "tool_input": {"command": text}} for text in COMMANDS),
    {"tool_name": "Write", "tool_input": {"file_path": "src/a.py", "content": "x"}},
    {"tool_name": "Write", "tool_input": {"file_path": ".env", "content": "x"}},
    {"tool_name": "Edit", "tool_input": {"file_path": "docs/a.md", "old_string": "a", "new_string": "b"}},
    {"tool_name": "Read", "tool_input": {"file_path": ".env"}},
    {"tool_name": "mcp__github__push", "tool_input": {"branch": "main"}},
    {"tool_name": "MyTool", "tool_input": {}},
)
EVENTS: tuple[dict[str, Any], ...] = (
    *({"hook_event_name": "PreToolUse", **call} for call in CALLS),
    {"hook_event_name": "PostToolUse", **CALLS[0], "tool_response": "done"},
    {"hook_event_name": "Stop", "stop_hook_active": False},
    {"hook_event_name": "UserPromptSubmit", "prompt": "deploy it"},
    {"hook_event_name": "SessionStart", "source": "startup"},
    {"hook_event_name": "SessionStart", "source": "resume"},
)

GATES: dict[str, dict[str, Any]] = {
    "push gate": {"if": "Bash(git push *)", "deny": "no pushes"},
    "push gate that asks": {"if": "Bash(git push *)", "ask": "push?"},
    "push gate with a matcher": {"match": "Bash", "if": "Bash(git push *)", "deny": "no pushes"},
    "force push": {"if": "Bash(git push --force *)", "deny": "no forced pushes"},
    "force push of a script": {"if": "Bash(git push --force *)", "run": "true", "gate": True},
    "list of rules": {"if": ["Bash(git push --force *)", "Bash(npm publish *)"], "deny": "not here"},
    "list with a slip": {"if": ["bsh(git push *)", "Bash(npm publish *)"], "deny": "not here"},
    "rule with a slip": {"if": "bsh(rm -rf *)", "deny": "no"},
    "rule about a path": {"if": "Edit(src/**)", "deny": "not in src"},
    "path guard": {"paths": [".env*"], "deny": "secrets"},
    "path guard with a matcher": {"match": "Write", "paths": {"write": ["src/**"]}, "deny": "not in src"},
    "effect": {"effect": ["force-push", "delete:outside"], "deny": "no"},
    "effect that asks": {"effect": "discard", "ask": "sure?"},
    "branch": {"branch": ["main"], "if": "Bash(git commit *)", "deny": "not on main"},
    "matcher": {"match": "Write|Edit", "deny": "read only"},
    "matcher with another case": {"match": "bash", "deny": "no shell"},
    "matcher that is a rule": {"match": "Bash(git push *)", "deny": "no pushes"},
    "matcher with two slips": {"match": "bash|Wirte", "ask": "sure?"},
    "expression": {"match": "mcp__.*", "deny": "no servers"},
    "server": {"match": "mcp__github", "deny": "no"},
    "prompt": {"events": "UserPromptSubmit", "when": {"prompt": "deploy"}, "deny": "no"},
    "stop": {"events": "Stop", "stop": "enough"},
    "switched off": {"if": "Bash(git push *)", "deny": "no", "enabled": False},
    "background": {"match": "Bash", "run": "true", "gate": True, "background": True},
    "other event": {"events": "PostToolUse", "match": "Write", "deny": "no"},
    "script": {"match": "Write|Edit", "run": "true", "gate": True},
    "script at other events": {"events": "PostToolUse", "run": "true"},
    "script with a path rule": {"match": "Write", "if": "Write(src/**)", "run": "true"},
    "session": {"events": "SessionStart", "match": "resume", "inject": "hello"},
    "rewrite": {"match": "Write", "rewrite": {"file_path": "x"}},
    "exact names": {"match": "write_file", "dialect": "lesson", "run": "true"},
    "wildcards": {"match": "write_*|edit_file", "dialect": "claw", "run": "true"},
}
ALLOWS: dict[str, dict[str, Any]] = {
    "rule": {"if": "Bash(git status *)", "allow": True},
    "misspelt rule": {"if": "bash(git *)", "allow": True},
    "matcher": {"match": "Read", "allow": True},
    "misspelt matcher": {"match": "bash", "allow": True},
    "switched off": {"match": "Bash", "allow": True, "enabled": False},
    "other event": {"events": "PermissionRequest", "allow": True},
}


def write(project: Project, fields: dict[str, Any]) -> dict[str, Any]:
    entry = {"events": "PreToolUse"} | fields
    project.write(OWN, yaml.safe_dump({"hooks": {"it": entry}}))
    return entry


def explained(project: Project, event: dict[str, Any]) -> ExplainedHook:
    found = explain(project.load(), parse({"session_id": "s", "cwd": str(project.folder), **event}))
    (one,) = (*found.hooks, *found.others)
    return one


def answers(project: Project) -> dict[int, ExplainedHook]:
    """What the hook does at each event for which it runs."""
    found = {place: explained(project, event) for place, event in enumerate(EVENTS)}
    return {place: one for place, one in found.items() if one.runs}


def applied(entry: dict[str, Any], fix: str) -> dict[str, Any]:
    """The entry after the edit that a fix describes."""
    edited = dict(entry)
    for part in fix.split("; "):
        assert part.startswith(("write `", "remove `")), part
        for text in re.findall(r"`([^`]+)`", part):
            ((key, value),) = yaml.safe_load(text).items()
            if part.startswith("remove"):
                assert edited.pop(key) == value
            else:
                edited[key] = value
    return edited


def decision(one: ExplainedHook) -> str:
    """What the hook decides, and what its failure counts as."""
    known = one.answer.decision.value if one.answer is not None else "unknown"
    return f"{known}, {one.row.on_failure}"


@pytest.mark.parametrize("name", GATES)
def test_proposals_work_and_take_nothing_away(project: Project, name: str) -> None:
    """Every proposed edit is applied: the hook runs for that event, and still runs wherever it ran before."""
    entry = write(project, GATES[name])
    before = answers(project)
    fixes: dict[str, list[int]] = {}
    for place, event in enumerate(EVENTS):
        if fix := explained(project, event).fix:
            fixes.setdefault(fix, []).append(place)
    for fix, places in fixes.items():
        write(project, applied(entry, fix))
        after = answers(project)
        assert set(after) >= {*before, *places}, fix
        for place in before:
            assert decision(after[place]) == decision(before[place]), fix


@pytest.mark.parametrize("name", ALLOWS)
@pytest.mark.parametrize("event", EVENTS, ids=lambda one: f"{one['hook_event_name']} {one.get('tool_input', '')}")
def test_an_allow_is_never_widened(project: Project, name: str, event: dict[str, Any]) -> None:
    """No edit of a hook that allows calls is ever proposed."""
    write(project, ALLOWS[name])

    assert explained(project, event).fix == ""


@pytest.mark.parametrize(
    ("name", "command", "fix"),
    [
        ("push gate", "git status", ""),
        ("push gate", "ls", ""),
        ("push gate with a matcher", "git status", ""),
        ("force push", "git status", ""),
        ("force push", "git push", ""),
        ("force push", "git push -f", "write `if: Bash(git push *)`, which also matches the other spellings"),
        ("list of rules", "ls", ""),
        ("list of rules", "git push -f", 'write `if: ["Bash(git push *)", "Bash(npm publish *)"]`, which also matches'),
        ("list with a slip", "git push", 'write `if: ["Bash(git push *)", "Bash(npm publish *)"]`'),
        ("rule with a slip", "rm -rf x", "write `if: Bash(rm -rf *)`"),
        ("rule with a slip", "ls", ""),
        ("path guard", "ls", ""),
        ("effect", "git status", ""),
        ("effect that asks", "rm x", ""),
        ("branch", "git commit -m x", ""),
        ("matcher", "ls", ""),
        ("matcher with another case", "ls", "write `match: Bash`"),
        ("matcher that is a rule", "git push", "write `match: Bash` and `if: Bash(git push *)`"),
        ("matcher that is a rule", "ls", ""),
        ("expression", "ls", ""),
        ("background", "ls", "remove `background: true`"),
        ("switched off", "git push", "remove `enabled: false`"),
        ("script at other events", "ls", ""),
        ("script with a path rule", "ls", ""),
        ("exact names", "ls", ""),
    ],
)
def test_what_is_proposed(project: Project, name: str, command: str, fix: str) -> None:
    """Slips are corrected; a rule for something else stays as it is."""
    write(project, GATES[name])
    one = explained(project, {"hook_event_name": "PreToolUse", "tool_name": "Bash", "tool_input": {"command": command}})

    assert not one.runs
    assert one.fix.startswith(fix) and bool(one.fix) == bool(fix)

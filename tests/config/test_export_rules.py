"""Rules as regular expressions for an agent without hooks, and agents into which billhook can't be installed."""

import json
import re
from pathlib import Path

import pytest

from billhook.agents.without_hooks import WITHOUT_HOOKS
from cli.folder import Folder

RULES = {
    "permissions": {
        "deny": [
            "Bash(git push *)",
            "Read(.env)",
            "Edit(src/**/*.gen.ts)",
            "Edit(secrets/)",
            "WebFetch(domain:a.example)",
        ],
        "allow": ["Bash(npm test)", "Bash(npm run *)"],
        "ask": ["Bash(terraform *)"],
    },
    "hooks": {
        "no-sudo": {"events": "PreToolUse", "if": "Bash(sudo *)", "deny": "no sudo"},
        "program": {"events": "PreToolUse", "run": "./x.sh"},
        "on-main": {"events": "PreToolUse", "if": "Bash(make *)", "branch": "main", "deny": "not on main"},
    },
}


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    made = Folder(tmp_path)
    made.write("~/.config/billhook/hooks.yaml", RULES)
    return made


MATCHES = [
    ("terminal", "always_deny", "git push origin main", True),
    ("terminal", "always_deny", "git push", True),
    ("terminal", "always_deny", "cd x && git push -f", True),
    ("terminal", "always_deny", "/usr/bin/sudo ls", True),
    ("terminal", "always_deny", "git pushy", False),
    ("terminal", "always_deny", "git pull", False),
    ("terminal", "always_confirm", "terraform destroy", True),
    ("terminal", "always_allow", "npm test", True),
    ("terminal", "always_allow", "npm run build -- --watch", True),
    ("terminal", "always_allow", "npm test; rm -rf ~", False),
    ("terminal", "always_allow", "npm run x && curl http://x | sh", False),
    ("terminal", "always_allow", "npm run $(reboot)", False),
    ("terminal", "always_allow", "npm run x\nreboot", False),
    ("edit_file", "always_deny", "project/src/a/b.gen.ts", True),
    ("edit_file", "always_deny", "src/b.gen.ts", True),
    ("edit_file", "always_deny", "src/b.ts", False),
    ("delete_path", "always_deny", "secrets/a/b", True),
    ("fetch", "always_deny", "https://a.example/x", True),
    ("fetch", "always_deny", "https://a.example.com/x", False),
]


def test_rules_as_settings(folder: Folder) -> None:
    """What denies or asks also matches inside a longer line; what allows matches one plain command alone."""
    (found,) = folder.lines("list", "--host", "zed", "--json")
    tools = found["settings"]["agent"]["tool_permissions"]["tools"]
    for tool, kind, text, wanted in MATCHES:
        matched = any(re.search(one["pattern"], text) for one in tools[tool][kind])
        assert matched == wanted, (tool, kind, text)


def test_rules_that_can_not_be_expressed_are_named(folder: Folder) -> None:
    """With their place and the reason; the settings alone are on stdout."""
    ended = folder.billhook("list", "--host", "zed")
    assert "agent" in json.loads(ended.out)
    told = " ".join(ended.err.split())
    assert "permissions.deny `Read(.env)`" in told and "the agent has no rules for `Read`" in told
    assert "`program`" in told and "it runs a program" in told
    assert "`on-main`" in told and "it has conditions other than rules" in told
    assert "no-sudo" not in told


def test_a_broken_hook_is_named(folder: Folder) -> None:
    folder.write("~/.config/billhook/hooks.yaml", "hooks: {bad: {events: PreToolUse, if: Bash(sudo *), deny: no}}")
    told = " ".join(folder.billhook("list", "--host", "zed").err.split())
    assert "not for Zed" in told and "`bad`" in told and "it does not run" in told


@pytest.mark.parametrize("name", WITHOUT_HOOKS)
@pytest.mark.parametrize("verb", ["install", "uninstall"])
def test_agents_without_hooks_are_refused_in_one_sentence(folder: Folder, name: str, verb: str) -> None:
    """`install` explains why, and what is possible; nothing is written."""
    ended = folder.billhook(verb, name)
    assert ended.code == 2
    assert f"error: {WITHOUT_HOOKS[name].title} can't call billhook: " in ended.err
    assert ("billhook list --host zed" in ended.err) == (name == "zed")

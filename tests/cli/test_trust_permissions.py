"""`billhook trust` and the allow rules of a project's settings files: shown, approved, listed and revoked."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from inline_snapshot import snapshot

from billhook.config import load_config
from cli.place import Place
from cli.terminal import Ended

ALLOW = {"permissions": {"allow": ["Bash(ls *)", "Edit(src/**)"], "deny": ["Bash(rm *)"]}}
HOOK = "hooks:\n  it:\n    events: Stop\n    run: 'true'\n"


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


@pytest.fixture
def settings(place: Place) -> Place:
    """A project whose settings have an allow rule."""
    write(place, ALLOW)
    return place


def write(place: Place, content: Any, name: str = ".claude/settings.json") -> None:
    place.file(name, json.dumps(content, indent=1))


def steady(ended: Ended) -> str:
    text = re.sub(r"\d{4}-\d\d-\d\d( \d\d:\d\d)?", "<date>", ended.screen)
    return re.sub(r"\b[0-9a-f]{12}\b", "<short>", re.sub(r"\b[0-9a-f]{64}\b", "<hash>", text))


def waiting(place: Place, *arguments: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in place.run("trust", "--json", *arguments).out.splitlines()]


def allowed(place: Place) -> list[str]:
    config = load_config(place.project, home=place.home / ".claude", layers=("project", "local"), builtins=False)
    return [str(one.rule) for one in config.permissions.allow]


def test_screen(settings: Place) -> None:
    """Without a terminal everything is shown, and nothing approved."""
    assert steady(settings.run("trust")) == snapshot("""\
1 of 1  permissions.allow of .claude/settings.json  (not approved yet)

  these calls of an agent would run without asking:
    | Bash(ls *)
    | Edit(src/**)

  from        .claude/settings.json:4
  hash        <hash>

this project has no hooks that need approval
permissions.allow of .claude/settings.json: 2 rules not in force
-- stderr

hint: run `billhook trust` in a terminal to decide about each hook; `--yes` approves the named hooks, `--all --yes` all
-- exit 1
""")
    assert allowed(settings) == []


def test_with_hooks(settings: Place) -> None:
    """Hooks come first; one `--all --yes` approves both."""
    settings.file("hooks.yaml", HOOK)
    assert [one["name"] for one in waiting(settings)] == ["it", "permissions.allow"]
    assert steady(settings.alone("trust", "--all", "--yes")).split("approved permissions")[1] == snapshot("""\
.allow of .claude/settings.json

1 hook approved; 1 hook of this project runs: it
nothing waits for approval
permissions.allow of .claude/settings.json: 2 rules in force
-- exit 0
""")
    assert allowed(settings) == ["Bash(ls *)", "Edit(src/**)"]


def test_asked_on_a_terminal(settings: Place) -> None:
    """One question for all rules of a file."""
    ended = settings.typing("trust", answers=[("settings.json? [y/N/v/q/?]", "y\n")])
    assert ended.code == 0 and "approved permissions.allow of .claude/settings.json" in ended.out, ended
    assert allowed(settings) == ["Bash(ls *)", "Edit(src/**)"]


def test_a_no_on_a_terminal(settings: Place) -> None:
    """Nothing is approved."""
    assert settings.typing("trust", answers=[("settings.json? [y/N/v/q/?]", "\n")]).code == 1
    assert allowed(settings) == []


@pytest.mark.parametrize(
    "word",
    ["permissions", "permissions.allow", "project/permissions.allow", "permissions.allow of .claude/settings.json"],
)
def test_named(settings: Place, word: str) -> None:
    """By name; a hook beside them is not affected."""
    settings.file("hooks.yaml", HOOK)
    assert settings.alone("trust", word, "--yes").code == 0
    assert allowed(settings) == ["Bash(ls *)", "Edit(src/**)"]
    assert [one["name"] for one in waiting(settings)] == ["it"]


def test_by_hash(settings: Place) -> None:
    """The complete hash approves without asking."""
    (one,) = waiting(settings)
    assert one == {
        "name": "permissions.allow",
        "approved": False,
        "state": "new",
        "allow": [
            {"rule": "Bash(ls *)", "line": 4, "column": 4},
            {"rule": "Edit(src/**)", "line": 5, "column": 4},
        ],
        "source": f"{settings.project.resolve()}/.claude/settings.json:4",
        "layer": "project",
        "file": f"{settings.project.resolve()}/.claude/settings.json",
        "hash": one["hash"],
        "before": None,
    }
    assert settings.alone("trust", one["hash"]).code == 0
    assert allowed(settings) and waiting(settings) == []


def test_several_files(settings: Place) -> None:
    """A name that could mean two files is refused."""
    write(settings, ALLOW, ".claude/settings.local.json")
    assert steady(settings.alone("trust", "permissions", "--yes")) == snapshot("""\
-- stderr
error: `permissions` could mean the rules of 2 files

hint: use one of: project/permissions.allow (<short>, permissions.allow of .claude/settings.json), \
local/permissions.allow (<short>, permissions.allow of .claude/settings.local.json)
-- exit 2
""")
    assert settings.alone("trust", "local/permissions.allow", "--yes").code == 0
    assert [one["layer"] for one in waiting(settings)] == ["project"]


def test_hooks_are_approved_and_rules_wait(settings: Place) -> None:
    """The summary does not claim that nothing waits."""
    settings.file("hooks.yaml", HOOK)
    assert steady(settings.alone("trust", "it", "--yes")).split("approved it")[1] == snapshot("""\


1 hook approved; 1 hook of this project runs: it
permissions.allow of .claude/settings.json: 2 rules not in force
-- exit 0
""")


def test_nothing_waits(place: Place) -> None:
    """A project without allow rules, and one whose rules are already approved."""
    write(place, {"permissions": {"deny": ["Bash"]}})
    assert place.alone("trust", "--all", "--yes").code == 0
    assert steady(place.run("trust", "permissions")) == snapshot("""\
-- stderr
error: no hook of this project is called `permissions`

hint: no hook of this project needs approval
-- exit 2
""")
    write(place, ALLOW)
    assert place.alone("trust", "permissions", "--yes").code == 0
    assert place.alone("trust", "permissions", "--yes").screen == snapshot("""\
this project has no hooks that need approval
permissions.allow of .claude/settings.json: 2 rules in force
-- stderr
note: `permissions` is already approved
-- exit 0
""")


def test_more_rules_than_were_approved(settings: Place) -> None:
    """The new ones are marked; fewer rules need no new approval."""
    settings.alone("trust", "--all", "--yes")
    write(settings, {"permissions": {"allow": ["Bash(ls *)", "Edit(src/**)", "Bash(\u001b[2J\nx)"]}})
    assert steady(settings.run("trust")) == snapshot("""\
1 of 1  permissions.allow of .claude/settings.json  (more rules than were approved)
warning: 1 character looks like another character or can't be seen: \\x1b control character

  these calls of an agent would run without asking:
    | Bash(ls *)
    | Edit(src/**)
    | Bash(\\x1b[2J\\nx)  (new)

  from        .claude/settings.json:4
  hash        <hash>

this project has no hooks that need approval
permissions.allow of .claude/settings.json: 3 rules not in force
-- stderr

hint: run `billhook trust` in a terminal to decide about each hook; `--yes` approves the named hooks, `--all --yes` all
-- exit 1
""")
    write(settings, {"permissions": {"allow": ["Bash(ls *)"]}})
    assert allowed(settings) == ["Bash(ls *)"] and settings.run("trust").code == 0


def test_agents_can_not_approve(settings: Place) -> None:
    """Inside an agent's process tree, approving is refused."""
    ended = settings.run("trust", "permissions", "--yes", CLAUDECODE="1")
    assert ended.code == 2 and "only the user can approve hooks" in ended.err
    assert allowed(settings) == []


def test_listed_and_revoked(settings: Place) -> None:
    """All approved lists of the file are revoked at once: an earlier, longer one would still cover it."""
    settings.alone("trust", "--all", "--yes")
    write(settings, {"permissions": {"allow": ["Bash(ls *)", "Edit(src/**)", "Bash"]}})
    settings.alone("trust", "--all", "--yes")
    write(settings, ALLOW)
    assert steady(settings.run("trust", "--list")) == snapshot("""\
<date>  permissions.allow
                  .claude/settings.json  <short>
<date>  permissions.allow
                  .claude/settings.json  <short>
-- exit 0
""")
    newest = json.loads(settings.run("trust", "--list", "--json").out.splitlines()[0])["hash"]
    assert steady(settings.alone("trust", "--revoke", newest)) == snapshot("""\
revoked permissions.allow  .claude/settings.json  <short>
revoked permissions.allow  .claude/settings.json  <short>
2 approvals revoked; no longer in force: permissions.allow
-- exit 0
""")
    assert allowed(settings) == []


def test_list_and_check_name_what_waits(settings: Place) -> None:
    """In one line each; this is not a finding."""
    rules, why = "permissions.allow of .claude/settings.json", "the rules have no effect until you approve them"
    hint = f"hint: {rules}: {why} (`billhook trust`)\n"
    assert settings.run("list").err.endswith(hint)
    checked = settings.run("check")
    assert checked.code == 0 and checked.err.endswith(hint)
    assert settings.run("check", "--json").err == ""
    settings.alone("trust", "--all", "--yes")
    assert hint not in settings.run("list").err and hint not in settings.run("check").err


def test_check_finds(place: Place) -> None:
    """Unreadable rules, mistakes, and rules that others override."""
    rules = {"allow": ["Bash(rm *)", "Reed(x)"], "deny": ["Bash(rm *)", "Bash(rm", ""], "defaultMode": "acceptEdits"}
    write(place, {"permissions": rules})
    found = [json.loads(line) for line in place.run("check", "--json").out.splitlines()]
    assert [(one["code"], one["line"]) for one in found] == [
        ("BH307", 4),
        ("BH301", 5),
        ("BH208", 9),
        ("BH208", 10),
        ("BH215", 12),
    ]
    assert "every call of `Bash` needs approval" in found[2]["message"]

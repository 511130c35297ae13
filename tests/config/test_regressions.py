"""Ways around a gate that once worked."""

from typing import Any

import pytest

from billhook import Decision
from config.project import Project, codes, states

USER = "~/.config/billhook/hooks.yaml"
GATE = "hooks:\n  g: {events: PreToolUse, match: Bash, run: 'echo no >&2; exit 2', gate: true}\n"


def decision(project: Project, **options: Any) -> str:
    return project.fire(**options).decision.value


# -- what an unapproved project can do to the user's hooks -------------------------------------------------------------

CYCLES = {
    "itself": "hooks:\n  s: {events: Stop, run: x, after: s}\n",
    "two": "hooks:\n  s: {events: Stop, run: x, after: t}\n  t: {events: Stop, run: x, after: s}\n",
    "through the user's": "hooks:\n  y: {events: PreToolUse, run: 'true  ', after: v}\n",
}


@pytest.mark.parametrize("approved", [False, True])
@pytest.mark.parametrize("row", CYCLES)
def test_a_projects_cycle_breaks_no_other_hooks(project: Project, row: str, approved: bool) -> None:
    """Approved or not, it breaks only the project's hooks."""
    project.write(
        USER,
        "hooks:\n  y: {events: PreToolUse, run: 'true'}\n"
        "  v: {events: PreToolUse, run: 'echo GUARD >&2; exit 2', after: y}\n",
    )
    project.write("hooks.yaml", CYCLES[row])
    if approved:
        project.approve()
    assert project.fire().reason == "GUARD"
    assert [entry.state for entry in project.load().entries if entry.declared.layer == "user"] == ["runs", "runs"]


def test_a_project_does_not_supply_a_hook_that_the_user_names(project: Project) -> None:
    """A name refers to hooks of the same or more trusted layers: a missing hook stays missing."""
    project.write(USER, "hooks:\n  g: {events: PreToolUse, exec: [/bin/true], gate: true, after: [c]}\n")
    assert decision(project) == "deny"
    project.write("hooks.yaml", "hooks:\n  c: {events: Stop, exec: [/bin/true]}\n")
    assert decision(project) == "deny"
    project.approve()
    assert decision(project) == "deny" and "BH212" in codes(project.load())


@pytest.mark.parametrize("key", ["allowedHttpHookUrls", "httpHookAllowedEnvVars"])
def test_a_projects_allow_list_applies_to_its_hooks_only(project: Project, key: str) -> None:
    """It can't block the endpoint of the user's gate, nor remove its token."""
    project.write(
        USER,
        "hooks:\n  u: {events: PreToolUse, url: 'http://127.0.0.1:9', headers: {A: 'B $TOK'}, allowedEnvVars: [TOK]}\n",
    )
    project.write(".claude/settings.json", {key: []})
    run = project.load().hooks[0].run
    assert (run.allowed_urls, run.allowed_env) == (None, ("TOK",))  # type: ignore[attr-defined]


def test_every_unapproved_hook_is_named(project: Project) -> None:
    """Stand-ins of two layers do not count as the same hook."""
    project.write("hooks.yaml", "hooks:\n  pr: {events: PreToolUse, run: 'echo pr'}\n")
    project.write(".billhook/hooks.local.yaml", "hooks:\n  loc: {events: PreToolUse, run: 'echo loc'}\n")
    assert [outcome.hook for outcome in project.fire().outcomes] == ["pr", "loc"]


# -- what an edit can do to an approved gate ---------------------------------------------------------------------------

DISARMED: dict[str, dict[str, Any]] = {
    "enabled: false added": {"hooks.yaml": GATE.replace("gate: true", "gate: true, enabled: false")},
    "replaced by enabled: false": {"hooks.yaml": "hooks:\n  g: {enabled: false}\n"},
    "switched off by another file": {".billhook/hooks.yaml": "hooks:\n  g: {enabled: false}\n"},
    "all switched off": {".claude/settings.json": {"disableAllHooks": True}},
    "null": {"hooks.yaml": "hooks:\n  g: null\n"},
    "a number": {"hooks.yaml": "hooks: {g: 3}\n"},
    "hooks is a string": {"hooks.yaml": "hooks: x\n"},
    "hooks misspelt": {"hooks.yaml": GATE.replace("hooks:", "hoooks:")},
    "a broken file": {"hooks.yaml": "hooks: {g: {\n"},
    "billhook in its place": {"hooks.yaml": "hooks:\n  g: {events: PreToolUse, run: billhook hook --as claude}\n"},
}


@pytest.mark.parametrize("row", DISARMED)
def test_an_approved_gate_is_not_switched_off_unseen(project: Project, row: str) -> None:
    """It denies the events that it was approved to judge until the change is approved."""
    project.write("hooks.yaml", GATE)
    project.approve()
    for name, content in DISARMED[row].items():
        project.write(name, content)
    assert decision(project) == "deny"
    assert decision(project, tool="Write") == "none"


STILL_THERE = {
    "a second block of hooks": GATE + "hooks: {}\n",
    "handlers after hooks": GATE + "handlers: {}\n",
    "handlers before hooks": "handlers: {}\n" + GATE,
}


@pytest.mark.parametrize("row", STILL_THERE)
def test_a_second_block_of_hooks(project: Project, row: str) -> None:
    """Both count, in every spelling and order."""
    project.write(USER, STILL_THERE[row])
    assert project.fire().reason == "no"


def test_switching_off_can_be_approved(project: Project) -> None:
    """Once approved, the gate is off; the user's file needs no approval for it."""
    project.write("hooks.yaml", GATE)
    project.approve()
    project.write("hooks.yaml", GATE.replace("gate: true", "gate: true, enabled: false"))
    assert project.approve() == ["g"]
    assert decision(project) == "none" and states(project.load()) == {"g": "off"}
    project.write("hooks.yaml", GATE)
    assert decision(project) == "deny"  # still approved
    project.write(USER, "hooks:\n  g: {enabled: false}\n")
    assert decision(project) == "none"


def test_a_gate_moved_to_another_event(project: Project) -> None:
    """In a file without names, the same command under another event is the same hook, changed."""

    def settings(event: str) -> dict[str, Any]:
        handler = {"type": "command", "command": "./guard.sh", "onFailure": "block"}
        return {"hooks": {event: [{"matcher": "Bash", "hooks": [handler]}]}}

    project.script("guard.sh", "exit 0")
    project.write(".claude/settings.json", settings("PreToolUse"))
    project.approve()
    project.write(".claude/settings.json", settings("PostToolUse"))
    assert decision(project) == "deny"


def test_a_dangling_link(project: Project) -> None:
    """The file exists and can't be read: its gates are unknown."""
    place = project.path(USER)
    place.parent.mkdir(parents=True)
    place.symlink_to("/nowhere/hooks.yaml")
    assert codes(project.load()) == ["BH101"] and decision(project) == "deny"


# -- what runs in place of what was approved ---------------------------------------------------------------------------

NAMED = {
    "a default in exec": "exec: [sh, '${SCR:-a.sh}']",
    "a default for a shell": "run: 'sh ${SCR:-a.sh}'",
    "a pattern": "run: sh pol*/*.sh",
    "a loop": "run: 'for f in policies/*.sh; do sh $f || exit 2; done'",
}


@pytest.mark.parametrize("row", NAMED)
def test_scripts_that_are_named_indirectly(project: Project, row: str) -> None:
    """Their content is covered by the approval."""
    for name in ("a.sh", "policies/a.sh"):
        project.script(name, "exit 2")
    project.write("hooks.yaml", f"hooks:\n  g: {{events: PreToolUse, {NAMED[row]}, gate: true}}\n")
    project.approve()
    assert states(project.load()) == {"g": "runs"}
    for name in ("a.sh", "policies/a.sh"):
        project.script(name, "exit 0")
    assert states(project.load()) == {"g": "changed"} and decision(project) == "deny"


@pytest.mark.parametrize("hook", ["run: python3 guard.py", "python: 'guard:check'"])
@pytest.mark.parametrize("name", ["random.py", "random/__init__.py"])
def test_a_file_that_the_standard_library_would_import(project: Project, hook: str, name: str) -> None:
    """`tempfile` imports `random`: a new `random.py` beside the gate would be imported."""
    project.write("guard.py", "import sys, tempfile\ndef check(event): pass\n")
    project.write("hooks.yaml", f"hooks:\n  g: {{events: PreToolUse, {hook}, gate: true}}\n")
    project.approve()
    assert states(project.load()) == {"g": "runs"}
    project.write(name, "import os; os._exit(0)\n")
    assert states(project.load()) == {"g": "changed"}


# -- other bugs --------------------------------------------------------------------------------------------------------


def test_the_project_in_arguments(project: Project) -> None:
    """`${CLAUDE_PROJECT_DIR}` is always set, and `${VAR:-default}` may name a module."""
    project.script("g.sh", "echo here")
    project.write("mod.py", "def f(event): return {'systemMessage': 'there'}\n")
    project.write(
        "hooks.yaml",
        "hooks:\n  a: {events: SessionStart, exec: ['${CLAUDE_PROJECT_DIR}/g.sh']}\n"
        "  b: {events: SessionStart, python: '${M:-mod}:f'}\n",
    )
    project.approve()
    verdict = project.fire(event="SessionStart")
    assert (verdict.context, verdict.messages) == (("here",), ("there",))


def test_names_are_unique(project: Project) -> None:
    """The shown name identifies one hook."""
    project.write(".claude/settings.json", {"hooks": {"Stop": ["echo a"]}})
    project.write(".claude.json", {"hooks": {"Stop": ["echo b"]}})
    project.write(USER, "hooks:\n  echo: {events: Stop, run: echo c}\n  other: {events: Stop, run: x}\n")
    shown = [entry.shown for entry in project.load().entries]
    assert shown == ["user/echo", "other", "project/echo", "project/echo#2"]


def test_one_file_is_not_a_list_of_files(project: Project) -> None:
    """A mistake that would read a file for each letter."""
    with pytest.raises(Exception, match="must be a list of paths"):
        project.load(files="rules.yaml")


def test_calling_billhook_again_ends(project: Project) -> None:
    """A hook that calls billhook gets its depth."""
    project.write(USER, "hooks:\n  a: {events: SessionStart, run: 'echo $BILLHOOK_DEPTH'}\n")
    assert project.fire(event="SessionStart").context == ("1",)
    assert decision(project) == Decision.NONE.value

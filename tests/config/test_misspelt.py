"""A typo in the user's file never opens a gate, and never makes a hook unconditional."""

import json

import pytest

from billhook import Decision
from config.project import Project

YAML = "~/.config/billhook/hooks.yaml"
GATES = {
    "deny": "events: PreToolUse, denny: x",
    "deny in other letters": "events: PreToolUse, dney: x",
    "another word for deny": "events: PreToolUse, block: x",
    "deny of another type": "events: PreToolUse, deny: [x]",
    "deny of no type": "events: PreToolUse, deny: 5",
    "deny without a reason": "events: PreToolUse, deny: ''",
    "ask": "events: PreToolUse, aks: x",
    "ask of another type": "events: PreToolUse, ask: {x: y}",
    "on_failure": "events: PreToolUse, run: exit 0, on_failur: deny",
    "on_failure in capitals": "events: PreToolUse, run: exit 0, ON_FALURE: deny",
    "a failure rule": "events: PreToolUse, run: exit 0, on_failure: dney",
    "a failure rule of another type": "events: PreToolUse, run: exit 0, on_failure: [deny]",
    "gate": "events: PreToolUse, run: exit 0, gaet: true",
    "gate of another type": "events: PreToolUse, run: exit 0, gate: 'yes please'",
    "events": "evnts: PreToolUse, deny: x",
    "an event": "events: PreTolUse, deny: x",
    "if": "events: PreToolUse, iff: Bash(rm *), deny: x",
    "if in other letters": "events: PreToolUse, fi: Bash(rm *), run: exit 0, gate: true",
    "if of another type": "events: PreToolUse, if: [5], run: exit 0, gate: true",
    "if with an empty rule": "events: PreToolUse, if: [Bash, ''], run: exit 0, gate: true",
    "if without a rule": "events: PreToolUse, if: , run: exit 0, gate: true",
    "another word for if": "events: PreToolUse, condition: Bash(rm *), run: exit 0, gate: true",
    "match": "events: PreToolUse, mach: Bash, run: exit 0, gate: true",
    "another word for match": "events: PreToolUse, tools: [Bash], run: exit 0, gate: true",
    "an exception": "events: PreToolUse, unless: Bash(ls *), run: exit 0, gate: true",
    "exclusions": "events: PreToolUse, exclude: Bash(ls *), run: exit 0, gate: true",
    "the tool": "events: PreToolUse, tool: Bash, run: exit 0, gate: true",
    "dialect": "events: PreToolUse, dialct: spec, run: exit 0, gate: true",
    "a command": "events: PreToolUse, comand: exit 0, gate: true",
}


@pytest.mark.parametrize("entry", GATES.values(), ids=GATES)
def test_a_gate_of_the_user(project: Project, entry: str) -> None:
    """It blocks the events that it could have judged, with the message, and the other hooks run."""
    project.write(YAML, f"hooks:\n  guard: {{{entry}}}\n  other: {{events: Stop, inject: hello}}\n")
    verdict = project.fire(command="rm x")
    assert verdict.decision is Decision.DENY and f"{project.path(YAML)}:2" in verdict.reason
    assert project.fire(event="Stop").decision is not Decision.DENY
    states = {entry.shown: entry.state for entry in project.load().entries}
    assert states == {"guard": "broken", "other": "runs"}


@pytest.mark.parametrize("key", ["runn", "denny"])
def test_a_misspelt_action_is_one_finding(project: Project, key: str) -> None:
    """The unknown key, and not also that there is no action."""
    project.write(YAML, f"hooks:\n  a: {{events: PreToolUse, {key}: x}}\n")
    (found,) = project.load().problems
    assert (found.code, found.message) == ("BH202", f"unknown key `{key}`")


def test_a_hook_outside_of_hooks(project: Project) -> None:
    """The hint is where it belongs, not which other keys there are."""
    project.write(YAML, "hooks:\n  a: {events: Stop, inject: x}\nno-rm: {events: PreToolUse, deny: x}\n")
    (found,) = project.load().problems
    assert (found.line, found.hint) == (3, "if it is a hook, indent it below `hooks:`")


TOPS = {
    "hooks": "hoks:\n  guard: {events: PreToolUse, deny: x}\n",
    "hooks of a gate that asks": "hook:\n  guard: {events: PreToolUse, ask: x}\n",
    "another word": "guards:\n  guard: {events: PreToolUse, deny: x}\n",
    "dialect": "dialct: spec\nhooks:\n  guard: {events: PreToolUse, run: exit 0, gate: true}\n",
    "a dialect": "dialect: specc\nhooks:\n  guard: {events: PreToolUse, run: exit 0, gate: true}\n",
    "a built-in": "builtins:\n  rate-limt: {options: {limits: [{at_most: 1, per: turn}]}}\n",
    "hooks of another type": "hooks: 'deny'\n",
    "a list": "- {events: PreToolUse, deny: x}\n",
    "a list of gates that ask": "- events: PreToolUse\n  ask: x\n",
}


@pytest.mark.parametrize("text", TOPS.values(), ids=TOPS)
def test_a_key_of_the_whole_file(project: Project, text: str) -> None:
    project.write(YAML, text)
    verdict = project.fire(command="rm x", builtins=True)
    assert verdict.decision is Decision.DENY and str(project.path(YAML)) in verdict.reason


CONDITIONS = ["condition", "conditions", "when", "only_if", "iff", "unless", "if_not", "where"]


@pytest.mark.parametrize("key", CONDITIONS)
@pytest.mark.parametrize("shape", ["yaml", "nested", "group", "flat", "lesson"])
def test_an_unknown_condition(project: Project, shape: str, key: str) -> None:
    """In every shape the hook is broken, with a suggestion; it never runs for everything."""
    handler = {"type": "command", "command": "touch ran"}
    rule = {key: "Bash(rm *)"}
    nested = [{"matcher": "Bash", "hooks": [{**handler, **rule}]}]
    group = [{"matcher": "Bash", "hooks": [handler], **rule}]
    flat = [{"command": "touch ran", **rule}]
    files: dict[str, tuple[str, object]] = {
        "yaml": ("hooks.yaml", {"hooks": {"a": {"events": "PreToolUse", "run": "touch ran", **rule}}}),
        "nested": (".claude/settings.json", {"hooks": {"PreToolUse": nested}}),
        "group": (".claude/settings.json", {"hooks": {"PreToolUse": group}}),
        "flat": (".claude/settings.json", {"hooks": {"PreToolUse": flat}}),
        "lesson": (".hooks.json", {"hooks": {"PreToolUse": [{"matcher": "bash", **flat[0]}]}}),
    }
    name, content = files[shape]
    path = project.write(name, json.dumps(content))
    if shape == "group" and key == "iff":
        pytest.skip("a group has no `if`")
    config = project.load(files=[path], layers=["explicit"])
    project.fire(command="ls", files=[path], layers=["explicit"])
    assert not (project.folder / "ran").exists()
    assert [entry.state for entry in config.entries] == ["broken"]
    assert any("`if`" in f"{one.message} {one.hint}" for one in config.problems)


REMARKS = ["description", "id", "rewakeMessage", "comment", "notes", "tags", "owner", "x-mine", "severity"]


@pytest.mark.parametrize("key", REMARKS)
def test_comments_stay_comments(project: Project, key: str) -> None:
    """Keys without meaning break nothing, in agents' files and in ours."""
    handler = {"type": "command", "command": "exit 0", key: "x"}
    project.write(
        "~/.claude/settings.json", {"hooks": {"PreToolUse": [{"matcher": "Bash", "hooks": [handler], key: "x"}]}}
    )
    project.write(YAML, f"hooks:\n  a: {{events: PreToolUse, run: exit 0, {key}: x}}\n")
    assert [entry.state for entry in project.load().entries] == ["runs", "runs"]


def test_a_list_of_another_program(project: Project) -> None:
    """`hooks.yaml` at the top of a project may belong to another program: it blocks nothing."""
    project.write("hooks.yaml", "- id: redeploy\n  execute-command: ./deny.sh\n")
    assert project.fire(command="ls").decision is not Decision.DENY

"""An approval that can't be used any more breaks nothing else: only the events of its gate are denied."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from billhook import Decision
from config.project import Project

BROKEN_ONCE = {
    "an unclosed rule": 'if: "Bash(rm *"',
    "no tool in the rule": 'if: "(rm *)"',
    "an empty rule": 'if: "Bash()"',
    "an unclosed expression": 'match: "Bash("',
    "an invalid timeout": "timeout: -3",
    "an unknown dialect": "dialect: klingon",
    "a missing hook": "after: nowhere",
    "a cycle": "after: guard",
    "an invalid priority": "priority: high",
    "an unknown event": "events: PreToolUze",
}


@pytest.mark.parametrize("broken", BROKEN_ONCE.values(), ids=BROKEN_ONCE)
@pytest.mark.parametrize("now", ["", 'if: "Bash(rm *)"', "after: nowhere"])
def test_approved_while_it_was_broken(project: Project, broken: str, now: str) -> None:
    """Once fixed, it waits for approval and denies. The other hooks run, and after approval it runs as well."""

    def write(line: str) -> None:
        events = "" if line.startswith("events") else "    events: PreToolUse\n"
        guard = f"  guard:\n{events}    run: exit 2\n    gate: true\n    {line}\n"
        project.write("hooks.yaml", f"hooks:\n{guard}  other: {{events: Stop, run: exit 0}}\n")

    write(broken)
    project.approve()
    write(now)
    if now != broken:
        config = project.load()
        assert {entry.shown: entry.state for entry in config.entries} == {"guard": "changed", "other": "runs"}
        verdict = project.fire(command="rm x")
        assert verdict.decision is Decision.DENY and str(project.path("hooks.yaml")) in verdict.reason
    project.approve()
    assert project.fire(command="rm x").decision is Decision.DENY and project.fire(event="Stop").outcomes


def changed(**fields: Any) -> Callable[[Path], None]:
    """The definition in the record, with other values; None: without them."""

    def change(path: Path) -> None:
        record = json.loads(path.read_bytes())
        both = {**record["definition"], **fields}
        record["definition"] = {key: value for key, value in both.items() if value is not None}
        path.write_text(json.dumps(record))

    return change


def text(content: bytes) -> Callable[[Path], None]:
    return lambda path: void(path.write_bytes(content))


def void(_: object) -> None: ...


def a_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def a_loop(path: Path) -> None:
    path.unlink()
    path.symlink_to(path.name)


RECORDS: dict[str, Callable[[Path], None]] = {
    "another rule": changed(**{"if": "Bash(rm *"}),
    "another dialect": changed(dialect="klingon"),
    "another matcher": changed(match="(("),
    "no events": changed(events=None),
    "no dialect": changed(dialect=None, match=None),
    "events that are a string": changed(events="PreToolUse"),
    "events that are numbers": changed(events=[1]),
    "events that are mappings": changed(events=[{}]),
    "a rule that is a list": changed(**{"if": ["Bash"]}),
    "a matcher that is a number": changed(match=3),
    "a name that is a list": changed(name=[1]),
    "keys of another version": changed(quorum={"of": 3}),
    "nothing": text(b""),
    "half of it": text(b'{"hash": "'),
    "a list": text(b"[]"),
    "null": text(b"null"),
    "very deep": text(b"[" * 100_000),
    "not UTF-8": text(b"\xff\xfe{}"),
    "a folder": a_folder,
    "a loop of links": a_loop,
}


@pytest.mark.parametrize("damage", RECORDS.values(), ids=RECORDS)
def test_a_damaged_record(project: Project, damage: Callable[[Path], None]) -> None:
    """Loading works, hooks of other files run, and a gate with a lost approval never disappears silently."""
    project.write("hooks.yaml", 'hooks:\n  guard: {events: PreToolUse, if: "Bash(rm *)", deny: no rm here}\n')
    project.write("~/.config/billhook/hooks.yaml", "hooks:\n  mine: {events: PreToolUse, inject: hello}\n")
    project.approve()
    (record,) = (project.root / "billhook/approvals").rglob("*.json")
    damage(record)
    config = project.load()
    assert [entry.state for entry in config.entries if entry.shown == "mine"] == ["runs"]
    assert project.fire(command="ls").context == ("hello",) or project.fire(command="ls").decision is Decision.DENY
    project.write("hooks.yaml", 'hooks:\n  guard: {events: PreToolUse, if: "Bash(rm -r *)", deny: no rm here}\n')
    assert project.load().pending or project.fire(command="rm x").decision is Decision.DENY
    project.write("hooks.yaml", "hooks: {guard: [")
    project.fire(command="rm x")

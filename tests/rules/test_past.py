"""A past decision, explained from the record and the configuration of that time."""

import os
from pathlib import Path
from typing import Any

import msgspec
import pytest

from billhook.config.config import read_snapshot
from billhook.config.history import log_of
from billhook.core.events import EVENTS
from billhook.store.log import Record
from billhook.testing.judge import Judges, decided_by, event_of
from billhook.testing.replay import PastEvent, look_back
from config.logged import content, said, write
from config.project import Project

OWN = "~/.config/billhook/hooks.yaml"
HOOKS = """\
hooks:
  guard: {events: PreToolUse, if: Bash(git push *), deny: No pushes}
  scan: {events: PreToolUse, match: Write, run: 'true'}
  after: {events: PreToolUse, run: 'true', priority: 200}
  done: {events: Stop, run: 'true'}
"""


def record_of(**fields: Any) -> Record:
    """A record as the reader returns it."""
    ours = {"v": 1, "seq": 1, "prev": "", "hash": "0" * 64}
    return msgspec.convert({**ours, **content("/p", **fields)}, Record)


def newest(project: Project) -> Record:
    log = log_of(project.load(builtins=True))
    assert log is not None
    return next(log.backward()).record


def told(project: Project, record: Record | None = None, *, forget: bool = False) -> PastEvent:
    """The newest record, or another one, as it is explained today."""
    record = record or newest(project)
    return look_back(record, None if forget else read_snapshot(project.root, record.config))


def standings(past: PastEvent) -> dict[str, tuple[str, str]]:
    """The state of the hooks that are not built in, and why."""
    built_in = {"metrics", "turn-tracker", "event-logger"}
    rows: dict[str, tuple[str, str]] = {
        one.name: (one.standing, one.why) for one in past.hooks if one.name not in built_in
    }
    rows.pop("built-in/guard" if "built-in/guard" in rows else "guard", None)
    return rows


# -- what happened


def test_every_hook_of_the_event(project: Project) -> None:
    """Hooks that ran, and skipped ones with the condition that failed; hooks for other events are left out."""
    project.write(OWN, HOOKS)
    project.fire("Bash", "ls", builtins=True)

    assert standings(told(project)) == {
        "after": ("asked", ""),
        "guard": ("skipped", "`if: Bash(git push *)` does not match `ls`"),
        "scan": ("not asked", "`match: Write` does not match `Bash`"),
    }


def test_who_decided(project: Project) -> None:
    """The hook whose answer became the decision, and that later hooks were skipped."""
    project.write(OWN, HOOKS)
    project.fire("Bash", "git push x", builtins=True)
    past = told(project)

    assert past.by == ("guard",)
    assert [one.name for one in past.hooks if one.decided] == ["guard"]
    assert standings(past)["after"] == ("skipped", "`guard` answered deny")


def test_a_hook_that_was_not_approved(project: Project) -> None:
    """It was skipped, with the reason of that time."""
    project.write("hooks.yaml", "hooks: {new: {events: PreToolUse, run: 'true'}}\n")
    project.fire("Bash", "ls", builtins=True)

    standing, why = standings(told(project))["new"]
    assert (standing, why) == ("not asked", "not approved; `billhook trust` shows it")


@pytest.mark.parametrize(
    ("fields", "by"),
    [
        pytest.param(
            {"decision": "deny", "outcomes": [said("a", decision="deny"), said("b", decision="ask")]},
            ("a",),
            id="the strictest",
        ),
        pytest.param(
            {"decision": "ask", "outcomes": [said("a", decision="ask"), said("b", decision="ask")]},
            ("a", "b"),
            id="several",
        ),
        pytest.param({"decision": "none", "outcomes": [said("a")]}, (), id="no hook"),
        pytest.param(
            {"decision": "deny", "reason": "stop it", "stop": True, "outcomes": [said("a", reason="stop it")]},
            ("a",),
            id="a stop",
        ),
        pytest.param(
            {"keep_going": True, "reason": "go", "outcomes": [said("a", reason="go"), said("b", reason="other")]},
            ("a",),
            id="going on",
        ),
        pytest.param(
            {"decision": "deny", "outcomes": [said("a", status="timed_out", decision="deny")]},
            ("a",),
            id="a gate that failed",
        ),
    ],
)
def test_whose_answers_became_the_decision(fields: dict[str, Any], by: tuple[str, ...]) -> None:
    """From the record alone."""
    assert decided_by(record_of(**fields)) == by


# -- what is not known


def test_without_the_configuration_of_its_time(project: Project) -> None:
    """The record tells what happened, and which hooks were there."""
    project.write(OWN, HOOKS)
    project.fire("Bash", "ls", builtins=True)
    project.write(OWN, HOOKS.replace("scan:", "other:"))
    past = told(project, forget=True)

    assert standings(past)["scan"] == ("not asked", "did not match")
    assert past.unknown == f"{past.record.config[:12]} was not kept"


@pytest.mark.parametrize("name", sorted(EVENTS))
def test_every_event_can_be_told_again(name: str, project: Project) -> None:
    """A record of any event is explained without a fault, whether its input is there or not."""
    fields: dict[str, Any] = {"event": name, "input": None}
    if "tool_name" not in EVENTS[name].__struct_fields__:
        fields |= {"tool": None, "tool_use_id": None}
    for given in (None, {}, {"command": "ls"}, {"source": "startup", "prompt": "hi"}, [1], "x"):
        record = record_of(**{**fields, "input": given})
        assert told(project, record).record is record
        assert Judges().of(str(project.folder), "claude").judge_single(record).word


def test_an_event_as_it_was(project: Project) -> None:
    """Input, session and folder are those of the record."""
    event = event_of(record_of(input={"command": "git push"}))

    assert event is not None
    assert (event.session_id, event.cwd, event.target) == ("s1", "/p", "Bash")
    assert event.payload["tool_input"] == {"command": "git push"}


def test_a_record_without_anything(project: Project) -> None:
    """The minimal content of a line."""
    log = write(
        project.root, os.path.realpath(project.folder), [{"id": "0" * 32, "time": "x", "mono": 0, "event": "Odd"}]
    )
    past = told(project, next(log.backward()).record)

    assert past.hooks == ()
    assert past.unknown == "the record does not name it"


def test_a_kept_configuration_that_is_odd(project: Project, tmp_path: Path) -> None:
    """Whatever the file contains, nothing breaks."""
    for odd in ({}, {"hooks": None}, {"hooks": [1, {"name": None}, {"events": 3}]}, {"hooks": "x", "builtins": None}):
        past = look_back(record_of(not_asked={"a": "did not match"}), odd)
        assert [one.name for one in past.hooks][:1] == ["a"]

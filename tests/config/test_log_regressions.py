"""Bugs that were found in sessions, turns and the log of a whole configuration."""

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from billhook import Answer, Decision, Hook, PreToolUse, Verdict, inject, keep_going, notify, rewrite, stop
from billhook.cli.screen import word_of
from billhook.config.config import read_snapshot
from billhook.config.history import log_of
from billhook.core.events import parse
from billhook.store.files import log_folder
from billhook.store.log import OutcomeRecord
from billhook.testing.replay import PastEvent, look_back
from config.project import Project

OWN = "~/.config/billhook/hooks.yaml"


def fire(project: Project, event: str, **fields: Any) -> Verdict:
    """Fire an event with the configured hooks and the built-ins."""
    return project.load(builtins=True).engine().fire_sync(parse({"hook_event_name": event, **fields}))


def records(project: Project) -> list[dict[str, Any]]:
    log = log_folder(project.root, str(project.folder.resolve())) / "hooks.jsonl"
    return [json.loads(line) for line in log.read_text().splitlines()]


def newest(project: Project) -> dict[str, Any]:
    return records(project)[-1]


def outcome_of(project: Project, hook: str) -> dict[str, Any]:
    """The outcome of a hook in the newest record."""
    (found,) = [one for one in newest(project)["outcomes"] if one["hook"] == hook]
    return dict(found)


def told(project: Project) -> PastEvent:
    """The newest record, as it is explained today."""
    config = project.load(builtins=True)
    log = log_of(config)
    assert log is not None
    record = next(log.backward()).record
    return look_back(record, read_snapshot(project.root, record.config))


def files(root: Path, folder: str) -> list[str]:
    return sorted(path.name for path in (root / folder).glob("*"))


# -- agents without a session id


def test_agents_without_a_session_share_nothing_but_limits(project: Project) -> None:
    """They have no turns and no name; limits count per project, in every folder of it."""
    project.write(OWN, "builtins: {rate-limit: {options: {at_most: 1, per: session}}}\n")
    call = {"tool_name": "Bash", "tool_input": {"command": "ls"}}
    fire(project, "SessionStart", source="startup")
    assert fire(project, "PreToolUse", cwd=str(project.folder), **call).decision == "none"
    fire(project, "Stop")
    denied = fire(project, "PreToolUse", cwd=str(project.folder / "src"), **call)

    assert denied.decision == "deny"
    assert "names no session" in denied.reason
    assert {(one["session_id"], one["session_name"], one["turn_id"]) for one in records(project)} == {("", "", "")}
    assert files(project.root, "turns") == files(project.root, "billhook/sessions") == []
    assert len(files(project.root, "billhook/limits")) == 1


# -- hooks of the calling program


def own(name: str = "own", answer: Any = None, **fields: Any) -> Hook:
    return Hook(name=name, run=lambda ctx: answer, **{"events": ("PreToolUse",), **fields})


def bash(project: Project, *hooks: Hook, tool_input: Any = None) -> Verdict:
    event = PreToolUse(tool_name="Bash", tool_input={"command": "ls"} if tool_input is None else tool_input)
    return project.load(builtins=True).engine(hooks=hooks).fire_sync(event)


def test_own_hooks_that_did_not_match_are_recorded(project: Project) -> None:
    """Like hooks of files; a hook for another event is not recorded."""
    bash(project, own("matches"), own("other-tool", match="Write"), own("every", events=(), match="Write"))
    bash(project, own("other-event", events=("Stop",)))
    first, second = records(project)

    assert first["not_asked"] == {"other-tool": "did not match", "every": "did not match"}
    assert [one["hook"] for one in first["outcomes"]][-2:] == ["matches", "guard"]
    assert second["not_asked"] == {}


def test_own_hooks(project: Project) -> None:
    """Hooks of the calling program are marked: they are in no file."""
    project.write(OWN, "hooks:\n  filed: {events: PreToolUse, run: 'true'}\n")
    bash(project, own("asked"), own("unmatched", match="Write"), own("skipped", condition=lambda ctx: False))
    past = told(project)

    assert {one.name for one in past.hooks if one.own} == {"asked", "unmatched", "skipped"}


# -- what a hook did besides its decision


DEEDS: dict[str, tuple[Answer, dict[str, Any], str]] = {
    "stop": (stop("enough"), {"stop": True, "reason": "enough"}, "stop"),
    "keep going": (keep_going("go on"), {"keep_going": True, "reason": "go on"}, "keep going"),
    "context": (inject("know this"), {"context": "know this"}, "told the model"),
    "message": (notify("look"), {"message": "look"}, "told the user"),
    "input": (rewrite(input={"command": "pwd"}), {"rewrote_input": True}, "rewrote input"),
    "output": (rewrite(output=None), {"rewrote_output": True}, "rewrote output"),
    "nothing": (Answer(), {}, "no objection"),
    "deny and tell": (Answer(decision=Decision.DENY, message="no"), {"message": "no"}, "deny"),
}
FLAGS = {"stop", "keep_going", "context", "message", "rewrote_input", "rewrote_output", "reason"}


@pytest.mark.parametrize("deed", DEEDS)
def test_an_outcome_has_what_the_hook_did(project: Project, deed: str) -> None:
    """False fields are left out."""
    answer, fields, word = DEEDS[deed]
    bash(project, own("doer", answer))
    said = outcome_of(project, "doer")

    assert {key: value for key, value in said.items() if key in FLAGS} == fields
    assert word_of(msgspec.convert(said, OutcomeRecord)) == word


def test_which_hook_stopped_the_agent_or_kept_it_going(project: Project) -> None:
    """From the outcomes: another hook with the same text did neither."""
    same = own("same", Answer(message="x", reason="go on"), events=("Stop",))
    going = own("going", keep_going("go on"), events=("Stop",))
    project.load(builtins=True).engine(hooks=[same, going]).fire_sync(parse({"hook_event_name": "Stop"}))
    assert told(project).by == ("going",)
    bash(project, own("stopper", stop("enough")))
    assert told(project).by == ("stopper",)


def test_the_text_of_a_hook_is_redacted(project: Project) -> None:
    """Also in its outcome."""
    secret = "ghp_" + "a1B2" * 9
    bash(project, own("leaks", inject(f"the token is {secret}")))
    assert secret not in json.dumps(newest(project))


# -- unusual inputs and data


def test_an_empty_input_is_recorded(project: Project) -> None:
    """So are an empty output, and an input that was rewritten to an empty one."""
    bash(project, own("empties", rewrite(input={})), tool_input={"a": 1})
    assert (newest(project)["input"], newest(project)["rewritten_input"]) == ({"a": 1}, {})
    bash(project, tool_input={})
    assert newest(project)["input"] == {}
    fire(project, "PostToolUse", tool_name="Bash", tool_input={}, tool_response={})
    assert newest(project)["output"] == {}
    fire(project, "Stop")
    assert "input" not in newest(project)


class Shy:
    """Its `repr` raises."""

    def __repr__(self) -> str:
        raise RuntimeError("no")


def looped() -> dict[str, Any]:
    loop: dict[str, Any] = {"token": "secret"}
    loop["self"] = loop
    return loop


def deep() -> list[Any]:
    value: list[Any] = []
    for _ in range(100_000):
        value = [value]
    return value


ODD = {"shy": Shy, "shy inside": lambda: {"a": [Shy()]}, "a loop": looped, "too deep": deep}


@pytest.mark.parametrize("odd", ODD)
@pytest.mark.parametrize("redact", ["true", "false"])
def test_data_that_can_not_be_written(project: Project, odd: str, redact: str) -> None:
    """Only the data is lost, not the record."""
    project.write(OWN, f"builtins: {{event-logger: {{options: {{redact: {redact}}}}}}}\n")
    value = ODD[odd]()
    verdict = bash(project, own("odd", Answer(data=value)), own("plain", Answer(data={"a": 1})))

    assert not verdict.warnings
    text = f"[not recorded: this {type(value).__name__} can't be written as JSON]"
    assert outcome_of(project, "odd")["data"] == text
    assert outcome_of(project, "plain")["data"] == {"a": 1}


def test_an_input_that_can_not_be_written(project: Project) -> None:
    """A program may pass anything to its engine."""
    assert not bash(project, tool_input={"a": Shy()}).warnings
    assert newest(project)["input"] == "[not recorded: this dict can't be written as JSON]"


def test_objects_are_recorded_as_text(project: Project) -> None:
    """If they can be converted."""
    bash(project, own("path", Answer(data={"at": Path("/a"), "set": {1}, 3: float("nan")})))
    assert newest(project)["outcomes"][-2]["data"] == {"at": "/a", "set": [1], "3": None}


def test_an_input_that_contains_itself(project: Project) -> None:
    """Only a program can pass one: it is judged and recorded with a note, without an endless loop."""
    given: dict[str, Any] = {"command": "ls"}
    given |= {"self": given, "list": [given]}
    event = PreToolUse(tool_name="Anything", tool_input=given, session_id="s", cwd=str(project.folder))
    verdict = project.load(builtins=True).engine().fire_sync(event)
    assert (verdict.decision, verdict.warnings) == ("none", [])

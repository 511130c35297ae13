"""The event log of a loaded configuration: records, skipped hooks with their reasons, and failures."""

import json
import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from billhook import EVENTS, Answer, Hook, PreToolUse, Verdict
from billhook.config import load_config
from billhook.config.config import read_snapshot
from billhook.core.events import decode, parse
from billhook.core.hook import Source
from billhook.store.log import Record
from billhook.store.log.reader import LogReader
from config.project import Project

USER = "~/.config/billhook/hooks.yaml"
SECRET = "ghp_" + "a1B2" * 9


def fire(project: Project, event: str = "PreToolUse", **fields: Any) -> Verdict:
    about = {"hook_event_name": event, "session_id": "abc-1", "cwd": str(project.folder), **fields}
    config = load_config(project.folder, home=project.root)
    return config.engine(host="claude").fire_sync(parse(about))


def bash(project: Project, command: str = "ls", **fields: Any) -> Verdict:
    about = {"tool_name": "Bash", "tool_input": {"command": command}, "tool_use_id": "toolu_1", **fields}
    return fire(project, **about)


def log_file(project: Project) -> Path:
    (folder,) = (project.root / "hooks").iterdir()
    return folder / "hooks.jsonl"


def records(project: Project) -> list[dict[str, Any]]:
    return [json.loads(line) for line in log_file(project).read_bytes().splitlines()]


def test_one_line_for_each_verdict(project: Project) -> None:
    """It contains everything that is needed to explain a past decision."""
    project.write(USER, "hooks:\n  no-rm: {events: PreToolUse, if: Bash(rm *), deny: never}\n")
    verdict = bash(project, "rm -rf x")
    (record,) = records(project)
    expected = {
        "v": 1, "seq": 1, "prev": "", "id": verdict.id, "event": "PreToolUse", "tool": "Bash", "host": "claude",
        "tool_use_id": "toolu_1", "session_id": "abc-1", "turn_id": "abc-1:1", "cwd": str(project.folder),
        "project": str(project.folder), "decision": "deny", "reason": "never", "failed_open": 0,
        "input": {"command": "rm -rf x"}, "not_asked": {},
    }  # fmt: skip
    assert {key: record[key] for key in expected} == expected
    assert record["session_name"].count("-") == 1 and record["time"].endswith("Z") and record["mono"] > 0
    said, skipped = record["outcomes"][-2:]
    assert (said["hook"], said["reason"]) == ("no-rm", "never") and record["duration_ms"] >= said["duration_ms"]
    assert (skipped["hook"], skipped["status"]) == ("guard", "skipped")
    assert log_file(project).stat().st_mode & 0o777 == 0o600
    assert log_file(project).parent.name == "".join(
        c if c.isascii() and c.isalnum() else "-" for c in str(project.folder)
    )


def test_the_event_logger_has_the_id_beforehand(project: Project) -> None:
    """Seed 002's handler at priority 50 gives later hooks the id of the record that will be written."""
    verdict = bash(project)
    outcome = next(one for one in verdict.outcomes if one.hook == "event-logger")
    assert outcome.data == {"id": verdict.id} == {"id": records(project)[0]["id"]}


HOOKS = """hooks:
  asked: {events: PreToolUse, match: Bash, run: "true"}
  other-tool: {events: PreToolUse, match: Write, run: "true"}
  other-command: {events: PreToolUse, if: Bash(git *), run: "true"}
  off: {events: PreToolUse, enabled: false, run: "true"}
  other-event: {events: Stop, run: "true"}
"""


def test_hooks_that_did_not_run_and_why(project: Project) -> None:
    """Each hook of the event has a short reason."""
    project.write(USER, HOOKS)
    about = "{{events: PreToolUse, match: {}, run: 'true'}}"
    project.write("hooks.yaml", f"hooks:\n  stranger: {about.format('Bash')}\n  odd: {about.format('Write')}\n")
    bash(project)
    assert records(project)[-1]["not_asked"] == {
        "other-tool": "did not match",
        "other-command": "condition false",
        "off": "disabled",
        "stranger": "not trusted",
        "odd": "not trusted",
    }


def test_built_ins_that_were_switched_off(project: Project) -> None:
    """They are recorded as disabled, for the events that they listen for."""
    project.write(USER, "builtins: {session-naming: {enabled: false}, turn-tracker: false}\n")
    fire(project, "SessionStart", source="startup")
    fire(project, "Notification", message="m", notification_type="t")
    assert [record["not_asked"] for record in records(project)] == [
        {"session-naming": "disabled", "turn-tracker": "disabled"}, {}
    ]  # fmt: skip
    assert {record["turn_id"] + record["session_name"] for record in records(project)} == {""}


@pytest.mark.parametrize("rule", ["warn", "deny"])
def test_a_configuration_that_cannot_be_kept(project: Project, rule: str) -> None:
    """The event is still recorded, and the outcome reports what is missing."""
    project.write(USER, f"builtins: {{event-logger: {{options: {{on_log_failure: {rule}}}}}}}\n")
    (project.root / "billhook").mkdir(parents=True)
    (project.root / "billhook" / "configs").write_text("a file lies here")
    verdict = bash(project)
    logger = next(one for one in verdict.outcomes if one.hook == "event-logger")
    assert logger.status == "failed" and "its configuration was not kept" in logger.error
    assert len(records(project)) == 1 and verdict.decision == ("none" if rule == "warn" else "deny")


def test_hooks_after_a_deny_are_skipped(project: Project) -> None:
    """The reason names the hook that ended the run."""
    project.write(USER, "hooks:\n  first: {events: PreToolUse, deny: no}\n  later: {events: PreToolUse, run: 'true'}\n")
    bash(project)
    assert records(project)[-1]["not_asked"] == {"later": "`first` answered deny"}


def test_output_and_feedback(project: Project) -> None:
    """The tool's output, the context and messages of hooks, and how much they printed."""
    project.write(USER, 'hooks:\n  speaks: {events: PostToolUse, run: \'echo "{\\"systemMessage\\": \\"hi\\"}"\'}\n')
    fire(project, "PostToolUse", tool_name="Bash", tool_input={"command": "ls"}, tool_response={"stdout": "a.txt"})
    (record,) = records(project)
    assert record["output"] == {"stdout": "a.txt"} and record["messages"] == ["hi"]
    assert record["outcomes"][-1]["output_bytes"] == len('{"systemMessage": "hi"}\n')


@pytest.mark.parametrize("option", ["include_input", "includeInput"])
def test_input_and_output_follow_the_options(project: Project, option: str) -> None:
    """They are left out if the user sets it, in both spellings."""
    project.write(USER, f"builtins: {{event-logger: {{options: {{{option}: false, includeOutput: false}}}}}}\n")
    fire(project, "PostToolUse", tool_name="Bash", tool_input={"command": "ls"}, tool_response="done")
    assert not {"input", "output"} & set(records(project)[0])


def test_the_log_can_be_switched_off_by_its_owner(project: Project) -> None:
    """Not by a project."""
    project.write("hooks.yaml", "builtins: {event-logger: false}\n")
    bash(project)
    assert len(records(project)) == 1
    project.write(USER, "builtins: {event-logger: {enabled: false}}\n")
    verdict = bash(project)
    assert len(records(project)) == 1 and "event-logger" not in [one.hook for one in verdict.outcomes]


def test_secrets_stay_out(project: Project) -> None:
    """Not in the input, not in answers and errors of hooks, and not in the stored configuration."""
    run = f"echo {SECRET} >&2; exit 1"
    project.write(
        USER, f"hooks:\n  leaks: {{events: PreToolUse, run: '{run}'}}\n  refuses: {{events: Stop, deny: {SECRET}}}\n"
    )
    bash(project, f"curl -H 'Authorization: token {SECRET}' x", tool_input={"command": SECRET, "api_key": "abcdefgh"})
    everything = b"".join(path.read_bytes() for path in project.root.rglob("*") if path.is_file())
    assert SECRET.encode() not in everything and b"abcdefgh" not in everything
    (record,) = records(project)
    assert record["redacted"] >= 3 and record["input"]["command"] in record["outcomes"][-2]["error"]


def test_secrets_are_kept_if_the_user_sets_it(project: Project) -> None:
    """`redact: false` in the user's file."""
    project.write(USER, "builtins: {event-logger: {options: {redact: false}}}\n")
    bash(project, SECRET)
    assert records(project)[0]["input"] == {"command": SECRET} and records(project)[0]["redacted"] == 0


def test_the_configuration_is_stored_once_by_its_hash(project: Project) -> None:
    """Records of one configuration share it; a change creates another, and both can be read."""
    project.write(USER, "hooks:\n  a: {events: Stop, run: 'true'}\n")
    bash(project), bash(project)
    project.write(USER, "hooks:\n  b: {events: Stop, run: 'true', gate: true}\n")
    bash(project)
    hashes = [record["config"] for record in records(project)]
    assert hashes[0] == hashes[1] != hashes[2]
    assert len(list((project.root / "billhook" / "configs").iterdir())) == 2
    for one, name in ((hashes[0], "a"), (hashes[2], "b")):
        content = read_snapshot(project.root, one)
        assert content is not None and content["project"] == str(project.folder)
        assert [hook["name"] for hook in content["hooks"]][-2:] == [name, "guard"]


def test_a_stored_configuration_that_was_changed_is_ignored(project: Project) -> None:
    """Its name is the hash of its content."""
    bash(project)
    (path,) = (project.root / "billhook" / "configs").iterdir()
    path.write_bytes(path.read_bytes().replace(b"metrics", b"metrixs"))
    assert read_snapshot(project.root, path.stem) is None and read_snapshot(project.root, "../../x") is None


def test_every_event_is_recorded(project: Project) -> None:
    """Also events without hooks, and unknown events."""
    for event, fields in (("Notification", {"message": "m", "notification_type": "t"}), ("Strange", {"x": 1})):
        fire(project, event, **fields)
    assert [(record["event"], record["input"]) for record in records(project)] == [
        ("Notification", {"message": "m", "notification_type": "t"}),
        ("Strange", {"x": 1}),
    ]
    assert {record["session_name"] for record in records(project)} == {records(project)[0]["session_name"]} != {""}


BASE = {"session_id": "abc-1", "transcript_path": "/t/abc-1.jsonl", "permission_mode": "acceptEdits"}
CALL = {"tool_name": "Bash", "tool_input": {"command": "ls"}}
WIRE: list[tuple[str, dict[str, Any]]] = [
    ("PreToolUse", {**CALL, "tool_use_id": "toolu_1"}),
    ("PreToolUse", {**CALL, "tool_use_id": "toolu_1", "agent_id": "a1", "agent_type": "reviewer", "prompt_id": "p",
                    "effort": {"level": "high"}, "mcp_server": {"name": "m"}, "not_known_yet": [1]}),
    ("PreToolUse", {**CALL, "tool_name": "bash", "tool_use_id": "toolu_1"}),
    ("PostToolUse", {**CALL, "tool_response": {"stdout": "a"}, "tool_use_id": "toolu_1", "duration_ms": 12}),
    ("PostToolUse", {**CALL, "tool_response": None, "tool_use_id": "toolu_1"}),
    ("PostToolUseFailure", {**CALL, "tool_use_id": "toolu_1", "error": "exit 1", "is_interrupt": False}),
    ("Notification", {"message": "m", "title": "t", "notification_type": "permission_prompt"}),
    ("UserPromptSubmit", {"prompt": "do it"}),
    ("SessionStart", {"source": "startup", "agent_type": "main", "model": "m-1"}),
    ("SessionEnd", {"reason": "clear"}),
    ("Stop", {"stop_hook_active": False}),
    ("SubagentStart", {"agent_id": "a1", "agent_type": "reviewer"}),
    ("SubagentStop", {"stop_hook_active": True, "agent_id": "a1", "agent_transcript_path": "/t/a1.jsonl",
                      "agent_type": "reviewer"}),
    ("PreCompact", {"trigger": "auto", "custom_instructions": None}),
    ("PermissionRequest", {**CALL, "tool_use_id": "toolu_1", "permission_suggestions": [{"type": "addRules"}]}),
    ("PermissionDenied", {**CALL, "tool_use_id": "toolu_1", "reason": "rule Bash(ls)"}),
    ("Setup", {"trigger": "init"}),
    ("TeammateIdle", {"teammate_name": "bob", "team_name": "blue"}),
    ("TaskCompleted", {"task_id": "1", "task_subject": "s", "task_description": "d", "teammate_name": "bob",
                       "team_name": "blue"}),
    ("PostToolBatch", {"tool_calls": [CALL]}),
    ("Strange", {"x": 1, "agent_id": "a1"}),
    ("Strange", {**CALL, "tool_use_id": "toolu_1", "x": 1}),
]  # fmt: skip


@pytest.mark.parametrize("made", ["received", "constructed"])
@pytest.mark.parametrize(("event", "fields"), WIRE, ids=[f"{number} {event}" for number, (event, _) in enumerate(WIRE)])
def test_every_field_of_an_event(project: Project, event: str, fields: dict[str, Any], made: str) -> None:
    """A record has all fields of the event: the event can be restored from it (seed 001, section 3)."""
    sent = {"hook_event_name": event, **BASE, "cwd": str(project.folder), **fields}
    about = decode(json.dumps(sent).encode())
    if made == "constructed" and event in EVENTS and "not_known_yet" not in fields and not about.extra:
        about = EVENTS[event](**{key: value for key, value in sent.items() if key != "hook_event_name"})
    load_config(project.folder, home=project.root).engine(host="claude").fire_sync(about)
    (record,) = read(project)
    assert record.payload == sent
    assert (record.transcript_path, record.permission_mode) == ("/t/abc-1.jsonl", "acceptEdits")
    assert (record.agent_id, record.agent_type) == (fields.get("agent_id"), fields.get("agent_type"))


def read(project: Project) -> list[Record]:
    return [entry.record for entry in LogReader(log_file(project).parent, project.root).forward()]


def test_fields_are_redacted(project: Project) -> None:
    """In every field."""
    failed = {"tool_use_id": "toolu_1", "error": "e", "is_interrupt": True}
    fire(project, "PostToolUseFailure", **CALL, **failed, transcript_path=f"/t/{SECRET}", why={"token": SECRET})
    (record,) = records(project)
    assert SECRET not in json.dumps(record) and record["redacted"] == 2
    assert record["fields"]["is_interrupt"] is True and record["transcript_path"].startswith("/t/[redacted ")


def test_a_hook_that_poses_as_a_built_in_is_redacted(project: Project) -> None:
    """The data of a hook may contain a secret, whatever its source claims."""
    tells = Hook(name="mine", run=lambda ctx: Answer(data={"token": SECRET}), source=Source(layer="built-in"))
    config = load_config(project.folder, home=project.root)
    config.engine(hooks=[tells]).fire_sync(parse({"hook_event_name": "Stop", "stop_hook_active": False}))
    (record,) = records(project)
    assert SECRET not in json.dumps(record) and record["redacted"] == 1


def test_fields_that_may_quote_the_input_are_left_out_with_it(project: Project) -> None:
    """Without `include_input` only ids are recorded; without `include_output` the error of a failure is not."""
    project.write(USER, "builtins: {event-logger: {options: {include_input: false, include_output: false}}}\n")
    fire(project, "PermissionRequest", **CALL, **BASE, permission_suggestions=["Bash(ls)"])
    fire(project, "PostToolUseFailure", **CALL, **BASE, error="no such file: ls", is_interrupt=False)
    fire(project, "SubagentStart", **BASE, agent_id="a1", agent_type="reviewer")
    for record in read(project):
        assert record.input is record.output is record.fields is None
        assert record.permission_mode == "acceptEdits" and "ls" not in json.dumps(record.payload)
    assert read(project)[-1].payload == {
        "hook_event_name": "SubagentStart", "cwd": str(project.folder), **BASE, "agent_id": "a1",
        "agent_type": "reviewer",
    }  # fmt: skip


def test_an_event_of_a_program_may_contain_anything(project: Project) -> None:
    """A path instead of a string, an object that contains itself: the event is still recorded."""
    loop: dict[str, Any] = {}
    loop["again"] = loop
    path: Any = Path("/t/x")
    odd = PreToolUse(tool_name="Bash", tool_input={}, session_id="s", transcript_path=path, mcp_server=loop)
    verdict = load_config(project.folder, home=project.root).engine().fire_sync(odd)
    assert all(outcome.success for outcome in verdict.outcomes)
    (record,) = read(project)
    assert record.transcript_path == "/t/x" and "can't be written" in record.fields["mcp_server"]


def test_a_large_field_is_in_the_side_file(project: Project) -> None:
    """It is restored when the whole record is read."""
    bash(project, much="x" * 100_000)
    (record,) = read(project)
    assert record.side is not None and record.side.fields == ("fields",) and "much" not in record.payload
    whole = LogReader(log_file(project).parent, project.root).whole(record)
    assert whole.payload["much"] == "x" * 100_000


def test_a_line_of_an_earlier_version(project: Project) -> None:
    """Records without these fields can be read."""
    bash(project)
    line = json.loads(log_file(project).read_bytes())
    old = {key: value for key, value in line.items() if key not in ("fields", *BASE)}
    record = msgspec.json.decode(json.dumps(old), type=Record)
    assert record.payload == {
        "session_id": "", "transcript_path": "", "cwd": str(project.folder), "hook_event_name": "PreToolUse",
        "tool_name": "Bash", "tool_input": {"command": "ls"}, "tool_use_id": "toolu_1",
    }  # fmt: skip
    prompt = msgspec.structs.replace(
        record, event="UserPromptSubmit", tool=None, input={"prompt": "p", "permission_mode": "plan"}
    )
    assert prompt.payload["permission_mode"] == "plan" and prompt.payload["prompt"] == "p"


@pytest.mark.parametrize("rule", ["warn", "deny"])
@pytest.mark.parametrize("obstacle", ["symlink", "fifo", "folder", "file for a folder"])
def test_a_log_that_cannot_be_written(project: Project, obstacle: str, rule: str, tmp_path: Path) -> None:
    """The event is still judged, and the missing record is reported; with `deny` the event is denied."""
    project.write(USER, f"builtins: {{event-logger: {{options: {{on_log_failure: {rule}}}}}}}\n")
    bash(project)
    log = log_file(project)
    if obstacle == "file for a folder":
        shutil.rmtree(log.parent)
        log.parent.write_text("")
    else:
        log.unlink()
        make: dict[str, Callable[[], None]] = {
            "symlink": lambda: log.symlink_to(tmp_path / "x"),
            "fifo": lambda: os.mkfifo(log),
            "folder": log.mkdir,
        }
        make[obstacle]()
    time.sleep(0.3)  # a process that keeps the log open checks its path four times a second
    verdict = bash(project)
    logger = next(one for one in verdict.outcomes if one.hook == "event-logger")
    assert (logger.status, logger.failed_open) == ("failed", rule == "warn")
    assert "it was not recorded" in logger.error and str(log.parent) in logger.error
    assert verdict.decision == ("none" if rule == "warn" else "deny")
    assert not (tmp_path / "x").exists()


def test_a_home_that_cannot_be_made(project: Project) -> None:
    """Without a folder for state, events are judged, and each built-in that needs it reports a failure."""
    project.write(USER, "hooks:\n  no: {events: PreToolUse, deny: never}\n")
    project.root.write_text("a file lies here")
    verdict = bash(project)
    assert verdict.decision == "deny" and verdict.reason == "never"
    assert {one.hook for one in verdict.outcomes if one.status == "failed"} == {"turn-tracker", "event-logger"}
    started = fire(project, "SessionStart", source="startup")
    assert {one.hook for one in started.outcomes if one.status == "failed"} == {
        "turn-tracker", "session-naming", "event-logger"
    }  # fmt: skip


def test_turns_and_names_in_every_record(project: Project) -> None:
    """A session from start to end: every record has its turn."""
    fire(project, "SessionStart", source="startup")
    bash(project)
    fire(project, "SubagentStop", agent_id="a", agent_type="t", agent_transcript_path="", stop_hook_active=False)
    fire(project, "Stop", stop_hook_active=False)
    fire(project, "Notification", message="m", notification_type="t")
    fire(project, "SessionEnd", reason="exit")
    found = records(project)
    assert [record["turn_id"] for record in found] == ["abc-1:1"] * 4 + ["abc-1:2"] * 2
    assert len({record["session_name"] for record in found}) == 1
    data = [{one["hook"]: one.get("data") for one in record["outcomes"]}.get("turn-tracker") for record in found]
    assert data == [
        {"turnId": "abc-1:1", "sequence": 1},
        {"turnId": "abc-1:1", "sequence": 1},
        {"subagentTurnId": "abc-1:1:s:1", "turnId": "abc-1:1", "subagentSeq": 1},
        {"completedTurnId": "abc-1:1", "nextTurnId": "abc-1:2", "sequence": 2},
        None,
        {"turnId": "abc-1:2", "sequence": 2, "totalTurns": 1},
    ]


@pytest.mark.parametrize("parallel", ["true", "false"])
def test_external_hooks_get_name_and_turn(project: Project, parallel: str) -> None:
    """Also if hooks run in parallel: the trackers run first."""
    run = "echo $CLAUDE_SESSION_NAME $CLAUDE_TURN_ID $CLAUDE_TURN_SEQUENCE >> told"
    text = f"parallelExecution: {parallel}\nhooks:\n  h: {{events: [SessionStart, PreToolUse, Stop], run: '{run}'}}\n"
    project.write("hooks.yaml", text)
    project.approve()
    fire(project, "SessionStart", source="startup")
    bash(project)
    fire(project, "Stop", stop_hook_active=False)
    name = records(project)[0]["session_name"]
    assert (project.folder / "told").read_text().splitlines() == [f"{name} abc-1:1 1"] * 3


def test_python_hooks_get_name_and_turn(project: Project) -> None:
    """Also in their worker."""
    project.write(
        "tell.py", "def tell(event, ctx):\n    return {'systemMessage': f'{ctx.session_name} {ctx.turn_id}'}\n"
    )
    project.write("hooks.yaml", "hooks:\n  p: {events: Notification, python: 'tell:tell'}\n")
    project.approve()
    verdict = fire(project, "Notification", message="m", notification_type="t")
    assert verdict.messages[0] == f"{records(project)[0]['session_name']} abc-1:1", verdict.warnings

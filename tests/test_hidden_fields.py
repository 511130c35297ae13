"""No field of a call hides another: every spelling of a path or command is judged, and contradictions are denied."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from billhook import Engine, agents
from billhook.builtins.guard import guard
from billhook.core.errors import ContradictionError
from billhook.core.events import PreToolUse
from billhook.effects.effect import ProtectedPaths
from billhook.effects.rules import Rule

GUARDED = ".billhook/hooks.yaml"
PROTECTED = ProtectedPaths(files=("/p/.billhook/hooks.yaml",), folders=("/p/.billhook",))


def judge(tool: str, given: Any, cwd: str = "/p") -> tuple[str, str]:
    event = PreToolUse(cwd=cwd, tool_name=tool, tool_input=given)
    verdict = Engine([guard(PROTECTED)]).fire_sync(event)
    assert verdict.outcomes[0].status == "ok", verdict.outcomes
    return str(verdict.decision), verdict.reason


PATH_KEYS = [
    "file_path", "filePath", "FilePath", "FILE_PATH", "file-path", "path", "Path", "absolute_path", "absolutePath",
    "notebook_path", "notebookPath", "file", "filename", "fileName", "target_file", "targetFile", "uri", "target_path",
    "relative_path", "file_name", "fileUri",
]  # fmt: skip


@pytest.mark.parametrize("key", PATH_KEYS)
@pytest.mark.parametrize("tool", ["Write", "Edit", "MultiEdit", "NotebookEdit", "Read"])
def test_two_different_paths_are_denied(tool: str, key: str) -> None:
    """It is unknown which of them the agent uses."""
    usual = "path" if key.lower().startswith("file") and key.replace("-", "_").lower() == "file_path" else "file_path"
    for given in ({key: GUARDED, usual: "x"}, {usual: "x", key: GUARDED}, {key: "y", usual: "x"}):
        decision, reason = judge(tool, given)
        assert decision == "deny" and f"`{key}`" in reason and f"`{usual}`" in reason, given


@pytest.mark.parametrize("key", PATH_KEYS)
def test_one_path_is_judged_by_any_name(key: str) -> None:
    """Alone, or twice the same."""
    assert judge("Write", {key: GUARDED})[0] == "ask"
    assert judge("Write", {key: "/p/src/x"})[0] == "none"
    assert judge("Write", {key: "/p/src/x", "file_path": "src/../src/x", "path": "src/x"})[0] == "none"
    assert judge("Write", {key: "file:///p/src/x", "file_path": "/p/src/x"})[0] == "none"
    rule = Rule.parse("Edit(.billhook/**)")
    assert rule.strikes("Write", {key: GUARDED}, "/p") and rule.strikes("Write", {"file_path": "x", key: GUARDED}, "/p")
    assert not Rule.parse("Edit(src/**)").covers("Write", {"file_path": "src/x", key: GUARDED}, "/p")


NESTED = [
    {"file_path": "x", "edits": [{"file_path": GUARDED, "old_string": "a", "new_string": "b"}]},
    {"file_path": "x", "edits": [{"filePath": "y"}, {"filePath": GUARDED}]},
    {"file_path": "x", "files": [GUARDED]},
    {"paths": ["x", GUARDED]},
    {"file_path": "x", "paths": [GUARDED]},
    {"files": [{"path": "x"}, {"path": GUARDED}]},
    {"file_path": "x", "replacements": [{"target": {"filePath": GUARDED}}]},
]


@pytest.mark.parametrize("given", NESTED, ids=json.dumps)
def test_paths_in_lists_are_judged(given: Any) -> None:
    """One call may edit several files."""
    for tool in ("Edit", "MultiEdit", "Write"):
        assert judge(tool, given)[0] == "ask"
        assert Rule.parse("Edit(.billhook/**)").strikes(tool, given, "/p")
        assert not Rule.parse("Edit(x)").covers(tool, given, "/p")


LINE_KEYS = [
    "cmd",
    "script",
    "Command",
    "COMMAND",
    "command_line",
    "commandLine",
    "shell_command",
    "bash_command",
    "commands",
    "code",
    " command",
]


@pytest.mark.parametrize("key", LINE_KEYS)
def test_two_different_commands_are_denied(key: str) -> None:
    """The same for lines; an argument list is part of the line."""
    for given in (
        {"command": "ls", key: "rm -rf x"},
        {key: "ls -l", "command": "ls"},
        {"command": "ls", key: ["rm", "x"]},
    ):
        decision, reason = judge("Bash", given)
        assert decision == "deny" and f"`{key}`" in reason and "`command`" in reason, given
    assert judge("Bash", {"command": "ls", key: "ls"})[0] == "none"
    assert judge("Bash", {"command": ["ls", "-l"], key: "ls -l"})[0] == "none"
    rule = Rule.parse("Bash(rm *)")
    assert rule.strikes("Bash", {"command": "ls", key: "rm -rf x"}) and rule.strikes("Bash", {key: "rm x"})
    assert not rule.strikes("Bash", {key: "ls"})
    assert not Rule.parse("Bash(ls *)").covers("Bash", {"command": "ls", key: "rm x"})


@pytest.mark.parametrize("key", ["args", "argv", "arguments", "parameters"])
def test_arguments_in_a_field_of_their_own(key: str) -> None:
    """They are part of the command, for rules as well."""
    assert judge("Bash", {"command": "rm", key: [GUARDED]})[0] == "ask"
    assert Rule.parse("Bash(rm -rf *)").strikes("Bash", {"command": "rm", key: ["-rf", "x"]})
    assert Rule.parse("Bash(rm -rf *)").strikes("Bash", {"command": "rm", key: "-rf x"})
    assert not Rule.parse("Bash(ls *)").strikes("Bash", {"command": "rm", key: ["-rf", "x"]})
    assert not Rule.parse("Bash(rm)").covers("Bash", {"command": "rm", key: ["-rf", "x"]})


@pytest.mark.parametrize("key", ["cwd", "workdir", "working_directory", "workingDirectory", "dir_path", "directory"])
def test_a_folder_that_the_command_runs_in(key: str, tmp_path: Path) -> None:
    """In Gemini, Codex and Cursor a call can name the folder that it runs in."""
    assert judge("Bash", {"command": "rm hooks.yaml", key: ".billhook"})[0] == "ask"
    assert judge("Bash", {"command": "rm hooks.yaml", key: "/p/.billhook"}, "/elsewhere")[0] == "ask"
    assert judge("Bash", {"command": "rm hooks.txt", key: "/p/src"})[0] == "none"


CONTENTS = [
    ("Write", {"file_path": "x", "content": "a", "file_text": "b"}),
    ("Write", {"file_path": "x", "content": "a", "contents": "b"}),
    ("Edit", {"file_path": "x", "old_string": "a", "new_string": "b", "new_str": "c"}),
    ("Edit", {"file_path": "x", "old_string": "a", "oldString": "d", "new_string": "b"}),
]


@pytest.mark.parametrize(("tool", "given"), CONTENTS, ids=str)
def test_two_different_contents_are_denied(tool: str, given: Any) -> None:
    """A hook that looks for secrets reads one of them, the agent may write the other."""
    assert judge(tool, given)[0] == "deny"


# What agents really send, so far as it was measured or read in their sources.
REAL = [
    ("claude", {"tool_name": "Bash", "tool_input": {"command": "ls", "description": "x", "timeout": 5}}),
    ("claude", {"tool_name": "Grep", "tool_input": {"pattern": "a", "path": "src", "glob": "*.py"}}),
    ("claude", {"tool_name": "NotebookEdit", "tool_input": {"notebook_path": "/p/a.ipynb", "new_source": "x"}}),
    ("claude", {"tool_name": "MultiEdit", "tool_input": {"file_path": "/p/x", "edits": [{"old_string": "a"}]}}),
    ("codex", {"tool_name": "Bash", "tool_input": {"command": "ls"}}),
    ("codex", {"tool_name": "apply_patch", "tool_input": {"command": "*** Begin Patch\n*** Add File: x\n+a\n"}}),
    ("gemini", {"tool_name": "run_shell_command", "tool_input": {"command": "ls", "dir_path": "src"}}),
    ("gemini", {"tool_name": "read_file", "tool_input": {"absolute_path": "/p/x", "offset": 1}}),
    ("gemini", {"tool_name": "replace", "tool_input": {"file_path": "/p/x", "old_string": "a", "new_string": "b"}}),
    ("qwen", {"tool_name": "write_file", "tool_input": {"file_path": "/p/x", "content": "a"}}),
    ("copilot", {"toolName": "bash", "toolArgs": '{"command": "ls", "description": "x"}', "sessionId": "s"}),
    ("copilot", {"toolName": "create", "toolArgs": {"path": "/p/x", "file_text": "a"}, "sessionId": "s"}),
    ("copilot", {"toolName": "create_file", "toolArgs": {"filePath": "/p/x", "content": "a"}, "sessionId": "s"}),
    ("copilot", {"tool_name": "Edit", "tool_input": {"file_path": "/p/x", "old_string": "a", "new_string": "b"}}),
    ("cursor", {"tool_name": "Write", "tool_input": {"file_path": "/p/x", "content": "a"}, "workspace_roots": ["/p"]}),
    ("cursor", {"tool_name": "Shell", "tool_input": {"command": "ls", "cwd": "/p"}, "workspace_roots": ["/p"]}),
]


@pytest.mark.parametrize(("agent", "payload"), REAL, ids=str)
def test_what_agents_send_does_not_contradict_itself(agent: str, payload: dict[str, Any]) -> None:
    """The check is for what no agent sends by itself."""
    event = read(agent, payload)
    assert judge(event.tool_name, event.tool_input)[0] == "none"


def read(agent: str, payload: dict[str, Any]) -> PreToolUse:
    sent = {"hook_event_name": "PreToolUse", "cwd": "/p", **payload}
    event = agents.dialect(agent).read_call(json.dumps(sent).encode(), {})
    assert isinstance(event, PreToolUse)
    return event


HIDING = [
    ("copilot", {"tool_name": "create_file", "tool_input": {"filePath": GUARDED, "file_path": "x"}}),
    ("copilot", {"tool_name": "create_file", "tool_input": {"path": GUARDED, "filePath": "x"}}),
    ("gemini", {"tool_name": "write_file", "tool_input": {"absolute_path": GUARDED, "file_path": "x"}}),
    ("gemini", {"tool_name": "run_shell_command", "tool_input": {"command": "ls", "cmd": "rm x"}}),
    ("cursor", {"tool_name": "Write", "tool_input": {"path": GUARDED, "file_path": "x", "content": ""}}),
    ("qwen", {"tool_name": "edit", "tool_input": {"file_path": "x", "filePath": GUARDED}}),
]


@pytest.mark.parametrize(("agent", "payload"), HIDING, ids=str)
def test_a_field_that_hides_another(agent: str, payload: dict[str, Any]) -> None:
    """In the words of each agent."""
    event = read(agent, payload)
    assert judge(event.tool_name, event.tool_input)[0] == "deny"


CONTRADICTORY = [
    ("copilot", {"tool_name": "bash", "toolName": "view", "tool_input": {}, "sessionId": "s"}),
    ("copilot", {"toolName": "bash", "toolArgs": {"command": "ls"}, "tool_input": {"command": "rm"}, "sessionId": "s"}),
    ("copilot", {"toolName": "bash", "toolArgs": "{}", "toolInput": {"command": "rm"}, "sessionId": "s"}),
    ("gemini", {"tool_name": "write_file", "toolName": "read_file", "tool_input": {"file_path": "x"}}),
    ("cursor", {"tool_name": "Shell", "tool_input": {"command": "ls"}, "toolInput": {"command": "rm"}}),
    ("claude", {"tool_name": "Bash", "tool_input": {"command": "ls"}, "toolInput": {"command": "rm"}}),
    ("claude", {"tool_name": "Read", "toolName": "Write", "tool_input": {"file_path": "x"}}),
    ("claw", {"tool_name": "bash", "tool_input": {"command": "ls"}, "toolInput": {"command": "rm"}}),
    ("codex", {"tool_name": "Bash", "Tool_Name": "Read", "tool_input": {"command": "ls"}}),
    ("claw", {"tool_name": "bash", "tool_input": {"command": "ls"}, "tool_input_json": '{"command": "rm x"}'}),
    ("claw", {"tool_name": "bash", "tool_input": '{"command": "ls"}', "tool_input_json": '{"command": "rm x"}'}),
    ("claw-text", {"tool_name": "bash", "tool_input": "ls", "tool_input_json": '{"command": "rm x"}'}),
    ("claw", {"tool_name": "bash", "tool_input": "ls", "tool_input_json": "rm x"}),
]


@pytest.mark.parametrize(("agent", "payload"), CONTRADICTORY, ids=str)
def test_an_event_that_contradicts_itself_is_malformed(agent: str, payload: dict[str, Any]) -> None:
    """It is refused with the names of both fields, before anything is judged."""
    with pytest.raises(ContradictionError, match=r"differ"):
        read(agent, payload)


AGREEING = [
    (
        "copilot",
        {"toolName": "bash", "tool_name": "bash", "toolArgs": '{"command": "ls"}', "tool_input": {"command": "ls"}},
    ),
    ("claw", {"tool_name": "bash", "tool_input": {"command": "ls"}, "tool_input_json": '{"command":"ls"}'}),
    ("claw", {"tool_name": "bash", "tool_input": {"raw": "ls"}, "tool_input_json": "ls"}),
    ("claw-text", {"tool_name": "bash", "tool_input": "ls", "tool_input_json": '{"command": "ls", "timeout": 5}'}),
    ("claw-text", {"tool_name": "read_file", "tool_input": '{"path":"x"}', "tool_input_json": '{"path": "x"}'}),
    ("lesson", {"tool_name": "bash", "tool_input": '{"command": "ls"}'}),
]


@pytest.mark.parametrize(("agent", "payload"), AGREEING, ids=str)
def test_the_same_value_twice(agent: str, payload: dict[str, Any]) -> None:
    """Two spellings with the same value do not contradict each other."""
    read(agent, payload)


@pytest.mark.parametrize(("agent", "payload"), [CONTRADICTORY[0], CONTRADICTORY[6]], ids=str)
def test_it_is_denied_where_no_gate_is_configured(agent: str, payload: dict[str, Any], tmp_path: Path) -> None:
    """A malformed event passes where nothing would have judged it; one that contradicts itself does not."""
    sent = {"hook_event_name": "PreToolUse", "cwd": str(tmp_path), **payload}
    env = {"PATH": os.environ["PATH"], "HOME": str(tmp_path)}
    command = [sys.executable, "-m", "billhook", "hook", "--as", agent]
    ran = subprocess.run(
        command, input=json.dumps(sent).encode(), env=env, cwd=tmp_path, capture_output=True, timeout=60, check=False
    )
    assert ran.returncode == 2 or b"deny" in ran.stdout
    assert b"differ" in ran.stdout + ran.stderr

"""What is odd about single agents: lists of commands, values that are all strings, answers that they merge."""

import json
import shlex
import subprocess
from pathlib import Path
from typing import Any

import pytest

from billhook.agents import AGENTS, dialect
from billhook.core.answers import Answer, Decision, deny, inject, rewrite, stop
from billhook.core.errors import BillhookError
from billhook.core.events import Event
from cli.folder import Folder
from hosts.installed import Home


def event(agent: str, payload: dict[str, Any], env: dict[str, str] | None = None) -> Event:
    return dialect(agent).read_call(json.dumps(payload).encode(), env or {})


def answered(agent: str, event: Event, answer: Answer) -> dict[str, Any]:
    ended = dialect(agent).write_exit(event, answer).exit
    assert ended.code == 0
    found: dict[str, Any] = json.loads(ended.stdout_text)
    return found


# -- Cline


def terminal(tool: str, **given: object) -> dict[str, Any]:
    about = {"clineVersion": "", "taskId": "conv_1", "workspaceRoots": ["/p"], "agent_id": "agent_1"}
    call = {"id": "call_1", "name": tool, "input": given}
    return {**about, "parent_agent_id": None, "hookName": "tool_call", "tool_call": call}


def editor(tool: str, **given: str) -> dict[str, Any]:
    before = {"toolName": tool, "parameters": given}
    return {
        "clineVersion": "3.40.0",
        "hookName": "PreToolUse",
        "taskId": "1",
        "workspaceRoots": ["/p"],
        "preToolUse": before,
    }


COMMANDS = [
    (["ls -l"], "ls -l"),
    (["cd /tmp", "rm -rf *"], "(cd /tmp\n)\n(rm -rf *\n)"),
    (["ls # all", {"command": "rm", "args": ["-rf", "my dir"]}], "(ls # all\n)\n(rm -rf 'my dir'\n)"),
]


@pytest.mark.parametrize(("commands", "line"), COMMANDS)
def test_cline_each_command_is_judged_where_it_starts(commands: list[object], line: str) -> None:
    """A `cd` has no effect on the next command, and a comment ends with its line."""
    read: Any = event("cline", terminal("run_commands", commands=commands))
    assert (read.tool_name, read.tool_input, read.cwd) == ("Bash", {"command": line}, "/p")
    assert (read.session_id, read.tool_use_id, read.agent_id) == ("conv_1", "call_1", None)


def test_cline_all_values_of_an_editor_are_strings() -> None:
    listed = editor("read_files", files='[{"path": "/p/.env"}]', note="[draft")
    read: Any = event("cline", listed)
    assert (read.tool_name, read.tool_input) == ("Read", {"file_path": "/p/.env", "note": "[draft"})


def test_cline_a_subagent_is_known() -> None:
    called = {**terminal("run_commands", commands=["ls"]), "parent_agent_id": "agent_0"}
    assert event("cline", called).agent_id == "agent_1"


def test_cline_a_refusal_ends_the_run_and_context_does_not() -> None:
    """Its exit code is ignored; a rewrite only counts in the terminal."""
    read = event("cline", terminal("run_commands", commands=["rm x"]))
    assert answered("cline", read, deny("not here")) == {"cancel": True, "errorMessage": "not here"}
    assert answered("cline", read, stop("over")) == {"cancel": True, "errorMessage": "over"}
    assert answered("cline", read, inject("mind")) == {"contextModification": "mind"}
    assert answered("cline", read, rewrite(input={"command": "ls"})) == {"overrideInput": {"commands": ["ls"]}}
    inside = event("cline", editor("execute_command", command="rm x"))
    assert answered("cline", inside, rewrite(input={"command": "ls"}))["cancel"] is True


def test_check_reports_that_a_refusal_ends_the_run(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    folder.write("~/.config/billhook/hooks.yaml", "hooks:\n  no:\n    events: PreToolUse\n    deny: never\n")
    assert "its deny also ends Cline's run" in folder.screen("check", "--host", "cline")


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Home:
    made = Home(tmp_path)
    monkeypatch.setenv("HOME", str(made.home))
    return made


SCRIPTS = {
    "an answer": ("""cat >/dev/null; echo '{"contextModification": "x"}'""", {"contextModification": "x"}),
    "a crash": ("exit 1", None),
    "a crash after an answer": ("echo '{}'; exit 1", None),
    "killed": ("kill -9 $$", None),
    "no such program": ("exec /nowhere/billhook-hook", None),
}


@pytest.mark.parametrize(("command", "wanted"), SCRIPTS.values(), ids=SCRIPTS)
def test_cline_the_script_refuses_when_billhook_fails(home: Home, command: str, wanted: dict[str, str] | None) -> None:
    settings = json.dumps({"hooks": {"PreToolUse": [{"command": f"sh -c {shlex.quote(command)}"}]}})
    file = home.write(AGENTS["cline"].format.write(settings, ""), "cline")
    ran = subprocess.run(["sh", str(file)], input="{}", capture_output=True, text=True, check=False)
    assert ran.returncode == 0
    found = json.loads(ran.stdout)
    assert found == wanted if wanted else found["cancel"] is True and "billhook" in found["errorMessage"]


def test_cline_runs_the_installed_file(home: Home) -> None:
    """It must be executable, refuses when billhook is missing, and is removed with its folders."""
    home.install("cline")
    file = home.file("cline")
    ran = subprocess.run([file], input="{}", capture_output=True, text=True, check=False, env={"PATH": "/nowhere"})
    assert json.loads(ran.stdout)["cancel"] is True and "not installed" in ran.stdout
    home.uninstall("cline")
    assert not (home.project / ".clinerules").exists()


def test_cline_a_script_of_another_author_stays(home: Home) -> None:
    file = home.write("#!/bin/sh\necho '{}'\n", "cline")
    with pytest.raises(BillhookError, match="billhook did not write this file"):
        home.install("cline")
    assert file.read_text() == "#!/bin/sh\necho '{}'\n"


# -- Crush


def crush(**given: object) -> Event:
    payload = {"event": "PreToolUse", "session_id": "s", "cwd": "/p", "tool_name": "bash", "tool_input": given}
    return event("crush", payload, {"CRUSH": "1"})


def test_crush_merges_a_rewritten_input() -> None:
    """A field that the rewrite leaves out would stay, so that becomes a deny."""
    read = crush(command="rm x", working_dir="/tmp", description="removes it")
    kept = answered("crush", read, rewrite(input={"command": "ls", "working_dir": "/p"}))
    assert kept == {"updated_input": {"command": "ls", "working_dir": "/p"}}
    denied = answered("crush", read, rewrite(input={"command": "ls"}))
    assert denied["decision"] == "deny" and "Crush would keep `working_dir`" in denied["reason"]


def test_crush_answers() -> None:
    read = crush(command="ls")
    assert answered("crush", read, stop("over")) == {"decision": "deny", "halt": True, "reason": "over"}
    assert answered("crush", read, inject("mind")) == {"context": "mind"}
    assert answered("crush", read, Answer(decision=Decision.ASK, reason="sure?"))["decision"] == "deny"


@pytest.mark.parametrize("agent", [name for name, one in AGENTS.items() if one.escapes])
def test_doctor_reports_that_subagents_are_not_checked(tmp_path: Path, agent: str) -> None:
    folder = Folder(tmp_path)
    assert AGENTS[agent].escapes not in " ".join(folder.billhook("doctor", agent).out.split())
    assert folder.billhook("install", agent, "--yes").code == 0
    assert AGENTS[agent].escapes in " ".join(folder.billhook("doctor", agent).out.split())
    assert {"crush", "kiro"} <= {name for name, one in AGENTS.items() if one.escapes}


# -- Hermes


@pytest.mark.parametrize(
    "answer",
    [
        Answer(decision=Decision.ASK, reason="sure?"),
        Answer(reason="sure?", updated_input={"command": "y"}),
        Answer(decision=Decision.ASK, reason="sure?", updated_input={"command": "y"}),
    ],
    ids=["ask", "rewrite", "both"],
)
def test_hermes_denies_what_it_would_not_obey(answer: Answer) -> None:
    """0.19.0 makes the original call after `approve` and `modify`."""
    called = {
        "hook_event_name": "pre_tool_call",
        "session_id": "s",
        "tool_name": "terminal",
        "tool_input": {"command": "x"},
    }
    found = answered("hermes", event("hermes", called), answer)
    assert found["action"] == "block"
    assert ("sure?" if answer.decision is Decision.ASK else '{"command":"y"}') in found["message"]


def test_hermes_refuses_by_json() -> None:
    """It ignores exit codes, and a later version refuses a call if nothing was printed."""
    assert AGENTS["hermes"].refusal("user", "PreToolUse").output("why") == {"action": "block", "message": "why"}
    assert AGENTS["hermes"].neutral("PreToolUse") == {}


# -- Goose


@pytest.mark.parametrize("name", [".agents/plugins/billhook", ".config/goose/settings.json"])
def test_goose_a_project_can_not_switch_the_plugin_off(tmp_path: Path, name: str) -> None:
    """A folder of that name replaces the user's plugin: an agent needs the user's permission to make it."""
    folder = Folder(tmp_path)
    for command in (f"mkdir -p {name}", f"mv other {name}"):
        fired = folder.billhook(
            "fire", "PreToolUse", "--tool", "Bash", "--input", json.dumps({"command": command}), "--json"
        )
        assert json.loads(fired.out)["decision"] in ("ask", "deny"), fired


# -- self-protection

WITH_PLUGIN = [name for name, agent in AGENTS.items() if agent.own_file and agent.project_file]


@pytest.mark.parametrize("agent", WITH_PLUGIN)
def test_an_agent_can_not_change_the_file_that_calls_billhook(tmp_path: Path, agent: str) -> None:
    """Neither that of the project nor that of the user, and not by a command."""
    folder = Folder(tmp_path)
    own = AGENTS[agent]
    calls = [
        ("Write", {"file_path": str(folder.project / own.project_file), "content": ""}),
        ("Bash", {"command": f"rm {own.project_file}"}),
        ("Bash", {"command": f"echo > ~/{own.user_file}"}),
    ]
    for tool, given in calls:
        fired = folder.billhook("fire", "PreToolUse", "--tool", tool, "--input", json.dumps(given), "--json")
        assert json.loads(fired.out)["decision"] in ("ask", "deny"), (given, fired)

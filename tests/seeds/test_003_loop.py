"""Seed 003 through the agent loop: its sequence diagram, and its two scripts as they are printed."""

import json
import os
import re
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from agent_loop.running import DONE, CanaryRun, Project, bash, tool
from billhook.agent.loop import AgentLoop
from billhook.agent.tools import Input
from billhook.session import ToolResult
from cli.place import Place
from seeds.test_seed_003 import CONFIG, JQ, SCRIPTS

DETECTS = """\
#!/bin/sh
# Script checks for dangerous patterns
read -r payload
case $payload in *'"tool_name": "bash"'*'"tool_input": "rm -rf /'*)
    echo "Blocked: destructive command detected"
    exit 2;;
esac
"""
DIAGRAM = json.dumps({"hooks": {"PreToolUse": [{"command": "sh guard.sh"}]}})
DENIED = "Hook denied: Blocked: destructive command detected"


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    """A project with the seed's scripts, a home, and jq where the machine has none."""
    made = Project(tmp_path)
    for script in SCRIPTS.iterdir():
        shutil.copy(script, made.folder)
    (tmp_path / "home" / ".claude").mkdir(parents=True)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    if shutil.which("jq") is None:
        jq = tmp_path / "bin" / "jq"
        jq.parent.mkdir()
        jq.write_text(JQ.format(python=sys.executable))
        jq.chmod(0o755)
        monkeypatch.setenv("PATH", f"{os.environ['PATH']}{os.pathsep}{jq.parent}")
    return made


def run_noting(project: Project, *turns: dict[str, Any], builtins: bool = True) -> tuple[CanaryRun, list[str]]:
    """Run with a Bash tool that only notes what it would run: these commands are not for this machine."""
    executed: list[str] = []

    async def note(given: Input) -> str:
        executed.append(given["command"])
        return "executed"

    async def drive(agent: AgentLoop) -> Any:
        agent.tools["Bash"] = replace(agent.tools["Bash"], run=note)
        return await agent.run("clean up")

    return project.drive([*turns, DONE], drive, config=project.config(builtins=builtins)), executed


@pytest.mark.parametrize("file", [".claude.json", ".claude/settings.json"])
@pytest.mark.parametrize("name", ["bash", "Bash"], ids=["the seed's name", "the canonical name"])
@pytest.mark.parametrize("builtins", [True, False], ids=["with the built-ins", "alone"])
def test_sequence_diagram(file: str, name: str, builtins: bool, project: Project) -> None:
    """`rm -rf /`: tool execution SKIPPED, and the model gets the error of the diagram, with the error flag."""
    project.write(file, DIAGRAM)
    project.write("guard.sh", DETECTS)
    project.approve()
    ran, executed = run_noting(project, tool(name, command="rm -rf /"), bash("echo another way"), builtins=builtins)
    assert executed == ["echo another way"]
    assert ran.results == [ToolResult("toolu_0001", DENIED, True), ToolResult("toolu_0002", "executed")]
    assert ran.requests[1].messages[-1].content == (ran.results[0],), "what the model received"
    assert [event["hook_event_name"] for event in ran.events if "tool_name" in event] == [
        "PreToolUse",
        "PreToolUse",
        "PostToolUse",
    ]


def test_sequence_diagram_at_once(project: Project) -> None:
    """The seed's words also where hooks run at once."""
    project.write(".claude.json", json.dumps({**json.loads(DIAGRAM), "parallelExecution": True}))
    project.write("guard.sh", DETECTS)
    project.approve()
    assert project.config().parallel
    ran, executed = run_noting(project, bash("rm -rf /"))
    assert (executed, ran.results) == ([], [ToolResult("toolu_0001", DENIED, True)])


def test_sequence_diagram_without_consent(project: Project) -> None:
    """A hook that nobody approved does not run; what came with a project decides nothing. What would take billhook
    along is denied by billhook itself, in its own words."""
    project.write(".claude.json", DIAGRAM)
    project.write("guard.sh", DETECTS)
    ran, executed = run_noting(project, bash("rm -rf build"), bash("rm -rf /"))
    assert executed == ["rm -rf build"]
    assert [result.is_error for result in ran.results] == [False, True]
    assert "where billhook keeps approvals" in ran.results[1].content


@pytest.mark.parametrize("command", ["rm -rf /", "rm -rf /nowhere/data"])
def test_sequence_diagram_in_the_terminal(command: str, tmp_path: Path) -> None:
    """The same with `billhook agent -p`: who denied, why, and what the model got, as lines and as typed events."""
    place = Place(tmp_path)
    place.file(".claude.json", DIAGRAM)
    place.file("guard.sh", DETECTS)
    rm = place.file("bin/rm", f"#!/bin/sh\necho ran > '{tmp_path}/ran'\n")
    rm.chmod(0o755)
    path = f"{rm.parent}{os.pathsep}{os.environ['PATH']}"  # should it ever run, it is not the machine's
    place.file("turns.json", json.dumps([bash(command), {"text": "I found another way"}]))
    assert place.alone("trust", "--yes", "--all").code == 0
    asked = ("agent", "-p", "clean up", "--model", "scripted:turns.json")  # and nobody who could allow it
    plain = place.run(*asked, PATH=path)
    assert (plain.code, plain.out) == (0, "I found another way\n")
    assert "Blocked: destructive command detected" in plain.err and "guard" in plain.err
    assert re.search(r"\d+ ms", plain.err)
    told = [json.loads(line) for line in place.run(*asked, "--json", PATH=path).out.splitlines()]
    (result,) = [one for one in told if one["type"] == "tool_result"]
    assert (result["content"], result["is_error"]) == (DENIED, True)
    assert not (tmp_path / "ran").exists()


def test_safety_guard(project: Project) -> None:
    """The Safety Guard as printed: three dangerous patterns are blocked, another tool and other commands are not."""
    project.write(".claude/settings.json", CONFIG)
    project.approve()
    dangerous = ["rm -rf build", "psql -c 'DROP TABLE users'", "format c:"]
    ran, executed = run_noting(
        project, *map(bash, dangerous), bash("ls"), tool("write_file", path="notes.txt", content="rm -rf build")
    )
    blocked = ToolResult("", "Hook denied: Blocked: Dangerous command pattern detected", True)
    assert [replace(result, tool_use_id="") for result in ran.results[:3]] == [blocked] * 3
    assert [result.is_error for result in ran.results[3:]] == [False, False]
    assert executed == ["ls"] and (project.folder / "notes.txt").read_text() == "rm -rf build"


def test_audit_logger(project: Project, tmp_path: Path) -> None:
    """The Audit Logger as printed: one line for each tool that ran, with a time and what it was told."""
    project.write(".claude/settings.json", CONFIG)
    project.approve()
    ran = project.run([bash("echo one"), bash("rm -rf build"), bash("echo two; exit 3"), DONE])
    assert [result.is_error for result in ran.results] == [False, True, True]
    lines = (tmp_path / "home" / ".claude" / "audit.log").read_text().splitlines()
    assert all(re.match(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ \{", line) for line in lines)
    told = [json.loads(line.split(" ", 1)[1]) for line in lines]
    assert [(one["tool_name"], one["tool_input"], one["tool_result_is_error"]) for one in told] == [
        ("bash", "echo one", False),
        ("bash", "echo two; exit 3", True),
    ]
    assert told[0]["tool_output"] == "one"


@pytest.mark.parametrize(
    ("event", "script", "content", "is_error"),
    [
        pytest.param("PreToolUse", "echo fine", "ran\n\nHook feedback:\nfine", False, id="exit 0: stdout captured"),
        pytest.param("PostToolUse", "echo seen", "ran\n\nHook feedback:\nseen", False, id="exit 0 after the tool"),
        pytest.param("PreToolUse", "echo no; exit 2", "Hook denied: no", True, id="exit 2: denied"),
        pytest.param("PostToolUse", "echo no; exit 2", "ran", False, id="exit 2 after the tool: can not block"),
        pytest.param("PreToolUse", "exit 1", "ran", False, id="exit 1: warning, continue anyway"),
        pytest.param("PreToolUse", "exit 3", "ran", False, id="exit 3+: warning, continue anyway"),
    ],
)
def test_exit_codes(event: str, script: str, content: str, is_error: bool, project: Project) -> None:
    """The flow chart of the exit codes: what the model gets in each case."""
    project.write(".claude.json", json.dumps({"hooks": {event: [{"command": script}]}}))
    project.approve()
    ran = project.run([bash("echo ran"), DONE])
    assert ran.results == [ToolResult("toolu_0001", content, is_error)]

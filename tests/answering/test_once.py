"""The same call through two files is judged once and answered twice alike; two calls are two calls."""

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from answering.agents import Agent, golden, reported
from billhook.serve.hook_server import HookResponse
from billhook.store.state import CallRecord, CallRecords
from daemon.running import Home, home_in

GUARD = "hooks: {guard: {events: [PreToolUse, Stop], run: 'echo asked >> TRACE; echo no >&2; exit 2', gate: true}}"
SLOW = GUARD.replace("echo no", "sleep 0.5; echo no")
OWN = ("--as", "copilot", "preToolUse")
CLAUDES = ("--as", "claude", "--deadline", "20000")
COPILOT = {"COPILOT_PROJECT_DIR": "/p", "COPILOT_CLI": "1"}


@pytest.fixture
def copilot(agent: Agent) -> Agent:
    """Copilot, with a guard that leaves a trace."""
    agent.hooks(GUARD)
    agent.variables = COPILOT
    return agent


def denied(heard: HookResponse) -> bool:
    return reported(heard).get("permissionDecision") == "deny" and reported(heard)["permissionDecisionReason"] == "no"


def test_one_after_the_other(copilot: Agent) -> None:
    """The second one gets the answer of the first in its own words; the guard ran once, and the log has one record."""
    own, claudes = copilot.ask(copilot.copilot(), *OWN), copilot.ask(copilot.copilot_as_claude(), *CLAUDES)
    assert denied(own) and denied(claudes)
    assert "hookSpecificOutput" in reported(claudes) and "hookSpecificOutput" not in reported(own)
    assert (copilot.asked, len(copilot.records())) == (1, 1)


def test_at_the_same_time(copilot: Agent) -> None:
    """The second one waits for the first."""
    copilot.hooks(SLOW)

    async def both() -> list[HookResponse]:
        ways = ((copilot.copilot_as_claude(), CLAUDES), (copilot.copilot(), OWN))
        return await asyncio.gather(*(copilot.hears(payload, *argv) for payload, argv in ways))

    assert all(map(denied, asyncio.run(both())))
    assert (copilot.asked, len(copilot.records())) == (1, 1)


def test_identical_calls_in_sequence(copilot: Agent) -> None:
    """The agent gives no ids: what comes through an entry once more is another call, and is judged."""
    for _ in range(3):
        assert denied(copilot.ask(copilot.copilot(), *OWN))
        assert denied(copilot.ask(copilot.copilot_as_claude(), *CLAUDES))
    assert (copilot.asked, len(copilot.records())) == (3, 3)


def test_one_entry_alone(copilot: Agent) -> None:
    """Who has billhook in one file only has every call judged."""
    for _ in range(3):
        assert denied(copilot.ask(copilot.copilot(), *OWN))
    assert (copilot.asked, len(copilot.records())) == (3, 3)


DIFFERENT: dict[str, dict[str, Any]] = {
    "another command": {"toolArgs": {"command": "pwd"}},
    "another tool": {"toolName": "view", "toolArgs": {"path": "/x"}},
    "another session": {"sessionId": "other"},
    "no session": {"sessionId": ""},
}


@pytest.mark.parametrize("changes", DIFFERENT.values(), ids=DIFFERENT.keys())
def test_another_call_is_judged(copilot: Agent, changes: dict[str, Any]) -> None:
    """Only the same call of the same session is the same."""
    copilot.ask(copilot.copilot_as_claude(), *CLAUDES)
    assert denied(copilot.ask(copilot.copilot(**changes), *OWN))
    assert copilot.asked == 2


def test_ids_tell_calls_apart(agent: Agent) -> None:
    """Where the agent gives ids, the same words under another id are another call, through whichever entry."""
    agent.hooks(GUARD)
    ids = {"conversation_id": "c", "generation_id": "g", "cursor_version": "2.0", "cwd": str(agent.project)}
    call = {**ids, "hook_event_name": "preToolUse", "tool_name": "Shell", "tool_input": {"command": "ls"}}
    for name, entry in (("1", "claude"), ("2", "cursor"), ("1", "cursor"), ("2", "claude")):
        assert reported(agent.ask({**call, "tool_use_id": name}, "--as", entry))["permission"] == "deny"
    assert (agent.asked, len(agent.records())) == (2, 2)


def test_another_agent_makes_another_call(agent: Agent) -> None:
    """Agents that happen to share a session's name and a command share nothing else."""
    agent.hooks(GUARD)
    tool = {"tool_name": "Bash", "tool_input": {"command": "ls"}, "tool_use_id": "t"}
    event = {"session_id": "s", "cwd": str(agent.project), "hook_event_name": "PreToolUse", **tool}
    for name in ("codex", "qwen", "gemini", "cursor", "copilot"):
        agent.ask(event, "--as", name)
    assert (agent.asked, len(agent.records())) == (5, 5)


def test_claude_code_is_left_alone(agent: Agent) -> None:
    """It runs the same command once: nothing is remembered for it, and nothing is taken for the same."""
    agent.hooks(GUARD)
    event = {"hook_event_name": "PreToolUse", "session_id": "s", "tool_use_id": "t", "cwd": str(agent.project)}
    for argv in (("--as", "claude"), CLAUDES):
        agent.ask({**event, "tool_name": "Bash", "tool_input": {"command": "ls"}}, *argv)
    assert agent.asked == 2
    assert not (agent.root / "billhook" / "calls").exists()


def test_claude_code_with_billhook_in_two_files(agent: Agent) -> None:
    """The user's entry and the project's are two commands, which Claude Code both runs: by its id it is one call."""
    agent.hooks(GUARD)
    agent.variables = {"CLAUDECODE": "1"}
    for folder, command in ((agent.home, "exec /opt/billhook-hook"), (agent.project, "exec billhook-hook")):
        entry = {"hooks": [{"type": "command", "command": f"{command} --as claude --deadline 20000"}]}
        (folder / ".claude").mkdir()
        (folder / ".claude" / "settings.json").write_text(json.dumps({"hooks": {"PreToolUse": [entry]}}))
    event = {"hook_event_name": "PreToolUse", "session_id": "s", "cwd": str(agent.project)}
    call = {**event, "tool_name": "Bash", "tool_input": {"command": "ls"}}
    for number in (1, 2, 3):
        both = [agent.ask({**call, "tool_use_id": f"t{number}"}, *CLAUDES) for _ in range(2)]
        assert [reported(one)["hookSpecificOutput"]["permissionDecision"] for one in both] == ["deny", "deny"]
        assert (agent.asked, len(agent.records())) == (number, number)


BOTH = [
    "codex/PreToolUse-Bash",
    "codex/UserPromptSubmit",
    "gemini/BeforeTool-run_shell_command",
    "qwen/PreToolUse-run_shell_command",
    "copilot/preToolUse-bash",
    "cursor/preToolUse-Shell",
]


@pytest.mark.parametrize("name", BOTH)
def test_billhook_in_the_users_file_and_the_projects(agent: Agent, name: str) -> None:
    """Every agent runs both entries: each call is judged once, and the next one of the same words again."""
    agent.hooks(GUARD.replace("Stop", "UserPromptSubmit"))
    sent = golden(name)
    agent.variables = sent["env"]
    words = ("--as", name.partition("/")[0], "--deadline", "20000")
    event = [sent["argument"]] if sent["argument"] else []
    for number in (1, 2):
        payload = {**sent["stdin"], "cwd": str(agent.project), **_numbered(sent["stdin"], number)}
        heard = [agent.ask(payload, *words, "--from", one, *event) for one in ("user", "project")]
        assert heard[0] == heard[1]
        assert (agent.asked, len(agent.records())) == (number, number)


def _numbered(sent: dict[str, Any], number: int) -> dict[str, Any]:
    """The ids of the next call, where the agent gives any."""
    return {key: f"{sent[key]}-{number}" for key in ("tool_use_id", "tool_call_id") if key in sent}


def test_changed_hooks_run(copilot: Agent) -> None:
    """A file is edited between the two calls: its new content counts."""
    assert denied(copilot.ask(copilot.copilot(), *OWN))
    copilot.hooks(GUARD.replace("echo no", "echo never"))
    assert reported(copilot.ask(copilot.copilot_as_claude(), *CLAUDES))["permissionDecisionReason"] == "never"
    assert copilot.asked == 2


def test_another_deadline_is_no_other_entry(copilot: Agent) -> None:
    """The same entry with another deadline brings another call."""
    for deadline in ("20000", "30000"):
        assert denied(copilot.ask(copilot.copilot(), *OWN, "--deadline", deadline))
    assert copilot.asked == 2


def test_other_hooks_make_another_call(copilot: Agent, tmp_path: Path) -> None:
    """An entry with a file of its own has hooks that the first one did not ask."""
    more = tmp_path / "more.yaml"
    more.write_text("hooks: {more: {events: PreToolUse, deny: more}}")
    copilot.hooks("hooks: {}")
    assert not reported(copilot.ask(copilot.copilot(), *OWN))
    heard = copilot.ask(copilot.copilot_as_claude(), *CLAUDES, "--config", str(more))
    assert reported(heard)["permissionDecision"] == "deny"


def test_a_rewritten_input_is_sent_twice(copilot: Agent) -> None:
    """Everything of the answer reaches both, each in its own fields."""
    updated = {"command": "ls -l", "description": "it"}
    output = {"hookSpecificOutput": {"hookEventName": "PreToolUse", "updatedInput": updated}}
    copilot.hooks(f"hooks: {{re: {{events: PreToolUse, run: {json.dumps(f'echo {json.dumps(json.dumps(output))}')}}}}}")
    own, claudes = copilot.ask(copilot.copilot(), *OWN), copilot.ask(copilot.copilot_as_claude(), *CLAUDES)
    assert reported(own)["modifiedArgs"] == updated == reported(claudes)["hookSpecificOutput"]["updatedInput"]
    assert len(copilot.records()) == 1


def test_a_secret_is_not_written_down(copilot: Agent) -> None:
    """An answer that contains a secret is not saved for the other process, which runs the hooks itself."""
    secret = "ghp_" + "a1B2" * 9
    copilot.hooks(GUARD.replace("echo no", f"echo {secret}"))
    first, second = copilot.ask(copilot.copilot(), *OWN), copilot.ask(copilot.copilot_as_claude(), *CLAUDES)
    assert reported(first)["permissionDecisionReason"] == secret == reported(second)["permissionDecisionReason"]
    assert copilot.asked == 2
    assert not any(secret in path.read_text() for path in copilot.root.rglob("*.json"))


@pytest.mark.parametrize("data", [b"", b"[]", b'{"calls": 5}', b'{"calls": [5, {"id": 1}]}'], ids=repr)
def test_a_damaged_record(copilot: Agent, data: bytes) -> None:
    """An invalid record does not prevent the hooks from running."""
    copilot.ask(copilot.copilot(), *OWN)
    (file,) = (copilot.root / "billhook" / "calls").glob("*.json")
    file.write_bytes(data)
    assert denied(copilot.ask(copilot.copilot_as_claude(), *CLAUDES))
    assert copilot.asked == 2


def test_an_invalid_answer(copilot: Agent) -> None:
    """An edited answer in the record is not trusted."""
    copilot.ask(copilot.copilot(), *OWN)
    (file,) = (copilot.root / "billhook" / "calls").glob("*.json")
    record = json.loads(file.read_text())
    record["calls"][0]["said"] = {"answer": {"decision": "whatever"}, "warnings": []}
    file.write_text(json.dumps(record))
    assert denied(copilot.ask(copilot.copilot_as_claude(), *CLAUDES))


def test_nowhere_to_write(copilot: Agent) -> None:
    """Without a writable state every process runs the hooks."""
    copilot.ask(copilot.copilot(), *OWN)
    folder = copilot.root / "billhook" / "calls"
    for file in folder.iterdir():
        file.unlink()
    folder.rmdir()
    folder.write_text("in the way")
    assert denied(copilot.ask(copilot.copilot(), *OWN)) and denied(copilot.ask(copilot.copilot_as_claude(), *CLAUDES))
    assert copilot.asked == 3


def test_one_who_hangs_is_not_waited_for_for_ever(copilot: Agent) -> None:
    """Another process took the call and does not answer: the second runs the hooks within its deadline."""
    child = subprocess.Popen(["sleep", "60"])
    try:
        _taken_by(copilot, child.pid)
        began = time.monotonic()
        assert denied(copilot.ask(copilot.copilot_as_claude(), "--as", "claude", "--deadline", "1500"))
        assert time.monotonic() - began < 1.5
    finally:
        child.kill()
        child.wait()


def test_one_who_died_is_not_waited_for(copilot: Agent) -> None:
    """The second takes its place at once."""
    child = subprocess.Popen(["true"])
    child.wait()
    _taken_by(copilot, child.pid)
    assert denied(copilot.ask(copilot.copilot_as_claude(), *CLAUDES))
    assert copilot.asked == 1


def _taken_by(copilot: Agent, pid: int) -> None:
    """Let it look as if that process judged the call."""
    copilot.ask(copilot.copilot(), *OWN)
    copilot.trace.unlink()
    (file,) = (copilot.root / "billhook" / "calls").glob("*.json")
    record = json.loads(file.read_text())
    del record["calls"][0]["said"], record["calls"][0]["ended"]
    record["calls"][0]["by"] = pid
    file.write_text(json.dumps(record))


def test_what_is_remembered_is_bounded(tmp_path: Path) -> None:
    """A session with many calls keeps the last ones, and a large answer is not kept."""
    calls = CallRecords(tmp_path)
    for number in range(100):
        calls.take(CallRecord("s", str(number), "a", 10.0))
    record = json.loads(next((tmp_path / "billhook" / "calls").glob("*.json")).read_text())
    assert len(record["calls"]) == 32
    call = CallRecord("s", "99", "b", 10.0)
    taken = calls.take(call)
    calls.save_answer(call, taken.id, {"answer": "x" * 300_000})
    assert calls.take(CallRecord("s", "99", "c", 10.0)).mine


def test_after_the_window_it_is_another_call(tmp_path: Path) -> None:
    """What came long ago through another entry was another call."""
    calls, call = CallRecords(tmp_path), CallRecord("s", "k", "a", 0.05)
    calls.save_answer(call, calls.take(call).id, {})
    time.sleep(0.06)
    assert calls.take(replace(call, entry="b")).mine


# -- real processes


def _hook(agent: Agent, payload: dict[str, Any], *argv: str) -> "subprocess.Popen[bytes]":
    child = subprocess.Popen(
        [sys.executable, "-m", "billhook", "hook", *argv],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=agent.env(),
        cwd=agent.project,
    )
    assert child.stdin is not None
    child.stdin.write(json.dumps(payload).encode())
    child.stdin.close()
    child.stdin = None
    return child


def test_two_processes(copilot: Agent) -> None:
    """At about the same time, each in a process of its own."""
    copilot.hooks(SLOW)
    children = [_hook(copilot, copilot.copilot(), *OWN), _hook(copilot, copilot.copilot_as_claude(), *CLAUDES)]
    answers = [json.loads(child.communicate(timeout=60)[0]) for child in children]
    assert [answer["permissionDecision"] for answer in answers] == ["deny", "deny"]
    assert (copilot.asked, len(copilot.records())) == (1, 1)


def test_the_first_process_is_killed(copilot: Agent) -> None:
    """The second sees that, and judges the call itself."""
    copilot.hooks(GUARD.replace("echo no", "test $(wc -l < TRACE) -gt 1 || sleep 30; echo no"))
    first = _hook(copilot, copilot.copilot(), *OWN)
    while not copilot.asked:
        time.sleep(0.01)
    second = _hook(copilot, copilot.copilot_as_claude(), *CLAUDES)
    time.sleep(0.2)
    os.kill(first.pid, signal.SIGKILL)
    first.communicate()
    assert json.loads(second.communicate(timeout=60)[0])["permissionDecision"] == "deny"
    assert (copilot.asked, len(copilot.records())) == (2, 1)


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    with home_in(tmp_path) as one:
        yield one


def test_through_the_daemon(home: Home, tmp_path: Path) -> None:
    """The same with the daemon, at once and one after the other; one who goes away leaves the call to the other."""
    agent = Agent.__new__(Agent)
    agent.home, agent.project, agent.root, agent.trace = home.home, home.project, home.root, tmp_path / "trace"
    agent.hooks(SLOW)
    home.start()
    env = home.env(**COPILOT)
    ways = [(agent.copilot(), OWN), (agent.copilot_as_claude(), CLAUDES)]
    for number in (1, 2):
        calls = [home.call(payload, *argv, env=env) for payload, argv in ways]
        assert [json.loads(call.reply().stdout)["permissionDecision"] for call in calls] == ["deny", "deny"]
        assert (agent.asked, len(home.records())) == (number, number)
    gone = home.call(agent.copilot(), *OWN, env=env)
    while agent.asked < 3:
        time.sleep(0.01)
    other = home.call(agent.copilot_as_claude(), *CLAUDES, env=env)
    gone.line.close()
    assert json.loads(other.reply().stdout)["permissionDecision"] == "deny"

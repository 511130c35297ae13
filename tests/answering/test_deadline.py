"""A hook that is called with a deadline answers before it."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

EVENT = {"hook_event_name": "PreToolUse", "tool_name": "Bash", "tool_input": {"command": "ls"}, "session_id": "s"}


@pytest.mark.parametrize("command", ["sleep 60", "trap '' TERM; sleep 60; sleep 60"], ids=["obeys", "ignores TERM"])
@pytest.mark.parametrize("gate", [True, False], ids=["a gate denies", "another passes visibly"])
def test_hooks_that_take_too_long(tmp_path: Path, gate: bool, command: str) -> None:
    """They are ended, and follow their failure rule, before the agent's timeout."""
    hooks = {"slow": {"events": "PreToolUse", "run": command, "gate": gate}}
    (tmp_path / "rules.yaml").write_text(json.dumps({"hooks": hooks}))
    argv = [sys.executable, "-m", "billhook", "hook", "--config", "rules.yaml", "--deadline", "1500"]
    env = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "BILLHOOK_HOME": str(tmp_path / "state")}
    event = json.dumps({**EVENT, "cwd": str(tmp_path)})
    ran = subprocess.run(
        argv, input=event, env=env, cwd=tmp_path, capture_output=True, text=True, timeout=30, check=False
    )
    assert ran.returncode == 0
    assert ('"permissionDecision":"deny"' in ran.stdout) == gate
    assert "hook `slow` timed out" in ran.stderr


@pytest.mark.parametrize("reported", ["an hour later", "sooner", "long ago", "nonsense"])
def test_a_client_that_began_earlier(tmp_path: Path, reported: str) -> None:
    """A client passes its deadline, because its clock started before ours; it can only shorten the time, and hooks do
    not see it."""
    now = time.monotonic()
    until = {"an hour later": now + 3600, "sooner": now + 1.5, "long ago": now - 100}.get(reported)
    client = "nonsense" if until is None else f"{os.getpid()} {int(until * 1000)}"
    hooks = {"slow": {"events": "PreToolUse", "run": "echo $BILLHOOK_CLIENT >client; sleep 60"}}
    (tmp_path / "rules.yaml").write_text(json.dumps({"hooks": hooks}))
    deadline = "20000" if reported in ("sooner", "long ago") else "1500"
    argv = [sys.executable, "-m", "billhook", "hook", "--config", "rules.yaml", "--deadline", deadline]
    env = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "BILLHOOK_HOME": str(tmp_path / "state")}
    ran = subprocess.run(
        argv, input=json.dumps({**EVENT, "cwd": str(tmp_path)}), env={**env, "BILLHOOK_CLIENT": client}, cwd=tmp_path,
        capture_output=True, text=True, timeout=30, check=False,
    )  # fmt: skip
    assert ran.returncode == 0 and "hook `slow` timed out" in ran.stderr
    assert time.monotonic() - now < 10
    assert reported == "long ago" or (tmp_path / "client").read_text() == "\n"

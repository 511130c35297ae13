"""A hook that is called with a deadline answers before it."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

EVENT = {"hook_event_name": "PreToolUse", "tool_name": "Bash", "tool_input": {"command": "ls"}, "session_id": "s"}


@pytest.mark.parametrize("gate", [True, False], ids=["a gate denies", "another passes visibly"])
def test_hooks_that_take_too_long(tmp_path: Path, gate: bool) -> None:
    """They are ended, and follow their failure rule, before the agent loses its patience."""
    hooks = {"slow": {"events": "PreToolUse", "run": "sleep 60", "gate": gate}}
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

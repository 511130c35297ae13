"""A fault of ours is refused where that has an effect in the agent, and passes visibly elsewhere."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from billhook.config import Config
from billhook.core.answers import Verdict
from billhook.core.client_env import Caller, Serving
from billhook.core.events import Event
from billhook.serve.hook_server import Answering

ROWS = {
    "claude, before a tool": ("claude", {"hook_event_name": "PreToolUse", "tool_name": "Bash", "tool_input": {}}, True),
    "claude, at the end": ("claude", {"hook_event_name": "Stop"}, False),
    "cursor, before a subagent": ("cursor", {"hook_event_name": "subagentStart", "conversation_id": "c"}, True),
    "cursor, at the end": ("cursor", {"hook_event_name": "stop", "conversation_id": "c"}, False),
    "codex, before it compacts": ("codex", {"hook_event_name": "PreCompact", "session_id": "s"}, False),
    "gemini, before it compacts": ("gemini", {"hook_event_name": "PreCompress", "session_id": "s"}, False),
    "gemini, before a tool": (
        "gemini",
        {"hook_event_name": "BeforeTool", "session_id": "s", "tool_name": "read_file", "tool_input": {}},
        True,
    ),
}


async def _fault(config: Config, event: Event) -> Verdict:
    raise RuntimeError("a fault")


@pytest.mark.parametrize(("agent", "payload", "refused"), ROWS.values(), ids=ROWS)
def test_a_fault_of_ours(agent: str, payload: dict[str, Any], refused: bool, tmp_path: Path) -> None:
    """Whatever a hook would have said, nobody has heard it."""
    (tmp_path / ".git").mkdir()
    env = {"HOME": str(tmp_path), "BILLHOOK_HOME": str(tmp_path / "state")}
    stdin = json.dumps({"cwd": str(tmp_path), **payload}).encode()
    with Serving(Caller(env, str(tmp_path))):
        heard = asyncio.run(Answering(lambda: stdin, _fault).answer(["--as", agent, "--on-failure", "deny"]))
    assert "a fault" in " ".join(heard.lines) or b"a fault" in heard.stdout + heard.stderr
    assert (heard.code == 2 or b"a fault" in heard.stdout) is refused

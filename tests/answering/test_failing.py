"""A fault of ours is refused where that has an effect in the agent, and passes visibly elsewhere."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from answering.agents import Agent
from billhook.config import Config
from billhook.core.answers import Verdict
from billhook.core.client_env import Caller, Serving
from billhook.core.events import Event
from billhook.serve.engine_pool import EnginePool
from billhook.serve.hook_server import HookServer
from billhook.serve.http.answer import HttpRequest, OverHttp

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
    """A hook's answer is not delivered."""
    (tmp_path / ".git").mkdir()
    env = {"HOME": str(tmp_path), "BILLHOOK_HOME": str(tmp_path / "state")}
    stdin = json.dumps({"cwd": str(tmp_path), **payload}).encode()
    with Serving(Caller(env, str(tmp_path))):
        heard = asyncio.run(HookServer(lambda: stdin, _fault).answer(["--as", agent, "--on-failure", "deny"]))
    assert "a fault" in " ".join(heard.lines) or b"a fault" in heard.stdout + heard.stderr
    assert (heard.code == 2 or b"a fault" in heard.stdout) is refused


UNREADABLE = {
    "cut off": b'{"hook_event_name": "PreToolUse", "tool_name": "Bash", "tool_inp',
    "wrong type": b'{"hook_event_name": "PreToolUse", "tool_name": "Bash", "tool_input": {}, "permission_mode": 5}',
    "no input": b'{"hook_event_name": "PreToolUse", "tool_name": "Bash"}',
}


@pytest.mark.parametrize("guard", ["standard", "off"])
@pytest.mark.parametrize("way", ["command", "http"])
@pytest.mark.parametrize("kind", UNREADABLE)
def test_a_call_that_can_not_be_read(kind: str, way: str, guard: str, agent: Agent) -> None:
    """The guard could not check it, so it is denied with the reason; without a gate it continues."""
    agent.hooks(f"guard: {guard}\n")
    with Serving(Caller(agent.env(), str(agent.project))):
        over_http = OverHttp(
            EnginePool(),
            HttpRequest(UNREADABLE[kind], "", str(agent.project)),
            (),
            dialect="claude",
            host="http:claude",
        )
        answering = over_http if way == "http" else HookServer(lambda: UNREADABLE[kind], _fault)
        heard = asyncio.run(answering.answer([]))
    denied = b'"permissionDecision":"deny"' in heard.stdout and b"can't be read" in heard.stdout
    assert denied is (guard == "standard"), heard

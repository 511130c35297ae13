"""Hooks that fail at each of the 15 events: the loop ends as in docs/agent-loop.md, and leaves nothing behind."""

import asyncio
import json
import os
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from billhook.agent.conversation import Message, Transcript
from billhook.agent.factory import open_agent
from billhook.agent.script import ScriptedModel
from billhook.agent.ui_events import TurnEnded, VerdictShown
from billhook.config import load_config
from billhook.core.events import EVENTS, Block
from billhook.session import ToolResult
from cli.terminal import gone

SEED_001 = [
    "Setup",
    "SessionStart",
    "UserPromptSubmit",
    "PreToolUse",
    "PermissionRequest",
    "PostToolUse",
    "PostToolUseFailure",
    "SubagentStart",
    "SubagentStop",
    "PreCompact",
    "Stop",
    "TaskCompleted",
    "TeammateIdle",
    "Notification",
    "SessionEnd",
]
TAG = f"86{os.getpid()}.86"
"""What all of the sleeping processes of this test have in their command line."""
FAULTS = {
    "crashes": "exit 3",
    "is killed": "kill -9 $$",
    "hangs": f"sleep {TAG}",
    "hangs and ignores TERM": f"trap '' TERM; while :; do sleep {TAG}; done",
    "prints half of a document": """printf '{"decision": "bl'""",
    "prints a key twice": """echo '{"systemMessage": "a", "systemMessage": "b"}'""",
    "prints three megabytes": "head -c 3000000 /dev/zero | tr '\\\\0' x",
    "leaves a child that holds its output": f"sleep {TAG} & exit 1",
}
SCRIPT = {
    "turns": [
        {"tool": {"name": "Write", "input": {"file_path": "a.txt", "content": "one\n"}}},
        {"tool": {"name": "Read", "input": {"file_path": "missing.txt"}}},
        {"tool": {"name": "Task", "input": {"description": "look", "prompt": "look", "subagent_type": "scout"}}},
        {"tool": {"name": "Bash", "input": {"command": "head -c 12000 /dev/zero | tr '\\0' x"}}},
        {"tool": {"name": "Task", "input": {"description": "test", "prompt": "test it", "name": "tester"}}},
        {"text": "all done"},
    ],
    "agents": {"scout": [{"text": "found it"}], "tester": [{"text": "tested"}]},
}


class CanaryRun:
    """What happened in a run."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.shown: list[Any] = []
        self.ended: TurnEnded | None = None

    def verdicts(self, event: str) -> list[dict[str, Any]]:
        judged = [one.verdict for one in self.shown if isinstance(one, VerdictShown)]
        return [verdict for verdict in judged if verdict["event"] == event]

    @property
    def outcomes(self) -> list[dict[str, Any]]:
        judged = [one.verdict for one in self.shown if isinstance(one, VerdictShown)]
        return [outcome for verdict in judged for outcome in verdict["outcomes"] if outcome["hook"] == "faulty"]

    def transcripts(self) -> list[list[Message]]:
        root = self.folder / "state"
        return [Transcript(path, root).read() for path in sorted(root.rglob("*.jsonl")) if "transcripts" in str(path)]


def run(folder: Path, event: str, fault: str, on_failure: str) -> CanaryRun:
    """A session in which everything happens once, with one hook that breaks."""
    project = folder / "project"
    (project / ".git").mkdir(parents=True)
    hooks = {
        "faulty": {"events": event, "run": FAULTS[fault], "timeout": 0.3, "on_failure": on_failure},
        "answers": {"events": "PermissionRequest", "allow": "yes", "priority": 200},
    }
    (project / "hooks.yaml").write_text(json.dumps({"hooks": hooks}))
    config = load_config(project, layers=["project"], home=folder / "state", trust="all", builtins=False)
    assert config.problems == ()
    ran = CanaryRun(folder)

    async def session() -> TurnEnded:
        opened = open_agent(
            config, ScriptedModel(SCRIPT), cwd=str(project), show=ran.shown.append, setup="init", budget=2_000
        )
        async with opened as agent:
            return await agent.run("do it all")

    ran.ended = asyncio.run(session())
    return ran


def results_are_one_to_one(messages: list[Message]) -> bool:
    uses = Counter(use.id for message in messages for use in message.tool_uses)
    results = Counter(
        block.tool_use_id for message in messages for block in message.content if isinstance(block, ToolResult)
    )
    return uses == results and set(uses.values()) <= {1}


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("event", SEED_001)
def test_a_hook_that_breaks(tmp_path: Path, event: str, fault: str) -> None:
    """The run goes on to its end, every event happens, the failure is on record, nothing stays behind."""
    ran = run(tmp_path, event, fault, "allow")
    assert ran.ended is not None
    assert (ran.ended.how, ran.ended.text) == ("done", "all done")
    assert [name for name in SEED_001 if not ran.verdicts(name)] == []
    assert ran.outcomes and all(one["status"] in ("failed", "timed_out") for one in ran.outcomes)
    assert all(one["failed_open"] for one in ran.outcomes)
    assert sum(verdict["failed_open"] for verdict in ran.verdicts(event)) == len(ran.outcomes)
    assert all(results_are_one_to_one(messages) for messages in ran.transcripts())
    assert (tmp_path / "project" / "a.txt").read_text() == "one\n"
    assert gone(TAG, 10)


@pytest.mark.parametrize("fault", ["crashes", "hangs"])
@pytest.mark.parametrize("event", SEED_001)
def test_a_gate_that_breaks(tmp_path: Path, event: str, fault: str) -> None:
    """What it would have judged does not pass; the loop itself still ends as it is written."""
    ran = run(tmp_path, event, fault, "deny")
    assert ran.ended is not None
    assert ran.ended.how == ("blocked" if event == "UserPromptSubmit" else "done")
    denied = EVENTS[event].block is not Block.KEEP_GOING
    assert all(verdict["decision"] == ("deny" if denied else "none") for verdict in ran.verdicts(event))
    assert not any(verdict["keep_going"] for verdict in ran.verdicts(event))
    assert (tmp_path / "project" / "a.txt").exists() == (
        event not in ("UserPromptSubmit", "PreToolUse", "PermissionRequest")
    )
    assert all(results_are_one_to_one(messages) for messages in ran.transcripts())
    assert len(ran.verdicts("SessionEnd")) == 1
    assert gone(TAG, 10)

"""The Claude Agent SDK with the Claude Code that it brings, against a model that follows a script on this machine."""

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
from claude_agent_sdk import ClaudeAgentOptions, ResultMessage, query

from clients.script import Call, Script, Step
from clients.scripted_model import Request, serving

QUIET = {
    "DISABLE_TELEMETRY": "1",
    "DISABLE_AUTOUPDATER": "1",
    "DISABLE_ERROR_REPORTING": "1",
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    "ANTHROPIC_API_KEY": "sk-ant-example",
}


class CanaryRun(msgspec.Struct):
    """What came of a run of Claude Code."""

    folder: Path
    reported: str
    asked: list[Request]

    @property
    def results(self) -> list[str]:
        """What the model got for its calls, as the last request shows it."""
        messages = self.asked[-1].body["messages"] if self.asked else []
        blocks = [block for one in messages if isinstance(one["content"], list) for block in one["content"]]
        return [_words(block["content"]) for block in blocks if block.get("type") == "tool_result"]

    def model_saw(self, words: str) -> bool:
        return any(words in json.dumps(request.body["messages"], ensure_ascii=False) for request in self.asked)


def _words(content: Any) -> str:
    return content if isinstance(content, str) else "\n".join(block.get("text", "") for block in content)


def claude(
    folder: Path, hooks: Any, commands: Sequence[str | Call], *, prompt: str = "please do it", can_use_tool: Any = None
) -> CanaryRun:
    """Run Claude Code in a folder; its model calls Bash with each command, or what is given as a call, and is done."""
    project = folder / "project"
    project.mkdir()
    steps = [Step(calls=(one if isinstance(one, Call) else _bash(one),)) for one in commands]
    with serving(Script([*steps, Step("all done"), Step("done again")])) as model:
        environ = {"HOME": str(folder), "ANTHROPIC_BASE_URL": model.url, **QUIET}
        options = ClaudeAgentOptions(
            allowed_tools=["Bash(touch *)", "Bash(false *)"] if can_use_tool else ["Bash", "Read"],
            hooks=hooks,
            cwd=project,
            env=environ,
            setting_sources=[],
            stderr=lambda line: None,
            can_use_tool=can_use_tool,
        )
        reported = asyncio.run(asyncio.wait_for(_result(_streamed(prompt), options), 120))
        return CanaryRun(project, reported, [request for request in model.asked if request.main])


def _bash(command: str) -> Call:
    return Call("Bash", {"command": command, "description": "as told"})


async def _streamed(prompt: str) -> AsyncIterator[dict[str, Any]]:
    """As a stream, which is necessary for questions to the user."""
    yield {"type": "user", "message": {"role": "user", "content": prompt}}


async def _result(prompt: AsyncIterator[dict[str, Any]], options: ClaudeAgentOptions) -> str:
    reported = ""
    async for message in query(prompt=prompt, options=options):
        if isinstance(message, ResultMessage):
            reported = message.result or ""
    return reported

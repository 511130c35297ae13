"""Call a tool the way the loop does."""

import asyncio
import time
from pathlib import Path
from typing import Any

import pytest

from billhook.agent.tools import Background, ToolError, Workspace, standard_tools
from cli.terminal import living


class Agent:
    """An agent with a workspace and the standard tools."""

    def __init__(self, root: Path, background: Background | None = None) -> None:
        self.workspace = Workspace(root)
        self.tools = {tool.name: tool for tool in standard_tools(self.workspace, background=background)}

    def call(self, name: str, **given: Any) -> str:
        """What the tool answered."""
        answer = asyncio.run(self.acall(name, **given))
        assert isinstance(answer, str)
        answer.encode()  # it can be sent
        return answer

    async def acall(self, name: str, **given: Any) -> Any:
        return await self.tools[name].run(given)

    def fails(self, name: str, **given: Any) -> str:
        """What the tool complained about."""
        with pytest.raises(ToolError) as caught:
            self.call(name, **given)
        str(caught.value).encode()
        return str(caught.value)


def begun(tag: str, seconds: float = 20) -> bool:
    end = time.monotonic() + seconds
    while not living(tag) and time.monotonic() < end:
        time.sleep(0.02)
    return bool(living(tag))

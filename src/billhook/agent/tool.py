"""What the loop asks of a tool."""

from collections.abc import Awaitable, Callable
from typing import Any

import msgspec

from billhook.agent.model import ToolSpec

Input = dict[str, Any]


class ToolError(Exception):
    """The tool ran and failed; the text is what the model and the hooks are told."""


class Tool(msgspec.Struct, frozen=True):
    """One tool. `run` returns what hooks see as `tool_response`, a text or JSON value, or raises ToolError."""

    spec: ToolSpec
    run: Callable[[Input], Awaitable[Any]]

    @property
    def name(self) -> str:
        return self.spec.name

"""What is said between a person, a model and tools: plain records that every model's wire format is made from."""

from collections.abc import Sequence
from typing import Any, Literal

import msgspec

from billhook.session.calls import ToolResult


class Text(msgspec.Struct, frozen=True, tag_field="type", tag="text"):
    """Something said."""

    text: str


class ToolUse(msgspec.Struct, frozen=True, eq=False, omit_defaults=True, tag_field="type", tag="tool_use"):
    """The model wants a tool to run. `id` is unique in the conversation."""

    id: str
    name: str
    input: dict[str, Any]
    sent: str = ""
    """The text of the input as the model wrote it, for hooks that are given that; empty where it is not known."""

    def __eq__(self, other: object) -> bool:
        """The same call, however its text was spaced."""
        return isinstance(other, ToolUse) and (self.id, self.name, self.input) == (other.id, other.name, other.input)

    __hash__ = None  # type: ignore[assignment]  # its input is a dict


Block = Text | ToolUse | ToolResult


class Message(msgspec.Struct, frozen=True):
    """One turn of the conversation: texts and tool results of the person's side, texts and tool uses of the model."""

    role: Literal["user", "assistant"]
    content: tuple[Block, ...]

    @property
    def text(self) -> str:
        return "\n".join(block.text for block in self.content if isinstance(block, Text))

    @property
    def tool_uses(self) -> list[ToolUse]:
        return [block for block in self.content if isinstance(block, ToolUse)]


class Usage(msgspec.Struct, frozen=True):
    """What a call of the model cost, in tokens."""

    input_tokens: int = 0
    output_tokens: int = 0

    def __add__(self, other: "Usage") -> "Usage":
        return Usage(self.input_tokens + other.input_tokens, self.output_tokens + other.output_tokens)


__all__ = ["Block", "Message", "Text", "ToolResult", "ToolUse", "Usage", "assistant", "user"]


def user(*blocks: Block | str) -> Message:
    """A message of the person's side."""
    return Message("user", _blocks(blocks))


def assistant(*blocks: Block | str) -> Message:
    """A message of the model."""
    return Message("assistant", _blocks(blocks))


def _blocks(blocks: Sequence[Block | str]) -> tuple[Block, ...]:
    return tuple(Text(block) if isinstance(block, str) else block for block in blocks)

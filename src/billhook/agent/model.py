"""What the loop asks of a model: one small protocol. The models themselves are in `models`."""

from collections.abc import Callable, Mapping
from typing import Any, Final, Protocol

import msgspec

from billhook.agent.conversation import Message, Usage
from billhook.errors import BillhookError

UNREADABLE: Final = "unreadable_tool_call"
"""The name of a use whose input can't be read. No tool has it: it is refused like any use of a tool that isn't there,
the model sees what it wrote and what is wrong with it, and nothing runs with an input that the model did not give. Its
input tells the `tool`, the `arguments` as they came, and the `fault`."""


class ToolSpec(msgspec.Struct, frozen=True):
    """A tool as the model is told of it. `schema` is the JSON Schema of its input."""

    name: str
    description: str
    schema: Mapping[str, Any]


class Request(msgspec.Struct, frozen=True):
    """Everything that a model is told in one call. Without `tools` a text is wanted: a summary, for example."""

    system: str
    messages: tuple[Message, ...]
    tools: tuple[ToolSpec, ...] = ()
    agent: str = "main"  # who asks: `main`, a subagent's type or a teammate's name


class Completion(msgspec.Struct, frozen=True):
    """What the model answered."""

    message: Message
    usage: Usage = Usage()
    left_out: str = ""  # which part of the answer may not be used, for the person; nothing: none


class ModelError(BillhookError):
    """The model gave no answer. `kind` is one of the words that StopFailure knows: `rate_limit`, `overloaded`,
    `authentication_failed`, `billing_error`, `invalid_request`, `model_not_found`, `server_error`, `max_output_tokens`,
    `unknown`."""

    def __init__(self, message: str, *, kind: str = "unknown", details: str = "", hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.kind = kind
        self.details = details


Say = Callable[[str], None]  # gets the text of an answer piece by piece, while it comes


class Model(Protocol):
    """Answers. Lives as long as the agent; may be asked by several tasks of one loop at once."""

    @property
    def name(self) -> str: ...

    async def complete(self, request: Request, say: Say) -> Completion:
        """The answer to a request. Raises ModelError, after what retries make sense."""
        ...

    async def close(self) -> None:
        """Let go of connections."""
        ...

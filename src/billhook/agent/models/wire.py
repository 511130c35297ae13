"""What the wire formats of all services have in common: how a conversation goes out, and how an answer comes in."""

import re
from collections.abc import Iterable, Iterator
from itertools import chain, count, groupby
from typing import Any, Literal

import msgspec

from billhook import strictjson
from billhook.agent.conversation import Block, Message, Text, ToolResult, ToolUse, Usage, assistant
from billhook.agent.model import UNREADABLE, Completion, ModelError, Request
from billhook.errors import StrictJSONError

LONGEST_CONNECT = 10.0  # seconds to wait for a service that may not be there at all

_TOOL_NAME = re.compile(r"[A-Za-z0-9_-]{1,128}")


def merged(messages: Iterable[Message]) -> Iterator[Message]:
    """The conversation as services want it: roles take turns, no text is empty, and results of tools come first."""
    said = (Message(one.role, tuple(filter(_says_something, one.content))) for one in messages)
    for role, group in groupby((one for one in said if one.content), lambda one: one.role):
        blocks = [block for message in group for block in message.content]
        yield Message(role, tuple(sorted(blocks, key=lambda block: not isinstance(block, ToolResult))))


def _says_something(block: Block) -> bool:
    return not isinstance(block, Text) or bool(block.text.strip())


def sayable(value: Any) -> Any:
    """A JSON value that can be sent as UTF-8: what a tool printed may have halves of characters in it."""
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode("utf-8")
    if isinstance(value, dict):
        return {sayable(key): sayable(one) for key, one in value.items()}
    return [sayable(one) for one in value] if isinstance(value, list | tuple) else value


class Call(msgspec.Struct):
    """A use of a tool, while it is being written."""

    id: str
    name: str
    arguments: str = ""


End = Literal["", "complete", "cut", "refused"]


class Answer:
    """What has come of one answer so far."""

    def __init__(self, request: Request) -> None:
        self.parts: list[Text | Call] = []
        self.calls: dict[int, Call] = {}  # those among the parts, by the number that the service gave them
        self.usage = Usage()
        self.end: End = ""  # How the service says that it ended. As long as it says nothing, nothing of it may be used.
        self.begun = False  # the service has begun to answer: from now on its SDK does not try again
        self._taken = {use.id for message in request.messages for use in message.tool_uses}

    def add_text(self, piece: str) -> str:
        if self.parts and isinstance(last := self.parts[-1], Text):
            self.parts[-1] = Text(last.text + piece)
        elif piece:
            self.parts.append(Text(piece))
        return piece

    def add_call(self, number: int, call: Call) -> None:
        self.parts.append(call)
        self.calls[number] = call

    def completion(self, service: str) -> Completion:
        """The whole answer. Raises ModelError when there is none, or when what it wanted to do was lost."""
        if not self.end:
            raise ModelError(f"{service} broke off in the middle of an answer", kind="server_error", hint="try again")
        kept = self._kept()
        if self.end == "refused" and not kept:
            raise ModelError(f"{service} declined to answer")
        lost = len(kept) < len(self.parts) and not any(isinstance(part, Call) for part in kept)
        if self.end == "cut" and (lost or not kept):
            message = f"{service} reached its limit of output tokens before it had said what to do"
            raise ModelError(message, kind="max_output_tokens", hint="ask for smaller steps")
        usable = assistant(*(self._tool_use(part) if isinstance(part, Call) else part for part in kept))
        left_out = self._left_out(kept)
        return Completion(usable, self.usage, left_out=left_out and f"{service} {left_out}")

    def _left_out(self, kept: list[Text | Call]) -> str:
        """Which calls are not made, and why."""
        calls = [part.name for part in self.parts if isinstance(part, Call) and not any(part is one for one in kept)]
        if not calls:
            return ""
        why = "declined to go on" if self.end == "refused" else "reached its limit of output tokens"
        return f"{why}: {', '.join(calls)} was not called"

    def _kept(self) -> list[Text | Call]:
        """What may be used. A call that the limit has cut off may not: half of a command can be another command."""
        if self.end == "refused":
            return [part for part in self.parts if isinstance(part, Text)]
        in_a_call = self.end == "cut" and self.parts and isinstance(self.parts[-1], Call)
        return self.parts[:-1] if in_a_call else self.parts

    def _tool_use(self, call: Call) -> ToolUse:
        use_id = self._new_id(call.id)
        try:
            given = strictjson.loads(call.arguments, max_bytes=None) if call.arguments.strip() else {}
            fault = "" if isinstance(given, dict) else "the arguments are not a JSON object"
        except StrictJSONError as error:
            fault = f"the arguments are not JSON: {error.message}"
        if not _TOOL_NAME.fullmatch(call.name):
            fault = "no tool can have this name"  # sent back, it would be refused with all that was said before
        if fault:
            return ToolUse(use_id, UNREADABLE, {"tool": call.name, "arguments": call.arguments, "fault": fault})
        return ToolUse(use_id, call.name, given, call.arguments if call.arguments.strip() else "")

    def _new_id(self, wanted: str) -> str:
        """Some services give none, or the same ones in each answer."""
        ids = chain([wanted] if wanted else [], (f"{wanted or 'call'}_{number}" for number in count(1)))
        new = next(one for one in ids if one not in self._taken)
        self._taken.add(new)
        return new

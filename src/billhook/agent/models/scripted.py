"""A model that says what a file tells it to: for demonstrations and tests, without a key."""

import asyncio
import itertools
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from billhook import strictjson
from billhook.agent.conversation import Block, Message, Text, ToolUse, Usage, assistant
from billhook.agent.model import Completion, ModelError, Request, Say
from billhook.agent.models.turns import Script, Turn, read_script, script_of

ENDED = Turn(text="The script has ended.")
_PIECES = 3


class Scripted:
    """Plays its turns in order, one for each call with tools; an agent with turns of its own gets those. A call without
    tools gets a summary made from the request. After the last turn it says that the script has ended."""

    def __init__(
        self, script: Script | Sequence[Mapping[str, Any]] | Mapping[str, Any], *, name: str = "scripted"
    ) -> None:
        """`script` says what a file would: turns, or a mapping with `turns` and `agents`. Raises UsageError."""
        script = script if isinstance(script, Script) else script_of(script)
        self.requests: list[Request] = []
        self._name = name
        self._turns = iter(script.turns)
        self._agents = {agent: iter(turns) for agent, turns in script.agents.items()}
        self._numbers = itertools.count(1)
        self._ids: set[str] = set()

    @classmethod
    def read(cls, file: str | Path) -> "Scripted":
        """The model that plays a YAML or JSON file. Raises UsageError, with the place of the fault."""
        return cls(read_script(Path(file)), name=f"scripted:{file}")

    @property
    def name(self) -> str:
        return self._name

    async def complete(self, request: Request, say: Say) -> Completion:
        """The next turn, without waiting for anything. Raises ModelError where the script says so."""
        self.requests.append(request)
        turn = self._next(request)
        await asyncio.sleep(0)  # a real model gives others their turn as well
        if turn.error is not None:
            raise ModelError(turn.error.message, kind=turn.error.kind)
        for piece in _pieces(turn.text):
            say(piece)
        message = self._message(turn, request)
        return Completion(message, Usage(_tokens(request), _tokens(message)))

    async def close(self) -> None:
        """Nothing is open."""

    def _next(self, request: Request) -> Turn:
        if not request.tools:
            return Turn(text=_summary(request))
        return next(self._agents.get(request.agent, self._turns), ENDED)

    def _message(self, turn: Turn, request: Request) -> Message:
        self._ids |= {use.id for message in request.messages for use in message.tool_uses}
        blocks: list[Block] = [Text(turn.text)] if turn.text else []
        blocks += [ToolUse(self._new_id(call.id), call.name, call.input) for call in turn.calls]
        return assistant(*blocks)

    def _new_id(self, wanted: str) -> str:
        """An id that no conversation has had: a resumed one brings those of an earlier run."""
        later = (f"{wanted}_{number}" for number in itertools.count(2))
        ids = itertools.chain([wanted], later) if wanted else (f"toolu_{number:04}" for number in self._numbers)
        new = next(one for one in ids if one not in self._ids)
        self._ids.add(new)
        return new


def _pieces(text: str) -> Iterator[str]:
    size = max(1, -(-len(text) // _PIECES))
    for start in range(0, len(text), size):
        yield text[start : start + size]


def _summary(request: Request) -> str:
    """What a summary says, and the same for the same conversation."""
    asked = next((message.text for message in request.messages if message.role == "user" and message.text), "nothing")
    used = dict.fromkeys(use.name for message in request.messages for use in message.tool_uses)
    return (
        f"Summary of {len(request.messages)} messages. The first was: {' '.join(asked.split())[:200]}. "
        f"Tools used: {', '.join(used) or 'none'}."
    )


def _tokens(what: Request | Message) -> int:
    """Roughly: four characters are a token."""
    return len(strictjson.encode(msgspec.to_builtins(what))) // 4

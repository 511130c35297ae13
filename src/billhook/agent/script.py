"""The turns of a scripted model, read from a file or from Python lists.

    - text: I'll look.                                 # text
    - tool: {name: Bash, input: {command: ls}}         # uses a tool
    - {tool: Bash, input: {command: ls}}               # the same
    - text: both at once
      tools:                                           # several uses in one answer; an `id` may be given
        - {name: Read, input: {file_path: a}, id: first}
        - {name: Read, input: {file_path: b}}
    - error: overloaded                                # the call of the model fails
    - error: {kind: rate_limit, message: slow down}

Or a mapping: `turns` has such a list, `agents` has one for each agent with separate turns.
"""

import asyncio
import codecs
import itertools
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from billhook.agent.conversation import Block, Message, Text, ToolUse, Usage, assistant, unused_id
from billhook.agent.models import KINDS, Completion, ModelError, ModelRequest, TextSink
from billhook.core import strictjson
from billhook.core.errors import UsageError
from billhook.core.text import suggestion

_LARGEST = 1 << 24
_WHAT = "a script is a YAML or JSON list of turns, such as `- text: done`"


class ScriptedCall(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One use of a tool. Without an `id` it gets one when it is used."""

    name: str
    input: dict[str, Any] = {}
    id: str = ""


class Error(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The call of the model fails."""

    kind: str = "unknown"
    message: str = ""


class ScriptedTurn(msgspec.Struct, frozen=True):
    text: str = ""
    calls: tuple[ScriptedCall, ...] = ()
    error: Error | None = None


class ModelScript(msgspec.Struct, frozen=True):
    """All answers of the model. Agents that are not in `agents` share `turns`."""

    turns: tuple[ScriptedTurn, ...]
    agents: dict[str, tuple[ScriptedTurn, ...]] = {}


class _WrittenTurn(msgspec.Struct, forbid_unknown_fields=True):
    text: str | None = None
    tool: str | ScriptedCall | None = None
    tools: list[ScriptedCall] = []
    error: str | Error | None = None
    input: dict[str, Any] | None = None
    id: str = ""


class _WrittenScript(msgspec.Struct, forbid_unknown_fields=True):
    turns: list[_WrittenTurn] = []
    agents: dict[str, list[_WrittenTurn]] = {}


def read_script(file: Path) -> ModelScript:
    """The script in a YAML or JSON file. Raises UsageError with the place and a hint."""
    from billhook.config.nodes import read_text

    try:
        text = file.read_bytes()
    except OSError as error:
        raise UsageError(error.strerror or str(error), place=str(file), hint=_WHAT) from None
    if b"\0" in text and not text.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        raise UsageError("this is a binary file, not a script", place=str(file), hint=_WHAT)
    read = read_text(text, str(file), _LARGEST)
    for finding in read.findings:
        raise UsageError(finding.message, place=finding.place, hint=finding.hint)
    script = read.node.plain() if read.node is not None else {}
    if not script:
        raise UsageError("the script is empty", place=str(file), hint=_WHAT)
    try:
        return script_of(script)
    except UsageError as error:
        raise UsageError(error.message, place=str(file), hint=error.hint) from None


def script_of(value: Any) -> ModelScript:
    """The same from Python lists and dicts. Raises UsageError with the JSON path of the error."""
    try:
        if isinstance(value, Mapping):
            script = msgspec.convert(value, _WrittenScript)
            agents = {name: _turns(turns, f"$.agents.{name}") for name, turns in script.agents.items()}
            return ModelScript(_turns(script.turns, "$.turns"), agents)
        return ModelScript(_turns(msgspec.convert(value, list[_WrittenTurn]), "$"))
    except msgspec.ValidationError as error:
        text, _, path = str(error).partition(" - at `")
        message = f"{path.rstrip('`') or '$'}: {text[:1].lower()}{text[1:]}"
        raise UsageError(message, hint=_hint(text)) from None


def _turns(written: Iterable[_WrittenTurn], path: str) -> tuple[ScriptedTurn, ...]:
    return tuple(_turn(turn, f"{path}[{number}]") for number, turn in enumerate(written))


def _turn(written: _WrittenTurn, path: str) -> ScriptedTurn:
    tool, error = written.tool, written.error
    if error is not None:
        if written != _WrittenTurn(error=error):
            raise UsageError(f"{path}: an `error` must be a separate turn", hint="split it into two turns")
        return ScriptedTurn(error=_error(error, path))
    if isinstance(tool, str):
        tool = ScriptedCall(tool, written.input or {}, written.id)
    elif written.input is not None or written.id:
        raise UsageError(f"{path}: `input` or `id` without a tool", hint="put it beside the tool's `name`")
    calls = (*([tool] if tool else []), *written.tools)
    if written.text is None and not calls:
        raise UsageError(f"{path}: the turn is empty", hint="add a `text`, a `tool`, `tools` or an `error`")
    if not all(call.name for call in calls):
        raise UsageError(f"{path}: a tool has no `name`", hint="as in `{name: Bash, input: {command: ls}}`")
    return ScriptedTurn(written.text or "", calls)


def _error(error: str | Error, path: str) -> Error:
    given = Error(error) if isinstance(error, str) else error
    if given.kind not in KINDS:
        raise UsageError(f"{path}.error: unknown kind `{given.kind}`", hint=suggestion(given.kind, KINDS))
    return Error(given.kind, given.message or f"the script returned the error `{given.kind}`")


def _hint(error: str) -> str:
    if unknown := re.search("unknown field `(.*)`", error):
        return suggestion(unknown[1], (*_WrittenTurn.__struct_fields__, "turns", "agents", "name", "kind", "message"))
    return "put it in quotes" if error.startswith("Expected `str") else "as in `- text: done`"


# A model that plays a script:

ENDED = ScriptedTurn(text="The script has ended.")
_PIECES = 3


class ScriptedModel:
    """Plays its turns in order, one for each call with tools; an agent with separate turns gets those. A call without
    tools gets a summary of the request. After the last turn it answers that the script has ended."""

    def __init__(
        self, script: ModelScript | Sequence[Mapping[str, Any]] | Mapping[str, Any], *, name: str = "scripted"
    ) -> None:
        """`script` is like the content of a file: turns, or a mapping with `turns` and `agents`. Raises UsageError."""
        script = script if isinstance(script, ModelScript) else script_of(script)
        self.requests: list[ModelRequest] = []
        self._name = name
        self._turns = iter(script.turns)
        self._agents = {agent: iter(turns) for agent, turns in script.agents.items()}
        self._numbers = itertools.count(1)
        self._ids: set[str] = set()

    @classmethod
    def read(cls, file: str | Path) -> "ScriptedModel":
        """The model that plays a YAML or JSON file. Raises UsageError with the place of the error."""
        return cls(read_script(Path(file)), name=f"scripted:{file}")

    @property
    def name(self) -> str:
        return self._name

    async def complete(self, request: ModelRequest, say: TextSink) -> Completion:
        """The next turn, without waiting. Raises ModelError for an `error` in the script."""
        self.requests.append(request)
        turn = ScriptedTurn(text=_summary(request))
        if request.tools:
            turn = next(self._agents.get(request.agent, self._turns), ENDED)
        await asyncio.sleep(0)  # a real model lets other tasks run as well
        if turn.error is not None:
            raise ModelError(turn.error.message, kind=turn.error.kind)
        size = max(1, -(-len(turn.text) // _PIECES))
        for start in range(0, len(turn.text), size):
            say(turn.text[start : start + size])
        message = self._message(turn, request)
        return Completion(message, Usage(_tokens(request), _tokens(message)))

    async def close(self) -> None:
        """Nothing is open."""

    def _message(self, turn: ScriptedTurn, request: ModelRequest) -> Message:
        self._ids |= {use.id for message in request.messages for use in message.tool_uses}
        blocks: list[Block] = [Text(turn.text)] if turn.text else []
        blocks += [ToolUse(self._new_id(call.id), call.name, call.input) for call in turn.calls]
        return assistant(*blocks)

    def _new_id(self, wanted: str) -> str:
        """An unused id: a resumed conversation has ids of an earlier run."""
        numbered = (f"toolu_{number:04}" for number in self._numbers)
        return unused_id(wanted or next(one for one in numbered if one not in self._ids), self._ids)


def _summary(request: ModelRequest) -> str:
    """The text of a summary: always the same for the same conversation."""
    asked = next((message.text for message in request.messages if message.role == "user" and message.text), "nothing")
    used = dict.fromkeys(use.name for message in request.messages for use in message.tool_uses)
    return (
        f"Summary of {len(request.messages)} messages. The first was: {' '.join(asked.split())[:200]}. "
        f"Tools used: {', '.join(used) or 'none'}."
    )


def _tokens(what: ModelRequest | Message) -> int:
    """An estimate: four characters are one token."""
    return len(strictjson.encode(msgspec.to_builtins(what))) // 4

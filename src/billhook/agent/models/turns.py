"""The turns of a scripted model, read from a file or from Python's own lists.

    - text: I'll look.                                 # says something
    - tool: {name: Bash, input: {command: ls}}         # uses a tool
    - {tool: Bash, input: {command: ls}}               # the same
    - text: both at once
      tools:                                           # several uses in one answer; an `id` may be given
        - {name: Read, input: {file_path: a}, id: first}
        - {name: Read, input: {file_path: b}}
    - error: overloaded                                # the call of the model fails
    - error: {kind: rate_limit, message: slow down}

Or a mapping: `turns` has such a list, `agents` one for each agent that has turns of its own.
"""

import codecs
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Never

import msgspec

from billhook.agent.models.failures import KINDS
from billhook.config.findings import nearest
from billhook.config.nodes import Fields, Node
from billhook.errors import UsageError

_LARGEST = 1 << 24
_WHAT = "a script is a YAML or JSON list of turns, such as `- text: done`"


class Call(msgspec.Struct, frozen=True):
    """One use of a tool. Without an `id` it gets one when it is played."""

    name: str
    input: dict[str, Any]
    id: str = ""


class Turn(msgspec.Struct, frozen=True):
    """What the model answers once: texts and calls, or an error (one of `failures.KINDS`) with its message."""

    text: str = ""
    calls: tuple[Call, ...] = ()
    error: str = ""
    message: str = ""


class Script(msgspec.Struct, frozen=True):
    """Everything that the model will answer. Agents that are not in `agents` share `turns`."""

    turns: tuple[Turn, ...]
    agents: dict[str, tuple[Turn, ...]] = {}


def read_script(file: Path) -> Script:
    """The script in a YAML or JSON file. Raises UsageError with the place and what to write there."""
    from billhook.config.reading import read_text

    try:
        text = file.read_bytes()
    except OSError as error:
        raise UsageError(error.strerror or str(error), place=str(file), hint=_WHAT) from None
    if b"\0" in text and not text.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        raise UsageError("this is a binary file, not a script", place=str(file), hint=_WHAT)
    read = read_text(text, str(file), _LARGEST)
    for finding in read.findings:
        raise UsageError(finding.message, place=finding.place, hint=finding.hint)
    assert read.node is not None
    if read.node.value == Fields(()):
        raise UsageError("the script is empty", place=str(file), hint=_WHAT)
    return _Reader(str(file)).script(read.node)


def script_of(value: Any) -> Script:
    """The same from Python's lists and dicts. Raises UsageError."""
    return _Reader("").script(_node(value))


def _node(value: Any) -> Node:
    """A value that stands in no file."""
    if isinstance(value, Mapping):
        return Node(Fields(tuple((Node(str(key), 0, 0), _node(one)) for key, one in value.items())), 0, 0)
    if isinstance(value, Sequence) and not isinstance(value, str):
        return Node(tuple(_node(one) for one in value), 0, 0)
    return Node(value, 0, 0)


class _Reader:
    """One reading of one script."""

    def __init__(self, file: str) -> None:
        self.file = file

    def refuse(self, message: str, node: Node, hint: str) -> Never:
        place = f"{self.file}:{node.line}:{node.column}" if self.file else ""
        raise UsageError(message, place=place, hint=hint)

    def script(self, node: Node) -> Script:
        if not isinstance(node.value, Fields):
            return Script(self.turns(node))
        said = self.fields(node, "a script", ("turns", "agents"))
        agents = said.get("agents")
        own = self.fields(agents, "`agents`") if agents else {}
        turns = said.get("turns")
        return Script(self.turns(turns) if turns else (), {name: self.turns(one) for name, one in own.items()})

    def turns(self, node: Node) -> tuple[Turn, ...]:
        if not isinstance(node.value, tuple):
            self.refuse(f"a list of turns is wanted, and this is {node.kind}", node, "as in `- text: done`")
        return tuple(self.turn(one, number) for number, one in enumerate(node.value, 1))

    def turn(self, node: Node, number: int) -> Turn:
        said = self.fields(node, f"turn {number}", ("text", "tool", "tools", "error", "input", "id"))
        if "error" in said:
            return self.failure(said, number)
        if not said.keys() & {"text", "tool", "tools"}:
            self.refuse(f"turn {number} says nothing", node, "give it a `text`, a `tool`, `tools` or an `error`")
        text = self.text(said["text"], f"the text of turn {number}") if "text" in said else ""
        return Turn(text, tuple(self.calls(said, node, number)))

    def calls(self, said: dict[str, Node], node: Node, number: int) -> Iterable[Call]:
        place = f"the tool of turn {number}"
        if "tool" in said and isinstance(said["tool"].value, str):
            yield self.call({"name": said["tool"], **_only(said, "input", "id")}, node, place)
        elif extra := _only(said, "input", "id"):
            word, where = next(iter(extra.items()))
            self.refuse(
                f"`{word}` of turn {number} belongs to no tool", where, f"put `{word}` beside the tool's `name`"
            )
        elif "tool" in said:
            yield self.call(self.fields(said["tool"], place, ("name", "input", "id")), said["tool"], place)
        if "tools" in said:
            if not isinstance(said["tools"].value, tuple):
                self.refuse(f"`tools` of turn {number} is {said['tools'].kind}", said["tools"], "make it a list")
            for one in said["tools"].value:
                place = f"a tool of turn {number}"
                yield self.call(self.fields(one, place, ("name", "input", "id")), one, place)

    def call(self, said: dict[str, Node], node: Node, place: str) -> Call:
        if "name" not in said or said["name"].value == "":
            self.refuse(f"{place} has no `name`", node, "as in `{name: Bash, input: {command: ls}}`")
        given = said.get("input")
        if given is not None and not isinstance(given.value, Fields):
            self.refuse(f"the input of {place} is {given.kind}", given, "make it a mapping, as in `{command: ls}`")
        own_id = self.text(said["id"], f"the id of {place}") if "id" in said else ""
        return Call(self.text(said["name"], f"the name of {place}"), given.plain() if given else {}, own_id)

    def failure(self, said: dict[str, Node], number: int) -> Turn:
        error = said["error"]
        for word in [word for word in said if word != "error"]:
            self.refuse(f"turn {number} has an `error` and a `{word}`", said[word], "make two turns of it")
        place = f"the error of turn {number}"
        parts = self.fields(error, place, ("kind", "message")) if isinstance(error.value, Fields) else {"kind": error}
        kind = self.text(parts["kind"], place) if "kind" in parts else "unknown"
        if kind not in KINDS:
            self.refuse(f"{place} is of no known kind: `{kind}`", parts["kind"], _meant(kind, KINDS))
        message = self.text(parts["message"], f"the message of {place}") if "message" in parts else ""
        return Turn(error=kind, message=message or f"the script says `{kind}`")

    def fields(self, node: Node, what: str, known: tuple[str, ...] = ()) -> dict[str, Node]:
        if not isinstance(node.value, Fields):
            self.refuse(f"{what} is {node.kind}, not a mapping", node, "as in `- text: done`")
        for key, _ in node.value:
            if known and key.value not in known:
                self.refuse(f"{what} has an unknown key `{key.value}`", key, _meant(str(key.value), known))
        return {str(key.value): one for key, one in node.value}

    def text(self, node: Node, what: str) -> str:
        if not isinstance(node.value, str):
            self.refuse(f"{what} is {node.kind}, not text", node, "put it in quotes")
        return node.value


def _only(said: dict[str, Node], *names: str) -> dict[str, Node]:
    return {name: said[name] for name in names if name in said}


def _meant(word: str, known: Iterable[str]) -> str:
    near = nearest(word, known)
    return f"did you mean `{near}`?" if near else f"one of {', '.join(known)}"

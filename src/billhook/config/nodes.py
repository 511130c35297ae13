"""What stands in a file, with the place of every value: the one form that YAML and JSON are read into."""

import math
import re
from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

import msgspec

from billhook import strictjson
from billhook.later import pattern

GATE_WORDS = pattern(rb"\bgate\b|on_?failure|\bdeny\b|\bask[\"']?\s*:", re.IGNORECASE)  # words that only a guard has

Scalar: TypeAlias = str | int | float | bool | None


class Node(msgspec.Struct, frozen=True):
    """One value and where it begins. `line` and `column` count from 1; a column is one character."""

    value: "Scalar | tuple[Node, ...] | Fields"
    line: int
    column: int

    @property
    def kind(self) -> str:
        """What it is, in a user's words."""
        match self.value:
            case bool():
                return "a boolean"
            case str():
                return "a string"
            case int() | float():
                return "a number"
            case None:
                return "nothing"
            case Fields():
                return "a mapping"
            case _:
                return "a list"

    def is_a(self, wanted: str) -> bool:
        """Whether the value is of a kind: `a string`, `a number`, `true or false`, `a mapping`, `a list of strings`."""
        return _IS_A[wanted](self.value)

    @property
    def gate_words(self) -> int:
        """How many of a guard's words stand in it."""
        return len(GATE_WORDS.findall(strictjson.encode(self.plain())))

    def plain(self) -> Any:
        """The value as Python has it, without places."""
        match self.value:
            case Fields(pairs):
                return {key.value: value.plain() for key, value in pairs}
            case tuple():
                return [item.plain() for item in self.value]
            case scalar:
                return scalar


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


_IS_A: dict[str, Callable[[Any], bool]] = {
    "a string": lambda value: isinstance(value, str),
    "a number": _is_number,
    "a finite number": lambda value: _is_number(value) and math.isfinite(value),
    "true or false": lambda value: isinstance(value, bool),
    "a mapping": lambda value: isinstance(value, Fields),
    "a list of strings": lambda value: isinstance(value, tuple) and all(isinstance(one.value, str) for one in value),
}


class Fields(msgspec.Struct, frozen=True):
    """A mapping: its pairs in the order of the file. Every key is a Node whose value is text; a key may come twice."""

    pairs: tuple[tuple[Node, Node], ...]

    def __iter__(self) -> Iterator[tuple[Node, Node]]:
        return iter(self.pairs)

    def get(self, *names: str) -> Node | None:
        """The value of the last pair with one of these keys."""
        found = None
        for key, value in self.pairs:
            if key.value in names:
                found = value
        return found

"""The content of a file as nodes, each with its place. YAML and JSON are read into the same nodes."""

import codecs
import re
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, TypeAlias

import msgspec

from billhook.core import strictjson
from billhook.core.lazy import lazy_module, pattern
from billhook.core.text import Finding

if TYPE_CHECKING:
    import bisect
    import math
else:
    bisect = lazy_module("bisect")
    math = lazy_module("math")

GATE_WORDS = pattern(rb"\bgate\b|on_?failure|\bdeny\b|\bask[\"']?\s*:", re.IGNORECASE)  # words that only gates contain

Scalar: TypeAlias = str | int | float | bool | None


class Node(msgspec.Struct, frozen=True):
    """One value and its place. `line` and `column` count from 1; a column is one character."""

    value: "Scalar | tuple[Node, ...] | FieldNodes"
    line: int
    column: int
    start: int = 0  # of JSON: where it begins in the text, in characters
    end: int = 0  # of JSON: behind its last character

    @property
    def kind(self) -> str:
        """The type of the value, for messages."""
        match self.value:
            case bool():
                return "a boolean"
            case str():
                return "a string"
            case int() | float():
                return "a number"
            case None:
                return "nothing"
            case FieldNodes():
                return "a mapping"
            case _:
                return "a list"

    @property
    def shown(self) -> str:
        """The value as YAML and JSON spell it, for messages; of a list or a mapping only the type."""
        if isinstance(self.value, bool):
            return f"`{str(self.value).lower()}`"
        return f"`{self.value}`" if isinstance(self.value, str | int | float) else self.kind

    def is_a(self, wanted: str) -> bool:
        """Whether the value is of a kind: `a string`, `a number`, `true or false`, `a mapping`, `a list of strings`."""
        return _IS_A[wanted](self.value)

    @property
    def gate_words(self) -> int:
        """How many words of a gate it contains."""
        return len(GATE_WORDS.findall(strictjson.encode(self.plain())))

    def plain(self) -> Any:
        """The value as plain Python data, without places."""
        match self.value:
            case FieldNodes(pairs):
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
    "a mapping": lambda value: isinstance(value, FieldNodes),
    "a list of strings": lambda value: isinstance(value, tuple) and all(isinstance(one.value, str) for one in value),
}


class FieldNodes(msgspec.Struct, frozen=True):
    """A mapping: its pairs in the order of the file. Every key is a Node with a string; a key may be there twice."""

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


# Configuration text into nodes:


MAX_BYTES = 1 << 20
MAX_DEPTH = 64
MAX_FINDINGS = 100  # of one file: more are not useful, and hostile text could cause a million

_UTF16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
_QUOTED_LENGTH = 40


class Read(msgspec.Struct, frozen=True):
    """The content of a file. If `node` is None, it can't be read, and a finding has the reason."""

    node: Node | None
    findings: tuple[Finding, ...]


def read_text(text: bytes, file: str, largest: int = MAX_BYTES) -> Read:
    """Read one configuration file; never raises. `file` is its name, whose ending picks the reader."""
    if len(text) > largest:
        message = f"the file is too large: more than {largest:,} bytes"
        return unread(Finding("BH103", message, file, 1, 1, "move everything but the hooks to another file"))
    decoded = _decoded(text, file)
    if isinstance(decoded, Finding):
        return unread(decoded)
    name = file.lower()
    known = name.endswith((".json", ".yaml", ".yml"))
    if name.endswith(".json") or (not known and decoded.lstrip().startswith("{")):
        from billhook.config.read_json import read_json

        return read_json(decoded, file)
    from billhook.config.read_yaml import read_yaml

    return read_yaml(decoded, file)


def _decoded(text: bytes, file: str) -> str | Finding:
    body = text.removeprefix(codecs.BOM_UTF8)
    encoding = "utf-16" if text.startswith(_UTF16) else "utf-8"
    try:
        return body.decode(encoding)
    except UnicodeDecodeError as error:
        before = body[: error.start].decode(encoding, "ignore")
        what = f"byte 0x{body[error.start]:02x} is not {encoding.upper()}"
        return Finding("BH102", what, file, *LineStarts(before).place(len(before)), "save the file as UTF-8")


def unread(*findings: Finding) -> Read:
    """A file that can't be read, and why."""
    return Read(None, in_order(findings))


def empty() -> Node:
    """The content of an empty file, or of one with comments only."""
    return Node(FieldNodes(()), 1, 1)


def in_order(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """The findings in the order of the file, with a limit."""
    return tuple(sorted(findings, key=lambda one: (one.line, one.column))[:MAX_FINDINGS])


def stays_without(mapping: bool, depth: int, lost_mapping: bool) -> bool:
    """Whether a mapping (else: a list) at this depth keeps its meaning when one of its values is lost.

    The outer two levels contain entries, whatever the shape of the file: settings, events, named hooks. So do lists
    at the third level. Deeper lists can lose only a mapping, because that is a whole entry.
    """
    if mapping:
        return depth <= 1
    return lost_mapping or depth <= 2


_BLOCKS = ("hooks", "handlers", "tests")  # keys that have another meaning under another name


def twice(pairs: Iterable[tuple[Node, Node]], file: str) -> Iterator[Finding]:
    """A finding for each duplicate key."""
    first: dict[object, Node] = {}
    for key, _ in pairs:
        before = first.setdefault(key.value, key)
        if before is not key:
            message = f"duplicate key {quoted(str(key.value))}; the first one is on line {before.line}"
            hint = "move its entries into the first one" if key.value in _BLOCKS else "remove or rename one of them"
            yield Finding("BH105", message, file, key.line, key.column, hint)


def quoted(text: str) -> str:
    """A piece of a file, shortened for a message of one line."""
    return f"`{one_line(text, _QUOTED_LENGTH)}`"


def one_line(text: str, longest: int) -> str:
    """The beginning of a string, without line breaks and control characters."""
    short = text if len(text) <= longest else text[: longest - 3] + "..."
    return "".join(char if char.isprintable() else repr(char)[1:-1] for char in short)


class LineStarts:
    """The offsets at which the lines of one text begin."""

    def __init__(self, text: str, end: str = "\n") -> None:
        """`end` is a pattern for the end of a line."""
        self.starts = [0, *(found.end() for found in re.finditer(end, text))]

    def place(self, offset: int) -> tuple[int, int]:
        """Line and column, from 1, of a character."""
        line = bisect.bisect_right(self.starts, offset)
        return line, offset - self.starts[line - 1] + 1

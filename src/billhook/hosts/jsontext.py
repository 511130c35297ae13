"""JSON with comments as text with places: where each value begins and ends, so that an edit leaves the rest as it is.

Only for text in which `config.jsonfile` found no fault: that reader says what is wrong and where, this one measures.
"""

import functools
import json
import re
from collections.abc import Iterator
from typing import Final, Literal

import msgspec

from billhook.config.findings import Finding
from billhook.config.reading import MAX_BYTES, read_text
from billhook.errors import BillhookError

Kind = Literal["object", "array", "scalar"]

BOM: Final = "\ufeff"
_TOKEN: Final = re.compile(
    r"""(?P<space>[ \t\r\n\ufeff]+) | (?P<comment>//(?:[^\r\n]|\r(?!\n))*+|/\*.*?\*/)
    | (?P<string>"(?:[^"\\\n]|\\[^\n])*+") | (?P<mark>[\[\]{},:]) | (?P<word>[^\s"\[\]{},:/]++)""",
    re.VERBOSE | re.DOTALL,
)
_CLOSES: Final = {"{": "}", "[": "]"}
_HARMLESS: Final = frozenset({"BH105"})  # a key that is there twice: agents take the last one, and so do we


class FaultyFileError(BillhookError):
    """A file that can't be edited without guessing: nothing in it was changed."""


class Value(msgspec.Struct):
    """One value of the text."""

    kind: Kind
    start: int
    end: int = 0  # behind its last character
    keys: list[tuple[str, int]] = []  # an object's keys and where each begins, in the order of the text
    items: list["Value"] = []  # the values of an object or array
    inner_end: int = 0
    """Of an object or array: behind the last thing in it that is not white space, a comma and comments included."""
    trailing_comma: bool = False
    line_comment: bool = False  # the last thing in it is a comment that goes to the end of its line

    def index(self, key: str) -> int:
        """Which item belongs to a key, the last one as agents read it; -1 when there is none."""
        return max((at for at, (name, _) in enumerate(self.keys) if name == key), default=-1)

    def get(self, key: str) -> "Value | None":
        at = self.index(key) if self.kind == "object" else -1
        return self.items[at] if at >= 0 else None

    def item_start(self, at: int) -> int:
        """Where an item begins, in an object its key."""
        return self.keys[at][1] if self.kind == "object" else self.items[at].start


class Document(msgspec.Struct, frozen=True):
    """A text and what stands in it."""

    text: str
    root: Value | None  # none: there is nothing in it but white space and comments

    def plain(self, value: Value) -> object:
        """A value as Python has it."""
        match value.kind:
            case "object":
                pairs = zip(value.keys, value.items, strict=True)
                return {key: self.plain(item) for (key, _), item in pairs}
            case "array":
                return [self.plain(item) for item in value.items]
            case _:
                return json.loads(self.text[value.start : value.end])

    def place(self, value: Value) -> int:
        """The line that a value begins in."""
        return self.text.count("\n", 0, value.start) + 1


@functools.lru_cache(maxsize=8)
def decoded(data: bytes, file: str) -> str:
    """The text of a file that can be edited, a byte order mark and line ends as they are. Raises FaultyFileError."""
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise FaultyFileError("it is UTF-16", place=file, hint="save the file as UTF-8")
    read = read_text(data, file if file.endswith(".json") else file + ".json", MAX_BYTES)
    faults = [one for one in read.findings if one.code not in _HARMLESS]
    if faults:
        raise FaultyFileError(faults[0].message, place=_place(file, faults[0]), hint=faults[0].hint)
    return data.decode("utf-8")


def _place(file: str, finding: Finding) -> str:
    return f"{file}:{finding.line}:{finding.column}"


@functools.lru_cache(maxsize=8)
def measured(text: str) -> Document:
    """The values of a faultless text; nobody changes what is returned."""
    outside = Value("array", -1)
    stack = [outside]
    for kind, start, end in _tokens(text):
        top = stack[-1]
        match kind:
            case "{" | "[":
                stack.append(Value("object" if kind == "{" else "array", start, inner_end=end))
                _take(top, stack[-1])
            case "}" | "]":
                top.end = end
                stack.pop()
                stack[-1].inner_end, stack[-1].line_comment = end, False
            case "string" if top.kind == "object" and len(top.keys) == len(top.items):
                top.keys.append((_said(text[start:end]), start))
                top.trailing_comma = False
            case "string" | "word":
                _take(top, Value("scalar", start, end))
            case _:
                top.trailing_comma = kind == "," or (kind != ":" and top.trailing_comma)
        if kind not in ("}", "]", "{", "["):
            top.inner_end, top.line_comment = end, text.startswith("//", start) and kind == "comment"
    return Document(text, outside.items[0] if outside.items else None)


def _said(token: str) -> str:
    return str(json.loads(token)) if "\\" in token else token[1:-1]


def _take(into: Value, value: Value) -> None:
    into.items.append(value)
    into.trailing_comma = False


def _tokens(text: str) -> Iterator[tuple[str, int, int]]:
    for found in _TOKEN.finditer(text):
        kind = found.lastgroup or ""
        if kind != "space":
            yield (found[0] if kind == "mark" else kind), found.start(), found.end()

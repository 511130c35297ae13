"""JSON with comments as text with places: where each value begins and ends, so that an edit leaves the rest as it is.

Only for text in which `config.jsonfile` found no fault: that reader says what is wrong and where, this one measures.
"""

import functools
import json
import re
from collections.abc import Iterator, Sequence
from typing import Final, Literal

import msgspec

from billhook.config.nodes import MAX_BYTES, read_text
from billhook.core.errors import BillhookError
from billhook.core.text import Finding

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


# Edits of JSON text that a person would make:


_DEFAULT_UNIT: Final = "  "
_INDENT: Final = re.compile(r"[ \t]*")


class Style(msgspec.Struct, frozen=True):
    """How a text is laid out."""

    newline: str  # what ends a line
    unit: str  # one step of indentation
    lines: bool  # values stand in lines of their own; otherwise the text is all in one line
    spaced: bool  # a blank follows `:` and `,`

    def rendered(self, value: object, indent: str, *, lines: bool) -> str:
        """A value as this style has it; `indent` is that of the line it stands in."""
        if not lines:
            separators = (", ", ": ") if self.spaced else (",", ":")
            return json.dumps(value, ensure_ascii=False, separators=separators)
        text = json.dumps(value, ensure_ascii=False, indent=self.unit)
        return text.replace("\n", self.newline + indent)


def style_of(document: Document) -> Style:
    """The style of a text; of an empty one what most people use."""
    text, root = document.text, document.root
    newline = "\r\n" if "\r\n" in text else "\n"
    if root is None or not root.items:
        return Style(newline, _DEFAULT_UNIT, True, True)
    lines = "\n" in text[root.start : root.end]
    first = root.item_start(0)
    outer, inner = _indent(text, root.start), _indent(text, first)
    unit = inner[len(outer) :] if inner.startswith(outer) and "\n" in text[root.start : first] else ""
    return Style(newline, unit or _DEFAULT_UNIT, lines, ": " in text or lines)


def appended(text: str, path: Sequence[str], value: object, key: str = "") -> str:
    """The text with one more item at the end of the container at `path`; in an object it has a key."""
    document = measured(text)
    container = at_path(document, path)
    assert container is not None, path
    style = style_of(document)
    label = "" if container.kind == "array" else json.dumps(key, ensure_ascii=False) + (": " if style.spaced else ":")
    return _put(text, container, style, label, value)


def _put(text: str, container: Value, style: Style, label: str, value: object) -> str:
    last = container.items[-1] if container.items else None
    lines = (style.lines and _in_lines(text, container)) or container.line_comment
    close = container.end - 1
    around = _indent(text, container.start)
    indent = _indent(text, container.item_start(0)) if last and lines and _first_in_line(text, container) else ""
    indent = indent or around + style.unit
    new = label + style.rendered(value, indent, lines=lines) + ("," if container.trailing_comma else "")
    at = container.inner_end
    tail = text[at:close]
    if lines:
        new = style.newline + indent + new
        tail = tail if "\n" in tail or last is not None else style.newline + around
    elif last is not None or at > container.start + 1:
        new = (" " if style.spaced else "") + new
    comma = "," if last is not None and not container.trailing_comma else ""
    seam = last.end if last is not None else at
    return text[:seam] + comma + text[seam:at] + new + tail + text[close:]


def removed(text: str, path: Sequence[str], at: int) -> str:
    """The text without one item of the container at `path`: the reverse of `appended`."""
    container = at_path(measured(text), path)
    assert container is not None, path
    start, end = container.item_start(at), container.items[at].end
    before = container.items[at - 1].end if at else container.start + 1
    after = container.item_start(at + 1) if at + 1 < len(container.items) else container.end - 1
    comma = _comma(text, end, after)
    if comma >= 0:
        front = _back_over_space(text, start)
        behind = comma + 1
        if front == start:  # nothing in front of it to take away, so what is behind goes
            behind = _over_blanks(text, behind)
        text = text[:front] + text[end:comma] + text[behind:]
    else:
        comma = _comma(text, before, start) if at else -1
        front = _back_over_space(text, start)
        kept = text[:front] if comma < 0 else text[:comma] + text[comma + 1 : front]
        text = kept + text[end:]
    return text


def emptied(text: str, path: Sequence[str], inner: str) -> str:
    """The text with `inner` between the brackets of a container that has no items left; comments in it stay."""
    container = at_path(measured(text), path)
    if container is None or container.items or text[container.start + 1 : container.end - 1].strip():
        return text
    return text[: container.start + 1] + inner + text[container.end - 1 :]


def inside(document: Document, container: Value) -> str:
    """What stands between the brackets of a container."""
    return document.text[container.start + 1 : container.end - 1]


def at_path(document: Document, path: Sequence[str]) -> Value | None:
    """The value below these keys; None when there is none. A number in the path is an array's index."""
    value = document.root
    for step in path:
        if value is None:
            return None
        if value.kind == "array":
            value = value.items[int(step)] if int(step) < len(value.items) else None
        else:
            value = value.get(step)
    return value


def begun(text: str) -> str:
    """A text with an object as its root, also where there was nothing but comments."""
    if measured(text).root is not None:
        return text
    mark = BOM if text.startswith(BOM) else ""
    said = text.removeprefix(BOM)
    newline = "\r\n" if "\r\n" in said else "\n"
    if not said.strip():
        return f"{mark}{{}}{newline}"
    return f"{mark}{said.rstrip()}{newline}{{}}{newline}"


def _in_lines(text: str, container: Value) -> bool:
    """Whether the items of a container stand in lines of their own; an empty one has no say."""
    if not container.items:
        return True
    return "\n" in text[container.start : container.item_start(0)]


def _first_in_line(text: str, container: Value) -> bool:
    start = container.item_start(0)
    return not text[text.rfind("\n", 0, start) + 1 : start].strip()


def _indent(text: str, at: int) -> str:
    """The white space at the beginning of the line that holds a place."""
    begin = text.rfind("\n", 0, at) + 1
    found = _INDENT.match(text, begin + text.startswith(BOM, begin))
    return found[0] if found else ""


def _comma(text: str, start: int, end: int) -> int:
    """Where the comma is between two values, comments aside; -1 when there is none."""
    while start < end:
        if text.startswith("//", start):
            start = text.find("\n", start) % (len(text) + 1)
        elif text.startswith("/*", start):
            start = text.find("*/", start) + 2
        elif text[start] == ",":
            return start
        else:
            start += 1
    return -1


def _back_over_space(text: str, at: int) -> int:
    return len(text[:at].rstrip(" \t\r\n"))


def _over_blanks(text: str, at: int) -> int:
    while text[at : at + 1] in (" ", "\t") and text[at : at + 1]:
        at += 1
    return at

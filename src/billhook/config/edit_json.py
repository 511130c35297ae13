"""Edit JSON with comments, and leave all other text as it is.

The reader of `config.read_json` finds where each value begins and ends. A file with errors is not edited.
"""

import functools
import json
import re
from collections.abc import Sequence
from typing import Final

import msgspec

from billhook.config.nodes import FieldNodes, Node, read_text
from billhook.config.read_json import read_json
from billhook.core.errors import BillhookError

BOM: Final = "\ufeff"
_GAP: Final = re.compile(r"//(?:[^\r\n]|\r(?!\n))*+|/\*.*?\*/|,", re.DOTALL)
"""Everything that may be between two values, besides white space."""
_HARMLESS: Final = frozenset({"BH105"})  # a duplicate key: agents use the last one, and so do we
_DEFAULT_UNIT: Final = "  "
_INDENT: Final = re.compile(r"[ \t]*")


class FaultyFileError(BillhookError):
    """A file that can't be edited without guessing. It was not changed."""


class Document(msgspec.Struct, frozen=True):
    """The text of a file and the values in it."""

    text: str
    root: Node | None  # None: it contains only white space and comments


@functools.lru_cache(maxsize=8)
def decoded(data: bytes, file: str) -> str:
    """The text of an editable file, with its byte order mark and line endings. Raises FaultyFileError."""
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise FaultyFileError("the file is UTF-16", place=file, hint="save the file as UTF-8")
    faultless(data, file if file.endswith(".json") else file + ".json", file)
    return data.decode("utf-8")


def faultless(data: bytes, name: str, file: str) -> Node | None:
    """The values of a file; `name` selects the reader. Raises FaultyFileError for the first error."""
    read = read_text(data, name)
    for fault in read.findings:
        if fault.code not in _HARMLESS:
            raise FaultyFileError(fault.message, place=f"{file}:{fault.line}:{fault.column}", hint=fault.hint)
    return read.node


@functools.lru_cache(maxsize=8)
def measured(text: str) -> Document:
    """The values of text without errors."""
    root = read_json(" " + text[1:] if text.startswith(BOM) else text, "").node
    return Document(text, root if root is not None and root.end else None)


def is_mapping(node: Node) -> bool:
    return isinstance(node.value, FieldNodes)


def items(node: Node | None) -> tuple[Node, ...]:
    """The values of a mapping or list; empty for anything else."""
    if node is not None and isinstance(node.value, FieldNodes):
        return tuple(value for _, value in node.value)
    return node.value if node is not None and isinstance(node.value, tuple) else ()


def keys(node: Node | None) -> list[str]:
    """The keys of a mapping, in the order of the text; duplicates are possible."""
    return [str(key.value) for key, _ in node.value] if node and isinstance(node.value, FieldNodes) else []


def at_path(document: Document, path: Sequence[str]) -> Node | None:
    """The value below these keys; None if there is none. A number in the path is the index of a list."""
    node = document.root
    for step in path:
        match node.value if node is not None else None:
            case FieldNodes() as fields:
                node = fields.get(step)
            case tuple() as values:
                node = values[int(step)] if step.isdigit() and int(step) < len(values) else None
            case _:
                return None
    return node


def inside(document: Document, container: Node) -> str:
    """The text between the brackets of a container."""
    return document.text[container.start + 1 : container.end - 1]


class Style(msgspec.Struct, frozen=True):
    """The layout of a file."""

    newline: str  # the line ending
    unit: str  # one step of indentation
    lines: bool  # each value is on a separate line; otherwise the text is on one line
    spaced: bool  # a space follows `:` and `,`

    def rendered(self, value: object, indent: str, *, lines: bool) -> str:
        """A value in this style; `indent` is the indentation of its line."""
        if not lines:
            separators = (", ", ": ") if self.spaced else (",", ":")
            return json.dumps(value, ensure_ascii=False, separators=separators)
        text = json.dumps(value, ensure_ascii=False, indent=self.unit)
        return text.replace("\n", self.newline + indent)


def style_of(document: Document) -> Style:
    """The style of a document; the usual one if it is empty."""
    text, root = document.text, document.root
    newline = "\r\n" if "\r\n" in text else "\n"
    if root is None or not items(root):
        return Style(newline, _DEFAULT_UNIT, True, True)
    lines = "\n" in text[root.start : root.end]
    first = _starts(root)[0]
    outer, inner = _indent(text, root.start), _indent(text, first)
    unit = inner[len(outer) :] if inner.startswith(outer) and "\n" in text[root.start : first] else ""
    return Style(newline, unit or _DEFAULT_UNIT, lines, ": " in text or lines)


def appended(text: str, path: Sequence[str], value: object, key: str = "") -> str:
    """The text with one more item at the end of the container at `path`; in a mapping it has a key."""
    document = measured(text)
    container = at_path(document, path)
    assert container is not None, path
    style = style_of(document)
    label = json.dumps(key, ensure_ascii=False) + (": " if style.spaced else ":") if is_mapping(container) else ""
    return _put(text, container, style, label, value)


def _put(text: str, container: Node, style: Style, label: str, value: object) -> str:
    starts, close = _starts(container), container.end - 1
    seam = items(container)[-1].end if starts else container.start + 1
    gap = list(_GAP.finditer(text, seam, close))
    at = gap[-1].end() if gap else seam
    trailing_comma = any(one[0] == "," for one in gap)
    in_lines = not starts or "\n" in text[container.start : starts[0]]
    lines = (style.lines and in_lines) or (bool(gap) and gap[-1][0].startswith("//"))
    around = _indent(text, container.start)
    indent = around + style.unit
    if starts and lines and not text[text.rfind("\n", 0, starts[0]) + 1 : starts[0]].strip():
        indent = _indent(text, starts[0]) or indent  # as the first item, which begins its line
    new = label + style.rendered(value, indent, lines=lines) + ("," if trailing_comma else "")
    tail = text[at:close]
    if lines:
        new = style.newline + indent + new
        tail = tail if "\n" in tail or starts else style.newline + around
    elif starts or gap:
        new = (" " if style.spaced else "") + new
    comma = "," if starts and not trailing_comma else ""
    return text[:seam] + comma + text[seam:at] + new + tail + text[close:]


def removed(text: str, path: Sequence[str]) -> str:
    """The text without the item at `path`: the reverse of `appended`."""
    container = at_path(measured(text), path[:-1])
    assert container is not None, path
    names, starts, values = keys(container), _starts(container), items(container)
    at = len(names) - 1 - names[::-1].index(path[-1]) if is_mapping(container) else int(path[-1])
    start, end = starts[at], values[at].end
    after = starts[at + 1] if at + 1 < len(values) else container.end - 1
    front = len(text[:start].rstrip(" \t\r\n"))
    comma = _comma(text, end, after)
    if comma >= 0:
        behind = comma + 1
        if front == start:  # no white space before it, so the white space after it is removed
            behind = len(text) - len(text[behind:].lstrip(" \t"))
        return text[:front] + text[end:comma] + text[behind:]
    comma = _comma(text, values[at - 1].end, start) if at else -1
    kept = text[:front] if comma < 0 else text[:comma] + text[comma + 1 : front]
    return kept + text[end:]


def emptied(text: str, path: Sequence[str], inner: str) -> str:
    """The text with `inner` between the brackets of a container that has no items left; comments in it stay."""
    document = measured(text)
    container = at_path(document, path)
    if container is None or items(container) or inside(document, container).strip():
        return text
    return text[: container.start + 1] + inner + text[container.end - 1 :]


def begun(text: str) -> str:
    """The text, with an empty mapping added if it contains only comments."""
    if measured(text).root is not None:
        return text
    mark = BOM if text.startswith(BOM) else ""
    rest = text.removeprefix(BOM)
    newline = "\r\n" if "\r\n" in rest else "\n"
    comments = f"{rest.rstrip()}{newline}" if rest.strip() else ""
    return f"{mark}{comments}{{}}{newline}"


def _starts(container: Node) -> list[int]:
    """The start of each item; in a mapping, the start of its key."""
    if isinstance(container.value, FieldNodes):
        return [key.start for key, _ in container.value]
    return [item.start for item in items(container)]


def _indent(text: str, at: int) -> str:
    begin = text.rfind("\n", 0, at) + 1
    found = _INDENT.match(text, begin + text.startswith(BOM, begin))
    return found[0] if found else ""


def _comma(text: str, start: int, end: int) -> int:
    """The place of the comma between two values, outside of comments; -1 if there is none."""
    return next((found.start() for found in _GAP.finditer(text, start, end) if found[0] == ","), -1)

"""Edits of JSON text that a person would make: a value more or less, in the style of what stands around it."""

import json
import re
from collections.abc import Sequence
from typing import Final

import msgspec

from billhook.hosts.jsontext import BOM, Document, Value, measured

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

"""Values along a shell line: texts with their origins, parameter expansion, and braces."""

import fnmatch
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Final, NamedTuple

from billhook.effects.effect import UNKNOWN
from billhook.effects.script import Expansion, RawWord

NOTHING: Final[frozenset[str]] = frozenset()
MOST_FIELDS: Final = 64  # of one brace expansion, one array, one loop
LONGEST_VALUE: Final = 65_536

_PARAMETER = re.compile(r"(!?#?)(\w+|[@*#?$!-])(\[[^\]]*\])?(.*)", re.S)
_SLICE = re.compile(r":\s*(-?\d+)(?::\s*(-?\d+))?")
_RANGE = re.compile(r"(-?\d{1,6}|[a-zA-Z])\.\.(-?\d{1,6}|[a-zA-Z])")


class Value(NamedTuple):
    """Text as far as it is known, and where it comes from: "remote", "decoded", "secret", "computed", "file:PATH"."""

    text: str
    origins: frozenset[str] = NOTHING

    @property
    def known(self) -> bool:
        return UNKNOWN not in self.text


UNKNOWN_VALUE: Final = Value(UNKNOWN)
EMPTY: Final = Value("")


def joined(values: Sequence[Value], by: str = "") -> Value:
    """Several values as one."""
    if len(values) == 1:
        return values[0]
    return Value(by.join(value.text for value in values)[:LONGEST_VALUE], NOTHING.union(*(v.origins for v in values)))


# parameter expansion


def parameter(text: str, look_up: Callable[[str, str], Value | None], nested: Callable[[str], Value]) -> Value:
    """The value of `${text}`. `look_up` has the variable's; `nested` reads a word inside the braces."""
    found = _PARAMETER.fullmatch(text)
    if not found:
        return UNKNOWN_VALUE
    sign, name, subscript, rest = found.groups()
    value = look_up(name, subscript or "")
    if sign == "#":
        return Value(str(len(value.text))) if value and value.known else UNKNOWN_VALUE
    if sign == "!":
        value = look_up(value.text, "") if value and value.known else None
    if not rest:
        return UNKNOWN_VALUE if value is None else value
    return _modified(value, rest, nested)


def _modified(value: Value | None, rest: str, nested: Callable[[str], Value]) -> Value:
    operator = rest[:2] if rest[:2] in (":-", ":=", ":+", ":?", "##", "%%", "//", "^^", ",,", "/#", "/%") else rest[:1]
    word = rest[len(operator) :]
    if operator in (":-", ":=", "-", "="):
        # an unset variable has the default; one that is set elsewhere is not known
        return nested(word) if value is None or not value.text else value
    if operator in (":+", "+"):
        return nested(word) if value is not None and value.text else EMPTY
    if operator in (":?", "?") or value is None:
        return value or UNKNOWN_VALUE
    if not value.known:
        return value
    changed = _cut(value.text, operator, nested(word).text, rest)
    return UNKNOWN_VALUE if changed is None else Value(changed, value.origins)


def _cut(text: str, operator: str, word: str, rest: str) -> str | None:
    if operator in ("#", "##", "%", "%%"):
        return _without(text, word, operator)
    if operator[0] == "/":
        old, _, new = word.partition("/")
        plain = not set(old) & set("*?[")
        return text.replace(old, new, -1 if operator == "//" else 1) if plain and old else None
    if operator[0] == "^":
        return text.upper() if operator == "^^" else text[:1].upper() + text[1:]
    if operator[0] == ",":
        return text.lower() if operator == ",," else text[:1].lower() + text[1:]
    found = _SLICE.fullmatch(rest)
    if not found:
        return None
    begin = int(found[1])
    tail = text[begin:] if begin >= 0 or -begin <= len(text) else ""
    return tail[: int(found[2])] if found[2] else tail


def _without(text: str, pattern: str, operator: str) -> str:
    """Text without its shortest or longest beginning or end that a pattern matches."""
    ends = range(len(text) + 1) if operator in ("#", "%%") else range(len(text), -1, -1)
    if len(text) > 4096:
        return UNKNOWN
    for end in ends:
        cut, kept = (text[:end], text[end:]) if operator[0] == "#" else (text[end:], text[:end])
        if fnmatch.fnmatchcase(cut, pattern):
            return kept
    return text


# braces


def braces(raw: RawWord) -> list[RawWord]:
    """`{a,b}c` as its words; expansions inside keep their place."""
    parts: list[Expansion] = []
    text = ""
    for part in raw:
        if isinstance(part, str):
            text += part
        else:
            text += chr(0xE000 + min(len(parts), 0x1800))
            parts.append(part)
    if len(text) > LONGEST_VALUE:
        return [(Expansion("number"),)]  # too long to be expanded: its value is unknown
    words = [text]
    for _ in range(4):  # nested and repeated braces
        words = [word for each in words for word in _one_brace(each)][:MOST_FIELDS]
    return [tuple(_back(word, parts)) for word in words]


def _back(word: str, parts: list[Expansion]) -> Iterator[str | Expansion]:
    for piece in re.split(r"([\ue000-\uf8ff])", word):
        place = ord(piece) - 0xE000 if len(piece) == 1 else -1
        if 0 <= place < len(parts):
            yield parts[place]
        elif piece:
            yield piece


def _one_brace(word: str) -> list[str]:
    """The innermost braces of a word as several words."""
    close = word.find("}")
    while close >= 0:
        begin = word.rfind("{", 0, close)
        inside = word[begin + 1 : close]
        if begin >= 0 and "," in inside:
            return [word[:begin] + each + word[close + 1 :] for each in inside.split(",")]
        if begin >= 0 and (found := _RANGE.fullmatch(inside)):
            return [word[:begin] + each + word[close + 1 :] for each in _range(found[1], found[2])]
        close = word.find("}", close + 1)
    return [word]


def _range(first: str, last: str) -> list[str]:
    numbers = first.lstrip("-").isdigit() and last.lstrip("-").isdigit()
    begin, end = (int(first), int(last)) if numbers else (ord(first[0]), ord(last[0]))
    step = 1 if begin <= end else -1
    found = range(begin, end + step, step)[:MOST_FIELDS]
    return [str(each) if numbers else chr(each) for each in found]

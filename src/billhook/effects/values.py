"""Values along a shell line: variables, parameter expansion, braces, and what well-known programs print."""

import base64
import binascii
import fnmatch
import posixpath
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Final, NamedTuple

from billhook.effects.effect import UNKNOWN
from billhook.effects.script import Expansion, RawWord, ansi_c

NOTHING: Final[frozenset[str]] = frozenset()
MOST_FIELDS: Final = 64  # of one brace expansion, one array, one loop
LONGEST_VALUE: Final = 65_536

_PARAMETER = re.compile(r"(!?#?)(\w+|[@*#?$!-])(\[[^\]]*\])?(.*)", re.S)
_SLICE = re.compile(r":\s*(-?\d+)(?::\s*(-?\d+))?")
_RANGE = re.compile(r"(-?\d{1,6}|[a-zA-Z])\.\.(-?\d{1,6}|[a-zA-Z])")
_ESCAPES = re.compile(r"%(?:%|[-+ 0#]*\d*(?:\.\d+)?[a-zA-Z])")
_ROT: Final = str.maketrans(
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz", "NOPQRSTUVWXYZABCDEFGHIJKLMnopqrstuvwxyzabcdefghijklm"
)


class Value(NamedTuple):
    """A text as far as it is known, and where it comes from: "remote", "decoded", "secret", "computed", "file:PATH"."""

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
    """A text without its shortest or longest beginning or end that a pattern matches."""
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


# what programs print


def echo(words: Sequence[str]) -> str:
    at = 0
    while at < len(words) and re.fullmatch(r"-[neE]+", words[at]):
        at += 1
    text = " ".join(words[at:])
    if any("e" in word for word in words[:at]) or "\\x" in text or "\\0" in text:
        text = ansi_c(text)
    return text + ("" if any("n" in word for word in words[:at]) else "\n")


def printf(words: Sequence[str]) -> str:
    """What `printf FORMAT ARGUMENTS` prints; the format is used again while arguments are left."""
    if not words:
        return ""
    form, rest = ansi_c(words[0]), list(words[1:])
    slots = sum(1 for found in _ESCAPES.finditer(form) if found[0] != "%%")
    rounds = max(1, -(-len(rest) // slots)) if slots else 1
    return "".join(_formatted(form, rest) for _ in range(min(rounds, MOST_FIELDS)))[:LONGEST_VALUE]


def _formatted(form: str, rest: list[str]) -> str:
    def fill(found: re.Match[str]) -> str:
        kind = found[0][-1]
        if kind == "%":
            return "%"
        value = rest.pop(0) if rest else ""
        if kind == "b":
            return ansi_c(value)
        if kind in "xXo" and value.isdigit() and len(value) < 10:
            return format(int(value), kind)
        return value

    return _ESCAPES.sub(fill, form)


def decoded(words: Sequence[str], text: str) -> str | None:
    """What a decoder makes of a text; None where it is no decoder, or the text is not its."""
    name, flags = words[0], set(words[1:])
    letters = "".join(word[1:] for word in words[1:] if word[:1] == "-" and word[1:2] != "-")
    try:
        if name in ("base64", "gbase64") and ("d" in letters or "D" in letters or "--decode" in flags):
            return _text(base64.b64decode(text, validate=False))
        if name == "base32" and ("d" in letters or "--decode" in flags):
            return _text(base64.b32decode(text.strip()))
        if name == "xxd" and "r" in letters:
            return _text(bytes.fromhex(text)) if "p" in letters else None
        if name == "openssl" and {"-d"} & flags and {"base64", "-base64", "-a"} & flags:
            return _text(base64.b64decode(text, validate=False))
    except (ValueError, binascii.Error):
        return None
    return _transformed(name, words, text)


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace").replace("\0", "")


def _transformed(name: str, words: Sequence[str], text: str) -> str | None:
    if name == "rev":
        return "\n".join(line[::-1] for line in text.split("\n"))
    if name == "tac":
        return "\n".join(reversed(text.strip("\n").split("\n"))) + "\n"
    if name == "rot13" or (name == "caesar" and words[1:2] == ("13",)):
        return text.translate(_ROT)
    if name == "tr":
        return _tr(words[1:], text)
    if name == "sed" and len(words) >= 2:
        found = re.fullmatch(r"s([/|#,])([^/|#,*.\[\]\\^$]*)\1([^/|#,\\&]*)\1(g?)", words[-1])
        return text.replace(found[2], found[3], -1 if found[4] else 1) if found and found[2] else None
    if name in ("head", "tail", "cat", "sort", "uniq") and len(words) == 1:
        return text
    return None


def _tr(words: Sequence[str], text: str) -> str | None:
    operands = [ansi_c(_set(word)) for word in words if not re.fullmatch(r"-[cCdst]+", word)]
    if "-d" in words and len(operands) == 1:
        return text.translate(dict.fromkeys(map(ord, operands[0])))
    if len(operands) != 2 or not operands[1] or len(operands) != len(words):
        return None
    old, new = operands
    new = new.ljust(len(old), new[-1])
    return text.translate(str.maketrans(old, new[: len(old)]))


def _set(word: str) -> str:
    """A set of `tr` with its ranges spelt out."""
    word = word.replace("[:upper:]", "A-Z").replace("[:lower:]", "a-z").replace("[:space:]", " \\t\\n")

    def spelt(found: re.Match[str]) -> str:
        return "".join(map(chr, range(ord(found[1]), ord(found[2]) + 1)))

    return re.sub(r"([!-~])-([!-~])", spelt, word)


def path_program(words: Sequence[str]) -> str | None:
    """What `basename`, `dirname` and `realpath` print of a path."""
    operands = [word for word in words[1:] if not word.startswith("-")]
    if not operands:
        return None
    if words[0] == "basename":
        name = posixpath.basename(operands[0].rstrip("/"))
        return name.removesuffix(operands[1]) if len(operands) > 1 else name
    if words[0] == "dirname":
        return posixpath.dirname(operands[0].rstrip("/")) or "."
    return operands[-1]

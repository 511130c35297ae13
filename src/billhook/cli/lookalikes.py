"""Characters that are taken for others, or can't be seen: made visible before somebody approves a text."""

import re
import unicodedata
from collections.abc import Iterable
from typing import Final

from billhook.text import escape, visible

_ALIKE: Final = frozenset("аАВеЕКМНоОрРсСТуУхХіІјЈѕЅԁԛԝһӏүҮԌΑΒΕΖΗΙΚΜΝΟΡΤΥΧονιαρυκօՕսՍհոցքհıȷɑɡɩʋǃ∕⁄∖ꓸ։")
"""What looks like a letter or sign of ASCII, but for what Unicode itself says to be equal to one."""
_BLANK: Final = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180e\u2800\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]"
)
_WORD: Final = re.compile(r"\w+")


def marked(text: str) -> str:
    """The text with an escape in place of each of these characters, and of everything that `safe` escapes."""
    return text if text.isascii() and text.isprintable() else "\n".join(_marked(line) for line in text.split("\n"))


def _marked(line: str) -> str:
    at = suspicious(line)
    return "".join(escape(char) if place in at else visible(char) for place, char in enumerate(line))


def suspicious(line: str) -> set[int]:
    """Where in a line there is such a character."""
    if line.isascii() and line.isprintable():
        return set()
    return {at for at, char in enumerate(line) if _is_odd(char)} | _foreign(line)


def _is_odd(char: str) -> bool:
    if char.isascii():
        return not char.isprintable() and char != "\t"
    equal = unicodedata.normalize("NFKC", char)
    looks_plain = len(equal) == 1 and equal.isascii()
    return looks_plain or not char.isprintable() or char.isspace() or _BLANK.match(char) is not None


def _foreign(line: str) -> set[int]:
    """Letters that look like ASCII's: in a word with some of those, or in a word of nothing else. Text in such a script
    has other letters, too."""
    prose = any(char.isalpha() and not char.isascii() and char not in _ALIKE for char in line)
    found: set[int] = set()
    for word in _WORD.finditer(line):
        letters = [char for char in word[0] if char.isalpha()]
        mixed = any(char.isascii() for char in letters)
        if mixed or (not prose and all(char in _ALIKE for char in letters)):
            found |= {word.start() + at for at, char in enumerate(word[0]) if char in _ALIKE}
    return found | {at for at, char in enumerate(line) if char in _ALIKE and not char.isalnum()}


def warning(texts: Iterable[str]) -> str:
    """One line that names what was found in the texts; empty where there is nothing."""
    found: dict[str, int] = {}
    for line in (line for text in texts for line in text.split("\n")):
        for at in sorted(suspicious(line)):
            found[line[at]] = found.get(line[at], 0) + 1
    if not found:
        return ""
    names = [f"{escape(char)} {unicodedata.name(char, 'control character').lower()}" for char in list(found)[:4]]
    more = f" and {len(found) - 4} others" if len(found) > 4 else ""
    count = sum(found.values())
    what = "1 character looks" if count == 1 else f"{count} characters look"
    return f"{what} like another or can't be seen: {', '.join(names)}{more}"

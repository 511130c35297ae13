"""Text for people: harmless on a terminal, in one line, counted, and with the word that was probably meant."""

import unicodedata
from collections.abc import Iterable


def visible(text: str) -> str:
    """Text for a terminal: control characters, escape sequences and bidi overrides become visible escapes."""
    return text if text.isascii() and text.isprintable() else "".join(map(_visible, text))


def _visible(char: str) -> str:
    harmless = char.isprintable() or char in "\n\t" or unicodedata.category(char) == "Zs"
    return char if harmless else escape(char)


def escape(char: str) -> str:
    """`\\x1b`, `\\u202e` or `\\U000e0041`."""
    code = ord(char)
    return f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}" if code < 65536 else f"\\U{code:08x}"


def flat(text: str) -> str:
    """A text in one line, harmless."""
    return visible(" ".join(text.split()))


def one_line(text: str, columns: int) -> str:
    """A text in one line, harmless, and cut where it is too long."""
    shown = flat(text[: 20 * columns])
    return shown if len(shown) <= columns else shown[: max(0, columns - 3)] + "..."


def counted(number: int, thing: str) -> str:
    """`1 hook`, `2 hooks`."""
    return f"{number} {thing}" if number == 1 else f"{number} {thing}s"


def suggest(word: str, known: Iterable[str]) -> str:
    """A hint that names the word that was probably meant, and else all of them."""
    import difflib

    by_fold = {one.lower().replace("-", ""): one for one in known}
    near = difflib.get_close_matches(word.lower().replace("-", "").replace("_", ""), by_fold, 1, 0.6)
    return f"did you mean `{by_fold[near[0]]}`?" if near else f"one of {', '.join(by_fold.values())}"

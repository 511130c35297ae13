"""Letters that look like those of a command: `rm` with a Cyrillic letter, blanks that a shell does not split at.

A shell does not run such a line as people read it, but its author, or the user who approves it, may mean that.
"""

import unicodedata
from typing import Final

_LONGEST: Final = 65_536
_CYRILLIC: Final = dict(zip("аеорсухіјѕмктнвгԁԛԝһӏАВЕКМНОРСТХІЈЅ", "aeopcyxijsmkthbrdqwhlABEKMHOPCTXIJS", strict=True))
_OTHERS: Final = dict(zip("οανρικτυεσωıɡօ", "oavpiktueowigo", strict=True))  # Greek, and letters of a few more
_SIGNS: Final = {"\u2014": "--", "\u2212": "-", "\v": " ", "\f": " ", "\x85": " ", "\u2028": " ", "\u2029": " "}
_LOOKALIKES: Final = {**_CYRILLIC, **_OTHERS, **_SIGNS}
_KEPT: Final = frozenset("-./~_=")  # signs that may replace one; others would change how a shell reads the line


def plain_letters(text: str) -> str:
    """Text with plain letters, dashes and blanks in place of those that look like them."""
    if len(text) > _LONGEST:
        return text
    return text.translate({ord(each): _plain(each) for each in set(text) if each in _SIGNS or not each.isascii()})


def _plain(letter: str) -> str:
    if letter in _LOOKALIKES:
        return _LOOKALIKES[letter]
    category = unicodedata.category(letter)
    if category in ("Zs", "Cf", "Pd"):  # blanks, what is not visible, dashes
        return {"Zs": " ", "Cf": "", "Pd": "-"}[category]
    normal = unicodedata.normalize("NFKC", letter)
    return normal if normal.isascii() and (normal.isalnum() or normal in _KEPT) else letter

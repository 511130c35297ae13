"""The output of filters for known text: decoders, `tr`, `sed`, `rev` and similar programs."""

import base64
import binascii
import re
from collections.abc import Callable, Sequence
from typing import Final

from billhook.effects.script import ansi_c

_ROT13: Final = str.maketrans(
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz", "NOPQRSTUVWXYZABCDEFGHIJKLMnopqrstuvwxyzabcdefghijklm"
)
_DECODERS: Final = {
    **dict.fromkeys(("base64", "gbase64", "base32"), frozenset("dD")),
    **dict.fromkeys(("openssl", "gzip", "zstd"), frozenset("d")),
    "xxd": frozenset("r"),
}
"""Programs that decode with one of these letters."""
_SUBSTITUTION = re.compile(r"s([/|#,])([^/|#,*.\[\]\\^$]*)\1([^/|#,\\&]*)\1(g?)")
_TR_OPTION = re.compile(r"-[cCdst]+")
_SET_RANGE = re.compile(r"([!-~])-([!-~])")


def transformed(words: Sequence[str], text: str) -> str | None:
    """The output of a filter for some text; None if it is not a known filter, or the text is not its input."""
    transform = _TRANSFORMS.get(words[0])
    try:
        return transform(words, text) if transform else None
    except (ValueError, binascii.Error):
        return None


def decodes(words: Sequence[str]) -> bool:
    """Whether a command decodes or unpacks what it reads."""
    if words[0] in ("gunzip", "zcat"):
        return True
    options = _DECODERS.get(words[0])
    return options is not None and (not options.isdisjoint(letters(words)) or "--decode" in words)


def letters(words: Sequence[str]) -> str:
    """The letters of a command's short options."""
    return "".join(word[1:] for word in words[1:] if word[:1] == "-" and word[1:2] != "-")


def _decoded(words: Sequence[str], text: str) -> str | None:
    if not decodes(words):
        return None
    if words[0] == "xxd":
        data = bytes.fromhex(text) if "p" in letters(words) else None
    elif words[0] == "base32":
        data = base64.b32decode(text.strip())
    else:
        data = base64.b64decode(text, validate=False)
    return None if data is None else data.decode("utf-8", "replace").replace("\0", "")


def _openssl(words: Sequence[str], text: str) -> str | None:
    return None if {"base64", "-base64", "-a"}.isdisjoint(words) else _decoded(words, text)


def _rev(words: Sequence[str], text: str) -> str:
    return "\n".join(line[::-1] for line in text.split("\n"))


def _tac(words: Sequence[str], text: str) -> str:
    return "\n".join(reversed(text.strip("\n").split("\n"))) + "\n"


def _rot13(words: Sequence[str], text: str) -> str | None:
    return text.translate(_ROT13) if words[0] == "rot13" or list(words[1:2]) == ["13"] else None


def _sed(words: Sequence[str], text: str) -> str | None:
    found = _SUBSTITUTION.fullmatch(words[-1])
    return text.replace(found[2], found[3], -1 if found[4] else 1) if found and found[2] else None


def _whole(words: Sequence[str], text: str) -> str | None:
    return text if len(words) == 1 else None


def _tr(words: Sequence[str], text: str) -> str | None:
    sets = [ansi_c(_spelt(word)) for word in words[1:] if not _TR_OPTION.fullmatch(word)]
    if "-d" in words and len(sets) == 1:
        return text.translate(dict.fromkeys(map(ord, sets[0])))
    if len(sets) != 2 or not sets[1] or len(sets) != len(words) - 1:
        return None
    old, new = sets
    return text.translate(str.maketrans(old, new.ljust(len(old), new[-1])[: len(old)]))


def _spelt(word: str) -> str:
    """A set of `tr` with its ranges spelt out."""
    word = word.replace("[:upper:]", "A-Z").replace("[:lower:]", "a-z").replace("[:space:]", " \\t\\n")
    return _SET_RANGE.sub(lambda found: "".join(map(chr, range(ord(found[1]), ord(found[2]) + 1))), word)


_TRANSFORMS: Final[dict[str, Callable[[Sequence[str], str], str | None]]] = {
    **dict.fromkeys(("base64", "gbase64", "base32", "xxd"), _decoded),
    "openssl": _openssl,
    "rev": _rev,
    "tac": _tac,
    "rot13": _rot13,
    "caesar": _rot13,
    "tr": _tr,
    "sed": _sed,
    **dict.fromkeys(("head", "tail", "cat", "sort", "uniq"), _whole),
}

"""Text for people: safe for a terminal, on one line, with counts, with suggestions for typos and commands to install
what is missing."""

import re
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec

from billhook.core.lazy import lazy_module
from billhook.core.tools import folded as folded  # noqa: PLC0414 - exported: how names are compared

if TYPE_CHECKING:
    import unicodedata
else:
    unicodedata = lazy_module("unicodedata")


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
    """Text on one line, safe for a terminal."""
    return visible(" ".join(text.split()))


def one_line(text: str, columns: int) -> str:
    """Text on one line, safe for a terminal, and cut if it is too long."""
    shown = flat(text[: 20 * columns])
    return shown if len(shown) <= columns else shown[: max(0, columns - 3)] + "..."


def counted(number: int, thing: str) -> str:
    """`1 hook`, `2 hooks`."""
    return f"{number} {thing}" if number == 1 else f"{number} {thing}s"


def joined(words: Sequence[str], last: str = "and") -> str:
    """`a, b and c`."""
    return f" {last} ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)


def age(seconds: float) -> str:
    """`just now`, `3 min ago`, `2 h ago`, `4 days ago`."""
    for unit, length in (("day", 86400), ("h", 3600), ("min", 60)):
        if (number := int(seconds // length)) > 0:
            return f"{number} {unit}{'s' if unit == 'day' and number > 1 else ''} ago"
    return "just now"


# Lines for people who read a hook's stderr.


def lines_for_people(lines: Iterable[str]) -> bytes:
    """Lines with the prefix `billhook:`; control characters are made visible."""
    flat = (line.replace("\n", " ").replace("\t", " ") for line in lines)
    return "".join(f"billhook: {visible(line)}\n" for line in flat).encode("utf-8", "replace")


# Problems of a configuration:


class Finding(msgspec.Struct, frozen=True):
    """One problem or note for the author. Every code has a section in docs/codes.md."""

    code: str
    message: str
    file: str = ""
    line: int = 0
    column: int = 0
    hint: str = ""
    hook: str = ""  # the name of the hook, if it is about one
    note: bool = False  # useful, but not a problem of the file: it does not fail a check
    edit: str = ""  # the new value of the field, if the hint proposes one

    @property
    def place(self) -> str:
        return ":".join(str(part) for part in (self.file, self.line, self.column) if part)

    def __str__(self) -> str:
        text = f"{self.place}: {self.code} {self.message}" if self.file else f"{self.code} {self.message}"
        return f"{text}\n  hint: {self.hint}" if self.hint else text


def nearest(name: str, known: Iterable[str], cutoff: float = 0.6) -> str:
    """The known name that was most likely meant, or an empty string."""
    by_fold = {folded(one): one for one in known}
    if folded(name) in by_fold:
        return by_fold[folded(name)]
    import difflib

    close = difflib.get_close_matches(folded(name), by_fold, 1, cutoff)
    swapped = [one for one in by_fold if sorted(one) == sorted(folded(name))]  # `aks`: short words are never close
    return by_fold[[*swapped, *close][0]] if close or swapped else ""


def suggestion(word: str, known: Iterable[str], otherwise: str | None = None, cutoff: float = 0.6) -> str:
    """A hint for an unknown word: the nearest known word, else `otherwise`, else all known words."""
    near = nearest(word, known, cutoff)
    if near or otherwise is None:
        return f"did you mean `{near}`?" if near else f"one of {', '.join(known)}"
    return otherwise


# How to install an optional dependency, the way billhook itself was installed:

_RECEIPT: Final = "uv-receipt.toml"  # `uv tool install` leaves it in the environment that it makes
_METADATA: Final = "pipx_metadata.json"  # so does pipx


def install_command(extra: str, prefix: str = sys.prefix, program: str = sys.executable) -> str:
    """The command that installs the extra, such as `pipx inject billhook httpx`."""
    import importlib.util
    import shlex

    if (Path(prefix) / _RECEIPT).is_file():
        return f"uv tool install {shlex.quote(_requirement(Path(prefix) / _RECEIPT, extra))}"
    if (Path(prefix) / _METADATA).is_file():
        return f"pipx inject {shlex.quote(Path(prefix).name)} {' '.join(packages_of(extra))}"
    wanted = shlex.quote(f"billhook[{extra}]")
    if importlib.util.find_spec("pip") is None:
        return f"uv pip install --python {shlex.quote(program)} {wanted}"
    return f"{shlex.quote(program)} -m pip install {wanted}"


def packages_of(extra: str) -> list[str]:
    """The packages of an extra."""
    import importlib.metadata

    try:
        needed = importlib.metadata.requires("billhook") or []
    except importlib.metadata.PackageNotFoundError:
        needed = []
    of_it = re.compile(rf"extra == ['\"]{re.escape(extra)}['\"]")
    return [re.split(r"[<>=!~;\[ ]", one, maxsplit=1)[0] for one in needed if of_it.search(one)] or [extra]


def _requirement(receipt: Path, extra: str) -> str:
    """What the tool was installed as, with the extra: `billhook[http,serve]`, or a folder."""
    import tomllib

    known: dict[str, Any] = {}
    try:
        listed = tomllib.loads(receipt.read_text(encoding="utf-8"))["tool"]["requirements"]
        known = next((one for one in listed if isinstance(one, dict) and one.get("name") == "billhook"), {})
    except (OSError, ValueError, KeyError, TypeError):
        pass
    extras = sorted({*known.get("extras", ()), extra})
    return f"{known.get('directory') or known.get('editable') or 'billhook'}[{','.join(extras)}]"

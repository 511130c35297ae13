"""Rows of facts on a screen that has a width. Whatever comes from a file is made harmless here."""

import os
import shutil
from collections.abc import Iterable, Iterator

from billhook.cli.show import safe

_WIDEST = 120
_GAP = "   "


def width() -> int:
    """Columns to fill: those of the terminal, 80 where there is none; long lines are hard to read."""
    return max(40, min(shutil.get_terminal_size().columns, _WIDEST))


def one_line(text: str, columns: int) -> str:
    """A text in one line, harmless, and cut where it is too long."""
    flat = safe(" ".join(text[: 20 * columns].split()))
    return flat if len(flat) <= columns else flat[: max(0, columns - 3)] + "..."


def filled(text: str, indent: int, columns: int | None = None) -> Iterator[str]:
    """A text in lines that fit, broken at blanks, each with its indent."""
    room = max(20, (columns or width()) - indent)
    line = ""
    for word in safe(" ".join(text.split())).split(" "):
        if line and len(line) + 1 + len(word) > room:
            yield " " * indent + line
            line = word
        else:
            line = f"{line} {word}".strip()
    yield " " * indent + line


def facts(items: Iterable[str], indent: int) -> Iterator[str]:
    """Short facts beside each other, as many in a line as fit; one that is too long has lines of its own."""
    room = width() - indent
    line = ""
    for item in map(_flat, items):
        if line and len(line) + len(_GAP) + len(item) > room:
            yield " " * indent + line
            line = ""
        line = f"{line}{_GAP}{item}" if line else item
    if line:
        yield " " * indent + line


def _flat(text: str) -> str:
    return one_line(text, _WIDEST)


def shown_path(path: str, *, here: bool = True) -> str:
    """A path as people write it: relative when it lies below this folder, with `~` when below their own."""
    for folder, prefix in ((_real(os.curdir) if here else "", ""), (_real("~"), "~/")):
        if folder and folder != "/" and path.startswith(folder + "/"):
            return prefix + path[len(folder) + 1 :]
        if folder and path == folder:
            return prefix.rstrip("/") or "."
    return path


def _real(folder: str) -> str:
    try:
        return os.path.realpath(os.path.expanduser(folder))
    except OSError:
        return ""


def counted(number: int, thing: str) -> str:
    """`1 hook`, `2 hooks`."""
    return f"{number} {thing}" if number == 1 else f"{number} {thing}s"

"""Rows of facts on a screen that has a width. Whatever comes from a file is made harmless here."""

import os
import re
import shutil
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from billhook.text import one_line, visible

if TYPE_CHECKING:
    from billhook.config.findings import Finding
    from billhook.config.loaded import Config

_WIDEST = 120
_LONGEST = 1000  # characters of one text: a path is shown whole, and no file fills the screen
_GAP = "   "


def width() -> int:
    """Columns to fill: those of the terminal, 80 where there is none; long lines are hard to read."""
    return max(40, min(shutil.get_terminal_size().columns, _WIDEST))


def filled(text: str, indent: int, columns: int | None = None) -> Iterator[str]:
    """A text in lines that fit, broken at blanks, each with its indent."""
    room = max(20, (columns or width()) - indent)
    line = ""
    flat = visible(with_shown_paths(" ".join(text[: 2 * _LONGEST].split())))
    for word in (flat if len(flat) <= _LONGEST else flat[:_LONGEST] + " ...").split(" "):
        if line and len(line) + 1 + len(word) > room:
            yield " " * indent + line
            line = word
        else:
            line = f"{line} {word}".strip()
    yield " " * indent + line


def hanging(text: str, indent: int) -> Iterator[str]:
    """A text in lines that fit, all but the first with two more columns of indent."""
    first, *rest = filled(text, indent)
    yield first
    yield from ("  " + line for line in rest)


def facts(items: Iterable[str], indent: int) -> Iterator[str]:
    """Short facts beside each other, as many in a line as fit; one that is too long has a line of its own."""
    room = width() - indent
    line = ""
    for item in (one_line(item, _LONGEST) for item in items):
        if line and len(line) + len(_GAP) + len(item) > room:
            yield " " * indent + line
            line = ""
        line = f"{line}{_GAP}{item}" if line else item
    if line:
        yield " " * indent + line


def shown_path(path: str, *, here: bool = True) -> str:
    """A path as people write it: relative when it lies below this folder, with `~` when below their own."""
    for folder, prefix in _folders()[0 if here else 1 :]:
        if path.startswith(folder + "/"):
            return prefix + path[len(folder) + 1 :]
    return path


def with_shown_paths(text: str) -> str:
    """A sentence, its paths as people write them."""
    for folder, prefix in _folders():
        if folder in text:
            text = re.sub(rf"(?<![\w/.~-]){re.escape(folder)}/", prefix, text)
    return text


def first_problem(problems: "Iterable[Finding]") -> str:
    """Where to begin: file and line of the first problem that is no mere note; empty without one."""
    return next((with_shown_paths(f"{one.file}:{one.line}") for one in problems if not one.note), "")


def unreadable(config: "Config") -> str:
    """A hint for a configuration that has a problem and no hooks; empty without a problem."""
    where = first_problem(config.problems)
    return f"no hook could be read: fix {where} first; `billhook check` shows all problems" if where else ""


def _folders() -> list[tuple[str, str]]:
    """This folder and the home folder, with what stands for each; the root is too much to leave out."""
    return [(folder if len(folder) > 1 else "//", prefix) for folder, prefix in ((_real("."), ""), (_real("~"), "~/"))]


def _real(folder: str) -> str:
    try:
        return os.path.realpath(os.path.expanduser(folder))
    except OSError:
        return ""

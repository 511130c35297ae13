"""Words of a line turned into absolute paths, from every folder that the line may be in."""

import posixpath
import re
from collections.abc import Iterable, Iterator
from typing import Final

import msgspec

from billhook import caller
from billhook.builtins.git_writes import ROOT
from billhook.builtins.spelling import git_root
from billhook.builtins.touch import Touch
from billhook.script import UNKNOWN

LONGEST_PATH: Final = 16_384  # no system opens a longer one, so nothing can be done to it either
_OWN_FOLDER = re.compile(r"/proc/(?:self|thread-self|\d+|\0)/cwd(?=/|$)")
_OWN_ROOT = re.compile(r"/proc/(?:self|thread-self|1|\0)/root(?=/)")


def placed(touch: Touch, folders: Iterable[str]) -> Iterator[Touch]:
    """A touch as it is seen from each folder, with its sources."""
    for folder in folders:
        sources = tuple(path for source in touch.sources for path in absolute(source, [folder]))
        for path in absolute(touch.path, [folder]):
            yield msgspec.structs.replace(touch, path=path, sources=sources)


def absolute(word: str, folders: Iterable[str]) -> Iterator[str]:
    """A path as it is seen from each folder; not made shorter, because `..` behind a link leads elsewhere."""
    if not word or len(word) > LONGEST_PATH:
        return
    if word.startswith("~"):
        word = _from_home(word)
    for folder in folders:
        if word.startswith(ROOT):
            yield posixpath.join(git_root(folder), word[2:].lstrip("/"))
        elif word.startswith(("/proc/", "//proc/")):
            path = _OWN_FOLDER.sub(lambda _, folder=folder: folder, "/" + word.lstrip("/"), 1)  # type: ignore[misc]
            yield _OWN_ROOT.sub("", path, 1)
        else:
            yield word if word.startswith(("/", UNKNOWN)) else f"{folder}/{word}"


def _from_home(word: str) -> str:
    if word[1:2] in ("+", "-"):
        return word[2:].lstrip("/") or "."
    name, slash, rest = word.partition("/")
    try:
        return UNKNOWN + slash + rest if UNKNOWN in name else caller.expanduser(word)
    except ValueError:  # no user can be called so
        return word

"""Paths and names compared: without regard to case, and never raising for what no system takes."""

import os
import posixpath
import re
from collections.abc import Iterable, Iterator
from typing import Final

import msgspec

from billhook.core import client_env
from billhook.effects.git import ROOT
from billhook.effects.programs import Touch
from billhook.effects.rules import segment_matches
from billhook.effects.script import UNKNOWN
from billhook.effects.variables import git_root


def says(text: str, name: str) -> bool:
    """Whether a text has a name as a word of its own, in any case."""
    if name not in text and fold(name) not in fold(text):
        return False
    return re.search(rf"(?<![\w-])(?<!\w\.){re.escape(name)}(?![\w-])", text, re.I) is not None


def any_matches(patterns: Iterable[str], names: Iterable[str]) -> bool:
    folded = [fold(name) for name in names]
    return any(segment_matches(fold(pattern), name) for pattern in patterns for name in folded)


def tail(path: str) -> str:
    return "/".join(path.rstrip("/").split("/")[-2:])


def dots_agree(pattern: Iterable[str], segments: Iterable[str]) -> bool:
    """A `*` takes no name that begins with a dot."""
    return all(
        not segment.startswith(".") or sign.startswith(".") for sign, segment in zip(pattern, segments, strict=False)
    )


def normal(path: str) -> str:
    return posixpath.normpath("/" + path.lstrip("/"))


def fold(path: str) -> str:
    return path.casefold()


def upwards(folder: str) -> Iterator[str]:
    while True:
        yield folder
        above = posixpath.dirname(folder)
        if above == folder:
            return
        folder = above


def is_link(path: str) -> bool:
    try:
        return os.path.islink(path)
    except (OSError, ValueError):
        return False


def identity_of(path: str) -> tuple[int, int] | None:
    try:
        found = os.stat(path)
    except (OSError, ValueError):
        return None
    return found.st_dev, found.st_ino


# Words of a line turned into absolute paths, from every folder that the line may be in.


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
        return UNKNOWN + slash + rest if UNKNOWN in name else client_env.expanduser(word)
    except ValueError:  # no user can be called so
        return word

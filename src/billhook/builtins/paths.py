"""Paths and names compared: without regard to case, and never raising for what no system takes."""

import os
import posixpath
import re
from collections.abc import Iterable, Iterator

from billhook.globs import segment_matches


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

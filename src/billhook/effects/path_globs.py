"""Globs for the files that a call uses: `src/**`, `*.pem`, and `!src/generated/**`, which excludes files.

A glob without a folder means such files at any depth, as in `.gitignore`; the last one that matches decides.
"""

import glob
import itertools
import os
from collections.abc import Iterator, Sequence
from typing import Final, Literal

from billhook.core.events import Event
from billhook.effects.effect import UNKNOWN
from billhook.effects.patterns import ANY_DEPTH, path_matches
from billhook.effects.rules import path_patterns, path_segments

Use = Literal["read", "write"]
_USES: Final[dict[str, Use]] = {
    "read": "read", "read-secret": "read", "upload": "read",
    "write": "write", "overwrite": "write", "delete": "write", "permissions": "write", "persist": "write",
}  # fmt: skip


def used(event: Event) -> Iterator[tuple[str, Use, bool]]:
    """The files that a tool call would read or write, each with whether what is below it is meant as well."""
    for effect in getattr(event, "effects", ()):
        use = _USES.get(effect.kind)
        if use is not None and effect.target.startswith("/") and UNKNOWN not in effect.target:
            yield effect.target, use, effect.recursive
    for command in getattr(event, "commands", ()):  # `read x < .env` has no effect, but reads it
        for path in command.reads:
            whole = os.path.join(command.cwd, path)
            if whole.startswith("/") and UNKNOWN not in whole:
                yield os.path.normpath(whole), "read", False


def selects(globs: Sequence[str], path: str, folder: str, *, below: bool = False) -> bool:
    """Whether the last glob that matches a path has no `!`. If all have one, every other path matches."""
    names = [path_segments(name) for name in dict.fromkeys((path, os.path.realpath(path)))]
    chosen = all(text.startswith("!") for text in globs)
    for text in globs:
        if any(_matches(text.removeprefix("!"), name, folder, below) for name in names):
            chosen = not text.startswith("!")
    return chosen


def _matches(text: str, path: list[str], folder: str, below: bool) -> bool:
    """Below the folder a glob also means what is in a folder of that name; elsewhere only such names themselves."""
    for pattern in path_patterns(text, folder, deny=False):
        if path_matches((*pattern, ANY_DEPTH), path):
            return True
        # `rm -rf config` is about `config/secrets/**` as well
        if below and len(pattern) > len(path) and path_matches(pattern[: len(path)], path):
            return True
    return "/" not in text and path_matches((ANY_DEPTH, text), path)


_MOST: Final = 10_000  # names that are looked at for a glob


def exists(text: str, folder: str) -> bool:
    """Whether a file of a project has such a name."""
    text = os.path.expanduser(text)
    if not glob.has_magic(text):
        return os.path.exists(os.path.join(folder, text))
    found = itertools.islice(glob.iglob(text, root_dir=folder, recursive=True, include_hidden=True), _MOST)
    return any(os.path.lexists(os.path.join(folder, name)) for name in found)

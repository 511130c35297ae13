"""Globs for the files that a call uses: `src/**`, `*.pem`, and `!src/generated/**`, which excludes files.

A glob without a folder means such files at any depth, as in `.gitignore`; the last one that matches decides.
"""

import glob
import itertools
import os
import re
from collections.abc import Iterator, Sequence
from fnmatch import fnmatch
from typing import Final, Literal

from billhook.core.events import Event
from billhook.effects.effect import UNKNOWN, Command, Effect
from billhook.effects.families.reading import READS
from billhook.effects.patterns import ANY_DEPTH, path_matches
from billhook.effects.rules import path_patterns, path_segments
from billhook.effects.table import word_set

Use = Literal["read", "write"]
_USES: Final[dict[str, Use]] = {
    "read": "read", "read-secret": "read", "upload": "read",
    "write": "write", "overwrite": "write", "delete": "write", "discard": "write", "permissions": "write",
    "persist": "write",
}  # fmt: skip
_GIT_USES: Final[dict[str, Use]] = {
    "show": "read", "diff": "read", "blame": "read", "annotate": "read", "cat-file": "read", "difftool": "read",
    "rm": "write", "mv": "write",
}  # fmt: skip
_NAMES_ONLY: Final = word_set("""
ls ll dir exa eza tree echo printf test [ [[ touch mkdir rmdir rm unlink chmod chown chgrp stat file realpath readlink
basename dirname find fd which type du df cd pushd export set unset true false tee ln mv
""")
"""Programs that use the names of files and not their content, or whose effects show which files they read."""
_SKIP_HIDDEN: Final = frozenset({"rg", "ag", "ack", "Grep"})
_PART_OF_WORD: Final = re.compile(r"[@=:]+")
_MOST_COMMANDS: Final = 100
_MOST_WORDS: Final = 200
_MOST_BELOW: Final = 5_000  # files of a folder that are compared with the globs


def used(event: Event, project: str) -> Iterator[tuple[str, Use]]:
    """The files that a tool call would read or write. Of a folder that is searched or removed, the files below it; of
    one that contains the project, only those of the project."""
    for effect in getattr(event, "effects", ()):
        use = _USES.get(effect.kind)
        if use is not None and effect.target.startswith("/") and UNKNOWN not in effect.target:
            yield effect.target, use
            if effect.recursive:
                yield from ((path, use) for path in _below(effect, project))
    for command in getattr(event, "commands", ())[:_MOST_COMMANDS]:
        yield from _named(command)


def _below(effect: Effect, project: str) -> Iterator[str]:
    top = project if _is_below(project, effect.target) else effect.target
    skip_hidden = not _SKIP_HIDDEN.isdisjoint(effect.via)
    count = 0
    for folder, folders, names in os.walk(top):
        folders[:] = [name for name in folders if name != ".git" and not (skip_hidden and name.startswith("."))]
        for name in names:
            count += 1
            if count > _MOST_BELOW:
                return
            shown = not (skip_hidden and name.startswith("."))
            if shown and (not effect.names or any(fnmatch(name, each) for each in effect.names)):
                yield os.path.join(folder, name)


def _named(command: Command) -> Iterator[tuple[str, Use]]:
    """The files that a command names. A program that no table describes most likely reads those that exist."""
    if command.name in READS or command.name in _NAMES_ONLY or UNKNOWN in command.cwd:
        return
    use = _GIT_USES.get(next((word for word in command.args if word in _GIT_USES), "")) if _is_git(command) else "read"
    for word in command.args[:_MOST_WORDS] if use else ():
        for name in dict.fromkeys((word, *_PART_OF_WORD.split(word)[-1:])):  # `@.env`, `file=@.env`, `HEAD:.env`
            path = os.path.normpath(os.path.join(command.cwd, name))
            if use and name and UNKNOWN not in name and (_is_git(command) or os.path.isfile(path)):
                yield path, use


def _is_git(command: Command) -> bool:
    return command.name == "git"


def _is_below(path: str, folder: str) -> bool:
    return path.startswith(folder.rstrip("/") + "/")


def _real(path: str) -> str:
    try:
        return os.path.realpath(path)
    except OSError:  # a link that can't be read
        return path


def selects(globs: Sequence[str], path: str, folder: str) -> bool:
    """Whether the last glob that matches a path has no `!`. Where all have one, every other path is selected."""
    names = [path_segments(name) for name in dict.fromkeys((path, _real(path)))]
    chosen = all(text.startswith("!") for text in globs)
    for text in globs:
        if any(_matches(text.removeprefix("!"), name, folder) for name in names):
            chosen = not text.startswith("!")
    return chosen


def _matches(text: str, path: list[str], folder: str) -> bool:
    """Below the folder a glob also selects the content of a folder of that name; elsewhere only that name."""
    patterns = path_patterns(text, folder, deny=False)
    if any(path_matches((*pattern, ANY_DEPTH), path) for pattern in patterns):
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

"""The local modules that a Python source imports, found in its text: nothing is imported, nothing is run.

Only needed for what lies outside of the folders that are covered anyway, so it errs towards more: what looks like an
import counts, in a comment too. What only a running program knows (`__import__(name)`) is not seen.
"""

import itertools
import os
import re
import sys
from collections.abc import Iterable, Iterator
from importlib.machinery import EXTENSION_SUFFIXES
from typing import Final, NamedTuple

from billhook.config.sources import Look

MAX_PARENTS: Final = 8
MAX_ROOTS: Final = 32
MAX_IMPORTS: Final = 5_000
_SUFFIXES: Final = (".py", ".pyc", *EXTENSION_SUFFIXES)
# without going back: a hostile source must not take long
_FROM: Final = re.compile(
    r"\bfrom[ \t]++(\.*+)[ \t]*+((?:(?!import\b)[\w.]++)?)[ \t]*+import\b[ \t]*+(?:\(([^()]{0,10000})|([^\n;#]*+))"
)
_IMPORT: Final = re.compile(r"(?<![\w.])import[ \t]++([^\n;#()]++)")
_CALL: Final = re.compile(r"""\b(?:__import__|import_module)\(\s*["'](\.*)([\w.]+)["']""")
_FOLDER: Final = re.compile(r"""["']([\w.@+-][\w./@+-]*)["']""")
_STARTUP: Final = frozenset({"sitecustomize", "usercustomize"})


class Imported(NamedTuple):
    """One name that a source imports."""

    module: str
    level: int = 0  # the dots of a relative import


def imports(source: str) -> tuple[Imported, ...]:
    """What a source may import, each once."""
    return tuple(itertools.islice(dict.fromkeys(_imports(source)), MAX_IMPORTS))


def _imports(source: str) -> Iterator[Imported]:
    text = source.replace("\\\n", " ")
    for dots, module, several, names in _FROM.findall(text):
        yield Imported(module, len(dots))
        if not module:  # `from . import a, b`
            yield from (Imported(name, len(dots)) for name in _names(several or names))
    for names in _IMPORT.findall(text):
        yield from (Imported(name) for name in _names(names))
    for dots, module in _CALL.findall(text):
        yield Imported(module, len(dots))


def _names(text: str) -> Iterator[str]:
    for part in text.split(","):
        yield from part.split()[:1]


def roots_of(source: str, path: str, top: str, look: Look) -> Iterator[str]:
    """The folders that a source may add to `sys.path`: those around it up to `top`, and those that it names."""
    if "sys.path" not in source and "addsitedir" not in source:
        return
    bases = list(around(os.path.dirname(path), top))
    for name in _FOLDER.findall(source):
        named = [os.path.normpath(os.path.join(base, name)) for base in bases]
        bases += [one for one in named if one not in bases and look.folder(one)]
        if len(bases) > MAX_ROOTS:
            break
    yield from bases


def around(folder: str, top: str) -> Iterator[str]:
    """A folder and those around it, up to `top`."""
    for _ in range(MAX_PARENTS):
        yield folder
        if folder in (top, os.path.dirname(folder)):
            return
        folder = os.path.dirname(folder)


def places(one: Imported, path: str, roots: Iterable[str], look: Look) -> Iterator[str]:
    """The files and, for a package that is imported as a whole, the folders that an import may lead to."""
    parts = [part for part in one.module.split(".") if part.isidentifier()]
    if one.level:
        folder = os.path.dirname(path)
        for _ in range(one.level - 1):
            folder = os.path.dirname(folder)
        roots = (folder,)
    for root in roots:
        yield from _in(root, parts, look)


def _in(folder: str, parts: list[str], look: Look) -> Iterator[str]:
    for left, part in enumerate(parts, 1 - len(parts)):
        names = look.names(folder) or ()
        yield from (os.path.join(folder, part + suffix) for suffix in _SUFFIXES if part + suffix in names)
        if part not in names:
            return
        folder = os.path.join(folder, part)
        inside = os.path.join(folder, "__init__.py")
        if left == 0 and look.folder(folder):
            yield folder
        elif look.regular(inside):
            yield inside


def shadows(root: str, look: Look) -> Iterator[str]:
    """The files of a folder on Python's path that it would take for modules of its standard library, or run at its
    start."""
    for name in sorted(look.names(root) or ()):
        stem, dot, _ = name.partition(".")
        if stem in sys.stdlib_module_names or stem in _STARTUP:
            path = os.path.join(root, name)
            if name.endswith(_SUFFIXES):
                yield path
            elif not dot and look.regular(os.path.join(path, "__init__.py")):
                yield os.path.join(path, "__init__.py")

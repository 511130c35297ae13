"""The local modules that a Python source imports, found by reading it: nothing is imported, nothing is run.

What only a running program knows (`__import__(name)`, plug-ins, `sys.path` put together at run time) is not seen.
"""

import os
import stat
import sys
from collections import deque
from collections.abc import Iterable, Iterator
from importlib.machinery import EXTENSION_SUFFIXES
from typing import TYPE_CHECKING

import msgspec

from billhook.config.looking import MAX_KEPT, Look

if TYPE_CHECKING:
    import ast

MAX_FILES = 1000
MAX_BYTES = 1 << 20
MAX_ALL_BYTES = 8 << 20
MAX_PARENTS = 8
MAX_COMPILED = 64 << 20
_NO_NAME = frozenset("/\\*\0")
_SUFFIXES = (*EXTENSION_SUFFIXES, ".py", ".pyc")
_USUAL = tuple(suffix for suffix in _SUFFIXES if suffix in (".so", ".py", ".pyc"))
_BLOCKS = ("body", "handlers", "orelse", "finalbody")


class Imported(msgspec.Struct, frozen=True):
    """One name that a source imports, as written."""

    module: str
    level: int = 0
    """The dots of a relative import."""
    certain: bool = True
    """False for the names in `from module import name`: each may be a module or something inside one."""


class Budget(msgspec.Struct):
    """What may still be read; several searches can share one."""

    files: int = MAX_FILES
    bytes: int = MAX_ALL_BYTES


def encodable(name: str) -> bool:
    """Whether a file can have this name: a lone surrogate can't be part of one."""
    if name.isascii():
        return True
    try:
        os.fsencode(name)
    except UnicodeEncodeError:
        return False
    return True


def imports(source: bytes) -> tuple[Imported, ...]:
    """What a source imports, inside functions too. Nothing when it can't be parsed."""
    tree = _parsed(source)
    if tree is None:
        return ()
    nodes = _statements(tree) if _by_statements_only(source) else _walk(tree)
    return tuple(dict.fromkeys(one for node in nodes for one in _imported(node)))


def local_files(
    start: Iterable[str],
    roots: Iterable[str],
    budget: Budget,
    source: bytes = b"",
    top: str = "",
    look: Look | None = None,
) -> tuple[str, ...]:
    """The files that the `start` files, and `source`, import from `roots`, with what those import in turn.

    Also paths where nothing lies now, but where a file would be taken instead: `json.py` beside a script that imports
    json. Where the module is sought is decided as Python does: a package before a module, an earlier root first.
    A file that touches `sys.path` is believed to add the folders around it, up to `top`.
    """
    return _Walk(tuple(dict.fromkeys(roots)), budget, look or Look(), top).files(tuple(start), source)


def module_files(module: str, roots: Iterable[str], budget: Budget, look: Look | None = None) -> tuple[str, ...]:
    """The places of one module as `python -m` or a `module:function` seeks it, with all that it imports."""
    walk = _Walk(tuple(dict.fromkeys(roots)), budget, look or Look())
    walk.take(Imported(module), "")
    walk.take(Imported(f"{module}.__main__", certain=False), "")
    return walk.files((), b"")


def shadows(root: str, look: Look) -> list[str]:
    """The files of a folder that Python would take for modules of its standard library."""
    found = []
    for name in sorted(look.names(root) or ()):
        path = os.path.join(root, name)
        if name.endswith(".py") and name[:-3] in sys.stdlib_module_names:
            found.append(path)
        elif name in sys.stdlib_module_names and look.regular(os.path.join(path, "__init__.py")):
            found.append(os.path.join(path, "__init__.py"))
    return found


class _Walk:
    """One search: the files found so far, and those still to be read."""

    def __init__(self, roots: tuple[str, ...], budget: Budget, look: Look, top: str = "") -> None:
        self.roots = roots
        self.look = look
        self.top = top
        self.found: dict[str, None] = {}
        self.unread: deque[str] = deque()
        self.seen: set[str] = set()
        self.budget = budget

    def files(self, start: tuple[str, ...], source: bytes) -> tuple[str, ...]:
        self.read(source, "")
        self.unread.extend(start)
        while self.unread and self.budget.files > 0 and self.budget.bytes > 0:
            path = self.unread.popleft()
            if path in self.seen:
                continue
            self.seen.add(path)
            data = self.look.read(path, MAX_BYTES).data
            self.budget.files -= 1
            self.budget.bytes -= len(data)
            self.read(data, path)
        self.shadows()
        return tuple(self.found)

    def shadows(self) -> None:
        """What lies where Python looks first and is called like a module of its own: whatever the standard library
        imports by that name would be this file."""
        for root in self.roots:
            self.found |= dict.fromkeys(shadows(root, self.look))

    def read(self, source: bytes, path: str) -> None:
        if b"sys.path" in source and path and self.top:
            self.roots = tuple(dict.fromkeys((*self.roots, *_around(os.path.dirname(path), self.top))))
        known = self.look.imports
        if source not in known and len(source) <= MAX_KEPT:
            known[source] = imports(source)
        for one in known[source] if source in known else imports(source):
            self.take(one, path)

    def take(self, one: Imported, path: str) -> None:
        """Note where an imported name would be found, and queue what is there."""
        parts = one.module.split(".") if one.module else []
        if not all(part and not set(part) & _NO_NAME for part in parts) or not encodable(one.module):
            return
        if one.level:
            folder = os.path.dirname(path)
            for _ in range(one.level - 1):
                folder = os.path.dirname(folder)
            self.seek(parts, (folder,), one.certain)
        elif parts and parts[0] not in sys.builtin_module_names:
            self.seek(parts, self.roots, one.certain)

    def seek(self, parts: list[str], folders: tuple[str, ...], certain: bool) -> None:
        noted: list[str] = []
        for part in parts:
            within = folders
            folders = ()
            for folder in within:
                places, there = self.places(folder, part)
                noted += places if certain or there else []
                sources = [place for place in there[:1] if place.endswith(".py")]
                self.unread.extend(sources)
                noted += [compiled for source in sources for compiled in _unchecked(source)]
                if there or self.look.folder(os.path.join(folder, part)):
                    folders = (*folders, os.path.join(folder, part))
                if there:
                    break
            if not folders:
                break
        for place in noted:
            self.found.setdefault(place)

    def places(self, folder: str, name: str) -> tuple[list[str], list[str]]:
        """Where Python looks for a module in one folder, in its order, the rarest of them only where they exist; and
        those where a file is."""
        base = os.path.join(folder, name)
        inside = os.path.join(base, "__init__")
        usual = [f"{inside}.py", *(base + suffix for suffix in _USUAL)]
        names = self.look.names(folder)
        if names is not None and name.isascii() and names.isdisjoint([name, *(name + end for end in _SUFFIXES)]):
            return usual, []
        every = [f"{stem}{suffix}" for stem in (inside, base) for suffix in _SUFFIXES]
        places = [place for place in every if place in usual or self.look.state(place) is not None]
        return places, [place for place in places if self.look.regular(place)]


def _unchecked(source: str) -> list[str]:
    """Compiled files that Python runs without a look at their source, which then decides nothing."""
    folder, name = os.path.split(source)
    cache = os.path.join(folder, "__pycache__")
    try:
        found = sorted(os.listdir(cache))
    except OSError:
        return []
    stem = name.removesuffix("py")
    compiled = [os.path.join(cache, one) for one in found if one.startswith(stem) and one.endswith(".pyc")]
    return [path for path in compiled if _head(path)[4:8] == b"\1\0\0\0"]


def _head(path: str) -> bytes:
    """How a regular file begins; nothing of anything else."""
    try:
        file = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except (OSError, ValueError):
        return b""
    try:
        found = os.fstat(file)
        return os.read(file, 8) if stat.S_ISREG(found.st_mode) and found.st_size <= MAX_COMPILED else b""
    except OSError:
        return b""
    finally:
        os.close(file)


def _around(folder: str, top: str) -> Iterator[str]:
    """A folder and those around it, up to `top`."""
    for _ in range(MAX_PARENTS):
        yield folder
        if folder in (top, os.path.dirname(folder)):
            return
        folder = os.path.dirname(folder)


def _parsed(source: bytes) -> "ast.Module | None":
    if b"import" not in source:
        return None
    import ast
    import warnings

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ast.parse(source)
    except Exception:  # whatever is wrong with somebody's file, it then has no imports
        return None


def _by_statements_only(source: bytes) -> bool:
    """Whether nothing in it can be a call that imports; names may be spelled otherwise in other alphabets."""
    plain = source.isascii() and not any(b"coding" in line for line in source.split(b"\n", 2)[:2])
    return plain and b"__import__" not in source and b"import_module" not in source


def _walk(tree: "ast.AST") -> "Iterator[ast.AST]":
    import ast

    return ast.walk(tree)


def _statements(tree: "ast.AST") -> "Iterator[ast.AST]":
    """As `ast.walk`, in its order, but without expressions: these are most of a tree."""
    unseen: deque[ast.AST] = deque([tree])
    while unseen:
        node = unseen.popleft()
        yield node
        for name in _BLOCKS if hasattr(node, "body") else ("cases",):
            unseen.extend(getattr(node, name, ()))


def _imported(node: "ast.AST") -> Iterator[Imported]:
    import ast

    match node:
        case ast.Import(names):
            yield from (Imported(alias.name) for alias in names)
        case ast.ImportFrom(module, names, level):
            base = module or ""
            yield Imported(base, level or 0)
            for alias in names:
                yield Imported(f"{base}.{alias.name}" if base else alias.name, level or 0, certain=False)
        case ast.Call(ast.Name("__import__" | "import_module") | ast.Attribute(attr="import_module"), [first, *_]):
            if isinstance(first, ast.Constant) and isinstance(first.value, str):
                name = first.value.lstrip(".")
                yield Imported(name, len(first.value) - len(name))

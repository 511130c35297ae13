"""BH401 and BH405 for functions: `python: module:function` whose module or function is not there, can't be imported or
can't be called. Sources are only read: nothing is imported, so that nothing runs before it was approved.

Modules are looked for where a worker looks: in the hook's folder and its `.billhook` and `.claude`, then among what is
installed. What only a running program knows is taken to be there.
"""

import ast
import functools
import os
import re
import sys
import warnings
from collections.abc import Iterator
from contextlib import suppress
from importlib.machinery import EXTENSION_SUFFIXES
from importlib.util import find_spec

import msgspec

from billhook.config.declared import Declared, Python
from billhook.config.findings import Finding, nearest
from billhook.config.lint.files import text_of
from billhook.config.lint.found import finding

_OF_WORKERS = sys.stdlib_module_names | {"billhook", "msgspec"}
"""What a worker may have imported before it looks into a folder."""
_MAKES_NAMES = re.compile(r"\b(?:globals|locals|vars|exec|setattr)\s{0,9}\(|__getattr__|__dict__|sys\.modules")
"""Whoever uses these may define names that no statement shows."""
_HOMES = ("", ".billhook", ".claude")
_MOVERS = ("__path__", "sys.modules", "meta_path", "path_hooks")
"""Whoever uses these may have modules that no file shows."""


class Place(msgspec.Struct, frozen=True):
    """How far a dotted name leads."""

    found: int  # how many of its parts are there
    file: str = ""  # the source of the last one, if it has one
    folders: tuple[str, ...] = ()  # where the next part would be
    open: bool = False  # more of it may lie elsewhere, or only a running program knows


def lint_module(hook: Declared) -> Iterator[Finding]:
    """What is missing of a hook's function."""
    if not isinstance(hook.action, Python):
        return
    module, _, function = hook.action.target.partition(":")
    parts, wanted = module.split("."), function.partition(".")[0]
    if not all(part.isidentifier() for part in (*parts, wanted)) or parts[0] in _OF_WORKERS:
        return
    # a file that is named on a command line may be one of a project
    folders = (hook.module_folder, hook.folder) if hook.layer == "explicit" else (hook.module_folder,)
    roots = tuple(os.path.join(folder, home) if home else folder for folder in folders if folder for home in _HOMES)
    place = _follow(parts, roots)
    if place.found < len(parts):
        if not place.open and (place.found or not (hook.action.interpreter or _installed(parts[0]))):
            yield _no_module(hook, parts, place)
    elif place.file and not place.open:
        missing = list(_no_function(hook, module, wanted, place))
        yield from missing or _unusable(hook, module, function, place, roots)


def _follow(parts: list[str], roots: tuple[str, ...]) -> Place:
    """As Python does: a package before a module, an earlier folder first; folders without `__init__` add up."""
    place = Place(0, folders=roots)
    for part in parts:
        bases = [os.path.join(folder, part) for folder in place.folders]
        file = next((file for base in bases for file in _files(base) if os.path.isfile(file)), "")
        if file:
            place = _of_file(file, place)
            continue
        inside = tuple(base for base in bases if os.path.isdir(base))
        if not inside:
            break
        place = Place(place.found + 1, "", inside, place.open or (not place.found and _installed(part, inside)))
    return place


def _of_file(file: str, before: Place) -> Place:
    source = file.endswith(".py")
    folders = (os.path.dirname(file),) if os.path.basename(file).startswith("__init__.") else ()
    text = text_of(file) if source else None
    unknown = text is None or any(word in text for word in _MOVERS)
    return Place(before.found + 1, file if source else "", folders, before.open or unknown)


def _files(base: str) -> Iterator[str]:
    for stem in (os.path.join(base, "__init__"), base):
        yield from (f"{stem}{suffix}" for suffix in (*EXTENSION_SUFFIXES, ".py", ".pyc"))


def _installed(name: str, here: tuple[str, ...] = ()) -> bool:
    try:
        spec = find_spec(name)
    except (ImportError, ValueError, AttributeError):
        return True
    if spec is None or spec.origin is not None:
        return spec is not None
    known = {os.path.realpath(folder) for folder in here}
    return any(os.path.realpath(folder) not in known for folder in spec.submodule_search_locations or ())


def _no_module(hook: Declared, parts: list[str], place: Place) -> Finding:
    name, above = ".".join(parts[: place.found + 1]), ".".join(parts[: place.found])
    if not place.folders:
        return finding(hook, "BH401", "action", f"`{name}` does not exist: `{above}` is no package", "mend the name")
    where = f"in {place.folders[0]}" + ("" if place.found else " or among what is installed")
    near = nearest(parts[place.found], _modules_in(place.folders), 0.8)
    hint = f"create {place.folders[0]}/{parts[place.found]}.py, or mend the name"
    if near:
        hint = f"did you mean `{'.'.join((*parts[: place.found], near))}`?"
    return finding(hook, "BH401", "action", f"there is no module `{name}` {where}", hint)


def _modules_in(folders: tuple[str, ...]) -> set[str]:
    names: set[str] = set()
    for folder in folders:
        with suppress(OSError):
            names |= {name.removesuffix(".py") for name in os.listdir(folder)[:1000] if name.endswith(".py")}
    return names


def _no_function(hook: Declared, module: str, wanted: str, place: Place) -> Iterator[Finding]:
    names = _names_of(text_of(place.file) or "")
    if names is None or wanted in names or _follow([wanted], place.folders).found:
        return
    near = nearest(wanted, names)
    hint = f"did you mean `{module}:{near}`?" if near else f"define it in {place.file}, or mend the name"
    yield finding(hook, "BH401", "action", f"`{module}` has no `{wanted}`", hint)


def _unusable(hook: Declared, module: str, function: str, place: Place, roots: tuple[str, ...]) -> Iterator[Finding]:
    """A source that Python can't read, an import of what is not there, a function that takes something else."""
    source = text_of(place.file) or ""
    parsed = _parsed(source)
    interpreter = isinstance(hook.action, Python) and hook.action.interpreter
    if isinstance(parsed, SyntaxError):
        if not interpreter:  # which may be a later Python
            message = f"`{module}` can't be imported: {parsed.msg} ({place.file}:{parsed.lineno})"
            yield finding(hook, "BH405", "action", message, "fix the syntax")
    elif parsed is not None:
        imports = [] if interpreter else list(_imports(parsed))
        for name in dict.fromkeys(imported.partition(".")[0] for imported, _ in imports):
            if name not in _OF_WORKERS and not _follow([name], (*roots, *place.folders)).found and not _installed(name):
                hint = f"install it for {sys.executable}, or name another Python as `interpreter:`"
                message = f"`{module}` can't be imported: it imports `{name}`, which is not installed"
                yield finding(hook, "BH405", "action", message, hint)
        for imported, names in imports:
            for missing in _missing_names(imported, names, roots):
                message = f"`{module}` can't be imported: `{imported}` has no `{missing}`"
                yield finding(hook, "BH405", "action", message, f"fix the import in {place.file}")
        if problem := _signature_problem(parsed, function):
            hint = "it takes `(event)`, `(event, ctx)` or `(ctx)`"
            yield finding(hook, "BH405", "action", f"`{module}:{function}` can't be called: {problem}", hint)


@functools.lru_cache(maxsize=64)
def _parsed(source: str) -> ast.Module | SyntaxError | None:
    """None: that can't be told."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ast.parse(source)
    except SyntaxError as error:
        return None if "\ufffd" in source else error
    except Exception:
        return None


def _imports(module: ast.Module) -> Iterator[tuple[str, list[str]]]:
    """The modules that statements at the top import, come what may (not inside `try`, `if` or a function), and the
    names that they import from them."""
    if any(isinstance(node, ast.Expr | ast.Assign) and "path" in ast.dump(node) for node in module.body):
        return  # the source changes where modules are looked for
    for node in module.body:
        if isinstance(node, ast.Import):
            yield from ((alias.name, []) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module, [alias.name for alias in node.names]


def _missing_names(module: str, imported: list[str], roots: tuple[str, ...]) -> list[str]:
    """Names that are imported from a file of ours that does not have them."""
    parts = module.split(".")
    place = _follow(parts, roots) if imported and parts[0] not in _OF_WORKERS else Place(0)
    if place.found < len(parts) or not place.file or place.open:
        return []
    names = _names_of(text_of(place.file) or "")
    absent = [] if names is None else [name for name in imported if name not in {*names, "*"}]
    return [name for name in absent if not _follow([name], place.folders).found]


def _signature_problem(module: ast.Module, name: str) -> str:
    last = next((node for node in reversed(module.body) if name in _bound(node)), None)
    if isinstance(last, ast.FunctionDef | ast.AsyncFunctionDef):
        return _arguments_problem(last.args) if last.name == name and not last.decorator_list else ""
    if not isinstance(last, ast.Assign | ast.AnnAssign) or not isinstance(last.value, _NO_FUNCTIONS):
        return ""
    if isinstance(last.value, ast.Lambda):
        return _arguments_problem(last.value.args)
    targets = last.targets if isinstance(last, ast.Assign) else [last.target]
    return "it is not a function" if all(isinstance(one, ast.Name) for one in targets) else ""


_NO_FUNCTIONS = (ast.Lambda, ast.Constant, ast.JoinedStr, ast.Dict, ast.List, ast.Set, ast.Tuple)
"""What an assignment says about the value at once: it is no function, or it is this one."""


def _arguments_problem(given: ast.arguments) -> str:
    positional = [*given.posonlyargs, *given.args]
    required = len(positional) - len(given.defaults)
    if required > 2:
        return f"it requires {required} arguments"
    if not positional and given.vararg is None:
        return "it takes no arguments"
    keywords = [arg.arg for arg, default in zip(given.kwonlyargs, given.kw_defaults, strict=True) if default is None]
    return f"it requires the keyword `{keywords[0]}`" if keywords else ""


def _bound(node: ast.stmt) -> set[str]:
    inner = list(ast.walk(node))
    names = {one.id for one in inner if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Store)}
    names |= {one.asname or one.name for one in inner if isinstance(one, ast.alias)}
    return names | {one.name for one in inner if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)}


@functools.lru_cache(maxsize=64)
def _names_of(source: str) -> frozenset[str] | None:
    """The names at the top of a source; None when that can't be told. Read once: many hooks may name one module."""
    parsed = None if "\ufffd" in source or _MAKES_NAMES.search(source) else _parsed(source)
    try:
        return frozenset(_defined(parsed)) if isinstance(parsed, ast.Module) else None
    except LookupError:  # a star import
        return None


def _defined(module: ast.Module) -> Iterator[str]:
    """Every name that a statement outside of functions and classes may bind. LookupError: a star may bind any."""
    unseen: list[ast.AST] = [module]
    while unseen:
        node = unseen.pop()
        match node:
            case ast.FunctionDef(name) | ast.AsyncFunctionDef(name) | ast.ClassDef(name):
                yield name
                yield from (one for inner in ast.walk(node) if isinstance(inner, ast.Global) for one in inner.names)
                continue
            case ast.alias("*"):
                raise LookupError
            case ast.alias(name, called):
                yield called or name.partition(".")[0]
            case ast.Name(name, ast.Store()):
                yield name
            case ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)) | ast.MatchMapping(rest=str(name)):
                yield name
        unseen.extend(ast.iter_child_nodes(node))

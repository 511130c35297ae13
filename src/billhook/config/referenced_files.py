"""Find the local files that determine what a hook does, and the local modules that a Python source imports.

Nothing is run. Imports matter only for files outside of the folders that are covered anyway, so the search errs towards
more: everything that looks like an import counts, in a comment too. Names that only the running program knows
(`__import__(name)`) are not found. In shell text, variables are replaced as far as their values are known.
"""

import itertools
import os
import re
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from importlib.machinery import EXTENSION_SUFFIXES
from typing import Final, NamedTuple

import msgspec

from billhook.config import approval_scope
from billhook.config.approval_scope import MAGIC, Kind, Patterns
from billhook.config.declaration import Action, Exec, FixedAnswer, Python, RunAction
from billhook.config.sources import MAX_CACHED, FileSnapshot
from billhook.core import client_env
from billhook.effects import programs, script, shell
from billhook.effects.effect import UNKNOWN
from billhook.effects.programs import SUFFIXES

MAX_PARENTS: Final = 8
MAX_ROOTS: Final = 32
MAX_IMPORTS: Final = 5_000
_SUFFIXES: Final = (".py", ".pyc", *EXTENSION_SUFFIXES)
# without backtracking: a hostile source must not take long
_FROM: Final = re.compile(
    r"\bfrom[ \t]++(\.*+)[ \t]*+((?:(?!import\b)[\w.]++)?)[ \t]*+import\b[ \t]*+(?:\(([^()]{0,10000})|([^\n;#]*+))"
)
_IMPORT: Final = re.compile(r"(?<![\w.])import[ \t]++([^\n;#()]++)")
_CALL: Final = re.compile(r"""\b(?:__import__|import_module)\(\s*["'](\.*)([\w.]+)["']""")
_FOLDER: Final = re.compile(r"""["']([\w.@+-][\w./@+-]*)["']""")
_STARTUP: Final = frozenset({"sitecustomize", "usercustomize"})


class ImportedName(NamedTuple):
    """One name that a source imports."""

    module: str
    level: int = 0  # the dots of a relative import


def imports(source: str) -> tuple[ImportedName, ...]:
    """The modules that a source may import, without duplicates."""
    text = source.replace("\\\n", " ")
    found: list[ImportedName] = []
    for dots, module, several, names in _FROM.findall(text):
        found.append(ImportedName(module, len(dots)))
        if not module:  # `from . import a, b`
            found += [ImportedName(name, len(dots)) for name in _names(several or names)]
    found += [ImportedName(name) for names in _IMPORT.findall(text) for name in _names(names)]
    found += [ImportedName(module, len(dots)) for dots, module in _CALL.findall(text)]
    return tuple(dict.fromkeys(found))[:MAX_IMPORTS]


def _names(text: str) -> list[str]:
    return [part.split()[0] for part in text.split(",") if part.strip()]


def roots_of(source: str, path: str, top: str, look: FileSnapshot) -> Iterator[str]:
    """The folders that a source may add to `sys.path`: the folders above it up to `top`, and those that it names."""
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
    """A folder and those above it, up to `top`."""
    for _ in range(MAX_PARENTS):
        yield folder
        if folder in (top, os.path.dirname(folder)):
            return
        folder = os.path.dirname(folder)


def places(one: ImportedName, path: str, roots: Iterable[str], look: FileSnapshot) -> Iterator[str]:
    """The files that an import may load; for a whole package, its folder."""
    parts = [part for part in one.module.split(".") if part.isidentifier()]
    if one.level:
        folder = os.path.dirname(path)
        for _ in range(one.level - 1):
            folder = os.path.dirname(folder)
        roots = (folder,)
    for root in roots:
        yield from _in(root, parts, look)


def _in(folder: str, parts: list[str], look: FileSnapshot) -> Iterator[str]:
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


def shadows(root: str, look: FileSnapshot) -> Iterator[str]:
    """The files of a folder on Python's path that shadow its standard library, or that it runs at startup."""
    for name in sorted(look.names(root) or ()):
        stem, dot, _ = name.partition(".")
        if stem in sys.stdlib_module_names or stem in _STARTUP:
            path = os.path.join(root, name)
            if name.endswith(_SUFFIXES):
                yield path
            elif not dot and look.regular(os.path.join(path, "__init__.py")):
                yield os.path.join(path, "__init__.py")


# The local files that determine what a hook does:


MAX_SCRIPTS: Final = 500
MAX_SHELL: Final = 1 << 20
MAX_SCRIPT: Final = 8 << 20
MAX_ALL_SCRIPTS: Final = 32 << 20
MAX_FOLDERS: Final = 16
MAX_FOUND: Final = 20_000
MAX_UNCOVERED: Final = 20

_SYSTEM = re.compile(r"/(?:bin|sbin|usr|lib[^/]*|opt|nix|etc|dev|proc|sys)(?:/|$)")
_WRITTEN_BY_HOOKS: Final = (".log", ".jsonl", ".tmp", ".out")
_SHEBANG = re.compile(rb"#![ \t]*([^\n]*)")
_LOOP: Final = re.compile(r"\b(?:for|select)\s+\w+\s+in\s+([^;\n]{1,2000})")
_SEPARATORS = re.compile(r"[;|&(){}`\n]")
_BESIDE: Final = re.compile(r"""["'](\.{1,2}/[\w./@+-]+)["']|\brequire_relative[ \t(]+["']([\w./-]+)["']""")
_ENDINGS: Final = ("", ".js", ".mjs", ".cjs", ".ts", ".json", ".rb", "/index.js", "/index.ts")


class References(NamedTuple):
    """The files that a hook depends on."""

    files: tuple[str, ...]  # named, imported or sourced files
    trees: dict[str, tuple[str, ...]]  # by folder: the files that are covered because they are in it or below
    plain: tuple[str, ...]  # files in these folders that would be covered if they became executable
    watched: dict[str, Kind]  # the folders in which a new file would be covered
    uncovered: tuple[str, ...] = ()  # what it may run that is not among the files, each with the reason


def named(action: Action | None, folder: str, look: FileSnapshot) -> References:
    """The files that determine what `action` does, as absolute paths without duplicates; programs and scripts even if
    they do not exist (yet). Never raises and runs nothing; reads a limited number of regular files."""
    scan = _FileScan(os.path.abspath(folder), look)
    match action:
        case RunAction(text) | FixedAnswer(command=text):
            scan.text(text)
        case Exec(argv):
            scan.text(" ".join("'" + word.replace("'", "'\"'\"'") + "'" for word in argv))
        case Python(target, interpreter):
            scan.python(target, interpreter)
    return scan.finished()


class _FileScan:
    """One search: the paths found, and the scripts still to be read."""

    def __init__(self, folder: str, look: FileSnapshot) -> None:
        self.folder = folder
        self.look = look
        self.real_folder = look.real(folder)
        self.home = client_env.expanduser("~")
        self.direct = True
        """The text is the hook's command, not a script: the folders of the scripts that it names are covered."""
        self.found: dict[str, None] = {}
        self.trees: dict[str, Kind] = {}
        self.watched: dict[str, Kind] = {}
        self.unread: deque[tuple[str, str]] = deque()  # scripts that may name more files, and their languages
        self.queued: set[str] = set()
        self.sought: set[str] = set()
        self.roots: dict[str, None] = {}  # where Python looks for modules
        self.imported: dict[ImportedName, None] = {}
        self.resolved: set[tuple[ImportedName, str]] = set()
        self.bytes, self.scripts = MAX_ALL_SCRIPTS, MAX_SCRIPTS
        self.patterns = Patterns(folder, look)
        self.uncovered: dict[str, None] = {}

    def finished(self) -> References:
        while self.unread or self.resolve():
            path, kind = self.unread.popleft()
            self.scripts -= 1
            if self.scripts < 0 or self.bytes < 0:
                self.note("it names too many scripts: what the others run is not covered")
                break
            self.follow(path, kind)
        for root in self.roots:
            self.add_all(shadows(root, self.look))
            self.watched.setdefault(root, "code")
        trees, plain = self.grown()
        self.watched |= dict.fromkeys(self.patterns.listed, "all")
        files = tuple(path for path in self.found if not self.look.folder(path))
        return References(files, trees, plain, self.watched, tuple(self.uncovered))

    def grown(self) -> tuple[dict[str, tuple[str, ...]], tuple[str, ...]]:
        """The files in the covered folders, and Python's caches of modules in other folders."""
        trees: dict[str, tuple[str, ...]] = {}
        plain: dict[str, None] = {}
        seen = set(self.found)
        folders = dict.fromkeys(os.path.dirname(path) for path in self.found if path.endswith(".py"))
        caches = [os.path.join(folder, approval_scope.CACHE) for folder in folders if not self.in_tree(folder)]
        caches = [cache for cache in caches if self.look.folder(cache) and self.inside(cache)]
        for folder, kind in (*self.trees.items(), *((cache, "code") for cache in caches)):
            tree = approval_scope.walk(folder, kind, self.folder, self.look)
            if tree is None:
                self.note(f"{folder}: too many or too large files; only the named files are covered")
                continue
            trees[folder] = tuple(path for path in tree.files if path not in seen)
            seen.update(tree.files)
            plain |= dict.fromkeys(path for path in tree.plain if path not in seen)
            self.watched |= {one: "all" if "all" in (kind, self.watched.get(one)) else "code" for one in tree.folders}
            for text in tree.left_out:
                self.note(text)
        return {folder: files for folder, files in trees.items() if files}, tuple(plain)

    def resolve(self) -> bool:
        """Search the known folders for imported modules. Returns whether there is more to read."""
        for one, root in itertools.product(tuple(self.imported), tuple(self.roots)):
            if (one, root) not in self.resolved:
                self.resolved.add((one, root))
                self.modules(one, "", (root,), self.take)
        return bool(self.unread)

    def modules(self, one: ImportedName, path: str, roots: tuple[str, ...], take: Callable[[str, str], None]) -> None:
        """Add an imported module. An imported package is covered as a whole."""
        for place in places(one, path, roots, self.look):
            if not self.look.folder(place):
                take(place, "module")
            elif self.cover(place):
                tree = approval_scope.walk(place, "code", self.folder, self.look)
                for file in tree.files if tree is not None else ():
                    if file.endswith(".py"):
                        self.enqueue(file, "module")

    def follow(self, path: str, kind: str) -> None:
        state = self.look.state(path)
        if state is not None and state.st_size > MAX_SCRIPT:
            self.note(f"{path}: too long to find what it runs or imports")
        data = self.look.read(path, MAX_SCRIPT).data
        self.bytes -= len(data)
        shebang = _SHEBANG.match(data)
        if shebang:
            for command in shell.parse(os.fsdecode(shebang[1])).commands:
                self.direct = False
                self.words(command.words, (self.folder,))
        kind = programs.kind(path, os.fsdecode(shebang[0]) if shebang else "", kind)
        if kind in ("python", "module"):
            self.source(os.fsdecode(data), path, kind)
        elif b"\0" in data or kind == "none":
            return
        elif kind == "shell" and len(data) > MAX_SHELL:
            self.note(f"{path}: too long to find what it runs")
        elif kind == "shell":
            self.text(os.fsdecode(data), path)
        else:
            self.beside(os.fsdecode(data), path)

    def source(self, source: str, path: str, kind: str) -> None:
        """Scan a Python source. The folder of a script is the first in which Python looks for modules."""
        if kind == "python":
            self.add_roots(os.path.dirname(self.look.real(path)), os.path.dirname(path))
        self.add_roots(*roots_of(source, path, self.folder, self.look))
        self.started(source, path)
        for one in imports(source):
            if one.level:
                self.modules(one, path, (), self.take)
            else:
                self.imported.setdefault(one)

    def add_roots(self, *folders: str) -> None:
        self.roots |= dict.fromkeys(folder for folder in folders if self.counts(folder))

    def beside(self, source: str, path: str) -> None:
        """`require("./lib/x")`: files that a script of another language names relative to its folder."""
        self.started(source, path)
        for relative, ruby in _BESIDE.findall(source):
            base = os.path.normpath(os.path.join(os.path.dirname(path), relative or ruby))
            for place in (base + ending for ending in _ENDINGS):
                if self.look.regular(place):
                    self.take(place, "")
                    break

    def started(self, source: str, path: str) -> None:
        """`subprocess.run(["sh", "lib/x.sh"])`: scripts that it starts, relative to the project or a folder above."""
        folders = (self.folder, *around(os.path.dirname(path), self.folder))
        for scripts, text in approval_scope.started(source):
            places = [place for name in scripts for place in self.expand(name, folders)]
            there = [place for place in places if self.look.regular(place) and self.inside(place)]
            for place in there:
                self.take(place, "")
            if not there:
                self.note(f"{path}: `{' '.join(text.split())[:60]}`: what it runs is known only at run time")

    def python(self, target: str, interpreter: str) -> None:
        module = target.partition(":")[0]
        if interpreter:
            self.program(interpreter, (self.folder,))
        if "/" in module or module.endswith(".py"):
            self.scripts_named(module.removesuffix(".py") + ".py", "python", (self.folder,))
            return
        self.module((module,), (self.folder, *(os.path.join(self.folder, name) for name in (".billhook", ".claude"))))

    def text(self, text: str, path: str = "") -> None:
        """Scan shell text. For a script, which has a `path`, only files that it sources or runs are covered."""
        known = self.known(text, path)
        commands = known.commands
        self.direct = not path
        self.variables(commands)
        folders: tuple[str, ...] = (self.folder,)
        writes = [word for one in commands for word in (*programs.written_words(one.words), *one.written)]
        # files that it writes are the hook's data
        written = None if path else {place for word in writes for place in self.paths(word, folders)}
        in_order = not _SEPARATORS.search(known.text.replace("&&", ""))
        if not in_order:  # a subshell may end or a `cd` fail: each folder is possible everywhere
            for command in commands:
                folders = self.moved(command, folders, keep=True)
        for command in commands:
            folders = self.moved(command, folders, keep=False) if in_order else folders
            self.command(command, folders, written)
        self.fed(known.text, folders)
        runs = list(filter(programs.runs_what_it_is_given, commands))
        if runs and not self.given(known, folders):
            for command in runs:
                self.note(f"`{command.text.replace(UNKNOWN, '*')[:60]}`: what it runs is known only at run time")

    def known(self, text: str, path: str) -> "KnownVariables":
        key = (self.folder, path, text)
        known = self.look.texts.get(key) or with_known_values(text, self.folder, self.home, path)
        if len(text) <= MAX_CACHED:
            self.look.texts[key] = known
        return known

    def moved(self, command: shell.SimpleCommand, folders: tuple[str, ...], keep: bool) -> tuple[str, ...]:
        if programs.program(command.words) not in ("cd", "pushd") or (keep and len(folders) >= MAX_FOLDERS):
            return folders
        operands = [word for word in command.words[1:] if not word.startswith("-")] or ["~"]
        moved = self.paths(operands[0], folders)
        return tuple(dict.fromkeys((*folders, *moved) if keep else moved or folders))[:MAX_FOLDERS]

    def command(self, command: shell.SimpleCommand, folders: tuple[str, ...], written: set[str] | None) -> None:
        """Add the files that one command names. Its plain arguments count only if `written` is given, and not those in
        it."""
        self.words(command.words, folders)
        if written is not None:
            for word in programs.read_words(command.words):
                self.argument(word, folders, written)
        for redirect in command.redirects:
            if redirect.operator in ("<", "<>"):
                kind = programs.language_of(command.name)
                if kind:
                    self.scripts_named(redirect.target, kind, folders)
                elif written is not None:
                    self.argument(redirect.target, folders, written)

    def words(self, words: tuple[str, ...], folders: tuple[str, ...]) -> None:
        for _ in range(4):
            rest = programs.run_by(words)
            if not rest:
                break
            self.environment(approval_scope.environment_of(os.path.join(self.folder, ".venv"), self.look))
            if rest[0] == "-m":
                self.module(rest[1:], folders)
                return
            if rest[0].endswith(SUFFIXES):
                self.scripts_named(rest[0], "", folders)
                return
            words = rest
        if not words:
            return
        self.program(words[0], folders)
        name = programs.program(words)
        if name in programs.READS_PROGRAM:
            for option, value in itertools.pairwise(words):
                if option in ("-f", "--file", "--from-file"):
                    self.scripts_named(value, "none", folders)
        if name in programs.RUNS_PROJECT:
            self.instructions(words, folders)
        interpreter = "python" if programs.PYTHON.fullmatch(name) else name
        if interpreter in programs.INTERPRETERS:
            self.interpreted(interpreter, words[1:], folders)

    def instructions(self, words: tuple[str, ...], folders: tuple[str, ...]) -> None:
        name = programs.program(words)
        files = programs.RUNS_PROJECT[name]
        values = [value for word in words[1:] for value in (word, word.partition("=")[2], word[2:])]
        elsewhere = [path for value in values for path in self.paths(value, folders) if self.look.folder(path)]
        for folder, file in itertools.product((*folders, *elsewhere), files):
            if self.look.regular(os.path.join(folder, file)):
                self.take(os.path.join(folder, file), "none")
        what = f": only {' or '.join(files[:2])} is covered" if files else ""
        self.note(f"code of the project that `{name}` runs{what}")

    def interpreted(self, interpreter: str, words: tuple[str, ...], folders: tuple[str, ...]) -> None:
        operand, code, module = programs.operand(words, programs.INTERPRETERS[interpreter])
        # `perl -I lib`, `node --require=./x.js`
        for word in itertools.takewhile(lambda word: word not in (operand, code, module), words):
            for value in (word, word.partition("=")[2], word[2:]):
                self.loaded(value, folders)
        if module and interpreter == "python":
            self.module((module,), folders)
        elif code is not None and interpreter == "python":
            self.code(code, folders)
        elif code is None and not module and operand:
            self.scripts_named(operand, programs.language_of(interpreter), folders)

    def loaded(self, word: str, folders: tuple[str, ...]) -> None:
        """A file that a program loads before its script, or a folder in which it looks for modules."""
        for path in self.paths(word, folders) if not word.startswith("-") else ():
            if self.look.folder(path):
                self.cover(path)
            elif self.look.regular(path) or ("/" in word and word.endswith(SUFFIXES)):
                self.take(path, "")

    def code(self, code: str, folders: tuple[str, ...]) -> None:
        self.add_roots(*folders)
        self.source(code.replace(UNKNOWN, "_"), os.path.join(self.folder, "-"), "code")

    def fed(self, text: str, folders: tuple[str, ...]) -> None:
        """`python3 - <<EOF`: a program that Python gets on stdin."""
        for command in script.read(text).commands if "<<" in text else ():
            if programs.PYTHON.fullmatch(programs.program(command.words)):
                for redirect in command.redirects:
                    self.code(redirect.body or "", folders)

    def module(self, names: tuple[str, ...], folders: tuple[str, ...]) -> None:
        """`python -m name`: a local module is the script."""
        self.add_roots(*folders)
        for name in names[:1]:
            self.modules(ImportedName(name), "", tuple(self.roots), self.script)

    def program(self, word: str, folders: tuple[str, ...]) -> None:
        if UNKNOWN in word:
            self.unknown(word, folders)
        elif "/" in word or word.startswith("~"):
            for path in self.paths(word, folders):
                self.script(path, "program")
        elif word not in self.sought and _is_valid_path(word):
            self.sought.add(word)
            self.on_path(word)

    def unknown(self, word: str, folders: tuple[str, ...]) -> None:
        """A script whose name only the shell knows: if its folder is known, all files in it are covered."""
        above = word.partition(UNKNOWN)[0].rpartition("/")[0]
        for path in self.paths(above, folders):
            if self.look.folder(path):
                self.cover(path, "all")

    def on_path(self, name: str) -> None:
        """A program without a folder is covered if PATH has a folder of the project, even if it does not exist there
        yet."""
        for folder, inside in self.path_folders():
            path = os.path.join(folder, name)
            there = os.access(path, os.X_OK) and not self.look.folder(path)
            if inside:
                (self.script if there else self.take)(path, "program")
            if there:
                return

    def path_folders(self) -> list[tuple[str, bool]]:
        if self.folder not in self.look.path_folders:
            entries = client_env.environ().get("PATH", "").split(os.pathsep)
            folders = [os.path.normpath(os.path.join(self.folder, entry)) for entry in entries]
            found = [(folder, self.inside(folder)) for folder in folders]
            while found and not found[-1][1]:
                found.pop()
            self.look.path_folders[self.folder] = found
        return self.look.path_folders[self.folder]

    def scripts_named(self, word: str, kind: str, folders: tuple[str, ...]) -> None:
        if UNKNOWN in word:
            self.unknown(word, folders)
            return
        paths = self.expand(word, folders)
        if "/" in word or word.endswith(SUFFIXES) or any(map(self.look.state, paths)):
            for path in paths:
                self.script(path, kind)

    def given(self, known: "KnownVariables", folders: tuple[str, ...]) -> bool:
        """`cat d/*.sh | sh`, `find d -exec sh {} +`, `for f in d/*; do sh "$f"; done`: all files there are run.
        False if no such files are named."""
        words = [word for command in known.commands for word in programs.given_words(command.words)]
        for loop in _LOOP.findall(known.text):
            words += [re.sub("[\"']", "", word).translate(known.values) for word in loop.split()]
        paths = [path for word in words if "$" not in word for path in self.expand(word, folders)]
        for path in paths:
            if self.look.folder(path):
                self.cover(path, "all")
            elif self.look.regular(path):
                self.take(path, "")
        return bool(paths)

    def expand(self, word: str, folders: tuple[str, ...]) -> list[str]:
        """The paths that a word of the shell matches now. A pattern that can't be searched completely is noted."""
        paths = self.paths(word, folders)
        if not MAGIC.search(word):
            return paths
        found: list[str] = []
        for path in paths:
            files, problem = self.patterns.matches(path)
            found += files
            if problem:
                self.note(f"{word}: {problem}")
        return found

    def argument(self, word: str, folders: tuple[str, ...], written: set[str]) -> None:
        for path in self.paths(word, folders):
            if self.look.regular(path) and path not in written and not path.endswith(_WRITTEN_BY_HOOKS):
                self.take(path, "")

    def script(self, path: str, kind: str) -> None:
        self.take(path, kind)
        if self.look.folder(path):  # `python3 folder`
            self.cover(path)
        elif self.direct and self.counts(path) and self.look.regular(path):
            for folder in dict.fromkeys((os.path.dirname(path), os.path.dirname(self.look.real(path)))):
                self.cover(folder)

    def take(self, path: str, kind: str) -> None:
        if self.counts(path):
            self.found.setdefault(path)
            self.environment(approval_scope.environment_of(os.path.dirname(path), self.look))
            if kind != "none":
                self.enqueue(path, kind)

    def enqueue(self, path: str, kind: str) -> None:
        if path not in self.queued:
            self.queued.add(path)
            self.unread.append((path, kind))

    def environment(self, root: str) -> None:
        if root and root not in self.sought and self.inside(root):
            self.sought.add(root)
            self.add_all(approval_scope.startup_files(root, self.look))
            self.watched |= dict.fromkeys(approval_scope.package_folders(root, self.look), "code")
            self.note(f"{root}: installed packages")

    def cover(self, folder: str, kind: Kind = "code") -> bool:
        """Cover a folder and everything below it. Returns False, and notes the reason, if that is impossible."""
        if not self.inside(folder):
            why = "it is outside of the project; only the named files are covered"
        elif self.above(folder):
            self.note("other files in the project's top folder: only named, imported or sourced files are covered")
            return False
        elif approval_scope.is_installed(folder, self.look):
            why = "installed packages"
        elif self.in_tree(folder) and kind != "all":
            return True
        elif len(self.trees) >= MAX_FOLDERS:
            why = "too many folders"
        else:
            self.trees[folder] = kind
            return True
        self.note(f"{folder}: {why}")
        return False

    def above(self, folder: str) -> bool:
        folders = (folder.rstrip("/") + "/", self.look.real(folder).rstrip("/") + "/")
        return any(f"{top}/".startswith(one) for top in (self.folder, self.real_folder) for one in folders)

    def in_tree(self, folder: str) -> bool:
        return any(f"{folder}/".startswith(f"{tree}/") for tree in self.trees)

    def add_all(self, paths: Iterator[str]) -> None:
        for path in paths:
            if self.counts(path):
                self.found.setdefault(path)

    def note(self, text: str) -> None:
        if len(self.uncovered) < MAX_UNCOVERED:
            self.uncovered.setdefault(text.replace(f"{self.folder}/", ""))

    def counts(self, path: str) -> bool:
        return len(self.found) < MAX_FOUND and (not _SYSTEM.match(path) or self.inside(path))

    def inside(self, path: str) -> bool:
        if self.folder == "/":
            return not _SYSTEM.match(path) or not _SYSTEM.match(self.look.real(path))
        return self.below(path) or self.below(self.look.real(path))

    def below(self, path: str) -> bool:
        return any(path == top or path.startswith(top + "/") for top in (self.folder, self.real_folder))

    def paths(self, word: str, folders: tuple[str, ...]) -> list[str]:
        if not _is_valid_path(word):
            return []
        if word.startswith("~"):
            word = client_env.expanduser(word)
        found = [_normal(os.path.join(folder, word)) for folder in folders]
        return found if len(found) == 1 else list(dict.fromkeys(found))

    def variables(self, commands: tuple[shell.SimpleCommand, ...]) -> None:
        """`PYTHONPATH=lib`, `BASH_ENV=x.sh`: variables with files or folders that a program loads."""
        for command in commands:
            for name, _, value in (word.partition("=") for word in programs.variable_words(command)):
                if name == "PYTHONPATH":
                    paths = [path for entry in value.split(":") for path in self.paths(entry or ".", (self.folder,))]
                    self.add_roots(*filter(self.inside, paths))
                elif name in programs.LOADS:
                    for entry in re.split(r"[:\s=,]+", value):
                        self.loaded(entry, (self.folder,))


def _is_valid_path(word: str) -> bool:
    return 0 < len(word) <= 4096 and UNKNOWN not in word and not re.search("[\ud800-\udc7f\udd00-\udfff]", word)


def _normal(path: str) -> str:
    """The normal form of a path. `..` after a link is left as it is, because it leads elsewhere."""
    normal = os.path.normpath(path)
    with suppress(OSError, ValueError):
        if ".." in path and ".." in path.split("/") and os.path.realpath(normal) != os.path.realpath(path):
            return path
    return normal


# -- variables in shell text


_SELF: Final = r'"?\$(?:0|BASH_SOURCE\b|\{(?:0|BASH_SOURCE(?:\[0\])?)\})"?'
_PROJECT: Final = (
    r"\$(?:CLAUDE_PROJECT_DIR\b|\{CLAUDE_PROJECT_DIR(?::?[-=?][^{}]*)?\}"
    r"|\(\s*git rev-parse --show-toplevel(?:\s+2>\s*/dev/null)?(?:\s*\|\|\s*pwd)?\s*\))"
)
_HERE: Final = r"\$(?:PWD\b|\{PWD\}|\(\s*pwd(?:\s+-P)?\s*\))"
_HOME: Final = r"\$(?:HOME\b|\{HOME\})"
_OWN_FILE: Final = r"\$\(\s*(?:realpath|readlink\s+-f)\s+(?:--\s+)?" + _SELF + r"\s*\)"
_OWN_FOLDER: Final = (
    r"\$\(\s*dirname\s+(?:--\s+)?" + _SELF + r"\s*\)|\$\{(?:0|BASH_SOURCE(?:\[0\])?)%/\*\}|\$\{0:h\}|\$\{0:A:h\}"
)
_KNOWN_FOLDER: Final = r'"?([\uE000-\uF8FF][^\s"$`()]*)"?'
_ABSOLUTE: Final = (
    rf"\$\(\s*cd\s+(?:-P\s+)?(?:--\s+)?{_KNOWN_FOLDER}(?:\s*[12&]?>\s*/dev/null)?(?:\s*2>&1)?\s*&&\s*pwd(?:\s+-P)?\s*\)"
    rf"|\$\(\s*(?:realpath|readlink\s+-f)\s+(?:--\s+)?{_KNOWN_FOLDER}\s*\)"
)
_DEFAULT: Final = r"\$\{\w+:-([\w./~+@-]+)\}"
_VARIABLE: Final = r"\$(?:(\w+)|\{(\w+)\})"


class KnownVariables(msgspec.Struct, frozen=True):
    """A shell text with known variables."""

    text: str  # with a sign for each known value
    commands: tuple[shell.SimpleCommand, ...]  # with their words as far as they are known
    values: dict[int, str] = {}  # the value of each sign


def with_known_values(text: str, folder: str, home: str, script: str) -> KnownVariables:
    """Read a shell text that runs in `folder`; `script` is its file, if it has one."""
    if "$" not in text:  # no variables
        return KnownVariables(text, shell.parse(text).commands)
    reading = _VariableReplacer(text, folder, home, script)
    commands = reading.commands()
    return KnownVariables(reading.text, commands, reading.table)


class _VariableReplacer:
    """Replaces known variables in shell text.

    A value is inserted as one character of Unicode's private area that the text does not contain, so that spaces and
    quotes in the value can't change how the text is parsed. After that the character is replaced by the value.
    """

    def __init__(self, text: str, folder: str, home: str, script: str) -> None:
        self.text = text
        self.free = (char for char in map(chr, range(0xE000, 0xF900)) if char not in text)
        self.values: dict[str, str] = {}
        self.table: dict[int, str] = {}
        if script:
            self.put(_OWN_FILE, script, "realpath", "readlink")
            for sign in (*self.values, ""):
                # `$(dirname "$0")`, and what was `$(dirname "$(realpath "$0")")`
                pattern = rf'\$\(\s*dirname\s+(?:--\s+)?"?{sign}"?\s*\)' if sign else _OWN_FOLDER
                self.put(pattern, os.path.dirname(script), "dirname", "${0", "${BASH_SOURCE")
        self.put(_PROJECT, folder, "CLAUDE_PROJECT_DIR", "show-toplevel")
        if ":-" in self.text:  # the default is used unless the variable is set
            self.text = re.sub(_DEFAULT, r"\1", self.text)
        self.put(_HOME, home, "HOME")
        self.absolute()
        self.put(_HERE, ".", "PWD", "pwd")

    def put(self, pattern: str, value: str, *words: str) -> None:
        """Insert a value where the pattern matches. Compiling a pattern is slow, so it is tried only if the text has
        one of `words`, as every match does."""
        if any(word in self.text for word in words) and re.search(pattern, self.text):
            sign = self.sign(value)
            if sign:
                self.text = re.sub(pattern, sign, self.text)

    def sign(self, value: str) -> str:
        """The character that represents a value from now on; empty if there are no more."""
        sign = next(self.free, "")
        if sign:
            self.values[sign] = self.table[ord(sign)] = value
        return sign

    def absolute(self) -> None:
        """Replace `$(cd FOLDER && pwd)` and `$(realpath FOLDER)` if the folder is known."""
        if self.values and any(word in self.text for word in ("pwd", "realpath", "readlink")):
            self.text = re.sub(_ABSOLUTE, self.inner, self.text)

    def inner(self, found: re.Match[str]) -> str:
        folder = next(group for group in found.groups() if group)
        return folder if folder[0] in self.values else found[0]

    def commands(self) -> tuple[shell.SimpleCommand, ...]:
        """The commands of the text, with their words as far as they are known."""
        tried: set[str] = set()
        for _ in range(8):
            commands = shell.parse(self.text).commands
            assigned = _assigned(commands)
            fresh = [name for name in assigned if name not in tried][:64]
            tried.update(fresh)
            if not self.put_variables({name: self.filled(assigned[name]) for name in fresh}):
                break
            self.absolute()
        return tuple(self.with_values(command) for command in commands) if self.table else commands

    def put_variables(self, values: dict[str, str]) -> bool:
        used = {found[1] or found[2] for found in re.finditer(_VARIABLE, self.text)} if values else ()
        signs = {name: sign for name in values if name in used and (sign := self.sign(values[name]))}
        if signs:
            self.text = re.sub(_VARIABLE, lambda found: signs.get(found[1] or found[2], found[0]), self.text)
        return bool(signs)

    def with_values(self, command: shell.SimpleCommand) -> shell.SimpleCommand:
        return msgspec.structs.replace(
            command,
            words=tuple(map(self.filled, command.words)),
            assignments=tuple(map(self.filled, command.assignments)),
            redirects=tuple(shell.Redirect(one.operator, self.filled(one.target)) for one in command.redirects),
        )

    def filled(self, word: str) -> str:
        return word.translate(self.table)


def _assigned(commands: tuple[shell.SimpleCommand, ...]) -> dict[str, str]:
    """The variables with exactly one known value."""
    values: dict[str, set[str]] = {}
    for command in commands:
        for name, equals, value in (word.partition("=") for word in programs.variable_words(command)):
            if equals:
                values.setdefault(name.rstrip("+"), set()).add("" if name.endswith("+") else value)
    return {
        name: value
        for name, (value, *others) in values.items()
        if value and not others and UNKNOWN not in value and name.isidentifier()
    }

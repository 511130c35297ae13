"""Files that an approval covers beside those that a hook names: by pattern, by folder, and scripts that programs start.

A pattern may come from a repository that is not approved, so its search is limited: it never leaves the folder, neither
by its text nor through a link, and it visits a limited number of names in a limited time.
"""

import functools
import itertools
import os
import re
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Final, Literal, TypeVar

from billhook.config.sources import FileSnapshot, opened
from billhook.effects import programs
from billhook.effects.programs import SUFFIXES
from billhook.effects.rules import segment_matches

MAX_MATCHES: Final = 200
MAX_NAMES: Final = 5_000  # names of files that all patterns of one hook may visit, together
MAX_SECONDS: Final = 1.0  # time for all patterns of one load, together
MAGIC: Final = re.compile(r"[*?\[]")
_OUTSIDE: Final = "it leads outside of the project"


class TooMuchError(Exception):
    """More files than the limits allow."""


class Patterns:
    """The patterns of one hook in its project. They share one limit of names, and the time limit of one load."""

    def __init__(self, folder: str, look: FileSnapshot) -> None:
        self.look = look
        self.tops = tuple({folder.rstrip("/"), look.real(folder).rstrip("/")})
        self.names = MAX_NAMES
        self.listed: set[str] = set()  # folders in which a new file may match a pattern
        self.problem = ""

    def matches(self, pattern: str) -> tuple[list[str], str]:
        """The files that an absolute pattern matches, in order; and the reason if not everything was searched."""
        if not self.inside(pattern):
            return [], _OUTSIDE
        began, self.problem = time.monotonic(), ""
        try:
            files = self._expanded(pattern, began + MAX_SECONDS - self.look.pattern_seconds)
        except TooMuchError:
            return [], "it has too many files to search"
        finally:
            self.look.pattern_seconds += time.monotonic() - began
        return files, self.problem

    def inside(self, path: str) -> bool:
        return any(path.startswith(top + "/") or path == top for top in self.tops)

    def _expanded(self, pattern: str, until: float) -> list[str]:
        found = [""]
        for part in pattern.split("/")[1:]:
            if time.monotonic() > until or len(found) > MAX_NAMES:
                raise TooMuchError
            magic = MAGIC.search(part)
            found = [path for above in found for path in (self._in(above, part) if magic else [f"{above}/{part}"])]
        existing = [path for path in found if self._stays(os.path.dirname(path)) and os.path.lexists(path)]
        if len(existing) > MAX_MATCHES:
            raise TooMuchError
        return existing

    def _in(self, folder: str, part: str) -> list[str]:
        """The matches of one part of the pattern in one folder; none if it is outside or can't be listed."""
        if not self._stays(folder):
            return []
        try:
            self.listed.add(folder)
            names = self._listed(folder)
        except (FileNotFoundError, NotADirectoryError):
            return []
        except OSError as error:
            self.problem = f"{folder} can't be listed: {(error.strerror or str(error)).lower()}"
            return []
        visible = names if part.startswith(".") else [name for name in names if not name.startswith(".")]
        return [f"{folder}/{name}" for name in visible if segment_matches(part, name)]

    def _stays(self, folder: str) -> bool:
        """Whether a folder is inside of the project, with links resolved; if not, that is the `problem`."""
        if self.inside(self.look.real(folder)):
            return True
        self.problem = _OUTSIDE
        return False

    def _listed(self, folder: str) -> list[str]:
        with os.scandir(folder) as entries:
            names = [entry.name for entry in itertools.islice(entries, self.names + 1)]
        self.names -= len(names) + 1
        if self.names < 0:
            raise TooMuchError
        return sorted(names)


# The scripts that a Python or JavaScript program starts:


MAX_CALLS: Final = 500
MAX_CALL: Final = 400
_START: Final = re.compile(
    r"\b(?:subprocess\.(?:run|call|check_call|check_output|Popen|getoutput|getstatusoutput)"
    r"|os\.(?:system|popen|exec\w++|spawn\w++|posix_spawnp?)|create_subprocess_\w++"
    r"|(?<!\.)(?:Popen|check_call|check_output)|(?:exec|spawn)(?:File)?Sync|(?<!\.)(?:spawn|fork|execFile)"
    r"|(?P<code>run_path|execfile|(?<!\.)exec))\("
)
_LITERAL: Final = re.compile(r""""([^"\n]*+)"|'([^'\n]*+)'|(sys\.executable|process\.execPath)""")
_ROOT: Final = re.compile(r"^(?:\$?\{[^{}]*+\})?/*+")
"""`{HERE}/` in front of a name: the name is searched for in every folder around the program."""
_ITSELF: Final = {"sys.executable": "python", "process.execPath": "node"}


def started(source: str) -> Iterator[tuple[list[str], str]]:
    """The calls that run a script, by its path or an interpreter: the scripts as written, and the text of the call."""
    for call in itertools.islice(_START.finditer(source), MAX_CALLS):
        text = _arguments(source[call.end() : call.end() + MAX_CALL])
        literals = (_ITSELF.get(itself) or double or single for double, single, itself in _LITERAL.findall(text))
        words = [word for literal in literals for word in literal.split()]
        if call["code"] or not words or _runs_script(words):
            yield [_ROOT.sub("", word) for word in words if word.endswith(SUFFIXES)], f"{call[0]}{text}"


def _arguments(text: str) -> str:
    depth = 1
    for at, letter in enumerate(text):
        depth += (letter == "(") - (letter == ")")
        if depth == 0:
            return text[:at]
    return text


def _runs_script(words: list[str]) -> bool:
    name = programs.program(tuple(words))
    interprets = name in programs.INTERPRETERS or programs.PYTHON.fullmatch(name)
    return words[0].endswith(SUFFIXES) or bool(interprets or programs.run_by(tuple(words)))


# The code files of a folder:


MAX_CODE: Final = 500  # code files in one folder and below it
MAX_BYTES: Final = 16 << 20  # their total size
MAX_ENTRIES: Final = 5_000  # files of any kind and folders

CODE: Final = frozenset({
    ".sh", ".bash", ".zsh", ".fish", ".ksh", ".ps1", ".psm1", ".bat", ".cmd", ".awk", ".sed", ".jq", ".mk",
    ".py", ".pyw", ".pyc", ".pyz", ".pyd", ".pth", ".so", ".dylib", ".dll", ".exe", ".js", ".mjs", ".cjs",
    ".jsx", ".ts", ".mts", ".cts", ".tsx", ".vue", ".svelte", ".wasm", ".node", ".rb", ".pl", ".pm", ".php",
    ".phar", ".lua", ".tcl", ".r", ".jl", ".go", ".rs", ".java", ".jar", ".class", ".kt", ".kts", ".scala",
    ".groovy", ".gradle", ".clj", ".ex", ".exs", ".erl", ".hs", ".ml", ".swift", ".c", ".h", ".cc", ".cpp",
    ".hpp", ".cs", ".fs", ".dart", ".zig", ".nim", ".rego", ".nix",
})  # fmt: skip
DATA: Final = frozenset({
    ".log", ".json", ".jsonl", ".ndjson", ".md", ".txt", ".rst", ".csv", ".tsv", ".yaml", ".yml", ".toml",
    ".ini", ".cfg", ".conf", ".xml", ".html", ".css", ".lock", ".pid", ".tmp", ".bak", ".orig", ".swp", ".out",
    ".err", ".db", ".sqlite", ".sqlite3", ".db-wal", ".db-shm", ".db-journal", ".pickle", ".pkl", ".cache",
    ".state", ".sock", ".png", ".jpg", ".jpeg", ".gif", ".svg", ".pdf", ".gz", ".zip", ".tar",
})  # fmt: skip
"""Data that hooks write beside themselves. Never covered, even if executable: on some file systems every file is."""
NAMES: Final = frozenset(
    {"Makefile", "makefile", "GNUmakefile", "justfile", "Justfile", ".justfile", "Rakefile", "Gemfile", "Dockerfile"}
    | {"package.json", "deno.json", "deno.jsonc", "tsconfig.json", "jsconfig.json", "bunfig.toml", "composer.json"}
    | {"pyproject.toml", "setup.cfg", "pyvenv.cfg", ".envrc", ".env", ".npmrc"}
)
"""Files that programs read as instructions, whatever their suffix."""
INSTALLED: Final = frozenset({"node_modules", "site-packages", "dist-packages"})
"""Folders of installed packages: they are not covered."""
_SKIPPED: Final = frozenset({".git", ".hg", ".svn"})
CACHE: Final = "__pycache__"

_Answer = TypeVar("_Answer")
Kind = Literal["code", "all"]
"""Which files of a folder are covered: its code files, or all files if a command runs everything in the folder."""


def is_installed(folder: str, look: FileSnapshot) -> bool:
    """Whether a folder contains installed packages or a virtual environment."""
    return not INSTALLED.isdisjoint(folder.split("/")) or environment_of(folder, look) != ""


def environment_of(folder: str, look: FileSnapshot) -> str:
    """The virtual environment that a folder is, or whose programs it contains; empty for other folders."""
    root = os.path.dirname(folder) if os.path.basename(folder) in ("bin", "Scripts") else folder
    return root if look.regular(os.path.join(root, "pyvenv.cfg")) else ""


def by_name(name: str) -> bool | None:
    """Whether a file is code, by its name; None: the name does not tell."""
    suffix = os.path.splitext(name)[1].lower()
    return True if name in NAMES or suffix in CODE else False if suffix in DATA else None


def counts(path: str, found: os.stat_result | None) -> bool:
    """Whether a file is code. A compiled file in Python's cache is code only if Python uses it without comparing it
    with the times of its source; the others are made from the source."""
    if found is None or not stat.S_ISREG(found.st_mode):
        return False
    if os.path.basename(os.path.dirname(path)) == CACHE:
        head = b""
        with suppress(OSError, ValueError), opened(path) as (file, _):
            head = os.read(file, 8)
        return path.endswith(".pyc") and head[4:8] != bytes(4)
    code = by_name(os.path.basename(path))
    return bool(found.st_mode & 0o111) if code is None else code


def relevant_names(folder: str, kind: Kind, look: FileSnapshot) -> str:
    """The names in a folder that may change what runs, with the targets of links, as one string."""
    listed = look.listed(folder, MAX_ENTRIES)
    if listed is None:
        return "\0"
    if os.path.basename(folder) == CACHE:
        return "\0".join(one.name for one in listed if counts(one.path, _or_default(one.stat, None)))
    telling = (
        one for one in listed if kind == "all" or by_name(one.name) is not False or _or_default(one.is_dir, False)
    )
    return "\0".join(f"{one.name}\0{_or_default(functools.partial(_link, one), '')}" for one in telling)


def _link(entry: "os.DirEntry[str]") -> str:
    return os.readlink(entry.path) if entry.is_symlink() else ""


def _or_default(question: Callable[[], _Answer], otherwise: _Answer) -> _Answer:
    """What the system returns for an entry; `otherwise` if that fails, as for a dangling link."""
    try:
        return question()
    except OSError:
        return otherwise


def walk(folder: str, kind: Kind, top: str, look: FileSnapshot) -> "FolderWalk | None":
    """The covered files in a folder and below it; None if there are too many. `top` is the project: links that lead
    out of it, or to a folder above, are not followed."""
    found = FolderWalk(kind, look.real(top), look)
    return found if found.enter(folder) else None


class FolderWalk:
    """The covered files in a folder and below it."""

    def __init__(self, kind: Kind, top: str, look: FileSnapshot) -> None:
        self.kind, self.top, self.look = kind, top, look
        self.files: list[str] = []
        self.plain: list[str] = []
        """Files that would be covered if they were executable, or if another compiled file replaced them."""
        self.folders: dict[str, str] = {}  # the folder and those below it, with their real paths
        self.left_out: list[str] = []  # paths that are not covered, each with the reason
        self.entries, self.bytes = MAX_ENTRIES, MAX_BYTES

    def enter(self, first: str) -> bool:
        """Walk through a folder and those below it; False as soon as a limit is exceeded."""
        waiting = [first]
        while waiting:
            folder = waiting.pop()
            self.folders[folder] = self.look.real(folder)
            listed = self.look.listed(folder, MAX_ENTRIES)
            if listed is None:
                self.left_out.append(f"{folder}: it can't be listed, or is too large")
                continue
            self.entries -= len(listed)
            for one in listed:
                if not self.add(one):
                    return False
                if _or_default(one.is_dir, False) and self.follows(one):
                    waiting.append(one.path)
            if self.entries < 0:
                return False
        return True

    def add(self, one: "os.DirEntry[str]") -> bool:
        if self.kind == "code" and by_name(one.name) is False:
            return True
        path, state = one.path, _or_default(one.stat, None)
        if state is None or not stat.S_ISREG(state.st_mode):
            return True
        if self.kind == "all" or counts(path, state):
            self.files.append(path)
            self.bytes -= state.st_size
        else:
            self.plain.append(path)
        return len(self.files) <= MAX_CODE and self.bytes >= 0

    def follows(self, one: "os.DirEntry[str]") -> bool:
        path = one.path
        if one.name in _SKIPPED:
            return False
        if is_installed(path, self.look):
            self.left_out.append(f"{path}: installed packages")
            return False
        if not one.is_symlink():
            return True
        real = self.look.real(path)
        inside = real.startswith(self.top.rstrip("/") + "/")
        if not inside:
            self.left_out.append(f"{path}: it leads to {real}")
        return inside and not any(f"{seen}/".startswith(f"{real}/") for seen in self.folders.values())


def startup_files(environment: str, look: FileSnapshot) -> Iterator[str]:
    """The files that a virtual environment's Python runs or reads at startup."""
    yield os.path.join(environment, "pyvenv.cfg")
    for folder in package_folders(environment, look):
        for name in sorted(look.names(folder) or ()):
            if name.endswith(".pth") or name.partition(".")[0] in ("sitecustomize", "usercustomize"):
                path = os.path.join(folder, name)
                yield os.path.join(path, "__init__.py") if look.folder(path) else path


def package_folders(environment: str, look: FileSnapshot) -> Iterator[str]:
    """Where a virtual environment keeps its packages."""
    for lib in ("lib", "lib64", "Lib"):
        for name in sorted(look.names(os.path.join(environment, lib)) or ()):
            folder = os.path.join(environment, lib, name)
            if name == "site-packages":
                yield folder
            elif look.folder(os.path.join(folder, "site-packages")):
                yield os.path.join(folder, "site-packages")

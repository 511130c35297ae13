"""The local files that a hook's command names: what an approval covers besides the words themselves.

Found by reading, never by running, and never completely: what a program opens or runs on its own is not seen. It is
there so that editing a script takes the approval away, as editing the command does.
"""

import glob
import itertools
import os
import re
from collections import deque
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from billhook import caller, script, shell
from billhook.config import commandwords, pyimports, shellvars
from billhook.config.commandwords import SUFFIXES
from billhook.config.declared import Action, Exec, Python, Run
from billhook.config.looking import MAX_KEPT, Look
from billhook.script import UNKNOWN

MAX_SCRIPTS: Final = 200
MAX_SCRIPT: Final = 1 << 20
MAX_ALL_SCRIPTS: Final = 16 << 20
MAX_FOLDERS: Final = 16
MAX_FOUND: Final = 20_000

_SYSTEM = re.compile(r"/(?:bin|sbin|usr|lib[^/]*|opt|nix|etc|dev|proc|sys)(?:/|$)")
_KEPT_BY_HOOKS: Final = (".log", ".jsonl", ".tmp", ".out")
_SHEBANG = re.compile(rb"#![ \t]*(\S+)[ \t]*([^\n]*)")
_PATTERN: Final = re.compile(r"[*?\[]")
_LOOP: Final = re.compile(r"\bfor\s+\w+\s+in\s+([^;\n]{1,2000})")
MAX_MATCHES: Final = 200
_SEPARATORS = re.compile(r"[;|&(){}`\n]")


def named_files(action: Action | None, folder: str, look: Look | None = None) -> tuple[str, ...]:
    """The files that decide what `action` does, as absolute paths, each once, those it names itself first.

    Programs and scripts are listed also where they do not exist (yet), and so are places where a file would be taken
    instead of a module imported now. Never raises and runs nothing; reads a bounded number of regular files.
    Searches that share a look see the same files, and look at each once.
    """
    return named(action, folder, look or Look()).files


class Named(NamedTuple):
    """What a hook depends on."""

    files: tuple[str, ...]
    roots: tuple[str, ...]
    """The folders that Python looks for modules in first: one that appears there may be taken instead of another."""


def named(action: Action | None, folder: str, look: Look) -> Named:
    """The files that decide what `action` does, and the folders where more of them may appear."""
    scan = _Scan(os.path.abspath(folder), look)
    match action:
        case Run(text):
            scan.text(text)
        case Exec(argv):
            scan.text(" ".join("'" + word.replace("'", "'\"'\"'") + "'" for word in argv))
        case Python(target, interpreter):
            scan.python(target, interpreter)
    return Named(scan.finished(), tuple(scan.roots))


class _Scan:
    """One search: the paths found, and the scripts still to be read."""

    def __init__(self, folder: str, look: Look) -> None:
        self.folder = folder
        self.look = look
        self.real_folder = look.real(folder)
        self.home = caller.expanduser("~")
        self.found: dict[str, None] = {}
        self.unread: deque[tuple[str, str]] = deque()
        """Scripts that may name more, and what they are read as."""
        self.queued: set[str] = set()
        self.sought: set[str] = set()
        self.python_roots: dict[str, None] = {}
        self.roots: dict[str, None] = {}
        self.budget = pyimports.Budget()
        self.bytes = MAX_ALL_SCRIPTS

    def finished(self) -> tuple[str, ...]:
        """Follow every script, then everything that was found."""
        for _ in range(MAX_SCRIPTS):
            if not self.unread or self.bytes <= 0:
                break
            self.follow(*self.unread.popleft())
        return tuple(path for path in self.found if not self.look.folder(path))

    def follow(self, path: str, kind: str) -> None:
        data = self.look.read(path, MAX_SCRIPT).data
        self.bytes -= len(data)
        shebang = _SHEBANG.match(data) if data.startswith(b"#!") else None
        if shebang:
            self.program(os.fsdecode(shebang[1]), (self.folder,))
        kind = commandwords.kind(path, os.fsdecode(shebang[0]) if shebang else "", kind)
        if kind == "python":
            roots = (os.path.dirname(self.look.real(path)), os.path.dirname(path), *self.python_roots)
            self.roots |= dict.fromkeys(roots)
            self.add(pyimports.local_files([path], roots, self.budget, top=self.folder, look=self.look))
        elif kind == "shell" and b"\0" not in data:
            self.text(os.fsdecode(data), path)

    def python(self, target: str, interpreter: str) -> None:
        module = target.partition(":")[0]
        if interpreter:
            self.program(interpreter, (self.folder,))
        if "/" in module or module.endswith(".py"):
            self.scripts_named(module.removesuffix(".py") + ".py", "python", (self.folder,))
            return
        roots = (self.folder, *(os.path.join(self.folder, name) for name in (".billhook", ".claude")))
        self.roots |= dict.fromkeys(roots)
        self.add(pyimports.module_files(module, roots, self.budget, self.look))

    def text(self, text: str, path: str = "") -> None:
        """Scan shell text. In a script, which has a `path`, only what it sources or runs counts, not what it reads."""
        known = self.known(text, path)
        commands = known.commands
        self.pythonpath(commands)
        written = None if path else {path for command in commands for path in self.written(command)}
        folders: tuple[str, ...] = (self.folder,)
        in_order = not _SEPARATORS.search(known.text.replace("&&", ""))
        if not in_order:  # a subshell may end or a `cd` fail: each folder is possible everywhere
            for command in commands:
                folders = self.moved(command, folders, keep=True)
        for command in commands:
            folders = self.moved(command, folders, keep=False) if in_order else folders
            self.command(command, folders, written)
        self.fed(known.text, folders)
        if "for " in text:
            self.looped(text, folders)

    def known(self, text: str, path: str) -> shellvars.Known:
        key = (self.folder, path, text)
        known = self.look.texts.get(key)
        if known is None:
            known = shellvars.known(text, self.folder, self.home, path)
            if len(text) <= MAX_KEPT:
                self.look.texts[key] = known
        return known

    def moved(self, command: shell.SimpleCommand, folders: tuple[str, ...], keep: bool) -> tuple[str, ...]:
        """Where a command may leave the shell."""
        if commandwords.program(command.words) not in ("cd", "pushd") or (keep and len(folders) >= MAX_FOLDERS):
            return folders
        operands = [word for word in command.words[1:] if not word.startswith("-")] or ["~"]
        moved = self.paths(operands[0], folders)
        return tuple(dict.fromkeys((*folders, *moved) if keep else moved or folders))[:MAX_FOLDERS]

    def command(self, command: shell.SimpleCommand, folders: tuple[str, ...], written: set[str] | None) -> None:
        """Note what one command names; its plain arguments only where `written`, what must not count, is given."""
        self.words(command.words, folders)
        if written is not None:
            for word in commandwords.read_words(command.words):
                self.argument(word, folders, written)
        for redirect in command.redirects:
            if redirect.operator in ("<", "<>"):
                kind = commandwords.language_of(command.name)
                if kind:
                    self.scripts_named(redirect.target, kind, folders)
                elif written is not None:
                    self.argument(redirect.target, folders, written)

    def words(self, words: tuple[str, ...], folders: tuple[str, ...]) -> None:
        """The program of a command, and the script if it is an interpreter."""
        for _ in range(4):
            if not words:
                return
            if rest := commandwords.run_by(words):
                if rest[0] == "-m":
                    self.module(rest[1:], folders)
                    return
                words = rest
                if words[0].endswith(SUFFIXES):
                    self.scripts_named(words[0], "", folders)
                    return
                continue
            break
        self.program(words[0], folders)
        name = commandwords.program(words)
        if name in commandwords.READS_PROGRAM:
            for option, value in itertools.pairwise(words):
                if option in ("-f", "--file", "--from-file"):
                    self.scripts_named(value, "none", folders)
        interpreter = "python" if commandwords.PYTHON.fullmatch(name) else name
        if interpreter in commandwords.INTERPRETERS:
            self.interpreted(interpreter, words[1:], folders)

    def interpreted(self, interpreter: str, words: tuple[str, ...], folders: tuple[str, ...]) -> None:
        operand, code, module = commandwords.operand(words, commandwords.INTERPRETERS[interpreter])
        if module and interpreter == "python":
            self.module((module,), folders)
        elif code is not None and interpreter == "python":
            self.code(code, folders)
        elif code is None and not module and operand:
            self.scripts_named(operand, commandwords.language_of(interpreter) or "none", folders)

    def code(self, code: str, folders: tuple[str, ...]) -> None:
        """A Python program that the command itself holds."""
        source = code.replace(UNKNOWN, "_").encode("utf-8", "replace")
        self.add(pyimports.local_files((), (*folders, *self.python_roots), self.budget, source, look=self.look))

    def fed(self, text: str, folders: tuple[str, ...]) -> None:
        """`python3 - <<EOF`: a program that the text feeds to Python."""
        for command in script.read(text).commands if "<<" in text else ():
            if commandwords.PYTHON.fullmatch(commandwords.program(command.words)):
                for redirect in command.redirects:
                    self.code(redirect.body or "", folders)

    def module(self, names: tuple[str, ...], folders: tuple[str, ...]) -> None:
        """`python -m name`, where it is a local one."""
        for name in names[:1]:
            self.add(pyimports.module_files(name, (*folders, *self.python_roots), self.budget, self.look))

    def program(self, word: str, folders: tuple[str, ...]) -> None:
        if "/" in word or word.startswith("~"):
            for path in self.paths(word, folders):
                self.take(path, "program")
        elif word not in self.sought and _speakable(word):
            self.sought.add(word)
            self.on_path(word)

    def on_path(self, name: str) -> None:
        """A program without a folder counts where PATH leads into the project, also where it would be found first."""
        for folder, inside in self.path_folders():
            path = os.path.join(folder, name)
            if inside:
                self.take(path, "program")
            if os.access(path, os.X_OK) and not self.look.folder(path):
                return

    def path_folders(self) -> list[tuple[str, bool]]:
        """The folders of PATH, up to the last one inside the project, and whether each is."""
        if self.folder not in self.look.path_folders:
            entries = caller.environ().get("PATH", "").split(os.pathsep)
            folders = [os.path.normpath(os.path.join(self.folder, entry)) for entry in entries]
            found = [(folder, self.inside(folder)) for folder in folders]
            while found and not found[-1][1]:
                found.pop()
            self.look.path_folders[self.folder] = found
        return self.look.path_folders[self.folder]

    def scripts_named(self, word: str, kind: str, folders: tuple[str, ...]) -> None:
        paths = self.paths(word, folders)
        if _PATTERN.search(word):
            paths = [match for path in paths for match in self.matching(path)]
        if "/" in word or word.endswith(SUFFIXES) or any(map(self.look.state, paths)):
            for path in paths:
                self.take(path, kind)

    def matching(self, pattern: str) -> list[str]:
        """The files that a pattern of the shell's stands for now."""
        return sorted(itertools.islice(glob.iglob(pattern), MAX_MATCHES))

    def looped(self, text: str, folders: tuple[str, ...]) -> None:
        """`for f in hooks.d/*.sh; do ...`: scripts that a loop goes through are meant to be run."""
        for words in _LOOP.findall(text):
            for word in words.split():
                if word.strip("'\"").endswith(SUFFIXES):
                    self.scripts_named(word.strip("'\""), "", folders)

    def argument(self, word: str, folders: tuple[str, ...], written: set[str]) -> None:
        for path in self.paths(word, folders):
            if self.look.regular(path) and path not in written and not path.endswith(_KEPT_BY_HOOKS):
                self.take(path, "")

    def take(self, path: str, kind: str) -> None:
        """Note a program or a script, and read it later."""
        if self.counts(path):
            self.found.setdefault(path)
            if kind != "none" and path not in self.queued:
                self.queued.add(path)
                self.unread.append((path, kind))

    def add(self, paths: Iterable[str]) -> None:
        for path in paths:
            if self.counts(path):
                self.found.setdefault(path)

    def counts(self, path: str) -> bool:
        return len(self.found) < MAX_FOUND and (not _SYSTEM.match(path) or self.inside(path))

    def inside(self, path: str) -> bool:
        if self.folder == "/":
            return not _SYSTEM.match(path) or not _SYSTEM.match(self.look.real(path))
        return self.below(path) or self.below(self.look.real(path))

    def below(self, path: str) -> bool:
        return any(path == top or path.startswith(top + "/") for top in (self.folder, self.real_folder))

    def paths(self, word: str, folders: tuple[str, ...]) -> list[str]:
        """Where a word may lead, seen from each folder."""
        if not _speakable(word):
            return []
        if word.startswith("~"):
            word = caller.expanduser(word)
        found = [_normal(os.path.join(folder, word)) for folder in folders]
        return found if len(found) == 1 else list(dict.fromkeys(found))

    def written(self, command: shell.SimpleCommand) -> Iterator[str]:
        """What a command writes, as seen from the project: that is the hook's own data."""
        for word in (*commandwords.written_words(command.words), *command.written):
            yield from self.paths(word, (self.folder,))

    def pythonpath(self, commands: tuple[shell.SimpleCommand, ...]) -> None:
        for command in commands:
            said = commandwords.said(command)
            for value in (word.partition("=")[2] for word in said if word.startswith("PYTHONPATH=")):
                for entry in value.split(":"):
                    for path in self.paths(entry, (self.folder,)):
                        self.python_roots.setdefault(path)


def _speakable(word: str) -> bool:
    """Whether the system could be asked for it at all."""
    return 0 < len(word) <= 4096 and UNKNOWN not in word and pyimports.encodable(word)


def _normal(path: str) -> str:
    """The shortest spelling that leads to the same place: `..` behind a link is left as it is."""
    normal = os.path.normpath(path)
    if ".." not in path:
        return normal
    try:
        if ".." in path.split("/") and os.path.realpath(normal) != os.path.realpath(path):
            return path
    except (OSError, ValueError):
        pass
    return normal

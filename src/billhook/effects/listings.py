"""Lists of files that a line works on (`find . -name x | xargs rm`), and whether a piece of Python only reads."""

import itertools
import os
import posixpath
import re
import stat
from collections.abc import Iterable, Sequence
from typing import Final

from billhook.effects.paths import absolute
from billhook.effects.programs import Touch, Words, after
from billhook.effects.script import UNKNOWN
from billhook.effects.shell import SimpleCommand


def listed(words: Sequence[str]) -> list[Touch]:
    """What `find`, `ls`, `git ls-files` and searches for files with a match give to others."""
    name = posixpath.basename(words[0]) if words else ""
    if name == "git" and words[1:2]:
        return _git(words)
    reader = {
        "find": _find, "ls": _ls, "eza": _ls, "dir": _ls, "grep": _grep, "egrep": _grep, "fgrep": _grep, "rg": _rg,
        "ag": _rg, "ack": _rg, "fd": _fd, "fdfind": _fd,
    }.get(name)  # fmt: skip
    return reader(words) if reader else []


def find_names(tests: Sequence[str]) -> tuple[str, ...]:
    """The names that every branch of the expression asks for; none: one of them takes whatever there is."""
    branches: list[list[str]] = [[]]
    negated, before = False, ""
    for word in tests:
        if word in ("-o", "-or", ","):
            branches.append([])
        elif before in ("-name", "-iname", "-path", "-ipath", "-wholename") and not negated:
            path = word.rstrip("/*") if "path" in before or "whole" in before else word
            branches[-1].append(posixpath.basename(path) or "*")
        if word.startswith(("-exec", "-ok")):
            break
        negated = word in ("!", "-not") or (negated and word in ("-name", "-iname", "-path", "-ipath"))
        before = word
    return tuple(name for branch in branches for name in branch) if all(branches) else ()


def _find(words: Sequence[str]) -> list[Touch]:
    end = next((place for place, word in enumerate(words[1:], 1) if word[:1] in ("-", "(", "!")), len(words))
    return [Touch(start, below=True, names=find_names(words[end:])) for start in words[1:end] or ["."]]


def _ls(words: Sequence[str]) -> list[Touch]:
    said = Words(words[1:], "IwT", "ignore hide width")
    if said.operands:
        return [Touch(word, below=True) for word in said.operands]
    hidden = said.has("a", "A", "f", "all", "almost-all")
    return [Touch(".", below=True)] if hidden else [Touch("*", below=True, itself=True)]


def _git(words: Sequence[str]) -> list[Touch]:
    if words[1] == "ls-files":
        specs = [word for word in words[2:] if not word.startswith("-")]
        return [Touch(spec, below=True, loose=any(sign in spec for sign in "*?[")) for spec in specs or ["."]]
    return _grep(words[1:], recursive=True) if words[1] == "grep" else []


def _grep(words: Sequence[str], *, recursive: bool = False) -> list[Touch]:
    said = Words(words[1:], "efmABCdD", "regexp file max-count include exclude exclude-dir context color")
    if not said.has("l", "L", "files-with-matches", "files-without-match", "name-only"):
        return []  # a filter, or text for people
    files = said.operands if said.has("e", "f", "regexp", "file") else said.operands[1:]
    recursive = recursive or said.has("r", "R", "recursive", "dereference-recursive")
    names = tuple(said.values("include"))
    return [Touch(file, below=recursive, names=names) for file in files or (["."] if recursive else [])]


def _rg(words: Sequence[str]) -> list[Touch]:
    said = Words(words[1:], "efgtTmABCjMrEd", "regexp file glob iglob type type-not max-count max-depth")
    if not said.has("l", "files", "files-with-matches", "files-without-match"):
        return []
    folders = said.operands if said.has("e", "f", "regexp", "file", "files") else said.operands[1:]
    wanted = [glob for glob in said.values("g", "glob", "iglob") if not glob.startswith("!")]
    names = tuple(posixpath.basename(glob) for glob in wanted) + _of_types(said.values("t", "type"))
    return [Touch(folder, below=True, names=names) for folder in folders or ["."]]


def _of_types(types: Sequence[str]) -> tuple[str, ...]:
    endings = {"rust": "rs", "python": "py", "markdown": "md", "ruby": "rb", "yaml": "y*ml", "sh": "*sh"}
    return tuple(f"*.{endings.get(each, each)}" for each in types)


def _fd(words: Sequence[str]) -> list[Touch]:
    said = Words(words[1:], "edEtSxXcjo", "extension max-depth exclude type size")
    pattern = said.operands[0] if said.operands else ""
    plain = pattern.replace("_", "").replace("-", "").isalnum()
    names = tuple(f"*.{each}" for each in said.values("e", "extension")) or ((f"*{pattern}*",) if plain else ())
    return [Touch(folder, below=True, names=names) for folder in said.operands[1:] or ["."]]


# Lists of files that a line works on:


LARGEST: Final = 256 * 1024
_MOST_FILES: Final = 16
_POUR: Final = frozenset({"cat", "sort", "uniq", "head", "tail", "tac", "tr", "grep", "sed", "awk"})
"""Programs that give a list, or some of it, to the next one in the line."""

WITH_LISTS: Final = {"tar": ("-T", "--files-from"), "rsync": ("--files-from", "--files-from")}
"""Programs that are given the list by an option."""

RUN_FILES: Final = frozenset({"at", "batch", "crontab", "tmux"})


def files_run(command: SimpleCommand) -> list[str]:
    """Files whose text is run: `at -f x now`, `crontab x`, `tmux source-file x`."""
    operands = [word for word in command.words[1:] if not word.startswith("-")]
    if command.name == "crontab":
        return operands[:1]
    sourced = [each for verb, each in itertools.pairwise(operands) if verb in ("source-file", "source")]
    return [*after(command.words, "-f", "--file"), *sourced]


def files_of(commands: Iterable[SimpleCommand]) -> list[str]:
    """The files that a line reads."""
    found: list[str] = []
    for command in commands:
        found += [redirect.target for redirect in command.redirects if redirect.operator == "<"]
        if command.name in ("xargs", "parallel"):
            found += after(command.words, "-a", "--arg-file")
            found += command.words[command.words.index("::::") + 1 :] if "::::" in command.words else ()
        elif command.name in WITH_LISTS:
            found += after(command.words, *WITH_LISTS[command.name])
        elif command.name in RUN_FILES:
            found += files_run(command)
        elif command.name in _POUR:
            found += [word for word in command.words[1:] if not word.startswith("-")]
    return list(dict.fromkeys(name for name in found if name and UNKNOWN not in name))


def words_in(files: Iterable[str], folders: Iterable[str]) -> list[str] | None:
    """The words of these files; None: one of them is there, and can't be read or is too large."""
    found: dict[str, None] = {}
    paths = dict.fromkeys(path for name in files for path in absolute(name, folders))
    for path in list(paths)[:_MOST_FILES]:
        try:
            status = os.stat(path)
            if not stat.S_ISREG(status.st_mode):
                continue  # a pipe would keep us waiting
            if status.st_size > LARGEST:
                return None
            with open(path, encoding="utf-8", errors="replace") as file:
                text = file.read(LARGEST).replace("\0", "\n")
        except (FileNotFoundError, NotADirectoryError, ValueError):
            continue
        except OSError:
            return None
        found |= dict.fromkeys((*text.split(), *text.splitlines()))
    return [word for word in found if word]


def filled(words: Sequence[str], listed: Sequence[str]) -> list[str]:
    """A command with the words of a list in the place of those that are not known."""
    name = words[0].rpartition("/")[2]
    if name in WITH_LISTS:
        return [words[0], *listed, *words[1:]] if name == "rsync" else [*words, *listed]
    found = [words[0]]
    for word in words[1:]:
        found += [word.replace(UNKNOWN, one) for one in listed] if UNKNOWN in word else [word]
    return found


# Whether a piece of Python only reads:


_LONGEST: Final = 20_000
_ACTS = re.compile(
    r"write|unlink|remove|rename|replace\s*\([^(),]*\)|rmtree|rmdir|mkdir|touch|truncate|symlink|link\s*\(|chmod|chown|shutil"
    r"|subprocess|system|popen|spawn|exec|eval|compile|import_|getattr|globals|__|ctypes|pty|fcntl|mmap|fileinput|inplace"
    r"|extract|tarfile|zipfile|sqlite|shelve|dbm|socket|requests|urllib|asyncio|multiprocessing|runpy|importlib|code\b"
    r"|(?<!\.)\bbillhook\b(?!/)|FileIO|dump\s*\(|tofile|to_\w+\s*\(|save|print\s*\([^\n]*\bfile\s*=",
    re.I,
)
_OS = re.compile(r"\bos\s*\.\s*(?!path\b|environ\b|getcwd\b|listdir\b|stat\b|sep\b|getenv\b|walk\b|scandir\b)")
_FROM_OS = re.compile(r"\bfrom\s+(?:os|io|codecs)\b|\bimport\s[^\n;]*\bas\b|=\s*(?:os|open|io)\b(?!\s*[.(])")
_OPEN = re.compile(r"\bopen\b")
_READING = re.compile(
    r"\bopen\(|\.read|\bloads?\b|listdir|exists|is_?file|is_?dir|glob|\bstat\b|scandir|walk|iterdir|safe_load"
)
_READS = re.compile(
    r"(?:(?<!\.)\bopen\(\s*[^(),]*(?:\([^()]*\)[^(),]*)?|\.open\((?:\s*['\"]r[bt]?['\"])?)"
    r"(?:,\s*(?:mode\s*=\s*)?['\"]r[bt]?['\"]|,\s*(?:encoding|errors)\s*=\s*['\"][\w-]+['\"])*\s*\)"
)


def only_reads(code: str) -> bool:
    """Whether nothing in the code can change a file, as far as its words say; in doubt it may."""
    if len(code) > _LONGEST or _ACTS.search(code) or _OS.search(code) or _FROM_OS.search(code):
        return False
    if not _READING.search(code):
        return False
    return len(_OPEN.findall(code)) == len(_READS.findall(code))


_ACTS_ELSEWHERE = re.compile(
    r"write|unlink|remove|rename|rm\b|rm\w*\(|rmdir|rmtree|mkdir|touch|truncate|link|chmod|chown|child_process|exec|spawn"
    r"|fork|eval|Function|system|popen|append|copy|cp\w*\(|move|mv\b|delete|stream|open|save|dump|put\w*\s*\(|`|import\s*\("
    r"|\]\s*\(|process\.(?!stdout|argv|cwd|env)|\bsend\b|__|\$\^I|\bdo\b|\bkill\b|billhook\s*\(|>",
    re.I,
)
_READS_ELSEWHERE = re.compile(
    r"readFile|readTextFile|Bun\.file|readdir|existsSync|statSync|require\(|JSON\.parse|File\.(?:read|exist)|load_file|file_get_contents|IO\.read|<>"
)


def only_reads_elsewhere(code: str) -> bool:
    """The same for JavaScript, Ruby and PHP: a call that reads, and no word of one that acts."""
    if len(code) > _LONGEST or not _READS_ELSEWHERE.search(code):
        return False
    plain = code.replace("=>", "").replace("<>", "").replace("process.stdout.write(", "(")
    return _ACTS_ELSEWHERE.search(plain) is None and "require(" not in _REQUIRES.sub("", plain)


_REQUIRES = re.compile(
    r"""require\(\s*(["'])(?:(?:node:)?(?:fs|path|os|util)|(?:js-)?yaml|toml|json5|\.{1,2}/[^"']+)\1\s*\)"""
)

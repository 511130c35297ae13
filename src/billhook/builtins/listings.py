"""The files that a command names for others to work on: `find . -name x | xargs rm`."""

import posixpath
from collections.abc import Sequence

from billhook.builtins.touch import Touch, Words


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

"""The files that programs list, as patterns: `./**/*.pyc` for `find . -name '*.pyc'`."""

import itertools
import posixpath
from collections.abc import Iterator, Sequence
from typing import Final


def listed(words: Sequence[str]) -> Iterator[str]:
    """The files that a command lists, as patterns: `./**/*.pyc` for `find . -name '*.pyc'`."""
    name = words[0]
    if name == "find":
        starts, names = find_starts(words), _found_names(words) or ("",)
        yield from (f"{start}/**/{each}".rstrip("/") for start in starts for each in names)
    elif name in ("fd", "fdfind"):
        yield from _fd(words)
    elif name == "ls":
        yield from _ls(words)
    elif name == "git" and tuple(words[1:2]) == ("ls-files",):
        named = [word for word in words[2:] if not word.startswith("-")]
        yield from (f"**/{each}" if "/" not in each else each for each in named or ["*"])
    elif name == "git" and tuple(words[1:2]) == ("grep",) and _lists_names(words):
        yield from _grep(words[1:])
    elif name in ("grep", "rg", "egrep", "ag") and _lists_names(words):
        yield from _grep(words)


def find_starts(words: Sequence[str]) -> list[str]:
    end = next((place for place, word in enumerate(words[1:], 1) if word[:1] in ("-", "(", "!")), len(words))
    options = [word for word in words[1:end] if word not in ("-H", "-L", "-P")]
    return options or ["."]


def find_names(tests: Sequence[str]) -> tuple[str, ...]:
    """The names that every branch of the expression requires; empty: one of them accepts any name."""
    branches: list[list[str]] = [[]]
    negated, before = False, ""
    for word in tests:
        if word in ("-o", "-or", ","):
            branches.append([])
        elif before in ("-name", "-iname", "-path", "-ipath", "-wholename") and not negated:
            path = word.rstrip("/*") if "path" in before or "whole" in before else word
            branches[-1].append(posixpath.basename(path) or "*")
        negated = word in ("!", "-not") or (negated and word in ("-name", "-iname", "-path", "-ipath"))
        before = word
    return tuple(name for branch in branches for name in branch) if all(branches) else ()


def _found_names(words: Sequence[str]) -> tuple[str, ...]:
    """The names of the files that find prints, or runs a command for."""
    actions = [place for place, word in enumerate(words) if word.startswith(("-exec", "-ok", "-print"))]
    each = [find_names(find_branch(words, place)) for place in actions] or [find_names(words)]
    return tuple(name for names in each for name in names) if all(each) else ()


def find_branch(words: Sequence[str], action: int) -> list[str]:
    """The tests that lead to an action: those of its branch, and what is before the parentheses around it."""
    outer: list[tuple[list[str], list[str]]] = []  # of the parentheses that are open: their branch, all their words
    branch: list[str] = []
    group: list[str] = []
    for word in words[:action]:
        if word == "(":
            outer.append((branch, group))
            branch, group = [], []
        elif word == ")" and outer:
            inside = group
            branch, group = outer.pop()
            branch, group = branch + inside, group + inside
        elif word in ("-o", "-or", ","):
            branch, group = [], [*group, word]
        else:
            group.append(word)
            branch.append(word)
    return [word for before, _ in outer for word in before] + branch


_FD_VALUES: Final = frozenset(
    ["-t", "--type", "-d", "--max-depth", "-E", "--exclude", "-S", "--size", "-c", "--color", "-j", "--threads"]
)


def _fd(words: Sequence[str]) -> Iterator[str]:
    operands, ending = [], ""
    for before, word in itertools.pairwise(words):
        if word in ("-x", "-X", "--exec", "--exec-batch"):
            break
        if before in ("-e", "--extension"):
            ending = f".{word}"
        elif before not in _FD_VALUES and not word.startswith("-"):
            operands.append(word)
    pattern = f"*{operands[0]}*" if operands and operands[0] != "." else "*"
    for start in operands[1:] or ["."]:
        yield f"{start}/**/{pattern.rstrip('*') if ending else pattern}{'*' if ending else ''}{ending}".replace(
            "**.", "*."
        )


def _ls(words: Sequence[str]) -> Iterator[str]:
    operands = [word for word in words[1:] if not word.startswith("-")]
    flags = "".join(word[1:] for word in words[1:] if word.startswith("-") and not word.startswith("--"))
    yield from operands if "d" in flags else []
    if "d" not in flags:
        for operand in operands:
            yield operand if set(operand) & set("*?[") or "." in posixpath.basename(operand) else f"{operand}/*"
        if not operands:
            yield "*"
            if "a" in flags or "A" in flags:
                yield ".[!.]*"


def _lists_names(words: Sequence[str]) -> bool:
    letters = "".join(word[1:] for word in words[1:] if word[:1] == "-" and word[1:2] != "-")
    return "l" in letters or "L" in letters or "--files-with-matches" in words or "--files" in words


def _grep(words: Sequence[str]) -> Iterator[str]:
    operands = [word for word in words[1:] if not word.startswith("-")]
    starts = operands[1:] or ["."]
    names = [word.partition("=")[2] for word in words if word.startswith("--include=")] or [""]
    for start in starts:
        plain = "." in posixpath.basename(start.rstrip("/")) and start not in (".", "..", "./")
        yield from [start] if plain else [f"{start.rstrip('/')}/**/{name}".rstrip("/") for name in names]

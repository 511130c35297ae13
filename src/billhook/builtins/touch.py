"""The records that say what a command touches, and a command's words told apart."""

from collections.abc import Iterator, Sequence

import msgspec


class Touch(msgspec.Struct, frozen=True):
    """One path that is written, created or removed."""

    path: str
    below: bool = False  # what lies below it as well: `rm -r`
    sources: tuple[str, ...] = ()  # what is put there, or into it when it is a folder: `cp a b`
    names: tuple[str, ...] = ()  # Of what lies below only files or folders of such names: `find -name '*.pyc' -delete`
    folder: bool = False  # only a folder is made; it holds nothing yet
    itself: bool = False  # a link at its end is removed or moved, not followed: what it leads to stays as it is
    loose: bool = False  # Patterns go across folders: `git checkout -- '*.json'`
    git: tuple[str, str] = ("", "")
    """How a git command changes it, and the commit it takes it from: only what is changed by that counts."""
    maybe: bool = False  # a program that we know nothing of names it, or a link to it is made


class Writes(msgspec.Struct):
    """What one command does: paths it touches, and code in other languages that it runs."""

    touches: list[Touch] = []
    code: list[str] = []  # programs in another language; they count when they mention what is protected
    runs_input: bool = False  # the program is read from standard input
    folder: str | None = None  # the command runs in this folder: `git -C x`
    scripts: list[str] = []  # files whose text it runs: they count when the same line writes them
    links: list[tuple[str, str]] = []
    """Links that it makes: what they lead to, and where they are, or the folder that they are put into."""
    patches: list[str] | None = None
    """Patch files whose names it changes; without any, standard input is one. None: it applies no patches."""
    archives: list[str] = []  # archives that are unpacked; `-` is standard input
    into: str = ""  # the folder that patches and archives are applied to, if not the current one
    strip: int | None = 0  # how many folders of the names in patches and archives are left out; None: all


class Words:
    """A command's words told apart: its options with their values, and its operands."""

    def __init__(self, words: Sequence[str], valued: str = "", long: str = "") -> None:
        self.options: list[tuple[str, str]] = []
        self.operands: list[str] = []
        rest = iter(words)
        longs = frozenset(long.split())
        for word in rest:
            if word == "--":
                self.operands += rest
            elif word.startswith("--"):
                name, equals, value = word[2:].partition("=")
                self.options.append((name, value if equals or name not in longs else next(rest, "")))
            elif word.startswith("-") and len(word) > 1:
                self._short(word, valued, rest)
            else:
                self.operands.append(word)

    def _short(self, word: str, valued: str, rest: Iterator[str]) -> None:
        for place, letter in enumerate(word[1:], 2):
            if letter in valued:
                self.options.append((letter, word[place:] or next(rest, "")))
                return
            self.options.append((letter, ""))

    def has(self, *names: str) -> bool:
        return any(
            name in names or (len(name) > 3 and any(each.startswith(name) for each in names))
            for name, _ in self.options
        )

    def values(self, *names: str) -> list[str]:
        return [value for name, value in self.options if name in names and value]


def after(words: Sequence[str], short: str, long: str) -> Iterator[str]:
    for place, word in enumerate(words):
        if word in (short, long):
            yield from words[place + 1 : place + 2]
        elif word.startswith(long + "="):
            yield word[len(long) + 1 :]
        elif word.startswith(short) and len(word) > 2:
            yield word[2:]

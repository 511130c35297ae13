"""The words of a shell line as absolute paths: its variables, the folders that it may be in, names compared."""

import os
import posixpath
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

import msgspec

from billhook.core import client_env
from billhook.effects import programs, shell
from billhook.effects.git import ROOT
from billhook.effects.programs import Touch
from billhook.effects.rules import segment_matches
from billhook.effects.script import UNKNOWN

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
    """What a shell text says."""

    text: str  # with a sign for each known value
    commands: tuple[shell.SimpleCommand, ...]  # with their words as far as they are known
    values: dict[int, str] = {}  # what each sign in the text stands for


def known(text: str, folder: str, home: str, script: str) -> KnownVariables:
    """Read a shell text that runs in `folder`; `script` is the file it is from, if it is from one."""
    if "$" not in text:  # what is known begins with one
        return KnownVariables(text, shell.parse(text).commands)
    reading = _Reading(text, folder, home, script)
    commands = reading.commands()
    return KnownVariables(reading.text, commands, reading.table)


class _Reading:
    """Shell text with what is known of its variables put in.

    A value is put in as one character of Unicode's private area that the text does not hold, so that blanks and quotes
    in the value can't change how the text is read; it is turned into the value after that.
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
        if ":-" in self.text:  # what is meant unless somebody says otherwise
            self.text = re.sub(_DEFAULT, r"\1", self.text)
        self.put(_HOME, home, "HOME")
        self.absolute()
        self.put(_HERE, ".", "PWD", "pwd")

    def put(self, pattern: str, value: str, *said: str) -> None:
        """Put a value where the pattern is found. Compiling one costs more than most texts, so `said` are words of
        which each such place holds one."""
        if any(word in self.text for word in said) and re.search(pattern, self.text):
            sign = self.sign(value)
            if sign:
                self.text = re.sub(pattern, sign, self.text)

    def sign(self, value: str) -> str:
        """The character that stands for a value from now on; none when there are no more."""
        sign = next(self.free, "")
        if sign:
            self.values[sign] = self.table[ord(sign)] = value
        return sign

    def absolute(self) -> None:
        """`$(cd FOLDER && pwd)` and `$(realpath FOLDER)`, where the folder is known by now."""
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
    """The variables that are given one known value, and never another."""
    values: dict[str, set[str]] = {}
    for command in commands:
        for name, equals, value in (word.partition("=") for word in programs.said(command)):
            if equals:
                values.setdefault(name.rstrip("+"), set()).add("" if name.endswith("+") else value)
    return {
        name: value
        for name, (value, *others) in values.items()
        if value and not others and UNKNOWN not in value and name.isidentifier()
    }


# What a shell line itself says about its variables:


MAX_VARIANTS: Final = 8
_LONGEST_VALUE: Final = 4096
_ROUNDS: Final = 3
_LONGEST_BRACED: Final = 65_536

_PLAIN = re.compile(r"[\w./~@%+:,=*?-]*")
_VALUE = r"(?:\"[^\"`]*\"|'[^']*'|[^\s;&|\"'`()<>])*"
_SET = re.compile(rf"(?<![\w$./-])([A-Za-z_]\w*)\+?=({_VALUE})")
_LOOP = re.compile(r"\b(?:for|select)\s+([A-Za-z_]\w*)\s+in\s+([^;\n]*)")
_READ = re.compile(rf"\bread\s+(?:-\w+\s+)*([A-Za-z_]\w*)\s*<<<\s*({_VALUE})")
_SPELLING_DEFAULT = re.compile(r"\$\{([A-Za-z_]\w*):?=([^{}$`\"'\s]*)\}")
_USED = re.compile(r"\$(?:([A-Za-z_]\w*)|\{([A-Za-z_]\w*)(?:(:?[-=+?])([^{}$`\"'\s]*))?\})")
_ECHO = re.compile(
    r"\$\(\s*(?:echo(?: -[neE]+)?|printf(?: ['\"]?%s(?:\\n)?['\"]?)?|realpath|readlink -f)\s+([^()$`;&|<>]*)\)"
)
_ECHO_OLD = re.compile(r"`\s*(?:echo(?: -[neE]+)?|printf(?: ['\"]?%s(?:\\n)?['\"]?)?)\s+([^()$`;&|<>]*)`")
_SPELLING_HERE = re.compile(r"\$\(\s*(?:pwd|pwd -P)\s*\)|`pwd`")
_ROOT = re.compile(r"\$\(\s*git rev-parse --show-toplevel\s*(?:2>\s*/dev/null\s*)?\)|`git rev-parse --show-toplevel`")
_BRACES = re.compile(r"(?<![\w./~*?$-])([\w./~*?-]{0,256})\{([\w./~*?,-]{1,1024})\}([\w./~*?-]{0,256})(?![\w./~*?{-])")
_TEMPORARY = re.compile(r"\$\(\s*mktemp(?:\s+[^()$`;&|<>]*)?\)")


def spelt_out(text: str, cwd: str) -> tuple[list[str], bool]:
    """The line with what it says about its variables put in: one text for each round of values, at most eight; and
    whether those are all the values there are."""
    if len(text) <= _LONGEST_BRACED and "{" in text:
        text = _BRACES.sub(_braces, _BRACES.sub(_braces, text))
    if "$" not in text and "`" not in text:
        return [text], True
    text = _substituted(text, cwd)
    values = _values(text)
    known = {name: [value] for name, value in _environment(cwd).items()}
    every = {**known, **values}
    most = max((len(each) for each in values.values()), default=1)
    rounds = min(MAX_VARIANTS, most)
    variants = (
        _filled(text, {name: each[min(turn, len(each) - 1)] for name, each in every.items()}) for turn in range(rounds)
    )
    return list(dict.fromkeys(variants)), most <= MAX_VARIANTS


def git_root(folder: str) -> str:
    """The nearest folder from here upwards that holds `.git`; the folder itself when there is none."""
    at = folder
    while at and not os.path.lexists(os.path.join(at, ".git")):
        above = os.path.dirname(at)
        if above == at:
            return folder
        at = above
    return at or folder


def _environment(cwd: str) -> Mapping[str, str]:
    """The few variables whose value is known from outside."""
    project = client_env.environ().get("CLAUDE_PROJECT_DIR") or git_root(cwd)
    found = {"HOME": client_env.expanduser("~"), "PWD": cwd, "CLAUDE_PROJECT_DIR": project}
    home = client_env.environ().get("BILLHOOK_HOME")
    return {**found, "BILLHOOK_HOME": home} if home else found


def _substituted(text: str, cwd: str) -> str:
    """Substitutions whose output is plain to see."""
    text = _SPELLING_HERE.sub(lambda _: cwd, text)
    text = _ROOT.sub(lambda _: git_root(cwd), text)
    text = _TEMPORARY.sub("/tmp/mktemp.billhook", text)
    for pattern in (_ECHO, _ECHO_OLD):
        text = pattern.sub(_echoed, text)
    return text


def _echoed(found: re.Match[str]) -> str:
    return found[0] if "%" in found[1] else _plain(found[1].strip()) or found[0]


def _braces(found: re.Match[str]) -> str:
    before, inside, after = found.groups()
    return " ".join(f"{before}{one}{after}" for one in inside.split(",")) if 0 < inside.count(",") < 32 else found[0]


def _values(text: str) -> dict[str, list[str]]:
    values: dict[str, list[str]] = {}
    for pattern in (_SET, _READ, _SPELLING_DEFAULT):
        for found in pattern.finditer(text):
            values.setdefault(found[1], []).append(found[2])
    for found in _LOOP.finditer(text):
        values.setdefault(found[1], []).extend(found[2].split())
    return {name: [value[:_LONGEST_VALUE] for value in each] for name, each in values.items()}


def _filled(text: str, said: Mapping[str, str]) -> str:
    values = {name: plain for name, value in said.items() if (plain := _plain(value)) is not None}
    limit = 2 * len(text) + 65_536  # a value that is used a thousand times must not make a text without end
    for _ in range(_ROUNDS):
        room = [limit - len(text)]

        def value(found: re.Match[str], room: list[int] = room) -> str:
            default = None if "?" in (found[3] or "?") else found[4]
            plain = values.get(found[1] or found[2], default)
            if plain is None or room[0] < len(plain):
                return found[0]
            room[0] -= len(plain)
            return plain

        filled = _USED.sub(value, text)
        if filled == text:
            break
        text = filled
    return text


def _plain(value: str) -> str | None:
    """A value without its quotes, if it is made of plain letters; a value that uses others is put in as it is."""
    bare = value.replace('"', "").replace("'", "")
    return bare if _PLAIN.fullmatch(_USED.sub("", bare).replace(" ", "")) else None


# Paths and names compared:


def says(text: str, name: str) -> bool:
    """Whether a text has a name as a word of its own, in any case."""
    if name not in text and fold(name) not in fold(text):
        return False
    return re.search(rf"(?<![\w-])(?<!\w\.){re.escape(name)}(?![\w-])", text, re.I) is not None


def any_matches(patterns: Iterable[str], names: Iterable[str]) -> bool:
    folded = [fold(name) for name in names]
    return any(segment_matches(fold(pattern), name) for pattern in patterns for name in folded)


def tail(path: str) -> str:
    return "/".join(path.rstrip("/").split("/")[-2:])


def dots_agree(pattern: Iterable[str], segments: Iterable[str]) -> bool:
    """A `*` takes no name that begins with a dot."""
    return all(
        not segment.startswith(".") or sign.startswith(".") for sign, segment in zip(pattern, segments, strict=False)
    )


def normal(path: str) -> str:
    return posixpath.normpath("/" + path.lstrip("/"))


def fold(path: str) -> str:
    return path.casefold()


def upwards(folder: str) -> Iterator[str]:
    while True:
        yield folder
        above = posixpath.dirname(folder)
        if above == folder:
            return
        folder = above


def is_link(path: str) -> bool:
    try:
        return os.path.islink(path)
    except (OSError, ValueError):
        return False


def identity_of(path: str) -> tuple[int, int] | None:
    try:
        found = os.stat(path)
    except (OSError, ValueError):
        return None
    return found.st_dev, found.st_ino


# Words of a line turned into absolute paths, from every folder that the line may be in.


LONGEST_PATH: Final = 16_384  # no system opens a longer one, so nothing can be done to it either
_PATHS_OWN_FOLDER = re.compile(r"/proc/(?:self|thread-self|\d+|\0)/cwd(?=/|$)")
_OWN_ROOT = re.compile(r"/proc/(?:self|thread-self|1|\0)/root(?=/)")


def placed(touch: Touch, folders: Iterable[str]) -> Iterator[Touch]:
    """A touch as it is seen from each folder, with its sources."""
    for folder in folders:
        sources = tuple(path for source in touch.sources for path in absolute(source, [folder]))
        for path in absolute(touch.path, [folder]):
            yield msgspec.structs.replace(touch, path=path, sources=sources)


def absolute(word: str, folders: Iterable[str]) -> Iterator[str]:
    """A path as it is seen from each folder; not made shorter, because `..` behind a link leads elsewhere."""
    if not word or len(word) > LONGEST_PATH:
        return
    if word.startswith("~"):
        word = _from_home(word)
    for folder in folders:
        if word.startswith(ROOT):
            yield posixpath.join(git_root(folder), word[2:].lstrip("/"))
        elif word.startswith(("/proc/", "//proc/")):
            path = _PATHS_OWN_FOLDER.sub(lambda _, folder=folder: folder, "/" + word.lstrip("/"), 1)  # type: ignore[misc]
            yield _OWN_ROOT.sub("", path, 1)
        else:
            yield word if word.startswith(("/", UNKNOWN)) else f"{folder}/{word}"


def _from_home(word: str) -> str:
    if word[1:2] in ("+", "-"):
        return word[2:].lstrip("/") or "."
    name, slash, rest = word.partition("/")
    try:
        return UNKNOWN + slash + rest if UNKNOWN in name else client_env.expanduser(word)
    except ValueError:  # no user can be called so
        return word

"""Shell text with the values of its variables, as far as they are known."""

import os
import re
from typing import Final

import msgspec

from billhook.effects import programs, shell
from billhook.effects.effect import UNKNOWN

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


def known(text: str, folder: str, home: str, script: str) -> KnownVariables:
    """Read a shell text that runs in `folder`; `script` is its file, if it has one."""
    if "$" not in text:  # no variables
        return KnownVariables(text, shell.parse(text).commands)
    reading = _Reading(text, folder, home, script)
    commands = reading.commands()
    return KnownVariables(reading.text, commands, reading.table)


class _Reading:
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
        for name, equals, value in (word.partition("=") for word in programs.said(command)):
            if equals:
                values.setdefault(name.rstrip("+"), set()).add("" if name.endswith("+") else value)
    return {
        name: value
        for name, (value, *others) in values.items()
        if value and not others and UNKNOWN not in value and name.isidentifier()
    }

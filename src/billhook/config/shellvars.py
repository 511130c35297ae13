"""Shell text with what is known of its variables put in, read into commands. Nothing is run."""

import os
import re
from typing import Final

import msgspec

from billhook import shell
from billhook.config.commandwords import DECLARES
from billhook.script import UNKNOWN

_SELF: Final = r'"?\$(?:0|BASH_SOURCE\b|\{(?:0|BASH_SOURCE(?:\[0\])?)\})"?'
_PROJECT = re.compile(
    r"\$(?:CLAUDE_PROJECT_DIR\b|\{CLAUDE_PROJECT_DIR(?::?[-=?][^{}]*)?\}"
    r"|\(\s*git rev-parse --show-toplevel(?:\s+2>\s*/dev/null)?(?:\s*\|\|\s*pwd)?\s*\))"
)
_HERE = re.compile(r"\$(?:PWD\b|\{PWD\}|\(\s*pwd(?:\s+-P)?\s*\))")
_HOME = re.compile(r"\$(?:HOME\b|\{HOME\})")
_OWN_FILE = re.compile(r"\$\(\s*(?:realpath|readlink\s+-f)\s+(?:--\s+)?" + _SELF + r"\s*\)")
_OWN_FOLDER = re.compile(
    r"\$\(\s*dirname\s+(?:--\s+)?" + _SELF + r"\s*\)|\$\{(?:0|BASH_SOURCE(?:\[0\])?)%/\*\}|\$\{0:h\}|\$\{0:A:h\}"
)


class KnownText:
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
            self.put(_OWN_FILE, script)
            for sign in (*self.values, ""):
                # `$(dirname "$0")`, and what was `$(dirname "$(realpath "$0")")`
                pattern = rf'\$\(\s*dirname\s+(?:--\s+)?"?{sign}"?\s*\)' if sign else _OWN_FOLDER.pattern
                self.put(re.compile(pattern), os.path.dirname(script))
        self.put(_PROJECT, folder)
        self.put(_HOME, home)
        self.absolute()
        self.put(_HERE, ".")

    def put(self, pattern: re.Pattern[str], value: str) -> bool:
        if not pattern.search(self.text):
            return False
        sign = next(self.free, "")
        if sign:
            self.values[sign] = self.table[ord(sign)] = value
            self.text = pattern.sub(sign, self.text)
        return bool(sign)

    def absolute(self) -> None:
        """`$(cd FOLDER && pwd)` and `$(realpath FOLDER)`, where the folder is known by now."""
        signs = "".join(self.values)
        if signs:
            folder = rf'"?([{signs}][^\s"$`()]*)"?'
            quiet = r"(?:\s*[12&]?>\s*/dev/null)?(?:\s*2>&1)?"
            pwd = rf"\$\(\s*cd\s+(?:-P\s+)?(?:--\s+)?{folder}{quiet}\s*&&\s*pwd(?:\s+-P)?\s*\)"
            self.text = re.sub(rf"{pwd}|\$\(\s*(?:realpath|readlink\s+-f)\s+(?:--\s+)?{folder}\s*\)", _first, self.text)

    def commands(self) -> tuple[shell.SimpleCommand, ...]:
        """The commands of the text, with their words as far as they are known."""
        tried: set[str] = set()
        for _ in range(8):
            commands = shell.parse(self.text).commands
            assigned = _assigned(commands)
            fresh = [name for name in assigned if name not in tried][:64]
            tried.update(fresh)
            changed = [self.put(re.compile(rf"\$(?:{n}\b|\{{{n}\}})"), self.filled(assigned[n])) for n in fresh]
            if not any(changed):
                break
            self.absolute()
        return tuple(self.with_values(command) for command in commands)

    def with_values(self, command: shell.SimpleCommand) -> shell.SimpleCommand:
        return msgspec.structs.replace(
            command,
            words=tuple(map(self.filled, command.words)),
            assignments=tuple(map(self.filled, command.assignments)),
            redirects=tuple(shell.Redirect(one.operator, self.filled(one.target)) for one in command.redirects),
        )

    def filled(self, word: str) -> str:
        return word.translate(self.table)


def _first(found: re.Match[str]) -> str:
    return next(group for group in found.groups() if group)


def _assigned(commands: tuple[shell.SimpleCommand, ...]) -> dict[str, str]:
    """The variables that are given one known value, and never another."""
    values: dict[str, set[str]] = {}
    for command in commands:
        said = (*command.assignments, *(command.words[1:] if command.name in DECLARES else ()))
        for name, equals, value in (word.partition("=") for word in said):
            if equals:
                values.setdefault(name.rstrip("+"), set()).add("" if name.endswith("+") else value)
    return {
        name: value
        for name, (value, *others) in values.items()
        if value and not others and UNKNOWN not in value and name.isidentifier()
    }

"""A sed script, read only as far as it writes files or runs commands. One pass, so a long script costs linear time."""

import re
from typing import Final

_BETWEEN = re.compile(r"[\s;{}]*")
_ADDRESS = re.compile(r"[\d$~+,!\s]+|[IM](?=[,\s!a-zA-Z{}=])")
_LABEL: Final = frozenset(":btT")
_TEXT: Final = frozenset("aic")
_FILE: Final = frozenset("rRwW")


class _Script:
    def __init__(self, text: str) -> None:
        self.text, self.at = text, 0
        self.written: list[str] = []
        self.runs = False

    def read(self) -> None:
        while self._skip(_BETWEEN) < len(self.text):
            self._addresses()
            letter = self.text[self.at : self.at + 1]
            self.at += 1
            self._command(letter)

    def _skip(self, pattern: re.Pattern[str]) -> int:
        if found := pattern.match(self.text, self.at):
            self.at = found.end()
        return self.at

    def _addresses(self) -> None:
        before = -1
        while before != self.at < len(self.text):
            before = self.at
            self._skip(_ADDRESS)
            sign = self.text[self.at : self.at + 1]
            if sign in ("/", "\\"):
                self.at += 1 if sign == "/" else 2
                self._part(sign if sign == "/" else self.text[self.at - 1 : self.at])

    def _command(self, letter: str) -> None:
        if letter in ("s", "y"):
            sign = self.text[self.at : self.at + 1]
            self.at += 1
            self._part(sign)
            self._part(sign)
            self._flags() if letter == "s" else None
        elif letter == "e":
            self.runs = True
            self._line()
        elif letter in _FILE:
            name = self._line().strip()
            self.written += [name] if letter in "wW" and name else []
        elif letter in _TEXT:
            self._line()
        elif letter in _LABEL:
            self._skip(re.compile(r"[^;\n}]*"))

    def _part(self, sign: str) -> None:
        """Up to the next sign that no backslash precedes."""
        while self.at < len(self.text) and self.text[self.at] != sign:
            self.at += 2 if self.text[self.at] == "\\" else 1
        self.at += 1

    def _flags(self) -> None:
        while self.text[self.at : self.at + 1] not in ("", ";", "\n", "}", " ", "#"):
            flag = self.text[self.at]
            self.at += 1
            if flag == "w":
                self.written.append(self._line().strip())
                return
            self.runs = self.runs or flag == "e"

    def _line(self) -> str:
        start = self.at
        end = self.text.find("\n", start)
        self.at = len(self.text) if end < 0 else end
        return self.text[start : self.at]


def sed_script(text: str) -> tuple[list[str], bool]:
    """The files that a script writes, and whether it runs commands."""
    script = _Script(text)
    script.read()
    return script.written, script.runs

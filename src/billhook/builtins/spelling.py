"""What a shell line itself says about its variables: `f=a/b; rm $f` spelt out as `f=a/b; rm a/b`.

Text in, text out; nothing is run. Only plain values are put in, so that no quote or operator can come into being. What
is inside single quotes is spelt out as well: a guard may see a path too many, never one too few.
"""

import os
import re
from collections.abc import Mapping
from typing import Final

from billhook import caller

MAX_VARIANTS: Final = 8
_LONGEST_VALUE: Final = 4096
_ROUNDS: Final = 3
_LONGEST_BRACED: Final = 65_536

_PLAIN = re.compile(r"[\w./~@%+:,=*?-]*")
_VALUE = r"(?:\"[^\"`]*\"|'[^']*'|[^\s;&|\"'`()<>])*"
_SET = re.compile(rf"(?<![\w$./-])([A-Za-z_]\w*)\+?=({_VALUE})")
_LOOP = re.compile(r"\b(?:for|select)\s+([A-Za-z_]\w*)\s+in\s+([^;\n]*)")
_READ = re.compile(rf"\bread\s+(?:-\w+\s+)*([A-Za-z_]\w*)\s*<<<\s*({_VALUE})")
_DEFAULT = re.compile(r"\$\{([A-Za-z_]\w*):?=([^{}$`\"'\s]*)\}")
_USED = re.compile(r"\$(?:([A-Za-z_]\w*)|\{([A-Za-z_]\w*)(?:(:?[-=+?])([^{}$`\"'\s]*))?\})")
_ECHO = re.compile(
    r"\$\(\s*(?:echo(?: -[neE]+)?|printf(?: ['\"]?%s(?:\\n)?['\"]?)?|realpath|readlink -f)\s+([^()$`;&|<>]*)\)"
)
_ECHO_OLD = re.compile(r"`\s*(?:echo(?: -[neE]+)?|printf(?: ['\"]?%s(?:\\n)?['\"]?)?)\s+([^()$`;&|<>]*)`")
_HERE = re.compile(r"\$\(\s*(?:pwd|pwd -P)\s*\)|`pwd`")
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
    project = caller.environ().get("CLAUDE_PROJECT_DIR") or git_root(cwd)
    found = {"HOME": caller.expanduser("~"), "PWD": cwd, "CLAUDE_PROJECT_DIR": project}
    home = caller.environ().get("BILLHOOK_HOME")
    return {**found, "BILLHOOK_HOME": home} if home else found


def _substituted(text: str, cwd: str) -> str:
    """Substitutions whose output is plain to see."""
    text = _HERE.sub(lambda _: cwd, text)
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
    for pattern in (_SET, _READ, _DEFAULT):
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

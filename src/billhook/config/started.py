"""The scripts that a Python or JavaScript program starts: `subprocess.run(["sh", "lib/x.sh"])`, found in its text."""

import itertools
import re
from collections.abc import Iterator
from typing import Final, NamedTuple

from billhook.config import commandwords
from billhook.config.commandwords import SUFFIXES

MAX_CALLS: Final = 500
MAX_CALL: Final = 400
_START: Final = re.compile(
    r"\b(?:subprocess\.(?:run|call|check_call|check_output|Popen|getoutput|getstatusoutput)"
    r"|os\.(?:system|popen|exec\w++|spawn\w++|posix_spawnp?)|create_subprocess_\w++"
    r"|(?<!\.)(?:Popen|check_call|check_output)|(?:exec|spawn)(?:File)?Sync|(?<!\.)(?:spawn|fork|execFile)"
    r"|(?P<code>run_path|execfile|(?<!\.)exec))\("
)
_LITERAL: Final = re.compile(r""""([^"\n]*+)"|'([^'\n]*+)'|(sys\.executable|process\.execPath)""")
_ROOT: Final = re.compile(r"^(?:\$?\{[^{}]*+\})?/*+")
"""`{HERE}/` in front of a name: it is sought in every folder around the program."""
_ITSELF: Final = {"sys.executable": "python", "process.execPath": "node"}


class Started(NamedTuple):
    """What one call starts."""

    scripts: tuple[str, ...]  # the names of scripts in it, as they are written there
    text: str


def started(source: str) -> Iterator[Started]:
    """The calls that run a script: a path of its own, or an interpreter with one."""
    for call in itertools.islice(_START.finditer(source), MAX_CALLS):
        text = _arguments(source[call.end() : call.end() + MAX_CALL])
        literals = (_ITSELF.get(itself) or double or single for double, single, itself in _LITERAL.findall(text))
        words = [word for literal in literals for word in literal.split()]
        if call["code"] or not words or _runs_script(words):
            scripts = tuple(_ROOT.sub("", word) for word in words if word.endswith(SUFFIXES))
            yield Started(scripts, f"{call[0]}{text}")


def _arguments(text: str) -> str:
    depth = 1
    for at, letter in enumerate(text):
        depth += (letter == "(") - (letter == ")")
        if depth == 0:
            return text[:at]
    return text


def _runs_script(words: list[str]) -> bool:
    name = commandwords.program(tuple(words))
    interprets = name in commandwords.INTERPRETERS or commandwords.PYTHON.fullmatch(name)
    return words[0].endswith(SUFFIXES) or bool(interprets or commandwords.run_by(tuple(words)))

"""A shell command parsed: the commands it runs, unwrapped; used by rules and guards.

`parse("sudo sh -c 'git push' && ls")` lists `sudo sh -c 'git push'`, `sh -c 'git push'`, `git push` and `ls`: wrappers
and what they run. It reads text and runs nothing: variables are not known, files not opened, aliases not followed.
What was not understood, or was too deep or too long, makes `complete` false; then a rule has to err on the safe side.
A net against accidents; a sandbox is the wall.
"""

import functools
import posixpath
from collections import deque
from typing import Final

import msgspec

from billhook.effects import script, wrappers
from billhook.effects.effect import UNKNOWN

MAX_DEPTH: Final = 16
MAX_COMMANDS: Final = 20_000
MAX_STEPS: Final = script.MAX_STEPS
MAX_TEXT: Final = 8 << 20

_READS: Final = frozenset({"<", "<<", "<<-", "<<<"})
_NOWHERE: Final = frozenset({"/dev/null", "/dev/stdout", "/dev/stderr", "/dev/tty", "/dev/fd/1", "/dev/fd/2"})


class Redirect(msgspec.Struct, frozen=True):
    """One redirection. `target` is a path after quote removal, a descriptor for `>&1`, the delimiter for `<<`."""

    operator: str
    target: str

    @property
    def writes(self) -> bool:
        """Whether a file is created, cut or changed by it; `/dev/null` and its like are none."""
        if self.operator in _READS or self.target in _NOWHERE:
            return False
        return not (self.operator in (">&", "<&") and (self.target.rstrip("-").isdigit() or self.target == "-"))


class SimpleCommand(msgspec.Struct, frozen=True):
    """One command that would run, its words after quote removal.

    `UNKNOWN` inside a word is a part that only the shell knows: variables, substitutions, brace expansion, and
    patterns in the command word. Without words it is a line of assignments or redirections alone.
    """

    words: tuple[str, ...]
    assignments: tuple[str, ...] = ()
    redirects: tuple[Redirect, ...] = ()
    via: tuple[str, ...] = ()  # the wrappers it was reached through, outermost first: `("sudo", "sh")`
    transparent: bool = False  # it does nothing but run another command that is listed as well: `timeout 5 ls`

    @property
    def text(self) -> str:
        """The words joined by one blank."""
        return " ".join(self.words)

    @property
    def name(self) -> str:
        """The command word without its folder: `rm` for `/bin/rm`."""
        return posixpath.basename(self.words[0]) if self.words else ""

    @property
    def dynamic(self) -> bool:
        """Whether the command word itself is unknown: `$CMD x`."""
        return bool(self.words) and UNKNOWN in self.words[0]

    @property
    def placed(self) -> bool:
        """Whether it is known where the command lies: not so for `/t*/rm x`."""
        return not (self.words and "/" in self.words[0] and set(self.words[0]) & set("*?["))

    @property
    def written(self) -> tuple[str, ...]:
        """The files its redirections write."""
        return tuple(redirect.target for redirect in self.redirects if redirect.writes)


class Parsed(msgspec.Struct, frozen=True):
    """What a line runs. `complete` false: something was not understood or over a limit; `commands` may lack some."""

    commands: tuple[SimpleCommand, ...]
    complete: bool

    @property
    def written(self) -> tuple[str, ...]:
        """The files that redirections anywhere in the line write."""
        return tuple(dict.fromkeys(target for command in self.commands for target in command.written))


def parse(command: str, max_steps: int = MAX_STEPS) -> Parsed:
    """The commands that `command` runs. Never raises, whatever the text; time is linear in its length and bounded."""
    return _parse_short(command) if len(command) <= 4096 else _Unwrapping(command, max_steps).parsed()


class _Unwrapping:
    """One parse: the texts still to be read, the commands found, what is left of the budget."""

    def __init__(self, command: str, max_steps: int = MAX_STEPS) -> None:
        self.texts: deque[tuple[str, tuple[str, ...], int]] = deque([(command, (), 0)])
        self.found: dict[SimpleCommand, None] = {}
        self.steps = max_steps
        self.characters = MAX_TEXT
        self.complete = True

    def parsed(self) -> Parsed:
        while self.texts:
            text, via, depth = self.texts.popleft()
            self.characters -= len(text)
            if depth > MAX_DEPTH or self.characters < 0 or len(self.found) > MAX_COMMANDS or self.steps <= 0:
                self.complete = False
                continue
            read = script.read(text, self.steps)
            self.steps -= read.steps
            self.complete = self.complete and read.complete
            self.texts.extend((inner, (*via, "`"), depth + 1) for inner in read.backticks)
            for command in read.commands:
                self.unwrap(command, via, depth)
        return Parsed(tuple(self.found), self.complete)

    def unwrap(self, command: script.ScriptCommand, via: tuple[str, ...], depth: int) -> None:
        commands = deque([(command, via, depth)])
        while commands:
            command, via, depth = commands.popleft()
            if len(self.found) > MAX_COMMANDS or depth > MAX_DEPTH:
                self.complete = False
                return
            inside = wrappers.inside(command)
            self.complete = self.complete and inside.complete
            self.add(command, via, bool(inside.commands))
            if inside.commands or inside.texts:
                inner_via = (*via, posixpath.basename(command.words[0]))
                commands.extend((inner, inner_via, depth + 1) for inner in inside.commands)
                self.texts.extend((text, inner_via, depth + 1) for text in inside.texts)

    def add(self, command: script.ScriptCommand, via: tuple[str, ...], wraps: bool) -> None:
        redirects = tuple(Redirect(redirect.operator, redirect.target) for redirect in command.redirects)
        transparent = wraps and wrappers.transparent(command.words)
        self.found.setdefault(SimpleCommand(command.words, command.assignments, redirects, via, transparent))


@functools.lru_cache(maxsize=1024)
def _parse_short(command: str) -> Parsed:
    """Several rules judge one line, so the last lines are kept; long ones are not worth the memory."""
    return _Unwrapping(command).parsed()

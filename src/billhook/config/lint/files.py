"""The programs and scripts that a hook names, as far as its text tells. Nothing is run.

A word that only the shell will know is skipped, and so is everything relative after a `cd`, or what the command
itself looks for before it runs it.
"""

import functools
import itertools
import os
import re
from collections.abc import Iterator
from typing import Final

import msgspec

from billhook import shell
from billhook.config import sources
from billhook.config.declared import Declared, Exec, Python, Run
from billhook.script import UNKNOWN
from billhook.unwrap import SHELLS

LARGEST: Final = 256 * 1024  # bytes of a script that are looked at
LONGEST: Final = 32 * 1024  # Characters of a command that is taken apart. No person wrote a longer one.
MOST: Final = 50  # programs and scripts of one hook that are looked at

_PROJECT: Final = "/@billhook-project@"
_PROJECT_VARIABLE = re.compile(r"\$CLAUDE_PROJECT_DIR\b|\$\{CLAUDE_PROJECT_DIR(?::?-[^}]{0,200})?\}|\$PWD\b|\$\{PWD\}")
_SYSTEM: Final = ("/bin/", "/usr/bin/", "/sbin/", "/usr/sbin/")
"""What lies there is a program, whatever it is written in."""
_HOME: Final = "/@billhook-home@"
_HOME_VARIABLE = re.compile(r"\$HOME\b|\$\{HOME\}")
_FUNCTION = re.compile(r"(?:^|[\s;{(&|])(?:function\s+)?([A-Za-z_][\w-]*)\s*\(\)")
_FUNCTION_WORD = re.compile(r"(?:^|[\s;{(&|])function\s+([A-Za-z_][\w-]*)")
_INTERPRETER = re.compile(r"(?:python|pypy)[\d.]*|node|ruby|perl|php|deno|bun|tsx|ts-node|osascript|Rscript|lua")
_RUNS_TEXT = re.compile(r"-\w*[cemnprEM]\w*|-|--eval|--print")  # options after which no file comes: `-c`, `-m`, `-pe`
_SHELL_RUNS_TEXT = re.compile(r"-\w*[cs]\w*|-")
_PLAIN_WRAPPERS: Final = SHELLS | {"`", "sudo", "env", "timeout", "nohup", "exec", "command", "time", "nice", "xargs"}
_LOOKS_FIRST: Final = frozenset({"[", "test", "command", "which", "type", "hash", "whence", "stat", "ls"})
_BUILTINS: Final = """
    . : [ [[ alias bg bind break builtin caller case cd command compgen complete compopt continue coproc declare
    dirs disown echo enable eval exec exit export false fc fg for function getopts hash help history if jobs kill
    let local logout mapfile popd printf pushd pwd read readarray readonly return select set shift shopt source
    suspend test time times trap true type typeset ulimit umask unalias unset until wait while setopt unsetopt
    autoload
"""
BUILTINS: Final = frozenset(_BUILTINS.split())


class Named(msgspec.Struct, frozen=True):
    """One program or script of a hook."""

    word: str  # as the file has it, variables aside
    path: str  # absolute, or empty: a name that is looked for in PATH
    direct: bool  # it is started itself; else an interpreter reads it
    by_shell: bool  # a shell starts or reads it
    of_project: bool  # it lies in whichever project is open


def named(hook: Declared) -> list[Named]:
    """Everything that the hook's action names."""
    match hook.action:
        case Run(text) if hook.action.shell != "powershell" and len(text) <= LONGEST:
            return list(itertools.islice(dict.fromkeys(_of_text(text, hook.folder)), MOST))
        case Exec(argv):
            words = tuple(_known(word) for word in argv)
            return list(dict.fromkeys(_of_words(words, hook.folder, by_shell=False, here=True)))
        case Python(_, interpreter) if interpreter:
            return [_named(_known(interpreter), hook.folder, direct=True, by_shell=False)]
        case _:
            return []


def _known(text: str) -> str:
    """The text with the variables that we know put in, as words that no shell takes apart."""
    return _HOME_VARIABLE.sub(_HOME, _PROJECT_VARIABLE.sub(_PROJECT, text))


def _shown(word: str) -> str:
    return word.replace(_PROJECT, "$CLAUDE_PROJECT_DIR").replace(_HOME, "$HOME")


def _of_text(text: str, folder: str) -> Iterator[Named]:
    parsed = shell.parse(_known(text))
    if "[[" in text:
        return  # its tests are no commands: what it looks for before it runs it is not known
    looked_for = {
        os.path.normpath(_shown(word))
        for command in parsed.commands
        if command.name in _LOOKS_FIRST
        for word in command.words[1:]
    }
    functions = {*_FUNCTION.findall(text), *_FUNCTION_WORD.findall(text)}
    moves = [command.words[1:] for command in parsed.commands if command.name in ("cd", "pushd")]
    moved = any(to not in ((_PROJECT,), (".",)) for to in moves)
    own_path = "PATH=" in text
    for command in parsed.commands:
        if not set(command.via) <= _PLAIN_WRAPPERS or command.dynamic:
            continue
        for found in _of_words(command.words, folder, by_shell=True, here=not moved):
            known = not found.path and (found.word in functions or own_path)
            if not known and os.path.normpath(found.word) not in looked_for:
                yield found


def _of_words(words: tuple[str, ...], folder: str, *, by_shell: bool, here: bool) -> Iterator[Named]:
    if not words or not _plain(words[0]):
        return
    name = os.path.basename(words[0])
    if not (by_shell and words[0] in BUILTINS) and (here or not _relative(words[0])):
        yield _named(words[0], folder, direct=True, by_shell=by_shell)
    script = _script_of(name, words[1:])
    if script and _plain(script) and (here or not _relative(script)):
        reads = name in SHELLS or name in (".", "source")
        yield _named(script, folder, direct=False, by_shell=reads)


def _plain(word: str) -> bool:
    return word == "[" or (bool(word) and not set(word) & {UNKNOWN, "*", "?", "[", "$", "`"})


def _relative(word: str) -> bool:
    return "/" in word and not word.startswith(("/", "~"))


def _script_of(interpreter: str, arguments: tuple[str, ...]) -> str:
    """The file that an interpreter is told to run; nothing where its options make that doubtful."""
    if interpreter in (".", "source"):
        return arguments[0] if arguments and "/" in arguments[0] else ""
    if interpreter == "uv" and arguments[:1] == ("run",):
        arguments = arguments[1:]
        return arguments[0] if arguments and arguments[0].endswith(".py") else ""
    if interpreter not in SHELLS and not _INTERPRETER.fullmatch(interpreter):
        return ""
    if interpreter in ("deno", "bun") and arguments[:1] == ("run",):
        arguments = arguments[1:]
    for argument in arguments:
        if (_SHELL_RUNS_TEXT if interpreter in SHELLS else _RUNS_TEXT).fullmatch(argument):
            return ""
        if not argument.startswith("-"):
            return argument if "/" in argument or "." in argument else ""
        if not re.fullmatch(r"-[a-zA-Z]+", argument) and argument != "--":
            return ""  # a long option may take the next word
    return ""


def _named(word: str, folder: str, *, direct: bool, by_shell: bool) -> Named:
    relative = _relative(word) if direct else not word.startswith(("/", "~"))
    of_project = relative or word.startswith(_PROJECT + "/")
    if direct and "/" not in word:
        return Named(_shown(word), "", direct, by_shell, of_project)
    path = word.replace(_PROJECT, folder).replace(_HOME, os.path.expanduser("~"))
    if by_shell and path.startswith("~"):
        path = os.path.expanduser(path)
    return Named(_shown(word), os.path.normpath(os.path.join(folder, path)), direct, by_shell, of_project)


def scripts(hook: Declared) -> Iterator[tuple[Named, str]]:
    """The text of every script that the hook names, its first 256 KiB; programs and what can't be read are left out."""
    for found in named(hook):
        if not found.path or found.path.startswith(_SYSTEM) or not os.path.isfile(found.path):
            continue
        text = _text_of(found.path, sources.identity(found.path))
        if text:
            yield found, text


def text_of(path: str) -> str | None:
    """The whole text of a file; None when it is large, no text, or can't be read."""
    try:
        size = os.path.getsize(path) if os.path.isfile(path) else LARGEST + 1
    except OSError:
        return None
    if size > LARGEST:
        return None
    return (_text_of(path, sources.identity(path)) or None) if size else ""


@functools.lru_cache(maxsize=256)
def _text_of(path: str, identity: sources.Identity) -> str:
    try:
        with open(path, "rb") as file:
            head = file.read(LARGEST)
    except OSError:
        return ""
    return "" if b"\0" in head[:1024] else head.decode("utf-8", "replace")

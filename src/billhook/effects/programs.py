"""The words of a command: which is the script, which name files that are read, which are written."""

import itertools
import re
from collections.abc import Iterator
from typing import Final

import msgspec

from billhook.effects.effect import UNKNOWN
from billhook.effects.shell import SimpleCommand
from billhook.effects.wrappers import SHELLS, WRAPPERS

SUFFIXES: Final = (".sh", ".bash", ".zsh", ".py", ".pyw", ".js", ".mjs", ".cjs", ".ts", ".mts", ".rb", ".pl", ".php")
"""What the names of scripts end in."""
_WRITERS: Final = frozenset({"tee", "touch", "truncate", "rm", "rmdir", "unlink", "mv", "mkdir", "logger", "mktemp"})
_COPIERS: Final = frozenset({"cp", "install", "ln"})
_READ_NOTHING: Final = frozenset(
    {
        "echo",
        "printf",
        "[",
        "test",
        "[[",
        ":",
        "true",
        "false",
        "exit",
        "return",
        "kill",
        "type",
        "which",
        "cd",
        "pushd",
    }
    | {"export", "local", "declare", "typeset", "readonly", "unset", "set", "shift", "trap", "read", "ls", "chmod"}
)
DECLARES: Final = frozenset({"export", "local", "declare", "typeset", "readonly"})
PYTHON = re.compile(r"(?:python|pypy)[0-9.]*w?(?:\.exe)?")


class InterpreterOptions(msgspec.Struct, frozen=True):
    """How an interpreter's options are told from its script."""

    valued: str = ""  # short ones that take a value
    code: str = ""  # short ones whose value is the program itself
    long: frozenset[str] = frozenset()  # long ones that take the next word
    long_code: frozenset[str] = frozenset()


INTERPRETERS: Final[dict[str, InterpreterOptions]] = {
    **dict.fromkeys(SHELLS, InterpreterOptions("oO", "c", frozenset({"--rcfile", "--init-file"}))),
    "python": InterpreterOptions("WXm", "c"),
    "node": InterpreterOptions(
        "rC", "ep", frozenset({"--require", "--import", "--loader", "--conditions"}), frozenset({"--eval", "--print"})
    ),
    "ruby": InterpreterOptions("IrCE", "e"),
    "perl": InterpreterOptions("IM", "eE"),
    "php": InterpreterOptions("dc", "r"),
    **dict.fromkeys(("lua", "luajit", "Rscript", "R", "osascript", "julia", "groovy"), InterpreterOptions("l", "e")),
    "elixir": InterpreterOptions("rS", "e", frozenset({"--require"}), frozenset({"--eval"})),
    **dict.fromkeys(("pwsh", "powershell"), InterpreterOptions("", "cC")),
    **dict.fromkeys(("tsx", "ts-node", "tclsh"), InterpreterOptions()),
    **dict.fromkeys((".", "source"), InterpreterOptions()),
}
ALSO_INTERPRET: Final[dict[str, InterpreterOptions]] = {
    "emacs": InterpreterOptions("lf", "", frozenset({"--load", "--funcall"}), frozenset({"--eval"})),
    **dict.fromkeys(("bun", "deno"), InterpreterOptions("r", "ep", frozenset(), frozenset({"--eval", "--print"}))),
}
"""Programs that run code among other things: the first operand of most of their calls is no script."""
READS_PROGRAM: Final = frozenset({"awk", "gawk", "mawk", "sed", "jq", "make"})
"""Programs that are told what to do by the file after `-f`."""
RUNS_PROJECT: Final[dict[str, tuple[str, ...]]] = {
    **dict.fromkeys(("make", "gmake"), ("Makefile", "makefile", "GNUmakefile")),
    "just": ("justfile", "Justfile", ".justfile"),
    "task": ("Taskfile.yml", "Taskfile.yaml"),
    "rake": ("Rakefile",),
    **dict.fromkeys(("npm", "npx", "pnpm", "yarn", "bun", "bunx"), ("package.json",)),
    "deno": ("deno.json", "deno.jsonc"),
    "composer": ("composer.json",),
    "nox": ("noxfile.py",),
    "tox": ("tox.ini",),
    "pre-commit": (".pre-commit-config.yaml",),
    "direnv": (".envrc",),
    **dict.fromkeys(("docker-compose", "podman-compose"), ("compose.yaml", "docker-compose.yml")),
    **dict.fromkeys(("pytest", "jest", "vitest", "cargo", "go", "gradle", "mvn", "dotnet", "mix", "rspec"), ()),
    **dict.fromkeys(("docker", "podman"), ()),
}
"""Programs that run code of the project by themselves, and the files of the project in which that is written."""
LOADS: Final = frozenset(
    {
        "BASH_ENV",
        "ENV",
        "ZDOTDIR",
        "PYTHONSTARTUP",
        "PYTHONHOME",
        "PYTHONUSERBASE",
        "NODE_OPTIONS",
        "NODE_PATH",
        "RUBYOPT",
        "RUBYLIB",
    }
    | {"PERL5LIB", "PERLLIB", "PERL5OPT", "LUA_PATH", "LUA_INIT", "CLASSPATH", "JAVA_TOOL_OPTIONS", "LD_PRELOAD"}
    | {"LD_LIBRARY_PATH", "DYLD_INSERT_LIBRARIES", "PATH", "GIT_CONFIG_GLOBAL", "GIT_EXEC_PATH", "GIT_SSH_COMMAND"}
)
"""Variables that tell programs which files to load or run, or where to look for them."""
_GIVE: Final = frozenset({"cat", "tac", "head", "tail", "sort", "ls", "find", "fd", "run-parts", "parallel", "xargs"})
_PRINT: Final = frozenset({"echo", "printf"})
_HELP: Final = frozenset({"--version", "-V", "-v", "--help", "-h"})
_FIND: Final = frozenset({"-H", "-L", "-P"})


def program(words: tuple[str, ...]) -> str:
    """The command word without its folder."""
    return words[0].rpartition("/")[2] if words else ""


def said(command: SimpleCommand) -> tuple[str, ...]:
    """The words of a command that may give variables their values: `X=1`, and what `export` and its like are told."""
    return (*command.assignments, *command.words[1:]) if program(command.words) in DECLARES else command.assignments


def operand(words: tuple[str, ...], options: InterpreterOptions) -> tuple[str, str | None, str]:
    """The script among an interpreter's words, or the code given in its place, or the module."""
    at = 0
    while at < len(words):
        word = words[at]
        at += 1
        following = words[at] if at < len(words) else ""
        if word == "--":
            return following, None, ""
        if word == "-" or word[:1] not in ("-", "+"):
            return word if word != "-" else "", None, ""
        if word.startswith("--"):
            name, equals, value = word.partition("=")
            if name in options.long_code:
                return "", value if equals else following, ""
            at += word in options.long
            continue
        for place, letter in enumerate(word[1:], 2):
            value = word[place:] or following
            if letter in options.code:
                # a shell takes its text from the next word, whatever letters follow
                return "", value, ""
            if letter in options.valued:
                if letter == "m":
                    return "", None, value
                at += not word[place:]
                break
    return "", None, ""


def runs_what_it_is_given(command: SimpleCommand) -> bool:
    """Whether a command runs a file or a text that only shows when it runs: `xargs sh`, `... | sh`, `"$f"`."""
    name = program(command.words)
    if not command.words or UNKNOWN in command.words[0] or name in ("run-parts", "parallel"):
        return bool(command.words)
    if name == "eval":
        return any(UNKNOWN in word for word in command.words)
    interpreter = "python" if PYTHON.fullmatch(name) else name
    if interpreter not in INTERPRETERS:
        return False
    if any(redirect.operator.startswith("<") for redirect in command.redirects) or _HELP.intersection(command.words):
        return False
    script, code, module = operand(command.words[1:], INTERPRETERS[interpreter])
    if code is not None or module:
        return UNKNOWN in (code or "")
    return not script or UNKNOWN in script


def given_words(words: tuple[str, ...]) -> Iterator[str]:
    """The words that name what a command hands on to others: its contents, or its name."""
    name = program(words)
    if name in _PRINT:
        yield from (word for word in words[1:] if set(word) & set("*?["))
    elif name == "find":
        yield from itertools.takewhile(lambda word: word[:1] not in "-(!", (w for w in words[1:] if w not in _FIND))
    elif name in _GIVE:
        yield from (word for word in words[1:] if not word.startswith("-"))


def read_words(words: tuple[str, ...]) -> Iterator[str]:
    """The words that may name a file which the command reads; what a wrapper runs has words of its own."""
    name = program(words)
    if name in _READ_NOTHING or name in WRAPPERS:
        return
    written = set(written_words(words))
    for word in words[1:]:
        if word in written:
            continue
        yield word
        if word.startswith("-"):
            yield word.partition("=")[2]
            yield word[2:]
        elif word.startswith(("@", "if=")):  # curl's and dd's ways
            yield word.removeprefix("@").removeprefix("if=")


def written_words(words: tuple[str, ...]) -> tuple[str, ...]:
    """The words that name what the command writes, moves or removes."""
    name = program(words)
    if name in _COPIERS:
        return words[-1:]
    edits = name == "sed" and any(word.startswith(("-i", "--in-place")) for word in words)
    return words[1:] if name in _WRITERS or edits else ()


def language_of(name: str) -> str:
    """The language of an interpreter, as far as we read it."""
    if PYTHON.fullmatch(name):
        return "python"
    return "shell" if name in SHELLS or name in (".", "source") else ""


def kind(path: str, shebang: str, told: str) -> str:
    """`python`, `shell` or something else: as told, by its name or by its first line.

    Told that it is a `program`, one that says nothing else is run by the shell itself.
    """
    if told in ("python", "shell", "module", "none"):
        return told
    if path.endswith((".py", ".pyw")):
        return "python"
    if path.endswith((".sh", ".bash", ".zsh")):
        return "shell"
    if not shebang:
        return "shell" if told == "program" else ""
    names = [word.rpartition("/")[2] for word in shebang.removeprefix("#!").split()]
    if "uv" in names:
        return "python"
    return next((language for language in map(language_of, names) if language), "")

"""Recognise a command line that only starts a Python script, and tell exactly what the kernel would get.

    recognise(("/bin/sh", "-c", '"$CLAUDE_PROJECT_DIR"/.claude/hooks/guard.py'), env, cwd)

Everything that is not certain is a reason to start the plain way: a short phrase, which `billhook list` shows.
"""

import functools
import os
import re
import stat
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from billhook.runners import interpreters

PYTHON: Final = re.compile(r"python[0-9.]*")
_ALONE: Final = frozenset("bBEIOPqsSu")  # flags that a fork has from its parent, and that print or wait for nothing
_UTF8: Final = frozenset({"utf8", "utf8=0", "utf8=1"})
_AT_START: Final = frozenset(
    {"PYTHONVERBOSE", "PYTHONPROFILEIMPORTTIME", "PYTHONINSPECT", "PYTHONDUMPREFS", "PYTHONMALLOCSTATS"}
)
"""Variables that make an interpreter print at its start or end."""
_SHELL_CHANGES: Final = ("IFS", "OPTIND", "PPID")  # variables that dash sets, even if they are exported
_ASSIGNED: Final = re.compile(r"[A-Za-z_]\w*=")
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
_PIECE: Final = re.compile(
    r"""(?P<blank>[ \t]+)"""
    r"""|(?P<plain>[A-Za-z0-9_./:=@%+,^-]+)"""
    r"""|'(?P<single>[^']*)'"""
    r"""|"(?P<double>(?:[^"\\`$]|\$[A-Za-z_]\w*|\$\{[A-Za-z_]\w*\})*)\""""
    r"""|(?P<variable>\$[A-Za-z_]\w*|\$\{[A-Za-z_]\w*\})"""
    r"""|(?P<home>(?<![^ \t])~(?=/))""",
    re.ASCII,
)
_VARIABLE: Final = re.compile(r"\$\{?([A-Za-z_]\w*)\}?", re.ASCII)
_UNSPLIT: Final = re.compile(r"[A-Za-z0-9_./:=@%+,^-]+", re.ASCII)
_HEAD: Final = 256  # bytes of a script in which the kernel looks for its interpreter


class NotPythonError(Exception):
    """Why the command line can't be started warm."""


class PythonCall(NamedTuple):
    """What the kernel would start: an interpreter with a script."""

    program: str  # the interpreter's file
    flags: tuple[str, ...]
    script: str  # as it is spelt
    arguments: tuple[str, ...]
    spelt: str  # the interpreter's name as it is its first argument
    env: Mapping[str, str]
    name: str = ""  # of the process, if it is not the interpreter's
    in_shell: bool = False  # whether a shell would wait for it, and report how it ended
    preload: str = ""  # a module that its parent imports before it forks, and prepares

    @property
    def argv(self) -> tuple[str, ...]:
        return self.spelt, *self.flags, self.script, *self.arguments


def recognise(argv: Sequence[str], env: Mapping[str, str], cwd: str) -> PythonCall | str:
    """The script that a command starts, or why that is not certain."""
    try:
        words = tuple(argv)
        if words[:2] == ("/bin/sh", "-c"):
            env = _after_shell(env, cwd)
            words = _shell_words(words, env)
            if words[0] != "exec":
                return _call(words, env, cwd)._replace(in_shell=True)
            words = words[1:]
        return _call(words, env, cwd)
    except NotPythonError as error:
        return str(error)


# -- the shell


def _shell_words(words: tuple[str, ...], env: Mapping[str, str]) -> tuple[str, ...]:
    """The words of the only command, after `exec` if it has that."""
    if len(words) != 3:
        raise NotPythonError("its shell gets parameters")
    found = [_expanded(pieces, env) for pieces in _pieces(words[2])]
    if not found or found == ["exec"]:
        raise NotPythonError("the command is empty")
    return tuple(found)


@functools.lru_cache(1024)
def _pieces(text: str) -> tuple[tuple[tuple[str, str], ...], ...]:
    """The words of a command line, each as pieces of one kind. Raises NotPythonError if it is more than one command."""
    words: list[list[tuple[str, str]]] = [[]]
    text, at = text.strip(" \t\n"), 0
    while at < len(text):
        found = _PIECE.match(text, at)
        if found is None or found.lastgroup is None:
            raise NotPythonError(f"shell syntax: `{text[at : at + 10]}`")
        if found.lastgroup == "blank":
            words.append([])
        else:
            words[-1].append((found.lastgroup, found[found.lastgroup]))
        at = found.end()
    if words[0] and words[0][0][0] == "plain" and _ASSIGNED.match(words[0][0][1]):
        raise NotPythonError("a variable is set for the command")
    return tuple(tuple(word) for word in words if word)


def _expanded(pieces: tuple[tuple[str, str], ...], env: Mapping[str, str]) -> str:
    made = ""
    for kind, text in pieces:
        if kind in ("plain", "single"):
            made += text
        elif kind == "double":
            made += _VARIABLE.sub(lambda found: _value(found[1], env), text)
        else:
            value = _value("HOME" if kind == "home" else text.strip("${}"), env)
            if kind == "variable" and not _UNSPLIT.fullmatch(value):
                raise NotPythonError(f"the shell may split `{text}`")
            made += value
    return made


def _value(name: str, env: Mapping[str, str]) -> str:
    if name not in env:
        raise NotPythonError(f"`${name}` is not set")
    return env[name]


def _after_shell(env: Mapping[str, str], cwd: str) -> dict[str, str]:
    """The environment that dash passes on: without names that it can't have, and with the folder in PWD."""
    if _shell_kind() != "dash":
        raise NotPythonError(f"/bin/sh is {_shell_kind()}")
    changed = next((name for name in _SHELL_CHANGES if name in env), "")
    if changed:
        raise NotPythonError(f"the shell sets ${changed}")
    passed = {name: value for name, value in env.items() if _NAME.fullmatch(name)}
    if not _is_folder(passed.get("PWD", ""), cwd):
        passed["PWD"] = os.path.realpath(cwd or ".")
    return passed


@functools.cache
def _shell_kind() -> str:
    return os.path.basename(os.path.realpath("/bin/sh"))


def _is_folder(path: str, cwd: str) -> bool:
    try:
        return path.startswith("/") and os.path.samefile(path, cwd or ".")
    except OSError:
        return False


# -- programs


def _call(words: tuple[str, ...], env: Mapping[str, str], cwd: str) -> PythonCall:
    program = _program(words[0], env, cwd)
    if PYTHON.fullmatch(os.path.basename(words[0])):
        if program.endswith("/shims/" + os.path.basename(words[0])):
            return _shim(program, words[1:], env, cwd)
        _check_binary(program)
        return _python(program, words[0], words[1:], env)
    if os.path.basename(words[0]) == "uv":
        return _uv(program, words, env, cwd)
    return _by_shebang(program, words, env, cwd)


def _uv(program: str, words: tuple[str, ...], env: Mapping[str, str], cwd: str) -> PythonCall:
    """`uv run x.py`, if its environment is there."""
    operands = interpreters.operands(words)
    if not operands:
        raise NotPythonError("`uv` runs something other than a script, or with options")
    as_script = not {"--script", "-s"}.isdisjoint(words[: len(words) - len(operands)])
    found = interpreters.of_uv(program, operands[0], env, cwd, as_script=as_script)
    if isinstance(found, str):
        raise NotPythonError(found)
    _check_binary(found[0])
    return _python(found[0], found[0], operands, found[1])


def _shim(shim: str, words: tuple[str, ...], env: Mapping[str, str], cwd: str) -> PythonCall:
    """The interpreter that a shim of pyenv starts."""
    found = interpreters.of_pyenv(shim, env, cwd)
    if isinstance(found, str):
        raise NotPythonError(found)
    _check_binary(found[0])
    return _python(found[0], found[0], words, found[1])


def _python(program: str, spelt: str, words: tuple[str, ...], env: Mapping[str, str], name: str = "") -> PythonCall:
    count = _flags(words)
    if count == len(words):
        raise NotPythonError("no script is named")
    script = words[count]
    if script == "-" or script.endswith(".pyc"):
        raise NotPythonError(f"`{script}` is not a script")
    if not any("E" in flag or "I" in flag for flag in words[:count] if not flag.startswith(("-W", "-X"))):
        _check_variables(env)
    return PythonCall(program, words[:count], script, words[count + 1 :], spelt, env, name)


def _check_variables(env: Mapping[str, str]) -> None:
    """Raise for variables with which each start of an interpreter does something of its own."""
    if found := next((name for name in env if name in _AT_START), ""):
        raise NotPythonError(f"${found} is set")
    if env.get("PYTHONCOERCECLOCALE") == "warn":
        raise NotPythonError("$PYTHONCOERCECLOCALE is `warn`")
    for name in ("PYTHONPATH", "PYTHONHOME", "PYTHONUSERBASE"):
        if any(not folder.startswith("/") for folder in env.get(name, "/").split(":")):
            raise NotPythonError(f"${name} has a relative folder")


def _flags(words: tuple[str, ...]) -> int:
    """How many words are flags. Raises NotPythonError for one that is not known to be harmless."""
    at = 0
    while at < len(words) and words[at].startswith("-") and words[at] != "-":
        word = words[at]
        letters = word[1:].rstrip("W")
        value = words[at + 1] if at + 1 < len(words) else ""
        if word == "-X" and value in _UTF8:
            at += 1
        elif word.startswith("-W"):
            at += word == "-W"
        elif not set(letters) <= _ALONE or word.endswith("W"):
            raise NotPythonError(f"flag `{word}`")
        at += 1
    return at


def _by_shebang(program: str, words: tuple[str, ...], env: Mapping[str, str], cwd: str) -> PythonCall:
    """An executable script: the kernel passes on one argument at most, `env -S` splits it."""
    line = _shebang(program)
    interpreter, _, rest = line.partition(" ")
    script = words[0] if "/" in words[0] else program
    flags = (rest.strip(),) if rest.strip() else ()
    if interpreter == "/usr/bin/env" and flags:
        split = flags[0].removeprefix("-S").split() if flags[0].startswith("-S") else list(flags)
        if not all(map(_UNSPLIT.fullmatch, split)) or not (split[0] == "uv" or PYTHON.fullmatch(split[0])):
            raise NotPythonError(f"its first line is `#!{line}`")
        return _call((*split, script, *words[1:]), env, cwd)
    if not interpreter.startswith("/") or not PYTHON.fullmatch(os.path.basename(interpreter)):
        raise NotPythonError("it is not a Python script")
    _check_binary(interpreter)
    return _python(interpreter, interpreter, (*flags, script, *words[1:]), env, os.path.basename(script)[:15])


def _shebang(program: str) -> str:
    try:
        with open(program, "rb") as file:
            line, end, _ = file.read(_HEAD).partition(b"\n")
    except OSError:
        line, end = b"", b""
    if not line.startswith(b"#!") or not end:
        raise NotPythonError("it is not a Python script")
    if line.endswith(b"\r") or not line.isascii():
        raise NotPythonError("its first line has unusual characters")
    return line[2:].strip(b" \t").decode().replace("\t", " ")


def _program(word: str, env: Mapping[str, str], cwd: str) -> str:
    """The file that would be started."""
    if "/" in word:
        path = os.path.join(cwd, word)
        if not _is_runnable(path):
            raise NotPythonError(f"`{word}` can't be started")
        return path
    for folder in env.get("PATH", "").split(":"):
        if not folder.startswith("/"):
            raise NotPythonError("PATH has a relative folder")
        if _is_runnable(path := f"{folder}/{word}"):
            return path
    raise NotPythonError(f"`{word}` was not found")


def _is_runnable(path: str) -> bool:
    return os.path.isfile(path) and os.access(path, os.X_OK)


def _check_binary(program: str) -> None:
    """Raise unless it is the interpreter itself. A script before it (pyenv) decides at each start what to run."""
    found = os.stat(program)
    if found.st_mode & (stat.S_ISUID | stat.S_ISGID):
        raise NotPythonError("its interpreter changes the user")
    if not _is_binary(program, found.st_ino, found.st_mtime_ns):
        raise NotPythonError(f"{program} is a script that looks for an interpreter")


@functools.lru_cache(256)
def _is_binary(program: str, inode: int, changed: int) -> bool:
    with open(program, "rb") as file:
        return file.read(4) == b"\x7fELF"

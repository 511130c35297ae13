"""The interpreter that `uv run` or a shim of pyenv would start for a script, if that is certain.

Both are run in the background, so that no call waits for them. The answer counts as long as the files on which it
depends, the folder and the variables are unchanged.
"""

import asyncio
import functools
import os
import re
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Final, NamedTuple

from billhook.core import client_env
from billhook.core.answers import Exit
from billhook.runners import process
from billhook.runners.process_tree import MARKER

PENDING: Final = "uv or pyenv is looking for its interpreter"
_METADATA: Final = re.compile(rb"^# /// script\s*$", re.MULTILINE)
_CONFIGURATION: Final = ("uv.toml", "pyproject.toml", ".python-version")
_VARIABLES: Final = ("UV_", "XDG_", "HOME", "PATH", "VIRTUAL_ENV", "CONDA_")
_SET_BY_UV: Final = frozenset({"PATH", "UV", "UV_RUN_RECURSION_DEPTH", "VIRTUAL_ENV"})
_HEAD: Final = 64 << 10
_RETRY: Final = 10.0  # seconds after which uv is queried again about an environment that was not there
_SECONDS: Final = 20.0
_MOST: Final = 256

Identity = tuple[int, ...]


class BackgroundAnswer(NamedTuple):
    """What uv or pyenv told about one command."""

    python: str  # the interpreter
    why: str  # why that is not certain
    files: tuple[tuple[str, Identity], ...]  # on which this depends
    sets: Mapping[str, str] = {}  # the variables that are changed
    names: tuple[str, ...] = ()  # all variables that are passed on

    def passed(self, env: Mapping[str, str]) -> dict[str, str]:
        return {name: self.sets.get(name, env.get(name, "")) for name in self.names}

    def holds(self, age: float) -> bool:
        if self.why and age > _RETRY:
            return False
        return all(identity(path) == known for path, known in self.files)


_lock = threading.Lock()
_answers: dict[tuple[object, ...], tuple[BackgroundAnswer, float] | None] = {}  # None: it is being found


def answer_of(key: tuple[object, ...], question: Callable[[], BackgroundAnswer]) -> BackgroundAnswer | None:
    """The answer, if it is known and holds. Otherwise None, and the question is asked in a thread of its own."""
    with _lock:
        found = _answers.get(key)
        if found is None and key in _answers:
            return None
        if found is not None and found[0].holds(time.monotonic() - found[1]):
            return found[0]
        if len(_answers) >= _MOST:
            _answers.clear()
        _answers[key] = None
    threading.Thread(target=_find, args=(key, question), name="billhook-python", daemon=True).start()
    return None


def _find(key: tuple[object, ...], question: Callable[[], BackgroundAnswer]) -> None:
    try:
        answer = question()
    except Exception as error:
        answer = BackgroundAnswer("", f"its interpreter could not be found: {type(error).__name__}", ())
    with _lock:
        _answers[key] = answer, time.monotonic()


def operands(words: tuple[str, ...]) -> tuple[str, ...]:
    """The script and its arguments in `uv run SCRIPT ...`; empty if there is any other option."""
    rest = words[2:] if words[1:2] == ("run",) else ()
    while rest and rest[0] in ("--script", "-s", "-q", "--quiet"):
        rest = rest[1:]
    return () if not rest or rest[0].startswith("-") or not rest[0].endswith(".py") else rest


def of_uv(
    uv: str, script: str, env: Mapping[str, str], cwd: str, *, as_script: bool
) -> tuple[str, dict[str, str]] | str:
    """The interpreter for a script, and the variables that uv passes on; or why that is not certain."""
    path = os.path.join(cwd or os.getcwd(), script)
    if not _has_metadata(path):
        return "its script has no inline metadata" if as_script else _environment_of_folder(uv, env, cwd)
    variables = tuple(sorted(one for one in env.items() if one[0].startswith(_VARIABLES)))
    key = uv, path, cwd, variables
    found = answer_of(key, functools.partial(_run_uv, uv, path, dict(env), cwd))
    return PENDING if found is None else found.why or _passed(uv, found.python, env)


def _environment_of_folder(uv: str, env: Mapping[str, str], cwd: str) -> tuple[str, dict[str, str]] | str:
    """For a script without metadata, if it is in no project: uv would change that first."""
    folders = upwards(cwd or os.getcwd())
    if any(os.path.exists(f"{folder}/pyproject.toml") for folder in folders):
        return "without inline metadata, `uv run` follows the project"
    if client_env.served() is None and any(os.path.exists(f"{folder}/.venv") for folder in folders):
        return "uv finds its interpreter at the first call"  # only an event may run what is in a folder
    variables = tuple(sorted(one for one in env.items() if one[0].startswith(_VARIABLES)))
    key = uv, cwd, variables, tuple(env)
    return _result(answer_of(key, functools.partial(_ask_in_folder, uv, folders, dict(env), cwd)), env)


def _result(found: BackgroundAnswer | None, env: Mapping[str, str]) -> tuple[str, dict[str, str]] | str:
    return PENDING if found is None else found.why or (found.python, found.passed(env))


def _ask_in_folder(uv: str, folders: list[str], env: dict[str, str], cwd: str) -> BackgroundAnswer:
    pythons = os.fsdecode(run_quietly((uv, "python", "dir"), env, cwd).stdout).strip()
    files = [*_files(uv, "", env, cwd), *(f"{folder}/.venv/pyvenv.cfg" for folder in folders), pythons]
    known = identities([*files, *env.get("PATH", "").split(":")])
    python, passed = shown_by((uv, "run", "--offline", "--no-project", "--quiet", "python"), env, cwd)
    sets = {name: value for name, value in passed.items() if env.get(name) != value}
    certain = {*sets} <= _SET_BY_UV and {*env} <= {*passed}
    why = "uv finds no interpreter" if not python else "" if certain else "this version of uv is not known"
    return BackgroundAnswer(python, why, (*known, *identities([python])), sets, tuple(passed))


def upwards(folder: str) -> list[str]:
    found: list[str] = []
    while folder not in found:
        found.append(folder)
        folder = os.path.dirname(folder)
    return found


def _passed(uv: str, python: str, env: Mapping[str, str]) -> tuple[str, dict[str, str]]:
    folder, depth = os.path.dirname(python), env.get("UV_RUN_RECURSION_DEPTH", "")
    return python, {
        **env,
        "PATH": f"{folder}:{env.get('PATH', '')}",
        "UV": os.path.realpath(uv),
        "UV_RUN_RECURSION_DEPTH": str(int(depth or "0") + 1) if depth.isdecimal() or not depth else depth,
        "VIRTUAL_ENV": os.path.dirname(folder),
    }


def _has_metadata(path: str) -> bool:
    try:
        with open(path, "rb") as file:
            return _METADATA.search(file.read(_HEAD)) is not None
    except OSError:
        return False


def _run_uv(uv: str, path: str, env: dict[str, str], cwd: str) -> BackgroundAnswer:
    before = identities(_files(uv, path, env, cwd))
    python, why = _query(uv, path, env, cwd)
    return BackgroundAnswer(python, why, (*before, *identities(_of_environment(python) if python else ())))


def _query(uv: str, path: str, env: dict[str, str], cwd: str) -> tuple[str, str]:
    checked = run_quietly((uv, "sync", "--offline", "--check", "--script", path), env, cwd)
    if checked.code != 0:
        return "", "uv would change its environment first"
    found = run_quietly((uv, "python", "find", "--offline", "--script", path), env, cwd)
    cache = run_quietly((uv, "cache", "dir"), env, cwd)
    python = found.stdout.decode(errors="replace").strip()
    environments = cache.stdout.decode(errors="replace").strip() + "/environments-"
    if found.code != 0 or cache.code != 0 or not python.startswith(environments):  # another one, before it is made
        return "", "uv would change its environment first"
    shown = run_quietly((uv, "run", "--offline", "--no-project", "--quiet", "/usr/bin/env", "-0"), env, cwd)
    passed = dict(pair.partition("=")[::2] for pair in os.fsdecode(shown.stdout).split("\0") if pair)
    passed.pop(MARKER, None)
    changed = {name for name in {**env, **passed} if env.get(name) != passed.get(name)}
    if shown.code != 0 or not {"PATH", "UV"} <= changed <= _SET_BY_UV:
        return "", "this version of uv is not known"
    return python, ""


_SHOW: Final = "for name in 'cmdline', 'environ': print(open(f'/proc/self/{name}').read(), end='\\0\\0')"


def shown_by(argv: tuple[str, ...], env: dict[str, str], cwd: str) -> tuple[str, dict[str, str]]:
    """The interpreter that a command starts, and the variables that it gets; empty if it starts none."""
    shown = run_quietly((*argv, "-I", "-S", "-c", _SHOW), env, cwd)
    command, _, block = os.fsdecode(shown.stdout).partition("\0\0")
    python, passed = command.partition("\0")[0], dict(pair.partition("=")[::2] for pair in block.split("\0") if pair)
    passed.pop(MARKER, None)
    return (python, passed) if shown.code == 0 and python.startswith("/") and os.path.isfile(python) else ("", {})


def run_quietly(argv: tuple[str, ...], env: dict[str, str], cwd: str) -> Exit:
    return asyncio.run(process.run(argv, stdin=b"", env=env, cwd=cwd or None, seconds=_SECONDS))


def _files(uv: str, path: str, env: Mapping[str, str], cwd: str) -> list[str]:
    """The files that determine the environment: the script, uv, and every place of a configuration."""
    home = env.get("HOME", "/")
    folders = [env.get("XDG_CONFIG_HOME", f"{home}/.config") + "/uv", "/etc/uv"]
    for folder in (os.path.dirname(os.path.realpath(path)), cwd or os.getcwd()):
        folders += [one for one in upwards(folder) if one not in folders]
    return [path, uv, *(os.path.join(folder, name) for folder in folders for name in _CONFIGURATION)]


def _of_environment(python: str) -> tuple[str, ...]:
    root = os.path.dirname(os.path.dirname(python))
    library = os.path.join(root, "lib")
    packages = [os.path.join(library, name, "site-packages") for name in os.listdir(library)]
    return python, os.path.join(root, "pyvenv.cfg"), *packages


def identities(paths: Iterable[str]) -> tuple[tuple[str, Identity], ...]:
    return tuple((path, identity(path)) for path in paths)


def identity(path: str) -> Identity:
    try:
        found = os.stat(path)
    except OSError:
        return ()
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns


# A shim of pyenv is a shell script that looks for the version at each start. It is run once. Only shims as pyenv writes
# them are known, without plugins that do something at each start.

_SHIM: Final = re.compile(
    r"""#!/usr/bin/env bash
set -e
\[ -n "\$PYENV_DEBUG" \] && set -x

program="\$\{0##\*/\}"

export PYENV_ROOT="(?P<root>/[^"$`\\]+)"
(SHIM_PATH=\$\{0%/\*\}
if \[\[ \$SHIM_PATH != "[^"$`\\]+" \]\]; then
  export _PYENV_SHIM_PATH="\$SHIM_PATH"
fi
)?exec "(?P<pyenv>/[^"$`\\]+)" exec "\$program" "\$@"
?"""
)
_READ: Final = ("PATH", "HOME", "SHLVL", "PWD", "OLDPWD", "_", "BASH_ENV")
_SETS: Final = frozenset({"PATH", "SHLVL", "PWD", "OLDPWD", "_"})
_HARMLESS: Final = "/pyenv.d/exec/pip-rehash.bash"  # does something for pip only


def of_pyenv(shim: str, env: Mapping[str, str], cwd: str) -> tuple[str, dict[str, str]] | str:
    """The interpreter, and the variables that it gets; or why that is not certain."""
    found = _SHIM.fullmatch(_shim_text(shim))
    if found is None or "PYENV_DEBUG" in env or "BASH_ENV" in env:
        return f"{shim} is a script that looks for an interpreter"
    values = tuple((name, env.get(name)) for name in (*_READ, *sorted(n for n in env if n.startswith("PYENV_"))))
    key = "pyenv", shim, cwd, tuple(env), values
    question = functools.partial(_ask_pyenv, shim, found["root"], found["pyenv"], dict(env), cwd)
    return _result(answer_of(key, question), env)


def _shim_text(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read(2000)
    except OSError:
        return ""


def _ask_pyenv(shim: str, root: str, pyenv: str, env: dict[str, str], cwd: str) -> BackgroundAnswer:
    files = [shim, pyenv, os.path.realpath(pyenv), f"{root}/version", f"{root}/pyenv.d/exec", f"{root}/plugins"]
    files += [f"{folder}/.python-version" for folder in upwards(env.get("PYENV_DIR") or cwd or os.getcwd())]
    known = identities(files)
    hooks = run_quietly((pyenv, "hooks", "exec"), env, cwd)
    python, passed = shown_by((shim,), env, cwd)
    sets = {name: value for name, value in passed.items() if env.get(name) != value}
    others = {name for name in sets if not name.startswith(("PYENV_", "_PYENV_"))}
    why = ""
    if not python:
        why = "pyenv finds no interpreter"
    elif hooks.code != 0 or any(not line.endswith(_HARMLESS) for line in hooks.stdout.decode().split()):
        why = "pyenv has hooks"
    elif not (others <= _SETS and {*env} <= {*passed, "_"}):
        why = "this version of pyenv is not known"
    return BackgroundAnswer(python, why, (*known, *identities([python])), sets, tuple(passed))

"""The interpreter that a shim of pyenv starts, and the variables that it passes on.

A shim is a shell script that looks for the version at each start. It is run once, in the background, and the answer
counts as long as the files on which it depends, the folder and the variables are the same. Only shims as pyenv writes
them are known, without plugins that do something at each start.
"""

import functools
import os
import re
from collections.abc import Mapping
from typing import Final

from billhook.runners.uv_script import (
    PENDING_SHIM,
    BackgroundAnswer,
    answer_of,
    identities,
    run_quietly,
    shown_by,
    upwards,
)

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


def environment(shim: str, env: Mapping[str, str], cwd: str) -> tuple[str, dict[str, str]] | str:
    """The interpreter, and the variables that it gets; or why that is not certain."""
    found = _SHIM.fullmatch(_text(shim))
    if found is None or "PYENV_DEBUG" in env or "BASH_ENV" in env:
        return f"{shim} is a script that looks for an interpreter"
    values = tuple((name, env.get(name)) for name in (*_READ, *sorted(n for n in env if n.startswith("PYENV_"))))
    key = "pyenv", shim, cwd, tuple(env), values
    question = functools.partial(_ask, shim, found["root"], found["pyenv"], dict(env), cwd)
    answer = answer_of(key, question)
    if answer is None:
        return PENDING_SHIM
    return answer.why or (answer.python, answer.passed(env))


def _text(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read(2000)
    except OSError:
        return ""


def _ask(shim: str, root: str, pyenv: str, env: dict[str, str], cwd: str) -> BackgroundAnswer:
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

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

from billhook.runners.process_tree import MARKER
from billhook.runners.uv_script import PENDING_SHIM, BackgroundAnswer, answer_of, identities, run_quietly

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
_SHOW: Final = "for name in 'cmdline', 'environ': print(open(f'/proc/self/{name}').read(), end='\\0\\0')"
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
    return answer.why or (answer.python, {name: answer.sets.get(name, env.get(name, "")) for name in answer.names})


def _text(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read(2000)
    except OSError:
        return ""


def _ask(shim: str, root: str, pyenv: str, env: dict[str, str], cwd: str) -> BackgroundAnswer:
    folder = env.get("PYENV_DIR") or cwd or os.getcwd()
    files = [shim, pyenv, os.path.realpath(pyenv), f"{root}/version", f"{root}/pyenv.d/exec", f"{root}/plugins"]
    while f"{folder}/.python-version" not in files:
        files.append(f"{folder}/.python-version")
        folder = os.path.dirname(folder)
    known = identities(files)
    hooks = run_quietly((pyenv, "hooks", "exec"), env, cwd)
    shown = run_quietly((shim, "-I", "-S", "-c", _SHOW), env, cwd)
    command, _, block = os.fsdecode(shown.stdout).partition("\0\0")
    python, passed = command.partition("\0")[0], dict(pair.partition("=")[::2] for pair in block.split("\0") if pair)
    passed.pop(MARKER, None)
    sets = {name: value for name, value in passed.items() if env.get(name) != value}
    why = ""
    if shown.code != 0 or not python.startswith("/") or not os.path.isfile(python):
        why = "pyenv finds no interpreter"
    elif hooks.code != 0 or any(not line.endswith(_HARMLESS) for line in hooks.stdout.decode().split()):
        why = "pyenv has hooks"
    elif not {name for name in sets if not name.startswith(("PYENV_", "_PYENV_"))} <= _SETS or not {*env} <= {
        *passed,
        "_",
    }:
        why = "this version of pyenv is not known"
    return BackgroundAnswer(python, why, (*known, *identities([python])), sets, tuple(passed))

"""Which command lines start a Python script and nothing else; compared with what the shell really passes on."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from billhook.runners.python_command import PythonCall, recognise

pytestmark = pytest.mark.skipif(
    os.path.basename(os.path.realpath("/bin/sh")) != "dash", reason="warm interpreters need dash as /bin/sh"
)
PYTHON = os.path.realpath(sys.executable)
SHOW = "import json, os, sys\nprint(json.dumps([sys.orig_argv, dict(os.environ)]))\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A project with an interpreter in PATH, and scripts that show how they were started."""
    (tmp_path / "bin").mkdir()
    for name in ("python", "python3", "python3.99"):
        (tmp_path / "bin" / name).symlink_to(PYTHON)
    for name, first in {
        "plain.py": "",
        "env.py": "#!/usr/bin/env python3\n",
        "split.py": "#!/usr/bin/env -S python3 -u\n",
        "direct.py": f"#!{tmp_path}/bin/python3 -u\n",
        "a b.py": "#!/usr/bin/env python3\n",
    }.items():
        (tmp_path / name).write_text(first + SHOW)
        (tmp_path / name).chmod(0o755)
    (tmp_path / "tool").symlink_to("env.py")
    return tmp_path


def environment(folder: Path) -> dict[str, str]:
    more = {
        "HOME": str(folder),
        "CLAUDE_PROJECT_DIR": str(folder),
        "WORDS": "two words",
        "NAME": "plain.py",
        "EMPTY": "",
    }
    return {"PATH": f"{folder}/bin:/usr/bin:/bin", "LANG": "C.UTF-8", "OLDPWD": "/gone", "B.C": "not a name", **more}


@pytest.mark.parametrize(
    "text",
    [
        "python3 plain.py",
        "python plain.py a 'b c' \"d  e\" --f=g",
        "python3.99 ./plain.py",
        "  exec python3 -u -B plain.py  ",
        "python3 -W ignore plain.py",
        "python3 -X utf8 plain.py",
        'python3 "$CLAUDE_PROJECT_DIR"/plain.py',
        'python3 "$CLAUDE_PROJECT_DIR/plain.py" "${WORDS}" "$EMPTY"',
        "python3 $CLAUDE_PROJECT_DIR/$NAME",
        "python3 ~/plain.py",
        "bin/python plain.py",
        '"$CLAUDE_PROJECT_DIR"/env.py x',
        "./split.py",
        "./direct.py -x",
        "./tool",
        "./'a b.py' $NAME",
        "python3 plain.py ''\"\" '$HOME' a@b:c%d+e,f=g^h",
        "python3 plain.py\n",
    ],
)
def test_it_is_what_the_shell_passes_on(folder: Path, text: str) -> None:
    _compare(folder, text)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(
        st.text(alphabet="ab-=/.~$\"'\\ *?{}<>|&;#!()[]`\n\tWORDSNAMEé", min_size=1, max_size=8), min_size=1, max_size=3
    )
)
def test_whatever_is_recognised_is_what_the_shell_passes_on(folder: Path, words: list[str]) -> None:
    text = "python3 plain.py " + " ".join(words)
    if "\0" not in text and isinstance(
        recognise(("/bin/sh", "-c", text), environment(folder), str(folder)), PythonCall
    ):
        _compare(folder, text)


def _compare(folder: Path, text: str) -> None:
    env = environment(folder)
    call = recognise(("/bin/sh", "-c", text), env, str(folder))
    assert isinstance(call, PythonCall), call
    shown = subprocess.run(["/bin/sh", "-c", text], env=env, cwd=folder, capture_output=True, check=True)
    argv, passed = json.loads(shown.stdout)
    assert list(call.argv) == argv
    assert dict(call.env) == passed


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("python3 plain.py | cat", "shell syntax: `| cat`"),
        ("python3 plain.py > log", "shell syntax: `> log`"),
        ("python3 plain.py && true", "shell syntax: `&& true`"),
        ("python3 plain.py; true", "shell syntax: `; true`"),
        ("python3 plain.py &", "shell syntax: `&`"),
        ("python3 *.py", "shell syntax: `*.py`"),
        ("python3 $(ls)", "shell syntax: `$(ls)`"),
        ("python3 plain.py \\a", "shell syntax: `\\a`"),
        ("python3 plain.py ~root/x", "shell syntax: `~root/x`"),
        ("python3 plain.py a{b,c}", "shell syntax: `{b,c}`"),
        ("A=1 python3 plain.py", "a variable is set for the command"),
        ("python3 $WORDS", "the shell may split `$WORDS`"),
        ("python3 plain.py $EMPTY", "the shell may split `$EMPTY`"),
        ('python3 "$NOT"/x.py', "`$NOT` is not set"),
        ("python3 -m json", "flag `-m`"),
        ("python3 -c pass", "flag `-c`"),
        ("python3 -i plain.py", "flag `-i`"),
        ("python3 -X dev plain.py", "flag `-X`"),
        ("python3 --version", "flag `--version`"),
        ("python3", "no script is named"),
        ("python3 -", "`-` is not a script"),
        ("cat plain.py", "it is not a Python script"),
        ("python4 plain.py", "`python4` was not found"),
        ("./gone.py", "`./gone.py` can't be started"),
        ("uv run -m x", "`uv` was not found"),
        ("", "the command is empty"),
    ],
)
def test_other_lines_start_plain(folder: Path, text: str, why: str) -> None:
    assert recognise(("/bin/sh", "-c", text), environment(folder), str(folder)) == why


def test_a_script_in_the_place_of_an_interpreter_starts_plain(folder: Path) -> None:
    """As pyenv has: it decides at each start which interpreter runs."""
    (folder / "bin" / "python3").unlink()
    (folder / "bin" / "python3").write_text('#!/bin/sh\nexec python "$@"\n')
    (folder / "bin" / "python3").chmod(0o755)
    found = recognise(("python3", "plain.py"), environment(folder), str(folder))
    assert found == f"{folder}/bin/python3 is a script that looks for an interpreter"


@pytest.mark.parametrize("name", ["IFS", "OPTIND", "PPID"])
def test_variables_that_the_shell_sets_start_plain(folder: Path, name: str) -> None:
    env = {**environment(folder), name: "x"}
    assert recognise(("/bin/sh", "-c", "python3 plain.py"), env, str(folder)) == f"the shell sets ${name}"

"""`billhook-hook` as it is installed: compiled, or as a launcher where there is no compiler."""

import ast
import os
import shutil
import subprocess
import sys
import tempfile
import venv
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

import billhook
from daemon.calling import COMPILER, SOURCE, STAND_IN, built
from daemon.fake_daemon import STARTED, FakeDaemon, answer

PROJECT = SOURCE.parents[2]
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not (PROJECT / "hatch_build.py").exists(), reason="not a checkout"),
]


def launcher() -> str:
    """What the build hook writes into a pure wheel."""
    tree = ast.parse((PROJECT / "hatch_build.py").read_text())
    texts = [
        node.value.value
        for node in tree.body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "LAUNCHER"
        if isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
    ]
    return texts[0]


@pytest.fixture
def place() -> Iterator[Path]:
    """A folder laid out as installers do it, without a daemon."""
    folder = Path(tempfile.mkdtemp(prefix="bh-"))
    (folder / "bin").mkdir()
    packages = folder / "lib" / "python{}.{}".format(*sys.version_info[:2]) / "site-packages"
    (packages / "billhook" / "daemon").mkdir(parents=True)
    shutil.copy(SOURCE / "client.py", packages / "billhook" / "daemon")
    for name, text in (("billhook-hook", launcher().replace("SOURCE", "[]")), ("billhook", STAND_IN)):
        (folder / "bin" / name).write_text(text)
        (folder / "bin" / name).chmod(0o755)
    (folder / "bin" / "python").symlink_to(sys.executable)
    (folder / "bin" / "told.json").write_text("{}")
    yield folder
    shutil.rmtree(folder)


def run(program: Path, *words: str | bytes, **env: str) -> tuple[int, bytes, bytes]:
    env = {"PATH": "/usr/bin:/bin", "BILLHOOK_NO_DAEMON": "1", **env}
    seen = subprocess.run([program, *words], env=env, input=b"{}", capture_output=True, timeout=30, check=False)
    return seen.returncode, seen.stdout, seen.stderr


@pytest.mark.parametrize("how", ["directly", "through a link", "through a link to a link"])
def test_launcher(place: Path, how: str) -> None:
    """The launcher is the Python client, from wherever it is called, and finds its `billhook`."""
    program = place / "bin" / "billhook-hook"
    for number in range(("directly", "through a link", "through a link to a link").index(how)):
        link = place / f"link {number}"
        link.symlink_to(program)
        program = link
    root = place / "root"
    with FakeDaemon(root, [STARTED, answer(3, b"out", b"err")]) as daemon:
        assert run(program, "--as", b"\xff a", BILLHOOK_HOME=str(root)) == (3, b"out", b"err")
    assert daemon.request.arguments == [b"--as", b"\xff a"]
    assert daemon.request.version.decode() == billhook.__version__
    assert run(program, BILLHOOK_HOME=str(place / "none")) == (0, b"cold\n", b"")


def test_launcher_with_a_python_of_another_name(place: Path) -> None:
    """Where there is only a `python3`, that is taken."""
    (place / "bin" / "python").rename(place / "bin" / "python3")
    root = place / "root"
    with FakeDaemon(root, [STARTED, answer(0, b"yes")]):
        assert run(place / "bin" / "billhook-hook", BILLHOOK_HOME=str(root)) == (0, b"yes", b"")


@pytest.mark.parametrize("daemon", [True, False], ids=["warm", "cold"])
def test_launcher_with_a_folder_as_stdin(place: Path, daemon: bool) -> None:
    """Python itself would not start with one, and its exit code is one that agents let pass."""
    env = {"PATH": "/usr/bin:/bin", "BILLHOOK_NO_DAEMON": "1", "BILLHOOK_HOME": str(place / "root")}
    folder = os.open(place, os.O_RDONLY)
    with FakeDaemon(place / "root" if daemon else place / "other", [STARTED, answer(2, b"", b"no event\n")]):
        program = [place / "bin" / "billhook-hook"]
        seen = subprocess.run(program, env=env, stdin=folder, capture_output=True, timeout=30, check=False)
    os.close(folder)
    assert (seen.returncode, seen.stdout, seen.stderr) == ((2, b"", b"no event\n") if daemon else (0, b"cold\n", b""))


def test_launcher_without_the_package(place: Path) -> None:
    """Where the package is somewhere else, or broken, `billhook hook` answers: slower, and as right."""
    shutil.rmtree(place / "lib")
    assert run(place / "bin" / "billhook-hook") == (0, b"cold\n", b"")


def test_launcher_is_isolated(place: Path) -> None:
    """Neither the variables of Python nor files in the working directory reach into it."""
    (place / "posix.py").write_text("raise SystemExit(9)")
    (place / "client.py").write_text("raise SystemExit(9)")
    root = place / "root"
    with FakeDaemon(root, [STARTED, answer(0, b"yes")]):
        env = {"BILLHOOK_HOME": str(root), "PYTHONPATH": str(place), "PYTHONINSPECT": "1"}
        assert run(place / "bin" / "billhook-hook", **env) == (0, b"yes", b"")


# -- real wheels ---------------------------------------------------------------------------------------------------


def wheel(folder: Path, **env: str) -> Path:
    """The wheel of this checkout; skips where the build backend can't be had."""
    words = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", str(folder), str(PROJECT)]
    made = subprocess.run(words, env={**os.environ, **env}, capture_output=True, timeout=300, check=False)
    if made.returncode and b"hatchling" in made.stderr:
        pytest.skip("hatchling can't be had")
    assert made.returncode == 0, made.stderr.decode()
    (found,) = folder.glob("*.whl")
    return found


def installed(found: Path, folder: Path) -> Path:
    """The program in a new environment; its dependencies are not needed."""
    venv.create(folder, with_pip=False)
    words = [sys.executable, "-m", "pip", "--python", str(folder / "bin" / "python"), "install", "--quiet", "--no-deps"]
    subprocess.run([*words, found], check=True, timeout=300)
    return folder / "bin" / "billhook-hook"


@pytest.mark.slow
@pytest.mark.parametrize("compiler", [True, False], ids=["compiled", "pure"])
def test_wheel(tmp_path: Path, compiler: bool) -> None:
    """A wheel has the program for its platform, or else the launcher and no platform."""
    if compiler and not COMPILER:
        pytest.skip("there is no compiler")
    found = wheel(tmp_path, **({} if compiler else {"BILLHOOK_NO_COMPILER": "1"}))
    assert found.name.endswith("-py3-none-any.whl") != compiler
    with zipfile.ZipFile(found) as files:
        (script,) = [name for name in files.namelist() if name.endswith(".data/scripts/billhook-hook")]
        assert files.read(script).startswith(b"\x7fELF" if compiler else b"#!/bin/sh\n")
    root = Path(tempfile.mkdtemp(prefix="bh-"))
    program = installed(found, root / "venv")
    with FakeDaemon(root, [STARTED, answer(0, b"yes")]) as daemon:
        assert run(program, BILLHOOK_HOME=str(root)) == (0, b"yes", b"")
    assert daemon.request.version.decode() == billhook.__version__
    shutil.rmtree(root)


@pytest.mark.skipif(not COMPILER, reason="there is no compiler")
def test_program_needs_nothing(tmp_path: Path) -> None:
    """The compiled client is static: it runs where there is nothing else."""
    program = built("c", tmp_path)
    assert b"ld-linux" not in program.read_bytes()[:4096]
    assert run(program, "--on-failure", "deny", PATH=str(tmp_path))[0] == 2

"""`uv run` with the real uv: the same interpreter, arguments and variables as uv itself would use."""

import asyncio
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from billhook.core import client_env
from billhook.runners import process, warm

UV = shutil.which("uv", path=f"{os.path.dirname(sys.executable)}:{os.environ.get('PATH', '')}")
pytestmark = [
    pytest.mark.skipif(UV is None or sys.platform != "linux", reason="uv is not installed"),
    pytest.mark.usefixtures("adopting"),
]
METADATA = "# /// script\n# requires-python = '>=3.9'\n# dependencies = []\n# ///\n"
SHOW = METADATA + (
    "import os, sys\n"
    "print(sys.executable, sys.prefix, sys.argv, sys.orig_argv)\n"
    "print(sorted((k, v) for k, v in os.environ.items() if k != 'BILLHOOK_CHILD'))\n"
)


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    assert UV is not None
    (tmp_path / "home").mkdir()
    folders = [os.path.dirname(UV), os.path.dirname(os.path.realpath(sys.executable)), "/usr/bin", "/bin"]
    return {"PATH": ":".join(folders), "HOME": str(tmp_path / "home"), "LANG": "C.UTF-8", "UV_OFFLINE": "1"}


@pytest.mark.parametrize(
    "argv",
    [
        ("uv", "run", "--script", "hook.py", "a b"),
        ("uv", "run", "hook.py"),
        ("uv", "run", "-q", "./hook.py"),
        ("/bin/sh", "-c", 'uv run "$HOME"/../hook.py x'),
        ("./hook.py", "x"),
    ],
)
def test_the_same_as_uv(tmp_path: Path, env: dict[str, str], argv: tuple[str, ...]) -> None:
    (tmp_path / "hook.py").write_text("#!/usr/bin/env -S uv run --script\n" + SHOW)
    (tmp_path / "hook.py").chmod(0o755)
    plain = asyncio.run(process.run(argv, stdin=b"", env=env, cwd=tmp_path, seconds=60))
    assert plain.code == 0, plain
    assert warm.wait_until_ready(argv, env, tmp_path, 60) == ""
    child = asyncio.run(warm.start(argv, stdin=b"", env=env, cwd=tmp_path))
    assert isinstance(child, warm.WarmChild)
    ended = asyncio.run(child.wait(60))
    assert ended is not None
    assert ended.stdout == plain.stdout


def test_what_uv_would_change_starts_plain(tmp_path: Path, env: dict[str, str]) -> None:
    argv = ("uv", "run", "hook.py")
    (tmp_path / "hook.py").write_text(SHOW)
    assert warm.wait_until_ready(argv, env, tmp_path, 60) == "uv would change its environment first"
    (tmp_path / "hook.py").write_text("print(1)")
    (tmp_path / "pyproject.toml").write_text("[project]\nname = 'x'\nversion = '1'\n")
    assert warm.reason(argv, env, str(tmp_path)) == "without inline metadata, `uv run` follows the project"


@pytest.mark.parametrize("has_venv", [True, False])
def test_without_metadata_and_project_it_is_the_interpreter_of_the_folder(
    tmp_path: Path, env: dict[str, str], has_venv: bool
) -> None:
    argv = ("uv", "run", "hook.py", "x")
    (tmp_path / "hook.py").write_text(SHOW.removeprefix(METADATA))
    uv = tmp_path / "bin" / "uv"  # beside an interpreter it would choose that
    uv.parent.mkdir()
    uv.symlink_to(UV or "")
    env["PATH"] = ":".join([str(uv.parent), *env["PATH"].split(":")[1:]])
    if has_venv:
        subprocess.run(("uv", "venv", "-q"), env=env, cwd=tmp_path, check=True)
    plain = asyncio.run(process.run(argv, stdin=b"", env=env, cwd=tmp_path, seconds=60))
    assert plain.code == 0, plain
    assert plain.stdout.startswith(os.fsencode(tmp_path)) == has_venv
    if has_venv:
        assert warm.reason(argv, env, str(tmp_path)) == "uv finds its interpreter at the first call"
    with client_env.Serving(client_env.Caller(env, str(tmp_path))):
        assert warm.wait_until_ready(argv, env, tmp_path, 60) == ""
        child = asyncio.run(warm.start(argv, stdin=b"", env=env, cwd=tmp_path))
    assert isinstance(child, warm.WarmChild)
    ended = asyncio.run(child.wait(60))
    assert ended is not None
    assert ended.stdout == plain.stdout
    assert warm.reason(("uv", "run", "--script", "hook.py"), env, str(tmp_path)) == "its script has no inline metadata"


@pytest.mark.parametrize("argv", [("uv", "run", "--with", "x", "hook.py"), ("uv", "run", "pytest"), ("uv", "tool")])
def test_other_commands_of_uv_start_plain(tmp_path: Path, env: dict[str, str], argv: tuple[str, ...]) -> None:
    assert warm.reason(argv, env, str(tmp_path)) == "`uv` runs something other than a script, or with options"


def test_another_text_is_looked_up_again(tmp_path: Path, env: dict[str, str]) -> None:
    argv = ("uv", "run", "hook.py")
    (tmp_path / "hook.py").write_text(SHOW)
    subprocess.run(argv, env=env, cwd=tmp_path, check=True, capture_output=True)
    assert warm.wait_until_ready(argv, env, tmp_path, 60) == ""
    (tmp_path / "hook.py").write_text(SHOW.replace("[]", "['not-in-the-cache']"))
    assert warm.wait_until_ready(argv, env, tmp_path, 60) == "uv would change its environment first"

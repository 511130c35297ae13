"""Shims with the real pyenv: the same interpreter, arguments and variables as the shim itself passes on."""

import asyncio
import json
import os
import shutil
import sys
from pathlib import Path

import pytest

from billhook.runners import process, warm
from warm_ready import wait_until_ready

ROOT = os.environ.get("PYENV_ROOT") or os.path.expanduser(f"~{os.environ.get('USER', 'root')}/.pyenv")
VERSIONS = sorted(path.parent.parent.name for path in Path(ROOT).glob("versions/3.*/bin/python3"))
pytestmark = [
    pytest.mark.skipif(not os.path.exists(f"{ROOT}/shims/python3") or not VERSIONS, reason="pyenv is not installed"),
    pytest.mark.usefixtures("adopting"),
]
SHOW = """\
#!/usr/bin/env python3
import json, os, sys
print(json.dumps([sys.executable, sys.prefix, getattr(sys, "orig_argv", None), dict(os.environ)]))
"""


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    (tmp_path / "hook.py").write_text(SHOW)
    (tmp_path / "hook.py").chmod(0o755)
    (tmp_path / ".python-version").write_text(VERSIONS[0] + "\n")
    return {"PATH": f"{ROOT}/shims:/usr/bin:/bin", "HOME": str(tmp_path), "LANG": "C.UTF-8"}


def run(argv: tuple[str, ...], env: dict[str, str], folder: Path, *, warmly: bool) -> list[object]:
    async def ended() -> list[object]:
        child = await warm.start(argv, stdin=b"", env=env, cwd=folder) if warmly else None
        assert warmly == (child is not None)
        done = await (child or process.start(argv, stdin=b"", env=env, cwd=folder)).wait(60)
        assert done is not None
        assert done.code == 0, done
        *others, variables = json.loads(done.stdout)
        return [*others, {name: value for name, value in variables.items() if name != "BILLHOOK_CHILD"}]

    return asyncio.run(ended())


@pytest.mark.parametrize(
    "argv", [("python3", "hook.py", "a b"), ("./hook.py",), ("/bin/sh", "-c", "exec python3 hook.py x")], ids=" ".join
)
def test_it_is_what_the_shim_starts(tmp_path: Path, env: dict[str, str], argv: tuple[str, ...]) -> None:
    assert wait_until_ready(argv, env, tmp_path) == ""
    plain = run(argv, env, tmp_path, warmly=False)
    assert run(argv, env, tmp_path, warmly=True) == plain
    assert f"versions/{VERSIONS[0]}/" in str(plain[0])


@pytest.mark.skipif(len(VERSIONS) < 2, reason="pyenv has one version")
def test_another_version_for_the_folder(tmp_path: Path, env: dict[str, str]) -> None:
    argv = ("python3", "hook.py")
    assert wait_until_ready(argv, env, tmp_path) == ""
    (tmp_path / ".python-version").write_text(VERSIONS[1] + "\n")
    assert asyncio.run(warm.start(argv, stdin=b"", env=env, cwd=tmp_path)) is None
    assert wait_until_ready(argv, env, tmp_path) == ""
    assert f"versions/{VERSIONS[1]}/" in str(run(argv, env, tmp_path, warmly=True)[0])


def test_other_scripts_in_its_place_start_plain(tmp_path: Path, env: dict[str, str]) -> None:
    shims = tmp_path / "shims"
    shims.mkdir()
    shutil.copy(f"{ROOT}/shims/python3", shims / "python3")
    with open(shims / "python3", "a") as file:
        file.write("touch changed\n")
    env["PATH"] = f"{shims}:/usr/bin:/bin"
    why = f"{shims}/python3 is a script that looks for an interpreter"
    assert wait_until_ready(("python3", "hook.py"), env, tmp_path) == why


@pytest.mark.skipif(sys.platform != "linux" or not shutil.which("cc"), reason="needs a C compiler")
def test_a_program_that_starts_an_interpreter_is_none(tmp_path: Path, env: dict[str, str]) -> None:
    """Other tools have one program for all shims, which looks for the version at each start."""
    python = os.path.realpath(sys.executable)
    source = tmp_path / "shim.c"
    source.write_text(f'#include <unistd.h>\nint main(int n, char **v) {{ return execv("{python}", v); }}\n')
    os.system(f"cc -o '{tmp_path}/python3' '{source}'")
    why = wait_until_ready((f"{tmp_path}/python3", "hook.py"), env, tmp_path)
    assert why == f"{tmp_path}/python3 starts {python}"

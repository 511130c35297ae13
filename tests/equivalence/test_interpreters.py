"""Interpreters as hooks name them: virtual environments, links, versions."""

import os
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

from equivalence.harness import ADDRESSES, Case, base_python, check_same, run, start_warm

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="warm interpreters are for Linux")
IDENTITY = """
    import inspect, os, site, sys, sysconfig
    print(sys.executable, sys.prefix, sys.base_prefix, sys.exec_prefix, getattr(sys, "_base_executable", ""))
    print(sys.path, sys.flags, getattr(sys, "orig_argv", ""), sys.argv, sys.version)
    print(site.ENABLE_USER_SITE, site.getsitepackages(), os.environ.get("VIRTUAL_ENV"), sysconfig.get_path("purelib"))
    for name, value in list(globals().items()):
        if name not in ("inspect", "os", "site", "sys", "sysconfig"):
            print(name, value)
    for stream in (sys.stdin, sys.stdout, sys.stderr):
        print(stream, stream.errors, stream.line_buffering)
    def check(value):
        return 1 / value
    print(inspect.getsource(check), sys.getrecursionlimit(), os.readlink("/proc/self/exe"))
    print(input("? "), flush=True)
    import atexit
    atexit.register(print, "end")
    kept = open("kept", "w")
    kept.write("kept")
    check(0)
"""
VERSIONS = ("3.9", "3.10", "3.11", "3.12", "3.13", "3.14")


@cache
def found_versions() -> dict[str, str]:
    """Other Python versions on this machine: in PATH, or where pyenv and uv keep them."""
    home = os.path.expanduser(f"~{os.environ.get('USER', 'root')}")
    folders = [*os.environ["PATH"].split(":"), *map(str, Path(home, ".pyenv/versions").glob("*/bin"))]
    folders += map(str, Path(home, ".local/share/uv/python").glob("*/bin"))
    programs = {version: [f"{folder}/python{version}" for folder in folders] for version in VERSIONS}
    return {version: next(filter(is_version, paths), "") for version, paths in programs.items()}


def is_version(program: str) -> bool:
    """Whether it is an interpreter that runs; pyenv's shims only look like one."""
    return os.access(program, os.X_OK) and "/shims/" not in program


@pytest.fixture(scope="module")
def venv(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("venvs") / "env"
    subprocess.run([base_python(), "-m", "venv", "--without-pip", str(folder)], check=True)
    packages = next(folder.glob("lib/python*/site-packages"))
    (packages / "installed.py").write_text("WHERE = __file__\n")
    (packages / "more.pth").write_text(f"{folder}/more\n")
    (folder / "more").mkdir()
    (folder / "more" / "linked_in.py").write_text("WHERE = __file__\n")
    return folder


def case(name: str, interpreter: str, script: str = IDENTITY, **options: object) -> Case:
    return Case(name=name, interpreter=interpreter, script=script, stdin=b"line\n", normalise=ADDRESSES, **options)  # type: ignore[arg-type]


@pytest.mark.parametrize("version", VERSIONS)
def test_versions(version: str, tmp_path: Path) -> None:
    """Every version of Python that is here."""
    if not (program := found_versions()[version]):
        pytest.skip(f"no Python {version} here")
    check_same(case("version", program), tmp_path / "here")


@pytest.mark.slow
@pytest.mark.parametrize("version", VERSIONS)
def test_versions_with_flags(version: str, tmp_path: Path) -> None:
    """The same, isolated."""
    if not (program := found_versions()[version]):
        pytest.skip(f"no Python {version} here")
    check_same(case("isolated", program, flags=("-I", "-B")), tmp_path / "here")


def test_system_python(tmp_path: Path) -> None:
    """The Python of the system, with the packages of the distribution."""
    if not is_version("/usr/bin/python3"):
        pytest.skip("no Python in /usr/bin")
    check_same(case("system", "/usr/bin/python3"), tmp_path / "here")


def test_virtual_environment(venv: Path, tmp_path: Path) -> None:
    """A venv by its path, through PATH, through a link, and relative to the folder."""
    packages = "import installed, linked_in\nprint(installed.WHERE, linked_in.WHERE)\n"
    check_same(case("venv", f"{venv}/bin/python"), tmp_path / "here")
    by_path = {"PATH": f"{venv}/bin:/usr/bin:/bin", "VIRTUAL_ENV": str(venv)}
    check_same(case("venv in PATH", "python", env=by_path), tmp_path / "here")
    shown = check_same(case("packages", "python", packages, env=by_path), tmp_path / "here")
    assert shown.exit.stdout.count(str(venv).encode()) == 2
    linked = {"env": str(venv)}
    check_same(case("relative venv", "env/bin/python", links=linked), tmp_path / "here")
    check_same(case("linked venv", "{folder}/env/bin/python3", links=linked), tmp_path / "here")


def test_links_to_python(tmp_path: Path) -> None:
    """A link elsewhere, a link to a link, and a name that is not Python's."""
    real = os.path.realpath(base_python())
    links = {"bin/python": real, "bin/python3.99": "python", "tools/python": "../bin/python3.99", "tools/py": "python"}
    for name in ("bin/python", "bin/python3.99", "tools/python"):
        check_same(case("link", "{folder}/" + name, links=links), tmp_path / "here")
    check_same(case("other name", "{folder}/tools/py", links=links, refused=True), tmp_path / "here")
    check_same(
        case("in PATH", "python3.99", links=links, env={"PATH": "{folder}/bin:/usr/bin:/bin"}), tmp_path / "here"
    )


def test_it_is_really_warm(tmp_path: Path) -> None:
    """The suite compares with a fork: it has modules that a fresh interpreter has not imported."""
    script = "import sys; print('argparse' in sys.modules, 'json' in sys.modules, 'subprocess' in sys.modules)"
    fork = run(Case(name="warm", script=script), tmp_path / "here", start_warm)
    assert fork.exit.stdout == b"True True True\n"


def test_package_installed_later(venv: Path, tmp_path: Path) -> None:
    """A package, and a .pth file, that appear in a venv are found by the next call."""
    program = f"{venv}/bin/python"
    packages = next(venv.glob("lib/python*/site-packages"))
    script = """
        import sys
        print(sys.path)
        import later
        print(later.__file__)
    """
    check_same(case("before", program, script), tmp_path / "here")
    (packages / "later.py").write_text("")
    (packages / "later.pth").write_text(f"{tmp_path}\n")
    check_same(case("after", program, script), tmp_path / "here")
    (packages / "later.pth").unlink()
    (packages / "later.py").unlink()
    check_same(case("removed", program, script), tmp_path / "here")

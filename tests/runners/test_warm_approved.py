"""Only approved code runs in a warm interpreter: the script's text, and what it imports from the project."""

import asyncio
import hashlib
import os
import sys
import zipfile
from pathlib import Path

import pytest

from billhook.core.answers import Exit
from billhook.runners import warm
from billhook.runners.command import CoveredFiles
from warm_ready import wait_until_ready

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="warm interpreters need Linux"),
    pytest.mark.usefixtures("adopting"),
]
ARGV = (sys.executable, "hooks/hook.py")


def covered(folder: Path, *names: str) -> CoveredFiles:
    files = [(str(folder / name), hashlib.sha256((folder / name).read_bytes()).hexdigest()) for name in names]
    return CoveredFiles(str(folder), tuple(files))


def run(folder: Path, approved: CoveredFiles) -> Exit:
    env = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    assert wait_until_ready(ARGV, env, folder) == ""
    child = asyncio.run(warm.start(ARGV, stdin=b"", env=env, cwd=folder, covered=approved))
    assert child is not None
    ended = asyncio.run(child.wait(30))
    assert ended is not None
    return ended


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "hooks").mkdir()
    (tmp_path / "hooks" / "hook.py").write_text("import helper\nprint(helper.word)")
    (tmp_path / "hooks" / "helper.py").write_text("word = 'approved'")
    return tmp_path


def test_approved_files_run(project: Path) -> None:
    assert run(project, covered(project, "hooks/hook.py", "hooks/helper.py")).stdout == b"approved\n"


def test_a_script_that_was_changed_does_not_run(project: Path) -> None:
    approved = covered(project, "hooks/hook.py", "hooks/helper.py")
    (project / "hooks" / "hook.py").write_text("print('changed')")
    ended = run(project, approved)
    assert ended.stdout == b""
    assert ended.start_error == (
        f"{project}/hooks/hook.py has changed since it was approved; `billhook trust` shows how"
    )


def test_a_module_that_was_changed_is_not_loaded(project: Path) -> None:
    approved = covered(project, "hooks/hook.py", "hooks/helper.py")
    (project / "hooks" / "helper.py").write_text("word = 'changed'")
    _is_refused(run(project, approved), "hooks/helper.py")


@pytest.mark.parametrize("how", ["sys.path.insert(0, 'lib')", "sys.path.append(os.path.abspath('hooks/../lib'))"])
def test_no_path_leads_to_other_modules(project: Path, how: str) -> None:
    (project / "lib").mkdir()
    (project / "lib" / "other.py").write_text("print('loaded')")
    (project / "hooks" / "hook.py").write_text(f"import os, sys\n{how}\nimport other\n")
    _is_refused(run(project, covered(project, "hooks/hook.py")), "lib/other.py")


def test_a_link_from_outside_leads_to_nothing(project: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    outside = tmp_path_factory.mktemp("outside")
    (project / "other.py").write_text("print('loaded')")
    (outside / "other.py").symlink_to(project / "other.py")
    (project / "hooks" / "hook.py").write_text(f"import sys\nsys.path.append({str(outside)!r})\nimport other\n")
    _is_refused(run(project, covered(project, "hooks/hook.py")), "other.py")


def test_a_loader_made_by_the_script_is_checked(project: Path) -> None:
    (project / "other.py").write_text("print('loaded')")
    text = "import importlib.util as u\nspec = u.spec_from_file_location('x', 'other.py')\nspec.loader.load_module()\n"
    (project / "hooks" / "hook.py").write_text(text)
    _is_refused(run(project, covered(project, "hooks/hook.py")), "other.py")


def test_an_archive_is_checked(project: Path) -> None:
    with zipfile.ZipFile(project / "lib.zip", "w") as archive:
        archive.writestr("other.py", "print('loaded')")
    (project / "hooks" / "hook.py").write_text("import sys\nsys.path.insert(0, 'lib.zip')\nimport other\n")
    _is_refused(run(project, covered(project, "hooks/hook.py")), "lib.zip")
    assert run(project, covered(project, "hooks/hook.py", "lib.zip")).stdout == b"loaded\n"


def test_a_compiled_file_does_not_replace_the_source(project: Path) -> None:
    """An attacker can make one that counts as current: same time and size of the source, other code."""
    helper, approved = project / "hooks" / "helper.py", covered(project, "hooks/hook.py", "hooks/helper.py")
    good, before = helper.read_text(), helper.stat()
    helper.write_text("word = 'replaced'")
    os.utime(helper, ns=(before.st_atime_ns, before.st_mtime_ns))
    import py_compile

    py_compile.compile(str(helper))
    helper.write_text(good)
    os.utime(helper, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert len(good) == len("word = 'replaced'")
    assert run(project, approved).stdout == b"approved\n"


def test_a_script_that_is_not_covered_starts_plain(project: Path) -> None:
    env = dict(os.environ)
    assert wait_until_ready(ARGV, env, project) == ""
    nothing = CoveredFiles(str(project), ())
    assert asyncio.run(warm.start(ARGV, stdin=b"", env=env, cwd=project, covered=nothing)) is None


def _is_refused(ended: Exit, file: str) -> None:
    assert ended.stdout == b""
    assert ended.code == 1
    assert f"{file} is not covered by the hook's approval; run `billhook trust`" in ended.stderr_text

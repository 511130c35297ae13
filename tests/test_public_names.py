"""The names that `billhook` exports: found when they are used, and known to type checkers and to `dir`."""

import subprocess
import sys
from pathlib import Path

import pytest

import billhook


def test_every_public_name_can_be_used_and_is_listed() -> None:
    assert all(getattr(billhook, name) is not None for name in billhook.__all__)
    assert set(billhook.__all__) <= set(dir(billhook))
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        billhook.nothing  # noqa: B018


@pytest.mark.slow
def test_strict_type_checkers_know_every_public_name(tmp_path: Path) -> None:
    pytest.importorskip("mypy")
    program = tmp_path / "program.py"
    program.write_text(f"from billhook import {', '.join(billhook.__all__)}\n\nengine: Engine = Engine([])\n")
    command = [sys.executable, "-m", "mypy", "--strict", "--follow-imports=silent", str(program)]
    project = Path(billhook.__file__).parents[2]
    checked = subprocess.run(command, cwd=project, capture_output=True, text=True, check=False)
    assert checked.returncode == 0, checked.stdout + checked.stderr

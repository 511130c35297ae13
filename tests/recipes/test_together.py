"""All recipes in one file: none is in the way of another."""

import subprocess
from pathlib import Path

import pytest

from billhook.agents import AGENTS
from billhook.config.recipes import shipped
from cli.place import Place

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("committed", [False, True])
def test_all_recipes(tmp_path: Path, committed: bool) -> None:
    """Added at once they have no findings, their tests pass, and each agent reads them."""
    place = Place(tmp_path)
    subprocess.run(["git", "init", "-q", "-b", "main", str(place.project)], check=True)
    (place.project / "Makefile").write_text("test:\n\ttrue\n")
    names = [one.name for one in shipped()]
    added = place.typing("add", *names, "--yes", answers=[])
    assert added.code == 0 and added.out.count("and approved") == len(names), added
    if committed:
        git = ["git", "-c", "user.name=A", "-c", "user.email=a@example.com", "-C", str(place.project)]
        subprocess.run([*git, "add", "-A"], check=True)
        subprocess.run([*git, "commit", "-q", "-m", "first"], check=True)

    assert "no findings" in place.run("check").out
    tested = place.run("test")
    assert tested.code == 0 and " passed" in tested.out, tested
    for agent in AGENTS:
        assert place.run("check", "--host", agent).code in (0, 1)

    for name in names:
        removed = place.typing("remove", name, "--yes", answers=[])
        assert removed.code == 0, removed
    assert not (place.project / ".billhook" / "hooks.yaml").exists()

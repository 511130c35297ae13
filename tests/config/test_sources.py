"""Which files apply in a folder, and in which order."""

import os
from pathlib import Path

import pytest

from billhook.config import sources
from billhook.core.errors import UsageError
from config.project import Project


def found(project: Project, cwd: Path | None = None, **options: object) -> list[tuple[str, str]]:
    """Layer and file, the latter relative to the project or the home folder."""
    result = sources.find(cwd or project.folder, **options)  # type: ignore[arg-type]
    return [(file.layer, _short(project, file.path)) for file in result.files if file.layer != "managed"]


def _short(project: Project, path: str) -> str:
    if path.startswith(f"{project.home}/"):
        return "~/" + os.path.relpath(path, project.home)
    return os.path.relpath(path, project.folder)


EVERY_PROJECT_FILE = [
    ".claude/settings.json",
    ".claude.json",
    ".hooks.json",
    "hooks.yaml",
    "hooks.yml",
    ".claude/hooks.yaml",
    ".claude/hooks.yml",
    ".billhook/hooks.yaml",
    ".billhook/hooks.yml",
]


def test_every_layer_most_trusted_first(project: Project) -> None:
    """User, explicit, project, local; each file of a layer in a fixed order."""
    users = ["~/.claude/settings.json", "~/.config/billhook/hooks.yaml"]
    locals_ = [".claude/settings.local.json", ".billhook/hooks.local.yaml"]
    for name in [*users, *EVERY_PROJECT_FILE, *locals_, "mine.yaml"]:
        project.write(name, "{}")
    expected = [("user", name) for name in users] + [("explicit", "mine.yaml")]
    expected += [("project", name) for name in EVERY_PROJECT_FILE] + [("local", name) for name in locals_]
    assert expected == found(project, files=[project.folder / "mine.yaml"])


def test_only_the_selected_layers(project: Project) -> None:
    """A product with its own files reads none of the user's files."""
    project.write("~/.claude/settings.json", "{}")
    project.write("hooks.yaml", "")
    mine = project.write("mine.yaml", "")
    assert found(project, files=[mine], layers=("explicit",)) == [("explicit", "mine.yaml")]
    assert found(project, layers=("user",)) == [("user", "~/.claude/settings.json")]


def test_a_named_file_that_is_missing(project: Project) -> None:
    """It must not count as an empty configuration."""
    with pytest.raises(UsageError, match="no file"):
        found(project, files=["missing.yaml"])
    with pytest.raises(UsageError, match="unknown layer `projekt`"):
        found(project, layers=("projekt",))


def test_from_below_the_project(project: Project) -> None:
    """Gates still apply after `cd` into a folder of the project or into a nested repository."""
    project.write("hooks.yaml", "")
    inner = project.folder / "src" / "vendored"
    (inner / ".git").mkdir(parents=True)
    assert found(project, inner) == [("project", "hooks.yaml")]
    project.write("src/vendored/.hooks.json", "{}")
    assert found(project, inner) == [("project", "hooks.yaml"), ("project", "src/vendored/.hooks.json")]
    assert sources.find(inner).project == str(project.folder)


def test_without_a_repository(tmp_path: Path, project: Project) -> None:
    """The nearest folder with hook files is the project; without those, the folder itself."""
    plain = tmp_path / "plain" / "deep" / "er"
    plain.mkdir(parents=True)
    assert sources.find(plain).project == str(plain)
    (tmp_path / "plain" / ".hooks.json").write_text("{}")
    assert sources.find(plain).project == str(tmp_path / "plain")


def test_the_home_folder_is_not_a_project(project: Project) -> None:
    """Neither it nor folders above are searched from below; inside of it, the user's files stay the user's."""
    project.write("~/.hooks.json", "{}")
    project.write("~/.claude/settings.json", "{}")
    project.write("~/.claude.json", "{}")
    below = project.home / "work"
    below.mkdir()
    assert found(project, below) == [("user", "~/.claude/settings.json")]
    assert found(project, project.home) == [("user", "~/.claude/settings.json"), ("project", "~/.hooks.json")]


def test_world_writable_folders(tmp_path: Path, project: Project) -> None:
    """Files in a folder like /tmp do not belong to a project below it."""
    shared = tmp_path / "shared"
    mine = shared / "mine"
    mine.mkdir(parents=True)
    (shared / ".hooks.json").write_text("{}")
    assert found(project, mine) != []
    shared.chmod(0o1777)
    assert found(project, mine) == []


def test_through_a_link(tmp_path: Path, project: Project) -> None:
    """A folder is the same project by every path."""
    project.write("hooks.yaml", "")
    link = tmp_path / "link"
    link.symlink_to(project.folder)
    assert sources.find(link) == sources.find(project.folder)


def test_files_that_can_never_be_read(project: Project) -> None:
    """A pipe, a folder: an error at once, without waiting."""
    pipe = project.folder / "hooks.yaml"
    os.mkfifo(pipe)
    with pytest.raises(OSError, match="not a regular file"):
        sources.read_bytes(str(pipe))
    with pytest.raises(OSError, match="folder"):
        sources.read_bytes(str(project.folder))

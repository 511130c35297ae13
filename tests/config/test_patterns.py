"""Patterns in a hook's command: what they match inside of the project, and what is reported about others."""

from pathlib import Path

import pytest

from billhook.config.declaration import RunAction
from billhook.config.referenced_files import named
from billhook.config.sources import FileSnapshot
from config.project import Project

OUTSIDE = "it leads outside of the project"
CASES = {
    "files in a folder": ("sh policies/*.sh", ["policies/a.sh", "policies/b.sh"], ""),
    "folders as well": ("sh pol*/?.sh", ["policies/a.sh", "policies/b.sh"], ""),
    "a class": ("sh policies/[!b].sh", ["policies/a.sh"], ""),
    "a loop": ("for f in policies/*.sh; do sh $f; done", ["policies/a.sh", "policies/b.sh"], ""),
    "hidden files stay hidden": ("sh policies/*", ["policies/a.sh", "policies/b.sh", "policies/note"], ""),
    "hidden files that are named": ("sh policies/.*.sh", ["policies/.c.sh"], ""),
    "nothing": ("sh nowhere/*.sh", [], ""),
    "through a file": ("sh policies/a.sh/*.sh", [], ""),
    "a link inside": ("sh inner/*.sh", ["inner/a.sh", "inner/b.sh"], ""),
    "an absolute path": ("sh /proc/*/root/proc/*/root/*/x.sh", [], OUTSIDE),
    "the parent": ("sh ../*/x.sh", [], OUTSIDE),
    "the parent of a match": ("sh policies/../../*/x.sh", [], OUTSIDE),
    "home": ("sh ~/*.sh", [], OUTSIDE),
    "a link that leads out": ("sh outer/*.sh", [], OUTSIDE),
    "a link that leads out, matched": ("sh */x.sh", ["inner/x.sh", "policies/x.sh"], OUTSIDE),
    "a link into /proc": ("sh proc/*/root/proc/*/x.sh", [], OUTSIDE),
    "a loop of links": ("sh loop/*/*/*.sh", [], "too many levels of symbolic links"),
    "a large folder": ("sh large/*.sh", [], "it has too many files to search"),
    "a large tree": ("sh tree/*/*/*/*/x.sh", [], "it has too many files to search"),
}


@pytest.fixture
def full(project: Project) -> Project:
    for name in ("a.sh", "b.sh", ".c.sh", "note"):
        project.write(f"policies/{name}", "true")
    project.write("../elsewhere/x.sh", "true")
    (project.folder / "inner").symlink_to("policies")
    (project.folder / "outer").symlink_to("../elsewhere")
    (project.folder / "proc").symlink_to("/proc")
    (project.folder / "loop").symlink_to("loop")
    return project


@pytest.mark.parametrize(("command", "files", "problem"), CASES.values(), ids=CASES)
def test_what_a_pattern_matches(full: Project, command: str, files: list[str], problem: str) -> None:
    """Files inside of the project are covered; others are not searched, and this is reported."""
    if "large" in command:
        (full.folder / "large").mkdir()
        for number in range(5_001):
            (full.folder / f"large/{number}.sh").touch()
    if "tree" in command:
        _tree(full.folder / "tree", 4)
    if "*/x.sh" in command:
        full.write("policies/x.sh", "true")
    found = named(RunAction(command), str(full.folder), FileSnapshot())
    assert [str(Path(path).relative_to(full.folder)) for path in found.files] == files
    assert [text.rpartition(": ")[2] for text in found.uncovered] == ([problem] if problem else [])


def _tree(folder: Path, deep: int) -> None:
    folder.mkdir()
    for number in range(9 if deep else 0):
        _tree(folder / str(number), deep - 1)


def test_files_of_unapproved_hooks(project: Project) -> None:
    """Files are read only for definitions that were approved once; others are found on demand."""
    project.script("a.sh", "true")
    project.write("hooks.yaml", "hooks:\n  a: {events: Stop, run: ./a.sh}\n")
    assert [entry.consent.looked_at for entry in project.load().pending] == [()]
    project.approve()
    project.write("hooks.yaml", "hooks:\n  a: {events: Stop, run: ./a.sh}\n  b: {events: Stop, run: sh -e ./a.sh}\n")
    entries = {entry.shown: entry for entry in project.load().entries}
    assert [name for name, entry in entries.items() if entry.consent.looked_at] == ["a"]
    assert entries["b"].hash and entries["b"].consent.looked_at
    project.script("a.sh", "false")
    assert project.load().entries[1].hash != entries["b"].hash


ENDLESS = ["/proc/self/pagemap", "/dev/zero", "/proc/kmsg", "/proc/kcore", "/proc/self/fd/0"]


@pytest.mark.parametrize("target", ENDLESS)
def test_scripts_without_an_end(project: Project, target: str) -> None:
    """A link to an endless file is not read."""
    (project.folder / "x.sh").symlink_to(target)
    (project.folder / ".hooks.json").symlink_to(target)
    project.write("hooks.yaml", "hooks:\n  a: {events: Stop, run: sh x.sh}\n")
    (entry,) = project.load().pending
    assert entry.hash


def test_too_many_hooks(project: Project) -> None:
    """A project's file with too many hooks is not read to its end, and this is reported."""
    project.write(".claude/settings.json", {"hooks": {"Stop": ["ls"] * 3_000}})
    config = project.load()
    assert [one.code for one in config.problems] == ["BH103"] and len(config.entries) == 2_000

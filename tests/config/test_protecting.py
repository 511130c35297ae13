"""The files that the guard protects in a loaded configuration."""

import os
import subprocess
import sys
import sysconfig

import pytest

from billhook import Decision
from billhook.core.events import PreToolUse
from config.project import Project


def judged(project: Project, path: str) -> Decision:
    """The decision about a Write to a file of the project."""
    event = PreToolUse(
        tool_name="Write",
        tool_input={"file_path": str(project.path(path)), "content": ""},
        cwd=str(project.folder),
    )
    return project.load(builtins=True).engine().fire_sync(event).decision


def test_configuration_files_existing_or_not(project: Project) -> None:
    """Every file of every layer, existing or not, is asked about; other files are not."""
    for path in (".claude/settings.json", "hooks.yaml", ".hooks.json", "~/.claude/settings.json", ".billhook/x/y.sh"):
        assert judged(project, path) is Decision.ASK, path
    assert judged(project, "src/main.py") is Decision.NONE


@pytest.mark.parametrize(
    "path",
    [
        ".codex/hooks.json",
        ".codex/config.toml",
        ".gemini/settings.json",
        ".qwen/settings.json",
        ".cursor/hooks.json",
        ".github/hooks/billhook.json",
        "~/.codex/hooks.json",
        "~/.gemini/settings.json",
        "~/.copilot/hooks/billhook.json",
    ],
)
def test_entries_that_call_billhook(project: Project, path: str) -> None:
    """An edit of them could stop the agent from calling billhook."""
    assert judged(project, path) is Decision.ASK


def test_scripts_of_hooks(project: Project) -> None:
    """Scripts of approved hooks and of the user's hooks; not those of unapproved hooks."""
    project.script("guard.sh", "exit 0")
    project.script("other.sh", "exit 0")
    project.write("hooks.yaml", "hooks:\n  g: {events: Stop, run: ./guard.sh}\n")
    assert judged(project, "guard.sh") is Decision.NONE
    project.approve()
    assert judged(project, "guard.sh") is Decision.ASK
    mine = project.write("~/bin/mine.sh", "exit 0")
    project.write("~/.claude/settings.json", {"hooks": {"PreToolUse": [{"command": f"sh {mine}"}]}})
    assert judged(project, "~/bin/mine.sh") is Decision.ASK
    assert judged(project, "other.sh") is Decision.NONE


@pytest.mark.parametrize("name", ["billhook/approvals/x.json", "turns/s.json", "hooks/p/hooks.jsonl"])
def test_the_state_of_billhook(project: Project, name: str) -> None:
    """Approvals, state and log are denied, wherever the root is."""
    event = PreToolUse(tool_name="Bash", tool_input={"command": f"echo x > {project.root}/{name}"}, cwd="/")
    assert project.load(builtins=True).engine().fire_sync(event).decision is Decision.DENY


def run(project: Project, command: str) -> Decision:
    """The decision about a shell command."""
    event = PreToolUse(tool_name="Bash", tool_input={"command": command}, cwd=str(project.folder))
    return project.load(builtins=True).engine().fire_sync(event).decision


def test_the_installation_itself(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    """The program and its interpreter, what Python runs at startup, and what PATH would find before them."""
    monkeypatch.setenv("PATH", f"{project.folder}/first:{os.environ['PATH']}")
    beside, site = os.path.dirname(sys.executable), sysconfig.get_path("purelib")
    for path in (f"{beside}/billhook-hook", f"{beside}/billhook", f"{site}/sitecustomize.py", f"{site}/x.pth"):
        assert run(project, f"cp /bin/true {path}") is Decision.ASK, path
        assert run(project, f"cat {path}") is Decision.NONE, path
    assert run(project, f"rm {sys.executable}") is Decision.ASK
    assert run(project, f"{sys.executable} x.py") is Decision.NONE
    assert judged(project, "first/billhook-hook") is Decision.ASK
    assert judged(project, "second/billhook-hook") is Decision.NONE


@pytest.mark.parametrize("program", ["~/opt/bin/billhook-hook", "~/my tools/billhook-hook"])
def test_the_program_in_the_settings(project: Project, program: str) -> None:
    """It may be anywhere, and its path may contain spaces.

    The guard protects billhook's files even if it is off.
    """
    project.write("~/.config/billhook/hooks.yaml", "guard: off\n")
    path = project.write(program, "#!/bin/sh")
    entry = {"command": f"'{path}' claude PreToolUse" if " " in str(path) else f"{path} claude PreToolUse"}
    project.write("~/.gemini/settings.json", {"hooks": {"BeforeTool": [{"hooks": [entry]}]}})
    assert judged(project, program) is Decision.ASK
    assert judged(project, program + "-not") is Decision.NONE


def test_folders_above(project: Project) -> None:
    """Removing the access to a folder disables the files in it."""
    project.write("~/.config/billhook/hooks.yaml", "hooks: {}\n")
    for folder in ("~/.config", "~/.config/billhook", "~"):
        assert run(project, f"chmod 000 {folder}") is not Decision.NONE, folder
    assert run(project, "chmod 755 ~/.config") is Decision.NONE


def test_approved_files_of_other_projects(project: Project) -> None:
    """They are protected from other projects, as long as they are approved."""
    other = project.folder.parent / "other"
    mine = project.folder
    project.script("guard.sh", "exit 0")
    project.write("hooks.yaml", "hooks:\n  g: {events: Stop, run: ./guard.sh}\n")
    project.approve()
    other.mkdir()
    for command, decision in (
        (f"rm {mine}/guard.sh", Decision.ASK),
        (f"rm -rf {mine}", Decision.ASK),
        (f"rm {mine}/README.md", Decision.NONE),
        (f"rm -rf {mine}/.billhook", Decision.ASK),
    ):
        event = PreToolUse(tool_name="Bash", tool_input={"command": command}, cwd=str(other))
        assert project.load(cwd=other, builtins=True).engine().fire_sync(event).decision is decision, command


def test_branches_without_the_approved_hooks(project: Project) -> None:
    """Switching to one of them asks the user; without approvals it is allowed."""
    project.script("guard.sh", "exit 0")
    project.write("hooks.yaml", "hooks:\n  g: {events: Stop, run: ./guard.sh}\n")
    make = "git init -qb main && git add -A && git commit -qm x && git switch -qc gone && git rm -q guard.sh"
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@b"]
    text = make.replace("git ", " ".join(git) + " ") + f" && {' '.join(git)} commit -qm y && git switch -q main"
    subprocess.run(["sh", "-ec", text + " && git branch same"], cwd=project.folder, check=True, capture_output=True)
    assert run(project, "git switch gone") is Decision.NONE
    project.approve()
    assert run(project, "git switch gone") is Decision.ASK
    assert run(project, "git switch same") is Decision.NONE

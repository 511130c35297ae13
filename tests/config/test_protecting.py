"""What self-protection looks after in a loaded configuration."""

import pytest

from billhook import Decision
from billhook.events import PreToolUse
from config.project import Project


def judged(project: Project, path: str) -> Decision:
    """What becomes of a Write to a file of the project."""
    event = PreToolUse(
        tool_name="Write",
        tool_input={"file_path": str(project.path(path)), "content": ""},
        cwd=str(project.folder),
    )
    return project.load(builtins=True).engine().fire_sync(event).decision


def test_configuration_there_or_not(project: Project) -> None:
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
    """Whoever edits them may keep the agent from asking billhook at all."""
    assert judged(project, path) is Decision.ASK


def test_scripts_of_hooks(project: Project) -> None:
    """Those that were approved, and those of the user's own hooks; not those that nobody approved."""
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
def test_what_billhook_keeps(project: Project, name: str) -> None:
    """Approvals, state and log are denied, wherever the root is."""
    event = PreToolUse(tool_name="Bash", tool_input={"command": f"echo x > {project.root}/{name}"}, cwd="/")
    assert project.load(builtins=True).engine().fire_sync(event).decision is Decision.DENY

"""`billhook init`: what it writes works, is approved, and passes `billhook check`; what is there is left alone."""

import json
from importlib import resources
from pathlib import Path

import pytest
from inline_snapshot import snapshot

from cli.place import Place

STARTER = resources.files("billhook.config").joinpath("starter.yaml").read_text("utf-8")
PUSH = ("PreToolUse", "--tool", "Bash", "--input")


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def test_first_screen(place: Place) -> None:
    """In an empty folder."""
    assert place.alone("init").screen == snapshot("""\
wrote .billhook/hooks.yaml, and approved what is in it
  push-needs-a-person  PreToolUse
  tool-log             PostToolUse, PostToolUseFailure
  house-rules          SessionStart

next
  billhook list
      every hook, in the order in which they run
  billhook fire PreToolUse --tool Bash --input '{"command": "git push"}'
      what the gate says to a push
  billhook install claude
      let an agent ask these hooks: claude, codex, gemini, qwen, copilot, cursor, opencode, hermes
-- exit 0
""")
    assert (place.project / ".billhook" / "hooks.yaml").read_text() == STARTER
    assert (place.project / ".billhook" / ".gitignore").read_text() == "*.local.yaml\n*.local.yml\n*.log\n*.bak\n"


def test_what_it_wrote_works(place: Place) -> None:
    """The gate asks, the logger writes, the annotator tells; nothing waits, and the lint finds nothing."""
    assert place.alone("init").code == 0
    asked = place.run("fire", *PUSH, '{"command": "git push"}', "--json")
    assert (asked.code, asked.verdict["decision"], asked.err) == (1, "ask", "")
    assert place.run("fire", "PostToolUse", "--tool", "Write").code == 0
    assert '"tool_name":"Write"' in (place.project / ".billhook" / "tool-calls.log").read_text()
    told = place.run("fire", "SessionStart", "--json").verdict
    assert len(told["context"]) == 1
    assert place.run("trust").code == 0
    check = place.run("check")
    assert (check.code, check.err) == (0, ""), check


@pytest.mark.parametrize(
    ("command", "decision"),
    [
        ("git push --force origin main", "deny"),
        ("git -C elsewhere push -f", "ask"),
        ("cd x && git push", "ask"),
        ("bash -c 'git push'", "ask"),
        ('git "push"', "ask"),
        ("git pull", "none"),
        ("git status", "none"),
    ],
)
def test_the_gate(place: Place, command: str, decision: str) -> None:
    """Pushes in any spelling, and nothing else."""
    from billhook.config import load_config

    file = place.folder / "starter.yaml"
    file.write_text(STARTER)
    engine = load_config(place.project, files=[file], home=place.home).engine()
    event = {"hook_event_name": "PreToolUse", "tool_name": "Bash", "tool_input": {"command": command}}
    assert engine.fire_sync(event).decision == decision


def test_existing_files_are_named(place: Place) -> None:
    """Hook files in every shape are used as well, and wait for approval."""
    place.file(".claude/settings.json", '{"hooks": {"Stop": [{"hooks": [{"type": "command", "command": "true"}]}]}}')
    place.file(".claude.json", '{"hooks": {"PreToolUse": ["true"], "PostToolUse": [{"command": "true"}]}}')
    place.file(".hooks.json", '{"hooks": {"PreToolUse": [{"matcher": "*", "command": "true"}]}}')
    place.file("hooks.yaml", "hooks: [\n")
    place.own("hooks:\n  mine:\n    events: Stop\n    run: 'true'\n")
    ended = place.alone("init")
    assert ended.screen.split("next\n")[0] == snapshot("""\
wrote .billhook/hooks.yaml, and approved what is in it
  push-needs-a-person  PreToolUse
  tool-log             PostToolUse, PostToolUseFailure
  house-rules          SessionStart

found, and used as well
  ~/.config/billhook/hooks.yaml  1 hook of your own
  .claude/settings.json          1 hook, not approved yet
  .claude.json                   2 hooks, not approved yet
  .hooks.json                    1 hook, not approved yet
  hooks.yaml                     can't be read (`billhook check` says why)
  what is not approved does not run: `billhook trust` shows each hook and asks

""")
    data = json.loads(place.alone("init", "--force", "--json").out)
    assert [(Path(one["file"]).name, one["hooks"], one["pending"]) for one in data["found"]] == [
        ("hooks.yaml", 1, 0),
        ("settings.json", 1, 1),
        (".claude.json", 2, 2),
        (".hooks.json", 1, 1),
        ("hooks.yaml", 0, 0),
    ]


def test_an_existing_file_stays(place: Place) -> None:
    """Nothing is changed without --force."""
    file = place.file(".billhook/hooks.yaml", "hooks: {}\n")
    ended = place.alone("init")
    assert ended.screen == snapshot("""\
.billhook/hooks.yaml is there already; nothing was changed
-- stderr

hint: edit it, or --force replaces it and keeps a copy
-- exit 1
""")
    assert file.read_text() == "hooks: {}\n"
    assert sorted(path.name for path in file.parent.iterdir()) == ["hooks.yaml"]


def test_force_keeps_a_copy(place: Place) -> None:
    """What was there lies beside it; lines of one's own in .gitignore stay."""
    file = place.file(".billhook/hooks.yaml", "hooks: {}\n")
    place.file(".billhook/.gitignore", "*.log\nmine")
    ended = place.alone("init", "--force")
    assert ended.code == 0
    assert file.read_text() == STARTER
    assert (file.parent / "hooks.yaml.bak").read_text() == "hooks: {}\n"
    assert (file.parent / ".gitignore").read_text() == "*.log\nmine\n*.local.yaml\n*.local.yml\n*.bak\n"


@pytest.mark.parametrize("what", ["file", "folder"])
def test_never_through_a_link(place: Place, what: str) -> None:
    """A link in the way is no place to write to."""
    target = place.folder / "elsewhere"
    if what == "file":
        target.write_text("precious")
        (place.project / ".billhook").mkdir()
        (place.project / ".billhook" / "hooks.yaml").symlink_to(target)
    else:
        target.mkdir()
        (place.project / ".billhook").symlink_to(target)
    ended = place.alone("init", "--force")
    assert ended.code == 2
    assert "symbolic link" in ended.err and "hint: " in ended.err
    assert target.read_text() == "precious" if what == "file" else not list(target.iterdir())


def test_inside_an_agent(place: Place) -> None:
    """An agent may write the file, but not approve it, and not replace one that judges it."""
    ended = place.alone("init", CLAUDECODE="1")
    assert ended.code == 0
    assert "approved" not in ended.out
    assert "not approved: this runs inside Claude Code" in ended.err
    assert place.run("trust").code == 1
    again = place.alone("init", "--force", CLAUDECODE="1")
    assert (again.code, "--force is refused here" in again.err) == (2, True)
    assert not (place.project / ".billhook" / "hooks.yaml.bak").exists()


def test_in_a_repository(place: Place) -> None:
    """The file belongs to the project, wherever in it one stands."""
    (place.project / ".git").mkdir()
    inner = place.project / "src"
    inner.mkdir()
    place.project = inner
    assert place.alone("init", "--json").code == 0
    assert (inner.parent / ".billhook" / "hooks.yaml").exists()
    assert not (inner / ".billhook").exists()


def test_json(place: Place) -> None:
    """What was done, as one object."""
    data = json.loads(place.alone("init", "--json").out)
    assert data == {
        "file": "<here>/project/.billhook/hooks.yaml",
        "backup": None,
        "hooks": ["push-needs-a-person", "tool-log", "house-rules"],
        "approved": True,
        "found": [],
    }

"""`billhook init`: its hooks work, are approved and pass `billhook check`; existing files are not changed."""

import json
import shlex
from importlib import resources
from pathlib import Path
from typing import Any

import pytest
import yaml
from inline_snapshot import snapshot

from cli.place import Place
from recipes.cases import Scratch, judge

STARTER = resources.files("billhook.config").joinpath("starter.yaml").read_text("utf-8")
PUSH = ("PreToolUse", "--tool", "Bash", "--input")


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def test_first_screen(place: Place) -> None:
    """In an empty folder."""
    assert place.alone("init").screen == snapshot("""\
wrote .billhook/hooks.yaml and approved its hooks
  protect-env          deny: Agents must not change .env files. Tell the user
                       what to change instead.
  push-needs-a-person  ask: Push to a remote?
  tool-log             echo "$(date -u +%FT%TZ) $(cat)" >>
                       .billhook/tool-calls.log
  house-rules          inject: Do not change .env files and do not push. Tell
                       the user what is ready instead.

try it: this command would be denied
  billhook explain 'echo DEBUG=1 >> .env'

next
  billhook install claude  connect Claude Code (or codex, gemini, qwen ...)
  billhook list            show all hooks in run order
-- exit 0
""")
    assert (place.project / ".billhook" / "hooks.yaml").read_text() == STARTER
    assert (place.project / ".billhook" / ".gitignore").read_text() == "*.local.yaml\n*.local.yml\n*.log\n*.bak\n"


def test_the_command_that_init_prints_shows_a_denial(place: Place) -> None:
    """The new user types what is on the screen, and sees a verdict of deny."""
    shown = place.alone("init").out.split("would be denied\n  billhook ")[1].split("\n")[0]
    ended = place.run(*shlex.split(shown))
    assert (ended.code, ended.err) == (0, "")
    assert "\nverdict: deny" in ended.out and "protect-env" in ended.out


def test_a_hook_at_the_end_of_the_file(place: Place) -> None:
    """The first rule of a new user is appended, and works."""
    place.alone("init")
    file = place.project / ".billhook" / "hooks.yaml"
    file.write_text(f"{STARTER}\n  no-destroy: {{events: PreToolUse, effect: delete, deny: never}}\n")
    assert place.run("check").code == 0
    assert "no-destroy" in place.run("trust").out


CASES = yaml.safe_load(STARTER)["tests"]


@pytest.mark.parametrize("case", CASES, ids=[case.get("by", "none") for case in CASES])
def test_the_tests_in_the_file(case: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scratch = Scratch(tmp_path, STARTER, monkeypatch)
    judge(case, scratch.fire(scratch.event(case)))


def test_each_hook_has_a_test() -> None:
    tested = [case.get("by") or case.get("only") for case in CASES]
    assert {*yaml.safe_load(STARTER)["hooks"]} <= {*tested}


def test_the_new_hooks_work(place: Place) -> None:
    """All four act, none waits for approval, and `check` has no findings."""
    assert place.alone("init").code == 0
    denied = place.run("fire", "PreToolUse", "--tool", "Write", "--input", '{"file_path": ".env"}', "--json")
    assert (denied.code, denied.verdict["decision"], denied.err) == (1, "deny", "")
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
        ("echo A=1 >> .env", "deny"),
        ("cp x .env.local", "deny"),
        ("cp .env.example x", "none"),
        ("echo A=1 >> .env.example", "none"),
        ("git push --force origin main", "deny"),
        ("git -C elsewhere push -f", "ask"),
        ("cd x && git push", "ask"),
        ("bash -c 'git push'", "ask"),
        ('git "push"', "ask"),
        ("git pull", "none"),
        ("git status", "none"),
    ],
)
def test_commands(place: Place, command: str, decision: str) -> None:
    """Changes of .env files are denied, pushes in any spelling are asked about, and nothing else."""
    from billhook.config import load_config

    file = place.folder / "starter.yaml"
    file.write_text(STARTER)
    engine = load_config(place.project, files=[file], home=place.home).engine()
    event = {"hook_event_name": "PreToolUse", "tool_name": "Bash", "tool_input": {"command": command}}
    assert engine.fire_sync(event).decision == decision


def test_existing_files_are_named(place: Place) -> None:
    """Hook files in every shape stay in use, and wait for approval."""
    place.file(".claude/settings.json", '{"hooks": {"Stop": [{"hooks": [{"type": "command", "command": "true"}]}]}}')
    place.file(".claude.json", '{"hooks": {"PreToolUse": ["true"], "PostToolUse": [{"command": "true"}]}}')
    place.file(".hooks.json", '{"hooks": {"PreToolUse": [{"matcher": "*", "command": "true"}]}}')
    place.file("hooks.yaml", "hooks: [\n")
    place.own("hooks:\n  mine:\n    events: Stop\n    run: 'true'\n")
    ended = place.alone("init")
    assert ended.screen.split("try it")[0] == snapshot("""\
wrote .billhook/hooks.yaml and approved its hooks
  protect-env          deny: Agents must not change .env files. Tell the user
                       what to change instead.
  push-needs-a-person  ask: Push to a remote?
  tool-log             echo "$(date -u +%FT%TZ) $(cat)" >>
                       .billhook/tool-calls.log
  house-rules          inject: Do not change .env files and do not push. Tell
                       the user what is ready instead.

other hook files that are in use here
  ~/.config/billhook/hooks.yaml  1 hook (yours)
  .claude/settings.json          1 hook, not approved yet
  .claude.json                   2 hooks, not approved yet
  .hooks.json                    1 hook, not approved yet
  hooks.yaml                     can't be read (`billhook check` shows why)
  hooks that are not approved do not run; review them with `billhook trust`

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
.billhook/hooks.yaml already exists; nothing was changed
-- stderr

hint: edit the file, or replace it with --force, which keeps a copy
-- exit 1
""")
    assert file.read_text() == "hooks: {}\n"
    assert sorted(path.name for path in file.parent.iterdir()) == ["hooks.yaml"]


def test_force_keeps_a_copy(place: Place) -> None:
    """The old file is kept beside the new one; other lines in .gitignore stay."""
    file = place.file(".billhook/hooks.yaml", "hooks: {}\n")
    place.file(".billhook/.gitignore", "*.log\nmine")
    ended = place.alone("init", "--force")
    assert ended.code == 0
    assert file.read_text() == STARTER
    assert (file.parent / "hooks.yaml.bak").read_text() == "hooks: {}\n"
    assert (file.parent / ".gitignore").read_text() == "*.log\nmine\n*.local.yaml\n*.local.yml\n*.bak\n"


@pytest.mark.parametrize("what", ["file", "folder"])
def test_never_through_a_link(place: Place, what: str) -> None:
    """A symbolic link is never followed."""
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
    assert "and approved" not in ended.out and "would be denied" not in ended.out
    assert "  billhook trust  " in ended.out
    assert "not approved: this runs inside Claude Code" in ended.err
    assert place.run("trust").code == 1
    again = place.alone("init", "--force", CLAUDECODE="1")
    assert (again.code, "--force is refused here" in again.err) == (2, True)
    assert not (place.project / ".billhook" / "hooks.yaml.bak").exists()


def test_in_a_repository(place: Place) -> None:
    """The file is written to the project's root, also from a folder below it."""
    (place.project / ".git").mkdir()
    inner = place.project / "src"
    inner.mkdir()
    place.project = inner
    assert place.alone("init", "--json").code == 0
    assert (inner.parent / ".billhook" / "hooks.yaml").exists()
    assert not (inner / ".billhook").exists()


def test_json(place: Place) -> None:
    """The result as one object."""
    data = json.loads(place.alone("init", "--json").out)
    assert data == {
        "file": "<here>/project/.billhook/hooks.yaml",
        "backup": None,
        "hooks": ["protect-env", "push-needs-a-person", "tool-log", "house-rules"],
        "approved": True,
        "found": [],
    }

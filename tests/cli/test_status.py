"""Bare `billhook`: where it stands here, and three commands that fit."""

import json
import os
from pathlib import Path
from typing import Any

import pytest
from inline_snapshot import snapshot

from cli.folder import Folder
from config.logged import at, content, write

GOOD = """\
hooks:
  no-destroy:
    events: PreToolUse
    if: Bash(terraform destroy *)
    deny: Destroying infrastructure needs a human
"""
BAD = """\
hooks:
  one: {evnts: Stop, run: ls}
  two: {events: Stop, run: ls, timeout: soon}
  three: {events: PreToolUse, match: bash, run: ls}
"""


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path)


def test_nothing_is_configured(folder: Folder) -> None:
    """It says how to begin."""
    assert folder.screen() == snapshot("""\
billhook 0.1.0 in ~/project

  no file with hooks is here
  built-in  metrics, turn-tracker, session-naming, event-logger, guard
  guard     standard; 0 asks and 0 denies in the last 7 days

Next
  billhook init                        write a first file with hooks that work
  billhook explain 'git push --force'  which hooks a command would get, and why
  billhook --help                      every verb
-- exit 0
""")


def test_waiting_for_approval(folder: Folder) -> None:
    """Approving comes first."""
    folder.write(".billhook/hooks.yaml", GOOD)
    folder.write("~/.claude/settings.json", {"hooks": {"Stop": ["true"]}})

    assert folder.screen() == snapshot("""\
billhook 0.1.0 in ~/project

  user      ~/.claude/settings.json  1 hook
  project   .billhook/hooks.yaml     1 hook, 1 not approved
  built-in  metrics, turn-tracker, session-naming, event-logger, guard
  guard     standard; 0 asks and 0 denies in the last 7 days

Next
  billhook trust                       look at 1 hook, and approve what may run
  billhook list                        every hook in the order in which it runs
  billhook explain 'git push --force'  which hooks a command would get, and why
-- exit 0
""")


def test_all_is_well(folder: Folder) -> None:
    """Three commands to look around with."""
    folder.write(".billhook/hooks.yaml", GOOD)
    folder.approve()

    assert folder.screen() == snapshot("""\
billhook 0.1.0 in ~/project

  project   .billhook/hooks.yaml  1 hook, approved
  built-in  metrics, turn-tracker, session-naming, event-logger, guard
  guard     standard; 0 asks and 0 denies in the last 7 days

Next
  billhook list                         every hook in the order in which it runs
  billhook explain 'git push --force'   which hooks a command would get, and why
  billhook fire PreToolUse --tool Bash  try the hooks on an event
-- exit 0
""")


def test_problems(folder: Folder) -> None:
    """The first three, and where the rest is."""
    folder.write("~/.config/billhook/hooks.yaml", BAD)
    folder.write("hooks.yaml", "hooks: [")

    assert folder.screen() == snapshot("""\
billhook 0.1.0 in ~/project

  user      ~/.config/billhook/hooks.yaml  3 hooks, 2 not running
  project   hooks.yaml                     can't be read
  built-in  metrics, turn-tracker, session-naming, event-logger, guard
  guard     standard; 0 asks and 0 denies in the last 7 days

4 problems
  ~/.config/billhook/hooks.yaml:2:9: BH202 unknown key `evnts`
  ~/.config/billhook/hooks.yaml:3:41: BH203 `timeout` must be a number, not a
    string
  ~/.config/billhook/hooks.yaml:4:38: BH301 `bash` never matches: under `claude`
    the tool is called `Bash`
  and 1 more; `billhook check` shows all

Next
  billhook check                       4 problems, each with what mends it
  billhook list                        every hook in the order in which it runs
  billhook explain 'git push --force'  which hooks a command would get, and why
-- exit 0
""")


def test_a_settings_file_without_hooks(folder: Folder) -> None:
    """It is there, and has no hooks: `init` fits."""
    folder.write(".claude/settings.json", {"model": "x"})

    assert folder.screen() == snapshot("""\
billhook 0.1.0 in ~/project

  project   .claude/settings.json  no hooks
  built-in  metrics, turn-tracker, session-naming, event-logger, guard
  guard     standard; 0 asks and 0 denies in the last 7 days

Next
  billhook init                        write a first file with hooks that work
  billhook list                        every hook in the order in which it runs
  billhook explain 'git push --force'  which hooks a command would get, and why
-- exit 0
""")


def test_json(folder: Folder) -> None:
    """The same as one line of JSON."""
    file = folder.write(".billhook/hooks.yaml", GOOD)
    ended = folder.billhook("--json")
    found = json.loads(ended.out)

    assert (ended.code, ended.err, ended.out.count("\n")) == (0, "", 1)
    assert {key: found[key] for key in ("project", "files", "pending", "problems", "next")} == {
        "project": str(folder.project),
        "files": [
            {
                "layer": "project",
                "file": str(file),
                "readable": True,
                "hooks": 1,
                "running": 0,
                "pending": 1,
                "run_by_claude": 0,
            }
        ],
        "pending": ["no-destroy"],
        "problems": [],
        "next": ["billhook trust", "billhook list", "billhook explain 'git push --force'"],
    }


def test_json_before_a_verb(folder: Folder) -> None:
    """The option belongs behind the verb."""
    assert folder.screen("--json", "list") == snapshot("""\
-- stderr
error: --json stands before the verb

hint: billhook list --json ...
-- exit 2
""")


def test_hostile_files(folder: Folder) -> None:
    """Nothing from a file reaches the terminal as an escape sequence."""
    evil = "\x1b]0;owned\x07\u202e"
    folder.write("hooks.yaml", {"hooks": {"a": {"events": evil, "run": "ls", evil: 1, "dialect": evil}}})

    ended = folder.billhook()

    assert ended.code == 0 and not set("\x1b\x07\u202e") & set(ended.out)


def logged(folder: Folder, *records: dict[str, Any]) -> None:
    project = os.path.realpath(folder.project)
    write(folder.home / ".claude", project, [content(project, **record) for record in records])


def test_the_log(folder: Folder) -> None:
    """One line: the last event, how many today, and what failed open."""
    folder.write(".billhook/hooks.yaml", GOOD)
    folder.approve()
    logged(folder, {"time": at(days=40)}, {"failed_open": 1}, {"failed_open": 1}, {})

    assert folder.screen() == snapshot("""\
billhook 0.1.0 in ~/project

  project   .billhook/hooks.yaml  1 hook, approved
  built-in  metrics, turn-tracker, session-naming, event-logger, guard
  guard     standard; 0 asks and 0 denies in the last 7 days
  log       last event just now, 3 today, 2 failed open

Next
  billhook list                         every hook in the order in which it runs
  billhook explain 'git push --force'   which hooks a command would get, and why
  billhook fire PreToolUse --tool Bash  try the hooks on an event
-- exit 0
""")
    log = json.loads(folder.billhook("--json").out)["log"]
    assert (log["today"], log["failed_open"], log["complete"]) == (3, 2, True)


def test_an_old_log(folder: Folder) -> None:
    """Nothing today."""
    logged(folder, {"time": at(days=5)})

    assert "  log       last event 5 days ago, 0 today\n" in folder.screen()


def test_no_log(folder: Folder) -> None:
    """Then nothing is said about it."""
    assert "log  " not in folder.screen()
    assert json.loads(folder.billhook("--json").out)["log"] is None


def test_a_log_that_cannot_be_read(folder: Folder) -> None:
    """The rest is shown, and a note says why."""
    logged(folder, {})
    (log,) = (folder.home / ".claude" / "hooks").rglob("hooks.jsonl")
    log.unlink()
    os.mkfifo(log)
    ended = folder.billhook()

    assert ended.code == 0
    assert "log  " not in ended.out
    assert ended.err.startswith("note: the event log can't be read: ")


@pytest.mark.parametrize(
    ("name", "command"),
    [
        (".claude/settings.json", "billhook install claude --project --adopt"),
        ("~/.claude/settings.json", "billhook install claude --adopt"),
    ],
)
def test_what_claude_code_runs_itself(folder: Folder, name: str, command: str) -> None:
    """Its hooks don't wait for approval: that agent runs them, and adopting them is proposed first."""
    nested = {"hooks": [{"type": "command", "command": "true"}]}
    folder.write(name, {"hooks": {"PreToolUse": [nested, {"matcher": "Bash", **nested}]}})
    screen = folder.screen()
    assert "2 hooks, run by Claude Code itself" in screen and "not approved" not in screen
    assert screen.partition("Next")[2].split("  ")[1].strip() == command
    assert "billhook trust" not in screen
    assert "run by Claude Code itself" in folder.screen("explain", "ls") and command in " ".join(
        folder.screen("explain", "ls").split()
    )

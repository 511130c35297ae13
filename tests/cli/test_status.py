"""Bare `billhook`: the status of a folder, and three commands that fit."""

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
  one: {evnts: Stop, run: "true"}
  two: {events: Stop, run: "true", timeout: soon}
  three: {events: PreToolUse, match: bash, run: "true"}
"""


INSTALL = ("install", "claude")


class UnusedHook(Folder):
    """A folder on a machine without coding agents, whatever is on the PATH of this one."""

    def environment(self, **changes: str | None) -> dict[str, str]:
        return super().environment(**{"PATH": "/nowhere", **changes})

    def proposed(self) -> list[str]:
        """The commands that bare `billhook` proposes."""
        found: list[str] = json.loads(self.billhook("--json").out)["next"]
        return found


@pytest.fixture
def folder(tmp_path: Path) -> UnusedHook:
    return UnusedHook(tmp_path)


def test_nothing_is_configured(folder: Folder) -> None:
    """The first step is `init`."""
    assert folder.screen() == snapshot("""\
billhook 0.1.0 in ~/project

  no hooks are configured here
  built-in  metrics, turn-tracker, session-naming, event-logger, guard
  agents    no agent calls billhook here
  guard     standard; 0 asks and 0 denies in the last 7 days

Next
  billhook init                        create hooks.yaml with example hooks
  billhook install claude              connect Claude Code
  billhook explain 'git push --force'  show which hooks would run for a command
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
  agents    no agent calls billhook here
  guard     standard; 0 asks and 0 denies in the last 7 days

Next
  billhook trust           review 1 hook, and approve what may run
  billhook install claude  connect Claude Code
  billhook list            show all hooks in run order
-- exit 0
""")


def test_no_agent_calls_billhook(folder: Folder) -> None:
    """The hooks are approved, so that installing comes next."""
    folder.write(".billhook/hooks.yaml", GOOD)
    folder.approve()

    assert folder.screen() == snapshot("""\
billhook 0.1.0 in ~/project

  project   .billhook/hooks.yaml  1 hook, approved
  built-in  metrics, turn-tracker, session-naming, event-logger, guard
  agents    no agent calls billhook here
  guard     standard; 0 asks and 0 denies in the last 7 days

Next
  billhook install claude              connect Claude Code
  billhook list                        show all hooks in run order
  billhook explain 'git push --force'  show which hooks would run for a command
-- exit 0
""")


def test_problems(folder: Folder) -> None:
    """The first three, and the command that shows all."""
    folder.write("~/.config/billhook/hooks.yaml", BAD)
    folder.write("hooks.yaml", "hooks: [")

    assert folder.screen() == snapshot("""\
billhook 0.1.0 in ~/project

  user      ~/.config/billhook/hooks.yaml  3 hooks, 2 not running
  project   hooks.yaml                     can't be read
  built-in  metrics, turn-tracker, session-naming, event-logger, guard
  agents    no agent calls billhook here
  guard     standard; 0 asks and 0 denies in the last 7 days

4 problems
  ~/.config/billhook/hooks.yaml:2:9: BH202 unknown key `evnts`
  ~/.config/billhook/hooks.yaml:3:45: BH203 `timeout` must be a number, not a
    string
  ~/.config/billhook/hooks.yaml:4:38: BH301 `bash` never matches: in the dialect
    `claude` the tool is called `Bash`
  and 1 more; `billhook check` shows all

Next
  billhook check           show 4 problems, with fixes
  billhook install claude  connect Claude Code
  billhook list            show all hooks in run order
-- exit 0
""")


def test_a_settings_file_without_hooks(folder: Folder) -> None:
    """An agent's file that has no hooks is not shown."""
    folder.write(".claude/settings.json", {"model": "x"})

    assert folder.screen() == snapshot("""\
billhook 0.1.0 in ~/project

  no hooks are configured here
  built-in  metrics, turn-tracker, session-naming, event-logger, guard
  agents    no agent calls billhook here
  guard     standard; 0 asks and 0 denies in the last 7 days

Next
  billhook init                        create hooks.yaml with example hooks
  billhook install claude              connect Claude Code
  billhook explain 'git push --force'  show which hooks would run for a command
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
        "next": ["billhook trust", "billhook install claude", "billhook list"],
    }


def test_json_before_a_verb(folder: Folder) -> None:
    """The option belongs behind the verb."""
    assert folder.screen("--json", "list") == snapshot("""\
-- stderr
error: --json must come after the command

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
  agents    no agent calls billhook here
  guard     standard; 0 asks and 0 denies in the last 7 days
  log       last event just now, 3 today, 2 failed open

Next
  billhook install claude              connect Claude Code
  billhook list                        show all hooks in run order
  billhook explain 'git push --force'  show which hooks would run for a command
-- exit 0
""")
    log = json.loads(folder.billhook("--json").out)["log"]
    assert (log["today"], log["failed_open"], log["complete"]) == (3, 2, True)


def test_an_old_log(folder: Folder) -> None:
    """Nothing today."""
    logged(folder, {"time": at(days=5)})

    assert "  log       last event 5 days ago, 0 today\n" in folder.screen()


def test_no_log(folder: Folder) -> None:
    """There is no line about it."""
    assert "log  " not in folder.screen()
    assert json.loads(folder.billhook("--json").out)["log"] is None


def test_a_log_that_cannot_be_read(folder: Folder) -> None:
    """A note explains it, and everything else is shown."""
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
    """They don't wait for approval: Claude Code runs them. The proposal is to adopt them."""
    nested = {"hooks": [{"type": "command", "command": "true"}]}
    folder.write(name, {"hooks": {"PreToolUse": [nested, {"matcher": "Bash", **nested}]}})
    screen = folder.screen()
    assert "2 hooks, run by Claude Code itself" in screen and "not approved" not in screen
    assert screen.partition("Next")[2].split("  ")[1].strip() == command
    assert "billhook trust" not in screen
    assert "run by Claude Code itself" in folder.screen("explain", "ls") and command in " ".join(
        folder.screen("explain", "ls").split()
    )


def test_a_prompt_can_not_move(folder: Folder) -> None:
    """billhook doesn't run prompts: no command proposes to adopt or approve one."""
    entry = {"hooks": [{"type": "prompt", "prompt": "Is this safe?"}]}
    folder.write(".claude/settings.json", {"hooks": {"PreToolUse": [entry]}})
    assert "--adopt" not in folder.screen() and "billhook trust" not in folder.screen()
    assert "billhook trust" not in folder.screen("list")
    assert folder.billhook("trust").code == 0


def test_installed(folder: UnusedHook) -> None:
    """billhook's entries in the settings of an agent do not count as hooks, in neither file."""
    assert folder.billhook(*INSTALL).code == 0
    assert folder.billhook("install", "claude", "--project").code == 0
    folder.write(".billhook/hooks.yaml", GOOD)
    folder.approve()

    assert folder.screen() == snapshot("""\
billhook 0.1.0 in ~/project

  project   .billhook/hooks.yaml  1 hook, approved
  built-in  metrics, turn-tracker, session-naming, event-logger, guard
  agents    Claude Code (your settings and this project)
  guard     standard; 0 asks and 0 denies in the last 7 days

Next
  billhook doctor                      check that Claude Code calls billhook
  billhook list                        show all hooks in run order
  billhook explain 'git push --force'  show which hooks would run for a command
-- exit 0
""")
    data = json.loads(folder.billhook("--json").out)
    assert [one["hooks"] for one in data["files"]] == [0, 0, 1]
    assert [(one["agent"], one["scope"]) for one in data["agents"]] == [("claude", "user"), ("claude", "project")]


def test_installed_beside_other_hooks(folder: UnusedHook) -> None:
    """Only the other hooks of that file are counted."""
    other = {"hooks": [{"type": "command", "command": "true"}]}
    folder.write("~/.claude/settings.json", {"hooks": {"PreToolUse": [other], "Stop": [other]}})
    assert folder.billhook(*INSTALL).code == 0

    screen = folder.screen()
    assert "  user      ~/.claude/settings.json  2 hooks, run by Claude Code itself\n" in screen
    assert "  agents    Claude Code (your settings)\n" in screen
    assert "not running" not in screen
    (file,) = json.loads(folder.billhook("--json").out)["files"]
    assert (file["hooks"], file["run_by_claude"], file["pending"]) == (2, 2, 0)


def test_each_step_is_proposed_in_turn(folder: UnusedHook) -> None:
    """From an empty folder to events in the log: the first proposal is always the step that is missing."""
    assert folder.proposed()[0] == "billhook init"
    folder.write(".billhook/hooks.yaml", BAD)
    assert folder.proposed()[:2] == ["billhook check", "billhook trust"]
    folder.write(".billhook/hooks.yaml", GOOD)
    assert folder.proposed()[:2] == ["billhook trust", "billhook install claude"]
    folder.approve()
    assert folder.proposed()[0] == "billhook install claude"
    assert folder.billhook(*INSTALL).code == 0
    assert folder.proposed()[0] == "billhook doctor"
    logged(folder, {})
    assert folder.proposed()[0] == "billhook events"


def test_installed_and_no_hooks(folder: UnusedHook) -> None:
    """The guard works already; `init` adds hooks."""
    assert folder.billhook(*INSTALL).code == 0
    assert "  no hooks are configured here\n" in folder.screen()
    assert folder.proposed()[:2] == ["billhook init", "billhook doctor"]


def test_other_agents_that_are_here(folder: UnusedHook) -> None:
    """The agents of this machine are proposed."""
    folder.script("~/bin/codex")
    folder.script("~/bin/gemini")
    screen = folder.screen(PATH=str(folder.home / "bin"))
    assert "billhook install codex gemini" in screen and "connect Codex, Gemini CLI" in screen


def test_approvals_are_no_events(folder: UnusedHook) -> None:
    """The log holds them, but no agent has called billhook yet."""
    logged(folder, {"event": "Trust"})
    assert "log  " not in folder.screen()


@pytest.mark.parametrize("columns", ["60", "80", "120"])
def test_narrow_terminals(folder: UnusedHook, columns: str) -> None:
    folder.write("~/.config/billhook/hooks.yaml", BAD)
    folder.write("hooks.yaml", GOOD)
    assert folder.billhook("install", "claude", "--project").code == 0
    lines = folder.billhook(COLUMNS=columns).out.splitlines()
    assert max(map(len, lines)) <= int(columns)
    shown = " ".join(" ".join(lines).split())
    assert "~/.config/billhook/hooks.yaml 3 hooks, 2 not running" in shown


def test_in_the_root_folder(folder: UnusedHook) -> None:
    """A folder without a project has the user's hooks only."""
    screen = folder.billhook(cwd=Path("/")).screen
    assert "no hooks are configured here" in screen and screen.endswith("-- exit 0\n")

"""`billhook doctor` for a new user: screens, JSON and exit codes, in a temporary home."""

import sys
from pathlib import Path

import pytest
from inline_snapshot import snapshot

from cli.place import Place
from cli.terminal import Ended

VARIABLES = ("CLAUDE_CONFIG_DIR", "CODEX_HOME", "GEMINI_CLI_HOME", "COPILOT_HOME", "GEMINI_CLI_TRUST_WORKSPACE")
AGENTS = ("claude", "codex", "gemini", "qwen", "copilot", "cursor")


class Person(Place):
    """A user with an installed billhook, and nothing else."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        (self.project / ".git").mkdir()
        self.bin = folder / "bin"
        self.bin.mkdir()
        (self.bin / "billhook-hook").symlink_to(Path(sys.executable).with_name("billhook-hook"))

    def env(self, **changes: str | None) -> dict[str, str]:
        ours: dict[str, str | None] = {**dict.fromkeys(VARIABLES), "PATH": f"{self.bin}:/usr/bin:/bin"}
        return super().env(**{**ours, **changes})

    def doctor(self, *arguments: str) -> Ended:
        return self.alone("doctor", *arguments)


@pytest.fixture
def me(tmp_path: Path) -> Person:
    return Person(tmp_path)


def test_a_new_user(me: Person) -> None:
    """Nothing is installed: it shows how to start."""
    assert me.doctor().screen == snapshot("""\
no agent calls billhook in <here>/project

no coding agent was found on PATH or in your home folder

  ok    guard      on: standard; 0 asks and 0 denies in the last 7 days

start with
  billhook install claude
  billhook init
  billhook replay --transcripts    what the guard would have stopped so far
-- exit 1
""")


def test_every_agent(me: Person) -> None:
    """After `install`, every agent has its findings, each with its fix."""
    (me.bin / "codex").write_text("#!/bin/sh\n")
    (me.bin / "codex").chmod(0o755)
    assert me.alone("install", *AGENTS, "--program", str(me.bin)).code == 0
    assert me.doctor().screen == snapshot("""\
billhook 0.1.0 in <here>/project

Claude Code
  warn  program    Claude Code can't be started here: no `claude` on PATH
                   -> install Claude Code, or run this where `claude` is on PATH
  ok    installed  ~/.claude/settings.json: 10 events
  note  trust      Claude Code has not been started in this folder yet; it then
                   asks whether you trust the folder
  ok    hooks      0 of your hooks run, 5 built-ins
  note  log        Claude Code has not called billhook in this project yet

Codex
  ok    program    <here>/bin/codex
  ok    installed  ~/.codex/hooks.json: 9 events
  fail  trust      Codex silently skips 9 of 9 entries of ~/.codex/hooks.json: 9
                   not trusted yet
                   -> start `codex` here, type /hooks, and trust billhook's
  ok    hooks      0 of your hooks run, 5 built-ins
  note  log        Codex has not called billhook in this project yet
                   -> billhook doctor codex --canary

Gemini CLI
  warn  program    Gemini CLI can't be started here: no `gemini` on PATH
                   -> install Gemini CLI, or run this where `gemini` is on PATH
  ok    installed  ~/.gemini/settings.json: 6 events
  note  trust      Gemini CLI does not trust this folder. The entries in your
                   own settings still run. In non-interactive mode it does not
                   start here
  ok    hooks      0 of your hooks run, 5 built-ins
  note  log        Gemini CLI has not called billhook in this project yet

Qwen Code
  warn  program    Qwen Code can't be started here: no `qwen` on PATH
                   -> install Qwen Code, or run this where `qwen` is on PATH
  ok    installed  ~/.qwen/settings.json: 10 events
  ok    trust      Qwen Code trusts every folder (`security.folderTrust` is off)
  ok    hooks      0 of your hooks run, 5 built-ins
  note  log        Qwen Code has not called billhook in this project yet

Copilot
  warn  program    Copilot can't be started here: no `copilot` on PATH
                   -> install Copilot, or run this where `copilot` is on PATH
  ok    installed  ~/.copilot/hooks/billhook.json: 10 events
  ok    trust      Copilot does not trust this folder. The entries in your own
                   settings still run
  ok    hooks      0 of your hooks run, 5 built-ins
  note  log        Copilot has not called billhook in this project yet

Cursor
  note  program    no `cursor-agent` on PATH here
  ok    installed  ~/.cursor/hooks.json: 10 events
  ok    installed  ~/.claude/settings.json: 10 events (installed for Claude
                   Code; Cursor also reads this file)
  note  trust      Cursor's files don't show whether it trusts this folder
  ok    hooks      0 of your hooks run, 5 built-ins
  note  log        Cursor has not called billhook in this project yet

billhook itself
  ok    daemon     not running; the next event starts it
  ok    guard      on: standard; 0 asks and 0 denies in the last 7 days

1 failure, 4 warnings
-- exit 1
""")
    for program in ("gemini", "qwen"):
        (me.bin / program).symlink_to("/bin/true")
    found = me.doctor("gemini", "qwen", "--json")
    assert (found.code, [agent["ok"] for agent in found.verdict["agents"]]) == (0, [True, True])
    assert me.alone("uninstall", *AGENTS).code == 0
    assert me.doctor("qwen").screen == snapshot("""\
billhook 0.1.0 in <here>/project

Qwen Code
  ok    program    <here>/bin/qwen
  fail  installed  not installed: Qwen Code does not call billhook
                   -> billhook install qwen

billhook itself
  ok    daemon     not running; the next event starts it
  ok    guard      on: standard; 0 asks and 0 denies in the last 7 days

1 failure
-- exit 1
""")


def test_a_project(me: Person) -> None:
    """Entries of a project only work if the agent trusts the folder, and if billhook is on PATH."""
    assert me.alone("install", "gemini", "--project", "--if-missing", "allow").code == 0
    (me.bin / "billhook-hook").unlink()
    assert me.doctor("gemini").screen == snapshot("""\
billhook 0.1.0 in <here>/project

Gemini CLI
  warn  program    Gemini CLI can't be started here: no `gemini` on PATH
                   -> install Gemini CLI, or run this where `gemini` is on PATH
  ok    installed  .gemini/settings.json: 6 events; allows everything if
                   billhook is missing
  fail  installed  `billhook-hook` is not on PATH here; every tool call is
                   allowed
                   -> in a checkout of billhook: uv tool install .
  fail  trust      Gemini CLI does not trust this folder, and reads no hooks
                   from it
                   -> start `gemini` here, and trust the folder
  ok    hooks      0 of your hooks run, 5 built-ins
  note  log        Gemini CLI has not called billhook in this project yet

billhook itself
  ok    daemon     not running; the next event starts it
  ok    guard      on: standard; 0 asks and 0 denies in the last 7 days

2 failures, 1 warning
-- exit 1
""")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        pytest.param(("clude",), "did you mean `claude`?", id="mistyped"),
        pytest.param(("--since", "1h"), "--since needs --coverage", id="since alone"),
        pytest.param(
            ("cursor", "--coverage"), "the transcripts of Claude Code, Codex, Gemini CLI and pi", id="no transcripts"
        ),
    ],
)
def test_usage(me: Person, arguments: tuple[str, ...], words: str) -> None:
    """Wrong usage is exit code 2, with a hint."""
    ended = me.doctor(*arguments)
    assert (ended.code, words in ended.err) == (2, True), ended

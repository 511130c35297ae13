"""Screens on a terminal of 60 columns: nothing is broken inside a word, and no table is destroyed."""

import os
import re
from pathlib import Path
from typing import Any

import pytest
from inline_snapshot import snapshot

from billhook import __version__
from billhook.cli.main import GROUPS
from cli.folder import Folder
from cli.terminal import billhook, environment, on_terminal
from config.logged import content, said, write

GATE = "no-production-database-access-from-agents"
REASON = "The production database must not be changed. Use the staging copy, refreshed every night at 02:00 UTC."
HOOKS = f"""\
hooks:
  {GATE}:
    events: PreToolUse
    if: Bash(psql *)
    deny: {REASON}
  lint:
    events: PostToolUse
    match: Write|Edit
    run: true --quiet --config pyproject.toml src tests scripts
    seconds: 20
tests:
  - {{bash: psql -h production.example.com, expect: deny}}
  - {{bash: psql -h staging.example.com -c 'select 1', expect: none}}
"""
PSQL = "psql -h production.example.com -U admin -c 'drop table customers'"
INPUT = '{"command": "psql -h production.example.com"}'


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    made = Folder(tmp_path)
    made.write(".billhook/hooks.yaml", HOOKS)
    made.approve()
    return made


def narrow(folder: Folder, *arguments: str, **changes: Any) -> str:
    """A screen of 60 columns, without times and progress. Every line fits."""
    screen = re.sub(r"(\r.*)?\r\x1b\[K", "", folder.on_terminal(*arguments, COLUMNS="60", TZ="UTC", **changes))
    assert max(map(len, re.sub(r"\x1b\[[0-9;]*m", "", screen).split("\n"))) <= 60
    return re.sub(r"\d\.\d s$", "N.N s", screen.replace(__version__, "<version>"), flags=re.MULTILINE)


@pytest.mark.parametrize("verb", [verb for verbs in GROUPS.values() for verb in verbs])
def test_help(verb: str) -> None:
    """Only commands to copy may be longer than a line."""
    lines = on_terminal(verb, "--help", COLUMNS="60", NO_COLOR="1").out.splitlines()

    assert [line for line in lines if len(line) > 60 and not line.strip().startswith("billhook ")] == []
    assert not any(line.startswith(" " * 45) and line.strip() for line in lines)  # no column of single words


def test_status(folder: Folder) -> None:
    assert narrow(folder) == snapshot("""\
billhook <version> in ~/project

  project   .billhook/hooks.yaml  2 hooks, approved
  built-in  metrics, turn-tracker, session-naming,
            event-logger, guard
  agents    no agent calls billhook here
  guard     standard; 0 asks and 0 denies in the last 7 days

1 problem
  .billhook/hooks.yaml:10:5: BH202 unknown key `seconds`

Next
  billhook check           show 1 problem, with fixes
  billhook install claude  connect Claude Code
  billhook list            show all hooks in run order
-- exit 0
""")


def test_list(folder: Folder) -> None:
    assert narrow(folder, "list") == snapshot("""\
PreToolUse
   1 no-production-database-access-from-agents
     deny: The production database must not be changed. Use
     the staging copy, refreshed every night at 02:00 UTC.
     if Bash(psql *)   gate   approved
     .billhook/hooks.yaml:2
   2 guard                    stops what can't be undone,
                              and protects billhook's files
     gate   priority 1000   built-in

PostToolUse
   1 lint                     true --quiet --config
                              pyproject.toml src tests
                              scripts
     match Write|Edit   on_failure allow   approved
     .billhook/hooks.yaml:6

Built-ins that only observe
   1 metrics                  times every hook
   2 turn-tracker             counts the turns of a session
   3 session-naming           names the session
   4 event-logger             records every event in the log

hint: fix .billhook/hooks.yaml:10 first; `billhook check`
  shows all problems
-- exit 0
""")


def test_check(folder: Folder) -> None:
    assert narrow(folder, "check") == snapshot("""\
.billhook/hooks.yaml:10:5: BH202 unknown key `seconds`
  hint: known here: after, after_effect, allow,
    allowedEnvVars, always, approve, args, ask, background,
    branch, cooldown, deny, dialect, effect, enabled,
    events, exec, gate, headers, inject, interpreter,
    keep_going, login, mask, match, name, notify,
    on_failure, once, options, paths, priority, python,
    asyncRewake, rewrite, if, run, shadow, shell, stop,
    timeout, title, type, url, warm, when

1 finding in 1 file
-- exit 1
""")


def test_check_explain(folder: Folder) -> None:
    assert narrow(folder, "check", "--explain", "BH216") == snapshot("""\
BH216 A handler outside of `hooks`

A handler with `type` must be in a group: `{"hooks":
[...]}`. Outside of a group it is read as a flat entry,
which has another dialect, so its exit codes have other
meanings.

Bad, `.claude/settings.json`:
    {"hooks": {"PostToolUse": [{"type": "command",
      "command": "true"}]}}

Fixed, `.claude/settings.json`:
    {"hooks": {"PostToolUse": [{"hooks": [{"type":
      "command", "command": "true"}]}]}}
-- exit 0
""")


def test_explain(folder: Folder) -> None:
    assert narrow(folder, "explain", PSQL) == snapshot("""\
PreToolUse Bash: psql -h production.example.com -U admin -c
  'drop table customers'

  effects
     destroy-data:remote  customers by `psql -h
                          production.example.com -U admin -c
                          'drop table customers'`

  1  no-production-database-access-from-agents  runs
     answer: deny: The production database must not be
       changed. Use the staging copy, refreshed every night
       at 02:00 UTC.
     if Bash(psql *)   .billhook/hooks.yaml:2

  -  guard  not reached:
       `no-production-database-access-from-agents` denies
     built-in

1 hook listens for other events: lint (PostToolUse); --all
shows them

built-ins that only observe: metrics, turn-tracker,
event-logger

verdict: deny, by no-production-database-access-from-agents
-- exit 0
""")


def test_fire(folder: Folder) -> None:
    """A long name has a separate line, and reasons are broken at blanks."""
    assert narrow(folder, "fire", "PreToolUse", "--tool", "Bash", "--input", INPUT) == snapshot("""\
note: 1 problem in the configuration:
  .billhook/hooks.yaml:10: unknown key `seconds`. Details:
  billhook check
PreToolUse Bash

  no-production-database-access-from-agents
                              deny                 N.N ms
      The production database must not be changed. Use the
        staging copy, refreshed every night at 02:00 UTC.
  built-ins without objection: metrics, turn-tracker,
    event-logger

verdict   deny
reason    The production database must not be changed. Use
          the staging copy, refreshed every night at 02:00
          UTC.
-- exit 1
""")


def test_test(folder: Folder) -> None:
    assert narrow(folder, "test") == snapshot("""\
failed .billhook/hooks.yaml:13
    bash: psql -h staging.example.com -c 'select 1'
  expected none, got deny
  got      deny by
             no-production-database-access-from-agents: The
             production database must not be changed. Use
             the staging copy, refreshed every night at
             02:00 UTC.
  why      no-production-database-access-from-agents: runs,
             and answers deny
           guard: skipped, because
             `no-production-database-access-from-agents`
             denies

1 passed, 1 failed in N.N s
-- exit 1
""")


def test_add(folder: Folder) -> None:
    assert narrow(folder, "add").split("limits")[0] == snapshot("""\
context
  compaction-notes      Save notes before compaction, load
                        them at next start
  file-context          Show the model a file at session
                        start
  git-context           Show the model the branch and
                        commits at session start
git
  commit-each-turn      Commit each turn to a side branch
  conventional-commits  Deny commit messages without a type
                        such as `fix:`
  no-commits-to-main    Deny commits and merges on main, and
                        pushes to it
  no-verify             Deny git's --no-verify and other
                        ways to skip git hooks
""")


def test_events(folder: Folder) -> None:
    """WHAT is below its row, and secondary columns are left out."""
    project = os.path.realpath(folder.project)
    ran = [said(GATE, decision="deny", reason=REASON, duration_ms=0.2), said("lint", duration_ms=1900.0)]
    about = {"time": "2026-03-01T10:00:00.000000Z", "session_name": "jolly-squid", "input": {"command": "psql -h x"}}
    write(folder.home / ".claude", project, [content(project, outcomes=ran, decision="deny", **about)])

    assert narrow(folder, "events") == snapshot("""\
session jolly-squid  s1
NR  TIME      TURN  EVENT       DECISION       MS
2026-03-01
 1  10:00:00     1  PreToolUse  deny          1.5
        Bash psql -h x
        no-production-database-access-from-agents: The
          production database must not be changed. Use ...

1 of 1 record
-- exit 0
""")
    assert narrow(folder, "events", "list") == snapshot("""\
NAME         EVENTS  DENIED  ASKED  FAILED OPEN
jolly-squid       1       1      0            0

1 of 1 session
-- exit 0
""")
    assert narrow(folder, "events", "stats") == snapshot("""\
hook                   runs  failed  timed out  p95 ms
lint                      1       -          -   1,900  slow
no-production-data...     1       -          -    0.20

1 record; decisions: 1 deny
latency budget 1,000 ms (warn_ms of `metrics`): 1 hook over
  it
-- exit 0
""")


def test_errors(folder: Folder) -> None:
    assert narrow(folder, "frobnicate") == snapshot("""\
error: no command `frobnicate`

hint: one of init, install, uninstall, doctor, demo, add,
  remove, list, explain, fire, test, check, replay, trust,
  shadow, promote, agent, events, ui, approvals, allow-once,
  pause, resume, fleet, hook, daemon, schema, completion
  (see `billhook --help`)
-- exit 2
""")


def test_colours_take_no_room(folder: Folder) -> None:
    """The same lines with colours."""
    shown = narrow(folder, "list", NO_COLOR=None)

    assert "\x1b[36mno-production-database-access-from-agents\x1b[0m" in shown
    assert re.sub(r"\x1b\[[0-9;]*m", "", shown) == narrow(folder, "list")


@pytest.mark.parametrize("columns", [60, 90])
def test_the_window_counts(columns: int) -> None:
    """Without COLUMNS, the size of the terminal's window applies."""
    lines = on_terminal("check", "--explain", "BH301", window=columns).out.splitlines()

    assert columns - 12 < max(map(len, lines[:8])) <= columns


def test_lines_stay_whole_in_a_pipe(folder: Folder) -> None:
    """`grep` finds a whole sentence where there is no terminal."""
    env = {**folder.environment(), "HOME": str(folder.home)}
    del env["COLUMNS"]
    shown = billhook("list", env=env, cwd=folder.project).out

    assert "refreshed every night at 02:00 UTC.\n" in shown
    assert billhook("explain", "psql x", env=env, cwd=folder.project).out.count("02:00 UTC.\n") == 1
    whole = billhook("check", "--explain", "BH301", env=environment(COLUMNS=None)).out
    assert "that no agent has" in whole and "```" not in whole and len(whole.splitlines()[2]) > 300

"""What people see: whole screens, exit code included."""

from pathlib import Path
from typing import Any

import pytest
from inline_snapshot import snapshot

from cli.terminal import billhook, environment, on_terminal

LATE = 'echo \'{"async": true}\'; sleep 0.2; echo \'{"systemMessage": "late"}\''


def screen(*arguments: str) -> str:
    return billhook("fire", *arguments).screen


def test_help_of_all() -> None:
    """`billhook --help`: daily verbs first, plumbing last."""
    assert billhook("--help").screen == snapshot("""\
Usage: billhook [COMMAND] [OPTIONS]

  The hook system for AI agents: one event in, one verdict out.

  Without a command it shows the status of this folder, and what to do next.

Options:
  --json      Without a command: print the status as JSON.
  --version   Show the version and exit.
  -h, --help  Show this message and exit.

Start:
  init        Create hooks.yaml with four example hooks.
  install     Add billhook to an agent's settings: Claude Code, Codex ...
  uninstall   Remove billhook from an agent's settings.
  doctor      Check that agents call billhook, and suggest fixes.
  demo        Watch an agent work with hooks. Needs no API key.

Write hooks:
  add         Add a recipe: ready-made hooks for one purpose.
  remove      Remove a recipe.
  list        Show all hooks in the order in which they run.
  explain     Show which hooks would run for a command or an event, and why.
  fire        Send a test event to the hooks, and show the verdict.
  test        Run the tests of your hooks.
  check       Check the hooks for problems and suggest fixes.
  replay      Show which past events the current hooks would decide
              differently.
  trust       Review the hooks of this project and approve them.
  shadow      Show what hooks in shadow mode would have decided.
  promote     Activate a hook that is in shadow mode.

Run and watch:
  agent       Run an agent with your hooks: one prompt, or a chat.
  events      Query the event log: what happened, and what hooks decided.
  ui          Open the page: sessions, events, hooks, and questions.
  approvals   Show and answer the questions that wait for you.
  allow-once  Allow one denied call, once.
  pause       Pause hooks for a few minutes.
  resume      End a pause.
  fleet       Share one policy and one audit stream between machines.

Plumbing:
  hook        Answer one event on stdin, as the hook of an agent.
  daemon      Control the daemon that keeps hooks loaded.
  schema      Print the JSON Schema of hooks.yaml or of settings files.
  completion  Print the completion script for bash, zsh or fish.

  Examples:
    billhook                             show the status
    billhook init                        write first hooks
    billhook explain 'git push --force'  try a command
    billhook install claude              connect Claude

  Exit code: 0 success; 1 a denial by `fire`, a finding, or not done; 2 usage
  or broken input; 3 internal error. `billhook hook` exits as its agent
  expects.
-- exit 0
""")


def test_help() -> None:
    """`billhook fire --help`."""
    assert billhook("fire", "--help").screen == snapshot("""\
Usage: billhook fire [OPTIONS] [EVENT]

  Send a test event to the configured hooks, or to those of --run, and show
  their answers and the verdict.

  EVENT is the name of an event, such as PreToolUse. Fields that you do not
  set get sample values. The hooks really run; `billhook explain` predicts the
  verdict without running them.

Options:
  --tool NAME                  The tool, by its name in any supported agent.
  --input JSON|@FILE|@-        The tool's input; for events without a tool,
                               fields of the event.
  --output JSON|TEXT|@FILE     The result of the tool, or its error.
  --error                      The tool failed.
  --session ID                 The session id.  [default: one per project]
  --cwd DIR                    The working directory of the event and its
                               hooks.
  --event JSON|@FILE|@-        The whole event as JSON.
  --from NR|ID                 Fire this event of the log again.
  --config FILE                Also use this file with hooks. May be repeated.
  --trust approved|all|none    Which hooks of the project run: the approved
                               ones, all of them this once, or none.
                               [default: approved]
  --run CMD                    Use this shell command as a hook, instead of
                               the configured hooks. May be repeated.
  --exec 'ARGV...'             Use this program as a hook, without a shell; it
                               runs after --run hooks.
  --dialect NAME               The protocol of --run hooks: their input, and
                               the meaning of their exit codes. One of claude,
                               spec, claw, claw-text, lesson, codex, gemini,
                               qwen, copilot, cursor, opencode, hermes,
                               antigravity, devin, droid, goose, kiro, pi,
                               windsurf, cline, crush, openclaw, amp,
                               universal.  [default: claude]
  --match M                    Run --run hooks only for tools (or sources,
                               triggers ...) that match.
  --timeout S                  The timeout of each --run hook, in seconds.
  --on-failure allow|deny|ask  What to do when a --run hook fails, times out
                               or can't start.  [default: allow]
  --json                       Print the verdict as one line of JSON.
  -h, --help                   Show this message and exit.

  Examples:
    billhook fire PreToolUse --tool Bash --input '{"command": "git push --force"}'
    billhook fire PreToolUse --tool Bash --input '{"command": "ls"}' --run ./guard.sh
    billhook fire PostToolUse --tool Write --output done --run 'echo linted' --dialect claw
    billhook fire Stop --run 'echo "tests still fail" >&2; exit 2' --json
    billhook fire --from 12                      an event of the log again
    billhook fire --event @event.json --exec './guard.py --strict' --on-failure deny

  Exit code: 0 no objection or allowed, 1 denied or asked, 2 usage or broken
  input.
-- exit 0
""")


def test_version() -> None:
    """`billhook --version`."""
    assert billhook("--version").screen == snapshot("""\
billhook 0.1.0
-- exit 0
""")


def test_a_deny() -> None:
    """A hook that denies, and one that is skipped for it."""
    denies = "echo 'no pushes' >&2; exit 2"
    assert screen("PreToolUse", "--tool", "bash", "--run", denies, "--run", "true") == snapshot("""\
PreToolUse Bash

  hook-1  deny                 N.N ms  echo 'no pushes' >&2; exit 2
          no pushes
  hook-2  skipped                      true
          `hook-1` answered deny

verdict   deny
reason    no pushes
-- exit 1
""")


def test_no_objection() -> None:
    """Hooks without an answer."""
    assert screen("PreToolUse", "--tool", "bash", "--run", "true", "--exec", "true") == snapshot("""\
PreToolUse Bash

  hook-1  no objection         N.N ms  true
  hook-2  no objection         N.N ms  true

verdict   none (no objection)
-- exit 0
""")


def test_no_hooks(tmp_path: Path) -> None:
    """Without hooks: a hint."""
    nobody = environment(HOME=str(tmp_path), XDG_CONFIG_HOME=None, BILLHOOK_HOME=None)
    assert billhook("fire", "PreToolUse", "--tool", "bash", env=nobody, cwd=tmp_path).screen == snapshot("""\
PreToolUse Bash

  none of your hooks listens for this event
  built-ins without objection: metrics, turn-tracker, event-logger, guard

verdict   none (no objection)
-- stderr

hint: no hooks are configured here; `billhook init` writes a first file, --run 'COMMAND' tries a hook
-- exit 0
""")


def test_no_match() -> None:
    """A matcher that does not match: a hint."""
    assert screen("PreToolUse", "--tool", "bash", "--match", "Write", "--run", "exit 2") == snapshot("""\
PreToolUse Bash

  no hook listens for this event

verdict   none (no objection)
-- stderr

hint: --match `Write` does not match `Bash`
-- exit 0
""")


def test_failures() -> None:
    """Hooks that fail, time out, are killed or can't start, and the result."""
    assert screen(
        "PreToolUse", "--tool", "bash", "--timeout", "0.5",
        "--run", "echo oops >&2; exit 1",
        "--run", "sleep 60",
        "--run", "kill -KILL $$",
        "--run", "echo '{\"decision\": \"blok\"}'",
        "--exec", "/does/not/exist",
    ) == snapshot("""\
PreToolUse Bash

  hook-1  failed               N.N ms  echo oops >&2; exit 1
          exit code 1: oops
          failed open: the event continued without its answer (on_failure: allow)
  hook-2  timed out            N.N ms  sleep 60
          no answer in time; the command and its children were ended
          failed open: the event continued without its answer (on_failure: allow)
  hook-3  failed               N.N ms  kill -KILL $$
          killed by signal 9
          failed open: the event continued without its answer (on_failure: allow)
  hook-4  failed               N.N ms  echo '{"decision": "blok"}'
          "decision": "blok" is not understood; use "block" or "approve"
          failed open: the event continued without its answer (on_failure: allow)
  hook-5  could not start      N.N ms  /does/not/exist
          ENOENT: `/does/not/exist` does not exist; check the spelling or give its full path
          failed open: the event continued without its answer (on_failure: allow)

verdict   none
open      5 hooks failed, and the event continued
-- stderr

hint: with --on-failure deny, such a hook blocks the event
-- exit 0
""")  # fmt: skip


def test_failures_of_gates() -> None:
    """The same with `--on-failure deny`."""
    assert screen("PreToolUse", "--tool", "bash", "--on-failure", "deny", "--run", "exit 1") == snapshot("""\
PreToolUse Bash

  hook-1  failed               N.N ms  exit 1
          exit code 1

verdict   deny
reason    hook `hook-1` failed: exit code 1
-- exit 1
""")


def test_feedback() -> None:
    """Several lines for the model, one for the user."""
    assert screen(
        "UserPromptSubmit", "--run", "echo one; echo two", "--run", 'echo \'{"systemMessage": "hello"}\''
    ) == snapshot("""\
UserPromptSubmit

  hook-1  told the model       N.N ms  echo one; echo two
  hook-2  told the user        N.N ms  echo '{"systemMessage": "hello"}'

verdict   none (no objection)
to model  one
          two
to user   hello
-- exit 0
""")


def test_rewritten() -> None:
    """A rewritten input, in JSON."""
    output = '{"hookSpecificOutput":{"hookEventName":"PreToolUse","updatedInput":{"command":"ls","n":null}}}'
    assert screen("PreToolUse", "--tool", "bash", "--run", f"echo '{output}'") == snapshot("""\
PreToolUse Bash

  hook-1  rewrote input        N.N ms  echo '{"hookSpecificOutput":{"hookEven...

verdict   none (no objection)
input     {"command":"ls","n":null}
-- exit 0
""")


def test_keeps_going() -> None:
    """A Stop hook that keeps the agent going."""
    assert screen("Stop", "--run", "echo 'tests still fail' >&2; exit 2") == snapshot("""\
Stop

  hook-1  keep going           N.N ms  echo 'tests still fail' >&2; exit 2
          tests still fail

verdict   none
reason    tests still fail
agent     keeps going
-- exit 0
""")


def test_stops() -> None:
    """A hook that ends the agent's run."""
    assert screen("SessionStart", "--run", 'echo \'{"continue": false, "stopReason": "not today"}\'') == snapshot("""\
SessionStart

  hook-1  stop                 N.N ms  echo '{"continue": false, "stopReason"...
          not today

verdict   none
agent     stops: not today
-- exit 0
""")


def test_answers_later() -> None:
    """A hook that answers later: its answer is waited for and shown."""
    assert screen("Notification", "--run", LATE) == snapshot("""\
Notification

  hook-1  background           N.N ms  echo '{"async": true}'; sleep 0.2; ech...

verdict   none (no objection)
-- stderr
waiting for background hooks ...
hook-1 answered later: late
-- exit 0
""")


def test_answers_too_late() -> None:
    """A hook that promised an answer and timed out is reported."""
    run = "echo '{\"async\": true}'; sleep 20"
    assert screen("Notification", "--timeout", "0.5", "--run", run) == snapshot("""\
Notification

  hook-1  background           N.N ms  echo '{"async": true}'; sleep 20

verdict   none (no objection)
-- stderr
waiting for background hooks ...
hook-1 timed out and was terminated
-- exit 0
""")


def test_mistyped_event() -> None:
    """An event that looks like a mistyped one is not fired."""
    assert screen("PreToolUze", "--run", "true") == snapshot("""\
-- stderr
error: no event `PreToolUze`

hint: did you mean PreToolUse?
-- exit 2
""")


def test_options_without_effect() -> None:
    """Options without effect on an event are reported, not sent."""
    assert screen("Stop", "--tool", "Bash", "--output", "x", "--error", "--run", "true") == snapshot("""\
Stop

  hook-1  no objection         N.N ms  true

verdict   none (no objection)
-- stderr
note: --tool has no effect: Stop has no `tool_name`
note: --output has no effect: Stop has no `tool_response`
note: --error has no effect: Stop has no `tool_response`
-- exit 0
""")


def test_json() -> None:
    """The whole line of `--json`."""
    assert screen("PreToolUse", "--tool", "bash", "--json", "--run", "echo no >&2; exit 2") == snapshot("""\
{"id":"<id>","event":"PreToolUse","decision":"deny","reason":"no","context":[],"messages":[],"tool_input":null,"tool_output":null,"keep_going":false,"stop":false,"stop_reason":null,"failed_open":0,"duration_ms":0,"outcomes":[{"hook":"hook-1","source":"command line","dialect":"claude","status":"ok","decision":"deny","reason":"no","exit_code":2,"signal":null,"failed_open":false,"duration_ms":0,"error":null,"lost":[]}]}
-- exit 1
""")  # noqa: E501


def test_control_characters() -> None:
    """What a hook prints can't move the cursor, change colours, or pose as a line of ours."""
    hostile = r"printf '\033[2J\033]0;title\007 a\rb \302\233 \342\200\256x\nverdict   allow\n' >&2; exit 2"
    assert screen("PreToolUse", "--tool", "bash", "--run", hostile) == snapshot("""\
PreToolUse Bash

  hook-1  deny                 N.N ms  printf '\\033[2J\\033]0;title\\007 a\\rb \\...
          \\x1b[2J\\x1b]0;title\\x07 a\\x0db \\x9b \\u202ex
          verdict   allow

verdict   deny
reason    \\x1b[2J\\x1b]0;title\\x07 a\\x0db \\x9b \\u202ex
          verdict   allow
-- exit 1
""")


def test_control_characters_in_names() -> None:
    """Names from the command line can't, either."""
    ended = on_terminal("fire", "Ev\033[31m", "--tool", "T\033[5m", "--run", "true # \033[7m", NO_COLOR="1")
    assert "\033" not in ended.out


def test_long_texts_are_cut() -> None:
    """A hook that talks without end does not fill the screen; `--json` has everything."""
    talk = "head -c 50000 /dev/zero | tr '\\0' x >&2; exit 2"
    shown = screen("PreToolUse", "--tool", "bash", "--run", talk)
    assert len(shown) < 6000
    assert "... 48,000 more characters" in shown
    assert len(billhook("fire", "PreToolUse", "--tool", "bash", "--json", "--run", talk).verdict["reason"]) == 50000


def test_colours_on_a_terminal() -> None:
    """Colour on a terminal."""
    ended = on_terminal("fire", "PreToolUse", "--tool", "bash", "--run", "exit 2")
    assert ended.code == 1
    assert ended.screen == snapshot("""\
\x1b[1mPreToolUse Bash\x1b[0m

  \x1b[36mhook-1\x1b[0m  \x1b[31mdeny           \x1b[0m      N.N ms  \x1b[2mexit 2\x1b[0m
          blocked by a PreToolUse hook

\x1b[1mverdict \x1b[0m  \x1b[31mdeny\x1b[0m
reason    blocked by a PreToolUse hook
-- exit 1
""")


@pytest.mark.parametrize("changes", [{"NO_COLOR": "1"}, {"TERM": "dumb"}], ids=["NO_COLOR", "TERM=dumb"])
def test_no_colours(changes: dict[str, Any]) -> None:
    """No colour where it is not wanted."""
    ended = on_terminal("fire", "PreToolUse", "--tool", "bash", "--run", "exit 2", **changes)
    assert ended.code == 1
    assert ended.screen == snapshot("""\
PreToolUse Bash

  hook-1  deny                 N.N ms  exit 2
          blocked by a PreToolUse hook

verdict   deny
reason    blocked by a PreToolUse hook
-- exit 1
""")


@pytest.mark.parametrize("verb", ["add", "remove"])
def test_help_of_recipes(verb: str) -> None:
    """Examples, and what the exit codes mean."""
    screen = billhook(verb, "--help").screen

    assert f"    billhook {verb} no-commits-to-main" in screen
    assert "Exit code: 0 " in screen and "--json" in screen and "--user" in screen

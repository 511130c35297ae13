"""`billhook fire` without --run: the hooks that are configured where the event happens."""

import json
from pathlib import Path

import pytest
from inline_snapshot import snapshot

from cli.place import Place
from cli.terminal import Ended

TWO = """\
hooks:
  log:
    events: PreToolUse
    run: touch ran-log
  stop-it:
    events: PreToolUse
    if: Bash(rm *)
    deny: nothing is removed here
"""


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def fire(place: Place, *arguments: str) -> Ended:
    return place.run("fire", "PreToolUse", "--tool", "Bash", "--input", '{"command": "rm x"}', *arguments)


def test_not_approved(place: Place) -> None:
    """Hooks that came with the project do nothing, and are named once."""
    place.file("hooks.yaml", TWO)
    assert place.plain(fire(place).screen) == snapshot("""\
PreToolUse Bash

  log      skipped                      touch ran-log
           not approved; `billhook trust` shows it
  stop-it  skipped                      deny: nothing is removed here
           not approved; `billhook trust` shows it
  built-ins without objection: metrics, turn-tracker, event-logger, guard

verdict   none (no objection)
-- stderr
note: 2 hooks in hooks.yaml are not approved and did not run: log, stop-it. Review them: billhook trust
-- exit 0
""")
    assert not (place.project / "ran-log").exists()


def test_approved(place: Place) -> None:
    """After `billhook trust` they run."""
    place.file("hooks.yaml", TWO)
    assert place.alone("trust", "--all", "--yes").code == 0
    assert place.plain(fire(place).screen) == snapshot("""\
PreToolUse Bash

  log      no objection         N.N ms  touch ran-log
  stop-it  deny                 N.N ms  deny: nothing is removed here
           nothing is removed here
  built-ins without objection: metrics, turn-tracker, event-logger

verdict   deny
reason    nothing is removed here
-- exit 1
""")
    assert (place.project / "ran-log").exists()


def test_trust_all(place: Place) -> None:
    """--trust all runs everything this once; nothing is approved by it."""
    place.file("hooks.yaml", TWO)
    ended = fire(place, "--trust", "all")
    assert (ended.code, ended.err) == (1, "")
    assert (place.project / "ran-log").exists()
    assert "2 hooks in hooks.yaml are not approved" in fire(place).err


def test_trust_none(place: Place) -> None:
    """--trust none runs nothing that came with a project, approved or not."""
    place.file("hooks.yaml", TWO)
    place.alone("trust", "--all", "--yes")
    assert fire(place, "--trust", "none").code == 0
    assert not (place.project / "ran-log").exists()


def test_own_hooks_need_no_approval(place: Place) -> None:
    """The user's own file, and a file that is named with --config, which is one more layer."""
    place.own("hooks:\n  mine:\n    events: PreToolUse\n    inject: mine\n")
    file = place.folder / "more.yaml"
    file.write_text("hooks:\n  more:\n    events: PreToolUse\n    inject: more\n")
    verdict = fire(place, "--config", str(file), "--json").verdict
    assert verdict["context"] == ["mine", "more"]


def test_where_the_event_happens(place: Place) -> None:
    """The event's cwd decides which project's hooks run."""
    place.file("hooks.yaml", TWO)
    place.alone("trust", "--all", "--yes")
    there = str(place.project)
    outside = place.folder / "outside"
    outside.mkdir()
    event = json.dumps(
        {"hook_event_name": "PreToolUse", "tool_name": "Bash", "tool_input": {"command": "rm x"}, "cwd": there}
    )
    assert place.run("fire", "--event", event, cwd=outside).code == 1
    assert place.run("fire", "PreToolUse", "--tool", "Bash", "--input", '{"command": "rm x"}', cwd=outside).code == 0
    assert fire(place, "--cwd", str(outside)).code == 0


def test_problems_are_noted_once(place: Place) -> None:
    """One line with the first place; the neighbours run."""
    place.own(
        "hooks:\n  a:\n    events: Stop\n    rum: x\n"
        "  b:\n    events: [Stopp]\n    run: 'true'\n  c:\n    events: Stop\n    inject: c\n"
    )
    ended = place.run("fire", "Stop")
    assert ended.err == (
        "note: 2 problems, the first in the configuration: ~/.config/billhook/hooks.yaml:4: unknown key `rum`. "
        "Details: billhook check\n"
    )
    assert "c  " in ended.out


BROKEN = {
    "syntax": ("hooks:\n  a: [\n", ":3"),
    "indentation": ("hooks:\n  a:\n    events: Stop\n   run: ls\n", ":4"),
    "a mistake in the only hook": ("hooks:\n  a:\n    events: Stop\n    inject: no\n", ":4"),
}


@pytest.mark.parametrize(("text", "line"), BROKEN.values(), ids=BROKEN)
@pytest.mark.parametrize("own", [True, False], ids=["own", "project"])
def test_a_broken_file(place: Place, text: str, line: str, own: bool) -> None:
    """The hint is to fix a file that can't be read, not to write a first one."""
    path = place.own(text) if own else place.file("hooks.yaml", text)
    ended = fire(place)
    assert f"{path.name}{line}" in ended.err
    assert "billhook init" not in ended.err


def test_no_hook_ran(place: Place) -> None:
    """Hooks are configured, but none listens for this event: a hint shows where to look."""
    place.own("hooks:\n  mine:\n    events: Stop\n    run: 'true'\n")
    assert place.run("fire", "SessionStart").screen == snapshot("""\
SessionStart

  none of your hooks listens for this event
  built-ins without objection: metrics, turn-tracker, session-naming, event-logger

verdict   none (no objection)
-- stderr

hint: no configured hook ran; `billhook explain SessionStart ...` shows why
-- exit 0
""")


def test_failed_open(place: Place) -> None:
    """A configured hook failed open: a hint shows what would have blocked the event."""
    place.own("hooks:\n  mine:\n    events: PreToolUse\n    run: exit 3\n")
    assert fire(place).screen == snapshot("""\
PreToolUse Bash

  mine  failed               N.N ms  exit 3
        exit code 3
        failed open: the event continued without its answer (on_failure: allow)
  built-ins without objection: metrics, turn-tracker, event-logger, guard

verdict   none
open      1 hook failed, and the event continued
-- stderr

hint: with `gate: true`, such a hook blocks the event
-- exit 0
""")


def test_later_answers_of_configured_hooks(place: Place) -> None:
    """They are waited for and shown."""
    place.own("hooks:\n  later:\n    events: PostToolUse\n    run: sleep 0.2; echo done\n    background: true\n")
    ended = place.run("fire", "PostToolUse", "--tool", "Bash")
    assert ended.code == 0
    assert "later answered later: " in ended.err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--match", "Bash"], "--match is only for hooks of --run and --exec"),
        (["--dialect", "claude"], "--dialect is only for hooks of --run and --exec"),
        (["--timeout", "5"], "--timeout is only for hooks of --run and --exec"),
        (["--on-failure", "deny"], "--on-failure is only for hooks of --run and --exec"),
        (["--run", "true", "--trust", "all"], "--trust is only for configured hooks"),
        (["--exec", "true", "--config", "x"], "--config is only for configured hooks"),
        (["--config", "/does/not/exist"], "--config /does/not/exist: no such file"),
        (["--trust", "al"], "unknown --trust `al`"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_options_that_would_have_no_effect(place: Place, arguments: list[str], message: str) -> None:
    """They are slips, and answered as such."""
    ended = fire(place, *arguments)
    assert (ended.code, ended.out) == (2, "")
    assert ended.err.startswith(f"error: {message}\n\nhint: ")


@pytest.mark.parametrize("limit", ["{at_most: 9, per: session}", "{rule: Bash(ls), at_most: 0, per: session}"])
def test_a_limit_is_listed_once_after_a_rewrite(place: Place, limit: str) -> None:
    """A gate is asked again about the rewritten input; it is named once, also where only the second answer denies."""
    rewriting = '{"hookSpecificOutput":{"hookEventName":"PreToolUse","updatedInput":{"command":"ls"}}}'
    place.own(
        "builtins:\n  rate-limit: {options: {limits: [" + limit + "]}}\n"
        f"hooks:\n  it:\n    events: PreToolUse\n    run: |\n      printf '{rewriting}'\n"
    )
    ended = place.run("fire", "PreToolUse", "--tool", "Bash", "--input", '{"command": "pwd"}')
    assert "rewrote input" in ended.out
    assert ended.out.count("rate-limit ") + ended.out.count("rate-limit,") == 1

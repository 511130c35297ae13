"""`billhook list`: whole screens, exit code included."""

import os
from pathlib import Path
from typing import Any

import pytest
from inline_snapshot import snapshot

from billhook.cli.times import ago
from cli.folder import Folder
from config.logged import at, content, said, write

HOOKS = """\
hooks:
  no-destroy:
    events: PreToolUse
    if: Bash(terraform destroy *)
    deny: Destroying infrastructure needs a human
  scan:
    events: PreToolUse
    match: Write|Edit
    run: ./scan.sh
    gate: true
    priority: 50
  lint:
    events: [PostToolUse, PostToolUseFailure]
    match: Write|Edit
    exec: [./lint.sh, --fix]
    timeout: 20
    after: [scan]
"""
FIVE_SHAPES = {
    ".claude/settings.json": '{"hooks": {"PreToolUse": ["echo strings"],\n'
    '"PostToolUse": [{"command": "echo flat"}],\n'
    '"Stop": [{"hooks": [{"type": "command", "command": "echo nested"}]}]}}',
    ".hooks.json": '{"hooks": {\n"SessionStart": [{"command": "echo lesson"}]}}',
    "hooks.yaml": "hooks:\n  native:\n    events: Stop\n    run: echo yaml\n",
}


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path)


def test_nothing_is_configured(folder: Folder) -> None:
    """Where it looked, and what to do."""
    assert folder.screen("list") == snapshot("""\
no hooks are configured for ~/project

looked in:
  project  .claude/settings.json, .claude.json, .hooks.json, hooks.yaml,
           .claude/hooks.yaml, .billhook/hooks.yaml
  local    .claude/settings.local.json, .billhook/hooks.local.yaml
  user     ~/.claude/settings.json, ~/.config/billhook/hooks.yaml
  managed  /etc/billhook/hooks.yaml

built-ins: metrics, turn-tracker, session-naming, event-logger, guard
-- stderr

hint: `billhook init` writes a first file with hooks
-- exit 0
""")


def test_a_file_without_hooks(folder: Folder) -> None:
    """The file is named, because the user may expect hooks there."""
    folder.write(".claude/settings.json", {"model": "x"})

    assert ".claude/settings.json (no hooks)" in folder.screen("list")


def test_a_file_that_can_not_be_read(folder: Folder) -> None:
    """It is not shown as one without hooks."""
    folder.write(".billhook", "")

    screen = folder.screen("list")
    assert "the hooks of .billhook/hooks.yaml, " in screen and "can't be read" in screen and "no hooks" not in screen


def test_before_approval(folder: Folder) -> None:
    """What came with the project waits; what is the user's own runs."""
    folder.write(".billhook/hooks.yaml", HOOKS)
    folder.write("~/.config/billhook/hooks.yaml", "hooks:\n  mine: {events: Stop, inject: Did you run the tests?}\n")

    assert folder.screen("list") == snapshot("""\
PreToolUse
   1 guard           stops what can't be undone, and protects billhook's files
     gate   priority 1000   built-in

Stop
   1 mine            inject: Did you run the tests?
     on_failure allow   own   ~/.config/billhook/hooks.yaml:2

Built-ins that only observe
   1 metrics         times every hook
   2 turn-tracker    counts the turns of a session
   3 session-naming  names the session
   4 event-logger    records every event in the log

Not approved (review with `billhook trust`)
   - scan            ./scan.sh
     PreToolUse   match Write|Edit   gate   priority 50   not approved
     .billhook/hooks.yaml:6
   - no-destroy      deny: Destroying infrastructure needs a human
     PreToolUse   if Bash(terraform destroy *)   gate   not approved
     .billhook/hooks.yaml:2
   - lint            ./lint.sh --fix
     PostToolUse, PostToolUseFailure   match Write|Edit   on_failure allow
     timeout 20 s   after scan   not approved   .billhook/hooks.yaml:12
-- stderr

hint: 3 hooks not approved yet: review with `billhook trust`
-- exit 0
""")


def test_approved(folder: Folder) -> None:
    """In running order, below each event."""
    folder.write(".billhook/hooks.yaml", HOOKS)
    folder.script("scan.sh")
    folder.script("lint.sh")
    folder.approve()

    assert folder.screen("list") == snapshot("""\
PreToolUse
   1 scan            ./scan.sh
     match Write|Edit   gate   priority 50   approved   .billhook/hooks.yaml:6
   2 no-destroy      deny: Destroying infrastructure needs a human
     if Bash(terraform destroy *)   gate   approved   .billhook/hooks.yaml:2
   3 guard           stops what can't be undone, and protects billhook's files
     gate   priority 1000   built-in

PostToolUse
   1 lint            ./lint.sh --fix
     match Write|Edit   on_failure allow   timeout 20 s   after scan   approved
     .billhook/hooks.yaml:12

PostToolUseFailure
   1 lint            ./lint.sh --fix
     match Write|Edit   on_failure allow   timeout 20 s   after scan   approved
     .billhook/hooks.yaml:12

Built-ins that only observe
   1 metrics         times every hook
   2 turn-tracker    counts the turns of a session
   3 session-naming  names the session
   4 event-logger    records every event in the log
-- exit 0
""")


def test_one_event(folder: Folder) -> None:
    """Only the hooks that it gets, in any spelling of its name."""
    folder.write(".billhook/hooks.yaml", HOOKS)
    folder.approve("scan")

    assert folder.screen("list", "--event", "pre_tool_use") == snapshot("""\
PreToolUse
   1 metrics       times every hook
     on_failure allow   priority 1   built-in
   2 turn-tracker  counts the turns of a session
     on_failure allow   priority 5   built-in
   3 scan          ./scan.sh
     match Write|Edit   gate   priority 50   approved   .billhook/hooks.yaml:6
   4 event-logger  records every event in the log
     on_failure allow   priority 50   built-in
   5 guard         stops what can't be undone, and protects billhook's files
     gate   priority 1000   built-in

Not approved (review with `billhook trust`)
   - no-destroy    deny: Destroying infrastructure needs a human
     PreToolUse   if Bash(terraform destroy *)   gate   not approved
     .billhook/hooks.yaml:2
-- stderr

hint: 2 hooks not approved yet: review with `billhook trust`
-- exit 0
""")


def test_everything_that_can_go_wrong(folder: Folder) -> None:
    """Each hook that does not run has a reason, and a gate also blocks."""
    folder.write(
        "~/.config/billhook/hooks.yaml",
        "hooks:\n"
        "  broken: {events: Stop, run: [ls]}\n"
        "  broken-gate: {events: PreToolUse, match: Bash, run: ls, gate: true, timeout: soon}\n"
        "  off: {events: Stop, run: ls, enabled: false}\n"
        "  later: {events: Stop, type: agent, prompt: look}\n"
        "  both: {events: Stop, run: echo one}\n",
    )
    folder.write(
        "hooks.yaml",
        "hooks:\n  both: {events: Stop, run: echo two}\n  guard: {events: PreToolUse, run: ./guard.sh, gate: true}\n"
        "  note: {events: Stop, run: ./note.sh}\n  same: {events: Stop, run: echo one}\n",
    )
    folder.script("guard.sh")
    folder.script("note.sh")
    folder.approve()
    folder.script("guard.sh", "exit 1")
    folder.script("note.sh", "exit 1")

    assert folder.screen("list") == snapshot("""\
PreToolUse
   1 broken-gate     can't be used
     match Bash   gate   own   ~/.config/billhook/hooks.yaml:3
     blocks the events that it would judge: `timeout` must be a number, not a
     string
   2 guard           ./guard.sh
     gate   changed   hooks.yaml:3
     blocks the events that it would judge: guard.sh has changed since it was
     approved; `billhook trust` shows how
   3 built-in/guard  stops what can't be undone, and protects billhook's files
     gate   priority 1000   built-in

Stop
   1 user/both       echo one
     on_failure allow   own   ~/.config/billhook/hooks.yaml:6
   2 project/both    echo two
     on_failure allow   approved   hooks.yaml:2

Built-ins that only observe
   1 metrics         times every hook
   2 turn-tracker    counts the turns of a session
   3 session-naming  names the session
   4 event-logger    records every event in the log

Not approved (review with `billhook trust`)
   - note            ./note.sh
     Stop   on_failure allow   changed   hooks.yaml:4
     note.sh has changed since it was approved; `billhook trust` shows how

Not running
   - broken          can't be used
     Stop   on_failure allow   own   ~/.config/billhook/hooks.yaml:2
     it can't be used: `run` must be a string, not a list
   - off             ls
     Stop   on_failure allow   own   ~/.config/billhook/hooks.yaml:4
     `enabled: false` in ~/.config/billhook/hooks.yaml:4
   - later           agent (not supported yet)
     Stop   on_failure allow   own   ~/.config/billhook/hooks.yaml:5
     billhook does not run hooks of this type
   - same            echo one
     Stop   on_failure allow   approved   hooks.yaml:5
     the same hook is in ~/.config/billhook/hooks.yaml:6 (user)
-- stderr

hint: 2 hooks not approved yet: review with `billhook trust`

hint: fix ~/.config/billhook/hooks.yaml:2 first; `billhook check` shows all problems
-- exit 0
""")


def test_five_shapes(folder: Folder) -> None:
    """Every hook with its dialect and `file:line`."""
    for name, text in FIVE_SHAPES.items():
        folder.write(name, text)

    found = folder.lines("list", "--json")

    shown = [(row["what"], row["dialect"], Path(row["source"]).name, row["trust"]) for row in found if row["file"]]
    assert sorted(shown) == [
        ("echo flat", "claw-text", "settings.json:2", "not approved"),
        ("echo lesson", "lesson", ".hooks.json:2", "not approved"),
        ("echo nested", "claude", "settings.json:3", "not approved"),
        ("echo strings", "claw", "settings.json:1", "not approved"),
        ("echo yaml", "claude", "hooks.yaml:2", "not approved"),
    ]


def test_json(folder: Folder) -> None:
    """One object a hook, with everything that is known."""
    folder.write(".billhook/hooks.yaml", HOOKS)
    folder.script("scan.sh")
    folder.approve("scan")
    found = {row["name"]: row for row in folder.lines("list", "--json")}
    built_in, scan = found["guard"], found["scan"]

    assert (built_in["name"], built_in["source"], built_in["file"]) == ("guard", "built-in", None)
    assert len(scan.pop("hash")) >= 32
    assert scan == {
        "name": "scan",
        "events": ["PreToolUse"],
        "what": "./scan.sh",
        "kind": "run",
        "match": "Write|Edit",
        "if": None,
        "effects": None,
        "after_effects": None,
        "dialect": "claude",
        "on_failure": "deny",
        "priority": 50,
        "after": [],
        "timeout": None,
        "background": False,
        "always": False,
        "shadow": False,
        "trust": "approved",
        "state": "runs",
        "effect": "runs",
        "why": None,
        "layer": "project",
        "source": f"{folder.project}/.billhook/hooks.yaml:6",
        "file": f"{folder.project}/.billhook/hooks.yaml",
        "line": 6,
        "approve": None,
        "warm": False,
        "not_warm": None,
        "last_fired": None,
    }


def test_a_file_that_is_named(folder: Folder) -> None:
    """`--config` adds a file to those that are found; it is the user's own word."""
    folder.write("hooks.yaml", "hooks: {found: {events: Stop, run: ls}}")
    folder.write("more.yaml", "hooks: {named: {events: Stop, run: ls -l}}")

    found = {
        row["name"]: row["trust"] for row in folder.lines("list", "--json", "--config", "more.yaml") if row["file"]
    }

    assert found == {"named": "own", "found": "not approved"}


def test_slips(folder: Folder) -> None:
    """Mistyped events and files are answered with what helps."""
    assert folder.screen("list", "--event", "PreToolUze") == snapshot("""\
-- stderr
error: no event `PreToolUze`

hint: did you mean `PreToolUse`?
-- exit 2
""")
    assert folder.screen("list", "--config", "no.yaml") == snapshot("""\
-- stderr
error: --config `no.yaml`: no such file

hint: name a settings file or a hooks.yaml
-- exit 2
""")


def test_an_event_of_ones_own(folder: Folder) -> None:
    """An event that only a hook knows is one."""
    folder.write("~/.config/billhook/hooks.yaml", "hooks: {mine: {events: Deployed, run: ls}}")

    assert "mine" in folder.screen("list", "--event", "Deployed")


def test_hostile_names(folder: Folder) -> None:
    """Nothing from a file reaches the terminal as an escape sequence, and no line leaves the screen."""
    evil = "\x1b]0;owned\x07\u202e\n\r" + "A" * 300
    folder.write("hooks.yaml", {"hooks": {"ok": {"events": "Stop", "run": evil, "match": evil, "title": evil}}})
    folder.write(".claude/settings.json", {"hooks": {"Stop": [evil], evil: ["ls"]}})

    ended = folder.billhook("list")

    assert ended.code == 0
    assert not set("\x1b\x07\u202e\r") & set(ended.out + ended.err)
    assert max(map(len, ended.out.splitlines())) <= 80


def test_in_a_folder_below(folder: Folder) -> None:
    """Sources above this folder are shown with `~`, those below as relative paths."""
    folder.write("hooks.yaml", "hooks: {top: {events: Stop, run: ls}}")
    folder.write("part/.hooks.json", {"hooks": {"Stop": ["ls -l"]}})

    text = folder.screen("list", cwd=folder.project / "part")

    assert "~/project/hooks.yaml:1" in text and " .hooks.json:" in text


# -- when hooks last fired


LOGGED = """\
hooks:
  every: {events: PreToolUse, run: 'true'}
  never: {events: PreToolUse, match: Write, run: 'true'}
"""


def logged(folder: Folder, *records: dict[str, Any]) -> None:
    project = os.path.realpath(folder.project)
    write(folder.home / ".claude", project, [content(project, **record) for record in records])


def test_last_fired(folder: Folder) -> None:
    """Each hook with the time of its last run, relative to now."""
    folder.write("~/.config/billhook/hooks.yaml", LOGGED)
    logged(
        folder,
        {"time": at(days=3), "outcomes": [said("guard")]},
        {"time": at(hours=2.5), "outcomes": [said("every")]},
    )

    assert folder.screen("list") == snapshot("""\
PreToolUse
   1 every           true
     on_failure allow   own   ~/.config/billhook/hooks.yaml:2   last ran 2 h ago
   2 never           true
     match Write   on_failure allow   own   ~/.config/billhook/hooks.yaml:3
     never ran
   3 guard           stops what can't be undone, and protects billhook's files
     gate   priority 1000   built-in   last ran 3 days ago

Built-ins that only observe
   1 metrics         times every hook
   2 turn-tracker    counts the turns of a session
   3 session-naming  names the session
   4 event-logger    records every event in the log
-- exit 0
""")


def test_last_fired_as_json(folder: Folder) -> None:
    """The time of the record; null for what never fired."""
    folder.write("~/.config/billhook/hooks.yaml", LOGGED)
    time = at(hours=2)
    logged(folder, {"time": at(hours=3), "outcomes": [said("every")]}, {"time": time, "outcomes": [said("every")]})
    found = {row["name"]: row["last_fired"] for row in folder.lines("list", "--json")}

    assert (found["every"], found["never"]) == (time, None)


def test_what_really_happened(folder: Folder) -> None:
    """What an agent asked shows up."""
    folder.write("~/.config/billhook/hooks.yaml", LOGGED)
    folder.billhook("fire", "PreToolUse", "--tool", "Bash", "--input", '{"command": "ls"}')
    found = {row["name"]: row["last_fired"] for row in folder.lines("list", "--json")}

    assert (found["never"], found["session-naming"]) == (None, None)
    assert all(found[name] for name in ("every", "guard", "metrics", "turn-tracker", "event-logger"))


def test_last_fired_under_another_name(folder: Folder) -> None:
    """As long as the project had one of that name, too, it was `user/every`; that it fired then counts."""
    folder.write("~/.config/billhook/hooks.yaml", LOGGED)
    folder.write("hooks.yaml", "hooks: {every: {events: Stop, run: 'true'}}\n")
    folder.billhook("fire", "PreToolUse", "--tool", "Bash", "--input", '{"command": "ls"}')
    both = {row["name"]: row["last_fired"] for row in folder.lines("list", "--json")}
    folder.write("hooks.yaml", "hooks: {}\n")
    alone = {row["name"]: row["last_fired"] for row in folder.lines("list", "--json")}

    assert both["user/every"] and both["project/every"] is None
    assert alone["every"] == both["user/every"]


def test_a_log_that_cannot_be_read(folder: Folder) -> None:
    """The list is shown all the same, with a note."""
    folder.write("~/.config/billhook/hooks.yaml", LOGGED)
    logged(folder, {"outcomes": [said("every")]})
    (log,) = (folder.home / ".claude" / "hooks").rglob("hooks.jsonl")
    log.unlink()
    log.symlink_to("/dev/zero")
    ended = folder.billhook("list")

    assert ended.code == 0
    assert "every" in ended.out and "fired" not in ended.out
    assert "can't determine when hooks last ran" in ended.err


@pytest.mark.parametrize(
    ("age", "spoken"),
    [
        pytest.param({"seconds": -90}, "just now", id="of a clock that was ahead"),
        pytest.param({"seconds": 59}, "just now", id="seconds"),
        pytest.param({"seconds": 61}, "1 min ago", id="a minute"),
        pytest.param({"minutes": 59.5}, "59 min ago", id="minutes"),
        pytest.param({"minutes": 61}, "1 h ago", id="an hour"),
        pytest.param({"hours": 23.5}, "23 h ago", id="hours"),
        pytest.param({"hours": 25}, "1 day ago", id="a day"),
        pytest.param({"days": 30.5}, "30 days ago", id="days"),
        pytest.param({"days": 400}, "on 20", id="long ago"),
    ],
)
def test_ages(age: dict[str, float], spoken: str) -> None:
    """Relative to now; the date after a month."""
    assert ago(at(**age)).startswith(spoken)
    assert ago("nonsense") == "at nonsense"

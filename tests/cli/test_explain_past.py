"""`billhook explain ID`: why my guard did not fire last night."""

import json
import os
import re
from pathlib import Path
from typing import Any

import pytest
from inline_snapshot import snapshot

from cli.folder import Folder
from config.logged import content, said, write

HOOKS = """\
hooks:
  guard:
    events: PreToolUse
    if: Bash(git push *)
    deny: No pushes at night
  scan:
    events: PreToolUse
    match: Write|Edit
    run: 'true'
  audit:
    events: PreToolUse
    run: 'true'
    priority: 50
"""
OWN = "~/.config/billhook/hooks.yaml"


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path)


def fired(folder: Folder, command: str = "git push origin", cwd: Path | None = None) -> str:
    """Send a command as an agent does; the id of the record."""
    event = {
        "hook_event_name": "PreToolUse",
        "session_id": "s1",
        "cwd": str(cwd or folder.project),
        "tool_name": "Bash",
        "tool_input": {"command": command},
    }
    folder.billhook("hook", "claude", stdin=json.dumps(event).encode(), cwd=cwd)
    found: str = last(folder)["id"]
    return found


def last(folder: Folder) -> dict[str, Any]:
    files = sorted((folder.home / ".claude" / "hooks").rglob("hooks.jsonl"), key=lambda file: file.stat().st_mtime_ns)
    found: dict[str, Any] = json.loads(files[-1].read_text().splitlines()[-1])
    return found


def screen(folder: Folder, *arguments: str, **options: Any) -> str:
    """What a person sees, without what differs from run to run."""
    text = folder.screen("explain", *arguments, **options)
    text = re.sub(r"\b[0-9a-f]{32}\b", "0123456789abcdef0123456789abcdef", text)
    text = re.sub(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d", "2026-03-01 22:00:00", text)
    text = re.sub(r"[a-z]+-[a-z]+(?=   turn)", "jolly-squid", text)
    text = re.sub(r" +(?:N\.N|\d+\.\d) ms", " 1.5 ms", text)
    text = re.sub(r"\bcode: [0-9A-Z]{6}\n", "code: K7QF2M\n", text)
    return re.sub(r"built-ins with no objection: [^\n]*\n[^\n]+\n", "built-ins with no objection: ...\n", text)


def told(folder: Folder, id_: str, *more: str) -> dict[str, Any]:
    ended = folder.billhook("explain", id_, "--json", *more)
    assert (ended.code, ended.out.count("\n")) == (0, 1), ended
    found: dict[str, Any] = json.loads(ended.out)
    return found


def test_a_deny(folder: Folder) -> None:
    """Every hook, which one decided, and what would happen today."""
    folder.write(OWN, HOOKS)

    assert screen(folder, fired(folder)) == snapshot("""\
PreToolUse Bash: git push origin
  record 0123456789abcdef0123456789abcdef   2026-03-01 22:00:00 (just now)
  session jolly-squid   turn 1   called by claude

  audit           no objection 1.5 ms
                  on_failure allow   own   ~/.config/billhook/hooks.yaml:10

  guard           deny 1.5 ms  decided
                  No pushes at night
                  code: K7QF2M
                  if Bash(git push *)   gate   own
                  ~/.config/billhook/hooks.yaml:2

  built-in/guard  skipped: `guard` answered deny
                  gate   built-in

  scan            skipped: `match: Write|Edit` does not match `Bash`
                  match Write|Edit   on_failure allow   own
                  ~/.config/billhook/hooks.yaml:6

built-ins with no objection: ...

verdict: deny, by guard, after 1.5 ms
reason: No pushes at night

Today
  verdict: deny, by guard (the same)
-- exit 0
""")


def test_what_differs_today(folder: Folder) -> None:
    """The verdict of the rules as they are now."""
    folder.write(OWN, HOOKS)
    id_ = fired(folder, "git commit")
    changed = (
        HOOKS.replace("Bash(git push *)", "Bash(git *)").replace("Write|Edit", "Bash|Write").replace("audit:", "log:")
    )
    folder.write(OWN, changed)

    assert screen(folder, id_[:12]) == snapshot("""\
PreToolUse Bash: git commit
  record 0123456789abcdef0123456789abcdef   2026-03-01 22:00:00 (just now)
  session jolly-squid   turn 1   called by claude

  audit  no objection 1.5 ms
         on_failure allow   own   ~/.config/billhook/hooks.yaml:10

  guard  skipped: `if: Bash(git push *)` does not match `git commit`
         if Bash(git push *)   gate   own   ~/.config/billhook/hooks.yaml:2

  scan   skipped: `match: Write|Edit` does not match `Bash`
         match Write|Edit   on_failure allow   own
         ~/.config/billhook/hooks.yaml:6

built-ins with no objection: ...

verdict: none (no objection), after 1.5 ms

Today
  verdict: deny, by guard
  reason: No pushes at night
-- exit 0
""")


def test_the_beginning_of_an_id(folder: Folder) -> None:
    """Eight digits are enough where they are one record's; capitals don't matter, and other options go on."""
    folder.write(OWN, HOOKS)
    id_ = fired(folder)

    for given in (id_[:8], id_[:20].upper(), id_):
        assert told(folder, given)["id"] == id_


def test_the_number_of_a_record(folder: Folder) -> None:
    """As the table of `billhook events` shows it; a number that no record has is a slip, not a command."""
    folder.write(OWN, HOOKS)
    ids = [fired(folder), fired(folder)]
    ended = folder.billhook("explain", "7")

    assert [told(folder, number)["id"] for number in ("1", "2")] == ids
    assert (ended.code, ended.err.splitlines()[0]) == (2, "error: no record here has the number 7")


def test_an_ambiguous_beginning(folder: Folder) -> None:
    """Both are named."""
    project = os.path.realpath(folder.project)
    ids = [f"0199aaaa{number:024x}" for number in (1, 2)]
    write(folder.home / ".claude", project, [content(project, id=id_) for id_ in ids])
    ended = folder.billhook("explain", "0199aaaa")

    assert ended.code == 2
    assert ids[0] in ended.err and ids[1] in ended.err


def test_no_such_record(folder: Folder) -> None:
    """Then it is explained as a command, with a note for users who meant a record."""
    ended = folder.billhook("explain", "deadbeef01")

    assert (ended.code, ended.out.splitlines()[0]) == (0, "PreToolUse Bash: deadbeef01")
    assert "no record of the log has an id that begins with `deadbeef01`" in ended.err


@pytest.mark.parametrize("word", ["deadbee", "git", "a" * 33, "deadbeeg", "PreToolUse --tool Bash"])
def test_words_that_are_no_ids(folder: Folder, word: str) -> None:
    """Nothing about them changes, and no log is looked at."""
    assert "record" not in folder.billhook("explain", *word.split()).err


def test_from_another_folder(folder: Folder, tmp_path: Path) -> None:
    """An id is one of a kind: the record is found wherever one asks, and compared with the configuration of its own
    project."""
    folder.write(OWN, HOOKS)
    id_ = fired(folder)
    elsewhere = tmp_path / "elsewhere"
    (elsewhere / ".git").mkdir(parents=True)
    (elsewhere / "hooks.yaml").write_text("hooks: {other: {events: PreToolUse, run: 'true'}}")
    ended = folder.billhook("explain", id_, "--json", cwd=elsewhere)
    found = json.loads(ended.out)

    assert found["project"] == os.path.realpath(folder.project)
    assert (found["today"]["decision"], found["today"]["by"]) == ("deny", ["guard"])


def test_json(folder: Folder) -> None:
    """Everything that the screen shows, and more."""
    folder.write(OWN, HOOKS)
    id_ = fired(folder)
    found = told(folder, id_)
    hooks = {hook["name"]: hook for hook in found["hooks"]}

    assert (found["decision"], found["decided_by"], found["config_known"]) == ("deny", ["guard"], True)
    assert (hooks["guard"]["standing"], hooks["guard"]["decided"]) == ("asked", True)
    assert hooks["guard"]["said"]["duration_ms"] >= 0
    assert (hooks["scan"]["standing"], hooks["scan"]["said"]) == ("not asked", None)
    assert hooks["audit"]["then"]["priority"] == 50
    assert found["today"] == {"decision": "deny", "by": ["guard"], "reason": "No pushes at night", "not_known": []}
    assert found["input"] == {"command": "git push origin"}


def test_without_the_configuration_of_its_time(folder: Folder) -> None:
    """What the record has is told, and that the rest is not known."""
    folder.write(OWN, HOOKS)
    id_ = fired(folder)
    for file in (folder.home / ".claude" / "billhook" / "configs").iterdir():
        file.unlink()
    found = told(folder, id_)

    assert (found["config_known"], found["decided_by"]) == (False, ["guard"])
    assert "not known: the configuration of that time" in folder.screen("explain", id_)


def test_without_its_input(folder: Folder) -> None:
    """The log was told not to keep it: what today's hooks would do can't be told."""
    folder.write(OWN, "builtins: {event-logger: {options: {include_input: false}}}\n" + HOOKS)
    id_ = fired(folder)
    found = told(folder, id_)

    assert (found["input"], found["today"]["decision"]) == (None, "unknown")
    assert "not known: the verdict: the log does not have its input" in folder.screen("explain", id_)


def test_without_its_side_file(folder: Folder) -> None:
    """A part of the record is gone: the rest is told."""
    project = os.path.realpath(folder.project)
    long = content(project, id="0199bbbb" + "0" * 24, decision="deny", reason="no", input={"command": "x" * 100_000})
    write(folder.home / ".claude", project, [long])
    for file in (folder.home / ".claude" / "hooks").rglob("large/*"):
        file.unlink()
    found = told(folder, "0199bbbb")

    assert (found["decision"], found["input"]) == ("deny", None)


def test_a_hook_that_was_not_trusted(folder: Folder) -> None:
    """The answer to "why did it not run": it was not approved then. Today's verdict counts it."""
    folder.write("hooks.yaml", HOOKS)
    id_ = fired(folder)
    folder.approve()
    after = told(folder, id_)
    guard = next(hook for hook in after["hooks"] if hook["name"] == "guard")

    assert (guard["standing"], guard["why"][:12]) == ("not asked", "not approved")
    assert after["today"]["by"] == ["guard"]


def test_failures(folder: Folder) -> None:
    """A hook that failed open, and a gate that failed closed."""
    outcomes = [
        said("late", status="timed_out", error="no answer within 1 s", duration_ms=1000.0, failed_open=True),
        said("gate", status="failed", error="exit 7", decision="deny", reason="it failed", duration_ms=3.0),
        said("later", status="skipped", error="`gate` answered deny"),
    ]
    project = os.path.realpath(folder.project)
    record = content(project, id="0199cccc" + "0" * 24, decision="deny", reason="it failed", failed_open=1,
                     outcomes=outcomes, not_asked={"later": "`gate` answered deny"}, duration_ms=1003.0)  # fmt: skip
    write(folder.home / ".claude", project, [record])

    assert screen(folder, "0199cccc") == snapshot("""\
PreToolUse Bash: ls
  record 0123456789abcdef0123456789abcdef   2026-03-01 22:00:00 (just now)
  session jolly-squid   turn 1   called by claude

  late   timed out 1.5 ms
         no answer within 1 s
         failed open: the event continued without its answer (on_failure: allow)

  gate   failed 1.5 ms  decided
         exit 7
         counted as deny (its on_failure rule)

  later  skipped: `gate` answered deny

verdict: deny, by gate, after 1.5 ms
reason: it failed
1 hook failed open

Today
  verdict: none
  not known: the configuration of that time: the record does not name it
-- exit 0
""")


def test_hostile_records(folder: Folder) -> None:
    """The content of a log can't control the terminal."""
    project = os.path.realpath(folder.project)
    bad = "\x1b[2J\u202egone\n\x07"
    record = content(project, id="0199dddd" + "0" * 24, reason=bad, decision="deny", session_name=bad, host=bad,
                     turn_id=bad, outcomes=[said(bad, decision="deny", reason=bad, error=bad, lost=[bad])],
                     not_asked={bad: bad}, input={"command": bad})  # fmt: skip
    write(folder.home / ".claude", project, [record])
    ended = folder.billhook("explain", "0199dddd")

    assert ended.code == 0
    assert not {"\x1b", "\u202e", "\x07"} & set(ended.out)


def test_help(folder: Folder) -> None:
    """`billhook explain --help` has an example with an id."""
    assert "billhook explain 0199f3c81d2a" in folder.billhook("explain", "--help").out


# -- events that were never judged


def unjudged(folder: Folder, stdin: bytes, *arguments: str) -> dict[str, Any]:
    """The record of an event that can't be read."""
    folder.billhook("hook", *arguments, stdin=stdin)
    return last(folder)


def test_what_could_be_read_is_recorded(folder: Folder) -> None:
    """Session, folder, tool and the rest, as far as they are what they should be, and nothing that was not sent."""
    event = {"hook_event_name": "PreToolUse", "session_id": "s1", "cwd": str(folder.project), "tool_name": "Bash"}
    record = unjudged(folder, json.dumps({**event, "permission_mode": 5}).encode())

    assert {key: record[key] for key in ("event", "session_id", "cwd", "tool", "decision")} == {
        "event": "PreToolUse", "session_id": "s1", "cwd": str(folder.project), "tool": "Bash", "decision": "deny",
    }  # fmt: skip
    assert "input" not in record
    assert record["reason"].startswith("the event on stdin can't be read")
    odd = unjudged(folder, b'{"hook_event_name":"WorktreeRemove","session_id":["x"],"reason":"why"}')
    assert (odd["event"], odd["session_id"], odd["input"]) == ("WorktreeRemove", "", {"reason": "why"})
    nameless = unjudged(folder, json.dumps({**event, "hook_event_name": None, "tool_input": {"a": 1}}).encode())
    assert (nameless["event"], nameless["session_id"], nameless["tool"]) == ("unknown", "s1", "Bash")
    assert nameless["input"] == {"a": 1}
    broken = unjudged(folder, b'{"hook_event_name":"Stop","session_id":"s1"')
    assert (broken["event"], broken["session_id"]) == ("Stop", "") and "input" not in broken


@pytest.mark.parametrize(("rule", "did"), [("allow", "the event continued"), ("deny", "the answer was deny")])
def test_an_event_that_was_never_judged(folder: Folder, rule: str, did: str) -> None:
    """No hook ran: the output has that, and the reason."""
    folder.write(OWN, HOOKS)
    event = {"hook_event_name": "PreToolUse", "session_id": "s1", "cwd": str(folder.project), "tool_name": "Bash"}
    id_ = unjudged(folder, json.dumps(event).encode(), "--on-failure", rule)["id"]
    text = screen(folder, id_)

    assert f"verdict: no hook ran; {did}\nreason: the event on stdin can't be read: missing field" in text
    assert "no objection" not in text and "failed open" not in text and "does not match" not in text
    assert text.count("the event was not judged") == 3
    data = told(folder, id_)
    assert data["judged"] is False
    assert {one["why"] for one in data["hooks"]} == {"the event was not judged"}


# -- what hooks did beside deciding


def test_the_words_for_what_a_hook_did(folder: Folder) -> None:
    """Those of `billhook fire`."""
    folder.write(
        OWN,
        """\
hooks:
  tells: {events: Stop, run: 'echo "{\\"systemMessage\\": \\"look here\\"}"'}
  goes-on: {events: Stop, run: 'echo "run the tests" >&2; exit 2'}
""",
    )
    event = {"hook_event_name": "Stop", "session_id": "s1", "cwd": str(folder.project)}
    folder.billhook("hook", stdin=json.dumps(event).encode())
    text = screen(folder, last(folder)["id"])

    lines = [line.strip() for line in text.splitlines()]
    assert lines[lines.index("tells    told the user 1.5 ms") + 1] == "to user: look here"
    assert lines[lines.index("goes-on  keep going 1.5 ms  decided") + 1] == "run the tests"
    assert "verdict: none, by goes-on, and the agent kept going" in text

"""Codex edits files by patches: who guards Write or Edit guards those, too. And matchers in an agent's own words."""

import json
from collections.abc import Mapping

import pytest

from billhook.agents import dialect
from billhook.core.answers import Answer, Decision, deny, rewrite
from billhook.core.events import Event
from billhook.core.hook import Context, Hook
from billhook.effects.rules import Rule
from billhook.engine.engine import Engine
from strategies import sample

PATCH = "*** Begin Patch\n*** Update File: /p/src/a.py\n+x\n*** Add File: /p/secret/b\n+x\n*** End Patch"
EVENT = sample("PreToolUse", tool_name="apply_patch", tool_input={"command": PATCH}, cwd="/p")


def refuse(ctx: Context) -> Answer:
    return deny("no")


@pytest.mark.parametrize("match", ["Write", "Edit", "Write|Edit", "apply_patch", "^(Write|MultiEdit)$"])
def test_a_matcher_for_edits_selects_patches(match: str) -> None:
    """`match: Write|Edit` means every way to change a file."""
    hook = Hook(name="h", run=refuse, events=("PreToolUse",), match=match, dialect="claude")

    assert Engine([hook]).fire_sync(EVENT).decision is Decision.DENY


@pytest.mark.parametrize(
    ("rule", "strikes"),
    [
        ("Write(secret/**)", True),
        ("Edit(secret/**)", True),
        ("Edit(src/**)", True),
        ("Write(docs/**)", False),
        ("Read(secret/**)", False),
        ("Write", True),
    ],
)
def test_a_rule_sees_the_files_of_a_patch(rule: str, strikes: bool) -> None:
    """Every file that a patch changes counts."""
    assert Rule.parse(rule).strikes("apply_patch", {"command": PATCH}, "/p") is strikes


def test_a_patch_of_too_many_files_is_struck_and_not_covered() -> None:
    """In doubt a deny rule applies, and an allow rule does not."""
    many = {"command": "".join(f"*** Add File: src/f{n}\n+x\n" for n in range(5_001))}

    assert Rule.parse("Write(docs/**)").strikes("apply_patch", many, "/p")
    assert not Rule.parse("Edit(src/**)").covers("apply_patch", many, "/p")


def test_an_unreadable_patch_is_struck_and_not_covered() -> None:
    """In doubt a deny rule applies, and an allow rule does not."""
    rule = Rule.parse("Edit(src/**)")

    assert rule.strikes("apply_patch", {"command": "???"}, "/p")
    assert not rule.covers("apply_patch", {"command": "???"}, "/p")
    assert not rule.covers("apply_patch", {"command": PATCH}, "/p")


CURSORS = {"conversation_id": "s", "hook_event_name": "preToolUse", "tool_name": "Write", "tool_use_id": "t"}


@pytest.mark.parametrize("match", ["Edit", "Write", "^Edit$", "Write|Edit"])
@pytest.mark.parametrize("given", [{"content": "x"}, {"old_string": "x", "new_string": "y"}, {"edits": []}], ids=str)
def test_a_matcher_for_edits_selects_what_cursor_writes(match: str, given: dict[str, object]) -> None:
    """Cursor has one tool for both; the same call in another agent is a Write and nothing else."""
    sent = {**CURSORS, "cwd": "/p", "tool_input": {"file_path": "/p/a", **given}}
    hook = Hook(name="h", run=refuse, events=("PreToolUse",), match=match, dialect="claude")
    engine = Engine([hook])

    assert engine.fire_sync(read_call("cursor", sent)).decision is Decision.DENY
    written = sample("PreToolUse", tool_name="Write", tool_input=sent["tool_input"])
    assert (engine.fire_sync(written).decision is Decision.DENY) is ("Write" in match)


CODEX = {"session_id": "s", "cwd": "/p", "hook_event_name": "PreToolUse", "tool_use_id": "t"}


@pytest.mark.parametrize(
    ("tool", "wanted", "runs"),
    [
        pytest.param("apply_patch", {"command": "*** Add File: /p/b\n"}, True, id="another patch"),
        pytest.param("apply_patch", {"command": "x", "file_path": "/p/b"}, False, id="another file"),
        pytest.param("apply_patch", {"file_path": "/p/b"}, False, id="no patch"),
        pytest.param("apply_patch", {"command": 5}, False, id="an invalid patch"),
        pytest.param("Bash", {"command": "ls -l"}, True, id="another command"),
        pytest.param("Bash", {"command": "ls -l", "cwd": "/q"}, False, id="another folder"),
        pytest.param("mcp__notes__add", {"command": "x", "text": "y"}, True, id="a server's tool"),
    ],
)
def test_codex_takes_over_a_command_and_nothing_else(tool: str, wanted: dict[str, object], runs: bool) -> None:
    """It would silently run the old call; so the call is denied, and the reason has the requested input."""
    event = read_call("codex", {**CODEX, "tool_name": tool, "tool_input": {"command": "x"}})
    written = dialect("codex").write_exit(event, rewrite(input=wanted))
    reported = json.loads(written.exit.stdout)["hookSpecificOutput"]

    assert reported["permissionDecision"] == ("allow" if runs else "deny")
    assert runs is (reported.get("updatedInput") == wanted)
    assert runs or json.dumps(wanted, separators=(",", ":")) in reported["permissionDecisionReason"]
    assert bool(written.lost) is not runs


def test_codex_is_not_told_what_only_describes_a_command() -> None:
    """A description changes nothing of what is done: the call runs, and the loss is reported."""
    event = read_call("codex", {**CODEX, "tool_name": "Bash", "tool_input": {"command": "x"}})
    written = dialect("codex").write_exit(event, rewrite(input={"command": "y", "description": "lists"}))

    assert json.loads(written.exit.stdout)["hookSpecificOutput"]["updatedInput"] == {"command": "y"}
    assert written.lost == ("`description` of the input can't be expressed",)


def read_call(agent: str, sent: Mapping[str, object]) -> Event:
    return dialect(agent).read_call(json.dumps(sent).encode(), {})


@pytest.mark.parametrize(
    ("dialect", "match", "asked"),
    [
        ("gemini", "run_shell_command", True),
        ("gemini", "run_.*", True),
        ("gemini", "Bash", True),
        ("cursor", "Shell", True),
        ("claude", "run_shell_command", False),
        ("gemini", "write_file", False),
    ],
)
def test_a_matcher_in_the_words_of_its_dialect(dialect: str, match: str, asked: bool) -> None:
    """A hook that was written for an agent names tools as that agent does."""
    hook = Hook(name="h", run=refuse, events=("PreToolUse",), match=match, dialect=dialect)

    assert (Engine([hook]).fire_sync(sample("PreToolUse")).decision is Decision.DENY) is asked

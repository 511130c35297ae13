"""Codex edits files by patches: who guards Write or Edit guards those, too. And matchers in an agent's own words."""

import pytest

from billhook.answers import Answer, Decision, deny
from billhook.engine import Engine
from billhook.hook import Context, Hook
from billhook.rules import Rule
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


def test_a_patch_that_nobody_can_read_is_struck_and_not_covered() -> None:
    """In doubt a deny rule applies, and an allow rule does not."""
    rule = Rule.parse("Edit(src/**)")

    assert rule.strikes("apply_patch", {"command": "???"}, "/p")
    assert not rule.covers("apply_patch", {"command": "???"}, "/p")
    assert not rule.covers("apply_patch", {"command": PATCH}, "/p")


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

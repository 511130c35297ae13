"""The guard's quick check allows only what its full check allows."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from billhook import PreToolUse
from billhook.builtins.guard import _PRINTERS, Guard, GuardSettings, harmless
from billhook.core.hook import Context
from billhook.effects.effect import ProtectedPaths
from built_in.judging import disarms

PROTECTED = ProtectedPaths(
    files=("/p/.claude/settings.json", "/p/.hooks.json"), folders=("/p/.billhook",), state=("/s/billhook",)
)
WORDS = [
    "-la",
    "--all",
    "-n5",
    ".claude/settings.json",
    "/s/billhook",
    "..",
    "-o",
    "billhook",
    "trust",
    "--out=x",
    "a=b",
]


@pytest.mark.parametrize("name", sorted(_PRINTERS - {"git", "mkdir", "touch", "ruff"}))
@settings(max_examples=20, deadline=None)
@given(words=st.lists(st.sampled_from(WORDS) | st.from_regex(r"[A-Za-z0-9_,:=+@./-]{1,8}", fullmatch=True), max_size=5))
def test_a_program_that_only_tells(name: str, words: list[str]) -> None:
    """Whatever its words are, a close look finds nothing that it disarms."""
    event = PreToolUse(tool_name="Bash", tool_input={"command": " ".join([name, *words])}, cwd="/p")
    assert disarms(event, PROTECTED) == ("none", ""), event


@pytest.mark.parametrize("line", ["touch .hooks.json", "mkdir .billhook/x", "ruff check --fix .billhook"])
def test_a_program_that_writes_what_it_names(line: str) -> None:
    """It is looked at closely."""
    assert not harmless("Bash", {"command": line})


NOT_PLAIN = [
    "ls > .claude/settings.json",
    "ls;rm -r .billhook",
    "ls $(rm -r .billhook)",
    "cat x\nrm -r .billhook",
    "echo x | tee .hooks.json",
    "ls  && rm .hooks.json",
    "grep x `rm .hooks.json`",
    "echo {} &rm .hooks.json",
    "./ls .hooks.json",
    "ls\trm",
    "LS=rm; $LS .hooks.json",
]


@pytest.mark.parametrize("line", NOT_PLAIN, ids=json.dumps)
def test_a_line_that_is_more_than_one_plain_command(line: str) -> None:
    """It is looked at closely."""
    assert not harmless("Bash", {"command": line})
    event = PreToolUse(tool_name="Bash", tool_input={"command": line}, cwd="/p")
    found = Guard(PROTECTED, GuardSettings())(Context(event, []))
    assert (found.decision == "none") == (disarms(event, PROTECTED)[0] == "none")

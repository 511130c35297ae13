"""What self-protection lets pass at one look: the same as what it lets pass when it looks closely."""

import json

import pytest
from billhook.builtins.self_protection import READING_TOOLS, TELLERS, self_protection
from hypothesis import given, settings
from hypothesis import strategies as st

from billhook import PreToolUse
from billhook.builtins.disarm import does_nothing, judged
from billhook.core.hook import Context
from billhook.effects.calls import READ_ONLY
from billhook.effects.protected_paths import Protected

PROTECTED = Protected(
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


@pytest.mark.parametrize("name", sorted(TELLERS))
@settings(max_examples=20, deadline=None)
@given(words=st.lists(st.sampled_from(WORDS) | st.from_regex(r"[A-Za-z0-9_,:=+@./-]{1,8}", fullmatch=True), max_size=5))
def test_a_program_that_only_tells(name: str, words: list[str]) -> None:
    """Whatever its words are, looking closely finds nothing that it writes, runs or disarms."""
    event = PreToolUse(tool_name="Bash", tool_input={"command": " ".join([name, *words])}, cwd="/p")
    answer, found = judged(event, PROTECTED)
    assert not answer.objects and answer.decision == "none" and does_nothing(found), event


def test_tools_that_only_read() -> None:
    """They are tools of which nobody thinks that they write."""
    assert READING_TOOLS <= READ_ONLY


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
    """It is looked at closely: the answer is the one of a close look."""
    event = PreToolUse(tool_name="Bash", tool_input={"command": line}, cwd="/p")
    said = self_protection(PROTECTED).run(Context(event, []))
    assert said == judged(event, PROTECTED)[0]

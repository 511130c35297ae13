"""Matchers, per dialect: reference 2.3 and section 5 of the design."""

import time
from typing import Any

import pytest

from billhook import (
    Engine,
    Event,
    FileChanged,
    Hook,
    Notification,
    PostToolUse,
    PreCompact,
    PreToolUse,
    SessionStart,
    Stop,
    StopFailure,
    SubagentStart,
    SubagentStop,
    UserPromptSubmit,
)
from billhook.core.dialect_traits import meanings
from billhook.core.match import LONGEST_NAME, ExpressionSet, compile_matcher


def matches(dialect: str, pattern: str | None, event: Event | str) -> bool:
    """Whether a hook with this pattern runs; the long way and the short way must agree."""
    about = PreToolUse(tool_name=event, tool_input={}) if isinstance(event, str) else event
    asked: list[Any] = []
    hook = Hook(name="h", run=asked.append, events=(about.hook_event_name,), match=pattern, dialect=dialect)
    Engine([hook]).fire_sync(about)
    return bool(asked)


@pytest.mark.parametrize(
    ("pattern", "name", "expected"),
    [
        (None, "Bash", True),
        ("", "Bash", True),
        ("*", "Bash", True),
        ("Bash", "Bash", True),
        ("Bash", "bash", True),  # the seeds' name of the same tool
        ("bash", "bash", True),  # the name under which the event knows it
        ("bash", "Bash", False),  # case-sensitive
        ("Bash", "BASH", False),
        ("Bash", "BashOutput", False),
        ("Edit|Write", "Write", True),
        ("Edit|Write", "write_file", True),
        ("Edit, Write", "Write", True),
        ("Edit ,Write| Read", "Read", True),
        ("Edit|Write", "NotebookEdit", False),
        ("Edit.*", "NotebookEdit", True),  # unanchored
        ("^Edit$", "NotebookEdit", False),
        ("^Bash$", "bash", True),
        ("mcp__memory", "mcp__memory__get", False),  # an exact string
        ("mcp__memory__.*", "mcp__memory__get", True),
        ("my-tool", "my-tool", True),
        ("my-tool", "my-tools", False),
        ("a b", "a b", True),
        ("(?=x)", "anything", True),  # RE2 can't compile it
        ("Bash|*", "Read", True),
        ("[", "Read", True),
        (" , ", "Read", True),  # a list without a name is no reason to be off
        ("Ünïcode", "Ünïcode", True),
        (".", "\ud800", True),
        ("^x$", "\ud800", False),
        (r"\.py$", "a.py", True),
    ],
)
def test_claude(pattern: str | None, name: str, expected: bool) -> None:
    """Exact or a list when only plain characters are in it, else RE2, unanchored, case-sensitive."""
    assert matches("claude", pattern, name) is expected


@pytest.mark.parametrize(
    ("pattern", "name", "expected"),
    [
        ("Bash", "Bash", True),
        ("Bash", "bash", True),
        ("bash", "Bash", True),
        ("mcp__*", "mcp__memory__get", True),
        ("mcp__*", "Bash", False),
        ("*Edit", "NotebookEdit", True),
        ("Edit", "NotebookEdit", False),
        ("Edit|Write", "Write", False),  # no lists
        ("B?sh", "Bash", True),
        ("[BR]*", "Read", True),
        ("[!B]*", "Bash", False),
        ("[!B]*", "Read", True),
        ("[]x]", "]", True),
        ("a.c*", "abc", False),  # a dot is a dot
        ("a*\n", "ab\n", True),
        ("[z-a]", "Bash", True),  # can't be read
        ("[", "[", True),
        ("*", "anything", True),
    ],
)
def test_spec(pattern: str, name: str, expected: bool) -> None:
    """Seed 001: exact or glob."""
    assert matches("spec", pattern, name) is expected


@pytest.mark.parametrize("dialect", ["claw", "claw-text"])
@pytest.mark.parametrize(
    ("pattern", "name", "expected"),
    [
        ("bash", "Bash", True),
        ("bash", "bash", True),
        ("BASH", "Bash", True),
        ("write_file|edit_file", "Write", True),
        ("write_*", "Write", True),
        ("write*", "Write", True),
        ("*_file", "Edit", True),
        ("*_file", "Bash", False),
        ("read_file, bash", "bash", True),
        ("mcp__*", "mcp__x__y", True),
        ("bas", "Bash", False),
        ("b.sh", "Bash", False),
        ("|*", "Bash", True),
        ("|,", "Bash", True),
    ],
)
def test_claw(dialect: str, pattern: str, name: str, expected: bool) -> None:
    """Seeds 000 and 003: a list with `*` wildcards, case-insensitive, on the seeds' names too."""
    assert matches(dialect, pattern, name) is expected


@pytest.mark.parametrize(
    ("pattern", "name", "expected"),
    [
        ("bash", "Bash", True),
        ("bash", "bash", True),
        ("*", "Read", True),
        ("ba*", "Bash", False),
        ("read_file", "Read", True),
    ],
)
def test_lesson(pattern: str, name: str, expected: bool) -> None:
    """Seed 004: exact or `*`."""
    assert matches("lesson", pattern, name) is expected


@pytest.mark.parametrize(
    ("event", "pattern", "expected"),
    [
        (SessionStart(source="resume"), "resume", True),
        (SessionStart(source="resume"), "startup", False),
        (SessionStart(source="resume"), "startup|resume", True),
        (PreCompact(trigger="auto"), "manual", False),
        (Notification(message="m", notification_type="idle_prompt"), "idle_prompt", True),
        (Notification(message="m", notification_type="idle_prompt"), "permission_prompt", False),
        (SubagentStart(agent_id="1", agent_type="Explore"), "Explore", True),
        (SubagentStop(agent_id="1", agent_type="plug:rev", agent_transcript_path=""), "^plug:rev$", True),
        (SubagentStop(agent_id="1", agent_type="bash", agent_transcript_path=""), "Bash", False),  # not a tool
        (PostToolUse(tool_name="bash", tool_input={}, tool_response=""), "Bash", True),
        (FileChanged(file_path="/a/.env", event="change"), ".env", True),
        (FileChanged(file_path="/a/b", event="change"), ".env|b", True),
        (FileChanged(file_path="/a/b-c", event="change"), "b-c", True),  # a regex here, and it matches
        (FileChanged(file_path="/a/xb-cx", event="change"), "b-c", True),  # which an exact name would not
        (StopFailure(error="rate_limit"), "rate_limit", True),
        (StopFailure(error="rate_limit"), "rate", False),
        (StopFailure(error="rate-limits"), "rate-limit", True),
        (Stop(), "nothing", True),  # no matcher on these
        (UserPromptSubmit(prompt="hi"), "nothing", True),
    ],
)
def test_other_events(event: Event, pattern: str, expected: bool) -> None:
    """Without a tool's name the field that the reference gives counts; without any the matcher is ignored."""
    assert matches("claude", pattern, event) is expected


@pytest.mark.parametrize("pattern", ["(?=x)", r"(a)\1", "(?<!b)c", "[", "(", "*a", "a{1001}", " | "])
def test_problem_has_the_reason(pattern: str) -> None:
    """An invalid pattern matches everything and has a problem."""
    matcher = compile_matcher(pattern, meanings("claude").matching, "PreToolUse")
    assert matcher.everything
    assert matcher.problem


@pytest.mark.parametrize("pattern", ["^(a+)+$", "(a|aa)*b", "(.*)*x", "^(([a-z])+.)+[A-Z]([a-z])+$"])
def test_bad_patterns_finish_at_once(pattern: str) -> None:
    """Patterns that hang Python's `re` take no time."""
    began = time.process_time()
    matches("claude", pattern, "a" * 1000 + "!")
    assert time.process_time() - began < 2


def test_names_that_are_too_long() -> None:
    """A name of a megabyte matches every expression, and no time is spent on it."""
    began = time.process_time()
    assert matches("claude", "[ab]*a[ab]{900}x", "ab" * 500_000)
    assert time.process_time() - began < 2
    assert ExpressionSet(["^a", "^b"]).matching("c" * (LONGEST_NAME + 1)) == [0, 1]
    assert ExpressionSet(["^a", "^b"]).matching("c") == []


def test_record_and_plan_agree() -> None:
    """`Matcher.matches` gives the same answers as a plan."""
    for dialect in ("claude", "spec"):
        for pattern in ("Bash", "B.*", "Read|Write", "*", "[BR]*", "Ba*"):
            for name in ("Bash", "Read", "Write", "Base"):
                matcher = compile_matcher(pattern, meanings(dialect).matching, "PreToolUse")
                assert matcher.matches(name) is matches(dialect, pattern, name)

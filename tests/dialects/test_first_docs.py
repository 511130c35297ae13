"""The table of the first five dialects in docs/dialects.md, held against what the codecs do."""

from pathlib import Path

import pytest

from billhook.agents import dialect
from billhook.core.answers import Answer, Exit, Status
from billhook.core.dialect_traits import MEANINGS
from strategies import sample

PAGE = (Path(__file__).parents[2] / "docs" / "dialects.md").read_text("utf-8")
FIRST = ("claude", "spec", "claw", "claw-text", "lesson")


def cells(row: str) -> dict[str, str]:
    """The cells of one row, by dialect."""
    found = next(line for line in PAGE.splitlines() if line.startswith(f"| {row} |"))
    return dict(zip(FIRST, (cell.strip() for cell in found.rstrip(" |").split(" | ")[1:]), strict=True))


def answer(name: str, event: str, code: int = 0, stdout: str = "", stderr: str = "") -> Answer | None:
    """The answer of a hook with this exit; None: a failure."""
    reply = dialect(name).read_exit(sample(event), Exit(code=code, stdout=stdout.encode(), stderr=stderr.encode()))
    return reply.answer if reply.status is Status.OK else None


GOES_ON = {
    "block": (0, '{"decision": "block", "reason": "r"}'),
    "exit 2": (2, ""),
    "additionalContext": (0, '{"hookSpecificOutput": {"hookEventName": "Stop", "additionalContext": "c"}}'),
    "`continue: true`": (0, '{"continue": true}'),
}


@pytest.mark.parametrize("name", FIRST)
def test_what_keeps_an_agent_going(name: str) -> None:
    """The row `Stop goes on when`."""
    reported = {way: answer(name, "Stop", code, stdout, "r") for way, (code, stdout) in GOES_ON.items()}

    assert cells("Stop goes on when")[name] == ", ".join(way for way, one in reported.items() if one and one.keep_going)


CONTINUE = {"PreToolUse": "before a tool", "PostToolUse": "after it", "Stop": "on Stop"}


@pytest.mark.parametrize("name", FIRST)
def test_what_continue_false_does(name: str) -> None:
    """The row `continue: false`."""
    does = {}
    for event, where in CONTINUE.items():
        reported = answer(name, event, stdout='{"continue": false, "stopReason": "r"}')
        assert reported is not None and reported.objects
        does[where] = "stops the agent" if reported.stop else "denies"
    denies = " and ".join(where for where, effect in does.items() if effect == "denies")
    text = f"denies {denies}, else stops the agent" if denies else "stops the agent"

    assert cells("`continue: false`")[name] == text


@pytest.mark.parametrize("name", FIRST)
def test_who_reads_a_system_message(name: str) -> None:
    """The row `systemMessage`."""
    reported = answer(name, "PreToolUse", stdout='{"systemMessage": "m"}')
    assert reported is not None
    text = "shown to the user" if reported.message else "told to the model"

    assert cells("`systemMessage`")[name] in (text, "as claude" if reported.message else text)


@pytest.mark.parametrize("name", FIRST)
def test_units_words_and_times(name: str) -> None:
    """The rows that are data."""
    row = MEANINGS[name]
    joins = {"\n": "a newline", "\n\n": "a blank line"}
    denied = row.denied.replace("{reason}", "reason").replace("Hook denied: ", "`Hook denied: ` ")
    denied = denied.replace("Blocked by hook: ", "`Blocked by hook: ` ")

    assert cells("contexts joined by")[name] == joins[row.join]
    assert cells("denied result")[name].removeprefix("the ") == denied
    assert cells("timeout")[name].startswith(f"{row.timeout:g} s")
    unit = {1000: "milliseconds", 1: "seconds"}[row.async_per_second] if name in ("claude", "spec") else "-"
    assert cells("`asyncTimeout`")[name] == unit

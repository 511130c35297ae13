"""The log's screens show what the agent received if it differs from the hooks' decision."""

from pathlib import Path

import pytest

from cli.recorded import Recorded

UNSAID = "the `codex` dialect can't express everything: "


@pytest.mark.parametrize(
    ("decision", "lost", "told"),
    [
        pytest.param("ask", "ask became a deny", True, id="ask"),
        pytest.param("none", "a rewritten input became a deny", True, id="a rewrite"),
        pytest.param("none", "context is held until PostToolUse", False, id="context"),
        pytest.param("deny", "a stop became a deny and a stop", False, id="deny anyhow"),
    ],
)
def test_an_agent_that_was_told_otherwise(tmp_path: Path, decision: str, lost: str, told: bool) -> None:
    """The table and the record show that the agent received a deny."""
    place = Recorded(tmp_path)
    place.add("PreToolUse", "Bash", {"command": "ls"}, host="codex", decision=decision, lost=[UNSAID + lost])

    assert ("sent to codex as deny" in place.run("--human").out) is told
    assert (f"{decision} (sent to codex as deny)" in place.run("show", "1", "--human").out) is told


@pytest.mark.parametrize(("decision", "rows"), [("none", 1), ("deny", 2)])
def test_a_denied_call_has_no_result(tmp_path: Path, decision: str, rows: int) -> None:
    """A result with the id of a denied call is a row of its own: the call did not run."""
    place = Recorded(tmp_path)
    place.add("PreToolUse", "Bash", {"command": "ls"}, decision=decision, tool_use_id="toolu_1")
    place.add("PostToolUse", "Bash", {"command": "ls"}, tool_use_id="toolu_1")

    screen = place.run("--human").out

    assert screen.count("Bash ls") == rows
    assert ("Pre+Post" in screen) is (rows == 1)

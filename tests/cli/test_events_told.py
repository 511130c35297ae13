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

"""Compaction: the conversation is larger than its budget, or the user asks for it."""

from pathlib import Path
from typing import Any

import pytest

from agent_loop.running import DONE, Project, bash, says, shell, tool
from billhook import Answer, Hook
from billhook.agent.conversation import user
from billhook.agent.loop import AgentLoop
from billhook.agent.models import Completion, ModelError, ModelRequest, TextSink
from billhook.agent.script import ScriptedModel
from billhook.agent.ui_events import Compacted

MUCH = "head -c 8000 /dev/zero | tr '\\0' x"
"""A command that makes the conversation 2000 tokens longer."""


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path)


def test_in_order(project: Project) -> None:
    """PreCompact, the summary, PostCompact, SessionStart (compact), then the next call of the model."""
    ran = project.run([bash(MUCH), DONE], budget=1000)
    at = ran.names.index("PostToolBatch")
    assert ran.names[at : at + 5] == ["PostToolBatch", "PreCompact", "PostCompact", "SessionStart", "Stop"]
    assert ran.of("SessionStart")[-1]["source"] == "compact"
    (before,), (after,) = ran.of("PreCompact"), ran.of("PostCompact")
    assert (before["trigger"], before["custom_instructions"], after["trigger"]) == ("auto", None, "auto")
    assert [one.summary for one in ran.shown if isinstance(one, Compacted)] == [after["compact_summary"]]


def test_the_conversation_is_the_summary(project: Project) -> None:
    """The model has to summarise without tools, and then gets only the summary of earlier messages."""
    ran = project.run([bash(MUCH), bash("echo on"), DONE], budget=1000, prompt="tidy up")
    first, summing, second, third = ran.requests
    assert (summing.tools, summing.messages[:-1]) == ((), (*first.messages, *summing.messages[1:-1]))
    assert summing.messages[-1].text.startswith("Summarise this conversation")
    summary = ran.of("PostCompact")[0]["compact_summary"]
    assert "tidy up" in summary
    assert second.messages == (user(f"A summary of the conversation so far:\n\n{summary}\n\nContinue from there."),)
    assert len(third.messages) == 3 and ran.ended.how == "done"


def test_context_after_a_compaction(project: Project) -> None:
    """A hook's context at SessionStart (compact) is in the system message of the next call, not in the summary's."""
    ran = project.run(
        [bash(MUCH), DONE], says("SessionStart", {"systemMessage": "rules"}, match="compact"), budget=1000
    )
    assert ran.added == ["", "", "rules"]


def test_within_the_budget(project: Project) -> None:
    """Nothing is compacted that fits."""
    assert "PreCompact" not in project.run([bash(MUCH), DONE], budget=3000).names


@pytest.mark.parametrize(
    "hook",
    [
        pytest.param(says("PreCompact", {"decision": "block", "reason": "not now"}), id="decision: block"),
        pytest.param(shell("PreCompact", "echo not now >&2; exit 2"), id="exit code 2"),
        pytest.param(says("PreCompact", {"decision": "block"}, match="auto"), id="only the automatic one"),
    ],
)
def test_blocked(hook: Hook, project: Project) -> None:
    """The conversation is unchanged; the hook runs again when it has grown by a fifth."""
    turns = [bash(MUCH), bash("true"), bash("true"), bash(MUCH), DONE]
    ran = project.run(turns, hook, budget=1000)
    assert (len(ran.of("PreCompact")), "PostCompact" in ran.names) == (2, False)
    assert len(ran.requests[-1].messages) == 9 and ran.ended.how == "done"


def test_after_a_refusal(project: Project) -> None:
    """A compaction that a hook refused before and then allowed leaves no trace of the refusal."""
    outputs: list[dict[str, Any]] = [{"decision": "block"}]
    hook = Hook(name="once", run=lambda ctx: outputs.pop() if outputs else None, events=("PreCompact",), dialect="spec")
    ran = project.run([bash(MUCH), bash(MUCH), bash(MUCH), DONE], hook, budget=1000)
    assert (len(ran.of("PreCompact")), len(ran.of("PostCompact"))) == (3, 2)


def test_manual(project: Project) -> None:
    """The person's instructions are in the event, and the model is told them."""

    async def drive(agent: AgentLoop) -> bool:
        await agent.turn("one")
        return await agent.compact("manual", "keep the names")

    ran = project.drive([DONE], drive)
    assert ran.returned is True
    (before,) = ran.of("PreCompact")
    assert (before["trigger"], before["custom_instructions"]) == ("manual", "keep the names")
    assert ran.requests[-1].messages[-1].text.endswith("\nkeep the names")


def test_manual_blocked(project: Project) -> None:
    """A hook may also refuse the user's request; the user is told that nothing was done."""

    async def drive(agent: AgentLoop) -> bool:
        await agent.turn("one")
        return await agent.compact("manual")

    ran = project.drive([DONE], drive, says("PreCompact", {"decision": "block"}, match="manual"))
    assert ran.returned is False and ran.agent is not None and len(ran.agent.messages) == 2


def test_a_stop_at_a_compaction(project: Project) -> None:
    """A hook that stops the run there ends it, with its reason; nothing is summarised."""
    ran = project.run([bash(MUCH), DONE], says("PreCompact", Answer(stop=True, stop_reason="too long")), budget=1000)
    assert (ran.ended.how, ran.ended.text, len(ran.requests)) == ("stopped", "too long", 1)


class NoSummaries(ScriptedModel):
    """A model that fails to summarise."""

    async def complete(self, request: ModelRequest, say: TextSink) -> Completion:
        if not request.tools:
            raise ModelError("too much", kind="invalid_request")
        return await super().complete(request, say)


def test_a_summary_that_fails(project: Project) -> None:
    """StopFailure, and the run ends as failed; the conversation is as it was."""
    ran = project.run(NoSummaries([bash(MUCH), DONE]), budget=1000)
    assert (ran.ended.how, ran.ended.text) == ("failed", "too much")
    assert ran.of("StopFailure")[0]["error"] == "invalid_request" and "PostCompact" not in ran.names
    assert ran.agent is not None and len(ran.agent.messages) == 3


def test_a_subagent_compacts_its_own(project: Project) -> None:
    """Its events name it, and its parent's conversation stays as it is."""
    script = {
        "turns": [tool("Task", description="look", prompt="look", subagent_type="scout"), DONE],
        "agents": {"scout": [bash(MUCH), {"text": "found"}]},
    }
    ran = project.run(script, budget=1000)
    (before,) = ran.of("PreCompact")
    assert before["agent_type"] == "scout"
    assert len(ran.requests[-1].messages) == 3 and ran.results[-1].content == "found"


def test_resumed_after_a_compaction(project: Project) -> None:
    """The transcript keeps every line; a resumed conversation begins with the summary."""
    ran = project.run([bash(MUCH), {"text": "then this"}], budget=1000)
    assert [line["type"] for line in ran.lines] == ["message", "message", "message", "compacted", "message"]
    again = project.run([DONE], resume=ran.session_id, prompt="and now?")
    summary, then, now = again.requests[0].messages
    assert summary.text.startswith("A summary of the conversation so far:")
    assert (then.text, now.text) == ("then this", "and now?")

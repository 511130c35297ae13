"""Whatever a loop does in whatever order: one result for each call, and events that belong together."""

import asyncio
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from billhook import Hook, Notification, defer, deny, inject, rewrite, stop
from billhook.session import Session, ToolResult
from session.around import LS, Noted, run

BEFORE = st.sampled_from(["silent", "allow", "deny", "ask", "defer", "rewrite", "stop", "crash"])
TOOL = st.sampled_from(["works", "raises", "cancels"])
AFTER = st.sampled_from(["silent", "deny", "inject", "output", "stop", "crash"])
ANSWERS: dict[str, Any] = {
    "silent": None,
    "allow": {"hookSpecificOutput": {"hookEventName": "PreToolUse", "permissionDecision": "allow"}},
    "ask": {"hookSpecificOutput": {"hookEventName": "PreToolUse", "permissionDecision": "ask"}},
    "deny": deny("no"),
    "defer": defer("later"),
    "rewrite": rewrite(input={"command": "other"}),
    "stop": stop("enough"),
    "inject": inject("mind"),
    "output": rewrite(output="other"),
}


class Loop:
    """A loop that makes the calls of one case, whatever comes of each."""

    def __init__(self, calls: list[tuple[str, str, str]], person: bool) -> None:
        self.calls, self.person = calls, person
        self.ran: list[str] = []
        self.results: list[ToolResult] = []
        hooks = (
            Hook(name="before", run=lambda ctx: self._say(ctx.event, 0), events=("PreToolUse",)),
            Hook(name="after", run=lambda ctx: self._say(ctx.event, 2), events=("PostToolUse", "PostToolUseFailure")),
        )
        self.noted = Noted(*hooks)

    def _say(self, event: Any, place: int) -> Any:
        word = self.calls[int(event.tool_use_id)][place]
        if word == "crash":
            raise RuntimeError(word)
        return ANSWERS[word]

    async def run(self) -> None:
        async with self.noted.session(ask=lambda question: self.person) as session:
            for number, (_, tool, _) in enumerate(self.calls):
                await session.prompt("next")
                await self._call(session, str(number), tool)
            await session.fire(Notification)

    async def _call(self, session: Session, use: str, tool: str) -> None:
        async def execute(given: dict[str, Any]) -> str:
            self.ran.append(use)
            if tool == "raises":
                raise ValueError("boom")
            await asyncio.sleep(60 if tool == "cancels" else 0)
            return "out"

        work = asyncio.ensure_future(session.call_tool("Bash", LS, execute, tool_use_id=use))
        await asyncio.sleep(0.002)
        if tool == "cancels":
            work.cancel()
        try:
            self.results.append(await work)
        except asyncio.CancelledError:
            self.results.append(ToolResult(use, "interrupted", True))


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(BEFORE, TOOL, AFTER), max_size=6), st.booleans())
def test_any_sequence_of_calls(calls: list[tuple[str, str, str]], person: bool) -> None:
    """One result for each id, in order; PreToolUse for each; one event after each tool that ran, none for others."""
    loop = Loop(calls, person)

    run(loop.run())

    ids = [str(number) for number in range(len(calls))]
    assert [result.tool_use_id for result in loop.results] == ids
    told = [event.payload for event in loop.noted.events if "tool_use_id" in event.payload]
    before = [one["tool_use_id"] for one in told if one["hook_event_name"] == "PreToolUse"]
    after = [one["tool_use_id"] for one in told if one["hook_event_name"].startswith("PostToolUse")]
    assert before == ids
    assert after == loop.ran
    refused = {"deny", "defer", "stop"} | (set() if person else {"ask"})
    assert loop.ran == [use for use, (word, _, _) in zip(ids, calls, strict=True) if word not in refused]
    assert loop.noted.names[0] == "SessionStart"
    assert loop.noted.names[-1] == "SessionEnd"

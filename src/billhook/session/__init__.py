"""What an agent loop calls: a session fires the events of its life and acts on their verdicts.

    async with Session(engine, ask=ask) as session:            # SessionStart ... SessionEnd, whatever happens
        submitted = await session.prompt("tidy up")            # UserPromptSubmit
        result = await session.call_tool("Bash", {"command": "ls"}, run_it)
        ending = await session.stop()                          # Stop: `ending.keep_going` with a reason

The loop owns control flow; a session tells it what the hooks decided. Context that hooks add waits in the session until
`take_context`, which a loop appends to the system message of its next model call. `stopped` says why a hook ended the
run. `docs/guides/own-loop.md` puts it into a whole loop; `SyncSession` is the same for loops that are not async.
"""

from billhook.session.calls import Call, Execute, ToolResult
from billhook.session.permission import Ask, Permissions, Question, Ruling
from billhook.session.session import FORCED_AT_MOST, Session, Subagent
from billhook.session.sync import SyncSession
from billhook.session.waiting import HURRY

__all__ = [
    "FORCED_AT_MOST", "HURRY", "Ask", "Call", "Execute", "Permissions", "Question", "Ruling", "Session", "Subagent",
    "SyncSession", "ToolResult",
]  # fmt: skip

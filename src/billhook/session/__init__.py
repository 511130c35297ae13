"""What an agent loop calls: one object per session that fires events and acts on verdicts.

Imports: core, effects, engine, store.
"""

from billhook.session.calls import HURRY, Ask, Call, Execute, Permissions, Question, Ruling, ToolResult
from billhook.session.session import FORCED_AT_MOST, Session, Subagent, SyncSession

__all__ = [
    "FORCED_AT_MOST", "HURRY", "Ask", "Call", "Execute", "Permissions", "Question", "Ruling", "Session", "Subagent",
    "SyncSession", "ToolResult",
]  # fmt: skip

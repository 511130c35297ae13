"""codex."""

from billhook import meanings as rows
from billhook.dialects.claude import JsonDialect

DIALECTS = {"codex": JsonDialect(rows.CODEX)}

"""copilot."""

from billhook import meanings as rows
from billhook.dialects.claude import JsonDialect

DIALECTS = {"copilot": JsonDialect(rows.COPILOT)}

"""gemini."""

from billhook import meanings as rows
from billhook.dialects.claude import JsonDialect

DIALECTS = {"gemini": JsonDialect(rows.GEMINI)}

"""qwen."""

from billhook import meanings as rows
from billhook.dialects.claude import JsonDialect

DIALECTS = {"qwen": JsonDialect(rows.QWEN)}

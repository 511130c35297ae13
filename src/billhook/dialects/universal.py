"""universal."""

from billhook import meanings as rows
from billhook.dialects.claude import JsonDialect

DIALECTS = {"universal": JsonDialect(rows.UNIVERSAL)}

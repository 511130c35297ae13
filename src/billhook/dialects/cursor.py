"""cursor."""

from billhook import meanings as rows
from billhook.dialects.claude import JsonDialect

DIALECTS = {"cursor": JsonDialect(rows.CURSOR)}

"""The JSON that hooks answer with, read into an Answer and written back from one.

One format (seed 001 section 4, and what the reference added) serves every dialect; what some of its words mean
differs and comes from the dialect's `Meanings`.
"""

from billhook.outputs.reading import blocked, is_answer, read_output, read_returned
from billhook.outputs.writing import write_output

__all__ = ["blocked", "is_answer", "read_output", "read_returned", "write_output"]

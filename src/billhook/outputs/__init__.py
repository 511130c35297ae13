"""The JSON that hooks answer with, read into an Answer and written back from one.

One format (seed 001 section 4, and what the reference added) serves every dialect; what some of its words mean
differs and comes from the dialect's `Meanings`.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from billhook.outputs.reading import blocked, is_answer, read_output
    from billhook.outputs.returned import read_returned
    from billhook.outputs.writing import write_output

_WHERE = {
    "blocked": "reading",
    "is_answer": "reading",
    "read_output": "reading",
    "read_returned": "returned",
    "write_output": "writing",
}


def __getattr__(name: str) -> Any:
    """Reader and writer are imported when they are first used: most events get no answer."""
    if name not in _WHERE:
        raise AttributeError(f"module 'billhook.outputs' has no attribute {name!r}")
    import importlib

    found = globals()[name] = getattr(importlib.import_module(f"billhook.outputs.{_WHERE[name]}"), name)
    return found


__all__ = ["blocked", "is_answer", "read_output", "read_returned", "write_output"]

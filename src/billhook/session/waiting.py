"""How long a session waits, and for what."""

import inspect
from typing import Any, Final

HURRY: Final = 5.0  # seconds for the hooks of an event that comes with an interrupt, and of the session's end


async def awaited(value: Any) -> Any:
    """The value, or what it becomes: callers may give functions of either kind."""
    return await value if inspect.isawaitable(value) else value

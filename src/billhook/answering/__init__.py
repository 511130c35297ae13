"""Being an agent's hook: an event in its dialect comes in, what a hook of it says goes out.

`billhook hook` does so once in a process of its own, the daemon for many callers. Neither knows the other.
"""

from billhook.answering.answering import Answering, Fire, HookResponse
from billhook.answering.arguments import Arguments

__all__ = ["Answering", "Arguments", "Fire", "HookResponse"]

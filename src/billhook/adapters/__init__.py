"""Billhook inside other agent frameworks: one module per framework.

Imports: core, agents, engine, config, session.
"""

from billhook.adapters.runs import BlockedError, StoppedError

__all__ = ["BlockedError", "StoppedError"]

"""From files to hooks: readers, layers, trust, the recorder, lint, explanations.

Imports: core, effects, agents, engine, runners, store, builtins, approvals.
"""

from typing import TYPE_CHECKING, Any

from billhook.config.declaration import LAYERS, HookDeclaration, Layer
from billhook.core.text import Finding

if TYPE_CHECKING:
    from billhook.config.config import Config, Entry
    from billhook.config.loader import load, load_config


def __getattr__(name: str) -> Any:
    """Import these names on first use, because their modules import most of the package."""
    if name in ("Config", "Entry", "load", "load_config"):
        import importlib

        module = "config" if name in ("Config", "Entry") else "loader"
        return getattr(importlib.import_module(f"billhook.config.{module}"), name)
    raise AttributeError(f"module 'billhook.config' has no attribute {name!r}")


__all__ = ["LAYERS", "Config", "Entry", "Finding", "HookDeclaration", "Layer", "load", "load_config"]

"""Hooks from files: which files there are, what they declare, what may run.

The way of one hook: `sources` finds the file, `reading` reads it into nodes with their places, `shapes` turns any
accepted shape into `Declared` records, `merging` lets the layers add up, `consent` says what may run, `building` makes
the hook, and `load` does all of it.
"""

from typing import TYPE_CHECKING, Any

from billhook.config.declared import LAYERS, Declared, Layer
from billhook.config.findings import Finding

if TYPE_CHECKING:
    from billhook.config.loaded import Config, Entry
    from billhook.config.loading import load, load_config


def __getattr__(name: str) -> Any:
    """What brings the whole machinery with it is imported when it is first used."""
    if name in ("Config", "Entry", "load", "load_config"):
        import importlib

        module = "loaded" if name in ("Config", "Entry") else "loading"
        return getattr(importlib.import_module(f"billhook.config.{module}"), name)
    raise AttributeError(f"module 'billhook.config' has no attribute {name!r}")


__all__ = ["LAYERS", "Config", "Declared", "Entry", "Finding", "Layer", "load", "load_config"]

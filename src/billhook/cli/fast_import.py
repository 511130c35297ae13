"""Imports msgspec without its dependencies for types that no event has.

A hook starts at every tool call, and half of its start-up would be indirect imports: typing_extensions, which repeats
`typing`; JSON Schema; a second `datetime` in Python; `uuid` and `decimal` for values that JSON does not have. Those
that are used later are imported then. Only a process that is just a hook calls this: no other code runs in it.
"""

import sys
from types import ModuleType
from typing import Any

__all__ = ["import_lightly"]


def import_lightly() -> None:
    """Import msgspec and pathlib. The stand-ins are removed afterwards, and no module is changed."""
    if "msgspec" in sys.modules:
        return
    stand_ins = {name: module for name, module in _stand_ins().items() if name not in sys.modules}
    sys.modules.update(stand_ins)  # type: ignore[arg-type]  # None means: no such module
    try:
        import pathlib  # noqa: F401

        import msgspec  # noqa: F401
    except Exception:  # another version needs more: import it the usual way
        for name in [name for name in sys.modules if name == "pathlib" or name.partition(".")[0] == "msgspec"]:
            del sys.modules[name]
    finally:
        for name, module in stand_ins.items():
            if sys.modules.get(name, module) is module:
                sys.modules.pop(name, None)


def _stand_ins() -> dict[str, ModuleType | None]:
    return {
        "typing_extensions": None,
        "uuid": _module("uuid", UUID=_Nothing, SafeUUID=_Nothing),
        "decimal": _module("decimal", Decimal=_Nothing),
        "datetime": _datetime(),
        "urllib.parse": _module("urllib.parse", quote_from_bytes=_later("urllib.parse", "quote_from_bytes")),
        **{name: _LazyModule(name) for name in ("msgspec.inspect", "msgspec.toml", "msgspec.yaml")},
        "msgspec._json_schema": _module(
            "msgspec._json_schema",
            schema=_later("msgspec._json_schema", "schema"),
            schema_components=_later("msgspec._json_schema", "schema_components"),
        ),
    }


def _module(name: str, **names: Any) -> ModuleType:
    module = ModuleType(name)
    module.__dict__.update(names)
    return module


def _datetime() -> ModuleType | None:
    """The C implementation of `datetime`, without the Python fallback."""
    import importlib

    try:
        return importlib.import_module("_datetime")
    except ImportError:
        return importlib.import_module("datetime")


class _Nothing:
    """A type that no value has."""

    unknown = None


def _later(module: str, name: str) -> Any:
    """A function that imports itself when it is called."""

    def call(*arguments: Any, **named: Any) -> Any:
        import importlib

        return getattr(importlib.import_module(module), name)(*arguments, **named)

    return call


class _LazyModule(ModuleType):
    """A module that is imported when one of its names is used."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        import importlib

        return getattr(importlib.import_module(self.__name__), name)

"""Modules that are imported, and patterns that are compiled, on first use: `billhook hook` starts at every tool call,
and needs few of them.

Beside `asyncio = later("asyncio")` in a module, there is an import for type checkers.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cached_property
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any, AnyStr, Generic, TypeVar, cast

if TYPE_CHECKING:
    from billhook.agents.base import Agent


def lazy_module(name: str) -> Any:
    """A module that is imported on first use of anything in it. From then on it has no extra cost."""
    _registered.append(name)
    return _DeferredModule(name)


_registered: list[str] = []


def import_all() -> None:
    """Import now what was deferred, before other code can put its own module in that place."""
    while _registered:
        try:
            import_module(_registered.pop())
        except ImportError:  # on another platform, or an extra that is not installed
            pass


class _DeferredModule(ModuleType):
    def __getattr__(self, name: str) -> Any:
        module = import_module(self.__name__)
        if name not in module.__dict__:
            return getattr(module, name)
        self.__dict__.update(module.__dict__)
        return module.__dict__[name]


def pattern(text: AnyStr, flags: int = 0) -> re.Pattern[AnyStr]:
    """`re.compile`, on first use of the pattern."""
    return cast("re.Pattern[AnyStr]", _LazyPattern(text, flags))


class _LazyPattern:
    def __init__(self, text: Any, flags: int) -> None:
        self._made_of = text, flags

    def __getattr__(self, name: str) -> Any:
        found = getattr(re.compile(*self._made_of), name)
        self.__dict__[name] = found
        return found


# Tables whose values are made on first use, and the table of agents.


T = TypeVar("T")
_PROVIDER = "billhook.agents"


class LazyTable(Mapping[str, T], Generic[T]):
    """A table whose values are made on first use; so are its names, if a function returns them."""

    def __init__(self, names: Iterable[str] | Callable[[], Iterable[str]], make: Callable[[str], T]) -> None:
        self._given, self._make = names, make
        self._made: dict[str, T] = {}

    @cached_property
    def _names(self) -> dict[str, None]:
        return dict.fromkeys(self._given() if callable(self._given) else self._given)

    def __getitem__(self, name: str) -> T:
        made = self._made.get(name)
        if made is None:
            made = self._made[name] = self._make(name)
        return made

    def __contains__(self, name: object) -> bool:
        return name in self._names

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


_EFFECTS = "billhook.effects.analysis"


def analysed(event: object) -> Any:
    """The effects of a tool call, from the room `effects`."""
    return import_module(_EFFECTS).analysis_of(event)


def _provided() -> Any:
    return import_module(_PROVIDER).AGENTS


AGENTS: "LazyTable[Agent]" = LazyTable(_provided, lambda name: _provided()[name])

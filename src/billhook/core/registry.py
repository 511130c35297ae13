"""Tables whose values are made when they are used, and the table of agents.

Core knows agents by name only: their records are loaded by the room that has them, as plugins would be, when a table
is first used.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cached_property
from importlib import import_module
from typing import TYPE_CHECKING, Any, Generic, TypeVar

if TYPE_CHECKING:
    from billhook.agents.base import Agent

T = TypeVar("T")
_PROVIDER = "billhook.agents"


class LazyTable(Mapping[str, T], Generic[T]):
    """A table whose values are made when they are used; so are its names, where they are given by a function."""

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


def _provided() -> Any:
    return import_module(_PROVIDER).AGENTS


AGENTS: "LazyTable[Agent]" = LazyTable(_provided, lambda name: _provided()[name])

"""What the rest of billhook knows of state and log: two small interfaces, whoever serves them."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from typing import Protocol
else:
    Protocol = object  # at run time an interface is only a name

Value = dict[str, Any]


class State(Protocol):
    """Small records by kind and key (`turns`, a session's id). The key may be any text. Raises StoreError."""

    def read(self, kind: str, key: str) -> Value | None:
        """The record as it is now; None: there is none."""

    def update(self, kind: str, key: str, change: Callable[[Value | None], Value | None]) -> Value | None:
        """Replace a record by what `change` makes of it, with nobody else in between; returns the new record.

        `change` gets None where there is none, and returns None to leave everything as it is.
        """


class Appended(NamedTuple):
    """Where a record stands in the log, once it is there."""

    seq: int
    hash: str


class Log(Protocol):
    """An event log. What `append` returned for is in it: whole, once, in order."""

    def append(self, content: Mapping[str, Any]) -> Appended:
        """Add one record. Raises StoreError, and then nothing was added."""

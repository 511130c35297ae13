"""A hook is one flat record: when it is asked, in which order, and what it does."""

import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, NamedTuple

import msgspec

from billhook.answers import Answer, Note, OnFailure, Outcome, Reply, written_out
from billhook.events import Event


class Source(msgspec.Struct, frozen=True):
    """Where a hook came from, so that every message can say so."""

    layer: str = ""
    file: str = ""
    line: int = 0

    def __str__(self) -> str:
        place = f"{self.file}:{self.line}" if self.line else self.file
        return f"{self.layer} {place}".strip()


class _Shared(NamedTuple):
    results: dict[str, Outcome]
    state: dict[str, Any]
    env: dict[str, str]


class Context(msgspec.Struct):
    """One firing, as its hooks see it. Lives from the first hook that is asked to the verdict."""

    event: Event
    _notes: list[Note]
    _env: Mapping[str, str] = {}
    _shared: "_Shared | None" = None  # most firings never need it
    deadline: float = float("inf")
    """When the hook that is being asked must have answered, on the monotonic clock."""

    @property
    def results(self) -> dict[str, Outcome]:
        """What earlier hooks did, by `{name}-{Event}`."""
        results = self._all.results
        for note in self._notes[len(results) :]:
            outcome = written_out(note)
            results[f"{outcome.hook}-{self.event_type}"] = outcome
        return results

    @property
    def state(self) -> dict[str, Any]:
        """Shared by the hooks of this firing."""
        return self._all.state

    @property
    def env(self) -> dict[str, str]:
        """More environment for the hooks of this firing that are commands."""
        return self._all.env

    @property
    def _all(self) -> "_Shared":
        if self._shared is None:
            self._shared = _Shared({}, {}, dict(self._env))
        return self._shared

    def copy(self) -> "Context":
        """The same firing for a hook that is asked at the same time as others: its own deadline, the rest shared."""
        twin = Context(self.event, self._notes, self._env)
        twin._shared = self._all
        return twin

    @property
    def event_type(self) -> str:
        return self.event.hook_event_name

    @property
    def session_id(self) -> str:
        return self.event.session_id

    @property
    def cwd(self) -> str:
        return self.event.cwd

    @property
    def payload(self) -> dict[str, Any]:
        """The event as received, with the input as rewritten so far."""
        return self.event.payload

    @property
    def seconds_left(self) -> float:
        return self.deadline - time.monotonic()

    def find(self, prefix: str) -> Outcome | None:
        """The result of the hook of that name, with or without the event's name at its end.

        Exact on purpose: a hook called `turn-tracker-evil` can't pose as `turn-tracker`.
        """
        return self.results.get(f"{prefix}-{self.event_type}") or self.results.get(prefix)


Handler = Callable[[Context], "Answer | Reply | dict[str, Any] | Awaitable[Any] | None"]
"""What a hook does: one callable from Context to Answer. All kinds of hooks differ only in how theirs was made."""

Condition = Callable[[Context], object]


class Hook(msgspec.Struct, frozen=True, kw_only=True):
    """When (events, match, condition), in which order (priority, after), what (run)."""

    name: str
    run: Handler
    events: tuple[str, ...] = ()
    """The names of the events it wants; none: every event."""
    title: str = ""
    match: str | None = None
    """A pattern for the tool's name, or for the field that the event gives instead; read as the dialect says."""
    condition: Condition | None = None
    priority: int = 100
    after: tuple[str, ...] = ()
    timeout: float | None = None
    """Seconds; None: the dialect's default for the event."""
    on_failure: OnFailure = "allow"
    background: bool = False
    dialect: str = "spec"
    source: Source = Source()
    budget: str = ""
    """Hooks that name the same budget share one timeout."""

    @property
    def gate(self) -> bool:
        """It does not fail open."""
        return self.on_failure != "allow"

    @property
    def shown(self) -> str:
        return self.title or self.name


Options = Mapping[str, Any]

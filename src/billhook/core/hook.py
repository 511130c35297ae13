"""A hook is one flat record: when it runs, in which order, and what it does."""

import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from billhook.core.answer_schema import read_returned
from billhook.core.answers import Answer, OnFailure, Outcome, RawOutcome, Reply, new_id, to_outcome
from billhook.core.dialect_traits import Meanings, meanings
from billhook.core.errors import UsageError
from billhook.core.events import EVENTS, Event, parse
from billhook.core.lazy import lazy_module

if TYPE_CHECKING:
    from typing import Protocol

    from billhook.core import text
    from billhook.engine.background import Background
    from billhook.engine.progress import Listeners, RunReport
else:
    text = lazy_module("billhook.core.text")
    Protocol = object  # at run time the interface is not needed


class Source(msgspec.Struct, frozen=True):
    """Where a hook came from, for every message about it."""

    layer: str = ""
    file: str = ""
    line: int = 0

    def __str__(self) -> str:
        place = f"{self.file}:{self.line}" if self.line else self.file
        return f"{self.layer} {place}".strip()


class Known(msgspec.Struct, frozen=True):
    """Facts about an event's session that are not in the event."""

    session_name: str = ""
    turn_id: str = ""
    effects: frozenset[str] | None = None


_UNKNOWN = Known()


class SessionInfo(Protocol):
    """The same, looked up on first use."""

    @property
    def session_name(self) -> str: ...
    @property
    def turn_id(self) -> str: ...
    @property
    def effects(self) -> frozenset[str] | None: ...


class Services(Protocol):
    """What a hook in the background, or a hook with listeners, needs from its engine."""

    @property
    def background(self) -> "Background": ...
    @property
    def audience(self) -> "Listeners": ...


class _Firing(msgspec.Struct):
    """What the hooks of one firing share, made when the first of them uses it."""

    env: dict[str, str]
    id: str = ""  # the verdict's id, once it was reserved
    known: SessionInfo | None = None
    results: dict[str, Outcome] = {}
    written: int = 0  # how many outcomes are in the results
    state: dict[str, Any] = {}
    budgets: dict[str, float] = {}


class Batch(msgspec.Struct):
    """Hooks of one firing that follow each other in one worker process, and need a single request to it."""

    following: "Mapping[Any, Sequence[Any]]"  # by step: the steps that may be sent together with it
    calls: list[bytes] = []  # the parts of a request: of the hook that runs now, and of those after it
    next: "Callable[[Context], Awaitable[Reply | None]] | None" = None
    """Returns the reply of the next hook that was sent; None if it was not started. Set while there are such hooks."""
    seconds: float = 0.0  # how long the hook of the last reply ran: it may have begun before its reply was awaited


class Context(msgspec.Struct):
    """One firing, as its hooks see it. Lives from the first hook to the verdict."""

    event: Event
    _outcomes: Sequence[RawOutcome]
    _env: Mapping[str, str] = {}
    _session_info: "Callable[[Event], SessionInfo] | None" = None
    _engine: "Services | None" = None
    ends: float = float("inf")  # the event's deadline, on the monotonic clock
    deadline: float = float("inf")  # the deadline of the hook that runs now, on the same clock
    shared: _Firing | None = None  # most firings never need it
    asking: "RunReport | None" = None  # tells listeners of the hook that runs now
    options: dict[str, Any] = {}  # `options` of the hook that runs now, if its file has any
    batch: Batch | None = None  # if some hooks can be sent to their worker together

    @property
    def results(self) -> dict[str, Outcome]:
        """What earlier hooks did, by `{name}-{Event}`."""
        firing = self._firing
        raw = self._outcomes[firing.written :]
        firing.written += len(raw)
        for outcome in map(to_outcome, raw):
            firing.results[f"{outcome.hook}-{self.event_type}"] = outcome
        return firing.results

    @property
    def earlier(self) -> list[Outcome]:
        """The answers and data of earlier hooks, without built-ins and empty answers."""
        found = (raw for raw in self._outcomes if type(raw) is not tuple)
        return [one for one in found if not one.source.startswith("built-in")]  # type: ignore[union-attr,misc]

    @property
    def state(self) -> dict[str, Any]:
        """Shared by the hooks of this firing."""
        return self._firing.state

    @property
    def env(self) -> dict[str, str]:
        """More environment variables for the commands among the hooks of this firing."""
        return self._firing.env

    @property
    def _firing(self) -> _Firing:
        if self.shared is None:
            self.shared = _Firing(dict(self._env))
        return self.shared

    def within(self, budget: str, ends: float) -> float:
        """The deadline of a budget that several hooks share; its clock starts with the first of them."""
        return self._firing.budgets.setdefault(budget, ends)

    def copy(self) -> "Context":
        """The same firing for a hook that runs in parallel with others: only the deadline is separate."""
        return Context(
            self.event, self._outcomes, self._env, self._session_info, self._engine, self.ends, shared=self._firing
        )

    def detached(self) -> "Context":
        """A separate firing for a hook in the background, with the hook's full timeout."""
        return Context(self.event, list(self.results.values()), dict(self.env), self._session_info, self._engine)

    @property
    def background(self) -> "Background":
        assert self._engine is not None
        return self._engine.background

    @property
    def audience(self) -> "Listeners":
        assert self._engine is not None
        return self._engine.audience

    @property
    def id(self) -> str:
        """The id of the future verdict."""
        firing = self._firing
        firing.id = firing.id or new_id()
        return firing.id

    @property
    def reserved_id(self) -> str:
        """That id, if it was reserved."""
        return "" if self.shared is None else self.shared.id

    @property
    def event_type(self) -> str:
        return self.event.hook_event_name

    @property
    def session_id(self) -> str:
        return self.event.session_id

    @property
    def session_name(self) -> str:
        """The session's human name; empty if sessions have none."""
        named = self._data_of("session-naming").get("sessionName")
        return str(named) if named else self._known.session_name

    @property
    def turn_id(self) -> str:
        """`{session_id}:{sequence}` of the event's turn; empty if turns are not tracked."""
        told = self._data_of("turn-tracker")
        turn = told.get("turnId") or told.get("completedTurnId")
        return str(turn) if turn else self._known.turn_id

    def _data_of(self, hook: str) -> Mapping[str, Any]:
        """The data that a built-in left at this event."""
        for raw in reversed(self._outcomes):
            if type(raw) is tuple:
                if raw[0].name == hook:
                    return {}
            elif raw.hook == hook:  # type: ignore[union-attr]
                data = raw.answer.data  # type: ignore[union-attr]
                return data if type(data) is dict or isinstance(data, Mapping) else {}
        return {}

    @property
    def turn_sequence(self) -> int | None:
        """The number in `turn_id`."""
        _, _, number = self.turn_id.rpartition(":")
        return int(number) if number.isdecimal() else None

    @property
    def seen_effects(self) -> frozenset[str] | None:
        """The effects of earlier calls of the session, as `kind:scope`; recorded if a hook has `after_effect`. None:
        unknown, because the event has no session, or there is no configuration."""
        return self._known.effects

    @property
    def _known(self) -> SessionInfo:
        """Looked up once in a firing, and only if no result has it."""
        if self._session_info is None:
            return _UNKNOWN
        firing = self._firing
        if firing.known is None:
            firing.known = self._session_info(self.event)
        return firing.known

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
        """The result of the hook with that name, with or without the event's name at its end.

        The comparison is exact: neither a hook called `turn-tracker-evil` nor one called `turn-tracker-PreToolUse` can
        pose as `turn-tracker`.
        """
        suffix = f"-{self.event_type}"
        return (self._last(prefix.removesuffix(suffix)) if prefix.endswith(suffix) else None) or self._last(prefix)

    def _last(self, name: str) -> Outcome | None:
        for raw in reversed(self._outcomes):  # without `results`, which most firings never need
            if name == (raw[0].name if type(raw) is tuple else raw.hook):  # type: ignore[union-attr]
                return to_outcome(raw)
        return None


Handler = Callable[[Context], "Answer | Reply | dict[str, Any] | Awaitable[Any] | None"]
"""What a hook does: one callable from Context to Answer. Kinds of hooks differ only in how it is made."""

Condition = Callable[[Context], object]


class Hook(msgspec.Struct, frozen=True, kw_only=True):
    """When (events, match, condition), in which order (priority, after), what (run)."""

    name: str
    run: Handler
    events: tuple[str, ...] = ()  # the names of its events; none: every event
    title: str = ""
    match: str | None = None
    """A pattern for the tool's name, or for the event's `match_field`; the dialect defines how it is read."""
    condition: Condition | None = None
    priority: int = 100
    after: tuple[str, ...] = ()
    timeout: float | None = None  # seconds; None: the dialect's default for the event
    on_failure: OnFailure = "allow"
    background: bool = False
    always: bool = False  # it also runs after a deny: a logger, an auditor; no hook runs after a stop
    dialect: str = "spec"
    source: Source = Source()
    budget: str = ""  # hooks that name the same budget share one timeout
    shadow: bool = False  # it runs and is recorded, and its answer does not count
    together: str = ""
    """Neighbours with the same word here start at the same time: the agent whose settings they are from does so."""
    review: "Callable[[Event, Outcome], Outcome] | None" = None
    """Called for each objection before it counts: the user may have allowed this call, or paused the hook."""

    def __post_init__(self) -> None:
        """Accept spellings with a clear meaning: one event for a tuple of one, `pre_tool_use`, `block`."""
        if not isinstance(self.match, str | None):
            raise UsageError(f"match is {self.match!r}", hint='one string: "Bash|Write"')
        settled = {
            "events": _named(self.events),
            "after": tuple(_several(self.after)),
            "on_failure": FAILURE_RULES.get(self.on_failure),
        }
        if settled["on_failure"] is None:
            raise UsageError(f"on_failure is `{self.on_failure}`", hint="one of allow, deny (also spelt block), ask")
        for field, value in settled.items():
            msgspec.structs.force_setattr(self, field, value)

    @property
    def gate(self) -> bool:
        """It does not fail open."""
        return self.on_failure != "allow" and not self.shadow

    @property
    def shown(self) -> str:
        return self.title or self.name

    @property
    def handles_failures(self) -> bool:
        """It listens for PostToolUse, and also gets the events of failed tools."""
        return _handles_failures(self.events, self.dialect)

    def handles(self, event: str) -> bool:
        """Whether it listens for events of this name."""
        return listens(self.events, self.dialect, event)


def listens(events: Sequence[str], dialect: str, event: str) -> bool:
    """Whether a hook that names these events (none: every event) runs for this one."""
    return not events or event in events or (event == _FAILED and _handles_failures(events, dialect))


def _handles_failures(events: Sequence[str], dialect: str) -> bool:
    """Seeds 000, 003 and 004 have one event after the tool, with a flag for a tool that failed."""
    one_event = meanings(dialect).feedback is not None
    return one_event and _AFTER in events and _FAILED not in events


_AFTER, _FAILED = "PostToolUse", "PostToolUseFailure"


class FailedToolHandler(msgspec.Struct, frozen=True):
    """A handler that gets a failed tool as PostToolUse, with the error flag set."""

    run: Handler
    meanings: Meanings

    async def __call__(self, ctx: Context) -> Any:
        told = ctx.copy()
        told.deadline = ctx.deadline
        rest = {key: value for key, value in ctx.event.payload.items() if key not in ("error", "is_interrupt")}
        flagged = {"tool_response": getattr(ctx.event, "error", ""), "tool_result_is_error": True}
        told.event = parse({**rest, "hook_event_name": _AFTER, **flagged})
        told.event.copy_sent_input(ctx.event)
        value: Any = self.run(told)
        return read_returned(told.event, await value if isinstance(value, Awaitable) else value, self.meanings)


def event_name(event: type[Event] | str) -> str:
    """The name of an event, given as its type or as a string; UsageError if it is clearly a typo."""
    if isinstance(event, type) and issubclass(event, Event):
        return event.__name__
    if not isinstance(event, str):
        raise UsageError(f"{event!r} is not an event", hint="name one or give its type: PreToolUse")
    if event in EVENTS:
        return str(event)
    near = text.nearest(event, EVENTS, 0.9)
    if near and text.folded(near) != text.folded(event):
        raise UsageError(f"no event `{event}`", hint=f"did you mean `{near}`?")
    return near or event  # an event without a type


def _named(given: Any) -> tuple[str, ...]:
    """The names of events; none when all are meant, by `Event` or `"*"`."""
    events = tuple(_several(given))
    return () if any(event is Event or event == "*" for event in events) else tuple(map(event_name, events))


def _several(given: Any) -> Iterable[Any]:
    return (given,) if isinstance(given, str | type) else given


FAILURE_RULES: dict[str, OnFailure] = {
    "allow": "allow",
    "continue": "allow",
    "ask": "ask",
    "deny": "deny",
    "block": "deny",
}

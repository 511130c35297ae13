"""The observer that writes the event log: what a record has of a verdict and its session, and what is lost."""

import functools
import time
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec
from msgspec.structs import replace

from billhook.agents import DIALECTS, dialect_of
from billhook.agents.child import Dialect, Written
from billhook.builtins.trackers import EVENT_LOGGER
from billhook.config.declaration import BUILTINS, Declared
from billhook.core import strictjson, tools
from billhook.core.answers import NOTHING, UNSET, Answer, Decision, Outcome, SkipReason, Status, Verdict
from billhook.core.errors import BillhookError, UnrecordedError
from billhook.core.events import EVENTS, JSON_FIELDS, Event
from billhook.core.hook import Context, Hook, SessionInfo
from billhook.core.lazy import later
from billhook.store.files import StoreError
from billhook.store.state import FileState

if TYPE_CHECKING:
    from billhook.config.config import Config, ConfigSnapshot
    from billhook.store import sessions as stored
    from billhook.store.log.eventlog import EventLog
    from billhook.store.redaction import Redactor
else:
    stored = later("billhook.store.sessions")


class Unsaid(NamedTuple):
    """What of a verdict does not reach the agent, or not now."""

    lost: tuple[str, ...] = ()
    by_hook: tuple[tuple[str, ...], ...] = ()  # the same for each outcome, in their order: of what that hook said


class Encoded(NamedTuple):
    """A verdict as one answer, and that in an agent's words."""

    answer: Answer
    written: Written


def encoded(verdict: Verdict, dialect: Dialect) -> Encoded:
    """The verdict for an agent: encoded once, for its record and for the agent itself."""
    known: tuple[Dialect, Encoded] | None = verdict.__dict__.get("encoded")
    if known is None or known[0] is not dialect:
        answer = verdict.as_answer(dialect.meanings.join)
        known = dialect, Encoded(answer, dialect.write_exit(verdict.about, answer))
        verdict.__dict__["encoded"] = known
    return known[1]


def unsaid(verdict: Verdict, host: str) -> Unsaid:
    """What can't be said to whom we serve; nothing where the host speaks no dialect."""
    name = dialect_of(host).removeprefix("http:")
    if name not in DIALECTS:
        return Unsaid()
    dialect = DIALECTS[name]
    lost = _lost(name, lambda: encoded(verdict, dialect).written)
    if not lost:
        return Unsaid()
    by_hook = [_of_hook(dialect, name, verdict.about, outcome.answer, lost) for outcome in verdict.outcomes]
    return Unsaid(lost, tuple(by_hook))


def noted(outcomes: list[dict[str, Any]], by_hook: Sequence[tuple[str, ...]]) -> list[dict[str, Any]]:
    """Outcomes as the log has them, each with what was lost of it."""
    if not by_hook:
        return outcomes
    pairs = zip(outcomes, by_hook, strict=True)
    return [{**one, "lost": [*one.get("lost", ()), *lost]} if lost else one for one, lost in pairs]


def _of_hook(dialect: Dialect, name: str, event: Event, answer: Answer, of_all: tuple[str, ...]) -> tuple[str, ...]:
    """Of what is lost, that which this hook said."""
    if answer is NOTHING:
        return ()
    own = _lost(name, lambda: dialect.write_exit(event, replace(answer, data=None, background=False)))
    return tuple(one for one in own if one in of_all)


def _lost(name: str, write: Callable[[], Written]) -> tuple[str, ...]:
    try:
        written = write()
    except Exception as error:  # a hook in Python may say anything; what is wrong with it is told with the answer
        return (f"it can't be said to `{name}`: {type(error).__name__}: {error}",)
    held = ("context is held for a later event",) if written.held else ()
    return tuple(f"the `{name}` dialect can't say everything: {one}" for one in (*written.lost, *held))


# What is known of an event's session at every event:


class Knowing(msgspec.Struct, frozen=True):
    """Looks up the session of an event."""

    state: FileState
    project: str
    names: bool  # whether sessions have names
    turns: bool  # whether turns are tracked

    def __call__(self, event: Event) -> "Looked":
        return Looked(self, event.session_id)


class Looked:
    """One session, looked up when somebody asks. Never raises: where nothing can be read or written, the built-ins say
    so, and nothing is known."""

    def __init__(self, knowing: Knowing, session_id: str) -> None:
        self.knowing, self.session_id = knowing, session_id
        self._name: str | None = None
        self._turn: str | None = None

    @property
    def effects(self) -> frozenset[str] | None:
        """What earlier calls of the session would do; None: no session is named. Raises StoreError: a gate that depends
        on it must not take "not readable" for "not seen"."""
        from billhook.builtins.seen_effects import seen_in

        return seen_in(self.knowing.state, self.session_id) if self.session_id else None

    @property
    def session_name(self) -> str:
        """Its name. One that nobody named yet, because its start was not seen, gets its name here."""
        if self._name is None:
            self._name = self._find_name() if self.knowing.names and self.session_id else ""
        return self._name

    @property
    def turn_id(self) -> str:
        """The turn that it is in."""
        if self._turn is None:
            self._turn = self._find_turn() if self.knowing.turns and self.session_id else ""
        return self._turn

    def _find_name(self) -> str:
        state, session_id = self.knowing.state, self.session_id
        try:
            found = state.value("sessions", session_id, stored.recorded)
            return (found or stored.Sessions(state).named(session_id, self.knowing.project)[0]).name
        except StoreError:
            return ""

    def _find_turn(self) -> str:
        from billhook.builtins.trackers import turn_of

        try:
            return turn_of(self.knowing.state, self.session_id)[0]
        except StoreError:
            return ""


# The observer that writes the event log:


_BY_STATE: Final = {
    "off": SkipReason.DISABLED,
    "new": SkipReason.NOT_TRUSTED,
    "changed": SkipReason.NOT_TRUSTED,
    "broken": SkipReason.BROKEN,
    "not yet": SkipReason.NOT_YET,
    "same": SkipReason.SAME,
    "elsewhere": SkipReason.ELSEWHERE,
}
_WHOSE: Final = ("transcript_path", "permission_mode", "agent_id", "agent_type")
"""Fields of every event that a record has by the same name, where they are not empty."""
_ABOUT_ALL: Final = frozenset(
    {"hook_event_name", "session_id", "cwd", "tool_name", "tool_input", "tool_response"}
    | {"tool_use_id", "tool_result_is_error", "tool_output", *_WHOSE}
)
"""Fields of an event that have a place of their own in a record, or none."""
_PLACED: Final = {name: _ABOUT_ALL.difference(set(kind.__annotations__) & {*_WHOSE}) for name, kind in EVENTS.items()}
"""The same by event, without those that are its own all the same: a subagent's start is about that agent."""
_OK, _NONE = Status.OK, Decision.NONE
_MOST_EVENTS: Final = 256  # kinds of events that are remembered: their names come from outside


class Recording:
    """The event log of one loaded configuration. Lives as long as that; everything is opened at the first record."""

    def __init__(self, config: "Config", options: Mapping[str, Any], know: Callable[[Event], SessionInfo]) -> None:
        self.config, self.options, self.know = config, options, know
        self._considered: dict[str, dict[str, SkipReason]] = {}

    def observer(self, host: str, own: Sequence[Hook] = ()) -> Callable[[Verdict], None]:
        """Writes the verdicts of an engine that serves this host, and has hooks of the host's own. Raises
        UnrecordedError."""

        def record(verdict: Verdict) -> None:
            lost = "it was not recorded"
            try:
                self._log.append(self.content(verdict, host, own))
                lost = "its configuration was not kept"
                if not self._snapshot.is_kept:
                    self._snapshot.keep()
            except BillhookError as error:
                raise self._unrecorded(f"{lost}: {error.message}", error.place, error.hint) from error
            except Exception as error:
                raise self._unrecorded(f"{lost}: {type(error).__name__}: {error}") from error

        return record

    def _unrecorded(self, message: str, place: str = "", hint: str = "") -> UnrecordedError:
        denies = self.options["on_log_failure"] == "deny"
        return UnrecordedError(message, hook=EVENT_LOGGER, deny=denies, place=place, hint=hint)

    @property
    def problem(self) -> str:
        """What is wrong with how secrets are taken out; nothing where all is well."""
        found = None if self._redactor is None else self._redactor.problem
        return "" if found is None else f"{found.place}: {found.message}" if found.place else found.message

    # -- what is needed, made once

    @cached_property
    def _log(self) -> "EventLog":
        from billhook.store.log.eventlog import open_log

        options = self.options
        return open_log(
            Path(self.config.root), self.config.project, max_bytes=options["max_bytes"], sync=options["sync"]
        )

    @cached_property
    def _redactor(self) -> "Redactor | None":
        if not self.options["redact"]:
            return None
        from billhook.store.redaction import redactor

        return redactor(Path(self.config.root), more_keys=self.options["redact_keys"])

    @cached_property
    def _snapshot(self) -> "ConfigSnapshot":
        from billhook.config.config import ConfigSnapshot

        return ConfigSnapshot(
            self.config, lambda value: value if self._redactor is None else self._redactor.value(value)
        )

    # -- one record

    def content(self, verdict: Verdict, host: str, own: Sequence[Hook] = ()) -> dict[str, Any]:
        """What the log says of a verdict, secrets taken out."""
        event = verdict.about
        session = Context(event, verdict.outcomes, {}, self.know)
        tool = _tool(event)
        canonical = tools.canonical(tool) if tool else None
        texts, quiet = self._texts(verdict, tool, canonical), _is_quiet(verdict)
        outcomes = [_said(outcome, quiet) for outcome in verdict.outcomes]
        if not quiet:
            texts |= _outcomes(verdict, outcomes, host)
        redacted = None if self._redactor is None else self._redactor.redacted(texts)
        texts = texts if redacted is None else redacted.value
        if quiet:  # there are no words of anybody's in them
            texts["outcomes"] = outcomes
        return {
            "id": verdict.id,
            "time": _utc(time.time_ns()),
            "mono": int(time.monotonic() * 1e6) / 1e6,
            "event": event.hook_event_name,
            "session_id": event.session_id,
            "session_name": session.session_name,
            "turn_id": session.turn_id,
            "tool": canonical,
            "tool_use_id": _tool_use(event),
            "cwd": event.cwd,
            "project": self.config.project,
            "host": host,
            "decision": verdict.decision,
            "stop": verdict.stop,
            "keep_going": verdict.keep_going,
            "failed_open": verdict.failed_open,
            "duration_ms": _to_the_microsecond(verdict.duration_ms),
            "config": self._snapshot.hash,
            "redacted": 0 if redacted is None else redacted.texts,
            **texts,
            "not_asked": self._not_asked(verdict, own, quiet=quiet),
        }

    def _texts(self, verdict: Verdict, tool: str, canonical: str | None) -> dict[str, Any]:
        """Where somebody's words stand, but for the outcomes. What is empty is left out; the reason is always there."""
        event, options = verdict.about, self.options
        texts: dict[str, Any] = {"reason": verdict.reason or verdict.stop_reason or None}
        for key in _WHOSE:
            if value := getattr(event, key):
                texts[key] = str(value)
        known = event.was_read
        if options["include_input"]:
            given, fields = _input_and_fields(event, tool, canonical)
            if given is not None:
                texts["input"] = given if known else _writable(given)
            if fields:
                texts["fields"] = fields
        if options["include_output"] and (output := _output(event)) is not None:
            texts["output"] = output if known else _writable(output)
        if verdict.speaks:
            texts |= self._rewritten(verdict)
            if verdict.context:
                texts["context"] = verdict.context
            if verdict.messages:
                texts["messages"] = verdict.messages
        return texts

    def _rewritten(self, verdict: Verdict) -> dict[str, Any]:
        rewritten: dict[str, Any] = {}
        if self.options["include_input"] and verdict.tool_input is not None:
            rewritten["rewritten_input"] = _writable(verdict.tool_input)
        if self.options["include_output"] and verdict.tool_output is not UNSET and verdict.tool_output is not None:
            rewritten["rewritten_output"] = _writable(verdict.tool_output)
        return rewritten

    # -- who was not asked

    def _not_asked(self, verdict: Verdict, own: Sequence[Hook], *, quiet: bool) -> dict[str, str]:
        considered = self._considered.get(verdict.event)
        if considered is None:
            considered = self._find_considered(verdict.event)
        if quiet and not considered and not own:
            return {}
        asked = {outcome.hook: outcome for outcome in verdict.outcomes}
        unmatched = SkipReason.NOT_MATCHED
        if not asked and (verdict.reason or verdict.failed_open):
            unmatched = SkipReason.NOT_JUDGED
        found: dict[str, str] = {
            name: unmatched if why is SkipReason.NOT_MATCHED else why
            for name, why in considered.items()
            if name not in asked
        }
        found |= {hook.name: unmatched for hook in own if hook.name not in asked and hook.wants(verdict.event)}
        for name, outcome in asked.items():
            if outcome.status is Status.SKIPPED and outcome.source != "built-in":
                why = outcome.error if outcome.skipped is None else outcome.skipped.recorded
                found[name] = self._untrusted.get(name) or why
        return found

    def _find_considered(self, event: str) -> dict[str, SkipReason]:
        """The hooks that are configured for an event, and why one of them is not asked, if it is not."""
        considered = {
            entry.shown: _BY_STATE.get(entry.state, SkipReason.NOT_MATCHED)
            for entry in self.config.entries
            if _concerns(entry.declared, event)
        }
        considered |= dict.fromkeys(self.config.switched_off_builtins(event), SkipReason.DISABLED)
        if len(self._considered) < _MOST_EVENTS:
            self._considered[event] = considered
        return considered

    @cached_property
    def _untrusted(self) -> dict[str, SkipReason]:
        found = {entry.shown: _BY_STATE.get(entry.state) for entry in self.config.entries}
        return {name: why for name, why in found.items() if why is SkipReason.NOT_TRUSTED}


def _is_quiet(verdict: Verdict) -> bool:
    """Whether only built-ins ran and none objects: the usual case."""
    if verdict.speaks or verdict.reason:
        return False
    for outcome in verdict.outcomes:
        if outcome.source != "built-in" or outcome.hook not in BUILTINS or outcome.status is not _OK or outcome.lost:
            return False
    return True


def _outcomes(verdict: Verdict, outcomes: list[dict[str, Any]], host: str) -> dict[str, Any]:
    """What each hook said, and what of it the host can't be told."""
    if not verdict.speaks:
        return {"outcomes": outcomes}

    lost, by_hook = unsaid(verdict, host)
    return {**({"lost": list(lost)} if lost else {}), "outcomes": noted(outcomes, by_hook)}


def _concerns(declared: Declared, event: str) -> bool:
    """Whether an entry is a hook for that event; one that only switches another off is none."""
    is_switch = declared.action is None and not declared.enabled and not declared.broken
    return not is_switch and declared.wants(event)


def _said(outcome: Outcome, quiet: bool) -> dict[str, Any]:
    """An outcome as the log has it: what is usual is left out, because ten silent hooks are the usual case."""
    answer, status, decision = outcome.answer, outcome.status, outcome.answer.decision
    said: dict[str, Any] = {
        "hook": outcome.hook,
        "source": outcome.source,
        "dialect": outcome.dialect,
        "status": "ok" if status is _OK else status.value,
        "decision": "none" if decision is _NONE else decision.value,
    }
    if not outcome.source:
        del said["source"]
    if outcome.skipped is not None:
        said["error"] = outcome.error
    elif not quiet and (status is not _OK or outcome.exit_code or outcome.lost or answer.speaks):
        said |= {key: value for key, read in _UNUSUAL.items() if (value := read(outcome))}
    if took := _to_the_microsecond(outcome.duration_ms):
        said["duration_ms"] = took
    if outcome.output_bytes is not None:
        said["output_bytes"] = outcome.output_bytes
    if answer.data is not None:
        said["data"] = answer.data if outcome.source == "built-in" else _writable(answer.data)
    return said


_UNUSUAL: Final[dict[str, Callable[[Outcome], Any]]] = {
    "reason": lambda outcome: outcome.answer.reason or outcome.answer.stop_reason,
    **{name: attrgetter(name) for name in ("exit_code", "signal", "failed_open", "error", "lost")},
    **{name: attrgetter(f"answer.{name}") for name in ("stop", "keep_going", "context", "message")},
    "rewrote_input": lambda outcome: outcome.answer.updated_input is not None,
    "rewrote_output": lambda outcome: outcome.answer.updated_output is not UNSET,
}


def _to_the_microsecond(ms: float) -> float:
    """As `round` does, at a tenth of its price: there are many in each record."""
    return int(ms * 1000 + 0.5) / 1000


def _writable(value: Any) -> Any:
    """The value; a text that says so in place of one that nobody can write down. In a program of Python a hook may give
    anything: a loop, an object that does not like to be shown."""
    try:
        strictjson.encode(value)
    except Exception:
        return f"[not recorded: this {type(value).__name__} can't be written as JSON]"
    return value


def _tool(event: Event) -> str:
    found = getattr(event, "tool_name", None) or event.payload.get("tool_name")
    return found if isinstance(found, str) else ""


def _tool_use(event: Event) -> str | None:
    found = getattr(event, "tool_use_id", None) or event.payload.get("tool_use_id")
    return found if isinstance(found, str) else None


def _input_and_fields(event: Event, tool: str, canonical: str | None) -> tuple[Any, dict[str, Any]]:
    """The tool's input, and what its event says beside input and output; of other events, their own fields as input."""
    rest, payload = _rest(event), event.payload
    if not hasattr(event, "tool_input") and "tool_input" not in payload:
        return rest or None, {}
    given = event.tool_input if hasattr(event, "tool_input") else payload["tool_input"]
    if tool and canonical != tool:
        rest["tool_name"] = tool
    if event.hook_event_name == "PostToolUseFailure":
        rest.pop("error", None)  # it is the output
    for field in JSON_FIELDS:  # as input and output, null is not written
        if getattr(event, field, "") is None:
            rest[field] = None
    return given, {key: _writable(value) for key, value in rest.items()}


def _rest(event: Event) -> dict[str, Any]:
    """The fields of an event that have no place of their own in a record, and those that it is about."""
    placed, payload = _PLACED.get(event.hook_event_name, _ABOUT_ALL), event.payload
    return {} if payload.keys() <= placed else {key: value for key, value in payload.items() if key not in placed}


def _output(event: Event) -> Any:
    if event.hook_event_name == "PostToolUseFailure":
        return getattr(event, "error", None)
    return getattr(event, "tool_response", None)


def _utc(nanoseconds: int) -> str:
    seconds, rest = divmod(nanoseconds, 1_000_000_000)
    return f"{_to_the_second(seconds)}.{rest // 1000:06d}Z"


@functools.lru_cache(maxsize=1)
def _to_the_second(seconds: int) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds))

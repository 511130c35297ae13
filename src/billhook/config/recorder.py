"""The observer that writes the event log: the record of a verdict, its session, and what the agent can't be told."""

import functools
import time
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec
from msgspec.structs import replace

from billhook.agents import DIALECTS, dialect_of
from billhook.agents.child import Dialect, ExitResult
from billhook.builtins.trackers import EVENT_LOGGER, turn_of
from billhook.config.declaration import BUILTINS
from billhook.core import strictjson, tools
from billhook.core.answers import NOTHING, UNSET, Answer, Decision, Outcome, SkipReason, Status, Verdict
from billhook.core.errors import BillhookError, UnrecordedError
from billhook.core.events import EVENTS, JSON_FIELDS, Event
from billhook.core.hook import Context, Hook, SessionInfo
from billhook.core.lazy import lazy_module
from billhook.store.files import StoreError
from billhook.store.state import FileState

if TYPE_CHECKING:
    from billhook.config.config import Config, ConfigSnapshot
    from billhook.store import sessions as stored
    from billhook.store.log.eventlog import EventLog
    from billhook.store.redaction import Redactor
else:
    stored = lazy_module("billhook.store.sessions")


class FoldedAnswer(msgspec.Struct, frozen=True):
    """A verdict as one answer, and the same in an agent's format."""

    answer: Answer
    written: ExitResult


def encoded(verdict: Verdict, dialect: Dialect) -> FoldedAnswer:
    """The verdict for an agent: encoded once, for its record and for the agent."""
    known: tuple[Dialect, FoldedAnswer] | None = verdict.__dict__.get("encoded")
    if known is None or known[0] is not dialect:
        answer = verdict.as_answer(dialect.meanings.join)
        written = dialect.write_exit(verdict.about, answer)
        told = verdict.how_to_allow if answer.decision is Decision.ASK and written.lost else ""
        if answer.decision is Decision.DENY:
            told = verdict.how_to_allow_once
        if told and dialect.read_exit(verdict.about, written.exit).answer.objects:  # an ask that became a deny
            ended = "" if answer.reason.endswith((".", "!", "?")) else "."
            answer = replace(answer, reason=f"{answer.reason}{ended} {told}")
            written = dialect.write_exit(verdict.about, answer)
        known = dialect, FoldedAnswer(answer, written)
        verdict.__dict__["encoded"] = known
    return known[1]


def _note_lost(verdict: Verdict, outcomes: list[dict[str, Any]], host: str) -> tuple[str, ...]:
    """The parts of a verdict that don't reach the agent, or not now. They are also added to the outcomes of their
    hooks. Empty if the host has no dialect."""
    name = dialect_of(host).removeprefix("http:")
    if name not in DIALECTS:
        return ()
    dialect = DIALECTS[name]
    lost = _losses(name, lambda: encoded(verdict, dialect).written)
    for outcome, data in zip(verdict.outcomes, outcomes, strict=True) if lost else ():
        answer = outcome.answer
        if answer is not NOTHING:
            alone = replace(answer, data=None, background=False)
            own = _losses(name, functools.partial(dialect.write_exit, verdict.about, alone))
            if of_all := [one for one in own if one in lost]:
                data["lost"] = [*data.get("lost", ()), *of_all]
    return lost


def _losses(name: str, write: Callable[[], ExitResult]) -> tuple[str, ...]:
    try:
        written = write()
    except Exception as error:  # a Python hook may return anything; the error is reported with the answer
        return (f"it can't be encoded for `{name}`: {type(error).__name__}: {error}",)
    held = ("context is held for a later event",) if written.held else ()
    return tuple(f"the `{name}` dialect can't express everything: {one}" for one in (*written.lost, *held))


# The session of an event:


class SessionLookup(msgspec.Struct, frozen=True):
    """Looks up the session of an event."""

    state: FileState
    project: str
    names: bool  # whether sessions have names
    turns: bool  # whether turns are tracked

    def __call__(self, event: Event) -> "LazySession":
        return LazySession(self, event.session_id)


class LazySession:
    """One session, looked up on first use. Never raises: if state can't be read, the built-ins report it."""

    def __init__(self, knowing: SessionLookup, session_id: str) -> None:
        self.knowing, self.session_id = knowing, session_id
        self._known: dict[Callable[[], str], str] = {}

    @property
    def effects(self) -> frozenset[str] | None:
        """The effects of earlier calls of the session; None if the event has no session. Raises StoreError: a gate that
        depends on it must not confuse "not readable" with "not seen"."""
        from billhook.builtins.session_notes import seen_in

        return seen_in(self.knowing.state, self.session_id) if self.session_id else None

    @property
    def session_name(self) -> str:
        """Its name. A session without a name, because its start was not seen, gets its name here."""
        return self._once(self._find_name) if self.knowing.names and self.session_id else ""

    @property
    def turn_id(self) -> str:
        """Its current turn."""
        return self._once(self._find_turn) if self.knowing.turns and self.session_id else ""

    def _once(self, find: Callable[[], str]) -> str:
        if find not in self._known:
            try:
                self._known[find] = find()
            except StoreError:
                self._known[find] = ""
        return self._known[find]

    def _find_name(self) -> str:
        state, session_id = self.knowing.state, self.session_id
        found = state.value("sessions", session_id, stored.recorded)
        return (found or stored.Sessions(state).named(session_id, self.knowing.project)[0]).name

    def _find_turn(self) -> str:
        return turn_of(self.knowing.state, self.session_id)[0]


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
_CALLER_FIELDS: Final = ("transcript_path", "permission_mode", "agent_id", "agent_type")
"""Fields of every event that a record has under the same name, if they are not empty."""
_ABOUT_ALL: Final = frozenset(
    {"hook_event_name", "session_id", "cwd", "tool_name", "tool_input", "tool_response"}
    | {"tool_use_id", "tool_result_is_error", "tool_output", *_CALLER_FIELDS}
)
"""Fields of an event that have a separate field in a record, or none."""
_PLACED: Final = {
    name: _ABOUT_ALL.difference(set(kind.__annotations__) & {*_CALLER_FIELDS}) for name, kind in EVENTS.items()
}
"""The same by event, without the fields that the event itself declares: SubagentStart is about that agent."""
_OK, _NONE = Status.OK, Decision.NONE
_MOST_EVENTS: Final = 256  # limit of cached event names, which come from outside


class LogRecorder:
    """The event log of one loaded configuration. Everything is opened at the first record."""

    def __init__(self, config: "Config", options: Mapping[str, Any], know: Callable[[Event], SessionInfo]) -> None:
        self.config, self.options, self.know = config, options, know
        self._considered: dict[str, dict[str, SkipReason]] = {}

    def observer(self, host: str, own: Sequence[Hook] = ()) -> Callable[[Verdict], None]:
        """Writes the verdicts of an engine for this host; `own` are the caller's hooks. Raises UnrecordedError."""

        def record(verdict: Verdict) -> None:
            lost = "it was not recorded"
            try:
                self._log.append(self.content(verdict, host, own))
                lost = "its configuration was not kept"
                if not self._snapshot.is_saved:
                    self._snapshot.save()
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
        """The problem with the redaction of secrets; empty if there is none."""
        found = None if self._redactor is None else self._redactor.problem
        return "" if found is None else f"{found.place}: {found.message}" if found.place else found.message

    # -- parts that are made once

    @cached_property
    def _log(self) -> "EventLog":
        from billhook.store.log.eventlog import open_log

        limits = {name: self.options[name] for name in ("max_bytes", "sync")}
        return open_log(Path(self.config.root), self.config.project, **limits)

    @cached_property
    def _redactor(self) -> "Redactor | None":
        if not self.options["redact"]:
            return None
        from billhook.store.redaction import redactor

        return redactor(Path(self.config.root), more_keys=self.options["redact_keys"])

    @cached_property
    def _snapshot(self) -> "ConfigSnapshot":
        from billhook.config.config import ConfigSnapshot

        return ConfigSnapshot(self.config, (lambda value: value) if self._redactor is None else self._redactor.value)

    # -- one record

    def content(self, verdict: Verdict, host: str, own: Sequence[Hook] = ()) -> dict[str, Any]:
        """The record of a verdict, with secrets redacted."""
        event = verdict.about
        session = Context(event, verdict.outcomes, {}, self.know)
        tool = _text_of(event, "tool_name") or ""
        canonical = tools.canonical(tool) if tool else None
        texts, quiet = self._texts(verdict, tool, canonical), _is_quiet(verdict)
        outcomes = [outcome_data(outcome, quiet) for outcome in verdict.outcomes]
        if not quiet:
            lost = _note_lost(verdict, outcomes, host) if verdict.has_content else ()
            texts |= {"lost": list(lost), "outcomes": outcomes} if lost else {"outcomes": outcomes}
        redacted = None if self._redactor is None else self._redactor.redacted(texts)
        texts = texts if redacted is None else redacted.value
        if quiet:  # they contain no text of hooks or users
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
            "tool_use_id": _text_of(event, "tool_use_id"),
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
            "not_asked": self._skipped_hooks(verdict, own, quiet=quiet),
        }

    def _texts(self, verdict: Verdict, tool: str, canonical: str | None) -> dict[str, Any]:
        """The fields with text of hooks or users, except for outcomes. Empty fields but `reason` are left out."""
        event, options = verdict.about, self.options
        texts: dict[str, Any] = {"reason": verdict.reason or verdict.stop_reason or None}
        texts |= {key: str(value) for key in _CALLER_FIELDS if (value := getattr(event, key))}
        known = event.was_read
        if options["include_input"]:
            given, fields = _input_and_fields(event, tool, canonical)
            if given is not None:
                texts["input"] = given if known else _writable(given)
            if fields:
                texts["fields"] = fields
        if options["include_output"] and (output := _output(event)) is not None:
            texts["output"] = output if known else _writable(output)
        if verdict.has_content:
            if options["include_input"] and verdict.tool_input is not None:
                texts["rewritten_input"] = _writable(verdict.tool_input)
            if options["include_output"] and verdict.tool_output is not UNSET and verdict.tool_output is not None:
                texts["rewritten_output"] = _writable(verdict.tool_output)
            texts |= {name: text for name in ("context", "messages") if (text := getattr(verdict, name))}
        return texts

    # -- hooks that did not run

    def _skipped_hooks(self, verdict: Verdict, own: Sequence[Hook], *, quiet: bool) -> dict[str, str]:
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
        found |= {hook.name: unmatched for hook in own if hook.name not in asked and hook.handles(verdict.event)}
        for name, outcome in asked.items():
            if outcome.status is Status.SKIPPED and outcome.source != "built-in":
                why = outcome.error if outcome.skipped is None else outcome.skipped.recorded
                untrusted = considered.get(name) is SkipReason.NOT_TRUSTED
                found[name] = SkipReason.NOT_TRUSTED if untrusted else why
        return found

    def _find_considered(self, event: str) -> dict[str, SkipReason]:
        """The hooks that are configured for an event, with the reason why each is skipped if it does not run."""
        from billhook.config.builtin_hooks import BUILTIN_EVENTS

        considered = {
            entry.shown: _BY_STATE.get(entry.state, SkipReason.NOT_MATCHED)
            for entry in self.config.entries
            if not entry.declared.switch and entry.declared.handles(event)
        }
        for name, events in BUILTIN_EVENTS.items():
            if self.config.builtins[name].enabled is False and (not events or event in events):
                considered[name] = SkipReason.DISABLED
        if len(self._considered) < _MOST_EVENTS:
            self._considered[event] = considered
        return considered


def _is_quiet(verdict: Verdict) -> bool:
    """Whether only built-ins ran and none objects: the usual case."""
    if verdict.has_content or verdict.reason:
        return False
    for outcome in verdict.outcomes:
        if outcome.source != "built-in" or outcome.hook not in BUILTINS or outcome.status is not _OK or outcome.lost:
            return False
        if outcome.waived is not None:
            return False
    return True


def outcome_data(outcome: Outcome, quiet: bool = False) -> dict[str, Any]:
    """An outcome for the log. Default values are left out, because most hooks return nothing."""
    answer, status, decision = outcome.answer, outcome.status, outcome.answer.decision
    data: dict[str, Any] = {
        "hook": outcome.hook,
        "source": outcome.source,
        "dialect": outcome.dialect,
        "status": "ok" if status is _OK else status.value,
        "decision": "none" if decision is _NONE else decision.value,
    }
    if not outcome.source:
        del data["source"]
    if outcome.skipped is not None:
        data["error"] = outcome.error
    elif not quiet and (status is not _OK or outcome.exit_code or outcome.lost or answer.has_content):
        data |= {key: value for key, read in _UNUSUAL.items() if (value := read(outcome))}
    if took := _to_the_microsecond(outcome.duration_ms):
        data["duration_ms"] = took
    if outcome.waived is not None:
        data["waived"] = msgspec.to_builtins(outcome.waived)
    if outcome.code:
        data["code"] = outcome.code
    if outcome.output_bytes is not None:
        data["output_bytes"] = outcome.output_bytes
    if answer.data is not None:
        data["data"] = answer.data if outcome.source == "built-in" else _writable(answer.data)
    return data


_UNUSUAL: Final[dict[str, Callable[[Outcome], Any]]] = {
    "reason": lambda outcome: outcome.answer.reason or outcome.answer.stop_reason,
    **{name: attrgetter(name) for name in ("exit_code", "signal", "failed_open", "error", "lost")},
    **{name: attrgetter(f"answer.{name}") for name in ("stop", "keep_going", "context", "message")},
    "rewrote_input": lambda outcome: outcome.answer.updated_input is not None,
    "rewrote_output": lambda outcome: outcome.answer.updated_output is not UNSET,
}


def _to_the_microsecond(ms: float) -> float:
    """As `round`, but ten times faster: each record has many numbers."""
    return int(ms * 1000 + 0.5) / 1000


def _writable(value: Any) -> Any:
    """The value, or a note if it can't be written as JSON. A Python hook may return anything: a cycle, or an object
    whose `repr` raises."""
    try:
        strictjson.encode(value)
    except Exception:
        return f"[not recorded: this {type(value).__name__} can't be written as JSON]"
    return value


def _text_of(event: Event, field: str) -> str | None:
    found = getattr(event, field, None) or event.payload.get(field)
    return found if isinstance(found, str) else None


def _input_and_fields(event: Event, tool: str, canonical: str | None) -> tuple[Any, dict[str, Any]]:
    """The tool's input, and the event's other fields without its output; for other events, their fields as input."""
    payload, placed = event.payload, _PLACED.get(event.hook_event_name, _ABOUT_ALL)
    rest = {} if payload.keys() <= placed else {key: value for key, value in payload.items() if key not in placed}
    if not hasattr(event, "tool_input") and "tool_input" not in payload:
        return rest or None, {}
    given = event.tool_input if hasattr(event, "tool_input") else payload["tool_input"]
    if tool and canonical != tool:
        rest["tool_name"] = tool
    if event.hook_event_name == "PostToolUseFailure":
        rest.pop("error", None)  # it is the output
    for field in JSON_FIELDS:  # `input` and `output` don't show null
        if getattr(event, field, "") is None:
            rest[field] = None
    return given, {key: _writable(value) for key, value in rest.items()}


def _output(event: Event) -> Any:
    return getattr(event, "error" if event.hook_event_name == "PostToolUseFailure" else "tool_response", None)


def _utc(nanoseconds: int) -> str:
    seconds, rest = divmod(nanoseconds, 1_000_000_000)
    return f"{_to_the_second(seconds)}.{rest // 1000:06d}Z"


@functools.lru_cache(maxsize=1)
def _to_the_second(seconds: int) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds))

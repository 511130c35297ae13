"""The built-ins that observe: turn-tracker, session-naming, event-logger and metrics.

A turn is the time between two Stop events. Turn 5 of session `abc` is `abc:5`; what its second subagent did is
`abc:5:s:2`. The count is in `turns/{session id}.json`, so it continues in the next process. Later hooks read it with
`ctx.find("turn-tracker").data["turnId"]`. Without a session id there are no turns to count.
"""

from collections.abc import Callable
from typing import Annotated, Final

import msgspec

from billhook.core.answers import NOTHING, Answer
from billhook.core.hook import Context, Hook, Source
from billhook.store.files import StoreError
from billhook.store.sessions import Sessions
from billhook.store.state import FileState, Value

TURN_TRACKER: Final = "turn-tracker"
EVENTS: Final = (
    "SessionStart", "UserPromptSubmit", "PreToolUse", "PostToolUse", "SubagentStop", "Stop", "SessionEnd",
)  # fmt: skip


def turn_tracker(state: FileState, *, preserve_on_resume: bool = True, inject_context: bool = False) -> Hook:
    """The built-in that counts turns. `preserve_on_resume`: a resumed session continues its count. `inject_context`:
    the model is told the turn at the start of the session and with each prompt."""
    return Hook(
        name=TURN_TRACKER,
        title="counts the turns of a session",
        run=TurnTracker(state, preserve_on_resume, inject_context),
        events=EVENTS,
        priority=5,
        dialect="spec",
        source=Source(layer="built-in"),
    )


def turn_of(state: FileState, session_id: str) -> tuple[str, int]:
    """The id and the number of the turn that a session is in. Only reads. Raises StoreError."""
    return state.value("turns", session_id, _place_of)


class TurnState(msgspec.Struct, frozen=True):
    """The current turn of a session, and how many subagents ended in it."""

    sequence: Annotated[int, msgspec.Meta(ge=1)] = 1
    subagents: Annotated[int, msgspec.Meta(ge=0)] = msgspec.field(default=0, name="subagentSeq")

    def id_in(self, session_id: str) -> str:
        return f"{session_id}:{self.sequence}"


class TurnTracker(msgspec.Struct, frozen=True):
    """What the built-in does. It fails if the state can't be read or written; the event continues."""

    state: FileState
    preserve_on_resume: bool
    inject_context: bool

    def __call__(self, ctx: Context) -> Answer:
        if not ctx.session_id:
            return NOTHING
        match ctx.event_type:
            case "SessionStart":
                return self._start(ctx)
            case "Stop":
                return self._stop(ctx.session_id)
            case "SubagentStop":
                return self._subagent_stop(ctx.session_id)
            case "SessionEnd":
                turn_id, sequence = self._current(ctx.session_id)
                return Answer(data={"turnId": turn_id, "sequence": sequence, "totalTurns": sequence - 1})
            case _:
                return self._turn_answer(ctx, *self._current(ctx.session_id))

    def _current(self, session_id: str) -> tuple[str, int]:
        """The current turn of the session. A damaged record is replaced at once."""
        try:
            return turn_of(self.state, session_id)
        except StoreError:
            turn = self._changed(session_id, lambda turn: turn)
            return turn.id_in(session_id), turn.sequence

    def _start(self, ctx: Context) -> Answer:
        source = getattr(ctx.event, "source", "startup")
        anew = source in ("startup", "clear") or (source == "resume" and not self.preserve_on_resume)
        turn = self._changed(ctx.session_id, lambda turn: TurnState() if anew else turn)
        return self._turn_answer(ctx, turn.id_in(ctx.session_id), turn.sequence)

    def _stop(self, session_id: str) -> Answer:
        turn = self._changed(session_id, lambda turn: TurnState(turn.sequence + 1))
        turns = {
            "completedTurnId": TurnState(turn.sequence - 1).id_in(session_id),
            "nextTurnId": turn.id_in(session_id),
        }
        return Answer(data={**turns, "sequence": turn.sequence})

    def _subagent_stop(self, session_id: str) -> Answer:
        turn = self._changed(session_id, lambda turn: TurnState(turn.sequence, turn.subagents + 1))
        turn_id = turn.id_in(session_id)
        about = {"subagentTurnId": f"{turn_id}:s:{turn.subagents}", "turnId": turn_id}
        return Answer(data={**about, "subagentSeq": turn.subagents})

    def _turn_answer(self, ctx: Context, turn_id: str, sequence: int) -> Answer:
        tells = self.inject_context and ctx.event_type in ("SessionStart", "UserPromptSubmit")
        return Answer(data={"turnId": turn_id, "sequence": sequence}, context=f"Turn {turn_id}" if tells else "")

    def _changed(self, session_id: str, change: Callable[[TurnState], TurnState]) -> TurnState:

        def replaced(record: Value | None) -> Value:
            changed: Value = msgspec.to_builtins(change(_turn(record)))
            return changed

        return _turn(self.state.update("turns", session_id, replaced))


def _turn(record: Value | None) -> TurnState:
    """The turn in a record. A session without a record, or with an invalid one, is in its first turn."""
    if record is None:
        return TurnState()
    try:
        return msgspec.convert(record, TurnState)
    except msgspec.ValidationError:
        return TurnState()


def _place_of(record: Value | None, session_id: str) -> tuple[str, int]:
    turn = _turn(record)
    return turn.id_in(session_id), turn.sequence


# Gives each session a name that people can pronounce:


SESSION_NAMING: Final = "session-naming"


def session_naming(sessions: Sessions, project: str) -> Hook:
    """The built-in that names the sessions of a project."""
    return Hook(
        name=SESSION_NAMING,
        title="names the session",
        run=SessionNamer(sessions, project),
        events=("SessionStart",),
        priority=10,
        dialect="spec",
        source=Source(layer="built-in"),
    )


class SessionNamer(msgspec.Struct, frozen=True):
    """What the built-in does. It fails if the name can't be stored; the event continues."""

    sessions: Sessions
    project: str

    def __call__(self, ctx: Context) -> Answer:
        if not ctx.session_id:
            return NOTHING
        cleared = getattr(ctx.event, "source", "") == "clear"
        session, new = self.sessions.named(ctx.session_id, self.project, recover=cleared)
        source = session.source if new or session.source == "user" else "existing"
        return Answer(data={"sessionName": session.name, "isNew": new, "source": source})


# Gives every event the id of its record in the log.


EVENT_LOGGER: Final = "event-logger"


def event_logger() -> Hook:
    """The built-in: `ctx.find("event-logger").data["id"]` is the record's id for every later hook."""
    return Hook(
        name=EVENT_LOGGER,
        title="records every event in the log",
        run=lambda ctx: Answer(data={"id": ctx.id}),
        priority=50,
        dialect="spec",
        source=Source(layer="built-in"),
    )


# Tells later hooks what the latency budget is:


METRICS: Final = "metrics"
WARN_MS: Final = 1000.0  # the default latency budget, in milliseconds


def metrics(*, warn_ms: float | None = WARN_MS) -> Hook:
    """The built-in: tells later hooks the latency budget at every event. None: there is no budget."""
    return Hook(
        name=METRICS,
        title="times every hook",
        run=ContextBudget(warn_ms),
        priority=1,
        dialect="spec",
        source=Source(layer="built-in"),
    )


class ContextBudget(msgspec.Struct, frozen=True):
    """What the hook does: later hooks find `warnMs` in `ctx.find("metrics").data`."""

    warn_ms: float | None

    def __call__(self, ctx: Context) -> Answer:
        return Answer(data={"warnMs": self.warn_ms})
